//! What has models is modelled: loom runs only what the crate of models includes.

use super::source::code_of;
use super::tree::Tree;

/// The crate root that includes every modelled module.
const MODELS: &str = "tests/models/src/lib.rs";

/// Sources with models beside them that [`MODELS`] does not include.
pub(super) fn check(tree: &Tree) -> Vec<String> {
    let included = tree.text(MODELS).unwrap_or_default();
    tree.sources()
        .filter(|(path, text)| {
            code_of(text).contains("#[cfg(all(test, loom))]") && !included.contains(&format!("/{path}\""))
        })
        .map(|(path, _)| format!("{path}: has models, and {MODELS} does not include it"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_included() {
        let models = (MODELS, "#[path = \"../../../base/src/event_count/mod.rs\"]\nmod event_count;");
        let with = "#[cfg(all(test, loom))]\nmod models;";
        assert!(check(&Tree::of(&[models, ("base/src/event_count/mod.rs", with)])).is_empty());
        assert!(check(&Tree::of(&[models, ("wal/src/log.rs", "// #[cfg(all(test, loom))]")])).is_empty());
        assert_eq!(check(&Tree::of(&[models, ("wal/src/log.rs", with)])).len(), 1);
    }
}
