//! A database of more tables than the process may have files open, as every database becomes that grows: in a process of
//! its own, whose descriptors are few, with default options but for the tables' size.
#![cfg(target_os = "linux")]
#![expect(
    clippy::disallowed_methods,
    reason = "a process counts what it has open, and lets others read at once"
)]

use esker::{Database, DatabaseOptions, KeyspaceOptions};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors, of which some are taken from the start.
const DESCRIPTORS: u64 = 64;
/// More than a database has open beside tables when nothing is under way: logs, the manifest, the lock, its directory.
const OTHERS: u64 = 8;
const ROWS: u32 = 40_000;

fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

/// What the process has open.
fn open_now() -> u64 {
    std::fs::read_dir("/proc/self/fd").expect("there is a /proc").count() as u64
}

#[test]
fn more_tables_than_descriptors_are_written_read_and_compacted() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let limit = Rlimit { current: Some(DESCRIPTORS), maximum };
    setrlimit(Resource::Nofile, limit).expect("a lower limit");
    let dir = tempfile::tempdir().expect("a directory");
    let inherited = open_now();
    let options =
        || DatabaseOptions { table_bytes: 8 << 10, cache_bytes: 64 << 10, ..DatabaseOptions::default() };
    let open = || Database::builder(dir.path()).options(options()).open().expect("opened");
    let db = open();
    let map = db.keyspace("map", KeyspaceOptions::default()).expect("created");
    for n in (0..ROWS).map(|n| n.wrapping_mul(2_654_435_761) % ROWS).chain(0..ROWS) {
        map.put(key(n), [n.to_le_bytes(); 10].concat()).expect("put");
    }
    db.flush().expect("flushed");
    map.compact_range::<&[u8]>(..).expect("compacted");
    drop(map);
    db.close().expect("closed");

    let db = open();
    let map = db.existing_keyspace("map").expect("it is there");
    let tables: u64 = db.metrics().keyspaces[0].levels.iter().map(|level| level.tables).sum();
    assert!(tables > 4 * DESCRIPTORS, "{tables} tables");
    std::thread::scope(|scope| {
        for seed in 0..3 {
            let map = &map;
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                for _ in 0..5_000 {
                    let n = random.u32(0..ROWS);
                    let found = map.get(key(n)).expect("read").expect("it was put");
                    assert_eq!(found[..], [n.to_le_bytes(); 10].concat());
                }
            });
        }
        let rows: Vec<_> = map.iter().collect::<Result<_, _>>().expect("read");
        assert_eq!(rows.len(), ROWS as usize);
    });
    let own = open_now() - inherited;
    assert!(own <= DESCRIPTORS / 2 + OTHERS, "{own} are open");
    assert_eq!(db.metrics().open_files, DESCRIPTORS / 2);
    db.verify().expect("sound");
    drop(map);
    db.close().expect("closed");

    // What is found by the tables alone is as much.
    std::fs::remove_file(dir.path().join("CURRENT")).expect("removed");
    let copy = tempfile::tempdir().expect("a directory");
    let salvaged = esker::salvage::Salvage::of(dir.path()).run(copy.path().join("db")).expect("salvaged");
    assert_eq!(
        (salvaged.rows["map"], salvaged.losses.len()),
        (u64::from(ROWS), 1),
        "{:?}",
        salvaged.losses
    );
}
