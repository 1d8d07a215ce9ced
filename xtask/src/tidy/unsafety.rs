//! `unsafe` stands in a few named modules; every other crate forbids it.

use super::source::{code_of, line_of, words};
use super::tree::Tree;

/// Where `unsafe` may stand (a file, or a directory with its `/`), and what for.
const ALLOWED: &[(&str, &str)] = &[
    ("vfs/src/os.rs", "mapped files"),
    ("vfs/src/os/", "mapped files, hints about memory, the pool of cached blocks in regions of huge pages"),
    ("tests/models/src/lib.rs", "includes the modules of the memtable and of the block pool to model them"),
    ("benches/peers/src/stores/lmdb.rs", "heed opens a mapped file on the caller's word"),
    ("engine/src/memtable/", "the arena and the index that readers walk without a lock"),
    ("engine/src/rows/lent.rs", "where the row lies on which a scan stands"),
];

/// `unsafe` outside [`ALLOWED`], and crates that could forbid it and do not.
pub(super) fn check(tree: &Tree) -> Vec<String> {
    let mut problems = Vec::new();
    for (path, text) in tree.sources() {
        let code = code_of(text);
        let allowed = ALLOWED
            .iter()
            .any(|(place, _)| *place == path || (place.ends_with('/') && path.starts_with(place)));
        if !allowed {
            let found = words(&code, "unsafe");
            problems.extend(
                found.map(|at| format!("{path}:{}: unsafe outside the named modules", line_of(&code, at))),
            );
        }
        let Some(crate_dir) =
            path.strip_suffix("/src/lib.rs").or_else(|| path.strip_suffix("/src/main.rs"))
        else {
            continue;
        };
        let may = ALLOWED.iter().any(|(place, _)| place.starts_with(&format!("{crate_dir}/")));
        if !may && !code.trim().is_empty() && !code.contains("#![forbid(unsafe_code)]") {
            problems.push(format!("{path}: #![forbid(unsafe_code)] is missing"));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_has_its_places() {
        let block = "#![forbid(unsafe_code)] fn f() { unsafe {} } // unsafe";
        assert_eq!(check(&Tree::of(&[("wal/src/lib.rs", block)])).len(), 1);
        assert!(check(&Tree::of(&[("engine/src/memtable/arena.rs", block)])).is_empty());
        assert!(check(&Tree::of(&[("engine/src/lib.rs", "mod memtable;")])).is_empty());
        assert_eq!(check(&Tree::of(&[("wal/src/lib.rs", "pub fn f() {}")])).len(), 1, "forbid is missing");
        assert!(check(&Tree::of(&[("wal/src/lib.rs", "//! Nothing yet.")])).is_empty());
    }
}
