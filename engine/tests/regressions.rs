//! Faults that were found and mended: each test failed before its mend.

use std::path::Path;
use std::sync::Arc;

use esker::vfs::fault::{Effect, Fault, FaultFs};
use esker::vfs::mem::{MemFs, Policy};
use esker::vfs::sim::Simulation;
use esker::{Database, DatabaseOptions, KeyspaceOptions};

const DIR: &str = "/db";

fn open(disk: &MemFs, options: DatabaseOptions) -> Database {
    let env = Simulation::on(disk.clone(), 1).env();
    Database::builder(DIR).options(options).env(env).open().expect("opened")
}

/// A database whose disk fails as planned.
fn open_failing(disk: &MemFs, options: DatabaseOptions) -> (Database, FaultFs) {
    let world = Simulation::on(disk.clone(), 1);
    let faults = FaultFs::over(disk, Arc::clone(&world.clock));
    let env = world.env_over(Arc::new(faults.clone()));
    (Database::builder(DIR).options(options).env(env).open().expect("opened"), faults)
}

/// What a process kill leaves.
fn killed(disk: &MemFs) -> MemFs {
    disk.image_at(disk.trace_len(), Policy::Everything, 0)
}

fn is_manifest(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "manifest")
}

/// A manifest edit whose fate is open may be in force at the next open: the tables it names stay.
#[test]
fn a_flush_in_doubt_keeps_its_tables() {
    let disk = MemFs::simulated();
    let (db, faults) = open_failing(&disk, DatabaseOptions::default());
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    map.put("key", "value").unwrap();
    db.persist().unwrap();
    // The record is appended whole, and neither that nor a new manifest can be synced.
    let manifest = |call: &esker::vfs::fault::Call<'_>| call.operation.syncs() && is_manifest(call.path);
    faults.plan(Fault::when(manifest).effect(Effect::After).sticky());
    db.flush().unwrap_err();
    assert!(!faults.fired().is_empty());
    let left = killed(&disk);
    drop((map, db));
    let db = open(&left, DatabaseOptions::default());
    let map = db.existing_keyspace("map").unwrap();
    assert_eq!(map.get("key").unwrap().as_deref(), Some(&b"value"[..]));
}

/// The same for a compaction's outputs.
#[test]
fn a_compaction_in_doubt_keeps_its_tables() {
    let disk = MemFs::simulated();
    let (db, faults) = open_failing(&disk, DatabaseOptions::default());
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    for round in 0..2u8 {
        map.put("key", [round]).unwrap();
        db.flush().unwrap();
    }
    let manifest = |call: &esker::vfs::fault::Call<'_>| call.operation.syncs() && is_manifest(call.path);
    faults.plan(Fault::when(manifest).effect(Effect::After).sticky());
    map.compact_range::<&[u8]>(..).unwrap_err();
    assert!(!faults.fired().is_empty());
    let left = killed(&disk);
    drop((map, db));
    let db = open(&left, DatabaseOptions::default());
    let map = db.existing_keyspace("map").unwrap();
    assert_eq!(map.get("key").unwrap().as_deref(), Some(&[1][..]));
}
