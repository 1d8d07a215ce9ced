//! What is done to a database as a whole, while it is written to.

use std::sync::Arc;

use esker::Durability;
use shuttle::thread;

use super::world::{Counts, Rows, World, check_pairs, put_pair, small, small_blocks};

/// A writer, a checkpoint, keyspaces that two threads create, and one who waits until nothing is left to do and then
/// verifies everything: the copy holds what was acknowledged before it was begun, and nobody waits for ever.
pub(super) fn maintenance() {
    const NUMBERS: u64 = 2;
    let world = Arc::new(World::new());
    let (db, keyspace) = world.open(small(Durability::Os, 2 << 10));
    let counts = Counts::of(1);
    let writing = {
        let (db, keyspace, counts) = (db.clone(), keyspace.clone(), counts.clone());
        thread::spawn(move || {
            for number in 1..=NUMBERS {
                put_pair(&db, &keyspace, 0, number, 300).expect("is written");
                counts.acknowledge(0, number);
            }
        })
    };
    let copying = {
        let (db, counts) = (db.clone(), counts.clone());
        thread::spawn(move || {
            let told = counts.acknowledged();
            db.checkpoint("/copy").expect("is copied");
            told
        })
    };
    let settling = {
        let db = db.clone();
        thread::spawn(move || {
            db.wait_for_compactions().expect("settles");
            db.verify().expect("is sound");
        })
    };
    let creating = {
        let db = db.clone();
        thread::spawn(move || db.keyspace("new", small_blocks()).expect("is made").id())
    };
    let new = db.keyspace("new", small_blocks()).expect("is made");
    assert_eq!(creating.join().expect("holds"), new.id(), "made twice");
    for thread in [writing, settling] {
        thread.join().expect("holds");
    }
    let told = copying.join().expect("holds");
    check_pairs(&world.now_in("/copy"), &told);
    check_pairs(&Rows::of(keyspace.iter()), &[NUMBERS]);
    drop((keyspace, new));
    db.close().expect("closes");
    check_pairs(&world.now(), &[NUMBERS]);
}
