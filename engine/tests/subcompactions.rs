//! Large compactions are carried out in parts, by whichever thread has nothing better to do. Step mode shows which.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use esker::vfs::Env;
use esker::vfs::fault::{Call, Effect, Fault, FaultFs, Operation};
use esker::vfs::mem::MemFs;
use esker::vfs::scheduler::Lane;
use esker::vfs::scheduler::steps::Steps;
use esker::vfs::sim::Simulation;
use esker::{Database, DatabaseOptions, Keyspace, KeyspaceOptions};

const DIR: &str = "/db";

/// A world in which `compactions` run at a time.
fn world(seed: u64, compactions: usize) -> Simulation {
    let steps = Arc::new(Steps::with_width(seed, compactions));
    let clock = steps.clock();
    Simulation { disk: MemFs::simulated(), steps, clock }
}

fn options() -> DatabaseOptions {
    DatabaseOptions {
        memtable_bytes_max: 32 << 10,
        table_bytes: 32 << 10,
        level_base_bytes: Some(64 << 10),
        // The thread of flushes helps from here on.
        l0_tables_slowdown: 4,
        ..DatabaseOptions::default()
    }
}

fn open(env: Env) -> (Database, Keyspace) {
    open_with(options(), env)
}

fn open_with(options: DatabaseOptions, env: Env) -> (Database, Keyspace) {
    let db = Database::builder(DIR).options(options).env(env).open().expect("opened");
    let map = db.keyspace("map", KeyspaceOptions::default()).expect("created");
    (db, map)
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Write about a megabyte, some of it twice or deleted again, and look around after each write.
fn write(map: &Keyspace, model: &mut Model, seed: u64, mut look: impl FnMut()) {
    // Knuth's MMIX generator; its high bits are the good ones.
    let mut state = seed;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u32::try_from((state >> 33) % below).expect("small")
    };
    for n in 0..8000u32 {
        let key = random(6000).to_be_bytes().to_vec();
        match random(100) {
            0 => {
                let end = (u32::from_be_bytes(key[..4].try_into().expect("four bytes")) + 30).to_be_bytes();
                map.delete_range(&key[..]..&end[..]).expect("deleted");
                model.retain(|k, _| k[..] < key[..] || k[..] >= end[..]);
            }
            1..10 => {
                map.delete(&key).expect("deleted");
                model.remove(&key);
            }
            _ => {
                let value = [&n.to_le_bytes()[..], &[b'v'; 100]].concat();
                map.put(&key, &value).expect("put");
                model.insert(key, value);
            }
        }
        look();
    }
}

fn check(db: &Database, map: &Keyspace, model: &Model) {
    let rows: Vec<(Vec<u8>, Vec<u8>)> = map
        .iter()
        .map(|row| row.map(|(key, value)| (key.to_vec(), value.to_vec())))
        .collect::<Result<_, _>>()
        .expect("read");
    assert!(rows.iter().map(|(k, v)| (k, v)).eq(model), "the rows are others");
    db.verify().expect("all tables are sound");
}

/// The lanes on which helpers are.
fn helpers(world: &Simulation) -> Vec<Lane> {
    let jobs = world.steps.jobs();
    jobs.iter().filter(|job| job.name == "subcompaction").map(|job| job.lane).collect()
}

fn is_there(world: &Simulation, name: &str) -> bool {
    world.steps.jobs().iter().any(|job| job.name == name)
}

#[test]
fn the_thread_of_flushes_helps_and_so_do_idle_ones() {
    for (compactions, seeds) in [(1, 1..5), (3, 5..9)] {
        // A seed may have each lane find other work whenever there is a piece to take.
        let (mut on_flush, mut on_compaction) = (0, 0);
        for seed in seeds {
            let world = world(seed, compactions);
            let (db, map) = open(world.env());
            let mut model = Model::new();
            let mut look = || {
                let helpers = helpers(&world);
                let on = |lane| helpers.iter().filter(|&&at| at == lane).count();
                on_flush += on(Lane::Flush);
                on_compaction += on(Lane::Compaction);
                assert!(on(Lane::Flush) <= 1 && on(Lane::Compaction) < compactions, "{helpers:?}");
            };
            write(&map, &mut model, seed, &mut look);
            db.flush().expect("flushed");
            while world.steps.step().is_some() {
                look();
            }
            assert!(helpers(&world).is_empty(), "a helper is left over");
            check(&db, &map, &model);
            // By hand, too.
            map.compact_range::<&[u8]>(..).expect("compacted");
            check(&db, &map, &model);
            db.close().expect("closed");
        }
        assert!(on_flush > 0, "nobody helped");
        assert_eq!(on_compaction > 0, compactions > 1);
    }
}

#[test]
fn a_flush_that_is_due_waits_for_one_step_at_most() {
    let mut met = 0;
    for seed in 0..20 {
        let world = world(seed, 1);
        let (db, map) = open(world.env());
        let mut model = Model::new();
        write(&map, &mut model, seed, || {
            if !(is_there(&world, "flush") && helpers(&world).contains(&Lane::Flush)) {
                return;
            }
            met += 1;
            // In that step the helper finds the flush, and ends.
            let mut steps = 0;
            while is_there(&world, "flush") {
                let step = world.steps.step_lane(Lane::Flush);
                steps += u32::from(step == Some("subcompaction"));
            }
            assert!(steps <= 1, "{steps} steps before a flush, seed {seed}");
        });
        world.steps.settle();
        check(&db, &map, &model);
    }
    assert!(met > 0, "no flush met a helper");
}

#[test]
fn a_part_that_fails_is_tried_again_with_all_others() {
    let mut failed = 0;
    for seed in 0..20 {
        let world = world(seed, 2);
        let faults = FaultFs::over(&world.disk, Arc::clone(&world.clock));
        let (db, map) = open(world.env_over(Arc::new(faults.clone())));
        let mut model = Model::new();
        let mut planned = false;
        write(&map, &mut model, seed, || {
            if !planned && !helpers(&world).is_empty() {
                planned = true;
                let before = AtomicU64::new(seed);
                let table = move |call: &Call<'_>| {
                    let is_table = call.path.extension().is_some_and(|extension| extension == "sst");
                    call.operation == Operation::Read
                        && is_table
                        && before.fetch_sub(1, Ordering::Relaxed) == 0
                };
                faults.plan(Fault::when(table).effect(Effect::Before));
            }
        });
        db.flush().expect("flushed");
        db.wait_for_compactions().expect("tried again");
        failed += faults.fired().len();
        faults.clear();
        check(&db, &map, &model);
        // What the attempt had written is gone: each table there is belongs to the tree.
        let tables: u64 = db.metrics().keyspaces.iter().flat_map(|k| &k.levels).map(|l| l.tables).sum();
        let files = world.env().fs.list(DIR.as_ref()).expect("listed");
        let files = files
            .iter()
            .filter(|file| Path::new(&file.name).extension().is_some_and(|extension| extension == "sst"))
            .count() as u64;
        assert_eq!(files, tables, "seed {seed}");
    }
    assert!(failed > 0, "no fault was met");
}

#[test]
fn idle_threads_share_in_a_flush_behind_which_another_waits() {
    // Nothing is compacted: whoever helps helps a flush, which is worth several parts.
    let options = DatabaseOptions {
        table_bytes: 4 << 10,
        l0_tables_trigger: 60,
        l0_tables_slowdown: 70,
        l0_tables_stop: 80,
        ..options()
    };
    let (mut helped, mut failed) = (0, 0);
    for seed in 0..10 {
        let world = world(seed, 1);
        let faults = FaultFs::over(&world.disk, Arc::clone(&world.clock));
        let (db, map) = open_with(options.clone(), world.env_over(Arc::new(faults.clone())));
        let mut model = Model::new();
        let mut planned = false;
        write(&map, &mut model, seed, || {
            let helpers = helpers(&world);
            assert!(!helpers.contains(&Lane::Flush), "{helpers:?}");
            if helpers.is_empty() {
                return;
            }
            assert!(is_there(&world, "flush"), "nobody to help, seed {seed}");
            helped += 1;
            if !planned && seed % 2 == 1 {
                planned = true;
                let before = AtomicU64::new(seed);
                let table = move |call: &Call<'_>| {
                    call.operation == Operation::Write
                        && call.path.extension().is_some_and(|extension| extension == "sst")
                        && before.fetch_sub(1, Ordering::Relaxed) == 0
                };
                faults.plan(Fault::when(table).effect(Effect::Before));
            }
        });
        failed += faults.fired().len();
        faults.clear();
        db.flush().expect("tried again");
        world.steps.settle();
        // Level 0 has grown deep enough for a compaction in some of these histories: it pauses while there are flushes.
        while is_there(&world, "compaction") {
            world.clock.advance(Duration::from_millis(5));
            world.steps.settle();
        }
        assert!(helpers(&world).is_empty(), "a helper is left over, seed {seed}");
        check(&db, &map, &model);
        let files = world.env().fs.list(DIR.as_ref()).expect("listed");
        let is_table = |name: &str| Path::new(name).extension().is_some_and(|extension| extension == "sst");
        let files = files.iter().filter(|file| is_table(&file.name)).count() as u64;
        let tables: u64 = db.metrics().keyspaces.iter().flat_map(|k| &k.levels).map(|l| l.tables).sum();
        assert_eq!(files, tables, "seed {seed}");
        db.close().expect("closed");
    }
    assert!(helped > 0 && failed > 0, "{helped} looks met a helper, {failed} faults were met");
}

/// With a writer, a flush and two processors there is no place for a compaction.
#[test]
fn a_compaction_stands_aside_for_a_flush() {
    let world = world(7, 1);
    let (db, map) = open_with(DatabaseOptions { l0_tables_slowdown: 40, ..options() }, world.env());
    let mut model = Model::new();
    let mut asides = 0;
    write(&map, &mut model, 7, || {
        let jobs = world.steps.jobs();
        let is_later = jobs.iter().any(|job| job.name == "compaction" && job.due.is_some());
        asides += u32::from(is_later && is_there(&world, "flush"));
    });
    assert!(asides > 0, "the two met, and neither waited");
    db.wait_for_compactions().expect("compacted");
    check(&db, &map, &model);
}
