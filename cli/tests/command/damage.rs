//! Damaged files: found, placed, told by exit code 4; and `esker inspect`, which shows them.

use std::path::Path;

use super::{Ran, Sandbox, esker, json};

fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).expect("it is there");
    bytes[at] ^= 0x10;
    std::fs::write(path, bytes).expect("it is ours");
}

fn inspect(path: &Path, more: &[&str]) -> Ran {
    let mut arguments = vec!["inspect".as_ref(), path.as_os_str()];
    arguments.extend(more.iter().map(std::ffi::OsStr::new));
    esker(&arguments)
}

#[test]
fn a_flipped_byte_in_a_table_is_found() {
    let sandbox = Sandbox::with(&[("olya", "likes skiing")]);
    let table = sandbox.named("sst").pop().expect("a table");
    flip(&table, 10);
    let name = table.file_name().and_then(|name| name.to_str()).expect("a name");
    sandbox.db(&["verify"]).failed(4, &[name, "damaged at byte 0", "esker inspect"]);
    sandbox.db(&["get", "olya"]).failed(4, &[name, "damaged at byte 0"]);
    sandbox.db(&["scan"]).failed(4, &[name]);
    let report = sandbox.db(&["verify", "--json"]);
    report.failed(4, &[name]);
    let report = json(&report.out);
    assert_eq!((&report["ok"], &report["offset"]), (&false.into(), &0.into()));
    assert!(report["file"].as_str().is_some_and(|file| file.ends_with(name)), "{report}");

    let shown = inspect(&table, &[]);
    shown.failed(4, &[name, "1 bad field"]);
    assert!(shown.out.contains("1 bad") && shown.out.contains("footer"), "{}", shown.out);
    // The header line, the bad field, the sum.
    assert_eq!(inspect(&table, &["--bad"]).out.lines().count(), 3);
}

#[test]
fn a_missing_table_is_damage_too() {
    let sandbox = Sandbox::with(&[("olya", "x")]);
    let table = sandbox.named("sst").pop().expect("a table");
    std::fs::remove_file(&table).expect("it is ours");
    let name = table.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
    sandbox.db(&["get", "olya"]).failed(4, &[&name, "missing"]);
}

#[test]
fn damage_in_current_and_manifest_is_found() {
    for name in ["CURRENT", "manifest"] {
        let sandbox = Sandbox::with(&[("olya", "x")]);
        let path = match name {
            "CURRENT" => sandbox.path().join("CURRENT"),
            _ => sandbox.named("manifest").pop().expect("a manifest"),
        };
        flip(&path, 40);
        sandbox.db(&["keyspaces"]).failed(4, &[name, "damaged"]);
        inspect(&path, &[]).failed(4, &[name]);
    }
}

#[test]
fn a_newer_format_is_no_damage() {
    let sandbox = Sandbox::with(&[("olya", "x")]);
    let path = sandbox.path().join("CURRENT");
    let text = std::fs::read_to_string(&path).expect("it is text");
    std::fs::write(&path, text.replacen("format 1", "format 9", 1)).expect("it is ours");
    let before = sandbox.files();
    for action in [&["get", "olya"][..], &["put", "olya", "y"], &["create-keyspace", "b"]] {
        sandbox.db(action).failed(1, &["CURRENT", "version 9", "newer version"]);
        assert!(before == sandbox.files(), "it has changed the directory");
    }
    let shown = inspect(&path, &["--bad"]);
    shown.failed(1, &["CURRENT", "newer"]);
    // The header line, the lines, the sum.
    assert_eq!(shown.out.matches("newer").count(), 5, "{}", shown.out);
}

#[test]
fn what_must_not_be_empty_is_damaged_if_it_is() {
    let sandbox = Sandbox::with(&[("olya", "x")]);
    for name in ["CURRENT", "000001.manifest", "000001.sst", "000001.blob"] {
        let path = sandbox.dir.path().join(name);
        std::fs::write(&path, "").expect("it is ours");
        let shown = inspect(&path, &[]);
        shown.failed(4, &[name, "1 bad field"]);
        assert!(shown.out.contains("bad"), "{}", shown.out);
    }
    let path = sandbox.dir.path().join("000001.log");
    std::fs::write(&path, "").expect("it is ours");
    let shown = inspect(&path, &[]).done();
    assert!(shown.ends_with("it is empty\n"), "a log may be: {shown}");
}

#[test]
fn whole_files_inspect_without_fault() {
    let sandbox = Sandbox::with(&[("olya", "x"), ("petya", "y")]);
    for (path, part) in [
        (sandbox.named("sst").remove(0), "table:"),
        (sandbox.named("log").remove(0), "write-ahead log:"),
        (sandbox.named("manifest").remove(0), "manifest:"),
        (sandbox.path().join("CURRENT"), "CURRENT:"),
    ] {
        let shown = inspect(&path, &[]).done();
        let last = shown.lines().last().expect("a sum");
        assert!(last.starts_with(part) && last.ends_with("every checksum holds"), "{last}");
        for line in inspect(&path, &["--json"]).done().lines() {
            assert_eq!(json(line)["verdict"], "ok");
        }
    }
    let table = sandbox.named("sst").remove(0);
    let shown = inspect(&table, &[]).done();
    assert!(shown.contains("olya"), "keys are shown as text: {shown}");
    let misnamed = sandbox.dir.path().join("000001.log");
    std::fs::copy(&table, &misnamed).expect("a copy");
    let shown = inspect(&misnamed, &[]);
    assert_eq!(shown.code, 0);
    assert!(shown.err.contains("its content") && shown.out.contains("table:"), "{}", shown.err);
}

#[test]
fn what_is_none_of_a_databases_files_is_told() {
    let sandbox = Sandbox::new();
    let letter = sandbox.dir.path().join("letter");
    std::fs::write(&letter, "dear").expect("it is ours");
    inspect(&letter, &[]).failed(2, &["letter", "none of a database's files"]);
    inspect(&sandbox.dir.path().join("000001.log"), &[]).failed(1, &["000001.log"]);
    inspect(sandbox.dir.path(), &[]).failed(1, &["regular file"]);
}

#[test]
fn what_is_readable_is_salvaged_into_a_new_database() {
    let sandbox = Sandbox::with(&[("olya", "likes skiing"), ("petya", "x"), ("vasya", "y")]);
    let new = sandbox.dir.path().join("new");
    let into = new.to_str().expect("text");
    assert!(sandbox.db(&["salvage", "--into", into]).done().ends_with("0 gaps\n"));
    let scan =
        |dir: &Path| esker(&["db".as_ref(), dir.as_os_str(), "scan".as_ref(), "--keys-only".as_ref()]);
    assert_eq!(scan(&new).done(), "olya\npetya\nvasya\n");
    sandbox.db(&["salvage", "--into", into]).failed(2, &["exists"]);

    let table = sandbox.named("sst").remove(0);
    flip(&table, 10);
    let before = sandbox.files();
    let other = sandbox.dir.path().join("other");
    let other_text = other.to_str().expect("text");
    let salvaged = sandbox.db(&["salvage", "--into", other_text, "--json"]);
    assert_eq!(salvaged.code, 4, "{}", salvaged.err);
    let report = json(&salvaged.out);
    assert_eq!((&report["ok"], &report["rows"]["default"]), (&false.into(), &2.into()), "{report}");
    assert_eq!(
        (&report["losses"][0]["first_key"], &report["losses"][0]["keyspace"]),
        (&"olya".into(), &"default".into())
    );
    assert_eq!(scan(&other).done(), "petya\nvasya\n");
    assert!(before == sandbox.files(), "the source was touched");
}

#[test]
fn a_database_without_its_manifest_is_salvaged() {
    let sandbox = Sandbox::with(&[("olya", "x")]);
    std::fs::remove_file(sandbox.named("manifest").remove(0)).expect("it is ours");
    std::fs::remove_file(sandbox.path().join("CURRENT")).expect("it is ours");
    sandbox.db(&["get", "olya"]).failed(4, &["CURRENT"]);
    let new = sandbox.dir.path().join("new");
    let salvaged = sandbox.db(&["salvage", "--into", new.to_str().expect("text")]);
    assert_eq!(salvaged.code, 4, "{}", salvaged.err);
    assert!(salvaged.out.contains("keyspace \"keyspace-1\": 1 row"), "{}", salvaged.out);
}

#[test]
fn a_log_that_lost_its_end_is_a_gap_to_salvage() {
    let sandbox = Sandbox::with(&[("olya", "x")]);
    let log = sandbox.named("log").pop().expect("a log");
    let name = log.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
    std::fs::write(&log, "").expect("it is ours");
    sandbox.db(&["get", "olya"]).failed(4, &[&name, "damaged at byte 0"]);
    let new = sandbox.dir.path().join("new");
    let salvaged = sandbox.db(&["salvage", "--into", new.to_str().expect("text")]);
    assert_eq!(salvaged.code, 4, "{}", salvaged.err);
    assert!(salvaged.out.ends_with("; 1 gap\n"), "{}", salvaged.out);
    assert!(salvaged.out.contains(&name) && salvaged.out.contains("at byte 0"), "{}", salvaged.out);
}
