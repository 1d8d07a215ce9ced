//! What the scenarios share: a disk, databases on it, and what was acknowledged.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use esker::event::Event;
use esker::vfs::Env;
use esker::vfs::clock::SimClock;
use esker::vfs::fault::FaultFs;
use esker::vfs::fs::Fs;
use esker::vfs::mem::{MemFs, Policy};
use esker::vfs::scheduler::steps::Steps;
use esker::vfs::scheduler::threads::Threads;
use esker::{Database, DatabaseOptions, Durability, Keyspace, KeyspaceOptions, LogWrites};
use shuttle::rand::RngCore as _;

/// What the schedules went through, over all of them.
#[derive(Debug)]
pub struct Tally {
    /// Memtables sealed.
    pub sealed: AtomicU64,
    /// Flushes.
    pub flushes: AtomicU64,
    /// Compactions.
    pub compactions: AtomicU64,
    /// Commits refused because of a conflict.
    pub conflicts: AtomicU64,
    /// Steps from one place where threads may switch to the next.
    pub steps: AtomicU64,
    /// Disks as power loss would have left them, opened and compared.
    pub images: AtomicU64,
}

impl Tally {
    /// The one there is.
    pub fn get() -> &'static Tally {
        static TALLY: Tally = Tally {
            sealed: AtomicU64::new(0),
            flushes: AtomicU64::new(0),
            compactions: AtomicU64::new(0),
            conflicts: AtomicU64::new(0),
            steps: AtomicU64::new(0),
            images: AtomicU64::new(0),
        };
        &TALLY
    }
}

/// One more.
pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// A number below `end`, drawn by the schedule.
pub(super) fn draw(end: usize) -> usize {
    let drawn = usize::try_from(shuttle::rand::thread_rng().next_u32()).expect("wide enough");
    drawn % end
}

/// A disk, and what stands between it and a database.
pub(super) struct World {
    pub(super) disk: MemFs,
    /// What the database meets instead of the disk, if something is to fail.
    faults: Option<FaultFs>,
    clock: Arc<SimClock>,
}

/// Where the database is.
const DIR: &str = "/db";

impl World {
    pub(super) fn new() -> World {
        World { disk: MemFs::simulated(), faults: None, clock: Arc::new(SimClock::new()) }
    }

    /// A world in which the calls fail that the other value is told of.
    pub(super) fn failing() -> (World, FaultFs) {
        let world = World::new();
        let faults = FaultFs::over(&world.disk, world.clock.clone());
        (World { faults: Some(faults.clone()), ..world }, faults)
    }

    /// The database on this disk, with the threads that production has, and its keyspace.
    pub(super) fn open(&self, options: DatabaseOptions) -> (Database, Keyspace) {
        let scheduler = Arc::new(Threads::new(1).expect("threads"));
        let fs: Arc<dyn Fs> = match &self.faults {
            Some(faults) => Arc::new(faults.clone()),
            None => Arc::new(self.disk.clone()),
        };
        let env = Env { fs, clock: self.clock.clone(), scheduler };
        let listener = |event: &Event| match event {
            Event::MemtableSealed { .. } => count(&Tally::get().sealed),
            Event::Flushed { .. } => count(&Tally::get().flushes),
            Event::Compacted { .. } => count(&Tally::get().compactions),
            _ => {}
        };
        let builder = Database::builder(DIR).options(options).env(env).listener(Arc::new(listener));
        let db = builder.open().expect("opens");
        let keyspace = db.keyspace("k", small_blocks()).expect("is made");
        (db, keyspace)
    }

    /// What power loss after `calls` calls leaves of the keyspace, if only what was synced is there.
    pub(super) fn after_power_loss(&self, calls: usize) -> Rows {
        count(&Tally::get().images);
        Rows::on(self.disk.image_at(calls, Policy::Strict, 0), DIR)
    }

    /// What is in the files now.
    pub(super) fn now(&self) -> Rows {
        self.now_in(DIR)
    }

    /// What is in the files of directory `dir` now.
    pub(super) fn now_in(&self, dir: &str) -> Rows {
        Rows::on(self.disk.clone(), dir)
    }
}

/// Blocks of a few rows.
pub(super) fn small_blocks() -> KeyspaceOptions {
    KeyspaceOptions { block_bytes: 256, ..KeyspaceOptions::default() }
}

/// Settings under which a handful of writes fills memtables of `memtable_bytes_max` and levels.
pub(super) fn small(durability: Durability, memtable_bytes_max: u64) -> DatabaseOptions {
    DatabaseOptions {
        durability,
        // What this adds to calls is one more thread.
        log_writes: LogWrites::Mapped,
        memtable_bytes_max,
        sealed_memtables_max: 1,
        cache_bytes: 2 << 10,
        l0_tables_trigger: 1,
        l0_tables_slowdown: 2,
        l0_tables_stop: 3,
        level_base_bytes: Some(1 << 10),
        level_fanout: 2,
        table_bytes: 1 << 10,
        ..DatabaseOptions::default()
    }
}

/// The rows of a keyspace.
pub(super) struct Rows(Vec<(String, u64)>);

impl Rows {
    /// Read them from the files on `disk`, changing nothing.
    fn on(disk: MemFs, dir: &str) -> Rows {
        let scheduler = Arc::new(Steps::new(0));
        let env = Env { fs: Arc::new(disk), clock: scheduler.clock(), scheduler };
        let db = Database::builder(dir).read_only(true).env(env).open().expect("opens");
        let keyspace = db.existing_keyspace("k").expect("is there");
        Rows::of(keyspace.iter())
    }

    /// Those of a scan.
    pub(super) fn of(scan: esker::Scan) -> Rows {
        Rows(scan.map(Self::row).collect())
    }

    /// The same, read from the other end.
    pub(super) fn of_reverse(scan: esker::Scan) -> Rows {
        Rows(scan.rev().map(Self::row).collect())
    }

    fn row(row: esker::Result<(esker::Key, esker::Value)>) -> (String, u64) {
        let (key, value) = row.expect("is read");
        (String::from_utf8_lossy(&key).into_owned(), number(&value))
    }

    /// The number under `key`; 0 if there is none.
    pub(super) fn get(&self, key: &str) -> u64 {
        self.0.iter().find(|(is, _)| is == key).map_or(0, |(_, number)| *number)
    }

    /// All numbers.
    pub(super) fn numbers(&self) -> Vec<u64> {
        self.0.iter().map(|(_, number)| *number).collect()
    }
}

/// The number a value begins with.
pub(super) fn number(value: &[u8]) -> u64 {
    let (number, _) = value.split_first_chunk().expect("values begin with a number");
    u64::from_be_bytes(*number)
}

/// A value that begins with `number` and is `bytes` long.
pub(super) fn value(number: u64, bytes: usize) -> Vec<u8> {
    let mut value = number.to_be_bytes().to_vec();
    value.resize(bytes.max(8), b'.');
    value
}

/// Writers that count up, each under keys of its own, and how far each has come.
#[derive(Default)]
pub(super) struct Counts(Mutex<Vec<(usize, Vec<u64>)>>, Vec<AtomicU64>);

impl Counts {
    pub(super) fn of(writers: usize) -> Arc<Counts> {
        Arc::new(Counts(Mutex::default(), (0..writers).map(|_| AtomicU64::new(0)).collect()))
    }

    /// The last number of each writer that was acknowledged.
    pub(super) fn acknowledged(&self) -> Vec<u64> {
        self.1.iter().map(|last| last.load(Ordering::SeqCst)).collect()
    }

    /// `number` of `writer` was acknowledged.
    pub(super) fn acknowledge(&self, writer: usize, number: u64) {
        self.1[writer].store(number, Ordering::SeqCst);
    }

    /// What is acknowledged in `promised` is durable when the disk has seen `calls` calls.
    pub(super) fn promise(&self, calls: usize, promised: Vec<u64>) {
        self.0.lock().expect("nobody panicked").push((calls, promised));
    }

    /// Let the power fail at one of the moments at which something was promised.
    pub(super) fn check_promises(&self, world: &World) {
        let promises = std::mem::take(&mut *self.0.lock().expect("nobody panicked"));
        if promises.is_empty() {
            return;
        }
        let (calls, promised) = &promises[draw(promises.len())];
        check_pairs(&world.after_power_loss(*calls), promised);
    }
}

/// Both keys of each writer hold the same number, and none below `floor`. Returns the numbers.
pub(super) fn check_pairs(rows: &Rows, floor: &[u64]) -> Vec<u64> {
    let pair = |writer: usize| {
        let (one, other) = (rows.get(&format!("a{writer}")), rows.get(&format!("b{writer}")));
        assert_eq!(one, other, "half a batch of writer {writer}");
        assert!(one >= floor[writer], "writer {writer}: {one} is there, {} was promised", floor[writer]);
        one
    };
    (0..floor.len()).map(pair).collect()
}

/// Write `number` under both keys of `writer`.
pub(super) fn put_pair(
    db: &Database,
    keyspace: &Keyspace,
    writer: usize,
    number: u64,
    bytes: usize,
) -> esker::Result<()> {
    let mut batch = db.batch();
    batch.put(keyspace, format!("a{writer}"), value(number, bytes))?;
    batch.put(keyspace, format!("b{writer}"), value(number, bytes))?;
    batch.commit()
}
