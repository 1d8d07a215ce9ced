//! What all handles of one open database share, and who may touch what.
//!
//! | field | changed by | read by |
//! |---|---|---|
//! | `current` | rotation (commit queue), flush, compaction, keyspace changes | every reader, without a lock |
//! | `snapshots` | commit queue publishes; snapshots pin and unpin | readers, compaction |
//! | `dead_ranges` | scans and the walk behind deletes; commits watch and cut them (its own lock) | scans that meet many tombstones |
//! | `commits` | whoever leads a commit group | – |
//! | `group_sync` | whoever syncs | – |
//! | `read_costs` | reads, every so often; the upkeep job (its own locks) | the upkeep job, whoever picks a compaction |
//! | `versions` | flush, compaction, keyspace changes (its own lock) | – |
//! | `health` | the first fatal failure, `close` | every write |
//!
//! Locks are taken one at a time, with these exceptions:
//!
//! - The commit lock (the `state` of `commits`) is held over its `queue` and over the `outcome` of each who waits; over the dead
//!   ranges' lock and the memtable's; over what a transaction has `seen`, while that is checked, with reads of tables where what came
//!   meanwhile was not all noted. And for a rotation over `current`'s install lock, the group sync's state lock, the recycled log's,
//!   the backlog's and the jobs'; over `lock`, for a look whether the directory is still in place; and, where the new log's
//!   number is the first that is not reserved, over the manifest's `committer`, with a sync. A scan only tries for it: a callback
//!   within a commit may scan. (What reads cost is counted under a lock that is tried for, too.)
//! - `keyspace_changes` is held over `lock`, over `committer`, with its I/O, and over `current`'s install lock. To drop a keyspace, over
//!   the commit lock as well, and that over the others and the syncs of the log: nothing is committed between what is
//!   made durable and the drop.
//! - The jobs' `looking` is held over their other locks and those of the snapshots and of what reads have paid, while a compaction is
//!   picked.
//! - A transaction that keeps losing holds the [`ConflictPriority`] over all that its closure does.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use esker_base::event::{Event, Listener};
use esker_base::event_count::EventCount;
use esker_base::sync::atomic::{AtomicBool, AtomicU64};
use esker_base::sync::{ArcSwap, Mutex};
use esker_base::{DatabaseId, Error, FileNumber, KeyspaceId, MergeOperator, Result};
use esker_manifest::VersionSet;
use esker_sstable::TableContext;
use esker_vfs::Env;
use esker_vfs::fs::FileLock;
use esker_vfs::scheduler::Lane;

use crate::backlog::SharedBacklog;
use crate::commit::CommitQueue;
use crate::conflict_priority::ConflictPriority;
use crate::dead_ranges::DeadRanges;
use crate::group_sync::GroupSync;
use crate::health::Health;
use crate::jobs::Jobs;
use crate::memtable::SpareChunks;
use crate::metrics::Metrics;
use crate::operators::Operators;
use crate::options::{DatabaseOptions, KeyspaceOptions};
use crate::pressure::Pressure;
use crate::read_costs::ReadCosts;
use crate::recycled_log::RecycledLog;
use crate::snapshot_list::SnapshotList;
use crate::superversion::CurrentSuperVersion;

/// How many tables give up their file descriptors when something else finds none: about as many as a job opens.
const DESCRIPTORS: usize = 8;

/// See the module.
pub(crate) struct Core {
    pub(crate) env: Env,
    pub(crate) dir: PathBuf,
    pub(crate) database: DatabaseId,
    pub(crate) options: DatabaseOptions,
    pub(crate) operators: Operators,
    /// The operators of the keyspaces that handles were made for.
    pub(crate) merge_operators: ArcSwap<BTreeMap<KeyspaceId, Arc<dyn MergeOperator>>>,
    pub(crate) listeners: Vec<Arc<dyn Listener>>,
    pub(crate) versions: VersionSet,
    pub(crate) current: CurrentSuperVersion,
    /// For the next memtables.
    pub(crate) spare: Arc<SpareChunks>,
    /// For the next log.
    pub(crate) recycled_log: RecycledLog,
    pub(crate) snapshots: Arc<SnapshotList>,
    pub(crate) dead_ranges: DeadRanges,
    pub(crate) commits: CommitQueue,
    pub(crate) group_sync: GroupSync,
    pub(crate) health: Arc<Health>,
    pub(crate) pressure: Pressure,
    pub(crate) metrics: Metrics,
    pub(crate) read_costs: ReadCosts,
    /// Where tables lie and what reading them shares: open files, the block cache, the ledger.
    pub(crate) tables: TableContext,
    pub(crate) jobs: Jobs,
    /// Opened whenever a flush or compaction has made progress or writes have been stopped.
    pub(crate) progress: EventCount,
    pub(crate) backlog: SharedBacklog,
    /// The log begun at open. In mode `NoLog` it stays, empty, as the first log needed.
    pub(crate) open_log: FileNumber,
    /// One keyspace is created or dropped at a time.
    pub(crate) keyspace_changes: Mutex<()>,
    /// How many keyspaces were dropped since the database was opened, with one whose drop has just begun: until the first no
    /// handle is of one that is gone.
    pub(crate) keyspace_drops: AtomicU64,
    /// For transactions that keep losing.
    pub(crate) conflict_priority: ConflictPriority,
    /// Held until the database closes. `None` for a read-only handle of a directory whose lock file is not there or may not be opened.
    pub(crate) lock: Mutex<Option<Box<dyn FileLock>>>,
    /// A close has brought everything that was ever taken into tables.
    pub(crate) flushed_to_close: AtomicBool,
}

impl Core {
    /// A foreground call passes: step mode may run background steps now. With threads it does nothing.
    #[inline]
    pub(crate) fn breathe(&self) {
        self.env.scheduler.breathe();
    }

    /// Err where a step of one of `lanes` has called back, a listener in it say: what waits for the lane would wait for ever.
    pub(crate) fn check_not_within(&self, lanes: &[Lane]) -> Result<()> {
        if lanes.iter().any(|lane| self.env.scheduler.is_within(*lane)) {
            return Err(Error::invalid(
                "this call waits for a flush or a compaction, and was made by a listener that the same waits for; \
                 make it on another thread, for which the listener does not wait",
            ));
        }
        Ok(())
    }

    /// Tell every listener. A listener's panic is its own: it must not take the engine's job with it.
    pub(crate) fn emit(&self, event: &Event) {
        for listener in &self.listeners {
            if crate::operators::contained(|| listener.on_event(event)).is_err() {
                self.metrics.count_listener_panic();
            }
        }
    }

    /// [`Core::emit`] for each of `events`, which were kept while a lock was held.
    #[inline]
    pub(crate) fn emit_all(&self, events: &[Event]) {
        for event in events {
            self.emit(event);
        }
    }

    /// Writes stop for good on this handle because of `cause`.
    pub(crate) fn stop_writes(&self, cause: &Error) {
        if let Some(event) = self.stop_writes_quietly(cause) {
            self.emit(&event);
        }
    }

    /// For whoever has stopped writes, once nobody waits for it any more: a listener may call back.
    pub(crate) fn tell_that_writes_stopped(&self, cause: &Error) {
        self.progress.notify_all();
        self.emit(&Event::WritesStopped { error: cause.clone() });
    }

    /// [`Core::stop_writes`] for a caller that holds a lock: it tells the event, if there is one, later.
    pub(crate) fn stop_writes_quietly(&self, cause: &Error) -> Option<Event> {
        let first = self.health.poison(cause);
        self.progress.notify_all();
        first.then(|| Event::WritesStopped { error: cause.clone() })
    }

    /// The stored options of keyspace `id`, or `None` if it was dropped.
    pub(crate) fn keyspace_options(&self, id: KeyspaceId) -> Result<Option<KeyspaceOptions>> {
        let version = self.versions.current();
        let Some(state) = version.keyspace(id) else { return Ok(None) };
        KeyspaceOptions::decode(&state.options)
            .map(Some)
            .map_err(|what| Error::corruption(self.dir.join(esker_base::filename::CURRENT), 0, what))
    }

    /// Close tables, which are opened again when they are read, so that something else can be opened: whether there were any.
    pub(crate) fn give_up_descriptors(&self) -> bool {
        self.tables.files.give_up(DESCRIPTORS) > 0
    }

    /// The outcome of `create`, which makes a file; if it found no file descriptor, that of a second try, after some tables
    /// have given up theirs.
    pub(crate) fn giving_up<T>(&self, create: impl Fn() -> Result<T>) -> Result<T> {
        match create() {
            Err(error) if error.is_no_descriptors() && self.give_up_descriptors() => create(),
            created => created,
        }
    }
}
