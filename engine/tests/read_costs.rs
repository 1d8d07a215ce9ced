//! What reads have paid for is flushed and merged, and nothing else is.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use esker::event::{Event, SealReason};
use esker::vfs::fault::{Cause, Effect, Fault, FaultFs, Operation};
use esker::vfs::sim::Simulation;
use esker::{Database, DatabaseOptions, Keyspace, KeyspaceOptions};

const ROWS: u32 = 500;
/// So many seeks cost more than all merges here.
const MANY: usize = 20_000;

fn options(compact_for_reads: bool) -> DatabaseOptions {
    DatabaseOptions { memtable_bytes_max: 256 << 10, compact_for_reads, ..DatabaseOptions::default() }
}

struct World {
    sim: Simulation,
    faults: FaultFs,
    db: Database,
    /// Why memtables were sealed and tables compacted, and which jobs failed, since this was last asked.
    done: Arc<Mutex<Vec<String>>>,
}

impl World {
    fn new(compact_for_reads: bool) -> World {
        World::with(options(compact_for_reads))
    }

    fn with(options: DatabaseOptions) -> World {
        let sim = Simulation::new(1);
        let faults = FaultFs::over(&sim.disk, Arc::clone(&sim.clock));
        let done = Arc::<Mutex<Vec<String>>>::default();
        let listener = {
            let done = Arc::clone(&done);
            move |event: &Event| match event {
                Event::MemtableSealed { reason: SealReason::Reads, .. } => {
                    done.lock().expect("whole").push("sealed".to_owned());
                }
                Event::Compacted { keyspace, reason, .. } => {
                    done.lock().expect("whole").push(format!("{}: {reason}", keyspace.0));
                }
                Event::JobFailed { job, will_retry, .. } => {
                    done.lock().expect("whole").push(format!("{job} failed, retry: {will_retry}"));
                }
                _ => {}
            }
        };
        let db = Database::builder("/db")
            .options(options)
            .env(sim.env_over(Arc::new(faults.clone())))
            .listener(Arc::new(listener))
            .open()
            .expect("opened");
        World { sim, faults, db, done }
    }

    fn keyspace(&self, name: &str) -> Keyspace {
        self.db.keyspace(name, KeyspaceOptions::default()).expect("created")
    }

    /// `seconds` pass.
    fn pass(&self, seconds: u32) {
        for _ in 0..seconds {
            self.sim.clock.advance(Duration::from_secs(1));
            self.sim.steps.settle();
        }
    }

    fn done(&self) -> Vec<String> {
        std::mem::take(&mut *self.done.lock().expect("whole"))
    }
}

fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

/// Write every row of `map` whose number leaves `rest` when it is divided by 3.
fn write(map: &Keyspace, rest: u32) {
    for n in (0..ROWS).filter(|n| n % 3 == rest) {
        map.put(key(n), vec![rest.to_le_bytes()[0]; 100]).expect("put");
    }
}

/// Seek by one cursor, which sees the tree as it was when this began.
fn seek(map: &Keyspace, seeks: usize) {
    let mut cursor = map.cursor().expect("a cursor");
    for n in (0..ROWS).cycle().take(seeks) {
        assert!(cursor.seek(key(n)).expect("read") && cursor.key() == key(n));
    }
}

/// Get the rows with these numbers, over and over.
fn get(map: &Keyspace, numbers: impl Iterator<Item = u32> + Clone) {
    for n in numbers.cycle().take(10 * MANY) {
        assert!(map.contains(key(n)).expect("read"));
    }
}

/// Level 0 with two runs, over one that was merged, and a third part of the rows in the memtable.
fn fresh(world: &World, name: &str) -> Keyspace {
    let map = world.keyspace(name);
    write(&map, 0);
    map.compact_range::<&[u8]>(..).expect("compacted");
    write(&map, 1);
    world.db.flush().expect("flushed");
    write(&map, 2);
    world.pass(10);
    world.done();
    map
}

fn levels(world: &World, map: &Keyspace) -> Vec<u8> {
    let metrics = world.db.metrics();
    let keyspace = metrics.keyspaces.iter().find(|keyspace| keyspace.id == map.id()).expect("its figures");
    keyspace.levels.iter().map(|level| level.level).collect()
}

#[test]
fn a_memtable_and_level_0_are_merged_once_reads_have_paid() {
    let world = World::new(true);
    let map = fresh(&world, "map");
    assert_eq!(levels(&world, &map), [0, 6]);
    seek(&map, 100);
    world.pass(10);
    assert_eq!(world.done(), [""; 0], "so few pay for nothing");

    seek(&map, MANY);
    world.pass(1);
    let done = world.done();
    assert_eq!(done.first().map(String::as_str), Some("sealed"), "{done:?}");
    // What was flushed just now does not rest.
    world.pass(6);
    seek(&map, MANY);
    world.pass(1);
    let merges = [done, world.done()].concat();
    assert!(merges.iter().any(|reason| reason.contains("reads have paid")), "{merges:?}");
    assert_eq!(levels(&world, &map), [6]);
    for n in 0..ROWS {
        let value = map.get(key(n)).expect("read").expect("there");
        assert_eq!(*value, vec![(n % 3).to_le_bytes()[0]; 100]);
    }

    // Nothing is left to pay for.
    seek(&map, MANY);
    world.pass(10);
    assert_eq!(world.done(), [""; 0]);
}

/// Gets pay too: one of every 61 speaks for all.
#[test]
fn gets_pay_for_a_flush() {
    let world = World::new(true);
    let map = fresh(&world, "map");
    get(&map, 0..ROWS);
    world.pass(1);
    assert!(world.done().contains(&"sealed".to_owned()));
}

#[test]
fn reads_have_nothing_written_where_that_is_not_wanted() {
    let world = World::new(false);
    let map = fresh(&world, "map");
    seek(&map, 10 * MANY);
    world.pass(10);
    assert_eq!(world.done(), [""; 0]);
    assert_eq!(levels(&world, &map), [0, 6]);
}

/// A memtable that will be twice as large within a minute is left alone, and so is level 0, also between one write and the next.
#[test]
fn where_writes_go_on_reads_have_nothing_merged() {
    for pause in [1, 4] {
        let world = World::new(true);
        let map = fresh(&world, "map");
        let is_by_size = |reason: &String| reason.contains("the trigger is");
        for n in 0..10 {
            map.put(key(ROWS + n), vec![9; 20_000]).expect("put");
            for _ in 0..pause {
                seek(&map, MANY);
                world.pass(1);
            }
            let done = world.done();
            assert!(done.iter().all(is_by_size), "{n}: {done:?}");
        }
        world.pass(10);
        seek(&map, 100);
        world.pass(1);
        let done = world.done();
        assert!(done.iter().all(is_by_size), "{done:?}");
    }
}

/// What reads have paid towards a tree that was written to since was for another one.
#[test]
fn what_was_paid_before_a_write_does_not_count() {
    for written in [false, true] {
        let world = World::new(true);
        let map = fresh(&world, "map");
        // The one time is not enough, twice is.
        seek(&map, 5_000);
        world.pass(1);
        if written {
            map.put(key(ROWS), vec![9; 20_000]).expect("put");
        }
        world.pass(10);
        assert_eq!(world.done(), [""; 0]);
        seek(&map, 5_000);
        world.pass(1);
        assert_eq!(world.done().is_empty(), written);
    }
}

/// All tables of a flush are merged for one payment, whichever of them has the newest entry.
#[test]
fn all_that_lay_in_level_0_is_paid_for_at_once() {
    for newest in (1..ROWS).step_by(60) {
        let options =
            DatabaseOptions { table_bytes: 4 << 10, level_base_bytes: Some(1 << 20), ..options(true) };
        let world = World::with(options);
        let map = world.keyspace("map");
        (0..3).for_each(|rest| write(&map, rest));
        map.compact_range::<&[u8]>(..).expect("compacted");
        write(&map, 1);
        map.put(key(newest), [1; 100]).expect("put");
        world.db.flush().expect("flushed");
        world.pass(10);
        world.done();
        let tables = world.db.metrics().keyspaces[0].levels[0].tables;
        assert!(tables > 4, "{tables} tables in level 0");
        seek(&map, MANY);
        world.pass(1);
        let done = world.done();
        assert!(done.len() > 1 && done.iter().all(|reason| reason.contains("reads have paid")), "{done:?}");
        assert_eq!(levels(&world, &map), [6], "{newest}");
    }
}

/// However many reads there are: a few rows are no reason to write a large level again.
#[test]
fn no_more_is_written_for_a_byte_than_by_a_step_between_levels() {
    let world = World::new(true);
    let map = world.keyspace("map");
    for n in 0..50 * ROWS {
        map.put(key(n), [0; 100]).expect("put");
    }
    map.compact_range::<&[u8]>(..).expect("compacted");
    for n in 0..ROWS / 4 {
        map.put(key(200 * n), [1; 100]).expect("put");
    }
    world.pass(10);
    world.done();
    // In the memtable, and in level 0.
    seek(&map, 50 * MANY);
    world.pass(10);
    world.db.flush().expect("flushed");
    world.pass(10);
    seek(&map, 50 * MANY);
    world.pass(10);
    assert_eq!(world.done(), [""; 0]);
}

/// Two keyspaces that are read in turns are both sampled.
#[test]
fn gets_of_two_keyspaces_in_turns_pay_for_both() {
    let world = World::new(true);
    let maps = ["one", "two"].map(|name| fresh(&world, name));
    world.db.flush().expect("flushed");
    world.pass(10);
    world.done();
    for n in (0..ROWS).cycle().take(10 * MANY) {
        for map in &maps {
            assert!(map.contains(key(n)).expect("read"));
        }
    }
    world.pass(1);
    assert_eq!(maps.map(|map| levels(&world, &map)), [[6], [6]]);
}

/// Scans pay for what they find in memtables and level 0, forwards and backwards, and short ones too.
#[test]
fn scans_pay() {
    for back in [false, true] {
        let world = World::new(true);
        let map = fresh(&world, "map");
        for _ in 0..1_000 {
            let rows = map.iter();
            let rows = if back { rows.rev().count() } else { rows.count() };
            assert_eq!(rows, ROWS as usize);
        }
        world.pass(1);
        assert!(world.done().contains(&"sealed".to_owned()));
    }
}

/// So do scans of a transaction that has written nothing.
#[test]
fn scans_of_a_transaction_that_reads_pay() {
    let world = World::new(true);
    let map = fresh(&world, "map");
    let transaction = world.db.begin().expect("begun");
    for _ in 0..1_000 {
        assert_eq!(transaction.iter(&map).count(), ROWS as usize);
    }
    world.pass(1);
    assert!(world.done().contains(&"sealed".to_owned()));
}

/// Gets that find their rows in the memtable do not pay for its flush: they would find them in one place as well.
#[test]
fn gets_answered_by_the_memtable_pay_for_nothing() {
    let world = World::new(true);
    let map = fresh(&world, "map");
    get(&map, (0..ROWS).filter(|n| n % 3 == 2));
    world.pass(1);
    assert_eq!(world.done(), [""; 0]);
}

/// A cursor that was made before what it reads was flushed pays for nothing more.
#[test]
fn who_reads_an_older_state_pays_for_nothing() {
    let world = World::new(true);
    let map = fresh(&world, "map");
    let mut cursor = map.cursor().expect("a cursor");
    let reader = map.reader().expect("a reader");
    world.db.flush().expect("flushed");
    world.pass(10);
    world.done();
    for n in (0..ROWS).cycle().take(10 * MANY) {
        assert!(cursor.seek(key(n)).expect("read") && reader.contains(key(n)).expect("read"));
    }
    world.pass(10);
    assert_eq!(world.done(), [""; 0]);
}

/// Reads of one keyspace do nothing for another.
#[test]
fn each_keyspace_pays_for_itself() {
    let world = World::new(true);
    let [read, other] = ["read", "other"].map(|name| fresh(&world, name));
    // Both have a run in level 0 and nothing in the memtable.
    world.db.flush().expect("flushed");
    world.pass(10);
    world.done();
    seek(&read, MANY);
    world.pass(2);
    let done = world.done();
    let of_read = format!("{}: ", read.id().0);
    assert!(!done.is_empty() && done.iter().all(|reason| reason.starts_with(&of_read)), "{done:?}");
    assert_eq!((levels(&world, &read), levels(&world, &other)), (vec![6], vec![0, 6]));

    // Nor for a memtable that has nothing of it.
    write(&other, 2);
    world.pass(10);
    seek(&read, MANY);
    world.pass(2);
    assert_eq!(world.done(), [""; 0]);
    seek(&other, MANY);
    world.pass(1);
    assert!(world.done().contains(&"sealed".to_owned()));
}

/// What nobody needs does no harm where it fails: a full disk is not filled again and again, a device that fails stops no writes.
/// Once level 0 is another it is tried again.
#[test]
fn a_merge_that_fails_is_left_alone() {
    for cause in [Cause::NoSpace, Cause::Device] {
        let world = World::new(true);
        let map = fresh(&world, "map");
        world.db.flush().expect("flushed");
        world.pass(10);
        world.done();
        let of_table = Fault::when(|call| {
            call.operation == Operation::Create && call.path.extension().is_some_and(|is| is == "sst")
        });
        world.faults.plan(of_table.cause(cause).effect(Effect::Before).sticky());
        for second in 0..20 {
            seek(&map, MANY);
            world.pass(1);
            let expected: &[&str] = if second == 0 { &["compaction failed, retry: false"] } else { &[] };
            assert_eq!(world.done(), expected, "{second}");
        }
        world.faults.clear();
        seek(&map, MANY);
        world.pass(1);
        assert_eq!(world.done(), [""; 0], "it was tried with these tables");
        write(&map, 2);
        world.db.flush().expect("writes go on");
        world.pass(10);
        seek(&map, MANY);
        world.pass(1);
        assert!(world.done().iter().any(|reason| reason.contains("reads have paid")));
        assert_eq!(levels(&world, &map), [6]);
    }
}

/// The same of a flush that cannot begin.
#[test]
fn a_seal_that_fails_is_left_alone() {
    let world = World::new(true);
    let map = fresh(&world, "map");
    world.sim.disk.set_capacity(Some(0));
    for second in 0..20 {
        seek(&map, 10 * MANY);
        world.pass(1);
        let mut done = world.done();
        done.retain(|event| !event.starts_with("compaction"));
        let expected: &[&str] = if second == 0 { &["upkeep failed, retry: false"] } else { &[] };
        assert_eq!(done, expected, "{second}");
    }
    world.sim.disk.set_capacity(None);
    map.put(key(1), [1; 100]).expect("writes go on");
    world.db.flush().expect("and flushes");
}

/// A memtable that is large already makes no writer a quiet one.
#[test]
fn a_steady_trickle_is_no_rest() {
    let world = World::with(DatabaseOptions { memtable_bytes_max: 8 << 20, ..options(true) });
    let map = fresh(&world, "map");
    for n in 0..200 {
        map.put(key(ROWS + n), vec![9; 20_000]).expect("put");
    }
    for n in 0..20 {
        // Two minutes and more would pass before these have doubled it.
        map.put(key(ROWS + n), vec![9; 20_000]).expect("put");
        seek(&map, MANY);
        world.pass(1);
        assert_eq!(world.done(), [""; 0], "{n}");
    }
    world.pass(10);
    seek(&map, 5 * MANY);
    world.pass(1);
    assert!(world.done().contains(&"sealed".to_owned()), "and then it is one");
}
