//! Relative links in Markdown lead somewhere, and the book's chapters are all in its summary.

use super::tree::{Tree, join, parent};

/// The book's table of contents.
const SUMMARY: &str = "docs/src/SUMMARY.md";

/// Broken links and chapters nobody finds.
pub(super) fn check(tree: &Tree) -> Vec<String> {
    let mut problems = Vec::new();
    for (path, text) in tree.documents() {
        for (line, target) in targets(text) {
            if let Some(file) = relative(target) {
                let found =
                    join(parent(path), file).is_some_and(|file| file.is_empty() || tree.contains(&file));
                if !found {
                    problems.push(format!("{path}:{line}: the link to {target} leads nowhere"));
                }
            }
        }
    }
    if let Some(summary) = tree.text(SUMMARY) {
        let chapters: Vec<&str> = targets(summary).into_iter().map(|(_, target)| target).collect();
        for (path, _) in tree.documents() {
            let Some(chapter) = path.strip_prefix("docs/src/") else { continue };
            if path != SUMMARY && !chapters.iter().any(|target| target.trim_start_matches("./") == chapter)
            {
                problems.push(format!("{path}: {SUMMARY} does not list it"));
            }
        }
    }
    problems
}

/// The targets of all links outside code, with their line.
fn targets(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        // Every second piece between backticks is code.
        for piece in line.split('`').step_by(2) {
            let inline = piece.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
            found.extend(inline.map(|(target, _)| (number + 1, target)));
        }
        if let Some((label, target)) = line.split_once("]: ")
            && label.starts_with('[')
        {
            found.push((number + 1, target.trim()));
        }
    }
    found
}

/// The file a target names, if it is one of this repository: no address, no anchor of the same page,
/// no item of the documentation that rustdoc resolves and checks itself.
fn relative(target: &str) -> Option<&str> {
    let target = target.split_whitespace().next()?.trim_matches(['<', '>']);
    let file = target.split('#').next().filter(|file| !file.is_empty())?;
    let foreign =
        file.contains("://") || file.starts_with("mailto:") || file.contains("::") || file.starts_with('/');
    (!foreign).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_followed() {
        let tree = Tree::of(&[
            (
                "README.md",
                "[a](docs/a.md#part) [`b`](b/) [c](https://c) [d](#d) `[e](e.md)`\n```\n[f](f.md)\n```\n[g](gone.md)\n[h]: gone.md\n",
            ),
            ("docs/a.md", "[up](../README.md) [out](../../x.md)"),
            ("b/c.rs", ""),
        ]);
        let found = check(&tree);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with("README.md:5:"), "{found:?}");
    }

    #[test]
    fn chapters_are_listed() {
        let tree = Tree::of(&[
            ("docs/src/SUMMARY.md", "- [One](one.md)"),
            ("docs/src/one.md", ""),
            ("docs/src/two.md", ""),
        ]);
        assert_eq!(check(&tree), ["docs/src/two.md: docs/src/SUMMARY.md does not list it"]);
    }
}
