//! Order, bounds, limits, and a transaction's own writes in its scans.

use super::fill;
use crate::kv::{Go, KeyRange, KvRead, KvTx, OrderedKv, ScanOptions};

fn keys(rows: impl Iterator<Item = crate::Result<crate::kv::Row>>) -> Vec<String> {
    rows.map(|row| String::from_utf8_lossy(&row.expect("a row").0).into_owned()).collect()
}

fn range(start: &str, end: &str) -> KeyRange {
    KeyRange { start: start.into(), end: Some(end.into()) }
}

pub(super) fn order_bounds_and_limits<K: OrderedKv>(store: &K) {
    fill(store, &[(b"b", b"22"), (b"a", b"1"), (b"c", b"333"), (b"ab", b"4"), (b"\xff\xff", b"5")]);
    let read = store.read().expect("snapshot");
    let scan = |range, options| keys(read.scan(range, options).expect("scan"));
    let plain = ScanOptions::new();
    assert_eq!(scan(range("a", "d"), plain), ["a", "ab", "b", "c"], "bytewise order");
    assert_eq!(scan(range("a", "d"), plain.reverse()), ["c", "b", "ab", "a"], "reverse is the mirror");
    assert_eq!(scan(range("ab", "c"), plain), ["ab", "b"], "start is in, end is out");
    assert_eq!(scan(range("ab", "c"), plain.reverse()), ["b", "ab"], "bounds hold in reverse too");
    assert_eq!(scan(range("aa", "bb"), plain), ["ab", "b"], "bounds need not be keys");
    assert_eq!(scan(KeyRange::all(), plain).len(), 5, "an open end includes every key");
    assert_eq!(scan(KeyRange::prefix(b"\xff"), plain).len(), 1, "a prefix of 0xFF has no end");
    assert_eq!(scan(range("c", "a"), plain), [""; 0], "an inverted range is empty");
    assert_eq!(scan(range("b", "b"), plain), [""; 0], "an empty range is empty");
    assert_eq!(scan(range("a", "d"), plain.limit(2)), ["a", "ab"], "row limit");
    assert_eq!(scan(range("a", "d"), plain.limit(2).reverse()), ["c", "b"], "row limit in reverse");
    assert_eq!(scan(range("a", "d"), plain.limit(0)), [""; 0], "a limit of nothing");
    assert_eq!(scan(range("a", "d"), plain.bytes_limit(1)), ["a"], "a byte limit lets one row through");
    assert_eq!(
        scan(range("a", "d"), plain.bytes_limit(3)),
        ["a", "ab"],
        "the row that reaches it is the last"
    );
    let mut bare = read.scan(range("a", "d"), plain.keys_only()).expect("scan");
    assert!(bare.all(|row| row.expect("a row").1.is_empty()), "key-only scans have no values");
    visits(&read);
    let in_transaction = store.update(|tx| {
        visits(tx);
        Ok(())
    });
    in_transaction.expect("a transaction that only reads");
    many_rows(store);
}

/// Visits see what scans see, stop where they are told to, and seek forward only.
fn visits(read: &impl KvRead) {
    let visit = |range, go: &dyn Fn(&[u8]) -> Go| {
        let mut seen = Vec::new();
        let outcome = read.visit(range, |key, value| {
            seen.push((String::from_utf8_lossy(key).into_owned(), value.to_vec()));
            Ok(go(key))
        });
        outcome.expect("visit");
        seen
    };
    let names = |seen: Vec<(String, Vec<u8>)>| seen.into_iter().map(|(key, _)| key).collect::<Vec<_>>();
    let all = visit(range("a", "d"), &|_| Go::On);
    assert_eq!(all[1], ("ab".to_owned(), b"4".to_vec()), "keys come with their values");
    assert_eq!(names(all), ["a", "ab", "b", "c"]);
    let stop = |key: &[u8]| if key == b"ab" { Go::Stop } else { Go::On };
    assert_eq!(names(visit(range("a", "d"), &stop)), ["a", "ab"], "the row that stops is the last");
    let seek = |key: &[u8]| if key == b"a" { Go::To(b"b".to_vec()) } else { Go::On };
    assert_eq!(names(visit(range("a", "d"), &seek)), ["a", "b", "c"]);
    let back = |_: &[u8]| Go::To(b"a".to_vec());
    assert_eq!(names(visit(range("a", "d"), &back)), ["a", "ab", "b", "c"], "no way back");
    let past = |_: &[u8]| Go::To(b"x".to_vec());
    assert_eq!(names(visit(range("a", "d"), &past)), ["a"], "the range ends a seek");
    assert!(visit(range("c", "a"), &|_| Go::On).is_empty(), "an inverted range is empty");
    let before = read.cost();
    assert_eq!(visit(range("a", "d"), &stop).len(), 2);
    let cost = read.cost().since(&before);
    assert_eq!((cost.calls, cost.keys_read), (1, 2), "one call, and the rows that were lent");
}

/// More rows than any page or block holds.
fn many_rows<K: OrderedKv>(store: &K) {
    let names: Vec<String> = (0..3_000).map(|i| format!("row{i:05}")).collect();
    let rows: Vec<(&[u8], &[u8])> = names.iter().map(|name| (name.as_bytes(), &b"v"[..])).collect();
    fill(store, &rows);
    let read = store.read().expect("snapshot");
    let forward = keys(read.scan(KeyRange::prefix(b"row"), ScanOptions::new()).expect("scan"));
    assert_eq!(forward, names, "a long scan returns every row once, in order");
    let mut backward =
        keys(read.scan(KeyRange::prefix(b"row"), ScanOptions::new().reverse()).expect("scan"));
    backward.reverse();
    assert_eq!(backward, names, "and the same in reverse");
}

pub(super) fn own_writes<K: OrderedKv>(store: &K) {
    fill(store, &[(b"a", b"1"), (b"c", b"3"), (b"e", b"5"), (b"g", b"7")]);
    let done = store.update(|tx| {
        tx.put(b"b", b"2");
        tx.put(b"e", b"55");
        tx.delete(b"c");
        tx.put(b"f1", b"gone again");
        tx.delete_range(range("f", "h"));
        tx.put(b"h", b"8");
        let forward = keys(tx.scan(range("a", "z"), ScanOptions::new())?);
        let backward = keys(tx.scan(range("a", "z"), ScanOptions::new().reverse())?);
        let first = keys(tx.scan(range("a", "z"), ScanOptions::new().limit(2))?);
        Ok((forward, backward, first, tx.get(b"e")?, tx.get(b"g")?))
    });
    let (forward, mut backward, first, changed, gone) = done.expect("commit").value;
    assert_eq!(forward, ["a", "b", "e", "h"], "a transaction scans its own writes");
    backward.reverse();
    assert_eq!(backward, forward, "and in reverse");
    assert_eq!(first, ["a", "b"], "limits count what is seen");
    assert_eq!((changed, gone), (Some("55".into()), None), "and gets them");
    let read = store.read().expect("snapshot");
    let after = keys(read.scan(range("a", "z"), ScanOptions::new()).expect("scan"));
    assert_eq!(after, forward, "the commit is what the transaction saw");
}
