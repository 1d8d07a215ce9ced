//! `esker`: an embedded, ordered key-value engine — a log-structured merge tree written from scratch.
//!
//! A [`Database`] is a directory of keyspaces: ordered maps from byte strings to byte strings. Writes
//! are atomic over all keyspaces ([`Batch`]), snapshots see one moment of all of them ([`Snapshot`]),
//! transactions are serialisable ([`Database::transact`]). Scans go both ways, lazily ([`Scan`],
//! [`RowCursor`]). What a crash may take is chosen by [`Durability`].
//!
//! ```
//! use esker::{Database, KeyspaceOptions};
//!
//! # let dir = tempfile::tempdir()?;
//! let db = Database::open(dir.path())?;
//! let followers = db.keyspace("followers", KeyspaceOptions::default())?;
//! followers.put("olya/petya", "")?;
//! followers.put("olya/vasya", "")?;
//! let names: Vec<_> = followers.prefix("olya/").map(|row| row.map(|(key, _)| key)).collect::<Result<_, _>>()?;
//! assert_eq!(names, ["olya/petya", "olya/vasya"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How the code reads
//!
//! - A put: [`keyspace`](Keyspace) → `batch` → `commit` → `commit::queue` → `commit::group` → the log (`esker-wal`) → `memtable` →
//!   `jobs::flush` → `esker-compaction` → `esker-sstable` → `esker-manifest`.
//! - A get: `keyspace` (`counted`) → `reader` (`with_view`) → `superversion` → `get` (`View`) → `memtable` → `esker-manifest`
//!   (`SortedRun`) → `esker-sstable` (`reader`, `index`, `cache`, `block::search`).
//! - A scan: `scan` → `rows` (`rows::forward`, `rows::reverse`) → `esker-base`'s `merge` → `source` → `run_cursor` →
//!   `esker-sstable` (`cursor`, `block::cursor`).
#![doc = "\n"]
#![doc = include_str!("../FORMAT.md")]
#![deny(unsafe_code)]
#![warn(missing_debug_implementations)]

mod backlog;
mod batch;
mod closing;
mod commit;
mod conflict_priority;
mod core;
mod database;
mod database_metrics;
mod dead_ranges;
mod deletes;
mod durability;
mod fold;
mod get;
mod group_sync;
mod health;
pub mod inspect;
mod jobs;
mod keyspace;
mod maintenance;
mod memtable;
mod metrics;
mod new_directory;
mod open;
mod operators;
mod options;
mod pressure;
mod read_costs;
mod reader;
mod recent_writes;
mod recovery;
mod recycled_log;
mod rotation;
mod rows;
mod run_cursor;
pub mod salvage;
mod scan;
mod scan_view;
mod snapshot;
mod snapshot_list;
mod source;
mod superversion;
mod table_io;
mod transaction;

pub use batch::Batch;
pub use database::{Database, Verified};
pub use esker_base::error::printable;
pub use esker_base::event;
pub use esker_base::key::prefix_end;
pub use esker_base::limits;
pub use esker_base::{Error, FileNumber, KeyspaceId, MergeOperator, OpCost, Result, SeqNo};
pub use esker_vfs as vfs;
pub use keyspace::Keyspace;
pub use metrics::{
    BlobMetrics, Counters, DatabaseMetrics, HistogramSummary, KeyspaceMetrics, LevelMetrics,
};
pub use open::DatabaseBuilder;
pub use options::{
    Compression, DatabaseOptions, Durability, KeyspaceOptions, LogWrites, TableSource, WhenStalled,
};
pub use reader::Reader;
pub use scan::{RowCursor, Scan};
pub use snapshot::Snapshot;
pub use transaction::{Transaction, TransactionScan};

/// A key, as iterators hand it out: shared bytes, cheap to clone.
pub type Key = bytes::Bytes;
/// A value, as gets and iterators hand it out: shared bytes, cheap to clone. A long one, of which a get has read the file
/// ([`KeyspaceOptions::blob_bytes_min`]), may be a part of the block cache or of a mapping, and keeps that for as long as it is
/// kept: copy what is to be kept for long.
pub type Value = bytes::Bytes;
