//! Crashes around recovery itself, each once found by the crash suite.

use std::path::Path;

use esker_vfs::fs::Fs;
use esker_vfs::mem::{MemFs, Policy};
use esker_vfs::sim::Simulation;

use crate::{Database, DatabaseOptions, Durability, Error, KeyspaceOptions};

const DIR: &str = "/db";

fn open(disk: &MemFs, durability: Durability) -> Database {
    let options =
        DatabaseOptions { durability, memtable_bytes_max: 12 << 10, ..DatabaseOptions::default() };
    let env = Simulation::on(disk.clone(), 1).env();
    Database::builder(DIR).options(options).env(env).open().expect("opened")
}

/// What a process kill leaves.
fn killed(disk: &MemFs) -> MemFs {
    disk.image_at(disk.trace_len(), Policy::Everything, 0)
}

fn keys(db: &Database, keyspace: &str) -> Vec<Vec<u8>> {
    let keyspace = db.existing_keyspace(keyspace).expect("the keyspace is there");
    keyspace.iter().map(|row| row.expect("a row").0.to_vec()).collect()
}

fn logs(disk: &MemFs) -> Vec<String> {
    let names = disk.list(Path::new(DIR)).expect("listed").into_iter().map(|entry| entry.name);
    names.filter(|name| Path::new(name).extension().is_some_and(|extension| extension == "log")).collect()
}

/// What was recovered and not flushed is recovered again, as often as it takes.
#[test]
fn a_second_kill_loses_nothing() {
    let mut disk = MemFs::simulated();
    let db = open(&disk, Durability::Os);
    let map = db.keyspace("map", KeyspaceOptions::default()).expect("created");
    let mut expected = Vec::new();
    for round in 0..4u8 {
        let db = if round == 0 { db.clone() } else { open(&disk, Durability::Os) };
        let map = if round == 0 { map.clone() } else { db.existing_keyspace("map").expect("there") };
        assert_eq!(keys(&db, "map"), expected, "round {round}");
        map.put([round], "value").expect("put");
        expected.push(vec![round]);
        let left = killed(&disk);
        drop((map, db));
        disk = left;
    }
}

/// Range deletions within each other, as many as a log has, are recovered into memory in proportion to it.
#[test]
fn nested_range_deletions_are_recovered_in_little_memory() {
    const DEPTH: u32 = 2_000;
    let disk = MemFs::simulated();
    let db = open(&disk, Durability::Os);
    let map = db.keyspace("map", KeyspaceOptions::default()).expect("created");
    map.put("a", "1").expect("put");
    let mut batch = db.batch();
    for n in 0..DEPTH {
        batch.delete_range(&map, n.to_be_bytes(), (3 * DEPTH - n).to_be_bytes()).expect("added");
    }
    batch.commit().expect("committed");
    let left = killed(&disk);

    let db = open(&left, Durability::Os);
    let map = db.existing_keyspace("map").expect("there");
    let current = db.core().current.load_full();
    let [sealed] = &current.sealed[..] else { panic!("one log was recovered") };
    let fragments = sealed.memtable.tombstones(map.id()).expect("there are some");
    assert_eq!(fragments.list().len(), 2 * DEPTH as usize - 1);
    assert!(fragments.list().iter().all(|fragment| fragment.seqnos.len() == 1));
    assert_eq!(keys(&db, "map"), [b"a".to_vec()]);
    map.put(5u32.to_be_bytes(), "2").expect("put");
    db.flush().expect("flushed");
    assert_eq!(keys(&db, "map"), [5u32.to_be_bytes().to_vec(), b"a".to_vec()]);
}

/// A log whose name never reached the disk takes the logs after it along, not the database.
#[test]
fn a_log_whose_name_was_lost_ends_the_chain() {
    let disk = MemFs::simulated();
    let db = open(&disk, Durability::Os);
    let map = db.keyspace("map", KeyspaceOptions::default()).expect("created");
    let first = logs(&disk);
    let mut put = 0u32;
    // Two rotations; no step of a flush runs before the second.
    while logs(&disk).len() < first.len() + 2 {
        map.put(put.to_be_bytes(), [7; 500]).expect("put");
        put += 1;
    }
    let point = disk.crash_point(disk.trace_len());
    let mut holes = 0;
    for taken in point.selections(200, 1) {
        let image = point.image_subset(&taken);
        let left = logs(&image);
        holes += u32::from(left.len() == 2 && left[1] == logs(&disk)[2]);
        let held = keys(&open(&image, Durability::Os), "map");
        let expected: Vec<Vec<u8>> = (0..put).map(|n| n.to_be_bytes().to_vec()).collect();
        assert!(expected.starts_with(&held), "{held:?}");
    }
    assert!(holes > 0, "the middle log was lost at least once");
}

/// Where a later log proves that it had been durable, the missing one is missed.
#[test]
fn a_durable_log_that_is_gone_is_missed() {
    let disk = MemFs::simulated();
    let db = open(&disk, Durability::Sync);
    let map = db.keyspace("map", KeyspaceOptions::default()).expect("created");
    let mut put = 0u32;
    while logs(&disk).len() < 3 {
        map.put(put.to_be_bytes(), [7; 500]).expect("put");
        put += 1;
    }
    map.put("one more", "value").expect("put");
    map.put("and another", "value").expect("put");
    let image = killed(&disk);
    let middle = logs(&image)[1].clone();
    image.remove(&Path::new(DIR).join(&middle)).expect("removed");
    let error = Database::builder(DIR).env(Simulation::on(image, 1).env()).open().err();
    match error {
        Some(Error::MissingFile { path, .. }) => assert!(path.ends_with(&middle), "{path:?}"),
        other => panic!("{other:?}"),
    }
}

/// Dropping a keyspace is durable at once: so is what was written elsewhere before.
#[test]
fn what_was_moved_out_of_a_dropped_keyspace_is_not_lost() {
    for durability in [Durability::Os, Durability::NoLog] {
        let disk = MemFs::simulated();
        let db = open(&disk, durability);
        let from = db.keyspace("from", KeyspaceOptions::default()).expect("created");
        let to = db.keyspace("to", KeyspaceOptions::default()).expect("created");
        from.put("row", "value").expect("put");
        to.put("row", "value").expect("put");
        db.drop_keyspace("from").expect("dropped");
        let image = disk.image_at(disk.trace_len(), Policy::Strict, 0);
        let db = open(&image, durability);
        assert_eq!(db.keyspaces(), ["to"]);
        assert_eq!(keys(&db, "to"), [b"row"], "{durability:?}");
    }
}

/// A log whose removal was undone by a crash does not stay for ever.
#[test]
fn logs_that_nobody_needs_are_removed_at_open() {
    let disk = MemFs::simulated();
    let db = open(&disk, Durability::Os);
    let map = db.keyspace("map", KeyspaceOptions::default()).expect("created");
    for _ in 0..3 {
        map.put("key", "value").expect("put");
        db.flush().expect("flushed");
    }
    // Names are durable only up to the last sync of the directory: the last removal is undone.
    let image = disk.image_at(disk.trace_len(), Policy::Strict, 0);
    assert!(logs(&image).len() > 1, "{:?}", logs(&image));
    open(&image, Durability::Os).close().expect("closed");
    assert_eq!(logs(&image).len(), 1);
}

/// The log that the manifest asks for may be blank. A recovery that is cut short leaves it where it is.
#[test]
fn a_blank_first_log_is_there_for_the_next_recovery() {
    let disk = MemFs::simulated();
    let db = open(&disk, Durability::Os);
    let map = db.keyspace("map", KeyspaceOptions::default()).expect("created");
    map.put("key", "value").expect("put");
    db.flush().expect("flushed");
    let image = disk.image_at(disk.trace_len(), Policy::Strict, 0);
    drop(open(&image, Durability::Os));
    assert!(image.trace_len() > 10);
    for point in image.sweep() {
        for policy in Policy::ALL {
            let again = point.image(policy, 1);
            assert_eq!(
                keys(&open(&again, Durability::Os), "map"),
                [b"key"],
                "{policy:?}, {}",
                point.calls()
            );
        }
    }
}

/// A flush of which nothing is left names no table, and still the log after it.
#[test]
fn a_flush_of_nothing_makes_the_next_log_durable() {
    let disk = MemFs::simulated();
    let db = open(&disk, Durability::Os);
    let map = db.keyspace("map", KeyspaceOptions::default()).expect("created");
    map.put("key", "value").expect("put");
    map.delete("key").expect("deleted");
    db.flush().expect("flushed");
    let image = disk.image_at(disk.trace_len(), Policy::Strict, 0);
    assert!(keys(&open(&image, Durability::Os), "map").is_empty());
}
