//! Floor 0 of the `esker` storage engine: what a key, an entry, an error is.
//!
//! Most of it is plain data or a contract that more than one floor above speaks: keys and
//! sequence numbers ([`key`]), the cursor contract ([`cursor`]), errors ([`error`]), what a call costs
//! ([`cost`]), checked byte coding ([`coding`]) and checksums ([`checksum`]), file names, limits and
//! format versions. Besides, the merge of cursors ([`merge`]), event counts ([`event_count`]), and locks and threads by the names
//! that model checkers replace ([`sync`]). Nothing here does I/O.
//!
//! This crate is an inner floor of the package `esker`; it promises no semver of its own.
#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]

pub mod blob;
pub mod bounds;
mod catch_panic;
pub mod checksum;
pub mod coding;
pub mod cost;
pub mod cursor;
pub mod error;
pub mod event;
pub mod event_count;
pub mod filename;
pub mod format;
pub mod inspect;
pub mod key;
pub mod ledger;
pub mod limits;
pub mod memory;
pub mod merge;
pub mod merge_operator;
pub mod planted;
pub mod range_tombstone;
pub mod sync;
pub mod table_meta;

pub use catch_panic::catch_panic;
pub use cost::OpCost;
pub use cursor::Cursor;
pub use error::{Error, Result};
pub use key::{DatabaseId, FileNumber, InternalKey, KeyspaceId, Kind, SeqNo};
pub use merge_operator::MergeOperator;
