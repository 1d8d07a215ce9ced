//! What compactions do where a disk is nearly full.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use esker::event::Event;
use esker::vfs::fs::Fs;
use esker::vfs::sim::Simulation;
use esker::{Database, DatabaseOptions, Keyspace, KeyspaceOptions};

const ROWS: u32 = 10_000;

struct World {
    sim: Simulation,
    db: Database,
    map: Keyspace,
    /// How often a compaction has failed.
    failures: Arc<AtomicUsize>,
}

impl World {
    /// Some 4 MB in tables of 64 KiB, half of them versions that nobody sees any more, and space for `free` bytes more.
    fn of_garbage(free: u64) -> World {
        let options = DatabaseOptions {
            table_bytes: 64 << 10,
            memtable_bytes_max: 8 << 20,
            ..DatabaseOptions::default()
        };
        let sim = Simulation::new(1);
        let failures = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&failures);
        let listener = move |event: &Event| {
            if matches!(event, Event::JobFailed { job: "compaction", .. }) {
                count.fetch_add(1, Ordering::SeqCst);
            }
        };
        let builder = Database::builder("/db").options(options).env(sim.env());
        let db = builder.listener(Arc::new(listener)).open().expect("opened");
        let map = db.keyspace("map", KeyspaceOptions::default()).expect("created");
        let write = |value: u8| {
            for row in 0..ROWS {
                map.put(row.to_be_bytes(), [value; 200]).expect("put");
            }
            db.flush().expect("flushed");
        };
        write(1);
        let snapshot = db.snapshot();
        write(2);
        map.compact_range::<&[u8]>(..).expect("compacted");
        db.wait_for_compactions().expect("settled");
        let world = World { sim, db, map, failures };
        assert_eq!(world.entries(), 2 * u64::from(ROWS), "the snapshot sees both");
        world.set_free(free);
        drop(snapshot);
        world
    }

    fn set_free(&self, bytes: u64) {
        const ALL: u64 = 1 << 40;
        self.sim.disk.set_capacity(Some(ALL));
        let free = self.sim.disk.free_space(Path::new("/")).expect("asked").expect("there is a bound");
        self.sim.disk.set_capacity(Some(ALL - free + bytes));
    }

    fn entries(&self) -> u64 {
        self.db.metrics().keyspaces[0].levels.iter().map(|level| level.entries).sum()
    }

    /// `seconds` pass; how many compactions have failed.
    fn pass(&self, seconds: u32) -> usize {
        for _ in 0..seconds {
            self.sim.clock.advance(Duration::from_secs(1));
            self.sim.steps.settle();
        }
        self.failures.swap(0, Ordering::SeqCst)
    }
}

/// A full disk is not filled again and again for what nobody waits for, and whoever waits for compactions does not wait for it.
#[test]
fn to_clean_up_is_put_off_where_there_is_no_space_for_it() {
    let world = World::of_garbage(0);
    let failures = world.pass(60);
    assert!((2..=10).contains(&failures), "{failures}");
    assert_eq!(world.pass(600), 0, "it is left alone");
    world.db.wait_for_compactions().expect("there is nothing to be done");
    assert_eq!(world.entries(), 2 * u64::from(ROWS));
    // Until the tree is another.
    world.sim.disk.set_capacity(None);
    world.map.put("another", "row").expect("put");
    world.db.flush().expect("flushed");
    world.db.wait_for_compactions().expect("settled");
    assert_eq!((world.entries(), world.pass(0)), (u64::from(ROWS) + 1, 0));
}

/// Where there is space for small jobs only, small jobs do it.
#[test]
fn jobs_get_as_small_as_there_is_space_for() {
    let world = World::of_garbage(300 << 10);
    let failures = world.pass(60);
    assert!((1..=20).contains(&failures), "{failures}");
    assert_eq!(world.entries(), u64::from(ROWS));
}
