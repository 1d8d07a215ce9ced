//! Rows that are deleted one by one, together, are walked over before readers come. Step mode tells when that is done.

use std::sync::Arc;

use esker::vfs::mem::MemFs;
use esker::vfs::scheduler::steps::Steps;
use esker::vfs::sim::Simulation;
use esker::{Database, Keyspace, KeyspaceOptions};

const ROWS: u32 = 150_000;
/// After 131,072 deletes they are walked over.
const DELETED: u32 = 140_000;

fn world() -> Simulation {
    let steps = Arc::new(Steps::with_width(1, 1));
    let clock = steps.clock();
    Simulation { disk: MemFs::simulated(), steps, clock }
}

/// Rows in tables, of which the first are deleted in this order by tombstones in the memtable.
fn deleted(world: &Simulation, order: impl Iterator<Item = u32>) -> (Database, Keyspace) {
    let db = Database::builder("/db").env(world.env()).open().expect("opened");
    let map = db.keyspace("map", KeyspaceOptions::default()).expect("created");
    for from in (0..ROWS).step_by(1_000) {
        let mut batch = db.batch();
        for n in from..from + 1_000 {
            batch.put(&map, n.to_be_bytes(), b"").expect("small");
        }
        batch.commit().expect("put");
    }
    map.compact_range::<&[u8]>(..).expect("compacted");
    for n in order {
        map.delete(n.to_be_bytes()).expect("deleted");
    }
    while world.steps.step().is_some() {}
    let levels = &db.metrics().keyspaces[0].levels;
    let entries: u64 = levels.iter().map(|level| level.entries).sum();
    assert_eq!(entries, u64::from(ROWS), "no compaction has met the tombstones");
    (db, map)
}

/// The first row, and how many tombstones were passed to find it.
fn first(map: &Keyspace) -> (u32, u64) {
    let mut cursor = map.cursor().expect("open");
    assert!(cursor.seek_first().expect("read"));
    let row = u32::from_be_bytes(cursor.key().try_into().expect("four bytes"));
    (row, cursor.cost().tombstones_skipped)
}

#[test]
fn the_first_reader_need_not_walk_over_what_was_deleted() {
    for descending in [false, true] {
        let world = world();
        let order = (0..DELETED).map(|n| if descending { DELETED - 1 - n } else { n });
        let (db, map) = deleted(&world, order);
        let (row, passed) = first(&map);
        assert_eq!(row, DELETED);
        assert!(passed < 10_000, "what was deleted last, and a little before it: {passed}");
        // What is put there is found.
        map.put(70_000_u32.to_be_bytes(), b"again").expect("put");
        let (row, passed) = first(&map);
        assert_eq!(row, 70_000);
        assert!(passed < 10_000, "{passed}");
        db.close().expect("closed");
    }
}

#[test]
fn rows_between_are_found() {
    let world = world();
    let stays = |n: &u32| n % 10_000 == 5_000;
    let (db, map) = deleted(&world, (0..DELETED).filter(|n| !stays(n)));
    let rows: Vec<u32> = map
        .iter()
        .map(|row| u32::from_be_bytes(row.expect("read").0[..].try_into().expect("four bytes")))
        .collect();
    assert!(rows.into_iter().eq((0..DELETED).filter(stays).chain(DELETED..ROWS)));
    db.close().expect("closed");
}

/// The dead head of a queue is not forgotten for rows that were deleted here and there ahead of it.
#[test]
fn what_is_deleted_elsewhere_does_not_hide_the_dead_head() {
    let world = world();
    let mut head = 0;
    let order = (0..DELETED).map(|n| {
        if n % 10 == 0 {
            return 141_000 + (n * 7) % 8_000;
        }
        head += 1;
        head - 1
    });
    let (db, map) = deleted(&world, order);
    let (row, passed) = first(&map);
    assert_eq!(row, DELETED / 10 * 9);
    assert!(passed < 10_000, "what was deleted last, and a little before it: {passed}");
    db.close().expect("closed");
}
