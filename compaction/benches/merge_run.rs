//! How fast a merge run is: four tables of 16 B keys and 100 B values on files in memory, one core.
//!
//! `cargo bench -p esker-compaction --bench merge_run [-- REPEAT PART]` prints, for each shape of input,
//! megabytes of keys and values a second, and nanoseconds a row, of the whole run (merge, write, read
//! back) and of its parts alone.
#![expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
#![expect(clippy::unwrap_used, reason = "a benchmark that fails stops with the line")]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use esker_base::filename::FileName;
use esker_base::ledger::Ledger;
use esker_base::merge::Merge;
use esker_base::table_meta::TableMeta;
use esker_base::{Cursor, DatabaseId, FileNumber, KeyspaceId, Kind, OpCost, SeqNo};
use esker_compaction::{Below, BlobRules, Cut, MakeWriter, MergeRun, Part, RunInput, RunSource};
use esker_sstable::{
    BlockCache, CursorOptions, TableContext, TableIdentity, TableOptions, TableReader, TableSource,
    TableWriter,
};
use esker_vfs::mem::MemFs;
use esker_vfs::open_files::OpenFiles;

const TABLES: u64 = 4;
const ROWS: u64 = 250_000;
const ROW_BYTES: u64 = 116;

struct Bench {
    context: TableContext,
    next: Arc<AtomicU64>,
}

/// Which table row `n` of all rows is in.
#[derive(Clone, Copy, Debug)]
enum Shape {
    /// Any: every step changes the leader three times out of four.
    Interleaved,
    /// A hundred neighbours at a time.
    Runs,
    /// One table holds 97 rows of 100.
    OneLarge,
    /// Interleaved, and keys share their first twelve bytes, so that heads decide nothing.
    SharedPrefix,
    /// The same keys in every table: one row of four survives.
    Overwrites,
}

fn mix(n: u64) -> u64 {
    let mut x = n.wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

impl Shape {
    fn table(self, row: u64) -> u64 {
        match self {
            Shape::Interleaved | Shape::SharedPrefix => mix(row) % TABLES,
            Shape::Runs => (row / 100) % TABLES,
            Shape::OneLarge => {
                if mix(row) % 100 < 97 {
                    0
                } else {
                    mix(row) % TABLES
                }
            }
            Shape::Overwrites => row % TABLES,
        }
    }

    fn key(self, row: u64) -> [u8; 16] {
        let mut key = [0; 16];
        match self {
            Shape::SharedPrefix => {
                key[..12].copy_from_slice(b"user:account");
                key[12..].copy_from_slice(&u32::try_from(row).unwrap().to_be_bytes());
            }
            Shape::Overwrites => key[..8].copy_from_slice(&(row / TABLES).to_be_bytes()),
            _ => {
                // Spread over the key space, in row order.
                key[..8].copy_from_slice(&(row << 40).to_be_bytes());
                key[8..].copy_from_slice(&mix(row).to_be_bytes());
            }
        }
        key
    }
}

fn value(row: u64) -> [u8; 100] {
    let mut value = [b'x'; 100];
    for (at, chunk) in value[..48].chunks_mut(8).enumerate() {
        chunk.copy_from_slice(&mix(row + at as u64).to_be_bytes());
    }
    value
}

impl Bench {
    fn new() -> Bench {
        let ledger = Arc::new(Ledger::default());
        let context = TableContext {
            files: OpenFiles::new(Arc::new(MemFs::new()), usize::MAX),
            dir: PathBuf::from("/"),
            database: DatabaseId([1; 16]),
            cache: BlockCache::new(1 << 20, Arc::clone(&ledger)),
            ledger,
            source: TableSource::Buffered,
        };
        Bench { context, next: Arc::new(AtomicU64::new(1)) }
    }

    fn maker(&self) -> MakeWriter {
        let (context, next) = (self.context.clone(), Arc::clone(&self.next));
        Box::new(move || {
            let number = FileNumber(next.fetch_add(1, Ordering::Relaxed));
            let id = TableIdentity { database: context.database, number, keyspace: KeyspaceId(1) };
            TableWriter::create(context.files.fs(), &context.dir, id, TableOptions::default(), 0)
        })
    }

    fn tables(&self, shape: Shape) -> Vec<TableMeta> {
        let mut make = self.maker();
        let mut writers: Vec<TableWriter> = (0..TABLES).map(|_| make().unwrap()).collect();
        for row in 0..TABLES * ROWS {
            let table = shape.table(row);
            let writer = &mut writers[usize::try_from(table).unwrap()];
            let seqno = SeqNo(1 + table * 10_000_000 + mix(row) % 10_000_000);
            writer.add(&shape.key(row), seqno, Kind::Put, &value(row)).unwrap();
        }
        writers.into_iter().map(|writer| writer.finish().unwrap()).collect()
    }

    fn readers(&self, tables: &[TableMeta]) -> Vec<Arc<TableReader>> {
        tables.iter().map(|meta| Arc::new(TableReader::open(&self.context, meta).unwrap())).collect()
    }

    fn run(&self, tables: &[TableMeta]) -> Vec<TableMeta> {
        let sources = tables
            .iter()
            .zip(self.readers(tables))
            .map(|(meta, reader)| RunSource::of_tables(&[reader], vec![meta.clone()]))
            .collect();
        let mut run = MergeRun::new(RunInput {
            sources,
            snapshots: vec![SeqNo(1 << 50)],
            below: Below::nothing(),
            output_level: 6,
            part: Part::default(),
            operator: None,
            cut: Cut::by_size(32 << 20),
            outputs: self.maker(),
            blobs: BlobRules::none(),
            context: self.context.clone(),
            remove: Box::new(|_| ()),
        });
        while !run.step(1 << 20).unwrap() {}
        run.finish().unwrap().tables
    }

    /// Only walk over the merged rows.
    fn walk(&self, tables: &[TableMeta]) -> u64 {
        let options = CursorOptions { fill_cache: false, readahead: true };
        let cursors = self.readers(tables).iter().map(|reader| reader.cursor(options)).collect();
        let mut merge = Merge::new(cursors);
        merge.seek_first().unwrap();
        let mut sum = 0;
        while merge.valid() {
            sum += u64::from(merge.key()[0]) + merge.value().len() as u64;
            merge.next().unwrap();
        }
        sum
    }

    fn remove(&self, tables: &[TableMeta]) {
        for table in tables {
            let path = self.context.dir.join(FileName::Table(table.number).to_string());
            self.context.files.fs().remove(&path).unwrap();
        }
    }
}

/// What the command line asks for.
struct Asked {
    repeat: u32,
    /// Only parts whose name holds this.
    part: String,
}

impl Asked {
    /// Measure one part and print it.
    fn measure(&self, what: &str, rows: u64, once: impl FnMut()) {
        if what.contains(&self.part) {
            let seconds = best(self.repeat, once);
            let megabytes = (rows * ROW_BYTES) as f64 / seconds / 1e6;
            println!("  {what:<28} {megabytes:>7.0} MB/s {:>7.1} ns/row", seconds * 1e9 / rows as f64);
        }
    }
}

/// Time this thread has run, in seconds: other work on the machine does not count. Where the system does
/// not tell, the time since `start`.
fn thread_seconds(start: Instant) -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = stat.split(' ').next().and_then(|number| number.parse::<f64>().ok());
    nanoseconds.map_or_else(|| start.elapsed().as_secs_f64(), |number| number / 1e9)
}

/// The best of several times, in seconds.
fn best(repeat: u32, mut once: impl FnMut()) -> f64 {
    let start = Instant::now();
    let times = (0..repeat).map(|_| {
        let before = thread_seconds(start);
        once();
        thread_seconds(start) - before
    });
    times.fold(f64::INFINITY, f64::min)
}

fn main() {
    let mut asked = Asked { repeat: 3, part: String::new() };
    for arg in std::env::args().skip(1).filter(|arg| !arg.starts_with("--")) {
        match arg.parse() {
            Ok(repeat) => asked.repeat = repeat,
            Err(_) => asked.part = arg,
        }
    }
    for shape in [Shape::Interleaved, Shape::Runs, Shape::OneLarge, Shape::SharedPrefix, Shape::Overwrites]
    {
        let bench = Bench::new();
        let tables = bench.tables(shape);
        println!("{shape:?}");
        let rows = TABLES * ROWS;
        asked.measure("whole run", rows, || bench.remove(&bench.run(&tables)));
        asked.measure("walking the merge", rows, || assert!(bench.walk(&tables) > 0));
        let outputs = bench.run(&tables);
        let written = outputs.iter().map(|meta| meta.entries).sum();
        asked.measure("walking the output", written, || assert!(bench.walk(&outputs) > 0));
        let verify = || {
            for reader in bench.readers(&outputs) {
                reader.verify(&mut OpCost::default()).unwrap();
            }
        };
        asked.measure("verifying the output", written, verify);
        let rewrite = || {
            let mut make = bench.maker();
            let mut writer = make().unwrap();
            for row in 0..written {
                writer.add(&shape.key(row * rows / written), SeqNo(0), Kind::Put, &value(0)).unwrap();
            }
            bench.remove(&[writer.finish().unwrap()]);
        };
        asked.measure("writing as much", written, rewrite);
    }
}
