//! Floor 1 of the `esker` storage engine: what the outside world does.
//!
//! The engine meets the world through three seams, bundled in an [`Env`]: a filesystem ([`fs::Fs`]),
//! a clock ([`clock::Clock`]) and a scheduler ([`scheduler::Scheduler`]). Each has a real and a
//! simulated side, and the engine above is the same code on both: what is tested, taught and measured
//! is what ships.
//!
//! | seam | production | simulation |
//! |---|---|---|
//! | files, [`fs`] | [`os::OsFs`]: the system's, links refused, short calls hidden | [`mem::MemFs::simulated`]: a disk that knows what is durable, and the crashes it could have |
//! | time, [`clock`] | [`clock::OsClock`] | [`clock::SimClock`]: moves when told |
//! | background work, [`scheduler`] | [`scheduler::threads::Threads`]: a few threads, no polling | [`scheduler::steps::Steps`]: the caller runs steps, picked by seed |
//!
//! Beside them stand [`mem::MemFs::new`], files in memory that are simply durable, [`fault::FaultFs`],
//! which makes any filesystem fail as planned, and [`believed::Believed`], through which an open database
//! sees its own directory.
//!
//! # Which seam answers which question
//!
//! - *What would a kill or a power cut leave?* Run the workload once on [`Env::simulated`], then open what
//!   [`mem::MemFs::sweep`] finds at each call: under each [`mem::Policy`], or for each subset of
//!   [`mem::CrashPoint::selections`]. An image is a disk of its own and may crash again, so crashes during
//!   recovery come the same way.
//! - *What if this call fails?* Wrap the disk in [`fault::FaultFs::over`], count the calls of a run, and
//!   plan a [`fault::Fault`] for each.
//! - *What if the disk is full, or lies about syncs?* [`mem::MemFs::set_capacity`],
//!   [`mem::MemFs::set_sync_lies`].
//! - *Is the run repeatable?* [`mem::MemFs::trace_hash`] and [`scheduler::steps::Steps::trace_hash`] are
//!   equal for equal seeds and calls.
//! - *Does anything wait for ever?* In step mode such a wait panics and names the jobs.
//! - *What happens next?* A lesson calls [`scheduler::steps::Steps::step`] and looks at
//!   [`scheduler::steps::Steps::jobs`] and [`mem::MemFs::describe_call`].
//!
//! ```
//! use esker_vfs::Env;
//! use esker_vfs::fs::replace;
//! use esker_vfs::mem::Policy;
//!
//! let (env, world) = Env::simulated(42);
//! replace(&*env.fs, "/".as_ref(), "CURRENT", "000001.tmp", b"1")?;
//! let settled = world.disk.trace_len();
//! replace(&*env.fs, "/".as_ref(), "CURRENT", "000002.tmp", b"2")?;
//! for point in world.disk.sweep().skip(settled) {
//!     for policy in Policy::ALL {
//!         let after = point.image(policy, 7);
//!         let current = esker_vfs::fs::read_all(&after, "CURRENT".as_ref(), 1)?;
//!         assert!(current == b"1" || current == b"2");
//!     }
//! }
//! # Ok::<(), esker_base::Error>(())
//! ```
//!
//! # Tests
//!
//! `tests/toy.rs` is the proof of the scheduling seam, `tests/agreement.rs` that of the filesystems,
//! `tests/crash.rs` states what each policy promises. Images a second:
//! `cargo test -p esker-vfs --release --test crash -- --ignored --nocapture`. Windows and macOS are
//! meant to compile; only Linux is tested.
//!
//! This crate is an inner floor of the package `esker`; it promises no semver of its own.

pub mod believed;
pub mod clock;
pub mod fault;
pub mod fs;
pub mod mem;
pub mod open_files;
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

impl std::fmt::Debug for Env {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Env").finish_non_exhaustive()
    }
}

impl Env {
    /// The operating system's files and clock, and threads: one for flushes, `compaction_threads`
    /// (at least 1) for compactions, one that removes files, one for upkeep. Errs if the threads cannot be started.
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
