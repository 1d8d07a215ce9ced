//! What is done by hand: each test failed before its mend.
#![expect(clippy::disallowed_methods, reason = "tests bring their own threads and clocks")]

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, OnceLock, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use esker::event::{Event, Listener};
use esker::vfs::Env;
use esker::vfs::fs::Fs;
use esker::vfs::mem::MemFs;
use esker::vfs::sim::Simulation;
use esker::{Database, DatabaseOptions, Durability, KeyspaceOptions, MergeOperator};

/// Stands still in the middle of a compaction.
struct Slow {
    armed: AtomicBool,
    entered: Barrier,
    left: AtomicBool,
}

impl MergeOperator for Slow {
    fn name(&self) -> &'static str {
        "slow"
    }
    fn fold(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>, String> {
        if self.armed.swap(false, Ordering::SeqCst) {
            self.entered.wait();
            std::thread::sleep(Duration::from_millis(100));
            self.left.store(true, Ordering::SeqCst);
        }
        Ok([base.unwrap_or_default(), &operands.concat()].concat())
    }
}

/// A database, a compaction by hand in the middle of a step of it, and what tells whether that step is over.
fn in_the_middle_of_a_compaction() -> esker::Result<(Database, JoinHandle<esker::Result<()>>, Arc<Slow>)> {
    let slow = Arc::new(Slow {
        armed: AtomicBool::new(false),
        entered: Barrier::new(2),
        left: AtomicBool::new(false),
    });
    let builder = Database::builder("/db").env(Env::memory()?);
    let db = builder.merge_operator(Arc::<Slow>::clone(&slow)).open()?;
    let map = db.keyspace("map", KeyspaceOptions::default().with_merge_operator("slow"))?;
    for operand in ["a", "b"] {
        map.merge("key", operand)?;
        db.flush()?;
    }
    slow.armed.store(true, Ordering::SeqCst);
    let by_hand = std::thread::spawn(move || map.compact_range::<&[u8]>(..));
    slow.entered.wait();
    Ok((db, by_hand, slow))
}

/// Once `close` has returned, the directory may be another handle's: a compaction by hand that is in the
/// middle of a step has finished it by then.
#[test]
fn a_compaction_by_hand_does_not_outlast_a_close() {
    let (db, by_hand, slow) = in_the_middle_of_a_compaction().unwrap();
    db.close().unwrap();
    assert!(slow.left.load(Ordering::SeqCst), "close returned in the middle of a compaction");
    let _ = by_hand.join().unwrap();
}

/// Waits for compactions in the middle of one, until the database is closed.
#[derive(Default)]
struct Settles {
    db: OnceLock<Database>,
    entered: OnceLock<mpsc::Sender<()>>,
    left: AtomicBool,
}

impl MergeOperator for Settles {
    fn name(&self) -> &'static str {
        "settles"
    }
    fn fold(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>, String> {
        if let (Some(db), Some(entered)) = (self.db.get(), self.entered.get()) {
            entered.send(()).map_err(|error| error.to_string())?;
            while db.wait_for_compactions().is_ok() {}
            std::thread::sleep(Duration::from_millis(100));
            self.left.store(true, Ordering::SeqCst);
        }
        Ok([base.unwrap_or_default(), &operands.concat()].concat())
    }
}

/// The same of one that waits in the middle of a step: it hears of the close, and is waited for.
#[test]
fn a_compaction_by_hand_that_waits_does_not_outlast_a_close() {
    let settles = Arc::new(Settles::default());
    let builder = Database::builder("/db").env(Env::memory().unwrap());
    let db = builder.merge_operator(Arc::<Settles>::clone(&settles)).open().unwrap();
    let map = db.keyspace("map", KeyspaceOptions::default().with_merge_operator("settles")).unwrap();
    for operand in ["a", "b"] {
        map.merge("key", operand).unwrap();
        db.flush().unwrap();
    }
    let (enters, entered) = mpsc::channel();
    assert!(settles.entered.set(enters).is_ok() && settles.db.set(db.clone()).is_ok());
    let by_hand = std::thread::spawn(move || map.compact_range::<&[u8]>(..));
    entered.recv().unwrap();
    db.close().unwrap();
    assert!(settles.left.load(Ordering::SeqCst), "close returned in the middle of a compaction");
    let _ = by_hand.join().unwrap();
}

/// Who waits for compactions waits for one by another thread's hand too.
#[test]
fn a_compaction_by_hand_is_waited_for() {
    let (db, by_hand, slow) = in_the_middle_of_a_compaction().unwrap();
    db.wait_for_compactions().unwrap();
    assert!(slow.left.load(Ordering::SeqCst), "it returned in the middle of a compaction");
    by_hand.join().unwrap().unwrap();
}

/// Has two threads meet that have just compacted by hand, and do what each would wait for the other in.
struct Meeting {
    db: OnceLock<Database>,
    met: Barrier,
    wait: fn(&Database) -> esker::Result<()>,
}

impl Listener for Meeting {
    fn on_event(&self, event: &Event) {
        if let (Event::Compacted { .. }, Some(db)) = (event, self.db.get()) {
            self.met.wait();
            (self.wait)(db).expect("nothing fails");
        }
    }
}

/// Two threads that compact by hand, and wait from within callbacks for nobody to compact any more, do not wait for each other.
#[test]
fn those_who_compact_by_hand_do_not_wait_for_each_other() {
    let waits: [fn(&Database) -> esker::Result<()>; 2] =
        [|db| db.clone().close(), Database::wait_for_compactions];
    for wait in waits {
        let meeting = Arc::new(Meeting { db: OnceLock::new(), met: Barrier::new(2), wait });
        // Nothing but hands compacts: level 0 is left to itself.
        let options = DatabaseOptions { l0_tables_trigger: 30, ..DatabaseOptions::default() };
        let builder = Database::builder("/db").options(options).env(Env::memory().unwrap());
        let db = builder.listener(Arc::<Meeting>::clone(&meeting)).open().unwrap();
        let maps = ["one", "two"].map(|name| db.keyspace(name, KeyspaceOptions::default()).unwrap());
        for _ in 0..2 {
            for map in &maps {
                map.put("key", "value").unwrap();
            }
            db.flush().unwrap();
        }
        assert!(meeting.db.set(db.clone()).is_ok());
        let (done, finished) = mpsc::channel();
        for map in maps {
            let done = done.clone();
            std::thread::spawn(move || done.send(map.compact_range::<&[u8]>(..)));
        }
        for _ in 0..2 {
            let outcome = finished.recv_timeout(Duration::from_secs(20)).expect("they wait for each other");
            assert!(matches!(outcome, Ok(()) | Err(esker::Error::Closed { .. })), "{outcome:?}");
        }
    }
}

/// Each merge after a range deletion looks at all range deletions of its memtable: the memtable is sealed
/// before they are many, and what is merged stands over what was deleted before it only.
#[test]
fn range_deletions_seal_a_memtable() {
    let db = Database::in_memory().unwrap();
    let map = db.keyspace("map", KeyspaceOptions::default().with_merge_operator("append")).unwrap();
    for pair in 0..6_000u32 {
        map.delete_range(pair.saturating_sub(2).to_be_bytes()..(pair + 1).to_be_bytes()).unwrap();
        map.merge(pair.to_be_bytes(), "x").unwrap();
    }
    // What was merged into a deleted range stands; what a later range covers does not.
    assert_eq!(map.iter().count(), 1);
    assert_eq!(map.get(5_999u32.to_be_bytes()).unwrap().as_deref(), Some(&b"x"[..]));
    // One more than this flush: how many more depends on how far the flushes lag behind.
    db.flush().unwrap();
    assert!(db.metrics().counters.flushes.count >= 2, "range tombstones seal memtables");
}

/// Creates a keyspace when a memtable is sealed, on the thread that has sealed it.
#[derive(Default)]
struct Auditor {
    db: OnceLock<Database>,
}

impl Listener for Auditor {
    fn on_event(&self, event: &Event) {
        if let (Event::MemtableSealed { .. }, Some(db)) = (event, self.db.get()) {
            db.keyspace("audit", KeyspaceOptions::default()).expect("created");
        }
    }
}

/// To drop a keyspace of a database without a log flushes it first: whoever hears of that may change keyspaces.
#[test]
fn a_listener_may_create_a_keyspace_while_another_is_dropped() {
    let auditor = Arc::new(Auditor::default());
    let options = DatabaseOptions { durability: Durability::NoLog, ..DatabaseOptions::default() };
    let builder = Database::builder("/db").options(options).env(Env::memory().unwrap());
    let db = builder.listener(Arc::<Auditor>::clone(&auditor)).open().unwrap();
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    map.put("key", "value").unwrap();
    assert!(auditor.db.set(db.clone()).is_ok());
    let (done, finished) = mpsc::channel();
    std::thread::spawn({
        let db = db.clone();
        move || done.send(db.drop_keyspace("map"))
    });
    finished.recv_timeout(Duration::from_secs(20)).expect("it waits for itself").unwrap();
    assert_eq!(db.keyspaces(), ["audit"]);
}

/// Rows that were deleted before a compaction of everything begins are gone when it has ended, also where its own first step
/// makes one table of some that were compacted before and of tombstones for rows further down.
#[test]
fn a_compaction_by_hand_leaves_nothing_half_way_down() {
    let options = DatabaseOptions {
        table_bytes: 64 << 10,
        level_base_bytes: Some(64 << 10),
        level_fanout: 4,
        ..DatabaseOptions::default()
    };
    let db = Database::builder("/db").options(options).env(Env::memory().unwrap()).open().unwrap();
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    for row in 0..4_000u32 {
        map.put(format!("0{row:06}"), [7; 200]).unwrap();
    }
    for _ in 0..2 {
        map.compact_range::<&[u8]>(..).unwrap();
    }
    // Behind all others: the last level of that range is not the last of all.
    for row in 0..150u32 {
        map.put(format!("9{row:06}"), [7; 200]).unwrap();
    }
    map.compact_range("9"..).unwrap();
    let levels = || db.metrics().keyspaces[0].levels.clone();
    let before = levels();
    for row in 3_990..4_000u32 {
        map.delete(format!("0{row:06}")).unwrap();
    }
    map.put("9999999", "value").unwrap();
    map.compact_range::<&[u8]>(..).unwrap();
    let tombstones: u64 = levels().iter().map(|level| level.point_tombstones).sum();
    let entries: u64 = levels().iter().map(|level| level.entries).sum();
    assert_eq!((tombstones, entries), (0, 4_000 - 10 + 150 + 1), "{before:?}, then {:?}", levels());
}

/// Versions that only a snapshot saw are gone soon after it, whichever way they hide: behind puts and behind deletes.
#[test]
fn versions_that_a_snapshot_held_go_once_it_is_dropped() {
    let db = Database::builder("/db").env(Env::memory().unwrap()).open().unwrap();
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    let key = |row: u32| format!("{row:06}");
    for row in 0..1_000u32 {
        map.put(key(row), "old").unwrap();
    }
    let snapshot = db.snapshot();
    for row in 0..1_000u32 {
        if row % 100 == 0 { map.delete(key(row)).unwrap() } else { map.put(key(row), "new").unwrap() }
    }
    db.flush().unwrap();
    map.compact_range::<&[u8]>(..).unwrap();
    db.wait_for_compactions().unwrap();
    let entries = || db.metrics().keyspaces[0].levels.iter().map(|level| level.entries).sum::<u64>();
    assert_eq!(entries(), 2_000, "the snapshot sees the old versions");
    assert_eq!(map.at(&snapshot).unwrap().get(key(7)).unwrap().as_deref(), Some(&b"old"[..]));
    drop(snapshot);
    db.wait_for_compactions().unwrap();
    assert_eq!(entries(), 990);
    assert_eq!(map.get(key(7)).unwrap().as_deref(), Some(&b"new"[..]));
    assert_eq!(map.get(key(100)).unwrap(), None);
}

/// How many tables lie on the disk.
fn tables(disk: &MemFs) -> usize {
    let names = disk.list(Path::new("/db")).expect("listed").into_iter().map(|entry| entry.name);
    names.filter(|name| Path::new(name).extension().is_some_and(|extension| extension == "sst")).count()
}

/// Who drops a keyspace does not wait until its files are gone, however many there are.
#[test]
fn the_files_of_a_dropped_keyspace_go_in_the_background() {
    let options = DatabaseOptions { table_bytes: 4 << 10, ..DatabaseOptions::default() };
    let world = Simulation::new(1);
    let db = Database::builder("/db").options(options).env(world.env()).open().unwrap();
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    for row in 0..1_500u32 {
        map.put(format!("{row:06}"), [7; 200]).unwrap();
    }
    map.compact_range::<&[u8]>(..).unwrap();
    world.steps.settle();
    let before = tables(&world.disk);
    assert!(before > 50, "{before}");
    drop(map);
    db.drop_keyspace("map").unwrap();
    assert_eq!(tables(&world.disk), before, "the caller has removed them");
    world.steps.settle();
    assert_eq!(tables(&world.disk), 0);
}

/// A log that is synced a thousand times a second is no reason to look for work as often.
#[test]
fn upkeep_looks_for_garbage_once_a_second() {
    let world = Simulation::new(1);
    let durability = Durability::Interval(Duration::from_millis(1));
    let db = Database::builder("/db").durability(durability).env(world.env()).open().unwrap();
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    for row in ["a", "b"] {
        map.put(row, row).unwrap();
        db.flush().unwrap();
    }
    let held = map.iter();
    map.compact_range::<&[u8]>(..).unwrap();
    let pass = |millis: u32| {
        for _ in 0..millis {
            world.clock.advance(Duration::from_millis(1));
            world.steps.settle();
        }
    };
    // It has looked a tenth of a second before the scan lets go.
    pass(1_100);
    let before = tables(&world.disk);
    assert!(before > 1, "a scan holds what was compacted");
    drop(held);
    pass(500);
    assert_eq!(tables(&world.disk), before, "it has looked meanwhile");
    pass(600);
    assert!(tables(&world.disk) < before);
    db.close().unwrap();
}
