//! Floor 2 of the `esker` storage engine: opaque records, in order, durable.
//!
//! A log only grows while it is in use; when nobody needs it any more, its file may be recycled as another
//! ([`LogWriter::recycle`]). One [`LogWriter`] appends to it: records are staged, then one
//! `write` hands a whole group to the file. A [`LogSyncer`], used from other threads meanwhile, makes
//! what was written durable. A [`LogReader`] reads a log back after a crash and tells a torn tail
//! (dropped, as it was never durable) from damage (an error). The manifest is a log of the same
//! format under another magic number.
//!
//! What a record holds is its owner's business: to this floor it is a 64-bit tag and bytes.
//!
//! The way of a record into the log: [`writer`] → [`record`] → file (by a write, or by a copy into mapped
//! memory; the space for both is reserved ahead by [`preallocate`]) → [`syncer`]. The way back: [`reader`],
//! over a window of the file → [`record`]. [`header`] is the start of every log, [`mod@inspect`] shows a
//! log to a person. FORMAT.md, below, is the format.
//!
//! This crate is an inner floor of the package `esker`; it promises no semver of its own.
#![doc = include_str!("../FORMAT.md")]
#![forbid(unsafe_code)]
#![deny(clippy::indexing_slicing, clippy::cast_possible_truncation)]
#![cfg_attr(test, allow(clippy::indexing_slicing, clippy::cast_possible_truncation))]

pub mod header;
pub mod inspect;
pub mod preallocate;
pub mod reader;
pub mod record;
mod scan;
pub mod syncer;
mod window;
pub mod writer;

#[cfg(test)]
mod tests;

pub use header::{LogIdentity, LogKind, Predecessor};
pub use inspect::{Field, Inspection, Verdict, inspect};
pub use preallocate::{Mapped, PreallocateTask};
pub use reader::{LogReader, Record, Tail};
pub use syncer::LogSyncer;
pub use writer::{LogWriter, WriteFailure};
