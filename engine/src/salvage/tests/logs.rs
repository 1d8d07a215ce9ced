//! A log that ends early or is missing is a loss wherever recovery would refuse it.

use esker_base::FileNumber;
use esker_base::filename::FileName;
use esker_wal::{LogIdentity, LogKind, LogReader};

use super::*;

fn open(disk: &MemFs, durability: Durability) -> crate::Result<Database> {
    let options =
        DatabaseOptions { durability, memtable_bytes_max: 14 << 10, ..DatabaseOptions::default() };
    Database::builder(DIR).options(options).env(Simulation::on(disk.clone(), 1).env()).open()
}

/// What a process kill leaves.
fn killed(disk: &MemFs) -> MemFs {
    disk.image_at(disk.trace_len(), Policy::Everything, 0)
}

/// A database with the keyspace `map` and in it `k1` to `k3`, in the log alone.
fn three_rows(durability: Durability) -> (MemFs, Database) {
    let disk = MemFs::simulated();
    let db = open(&disk, durability).expect("created");
    let map = db.keyspace("map", KeyspaceOptions::default()).expect("created");
    for key in ["k1", "k2", "k3"] {
        map.put(key, "value").expect("put");
    }
    (disk, db)
}

/// A killed database with three logs and the keys in them: nothing was flushed, and each log's last key stands at its end.
fn three_logs(durability: Durability) -> (MemFs, Vec<u32>) {
    let disk = MemFs::simulated();
    let db = open(&disk, durability).expect("created");
    let map = db.keyspace("map", KeyspaceOptions::default()).expect("created");
    let (mut put, mut firsts) = (0u32, vec![0]);
    while firsts.len() < 3 {
        map.put(put.to_be_bytes(), [7; 500]).expect("put");
        if named(&disk, ".log").len() > firsts.len() {
            firsts.push(put);
        }
        put += 1;
    }
    for _ in 0..2 {
        map.put(put.to_be_bytes(), [7; 500]).expect("put");
        put += 1;
    }
    firsts.push(put);
    (killed(&disk), firsts)
}

/// Where the records of the log `name` end, in bytes.
fn ends(disk: &MemFs, name: &str) -> Vec<u64> {
    let Some(FileName::Log(number)) = FileName::parse(name) else { panic!("{name} is no log") };
    let current = esker_manifest::current_file::read(disk, Path::new(DIR)).expect("read");
    let identity = LogIdentity { database: current.database, number, kind: LogKind::WriteAhead };
    let mut reader =
        LogReader::open_recycled(disk, &path(name), identity, None, FileNumber(number.0)).expect("opened");
    let mut ends = Vec::new();
    while let Some(record) = reader.next().expect("a record") {
        ends.push(record.end);
    }
    ends
}

fn cut(disk: &MemFs, name: &str, len: u64) {
    disk.open_writable(&path(name)).expect("opened").set_len(len).expect("cut");
}

/// The open is refused because of the log `name`, at byte `at` if it is there, and salvage has one loss, which
/// says the same.
#[track_caller]
fn check_refused_and_lost(disk: &MemFs, name: &str, at: Option<u64>) -> Salvaged {
    let refused = open(&killed(disk), Durability::Os).map(drop).expect_err("the open is refused");
    match (&refused, at) {
        (Error::Corruption { path, offset, .. }, Some(at)) => {
            assert!(path.ends_with(name) && *offset == at);
        }
        (Error::MissingFile { path, .. }, None) => assert!(path.ends_with(name)),
        _ => panic!("{refused}"),
    }
    let salvaged = salvage(disk).expect("salvaged");
    let [loss] = &salvaged.losses[..] else { panic!("one loss: {:?}", salvaged.losses) };
    assert!(loss.file.ends_with(name), "{loss:?}");
    match at {
        Some(at) => assert!(loss.what.contains(&format!("at byte {at}:")), "{loss:?}"),
        None => assert!(loss.what.contains("is missing"), "{loss:?}"),
    }
    salvaged
}

/// Behind what `persist` has told the manifest.
#[test]
fn a_log_that_ends_before_what_was_durable_is_a_loss() {
    for durability in [Durability::Sync, Durability::Os] {
        let (disk, db) = three_rows(durability);
        db.persist().expect("durable");
        let left = killed(&disk);
        let log = named(&left, ".log").remove(0);
        let first = ends(&left, &log)[0];
        cut(&left, &log, first);
        check_refused_and_lost(&left, &log, Some(first));
        assert_eq!(contents(&left, "map").len(), 1);
    }
}

/// For each length of such a log, salvage has a loss exactly if the open is refused, and at the same place.
#[test]
fn salvage_judges_the_end_of_a_log_as_recovery_does() {
    let (disk, db) = three_rows(Durability::Sync);
    db.existing_keyspace("map").expect("there").put("k4", "value").expect("put");
    db.persist().expect("durable");
    db.existing_keyspace("map").expect("there").put("k5", "value").expect("put");
    let left = killed(&disk);
    let log = named(&left, ".log").remove(0);
    let end = ends(&left, &log)[4];
    let mut refused = 0;
    for len in 0..=end + 3 {
        let left = killed(&left);
        cut(&left, &log, len);
        let salvaged = salvage(&left).expect("salvaged");
        match open(&left, Durability::Sync) {
            Ok(_) => assert!(salvaged.losses.is_empty(), "{len}: {:?}", salvaged.losses),
            Err(Error::Corruption { offset, .. }) => {
                refused += 1;
                let [loss] = &salvaged.losses[..] else { panic!("{len}: {:?}", salvaged.losses) };
                assert!(loss.what.contains(&format!("at byte {offset}:")), "{len}: {loss:?}");
            }
            Err(other) => panic!("{len}: {other}"),
        }
    }
    assert!((100..end).contains(&refused), "{refused} of {end}");
}

/// An open has read it and told the manifest its length.
#[test]
fn a_closed_log_that_ends_early_or_is_missing_is_a_loss() {
    let (disk, _db) = three_rows(Durability::Os);
    let disk = killed(&disk);
    let log = named(&disk, ".log").remove(0);
    let db = open(&disk, Durability::Os).expect("opened");
    let left = killed(&disk);
    drop(db);
    let second = ends(&left, &log)[1];
    let missing = killed(&left);
    cut(&left, &log, second + 1);
    check_refused_and_lost(&left, &log, Some(second));
    assert_eq!(contents(&left, "map").len(), 2);
    missing.remove(&path(&log)).expect("removed");
    check_refused_and_lost(&missing, &log, None);
}

#[test]
fn the_log_of_a_clean_close_that_ends_early_or_is_missing_is_a_loss() {
    let (disk, db) = three_rows(Durability::Os);
    db.close().expect("closed");
    let log = named(&disk, ".log").pop().expect("a log");
    for len in [0, 40] {
        let left = killed(&disk);
        cut(&left, &log, len);
        check_refused_and_lost(&left, &log, Some(0));
        assert_eq!(contents(&left, "map").len(), 3, "they are in a table");
    }
    disk.remove(&path(&log)).expect("removed");
    check_refused_and_lost(&disk, &log, None);
}

/// `persist` has told the manifest of the newest log.
#[test]
fn a_durable_log_that_is_missing_is_a_loss() {
    let (disk, _) = three_logs(Durability::Os);
    let db = open(&disk, Durability::Os).expect("opened");
    db.existing_keyspace("map").expect("there").put("one more", "value").expect("put");
    db.persist().expect("durable");
    let left = killed(&disk);
    let log = named(&left, ".log").pop().expect("a log");
    left.remove(&path(&log)).expect("removed");
    check_refused_and_lost(&left, &log, None);
}

/// The log in the middle, which only the one after it tells of. What that holds is salvaged.
#[test]
fn a_missing_log_that_another_continues_is_a_loss() {
    let (disk, firsts) = three_logs(Durability::Sync);
    let log = named(&disk, ".log").remove(1);
    disk.remove(&path(&log)).expect("removed");
    check_refused_and_lost(&disk, &log, None);
    let expected = (0..firsts[1]).chain(firsts[2]..firsts[3]);
    let expected: Vec<_> = expected.map(|key| key.to_be_bytes().to_vec()).collect();
    assert_eq!(contents(&disk, "map").into_keys().collect::<Vec<_>>(), expected);
}

/// The log in the middle, of which the one after it says how long it was.
#[test]
fn a_log_that_ends_before_the_next_one_begins_is_a_loss() {
    let (disk, firsts) = three_logs(Durability::Sync);
    let log = named(&disk, ".log").remove(1);
    let ends = ends(&disk, &log);
    let end = ends[ends.len() - 2];
    cut(&disk, &log, end);
    check_refused_and_lost(&disk, &log, Some(end));
    let expected = (0..firsts[2] - 1).chain(firsts[2]..firsts[3]);
    let expected: Vec<_> = expected.map(|key| key.to_be_bytes().to_vec()).collect();
    assert_eq!(contents(&disk, "map").into_keys().collect::<Vec<_>>(), expected);
}

/// Where nothing proves that the gap was ever durable, recovery drops what follows. Salvage keeps it, and tells.
#[test]
fn what_follows_a_gap_is_kept_and_the_gap_is_a_loss() {
    let (whole, firsts) = three_logs(Durability::Os);
    let log = named(&whole, ".log").remove(1);
    for removed in [true, false] {
        let disk = killed(&whole);
        if removed {
            disk.remove(&path(&log)).expect("removed");
        } else {
            cut(&disk, &log, 0);
        }
        let salvaged = salvage(&disk).expect("salvaged");
        let [loss] = &salvaged.losses[..] else { panic!("one loss: {:?}", salvaged.losses) };
        assert!(loss.file.ends_with(&log), "{loss:?}");
        let found = contents(&disk, "map");
        assert_eq!(found.len(), (firsts[1] + firsts[3] - firsts[2]) as usize);
        assert!(open(&disk, Durability::Os).is_ok());
    }
}

/// Without a manifest there is no telling a short log from a torn one: nothing is said of it.
#[test]
fn without_a_manifest_a_short_log_is_read_as_far_as_it_goes() {
    let (disk, db) = three_rows(Durability::Sync);
    db.persist().expect("durable");
    let left = killed(&disk);
    let log = named(&left, ".log").remove(0);
    cut(&left, &log, ends(&left, &log)[0]);
    left.remove(&path(&named(&left, ".manifest").remove(0))).expect("removed");
    let salvaged = salvage(&left).expect("salvaged");
    assert!(!salvaged.losses.is_empty());
    assert!(salvaged.losses.iter().all(|loss| !loss.file.ends_with(&log)), "{:?}", salvaged.losses);
    assert_eq!(salvaged.log_records, 1);
}

/// The file of a log that was forgotten, kept for the next one or left by a crash, brings back nothing of what was deleted or
/// overwritten since. Where nobody knows that it was forgotten, that is told, also if there is no table.
#[test]
fn a_forgotten_log_brings_nothing_back() {
    for overwritten in [true, false] {
        let (disk, db) = three_rows(Durability::Sync);
        let log = named(&disk, ".log").pop().expect("a log");
        let bytes = files(&disk).remove(&log).expect("it is there");
        db.flush().expect("flushed");
        let map = db.existing_keyspace("map").expect("there");
        for key in ["k1", "k2", "k3"] {
            map.delete(key).expect("deleted");
        }
        if overwritten {
            map.put("k2", "new").expect("put");
        }
        map.compact_range::<&[u8]>(..).expect("compacted");
        let left = killed(&disk);
        assert_eq!(named(&left, ".sst").len(), usize::from(overwritten));
        left.create(&path(&log)).expect("gone").write_at(&bytes, 0).expect("written");
        let rows = if overwritten { Rows::from([(b"k2".into(), b"new".into())]) } else { Rows::new() };
        for lost in [&[][..], &["CURRENT"], &["CURRENT", ".manifest"]] {
            let disk = killed(&left);
            for name in lost.iter().flat_map(|ending| named(&disk, ending)) {
                disk.remove(&path(&name)).expect("removed");
            }
            let salvaged = salvage(&disk).expect("salvaged");
            let told = salvaged.losses.iter().any(|loss| loss.what.contains("deleted rows may be"));
            if lost.len() < 2 {
                assert_eq!(contents(&disk, "map"), rows, "{lost:?}");
                assert_eq!(salvaged.losses.len(), lost.len(), "{:?}", salvaged.losses);
                assert!(!told);
            } else {
                assert!(contents(&disk, "keyspace-1").len() >= rows.len() && told, "{:?}", salvaged.losses);
            }
        }
    }
}
