#![expect(clippy::disallowed_methods, reason = "tests bring their own threads")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use esker_vfs::Env;
use esker_vfs::clock::{Clock, SimClock};
use esker_vfs::mem::MemFs;
use esker_vfs::scheduler::steps::Steps;
use esker_vfs::sim::Simulation;

use crate::{Database, DatabaseOptions, KeyspaceOptions};

/// Stands still where a compaction is picked, which looks how old level 0 is.
struct Slow {
    clock: Arc<SimClock>,
    armed: AtomicBool,
    picking: Barrier,
    go_on: Barrier,
}

impl Clock for Slow {
    fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }
    fn wall_millis(&self) -> u64 {
        if self.armed.swap(false, Ordering::SeqCst) {
            self.picking.wait();
            self.go_on.wait();
        }
        self.clock.wall_millis()
    }
}

/// Two threads that look for work at the same time start no more compactions than the lane is wide.
#[test]
fn no_more_compactions_are_started_than_there_are_places() {
    let steps = Arc::new(Steps::with_width(1, 1));
    let clock = steps.clock();
    let world = Simulation { disk: MemFs::simulated(), steps, clock: Arc::clone(&clock) };
    let slow = Arc::new(Slow {
        clock,
        armed: AtomicBool::new(false),
        picking: Barrier::new(2),
        go_on: Barrier::new(2),
    });
    let env = Env { clock: Arc::<Slow>::clone(&slow), ..world.env() };
    let options = DatabaseOptions { l0_tables_trigger: 2, ..DatabaseOptions::default() };
    let db = Database::builder("/db").options(options).env(env).open().expect("opened");
    // Two keyspaces, each with work once level 0 has rested.
    for _ in 0..2 {
        for name in ["one", "two"] {
            let keyspace = db.keyspace(name, KeyspaceOptions::default()).expect("created");
            keyspace.put("key", "value").expect("put");
        }
        db.flush().expect("flushed");
    }
    let compactions = || world.steps.jobs().iter().filter(|job| job.name == "compaction").count();
    assert_eq!(compactions(), 0, "level 0 has not rested");
    world.clock.advance(Duration::from_secs(10));

    let core = Arc::clone(db.core());
    slow.armed.store(true, Ordering::SeqCst);
    let look = || {
        let core = Arc::clone(&core);
        std::thread::spawn(move || core.jobs.start_compactions())
    };
    let first = look();
    slow.picking.wait();
    let second = look();
    // By now it has seen that there is a place.
    std::thread::sleep(Duration::from_millis(50));
    slow.go_on.wait();
    first.join().expect("no panic");
    second.join().expect("no panic");
    assert_eq!(compactions(), 1);
    db.wait_for_compactions().expect("nothing fails");
    let tables =
        |keyspace: &crate::metrics::KeyspaceMetrics| keyspace.levels.iter().map(|l| l.tables).sum();
    assert_eq!(db.metrics().keyspaces.iter().map(tables).collect::<Vec<u64>>(), [1, 1]);
}

/// Tables that were there before are opened in the background, level 0 first, as long as that takes little memory.
#[test]
fn tables_are_opened_after_the_database() {
    let disk = MemFs::simulated();
    let open = |cache_bytes| {
        // A closed database has stopped its world.
        let world = Simulation::on(disk.clone(), 1);
        let options = DatabaseOptions { cache_bytes, ..DatabaseOptions::default() };
        let builder = Database::builder("/db").options(options).env(world.env());
        (builder.open().expect("opened"), world)
    };
    let (db, _world) = open(0);
    let one = db.keyspace("one", KeyspaceOptions::default()).expect("created");
    for n in 0..4u32 {
        one.put(n.to_be_bytes(), "value").expect("put");
        db.flush().expect("flushed");
    }
    one.compact_range::<&[u8]>(..).expect("merged");
    one.put("key", "value").expect("put");
    drop(one);
    db.close().expect("closed");

    // How many tables of each level are open once every job has nothing more to do.
    let opened = |cache_bytes| {
        let (db, world) = open(cache_bytes);
        let mut opened = [(0, 0); 2];
        while world.steps.step().is_some() {}
        let version = db.core().versions.current();
        for (level, table) in version.keyspaces().iter().flat_map(|keyspace| keyspace.tree.tables()) {
            let (all, open) = &mut opened[usize::from(level > 0)];
            *all += 1;
            *open += usize::from(table.opened().is_some());
        }
        db.close().expect("closed");
        opened
    };
    assert_eq!(opened(256 << 20), [(1, 1), (4, 4)]);
    assert_eq!(opened(4), [(1, 1), (4, 0)], "a byte of tables is enough for such a cache");
    assert_eq!(opened(0), [(1, 0), (4, 0)]);
}
