//! Flushes that fail: what the next call hears of it, and what a close waits for.

use std::sync::Arc;

use esker::vfs::fault::{Cause, Fault, FaultFs, Operation};
use esker::vfs::mem::MemFs;
use esker::vfs::sim::Simulation;
use esker::{Database, DatabaseOptions, Durability, Error, KeyspaceOptions};

const DIR: &str = "/db";

fn open(disk: &MemFs) -> Database {
    let env = Simulation::on(disk.clone(), 1).env();
    Database::builder(DIR).env(env).open().expect("opened")
}

/// A flush that failed once, of a database whose rows are in no log.
fn flush_failed_once(disk: &MemFs) -> (Database, FaultFs) {
    let options = DatabaseOptions { durability: Durability::NoLog, ..DatabaseOptions::default() };
    let world = Simulation::on(disk.clone(), 1);
    let faults = FaultFs::over(disk, Arc::clone(&world.clock));
    let env = world.env_over(Arc::new(faults.clone()));
    let db = Database::builder(DIR).options(options).env(env).open().expect("opened");
    let map = db.keyspace("map", KeyspaceOptions::default()).expect("created");
    map.put("key", "value").expect("put");
    faults.plan(Fault::when(is_table_written));
    db.flush().expect_err("its table cannot be written");
    (db, faults)
}

fn is_table_written(call: &esker::vfs::fault::Call<'_>) -> bool {
    call.operation == Operation::Write && call.path.extension().is_some_and(|extension| extension == "sst")
}

/// What kept a flush from succeeding before the call is no failure of the call.
#[test]
fn a_flush_tells_of_failures_since_it_was_called() {
    let disk = MemFs::simulated();
    let (db, _) = flush_failed_once(&disk);
    db.flush().expect("nothing fails");
    assert_eq!(db.metrics().counters.job_failures, 1);
}

/// A close without a log leaves nothing in memory that the next try brings into a table.
#[test]
fn a_close_waits_for_a_flush_that_is_tried_again() {
    for before in [true, false] {
        let disk = MemFs::simulated();
        let (db, faults) = flush_failed_once(&disk);
        if !before {
            db.flush().expect("nothing fails");
            db.existing_keyspace("map").expect("nothing fails").put("key", "newer").expect("nothing fails");
            faults.plan(Fault::when(is_table_written));
        }
        db.close().expect("nothing fails");
        assert_eq!(faults.fired().len(), if before { 1 } else { 2 });
        let db = open(&disk);
        let map = db.existing_keyspace("map").expect("nothing fails");
        let expected: &[u8] = if before { b"value" } else { b"newer" };
        assert_eq!(map.get("key").expect("nothing fails").as_deref(), Some(expected));
    }
}

/// Where it is not tried again, or may be for ever, it does not wait.
#[test]
fn a_close_does_not_wait_for_a_disk_that_stays_as_it_is() {
    for cause in [Cause::NoSpace, Cause::Device] {
        let disk = MemFs::simulated();
        let (db, faults) = flush_failed_once(&disk);
        faults.plan(Fault::when(is_table_written).cause(cause).sticky());
        db.close().expect_err("it goes on failing");
    }
}

/// A disk that was full for long has used up no try of an error of another kind.
#[test]
fn a_disk_that_was_full_leaves_other_errors_their_tries() {
    for cause in [Cause::NoSpace, Cause::Descriptors] {
        let disk = MemFs::simulated();
        let world = Simulation::on(disk.clone(), 1);
        let faults = FaultFs::over(&disk, Arc::clone(&world.clock));
        let db =
            Database::builder(DIR).env(world.env_over(Arc::new(faults.clone()))).open().expect("opened");
        let map = db.keyspace("map", KeyspaceOptions::default()).expect("created");
        map.put("key", "value").expect("put");
        faults.plan(Fault::when(is_table_written).cause(cause).sticky());
        while db.metrics().counters.job_failures < 8 {
            db.flush().expect_err("its table cannot be written");
        }
        faults.clear();
        faults.plan(Fault::when(is_table_written).cause(Cause::Device));
        let device = db.flush().expect_err("its table cannot be written");
        assert!(matches!(device, Error::Io { .. }), "{cause:?}: {device}");
        db.flush().expect("nothing fails any more");
        map.put("key", "newer").expect("writes go on");
    }
}
