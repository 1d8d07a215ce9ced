//! Floor 3 of the `esker` storage engine: which files make the tree.
//!
//! The state of a database is a set of tables, ordered into a [`Tree`] for each keyspace, and a few marks
//! about its logs. It changes only by *commits*: lists of [`Edit`]s that take effect together. Every commit
//! is a record in the manifest and a new immutable [`Version`]; readers hold versions and never wait.
//!
//! | file | concept |
//! |---|---|
//! | [`edit`] | a change, and its bytes |
//! | [`table_handle`] | a table somebody may read: opened late, removed when nobody can |
//! | [`blob_handle`] | a blob file that tables refer to, likewise |
//! | `tree_file` | what both have in common: their file is opened late, and removed after its last reader |
//! | [`sorted_run`], [`level`], [`tree`], [`version`] | tables in the order a lookup wants them |
//! | `state` | the rules: which edit fits which state |
//! | [`current_file`], `manifest_file` | the two kinds of file, written |
//! | [`recovery`] | the same files, read |
//! | [`checkpoint`] | a version as a database of its own |
//! | [`inspect`](mod@inspect) | the same files, shown to a person |
//! | [`version_set`] | the version in force, commits, file numbers |
//!
//! This crate is an inner floor of the package `esker`; it promises no semver of its own.
//!
#![doc = include_str!("../FORMAT.md")]
#![forbid(unsafe_code)]
#![deny(clippy::indexing_slicing, clippy::cast_possible_truncation)]
#![cfg_attr(test, allow(clippy::indexing_slicing, clippy::cast_possible_truncation))]

pub mod blob_handle;
pub mod checkpoint;
pub mod current_file;
mod directory;
pub mod edit;
pub mod inspect;
pub mod level;
pub mod limits;
mod manifest_file;
pub mod recovery;
pub mod sorted_run;
mod state;
pub mod table_handle;
#[cfg(test)]
mod testing;
pub mod tree;
mod tree_file;
pub mod version;
pub mod version_set;

pub use blob_handle::BlobHandle;
pub use checkpoint::write_checkpoint;
pub use edit::Edit;
pub use inspect::inspect;
pub use level::Level;
pub use limits::LEVELS;
pub use recovery::Recovered;
pub use sorted_run::SortedRun;
pub use table_handle::TableHandle;
pub use tree::{BlobUse, Tree};
pub use version::{KeyspaceState, Marks, Version};
pub use version_set::VersionSet;
