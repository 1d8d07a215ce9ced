use esker_base::Kind;

use crate::batch::Op;
use crate::recent_writes::RecentWrites;
use crate::{Database, KeyspaceOptions};

/// Range deletes within each other of which no scan tells one from another take memory by their number.
#[test]
fn nested_range_deletes_take_memory_by_their_number() {
    let depth: u32 = if cfg!(miri) { 30 } else { 2_000 };
    let db = Database::in_memory().unwrap();
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    map.put(depth.to_be_bytes(), "").unwrap();
    let mut tx = db.begin().unwrap();
    let (before, mut scan) = (tx.range::<&[u8]>(&map, ..), tx.range::<&[u8]>(&map, ..));
    for n in 0..depth {
        tx.delete_range(&map, n.to_be_bytes()..(2 * depth - n).to_be_bytes()).unwrap();
        assert_eq!(tx.get(&map, depth.to_be_bytes()).unwrap(), None);
        if n == depth / 2 {
            scan = tx.range::<&[u8]>(&map, ..);
        }
    }
    let fragments = tx.own.tombstones(map.id(), esker_base::SeqNo::MAX).unwrap();
    let numbers: usize = fragments.list().iter().map(|fragment| fragment.seqnos.len()).sum();
    assert!(numbers < 5 * depth as usize, "{numbers} numbers in {} fragments", fragments.list().len());
    assert_eq!((before.count(), scan.count()), (1, 0));
}

/// Each scan sees the range deletes before it and none after it, also if it is asked only once all are done.
#[test]
fn scans_tell_the_range_deletes_between_them_apart() {
    let db = Database::in_memory().unwrap();
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    (0..20u8).for_each(|row| map.put([row], "").unwrap());
    let mut tx = db.begin().unwrap();
    let mut scans = Vec::new();
    for round in 0..9u8 {
        scans.push(tx.range::<&[u8]>(&map, ..));
        tx.delete_range(&map, [0]..[2 * round + 1]).unwrap();
        tx.delete_range(&map, [1]..[2 * round + 2]).unwrap();
        tx.put(&map, [2 * round], "again").unwrap();
        tx.delete_range(&map, [0]..[2 * round + 1]).unwrap();
        tx.put(&map, [0], "own").unwrap();
    }
    scans.push(tx.range::<&[u8]>(&map, ..));
    for (round, scan) in scans.into_iter().enumerate() {
        let keys: Vec<u8> = scan.map(|row| row.unwrap().0[0]).collect();
        let first = (round > 0).then_some(0).into_iter();
        let expected: Vec<u8> = first.chain(2 * u8::try_from(round).unwrap()..20).collect();
        assert_eq!(keys, expected, "after {round} rounds");
    }
}

/// What is read again and again is kept once, and so are parts of it.
#[test]
fn ranges_read_again_are_kept_once() {
    let db = Database::in_memory().unwrap();
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    (0..20u8).for_each(|row| map.put([7, row], "").unwrap());
    let tx = db.begin().unwrap();
    for round in 0..100 {
        assert_eq!(tx.prefix(&map, [7]).count(), 20);
        assert_eq!(tx.prefix(&map, [7]).rev().take(round % 20).count(), round % 20);
        assert_eq!(tx.range(&map, [7, 5]..).take(3).count(), 3);
        tx.watch_range(&map, [7, 3]..[7, 9]);
        drop(tx.iter(&map));
    }
    let (kept, places) = tx.reads.sizes();
    assert_eq!(kept, 1, "ranges");
    assert!(places <= 2, "{places} places for scans, of which one was under way at a time");
}

/// What was committed while a transaction was checked is looked up in what it read, if all of it was noted.
#[test]
fn what_was_committed_during_a_check_is_looked_up() {
    let db = Database::in_memory().unwrap();
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    (b'a'..=b'z').for_each(|key| map.put([key], "").unwrap());
    let core = db.core();
    let tx = db.begin().unwrap();
    assert_eq!(tx.get(&map, "k").unwrap().as_deref(), Some(&b""[..]));
    assert_eq!(tx.range(&map, "b".."d").count(), 2);
    let noted = |after: u64, kind, key, value| {
        let mut recent = RecentWrites::default();
        recent.note(Op { keyspace: map.id(), kind, key, value }, tx.snapshot_seqno().plus(after));
        tx.reads.check_last(core, &recent).is_ok()
    };
    // Nothing of these was committed: what is noted counts, and if there was more that was not, what is there.
    assert!(noted(1, Kind::Put, b"a", b"") && noted(1, Kind::Delete, b"l", b""));
    assert!(!noted(1, Kind::Put, b"b", b"") && !noted(1, Kind::Delete, b"k", b""));
    assert!(noted(1, Kind::RangeDelete, b"d", b"k") && !noted(1, Kind::RangeDelete, b"a", b"bb"));
    assert!(!noted(1, Kind::RangeDelete, b"j", b"kk") && noted(2, Kind::Put, b"b", b""));

    let tx = db.begin().unwrap();
    tx.watch_range(&map, "b".."d");
    let last = || tx.reads.check_last(core, &core.commits.lock().recent).is_ok();
    let all_noted = |after| core.commits.lock().recent.after(after).is_some();
    map.put("y", "").unwrap();
    assert!(last() && !all_noted(tx.snapshot_seqno()), "nobody was being checked");
    let known = core.commits.lock().last_seqno;
    let checking = core.commits.begin_check();
    map.put("y", "").unwrap();
    let mut other = db.begin().unwrap();
    other.put(&map, "d", "").unwrap();
    other.commit().unwrap();
    assert!(last() && all_noted(known));
    map.delete("c").unwrap();
    assert!(!last() && all_noted(known));
    drop(checking);
    map.put("y", "").unwrap();
    assert!(!last() && !all_noted(known), "it is found where it lies");
}
