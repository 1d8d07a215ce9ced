//! Batches that are long enough to go to the log from where they lie, in a write of their own: all of one is there, or nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use esker::vfs::fault::{Fault, FaultFs, Operation};
use esker::vfs::mem::{MemFs, Policy};
use esker::vfs::sim::Simulation;
use esker::{Database, Error, Keyspace, KeyspaceOptions, Result};

const DIR: &str = "/db";
/// Of a batch: 62 KiB in all.
const ROWS: u32 = 60;
const VALUE_BYTES: usize = 1 << 10;

fn commit(db: &Database, map: &Keyspace, name: u8) -> Result<()> {
    let mut batch = db.batch();
    for row in 0..ROWS {
        batch.put(map, [&[name][..], &row.to_be_bytes()].concat(), [name; VALUE_BYTES])?;
    }
    batch.commit()
}

/// How many rows there are of the batch `name`.
fn rows_of(map: &Keyspace, name: u8) -> usize {
    map.prefix([name]).count()
}

#[test]
fn a_long_batch_is_there_as_a_whole_after_any_crash() {
    let disk = MemFs::simulated();
    let db = Database::builder(DIR).env(Simulation::on(disk.clone(), 1).env()).open().expect("opened");
    let map = db.keyspace("map", KeyspaceOptions::default()).expect("made");
    let begun = disk.trace_len();
    map.put("before", "1").expect("put");
    commit(&db, &map, 1).expect("committed");
    map.put("between", "2").expect("put");
    commit(&db, &map, 2).expect("committed");
    for calls in begun..=disk.trace_len() {
        let point = disk.crash_point(calls);
        for policy in Policy::ALL {
            for seed in 0..4 {
                let left = point.image(policy, seed);
                let env = Simulation::on(left, 1).env();
                let db = Database::builder(DIR).env(env).open().expect("an honest crash");
                let Ok(map) = db.existing_keyspace("map") else { continue };
                let [first, second] = [1, 2].map(|name| rows_of(&map, name));
                assert!([0, ROWS as usize].contains(&first) && [0, ROWS as usize].contains(&second));
                let [before, between] =
                    ["before", "between"].map(|key| map.get(key).expect("read").is_some());
                assert!(before >= (first > 0) && (first > 0) >= between && between >= (second > 0));
                let all = policy == Policy::Everything && calls == disk.trace_len();
                assert!(!all || second > 0, "a process kill loses nothing that was committed");
            }
        }
    }
}

/// Whichever of the two writes fails.
#[test]
fn a_long_batch_that_cannot_be_written_is_aborted() {
    for failing in 0..2 {
        let disk = MemFs::simulated();
        let world = Simulation::on(disk.clone(), 1);
        let faults = FaultFs::over(&disk, Arc::clone(&world.clock));
        let env = world.env_over(Arc::new(faults.clone()));
        let db = Database::builder(DIR).env(env).open().expect("opened");
        let map = db.keyspace("map", KeyspaceOptions::default()).expect("made");
        commit(&db, &map, 1).expect("committed");
        let writes = AtomicUsize::new(0);
        faults.plan(Fault::when(move |call| {
            call.operation == Operation::Write
                && call.path.extension().is_some_and(|extension| extension == "log")
                && writes.fetch_add(1, Ordering::Relaxed) == failing
        }));
        let outcome = commit(&db, &map, 2);
        assert!(matches!(outcome, Err(Error::Aborted { .. })), "{outcome:?}");
        assert_eq!([1, 2].map(|name| rows_of(&map, name)), [ROWS as usize, 0]);
        commit(&db, &map, 3).expect("the disk is sound again");
        for policy in Policy::ALL {
            let left = disk.image_at(disk.trace_len(), policy, 5);
            let env = Simulation::on(left, 1).env();
            let db = Database::builder(DIR).env(env).open().expect("an honest crash");
            if let Ok(map) = db.existing_keyspace("map") {
                assert_eq!(rows_of(&map, 2), 0);
                assert!(rows_of(&map, 1) >= rows_of(&map, 3));
            }
        }
    }
}
