//! One writer and several readers at the same time.
#![expect(clippy::disallowed_methods, reason = "real threads are what is tested")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use esker_base::cursor::APPROACH_STEPS;

use super::*;

const ROWS: u64 = if cfg!(miri) { 120 } else { 60_000 };
const READERS: u64 = if cfg!(miri) { 2 } else { 3 };

/// The key of the `n`-th write: every third overwrites an earlier key, some ascend, some are
/// scattered, all share a prefix longer than a head.
fn key_of(n: u64) -> Vec<u8> {
    let n = if n % 3 == 2 { n / 2 } else { n };
    let scattered = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
    let at = if n.is_multiple_of(2) { n } else { scattered };
    format!("a prefix longer than a head/{at:09}").into_bytes()
}

/// Readers that load the published number find every write up to it, by get and by both walks,
/// complete and in order.
#[test]
fn readers_see_everything_published() {
    let (memtable, mut writer) = Memtable::new();
    let published = AtomicU64::new(0);
    thread::scope(|scope| {
        for reader in 0..READERS {
            let (memtable, published) = (&memtable, &published);
            scope.spawn(move || {
                let mut random = fastrand(reader);
                let mut cursor = memtable.cursor(SPACE);
                loop {
                    let upper = published.load(Ordering::Acquire);
                    for _ in 0..if cfg!(miri) { 3 } else { 50 } {
                        let n = random() % (upper + 1);
                        if n > 0 {
                            let key = key_of(n);
                            let found = memtable
                                .get(SPACE, &key, SeqNo(upper))
                                .expect("what was published is found");
                            assert!(found.seqno >= SeqNo(n) && found.seqno <= SeqNo(upper));
                            assert_eq!(found.value, found.seqno.0.to_le_bytes());
                            let target = InternalKey::new(&key, SeqNo(upper));
                            for step in 0..APPROACH_STEPS {
                                cursor.approach(target, step);
                            }
                            cursor.seek(target).expect("moves");
                            assert_eq!(cursor.seqno(), found.seqno, "sought what was got");
                        }
                    }
                    let forward = random().is_multiple_of(2);
                    assert_eq!(walk(&mut cursor, forward, upper), upper, "published entries walked");
                    if upper == ROWS {
                        break;
                    }
                }
            });
        }
        for n in 1..=ROWS {
            writer.insert(SPACE, &key_of(n), SeqNo(n), Kind::Put, &n.to_le_bytes());
            published.store(n, Ordering::Release);
        }
    });
}

/// Walk everything; checks order and values; returns how many entries up to `upper` were met.
fn walk(cursor: &mut MemtableCursor, forward: bool, upper: u64) -> u64 {
    let mut met = 0;
    let mut last: Option<(Vec<u8>, SeqNo)> = None;
    if forward { cursor.seek_first() } else { cursor.seek_last() }.expect("moves");
    while cursor.valid() {
        assert_eq!(cursor.value(), cursor.seqno().0.to_le_bytes());
        if let Some((key, seqno)) = &last {
            let order = cursor.internal_key().cmp(&InternalKey::new(key, *seqno));
            assert!(if forward { order.is_gt() } else { order.is_lt() }, "out of order");
        }
        met += u64::from(cursor.seqno().0 <= upper);
        last = Some((cursor.key().to_vec(), cursor.seqno()));
        if forward { cursor.next() } else { cursor.prev() }.expect("moves");
    }
    met
}

/// A reader never misses a tombstone that its number covers.
#[test]
fn readers_see_every_published_tombstone() {
    let (memtable, mut writer) = Memtable::new();
    let published = AtomicU64::new(0);
    let count = if cfg!(miri) { 20 } else { 400 };
    thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| {
                loop {
                    let upper = published.load(Ordering::Acquire);
                    let fragments = memtable.tombstones(SPACE, SeqNo(upper));
                    if upper > 0 {
                        let key = format!("{upper:06}");
                        let fragments = fragments.expect("a tombstone was published");
                        assert_eq!(fragments.covering(key.as_bytes(), SeqNo(upper)), Some(SeqNo(upper)));
                    }
                    if upper == count {
                        break;
                    }
                }
            });
        }
        for n in 1..=count {
            let (start, end) = (format!("{n:06}"), format!("{:06}", n + 1));
            writer.delete_range(SPACE, start.as_bytes(), end.as_bytes(), SeqNo(n));
            published.store(n, Ordering::Release);
        }
    });
}

/// A small generator: the test needs variety, not quality.
fn fastrand(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}
