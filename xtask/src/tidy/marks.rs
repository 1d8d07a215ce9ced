//! Marks of unfinished work, and traces of one machine, do not stay in the tree.

use super::source::{code_of, line_of, words};
use super::tree::Tree;

/// Macros that say "later", as they stand in code.
const MACROS: &[&str] = &["todo", "unimplemented", "dbg"];
/// Words that say it in any text. Spelled in halves so that this file may name them.
const WORDS: &[&str] = &[concat!("FIX", "ME"), concat!("TO", "DO"), concat!("XX", "X")];
/// Directories that exist on no reader's machine.
const PATHS: &[&str] = &[concat!("/wo", "rk/"), concat!("/ro", "ot/")];

/// Marks in code and text, each with its line.
pub(super) fn check(tree: &Tree) -> Vec<String> {
    let mut problems = Vec::new();
    for (path, text) in tree.texts() {
        let mut report = |text: &str, at: usize, what: &str| {
            problems.push(format!("{path}:{}: {what}", line_of(text, at)));
        };
        for word in WORDS {
            words(text, word).for_each(|at| report(text, at, &format!("{word} marks unfinished work")));
        }
        for dir in PATHS {
            let outside = text.match_indices(dir).filter(|(at, _)| !text[..*at].ends_with(is_path));
            outside.for_each(|(at, _)| report(text, at, &format!("{dir} is one machine's directory")));
        }
    }
    for (path, text) in tree.sources() {
        let code = code_of(text);
        for name in MACROS {
            let calls = words(&code, name).filter(|at| code[at + name.len()..].starts_with('!'));
            problems.extend(
                calls.map(|at| format!("{path}:{}: {name}! marks unfinished work", line_of(&code, at))),
            );
        }
        let silent = code.match_indices(concat!("#[", "ignore]"));
        problems.extend(
            silent.map(|(at, _)| format!("{path}:{}: a test is off without a reason", line_of(&code, at))),
        );
    }
    problems
}

/// Whether `c` before a `/` makes it a path's middle, not its beginning.
fn is_path(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '.' | '_' | '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_found_where_they_count() {
        let todo = concat!("TO", "DO");
        let text = format!("// {todo}: later\nfn f() {{ todo!(); }} // todo!()\n#[ignore]\nfn g() {{}}\n");
        let found = check(&Tree::of(&[("a/src/lib.rs", &text)]));
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with("a/src/lib.rs:1:"), "{found:?}");
    }

    #[test]
    fn only_whole_paths_are_a_machines() {
        let path = concat!("/wo", "rk/");
        assert_eq!(check(&Tree::of(&[("a.md", &format!("see {path}x"))])).len(), 1);
        assert!(check(&Tree::of(&[("a.md", &format!("see docs{path}x"))])).is_empty());
    }
}
