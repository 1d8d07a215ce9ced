//! `esker db`: each action, as it works.

use super::{Sandbox, esker, json};

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
    // Nor is it a text that goes on with a zero, whose encoding begins with the same bytes.
    tuple(&["put", r#"("age\0x", 1)"#, "zero"]).done();
    tuple(&["put", r#"("age")"#, "itself"]).done();
    let ages = "(\"age\")\titself\n(\"age\", 7)\tpetya\n(\"age\", 42)\tolya\n";
    assert_eq!(tuple(&["scan", "--prefix", r#"("age")"#]).done(), ages);
    // Bytes are a prefix of bytes.
    let zero = "(\"age\\0x\", 1)\tzero\n";
    assert_eq!(tuple(&["scan", "--prefix", "0x0261676500"]).done(), format!("{ages}{zero}"));
    assert_eq!(tuple(&["scan", "--prefix", "()"]).done().lines().count(), 5);
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

/// The layouts' merge operator is no part of the engine: every action has to bring it.
#[test]
fn databases_of_the_layouts_open_in_every_action() {
    use esker_layouts::engine::EngineStore;
    use esker_layouts::kv::{KvTx as _, Merge, OrderedKv as _};
    let sandbox = Sandbox::new();
    let store = EngineStore::open(sandbox.path(), "layout").expect("open");
    for amount in [3, 4] {
        let done = store.update(|tx| {
            tx.merge(b"count", Merge::Add(amount));
            tx.put(b"olya", b"skis");
            Ok(())
        });
        done.expect("commit");
    }
    let db = store.database().clone();
    drop(store);
    db.close().expect("a clean close");
    let seven = "count\t\\x07\\0\\0\\0\\0\\0\\0\\0\nolya\tskis\n";
    let layout = |arguments: &[&str]| sandbox.db(&[arguments, &["--keyspace", "layout"]].concat()).done();
    assert_eq!(layout(&["scan"]), seven);
    assert_eq!(layout(&["get", "olya"]), "skis\n");
    assert!(layout(&["verify"]).starts_with("ok: "));
    assert!(layout(&["stats"]).contains("esker-layouts"));
    assert_eq!(layout(&["keyspaces"]), "layout\n");
    layout(&["put", "petya", "x"]);
    layout(&["delete", "petya"]);
    layout(&["compact"]);
    layout(&["create-keyspace", "other"]);
    layout(&["drop-keyspace", "other"]);
    let new = sandbox.dir.path().join("new");
    assert!(layout(&["salvage", "--into", new.to_str().expect("text")]).ends_with("0 gaps\n"));
    std::fs::remove_dir_all(sandbox.path()).expect("it is ours");
    std::fs::rename(new, sandbox.path()).expect("it is ours");
    assert_eq!(layout(&["scan"]), seven);
}

/// What only looks at a database as a whole needs none of its merge operators.
#[test]
fn a_database_with_an_unknown_merge_operator_is_shown_and_verified() {
    struct Own;
    impl esker::MergeOperator for Own {
        fn name(&self) -> &'static str {
            "own"
        }
        fn fold(&self, _: &[u8], _: Option<&[u8]>, _: &[&[u8]]) -> Result<Vec<u8>, String> {
            Ok(Vec::new())
        }
    }
    let sandbox = Sandbox::with(&[("olya", "x")]);
    let builder = esker::Database::builder(sandbox.path()).merge_operator(std::sync::Arc::new(Own));
    let db = builder.open().expect("open");
    db.keyspace("counters", esker::KeyspaceOptions::default().with_merge_operator("own")).expect("created");
    db.close().expect("a clean close");
    assert!(sandbox.db(&["verify"]).done().starts_with("ok: "));
    assert!(sandbox.db(&["stats"]).done().contains("own"));
    assert_eq!(sandbox.db(&["keyspaces"]).done(), "counters\ndefault\n");
    assert_eq!(sandbox.db(&["get", "olya"]).done(), "x\n");
    let other = "others without such an operator can";
    sandbox.db(&["get", "x", "--keyspace", "counters"]).failed(2, &["\"own\" is not registered", other]);
    let new = sandbox.dir.path().join("new");
    let writes: [&[&str]; 7] = [
        &["put", "olya", "y"],
        &["put", "olya", "y", "--create", "--keyspace", "more"],
        &["delete", "olya"],
        &["compact"],
        &["checkpoint", "--into", new.to_str().expect("text")],
        &["create-keyspace", "more"],
        &["drop-keyspace", "counters"],
    ];
    let before = sandbox.files();
    for write in writes {
        let parts = ["\"own\", of keyspace \"counters\"", "can be read", "nothing can be written"];
        sandbox.db(write).failed(2, &parts);
        assert!(before == sandbox.files(), "{write:?} has changed the directory");
    }
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
    assert_eq!((&report["blobs"], &report["log_records"]), (&0.into(), &0.into()));
}

/// What lies in logs and blob files is read, and told, too.
#[test]
fn verify_counts_log_records_and_blob_files() {
    let sandbox = Sandbox::with(&[("long", &"x".repeat(10_000))]);
    let db = esker::Database::open(sandbox.path()).expect("open");
    db.existing_keyspace("default").expect("there").put("in the log", "1").expect("put");
    // As a kill leaves it, with a row in the log alone.
    let killed = sandbox.dir.path().join("killed");
    std::fs::create_dir(&killed).expect("it is ours");
    for (path, bytes) in sandbox.files() {
        std::fs::write(killed.join(path.file_name().expect("a name")), bytes).expect("it is ours");
    }
    db.close().expect("a clean close");
    let verify = |more: &[&str]| {
        let arguments = [&["db", killed.to_str().expect("text"), "verify"], more].concat();
        esker(&arguments).done()
    };
    let verified = verify(&[]);
    for part in ["1 log record,", "1 table with 1 entry", "1 blob file,"] {
        assert!(verified.contains(part), "{part:?} is not in {verified}");
    }
    let report = json(&verify(&["--json"]));
    assert_eq!((&report["blobs"], &report["log_records"]), (&1.into(), &1.into()));
}

#[test]
fn a_checkpoint_is_a_database_of_its_own() {
    let sandbox = Sandbox::with(&[("a", "1"), ("b", "2")]);
    let new = sandbox.dir.path().join("new");
    let into = new.to_str().expect("text");
    let copy = |arguments: &[&str]| esker(&[&["db", into], arguments].concat());
    assert_eq!(sandbox.db(&["checkpoint", "--into", into]).done(), "");
    sandbox.db(&["put", "a", "3"]).done();
    copy(&["put", "b", "4"]).done();
    assert_eq!(sandbox.db(&["scan"]).done(), "a\t3\nb\t2\n");
    assert_eq!(copy(&["scan"]).done(), "a\t1\nb\t4\n");
    assert!(copy(&["verify"]).done().starts_with("ok: "));

    // What exists is left alone, whatever it is.
    let before = sandbox.files();
    sandbox.db(&["checkpoint", "--into", into]).failed(2, &[into, "exists"]);
    assert!(before == sandbox.files(), "it has changed the directory");
    assert_eq!(copy(&["get", "b"]).done(), "4\n");
    let letter = sandbox.dir.path().join("letter");
    std::fs::write(&letter, "dear").expect("it is ours");
    sandbox.db(&["checkpoint", "--into", letter.to_str().expect("text")]).failed(2, &["letter", "exists"]);
    assert_eq!(std::fs::read(letter).expect("it is there"), b"dear");
    let nowhere = sandbox.dir.path().join("no").join("where");
    sandbox.db(&["checkpoint", "--into", nowhere.to_str().expect("text")]).failed(1, &["where"]);
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
