#![expect(clippy::disallowed_methods, reason = "tests bring their own threads")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use esker_manifest::Edit;
use esker_vfs::Env;
use esker_vfs::clock::OsClock;
use esker_vfs::fault::{Fault, FaultFs, Operation};
use esker_vfs::fs::{Fs, read_all};
use esker_vfs::mem::{MemFs, Policy};
use esker_vfs::scheduler::threads::Threads;
use esker_vfs::sim::Simulation;

use crate::core::Core;
use crate::options::Durability;
use crate::{Database, Error, Keyspace, KeyspaceOptions};

const DIR: &str = "/db";

/// A database with the keyspaces `plain`, which has a row, and `other`, as another program or build creates it.
fn with_keyspace(other: Vec<u8>) -> MemFs {
    let disk = MemFs::simulated();
    let db = Database::builder(DIR).env(Simulation::on(disk.clone(), 1).env()).open().expect("opened");
    db.keyspace("plain", KeyspaceOptions::default()).expect("created").put("key", "value").expect("put");
    let versions = &db.core().versions;
    let id = versions.current().next_keyspace();
    let create = Edit::CreateKeyspace { id, name: "other".to_owned(), options: other };
    versions.commit(vec![create]).expect("committed");
    db.close().expect("closed");
    disk
}

fn open(disk: &MemFs, read_only: bool) -> crate::Result<Database> {
    Database::builder(DIR).read_only(read_only).env(Simulation::on(disk.clone(), 2).env()).open()
}

/// What an open for writing errs with, which changes no file.
fn refused(disk: &MemFs) -> Error {
    let files = || -> BTreeMap<String, Vec<u8>> {
        let names = disk.list(Path::new(DIR)).expect("listed").into_iter().map(|entry| entry.name);
        let content = |name: &str| read_all(disk, &Path::new(DIR).join(name), u64::MAX).expect("read");
        names.map(|name| (name.clone(), content(&name))).collect()
    };
    let before = files();
    let error = open(disk, false).expect_err("refused");
    assert!(before == files(), "it has changed the directory: {error}");
    error
}

#[test]
fn a_keyspace_that_the_program_cannot_work_with_is_named_and_nothing_is_changed() {
    let own = KeyspaceOptions::default().with_merge_operator("own");
    let disk = with_keyspace(own.encode());
    let error = refused(&disk);
    assert!(matches!(&error, Error::InvalidArgument { what } if what.contains("\"own\"")), "{error}");
    open(&disk, true).expect("for reading only").existing_keyspace("plain").expect("there");

    let damaged = refused(&with_keyspace(vec![0xff; 3]));
    assert!(matches!(damaged, Error::Corruption { .. }), "{damaged}");
}

/// A build without zstd says what it lacks, and that nothing is damaged.
#[cfg(not(feature = "zstd"))]
#[test]
fn a_codec_that_the_build_lacks_is_named_and_nothing_is_changed() {
    let zstd = KeyspaceOptions::default().with_compression(crate::Compression::Zstd { level: 3 });
    let disk = with_keyspace(zstd.encode());
    for error in [refused(&disk), open(&disk, true).expect_err("refused")] {
        let Error::InvalidArgument { what } = error else { panic!("{error}") };
        for part in ["keyspace \"other\"", "zstd", "feature `zstd`"] {
            assert!(what.contains(part), "{part:?} is not in {what}");
        }
    }

    let env = Simulation::on(disk.clone(), 3).env();
    let salvaged = crate::salvage::Salvage::of(DIR).env(env).run("/new").expect("salvaged");
    assert_eq!(salvaged.rows, BTreeMap::from([("plain".to_owned(), 1), ("other".to_owned(), 0)]));
    let [loss] = &salvaged.losses[..] else { panic!("{:?}", salvaged.losses) };
    assert!(loss.what.contains("keyspace other is compressed with zstd"), "{loss:?}");
}

/// After a close the directory may be another handle's: whoever is still about to make a file there hears so.
#[test]
fn nothing_is_in_place_once_the_lock_is_given_up() {
    let db = Database::in_memory().expect("opened");
    db.keyspace("map", KeyspaceOptions::default()).expect("created");
    let core = Arc::clone(db.core());
    core.in_place().expect("it is locked");
    db.close().expect("closed");
    assert!(matches!(core.in_place(), Err(Error::Closed { .. })));
    assert!(matches!(core.check_in_place(), Err(Error::Closed { .. })));
}

/// Whoever waits until everything has settled is not going to write for a while: what lies ready for the next memtable goes back.
#[test]
fn memory_for_memtables_goes_back_when_everything_has_settled() {
    let (world, hands) = Env::simulated(1);
    let env = Env { fs: Arc::new(MemFs::new()), ..world };
    let db = Database::builder("/db").env(env).open().expect("opened");
    let map = db.keyspace("map", KeyspaceOptions::default()).expect("created");
    let held = || db.metrics().memory.iter().find(|(what, _)| *what == "memtables").expect("an account").1;
    for n in 0..40_000u32 {
        map.put(n.to_be_bytes(), [7; 1000]).expect("put");
    }
    db.flush().expect("flushed");
    // Nothing is left to be done: who waits now looks once.
    hands.steps.settle();
    assert!(held() > 30 << 20, "{} bytes are kept for the next memtable", held());
    db.wait_for_compactions().expect("settled");
    assert!(held() < 1 << 20, "{} bytes are kept for nobody", held());
}

/// A database on `fs` with threads, and its keyspaces `a`, which holds a row, and `b`, which is empty.
fn two_keyspaces(fs: Arc<dyn Fs>, durability: Durability) -> (Database, Keyspace, Keyspace) {
    let scheduler = Arc::new(Threads::new(1).expect("started"));
    let env = Env { fs, clock: Arc::new(OsClock::new()), scheduler };
    let db = Database::builder("/db").env(env).durability(durability).open().expect("opened");
    let [a, b] = ["a", "b"].map(|name| db.keyspace(name, KeyspaceOptions::default()).expect("created"));
    a.put("key", "value").expect("put");
    (db, a, b)
}

/// Whether everything that was committed is durable.
fn is_durable(core: &Core) -> bool {
    let position = core.commits.lock().position();
    match position {
        Some(_) => core.group_sync.durable() >= position,
        None => core.current.load_full().memtables().all(|memtable| memtable.memtable.is_empty()),
    }
}

/// What is copied out of a keyspace that is about to be dropped, when everything before is durable by now, is not lost with
/// the power while the drop is not: at no moment, or, without a log, once the drop has returned.
#[test]
fn a_drop_does_not_outlive_what_was_committed_before_it() {
    for durability in [Durability::Os, Durability::Interval(Duration::from_hours(1)), Durability::NoLog] {
        let disk = MemFs::simulated();
        let (db, a, b) = two_keyspaces(Arc::new(disk.clone()), durability);
        let core = Arc::clone(db.core());
        let changing = core.keyspace_changes.lock();
        let dropping = thread::spawn({
            let db = db.clone();
            move || db.drop_keyspace("a")
        });
        while !is_durable(&core) {
            thread::yield_now();
        }
        db.transact(|tx| {
            let value = tx.get(&a, "key")?.expect("it is not dropped yet");
            tx.put(&b, "key", &value)
        })
        .expect("copied");
        let copied = disk.trace_len();
        drop(changing);
        dropping.join().expect("no panic").expect("dropped");
        let returned = disk.trace_len();
        let is_logged = durability != Durability::NoLog;
        let (first, policy) =
            if is_logged { (copied, Policy::Strict) } else { (returned, Policy::Everything) };
        for at in first..=returned {
            let env = Simulation::on(disk.image_at(at, policy, 0), 1).env();
            let db = Database::builder("/db").env(env).open().expect("opened");
            let is_there = db.existing_keyspace("a").is_ok();
            let copy = db.existing_keyspace("b").expect("there").get("key").expect("read");
            assert!(is_there || copy.is_some(), "{durability:?}: lost in all places at {at} of {returned}");
            assert!(at < returned || !is_there, "{durability:?}: the drop is not durable");
        }
    }
}

/// Whoever commits beside a drop comes before what it makes durable, or after it took effect.
#[test]
fn nothing_is_committed_while_a_drop_is_written() {
    let faults = FaultFs::new(Arc::new(MemFs::new()));
    // A put without a log calls no filesystem, which is locked while a fault is asked for.
    let (db, _a, b) = two_keyspaces(Arc::new(faults.clone()), Durability::NoLog);
    db.flush().expect("flushed");
    let (begin, begun) = mpsc::channel();
    let (put, is_put) = mpsc::channel();
    let putting = thread::spawn({
        let b = b.clone();
        move || {
            begun.recv().expect("the manifest is written");
            b.put("key", "value").expect("put");
            let _ = put.send(());
        }
    });
    let meanwhile = Arc::new(OnceLock::new());
    let (noted, is_put) = (Arc::clone(&meanwhile), Mutex::new(is_put));
    faults.plan(Fault::when(move |call| {
        let is_manifest = call.path.extension().is_some_and(|extension| extension == "manifest");
        if call.operation == Operation::Write && is_manifest && noted.get().is_none() {
            begin.send(()).expect("somebody waits");
            let is_put = is_put.lock().expect("no panic").recv_timeout(Duration::from_millis(200)).is_ok();
            noted.set(is_put).expect("once");
        }
        false
    }));
    db.drop_keyspace("a").expect("dropped");
    putting.join().expect("no panic");
    assert_eq!(meanwhile.get(), Some(&false));
    assert!(b.contains("key").expect("read"));
}

/// A commit that waited while a keyspace was dropped that it writes to has no effect: somebody may have seen the drop. Those
/// beside it in its group have.
#[test]
fn a_commit_that_comes_behind_a_drop_has_no_effect() {
    let (db, a, b) = two_keyspaces(Arc::new(MemFs::new()), Durability::Os);
    b.put("key", "value").expect("put");
    let core = Arc::clone(db.core());
    let is_refused = |outcome: crate::Result<()>| {
        let is_told = matches!(outcome, Err(Error::KeyspaceDropped { .. } | Error::NoSuchKeyspace { .. }));
        assert!(is_told, "{outcome:?}");
    };
    let moved = |value: &[u8]| {
        let mut batch = db.batch();
        batch.put(&a, "key", value).expect("added");
        batch.delete(&b, "key").expect("added");
        batch.commit()
    };
    let queue_up_behind = |queued: usize| {
        while core.commits.writers() <= queued {
            thread::yield_now();
        }
    };
    // Long enough to be written from where it lies.
    let long = vec![7; 64 << 10];
    thread::scope(|scope| {
        let guard = core.commits.lock();
        let first = scope.spawn(|| moved(b"moved"));
        queue_up_behind(0);
        let beside = scope.spawn(|| b.put("beside", "value"));
        queue_up_behind(1);
        let second = scope.spawn(|| moved(b"moved"));
        queue_up_behind(2);
        let behind = scope.spawn(|| b.put("behind", "value"));
        queue_up_behind(3);
        let last = scope.spawn(|| moved(&long));
        queue_up_behind(4);
        core.drop_keyspace(a.id()).expect("dropped");
        drop(guard);
        for refused in [first, second, last] {
            is_refused(refused.join().expect("no panic"));
        }
        for done in [beside, behind] {
            done.join().expect("no panic").expect("put");
        }
    });
    is_refused(moved(b"late"));
    is_refused(a.put("key", "late"));
    for key in ["key", "beside", "behind"] {
        assert_eq!(b.get(key).expect("read").as_deref(), Some(&b"value"[..]), "{key}");
    }
    assert_eq!(b.iter().count(), 3);
}
