//! Floor 1 of the `esker` storage engine: what the outside world does.
//!
//! The engine meets the world through three seams, bundled in an [`Env`]: a filesystem ([`fs::Fs`]),
//! a clock ([`clock::Clock`]) and a scheduler ([`scheduler::Scheduler`]). Each has a real and a
//! simulated side, and the engine above is the same code on both: what is tested, taught and measured
//! is what ships.
//!
//! This crate is an inner floor of the package `esker`; it promises no semver of its own.

pub mod clock;
pub mod fault;
pub mod fs;
pub mod mem;
pub mod os;
pub mod scheduler;
pub mod sim;
mod trace;

use std::sync::Arc;

use esker_base::Result;

/// The world a database lives in. Cheap to clone.
#[derive(Clone)]
pub struct Env {
    /// Files.
    pub fs: Arc<dyn fs::Fs>,
    /// Time.
    pub clock: Arc<dyn clock::Clock>,
    /// Background work.
    pub scheduler: Arc<dyn scheduler::Scheduler>,
}

impl Env {
    /// The operating system's files and clock, and threads: one for flushes, `compaction_threads`
    /// (at least 1) for compactions, one for upkeep. Errs if the threads cannot be started.
    pub fn os(compaction_threads: usize) -> Result<Env> {
        Ok(Env {
            fs: Arc::new(os::OsFs::new()),
            clock: Arc::new(clock::OsClock::new()),
            scheduler: Arc::new(scheduler::threads::Threads::new(compaction_threads)?),
        })
    }

    /// Files in memory, gone with the last handle; the operating system's clock; threads as
    /// [`Env::os`] has them, with one for compactions.
    pub fn memory() -> Result<Env> {
        Ok(Env {
            fs: Arc::new(mem::MemFs::new()),
            clock: Arc::new(clock::OsClock::new()),
            scheduler: Arc::new(scheduler::threads::Threads::new(1)?),
        })
    }

    /// A simulated disk, clock and scheduler, and the handles to drive them; runs with the same seed
    /// and the same calls are equal.
    pub fn simulated(seed: u64) -> (Env, sim::Simulation) {
        let world = sim::Simulation::new(seed);
        (world.env(), world)
    }
}
