//! The suite every back end has to pass. What layouts promise of limits is checked with it, over that back end.
//!
//! ```
//! esker_layouts::conformance::check(esker_layouts::map::MapStore::new);
//! ```

mod blind;
mod limits;
mod scans;
mod transactions;
mod within;

use crate::kv::{KvRead, KvTx, OrderedKv};

/// Run every check, each on a store that `fresh` opens empty. Panics at the first violation, saying
/// what was promised. Checks of optional capabilities are left out where [`Caps`](crate::kv::Caps) says
/// the store lacks them.
pub fn check<K: OrderedKv>(mut fresh: impl FnMut() -> K) {
    reads_and_writes(&fresh());
    counters(&fresh());
    blind::writes_are_made_in_order_and_all_or_none(&fresh());
    blind::single_keys(&fresh());
    scans::order_bounds_and_limits(&fresh());
    scans::own_writes(&fresh());
    limits::of_scans(&fresh());
    transactions::snapshots_are_stable(&fresh());
    transactions::an_error_drops_the_writes(&fresh());
    transactions::range_deletes(&fresh());
    transactions::conditions(&fresh());
    if fresh().caps().transactions {
        transactions::conflicts(&fresh());
        transactions::conditions_beside_other_writes(&fresh());
        transactions::concurrent_increments(&fresh());
        limits::of_layouts(&fresh());
        within::of_layouts(&fresh());
        within::nothing_is_lost(&fresh());
    }
    if fresh().caps().merge {
        transactions::merges(&fresh());
        blind::merges(&fresh());
    }
}

/// Write rows in one commit.
fn fill<K: OrderedKv>(store: &K, rows: &[(&[u8], &[u8])]) {
    store
        .update(|tx| {
            for (key, value) in rows {
                tx.put(key, value);
            }
            Ok(())
        })
        .expect("a plain commit works");
}

fn get<K: OrderedKv>(store: &K, key: &[u8]) -> Option<Vec<u8>> {
    let value = store.read().and_then(|read| read.get(key)).expect("a get works");
    value.map(|bytes| bytes.to_vec())
}

fn reads_and_writes<K: OrderedKv>(store: &K) {
    assert_eq!(get(store, b"a"), None, "an empty store holds nothing");
    fill(store, &[(b"a", b"1"), (b"", b"empty key"), (b"zero\0key", b""), (b"a", b"2")]);
    assert_eq!(get(store, b"a"), Some(b"2".to_vec()), "the last write of a key in a commit counts");
    assert_eq!(get(store, b""), Some(b"empty key".to_vec()), "the empty key is a key");
    assert_eq!(get(store, b"zero\0key"), Some(Vec::new()), "an empty value is a value");
    assert_eq!(get(store, b"zero"), None, "a prefix of a key is another key");
    let read = store.read().expect("snapshot");
    assert!(read.contains(b"a").expect("contains") && !read.contains(b"b").expect("contains"));
    let many = read.get_many(&[b"b", b"a", b"a"]).expect("get_many");
    assert_eq!(many, [None, Some("2".into()), Some("2".into())], "get_many keeps order and duplicates");
    let before = read.cost();
    let many = read.get_many(&[b"zero\0key", b"a", b"zero", b"", b"a", b"b"]).expect("get_many");
    let lengths: Vec<_> = many.iter().map(|value| value.as_ref().map(bytes::Bytes::len)).collect();
    assert_eq!(lengths, [Some(0), Some(1), None, Some(9), Some(1), None], "of more keys too");
    assert_eq!(read.cost().since(&before).calls, 1, "get_many is one call");
    drop(read);
    let done = store.update(|tx| {
        tx.delete(b"a");
        tx.delete(b"never there");
        Ok(tx.get(b"a")?.is_none())
    });
    assert!(done.expect("delete commits").value, "a transaction sees its own delete");
    assert_eq!(get(store, b"a"), None, "a deleted key is gone");
}

fn counters<K: OrderedKv>(store: &K) {
    fill(store, &[(b"a", b"1"), (b"b", b"2"), (b"c", b"3")]);
    let read = store.read().expect("snapshot");
    read.get(b"a").expect("get");
    read.get(b"absent").expect("get");
    let cost = read.cost();
    assert_eq!((cost.calls, cost.keys_read), (2, 1), "an absent key costs a call and no key");
    let all = crate::kv::KeyRange::all();
    let rows = read.scan(all.clone(), crate::kv::ScanOptions::new()).expect("scan").count();
    let cost = read.cost().since(&cost);
    assert_eq!((rows, cost.calls, cost.keys_read), (3, 1, 3), "a scan is one call and counts its rows");
    let before = read.cost();
    assert!(read.scan(all, crate::kv::ScanOptions::new()).expect("scan").next().is_some());
    let cost = read.cost().since(&before);
    assert_eq!((cost.calls, cost.keys_read), (1, 1), "a scan dropped early counts what it returned");
    let done = store.update(|tx| {
        tx.get(b"a")?;
        tx.put(b"a", b"4");
        tx.put(b"d", b"5");
        tx.delete(b"b");
        Ok(())
    });
    let cost = done.expect("commit").cost;
    assert_eq!((cost.calls, cost.keys_read), (2, 1), "a get and a commit are two calls");
    assert_eq!((cost.keys_written, cost.tombstones_written), (2, 1), "puts and deletes count apart");
    let idle = store.update(|tx| tx.get(b"a")).expect("read-only transaction").cost;
    assert_eq!(idle.calls, 1, "a commit without writes is no call");
}
