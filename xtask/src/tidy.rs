//! House rules that no compiler checks. Each rule is a function from the source tree to the problems
//! it finds; rules see the tree as a map of texts, so that their tests need no files.

mod floors;
mod formats;
mod links;
mod marks;
mod models;
mod modules;
mod reliability;
mod sizes;
mod source;
pub(crate) mod tree;
mod unsafety;

use crate::cargo::{packages, root};
use crate::steps::Outcome;
use tree::Tree;

/// The step.
pub(crate) fn run() -> Outcome {
    let tree = match Tree::load(&root()) {
        Ok(tree) => tree,
        Err(why) => return Outcome::Failed(why),
    };
    let members = match packages(&["--no-deps"]) {
        Ok(members) => members,
        Err(why) => return Outcome::Failed(why),
    };
    let roots = modules::roots(&tree, &members);
    let mut problems = Vec::new();
    problems.extend(sizes::check(&tree, sizes::RATCHET));
    problems.extend(floors::check(&members));
    problems.extend(modules::check(&tree, &roots));
    problems.extend(links::check(&tree));
    problems.extend(marks::check(&tree));
    problems.extend(formats::check(&tree));
    problems.extend(models::check(&tree));
    problems.extend(reliability::check(&tree));
    problems.extend(unsafety::check(&tree));
    let (files, lines) =
        tree.sources().fold((0, 0), |(files, lines), (_, text)| (files + 1, lines + text.lines().count()));
    Outcome::of_problems(&problems, format!("{files} source files, {lines} lines"))
}
