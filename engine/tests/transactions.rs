//! Corners of transactions: each test failed before its mend.
#![expect(clippy::disallowed_methods, reason = "tests bring their own threads")]

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use esker::vfs::Env;
use esker::vfs::fault::{Fault, FaultFs, Operation};
use esker::vfs::sim::Simulation;
use esker::{Database, DatabaseOptions, Durability, Error, Keyspace, KeyspaceOptions, OpCost, Transaction};

const DIR: &str = "/db";

/// A database without a cache, whose reads of files are counted.
fn counted(table_bytes: u64) -> (Database, FaultFs) {
    let world = Simulation::new(1);
    let faults = FaultFs::over(&world.disk, Arc::clone(&world.clock));
    let env = world.env_over(Arc::new(faults.clone()));
    let options = DatabaseOptions { cache_bytes: 0, table_bytes, ..DatabaseOptions::default() };
    (Database::builder(DIR).options(options).env(env).open().expect("opened"), faults)
}

fn small_blocks() -> KeyspaceOptions {
    KeyspaceOptions { block_bytes: 512, ..KeyspaceOptions::default() }
}

/// The reads of files that a commit takes.
fn reads_of_commit(tx: Transaction, faults: &FaultFs) -> u64 {
    let before = faults.count(Operation::Read);
    tx.commit().expect("no conflict");
    faults.count(Operation::Read) - before
}

/// A keyspace created after a transaction began is empty to it, whatever others write there, and what
/// they write conflicts.
#[test]
fn a_transaction_reads_a_keyspace_younger_than_itself() {
    let db = Database::in_memory().unwrap();
    let old = db.keyspace("old", KeyspaceOptions::default()).unwrap();
    let (mut tx, mut late) = (db.begin().unwrap(), db.begin().unwrap());
    let young = db.keyspace("young", KeyspaceOptions::default()).unwrap();
    assert_eq!(tx.get(&young, "key").unwrap(), None);
    tx.put(&young, "key", "own").unwrap();
    assert_eq!(tx.get(&young, "key").unwrap().as_deref(), Some(&b"own"[..]));
    assert_eq!(tx.range::<&[u8]>(&young, ..).count(), 1);
    tx.commit().unwrap();
    // What `tx` wrote is younger than `late`.
    assert_eq!(late.get(&young, "key").unwrap(), None);
    assert_eq!(late.range::<&[u8]>(&young, ..).count(), 0);
    late.put(&old, "key", "value").unwrap();
    assert!(matches!(late.commit(), Err(Error::Conflict { .. })));
    let tx = db.begin().unwrap();
    db.drop_keyspace("young").unwrap();
    let after = db.begin().unwrap();
    assert_eq!(tx.get(&young, "key").unwrap().as_deref(), Some(&b"own"[..]));
    assert!(matches!(after.get(&young, "key"), Err(Error::NoSuchKeyspace { .. })));
}

/// Another database's keyspace has numbers of its own, which must not be taken for this one's.
#[test]
#[should_panic(expected = "belongs to another database")]
fn watching_a_range_of_another_database_is_refused() {
    let (db, other) = (Database::in_memory().unwrap(), Database::in_memory().unwrap());
    let foreign = other.keyspace("map", KeyspaceOptions::default()).unwrap();
    db.begin().unwrap().watch_range::<&[u8]>(&foreign, ..);
}

/// A scan of a range without keys has read nothing that a deletion around it could change.
#[test]
fn a_range_without_keys_conflicts_with_nothing() {
    let db = Database::in_memory().unwrap();
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    for (start, end) in [("c", "c"), ("d", "b")] {
        let mut tx = db.begin().unwrap();
        assert_eq!(tx.range(&map, start..end).count(), 0);
        tx.put(&map, "key", "value").unwrap();
        map.delete_range("a".."z").unwrap();
        tx.commit().unwrap();
    }
}

/// A scan that was made and never asked reads nothing, so it is no conflict that its keyspace goes; one that was
/// asked has seen that there was no row.
#[test]
fn a_scan_that_was_not_asked_has_read_nothing() {
    let db = Database::in_memory().unwrap();
    let old = db.keyspace("old", KeyspaceOptions::default()).unwrap();
    for (asked, others_write) in [(false, true), (true, true), (false, false), (true, false)] {
        let doomed = db.keyspace("doomed", KeyspaceOptions::default()).unwrap();
        let mut tx = db.begin().unwrap();
        if others_write {
            old.put("of somebody else", "value").unwrap();
        }
        let mut scan = tx.range::<&[u8]>(&doomed, ..);
        if asked {
            assert!(scan.next().is_none());
        }
        drop((scan, doomed));
        db.drop_keyspace("doomed").unwrap();
        tx.put(&old, "key", "value").unwrap();
        let outcome = tx.commit();
        assert_eq!(matches!(outcome, Err(Error::Conflict { .. })), asked, "asked: {asked}, {outcome:?}");
    }
}

/// A key that was read conflicts with the drop of its keyspace, whether or not anybody has written meanwhile.
#[test]
fn a_key_of_a_keyspace_that_was_dropped_conflicts() {
    let db = Database::in_memory().unwrap();
    let old = db.keyspace("old", KeyspaceOptions::default()).unwrap();
    let doomed = db.keyspace("doomed", KeyspaceOptions::default()).unwrap();
    let mut tx = db.begin().unwrap();
    assert_eq!(tx.get(&doomed, "key").unwrap(), None);
    db.drop_keyspace("doomed").unwrap();
    tx.put(&old, "key", "value").unwrap();
    assert!(matches!(tx.commit(), Err(Error::Conflict { .. })));
}

/// Another attempt mends a conflict but brings no keyspace back: who has met both is told of the keyspace.
#[test]
fn a_dropped_keyspace_is_told_before_a_conflict() {
    let db = Database::in_memory().unwrap();
    let old = db.keyspace("old", KeyspaceOptions::default()).unwrap();
    let doomed = db.keyspace("doomed", KeyspaceOptions::default()).unwrap();
    let mut tx = db.begin().unwrap();
    assert_eq!(tx.get(&old, "key").unwrap(), None);
    tx.put(&doomed, "key", "value").unwrap();
    db.drop_keyspace("doomed").unwrap();
    old.put("key", "of somebody else").unwrap();
    let refused = tx.commit().unwrap_err();
    assert!(matches!(refused, Error::KeyspaceDropped { id } if id == doomed.id()), "{refused:?}");
}

/// A keyspace that was gone before the transaction began is none that anybody can change: to have met it conflicts with nothing.
#[test]
fn a_keyspace_that_was_gone_before_conflicts_with_nothing() {
    let db = Database::in_memory().unwrap();
    let live = db.keyspace("live", KeyspaceOptions::default()).unwrap();
    let gone = db.keyspace("gone", KeyspaceOptions::default()).unwrap();
    db.drop_keyspace("gone").unwrap();
    for others_write in [false, true] {
        let mut tx = db.begin().unwrap();
        assert!(matches!(tx.range::<&[u8]>(&gone, ..).next(), Some(Err(Error::NoSuchKeyspace { .. }))));
        assert!(matches!(tx.get(&gone, "key"), Err(Error::NoSuchKeyspace { .. })));
        tx.watch_range::<&[u8]>(&gone, ..);
        if others_write {
            live.put("of somebody else", "value").unwrap();
        }
        tx.put(&live, "key", "value").unwrap();
        tx.commit().unwrap();
    }
}

/// A closure that has priority may wait for a lock that another holds who wants it: that one goes on without.
#[test]
fn a_transaction_that_has_the_turn_may_wait_for_one_that_wants_it() {
    const LOSSES: u32 = 3;
    let db = Database::in_memory().unwrap();
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    let users = Arc::new(Mutex::new(()));
    let (has_turn, turn_is_taken) = mpsc::channel();
    let (done, is_done) = mpsc::channel();
    // Whoever writes what it has just read loses.
    let lose = |map: &Keyspace, tx: &Transaction, attempt: u32| {
        tx.get(map, "x").unwrap();
        if attempt <= LOSSES {
            map.put("x", attempt.to_be_bytes()).unwrap();
        }
    };
    let held = users.lock().unwrap();
    let first = std::thread::spawn({
        let (db, map, users, done) = (db.clone(), map.clone(), Arc::clone(&users), done.clone());
        move || {
            let mut attempt = 0;
            let outcome = db.transact(|tx| {
                attempt += 1;
                lose(&map, tx, attempt);
                if attempt > LOSSES {
                    has_turn.send(()).unwrap();
                    drop(users.lock().unwrap());
                }
                tx.put(&map, "first", "")
            });
            done.send(outcome).unwrap();
        }
    });
    turn_is_taken.recv_timeout(Duration::from_secs(20)).unwrap();
    let second = std::thread::spawn(move || {
        let mut attempt = 0;
        let outcome = db.transact(|tx| {
            attempt += 1;
            lose(&map, tx, attempt);
            tx.put(&map, "second", "")
        });
        done.send(outcome).unwrap();
    });
    // The thread that waits here stands for one whose call it is: it lets go of the lock when that returns.
    is_done.recv_timeout(Duration::from_secs(20)).expect("the second waits for the first").unwrap();
    drop(held);
    is_done.recv_timeout(Duration::from_secs(20)).expect("the first has the lock").unwrap();
    first.join().unwrap();
    second.join().unwrap();
}

/// Of a run of tables the commit of a scan searches those alone that are younger than its snapshot.
#[test]
fn a_scan_is_checked_against_younger_tables_alone() {
    let (db, faults) = counted(4 << 10);
    let map = db.keyspace("map", small_blocks()).unwrap();
    for row in 0..1_000 {
        map.put(format!("row {row:04}"), [7; 50]).unwrap();
    }
    db.flush().unwrap();
    map.compact_range::<&[u8]>(..).unwrap();
    let tables =
        |db: &Database| db.metrics().keyspaces[0].levels.iter().map(|level| level.tables).sum::<u64>();
    assert!(tables(&db) > 10);
    let mut tx = db.begin().unwrap();
    assert_eq!(tx.range(&map, ..="row 0500").count() + tx.range(&map, "row 0501"..).count(), 1_000);
    // Between the two.
    map.put("row 0500 and a half", "").unwrap();
    db.flush().unwrap();
    map.compact_range("row 0500".."row 0501").unwrap();
    tx.put(&map, "row", "").unwrap();
    let reads = reads_of_commit(tx, &faults);
    assert!((1..=15).contains(&reads), "{reads} reads, {} tables", tables(&db));
}

/// A memtable that was sealed before a transaction began is not searched, and ranges that were read again and again, or within
/// each other, are searched once.
#[test]
fn what_was_read_twice_is_checked_once() {
    let (db, faults) = counted(1 << 20);
    let map = db.keyspace("map", small_blocks()).unwrap();
    let watched = |times: usize| {
        for row in 0..100 {
            map.put(format!("row {row:02}"), [7; 50]).unwrap();
        }
        let mut tx = db.begin().unwrap();
        for time in 0..times {
            tx.watch_range(&map, "row".."row 99");
            assert_eq!(tx.range(&map, "row"..).take(1 + time).count(), 1 + time);
        }
        map.put("behind", "").unwrap();
        // A table with what was there before and with what is younger.
        db.flush().unwrap();
        tx.put(&map, "own", "").unwrap();
        reads_of_commit(tx, &faults)
    };
    let once = watched(1);
    assert!(once > 0);
    // Other rows share the blocks at its ends.
    let often = watched(100);
    assert!(often <= once + 2, "{often} reads instead of {once}");
}

/// What a commit has to read to be checked is read while others commit.
#[test]
fn others_commit_while_a_transaction_is_checked() {
    let mut env = Env::memory().unwrap();
    let faults = FaultFs::new(Arc::clone(&env.fs));
    env.fs = Arc::new(faults.clone());
    let options =
        DatabaseOptions { cache_bytes: 0, durability: Durability::NoLog, ..DatabaseOptions::default() };
    let db = Database::builder(DIR).options(options).env(env).open().unwrap();
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    map.put("row", "").unwrap();
    let mut tx = db.begin().unwrap();
    assert_eq!(tx.prefix(&map, "row").count(), 1);
    map.put("behind", "").unwrap();
    db.flush().unwrap();
    tx.put(&map, "own", "").unwrap();
    // The other's put needs no file.
    let (asked, is_asked) = mpsc::channel();
    let (done, is_done) = mpsc::channel();
    let other = std::thread::spawn({
        let map = map.clone();
        move || {
            is_asked.recv().unwrap();
            map.put("by another", "").unwrap();
            let _ = done.send(());
        }
    });
    let passed = Arc::new(Mutex::new(None));
    let (told, is_done) = (Arc::clone(&passed), Mutex::new(is_done));
    faults.plan(Fault::when(move |call| {
        let mut passed = told.lock().unwrap();
        if call.operation == Operation::Read && passed.is_none() {
            asked.send(()).unwrap();
            *passed = Some(is_done.lock().unwrap().recv_timeout(Duration::from_secs(20)).is_ok());
        }
        false
    }));
    tx.commit().unwrap();
    other.join().unwrap();
    assert_eq!(*passed.lock().unwrap(), Some(true), "a put waited for the commit's reads");
}

/// A transaction reads nothing once its database is closed; a scan that was made before goes on.
#[test]
fn a_transaction_ends_with_its_database() {
    let db = Database::in_memory().unwrap();
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    map.put("key", "value").unwrap();
    let mut tx = db.begin().unwrap();
    tx.put(&map, "own", "value").unwrap();
    let scan = tx.range::<&[u8]>(&map, ..);
    db.close().unwrap();
    assert!(matches!(tx.get(&map, "key"), Err(Error::Closed { .. })));
    assert!(matches!(tx.get(&map, "own"), Err(Error::Closed { .. })));
    assert!(matches!(tx.contains(&map, "key"), Err(Error::Closed { .. })));
    assert!(matches!(tx.prefix(&map, "key").next(), Some(Err(Error::Closed { .. }))));
    assert_eq!(scan.collect::<esker::Result<Vec<_>>>().unwrap().len(), 2);
    assert!(matches!(tx.commit(), Err(Error::Closed { .. })));
}

/// Many keys at once are what they are one by one: the snapshot's, the transaction's own, deleted, merged, asked twice.
#[test]
fn many_keys_at_once_are_as_one_by_one() {
    let db = Database::in_memory().unwrap();
    let options = KeyspaceOptions::default().with_merge_operator("append");
    let map = db.keyspace("map", options).unwrap();
    let key = |n: u32| format!("key {n:02}");
    for n in 0..60 {
        map.put(key(n), "table").unwrap();
        if n == 40 {
            db.flush().unwrap();
        }
    }
    let mut tx = db.begin().unwrap();
    (0..60).step_by(7).for_each(|n| map.put(key(n), "later").unwrap());
    for n in (0..80).step_by(4) {
        tx.put(&map, key(n), "own").unwrap();
    }
    for n in (0..80).step_by(5) {
        tx.merge(&map, key(n), " merged").unwrap();
    }
    tx.delete_range(&map, key(10)..key(15)).unwrap();
    for n in (0..80).step_by(6) {
        tx.delete(&map, key(n)).unwrap();
    }
    tx.merge(&map, key(12), "anew").unwrap();
    let keys: Vec<String> = (0..90).rev().chain(20..30).chain([3, 3]).map(key).collect();
    let mut cost = OpCost::default();
    let many = tx.multi_get_costed(&map, &keys, &mut cost).unwrap();
    let single: Vec<_> = keys.iter().map(|key| tx.get(&map, key).unwrap()).collect();
    assert_eq!(many, single);
    assert_eq!(cost.calls, keys.len() as u64);
    assert!(
        many.iter().any(Option::is_none) && many.iter().flatten().any(|value| &**value == b"own merged")
    );
    assert_eq!(tx.multi_get::<&[u8]>(&map, &[]).unwrap().len(), 0);
}

/// Each of many keys that were read at once has been read.
#[test]
fn a_write_to_any_of_many_keys_conflicts() {
    let db = Database::in_memory().unwrap();
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    let keys: Vec<[u8; 1]> = (0..20).map(|n| [n]).collect();
    for n in 0..=20u8 {
        let mut tx = db.begin().unwrap();
        tx.multi_get(&map, &keys).unwrap();
        map.put([n], "").unwrap();
        tx.put(&map, "own", "").unwrap();
        assert_eq!(matches!(tx.commit(), Err(Error::Conflict { .. })), n < 20, "key {n}");
    }
}

/// A scan of everything has read everything.
#[test]
fn all_rows_of_a_transaction() {
    let db = Database::in_memory().unwrap();
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    map.put("a", "1").unwrap();
    let mut tx = db.begin().unwrap();
    tx.put(&map, "b", "2").unwrap();
    assert_eq!(tx.iter(&map).count(), 2);
    map.put("c", "3").unwrap();
    assert!(matches!(tx.commit(), Err(Error::Conflict { .. })));
}

/// A commit ends its transaction's scans also where it is refused before anything is looked at.
#[test]
fn a_commit_that_is_refused_at_once_ends_scans() {
    let options = DatabaseOptions { durability: Durability::NoLog, ..DatabaseOptions::default() };
    let env = Simulation::new(1).env();
    let db = Database::builder("/db").options(options).env(env).open().unwrap();
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    map.put("a", "1").unwrap();
    let mut tx = db.begin().unwrap();
    tx.put(&map, "b", "2").unwrap();
    tx.durability(Durability::Sync);
    let mut scan = tx.iter(&map);
    assert!(matches!(tx.commit(), Err(Error::InvalidArgument { .. })), "there is no log");
    assert!(matches!(scan.next(), Some(Err(Error::InvalidArgument { .. }))));
}

/// What a scan has read counts while it is under way, as far as it has come, and once it has ended.
#[test]
fn a_scan_under_way_has_read_what_it_has_yielded() {
    let db = Database::in_memory().unwrap();
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    for key in ["a", "b", "c", "d", "e"] {
        map.put(key, "value").unwrap();
    }
    for (written, conflicts) in [("aa", true), ("bb", false), ("dd", true)] {
        for ends in [false, true] {
            let mut tx = db.begin().unwrap();
            let mut scan = tx.iter(&map);
            assert!(scan.next().is_some() && scan.next().is_some() && scan.next_back().is_some());
            assert_eq!(&scan.next_back().unwrap().unwrap().0[..], b"d");
            let under_way = (!ends).then_some(scan);
            tx.put(&map, "z", "own").unwrap();
            map.put(written, "other").unwrap();
            assert_eq!(tx.commit().is_err(), conflicts, "{written}, {ends}");
            drop(under_way);
            map.delete(written).unwrap();
            map.delete("z").unwrap();
        }
    }
}
