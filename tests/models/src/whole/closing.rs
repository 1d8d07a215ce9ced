//! A database that closes under its writers.

use std::sync::Arc;

use esker::{Durability, Error};
use shuttle::thread;

use super::world::{Counts, World, check_pairs, put_pair, small};

/// Two writers go on until they hear that the database is closed: what they were told is written is there when
/// it is opened again.
pub(super) fn close() {
    const WRITERS: usize = 2;
    let world = Arc::new(World::new());
    let (db, keyspace) = world.open(small(Durability::Os, 2 << 10));
    let counts = Counts::of(WRITERS);
    let mut threads = Vec::new();
    for writer in 0..WRITERS {
        let (db, keyspace, counts) = (db.clone(), keyspace.clone(), counts.clone());
        threads.push(thread::spawn(move || {
            for number in 1..=4 {
                match put_pair(&db, &keyspace, writer, number, 100) {
                    Ok(()) => counts.acknowledge(writer, number),
                    Err(Error::Closed { .. }) => return,
                    Err(error) => panic!("{error}"),
                }
            }
        }));
    }
    drop(keyspace);
    // Two close it at the same time.
    let other = db.clone();
    let closing = thread::spawn(move || other.close());
    db.close().expect("closes");
    closing.join().expect("holds").expect("closes beside the other");
    for thread in threads {
        thread.join().expect("holds");
    }
    check_pairs(&world.now(), &counts.acknowledged());
}
