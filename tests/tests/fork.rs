//! A forked child has the handle of its parent, and none of its threads: it may read, and what would change
//! anything errs. A test of its own in a process of its own, since a fork takes only the thread that calls it.
#![cfg(unix)]
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a real process with a real lock, and a watchdog in it"
)]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use esker::event::Event;
use esker::{Database, DatabaseOptions, Durability, Error, Keyspace, KeyspaceOptions, MergeOperator};
use esker_vfs::fs::Fs;
use esker_vfs::os::OsFs;
use fork::{Fork, fork, waitpid};
use rustix::process::{Pid, Signal, WaitOptions, kill_process};

/// End this child with a code of its own should it wait for a thread that is not there.
fn watch() {
    std::thread::spawn(|| {
        std::thread::sleep(Duration::from_secs(30));
        std::process::exit(99);
    });
}

/// What the child found wrong, as its exit code; 0 is nothing.
fn in_the_child(db: Database, map: &Keyspace) -> i32 {
    let poisoned = |outcome: esker::Result<()>| matches!(outcome, Err(Error::Poisoned { .. }));
    let mut batch = db.batch();
    batch.durability(Durability::Sync);
    if batch.put(map, "child", "synced").is_err() || !poisoned(batch.commit()) {
        return 1;
    }
    if (0..WRITES).any(|nth| !poisoned(write(nth, &db, map))) {
        return 2;
    }
    if !poisoned(db.persist()) || !poisoned(db.flush()) || !poisoned(db.wait_for_compactions()) {
        return 3;
    }
    if !poisoned(map.compact_range::<&[u8]>(..)) {
        return 4;
    }
    if !poisoned(db.keyspace("more", KeyspaceOptions::default()).map(drop)) {
        return 5;
    }
    if map.get("before").ok().flatten().as_deref() != Some(b"1") {
        return 6;
    }
    if !poisoned(db.close()) {
        return 7;
    }
    0
}

/// The ways to write below `Sync`, by number.
fn write(nth: usize, db: &Database, map: &Keyspace) -> esker::Result<()> {
    match nth {
        0 => map.put("child", "x"),
        1 => map.delete("before"),
        2 => map.delete_range("a".."z"),
        3 => map.merge("child", "x"),
        4 => {
            let mut batch = db.batch();
            batch.put(map, "child", "x")?;
            batch.delete_range(map, "a".."z")?;
            batch.commit()
        }
        5 => db.transact(|tx| {
            assert_eq!(tx.get(map, "before")?.as_deref(), Some(&b"1"[..]));
            tx.put(map, "child", "x")
        }),
        // The memtable is full after some of these.
        _ => (0..2_000u32).try_for_each(|n| map.put(n.to_be_bytes(), [7; 100])),
    }
}

const WRITES: usize = 7;
const FIRST_CALLS: usize = 9 + WRITES;

/// Each call that is the first of its child: what it finds must not lean on an earlier one's.
fn first_calls(nth: usize, db: Database, map: &Keyspace, elsewhere: &Path) -> i32 {
    let refused = match nth {
        0 => return in_the_child(db, map),
        1 => db.persist(),
        2 => db.flush(),
        3 => db.wait_for_compactions(),
        4 => map.compact_range::<&[u8]>(..),
        5 => db.drop_keyspace("map"),
        6 => db.close(),
        // Nobody asks: dropping changes nothing either.
        7 => return 0,
        // The locks of its parent's threads would make a database of its own wait for ever.
        8 => return if Database::open(elsewhere).is_err() { 0 } else { 51 },
        _ => write(nth - 9, &db, map),
    };
    if !matches!(refused, Err(Error::Poisoned { .. })) {
        return 50;
    }
    // After the first refusal, too, it reads what was there, and nothing of its own.
    match (map.get("before"), map.get("child")) {
        (Ok(Some(before)), Ok(None)) if &before[..] == b"1" => 0,
        // Closed.
        (Err(Error::Closed { .. }), _) if nth == 6 => 0,
        _ => 52,
    }
}

/// Every file of the database, by name, up to its last byte that is not zero: the parent reserves room for its log when
/// it likes.
fn files(place: &Path) -> BTreeMap<OsString, Vec<u8>> {
    let entries = std::fs::read_dir(place).expect("a directory").map(|entry| entry.expect("an entry"));
    let content = |path: &Path| {
        let mut bytes = std::fs::read(path).expect("read");
        bytes.truncate(bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1));
        bytes
    };
    entries.map(|entry| (entry.file_name(), content(&entry.path()))).collect()
}

/// Operands, one after the other.
struct Concat;

impl MergeOperator for Concat {
    fn name(&self) -> &'static str {
        "concat"
    }
    fn fold(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>, String> {
        Ok([base.unwrap_or_default(), &operands.concat()].concat())
    }
}

/// Whether the lock at `path` is free, by the system's word alone: this process's own list is not asked.
fn is_free(path: &Path) -> bool {
    std::fs::File::open(path).expect("there").try_lock().is_ok()
}

/// A child drops its copy of a lock, and another keeps one while its parent lets go.
fn a_lock_is_its_parents(path: &Path) {
    let lock = OsFs.lock(path).expect("free");
    match fork() {
        Ok(Fork::Child) => {
            watch();
            drop(lock);
            std::process::exit(0);
        }
        Ok(Fork::Parent(child)) => assert_eq!(waitpid(child).ok(), Some(0)),
        Err(error) => panic!("no fork: {error:?}"),
    }
    assert!(!is_free(path), "a child has let go of its parent's lock");
    let child = sleeping_child();
    drop(lock);
    drop(OsFs.lock(path).expect("free again, though the child has a copy"));
    end(child);
}

/// Whether a child opens the database at `place`, writes and closes.
fn a_child_may_open(place: &Path) -> bool {
    match fork() {
        Ok(Fork::Child) => {
            watch();
            let own = || {
                let own = Database::open(place)?;
                own.keyspace("map", KeyspaceOptions::default())?.put("a", "b")?;
                own.close()
            };
            std::process::exit(i32::from(own().is_err()));
        }
        Ok(Fork::Parent(child)) => waitpid(child).expect("it has ended") == 0,
        Err(error) => panic!("no fork: {error:?}"),
    }
}

/// The last handle of the database at `place` goes on the thread that flushes.
fn a_listener_lets_go(place: &Path) {
    let last: Arc<Mutex<Option<Database>>> = Arc::default();
    let (gone, is_gone) = mpsc::channel::<()>();
    let (closed, is_closed) = mpsc::channel();
    let listener = {
        let (last, is_gone) = (Arc::clone(&last), Mutex::new(is_gone));
        move |event: &Event| {
            let last = last.lock().expect("no panic").take_if(|_| matches!(event, Event::Flushed { .. }));
            let Some(db) = last else { return };
            is_gone.lock().expect("no panic").recv().expect("told");
            drop(db);
            closed.send(()).expect("awaited");
        }
    };
    let db = Database::builder(place).listener(Arc::new(listener)).open().expect("opened");
    *last.lock().expect("no panic") = Some(db.clone());
    db.keyspace("map", KeyspaceOptions::default()).expect("created").put("a", "b").expect("put");
    db.flush().expect("flushed");
    drop(db);
    gone.send(()).expect("awaited");
    is_closed.recv_timeout(Duration::from_secs(20)).expect("it waits for itself");
}

/// A child that has a copy of all that is open here, and does nothing.
fn sleeping_child() -> Pid {
    match fork() {
        Ok(Fork::Child) => {
            std::thread::sleep(Duration::from_mins(1));
            std::process::exit(0);
        }
        Ok(Fork::Parent(child)) => Pid::from_raw(child).expect("a number"),
        Err(error) => panic!("no fork: {error:?}"),
    }
}

/// End `child`, which is still there.
fn end(child: Pid) {
    assert!(rustix::process::waitpid(Some(child), WaitOptions::NOHANG).expect("ours").is_none());
    kill_process(child, Signal::KILL).expect("ended");
    rustix::process::waitpid(Some(child), WaitOptions::empty()).expect("ours");
}

#[test]
fn a_forked_child_changes_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let place = dir.path().join("db");
    let options = DatabaseOptions { memtable_bytes_max: 64 << 10, ..DatabaseOptions::default() };
    let builder = Database::builder(&place).options(options).merge_operator(Arc::new(Concat));
    let db = builder.open().expect("opened");
    let merged = KeyspaceOptions { merge_operator: Some("concat".into()), ..KeyspaceOptions::default() };
    let map = db.keyspace("map", merged).expect("created");
    map.put("before", "1").expect("put");
    for nth in 0..FIRST_CALLS {
        // Something to flush, and nothing under way.
        db.flush().expect("flushed");
        db.wait_for_compactions().expect("settled");
        map.put("round", nth.to_be_bytes()).expect("put");
        let before = files(&place);
        match fork() {
            Ok(Fork::Child) => {
                watch();
                let found = first_calls(nth, db.clone(), &map, &dir.path().join("elsewhere"));
                drop((map, db));
                std::process::exit(found);
            }
            Ok(Fork::Parent(child)) => assert_eq!(waitpid(child).ok(), Some(0), "child {nth}"),
            Err(error) => panic!("no fork: {error:?}"),
        }
        assert!(files(&place) == before, "child {nth} has changed a file");
    }
    // The parent has heard nothing of all that, and holds its lock.
    assert!(matches!(Database::open(&place), Err(Error::Locked { .. })));
    assert!(!is_free(&place.join("LOCK")));
    map.put("after", "2").expect("put");
    db.persist().expect("durable");
    for n in 0..2_000u32 {
        map.put(n.to_be_bytes(), [7; 100]).expect("put");
    }
    db.close().expect("closed");
    drop(map);
    let db = Database::builder(&place).merge_operator(Arc::new(Concat)).open().expect("opened again");
    db.verify().expect("whole");
    let map = db.existing_keyspace("map").expect("there");
    assert_eq!(map.iter().count(), 2_003);
    assert_eq!(map.get("child").expect("read"), None);
    assert_eq!(map.get("after").expect("read").as_deref(), Some(&b"2"[..]));

    // A child that lives on keeps nobody out.
    let child = sleeping_child();
    drop(map);
    db.close().expect("closed");
    let db = Database::builder(&place).merge_operator(Arc::new(Concat)).open().expect("opened once more");
    db.close().expect("closed");
    end(child);

    // After the last close a child may open what it likes.
    assert!(a_child_may_open(&dir.path().join("elsewhere")));

    // Also if a listener has closed: soon, when the thread that called it has ended.
    a_listener_lets_go(&dir.path().join("let go"));
    let may = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        a_child_may_open(&dir.path().join("elsewhere"))
    });
    assert!(may);

    a_lock_is_its_parents(&dir.path().join("lock"));
}
