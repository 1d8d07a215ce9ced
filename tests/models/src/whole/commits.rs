//! Writers in the commit queue, beside readers, syncs, rotations and flushes.

use std::sync::Arc;

use esker::{Durability, KeyspaceOptions};
use shuttle::thread;

use super::world::{Counts, Rows, World, check_pairs, put_pair, small, small_blocks, value};

/// Three writers whose commits are synced, and a reader: batches are seen whole and in order, and what was
/// acknowledged outlives the power.
pub(super) fn group_commit() {
    const WRITERS: usize = 3;
    let world = Arc::new(World::new());
    let (db, keyspace) = world.open(small(Durability::Sync, 64 << 10));
    let counts = Counts::of(WRITERS);
    let mut threads = Vec::new();
    for writer in 0..WRITERS {
        let (db, keyspace, counts, world) = (db.clone(), keyspace.clone(), counts.clone(), world.clone());
        threads.push(thread::spawn(move || {
            for number in 1..=2 {
                put_pair(&db, &keyspace, writer, number, 8).expect("is written");
                counts.acknowledge(writer, number);
                // What others were told by now holds at this moment too.
                let promised = counts.acknowledged();
                counts.promise(world.disk.trace_len(), promised);
            }
        }));
    }
    {
        let (db, keyspace, counts) = (db.clone(), keyspace.clone(), counts.clone());
        threads.push(thread::spawn(move || {
            let mut floor = vec![0; WRITERS];
            for _ in 0..2 {
                let told = counts.acknowledged();
                floor = floor.iter().zip(told).map(|(seen, told)| told.max(*seen)).collect();
                let snapshot = db.snapshot();
                let reader = keyspace.at(&snapshot).expect("reads");
                floor = check_pairs(&Rows::of(reader.range::<&[u8]>(..)), &floor);
            }
        }));
    }
    for thread in threads {
        thread.join().expect("holds");
    }
    counts.check_promises(&world);
    drop(keyspace);
    db.close().expect("closes");
}

/// Two writers that fill a memtable with every commit or two, while flushes and compactions run behind them and a
/// reader scans both ways: nothing acknowledged is missing, at any moment and at the end.
pub(super) fn rotation() {
    const WRITERS: usize = 2;
    const NUMBERS: u64 = 2;
    let world = World::new();
    let (db, keyspace) = world.open(small(Durability::Os, 1 << 10));
    let counts = Counts::of(WRITERS);
    let mut threads = Vec::new();
    for writer in 0..WRITERS {
        let (db, keyspace, counts) = (db.clone(), keyspace.clone(), counts.clone());
        threads.push(thread::spawn(move || {
            for number in 1..=NUMBERS {
                put_pair(&db, &keyspace, writer, number, 300).expect("is written");
                counts.acknowledge(writer, number);
            }
        }));
    }
    let (scanned, told) = (keyspace.clone(), counts.clone());
    threads.push(thread::spawn(move || {
        let mut floor = vec![0; WRITERS];
        for nth in 0..2 {
            let told = told.acknowledged();
            floor = floor.iter().zip(told).map(|(seen, told)| told.max(*seen)).collect();
            let rows =
                if nth % 2 == 0 { Rows::of(scanned.iter()) } else { Rows::of_reverse(scanned.iter()) };
            floor = check_pairs(&rows, &floor);
        }
    }));
    for thread in threads {
        thread.join().expect("holds");
    }
    let all = vec![NUMBERS; WRITERS];
    db.flush().expect("flushes");
    check_pairs(&Rows::of(keyspace.iter()), &all);
    drop(keyspace);
    db.close().expect("closes");
    check_pairs(&world.now(), &all);
}

/// One key that is overwritten, a few values to a memtable, and a reader: it never sees less than was acknowledged
/// before, nor nothing, though flushes drop what was overwritten.
pub(super) fn overwrites() {
    const NUMBERS: u64 = 9;
    let world = World::new();
    let (db, keyspace) = world.open(small(Durability::Os, 8 << 10));
    let counts = Counts::of(1);
    let writing = {
        let (keyspace, counts) = (keyspace.clone(), counts.clone());
        let put = move |number| {
            keyspace.put("a0", value(number, 1500)).expect("is written");
            counts.acknowledge(0, number);
        };
        // There is something to miss from the first read on: a reader that is held up once, anywhere, is enough.
        put(1);
        thread::spawn(move || (2..=NUMBERS).for_each(put))
    };
    let mut floor = 0;
    for _ in 0..4 {
        let told = counts.acknowledged()[0];
        floor = told.max(floor);
        let number = Rows::of(keyspace.iter()).get("a0");
        assert!(number >= floor, "{number} is there, {floor} was promised");
        floor = number;
    }
    writing.join().expect("holds");
    drop(keyspace);
    db.close().expect("closes");
    assert_eq!(world.now().get("a0"), NUMBERS);
}

/// A counter that is added to, a few additions to a memtable, while flushes end, compactions run and keyspaces are
/// made: whoever reads it finds each addition once.
pub(super) fn counter() {
    const ADDITIONS: u64 = 4;
    let world = World::new();
    let (db, keyspace) = world.open(small(Durability::Os, 1 << 10));
    let counting = KeyspaceOptions { merge_operator: Some("add-u64".into()), ..small_blocks() };
    let counters = db.keyspace("counters", counting).expect("is made");
    let counts = Counts::of(1);
    let writing = {
        let (db, keyspace, counters, counts) =
            (db.clone(), keyspace.clone(), counters.clone(), counts.clone());
        thread::spawn(move || {
            for number in 1..=ADDITIONS {
                let mut batch = db.batch();
                batch.merge(&counters, "n", 1_u64.to_le_bytes()).expect("fits");
                batch.put(&keyspace, format!("a{number}"), value(number, 600)).expect("fits");
                batch.commit().expect("is written");
                counts.acknowledge(0, number);
            }
        })
    };
    let making = {
        let db = db.clone();
        thread::spawn(move || {
            for nth in 0..2 {
                db.keyspace(&format!("other{nth}"), small_blocks()).expect("is made");
            }
        })
    };
    let read = |least: u64| {
        let found = counters.get("n").expect("reads");
        let found = found.map_or(0, |n| u64::from_le_bytes((*n).try_into().expect("eight bytes")));
        assert!((least..=ADDITIONS).contains(&found), "{found} of {least} to {ADDITIONS} additions");
        found
    };
    let mut seen = 0;
    for _ in 0..4 {
        seen = read(counts.acknowledged()[0].max(seen));
    }
    writing.join().expect("holds");
    making.join().expect("holds");
    for _ in 0..3 {
        assert_eq!(read(ADDITIONS), ADDITIONS);
    }
    drop((keyspace, counters));
    db.close().expect("closes");
}
