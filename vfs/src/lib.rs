//! Floor 1 of the `esker` storage engine: what the outside world does.
//!
//! The engine meets the world through three seams, bundled in an [`Env`]: a filesystem ([`fs::Fs`]),
//! a clock ([`clock::Clock`]) and a scheduler ([`scheduler::Scheduler`]). Each has a real and a
//! simulated side, and the engine above is the same code on both: what is tested, taught and measured
//! is what ships.
//!
//! This crate is an inner floor of the package `esker`; it promises no semver of its own.

pub mod clock;
pub mod fs;
pub mod scheduler;

use std::sync::Arc;

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
