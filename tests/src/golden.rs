//! The golden database: a small one with everything in it, made in one way only.
//!
//! It has every kind of file, tables on at least three levels, LZ4 and uncompressed blocks, range
//! tombstones, merges, two keyspaces and one that was dropped, a sealed log and an active one that no
//! table holds yet. A committed copy of each format version is opened for ever ([`fixture`]); the damage
//! suites take it apart. The [`history`] of a version is frozen: its answers are those of the copy.

pub mod fixture;

use std::path::Path;
use std::sync::Arc;

use esker::{
    Compression, Database, DatabaseOptions, Durability, Keyspace, KeyspaceOptions, Result, WhenStalled,
};
use esker_base::checksum::key_hash;
use esker_base::event::{Event, Listener};
use esker_vfs::mem::{MemFs, Policy};
use esker_vfs::sim::Simulation;
use parking_lot::Mutex;

use crate::driver::Violation;
use crate::files::Files;
use crate::ops::{Name, Write};
use crate::oracle::{Contents, Model};
use crate::points::Tables;
use crate::setup::DIR;

/// Rows without an operator: raw on level 0, LZ4 below.
const ROWS: Name = "rows";
/// Values that are appended to.
const LISTS: Name = "lists";
/// Dropped in the end.
const GONE: Name = "gone";

/// The newest format version: logs of version 2 and a manifest of version 4, whose records have short headers; version 4 had tables
/// of version 4 and a manifest of version 3, which count hidden versions; version 3
/// had tables of version 3 and a manifest of version 2, which know blob files; version 2 had tables of version 2, whose
/// blocks may be padded.
pub const VERSION: u32 = 5;

/// The seed of the simulated world in which it is made.
const SEED: u64 = 13;
/// Rounds of writes that end in a flush.
const ROUNDS: u64 = 12;
/// From version 4 on, a snapshot is taken before this round and held to the end.
const SNAPSHOT_ROUND: u64 = 8;
/// Commits behind the last flush.
const TAIL: u64 = 56;

/// One step of its history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// One commit of these writes.
    Commit(Vec<Write>),
    /// Memory becomes tables.
    Flush,
    /// Background work catches up.
    Settle,
    /// A snapshot is taken.
    Snapshot,
    /// The keyspace is dropped.
    Drop(Name),
}

/// The golden database after each commit.
#[derive(Clone, Debug)]
pub struct State {
    /// The sequence number of its last operation.
    pub last_seqno: u64,
    /// What it holds.
    pub contents: Contents,
}

/// A made database.
pub struct Made {
    /// Its files, as a kill leaves them.
    pub files: Files,
    /// Which tables flushes and compactions have made.
    pub tables: Tables,
}

/// Numbers that follow from their arguments and from nothing else, not even the version of a crate.
fn draw(what: &str, nth: u64, end: u64) -> u64 {
    key_hash(&[what.as_bytes(), &nth.to_le_bytes()].concat()) % end
}

fn key(nth: u64) -> Vec<u8> {
    format!("key-{nth:03}").into_bytes()
}

fn value(nth: u64, len: u64) -> Vec<u8> {
    let words = (0..len.div_ceil(8)).map(|word| key_hash(&(nth << 16 | word).to_le_bytes()));
    // Half compressible.
    let bytes = words.flat_map(|word| [word.to_le_bytes()[0]; 12].into_iter().chain(word.to_be_bytes()));
    bytes.take(usize::try_from(len).unwrap_or_default()).collect()
}

fn write(nth: u64, version: u32) -> Write {
    let at = draw("key", nth, 200);
    // Of version 2 long enough for several pages a table, and for padding at their ends.
    let row_bytes_max = match version {
        1 => 90,
        2 => 800,
        _ => 250,
    };
    // And for values in blob files.
    let list_bytes_max = if version >= 3 { 120 } else { 20 };
    match draw("kind", nth, 16) {
        0 => Write::Delete(ROWS, key(at)),
        1 if at < 190 => Write::DeleteRange(ROWS, key(at)..key(at + 4)),
        2..5 => Write::Merge(LISTS, key(at / 4), value(nth, draw("len", nth, 12))),
        5 => Write::Put(LISTS, key(at / 4), value(nth, draw("len", nth, list_bytes_max))),
        6 => Write::Delete(LISTS, key(at / 4)),
        _ => Write::Put(ROWS, key(at), value(nth, draw("len", nth, row_bytes_max))),
    }
}

/// The history of format version `version`.
pub fn history(version: u32) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut nth = 0;
    let mut take = |count: u64| {
        let from = nth;
        nth += count;
        (from..nth).map(|nth| write(nth, version)).collect::<Vec<Write>>()
    };
    for round in 0..ROUNDS {
        if version >= 4 && round == SNAPSHOT_ROUND {
            steps.push(Step::Snapshot);
        }
        for _ in 0..6 {
            steps.push(Step::Commit(take(8)));
        }
        if round == 2 {
            let gone = (0..20).map(|nth| Write::Put(GONE, key(nth), value(nth, 30))).collect();
            steps.push(Step::Commit(gone));
        }
        steps.push(Step::Flush);
        // The last one stays where flushes leave it.
        if round + 1 < ROUNDS {
            steps.push(Step::Settle);
        }
    }
    for nth in 0..TAIL {
        let mut writes = take(1 + nth % 3);
        match nth {
            4 => writes.push(Write::Put(GONE, key(1), value(1, 10))),
            20 => writes.push(Write::Put(ROWS, key(201), value(nth, 3_000))),
            40 => writes.push(Write::Put(ROWS, key(202), value(nth, 1_500))),
            _ => {}
        }
        steps.push(Step::Commit(writes));
        if nth == 5 {
            steps.push(Step::Drop(GONE));
        }
    }
    steps
}

/// What the database holds after each commit, the empty one first.
pub fn states(version: u32) -> Vec<State> {
    let mut model = Model::default();
    for name in [ROWS, LISTS, GONE] {
        model.create(name);
    }
    let mut last_seqno = 0;
    let mut states = vec![State { last_seqno, contents: model.contents().clone() }];
    for step in history(version) {
        match step {
            Step::Commit(writes) => {
                for write in &writes {
                    model.write(write);
                }
                last_seqno += writes.len() as u64;
                states.push(State { last_seqno, contents: model.contents().clone() });
            }
            Step::Drop(name) => model.drop_keyspace(name),
            Step::Flush | Step::Settle | Step::Snapshot => {}
        }
    }
    // The drop is in the manifest at once: whatever of the log is lost, the keyspace stays dropped.
    for state in &mut states {
        state.contents.remove(GONE);
    }
    states
}

/// The options that a golden database is opened with.
pub fn options() -> DatabaseOptions {
    DatabaseOptions {
        durability: Durability::Sync,
        when_stalled: WhenStalled::Wait,
        memtable_bytes_max: 12 << 10,
        sealed_memtables_max: 3,
        cache_bytes: 16 << 10,
        l0_tables_trigger: 2,
        l0_tables_slowdown: 8,
        l0_tables_stop: 12,
        level_base_bytes: Some(2 << 10),
        level_fanout: 2,
        table_bytes: 2 << 10,
        ..DatabaseOptions::default()
    }
}

fn keyspace_options(name: Name, version: u32) -> KeyspaceOptions {
    let block_bytes = if version == 2 { 4096 } else { 512 };
    let blob_bytes_min = if version >= 3 { 48 } else { 0 };
    let options = KeyspaceOptions { block_bytes, blob_bytes_min, ..KeyspaceOptions::default() };
    match name {
        ROWS => KeyspaceOptions { compression: vec![Compression::None, Compression::Lz4], ..options },
        LISTS => options.with_merge_operator("append"),
        _ => KeyspaceOptions { filter_bits_per_key: 0, ..options },
    }
}

fn commit(db: &Database, writes: &[Write]) -> Result<()> {
    let mut batch = db.batch();
    let keyspace = |name: &str| -> Result<Keyspace> { db.existing_keyspace(name) };
    for write in writes {
        match write {
            Write::Put(name, key, value) => batch.put(&keyspace(name)?, key, value)?,
            Write::Delete(name, key) => batch.delete(&keyspace(name)?, key)?,
            Write::Merge(name, key, value) => batch.merge(&keyspace(name)?, key, value)?,
            Write::DeleteRange(name, range) => {
                batch.delete_range(&keyspace(name)?, range.clone())?;
            }
        }
    }
    batch.commit()
}

fn live(db: &Database, world: &Simulation, version: u32) -> Result<()> {
    for name in [ROWS, LISTS, GONE] {
        db.keyspace(name, keyspace_options(name, version))?;
    }
    let mut snapshots = Vec::new();
    for step in history(version) {
        match step {
            Step::Commit(writes) => commit(db, &writes)?,
            Step::Flush => db.flush()?,
            Step::Settle => {
                db.wait_for_compactions()?;
                world.steps.settle();
            }
            Step::Snapshot => snapshots.push(db.snapshot()),
            Step::Drop(name) => db.drop_keyspace(name)?,
        }
    }
    Ok(())
}

/// Make that of version `version` anew in a world of `seed`, with the engine as it is now.
pub fn make(seed: u64, version: u32) -> std::result::Result<Made, Violation> {
    let world = Simulation::on(MemFs::simulated(), seed);
    let tables: Arc<Mutex<Tables>> = Arc::default();
    let noted = Arc::clone(&tables);
    let listener: Arc<dyn Listener> = Arc::new(move |event: &Event| noted.lock().note(event));
    // Most versions' tables are smaller than a page.
    let table_bytes = if version == 2 { 8 << 10 } else { options().table_bytes };
    // A memtable of 16 KiB is sealed with as much in it as one of 12 was when this history was written.
    let options = DatabaseOptions { table_bytes, memtable_bytes_max: 16 << 10, ..options() };
    let builder = Database::builder(Path::new(DIR)).options(options).env(world.env());
    let db = builder.listener(listener).open().map_err(|e| format!("open: {e}"))?;
    live(&db, &world, version).map_err(|e| format!("the golden history: {e}"))?;
    let killed = world.disk.image_at(world.disk.trace_len(), Policy::Everything, 0);
    let files = Files::of_disk(&killed)?;
    drop(db);
    let tables = tables.lock().clone();
    Ok(Made { files, tables })
}

/// Other directories to mix files from: a database of another id with the history of the newest version, and this one at
/// `earlier` moments before its end.
///
/// # Errors
/// What the engine did wrong.
pub fn others(earlier: usize) -> std::result::Result<Vec<Files>, Violation> {
    let foreign = Simulation::on(MemFs::simulated(), SEED);
    // An id follows from the moment of creation.
    foreign.clock.advance(std::time::Duration::from_secs(1));
    let run = |world: &Simulation| {
        let builder = Database::builder(Path::new(DIR)).options(options()).env(world.env());
        let db = builder.open().map_err(|e| format!("open: {e}"))?;
        live(&db, world, VERSION).map_err(|e| format!("the golden history: {e}"))?;
        // As a kill leaves it.
        let calls = world.disk.trace_len();
        drop(db);
        Ok::<usize, Violation>(calls)
    };
    let calls = run(&foreign)?;
    let mut others = vec![Files::of_disk(&foreign.disk.image_at(calls, Policy::Everything, 0))?];
    let own = Simulation::on(MemFs::simulated(), SEED);
    let calls = run(&own)?;
    // The first calls make the directory.
    for nth in 1..=earlier {
        let at = calls * nth / (earlier + 1);
        others.push(Files::of_disk(&own.disk.image_at(at, Policy::Everything, 0))?);
    }
    Ok(others)
}

/// The golden database of the version in force, made anew.
pub fn golden() -> std::result::Result<Made, Violation> {
    make(SEED, VERSION)
}
