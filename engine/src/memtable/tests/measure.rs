//! What the operations cost. Prints figures when `ESKER_MEASURE` is set:
//! `ESKER_MEASURE=1 cargo test --release -p esker memtable::tests::measure -- --nocapture`.
//! Without it the same code runs on a few rows, as a test.
//!
//! On Linux the figures are processor time of this thread, so that a busy machine spoils them less.
#![expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]

use std::hint::black_box;
use std::time::Instant;

use super::*;

/// A stretch of work being timed.
struct Timer {
    wall: Instant,
    cpu: Option<u64>,
}

impl Timer {
    fn start() -> Timer {
        Timer { cpu: cpu_nanos(), wall: Instant::now() }
    }

    fn nanos(&self) -> f64 {
        match (self.cpu, cpu_nanos()) {
            (Some(start), Some(end)) => (end - start) as f64,
            _ => self.wall.elapsed().as_nanos() as f64,
        }
    }
}

/// Nanoseconds this thread has run.
fn cpu_nanos() -> Option<u64> {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        u64::try_from(now.tv_sec * 1_000_000_000 + now.tv_nsec).ok()
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    None
}

/// Makes the `n`-th key.
type KeyOf = fn(u64) -> [u8; 16];

/// Keys in three shapes.
fn shapes() -> [(&'static str, KeyOf); 3] {
    fn scattered(n: u64) -> u64 {
        let n = (n ^ (n >> 31)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let n = (n ^ (n >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        n ^ (n >> 31)
    }
    fn random(n: u64) -> [u8; 16] {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&scattered(n).to_be_bytes());
        key[8..].copy_from_slice(&n.to_be_bytes());
        key
    }
    fn prefixed(n: u64) -> [u8; 16] {
        let mut key = *b"user/000........";
        key[8..].copy_from_slice(&scattered(n).to_be_bytes());
        key
    }
    fn ordered(n: u64) -> [u8; 16] {
        let mut key = *b"user/000........";
        key[8..].copy_from_slice(&n.to_be_bytes());
        key
    }
    [("random", random), ("random behind a prefix", prefixed), ("ordered", ordered)]
}

/// The least time of each measurement over the rounds, in nanoseconds an operation.
#[derive(Default)]
struct Figures(Vec<(&'static str, f64)>);

impl Figures {
    /// Do `work`, which is `operations` operations, and note what one took.
    fn time<T>(&mut self, what: &'static str, operations: u64, work: impl FnOnce() -> T) -> T {
        let timer = Timer::start();
        let result = black_box(work());
        let nanos = timer.nanos() / operations as f64;
        match self.0.iter_mut().find(|(name, _)| *name == what) {
            Some((_, least)) => *least = least.min(nanos),
            None => self.0.push((what, nanos)),
        }
        result
    }
}

#[test]
fn costs() {
    let (rows, rounds) = if std::env::var_os("ESKER_MEASURE").is_some() { (500_000, 7) } else { (100, 1) };
    for (name, key_of) in shapes() {
        let mut figures = Figures::default();
        let keys: Vec<[u8; 16]> = (0..rows).map(|n| key_of(2 * n)).collect();
        let present: Vec<[u8; 16]> = (0..rows).map(|n| key_of(2 * (n * 7_919 % rows))).collect();
        let absent: Vec<[u8; 16]> = (0..rows).map(|n| key_of(2 * (n * 7_919 % rows) + 1)).collect();
        let mut bytes = 0;
        for _ in 0..rounds {
            bytes = memtable_round(&mut figures, &keys, &present, &absent);
            btreemap_round(&mut figures, &keys, &present, &absent);
        }
        if rounds > 1 {
            println!("{name}, {rows} rows of 16 B + 100 B, {} B of memory a row", bytes / rows);
            for (what, nanos) in figures.0 {
                println!("    {what:<28} {nanos:8.1} ns");
            }
        }
    }
}

/// Returns the bytes held.
fn memtable_round(
    figures: &mut Figures,
    keys: &[[u8; 16]],
    present: &[[u8; 16]],
    absent: &[[u8; 16]],
) -> u64 {
    let rows = keys.len() as u64;
    let (memtable, mut writer) = Memtable::new();
    figures.time("insert", rows, || {
        for (key, n) in keys.iter().zip(1..) {
            writer.insert(SPACE, key, SeqNo(n), Kind::Put, &[0x5A; 100]);
        }
    });
    let found = |asked: &[[u8; 16]]| {
        asked.iter().filter(|key| black_box(memtable.get(SPACE, *key, SeqNo::MAX)).is_some()).count()
    };
    assert_eq!(figures.time("get, present", rows, || found(present)), keys.len());
    assert_eq!(figures.time("get, absent", rows, || found(absent)), 0);
    let mut cursor = memtable.cursor(SPACE);
    figures.time("seek", rows, || {
        for key in present {
            cursor.seek(InternalKey::before_all(key)).expect("moves");
            black_box(cursor.key());
        }
    });
    let mut walk = |forward: bool, read: bool| {
        let mut count = 0;
        if forward { cursor.seek_first() } else { cursor.seek_last() }.expect("moves");
        while cursor.valid() {
            if read {
                black_box((cursor.key(), cursor.seqno(), cursor.kind(), cursor.value()[99]));
            }
            count += 1;
            if forward { cursor.next() } else { cursor.prev() }.expect("moves");
        }
        count
    };
    assert_eq!(figures.time("step forward", rows, || walk(true, false)), rows);
    assert_eq!(figures.time("step backward", rows, || walk(false, false)), rows);
    assert_eq!(figures.time("step forward, reading", rows, || walk(true, true)), rows);
    assert_eq!(figures.time("step backward, reading", rows, || walk(false, true)), rows);
    let bytes = memtable.bytes();
    figures.time("drop", rows, || drop((cursor, memtable, writer)));
    bytes
}

fn btreemap_round(figures: &mut Figures, keys: &[[u8; 16]], present: &[[u8; 16]], absent: &[[u8; 16]]) {
    let rows = keys.len() as u64;
    let mut map = BTreeMap::new();
    figures.time("BTreeMap insert", rows, || {
        for key in keys {
            map.insert(*key, [0x5A; 100]);
        }
    });
    let found = |asked: &[[u8; 16]]| asked.iter().filter(|key| black_box(map.get(*key)).is_some()).count();
    assert_eq!(figures.time("BTreeMap get, present", rows, || found(present)), keys.len());
    assert_eq!(figures.time("BTreeMap get, absent", rows, || found(absent)), 0);
    let count = figures.time("BTreeMap step, reading", rows, || {
        map.iter().inspect(|(key, value)| _ = black_box((key, value[99]))).count()
    });
    assert_eq!(count, keys.len());
}
