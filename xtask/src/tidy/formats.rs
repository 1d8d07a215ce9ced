//! Every crate that owns bytes on disk says which, in a `FORMAT.md` that its documentation includes:
//! one copy, and golden tests decode its examples.

use super::source::code_of;
use super::tree::Tree;

/// The crates that own bytes.
const OWNERS: &[&str] = &["wal", "sstable", "manifest", "layouts"];

/// Owners with code and without an included `FORMAT.md`.
pub(super) fn check(tree: &Tree) -> Vec<String> {
    let mut problems = Vec::new();
    for owner in OWNERS {
        let source = format!("{owner}/src/");
        let sources = tree.sources().filter(|(path, _)| path.starts_with(&source));
        let sources: Vec<&str> = sources.map(|(_, text)| text).collect();
        let has_code = sources.iter().any(|text| !code_of(text).trim().is_empty());
        if !has_code {
            continue;
        }
        if tree.text(&format!("{owner}/FORMAT.md")).is_none_or(str::is_empty) {
            problems.push(format!("{owner}: owns bytes on disk and has no FORMAT.md"));
        } else if !sources.iter().any(|text| text.contains("include_str!(\"../FORMAT.md\")")) {
            problems.push(format!("{owner}: its documentation does not include FORMAT.md"));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_with_code_explain_their_bytes() {
        assert!(check(&Tree::of(&[("wal/src/lib.rs", "//! Nothing yet.\n")])).is_empty());
        assert_eq!(check(&Tree::of(&[("wal/src/lib.rs", "pub fn f() {}")])).len(), 1);
        assert_eq!(
            check(&Tree::of(&[("wal/src/lib.rs", "pub fn f() {}"), ("wal/FORMAT.md", "x")])).len(),
            1
        );
        let included = "#![doc = include_str!(\"../FORMAT.md\")]\npub fn f() {}";
        assert!(check(&Tree::of(&[("wal/src/lib.rs", included), ("wal/FORMAT.md", "x")])).is_empty());
    }
}
