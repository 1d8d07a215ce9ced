//! How fast tables are written and read, on one thread: nanoseconds a row and megabytes a second.
//!
//! `cargo run --release -p esker-sstable --example table_speed [rows [compression]]`
//!
//! Rows have 16-byte keys and 100-byte values, half of them compressible. Files are in memory, so that the
//! figures are those of this crate: `benches` measures the whole engine on a disk.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use esker_base::checksum::key_hash;
use esker_base::filename::FileName;
use esker_base::ledger::Ledger;
use esker_base::table_meta::TableMeta;
use esker_base::{Cursor, DatabaseId, FileNumber, InternalKey, KeyspaceId, Kind, OpCost, Result, SeqNo};
use esker_sstable::{
    BlockCache, Compression, CursorOptions, TableContext, TableIdentity, TableOptions, TableReader,
    TableSource, TableWriter,
};
use esker_vfs::Env;
use esker_vfs::open_files::OpenFiles;

/// What all measurements share.
struct Bench {
    env: Env,
    keys: Vec<[u8; 16]>,
    seed: u64,
    rounds: u32,
}

impl Bench {
    /// A repeatable stream of numbers (SplitMix64).
    fn random(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.seed;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.random() % n as u64).unwrap_or_default()
    }

    /// The best of several rounds: others use the machine too.
    fn report(&self, what: &str, count: usize, bytes: u64, mut work: impl FnMut()) {
        let mut took = f64::MAX;
        for _ in 0..self.rounds {
            let start = self.env.clock.monotonic();
            work();
            took = took.min(self.env.clock.monotonic().saturating_sub(start).as_secs_f64());
        }
        let rate =
            if bytes > 0 { format!(", {:.0} MB/s", bytes as f64 / took / 1e6) } else { String::new() };
        println!("{what:<44} {:>8.1} ns each{rate}", took * 1e9 / count as f64);
    }

    fn write(&self, number: u64, options: TableOptions, uniform: bool) -> Result<TableMeta> {
        let identity = TableIdentity {
            database: DatabaseId([1; 16]),
            number: FileNumber(number),
            keyspace: KeyspaceId(0),
        };
        let mut writer = TableWriter::create(&self.env.fs, Path::new("/"), identity, options, 0)?;
        let mut value = [b'x'; 100];
        for (i, key) in (0u64..).zip(&self.keys) {
            for (at, chunk) in (0u64..).zip(value[..50].as_chunks_mut::<10>().0) {
                chunk[..8].copy_from_slice(&key_hash(&(i * 8 + at).to_le_bytes()).to_le_bytes());
            }
            writer.add(key, SeqNo(if uniform { 0 } else { i + 1 }), Kind::Put, &value)?;
        }
        writer.finish()
    }

    fn open(&self, meta: &TableMeta, source: TableSource) -> Result<Arc<TableReader>> {
        let ledger = Arc::new(Ledger::default());
        let context = TableContext {
            files: OpenFiles::new(Arc::clone(&self.env.fs), usize::MAX),
            dir: "/".into(),
            database: DatabaseId([1; 16]),
            cache: BlockCache::new(4 << 30, Arc::clone(&ledger)),
            ledger,
            source,
        };
        TableReader::open(&context, meta).map(Arc::new)
    }
}

fn main() -> Result<()> {
    let rows: usize = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    let mut bench = Bench { env: Env::memory()?, keys: Vec::new(), seed: 42, rounds: 1 };
    let mut keys: Vec<[u8; 16]> = (0..rows)
        .map(|_| {
            let mut key = *b"user:00000000000";
            key[5..13].copy_from_slice(&bench.random().to_be_bytes());
            key
        })
        .collect();
    keys.sort_unstable();
    keys.dedup();
    let rows = keys.len();
    bench.keys = keys;
    let bytes = rows as u64 * 116;

    // All variants take a while: "none", "LZ4" or "zstd" as the second argument picks some.
    let wanted = std::env::args().nth(2).unwrap_or_default();
    let variants = [
        ("none", Compression::None),
        ("LZ4", Compression::Lz4),
        #[cfg(feature = "zstd")]
        ("zstd 3", Compression::Zstd { level: 3 }),
    ];
    let mut metas = Vec::new();
    for (number, (name, compression)) in (1..).zip(variants) {
        if !name.starts_with(&wanted) {
            continue;
        }
        for uniform in [false, true] {
            let options = TableOptions { compression, ..TableOptions::default() };
            let number = number * 2 + u64::from(uniform);
            let mut meta = None;
            let numbers = if uniform { "one seqno" } else { "many seqnos" };
            bench.rounds = 5;
            bench.report(&format!("write, {name}, {numbers}"), rows, bytes, || {
                let path = Path::new("/").join(FileName::Table(FileNumber(number)).to_string());
                // The first round finds nothing to remove.
                let _ = bench.env.fs.remove(&path);
                meta = Some(bench.write(number, options, uniform));
            });
            let meta = meta.ok_or(esker_base::Error::ReadOnly)??;
            println!("  {:.3} of the raw size", meta.file_bytes as f64 / bytes as f64);
            metas.push((format!("{name}, {numbers}"), meta));
        }
    }
    for (name, meta) in &metas {
        for source in [TableSource::Buffered, TableSource::Mapped] {
            println!("-- {name}, {source:?}");
            read(&mut bench, meta, source)?;
        }
    }
    Ok(())
}

fn scan(cursor: &mut impl Cursor, forward: bool) -> Result<u64> {
    let mut sum = 0u64;
    if forward {
        cursor.seek_first()?;
    } else {
        cursor.seek_last()?;
    }
    while cursor.valid() {
        sum = sum
            .wrapping_add(u64::from(black_box(cursor.key())[15]) + u64::from(black_box(cursor.value())[0]));
        if forward {
            cursor.next()?;
        } else {
            cursor.prev()?;
        }
    }
    Ok(sum)
}

fn read(bench: &mut Bench, meta: &TableMeta, source: TableSource) -> Result<()> {
    let reader = bench.open(meta, source)?;
    let mut failed = None;
    let mut check = |result: Result<u64>| failed = failed.take().or(result.err());
    scans(bench, &reader, &mut check);
    points(bench, &reader, &mut check);
    failed.map_or(Ok(()), Err)
}

/// Whole scans, with a cold and a warm cache, and the step by itself.
fn scans(bench: &mut Bench, reader: &Arc<TableReader>, check: &mut impl FnMut(Result<u64>)) {
    let rows = bench.keys.len();
    let ahead = CursorOptions { fill_cache: false, readahead: true };
    bench.rounds = 3;
    bench.report("scan, uncached, reading ahead", rows, rows as u64 * 116, || {
        check(scan(&mut reader.cursor(ahead), true));
    });
    bench.rounds = 1;
    bench.report("scan, filling the cache", rows, 0, || {
        check(scan(&mut reader.cursor(CursorOptions::default()), true));
    });
    bench.rounds = 7;
    bench.report("scan forward, cached", rows, 0, || {
        check(scan(&mut reader.cursor(CursorOptions::default()), true));
    });
    bench.report("scan back, cached", rows, 0, || {
        check(scan(&mut reader.cursor(CursorOptions::default()), false));
    });
    // One block only: the step itself, without memory.
    let mut cursor = reader.cursor(CursorOptions::default());
    let steps = 10_000_000;
    for forward in [true, false] {
        let name = if forward { "step forward within a block" } else { "step back within a block" };
        bench.report(name, steps, 0, || {
            check((|| {
                let mut done = 0;
                let mut sum = 0u64;
                while done < steps {
                    cursor.seek(InternalKey::before_all(&bench.keys[if forward { 0 } else { 30 }]))?;
                    for _ in 0..30 {
                        sum += u64::from(black_box(cursor.key())[15])
                            + u64::from(black_box(cursor.value())[0]);
                        if forward {
                            cursor.next()?;
                        } else {
                            cursor.prev()?;
                        }
                        done += 1;
                        if !cursor.valid() {
                            break;
                        }
                    }
                }
                Ok(sum)
            })());
        });
    }
}

/// Seeks and gets, near and anywhere, and the whole table verified.
fn points(bench: &mut Bench, reader: &Arc<TableReader>, check: &mut impl FnMut(Result<u64>)) {
    let rows = bench.keys.len();
    let mut cursor = reader.cursor(CursorOptions::default());
    let picks: Vec<usize> = (0..1 << 16).map(|_| bench.below(rows)).collect();
    let near: Vec<usize> = (0..1 << 16).map(|_| bench.below(30)).collect();
    let count = 1 << 18;
    bench.report("seek within the current block", count, 0, || {
        check((|| {
            for &pick in near.iter().cycle().take(count) {
                cursor.seek(InternalKey::before_all(&bench.keys[pick]))?;
                black_box(cursor.key());
            }
            Ok(0)
        })());
    });
    bench.report("seek anywhere, cached", count, 0, || {
        check((|| {
            for &pick in picks.iter().cycle().take(count) {
                cursor.seek(InternalKey::before_all(&bench.keys[pick]))?;
                black_box(cursor.key());
            }
            Ok(0)
        })());
    });
    for (name, picks) in [("get anywhere, cached", &picks), ("get within one block, cached", &near)] {
        bench.report(name, count, 0, || {
            check((|| {
                let mut cost = OpCost::default();
                for &pick in picks.iter().cycle().take(count) {
                    let key = &bench.keys[pick];
                    black_box(reader.get(key, key_hash(key), SeqNo::MAX, &mut cost)?);
                }
                Ok(0)
            })());
        });
    }
    bench.report("get_with anywhere, cached", count, 0, || {
        check((|| {
            let mut cost = OpCost::default();
            for &pick in picks.iter().cycle().take(count) {
                let key = &bench.keys[pick];
                reader
                    .get_with(key, key_hash(key), SeqNo::MAX, None, &mut cost, |e| black_box(e.value[0]))?;
            }
            Ok(0)
        })());
    });
    let absent: Vec<[u8; 16]> = (0..1 << 16)
        .map(|_| {
            let pick = bench.below(rows);
            let mut key = bench.keys[pick];
            key[15] = b'!';
            key
        })
        .collect();
    let mut cost = OpCost::default();
    bench.report("get absent", count, 0, || {
        check((|| {
            for key in absent.iter().cycle().take(count) {
                black_box(reader.get(key, key_hash(key), SeqNo::MAX, &mut cost)?);
            }
            Ok(0)
        })());
    });
    println!(
        "  {:.2} % false positives",
        cost.filter_false_positives as f64 * 100.0 / (count as f64 * f64::from(bench.rounds))
    );
    bench.rounds = 3;
    bench.report("verify", rows, rows as u64 * 116, || check(reader.verify(&mut cost).map(|()| 0)));
}
