//! Databases of more tables than the process may have open.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use esker::vfs::fault::{Call, Cause, Fault, FaultFs, Operation};
use esker::vfs::mem::MemFs;
use esker::vfs::sim::Simulation;
use esker::{Database, DatabaseOptions, Durability, KeyspaceOptions, TableSource};

const ROWS: u32 = 3_000;
const OPEN: u32 = 4;

fn options(table_source: TableSource) -> DatabaseOptions {
    DatabaseOptions {
        open_files_max: Some(OPEN),
        table_source,
        memtable_bytes_max: 32 << 10,
        table_bytes: 2 << 10,
        cache_bytes: 0,
        ..DatabaseOptions::default()
    }
}

fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

/// Every fifth is long enough for a blob file.
fn value(n: u32) -> Vec<u8> {
    n.to_le_bytes().repeat(if n.is_multiple_of(5) { 40 } else { 10 })
}

/// A database of many tables and blob files.
fn filled(db: &Database) -> esker::Keyspace {
    let map = db.keyspace("map", KeyspaceOptions::default().with_blob_bytes_min(100)).expect("created");
    for n in (0..ROWS).map(|n| n * 7 % ROWS) {
        map.put(key(n), value(n)).expect("put");
    }
    db.flush().expect("flushed");
    let figures = db.metrics();
    let tables: u64 = figures.keyspaces[0].levels.iter().map(|level| level.tables).sum();
    assert!(tables > 5 * u64::from(OPEN) && figures.keyspaces[0].blobs.files > 2, "{figures:?}");
    map
}

#[test]
fn a_database_of_more_tables_than_may_be_open_is_read_written_and_compacted() {
    for source in [TableSource::Buffered, TableSource::Mapped] {
        let env = Simulation::on(MemFs::simulated(), 7).env();
        let db = Database::builder("/db").options(options(source)).env(env).open().expect("opened");
        let map = filled(&db);
        let check = || {
            for n in (0..ROWS).map(|n| n * 11 % ROWS) {
                assert_eq!(map.get(key(n)).expect("read"), Some(value(n).into()));
            }
            assert_eq!(map.get(key(ROWS)).expect("read"), None);
            let mut rows = map.iter();
            for n in 0..ROWS {
                let (found, bytes) = rows.next().expect("a row").expect("read");
                assert_eq!((&found[..], &bytes[..]), (&key(n)[..], &value(n)[..]));
            }
            assert!(rows.next().is_none());
            assert!(db.metrics().open_files <= u64::from(OPEN), "{}", db.metrics().open_files);
        };
        check();
        map.compact_range::<&[u8]>(..).expect("compacted");
        db.wait_for_compactions().expect("settled");
        check();
        db.verify().expect("sound");
        db.close().expect("closed");
    }
}

/// A database whose every table is open.
fn all_open(durability: Durability) -> (Simulation, FaultFs, Database, esker::Keyspace) {
    let disk = MemFs::simulated();
    let world = Simulation::on(disk.clone(), 7);
    let fs = FaultFs::over(&disk, Arc::clone(&world.clock));
    let options =
        DatabaseOptions { open_files_max: Some(200), durability, ..options(TableSource::Buffered) };
    let env = world.env_over(Arc::new(fs.clone()));
    let db = Database::builder("/db").options(options).env(env).open().expect("opened");
    let map = filled(&db);
    let rows: Vec<_> = map.iter().collect::<Result<_, _>>().expect("read");
    assert_eq!(rows.len(), ROWS as usize);
    fs.reset();
    (world, fs, db, map)
}

fn has_extension(call: &Call<'_>, extension: &str) -> bool {
    call.path.extension().is_some_and(|found| found == extension)
}

/// What cannot be created for lack of descriptors is created once tables have given up theirs: a log, a table, a blob file.
#[test]
fn tables_give_up_their_descriptors_for_logs_and_flushes() {
    for extension in ["log", "sst", "blob"] {
        let (_world, fs, db, map) = all_open(Durability::Os);
        let before = db.metrics().open_files;
        let creates =
            move |call: &Call<'_>| call.operation == Operation::Create && has_extension(call, extension);
        fs.plan(Fault::when(creates).cause(Cause::Descriptors));
        map.put(key(ROWS), [1; 200]).expect("put");
        db.flush().expect("written with what the tables gave up");
        assert_eq!(fs.fired().len(), 1, "{extension}");
        assert!(db.metrics().open_files < before, "{} of {before}", db.metrics().open_files);
        assert_eq!(map.get(key(ROWS)).expect("read").as_deref(), Some(&[1; 200][..]));
    }
}

/// The same of the last flush of a database without a log, after which what is in memory would be gone.
#[test]
fn tables_give_up_their_descriptors_for_a_close() {
    let (world, fs, db, map) = all_open(Durability::NoLog);
    map.put(key(ROWS), "new").expect("put");
    let creates = |call: &Call<'_>| call.operation == Operation::Create && has_extension(call, "sst");
    fs.plan(Fault::when(creates).cause(Cause::Descriptors));
    drop(map);
    db.close().expect("closed");
    assert_eq!(fs.fired().len(), 1);
    let db = Database::builder("/db").env(Simulation::on(world.disk, 8).env()).open().expect("opened");
    let map = db.existing_keyspace("map").expect("it is there");
    assert_eq!(map.get(key(ROWS)).expect("read").as_deref(), Some(&b"new"[..]));
}

/// A log that is made of an older one is opened, not created.
#[test]
fn tables_give_up_their_descriptors_for_a_log_that_is_used_again() {
    let (_world, fs, _db, map) = all_open(Durability::Sync);
    let opens = |call: &Call<'_>| call.operation == Operation::OpenWritable && has_extension(call, "log");
    fs.plan(Fault::when(opens).cause(Cause::Descriptors));
    for n in (0..ROWS).take_while(|_| fs.fired().is_empty()) {
        map.put(key(n), value(n)).expect("whatever log it goes to");
    }
    assert_eq!(fs.fired().len(), 1, "no log was used again");
}

/// Also where the disk is nearly full: a log with room for a few commits is created as one with much is.
#[test]
fn tables_give_up_their_descriptors_for_a_log_on_a_nearly_full_disk() {
    let (_world, fs, db, map) = all_open(Durability::Os);
    let of_logs = |operation, nth: u64| {
        let seen = AtomicU64::new(0);
        let matches = move |call: &Call<'_>| {
            let hit = call.operation == operation && has_extension(call, "log");
            hit && seen.fetch_add(1, Ordering::Relaxed) == nth
        };
        Fault::when(matches)
    };
    fs.plan(of_logs(Operation::Allocate, 0).cause(Cause::NoSpace));
    fs.plan(of_logs(Operation::Create, 1).cause(Cause::Descriptors));
    map.put(key(ROWS), [1; 200]).expect("put");
    db.flush().expect("written, with a log after it");
    assert_eq!(fs.fired().len(), 2, "{:?}", fs.fired());
}
