use std::sync::Arc;

use esker::Database;
use proptest::prelude::*;

use super::EngineStore;
use crate::kv::{Expect, KeyRange, KvRead, KvTx, Merge, MergeOps, OrderedKv, Write};
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

/// Flushes and compactions join operands as they meet. A sum that fits is an answer before and after, also where it
/// overflows on the way; one that does not fit is refused before and after.
#[test]
fn what_adds_overflow_to_on_the_way_does_not_matter() {
    const MAX: i64 = i64::MAX;
    for (base, adds, sum) in [
        (None, vec![MAX, 1, -1], Some(MAX)),
        (None, vec![MAX, -1, 1], Some(MAX)),
        (None, vec![1, MAX, -1], Some(MAX)),
        (None, vec![-1, 1, MAX], Some(MAX)),
        (None, vec![MAX, MAX, MAX, -MAX, -MAX, -5], Some(MAX - 5)),
        (None, vec![-MAX, -1, -1, 1], Some(-MAX - 1)),
        (Some(7), vec![MAX, -8], Some(MAX - 1)),
        (None, vec![MAX, 1], None),
        (None, vec![MAX, 1, -1, 1], None),
        (Some(-2), vec![-MAX], None),
    ] {
        let store = in_memory();
        if let Some(base) = base {
            store.put(b"k", &i64::to_le_bytes(base)).expect("put");
        }
        let expected = sum.map(|sum| sum.to_le_bytes().to_vec());
        let found = || store.get(b"k").ok().map(|got| got.value.expect("a value").to_vec());
        for add in &adds {
            let done = store.update(|tx| {
                tx.merge(b"k", Merge::Add(*add));
                Ok(())
            });
            done.expect("a merge is blind");
        }
        assert_eq!(found(), expected, "{base:?} {adds:?}");
        store.database().flush().expect("flush");
        assert_eq!(found(), expected, "{base:?} {adds:?}, flushed");
        // In one transaction, of the engine and of the map.
        let (engine, map) = (in_memory(), crate::map::MapStore::new());
        let expected = expected.as_deref();
        assert_eq!(in_one_transaction(&engine, base, &adds).as_deref(), expected, "{base:?} {adds:?}");
        assert_eq!(in_one_transaction(&map, base, &adds).as_deref(), expected, "{base:?} {adds:?}, map");
    }
}

/// The value after `adds` in one transaction; `None` if it, or the read, is refused.
fn in_one_transaction(store: &impl OrderedKv, base: Option<i64>, adds: &[i64]) -> Option<Vec<u8>> {
    let done = store.update(|tx| {
        if let Some(base) = base {
            tx.put(b"k", &base.to_le_bytes());
        }
        for add in adds {
            tx.merge(b"k", Merge::Add(*add));
        }
        Ok(())
    });
    done.and_then(|_| store.get(b"k")).ok()?.value.map(|value| value.to_vec())
}

fn merge() -> impl Strategy<Value = Merge> {
    let number = || prop_oneof![Just(i64::MAX), Just(i64::MIN), -2..=2i64];
    let bytes = prop_oneof![Just(""), Just("abcd"), Just("12345678")];
    prop_oneof![
        6 => number().prop_map(Merge::Add),
        1 => number().prop_map(Merge::Min),
        1 => number().prop_map(Merge::Max),
        1 => bytes.prop_map(|bytes| Merge::Append(bytes.into())),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// However operands are joined, and wherever some are folded onto the base before the others, the answer is that
    /// of all at once; where a fold is refused its operands stay, as in the engine.
    #[test]
    fn the_answer_does_not_depend_on_what_meets_first(
        base in prop_oneof![Just(None), Just(Some(0)), Just(Some(i64::MAX))],
        merges in prop::collection::vec(merge(), 1..9),
    ) {
        use esker::MergeOperator;
        let base = base.map(i64::to_le_bytes);
        let base = base.as_ref().map(|base| &base[..]);
        let operands: Vec<Vec<u8>> = merges.iter().map(Merge::encode).collect();
        let operands: Vec<&[u8]> = operands.iter().map(Vec::as_slice).collect();
        let fold = |base: Option<&[u8]>, operands: &[&[u8]]| MergeOps.fold(b"k", base, operands).ok();
        let answer = fold(base, &operands);
        for early in 1..operands.len() {
            if let Some(value) = fold(base, &operands[..early]) {
                prop_assert_eq!(fold(Some(&value), &operands[early..]), answer.clone(), "{} early", early);
            }
            let mut joined: Vec<Vec<u8>> = Vec::new();
            for (at, operand) in operands.iter().enumerate() {
                let both = joined.last().and_then(|older| MergeOps.combine(b"k", older, operand));
                match joined.last_mut() {
                    Some(last) if both.is_some() && at != early => *last = both.unwrap_or_default(),
                    _ => joined.push(operand.to_vec()),
                }
            }
            let joined: Vec<&[u8]> = joined.iter().map(Vec::as_slice).collect();
            prop_assert_eq!(fold(base, &joined), answer.clone(), "joined, but for {}", early);
        }
    }
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

/// A flush drops both a row that was put and deleted since and its tombstone: nothing tells the commit of them.
#[test]
fn a_condition_that_held_for_a_moment_is_not_met() {
    let store = in_memory();
    let mut is_first = true;
    let done = store.update(|tx| {
        let is_first = std::mem::take(&mut is_first);
        if is_first {
            store.put(b"k", b"B")?;
        }
        tx.expect(b"k", Expect::Value("B".into()));
        if is_first {
            store.delete(b"k")?;
            store.database().flush()?;
        }
        tx.put(b"r", b"");
        Ok(())
    });
    assert!(matches!(done, Err(Error::Unexpected { .. })), "{done:?}");
    assert!(!store.contains(b"r").expect("contains").value, "nothing of it was written");
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

/// The ends of ranges are longer than the longest keys in them.
#[test]
fn the_longest_keys_are_deleted_with_the_range_they_are_in() {
    longest_keys_in_ranges(&in_memory());
    longest_keys_in_ranges(&crate::map::MapStore::new());
}

fn longest_keys_in_ranges<K: OrderedKv>(store: &K) {
    let table: TallTable<_, (String,)> = TallTable::open(store, &Space::root()).expect("open");
    // A byte for the type of the field, and one for its end.
    let longest = ("x".repeat(store.caps().key_bytes_max - 2),);
    let is_there = || table.view().and_then(|view| view.exists(&longest)).expect("a get");
    let fill = || {
        table.put(&longest, b"1").expect("the longest key");
        assert!(table.put(&(longest.0.clone() + "x",), b"1").is_err(), "there is no longer one");
    };
    fill();
    table.delete_under(&longest).expect("a commit");
    assert!(!is_there(), "by a batch");
    fill();
    let done = store.update(|tx| {
        table.put_in(tx, &("beside".to_owned(),), b"1")?;
        table.delete_under_in(tx, &longest);
        Ok(())
    });
    done.expect("a commit");
    assert!(!is_there(), "by a transaction");
    assert!(table.view().and_then(|view| view.exists(&("beside".to_owned(),))).expect("a get"));
    fill();
    let behind = [table.keys().key(&longest).as_slice(), &[0]].concat();
    for end in [None, Some(behind.clone()), Some([behind.as_slice(), &[0]].concat())] {
        let range = KeyRange { start: behind.clone(), end };
        let done = store.write(|write| {
            write(Write::DeleteRange(&range));
            Ok(())
        });
        done.expect("a commit");
        assert!(is_there(), "it lies before {:?}", range.end.map(|end| end.len()));
    }
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
