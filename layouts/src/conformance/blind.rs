//! Writes that depend on no read, and the calls for a single key.

use super::get;
use crate::Error;
use crate::kv::{KeyRange, Merge, OrderedKv, Write};

pub(super) fn writes_are_made_in_order_and_all_or_none<K: OrderedKv>(store: &K) {
    let cost = store.write(|write| {
        write(Write::Put(b"a", b"1"));
        write(Write::Put(b"b", b"1"));
        write(Write::DeleteRange(&KeyRange::prefix(b"a")));
        write(Write::Delete(b"b"));
        write(Write::Put(b"b", b"2"));
        Ok(())
    });
    let cost = cost.expect("a plain commit works");
    assert_eq!(
        (cost.calls, cost.keys_written, cost.tombstones_written),
        (1, 3, 2),
        "one commit, every write"
    );
    assert_eq!(
        (get(store, b"a"), get(store, b"b")),
        (None, Some(b"2".to_vec())),
        "the last of a key counts"
    );
    let failed = store.write(|write| {
        write(Write::Put(b"b", b"3"));
        Err(Error::bad_input("test", "x", "on purpose"))
    });
    assert!(matches!(failed, Err(Error::BadInput { .. })), "the closure's error comes back");
    assert_eq!(get(store, b"b"), Some(b"2".to_vec()), "a failed write writes nothing");
    let idle = store.write(|_| Ok(())).expect("nothing to write");
    assert_eq!(idle.calls, 0, "a commit without writes is no call");
}

pub(super) fn merges<K: OrderedKv>(store: &K) {
    for _ in 0..2 {
        let done = store.write(|write| {
            write(Write::Merge(b"n", &Merge::Add(2)));
            Ok(())
        });
        done.expect("a merge without a read");
    }
    assert_eq!(get(store, b"n"), Some(4i64.to_le_bytes().to_vec()), "merges are combined");
}

pub(super) fn single_keys<K: OrderedKv>(store: &K) {
    let cost = store.put(b"a", b"1").expect("put");
    assert_eq!(
        (cost.calls, cost.keys_written, cost.keys_read),
        (1, 1, 0),
        "a put is one call and reads nothing"
    );
    let found = store.get(b"a").expect("get");
    assert_eq!(found.value.as_deref(), Some(&b"1"[..]), "a get sees what was put");
    assert_eq!((found.cost.calls, found.cost.keys_read), (1, 1), "and is one call");
    assert!(store.contains(b"a").expect("contains").value, "and so is the question whether there is one");
    let cost = store.delete(b"a").expect("delete");
    assert_eq!((cost.calls, cost.tombstones_written), (1, 1), "a delete is one call");
    let absent = store.contains(b"a").expect("contains");
    assert_eq!(
        (absent.value, absent.cost.calls, absent.cost.keys_read),
        (false, 1, 0),
        "an absent key is none"
    );
    assert_eq!(store.get(b"a").expect("get").value, None, "a deleted key is gone");
}
