use super::{duplicates, licence_allowed, problems};
use crate::cargo::Package;

fn package(name: &str, version: &str) -> Package {
    Package {
        name: name.to_owned(),
        version: version.to_owned(),
        licence: "MIT".to_owned(),
        source: Some(super::REGISTRY.to_owned()),
        dir: std::path::PathBuf::new(),
        dependencies: Vec::new(),
        targets: Vec::new(),
        is_member: false,
    }
}

#[test]
fn licence_expressions() {
    for met in [
        "MIT",
        "MIT OR GPL-3.0",
        "GPL-3.0/Apache-2.0",
        "(MIT OR Apache-2.0) AND Unicode-3.0",
        "Apache-2.0 WITH LLVM-exception OR GPL-2.0",
        "GPL-2.0 AND MIT OR ISC",
    ] {
        assert!(licence_allowed(met), "{met}");
    }
    for unmet in ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT", "MIT MIT", "Apache-2.0 WITH GCC-exception"] {
        assert!(!licence_allowed(unmet), "{unmet}");
    }
}

#[test]
fn a_second_version_counts() {
    let all = [package("a", "1.0.0"), package("a", "2.0.0"), package("b", "1.0.0")];
    assert_eq!(duplicates(&all, &[]), ["a: 2 versions (1.0.0, 2.0.0), at most 1"]);
    assert!(duplicates(&all, &[("a", 2)]).is_empty());
    assert_eq!(duplicates(&all, &[("a", 2), ("b", 2)]).len(), 1, "the ratchet falls with the count");
}

#[test]
fn foreign_sources_and_bans_count() {
    let mut elsewhere = package("a", "1.0.0");
    elsewhere.source = Some("git+https://example.org/a".to_owned());
    let found = problems(&[elsewhere, package("tokio", "1.0.0")]);
    assert_eq!(found.len(), 2, "{found:?}");
}
