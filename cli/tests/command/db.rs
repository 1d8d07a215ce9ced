//! `esker db`: each action, as it works.

use super::{Sandbox, json};

#[test]
fn rows_are_put_got_scanned_and_deleted() {
    let sandbox = Sandbox::with(&[("olya", "likes skiing"), ("petya", "tab\\there"), ("vasya", "")]);
    assert_eq!(sandbox.db(&["get", "olya"]).done(), "likes skiing\n");
    assert_eq!(sandbox.db(&["get", "petya"]).done(), "tab\\there\n");
    assert_eq!(sandbox.db(&["scan"]).done(), "olya\tlikes skiing\npetya\ttab\\there\nvasya\t\n");
    sandbox.db(&["delete", "petya"]).done();
    sandbox.db(&["delete", "petya"]).done();
    assert_eq!(sandbox.db(&["scan", "--keys-only"]).done(), "olya\nvasya\n");
    sandbox.db(&["get", "petya"]).failed(3, &["petya", "\"default\""]);
}

#[test]
fn scans_go_both_ways_and_keep_to_their_bounds() {
    let sandbox = Sandbox::with(&[("a", "1"), ("b1", "2"), ("b2", "3"), ("c", "4")]);
    let keys = |arguments: &[&str]| {
        let all = [&["scan", "--keys-only"], arguments].concat();
        sandbox.db(&all).done().split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(keys(&["--prefix", "b"]), "b1 b2");
    assert_eq!(keys(&["--start", "b1", "--end", "c"]), "b1 b2");
    assert_eq!(keys(&["--start", "b2"]), "b2 c");
    assert_eq!(keys(&["--reverse"]), "c b2 b1 a");
    assert_eq!(keys(&["--reverse", "--limit", "2", "--end", "c"]), "b2 b1");
    assert_eq!(keys(&["--limit", "0"]), "");
    assert_eq!(keys(&["--start", "c", "--end", "a"]), "");
    let rows = sandbox.db(&["scan", "--limit", "1", "--json"]).done();
    assert_eq!(json(&rows), serde_json::json!({ "key": "a", "value": "1" }));
}

#[test]
fn keys_and_values_come_in_every_format() {
    let sandbox = Sandbox::with(&[]);
    sandbox.db(&["put", "0xff00", "6869", "--key-format", "hex", "--value-format", "hex"]).done();
    assert_eq!(sandbox.db(&["get", r"\xff\0"]).done(), "hi\n");
    let tuple = |arguments: &[&str]| {
        sandbox.db(&[arguments, &["--key-format", "tuple", "--keyspace", "tuples"]].concat())
    };
    tuple(&["put", r#"("age", 42)"#, "olya", "--create"]).done();
    tuple(&["put", r#"("age", 7)"#, "petya"]).done();
    tuple(&["put", r#"("agent", 7)"#, "bond"]).done();
    // A tuple's prefix is its first fields, not the first bytes of a field.
    assert_eq!(
        tuple(&["scan", "--prefix", r#"("age")"#]).done(),
        "(\"age\", 7)\tpetya\n(\"age\", 42)\tolya\n"
    );
    assert_eq!(sandbox.db(&["keyspaces"]).done(), "default\ntuples\n");
    assert_eq!(
        json(&sandbox.db(&["keyspaces", "--json"]).done()),
        serde_json::json!(["default", "tuples"])
    );
}

#[test]
fn values_come_from_files_and_standard_input_byte_for_byte() {
    let sandbox = Sandbox::with(&[]);
    let bytes: Vec<u8> = (0..=255).collect();
    let file = sandbox.dir.path().join("photo");
    std::fs::write(&file, &bytes).expect("it is ours");
    sandbox.db(&["put", "photo", &format!("@{}", file.display())]).done();
    assert_eq!(sandbox.db(&["get", "photo", "--value-format", "raw"]).raw, bytes);
    let put = sandbox.db_with_input(&["put", "piped", "-"], &bytes);
    put.done();
    assert_eq!(sandbox.db(&["get", "piped", "--value-format", "raw"]).raw, bytes);
    sandbox.db(&["put", "escaped", r"\x40home"]).done();
    assert_eq!(sandbox.db(&["get", "escaped"]).done(), "@home\n");
}

#[test]
fn what_a_call_cost_is_told_on_standard_error() {
    let sandbox = Sandbox::with(&[("olya", "x")]);
    let got = sandbox.db(&["get", "olya", "--cost"]);
    assert_eq!((got.code, got.out.as_str()), (0, "x\n"));
    assert!(got.err.contains("1 keys read") && got.err.contains("1 tables"), "{}", got.err);
}

#[test]
fn stats_show_levels_and_options() {
    let sandbox = Sandbox::with(&[("olya", "x"), ("petya", "y")]);
    let create = ["create-keyspace", "counters", "--merge-operator", "add-i64", "--compression", "lz4"];
    sandbox.db(&create).done();
    let shown = sandbox.db(&["stats"]).done();
    for part in ["2 tables", "default", "counters", "add-i64", "lz4", "entries"] {
        assert!(shown.contains(part), "{part:?} is not in {shown}");
    }
    let stats = json(&sandbox.db(&["stats", "--json"]).done());
    assert_eq!(stats["keyspaces"][0]["name"], "counters");
    assert_eq!(stats["keyspaces"][0]["merge_operator"], "add-i64");
    assert_eq!(stats["keyspaces"][1]["levels"][0]["entries"], 2);
}

#[test]
fn verify_and_compact_tell_what_they_found() {
    let sandbox = Sandbox::with(&[("a", "1"), ("b", "2"), ("a", "3")]);
    let verified = sandbox.db(&["verify"]).done();
    assert!(verified.starts_with("ok: ") && verified.contains("3 tables with 3 entries"), "{verified}");
    let compacted = sandbox.db(&["compact"]).done();
    assert!(compacted.contains("before 3 tables"), "{compacted}");
    let report = json(&sandbox.db(&["verify", "--json"]).done());
    // The older version of a is gone.
    assert_eq!((&report["ok"], &report["entries"]), (&true.into(), &2.into()));
    assert_eq!(sandbox.db(&["scan"]).done(), "a\t3\nb\t2\n");
}

#[test]
fn keyspaces_are_created_once_and_dropped() {
    let sandbox = Sandbox::with(&[]);
    sandbox.db(&["create-keyspace", "default"]).done();
    sandbox
        .db(&["create-keyspace", "default", "--block-bytes", "8192"])
        .failed(2, &["default", "block_bytes", "4096", "8192"]);
    sandbox.db(&["drop-keyspace", "default"]).done();
    assert_eq!(sandbox.db(&["keyspaces"]).done(), "");
    sandbox.db(&["drop-keyspace", "default"]).failed(3, &["default"]);
}

#[test]
fn reading_changes_no_byte() {
    let sandbox = Sandbox::with(&[("a", "1")]);
    let before = sandbox.files();
    for action in [&["get", "a"][..], &["scan"], &["stats"], &["verify"], &["keyspaces"]] {
        sandbox.db(action).done();
    }
    assert!(before == sandbox.files(), "reading has changed the directory");
}
