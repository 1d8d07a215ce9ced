//! Corners of transactions: each test failed before its mend.
#![expect(clippy::disallowed_methods, reason = "tests bring their own threads")]

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use esker::{Database, Error, Keyspace, KeyspaceOptions, Transaction};

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

/// A closure that has the turn may wait for a lock that another holds who wants the turn: that one goes on without.
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
