//! Crashes around recovery itself, each once found by the crash suite.

use std::path::Path;
use std::time::Duration;

use esker_base::filename::FileName;
use esker_base::{FileNumber, Kind};
use esker_vfs::fs::{Fs, read_exact_at};
use esker_vfs::mem::{MemFs, Policy};
use esker_vfs::sim::Simulation;
use esker_wal::{LogIdentity, LogKind, LogWriter};

use super::copy::LogCopy;
use crate::batch::Op;
use crate::{Database, DatabaseOptions, Durability, Error, Keyspace, KeyspaceOptions};

const DIR: &str = "/db";

fn open(disk: &MemFs, durability: Durability) -> Database {
    let options =
        DatabaseOptions { durability, memtable_bytes_max: 14 << 10, ..DatabaseOptions::default() };
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

/// Puts log `number` there, of `map`'s database and without a predecessor, in which operation `seqno` puts one row.
fn forge_log(disk: &MemFs, map: &Keyspace, number: u64, seqno: u64) {
    let identity = LogIdentity {
        database: map.database().core().database,
        number: FileNumber(number),
        kind: LogKind::WriteAhead,
    };
    let mut log = LogWriter::create(disk, Path::new(DIR), identity, None, 0).expect("made");
    let op = Op { keyspace: map.id(), kind: Kind::Put, key: b"forged", value: b"" };
    log.stage_with(seqno, |out| op.encode(out));
    log.write().expect("written");
    log.syncer().sync().expect("synced");
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
        batch.delete_range(&map, n.to_be_bytes()..(3 * DEPTH - n).to_be_bytes()).expect("added");
    }
    batch.commit().expect("committed");
    let left = killed(&disk);

    let db = open(&left, Durability::Os);
    let map = db.existing_keyspace("map").expect("there");
    let current = db.core().current.load_full();
    let [sealed] = &current.sealed[..] else { panic!("one log was recovered") };
    let fragments = sealed.memtable.tombstones(map.id(), esker_base::SeqNo::MAX).expect("there are some");
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

/// A copy follows its reader by whole pieces, whoever finishes it does the rest, and one that nobody finishes goes. What fails on
/// the thread is tried again.
#[test]
fn a_copy_follows_the_reader() {
    const PIECE: usize = 1 << 20;
    let disk = MemFs::simulated();
    let world = Simulation::on(disk.clone(), 1);
    let env = world.env();
    let dir = Path::new(DIR);
    disk.create_dir(dir).expect("created");
    let path = dir.join(FileName::Log(FileNumber(7)).to_string());
    let temporary = dir.join(FileName::Temporary(FileNumber(7)).to_string());
    let content: Vec<u8> = (0..=250).cycle().take(3 * PIECE + 500).collect();
    disk.create(&path).expect("created").write_at(&content, 0).expect("written");
    let copied = |path: &Path| disk.stat(path).expect("looked").map(|entry| entry.len);
    let begin = || LogCopy::begin(&env, dir, FileNumber(7)).expect("begun");

    let copy = begin();
    copy.follow(2 * PIECE as u64 + 9);
    world.steps.settle();
    assert_eq!(copied(&temporary), Some(2 * PIECE as u64), "the pieces that are whole");
    copy.finish(3 * PIECE as u64 + 17).expect("finished");
    assert_eq!((copied(&temporary), copied(&path)), (None, Some(3 * PIECE as u64 + 17)));
    let file = disk.open(&path).expect("opened");
    assert!(read_exact_at(&*file, 0, 3 * PIECE + 17).expect("read") == content[..3 * PIECE + 17]);

    let copy = begin();
    copy.follow(PIECE as u64);
    world.steps.settle();
    assert_eq!(copied(&temporary), Some(PIECE as u64));
    drop(copy);
    assert_eq!((copied(&temporary), copied(&path)), (None, Some(3 * PIECE as u64 + 17)));
    world.steps.clock().advance(Duration::from_secs(1));
    world.steps.settle();
    assert!(world.steps.jobs().is_empty(), "no thread follows any more");

    let copy = begin();
    copy.follow(3 * PIECE as u64);
    disk.set_capacity(Some(1));
    world.steps.settle();
    assert!(world.steps.jobs().is_empty(), "it has given up");
    disk.set_capacity(None);
    copy.finish(3 * PIECE as u64 + 17).expect("finished");
    let file = disk.open(&path).expect("opened");
    assert!(read_exact_at(&*file, 0, 3 * PIECE + 17).expect("read") == content[..3 * PIECE + 17]);
    let copy = begin();
    disk.set_capacity(Some(1));
    assert!(copy.finish(2 * PIECE as u64).expect_err("no room").is_no_space());
    assert_eq!(
        (copied(&temporary), copied(&path)),
        (None, Some(3 * PIECE as u64 + 17)),
        "all is as it was"
    );
}

/// A log with a number that no handle comes to is somebody else's, however well it is made, and stays where it is.
#[test]
fn a_log_with_a_number_beyond_every_handle_is_passed_over() {
    for number in [1 << 47, (1 << 48) - 1, 1 << 48, u64::MAX] {
        let disk = MemFs::simulated();
        let db = open(&disk, Durability::Sync);
        let map = db.keyspace("map", KeyspaceOptions::default()).expect("created");
        map.put("key", "value").expect("put");
        db.flush().expect("flushed");
        forge_log(&disk, &map, number, 1000);
        db.close().expect("closed");
        let before = logs(&disk).len();
        for _ in 0..2 {
            let db = open(&disk, Durability::Sync);
            assert_eq!(keys(&db, "map"), [b"key".to_vec()], "{number}");
            db.existing_keyspace("map").expect("there").put("key", "anew").expect("put");
            db.close().expect("closed");
        }
        assert_eq!(logs(&disk).len(), before, "the forged one and the latest");
    }
}

/// A log between others that holds a dropped keyspace's rows alone goes when they do.
#[test]
fn a_log_of_a_dropped_keyspace_goes_with_those_around_it() {
    let disk = MemFs::simulated();
    let db = open(&disk, Durability::Os);
    let map = db.keyspace("map", KeyspaceOptions::default()).expect("created");
    let gone = db.keyspace("gone", KeyspaceOptions::default()).expect("created");
    let first = logs(&disk).len();
    (0..5u8).for_each(|n| map.put([n], [7; 500]).expect("put"));
    let mut put = 0u32;
    while logs(&disk).len() < first + 2 {
        gone.put(put.to_be_bytes(), [7; 500]).expect("put");
        put += 1;
    }
    map.put("last", "value").expect("put");
    db.drop_keyspace("gone").expect("dropped");
    let left = killed(&disk);
    assert_eq!(logs(&left).len(), first + 2, "no flush was done");

    let db = open(&left, Durability::Os);
    let expected: Vec<Vec<u8>> = (0..5u8).map(|n| vec![n]).chain([b"last".to_vec()]).collect();
    assert_eq!(keys(&db, "map"), expected);
    db.flush().expect("flushed");
    db.wait_for_compactions().expect("nothing fails");
    assert_eq!(logs(&left).len(), 1, "{:?}", logs(&left));
    drop(db);
    assert_eq!(keys(&open(&left, Durability::Os), "map"), expected);
}

/// Many short logs beside a long one are recovered into memory in proportion to their length.
#[test]
fn short_logs_beside_a_long_one_take_little_memory() {
    const SHORT: u64 = 100;
    let disk = MemFs::simulated();
    let db = Database::builder(DIR).env(Simulation::on(disk.clone(), 1).env()).open().expect("opened");
    let map = db.keyspace("map", KeyspaceOptions::default()).expect("created");
    for row in 0..7_000u32 {
        map.put(row.to_be_bytes(), [7; 1_000]).expect("put");
    }
    let left = killed(&disk);
    let long = db.core().current.load_full().active.memtable.bytes();
    let first = db.core().commits.lock().log_number.0 + 1;
    for number in first..first + SHORT {
        forge_log(&left, &map, number, 10_000 + number);
    }
    let db = Database::builder(DIR).env(Simulation::on(left, 2).env()).open().expect("opened");
    let current = db.core().current.load_full();
    assert_eq!(current.sealed.len() as u64, SHORT + 1);
    let bytes: u64 = current.sealed.iter().map(|sealed| sealed.memtable.bytes()).sum();
    assert!(bytes < long + SHORT * (64 << 10) + (8 << 20), "{bytes} bytes, {long} of them the long one's");
}
