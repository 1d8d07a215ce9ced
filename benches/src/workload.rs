//! Workloads: one kind of operation at a time on the engine, measured from outside.
//!
//! [`run`] creates a database, fills it if the workload needs rows, measures, and reports rates,
//! latencies and, from the engine's own counters, what each byte and each read cost ([`Figures`]).
//!
//! ```
//! use esker_bench::workload::{Silent, Workload, WorkloadOptions, run};
//!
//! let dir = tempfile::tempdir()?;
//! let options = WorkloadOptions { rows: 1_000, ..WorkloadOptions::new(Workload::Get, dir.path()) };
//! let figures = run(&options, &mut Silent)?;
//! assert_eq!(figures.operations, 1_000);
//! println!("{:.0} gets a second, p99 {} ns", figures.per_second, figures.latencies[0].p99_nanos);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Rules of measuring
//!
//! - Keys are 16 decimal digits, values half compressible. What is put in which order follows from the
//!   seed alone; each thread draws from a generator of its own.
//! - The loop is closed: a thread starts an operation when its last one has returned. A latency is
//!   therefore that of the call, not that of a request that had to queue behind it.
//! - The call is timed, and in it the check of its answer, since the store lends it no longer. Keys and values
//!   are made outside. All that, checks and reading the clock is the harness's own cost: it is measured on
//!   a store that keeps nothing and gives the right answers, and stated.
//! - Every answer is checked: a get that finds the wrong value ends the run.
//! - Workloads that write are settled afterwards (flush, then every compaction that is due), so that
//!   their write amplification counts all that they caused.

mod drive;
mod figures;
mod keys;
mod options;
mod run;
mod store;
mod values;
mod worker;

#[cfg(test)]
mod tests;

use std::path::PathBuf;

pub use figures::{
    Figures, Latency, LevelFigures, ReadFigures, Settings, SpaceFigures, Stalls, WriteFigures,
};
pub use keys::KEY_BYTES;
pub use options::{Order, Workload, WorkloadOptions};
pub use run::run;

/// Why a workload stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// An option is out of bounds. Nothing was created.
    #[error("{0}")]
    BadOption(String),
    /// The directory is in use. Nothing was changed.
    #[error("{} is not empty: a workload measures a database of its own; name a new or an empty directory", .0.display())]
    NotEmpty(PathBuf),
    /// The directory could not be looked at.
    #[error("cannot list {}: {source}", dir.display())]
    Directory {
        /// The directory.
        dir: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The engine failed.
    #[error("{doing}: {source}")]
    Engine {
        /// What the workload was doing.
        doing: &'static str,
        /// What failed.
        source: esker::Error,
    },
    /// The engine gave a wrong answer.
    #[error("wrong answer from the engine: {0}")]
    WrongAnswer(String),
}

/// The result of a workload.
pub type Result<T, E = WorkloadError> = std::result::Result<T, E>;

/// Hears how far a workload has come. Called from the thread that called [`run`].
pub trait Progress {
    /// A phase begins: `what` it does, and how many rows it will pass (0: not known).
    fn begin(&mut self, what: &str, total: u64);
    /// `done` rows have been passed.
    fn at(&mut self, done: u64);
    /// The phase is over.
    fn end(&mut self);
}

/// Shows no progress.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn begin(&mut self, _what: &str, _total: u64) {}
    fn at(&mut self, _done: u64) {}
    fn end(&mut self) {}
}
