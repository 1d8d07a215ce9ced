//! A floor imports only floors below it.

use crate::cargo::Package;

/// What each package may name as a dependency of any kind, development included: a test that needs a
/// higher floor belongs to `tests/`.
const FLOORS: &[(&str, &[&str])] = &[
    ("esker-base", &[]),
    ("esker-vfs", &["esker-base"]),
    // The log and the tables lie side by side and do not know each other.
    ("esker-wal", &["esker-base", "esker-vfs"]),
    ("esker-sstable", &["esker-base", "esker-vfs"]),
    ("esker-manifest", &["esker-base", "esker-vfs", "esker-wal", "esker-sstable"]),
    ("esker-compaction", &["esker-base", "esker-vfs", "esker-sstable", "esker-manifest"]),
    (
        "esker",
        &["esker-base", "esker-vfs", "esker-wal", "esker-sstable", "esker-manifest", "esker-compaction"],
    ),
    // Above the engine, its public face is all there is.
    ("esker-layouts-derive", &[]),
    ("esker-layouts", &["esker", "esker-layouts-derive"]),
    // The micro-benchmarks time the leaves themselves.
    ("esker-bench", &["esker-base", "esker-vfs", "esker-wal", "esker", "esker-layouts"]),
    ("esker-cli", &["esker", "esker-layouts", "esker-bench"]),
    // Beside the house: the suites reach every floor, the checks reach none.
    (
        "esker-tests",
        &[
            "esker-base",
            "esker-vfs",
            "esker-wal",
            "esker-sstable",
            "esker-manifest",
            "esker-compaction",
            "esker",
            "esker-layouts",
            "esker-bench",
        ],
    ),
    ("xtask", &[]),
];

/// Upward and sideways imports, and packages without a floor.
pub(super) fn check(members: &[Package]) -> Vec<String> {
    let mut problems = Vec::new();
    for package in members {
        let name = &package.name;
        let Some((_, allowed)) = FLOORS.iter().find(|(floor, _)| floor == name) else {
            problems.push(format!("{name}: has no floor in xtask/src/tidy/floors.rs"));
            continue;
        };
        let ours = |other: &&String| FLOORS.iter().any(|(floor, _)| floor == *other);
        for other in package.dependencies.iter().filter(ours) {
            if !allowed.contains(&other.as_str()) {
                problems.push(format!("{name}: imports {other}, which is not a floor below it"));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, dependencies: &[&str]) -> Package {
        Package {
            name: name.to_owned(),
            version: "0.1.0".to_owned(),
            licence: "MIT".to_owned(),
            source: None,
            dir: std::path::PathBuf::new(),
            dependencies: dependencies.iter().map(|&other| other.to_owned()).collect(),
            targets: Vec::new(),
            is_member: true,
        }
    }

    #[test]
    fn down_is_fine_up_and_sideways_are_not() {
        assert!(check(&[package("esker-manifest", &["esker-wal", "bytes"])]).is_empty());
        assert_eq!(check(&[package("esker-wal", &["esker-sstable"])]).len(), 1);
        assert_eq!(check(&[package("esker-layouts", &["esker", "esker-base"])]).len(), 1);
        assert_eq!(check(&[package("esker-new", &[])]).len(), 1);
    }

    #[test]
    fn the_table_itself_has_no_cycle() {
        for (name, allowed) in FLOORS {
            for below in *allowed {
                let (_, further) = FLOORS.iter().find(|(floor, _)| floor == below).expect("a floor");
                assert!(!further.contains(name), "{name} and {below} import each other");
            }
        }
    }
}
