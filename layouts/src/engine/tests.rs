use std::sync::Arc;

use esker::Database;

use super::EngineStore;
use crate::kv::{KeyRange, KvRead, KvTx, Merge, MergeOps, OrderedKv, Write};
use crate::tall::TallTable;
use crate::tuple::Space;
use crate::{Error, OpCost};

fn in_memory() -> EngineStore {
    let env = esker::vfs::Env::memory().expect("an environment in memory");
    EngineStore::build(Database::builder("/store").env(env), "data").expect("open")
}

#[test]
fn conforms() {
    crate::conformance::check(in_memory);
}

#[test]
fn conforms_on_disk() {
    let mut directories = Vec::new();
    crate::conformance::check(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let store = EngineStore::open(directory.path(), "data").expect("open");
        directories.push(directory);
        store
    });
}

#[test]
fn what_was_written_is_there_after_reopening() {
    let directory = tempfile::tempdir().expect("a directory");
    for round in 1..=3i64 {
        let store = EngineStore::open(directory.path(), "data").expect("open");
        let done = store.update(|tx| {
            tx.merge(b"n", Merge::Add(1));
            Ok(())
        });
        done.expect("commit");
        let value = store.read().expect("snapshot").get(b"n").expect("get").expect("is there");
        assert_eq!(value.as_ref(), round.to_le_bytes());
    }
}

#[test]
fn refused_writes_and_merges_are_errors() {
    let store = in_memory();
    let long = store.update(|tx| {
        tx.put(&vec![b'x'; 70_000], b"");
        tx.put(b"a", b"1");
        Ok(())
    });
    assert!(matches!(long, Err(Error::Store(esker::Error::TooLarge { .. }))), "{long:?}");
    assert!(!store.read().expect("snapshot").contains(b"a").expect("get"), "nothing of it was written");
    let done = store.update(|tx| {
        tx.put(b"text", b"not a number");
        tx.merge(b"text", Merge::Add(1));
        Ok(())
    });
    done.expect("a merge is blind");
    let error = store.read().expect("snapshot").get(b"text").expect_err("the read folds").to_string();
    assert!(error.contains("not a number of eight bytes"), "{error}");
}

#[test]
fn operands_combine_to_what_folding_gives() {
    use esker::MergeOperator;
    let merges = [
        Merge::Add(3),
        Merge::Add(i64::MAX),
        Merge::Min(-2),
        Merge::Max(9),
        Merge::Min(4),
        Merge::Max(-9),
        Merge::Append("ab".into()),
        Merge::Append("".into()),
    ];
    let base = 5i64.to_le_bytes();
    for older in &merges {
        for newer in &merges {
            let (a, b) = (older.encode(), newer.encode());
            let Some(both) = MergeOps.combine(b"k", &a, &b) else { continue };
            let apart = MergeOps.fold(b"k", Some(&base), &[&a, &b]);
            assert_eq!(MergeOps.fold(b"k", Some(&base), &[&both]), apart, "{older:?} {newer:?}");
        }
    }
    assert!(MergeOps.fold(b"k", None, &[&[9, 0]]).is_err() && MergeOps.fold(b"k", None, &[&[]]).is_err());
    let registered = Database::builder("/m").env(esker::vfs::Env::memory().expect("an environment"));
    let db = registered.merge_operator(Arc::new(MergeOps)).open().expect("open");
    EngineStore::of(db, "counters").expect("any database that knows the operator");
}

#[test]
fn a_keyspace_without_the_layouts_merges_is_no_store() {
    let db = Database::in_memory().expect("open");
    let keyspace = db.keyspace("plain", esker::KeyspaceOptions::default()).expect("created");
    let refused = EngineStore::over(keyspace).expect_err("it takes no merges").to_string();
    assert!(refused.contains("plain") && refused.contains("None"), "{refused}");
}

#[test]
fn a_refused_write_keeps_those_beside_it_out() {
    let store = in_memory();
    let long = vec![b'x'; store.caps().key_bytes_max + 1];
    let refused = store.write(|write| {
        write(Write::Put(b"a", b"1"));
        write(Write::Put(&long, b""));
        write(Write::Put(b"b", b"2"));
        Ok(())
    });
    assert!(matches!(refused, Err(Error::Store(_))), "{refused:?}");
    assert!(
        !store.contains(b"a").expect("contains").value && !store.contains(b"b").expect("contains").value
    );
    assert!(store.put(&long, b"").is_err());
}

/// A range without an end holds the largest key there can be.
#[test]
fn a_range_without_an_end_is_deleted_to_the_last_key() {
    let store = in_memory();
    let last = vec![0xFF; store.caps().key_bytes_max];
    let last_is_there = || store.contains(&last).expect("contains").value;
    let rest = KeyRange { start: b"b".to_vec(), end: None };
    store.put(&last, b"1").expect("put");
    let done = store.update(|tx| {
        tx.delete_range(rest.clone());
        Ok(())
    });
    done.expect("commit");
    assert!(!last_is_there(), "by a transaction");
    store.put(&last, b"1").expect("put");
    let done = store.write(|write| {
        write(Write::DeleteRange(&rest));
        Ok(())
    });
    done.expect("commit");
    assert!(!last_is_there(), "by a batch");
}

#[test]
fn one_transaction_spans_keyspaces_with_layouts_and_without() {
    let store = in_memory();
    let db = store.database().clone();
    let other = EngineStore::of(db.clone(), "other").expect("a keyspace");
    let raw = db.keyspace("raw", esker::KeyspaceOptions::default()).expect("a keyspace");
    let one: TallTable<_, (u64,)> = TallTable::open(&store, &Space::root()).expect("open");
    let two: TallTable<_, (u64,)> = TallTable::open(&other, &Space::root()).expect("open");
    let mut cost = OpCost::default();
    let mut all = |value: &[u8], fail: bool| {
        db.try_transact(|transaction| {
            store.within(transaction, &mut cost, |tx| one.put_in(tx, &(1,), value))?;
            let seen = other.within(transaction, &mut cost, |tx| {
                two.put_in(tx, &(1,), value)?;
                two.view_in(&*tx).get(&(1,))
            })?;
            assert_eq!(seen.as_deref(), Some(value), "its own writes");
            transaction.put(&raw, "last", value)?;
            if fail { Err(Error::bad_input("test", "", "on purpose")) } else { Ok(()) }
        })
    };
    all(b"first", false).expect("a commit");
    assert!(all(b"second", true).is_err());
    assert_eq!(cost.keys_read, 2, "a get a transaction");
    let found = [one.view(), two.view()].map(|view| view.and_then(|view| view.get(&(1,))).expect("get"));
    assert_eq!(found, [Some("first".into()), Some("first".into())]);
    assert_eq!(raw.get("last").expect("get").as_deref(), Some(&b"first"[..]));
    let long = vec![b'x'; 70_000];
    let refused = db.try_transact(|transaction| {
        store.within(transaction, &mut OpCost::default(), |tx| {
            tx.put(&long, b"");
            Ok(())
        })
    });
    assert!(matches!(refused, Err(Error::Store(esker::Error::TooLarge { .. }))), "{refused:?}");
}
