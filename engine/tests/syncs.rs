//! Syncs: timed ones go on, listeners hear of one that failed, and a checkpoint's name is synced wherever it is.
#![expect(clippy::disallowed_methods, reason = "tests bring their own threads")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex, OnceLock, mpsc};
use std::time::Duration;

use esker::event::{Event, Listener};
use esker::vfs::fault::{Fault, FaultFs, Operation};
use esker::vfs::mem::Policy;
use esker::vfs::sim::Simulation;
use esker::{Database, DatabaseOptions, Durability, Error, Keyspace, KeyspaceOptions};

const DIR: &str = "/db";

/// A world, and its disk, which fails as planned.
fn failing() -> (Simulation, FaultFs) {
    let world = Simulation::new(1);
    let faults = FaultFs::over(&world.disk, Arc::clone(&world.clock));
    (world, faults)
}

/// A look at the directory that fails once does not end the timed syncs.
#[test]
fn timed_syncs_go_on_after_a_look_at_the_directory_has_failed() {
    let (world, faults) = failing();
    let every = Duration::from_millis(50);
    let options = DatabaseOptions { durability: Durability::Interval(every), ..DatabaseOptions::default() };
    let env = world.env_over(Arc::new(faults.clone()));
    let db = Database::builder(DIR).options(options).env(env).open().unwrap();
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    let put_and_wait = |key: &str| {
        map.put(key, "value").unwrap();
        world.clock.advance(every * 2);
        world.steps.settle();
    };
    put_and_wait("before");
    faults.plan(Fault::when(|call| call.operation == Operation::StillInPlace).sticky());
    put_and_wait("meanwhile");
    assert!(!faults.fired().is_empty());
    faults.clear();
    put_and_wait("after");
    let left = world.disk.image_at(world.disk.trace_len(), Policy::Strict, 0);
    let env = Simulation::on(left, 2).env();
    let db = Database::builder(DIR).env(env).open().unwrap();
    let map = db.existing_keyspace("map").unwrap();
    for key in ["before", "meanwhile", "after"] {
        assert_eq!(map.get(key).unwrap().as_deref(), Some(&b"value"[..]), "{key}");
    }
}

/// An interval longer than that of other upkeep is kept too: no sync comes before it is over, and one does then.
#[test]
fn a_long_interval_is_kept() {
    let (world, faults) = failing();
    let every = Duration::from_millis(4_500);
    let options = DatabaseOptions { durability: Durability::Interval(every), ..DatabaseOptions::default() };
    let env = world.env_over(Arc::new(faults.clone()));
    let db = Database::builder(DIR).options(options).env(env).open().unwrap();
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    map.put("key", "value").unwrap();
    let syncs = || faults.count(Operation::SyncData);
    let before = syncs();
    let step = Duration::from_millis(250);
    let passed = (1u32..).map(|steps| {
        world.clock.advance(step);
        world.steps.settle();
        step * steps
    });
    let first = passed.take(40).find(|_| syncs() > before).unwrap();
    assert!(first >= every && first <= every + step, "{first:?}");
}

/// What a power loss leaves of the keys `before` and `after`.
fn left(world: &Simulation) -> Vec<Option<Vec<u8>>> {
    let left = world.disk.image_at(world.disk.trace_len(), Policy::Strict, 0);
    let db = Database::builder(DIR).env(Simulation::on(left, 2).env()).open().expect("opened");
    let map = db.existing_keyspace("map").expect("there");
    ["before", "after"].map(|key| map.get(key).expect("read").map(|value| value.to_vec())).into()
}

/// A row that is in a table, and one that nothing has synced yet, under a timer that is far from due.
fn unsynced(world: &Simulation, faults: &FaultFs) -> (Database, Keyspace) {
    let every = Duration::from_mins(1);
    let options = DatabaseOptions { durability: Durability::Interval(every), ..DatabaseOptions::default() };
    let env = world.env_over(Arc::new(faults.clone()));
    let db = Database::builder(DIR).options(options).env(env).open().expect("opened");
    let map = db.keyspace("map", KeyspaceOptions::default()).expect("created");
    map.put("before", "1").expect("put");
    db.flush().expect("flushed");
    map.put("after", "2").expect("put");
    assert_eq!(left(world), [Some(b"1".to_vec()), None]);
    (db, map)
}

/// The interval is kept once writes have stopped, if it was not a sync that stopped them.
#[test]
fn what_was_acknowledged_before_writes_stopped_is_synced() {
    let (world, faults) = failing();
    let (db, map) = unsynced(&world, &faults);
    let is_table = |path: &Path| path.extension().is_some_and(|extension| extension == "sst");
    faults
        .plan(Fault::when(move |call| call.operation == Operation::Create && is_table(call.path)).sticky());
    assert!(db.flush().is_err());
    for _ in 0..20 {
        world.clock.advance(Duration::from_secs(1));
        world.steps.settle();
    }
    assert!(matches!(db.batch().commit(), Err(Error::Poisoned { .. })));
    world.clock.advance(Duration::from_mins(2));
    world.steps.settle();
    assert_eq!(left(&world), [Some(b"1".to_vec()), Some(b"2".to_vec())]);
    assert_eq!(map.get("after").unwrap().as_deref(), Some(&b"2"[..]));
    drop((db, map));
}

/// Where the last handle has no room for its tables, its log is synced.
#[test]
fn what_does_not_fit_into_tables_at_the_end_is_synced() {
    let (world, faults) = failing();
    let (db, map) = unsynced(&world, &faults);
    world.disk.set_capacity(Some(1));
    drop((db, map));
    world.disk.set_capacity(None);
    assert_eq!(left(&world), [Some(b"1".to_vec()), Some(b"2".to_vec())]);
}

/// A filesystem that panics in a sync is one whose sync failed: who comes after hears of it. They waited for ever for a sync
/// that nobody made any more.
#[test]
fn a_panic_in_a_sync_stops_writes() {
    let (world, faults) = failing();
    let options = DatabaseOptions { durability: Durability::Sync, ..DatabaseOptions::default() };
    let env = world.env_over(Arc::new(faults.clone()));
    let db = Database::builder(DIR).options(options).env(env).open().unwrap();
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    map.put("a", "1").unwrap();
    let panics = AtomicBool::new(true);
    faults.plan(Fault::when(move |call| {
        let hit = call.operation == Operation::SyncData && panics.swap(false, Ordering::Relaxed);
        assert!(!hit, "out of order");
        false
    }));
    let (answer, answers) = mpsc::channel();
    std::thread::spawn(move || {
        let put = catch_unwind(AssertUnwindSafe(|| map.put("b", "2")));
        answer.send((put, map.put("c", "3"))).expect("somebody waits");
    });
    let (put, next) = answers.recv_timeout(Duration::from_secs(20)).expect("they wait for nobody");
    assert!(matches!(next, Err(Error::Poisoned { .. })), "{next:?}");
    assert!(matches!(put, Ok(Err(Error::InDoubt { .. }))), "{put:?}");
    assert!(db.persist().is_err());
    // Nor is the log believed where a sync says Ok again.
    let syncs = faults.count(Operation::SyncData);
    assert!(db.close().is_err());
    assert_eq!(faults.count(Operation::SyncData), syncs);
}

#[derive(Default)]
struct Stops(Mutex<Vec<Error>>);

impl Listener for Stops {
    fn on_event(&self, event: &Event) {
        if let Event::WritesStopped { error } = event {
            self.0.lock().expect("nobody panics with it").push(error.clone());
        }
    }
}

/// Listeners hear that a sync which failed has stopped writes, once.
#[test]
fn a_failed_sync_is_told_to_listeners() {
    let (world, faults) = failing();
    let stops = Arc::new(Stops::default());
    let options = DatabaseOptions { durability: Durability::Sync, ..DatabaseOptions::default() };
    let builder = Database::builder(DIR).options(options).env(world.env_over(Arc::new(faults.clone())));
    let db = builder.listener(stops.clone()).open().unwrap();
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    map.put("a", "1").unwrap();
    assert!(stops.0.lock().unwrap().is_empty());
    faults.plan(Fault::when(|call| call.operation == Operation::SyncData).sticky());
    assert!(matches!(map.put("b", "2"), Err(Error::InDoubt { .. })));
    assert!(matches!(map.put("c", "3"), Err(Error::Poisoned { .. })));
    let told = stops.0.lock().unwrap();
    assert!(matches!(&told[..], [Error::Io { .. }]), "{told:?}");
}

/// Waits, once told that writes have stopped, until so many writers have their answer.
struct Patient {
    writers: usize,
    answers: Mutex<mpsc::Receiver<()>>,
    all_answered: OnceLock<bool>,
}

impl Listener for Patient {
    fn on_event(&self, event: &Event) {
        if matches!(event, Event::WritesStopped { .. }) {
            let answers = self.answers.lock().expect("nobody panics with it");
            let long = Duration::from_secs(20);
            let all = (0..self.writers).all(|_| answers.recv_timeout(long).is_ok());
            self.all_answered.set(all).expect("writes stop once");
        }
    }
}

/// A sync may find that the directory was moved: whoever makes it tells so when nobody waits for that sync any more.
#[test]
fn a_listener_may_wait_for_those_who_waited_for_the_sync() {
    const WRITERS: usize = 8;
    let (dir, (answer, answers)) = (tempfile::tempdir().unwrap(), mpsc::channel());
    let (place, moved) = (dir.path().join("db"), dir.path().join("moved"));
    let patient =
        Patient { writers: WRITERS - 1, answers: Mutex::new(answers), all_answered: OnceLock::new() };
    let patient = Arc::new(patient);
    let options = DatabaseOptions { durability: Durability::Sync, ..DatabaseOptions::default() };
    let builder = Database::builder(&place).options(options).listener(Arc::<Patient>::clone(&patient));
    let db = builder.open().unwrap();
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    map.put("a", "1").unwrap();
    // The manifest does not know of the new log yet, so that the next sync looks whether it may tell it.
    db.flush().unwrap();
    std::fs::rename(&place, &moved).unwrap();
    let together = Barrier::new(WRITERS);
    std::thread::scope(|scope| {
        for _ in 0..WRITERS {
            scope.spawn(|| {
                together.wait();
                assert!(map.put("b", "2").is_err());
                answer.send(()).unwrap();
            });
        }
    });
    assert_eq!(patient.all_answered.get(), Some(&true));
}

/// The name of a checkpoint is made durable where it is relative, too.
#[test]
fn the_name_of_a_checkpoint_in_the_present_directory_is_synced() {
    let (world, faults) = failing();
    let db = Database::builder(DIR).env(world.env_over(Arc::new(faults.clone()))).open().unwrap();
    let synced = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&synced);
    faults.plan(Fault::when(move |call| {
        if call.operation == Operation::SyncDir {
            seen.lock().unwrap().push(call.path.to_path_buf());
        }
        false
    }));
    // The simulated disk has no present directory: what counts is that its name is asked for.
    let _ = db.checkpoint("copy");
    let last = synced.lock().unwrap().last().cloned();
    assert_eq!(last.as_deref(), Some(Path::new(".")));
}
