//! Faults that were found and mended: each test failed before its mend.
#![expect(clippy::disallowed_methods, reason = "tests bring their own threads")]

use std::path::Path;
use std::sync::{Arc, Mutex};

use esker::event::Event;
use esker::vfs::fault::{Cause, Effect, Fault, FaultFs, Operation};
use esker::vfs::fs::Fs;
use esker::vfs::mem::{MemFs, Policy};
use esker::vfs::sim::Simulation;
use esker::{Database, DatabaseOptions, Durability, Error, KeyspaceOptions};
use esker_base::filename::FileName;

const DIR: &str = "/db";

fn open(disk: &MemFs, options: DatabaseOptions) -> Database {
    let env = Simulation::on(disk.clone(), 1).env();
    Database::builder(DIR).options(options).env(env).open().expect("opened")
}

/// A database whose disk fails as planned.
fn open_failing(disk: &MemFs, options: DatabaseOptions) -> (Database, FaultFs) {
    let world = Simulation::on(disk.clone(), 1);
    let faults = FaultFs::over(disk, Arc::clone(&world.clock));
    let env = world.env_over(Arc::new(faults.clone()));
    (Database::builder(DIR).options(options).env(env).open().expect("opened"), faults)
}

/// What a process kill leaves.
fn killed(disk: &MemFs) -> MemFs {
    disk.image_at(disk.trace_len(), Policy::Everything, 0)
}

fn is_manifest(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "manifest")
}

/// A manifest edit whose fate is open may be in force at the next open: the tables it names stay.
#[test]
fn a_flush_in_doubt_keeps_its_tables() {
    let disk = MemFs::simulated();
    let (db, faults) = open_failing(&disk, DatabaseOptions::default());
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    map.put("key", "value").unwrap();
    db.persist().unwrap();
    // The record is appended whole, and neither that nor a new manifest can be synced.
    let manifest = |call: &esker::vfs::fault::Call<'_>| call.operation.syncs() && is_manifest(call.path);
    faults.plan(Fault::when(manifest).effect(Effect::After).sticky());
    db.flush().unwrap_err();
    assert!(!faults.fired().is_empty());
    let left = killed(&disk);
    drop((map, db));
    let db = open(&left, DatabaseOptions::default());
    let map = db.existing_keyspace("map").unwrap();
    assert_eq!(map.get("key").unwrap().as_deref(), Some(&b"value"[..]));
}

/// The same for a compaction's outputs.
#[test]
fn a_compaction_in_doubt_keeps_its_tables() {
    let disk = MemFs::simulated();
    let (db, faults) = open_failing(&disk, DatabaseOptions::default());
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    for round in 0..2u8 {
        map.put("key", [round]).unwrap();
        db.flush().unwrap();
    }
    let manifest = |call: &esker::vfs::fault::Call<'_>| call.operation.syncs() && is_manifest(call.path);
    faults.plan(Fault::when(manifest).effect(Effect::After).sticky());
    map.compact_range::<&[u8]>(..).unwrap_err();
    assert!(!faults.fired().is_empty());
    let left = killed(&disk);
    drop((map, db));
    let db = open(&left, DatabaseOptions::default());
    let map = db.existing_keyspace("map").unwrap();
    assert_eq!(map.get("key").unwrap().as_deref(), Some(&[1][..]));
}

/// A write that was acknowledged while the database was being closed is there afterwards.
#[test]
fn writes_during_a_close_are_refused_or_kept() {
    for durability in [Durability::Sync, Durability::Os, Durability::NoLog] {
        for round in 0..5u64 {
            let dir = tempfile::tempdir().unwrap();
            let db = Database::builder(dir.path()).durability(durability).open().unwrap();
            let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
            let writer = std::thread::spawn(move || {
                let mut acknowledged = 0u64;
                while map.put(acknowledged.to_be_bytes(), "value").is_ok() {
                    acknowledged += 1;
                }
                acknowledged
            });
            std::thread::sleep(std::time::Duration::from_micros(500 + round * 97));
            db.close().unwrap();
            let acknowledged = writer.join().unwrap();
            let db = Database::builder(dir.path()).read_only(true).open().unwrap();
            let map = db.existing_keyspace("map").unwrap();
            let lost = (0..acknowledged).filter(|key| !map.contains(key.to_be_bytes()).unwrap()).count();
            assert_eq!(lost, 0, "{durability:?}, round {round}, of {acknowledged}");
        }
    }
}

/// Of two that close at the same time, the one that is overtaken has nothing to complain of: everything is in
/// tables. Here the other runs in a listener, while the first waits for its flush.
#[test]
fn a_close_beside_another_is_no_failure() {
    let disk = MemFs::simulated();
    let other: Arc<Mutex<Option<Database>>> = Arc::default();
    let listener = {
        let other = Arc::clone(&other);
        move |event: &Event| {
            if matches!(event, Event::Flushed { .. })
                && let Some(db) = other.lock().expect("no panic").take()
            {
                db.close().expect("nothing failed");
            }
        }
    };
    let env = Simulation::on(disk.clone(), 1).env();
    let db = Database::builder(DIR).env(env).listener(Arc::new(listener)).open().unwrap();
    db.keyspace("map", KeyspaceOptions::default()).unwrap().put("key", "value").unwrap();
    *other.lock().unwrap() = Some(db.clone());
    db.close().expect("nothing failed");
    assert!(other.lock().unwrap().is_none(), "the other has closed it");
    let db = open(&disk, DatabaseOptions::default());
    let map = db.existing_keyspace("map").unwrap();
    assert_eq!(map.get("key").unwrap().as_deref(), Some(&b"value"[..]));
}

/// Once `close` has returned, the directory may be another handle's: nothing is written to it any more.
#[test]
fn keyspaces_created_during_a_close_do_not_outlast_it() {
    for round in 0..10u64 {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(dir.path()).unwrap();
        let creators: Vec<_> = (0..4)
            .map(|creator| {
                let db = db.clone();
                std::thread::spawn(move || {
                    let mut n = 0u32;
                    while db.keyspace(&format!("{creator}-{n}"), KeyspaceOptions::default()).is_ok() {
                        n += 1;
                    }
                })
            })
            .collect();
        std::thread::sleep(std::time::Duration::from_micros(500 + round * 97));
        db.close().unwrap();
        let files = || -> Vec<_> {
            let entries = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap());
            entries.map(|entry| (entry.file_name(), std::fs::read(entry.path()).unwrap())).collect()
        };
        let left = files();
        for creator in creators {
            creator.join().unwrap();
        }
        assert!(files() == left, "round {round}");
    }
}

/// Waiting for background work in a database that has none returns, and starts none.
#[test]
fn a_read_only_database_has_nothing_to_wait_for() {
    let disk = MemFs::simulated();
    let options = DatabaseOptions {
        l0_tables_trigger: 64,
        l0_tables_slowdown: 100,
        l0_tables_stop: 200,
        ..Default::default()
    };
    let db = open(&disk, options);
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    for round in 0..8u8 {
        map.put("key", [round]).unwrap();
        db.flush().unwrap();
    }
    map.put("key", "not flushed").unwrap();
    let left = killed(&disk);
    drop((map, db));
    let (db, calls) = open_failing(&left, DatabaseOptions { read_only: true, ..Default::default() });
    let before = calls.count(Operation::Create);
    db.wait_for_compactions().unwrap();
    assert_eq!(calls.count(Operation::Create), before);
}

/// A log that could not be begun, and not be removed either, does not stand between the logs around it.
#[test]
fn a_log_left_over_by_a_failed_rotation_is_passed_over() {
    for header_there in [false, true] {
        for again in [false, true] {
            let disk = MemFs::simulated();
            let (db, faults) = open_failing(&disk, DatabaseOptions::default());
            let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
            map.put("before", "value").unwrap();
            let is_log = |path: &Path| path.extension().is_some_and(|extension| extension == "log");
            let effect = if header_there { Effect::After } else { Effect::Before };
            faults.plan(
                Fault::when(move |c| c.operation == Operation::Write && is_log(c.path)).effect(effect),
            );
            faults.plan(Fault::when(move |c| c.operation == Operation::Remove && is_log(c.path)));
            db.flush().unwrap_err();
            assert_eq!(faults.fired().len(), 2, "{:?}", faults.fired());
            map.put("after", "value").unwrap();
            let mut last = false;
            if again {
                // No step of the flush runs: the memtable stays, its log too.
                faults.plan(
                    Fault::when(|c| {
                        c.operation == Operation::Create && c.path.extension().is_none_or(|e| e != "log")
                    })
                    .sticky(),
                );
                db.flush().unwrap_err();
                assert!(!map.contains("last").unwrap());
                last = map.put("last", "value").is_ok();
            }
            let _ = db.persist();
            let left = killed(&disk);
            drop((map, db));
            let db = open(&left, DatabaseOptions::default());
            let map = db.existing_keyspace("map").unwrap();
            assert!(map.contains("before").unwrap());
            assert_eq!(map.contains("last").unwrap(), last);
            assert!(map.contains("after").unwrap(), "header {header_there}, again {again}");
        }
    }
}

/// Range deletions whose bounds are the longest keys there are: a keyspace's, a batch's and a transaction's.
#[test]
fn range_deletions_reach_the_longest_keys() {
    use std::ops::Bound::{Excluded, Included, Unbounded};
    let db = Database::in_memory().unwrap();
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    let longest = |byte: u8| vec![byte; esker::limits::KEY_BYTES_MAX];
    let longer = |byte: u8| vec![byte; esker::limits::KEY_BYTES_MAX + 1];
    let left_by = |delete: &dyn Fn() -> esker::Result<()>| -> Vec<u8> {
        for key in [Vec::new(), longest(7), longest(8), longest(0xFF)] {
            map.put(key, "value").unwrap();
        }
        delete().unwrap();
        map.iter().map(|row| row.unwrap().0.first().copied().unwrap_or_default()).collect()
    };
    let in_batch = |add: &dyn Fn(&mut esker::Batch) -> esker::Result<()>| {
        let mut batch = db.batch();
        add(&mut batch)?;
        batch.commit()
    };
    for (range, left) in [
        ((Included(longest(7)), Included(longest(7))), &[0, 8, 0xFF][..]),
        ((Excluded(longest(7)), Unbounded), &[0, 7]),
        ((Excluded(longest(7)), Excluded(longest(8))), &[0, 7, 8, 0xFF]),
        ((Included(longest(8)), Unbounded), &[0, 7]),
        ((Excluded(longest(0xFF)), Unbounded), &[0, 7, 8, 0xFF]),
        ((Included(longest(0xFF)), Unbounded), &[0, 7, 8]),
        ((Included(longest(9)), Included(longest(8))), &[0, 7, 8, 0xFF]),
        ((Unbounded, Included(longest(0xFF))), &[]),
        // Longer than any key: between those that there can be.
        ((Included(longer(7)), Excluded(longer(8))), &[0, 7, 0xFF]),
        ((Excluded(longer(7)), Included(longer(8))), &[0, 7, 0xFF]),
        ((Included(longest(7)), Excluded(longer(7))), &[0, 8, 0xFF]),
        ((Included(longer(8)), Excluded(longer(0xFF))), &[0, 7, 8]),
        ((Included(longer(0xFF)), Unbounded), &[0, 7, 8, 0xFF]),
        ((Unbounded, Unbounded), &[]),
    ] {
        assert_eq!(left_by(&|| map.delete_range(range.clone())), left, "of a keyspace");
        let by_batch = || in_batch(&|batch| batch.delete_range(&map, range.clone()));
        assert_eq!(left_by(&by_batch), left, "of a batch");
        let by_transaction = || db.transact(|tx| tx.delete_range(&map, range.clone()));
        assert_eq!(left_by(&by_transaction), left, "of a transaction");
    }
    for (prefix, left) in [(vec![7], &[0, 8, 0xFF][..]), (vec![0xFF], &[0, 7, 8]), (Vec::new(), &[])] {
        assert_eq!(left_by(&|| map.delete_prefix(&prefix)), left, "of a keyspace");
        assert_eq!(left_by(&|| in_batch(&|batch| batch.delete_prefix(&map, &prefix))), left, "of a batch");
        let by_transaction = || db.transact(|tx| tx.delete_prefix(&map, &prefix));
        assert_eq!(left_by(&by_transaction), left, "of a transaction");
    }
}

/// A batch that asks for an interval in a database without one gets a sync: nobody else would make it.
#[test]
fn a_batch_may_ask_for_an_interval() {
    let disk = MemFs::simulated();
    let db = open(&disk, DatabaseOptions::default());
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    let mut batch = db.batch();
    batch.durability(Durability::Interval(std::time::Duration::from_millis(10)));
    batch.put(&map, "key", "value").unwrap();
    batch.commit().unwrap();
    let left = disk.image_at(disk.trace_len(), Policy::Strict, 0);
    drop((map, db));
    let map = open(&left, DatabaseOptions::default()).existing_keyspace("map").unwrap();
    assert!(map.contains("key").unwrap());
}

/// Back-pressure lets writers go on however flushes and rotations fall together.
#[test]
fn writers_are_let_go_when_the_flush_is_done() {
    let options = DatabaseOptions {
        sealed_memtables_max: 1,
        memtable_bytes_max: 1 << 10,
        durability: Durability::NoLog,
        ..DatabaseOptions::default()
    };
    let env = esker::vfs::Env::memory().unwrap();
    let db = Database::builder(DIR).env(env).options(options).open().unwrap();
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    let value = vec![7; 70 << 10];
    for n in 0..3_000u32 {
        map.put((n % 10).to_be_bytes(), &value).unwrap();
    }
}

/// Panics with something that panics again when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "dropped");
    }
}

struct Bombs;

impl esker::MergeOperator for Bombs {
    fn name(&self) -> &'static str {
        "bombs"
    }
    fn fold(&self, _key: &[u8], _base: Option<&[u8]>, _operands: &[&[u8]]) -> Result<Vec<u8>, String> {
        std::panic::panic_any(Bomb)
    }
}

impl esker::event::Listener for Bombs {
    fn on_event(&self, _event: &esker::event::Event) {
        std::panic::panic_any(Bomb)
    }
}

/// A callback's panic is contained even if its payload panics on being dropped.
#[test]
fn a_panic_within_a_panic_of_a_callback_is_contained() {
    let env = esker::vfs::Env::memory().unwrap();
    let builder = Database::builder(DIR).env(env).merge_operator(Arc::new(Bombs));
    let db = builder.listener(Arc::new(Bombs)).open().unwrap();
    let map = db.keyspace("map", KeyspaceOptions::default().with_merge_operator("bombs")).unwrap();
    let plain = db.keyspace("plain", KeyspaceOptions::default()).unwrap();
    map.put("key", "base").unwrap();
    map.merge("key", "operand").unwrap();
    plain.put("key", "value").unwrap();
    assert!(matches!(map.get("key"), Err(Error::CallbackPanicked { .. })));
    drop(map);
    db.drop_keyspace("map").unwrap();
    db.flush().unwrap();
    assert_eq!(plain.get("key").unwrap().as_deref(), Some(&b"value"[..]));
}

/// Write `bytes` as the file `name` of a disk that is otherwise `disk` as a kill leaves it.
fn with_file(disk: &MemFs, name: &str, change: impl FnOnce(&mut Vec<u8>)) -> MemFs {
    let left = killed(disk);
    let path = Path::new(DIR).join(name);
    let mut bytes = esker::vfs::fs::read_all(&left, &path, u64::MAX).expect("the simulated disk works");
    change(&mut bytes);
    let file = left.open_writable(&path).expect("the simulated disk works");
    file.set_len(bytes.len() as u64).expect("the simulated disk works");
    file.write_at(&bytes, 0).expect("the simulated disk works");
    left
}

fn names(disk: &MemFs, ending: &str) -> Vec<String> {
    let names =
        disk.list(Path::new(DIR)).expect("the simulated disk works").into_iter().map(|entry| entry.name);
    names.filter(|name| name.ends_with(ending)).collect()
}

/// A walk backwards begins in the last table that begins at or before its key: the one behind was opened, read and
/// believed to be needed, and its damage was the walk's.
#[test]
fn a_walk_backwards_reads_no_table_behind_where_it_begins() {
    let disk = MemFs::simulated();
    let db = open(&disk, DatabaseOptions::default());
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    for keys in [["a", "b"], ["x", "y"]] {
        for key in keys {
            map.put(key, "value").unwrap();
        }
        db.flush().unwrap();
    }
    let tables = names(&disk, ".sst");
    let [_, behind] = &tables[..] else { panic!("{tables:?}") };
    let damaged = with_file(&disk, behind, |bytes| bytes.fill(0xA5));
    for disk in [killed(&disk), damaged] {
        let db = open(&disk, DatabaseOptions { read_only: true, ..DatabaseOptions::default() });
        let mut cursor = db.existing_keyspace("map").unwrap().cursor().unwrap();
        assert!(cursor.seek_for_prev("m").unwrap());
        assert_eq!(cursor.key(), b"b");
        assert_eq!(cursor.cost().blocks_from_disk, 1);
        assert!(cursor.prev().unwrap());
        assert_eq!(cursor.key(), b"a");
        assert!(!cursor.seek_for_prev("A").unwrap());
    }
}

/// How much room keys take is asked of the tables that hold some of them. Of those before the range index and filter
/// were counted, and all were opened.
#[test]
fn tables_beside_a_range_have_no_part_in_its_size() {
    let disk = MemFs::simulated();
    let db = open(&disk, DatabaseOptions::default());
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    for keys in [["a", "c"], ["k", "m"]] {
        for key in keys {
            map.put(key, "value").unwrap();
        }
        db.flush().unwrap();
    }
    drop((map, db));
    let options = DatabaseOptions { read_only: true, ..DatabaseOptions::default() };
    let (db, calls) = open_failing(&disk, options);
    let map = db.existing_keyspace("map").unwrap();
    let opened = calls.count(Operation::Open);
    let all = map.approximate_size::<&[u8]>(..).unwrap();
    let first = map.approximate_size(.."d").unwrap();
    let last = map.approximate_size("k"..).unwrap();
    assert_eq!((first + last, all), (all, db.metrics().table_bytes));
    assert!(first > 0 && last > 0);
    for (size, range) in [
        (map.approximate_size("z"..), "behind all"),
        (map.approximate_size(.."a"), "before all"),
        (map.approximate_size("d".."k"), "between two"),
        (map.approximate_size("m".."c"), "which ends before it begins"),
    ] {
        assert_eq!(size.unwrap(), 0, "{range}");
    }
    assert_eq!(calls.count(Operation::Open), opened, "what lies within or outside is known of old");
    let some = map.approximate_size("l"..).unwrap();
    assert!(some < last, "{some} of {last}");
    assert_eq!(calls.count(Operation::Open), opened + 1);
}

/// A manifest that has lost its end at a record's border does not know a keyspace that the log writes to:
/// its rows were taken for those of a keyspace that had been dropped.
#[test]
fn rows_of_a_keyspace_that_the_manifest_has_forgotten_are_not_passed_over() {
    let disk = MemFs::simulated();
    let db = open(&disk, DatabaseOptions { durability: Durability::Sync, ..DatabaseOptions::default() });
    let manifest = names(&disk, ".manifest").remove(0);
    let bytes =
        |disk: &MemFs| esker::vfs::fs::read_all(disk, &Path::new(DIR).join(&manifest), u64::MAX).unwrap();
    let used = bytes(&disk).iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    map.put("key", "value").unwrap();
    let cut = with_file(&disk, &manifest, |bytes| bytes.truncate(used));
    let opened = Database::builder(DIR).env(Simulation::on(cut, 1).env()).open();
    let error = opened.unwrap_err();
    assert!(error.is_corruption() && error.to_string().contains("never created"), "{error}");
}

/// `verify` looked at the log in use and at no other, and in a database opened for reading at none.
#[test]
fn verify_reads_every_log_that_is_needed_and_the_manifest() {
    let small = DatabaseOptions {
        durability: Durability::Sync,
        memtable_bytes_max: 14 << 10,
        ..DatabaseOptions::default()
    };
    let left = (1..200).find_map(|seed| several_logs(&small, seed)).unwrap();
    let world = Simulation::on(left.clone(), 1);
    let options = DatabaseOptions { read_only: true, ..small };
    let db = Database::builder(DIR).options(options).env(world.env()).open().unwrap();
    let verified = db.verify().unwrap();
    assert!(verified.log_records > 40, "{verified:?}");
    for name in [names(&left, ".log"), names(&left, ".manifest"), vec!["CURRENT".to_owned()]].concat() {
        let path = Path::new(DIR).join(&name);
        let file = left.open_writable(&path).unwrap();
        let mut byte = [0];
        file.read_at(&mut byte, 62).unwrap();
        file.write_at(&[byte[0] ^ 1], 62).unwrap();
        let error = db.verify().unwrap_err();
        assert!(error.is_corruption() && error.to_string().contains(name.as_str()), "{name}: {error}");
        file.write_at(&byte, 62).unwrap();
    }
    db.verify().unwrap();
}

/// What a kill leaves of a world of `seed` when flushes lag behind, if they ever do there.
fn several_logs(options: &DatabaseOptions, seed: u64) -> Option<MemFs> {
    let disk = MemFs::simulated();
    let world = Simulation::on(disk.clone(), seed);
    let db = Database::builder(DIR)
        .options(options.clone())
        .env(world.env())
        .open()
        .expect("the simulated disk works");
    let map = db.keyspace("map", KeyspaceOptions::default()).expect("the simulated disk works");
    (0..400u32).find_map(|nth| {
        map.put(nth.to_be_bytes(), [7; 100]).expect("the simulated disk works");
        (names(&disk, ".log").len() > 2).then(|| killed(&disk))
    })
}

/// Refuses every operand, and panics when asked who it is if it was told to.
struct Nameless(std::sync::atomic::AtomicBool);

impl esker::MergeOperator for Nameless {
    fn name(&self) -> &'static str {
        assert!(!self.0.load(std::sync::atomic::Ordering::Relaxed), "I forgot");
        "nameless"
    }
    fn fold(&self, _key: &[u8], _base: Option<&[u8]>, _operands: &[&[u8]]) -> Result<Vec<u8>, String> {
        Err("no".to_string())
    }
}

/// An operator's name is a callback too: its panic in the commit queue left the queue led by nobody, and every
/// later writer waiting.
#[test]
fn an_operator_that_panics_at_its_name_does_not_take_the_lane_with_it() {
    let env = esker::vfs::Env::memory().unwrap();
    let operator = Arc::new(Nameless(false.into()));
    let db = Database::builder(DIR).env(env).merge_operator(operator.clone()).open().unwrap();
    let map = db.keyspace("map", KeyspaceOptions::default().with_merge_operator("nameless")).unwrap();
    map.put("key", "base").unwrap();
    operator.0.store(true, std::sync::atomic::Ordering::Relaxed);
    map.merge("key", "operand").unwrap();
    map.put("other", "value").unwrap();
    assert!(matches!(map.get("key"), Err(Error::CallbackPanicked { .. })));
    operator.0.store(false, std::sync::atomic::Ordering::Relaxed);
    assert!(matches!(map.get("key"), Err(Error::Merge { .. })));
}

/// A panic in the commit queue, whatever its cause, is an answer to its writer and no hang for the others.
#[test]
fn a_panic_in_the_commit_queue_stops_writes() {
    let disk = MemFs::simulated();
    let (db, fs) = open_failing(&disk, DatabaseOptions::default());
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    map.put("a", "1").unwrap();
    fs.plan(Fault::when(|call| {
        let log = call.path.extension().is_some_and(|it| it == "log");
        assert!(!log || call.operation != Operation::Write, "the filesystem panics");
        false
    }));
    assert!(matches!(map.put("b", "2"), Err(Error::InDoubt { .. })));
    fs.clear();
    assert!(matches!(map.put("c", "3"), Err(Error::Poisoned { .. })));
    assert_eq!(map.get("a").unwrap().as_deref(), Some(&b"1"[..]));
    drop((map, db));
    let db = open(&disk, DatabaseOptions::default());
    let map = db.existing_keyspace("map").unwrap();
    assert_eq!(map.get("a").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(map.get("c").unwrap(), None);
}

/// After a failed sync the system may show bytes that are not on the disk and never write them: an open that
/// acts on them writes them again first. A power loss right after it took them away, and the database, which
/// knew the log's length by then, refused to open.
#[test]
fn what_is_read_after_a_failed_sync_is_written_again() {
    let disk = MemFs::simulated();
    let options = || DatabaseOptions { durability: Durability::Sync, ..DatabaseOptions::default() };
    let (db, fs) = open_failing(&disk, options());
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    map.put("a", "1").unwrap();
    fs.plan(Fault::when(|call| call.operation == Operation::SyncData));
    assert!(matches!(map.put("b", "2"), Err(Error::InDoubt { .. })));
    drop((map, db));
    let db = open(&disk, options());
    let seen = db.existing_keyspace("map").unwrap().get("b").unwrap();
    let lost = disk.image_at(disk.trace_len(), Policy::Strict, 0);
    let db = open(&lost, options());
    let map = db.existing_keyspace("map").unwrap();
    assert_eq!(map.get("a").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(map.get("b").unwrap(), seen, "what one open has shown, the next one shows");
}

/// After a failed sync of the directory the system may show a name that is not on the disk and never write it:
/// an open that acts on a log of that name gives it the name again first. The database, which had recorded the
/// log as one that is needed, refused to open after the next power loss.
#[test]
fn a_name_that_is_read_after_a_failed_sync_is_written_again() {
    let disk = MemFs::simulated();
    let (db, fs) = open_failing(&disk, DatabaseOptions::default());
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    map.put("a", "1").unwrap();
    // A rotation, the flush of which comes no further than to fail a sync of the directory.
    fs.plan(Fault::when(|call| call.operation == Operation::SyncDir));
    assert!(db.flush().is_err());
    drop((map, db));
    let db = open(&disk, DatabaseOptions::default());
    assert_eq!(db.existing_keyspace("map").unwrap().get("a").unwrap().as_deref(), Some(&b"1"[..]));
    let logs = |disk: &MemFs| -> Vec<String> {
        let names = disk.list(DIR.as_ref()).unwrap().into_iter().map(|entry| entry.name);
        names.filter(|name| matches!(FileName::parse(name), Some(FileName::Log(_)))).collect()
    };
    let lost = disk.image_at(disk.trace_len(), Policy::Strict, 0);
    assert_eq!(logs(&lost), logs(&disk), "what the open has seen is there for the next");
    let db = open(&lost, DatabaseOptions::default());
    assert_eq!(db.existing_keyspace("map").unwrap().get("a").unwrap().as_deref(), Some(&b"1"[..]));
}

/// An open that made the directory and got no further has not made its name durable; the one after it found
/// the directory there and did not either, and a power loss took the database.
#[test]
fn the_name_of_a_directory_that_is_there_is_made_durable() {
    let disk = MemFs::simulated();
    disk.create_dir(DIR.as_ref()).unwrap();
    let options = || DatabaseOptions { durability: Durability::Sync, ..DatabaseOptions::default() };
    let db = open(&disk, options());
    db.keyspace("map", KeyspaceOptions::default()).unwrap().put("a", "1").unwrap();
    let db = open(&disk.image_at(disk.trace_len(), Policy::Strict, 0), options());
    let map = db.existing_keyspace("map").unwrap();
    assert_eq!(map.get("a").unwrap().as_deref(), Some(&b"1"[..]));
}

/// A write that was undone syncs its own log alone. What that log then said to be durable was taken for proof
/// that the one before it had been, and when power took the end of that one, the open was refused.
#[test]
fn an_undone_write_proves_nothing_about_older_logs() {
    let disk = MemFs::simulated();
    let options = || DatabaseOptions { memtable_bytes_max: 16 << 10, ..DatabaseOptions::default() };
    let (db, fs) = open_failing(&disk, options());
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    map.put("a", "1").unwrap();
    // A rotation, the flush of which comes no further.
    fs.plan(Fault::when(|call| call.path.extension().is_some_and(|it| it == "sst")).sticky());
    assert!(db.flush().is_err());
    map.put("b", "2").unwrap();
    let failing = |call: &esker::vfs::fault::Call<'_>| {
        call.operation == Operation::Write && call.path.extension().is_some_and(|it| it == "log")
    };
    fs.plan(Fault::when(failing));
    assert!(matches!(map.put("c", "3"), Err(Error::Aborted { .. })));
    map.put("d", "4").unwrap();
    let point = disk.crash_point(disk.trace_len());
    for seed in 0..20 {
        for policy in Policy::ALL {
            open(&point.image(policy, seed), options());
        }
    }
}

/// Appends, and panics as often as it was told to.
struct Moody(std::sync::atomic::AtomicU32);

impl esker::MergeOperator for Moody {
    fn name(&self) -> &'static str {
        "moody"
    }
    fn fold(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>, String> {
        let left = self.0.load(std::sync::atomic::Ordering::Relaxed);
        self.0.store(left.saturating_sub(1), std::sync::atomic::Ordering::Relaxed);
        assert!(left == 0, "in a bad mood");
        Ok([base.unwrap_or_default(), &operands.concat()].concat())
    }
}

/// A database whose operator panics in the next `panics` folds, with tables enough for a compaction in which it
/// has to fold. No fold happens before.
fn moody(panics: u32) -> (Database, Arc<Moody>) {
    let operator = Arc::new(Moody(0.into()));
    let disk = MemFs::simulated();
    let options = DatabaseOptions { l0_tables_trigger: 2, ..DatabaseOptions::default() };
    let env = Simulation::on(disk, 1).env();
    let builder = Database::builder(DIR).options(options).env(env).merge_operator(operator.clone());
    let db = builder.open().expect("nothing fails here");
    let map = db
        .keyspace("map", KeyspaceOptions::default().with_merge_operator("moody"))
        .expect("nothing fails here");
    map.put("key", "a").expect("nothing fails here");
    map.put("other", "b").expect("nothing fails here");
    db.flush().expect("nothing fails here");
    map.merge("key", "c").expect("nothing fails here");
    operator.0.store(panics, std::sync::atomic::Ordering::Relaxed);
    (db, operator)
}

/// An operator's panic in a flush or compaction stopped writes at once, however well it did the next time.
#[test]
fn an_operator_that_panics_once_in_a_compaction_is_asked_again() {
    let (db, operator) = moody(1);
    let map = db.existing_keyspace("map").unwrap();
    db.flush().unwrap();
    db.wait_for_compactions().unwrap();
    assert_eq!(operator.0.load(std::sync::atomic::Ordering::Relaxed), 0, "it panicked");
    assert_eq!(db.metrics().counters.job_failures, 1);
    map.put("more", "d").unwrap();
    assert_eq!(map.get("key").unwrap().as_deref(), Some(&b"ac"[..]));
    db.close().unwrap();
}

/// One that always panics stops writes after a few tries; what it has no part in is read.
#[test]
fn an_operator_that_always_panics_in_a_compaction_stops_writes() {
    let (db, operator) = moody(u32::MAX);
    let map = db.existing_keyspace("map").unwrap();
    db.flush().unwrap();
    let stopped = db.wait_for_compactions().unwrap_err();
    let Error::Poisoned { cause } = &stopped else { panic!("{stopped:?}") };
    assert!(matches!(**cause, Error::CallbackPanicked { .. }), "{stopped:?}");
    // By each of the jobs that compact at a time.
    assert!((5..=10).contains(&db.metrics().counters.job_failures));
    assert!(matches!(map.put("more", "d"), Err(Error::Poisoned { .. })));
    assert_eq!(map.get("other").unwrap().as_deref(), Some(&b"b"[..]));
    assert!(matches!(map.get("key"), Err(Error::CallbackPanicked { .. })));
    operator.0.store(0, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(map.get("key").unwrap().as_deref(), Some(&b"ac"[..]));
}

/// The database's directory stays open: a process that has no descriptor left does not take that for a sync that
/// failed.
#[test]
fn a_directory_is_synced_without_a_new_descriptor() {
    let disk = MemFs::simulated();
    let (db, fs) = open_failing(&disk, DatabaseOptions::default());
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    map.put("a", "1").unwrap();
    fs.plan(Fault::when(|call| call.operation == Operation::OpenDir).cause(Cause::Descriptors).sticky());
    db.flush().unwrap();
    map.put("b", "2").unwrap();
    db.persist().unwrap();
    assert!(db.checkpoint("/copy").is_err(), "another directory has to be opened");
}

/// A checkpoint whose directory could not be synced is no reason to refuse the next one beside it: only the
/// database's own directory is never believed again.
#[test]
fn a_checkpoint_that_failed_leaves_the_next_one_be() {
    let disk = MemFs::simulated();
    disk.create_dir("/copies".as_ref()).unwrap();
    let (db, fs) = open_failing(&disk, DatabaseOptions::default());
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    map.put("a", "1").unwrap();
    fs.plan(Fault::when(|call| call.operation == Operation::SyncDir && call.path == "/copies"));
    assert!(db.checkpoint("/copies/one").is_err());
    fs.clear();
    db.checkpoint("/copies/two").unwrap();
    map.put("b", "2").unwrap();
    db.persist().unwrap();
}

/// A log counts as closed once there is another: a flush that cannot make that has closed nothing.
#[test]
fn logs_that_stay_open_are_counted_once() {
    let disk = MemFs::simulated();
    let (db, fs) = open_failing(&disk, DatabaseOptions::default());
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    map.put("key", "value").unwrap();
    let log_bytes = || db.metrics().counters.log_bytes;
    let before = log_bytes();
    let is_log = |path: &Path| path.extension().is_some_and(|extension| extension == "log");
    fs.plan(Fault::when(move |call| call.operation == Operation::Create && is_log(call.path)).sticky());
    for _ in 0..2 {
        db.flush().unwrap_err();
    }
    assert_eq!(fs.fired().len(), 2);
    assert_eq!(log_bytes(), before);
    fs.clear();
    db.flush().unwrap();
    map.put("key", "value").unwrap();
    assert!(log_bytes() > before);
}

/// A lock that cannot be had for a failure of the system is no lock: the open errs with it and changes nothing. A reader goes
/// without one only where it may not have one.
#[test]
fn an_open_whose_lock_fails_changes_nothing() {
    let disk = MemFs::simulated();
    let db = open(&disk, DatabaseOptions::default());
    db.keyspace("map", KeyspaceOptions::default()).expect("created").put("key", "value").expect("put");
    db.close().expect("closed");
    let causes = [(Cause::Device, false), (Cause::Descriptors, false), (Cause::ReadOnly, true)];
    for (read_only, (cause, may_read)) in [false, true].into_iter().flat_map(|r| causes.map(|c| (r, c))) {
        let before = disk.trace_len();
        let world = Simulation::on(disk.clone(), 1);
        let faults = FaultFs::over(&disk, Arc::clone(&world.clock));
        faults.plan(Fault::nth(Operation::Lock, 0).cause(cause));
        let options = DatabaseOptions { read_only, ..DatabaseOptions::default() };
        let opened = Database::builder(DIR).options(options).env(world.env_over(Arc::new(faults))).open();
        match opened {
            Ok(db) => {
                assert!(read_only && may_read, "{cause:?}");
                let map = db.existing_keyspace("map").expect("there");
                assert_eq!(map.get("key").expect("read").as_deref(), Some(&b"value"[..]));
            }
            Err(error) => {
                assert!(!(read_only && may_read), "{cause:?}: {error}");
                let Error::Io { op: "lock", path, .. } = &error else { panic!("{error:?}") };
                assert_eq!(path, Path::new("/db/LOCK"));
                assert_eq!(error.is_no_descriptors(), cause == Cause::Descriptors, "{error}");
            }
        }
        assert_eq!(disk.trace_len(), before, "{cause:?} {read_only}");
    }
    open(&disk, DatabaseOptions::default());
}
