//! Micro-benchmarks of the leaves and of the shortest ways through the engine: `cargo bench -p
//! esker-bench`. For comparing two builds on one machine; single absolute times say little.

mod layouts;

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use esker::{Database, KeyspaceOptions};
use esker_base::checksum::{ChecksumSeed, key_hash};
use esker_base::cursor::{Cursor, OwnedEntry, VecCursor};
use esker_base::merge::Merge;
use esker_base::{DatabaseId, FileNumber, Kind, SeqNo};
use esker_layouts::tuple::{pack, unpack};
use esker_vfs::fs::Fs;
use esker_vfs::mem::MemFs;
use esker_wal::{LogIdentity, LogKind, LogWriter};

const ROWS: u64 = 100_000;

fn key(n: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes());
    key[8..].copy_from_slice(&n.to_be_bytes());
    key
}

fn leaves(c: &mut Criterion) {
    let (short, block) = ([7u8; 16], [7u8; 4096]);
    let seed = ChecksumSeed::new(DatabaseId([1; 16]), FileNumber(1));
    c.bench_function("xxh3 of a 16 B key", |b| b.iter(|| key_hash(black_box(&short))));
    c.bench_function("seeded crc32 of a 4 KiB block", |b| {
        b.iter(|| seed.checksum(64, &[black_box(&block)]));
    });
    let fields = ("user", 42i64, -7i64);
    let packed = pack(&fields);
    c.bench_function("pack a tuple of three", |b| b.iter(|| pack(black_box(&fields))));
    c.bench_function("unpack a tuple of three", |b| {
        b.iter(|| unpack::<(String, i64, i64)>(black_box(&packed)));
    });
}

fn log(c: &mut Criterion) {
    let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
    let dir = std::path::Path::new("/log");
    fs.create_dir(dir).expect("a directory in memory");
    let (payload, mut number) = ([7u8; 111], 0);
    c.bench_function("stage and write a 140 B record", |b| {
        b.iter_batched_ref(
            || {
                number += 1;
                let number = FileNumber(number);
                let id = LogIdentity { database: DatabaseId([1; 16]), number, kind: LogKind::WriteAhead };
                LogWriter::create(&*fs, dir, id, None, 0).expect("a log in memory")
            },
            |log| {
                log.stage(1, &[&payload]);
                log.write().expect("memory takes it")
            },
            BatchSize::NumIterations(10_000),
        );
    });
}

fn merge(c: &mut Criterion) {
    let source = |part: u64| {
        let entries = (0..ROWS / 4).map(|n| OwnedEntry {
            key: key(n * 4 + part).to_vec(),
            seqno: SeqNo(n + 1),
            kind: Kind::Put,
            value: Vec::new(),
        });
        VecCursor::new(entries.collect())
    };
    let mut group = c.benchmark_group("merge");
    group.throughput(Throughput::Elements(ROWS));
    group.bench_function("four interleaved sources", |b| {
        let mut merge = Merge::new((0..4).map(source).collect());
        b.iter(|| {
            let mut rows = 0u64;
            merge.seek_first().expect("vectors do not fail");
            while merge.valid() {
                rows += u64::from(merge.key()[0] & 1) + 1;
                merge.next().expect("vectors do not fail");
            }
            rows
        });
    });
    group.finish();
}

fn engine(c: &mut Criterion) {
    let db = Database::in_memory().expect("a database in memory");
    let rows = db.keyspace("rows", KeyspaceOptions::default()).expect("a keyspace");
    for n in 0..ROWS {
        rows.put(key(n), [7; 100]).expect("memory takes it");
    }
    let mut n = 0;
    let mut next = move || {
        n = (n + 7919) % ROWS;
        n
    };
    c.bench_function("get from the memtable", |b| b.iter(|| rows.get_with(key(next()), <[u8]>::len)));
    db.flush().expect("a flush");
    c.bench_function("get from a cached table", |b| b.iter(|| rows.get_with(key(next()), <[u8]>::len)));
    c.bench_function("get of an absent key", |b| b.iter(|| rows.contains(key(next() + ROWS))));
    c.bench_function("put, overwriting", |b| b.iter(|| rows.put(key(next()), [8; 100])));
    let mut cursor = rows.cursor().expect("a cursor");
    c.bench_function("seek and ten steps", |b| {
        b.iter(|| {
            let mut more = cursor.seek(key(next())).expect("a seek");
            for _ in 0..10 {
                more = more && cursor.next().expect("a step");
            }
            more
        });
    });
}

criterion_group!(all, leaves, log, merge, engine, layouts::layouts);
criterion_main!(all);
