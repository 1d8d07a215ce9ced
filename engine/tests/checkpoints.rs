//! Checkpoints and salvage: whose the target is.
#![expect(clippy::disallowed_methods, reason = "tests bring their own threads and directories")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};

use esker::event::Event;
use esker::salvage::Salvage;
use esker::vfs::Env;
use esker::vfs::fault::{Fault, FaultFs, Operation};
use esker::vfs::fs::Fs;
use esker::vfs::mem::MemFs;
use esker::vfs::sim::Simulation;
use esker::{Database, Error, KeyspaceOptions};

/// A database with a hundred rows in tables and in memory.
fn hundred(db: &Database) {
    let map = db.keyspace("map", KeyspaceOptions::default()).expect("nothing fails here");
    for row in 0..100u32 {
        map.put(row.to_be_bytes(), "value").expect("nothing fails here");
        if row == 50 {
            db.flush().expect("nothing fails here");
        }
    }
}

/// Of two checkpoints to one place one is made, whole; the other is told so, and removes nothing.
#[test]
fn one_of_two_checkpoints_to_one_place_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path().join("db")).unwrap();
    hundred(&db);
    let map = db.existing_keyspace("map").unwrap();
    for round in 0..30u32 {
        map.put((100 + round).to_be_bytes(), "value").unwrap();
        let target = dir.path().join(format!("copy-{round}"));
        let start = Barrier::new(2);
        let copy = || {
            start.wait();
            db.checkpoint(&target)
        };
        let outcomes: Vec<esker::Result<()>> = std::thread::scope(|threads| {
            let both = [threads.spawn(copy), threads.spawn(copy)];
            both.map(|one| one.join().unwrap()).into()
        });
        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1, "{outcomes:?}");
        let told = outcomes.into_iter().find_map(Result::err).unwrap();
        assert!(matches!(&told, Error::InvalidArgument { .. }), "{told}");
        assert!(told.to_string().contains("it exists"), "{told}");
        let made = Database::open(&target).unwrap();
        made.verify().unwrap();
        assert_eq!(made.existing_keyspace("map").unwrap().iter().count(), 101 + round as usize);
    }
}

/// Makes a database with one row at `/copy` of `disk`.
fn other(disk: &MemFs) -> Database {
    let db = Database::builder("/copy")
        .env(Simulation::on(disk.clone(), 7).env())
        .open()
        .expect("nothing fails here");
    let map = db.keyspace("theirs", KeyspaceOptions::default()).expect("nothing fails here");
    map.put("a", "1").expect("nothing fails here");
    db.persist().expect("nothing fails here");
    db
}

/// The database of [`other`] is as it was.
fn check_other(disk: &MemFs, open: Option<Database>) {
    let db = open.unwrap_or_else(|| {
        Database::builder("/copy")
            .env(Simulation::on(disk.clone(), 8).env())
            .open()
            .expect("nothing fails here")
    });
    db.verify().expect("nothing fails here");
    let map = db.existing_keyspace("theirs").expect("nothing fails here");
    assert_eq!(map.get("a").expect("nothing fails here").as_deref(), Some(&b"1"[..]));
    map.put("b", "2").expect("nothing fails here");
    db.flush().expect("nothing fails here");
}

/// A database that somebody makes at the target while a checkpoint flushes is not touched, open or closed.
#[test]
fn a_database_that_appears_during_a_checkpoint_stays() {
    for stays_open in [true, false] {
        let disk = MemFs::simulated();
        let theirs = Arc::new(Mutex::new(None));
        let (listener, place) = (Arc::clone(&theirs), disk.clone());
        let listen = move |event: &Event| {
            if matches!(event, Event::MemtableSealed { .. }) {
                let db = other(&place);
                if stays_open {
                    *listener.lock().unwrap() = Some(db);
                } else {
                    db.close().unwrap();
                }
            }
        };
        let builder = Database::builder("/db").env(Simulation::on(disk.clone(), 1).env());
        let db = builder.listener(Arc::new(listen)).open().unwrap();
        db.keyspace("map", KeyspaceOptions::default()).unwrap().put("a", "mine").unwrap();
        let told = db.checkpoint("/copy").unwrap_err();
        assert!(matches!(told, Error::InvalidArgument { .. }), "{told}");
        assert!(told.to_string().contains("it exists"), "{told}");
        let open = theirs.lock().unwrap().take();
        assert_eq!(open.is_some(), stays_open, "the listener was called");
        check_other(&disk, open);
    }
}

/// The same in the instant between the making of the directory and its lock.
#[test]
fn a_database_that_appears_in_a_checkpoints_new_directory_stays() {
    for stays_open in [true, false] {
        let disk = MemFs::simulated();
        let world = Simulation::on(disk.clone(), 1);
        let faults = FaultFs::over(&disk, Arc::clone(&world.clock));
        let db = Database::builder("/db").env(world.env_over(Arc::new(faults.clone()))).open().unwrap();
        hundred(&db);
        let theirs = Arc::new(Mutex::new(None));
        let (hook, place) = (Arc::clone(&theirs), disk.clone());
        faults.plan(Fault::when(move |call| {
            if call.operation == Operation::Lock && call.path == "/copy/LOCK" {
                let db = other(&place);
                if stays_open {
                    *hook.lock().unwrap() = Some(db);
                } else {
                    db.close().unwrap();
                }
            }
            false
        }));
        match db.checkpoint("/copy").unwrap_err() {
            Error::Locked { .. } if stays_open => {}
            Error::InvalidArgument { .. } if !stays_open => {}
            told => panic!("{told}"),
        }
        let open = theirs.lock().unwrap().take();
        check_other(&disk, open);
    }
}

/// Nobody opens a checkpoint that is not finished; one that is has no lock, and several may read it at once.
#[test]
fn a_checkpoint_is_locked_until_it_is_finished() {
    let disk = MemFs::simulated();
    let world = Simulation::on(disk.clone(), 1);
    let faults = FaultFs::over(&disk, Arc::clone(&world.clock));
    let db = Database::builder("/db").env(world.env_over(Arc::new(faults.clone()))).open().unwrap();
    hundred(&db);
    let open = |disk: &MemFs, read_only: bool| {
        let env = Simulation::on(disk.clone(), 2).env();
        Database::builder("/copy").read_only(read_only).env(env).open()
    };
    let refused = Arc::new(AtomicUsize::new(0));
    let (count, place) = (Arc::clone(&refused), disk.clone());
    faults.plan(Fault::when(move |call| {
        let within = call.path.starts_with("/copy") && call.path != "/copy/LOCK";
        if within && matches!(call.operation, Operation::HardLink | Operation::Rename | Operation::Sync) {
            let told = open(&place, false).map(drop);
            assert!(matches!(told, Err(Error::Locked { .. })), "{told:?}");
            count.fetch_add(1, Ordering::SeqCst);
        }
        false
    }));
    db.checkpoint("/copy").unwrap();
    assert!(refused.load(Ordering::SeqCst) > 0);
    faults.clear();
    let (one, another) = (open(&disk, true).unwrap(), open(&disk, true).unwrap());
    assert_eq!(one.existing_keyspace("map").unwrap().iter().count(), 100);
    assert_eq!(another.existing_keyspace("map").unwrap().iter().count(), 100);
}

/// Whatever fails within it, an unfinished checkpoint is removed whole, and a finished one is whole.
#[test]
fn nothing_half_made_is_left_of_a_checkpoint() {
    let mut failed = 0;
    for nth in 0..40 {
        let disk = MemFs::simulated();
        let world = Simulation::on(disk.clone(), 1);
        let faults = FaultFs::over(&disk, Arc::clone(&world.clock));
        let db = Database::builder("/db").env(world.env_over(Arc::new(faults.clone()))).open().unwrap();
        hundred(&db);
        let calls = AtomicUsize::new(0);
        faults.plan(Fault::when(move |call| {
            let hit = call.path.starts_with("/copy") && call.operation.changes();
            hit && calls.fetch_add(1, Ordering::SeqCst) == nth
        }));
        if db.checkpoint("/copy").is_ok() {
            let env = Simulation::on(disk.clone(), 2).env();
            let made = Database::builder("/copy").env(env).open().unwrap();
            assert_eq!(made.existing_keyspace("map").unwrap().iter().count(), 100);
        } else {
            failed += 1;
            assert!(disk.stat("/copy".as_ref()).unwrap().is_none(), "fault {nth} left something");
        }
    }
    assert!(failed > 3, "{failed}");
}

/// Moves a row to another keyspace and drops the one it was in, once a checkpoint has sealed its memtable.
struct MovesAndDrops(Mutex<Option<Database>>);

impl esker::event::Listener for MovesAndDrops {
    fn on_event(&self, event: &Event) {
        let db = if matches!(event, Event::MemtableSealed { .. }) {
            self.0.lock().expect("no panic").take()
        } else {
            None
        };
        let Some(db) = db else { return };
        let [from, to] = ["from", "to"].map(|name| db.existing_keyspace(name).expect("there"));
        to.put("key", from.get("key").expect("read").expect("there")).expect("put");
        db.drop_keyspace("from").expect("dropped");
    }
}

/// A keyspace that is dropped during a checkpoint is in it, or what was moved elsewhere before is.
#[test]
fn a_checkpoint_has_no_drop_without_what_was_committed_before_it() {
    let disk = MemFs::simulated();
    let listener = Arc::new(MovesAndDrops(Mutex::default()));
    let env = Simulation::on(disk.clone(), 1).env();
    let db = Database::builder("/db").env(env).listener(listener.clone()).open().unwrap();
    let [from, _to] = ["from", "to"].map(|name| db.keyspace(name, KeyspaceOptions::default()).unwrap());
    from.put("key", "value").unwrap();
    *listener.0.lock().unwrap() = Some(db.clone());
    db.checkpoint("/copy").unwrap();
    assert!(db.existing_keyspace("from").is_err(), "it was dropped meanwhile");
    let copy = Database::builder("/copy").env(Simulation::on(disk, 2).env()).open().unwrap();
    let moved = copy.existing_keyspace("to").unwrap().get("key").unwrap();
    assert!(moved.is_some() || copy.existing_keyspace("from").is_ok(), "the row is nowhere");
}

/// Drops a keyspace and makes it anew whenever a memtable was sealed.
#[derive(Default)]
struct DropsAlways(Mutex<Option<Database>>);

impl esker::event::Listener for DropsAlways {
    fn on_event(&self, event: &Event) {
        let db = self.0.lock().expect("no panic").clone();
        let Some(db) = db.filter(|_| matches!(event, Event::MemtableSealed { .. })) else { return };
        db.drop_keyspace("passing").expect("dropped");
        let passing = db.keyspace("passing", KeyspaceOptions::default()).expect("created");
        passing.put("key", "value").expect("put");
    }
}

/// A checkpoint does not go on flushing for ever where keyspaces are dropped all the time.
#[test]
fn a_checkpoint_gives_up_where_keyspaces_are_always_dropped() {
    let disk = MemFs::simulated();
    let listener = Arc::new(DropsAlways::default());
    let env = Simulation::on(disk.clone(), 1).env();
    let db = Database::builder("/db").env(env).listener(listener.clone()).open().unwrap();
    hundred(&db);
    db.keyspace("passing", KeyspaceOptions::default()).unwrap();
    *listener.0.lock().unwrap() = Some(db.clone());
    let told = db.checkpoint("/copy").unwrap_err();
    assert!(told.to_string().contains("a keyspace was dropped"), "{told}");
    assert!(disk.stat("/copy".as_ref()).unwrap().is_none());
    *listener.0.lock().unwrap() = None;
    db.checkpoint("/copy").unwrap();
}

/// Of two salvages into one place one is made, whole.
#[test]
fn one_of_two_salvages_into_one_place_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let sources = ["one", "two"].map(|name| dir.path().join(name));
    for (source, value) in sources.iter().zip(["1", "2"]) {
        let db = Database::open(source).unwrap();
        let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
        for row in 0..100u32 {
            map.put(row.to_be_bytes(), value).unwrap();
        }
        db.close().unwrap();
    }
    for round in 0..20 {
        let target = dir.path().join(format!("new-{round}"));
        let start = Barrier::new(2);
        let outcomes: Vec<_> = std::thread::scope(|threads| {
            let run = |source: &std::path::PathBuf| {
                start.wait();
                Salvage::of(source).run(&target)
            };
            let both: Vec<_> = sources.iter().map(|source| threads.spawn(move || run(source))).collect();
            both.into_iter().map(|one| one.join().unwrap()).collect()
        });
        let [one, two] = &outcomes[..] else { panic!("two were run") };
        let (value, told) = match (one, two) {
            (Ok(_), Err(told)) => (b"1", told),
            (Err(told), Ok(_)) => (b"2", told),
            both => panic!("{both:?}"),
        };
        assert!(matches!(told, Error::InvalidArgument { .. }), "{told}");
        let map = Database::open(&target).unwrap().existing_keyspace("map").unwrap();
        assert_eq!(map.iter().filter(|row| *row.as_ref().unwrap().1 == *value).count(), 100);
    }
}

/// A directory that takes the place of the one that a checkpoint or a salvage is making is left alone, whatever becomes of them.
#[test]
fn a_directory_that_takes_the_targets_place_is_left_alone() {
    for salvages in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let (from, target, moved) =
            (dir.path().join("db"), dir.path().join("copy"), dir.path().join("moved"));
        let db = Database::open(&from).unwrap();
        hundred(&db);
        if salvages {
            db.clone().close().unwrap();
        }
        let env = Env::os(1).unwrap();
        let faults = FaultFs::new(Arc::clone(&env.fs));
        let env = Env { fs: Arc::new(faults.clone()), ..env };
        let (place, away, once) = (target.clone(), moved.clone(), AtomicUsize::new(0));
        // In the middle of the work; everything that is done to the directory from then on fails.
        faults.plan(Fault::when(move |call| {
            let within = call.path.starts_with(&place) && call.path != place.join("LOCK");
            let creates = matches!(call.operation, Operation::Create | Operation::HardLink);
            if within && creates && once.fetch_add(1, Ordering::Relaxed) == 1 {
                std::fs::rename(&place, &away).expect("moved");
                std::fs::create_dir(&place).expect("made");
                for entry in std::fs::read_dir(&away).expect("listed") {
                    let name = entry.expect("read").file_name();
                    std::fs::write(place.join(name), "another's").expect("written");
                }
            }
            within && creates && once.load(Ordering::Relaxed) > 1
        }));
        let told = if salvages {
            Salvage::of(&from).env(env).run(&target).map(drop)
        } else {
            drop(db);
            let db = Database::builder(&from).env(env).open().unwrap();
            db.checkpoint(&target)
        };
        assert!(told.is_err(), "{salvages}");
        let left: Vec<_> = std::fs::read_dir(&target).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(left.iter().any(|path| path.ends_with("LOCK")) && left.len() > 1, "{left:?}");
        assert!(left.iter().all(|path| std::fs::read(path).unwrap() == b"another's"), "{left:?}");
        assert_eq!(std::fs::read_dir(&moved).unwrap().count(), left.len());
    }
}
