//! What listeners and callers are told.
#![expect(clippy::disallowed_methods, reason = "tests bring their own threads")]

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use esker::event::Event;
use esker::vfs::Env;
use esker::vfs::fault::{Call, Fault, FaultFs, Operation};
use esker::vfs::mem::MemFs;
use esker::vfs::sim::Simulation;
use esker::{Database, DatabaseOptions, Durability, Error, Keyspace, KeyspaceOptions};

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

/// A listener that is told of a flush writes and closes, or lets go of the last handle: that flushes, which only the thread that
/// it is on could do.
#[test]
fn a_listener_may_close() {
    for (durability, drops) in
        [Durability::Os, Durability::NoLog].into_iter().flat_map(|it| [(it, false), (it, true)])
    {
        let dir = tempfile::tempdir().unwrap();
        let last: Arc<Mutex<Option<(Database, Keyspace)>>> = Arc::default();
        let (gone, is_gone) = mpsc::channel();
        let (close, closed) = mpsc::channel();
        let listener = {
            let (last, is_gone) = (Arc::clone(&last), Mutex::new(is_gone));
            move |event: &Event| {
                let last = last.lock().unwrap().take_if(|_| matches!(event, Event::Flushed { .. }));
                let Some((db, map)) = last else { return };
                is_gone.lock().unwrap().recv_timeout(Duration::from_secs(20)).expect("it has flushed");
                map.put("late", "value").unwrap();
                drop(map);
                let outcome = if drops {
                    drop(db);
                    None
                } else {
                    Some(db.close())
                };
                close.send(outcome).unwrap();
            }
        };
        let builder = Database::builder(dir.path()).durability(durability);
        let db = builder.listener(Arc::new(listener)).open().unwrap();
        let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
        map.put("early", "value").unwrap();
        *last.lock().unwrap() = Some((db.clone(), map));
        let flushing = std::thread::spawn(move || {
            db.flush().unwrap();
            drop(db);
            gone.send(()).unwrap();
        });
        let outcome = closed.recv_timeout(Duration::from_secs(20)).expect("it waits for itself");
        assert!(matches!(outcome, None | Some(Err(Error::InvalidArgument { .. }))), "{outcome:?}");
        flushing.join().unwrap();
        let db = Database::open(dir.path()).unwrap();
        let map = db.existing_keyspace("map").unwrap();
        assert!(map.contains("early").unwrap());
        let is_kept = map.contains("late").unwrap();
        assert_eq!(is_kept, durability == Durability::Os, "{durability:?}, drops: {drops}");
        db.verify().unwrap();
    }
}

/// What would wait for the flush that waits for the listener errs, and goes on once the listener is back.
#[test]
fn a_listener_that_would_wait_for_itself_errs() {
    let world = Simulation::new(1);
    let held: Arc<Mutex<Option<(Database, Keyspace)>>> = Arc::default();
    let errors: Arc<Mutex<Vec<Error>>> = Arc::default();
    let listener = {
        let (held, errors) = (Arc::clone(&held), Arc::clone(&errors));
        move |event: &Event| {
            let held = held.lock().unwrap().take_if(|_| matches!(event, Event::Flushed { .. }));
            let Some((db, map)) = held else { return };
            map.put("key", "from the listener").unwrap();
            assert!(map.contains("key").unwrap());
            let mut writes = (0..1000u32).map(|n| map.put(n.to_be_bytes(), vec![7; 10 << 10]));
            let stalled = writes.find_map(Result::err).expect("nothing is flushed meanwhile");
            assert!(matches!(stalled, Error::WouldStall { .. }), "{stalled}");
            let waits = [
                db.flush(),
                db.wait_for_compactions(),
                map.compact_range::<&[u8]>(..),
                db.checkpoint("/copy"),
            ];
            errors.lock().unwrap().extend(waits.into_iter().filter_map(Result::err));
        }
    };
    let options = DatabaseOptions {
        sealed_memtables_max: 1,
        memtable_bytes_max: 64 << 10,
        ..DatabaseOptions::default()
    };
    let builder = Database::builder("/db").options(options).env(world.env());
    let db = builder.listener(Arc::new(listener)).open().unwrap();
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    map.put("key", "value").unwrap();
    *held.lock().unwrap() = Some((db.clone(), map.clone()));
    db.flush().unwrap();
    let errors = std::mem::take(&mut *errors.lock().unwrap());
    assert_eq!(errors.len(), 4, "{errors:?}");
    assert!(errors.iter().all(|error| matches!(error, Error::InvalidArgument { .. })), "{errors:?}");
    db.flush().unwrap();
    db.wait_for_compactions().unwrap();
    map.compact_range::<&[u8]>(..).unwrap();
    db.checkpoint("/copy").unwrap();
    assert_eq!(map.get("key").unwrap().as_deref(), Some(&b"from the listener"[..]));
    assert_eq!(db.metrics().counters.listener_panics, 0);
    db.close().unwrap();
}

/// A listener that is told of a compaction by hand compacts by hand: what the first claimed is free again.
#[test]
fn a_listener_may_compact_by_hand() {
    let world = Simulation::new(1);
    let held: Arc<Mutex<Option<Keyspace>>> = Arc::default();
    let listener = {
        let held = Arc::clone(&held);
        move |event: &Event| {
            let map = held.lock().unwrap().take_if(|_| matches!(event, Event::Compacted { .. }));
            if let Some(map) = map {
                map.compact_range::<&[u8]>(..).unwrap();
            }
        }
    };
    let db = Database::builder("/db").env(world.env()).listener(Arc::new(listener)).open().unwrap();
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    // Overwritten rows that a snapshot sees: there is something to merge, and then again.
    let mut snapshots = Vec::new();
    for round in 0..3u32 {
        (0..100u32).for_each(|n| map.put(n.to_be_bytes(), round.to_be_bytes()).unwrap());
        snapshots.push(db.snapshot());
        db.flush().unwrap();
    }
    *held.lock().unwrap() = Some(map.clone());
    map.compact_range::<&[u8]>(..).unwrap();
    assert!(held.lock().unwrap().is_none(), "nothing was compacted");
    assert_eq!(db.metrics().counters.listener_panics, 0);
}

/// A listener asks for a flush while another thread closes, whose own flush has found the disk full: nobody flushes any more.
#[test]
fn a_flush_asked_for_during_a_close_errs() {
    let disk = Arc::new(MemFs::new());
    let env = Env { fs: disk.clone(), ..Env::memory().unwrap() };
    let held: Arc<Mutex<Option<Database>>> = Arc::default();
    let (compacted, is_compacted) = mpsc::channel();
    let (failed, has_failed) = mpsc::channel();
    let (flushed, is_flushed) = mpsc::channel();
    let listener = {
        let (held, has_failed) = (Arc::clone(&held), Mutex::new(has_failed));
        move |event: &Event| match event {
            Event::JobFailed { .. } => failed.send(()).unwrap_or(()),
            Event::Compacted { .. } => {
                let Some(db) = held.lock().unwrap().take() else { return };
                compacted.send(()).unwrap();
                has_failed.lock().unwrap().recv_timeout(Duration::from_secs(20)).expect("the disk is full");
                // The call that closes has heard of it meanwhile.
                std::thread::sleep(Duration::from_millis(200));
                flushed.send(db.flush()).unwrap();
            }
            _ => {}
        }
    };
    let options = DatabaseOptions {
        l0_tables_trigger: 1,
        durability: Durability::NoLog,
        ..DatabaseOptions::default()
    };
    let builder = Database::builder("/db").env(env).options(options).listener(Arc::new(listener));
    let db = builder.open().unwrap();
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    *held.lock().unwrap() = Some(db.clone());
    for round in 0..2u32 {
        map.put("key", round.to_be_bytes()).unwrap();
        db.flush().unwrap();
    }
    map.put("key", "last").unwrap();
    is_compacted.recv_timeout(Duration::from_secs(20)).expect("level 0 is merged");
    disk.set_capacity(Some(1));
    let closing = std::thread::spawn(move || db.close());
    let outcome = is_flushed.recv_timeout(Duration::from_secs(20)).expect("it waits for ever");
    assert!(matches!(outcome, Err(Error::Closed { .. })), "{outcome:?}");
    assert!(closing.join().unwrap().unwrap_err().is_no_space());
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
