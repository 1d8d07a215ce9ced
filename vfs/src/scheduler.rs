//! The scheduler seam: background work is a set of resumable steps.
//!
//! A [`Job`] is handed over once and its `step` is called until it says [`Progress::Done`]. In
//! production a few threads do that ([`threads`]); in step mode the calling thread does, between
//! foreground calls and whenever a foreground call has to wait ([`steps`]). The engine above cannot
//! tell which: the same code runs on both, and that is what makes a run with a seed repeatable.
//!
//! Rules:
//! 1. One job's steps never run at the same time; jobs of different lanes may.
//! 2. A job holds no lock between steps, and a step does a bounded amount of work (at most some hundred
//!    KiB of merging, or one file operation).
//! 3. A step that panics ends its job: the scheduler drops it and calls [`Job::panicked`].
//! 4. Nobody who holds a lock that a job may want calls [`Scheduler::wait`] or
//!    [`Scheduler::breathe`].

mod contain;
mod seam;
pub mod steps;
pub mod threads;

#[cfg(test)]
mod tests;

pub use seam::{Job, Lane, Progress, Scheduler};
