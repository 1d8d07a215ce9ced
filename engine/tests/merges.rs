//! Merge operators, well-behaved and not: each test failed before its mend.

#![expect(clippy::disallowed_methods, reason = "copies what a kill leaves")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use esker::vfs::mem::MemFs;
use esker::vfs::sim::Simulation;
use esker::{Database, Error, KeyspaceOptions};

const DIR: &str = "/db";

/// A scan in a transaction folds its own operand onto its snapshot, not onto what was written since.
#[test]
fn a_transaction_folds_onto_what_its_snapshot_sees() {
    let db = Database::in_memory().unwrap();
    let counters =
        db.keyspace("counters", KeyspaceOptions::default().with_merge_operator("add-i64")).unwrap();
    counters.put("a", 1i64.to_le_bytes()).unwrap();
    let mut tx = db.begin().unwrap();
    tx.merge(&counters, "a", 10i64.to_le_bytes()).unwrap();
    counters.put("a", 100i64.to_le_bytes()).unwrap();
    let expected = 11i64.to_le_bytes();
    assert_eq!(tx.get(&counters, "a").unwrap().as_deref(), Some(&expected[..]));
    let row = tx.range::<&[u8]>(&counters, ..).next().unwrap().unwrap();
    assert_eq!(*row.1, expected);
    let row = tx.range::<&[u8]>(&counters, ..).next_back().unwrap().unwrap();
    assert_eq!(*row.1, expected);
}

/// Makes values that are longer than values may be.
struct Huge;

impl esker::MergeOperator for Huge {
    fn name(&self) -> &'static str {
        "huge"
    }
    fn fold(&self, _key: &[u8], _base: Option<&[u8]>, _operands: &[&[u8]]) -> Result<Vec<u8>, String> {
        Ok(vec![0; esker::limits::VALUE_BYTES_MAX + 1])
    }
}

/// What a merge operator makes is held to the limits of a value, without harm to the writers.
#[test]
fn a_merge_that_makes_too_long_a_value_is_refused_at_the_read() {
    let env = esker::vfs::Env::memory().unwrap();
    let db = Database::builder(DIR).env(env).merge_operator(Arc::new(Huge)).open().unwrap();
    let map = db.keyspace("map", KeyspaceOptions::default().with_merge_operator("huge")).unwrap();
    map.put("key", "base").unwrap();
    map.merge("key", "operand").unwrap();
    map.put("other", "value").unwrap();
    assert!(matches!(map.get("key"), Err(Error::Merge { .. })));
    assert!(matches!(map.iter().next(), Some(Err(Error::Merge { .. }))));
    db.flush().unwrap();
    assert!(matches!(map.get("key"), Err(Error::Merge { .. })));
    assert_eq!(map.get("other").unwrap().as_deref(), Some(&b"value"[..]));
}

/// Refuses every operand, and counts those it was asked to fold.
struct Refusing(AtomicU64);

impl esker::MergeOperator for Refusing {
    fn name(&self) -> &'static str {
        "refusing"
    }
    fn fold(&self, _key: &[u8], _base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>, String> {
        self.0.fetch_add(operands.len() as u64, Ordering::Relaxed);
        Err("not these".to_string())
    }
}

/// Writers do not wait, at each merge, for a fold of all that was refused before.
#[test]
fn a_chain_that_is_refused_is_not_folded_at_each_merge() {
    let refusing = Arc::new(Refusing(AtomicU64::new(0)));
    let builder = Database::builder(DIR).env(esker::vfs::Env::memory().unwrap());
    let db = builder.merge_operator(Arc::<Refusing>::clone(&refusing)).open().unwrap();
    let map = db.keyspace("map", KeyspaceOptions::default().with_merge_operator("refusing")).unwrap();
    for _ in 0..2_000 {
        map.merge("key", "operand").unwrap();
    }
    let folded = refusing.0.load(Ordering::Relaxed);
    assert!(folded < 50 * 2_000, "{folded}");
}

/// What refuses for a moment is asked again: the chain does not go on growing, whatever place merges have in batches.
#[test]
fn a_chain_that_was_refused_for_a_moment_is_folded_later() {
    /// Refuses as long as it is told to, and tells the longest chain it was handed since.
    struct Moody(AtomicBool, AtomicUsize);
    impl esker::MergeOperator for Moody {
        fn name(&self) -> &'static str {
            "moody"
        }
        fn fold(&self, _key: &[u8], _base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>, String> {
            if self.0.load(Ordering::Relaxed) {
                return Err("not now".to_string());
            }
            self.1.fetch_max(operands.len(), Ordering::Relaxed);
            Ok(b"value".to_vec())
        }
    }
    let moody = Arc::new(Moody(AtomicBool::new(true), AtomicUsize::new(0)));
    let builder =
        Database::builder(DIR).env(esker::vfs::Env::memory().unwrap()).memtable_bytes_max(1 << 30);
    let db = builder.merge_operator(Arc::<Moody>::clone(&moody)).open().unwrap();
    let map = db.keyspace("map", KeyspaceOptions::default().with_merge_operator("moody")).unwrap();
    let commit = || {
        let mut batch = db.batch();
        batch.merge(&map, "key", "operand").unwrap();
        batch.put(&map, "other", "value").unwrap();
        batch.commit().unwrap();
    };
    (0..100).for_each(|_| commit());
    moody.0.store(false, Ordering::Relaxed);
    (0..40_000).for_each(|_| commit());
    moody.1.store(0, Ordering::Relaxed);
    assert_eq!(map.get("key").unwrap().as_deref(), Some(&b"value"[..]));
    assert!(moody.1.load(Ordering::Relaxed) <= 32, "{}", moody.1.load(Ordering::Relaxed));
}

/// What is wrong with an operator's name is told before anything is opened.
#[test]
fn operators_are_refused_for_their_names() {
    struct Named(&'static str);
    impl esker::MergeOperator for Named {
        fn name(&self) -> &str {
            self.0
        }
        fn fold(&self, _: &[u8], _: Option<&[u8]>, _: &[&[u8]]) -> Result<Vec<u8>, String> {
            Ok(Vec::new())
        }
    }
    let disk = MemFs::simulated();
    for (names, part) in [
        (&[""][..], "name is empty"),
        (&["max"], "\"max\" is built in"),
        (&["own", "own"], "\"own\" is built in, or registered twice"),
    ] {
        let mut builder = Database::builder(DIR).env(Simulation::on(disk.clone(), 1).env());
        for name in names {
            builder = builder.merge_operator(Arc::new(Named(name)));
        }
        let error = builder.open().expect_err("refused");
        assert!(matches!(&error, Error::InvalidArgument { what } if what.contains(part)), "{error}");
    }
    assert_eq!(disk.trace_len(), 0, "it has changed the disk");
}

/// One keyspace's merge operator that is not registered keeps nobody from reading the others.
#[test]
fn a_database_is_read_without_a_merge_operator() {
    let disk = MemFs::simulated();
    let builder = || Database::builder(DIR).env(Simulation::on(disk.clone(), 1).env());
    let db = builder().merge_operator(Arc::new(Huge)).open().unwrap();
    let huge = KeyspaceOptions::default().with_merge_operator("huge");
    let merged = db.keyspace("merged", huge.clone()).unwrap();
    merged.put("key", "base").unwrap();
    db.flush().unwrap();
    merged.merge("key", "operand").unwrap();
    db.keyspace("plain", KeyspaceOptions::default()).unwrap().put("key", "value").unwrap();
    drop(merged);
    db.close().unwrap();

    assert!(matches!(builder().open(), Err(Error::InvalidArgument { .. })));
    let db = builder().read_only(true).open().unwrap();
    assert_eq!(db.existing_keyspace("plain").unwrap().get("key").unwrap().as_deref(), Some(&b"value"[..]));
    for refused in [db.existing_keyspace("merged"), db.keyspace("merged", huge.clone())] {
        assert!(matches!(refused, Err(Error::InvalidArgument { .. })), "{refused:?}");
    }
    assert_eq!(db.keyspace_options("merged").unwrap(), huge);
    assert_eq!((db.keyspaces().len(), db.metrics().keyspaces.len()), (2, 2));
    assert_eq!(db.verify().unwrap().entries, 3);
    db.wait_for_compactions().unwrap();
}

/// A counter that took more operands than a chain may have reads the same after a crash.
#[test]
fn a_long_chain_of_operands_survives_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::builder(dir.path()).memtable_bytes_max(1 << 30).open().unwrap();
    let counters =
        db.keyspace("counters", KeyspaceOptions::default().with_merge_operator("add-i64")).unwrap();
    let count = (1i64 << 20) + 100;
    for _ in 0..count / 1000 {
        let mut batch = db.batch();
        for _ in 0..1000 {
            batch.merge(&counters, "hot", 1i64.to_le_bytes()).unwrap();
        }
        batch.commit().unwrap();
    }
    for _ in 0..count % 1000 {
        counters.merge("hot", 1i64.to_le_bytes()).unwrap();
    }
    // What a kill leaves.
    let copy = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    let db = Database::builder(copy.path()).read_only(true).open().unwrap();
    let counters = db.existing_keyspace("counters").unwrap();
    let expected = count.to_le_bytes();
    assert_eq!(counters.get("hot").unwrap().as_deref(), Some(&expected[..]));
    assert_eq!(*counters.iter().next().unwrap().unwrap().1, expected);
}

/// Appending to a long value does not write all of it anew each time.
#[test]
fn appending_to_a_long_value_costs_little() {
    let db = Database::in_memory().unwrap();
    let lists = db.keyspace("lists", KeyspaceOptions::default().with_merge_operator("append")).unwrap();
    for n in 0..10_000u32 {
        lists.merge("list", [n.to_le_bytes()[0]; 100]).unwrap();
    }
    let value = lists.get("list").unwrap().unwrap();
    assert!(value.chunks(100).zip(0u32..).all(|(chunk, n)| chunk == [n.to_le_bytes()[0]; 100]));
    assert_eq!(value.len(), 1_000_000);
    let written = db.metrics().counters.flushed_bytes;
    assert!(written < 10_000_000, "{written}");
}
