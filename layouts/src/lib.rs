//! Meaning over an ordered store: tuple keys and data layouts on the esker storage engine.
//!
//! An ordered store knows byte strings and their order, nothing else. This crate says what the bytes
//! mean:
//!
//! - [`mod@tuple`] turns typed fields into keys whose byte order is the fields' order, byte-compatible with
//!   the FoundationDB tuple layer, and turns questions ("everything under these fields", "every text
//!   that starts with…") into exact key ranges;
//! - [`kv`] is what a layout asks of a store: snapshots, ordered scans both ways, atomic commits with
//!   conflict detection, and what each call cost;
//! - [`engine`] is esker itself behind those traits, [`map`] the reference store, a multi-version
//!   `BTreeMap` in memory;
//! - [`conformance`] is the suite every store has to pass;
//! - [`followers`] keeps "who reads whom" in six layouts, from one column per friend to hashed row keys;
//! - [`wide`] is a table whose rows have any columns, in families: changes of a row are atomic, results
//!   come by ranges of columns, filtered and in pages;
//! - [`tall`] is a table of many small rows under composite keys;
//! - [`table`] is a table of typed rows with a schema, packed in one value or with a key per field;
//! - [`vector`] is a sequence of elements: in one value, a key each, or in chunks;
//! - [`hashed`] puts digests in the place of the key or of each of its fields: fixed length, collisions
//!   reported;
//! - [`salted`] spreads keys over buckets by a hash of chosen fields and merges them back in order, and
//!   changes the number of buckets under load;
//! - [`promoted`] puts an evenly spread field first and merges ranges over the main field back in order;
//! - [`indexed`] is a table with secondary indexes: unique, multi, covering and compound, kept in the
//!   same transaction, built beside writers, verified;
//! - [`namespaces`] is a directory of paths with short prefixes: renamed and removed without touching
//!   what they hold.
//!
//! A handle of a layout owns what it is opened with, a reference to a store, an `Arc` of one, or an
//! [`EngineStore`](engine::EngineStore) itself. Writes of rows, cells, elements and namespaces have a form for the
//! caller's transaction (`put_in`), and reads one that sees what was written there (`view_in`, `get_in`). Transactions
//! of their own have the [`followers`], and what works on a whole table: a new salt and the rows that are moved
//! ([`salted`]), indexes that are built, cleaned, disabled, rebuilt or dropped ([`indexed`]).
//!
//! Costs are counted by the store, below the layout; nothing here adds to a counter.
#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]

// The derives name this crate by its name, inside it, too.
#[cfg(all(test, feature = "derive"))]
extern crate self as esker_layouts;

pub mod conformance;
pub mod engine;
mod error;
pub mod followers;
pub mod hashed;
pub mod indexed;
pub mod kv;
pub mod map;
pub mod namespaces;
mod ordered_merge;
pub mod promoted;
pub mod salted;
mod scratch;
pub mod table;
pub mod tall;
#[cfg(test)]
mod testing;
pub mod tuple;
pub mod vector;
pub mod wide;

pub use error::{Error, Result};
pub use esker::OpCost;

#[doc = include_str!("../FORMAT.md")]
pub mod format {}
