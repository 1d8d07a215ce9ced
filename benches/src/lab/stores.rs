//! Other engines under the layouts: redb and fjall, behind the feature `stores`.
//!
//! Both give snapshots and atomic batches, and neither the rest of [`OrderedKv`](esker_layouts::kv::OrderedKv) in
//! one form: redb has one writer, which a transaction inside another would wait for for ever, and fjall no merges. So
//! [`Optimistic`] puts the same transactions on both: writes are buffered, reads noted, and a commit that finds
//! its reads changed runs again. Costs are counted there, at the calls into the engine, and writes as they were
//! issued: a range delete counts as the one write that the caller made, though these engines remove row by row.
//!
//! Neither syncs a commit, as esker by default does not: fjall leaves it to the system, redb's reaches the file with
//! the next durable commit.
//!
//! ```
//! use esker_bench::lab::store::Store;
//! use esker_bench::lab::stores::RedbFactory;
//! use esker_layouts::followers::{Layout, open};
//!
//! let store = RedbFactory.open()?;
//! let friends = open(&store, Layout::Column)?;
//! friends.add("Вася", "Оля")?;
//! assert_eq!(friends.check("Вася", "Оля")?.cost.keys_read, 1);
//! # Ok::<(), esker_layouts::Error>(())
//! ```

mod fjall;
mod optimistic;
mod redb;
mod tx;

use std::path::Path;

use tempfile::TempDir;

pub use fjall::{Fjall, FjallFactory};
pub use optimistic::{Backend, Optimistic, OptimisticRead, OptimisticScan, Rows, View};
pub use redb::{Redb, RedbFactory};
pub use tx::OptimisticTx;

/// What `source`, an error of another engine, is to a layout.
fn foreign(
    op: &'static str,
    path: &Path,
    source: impl std::error::Error + Send + Sync + 'static,
) -> esker_layouts::Error {
    let source = std::io::Error::other(source);
    esker::Error::Io { op, path: path.to_path_buf(), source: source.into() }.into()
}

/// A directory for one store, which goes with it.
fn directory() -> esker_layouts::Result<TempDir> {
    let made = tempfile::Builder::new().prefix("esker-lab-").tempdir();
    made.map_err(|source| foreign("create", &std::env::temp_dir(), source))
}
