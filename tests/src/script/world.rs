//! The databases that scripts run in: sizes, formats and background work, drawn by seed or chosen.

use std::path::Path;
use std::sync::Arc;

use esker::{
    Compression, Database, DatabaseOptions, Durability, KeyspaceOptions, LogWrites, Result, TableSource,
};
use esker_base::event::Event;
use esker_vfs::Env;
use esker_vfs::clock::OsClock;
use esker_vfs::fs::Fs;
use esker_vfs::mem::MemFs;
use esker_vfs::scheduler::threads::Threads;
use esker_vfs::sim::Simulation;
use fastrand::Rng;
use parking_lot::Mutex;

use super::operator::Affine;
use super::spaces::SPACES;
use crate::determinism;
use crate::lies::LyingFs;
use crate::planted::Bug;
use crate::points::{Hits, Point};
use crate::setup::INTERVAL;

/// Where the database lies.
pub const DIR: &str = "/db";

/// Settings of a database and its keyspaces.
#[derive(Clone, Debug)]
pub struct Config {
    /// What the order of background steps follows from.
    pub seed: u64,
    /// Settings.
    pub options: DatabaseOptions,
    /// Settings of every keyspace, but for its operator.
    pub keyspaces: KeyspaceOptions,
    /// Background work on threads of its own instead of in steps.
    pub threads: bool,
    /// The bug that is planted, if one is.
    pub bug: Option<Bug>,
}

impl Config {
    /// A configuration drawn from `seed`: tiny sizes, so that flushes, compactions and rotations happen
    /// all the time.
    pub fn draw(seed: u64, threads: bool) -> Config {
        let mut random = Rng::with_seed(seed ^ 0x636f_6e66_6967);
        let mut pick = |choices: &[u64]| choices[random.usize(0..choices.len())];
        let count = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let trigger = count(pick(&[2, 3, 4]));
        let durability =
            [Durability::Os, Durability::Sync, Durability::Interval(INTERVAL), Durability::NoLog];
        let compression = [
            vec![Compression::None],
            vec![Compression::Lz4],
            vec![Compression::None, Compression::None, Compression::Lz4],
        ];
        let options = DatabaseOptions {
            durability: durability[count(pick(&[0, 0, 1, 2, 3]))],
            memtable_bytes_max: pick(&[14, 24, 48, 96]) << 10,
            sealed_memtables_max: count(pick(&[1, 2, 3])),
            cache_bytes: pick(&[0, 16, 64, 1024]) << 10,
            table_source: if pick(&[0, 0, 1]) == 1 { TableSource::Mapped } else { TableSource::Buffered },
            compaction_threads: count(pick(&[1, 2])),
            l0_tables_trigger: trigger,
            l0_tables_slowdown: trigger + 2,
            l0_tables_stop: trigger + 4,
            level_base_bytes: Some(pick(&[8, 32, 128]) << 10),
            level_fanout: pick(&[2, 4, 10]),
            table_bytes: pick(&[4, 16, 64]) << 10,
            dead_run: u32::try_from(pick(&[1, 2, 5, 64])).unwrap_or(1),
            log_writes: if pick(&[0, 1]) == 1 { LogWrites::Mapped } else { LogWrites::Called },
            ..DatabaseOptions::default()
        };
        let keyspaces = KeyspaceOptions {
            block_bytes: u32::try_from(pick(&[256, 512, 4096])).unwrap_or(256),
            filter_bits_per_key: u8::try_from(pick(&[0, 4, 10])).unwrap_or(0),
            compression: compression[count(pick(&[0, 1, 2]))].clone(),
            merge_operator: None,
            blob_bytes_min: u32::try_from(pick(&[0, 16, 40, 200])).unwrap_or(0),
        };
        Config { seed, options, keyspaces, threads, bug: None }
    }

    /// The options of keyspace `space`.
    pub fn of(&self, space: super::Space) -> KeyspaceOptions {
        let merge_operator = SPACES[space].1.operator().map(str::to_owned);
        KeyspaceOptions { merge_operator, ..self.keyspaces.clone() }
    }

    /// Open the database in `dir` of `disk`, for the `nth` time, and count in `hits` what happens in it.
    pub fn open(
        &self,
        disk: &MemFs,
        dir: &Path,
        nth: u64,
        read_only: bool,
        hits: &Arc<Mutex<Hits>>,
    ) -> Result<Database> {
        self.open_over(Arc::new(disk.clone()), disk, dir, nth, read_only, hits)
    }

    /// [`Config::open`], with the files of any filesystem over `disk`.
    pub fn open_over(
        &self,
        fs: Arc<dyn Fs>,
        disk: &MemFs,
        dir: &Path,
        nth: u64,
        read_only: bool,
        hits: &Arc<Mutex<Hits>>,
    ) -> Result<Database> {
        if let Some(bug) = self.bug {
            bug.plant_in_engine();
        }
        let fs = match self.bug.and_then(Bug::lie) {
            None => fs,
            Some(lie) => Arc::new(LyingFs::new(fs, lie)),
        };
        let env = if self.threads {
            let scheduler = Arc::new(Threads::new(self.options.compaction_threads)?);
            Env { fs, clock: Arc::new(OsClock::new()), scheduler }
        } else {
            let world = Simulation::on(disk.clone(), self.seed.wrapping_add(nth << 32));
            determinism::note(&world);
            world.env_over(fs)
        };
        hits.lock().count(Point::Recovery);
        let hits = Arc::clone(hits);
        let listener = move |event: &Event| match event {
            Event::MemtableSealed { .. } => hits.lock().count(Point::Rotation),
            Event::Flushed { .. } => hits.lock().count(Point::Flush),
            Event::Compacted { .. } => hits.lock().count(Point::Compaction),
            _ => {}
        };
        Database::builder(dir)
            .options(DatabaseOptions { read_only, ..self.options.clone() })
            .merge_operator(Arc::new(Affine))
            .listener(Arc::new(listener))
            .env(env)
            .open()
    }
}
