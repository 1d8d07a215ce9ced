//! Short stories, each about one design rule or promise that no history of a suite turns on.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use esker::{Database, DatabaseOptions, Error, KeyspaceOptions, MergeOperator};
use esker_base::coding::{put_bytes, put_varint};
use esker_base::filename::FileName;
use esker_base::limits::KEY_BYTES_MAX;
use esker_vfs::Env;
use esker_vfs::fault::{Effect, Fault, FaultFs, Operation};
use esker_vfs::fs::{Fs, read_all};
use esker_vfs::mem::{MemFs, Policy};
use esker_vfs::sim::Simulation;
use esker_wal::{LogIdentity, LogKind, LogWriter};
use parking_lot::Mutex;

use crate::driver::Violation;
use crate::lies::LyingFs;
use crate::setup::{DIR, Setup};

/// A story: told in the world of a setup, with its bug.
pub type Scenario = fn(&Setup) -> Result<(), Violation>;

/// Rows of a table that a story reads.
const ROWS: u32 = 300;

#[expect(clippy::needless_pass_by_value, reason = "it is for `map_err`")]
fn told(error: Error) -> Violation {
    error.to_string()
}

/// The setup's database in `dir` over `fs`, as a story opens it.
fn open(setup: &Setup, fs: Arc<dyn Fs>, dir: &str) -> esker::Result<Database> {
    if let Some(bug) = setup.bug {
        bug.plant_in_engine();
    }
    let fs = match setup.bug.and_then(crate::planted::Bug::lie) {
        Some(lie) => Arc::new(LyingFs::new(fs, lie)),
        None => fs,
    };
    let options = DatabaseOptions {
        durability: esker::Durability::Sync,
        cache_bytes: 0,
        memtable_bytes_max: 1 << 20,
        ..DatabaseOptions::default()
    };
    let env: Env = Simulation::new(setup.seed).env_over(fs);
    Database::builder(Path::new(dir)).options(options).env(env).open()
}

fn on(disk: &MemFs) -> Arc<dyn Fs> {
    Arc::new(disk.clone())
}

/// A keyspace with rows in one table, every value beginning with `mark`.
fn table(db: &Database, name: &str, mark: u8) -> Result<esker::Keyspace, Violation> {
    let options = KeyspaceOptions { block_bytes: 512, ..KeyspaceOptions::default() };
    let map = db.keyspace(name, options).map_err(told)?;
    for row in 0..ROWS {
        map.put(row.to_be_bytes(), [mark; 20]).map_err(told)?;
    }
    db.flush().map_err(told)?;
    Ok(map)
}

/// The files in `dir` of a kind.
fn files(disk: &MemFs, dir: &str, of: fn(&FileName) -> bool) -> Result<Vec<std::path::PathBuf>, Violation> {
    let entries = disk.list(Path::new(dir)).map_err(told)?;
    let names =
        entries.into_iter().filter(|entry| FileName::parse(&entry.name).is_some_and(|name| of(&name)));
    Ok(names.map(|entry| Path::new(dir).join(entry.name)).collect())
}

/// What a kill leaves of `disk`.
fn killed(disk: &MemFs) -> MemFs {
    disk.image_at(disk.trace_len(), Policy::Everything, 0)
}

/// Rule 2, P3: what a recovery has shown does not vanish with the power after it, though the handle before
/// left it in the system's cache.
pub fn recovered_twice(setup: &Setup) -> Result<(), Violation> {
    let disk = MemFs::simulated();
    let faults = FaultFs::new(on(&disk));
    let options = |setup: &Setup| {
        let fs: Arc<dyn Fs> = Arc::new(faults.clone());
        let fs = match setup.bug.and_then(crate::planted::Bug::lie) {
            Some(lie) => Arc::new(LyingFs::new(fs, lie)),
            None => fs,
        };
        Database::builder(DIR).env(Simulation::new(setup.seed).env_over(fs))
    };
    let db = options(setup).open().map_err(told)?;
    let map = db.keyspace("map", KeyspaceOptions::default()).map_err(told)?;
    map.put("key", "value").map_err(told)?;
    // The close can neither flush nor sync: like a kill, it leaves what the system has in its cache.
    faults.plan(Fault::when(|call| call.operation == Operation::Create || call.operation.syncs()).sticky());
    if db.close().is_ok() {
        return Err("a close that could not flush said Ok".to_owned());
    }
    faults.clear();
    let db = options(setup).open().map_err(told)?;
    let map = db.existing_keyspace("map").map_err(told)?;
    let shown = map.get("key").map_err(told)?;
    let lost = disk.image_at(disk.trace_len(), Policy::Strict, 0);
    let db = open(&Setup { bug: None, ..setup.clone() }, on(&lost), DIR).map_err(told)?;
    let map = db.existing_keyspace("map").map_err(told)?;
    let left = map.get("key").map_err(told)?;
    if shown == left && shown.is_some() {
        return Ok(());
    }
    Err(format!("one recovery shows {shown:?}, the next, after a power loss, {left:?}"))
}

/// Rule 4, P5: once a sync has failed, no later commit is acknowledged on the handle, whatever later syncs
/// say.
pub fn after_a_failed_sync(setup: &Setup) -> Result<(), Violation> {
    let faults = FaultFs::new(on(&MemFs::new()));
    let db = open(setup, Arc::new(faults.clone()), DIR).map_err(told)?;
    let map = db.keyspace("map", KeyspaceOptions::default()).map_err(told)?;
    map.put("before", "1").map_err(told)?;
    faults.plan(Fault::when(|call| call.operation.syncs()).effect(Effect::Before));
    match map.put("doubtful", "2") {
        Err(Error::InDoubt { .. }) => {}
        other => return Err(format!("a put whose sync failed says {other:?}")),
    }
    if map.put("after", "3").is_ok() {
        return Err("a commit was acknowledged after one in doubt".to_owned());
    }
    match map.get("before").map_err(told)? {
        Some(_) => Ok(()),
        None => Err("reads have stopped".to_owned()),
    }
}

/// Rule 5: a block in the place of another of the same table is refused.
pub fn misplaced_block(setup: &Setup) -> Result<(), Violation> {
    let disk = MemFs::new();
    let db = open(setup, on(&disk), DIR).map_err(told)?;
    let options = KeyspaceOptions { block_bytes: 512, ..KeyspaceOptions::default() };
    let map = db.keyspace("map", options).map_err(told)?;
    let value = |row: u32| row.to_be_bytes().repeat(8);
    for row in 0..ROWS {
        map.put(row.to_be_bytes(), value(row)).map_err(told)?;
    }
    db.flush().map_err(told)?;
    let tables = files(&disk, DIR, |name| matches!(name, FileName::Table(_)))?;
    let [table] = tables.as_slice() else { return Err(format!("the tables are {tables:?}")) };
    let mut bytes = read_all(&disk, table, u64::MAX).map_err(told)?;
    // Rows are of one size, so the first two blocks are: as long as it is from the first row of the one to
    // that of the other.
    let place = |row: u32| bytes.windows(32).position(|window| window == value(row));
    let places: Vec<usize> = (0..ROWS).filter_map(place).collect();
    let step = places.get(1).zip(places.first()).map_or(0, |(second, first)| second - first);
    let jump = places.windows(2).find(|pair| pair[1] - pair[0] != step);
    let (Some(jump), Some(first)) = (jump, places.first()) else {
        return Err("there is one block".to_owned());
    };
    let block = jump[1] - first;
    let (one, rest) = bytes.split_at_mut(block);
    one.swap_with_slice(&mut rest[..block]);
    disk.open_writable(table).and_then(|file| file.write_at(&bytes, 0)).map_err(told)?;
    match map.get(0u32.to_be_bytes()) {
        Err(Error::Corruption { .. }) => Ok(()),
        other => Err(format!("a block in the wrong place says {other:?}")),
    }
}

/// Rule 6: after its first error a cursor returns that error for ever.
pub fn failed_cursor(setup: &Setup) -> Result<(), Violation> {
    let faults = FaultFs::new(on(&MemFs::new()));
    let db = open(setup, Arc::new(faults.clone()), DIR).map_err(told)?;
    let map = table(&db, "map", b'm')?;
    let mut cursor = map.cursor().map_err(told)?;
    cursor.seek_first().map_err(told)?;
    faults.plan(Fault::when(|call| call.operation == Operation::Read));
    let first = loop {
        match cursor.next() {
            Ok(true) => {}
            Ok(false) => return Err("a failed read was passed over".to_owned()),
            Err(error) => break error,
        }
    };
    faults.clear();
    match cursor.seek_first() {
        Err(again) if again.to_string() == first.to_string() => Ok(()),
        other => Err(format!("after {first} the cursor says {other:?}")),
    }
}

/// Rule 7: unless it is asked for, nothing is mapped into memory.
pub fn nothing_mapped(setup: &Setup) -> Result<(), Violation> {
    let faults = FaultFs::new(on(&MemFs::new()));
    let db = open(setup, Arc::new(faults.clone()), DIR).map_err(told)?;
    let map = table(&db, "map", b'm')?;
    let there = map.get(7u32.to_be_bytes()).map_err(told)?;
    match (there, faults.count(Operation::Map)) {
        (Some(_), 0) => Ok(()),
        (there, maps) => Err(format!("{maps} files were mapped to find {there:?}")),
    }
}

/// Rule 8: a log whose checksums are right and whose key is longer than keys may be is refused.
pub fn too_long_a_key(setup: &Setup) -> Result<(), Violation> {
    let disk = MemFs::simulated();
    let db = open(setup, on(&disk), DIR).map_err(told)?;
    let map = db.keyspace("map", KeyspaceOptions::default()).map_err(told)?;
    let image = killed(&disk);
    let logs = files(&image, DIR, |name| matches!(name, FileName::Log(_)))?;
    let number = logs.first().and_then(|path| FileName::parse(path.file_name()?.to_str()?));
    let (Some(FileName::Log(number)), [log]) = (number, logs.as_slice()) else {
        return Err(format!("the logs are {logs:?}"));
    };
    let database = esker_manifest::current_file::read(&image, Path::new(DIR)).map_err(told)?.database;
    let mut record = vec![esker_base::Kind::Put as u8];
    put_varint(&mut record, u64::from(map.id().0));
    put_bytes(&mut record, &vec![b'k'; KEY_BYTES_MAX + 1]);
    put_bytes(&mut record, b"value");
    image.remove(log).map_err(told)?;
    let identity = LogIdentity { database, number, kind: LogKind::WriteAhead };
    let mut writer = LogWriter::create(&image, Path::new(DIR), identity, None, 0).map_err(told)?;
    writer.stage(1, &[&record]);
    writer.write().map_err(|failure| failure.error().to_string())?;
    writer.syncer().sync().map_err(told)?;
    match open(setup, on(&image), DIR) {
        Err(Error::Corruption { .. }) => Ok(()),
        Err(other) => Err(format!("open says {other}")),
        Ok(_) => Err("a key that is too long was taken from the log".to_owned()),
    }
}

/// Rule 9: whoever has the directory open keeps others out.
pub fn two_handles(setup: &Setup) -> Result<(), Violation> {
    let disk = MemFs::new();
    let first = open(setup, on(&disk), DIR).map_err(told)?;
    match open(setup, on(&disk), DIR) {
        Err(Error::Locked { .. }) => {}
        other => return Err(format!("a second open says {other:?}")),
    }
    first.close().map_err(told)?;
    open(setup, on(&disk), DIR).and_then(Database::close).map_err(told)
}

/// A panic's payload that panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // No hook hears it: where the engine is on its guard, it is none of its own.
            std::panic::resume_unwind(Box::new("the payload of a panic was dropped"));
        }
    }
}

struct Bombs;

impl MergeOperator for Bombs {
    fn name(&self) -> &'static str {
        "bombs"
    }

    fn fold(&self, _key: &[u8], _base: Option<&[u8]>, _operands: &[&[u8]]) -> Result<Vec<u8>, String> {
        // No hook hears it: it is no panic of the engine's.
        std::panic::resume_unwind(Box::new(Bomb))
    }
}

/// Rule 10: a callback that panics, with a payload that panics when it is dropped, costs that call alone.
pub fn panicking_drop(setup: &Setup) -> Result<(), Violation> {
    if let Some(bug) = setup.bug {
        bug.plant_in_engine();
    }
    let env = Simulation::new(setup.seed).env();
    let db = Database::builder(DIR).env(env).merge_operator(Arc::new(Bombs)).open().map_err(told)?;
    let options = KeyspaceOptions::default().with_merge_operator("bombs");
    let map = db.keyspace("map", options).map_err(told)?;
    map.merge("key", "operand").map_err(told)?;
    match map.get("key") {
        Err(Error::CallbackPanicked { .. }) => map.put("key", "value").map_err(told),
        other => Err(format!("a get that panics says {other:?}")),
    }
}

/// Looks at the database from within a fold.
#[derive(Default)]
struct Onlooker {
    map: OnceLock<esker::Keyspace>,
    seen: Mutex<Option<bytes::Bytes>>,
}

impl MergeOperator for Onlooker {
    fn name(&self) -> &'static str {
        "onlooker"
    }

    fn fold(&self, _key: &[u8], _base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>, String> {
        if let Some(map) = self.map.get() {
            *self.seen.lock() = map.get("first").map_err(told)?;
        }
        Ok(operands.concat())
    }
}

/// P2: whoever looks while a batch is being applied sees nothing of it.
pub fn half_a_batch(setup: &Setup) -> Result<(), Violation> {
    if let Some(bug) = setup.bug {
        bug.plant_in_engine();
    }
    let onlooker = Arc::new(Onlooker::default());
    let env = Simulation::new(setup.seed).env();
    let operator: Arc<dyn MergeOperator> = Arc::<Onlooker>::clone(&onlooker);
    let db = Database::builder(DIR).env(env).merge_operator(operator).open().map_err(told)?;
    let map =
        db.keyspace("map", KeyspaceOptions::default().with_merge_operator("onlooker")).map_err(told)?;
    map.put("first", "before").map_err(told)?;
    map.put("second", "before").map_err(told)?;
    let other = db.keyspace("map", map.options().clone()).map_err(told)?;
    let mut batch = db.batch();
    batch.put(&map, "first", "after").map_err(told)?;
    batch.merge(&map, "second", "after").map_err(told)?;
    if onlooker.map.set(other).is_err() {
        return Err("somebody looks already".to_owned());
    }
    batch.commit().map_err(told)?;
    match onlooker.seen.lock().as_deref() {
        Some(b"before") => Ok(()),
        seen => Err(format!("in the middle of a batch {seen:?} is seen")),
    }
}

/// P6: damage in a log is an error, never a panic.
pub fn damaged_log(setup: &Setup) -> Result<(), Violation> {
    let disk = MemFs::simulated();
    let db = open(setup, on(&disk), DIR).map_err(told)?;
    let map = db.keyspace("map", KeyspaceOptions::default()).map_err(told)?;
    for row in 0..ROWS {
        map.put(row.to_be_bytes(), "value").map_err(told)?;
    }
    let image = killed(&disk);
    for log in files(&image, DIR, |name| matches!(name, FileName::Log(_)))? {
        image.open_writable(&log).and_then(|file| file.write_at(b"damage", 200)).map_err(told)?;
    }
    match open(setup, on(&image), DIR) {
        Err(Error::Corruption { .. }) => Ok(()),
        other => Err(format!("open of a damaged log says {other:?}")),
    }
}

/// P7: damage in one table leaves the others readable.
pub fn damaged_table(setup: &Setup) -> Result<(), Violation> {
    let disk = MemFs::new();
    let db = open(setup, on(&disk), DIR).map_err(told)?;
    let damaged = table(&db, "damaged", b'd')?;
    for path in files(&disk, DIR, |name| matches!(name, FileName::Table(_)))? {
        disk.open_writable(&path).and_then(|file| file.write_at(&[0xA5; 64], 100)).map_err(told)?;
    }
    let whole = table(&db, "whole", b'w')?;
    match damaged.get(0u32.to_be_bytes()) {
        Err(Error::Corruption { .. }) => {}
        other => return Err(format!("a damaged table says {other:?}")),
    }
    match whole.get(7u32.to_be_bytes()).map_err(told)? {
        Some(_) => Ok(()),
        None => Err("a row of a whole table is gone".to_owned()),
    }
}
