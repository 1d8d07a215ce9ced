//! Floor 2 of the `esker` storage engine: sorted entries in a file.
//!
//! A table is written once, front to back ([`TableWriter`]), and never changed. It is read through
//! [`TableReader`]: single keys with [`TableReader::get_with`], runs of keys with a [`TableCursor`]. Blocks
//! come from a [`BlockCache`] or from a mapping of the file ([`TableSource`]). The bytes are described in
//! [the format](mod@format).
//!
//! | file | holds |
//! |---|---|
//! | `block`, `block/*` | one data block: layout, encoding, search, walking |
//! | `stored`, `compression` | how any block lies in the file: compression, checksum, limits |
//! | `index` | which block holds a key |
//! | `filter` | which keys are surely absent |
//! | `tombstones`, `properties`, `footer` | the other parts of a table |
//! | `writer`, `output`, `totals` | building a table and describing it |
//! | `blob`, `blob/*` | values in files of their own: writing, reading, walking, showing |
//! | `source`, `cache`, `reader`, `cursor` | reading it |
//! | `verify`, `salvage`, `inspect` | checking, rescuing and showing it |
//!
//! This crate is an inner floor of the package `esker`; it promises no semver of its own.
#![forbid(unsafe_code)]
#![deny(clippy::indexing_slicing, clippy::cast_possible_truncation)]
#![cfg_attr(test, allow(clippy::indexing_slicing, clippy::cast_possible_truncation))]

mod blob;
mod block;
mod cache;
mod compression;
mod cursor;
mod filter;
mod footer;
mod index;
mod inspect;
mod options;
mod output;
mod pages;
mod properties;
mod reader;
mod salvage;
mod source;
mod stored;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod tombstones;
mod totals;
mod verify;
mod warm;
mod writer;

#[doc = include_str!("../FORMAT.md")]
pub mod format {
    pub use esker_base::format::{BLOB_MAGIC, BLOB_VERSION, TABLE_MAGIC, TABLE_VERSION};
}

pub use blob::{BlobInspection, BlobReader, BlobWalk, BlobWriter, inspect_blob};
pub use block::RowRun;
pub use cache::{BlockCache, CacheStats};
pub use cursor::{CursorOptions, TableCursor};

pub use index::Near;
pub use inspect::{Field, Inspection, Verdict, inspect};
pub use options::{Compression, TableIdentity, TableOptions};
pub use reader::{EntryRef, TableContext, TableEntry, TableReader};
pub use source::TableSource;
pub use writer::TableWriter;
