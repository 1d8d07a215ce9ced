//! Which database a history runs in: durability mode, sizes, and the bug planted in it.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use esker::{Compression, Database, DatabaseOptions, Durability, KeyspaceOptions, LogWrites, Result};
use esker_base::event::Listener;
use esker_vfs::fs::Fs;
use esker_vfs::sim::Simulation;
use fastrand::Rng;

use crate::clock::Jump;
use crate::determinism;
use crate::lies::LyingFs;
use crate::planted::Bug;

/// Where the database lies on the simulated disk.
pub const DIR: &str = "/db";

/// The interval of [`Mode::Interval`].
pub const INTERVAL: Duration = Duration::from_millis(5);

/// Which durability a history has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// [`Durability::Sync`].
    Sync,
    /// [`Durability::Interval`] of [`INTERVAL`].
    Interval,
    /// [`Durability::Os`].
    Os,
    /// [`Durability::NoLog`].
    NoLog,
    /// Another one after each reopening.
    Mixed,
}

impl Mode {
    /// All of them.
    pub const ALL: [Mode; 5] = [Mode::Sync, Mode::Interval, Mode::Os, Mode::NoLog, Mode::Mixed];

    /// The durability of the `nth` open of a history.
    pub fn durability(self, nth: u64) -> Durability {
        match self {
            Mode::Sync => Durability::Sync,
            Mode::Interval => Durability::Interval(INTERVAL),
            Mode::Os => Durability::Os,
            Mode::NoLog => Durability::NoLog,
            Mode::Mixed => Mode::ALL[usize::try_from(nth % 4).expect("below 4")].durability(0),
        }
    }

    /// Whether there is a log at every time.
    pub fn always_logs(self) -> bool {
        !matches!(self, Mode::NoLog | Mode::Mixed)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Sync => "sync",
            Mode::Interval => "interval",
            Mode::Os => "os",
            Mode::NoLog => "no-log",
            Mode::Mixed => "mixed",
        })
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(name: &str) -> Result<Mode, String> {
        let found = Mode::ALL.into_iter().find(|mode| mode.to_string() == name);
        found.ok_or_else(|| format!("{name:?} is none of sync, interval, os, no-log, mixed"))
    }
}

/// How a history's databases are opened.
#[derive(Clone, Debug)]
pub struct Setup {
    /// What the history and its scheduling follow from.
    pub seed: u64,
    /// The durability.
    pub mode: Mode,
    /// Settings; the durability in them is overwritten.
    pub options: DatabaseOptions,
    /// The bug that is planted, if one is.
    pub bug: Option<Bug>,
    /// What the clock does, if it does not just go on.
    pub jump: Option<Jump>,
}

impl Setup {
    /// The setup of `seed`: tiny sizes, so that a few hundred operations meet everything.
    pub fn new(seed: u64, mode: Mode) -> Setup {
        let mut random = Rng::with_seed(seed ^ 0x7365_7475_705f_6f66);
        let mut pick = |choices: &[u64]| choices[random.usize(0..choices.len())];
        let trigger = usize::try_from(pick(&[2, 4])).expect("small");
        let options = DatabaseOptions {
            // Chunks of the memtable's arena count whole: the smallest memtable takes 8 KiB at once.
            memtable_bytes_max: pick(&[14, 24, 42]) << 10,
            sealed_memtables_max: usize::try_from(pick(&[1, 2, 3])).expect("small"),
            cache_bytes: pick(&[0, 16, 64]) << 10,
            l0_tables_trigger: trigger,
            l0_tables_slowdown: trigger + 2,
            l0_tables_stop: trigger + 4,
            level_base_bytes: Some(pick(&[8, 16]) << 10),
            level_fanout: pick(&[2, 4]),
            table_bytes: 4 << 10,
            dead_run: u32::try_from(pick(&[1, 4, 64])).expect("small"),
            log_writes: if pick(&[0, 1]) == 1 { LogWrites::Mapped } else { LogWrites::Called },
            ..DatabaseOptions::default()
        };
        Setup { seed, mode, options, bug: None, jump: None }
    }

    /// Open the database on `world`'s disk, for the `nth` time in its history.
    pub fn open(
        &self,
        world: &Simulation,
        nth: u64,
        listener: Option<Arc<dyn Listener>>,
    ) -> Result<Database> {
        self.open_over(world, world.env().fs, nth, listener)
    }

    /// [`Setup::open`] with the files of `fs`, which may be those of `world` with faults.
    pub fn open_over(
        &self,
        world: &Simulation,
        fs: Arc<dyn Fs>,
        nth: u64,
        listener: Option<Arc<dyn Listener>>,
    ) -> Result<Database> {
        if let Some(bug) = self.bug {
            bug.plant_in_engine();
        }
        determinism::note(world);
        let mut env = match self.bug.and_then(Bug::lie) {
            None => world.env_over(fs),
            Some(lie) => world.env_over(Arc::new(LyingFs::new(fs, lie))),
        };
        if let Some(jump) = &self.jump {
            env.clock = jump.over(env.clock);
        }
        let options = DatabaseOptions { durability: self.mode.durability(nth), ..self.options.clone() };
        let builder = Database::builder(Path::new(DIR)).options(options).env(env);
        match listener {
            Some(listener) => builder.listener(listener).open(),
            None => builder.open(),
        }
    }
}

/// The options of keyspace `name`.
pub fn keyspace_options(name: &str) -> KeyspaceOptions {
    let options = KeyspaceOptions { block_bytes: 512, ..KeyspaceOptions::default() };
    // Values are up to some hundred bytes long: about half of them go to blob files, but for compressed ones.
    let options = options.with_blob_bytes_min(100);
    match name {
        "lz4" => KeyspaceOptions { filter_bits_per_key: 0, ..options }.with_compression(Compression::Lz4),
        "append" => options.with_merge_operator("append").with_blob_bytes_min(40),
        "passing-2" => options.with_blob_bytes_min(0),
        _ => options,
    }
}
