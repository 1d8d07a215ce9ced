//! Isolation, atomicity, conflicts, conditions, range deletes and merges.

use super::{fill, get};
use crate::Error;
use crate::kv::{Expect, KeyRange, KvRead, KvTx, Merge, OrderedKv, ScanOptions};

fn text(bytes: Option<bytes::Bytes>) -> String {
    bytes.map_or("none".into(), |b| String::from_utf8_lossy(&b).into_owned())
}

pub(super) fn snapshots_are_stable<K: OrderedKv>(store: &K) {
    fill(store, &[(b"a", b"old"), (b"b", b"old"), (b"c", b"old")]);
    let old = store.read().expect("snapshot");
    let mut scan = old.scan(KeyRange::all(), ScanOptions::new()).expect("scan");
    assert!(scan.next().is_some());
    fill(store, &[(b"a", b"new"), (b"bb", b"new")]);
    let done = store.update(|tx| {
        tx.delete(b"c");
        Ok(())
    });
    done.expect("a commit while a scan is alive");
    assert_eq!(scan.count(), 2, "a scan goes on over its snapshot");
    assert_eq!(text(old.get(b"a").expect("get")), "old", "a snapshot keeps overwritten values");
    assert_eq!(text(old.get(b"c").expect("get")), "old", "and deleted ones");
    assert_eq!(text(old.get(b"bb").expect("get")), "none", "and does not see later keys");
    drop(old);
    assert_eq!(get(store, b"a"), Some(b"new".to_vec()), "a new snapshot sees the newest commit");
}

pub(super) fn an_error_drops_the_writes<K: OrderedKv>(store: &K) {
    let failed = store.update(|tx| {
        tx.put(b"a", b"1");
        Err::<(), _>(Error::bad_input("test", "x", "on purpose"))
    });
    assert!(matches!(failed, Err(Error::BadInput { .. })), "the closure's error comes back");
    assert_eq!(get(store, b"a"), None, "a failed transaction writes nothing");
}

pub(super) fn range_deletes<K: OrderedKv>(store: &K) {
    fill(store, &[(b"a", b"1"), (b"b", b"1"), (b"bz", b"1"), (b"c", b"1")]);
    let done = store.update(|tx| {
        tx.delete_range(KeyRange::prefix(b"b"));
        Ok(())
    });
    let cost = done.expect("commit").cost;
    assert_eq!((cost.calls, cost.tombstones_written), (1, 1), "a range is removed by one write");
    let read = store.read().expect("snapshot");
    let left = read.scan(KeyRange::all(), ScanOptions::new()).expect("scan").count();
    assert_eq!(left, 2, "a range delete removes the range and nothing else");
    let longest = vec![b'x'; store.caps().key_bytes_max];
    fill(store, &[(&longest, b"1"), (&longest[1..], b"1")]);
    let done = store.update(|tx| {
        tx.delete_range(KeyRange::point(&longest));
        Ok(())
    });
    done.expect("the end of the range is longer than keys may be");
    assert_eq!(get(store, &longest), None, "the longest key is removed with its range");
    assert_eq!(get(store, &longest[1..]), Some(b"1".to_vec()), "and the one before it is not");
}

pub(super) fn conditions<K: OrderedKv>(store: &K) {
    let put_if = |expect: Expect, value: &[u8]| {
        store.update(|tx| {
            tx.expect(b"a", expect.clone());
            tx.put(b"a", value);
            Ok(())
        })
    };
    put_if(Expect::Absent, b"1").expect("the key is absent");
    assert!(matches!(put_if(Expect::Absent, b"2"), Err(Error::Unexpected { .. })), "now it exists");
    put_if(Expect::Value("1".into()), b"3").expect("the value is as expected");
    assert!(matches!(put_if(Expect::Value("1".into()), b"4"), Err(Error::Unexpected { .. })));
    assert_eq!(get(store, b"a"), Some(b"3".to_vec()), "a failed condition writes nothing");
}

/// Conditions speak of what is committed: neither of the transaction's own writes, nor of what was so on the way.
pub(super) fn conditions_beside_other_writes<K: OrderedKv>(store: &K) {
    fill(store, &[(b"a", b"1")]);
    let own = store.update(|tx| {
        tx.put(b"a", b"2");
        tx.expect(b"a", Expect::Value("1".into()));
        tx.delete(b"a");
        tx.expect(b"a", Expect::Value("1".into()));
        tx.put(b"b", b"2");
        tx.expect(b"b", Expect::Absent);
        Ok(())
    });
    own.expect("the conditions hold but for the transaction's own writes");
    assert_eq!((get(store, b"a"), get(store, b"b")), (None, Some(b"2".to_vec())));
    // What others write before the condition and behind it, while the transaction is tried first.
    let beside = |expect: Expect, before: Option<&[u8]>, behind: Option<&[u8]>| {
        let set = |value: Option<&[u8]>| match value {
            Some(value) => store.put(b"k", value),
            None => store.delete(b"k"),
        };
        let mut is_first = true;
        let done = store.update(|tx| {
            if is_first {
                set(before)?;
            }
            tx.expect(b"k", expect.clone());
            if is_first {
                set(behind)?;
            }
            is_first = false;
            tx.put(b"result", b"done");
            Ok(())
        });
        assert!(
            matches!(done, Err(Error::Unexpected { .. })),
            "{expect:?} {before:?} {behind:?}: {done:?}"
        );
        assert_eq!(get(store, b"result"), None, "a failed condition writes nothing");
    };
    beside(Expect::Absent, None, Some(b"1"));
    beside(Expect::Value("1".into()), Some(b"1"), Some(b"2"));
    fill(store, &[(b"k", b"1")]);
    beside(Expect::Value("1".into()), Some(b"1"), None);
    beside(Expect::Value("2".into()), Some(b"2"), None);
}

/// How often a transaction runs when, during its first try, another commit writes `write`.
fn tries<K: OrderedKv>(
    store: &K,
    read: impl Fn(&mut K::Tx<'_>) -> crate::Result<()>,
    write: impl Fn(&mut K::Tx<'_>),
) -> u32 {
    let mut tries = 0;
    let done = store.update(|tx| {
        tries += 1;
        read(tx)?;
        if tries == 1 {
            store.update(|other| {
                write(other);
                Ok(())
            })?;
        }
        tx.put(b"result", b"done");
        Ok(())
    });
    let cost = done.expect("the transaction commits in the end").cost;
    assert_eq!(cost.retries, u64::from(tries) - 1, "retries are counted");
    tries
}

pub(super) fn conflicts<K: OrderedKv>(store: &K) {
    fill(store, &[(b"a", b"1"), (b"b", b"1"), (b"m", b"1")]);
    let get_a = |tx: &mut K::Tx<'_>| tx.get(b"a").map(drop);
    assert_eq!(tries(store, get_a, |tx| tx.put(b"a", b"2")), 2, "a read key changed");
    assert_eq!(tries(store, get_a, |tx| tx.put(b"b", b"2")), 1, "an unread key changed");
    assert_eq!(tries(store, get_a, |tx| tx.delete(b"a")), 2, "a read key went");
    assert_eq!(tries(store, get_a, |tx| tx.put(b"a", b"3")), 2, "a key read as absent came");
    let clear = |tx: &mut K::Tx<'_>| tx.delete_range(KeyRange::prefix(b"a"));
    assert_eq!(tries(store, get_a, clear), 2, "a read key was in a removed range");
    let scan = |tx: &mut K::Tx<'_>| {
        let rows = tx.scan(KeyRange::prefix(b"m"), ScanOptions::new())?;
        rows.for_each(drop);
        Ok(())
    };
    assert_eq!(tries(store, scan, |tx| tx.put(b"mm", b"phantom")), 2, "a key appeared in a scanned range");
    assert_eq!(tries(store, scan, |tx| tx.put(b"n", b"outside")), 1, "a key appeared beside it");
    let watch = |tx: &mut K::Tx<'_>| {
        tx.watch_range(KeyRange::prefix(b"w"));
        Ok(())
    };
    assert_eq!(tries(store, watch, |tx| tx.put(b"w1", b"seen")), 2, "a watched range changed");
    let blind = |_: &mut K::Tx<'_>| Ok(());
    assert_eq!(tries(store, blind, |tx| tx.put(b"result", b"lost")), 1, "blind writes do not conflict");
}

#[expect(clippy::disallowed_methods, reason = "the promise is about concurrent writers")]
pub(super) fn concurrent_increments<K: OrderedKv>(store: &K) {
    let increment = || {
        for _ in 0..50 {
            let done = store.update(|tx| {
                let old = tx.get(b"n")?.map_or(0, |value| value[0]);
                tx.put(b"n", &[old + 1]);
                Ok(())
            });
            done.expect("increments commit");
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(increment);
        }
    });
    assert_eq!(get(store, b"n"), Some(vec![200]), "no increment is lost");
}

pub(super) fn merges<K: OrderedKv>(store: &K) {
    let number =
        |key: &[u8]| get(store, key).map(|v| i64::from_le_bytes(v.try_into().expect("eight bytes")));
    let merge = |key: &[u8], merge: Merge| {
        store.update(|tx| {
            tx.merge(key, merge.clone());
            Ok(())
        })
    };
    for amount in [5, -7, 10] {
        merge(b"sum", Merge::Add(amount)).expect("add");
    }
    assert_eq!(number(b"sum"), Some(8), "additions add up from nothing");
    for value in [3, -2, 9] {
        merge(b"min", Merge::Min(value)).expect("min");
        merge(b"max", Merge::Max(value)).expect("max");
    }
    assert_eq!((number(b"min"), number(b"max")), (Some(-2), Some(9)));
    merge(b"log", Merge::Append("a,".into())).expect("append");
    merge(b"log", Merge::Append("b".into())).expect("append");
    assert_eq!(get(store, b"log"), Some(b"a,b".to_vec()), "appends keep commit order");
    let done = store.update(|tx| {
        tx.put(b"log", b"x");
        tx.merge(b"log", Merge::Append("y".into()));
        tx.delete(b"sum");
        tx.merge(b"sum", Merge::Add(1));
        let seen = tx.get(b"log")?;
        tx.merge(b"log", Merge::Append("z".into()));
        Ok(seen)
    });
    let done = done.expect("merges on own writes");
    assert_eq!((text(done.value), done.cost.keys_written), ("xy".into(), 4), "merges see own writes");
    assert_eq!((get(store, b"log"), number(b"sum")), (Some(b"xyz".to_vec()), Some(1)));
}
