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
    std::fs::read_to_string("/proc/thread-self/schedstat").ok()?.split(' ').next()?.parse().ok()
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

#[test]
fn costs() {
    let measured = std::env::var_os("ESKER_MEASURE").is_some();
    let rows: u64 = match std::env::var("ESKER_MEASURE").map(|rows| rows.parse()) {
        Ok(Ok(rows)) if rows > 1 => rows,
        Ok(_) => 500_000,
        Err(_) => 300,
    };
    let value = [0x5A; 100];
    let report = |what: &str, start: Timer| {
        if measured {
            let nanos = start.nanos() / rows as f64;
            println!("    {what:<28} {nanos:8.1} ns");
        }
    };
    for (name, key_of) in shapes() {
        if measured {
            println!("{name}, {rows} rows of 16 B + 100 B");
        }
        let keys: Vec<[u8; 16]> = (0..rows).map(key_of).collect();
        let asked: Vec<[u8; 16]> = (0..rows).map(|n| key_of((n * 7_919) % rows)).collect();
        let absent: Vec<[u8; 16]> = asked
            .iter()
            .map(|key| {
                let mut key = *key;
                key[15] ^= 1;
                key[14] ^= 0x80;
                key
            })
            .collect();

        let (memtable, mut writer) = Memtable::new();
        let start = Timer::start();
        for (key, n) in keys.iter().zip(1..) {
            writer.insert(SPACE, key, SeqNo(n), Kind::Put, &value);
        }
        report("insert", start);
        if measured {
            println!("    {:<28} {:8.1} B", "memory a row", memtable.bytes() as f64 / rows as f64);
        }

        let start = Timer::start();
        let mut found = 0;
        for key in &asked {
            found += u64::from(black_box(memtable.get(SPACE, key, SeqNo::MAX)).is_some());
        }
        report("get, present", start);
        assert_eq!(found, rows);
        let start = Timer::start();
        let mut found = 0;
        for key in &absent {
            found += u64::from(black_box(memtable.get(SPACE, key, SeqNo::MAX)).is_some());
        }
        report("get, absent", start);
        assert!(found < rows);

        let mut cursor = memtable.cursor(SPACE);
        let start = Timer::start();
        let mut count = 0;
        cursor.seek_first().expect("moves");
        while cursor.valid() {
            count += 1;
            cursor.next().expect("moves");
        }
        report("step forward", start);
        assert_eq!(count, rows);
        let start = Timer::start();
        let mut sum = 0;
        cursor.seek_first().expect("moves");
        while cursor.valid() {
            sum += cursor.key().len() + usize::from(cursor.value()[99]);
            black_box((cursor.key(), cursor.seqno(), cursor.kind()));
            cursor.next().expect("moves");
        }
        black_box(sum);
        report("step forward, reading", start);
        let start = Timer::start();
        cursor.seek_last().expect("moves");
        while cursor.valid() {
            sum += cursor.key().len() + usize::from(cursor.value()[99]);
            black_box((cursor.key(), cursor.seqno(), cursor.kind()));
            cursor.prev().expect("moves");
        }
        black_box(sum);
        report("step backward, reading", start);
        let start = Timer::start();
        drop((cursor, memtable, writer));
        report("drop", start);

        let mut map = BTreeMap::new();
        let start = Timer::start();
        for key in &keys {
            map.insert(*key, value);
        }
        report("BTreeMap insert", start);
        let start = Timer::start();
        for key in &asked {
            black_box(map.get(key));
        }
        report("BTreeMap get, present", start);
        let start = Timer::start();
        for (key, value) in &map {
            black_box((key, value[99]));
        }
        report("BTreeMap step, reading", start);
        assert_eq!(map.len() as u64, rows);
    }
}
