//! What listeners and callers are told.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use esker::event::Event;
use esker::vfs::fault::{Call, Fault, FaultFs, Operation};
use esker::vfs::mem::MemFs;
use esker::vfs::sim::Simulation;
use esker::{Database, DatabaseOptions, Durability, Error, KeyspaceOptions};

/// A writer that waits for a slow flush hears that it was one.
#[test]
fn a_stall_is_told_with_its_reason() {
    let disk = MemFs::simulated();
    let world = Simulation::on(disk.clone(), 1);
    let faults = FaultFs::over(&disk, Arc::clone(&world.clock));
    let options = DatabaseOptions {
        sealed_memtables_max: 1,
        memtable_bytes_max: 64 << 10,
        durability: Durability::NoLog,
        ..DatabaseOptions::default()
    };
    let told: Arc<Mutex<Vec<(&str, Duration)>>> = Arc::default();
    let heard = Arc::clone(&told);
    let listener = move |event: &Event| {
        if let Event::WriteStall { reason, waited } = event {
            heard.lock().unwrap().push((*reason, *waited));
        }
    };
    let env = world.env_over(Arc::new(faults.clone()));
    let builder = Database::builder("/db").options(options).env(env).listener(Arc::new(listener));
    let db = builder.open().unwrap();
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    let of_table = |call: &Call<'_>| {
        call.operation == Operation::Sync && call.path.extension().is_some_and(|name| name == "sst")
    };
    faults.plan(Fault::when(of_table).delay(Duration::from_millis(300)).sticky());
    for n in 0..100u32 {
        map.put(n.to_be_bytes(), vec![7; 10 << 10]).unwrap();
    }
    let told = told.lock().unwrap();
    assert!(!told.is_empty(), "{:?}", faults.fired());
    for (reason, waited) in told.iter() {
        assert!(*reason == "a flush" && *waited >= Duration::from_millis(100), "{reason} for {waited:?}");
    }
}

/// What events and errors speak of by its number is found in the metrics.
#[test]
fn metrics_have_the_numbers_of_keyspaces() {
    let db = Database::in_memory().unwrap();
    assert_eq!(db.path(), std::path::Path::new("/esker"));
    for name in ["first", "second"] {
        let keyspace = db.keyspace(name, KeyspaceOptions::default()).unwrap();
        assert!(db.metrics().keyspaces.iter().any(|found| found.id == keyspace.id() && found.name == name));
    }
}

/// Who writes to a keyspace that was dropped reads which one it was.
#[test]
fn writes_to_a_dropped_keyspace_say_so() {
    let db = Database::in_memory().unwrap();
    let gone = db.keyspace("gone", KeyspaceOptions::default()).unwrap();
    db.drop_keyspace("gone").unwrap();
    for refused in [gone.put("key", "value"), gone.delete("key"), gone.delete_range("a".."z")] {
        let Err(Error::NoSuchKeyspace { name }) = refused else { panic!("{refused:?}") };
        assert_eq!(name, "gone");
    }
    let mut batch = db.batch();
    batch.put(&gone, "key", "value").unwrap();
    let refused = batch.commit().unwrap_err();
    assert!(matches!(refused, Error::KeyspaceDropped { id } if id == gone.id()), "{refused:?}");
    let told =
        format!("keyspace number {} was dropped; leave it out, or write to one that exists", gone.id().0);
    assert_eq!(refused.to_string(), told);
}
