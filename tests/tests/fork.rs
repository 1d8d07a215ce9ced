//! A forked child has the handle of its parent, and none of its threads: it may read, and what would change
//! files errs. A test of its own in a process of its own, since a fork takes only the thread that calls it.
#![cfg(unix)]
#![expect(clippy::disallowed_methods, reason = "a real process, and a watchdog in it")]

use std::time::Duration;

use esker::{Database, DatabaseOptions, Durability, Error, Keyspace, KeyspaceOptions};
use fork::{Fork, fork, waitpid};

/// What the child found wrong, as its exit code; 0 is nothing.
fn in_the_child(db: Database, map: &Keyspace) -> i32 {
    // Nothing here may wait for a thread that is not there.
    std::thread::spawn(|| {
        std::thread::sleep(Duration::from_secs(30));
        std::process::exit(99);
    });
    let poisoned = |outcome: esker::Result<()>| matches!(outcome, Err(Error::Poisoned { .. }));
    let mut batch = db.batch();
    batch.durability(Durability::Sync);
    if batch.put(map, "child", "synced").is_err() || !poisoned(batch.commit()) {
        return 1;
    }
    if !poisoned(map.put("child", "x")) {
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

/// Each call that is the first of its child: what it finds must not lean on an earlier one's.
fn first_calls(nth: usize, db: Database, map: &Keyspace) -> i32 {
    let refused = match nth {
        0 => return in_the_child(db, map),
        1 => db.persist(),
        2 => db.flush(),
        3 => db.wait_for_compactions(),
        4 => map.compact_range::<&[u8]>(..),
        5 => db.close(),
        // Nobody asks: dropping changes nothing either.
        _ => return 0,
    };
    if matches!(refused, Err(Error::Poisoned { .. })) { 0 } else { 50 }
}

#[test]
fn a_forked_child_changes_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let place = dir.path().join("db");
    let options = DatabaseOptions { memtable_bytes_max: 64 << 10, ..DatabaseOptions::default() };
    let db = Database::builder(&place).options(options).open().expect("opened");
    let map = db.keyspace("map", KeyspaceOptions::default()).expect("created");
    map.put("before", "1").expect("put");
    for nth in 0..7 {
        // Something to flush, and nothing under way.
        db.flush().expect("flushed");
        db.wait_for_compactions().expect("settled");
        map.put("round", [nth]).expect("put");
        match fork() {
            Ok(Fork::Child) => {
                let found = first_calls(usize::from(nth), db.clone(), &map);
                drop((map, db));
                std::process::exit(found);
            }
            Ok(Fork::Parent(child)) => assert_eq!(waitpid(child).ok(), Some(0), "child {nth}"),
            Err(error) => panic!("no fork: {error:?}"),
        }
    }
    // The parent has heard nothing of all that, and holds its lock.
    assert!(matches!(Database::open(&place), Err(Error::Locked { .. })));
    map.put("after", "2").expect("put");
    db.persist().expect("durable");
    for n in 0..2_000u32 {
        map.put(n.to_be_bytes(), [7; 100]).expect("put");
    }
    db.close().expect("closed");
    drop(map);
    let db = Database::open(&place).expect("opened again");
    db.verify().expect("whole");
    let map = db.existing_keyspace("map").expect("there");
    assert_eq!(map.iter().count(), 2_003);
    assert_eq!(map.get("child").expect("read"), None);
    assert_eq!(map.get("after").expect("read").as_deref(), Some(&b"2"[..]));
}
