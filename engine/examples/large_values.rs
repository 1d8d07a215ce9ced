//! Long values, by how they are kept: fill, overwrite twice, get and scan, with what each wrote and what is on the
//! disk. `cargo run --release -p esker --example large_values -- DIR [ROWS [VALUE_BYTES [BLOB_BYTES_MIN]]]`, in a
//! directory that does not exist yet.
#![expect(clippy::disallowed_methods, reason = "a program of its own, with arguments and a clock")]

use std::time::Instant;

use esker::{Database, DatabaseOptions, Keyspace, KeyspaceOptions, Result};

/// Knuth's MMIX generator; its high bits are the good ones.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

struct Run {
    db: Database,
    map: Keyspace,
    rows: u64,
    value: Vec<u8>,
}

fn key(row: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&row.to_be_bytes());
    key
}

impl Run {
    /// Put `rows`, and wait until everything has settled.
    fn put(&mut self, what: &str, rows: impl Iterator<Item = u64>) -> Result<()> {
        let (before, began) = (self.db.metrics().counters, Instant::now());
        for row in rows {
            self.value[..8].copy_from_slice(&row.to_be_bytes());
            self.map.put(key(row), &self.value)?;
        }
        let took = began.elapsed();
        self.db.flush()?;
        self.db.wait_for_compactions()?;
        let metrics = self.db.metrics();
        let now = metrics.counters;
        let bytes = |from: u64, to: u64| (to - from) as f64 / (now.user_bytes - before.user_bytes) as f64;
        println!(
            "{what:<10} {:>9.0} rows/s, settled {:>9.0}; written for each byte: log {:.2}, flushes {:.2}, compactions {:.2}",
            self.rows as f64 / took.as_secs_f64(),
            self.rows as f64 / began.elapsed().as_secs_f64(),
            bytes(before.log_bytes, now.log_bytes),
            bytes(before.flushed_bytes, now.flushed_bytes),
            bytes(before.compacted_bytes_out, now.compacted_bytes_out),
        );
        let live = self.rows * (16 + self.value.len() as u64);
        println!(
            "{:<10} {:.2} of the live bytes on the disk: tables {} MiB, blob files {} MiB",
            "",
            (metrics.table_bytes + metrics.blob_bytes) as f64 / live as f64,
            metrics.table_bytes >> 20,
            metrics.blob_bytes >> 20,
        );
        Ok(())
    }

    fn read(&self, what: &str, read: impl FnOnce() -> Result<u64>) -> Result<()> {
        let began = Instant::now();
        let bytes = read()?;
        let seconds = began.elapsed().as_secs_f64();
        println!("{what:<10} {:>9.0} rows/s, {} MiB", self.rows as f64 / seconds, bytes >> 20);
        Ok(())
    }
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |nth: usize, default: u64| {
        arguments.get(nth).map_or(default, |text| text.parse().expect("a number"))
    };
    let dir = arguments.first().expect("name a directory");
    let (rows, value_bytes) = (number(1, 125_000), number(2, 16_384));
    let blob_bytes_min = u32::try_from(number(3, 4096)).expect("a small number");
    let options = DatabaseOptions { cache_bytes: 1 << 30, ..DatabaseOptions::default() };
    let db = Database::builder(dir).options(options).open()?;
    let map = db.keyspace("map", KeyspaceOptions::default().with_blob_bytes_min(blob_bytes_min))?;
    let value = vec![7; usize::try_from(value_bytes.max(8)).expect("it fits")];
    let mut run = Run { db, map, rows, value };
    let mut random = Random(1);
    let mut order: Vec<u64> = (0..rows).collect();
    for at in (1..rows).rev() {
        order.swap(
            usize::try_from(at).expect("it fits"),
            usize::try_from(random.below(at + 1)).expect("it fits"),
        );
    }
    run.put("fill", order.iter().copied())?;
    for pass in ["overwrite", "again"] {
        // Any key at any time: some thrice, some not at all.
        run.put(pass, (0..rows).map(|_| random.below(rows)))?;
    }
    let sum = |bytes: &[u8]| bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>().max(1);
    for pass in ["get", "get"] {
        run.read(pass, || {
            let mut bytes = 0;
            for _ in 0..rows {
                let value = run.map.get(key(random.below(rows)))?.expect("every row is there");
                bytes += value.len() as u64 * sum(&value).min(1);
            }
            Ok(bytes)
        })?;
    }
    for pass in ["scan", "scan"] {
        run.read(pass, || {
            let mut cursor = run.map.cursor()?;
            let mut bytes = 0;
            let mut there = cursor.seek(b"")?;
            while there {
                bytes += cursor.value().len() as u64 * sum(cursor.value()).min(1);
                there = cursor.next()?;
            }
            Ok(bytes)
        })?;
    }
    run.db.close()
}
