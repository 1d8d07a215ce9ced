//! The memtable under loom: every interleaving (with a bounded number of preemptions) of one writer with a
//! reader, and every stale value that the memory orders allow the reader to see. Numbers are published and
//! loaded as the engine does it, by the snapshot list.
//!
//! Nodes have three slots here, so that a handful of keys splits leaves and inner nodes. Run with
//! `RUSTFLAGS="--cfg loom" cargo test --release --manifest-path tests/models/Cargo.toml`.

use std::sync::Arc;

use esker_base::checksum::key_hash;
use esker_base::cursor::APPROACH_STEPS;
use esker_base::{Cursor, InternalKey, KeyspaceId, Kind, SeqNo};
use loom::thread;

use super::{KeyFilter, Memtable, MemtableCursor, MemtableWriter};
use crate::snapshot_list::SnapshotList;

const SPACE: KeyspaceId = KeyspaceId(1);
/// In front of the letters, this makes all heads equal until a node leaves it out.
const PREFIX: &str = "12345678";

/// The keys in the order they are inserted.
type Keys = Vec<Vec<u8>>;
/// What a reader does with the number it loaded.
type Read = fn(&Arc<Memtable>, &Keys, u64);

/// Insert the first `before` letters behind `prefix` alone, then the rest beside a reader. Writes are
/// numbered from 1 and published one by one. `before` is at least one: the directory's `OnceLock`s are
/// the standard library's, and loom does not see that they synchronise.
fn beside_a_writer(preemptions: usize, prefix: &str, letters: &str, before: usize, read: Read) {
    beside(preemptions, prefix, letters, before, Memtable::new, insert, read);
}

/// Insert as batches do.
fn insert(writer: &mut MemtableWriter, key: &[u8], seqno: SeqNo) {
    writer.insert(SPACE, key, seqno, Kind::Put, key);
}

/// Insert as a put that is alone does.
fn insert_alone(writer: &mut MemtableWriter, key: &[u8], seqno: SeqNo) {
    let mut insertion = writer.begin_insert(SPACE, key);
    insertion.prefetch_leaf();
    insertion.insert(seqno, Kind::Put, key);
}

/// A memtable with a filter of one word.
fn filtered() -> (Arc<Memtable>, MemtableWriter) {
    Memtable::build(Some(KeyFilter::new(8)), None)
}

/// [`beside_a_writer`], who fills what `make` makes by `insert`. The reader is not the first.
fn beside(
    preemptions: usize,
    prefix: &str,
    letters: &str,
    before: usize,
    make: fn() -> (Arc<Memtable>, MemtableWriter),
    insert: fn(&mut MemtableWriter, &[u8], SeqNo),
    read: Read,
) {
    let keys = letters.chars().map(|letter| format!("{prefix}{letter}").into_bytes()).collect();
    check(preemptions, keys, before, true, make, insert, read);
}

fn check(
    preemptions: usize,
    keys: Keys,
    before: usize,
    had_readers: bool,
    make: fn() -> (Arc<Memtable>, MemtableWriter),
    insert: fn(&mut MemtableWriter, &[u8], SeqNo),
    read: Read,
) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.max_branches = 20_000;
    model.check(move || {
        let (memtable, mut writer) = make();
        let published = Arc::new(SnapshotList::new(SeqNo(before as u64)));
        for (key, n) in keys.iter().zip(1..).take(before) {
            insert(&mut writer, key, SeqNo(n));
        }
        if had_readers {
            memtable.get(SPACE, &keys[0], SeqNo(1));
        }
        let writing = {
            let (published, keys) = (Arc::clone(&published), keys.clone());
            thread::spawn(move || {
                for (key, n) in keys.iter().zip(1..).skip(before) {
                    insert(&mut writer, key, SeqNo(n));
                    published.publish(SeqNo(n));
                }
            })
        };
        let upper = published.visible().0;
        read(&memtable, &keys, upper);
        writing.join().expect("the writer does not panic");
    });
}

/// The keys up to `upper`, sorted.
fn expected(keys: &Keys, upper: u64) -> Keys {
    let visible = keys.iter().zip(1..).filter(|(_, n)| *n <= upper);
    let mut expected: Keys = visible.map(|(key, _)| key.clone()).collect();
    expected.sort_unstable();
    expected
}

/// Every key up to `upper` is found, with its value.
fn gets(memtable: &Arc<Memtable>, keys: &Keys, upper: u64) {
    for (key, n) in keys.iter().zip(1..) {
        let found = memtable.get(SPACE, key, SeqNo(upper));
        assert_eq!(found.map(|found| (found.seqno.0, found.value)), (n <= upper).then_some((n, &key[..])));
    }
}

/// The first key, which is always there.
fn get_first(memtable: &Arc<Memtable>, keys: &Keys, upper: u64) {
    let found = memtable.get(SPACE, &keys[0], SeqNo(upper)).map(|found| found.value);
    assert_eq!(found, Some(&keys[0][..]));
}

/// The same of those that the filter lets pass, and it lets pass all up to `upper`.
fn filtered_gets(memtable: &Arc<Memtable>, keys: &Keys, upper: u64) {
    for (key, n) in keys.iter().zip(1..) {
        let may_be_there = memtable.may_contain(SPACE, key_hash(key));
        let found = may_be_there.then(|| memtable.get(SPACE, key, SeqNo(upper))).flatten();
        assert_eq!(found.map(|found| found.seqno.0), (n <= upper).then_some(n));
    }
}

/// Come nearer to `target`, as a merge does before it seeks.
fn approach(cursor: &mut MemtableCursor, target: InternalKey<'_>) {
    for step in 0..APPROACH_STEPS {
        cursor.approach(target, step);
    }
}

/// Seeking a key finds it or the next one up to `upper`, and seeking before the gap behind it finds it
/// or the one before.
fn seek(memtable: &Arc<Memtable>, keys: &Keys, upper: u64, key: &[u8]) {
    let expected = expected(keys, upper);
    let mut cursor = memtable.cursor(SPACE);
    let target = InternalKey::new(key, SeqNo(upper));
    approach(&mut cursor, target);
    cursor.seek(target).expect("moves");
    assert!(!cursor.valid() || cursor.internal_key() >= target, "before what was sought");
    while cursor.valid() && cursor.seqno().0 > upper {
        cursor.next().expect("moves");
    }
    let found = cursor.valid().then(|| cursor.key().to_vec());
    assert_eq!(found.as_ref(), expected.iter().find(|expected| expected[..] >= *key));

    let gap = [key, b"+"].concat();
    let target = InternalKey::before_all(&gap);
    approach(&mut cursor, target);
    cursor.seek_before(target).expect("moves");
    assert!(!cursor.valid() || cursor.internal_key() < target, "not before what was sought");
    while cursor.valid() && cursor.seqno().0 > upper {
        cursor.prev().expect("moves");
    }
    let found = cursor.valid().then(|| cursor.key().to_vec());
    assert_eq!(found.as_ref(), expected.iter().rev().find(|expected| expected[..] <= *key));
}

fn seeks(memtable: &Arc<Memtable>, keys: &Keys, upper: u64) {
    keys.iter().for_each(|key| seek(memtable, keys, upper, key));
}

/// Only the key inserted before the last one, so that more preemptions can be tried.
fn seek_one(memtable: &Arc<Memtable>, keys: &Keys, upper: u64) {
    seek(memtable, keys, upper, &keys[keys.len() - 2]);
}

/// A key behind all others, which does not begin as they do.
fn seek_behind_all(memtable: &Arc<Memtable>, keys: &Keys, upper: u64) {
    seek(memtable, keys, upper, b"z");
}

/// A walk meets every key up to `upper` once, in order.
fn walks(memtable: &Arc<Memtable>, keys: &Keys, upper: u64) {
    let mut cursor = memtable.cursor(SPACE);
    cursor.seek_first().expect("moves");
    let seen = collect(&mut cursor, upper, |cursor| cursor.next().expect("moves"));
    assert_eq!(seen, expected(keys, upper));
}

/// The same from the other end.
fn walks_back(memtable: &Arc<Memtable>, keys: &Keys, upper: u64) {
    let mut cursor = memtable.cursor(SPACE);
    cursor.seek_last().expect("moves");
    let mut seen = collect(&mut cursor, upper, |cursor| cursor.prev().expect("moves"));
    seen.reverse();
    assert_eq!(seen, expected(keys, upper));
}

fn collect(cursor: &mut MemtableCursor, upper: u64, step: fn(&mut MemtableCursor)) -> Keys {
    let mut seen = Keys::new();
    while cursor.valid() {
        assert_eq!(cursor.key(), cursor.value());
        if cursor.seqno().0 <= upper {
            seen.push(cursor.key().to_vec());
        }
        step(cursor);
    }
    seen
}

/// A leaf fills.
#[test]
fn the_first_leaf() {
    beside_a_writer(3, "", "cba", 1, gets);
    beside_a_writer(3, "", "cba", 1, seeks);
    beside_a_writer(3, "", "bca", 1, walks);
}

/// The filter does not deny what a reader may see, however it was inserted.
#[test]
fn the_filter_denies_nothing() {
    for insert in [insert, insert_alone] {
        beside(3, "", "cba", 1, filtered, insert, filtered_gets);
    }
}

/// Insertions that are alone, into a leaf, behind all others, and where a leaf splits.
#[test]
fn lone_insertions() {
    for letters in ["bdac", "abcd"] {
        for read in [gets, seeks] {
            beside(2, "", letters, 2, Memtable::new, insert_alone, read);
        }
    }
}

/// The only leaf is replaced, and a root put above.
#[test]
fn the_root_splits() {
    for read in [gets, seeks, walks, walks_back] {
        beside_a_writer(2, "", "bdac", 3, read);
    }
}

/// A leaf below a root is replaced: `a b d | f h` becomes `a b | c d | f h`.
#[test]
fn a_leaf_splits() {
    beside_a_writer(3, "", "bhafdc", 5, seek_one);
    for read in [gets, seeks, walks, walks_back] {
        beside_a_writer(2, "", "bhafdc", 5, read);
    }
}

/// A leaf, the root or below it, is replaced, `a d h` by `a d | f h`, and would be what the next split makes a new leaf of,
/// `d e`, but for a reader who looks for `a` in it.
#[test]
fn a_replaced_leaf_is_used_again() {
    for (letters, before) in [("adhfeb", 3), ("adpkhfeb", 5)] {
        for insert in [insert, insert_alone] {
            let keys = letters.bytes().map(|letter| vec![letter]).collect();
            check(2, keys, before, false, Memtable::new, insert, get_first);
        }
    }
}

/// The same between two others, where the new leaves leave out the prefix: `a b | e f g | j k`.
#[test]
fn a_leaf_splits_behind_a_prefix() {
    beside_a_writer(2, PREFIX, "bjakefgd", 7, seek_one);
    beside_a_writer(2, PREFIX, "bjakefgd", 7, gets);
}

/// Keys in order: a full leaf stays and the next one takes over.
#[test]
fn keys_in_order() {
    beside_a_writer(3, "", "abcde", 3, seek_one);
    for read in [gets, seeks, walks, walks_back] {
        beside_a_writer(2, "", "abcdef", 5, read);
    }
}

/// The same, and what the full leaf `a b c` gave away is divided, into leaves that leave out the prefix, while a reader is on
/// its way from the full one to what lies behind it.
#[test]
fn what_a_full_leaf_gave_away_splits() {
    beside_a_writer(2, PREFIX, "abcdefg", 3, seek_behind_all);
}

/// Inner nodes split too, by replacement and in order.
#[test]
fn an_inner_node_splits() {
    for letters in ["zxvtrpnljhfdc", "abcdefghijklm"] {
        beside_a_writer(2, "", letters, 12, seek_one);
        beside_a_writer(2, "", letters, 12, gets);
    }
    beside_a_writer(2, "", "abcdefghijklm", 12, walks_back);
}

/// A tombstone whose number a reader has loaded is among the fragments it gets.
#[test]
fn tombstones_are_never_missed() {
    loom::model(|| {
        let (memtable, mut writer) = Memtable::new();
        writer.insert(SPACE, b"k", SeqNo(1), Kind::Put, b"");
        let published = Arc::new(SnapshotList::new(SeqNo(1)));
        let writing = {
            let published = Arc::clone(&published);
            thread::spawn(move || {
                for n in 2..=3 {
                    writer.delete_range(SPACE, b"a", b"z", SeqNo(n));
                    published.publish(SeqNo(n));
                }
            })
        };
        for _ in 0..2 {
            let upper = published.visible().0;
            let fragments = memtable.tombstones(SPACE, SeqNo(upper));
            let covering = fragments.and_then(|fragments| fragments.covering(b"k", SeqNo(upper)));
            assert_eq!(covering, (upper > 1).then_some(SeqNo(upper)));
        }
        writing.join().expect("the writer does not panic");
    });
}
