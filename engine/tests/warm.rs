//! New tables are cached where those were that they stand beside, or in place of.

use esker::vfs::Env;
use esker::vfs::sim::Simulation;
use esker::{Database, Keyspace, KeyspaceOptions};

const ROWS: u32 = 5_000;

fn open() -> (Database, Keyspace, Simulation) {
    let (env, world) = Env::simulated(3);
    let db = Database::builder("/db").env(env).open().expect("opened");
    let rows = db.keyspace("rows", KeyspaceOptions::default()).expect("created");
    (db, rows, world)
}

/// Write every `nth` row.
fn write(rows: &Keyspace, nth: u32) {
    (0..ROWS)
        .filter(|row| row % nth == 0)
        .for_each(|row| rows.put(row.to_be_bytes(), [7; 100]).expect("put"));
}

/// Blocks that getting every row has to wait for.
fn read(db: &Database, rows: &Keyspace) -> u64 {
    let before = db.metrics().counters.blocks_from_disk;
    (0..ROWS).for_each(|row| assert!(rows.get(row.to_be_bytes()).expect("read").is_some()));
    db.metrics().counters.blocks_from_disk - before
}

/// Bytes in the cache.
fn cached(db: &Database) -> u64 {
    db.metrics().memory.iter().find(|(what, _)| *what == "cache").expect("an account").1
}

#[test]
fn what_is_flushed_and_compacted_beside_cached_tables_is_cached() {
    let (db, rows, world) = open();
    write(&rows, 1);
    db.flush().expect("flushed");
    world.steps.settle();
    assert_eq!(cached(&db), 0, "nobody has read the first table");
    assert!(read(&db, &rows) > 5);
    assert!(cached(&db) > 500_000);
    assert_eq!(read(&db, &rows), 0, "all of it is cached now");

    write(&rows, 5);
    db.flush().expect("flushed");
    assert_eq!(read(&db, &rows), 0, "the second table is cached like the first, from its first moment");

    rows.compact_range::<&[u8]>(..).expect("compacted");
    world.steps.settle();
    assert_eq!(db.metrics().keyspaces[0].levels.iter().map(|level| level.tables).sum::<u64>(), 1);
    assert_eq!(read(&db, &rows), 0, "and so is what they were merged into");
}

#[test]
fn where_nothing_is_cached_nothing_comes_into_the_cache() {
    let (db, rows, world) = open();
    for nth in [1, 5] {
        write(&rows, nth);
        db.flush().expect("flushed");
    }
    rows.compact_range::<&[u8]>(..).expect("compacted");
    world.steps.settle();
    assert_eq!(cached(&db), 0, "nobody has asked for it");
    assert!(read(&db, &rows) > 5);
}

/// However a whole keyspace is scanned, an empty cache takes in what was read.
#[test]
fn a_scan_of_everything_fills_an_empty_cache() {
    let (db, rows, _world) = open();
    write(&rows, 1);
    db.flush().expect("flushed");
    assert_eq!(cached(&db), 0, "nobody has read it");
    let mut first = rows.iter();
    assert_eq!(first.by_ref().count(), ROWS as usize);
    assert!(first.cost().blocks_from_disk > 5);
    assert!(cached(&db) > 500_000);
    let mut second = rows.iter();
    assert_eq!(second.by_ref().count(), ROWS as usize);
    assert_eq!(second.cost().blocks_from_disk, 0, "all of it is cached now");
    assert_eq!(read(&db, &rows), 0);
}
