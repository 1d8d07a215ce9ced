//! Values in blob files, seen from outside: every way of reading gives the model's answers, whatever has become of the
//! files, and what is dead goes.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::time::Duration;

use esker::vfs::fs::Fs;
use esker::vfs::mem::{MemFs, Policy};
use esker::vfs::sim::Simulation;
use esker::{Database, DatabaseOptions, Keyspace, KeyspaceOptions, OpCost};

const DIR: &str = "/db";
const KEYS: u32 = 300;

/// The low byte of `n`.
fn byte(n: u32) -> u8 {
    n.to_le_bytes()[0]
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn options() -> DatabaseOptions {
    DatabaseOptions {
        memtable_bytes_max: 16 << 10,
        table_bytes: 4 << 10,
        level_base_bytes: Some(4 << 10),
        l0_tables_trigger: 2,
        ..DatabaseOptions::default()
    }
}

fn open(world: &Simulation) -> Database {
    Database::builder(DIR).options(options()).env(world.env()).open().expect("opened")
}

fn keyspace(db: &Database, name: &str, blob_bytes_min: u32) -> Keyspace {
    let options = KeyspaceOptions { block_bytes: 256, ..KeyspaceOptions::default() };
    db.keyspace(name, options.with_blob_bytes_min(blob_bytes_min)).expect("created")
}

fn key(n: u32) -> Vec<u8> {
    format!("key {n:05}").into_bytes()
}

/// Long and short values; no two alike.
fn value(n: u32, round: u32) -> Vec<u8> {
    let len = [5, 90, 700, 64, 63, 300][(n % 6) as usize];
    let mut value = format!("{n} {round} ").into_bytes();
    value.resize(len.max(value.len()), byte(n ^ round));
    value
}

/// Overwrite, delete and delete ranges, the more the later.
fn write(map: &Keyspace, model: &mut Model, round: u32) {
    for step in 0..KEYS {
        let n = (step * 37 + round * 11) % KEYS;
        if (n + round) % 17 == 3 {
            map.delete(key(n)).expect("deleted");
            model.remove(&key(n));
        } else if (n + round) % 97 == 5 {
            let (start, end) = (key(n), key(n + 5));
            map.delete_range(start.clone()..end.clone()).expect("deleted");
            model.retain(|key, _| *key < start || *key >= end);
        } else {
            map.put(key(n), value(n, round)).expect("put");
            model.insert(key(n), value(n, round));
        }
    }
}

/// Every way of reading agrees with the model.
fn check(map: &Keyspace, model: &Model) {
    let mut some = Vec::new();
    for n in 0..KEYS + 10 {
        let expected = model.get(&key(n));
        assert_eq!(map.get(key(n)).expect("read").as_deref(), expected.map(Vec::as_slice), "{n}");
        let len = map.get_with(key(n), <[u8]>::len).expect("read");
        assert_eq!(len, expected.map(Vec::len));
        assert_eq!(map.contains(key(n)).expect("read"), expected.is_some());
        some.push(key(n));
    }
    let many = map.multi_get(&some).expect("read");
    assert!(
        many.iter().zip(&some).all(|(found, key)| found.as_deref() == model.get(key).map(Vec::as_slice))
    );
    let rows = |scan: esker::Scan| -> Vec<(Vec<u8>, Vec<u8>)> {
        scan.map(|row| row.map(|(key, value)| (key.to_vec(), value.to_vec())).expect("a row")).collect()
    };
    let expected: Vec<_> = model.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    assert!(rows(map.iter()) == expected);
    let mut reverse: Vec<_> =
        map.iter().rev().map(|row| row.map(|(k, v)| (k.to_vec(), v.to_vec())).expect("a row")).collect();
    reverse.reverse();
    assert!(reverse == expected);
    let keys: Vec<_> = model.keys().map(|key| (key.clone(), Vec::new())).collect();
    assert!(rows(map.iter().keys_only()) == keys);
    let mut scan = map.iter().keys_only();
    let mut reverse: Vec<_> = scan.by_ref().rev().map(|row| row.expect("a row").0.to_vec()).collect();
    reverse.reverse();
    assert!(reverse.iter().eq(model.keys()));
    assert_eq!(scan.cost().blob_values, 0);
    // A cursor that turns round at every third row.
    let mut cursor = map.cursor().expect("a cursor");
    cursor.seek(b"").expect("sought");
    let mut at = 0;
    while at + 3 < expected.len() {
        for step in [1, 1, 1, -1] {
            assert_eq!((cursor.key(), cursor.value()), (&expected[at].0[..], &expected[at].1[..]));
            let there = if step == 1 { cursor.next() } else { cursor.prev() };
            assert!(there.expect("moved"));
            at = at.checked_add_signed(step).expect("within");
        }
    }
    let range = map.range((Bound::Excluded(key(50)), Bound::Included(key(70))));
    let within: Vec<_> = expected.iter().filter(|(k, _)| *k > key(50) && *k <= key(70)).cloned().collect();
    assert!(rows(range) == within);
}

fn files(disk: &MemFs, dir: &str, ending: &str) -> u64 {
    let all = disk.list(Path::new(dir)).expect("listed");
    all.iter().filter(|entry| entry.name.ends_with(ending)).map(|entry| entry.len).sum()
}

#[test]
fn every_read_sees_through_rows_to_their_values() {
    for seed in 0..4 {
        let world = Simulation::on(MemFs::simulated(), seed);
        let db = open(&world);
        let map = keyspace(&db, "map", 64);
        let mut model = Model::new();
        for round in 0..4 {
            write(&map, &mut model, round);
            check(&map, &model);
            let snapshot = db.snapshot();
            let before = model.clone();
            write(&map, &mut model, round + 100);
            db.wait_for_compactions().expect("compacted");
            let old: Vec<_> = map
                .at(&snapshot)
                .expect("a reader")
                .range::<&[u8]>(..)
                .map(|row| row.map(|(k, v)| (k.to_vec(), v.to_vec())).expect("a row"))
                .collect();
            assert!(old == before.into_iter().collect::<Vec<_>>());
            check(&map, &model);
        }
        let verified = db.verify().expect("whole");
        assert!(verified.blobs > 0 && db.metrics().blob_bytes > 0);
        let whole = map.approximate_size::<&[u8]>(..).expect("a size");
        assert!(whole > db.metrics().table_bytes, "values in blob files count");
        db.transact(|tx| {
            tx.put(&map, key(0), "own")?;
            tx.merge(&map, key(1), "x").expect_err("there is no operator");
            assert_eq!(tx.get(&map, key(0))?.as_deref(), Some(&b"own"[..]));
            assert_eq!(tx.get(&map, key(2))?.as_deref(), model.get(&key(2)).map(Vec::as_slice));
            Ok(())
        })
        .expect("committed");
        model.insert(key(0), b"own".to_vec());
        db.close().expect("closed");
        let db = open(&world);
        let map = db.existing_keyspace("map").expect("it is there");
        check(&map, &model);
    }
}

#[test]
fn operands_fold_onto_values_in_blob_files() {
    let world = Simulation::on(MemFs::simulated(), 3);
    let db = open(&world);
    let options = KeyspaceOptions::default().with_merge_operator("append").with_blob_bytes_min(64);
    let map = db.keyspace("lists", options).expect("created");
    let mut model = Model::new();
    for round in 0..6u32 {
        for n in 0..60 {
            if (n + round) % 5 == 0 {
                map.put(key(n), vec![b'a' + byte(round); 100]).expect("put");
                model.insert(key(n), vec![b'a' + byte(round); 100]);
            } else {
                map.merge(key(n), format!("+{round}")).expect("merged");
                model.entry(key(n)).or_default().extend_from_slice(format!("+{round}").as_bytes());
            }
        }
        db.flush().expect("flushed");
        for n in 0..60 {
            assert_eq!(map.get(key(n)).expect("read").as_deref(), model.get(&key(n)).map(Vec::as_slice));
        }
        let snapshot = db.snapshot();
        if round % 2 == 1 {
            db.wait_for_compactions().expect("compacted");
        }
        let forward: Vec<_> = map.iter().map(|row| row.expect("a row").1.to_vec()).collect();
        assert!(forward == model.values().cloned().collect::<Vec<_>>());
        let reverse: Vec<_> = map.iter().rev().map(|row| row.expect("a row").1.to_vec()).collect();
        assert!(reverse == model.values().rev().cloned().collect::<Vec<_>>());
        let mut keys = map.cursor().expect("a cursor").keys_only();
        keys.seek_last().expect("sought");
        for key in model.keys().rev() {
            assert_eq!(keys.key(), &key[..]);
            keys.prev().expect("moved");
        }
        assert!(map.iter().keys_only().map(|row| row.expect("a row").0).eq(model.keys()));
        drop(snapshot);
    }
    map.compact_range::<&[u8]>(..).expect("compacted");
    assert!(db.metrics().blob_bytes > 0, "folded values are long");
    db.verify().expect("whole");
    for n in 0..60 {
        assert_eq!(map.get(key(n)).expect("read").as_deref(), model.get(&key(n)).map(Vec::as_slice));
    }
}

#[test]
fn dead_values_leave_the_disk_by_themselves() {
    let world = Simulation::on(MemFs::simulated(), 1);
    let db = open(&world);
    let map = keyspace(&db, "map", 64);
    let mut live = 0u64;
    for round in 0..12u32 {
        live = 0;
        for n in 0..KEYS {
            // A tenth is written once and stays.
            if n % 10 != 0 || round == 0 {
                map.put(key(n), vec![byte(round); 400]).expect("put");
            }
            live += 400;
        }
    }
    db.wait_for_compactions().expect("compacted");
    let metrics = db.metrics();
    let blobs = metrics.keyspaces[0].blobs;
    assert!(blobs.dead_bytes * 100 <= (blobs.dead_bytes + blobs.live_bytes) * 30, "{blobs:?}");
    // What newer rows in level 0 hide is still counted as live.
    let level0 = metrics.keyspaces[0].levels.iter().filter(|level| level.level == 0);
    let newer: u64 = level0.map(|level| level.entries).sum();
    assert!(
        blobs.live_bytes >= live && blobs.live_values <= u64::from(KEYS) + newer,
        "{blobs:?} and {newer}"
    );
    assert_eq!(files(&world.disk, DIR, ".blob"), metrics.blob_bytes, "nothing else is left on the disk");
    db.verify().expect("whole");
    for n in 0..KEYS {
        let round = if n % 10 == 0 { 0 } else { 11 };
        assert_eq!(map.get(key(n)).expect("read").as_deref(), Some(&[round; 400][..]));
    }
    map.compact_range::<&[u8]>(..).expect("compacted");
    let blobs = db.metrics().keyspaces[0].blobs;
    assert!(db.metrics().blob_bytes * 100 < live * 170, "{blobs:?} for {live} live bytes");
    // A snapshot holds what it sees; a keyspace that is dropped holds nothing.
    map.delete_range(key(0)..key(KEYS)).expect("deleted");
    map.compact_range::<&[u8]>(..).expect("compacted");
    assert_eq!((db.metrics().blob_bytes, files(&world.disk, DIR, ".blob")), (0, 0));
    map.put(key(1), vec![1; 400]).expect("put");
    db.flush().expect("flushed");
    assert!(files(&world.disk, DIR, ".blob") > 400);
    drop(map);
    db.drop_keyspace("map").expect("dropped");
    let other = keyspace(&db, "other", 64);
    other.put("a", "b").expect("put");
    db.flush().expect("flushed");
    db.close().expect("closed");
    let db = open(&world);
    assert_eq!(files(&world.disk, DIR, ".blob"), 0);
    db.close().expect("closed");
}

#[test]
fn a_database_without_blob_files_is_converted_and_back() {
    let world = Simulation::on(MemFs::simulated(), 5);
    let mut model = Model::new();
    let db = open(&world);
    let inline = keyspace(&db, "inline", 0);
    write(&inline, &mut model, 0);
    db.wait_for_compactions().expect("compacted");
    assert_eq!(db.metrics().blob_bytes, 0);
    check(&inline, &model);
    let compressed = KeyspaceOptions::default().with_compression(esker::Compression::Lz4);
    let compressed = db.keyspace("compressed", compressed.with_blob_bytes_min(64)).expect("created");
    compressed.put("a", vec![7; 9000]).expect("put");
    db.flush().expect("flushed");
    assert_eq!(db.metrics().blob_bytes, 0, "a keyspace that compresses keeps its values");
    let error = db.keyspace("inline", KeyspaceOptions { block_bytes: 256, ..KeyspaceOptions::default() });
    assert!(matches!(error, Err(esker::Error::OptionMismatch { option: "blob_bytes_min", .. })));
}

#[test]
fn a_checkpoint_has_its_values_and_keeps_them() {
    let world = Simulation::on(MemFs::simulated(), 2);
    let db = open(&world);
    let map = keyspace(&db, "map", 64);
    let mut model = Model::new();
    write(&map, &mut model, 0);
    db.checkpoint("/copy").expect("copied");
    let before = model.clone();
    for round in 1..5 {
        write(&map, &mut model, round);
    }
    db.wait_for_compactions().expect("compacted");
    let copy =
        Database::builder("/copy").env(Simulation::on(world.disk.clone(), 7).env()).open().expect("opened");
    copy.verify().expect("whole");
    check(&copy.existing_keyspace("map").expect("it is there"), &before);
    check(&map, &model);
}

#[test]
fn what_is_not_looked_at_is_not_read() {
    let world = Simulation::on(MemFs::simulated(), 2);
    let db = open(&world);
    let map = keyspace(&db, "map", 64);
    map.put("a", vec![1; 5000]).expect("put");
    map.put("b", vec![2; 5000]).expect("put");
    db.flush().expect("flushed");
    let read = || {
        let mut cost = OpCost::default();
        assert_eq!(map.get_with_costed("a", &mut cost, <[u8]>::len).expect("read"), Some(5000));
        assert_eq!(cost.blob_values, 1);
        cost
    };
    assert!(read().bytes_from_disk > 5000);
    assert_eq!(read().bytes_from_disk, 0, "it is in the cache");
    let kept = map.get("a").expect("read").expect("a value");
    let reader = map.reader().expect("a reader");
    assert!(reader.contains("a").expect("read"));
    // A damaged value is an error for who reads it, and for nobody else.
    let name = world.disk.list(Path::new(DIR)).expect("listed");
    let name = name
        .iter()
        .find(|entry| Path::new(&entry.name).extension().is_some_and(|is| is == "blob"))
        .expect("a blob file")
        .name
        .clone();
    let file = world.disk.open_writable(&Path::new(DIR).join(&name)).expect("opened");
    file.write_at(&[9], 2000).expect("written");
    file.write_at(&[9], 7000).expect("written");
    let gets = || db.metrics().counters.gets;
    let (before, mut cost) = (gets(), OpCost::default());
    assert!(map.contains_costed("b", &mut cost).expect("not read"));
    assert!(map.reader().expect("a reader").contains_costed("b", &mut cost).expect("not read"));
    let transaction = db.begin().expect("begun");
    assert!(transaction.contains_costed(&map, "b", &mut cost).expect("not read"));
    assert_eq!((cost.blob_values, cost.bytes_read, cost.calls), (0, 3, 3), "keys alone");
    assert_eq!(gets(), before + 3);
    drop(transaction);
    assert_eq!((map.get("a").expect("cached").as_deref(), &*kept), (Some(&[1; 5000][..]), &[1; 5000][..]));
    let error = map.get("b").expect_err("it is damaged");
    assert!(error.is_corruption() && error.to_string().contains(&name), "{error}");
    // So it is for scans: what the cache holds was checked when it was read, and is not read again.
    let mut scan = map.iter();
    let (key, value) = scan.next().expect("a row").expect("cached");
    assert_eq!((key.as_ref(), value.as_ref()), (&b"a"[..], &[1; 5000][..]));
    assert!(scan.next().expect("a row").expect_err("it is damaged").is_corruption());
    assert!(map.iter().next_back().expect("a row").expect_err("it is damaged").is_corruption());
    let mut keys = map.iter().keys_only();
    assert!(keys.by_ref().map(|row| row.expect("not read").0).eq([&b"a"[..], b"b"]));
    assert!(map.iter().keys_only().rev().map(|row| row.expect("not read").0).eq([&b"b"[..], b"a"]));
    assert_eq!((keys.cost().blob_values, keys.cost().bytes_read), (0, 2));
    assert!(db.verify().expect_err("it is damaged").is_corruption());
}

#[test]
fn a_cut_short_run_leaves_no_blob_files() {
    let world = Simulation::on(MemFs::simulated(), 9);
    let db = open(&world);
    let map = keyspace(&db, "map", 64);
    let mut model = Model::new();
    for round in 0..3 {
        write(&map, &mut model, round);
    }
    // The power goes at many moments.
    let end = world.disk.trace_len();
    for at in (end / 3..end).step_by((end / 60).max(1)) {
        for policy in [Policy::Strict, Policy::Everything] {
            let disk = world.disk.image_at(at, policy, at as u64);
            let world = Simulation::on(disk.clone(), 4);
            let db = open(&world);
            db.verify().expect("whole");
            db.close().expect("closed");
            let db = open(&world);
            let (named, there) = (db.metrics().blob_bytes, files(&disk, DIR, ".blob"));
            assert_eq!(named, there, "orphans are gone");
        }
    }
}

/// A flush whose sync fails is tried again, and each try takes its files away.
#[test]
fn a_try_that_failed_leaves_no_files() {
    use esker::vfs::fault::{Call, Cause, Effect, Fault, FaultFs, Operation};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    for ending in ["blob", "sst"] {
        let world = Simulation::on(MemFs::simulated(), 1);
        let faults = FaultFs::over(&world.disk, Arc::clone(&world.clock));
        let env = world.env_over(Arc::new(faults.clone()));
        let db = Database::builder(DIR).options(options()).env(env).open().expect("opened");
        let map = keyspace(&db, "map", 64);
        map.put("a", vec![1; 5000]).expect("put");
        let left = Arc::new(AtomicU64::new(5));
        let count = Arc::clone(&left);
        let sync = move |call: &Call<'_>| {
            call.operation == Operation::Sync
                && call.path.extension().is_some_and(|is| is == ending)
                && count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok()
        };
        faults.plan(Fault::when(sync).cause(Cause::NoSpace).effect(Effect::Before).sticky());
        // Whoever asked is told; the flush itself is tried again until there is room.
        db.flush().expect_err("no space");
        db.wait_for_compactions().expect("settled");
        assert_eq!(left.load(Ordering::Relaxed), 0, "{ending}: five tries failed");
        let metrics = db.metrics();
        assert_eq!(files(&world.disk, DIR, ".blob"), metrics.blob_bytes, "{ending}");
        assert_eq!(files(&world.disk, DIR, ".sst"), metrics.table_bytes, "{ending}");
        assert!(metrics.blob_bytes > 0);
    }
}

/// A flush with a few long values among short ones makes a small blob file; merges put them together.
#[test]
fn small_blob_files_are_merged_with_the_tables_that_refer_to_them() {
    let world = Simulation::on(MemFs::new(), 1);
    let db = Database::builder(DIR).env(world.env()).open().expect("opened");
    let map = db.keyspace("map", KeyspaceOptions::default()).expect("created");
    let scattered = |n: u32| format!("{:08x}", n.wrapping_mul(2_654_435_761));
    for n in 0..100u32 {
        for row in 0..10 {
            map.put(scattered(n * 10 + row), vec![1; 100]).expect("put");
        }
        map.put(format!("{} long", scattered(n)), vec![2; 5000]).expect("put");
        db.flush().expect("flushed");
    }
    db.wait_for_compactions().expect("settled");
    map.compact_range::<&[u8]>(..).expect("compacted");
    db.wait_for_compactions().expect("settled");
    let names = world.disk.list(Path::new(DIR)).expect("listed");
    let is_blob = |name: &str| Path::new(name).extension().is_some_and(|is| is == "blob");
    let blobs = names.iter().filter(|entry| is_blob(&entry.name)).count();
    assert!((1..=5).contains(&blobs), "{blobs} files");
    assert_eq!(map.get(format!("{} long", scattered(7))).expect("read").as_deref(), Some(&[2; 5000][..]));
}

/// What a snapshot alone still saw goes once that is dropped, from tables and blob files, with no call and no write.
#[test]
fn values_that_a_snapshot_held_leave_the_disk_once_it_is_dropped() {
    let world = Simulation::on(MemFs::simulated(), 1);
    let db = open(&world);
    let map = keyspace(&db, "map", 64);
    let generation = |round: u32| {
        for n in 0..KEYS {
            map.put(key(n), vec![byte(round); 400]).expect("put");
        }
    };
    generation(1);
    let snapshot = db.snapshot();
    generation(2);
    db.flush().expect("flushed");
    map.compact_range::<&[u8]>(..).expect("compacted");
    db.wait_for_compactions().expect("settled");
    let entries = || db.metrics().keyspaces[0].levels.iter().map(|level| level.entries).sum::<u64>();
    let one = u64::from(KEYS) * 400;
    assert_eq!(entries(), 2 * u64::from(KEYS), "the snapshot sees the old values");
    assert!(files(&world.disk, DIR, ".blob") > 2 * one);
    drop(snapshot);
    for _ in 0..5 {
        world.clock.advance(Duration::from_secs(1));
        world.steps.settle();
    }
    let blob_bytes = files(&world.disk, DIR, ".blob");
    assert_eq!(entries(), u64::from(KEYS), "{blob_bytes} bytes in blob files");
    assert!(blob_bytes > one && blob_bytes * 100 < one * 143, "{blob_bytes} bytes for {one} live ones");
    db.verify().expect("whole");
    for n in 0..KEYS {
        assert_eq!(map.get(key(n)).expect("read").as_deref(), Some(&[2; 400][..]));
    }
}

/// What a compaction reads of values goes past the cache: their files are about to go.
#[test]
fn values_that_are_written_anew_do_not_come_into_the_cache() {
    let world = Simulation::on(MemFs::simulated(), 3);
    let db = Database::builder(DIR).env(world.env()).open().expect("opened");
    let map = keyspace(&db, "map", 1_000);
    for rows in [0..100, 0..60] {
        rows.for_each(|n| map.put(key(n), vec![7; 2_000]).expect("put"));
        db.flush().expect("flushed");
    }
    let cached = || db.metrics().memory.iter().find(|(what, _)| *what == "cache").expect("an account").1;
    assert_eq!(cached(), 0, "nobody has read anything");
    // It keeps the files that go, and so whatever is cached of them.
    let held = map.iter();
    // The first merge makes dead what was overwritten, the next collects it.
    for _ in 0..2 {
        map.compact_range::<&[u8]>(..).expect("compacted");
        db.wait_for_compactions().expect("compacted");
    }
    let blobs = db.metrics().keyspaces[0].blobs;
    assert_eq!((blobs.live_values, blobs.dead_bytes), (100, 0), "the dead are collected");
    assert_eq!(cached(), 0);
    drop(held);
    db.close().expect("closed");
}
