//! Readers of moments that have passed.

use std::sync::Arc;

use esker::{Database, DatabaseOptions, Durability, Keyspace};
use shuttle::thread;

use super::world::{Counts, Rows, World, draw, small, small_blocks, value};

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

/// Two readers, forwards and backwards, walk through rows that were deleted and find the range dead, while a
/// writer puts rows back into it: nothing acknowledged is missed, and a snapshot from before sees none of it.
pub(super) fn dead_ranges() {
    const ROWS: u64 = 8;
    let key = |nth: u64| format!("k{nth}");
    let world = World::new();
    let options = DatabaseOptions { dead_run: 2, ..small(Durability::Os, 4 << 10) };
    let (db, keyspace) = world.open(options);
    for nth in 0..=ROWS {
        keyspace.put(key(nth), value(nth, 8)).expect("is written");
    }
    for nth in 0..ROWS {
        keyspace.delete(key(nth)).expect("is deleted");
    }
    let before = db.snapshot();
    // Rows come back from the middle to both ends.
    let back = [3, 5, 1, 6];
    let counts = Counts::of(1);
    let writing = {
        let (keyspace, counts) = (keyspace.clone(), counts.clone());
        thread::spawn(move || {
            for (done, nth) in (1..).zip(back) {
                keyspace.put(key(nth), value(100 + nth, 8)).expect("is written");
                counts.acknowledge(0, done);
            }
        })
    };
    let reading = [false, true].map(|backwards| {
        let (keyspace, counts) = (keyspace.clone(), Arc::clone(&counts));
        thread::spawn(move || {
            for _ in 0..3 {
                let promised = usize::try_from(counts.acknowledged()[0]).expect("a few");
                let scan = keyspace.iter();
                let rows = if backwards { Rows::of_reverse(scan) } else { Rows::of(scan) };
                for nth in &back[..promised] {
                    assert_eq!(rows.get(&key(*nth)), 100 + nth, "an acknowledged row is missed");
                }
            }
        })
    });
    expect(&before, &keyspace, &[ROWS]);
    writing.join().expect("holds");
    for reader in reading {
        reader.join().expect("holds");
    }
    expect(&before, &keyspace, &[ROWS]);
    assert_eq!(Rows::of(keyspace.iter()).numbers(), [101, 103, 105, 106, ROWS]);
    drop((before, keyspace));
    db.close().expect("closes");
}
