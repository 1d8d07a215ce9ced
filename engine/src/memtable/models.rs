//! The index under loom: every interleaving (with a bounded number of preemptions) of one writer with
//! readers, and every stale value that the memory orders allow a reader to see.
//!
//! Nodes have three slots here, so that a handful of keys splits leaves and inner nodes. Run with
//! `RUSTFLAGS="--cfg loom" cargo test --release --manifest-path tests/models/Cargo.toml`.

use std::sync::Arc;

use esker_base::sync::atomic::{AtomicU64, Ordering};
use esker_base::{Cursor, InternalKey, KeyspaceId, Kind, SeqNo};
use loom::thread;

use super::{Memtable, MemtableCursor};

const SPACE: KeyspaceId = KeyspaceId(1);

/// What a reader does with the number it loaded.
type Read = fn(&Arc<Memtable>, &[u8], u64);

/// Insert the first `before` (at least one: the directory's `OnceLock`s are the standard library's, and
/// loom does not see that they synchronise) of `keys` alone, then the rest beside a reader. Writes are numbered from 1
/// and published one by one.
fn beside_a_writer(preemptions: usize, keys: &'static [u8], before: usize, read: Read) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.max_branches = 20_000;
    model.check(move || {
        let (memtable, mut writer) = Memtable::new();
        let published = Arc::new(AtomicU64::new(before as u64));
        for (key, n) in keys.iter().zip(1..).take(before) {
            writer.insert(SPACE, &[*key], SeqNo(n), Kind::Put, &[*key]);
        }
        let writing = {
            let published = Arc::clone(&published);
            thread::spawn(move || {
                for (key, n) in keys.iter().zip(1..).skip(before) {
                    writer.insert(SPACE, &[*key], SeqNo(n), Kind::Put, &[*key]);
                    published.store(n, Ordering::Release);
                }
            })
        };
        let upper = published.load(Ordering::Acquire);
        read(&memtable, keys, upper);
        writing.join().expect("the writer does not panic");
    });
}

/// Every key up to `upper` is found, with its value.
fn gets(memtable: &Arc<Memtable>, keys: &[u8], upper: u64) {
    for (key, n) in keys.iter().zip(1..) {
        let found = memtable.get(SPACE, &[*key], SeqNo(upper));
        assert_eq!(
            found.map(|found| (found.seqno.0, found.value)),
            (n <= upper).then_some((n, &[*key][..]))
        );
    }
}

/// A get of the last key alone: cheaper, so that more preemptions can be tried.
fn get_last(memtable: &Arc<Memtable>, keys: &[u8], upper: u64) {
    let (key, n) = (keys[keys.len() - 1], keys.len() as u64);
    assert_eq!(memtable.get(SPACE, &[key], SeqNo(upper)).is_some(), n <= upper);
}

/// Seeking every key, and every gap, finds the first key up to `upper` that is not before it.
fn seeks(memtable: &Arc<Memtable>, keys: &[u8], upper: u64) {
    let expected = expected(keys, upper);
    let mut cursor = memtable.cursor(SPACE);
    for key in keys {
        for bytes in [&[*key][..], &[*key, b'+']] {
            let target = InternalKey::new(bytes, SeqNo(upper));
            cursor.seek(target).expect("moves");
            assert!(!cursor.valid() || cursor.internal_key() >= target, "before what was sought");
            while cursor.valid() && cursor.seqno().0 > upper {
                cursor.next().expect("moves");
            }
            let found = cursor.valid().then(|| cursor.key()[0]);
            assert_eq!(found, expected.iter().copied().find(|expected| &[*expected][..] >= bytes));

            cursor.seek_before(target).expect("moves");
            assert!(!cursor.valid() || cursor.internal_key() < target, "not before what was sought");
            while cursor.valid() && cursor.seqno().0 > upper {
                cursor.prev().expect("moves");
            }
            let found = cursor.valid().then(|| cursor.key()[0]);
            assert_eq!(found, expected.iter().rev().copied().find(|expected| &[*expected][..] < bytes));
        }
    }
}

fn expected(keys: &[u8], upper: u64) -> Vec<u8> {
    let mut expected: Vec<u8> =
        keys.iter().copied().zip(1..).filter(|(_, n)| *n <= upper).map(|(k, _)| k).collect();
    expected.sort_unstable();
    expected
}

fn collect(cursor: &mut MemtableCursor, upper: u64, step: fn(&mut MemtableCursor)) -> Vec<u8> {
    let mut seen = Vec::new();
    while cursor.valid() {
        assert_eq!(cursor.key(), cursor.value());
        if cursor.seqno().0 <= upper {
            seen.push(cursor.key()[0]);
        }
        step(cursor);
    }
    seen
}

/// A walk meets every key up to `upper` once, in order.
fn walks_forward(memtable: &Arc<Memtable>, keys: &[u8], upper: u64) {
    let mut cursor = memtable.cursor(SPACE);
    cursor.seek_first().expect("moves");
    let seen = collect(&mut cursor, upper, |cursor| cursor.next().expect("moves"));
    assert_eq!(seen, expected(keys, upper));
}

/// The same from the other end.
fn walks_backward(memtable: &Arc<Memtable>, keys: &[u8], upper: u64) {
    let mut cursor = memtable.cursor(SPACE);
    cursor.seek_last().expect("moves");
    let mut seen = collect(&mut cursor, upper, |cursor| cursor.prev().expect("moves"));
    seen.reverse();
    assert_eq!(seen, expected(keys, upper));
}

/// A leaf fills.
#[test]
fn the_first_leaf() {
    beside_a_writer(3, b"cba", 1, gets);
    beside_a_writer(3, b"cba", 1, seeks);
    beside_a_writer(3, b"bca", 1, walks_forward);
}

/// A leaf among others is replaced by two.
#[test]
fn a_leaf_splits() {
    // Leaves after seven: a b | c d | e f g, the last one full.
    beside_a_writer(3, b"gfedcbah", 6, gets);
    beside_a_writer(2, b"gfedcbah", 6, seeks);
    beside_a_writer(2, b"adgbehcfi", 7, walks_forward);
    beside_a_writer(2, b"adgbehcfi", 7, walks_backward);
}

/// The only leaf is replaced, and a root put above.
#[test]
fn the_root_splits() {
    beside_a_writer(3, b"bdac", 3, gets);
    beside_a_writer(3, b"bdac", 3, seeks);
    beside_a_writer(3, b"bdac", 3, walks_forward);
    beside_a_writer(3, b"bdac", 3, walks_backward);
}

/// Keys in order: a full leaf stays and the next one takes over.
#[test]
fn keys_in_order() {
    beside_a_writer(3, b"abcde", 3, gets);
    beside_a_writer(2, b"abcdefgh", 6, seeks);
    beside_a_writer(2, b"abcdefgh", 6, walks_forward);
    beside_a_writer(2, b"abcdefgh", 6, walks_backward);
}

/// Inner nodes split too, by replacement and in order.
#[test]
fn an_inner_node_splits() {
    beside_a_writer(2, b"hgfedcba0", 8, get_last);
    beside_a_writer(2, b"hgfedcba0", 8, gets);
    beside_a_writer(2, b"hgfedcba0", 8, seeks);
    beside_a_writer(2, b"abcdefghijklm", 12, gets);
    beside_a_writer(2, b"abcdefghijklm", 12, seeks);
    beside_a_writer(2, b"abcdefghijklm", 12, walks_backward);
}

/// A tombstone whose number a reader has loaded is among the fragments it gets.
#[test]
fn tombstones_are_never_missed() {
    loom::model(|| {
        let (memtable, mut writer) = Memtable::new();
        writer.insert(SPACE, b"k", SeqNo(1), Kind::Put, b"");
        let published = Arc::new(AtomicU64::new(1));
        let writing = {
            let published = Arc::clone(&published);
            thread::spawn(move || {
                for n in 2..=3 {
                    writer.delete_range(SPACE, b"a", b"z", SeqNo(n));
                    published.store(n, Ordering::Release);
                }
            })
        };
        for _ in 0..2 {
            let upper = published.load(Ordering::Acquire);
            let fragments = memtable.tombstones(SPACE);
            let covering = fragments.and_then(|fragments| fragments.covering(b"k", SeqNo(upper)));
            assert_eq!(covering, (upper > 1).then_some(SeqNo(upper)));
        }
        writing.join().expect("the writer does not panic");
    });
}
