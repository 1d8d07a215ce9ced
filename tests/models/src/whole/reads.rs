//! Readers of moments that have passed.

use esker::{Database, Durability, Keyspace};
use shuttle::thread;

use super::world::{Rows, World, draw, small, small_blocks, value};

/// Keys of the scenario.
const KEYS: u64 = 3;

fn expect(snapshot: &esker::Snapshot, keyspace: &Keyspace, numbers: &[u64]) {
    let reader = keyspace.at(snapshot).expect("reads");
    assert_eq!(Rows::of(reader.range::<&[u8]>(..)).numbers(), numbers, "a snapshot has changed");
}

fn rewrite(keyspace: &Keyspace, round: u64) {
    for key in 0..KEYS {
        keyspace.put(format!("k{key}"), value(round * 10 + key, 200)).expect("is written");
    }
}

fn churn(db: &Database, keyspace: &Keyspace) {
    rewrite(keyspace, 2);
    keyspace.delete("k1").expect("is deleted");
    db.flush().expect("flushes");
    keyspace.delete_range("k2".."k9").expect("is deleted");
}

/// Snapshots are read while what they see is overwritten, deleted, flushed and compacted, by the engine's threads
/// and by hand, and while a keyspace beside it is dropped: each shows what it showed before.
pub(super) fn snapshots() {
    let world = World::new();
    let (db, keyspace) = world.open(small(Durability::Os, 4 << 10));
    let other = db.keyspace("other", small_blocks()).expect("is made");
    rewrite(&keyspace, 1);
    other.put("row", value(7, 8)).expect("is written");
    let first = db.snapshot();
    let writing = {
        let (db, keyspace) = (db.clone(), keyspace.clone());
        thread::spawn(move || churn(&db, &keyspace))
    };
    let compacting = {
        let keyspace = keyspace.clone();
        thread::spawn(move || keyspace.compact_range::<&[u8]>(..).expect("compacts"))
    };
    let dropping = {
        let (db, other) = (db.clone(), other.clone());
        thread::spawn(move || {
            let mut rows = other.iter();
            db.drop_keyspace("other").expect("is dropped");
            // Scans under way go on.
            assert_eq!(rows.next().map(|row| row.is_ok()), Some(true));
            assert!(other.get("row").is_err());
        })
    };
    let ones: Vec<u64> = (0..KEYS).map(|key| 10 + key).collect();
    expect(&first, &keyspace, &ones);
    // Whatever the second sees now it sees again.
    let second = db.snapshot();
    let seen = Rows::of(keyspace.at(&second).expect("reads").range::<&[u8]>(..)).numbers();
    if draw(2) == 0 {
        drop(first);
    } else {
        expect(&first, &keyspace, &ones);
    }
    for thread in [writing, compacting, dropping] {
        thread.join().expect("holds");
    }
    expect(&second, &keyspace, &seen);
    drop(second);
    assert_eq!(Rows::of(keyspace.iter()).numbers(), [20], "what was deleted last is gone");
    drop((keyspace, other));
    db.close().expect("closes");
    assert_eq!(world.now().numbers(), [20]);
}
