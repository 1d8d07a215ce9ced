//! What is salvaged is what was there, but for what is damaged.

mod logs;
mod merges;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use esker_base::FileNumber;
use esker_base::filename::FileName;
use esker_base::sync::Mutex;
use esker_vfs::fault::{Fault, FaultFs, Operation};
use esker_vfs::fs::{Fs, read_all};
use esker_vfs::mem::{MemFs, Policy};
use esker_vfs::sim::Simulation;

use super::{Salvage, Salvaged};
use crate::{Database, DatabaseOptions, Durability, Error, KeyspaceOptions};

const DIR: &str = "/db";
const NEW: &str = "/new";

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// What a kill leaves of a database with tables, tombstones of both kinds, merges, a dropped keyspace and a
/// log; and what its keyspaces `rows` and `lists` held.
fn database() -> (MemFs, Rows, Rows) {
    let disk = MemFs::simulated();
    let env = Simulation::on(disk.clone(), 4).env();
    let options = DatabaseOptions {
        durability: Durability::Sync,
        table_bytes: 8 << 10,
        level_base_bytes: Some(8 << 10),
        l0_tables_trigger: 2,
        ..DatabaseOptions::default()
    };
    let db = Database::builder(DIR).options(options).env(env).open().expect("opened");
    let small = KeyspaceOptions { block_bytes: 512, ..KeyspaceOptions::default() };
    let rows = db.keyspace("rows", small.clone()).expect("created");
    let lists = db.keyspace("lists", small.with_merge_operator("append")).expect("created");
    let gone = db.keyspace("gone", KeyspaceOptions::default()).expect("created");
    for round in 0..6u8 {
        for nth in 0..60u32 {
            let nth = nth * 7 % 120 + u32::from(round);
            rows.put(format!("k{nth:03}"), vec![round + 1; 50]).expect("put");
            lists.merge(format!("l{:02}", nth % 20), format!("{round},")).expect("merged");
            gone.put(nth.to_be_bytes(), "x").expect("put");
        }
        rows.delete(format!("k{:03}", round * 3)).expect("deleted");
        rows.delete_range(format!("k{:03}", 90 + round)..format!("k{:03}", 93 + round)).expect("deleted");
        lists.put("l05", "again:").expect("put");
        if round < 5 {
            db.flush().expect("flushed");
            db.wait_for_compactions().expect("compacted");
        }
    }
    db.drop_keyspace("gone").expect("dropped");
    rows.put("last", "one").expect("put");
    let left = disk.image_at(disk.trace_len(), Policy::Everything, 0);
    let all = |keyspace: &crate::Keyspace| -> Rows {
        keyspace.iter().map(|row| row.map(|(k, v)| (k.to_vec(), v.to_vec())).expect("a row")).collect()
    };
    (left, all(&rows), all(&lists))
}

fn salvage(disk: &MemFs) -> crate::Result<Salvaged> {
    Salvage::of(DIR).env(Simulation::on(disk.clone(), 9).env()).run(NEW)
}

fn contents(disk: &MemFs, name: &str) -> Rows {
    let env = Simulation::on(disk.clone(), 2).env();
    let db = Database::builder(NEW).read_only(true).env(env).open().expect("the new one opens");
    db.verify().expect("the new one is whole");
    let keyspace = db.existing_keyspace(name).expect("it is there");
    keyspace.iter().map(|row| row.map(|(k, v)| (k.to_vec(), v.to_vec())).expect("a row")).collect()
}

fn files(disk: &MemFs) -> BTreeMap<String, Vec<u8>> {
    let names = disk.list(Path::new(DIR)).expect("listed").into_iter().map(|entry| entry.name);
    names.map(|name| (name.clone(), read_all(disk, &path(&name), u64::MAX).expect("read"))).collect()
}

fn path(name: &str) -> PathBuf {
    Path::new(DIR).join(name)
}

fn named(disk: &MemFs, ending: &str) -> Vec<String> {
    files(disk).into_keys().filter(|name| name.ends_with(ending)).collect()
}

fn flip(disk: &MemFs, name: &str, at: u64) {
    let file = disk.open_writable(&path(name)).expect("opened");
    let mut byte = [0];
    file.read_at(&mut byte, at).expect("read");
    file.write_at(&[byte[0] ^ 1], at).expect("written");
}

#[test]
fn a_whole_database_is_copied_whole() {
    let (disk, rows, lists) = database();
    let before = files(&disk);
    let salvaged = salvage(&disk).expect("salvaged");
    assert!(salvaged.losses.is_empty(), "{:?}", salvaged.losses);
    assert!(salvaged.tables >= 3 && salvaged.log_records > 50, "{salvaged:?}");
    assert_eq!(salvaged.rows["rows"], rows.len() as u64);
    assert!(!salvaged.rows.contains_key("gone"));
    assert!(contents(&disk, "rows") == rows && contents(&disk, "lists") == lists);
    assert!(files(&disk) == before, "the source was touched");
}

#[test]
fn a_damaged_block_costs_its_keys_and_nothing_else() {
    let (disk, rows, lists) = database();
    let table = named(&disk, ".sst").remove(0);
    flip(&disk, &table, 600);
    let before = files(&disk);
    let salvaged = salvage(&disk).expect("salvaged");
    let [loss] = &salvaged.losses[..] else { panic!("one block is bad: {:?}", salvaged.losses) };
    assert!(loss.file.ends_with(&table), "{loss:?}");
    let (first, last) = loss.keys.clone().expect("the index tells the keys");
    for (name, expected) in [("rows", rows), ("lists", lists)] {
        let hit = loss.keyspace.as_deref() == Some(name);
        let outside = |key: &Vec<u8>| !hit || *key < first || *key > last;
        let mut found = contents(&disk, name);
        let mut expected = expected;
        found.retain(|key, _| outside(key));
        let all = expected.len();
        expected.retain(|key, _| outside(key));
        assert!(found == expected, "{name}");
        assert!(!hit || (expected.len() < all && !expected.is_empty()), "{name}: {first:?} {last:?}");
    }
    assert!(files(&disk) == before, "the source was touched");
}

#[test]
fn the_manifest_and_current_are_not_needed() {
    let (whole, rows, _) = database();
    for missing in [vec!["CURRENT".to_owned()], named(&whole, ".manifest"), {
        let mut both = named(&whole, ".manifest");
        both.push("CURRENT".to_owned());
        both
    }] {
        let disk = whole.image_at(whole.trace_len(), Policy::Everything, 0);
        for name in &missing {
            disk.remove(&path(name)).expect("removed");
        }
        let salvaged = salvage(&disk).expect("salvaged");
        assert!(!salvaged.losses.is_empty(), "what is missing is told");
        let name =
            if missing.iter().any(|name| name.ends_with(".manifest")) { "keyspace-1" } else { "rows" };
        let found = contents(&disk, name);
        let wrong = rows.iter().find(|(key, value)| found.get(*key) != Some(value));
        assert!(wrong.is_none(), "{missing:?}: {wrong:?}");
    }
}

/// A header that was never written does not say whose the files are, and that it is not theirs neither.
#[test]
fn a_header_that_does_not_check_hides_nothing() {
    let (whole, rows, _) = database();
    let zero = |disk: &MemFs, name: &str| {
        let file = disk.open_writable(&path(name)).expect("opened");
        file.write_at(&[0; 64], 0).expect("written");
    };
    let manifest = named(&whole, ".manifest").remove(0);
    let first_log = named(&whole, ".log").remove(0);
    let without_current = || {
        let disk = whole.image_at(whole.trace_len(), Policy::Everything, 0);
        disk.remove(&path("CURRENT")).expect("removed");
        disk
    };
    let holds = |disk: &MemFs, name: &str, lost: &str, least: &Rows| {
        let salvaged = salvage(disk).expect("salvaged");
        assert!(salvaged.losses.iter().any(|loss| loss.file.ends_with(lost)), "{:?}", salvaged.losses);
        let found = contents(disk, name);
        let wrong = least.iter().find(|(key, value)| found.get(*key) != Some(value));
        assert!(wrong.is_none(), "{lost}: {wrong:?}, {:?}", salvaged.losses);
    };

    let disk = without_current();
    zero(&disk, &manifest);
    holds(&disk, "keyspace-1", &manifest, &rows);
    // Now no header is left, and what is in tables alone is to be had.
    let mut in_tables = rows.clone();
    in_tables.retain(|_, value| value[0] < 6);
    assert!(!in_tables.is_empty());
    let disk = without_current();
    zero(&disk, &manifest);
    for log in named(&disk, ".log") {
        zero(&disk, &log);
    }
    holds(&disk, "keyspace-1", &first_log, &in_tables);
    let disk = without_current();
    disk.remove(&path(&manifest)).expect("removed");
    zero(&disk, &first_log);
    holds(&disk, "keyspace-1", &first_log, &in_tables);
    // A crash in the middle of a new manifest's making leaves the older one.
    let disk = without_current();
    let newer = FileName::Manifest(FileNumber(1_000)).to_string();
    disk.create(&path(&newer)).expect("created").write_at(&[0; 4096], 0).expect("written");
    holds(&disk, "rows", &newer, &rows);
}

/// An invented name does not hide a keyspace that has it by right.
#[test]
fn a_keyspace_without_its_name_is_not_taken_for_another() {
    let disk = MemFs::simulated();
    let db = Database::builder(DIR).env(Simulation::on(disk.clone(), 1).env()).open().expect("created");
    for name in ["keyspace-2", "other"] {
        let map = db.keyspace(name, KeyspaceOptions::default()).expect("created");
        map.put(name, "value").expect("put");
    }
    db.flush().expect("flushed");
    let left = disk.image_at(disk.trace_len(), Policy::Everything, 0);
    let manifest = named(&left, ".manifest").remove(0);
    let bytes = files(&left).remove(&manifest).expect("it is there");
    let at = bytes.windows(5).position(|window| window == b"other").expect("its creation is in there");
    flip(&left, &manifest, at as u64);
    let salvaged = salvage(&left).expect("salvaged");
    assert_eq!(salvaged.rows.values().sum::<u64>(), 2, "{salvaged:?}");
    assert_eq!(salvaged.rows["keyspace-2"], 1);
    assert!(contents(&left, "keyspace-2").contains_key(&b"keyspace-2"[..]));
}

#[test]
fn a_damaged_manifest_is_read_as_far_as_it_goes() {
    let (disk, rows, lists) = database();
    flip(&disk, &named(&disk, ".manifest").remove(0), 900);
    let opened = Database::builder(DIR).env(Simulation::on(disk.clone(), 1).env()).open();
    assert!(matches!(opened, Err(Error::Corruption { .. })));
    let salvaged = salvage(&disk).expect("salvaged");
    assert!(salvaged.losses.iter().any(|loss| loss.file.to_string_lossy().ends_with(".manifest")));
    assert!(contents(&disk, "rows") == rows && contents(&disk, "lists") == lists);
}

#[test]
fn a_missing_table_and_a_damaged_log_are_reported() {
    let (disk, ..) = database();
    let table = named(&disk, ".sst").remove(0);
    disk.remove(&path(&table)).expect("removed");
    let log = named(&disk, ".log").remove(0);
    flip(&disk, &log, 200);
    let salvaged = salvage(&disk).expect("salvaged");
    for name in [table, log] {
        assert!(salvaged.losses.iter().any(|loss| loss.file.ends_with(&name)), "{:?}", salvaged.losses);
    }
}

#[test]
fn nothing_is_overwritten_and_nothing_half_made_is_left() {
    let (disk, ..) = database();
    disk.create_dir(Path::new(NEW)).expect("created");
    assert!(matches!(salvage(&disk), Err(Error::InvalidArgument { .. })));
    disk.remove_dir(Path::new(NEW)).expect("removed");
    let mut failed = 0;
    for nth in 0..40 {
        let world = Simulation::on(disk.clone(), 9);
        let faults = FaultFs::over(&disk, Arc::clone(&world.clock));
        let calls = AtomicUsize::new(0);
        let fault = Fault::when(move |call| {
            let hit = call.path.starts_with(NEW) && call.operation.changes();
            hit && calls.fetch_add(1, Ordering::Relaxed) == nth
        });
        faults.plan(fault);
        let env = world.env_over(Arc::new(faults.clone()));
        let outcome = Salvage::of(DIR).env(env).run(NEW);
        if outcome.is_ok() {
            for entry in disk.list(Path::new(NEW)).expect("listed") {
                disk.remove(&Path::new(NEW).join(entry.name)).expect("removed");
            }
            disk.remove_dir(Path::new(NEW)).expect("removed");
            continue;
        }
        failed += 1;
        assert!(disk.stat(Path::new(NEW)).expect("looked up").is_none(), "fault {nth} left something");
    }
    assert!(failed > 3, "{failed}");
}

#[test]
fn what_is_no_database_is_refused() {
    let disk = MemFs::new();
    assert!(matches!(salvage(&disk), Err(Error::NotADatabase { .. })));
    disk.create_dir(Path::new(DIR)).expect("created");
    assert!(matches!(salvage(&disk), Err(Error::NotADatabase { .. })));
}

/// Make a database with one row where the salvage goes.
fn other(disk: &MemFs) -> Database {
    let db = Database::builder(NEW).env(Simulation::on(disk.clone(), 5).env()).open().expect("created");
    let theirs = db.keyspace("theirs", KeyspaceOptions::default()).expect("created");
    theirs.put("a", "1").expect("put");
    db
}

/// A database that somebody makes at the target while the source is read, or in the instant after the directory
/// was made, is not touched, be it open or closed.
#[test]
fn a_database_that_appears_at_the_target_stays() {
    let (disk, ..) = database();
    let log = path(&named(&disk, ".log")[0]);
    let instants = [(Operation::Open, log.as_path()), (Operation::Lock, Path::new("/new/LOCK"))];
    for (operation, at) in instants {
        for stays_open in [true, false] {
            let disk = disk.image_at(disk.trace_len(), Policy::Everything, 0);
            let world = Simulation::on(disk.clone(), 9);
            let faults = FaultFs::over(&disk, Arc::clone(&world.clock));
            let theirs = Arc::new(Mutex::new(None));
            let (hook, at, place) = (Arc::clone(&theirs), at.to_path_buf(), disk.clone());
            let once = AtomicUsize::new(0);
            faults.plan(Fault::when(move |call| {
                let hit = call.operation == operation && call.path == at;
                if hit && once.fetch_add(1, Ordering::Relaxed) == 0 {
                    *hook.lock() = Some(other(&place));
                    if !stays_open {
                        hook.lock().take().expect("open").close().expect("closed");
                    }
                }
                false
            }));
            let told = Salvage::of(DIR).env(world.env_over(Arc::new(faults.clone()))).run(NEW);
            match told.expect_err("it is somebody else's") {
                Error::Locked { .. } if operation == Operation::Lock && stays_open => {}
                Error::InvalidArgument { .. } if operation == Operation::Open || !stays_open => {}
                told => panic!("{operation:?}, {stays_open}: {told}"),
            }
            drop(theirs.lock().take());
            assert_eq!(contents(&disk, "theirs"), [(b"a".to_vec(), b"1".to_vec())].into());
        }
    }
}
