use proptest::prelude::*;

use super::MapStore;
use crate::kv::{KeyRange, KvRead, KvTx, OrderedKv, ScanOptions};
use std::collections::BTreeMap;

#[test]
fn conforms() {
    crate::conformance::check(MapStore::new);
}

#[test]
fn old_versions_go_when_nobody_can_see_them() {
    let store = MapStore::new();
    let put = |value: u8| {
        let done = store.update(|tx| {
            tx.put(b"a", &[value]);
            tx.delete(b"b");
            Ok(())
        });
        done.expect("commit");
    };
    put(1);
    put(2);
    assert_eq!(store.versions(), 1, "only the newest value is left");
    let snapshot = store.read().expect("snapshot");
    put(3);
    put(4);
    assert!(store.versions() >= 2, "the snapshot holds its version");
    assert_eq!(snapshot.get(b"a").expect("get").as_deref(), Some(&[2][..]));
    drop(snapshot);
    assert_eq!(store.versions(), 1, "and lets it go");
}

#[derive(Clone, Debug)]
enum Op {
    Put(u8, u8),
    Delete(u8),
    DeleteRange(u8, u8),
    Commit,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (any::<u8>(), any::<u8>()).prop_map(|(k, v)| Op::Put(k % 32, v)),
        2 => any::<u8>().prop_map(|k| Op::Delete(k % 32)),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(a, b)| Op::DeleteRange(a % 32, b % 32)),
        1 => Just(Op::Commit),
    ]
}

proptest! {
    /// Scans of a transaction and of the store after it equal a plain map's, both ways.
    #[test]
    fn equals_a_plain_map(ops in prop::collection::vec(op(), 0..120)) {
        let store = MapStore::new();
        let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        for batch in ops.split(|op| matches!(op, Op::Commit)) {
            let mut next = model.clone();
            let done = store.update(|tx| {
                next = model.clone();
                for op in batch {
                    match *op {
                        Op::Put(k, v) => {
                            tx.put(&[k], &[v]);
                            next.insert(vec![k], vec![v]);
                        }
                        Op::Delete(k) => {
                            tx.delete(&[k]);
                            next.remove(&vec![k]);
                        }
                        Op::DeleteRange(a, b) => {
                            tx.delete_range(KeyRange { start: vec![a], end: Some(vec![b]) });
                            next.retain(|k, _| !(k[0] >= a && k[0] < b));
                        }
                        Op::Commit => {}
                    }
                }
                let scan = |options| -> crate::Result<Vec<_>> {
                    tx.scan(KeyRange::all(), options)?.map(|row| Ok(row?.0.to_vec())).collect()
                };
                Ok((scan(ScanOptions::new())?, scan(ScanOptions::new().reverse())?))
            });
            let (forward, mut backward) = done.expect("commit").value;
            backward.reverse();
            prop_assert_eq!(&forward, &next.keys().cloned().collect::<Vec<_>>());
            prop_assert_eq!(&forward, &backward);
            model = next;
            let read = store.read().expect("snapshot");
            let rows: BTreeMap<Vec<u8>, Vec<u8>> = read
                .scan(KeyRange::all(), ScanOptions::new())
                .expect("scan")
                .map(|row| row.map(|(k, v)| (k.to_vec(), v.to_vec())).expect("row"))
                .collect();
            prop_assert_eq!(&rows, &model);
        }
        prop_assert_eq!(store.versions(), model.len());
    }
}
