//! What is around a database: other files, other handles, another directory in its place, a disk that stalls
//! or lies. Each test is a row of the fault model.
#![expect(clippy::disallowed_methods, reason = "real files and processes around a database")]

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use esker::salvage::Salvage;
use esker::{Database, DatabaseOptions, Durability, Error, KeyspaceOptions, MergeOperator};
use esker_tests::crash::record;
use esker_tests::kill;
use esker_tests::setup::{Mode, Setup};
use esker_tests::survivor::reading::everything;
use esker_vfs::Env;
use esker_vfs::fault::{Fault, FaultFs, Operation};
use esker_vfs::fs::{Fs, read_all};
use esker_vfs::mem::{MemFs, Policy};
use esker_vfs::os::OsFs;
use esker_vfs::sim::Simulation;
use parking_lot::Mutex;

const DIR: &str = "/db";

fn options() -> DatabaseOptions {
    DatabaseOptions { memtable_bytes_max: 12 << 10, table_bytes: 4 << 10, ..DatabaseOptions::default() }
}

fn fill(db: &Database) {
    let map = db.keyspace("map", KeyspaceOptions::default()).expect("created");
    for n in 0..300u32 {
        map.put(n.to_be_bytes(), vec![7; 200]).expect("put");
    }
}

fn names(dir: &Path) -> BTreeSet<OsString> {
    std::fs::read_dir(dir).expect("there").map(|entry| entry.expect("read").file_name()).collect()
}

/// Row 14: files that are not the database's are left alone.
#[test]
fn a_thousand_unknown_files_are_left_alone() {
    let world = Simulation::new(1);
    let disk = &world.disk;
    disk.create_dir(Path::new(DIR)).expect("made");
    let name = |n: u32| match n % 4 {
        0 => format!("{DIR}/junk-{n}"),
        1 => format!("{DIR}/{n:06}.sst.bak"),
        2 => format!("{DIR}/CURRENT.{n}"),
        _ => format!("{DIR}/.{n:06}.log"),
    };
    for n in 0..1000 {
        let file = disk.create(Path::new(&name(n))).expect("created");
        file.write_at(name(n).as_bytes(), 0).expect("written");
    }
    for seed in 0..2 {
        let world = Simulation::on(disk.clone(), seed);
        let db = Database::builder(DIR).options(options()).env(world.env()).open().expect("opened");
        fill(&db);
        db.existing_keyspace("map").expect("there").compact_range::<&[u8]>(..).expect("compacted");
        db.close().expect("closed");
    }
    for n in 0..1000 {
        let bytes = read_all(disk, Path::new(&name(n)), 100).expect("still there");
        assert_eq!(bytes, name(n).as_bytes());
    }
}

/// Row 18: only the directory itself may not be a link. What stands above it is the user's, and is followed.
#[cfg(unix)]
#[test]
fn a_directory_above_may_be_a_link() {
    let dir = tempfile::tempdir().expect("a directory");
    let (real, link) = (dir.path().join("real"), dir.path().join("link"));
    std::fs::create_dir(&real).expect("made");
    std::os::unix::fs::symlink(&real, &link).expect("linked");
    let db = Database::open(link.join("db")).expect("opened");
    fill(&db);
    db.checkpoint(link.join("copy")).expect("made");
    db.close().expect("closed");
    let salvaged = Salvage::of(link.join("copy")).run(link.join("salvaged")).expect("salvaged");
    assert!(salvaged.losses.is_empty(), "{salvaged:?}");
    for name in ["db", "copy", "salvaged"] {
        let db = Database::open(real.join(name)).expect("opened where it is");
        assert_eq!(db.existing_keyspace("map").expect("there").iter().count(), 300);
    }
}

/// Row 15: a second handle is refused at once, in this process and in another.
#[test]
fn a_second_handle_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let held = Database::open(dir.path().join("db")).expect("opened");
    assert!(matches!(Database::open(dir.path().join("db")), Err(Error::Locked { .. })));
    held.close().expect("closed");
    let exe = Path::new(env!("CARGO_BIN_EXE_soak"));
    let other = dir.path().join("other");
    assert!(kill::held_by_another(exe, &other).expect("the other process runs"));
    Database::open(&other).expect("free again").close().expect("closed");
}

/// Row 16: once the directory is another one, nothing is changed in it, and writes stop.
#[test]
fn a_directory_that_was_replaced_is_left_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let (place, moved) = (dir.path().join("db"), dir.path().join("moved"));
    let db = Database::builder(&place).options(options()).open().expect("opened");
    let map = db.keyspace("map", KeyspaceOptions::default()).expect("created");
    map.put("a", "1").expect("put");
    std::fs::rename(&place, &moved).expect("moved");
    std::fs::create_dir(&place).expect("made");
    let refused = db.keyspace("more", KeyspaceOptions::default());
    assert!(matches!(refused, Err(Error::Poisoned { .. })), "{refused:?}");
    assert!(matches!(map.put("b", "2"), Err(Error::Poisoned { .. })));
    assert_eq!(map.get("a").expect("reads go on").as_deref(), Some(&b"1"[..]));
    assert!(db.close().is_err());
    assert_eq!(std::fs::read_dir(&place).expect("there").count(), 0, "the new directory is empty still");
    let db = Database::open(&moved).expect("opened where it is");
    let map = db.existing_keyspace("map").expect("there");
    assert_eq!(map.get("a").expect("read").as_deref(), Some(&b"1"[..]));
}

/// Row 16: what was acknowledged before writes stopped is where the database is, and nothing of it in the new directory.
#[test]
fn a_directory_that_was_replaced_gets_no_logs_and_no_tables() {
    let dir = tempfile::tempdir().expect("a directory");
    let (place, moved) = (dir.path().join("db"), dir.path().join("moved"));
    let db = Database::builder(&place).options(options()).open().expect("opened");
    let map = db.keyspace("map", KeyspaceOptions::default()).expect("created");
    map.put("first", "1").expect("put");
    std::fs::rename(&place, &moved).expect("moved");
    std::fs::create_dir(&place).expect("made");
    let put = |n: u32| map.put(n.to_be_bytes(), vec![7; 200]);
    let acknowledged = (0..10_000u32).take_while(|n| put(*n).is_ok()).count();
    assert!(acknowledged < 10_000 && matches!(put(0), Err(Error::Poisoned { .. })));
    assert!(db.close().is_err());
    drop(map);
    assert_eq!(std::fs::read_dir(&place).expect("there").count(), 0, "the new directory is empty still");
    let db = Database::open(&moved).expect("opened where it is");
    let map = db.existing_keyspace("map").expect("there");
    assert_eq!(map.iter().count(), acknowledged + 1, "a kill would have lost nothing");
}

/// Row 16: a checkpoint that takes the directory's place has files of the same names, which others need.
#[test]
fn a_checkpoint_in_the_place_of_its_database_loses_no_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let (place, moved, copy) = (dir.path().join("db"), dir.path().join("moved"), dir.path().join("copy"));
    let db = Database::builder(&place).options(options()).open().expect("opened");
    fill(&db);
    let map = db.existing_keyspace("map").expect("there");
    db.flush().expect("flushed");
    db.wait_for_compactions().expect("settled");
    db.checkpoint(&copy).expect("made");
    let copied = names(&copy);
    // A cursor holds on to tables that are compacted away.
    let mut cursor = map.cursor().expect("made");
    assert!(cursor.seek_first().expect("sought"));
    fill(&db);
    map.compact_range::<&[u8]>(..).expect("compacted");
    std::fs::rename(&place, &moved).expect("moved");
    std::fs::rename(&copy, &place).expect("put in its place");
    drop(cursor);
    assert!(db.close().is_err());
    drop(map);
    assert_eq!(names(&place), copied);
    let db = Database::open(&place).expect("opened");
    assert_eq!(db.existing_keyspace("map").expect("there").iter().count(), 300);
}

/// A compaction by hand that finds nothing to do takes numbers of files, and so now and then changes the manifest: not once the
/// directory is another's.
#[test]
fn compactions_by_hand_notice_that_the_directory_was_moved() {
    for durability in [Durability::Os, Durability::NoLog] {
        let dir = tempfile::tempdir().expect("a directory");
        let (place, moved) = (dir.path().join("db"), dir.path().join("moved"));
        let db = Database::builder(&place).durability(durability).open().expect("opened");
        fill(&db);
        let map = db.existing_keyspace("map").expect("there");
        map.compact_range::<&[u8]>(..).expect("compacted");
        std::fs::rename(&place, &moved).expect("moved");
        std::fs::create_dir(&place).expect("made");
        let refused = map.compact_range::<&[u8]>(..).expect_err("it is not there any more");
        assert!(matches!(refused, Error::Poisoned { .. }), "{refused}");
        assert!(names(&place).is_empty());
    }
}

/// Puts another directory in the database's place in the middle of a compaction, with a file of each name there, and panics.
struct Mover {
    place: PathBuf,
    moved: PathBuf,
    armed: AtomicBool,
}

impl MergeOperator for Mover {
    fn name(&self) -> &'static str {
        "mover"
    }

    fn fold(&self, _key: &[u8], _base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>, String> {
        if self.armed.swap(false, Ordering::SeqCst) {
            std::fs::rename(&self.place, &self.moved).expect("moved");
            std::fs::create_dir(&self.place).expect("made");
            for name in names(&self.moved) {
                std::fs::write(self.place.join(name), "another's").expect("written");
            }
            panic!("the run is to be given up");
        }
        Ok(operands.concat())
    }
}

/// Row 16: a compaction that is given up removes what it has written, and no files of these names in the new directory.
/// One thread does all of it: another that has just found the directory in place may make its file in the new one.
#[test]
fn a_compaction_that_is_given_up_removes_nothing_in_a_new_directory() {
    let dir = tempfile::tempdir().expect("a directory");
    let (place, moved) = (dir.path().join("db"), dir.path().join("moved"));
    let mover = Mover { place: place.clone(), moved: moved.clone(), armed: AtomicBool::new(false) };
    let mover = Arc::new(mover);
    let env = Simulation::new(7).env_over(Arc::new(OsFs::new()));
    let builder = Database::builder(&place).options(options()).env(env);
    let db = builder.merge_operator(Arc::<Mover>::clone(&mover)).open().expect("opened");
    let merging = KeyspaceOptions::default().with_merge_operator("mover");
    let map = db.keyspace("map", merging).expect("created");
    for operand in ["a", "b"] {
        for n in 0..100u32 {
            map.put(n.to_be_bytes(), vec![7; 200]).expect("put");
        }
        // Behind the others, so that tables are finished and one is begun by then.
        map.merge([0xFF; 4], operand).expect("merged");
        db.flush().expect("flushed");
    }
    db.wait_for_compactions().expect("settled");
    map.merge([0xFF; 4], "c").expect("merged");
    map.put(7u32.to_be_bytes(), "anew").expect("put");
    db.flush().expect("flushed");
    let before = names(&place);
    mover.armed.store(true, Ordering::SeqCst);
    let refused = map.compact_range::<&[u8]>(..);
    assert!(refused.is_err() && !mover.armed.load(Ordering::SeqCst), "{refused:?}");
    let there = names(&moved);
    assert!(there.len() > before.len(), "the run had begun some files: {before:?}, {there:?}");
    assert!(db.close().is_err());
    drop(map);
    assert_eq!(names(&place), there, "of another database by now");
}

/// Row 17: an open for reading makes no call that changes anything (it takes the lock that is there).
#[test]
fn an_open_for_reading_changes_nothing() {
    let world = Simulation::new(3);
    let db = Database::builder(DIR).options(options()).env(world.env()).open().expect("opened");
    fill(&db);
    let killed = world.disk.image_at(world.disk.trace_len(), Policy::Everything, 0);
    let world = Simulation::on(killed.clone(), 4);
    let fs = FaultFs::over(&killed, Arc::clone(&world.clock));
    let env = world.env_over(Arc::new(fs.clone()));
    let reading = DatabaseOptions { read_only: true, ..options() };
    let db = Database::builder(DIR).options(reading).env(env).open().expect("opened");
    assert_eq!(db.existing_keyspace("map").expect("there").iter().count(), 300);
    db.verify().expect("verified");
    db.close().expect("closed");
    assert_eq!((fs.changing_calls() - fs.count(Operation::Lock), killed.trace_len()), (0, 0));
    assert!(fs.calls() > 10);
}

/// Row 24: while a sync stalls, the writers wait for it, and no read of what is in memory does; once it is over, nobody waits.
#[test]
fn a_disk_that_stalls_is_waited_for() {
    // Whoever waits so long waits for ever.
    const LONG: Duration = Duration::from_mins(1);
    let fs = FaultFs::new(Arc::new(MemFs::new()));
    let env = Env { fs: Arc::new(fs.clone()), ..Env::memory().expect("threads") };
    let db = Database::builder(DIR).durability(Durability::Sync).env(env).open().expect("opened");
    fill(&db);
    let map = db.existing_keyspace("map").expect("there");
    let (stalls, stalled) = mpsc::channel();
    let (over, wait_for_end) = mpsc::channel::<()>();
    let wait_for_end = Mutex::new(wait_for_end);
    // Whatever else is asked of the disk meanwhile waits behind that sync.
    fs.plan(Fault::when(move |call| {
        if call.operation == Operation::SyncData {
            let _ = stalls.send(());
            // It is over for this sync and all others once nobody can send any more.
            let _ = wait_for_end.lock().recv();
        }
        false
    }));
    let (tell, puts) = mpsc::channel();
    for key in ["cold", "colder"] {
        let (map, tell) = (map.clone(), tell.clone());
        std::thread::spawn(move || tell.send(map.put(key, "x")));
    }
    stalled.recv_timeout(LONG).expect("somebody syncs");
    let (tell, reads) = mpsc::channel();
    std::thread::spawn(move || tell.send((map.get(7u32.to_be_bytes()), map.iter().count())));
    let (value, rows) = reads.recv_timeout(LONG).expect("a read of what is in memory waits for nobody");
    assert_eq!(value.expect("read").as_deref(), Some(&[7; 200][..]));
    assert!(rows >= 300, "{rows} rows");
    assert!(puts.try_recv().is_err(), "acknowledged before the sync is over");
    drop(over);
    for _ in 0..2 {
        puts.recv_timeout(LONG).expect("nobody waits for ever").expect("put");
    }
    db.close().expect("closed");
}

/// Row 24: a disk that takes seconds for each call stops nobody for good.
#[test]
fn a_disk_that_takes_seconds_for_each_call_is_waited_for() {
    let world = Simulation::new(5);
    let fs = FaultFs::over(&world.disk, Arc::clone(&world.clock));
    for operation in [Operation::Sync, Operation::SyncData, Operation::SyncDir, Operation::Write] {
        fs.set_latency(operation, Duration::from_secs(4));
    }
    let env = world.env_over(Arc::new(fs.clone()));
    let options = DatabaseOptions { durability: Durability::Sync, ..options() };
    let db = Database::builder(DIR).options(options).env(env).open().expect("opened");
    fill(&db);
    let map = db.existing_keyspace("map").expect("there");
    map.put("hot", "x").expect("put");
    let reads = fs.count(Operation::Read);
    assert_eq!(map.get("hot").expect("read").as_deref(), Some(&b"x"[..]));
    assert_eq!(fs.count(Operation::Read), reads, "what is in memory needs no disk");
    assert_eq!(map.iter().count(), 301);
    db.close().expect("closed");
}

/// Row 25: after a power loss, a disk that has lied about every sync may have lost anything; what is shown is
/// a state that was there once, or an error that says what is damaged.
#[test]
fn a_disk_that_lies_about_syncs_is_found_out_or_shows_a_prefix() {
    let (mut refused, mut shown) = (0, 0);
    for seed in 0..10 {
        let mode = Mode::ALL[usize::try_from(seed % 5).expect("an index")];
        let setup = Setup::new(seed, mode);
        let recording = record(&setup).expect("nothing is wrong yet");
        let disk = MemFs::simulated();
        disk.set_sync_lies(true);
        let ops = esker_tests::fault::operations(&setup);
        let mut survivor = esker_tests::survivor::Survivor::new(&setup, &disk, Arc::new(disk.clone()));
        survivor.open().expect("holds").expect("opened");
        for op in &ops {
            survivor.op(op).expect("holds while there is power");
        }
        for nth in 0..30u64 {
            let calls = disk.trace_len() * usize::try_from(nth + 1).expect("small") / 30;
            let policy = Policy::ALL[usize::try_from(nth).expect("small") % Policy::ALL.len()];
            let image = disk.crash_point(calls).image(policy, nth);
            match setup.open(&Simulation::on(image, nth), nth, None) {
                Err(_) => refused += 1,
                Ok(db) => match everything(&db).expect("no lies of ours") {
                    Err(_) => refused += 1,
                    Ok(found) => {
                        let hash = esker_tests::oracle::contents_hash(&found);
                        let known = recording.oracle.find_anywhere(hash);
                        assert!(!known.is_empty(), "seed {seed}, {policy:?}:{nth} after {calls} calls");
                        shown += 1;
                    }
                },
            }
        }
    }
    assert!(refused > 0 && shown > 0, "{refused} refused, {shown} shown");
}
