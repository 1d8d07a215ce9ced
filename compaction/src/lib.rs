//! Floor 4 of the `esker` storage engine: when and how to merge.
//!
//! Deciding and doing are apart. The pickers are pure functions of a tree's shape: [`pick`](pick::pick)
//! says what to do next by itself, [`plan_range`] what to do next for a caller's
//! range, and a [`Plan`] says what, where to, and why. A [`MergeRun`] does it, in resumable steps, and
//! flushes are merge runs too. Nobody here starts threads, takes locks or keeps state between calls but
//! [`Busy`], which the caller holds.
//!
//! | file | concept |
//! |---|---|
//! | [`settings`] | what can be set |
//! | [`score`](mod@score) | how full each level is; targets; how much is to be read |
//! | [`sublevels`] | level 0 taken apart |
//! | [`busy`] | what running jobs use |
//! | [`pick`](mod@pick), [`range`] | what to do next |
//! | [`plan`] | a decision, and its reason |
//! | [`run`] | doing it |
//! | [`subcompaction`] | doing it in parts |
//! | [`drop_rules`], [`below`], `versions`, `fold` | what is dropped on the way |
//! | [`outputs`] | where tables are cut |
//! | [`blobs`], [`collect`] | values in blob files: what becomes of them, and when they are written anew |
//! | `readback` | proof of what was written |
//! | [`level_cursor`] | the tables of a level as one cursor |
//! | [`simulate`] | the schedule on paper, without I/O |
//!
//! This crate is an inner floor of the package `esker`; it promises no semver of its own.
#![forbid(unsafe_code)]

pub mod below;
pub mod blobs;
pub mod busy;
pub mod collect;
pub mod drop_rules;
mod fold;
pub mod level_cursor;
pub mod outputs;
pub mod pick;
pub mod plan;
pub mod range;
mod readback;
pub mod run;
#[cfg(test)]
mod schedule_tests;
pub mod score;
pub mod settings;
pub mod simulate;
pub mod subcompaction;
pub mod sublevels;
#[cfg(test)]
mod testing;
mod versions;

pub use below::Below;
pub use blobs::{BlobRules, MakeBlobWriter};
pub use busy::{Busy, JobId};
pub use level_cursor::LevelCursor;
pub use outputs::{Cut, MakeWriter};
pub use pick::{Candidate, pick, pick_among};
pub use plan::{Plan, Reason};
pub use range::{RangeRequest, RangeStep, plan_range};
pub use run::{MergeRun, RemoveFile, RunInput, RunOutput, RunSource};
pub use score::{Score, base_level, score};
pub use settings::{Load, Settings};
pub use subcompaction::Part;
pub use sublevels::{Sublevels, flush_cut};
pub use versions::Dropped;
