//! What cannot be done: the message names what and where, the exit code is its own, and nothing is
//! left half made.

use std::path::Path;

use super::{Sandbox, esker};

fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

#[test]
fn no_action_but_create_keyspace_makes_a_database() {
    let sandbox = Sandbox::new();
    let new = sandbox.dir.path().join("new");
    let actions: [&[&str]; 11] = [
        &["get", "a"],
        &["put", "a", "b"],
        &["put", "a", "b", "--create"],
        &["delete", "a"],
        &["scan"],
        &["stats"],
        &["verify"],
        &["compact"],
        &["checkpoint", "--into", new.to_str().expect("text")],
        &["keyspaces"],
        &["drop-keyspace", "default"],
    ];
    for action in actions {
        sandbox.db(action).failed(1, &["not an esker database", "create-keyspace"]);
        assert!(!is_there(&sandbox.path()) && !is_there(&new), "{action:?} made a directory");
    }
    // An empty directory, and one with somebody's letters, stay as they are.
    std::fs::create_dir(sandbox.path()).expect("it is ours");
    for action in actions {
        sandbox.db(action).failed(1, &["not an esker database"]);
        assert!(sandbox.files().is_empty(), "{action:?} made a file");
    }
    std::fs::write(sandbox.path().join("letter"), "dear").expect("it is ours");
    for action in actions.into_iter().chain([&["create-keyspace", "default"][..]]) {
        sandbox.db(action).failed(1, &["db"]);
        assert_eq!(sandbox.files().len(), 1, "{action:?} made a file");
    }
}

#[test]
fn options_out_of_range_make_no_database() {
    let sandbox = Sandbox::new();
    for (option, number) in [
        ("--blob-bytes-min", "5"),
        ("--blob-bytes-min", "1073741825"),
        ("--block-bytes", "255"),
        ("--filter-bits", "33"),
        ("--merge-operator", "sum"),
    ] {
        sandbox.db(&["create-keyspace", "default", option, number]).failed(2, &[option, number]);
        assert!(!is_there(&sandbox.path()), "{option} {number} made a directory");
    }
    for bytes in ["0", "16", "1073741824"] {
        sandbox.db(&["create-keyspace", bytes, "--blob-bytes-min", bytes]).done();
    }
}

#[test]
fn a_file_is_no_database() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path(), "text").expect("it is ours");
    sandbox.db(&["get", "a"]).failed(1, &["not an esker database"]);
    sandbox.db(&["create-keyspace", "a"]).failed(1, &["db"]);
    assert_eq!(std::fs::read(sandbox.path()).expect("it is there"), b"text");
}

#[test]
fn mistakes_on_the_command_line_change_nothing() {
    let sandbox = Sandbox::with(&[("a", "1")]);
    let before = sandbox.files();
    let long = "k".repeat(65_536);
    let long_name = "n".repeat(256);
    let refused: &[(&[&str], &str)] = &[
        (&["get", &long], "65536 bytes"),
        (&["put", &long, "v"], "65535 bytes"),
        (&["put", "--create", "--keyspace", &long_name, "k", "v"], "keyspace name"),
        (&["create-keyspace", &long_name], "keyspace name"),
        (&["create-keyspace", ""], "must not be empty"),
        (&["create-keyspace", "k", "--block-bytes", "255"], "256..=1048576"),
        (&["create-keyspace", "k", "--filter-bits", "33"], "0..=32"),
        (&["create-keyspace", "k", "--merge-operator", "sum"], "add-i64"),
        (&["put", r"\q", "v"], "at character 1"),
        (&["put", "k", r"\q", "--create"], "at character 1"),
        (&["put", "abc", "v", "--key-format", "hex"], "second digit"),
        (&["put", "(1", "v", "--key-format", "tuple"], "at character"),
        (&["scan", "--value-format", "raw"], "--keys-only"),
        (&["scan", "--prefix", "a", "--start", "b"], "--prefix"),
        (&["scan", "--limit", "ten"], "digits"),
        (&["fetch", "a"], "fetch"),
    ];
    for (arguments, part) in refused {
        sandbox.db(arguments).failed(2, &[part]);
        assert!(before == sandbox.files(), "{part}: it has changed the directory");
    }
    sandbox.db(&["put", "k", "@nowhere/at/all"]).failed(1, &["nowhere/at/all", "\\x40"]);
    assert!(before == sandbox.files(), "a missing file has changed the directory");
}

#[test]
fn an_absent_keyspace_is_named_and_not_made() {
    let sandbox = Sandbox::with(&[]);
    for action in [&["get", "a"][..], &["put", "a", "b"], &["delete", "a"], &["scan"], &["compact"]] {
        let action = [action, &["--keyspace", "typo"]].concat();
        sandbox.db(&action).failed(3, &["\"typo\"", "keyspaces"]);
    }
    assert_eq!(sandbox.db(&["keyspaces"]).done(), "default\n");
}

#[test]
fn a_database_that_is_open_elsewhere_is_locked() {
    let sandbox = Sandbox::with(&[("a", "1")]);
    let holder = esker::Database::open(sandbox.path()).expect("it opens");
    let actions: [&[&str]; 5] =
        [&["get", "a"], &["put", "a", "2"], &["verify"], &["stats"], &["create-keyspace", "b"]];
    for action in actions {
        sandbox.db(action).failed(5, &["is locked", "db"]);
    }
    let rows = holder.existing_keyspace("default").expect("it is there").iter().count();
    assert_eq!(rows, 1, "the holder goes on");
    holder.close().expect("a clean close");
    assert_eq!(sandbox.db(&["get", "a"]).done(), "1\n");
}

#[test]
fn help_and_mistakes_are_told_apart() {
    let help = esker(&["--help"]);
    assert_eq!(help.code, 0);
    for part in ["lab", "db", "workload", "inspect", "Exit codes:"] {
        assert!(help.out.contains(part), "{part:?} is not in {}", help.out);
    }
    let version = esker(&["--version"]).done();
    assert_eq!(version.trim_end(), concat!("esker ", env!("CARGO_PKG_VERSION")));
    esker(&["frobnicate"]).failed(2, &["frobnicate"]);
    esker(&["db"]).failed(2, &["DIR"]);
}
