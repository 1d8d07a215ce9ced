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

use esker_base::event::{Event, Listener, SealReason};
use esker_base::event_count::EventCount;
use esker_base::filename::FileName;
use esker_base::key::after;
use esker_base::planted::{self, Planted};
use esker_base::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use esker_base::sync::{ArcSwap, Mutex};
use esker_base::table_meta::KeyBounds;
use esker_base::{DatabaseId, Error, FileNumber, KeyspaceId, MergeOperator, Result};
use esker_manifest::{Edit, Marks, VersionSet};
use esker_sstable::TableContext;
use esker_vfs::Env;
use esker_vfs::fs::{FileLock, RangeWrites};
use esker_vfs::scheduler::Lane;
use esker_wal::preallocate::extent_bytes;
use esker_wal::{LogIdentity, LogKind, LogWriter, Mapped, Predecessor};

use crate::commit::{CommitQueue, CommitState};
use crate::conflict_priority::ConflictPriority;
use crate::dead_ranges::{DeadRanges, KeyRange};
use crate::group_sync::{GroupSync, LogPosition};
use crate::health::Health;
use crate::jobs::{Jobs, remove_files};
use crate::memtable::{Memtable, SpareChunks};
use crate::metrics::Metrics;
use crate::operators::Operators;
use crate::options::{DatabaseOptions, Durability, KeyspaceOptions, LogWrites};
use crate::pressure::Pressure;
use crate::read_costs::ReadCosts;
use crate::recycled_log::RecycledLog;
use crate::snapshot_list::SnapshotList;
use crate::superversion::{CurrentSuperVersion, MemtableAndLog};

/// Range tombstones that a memtable takes before it is sealed: the first reader after each that is added
/// builds the fragments of all of them anew, and a fragment has a number of each commit that covers it. More
/// than these come from one commit group alone, which counts as one.
const RANGE_TOMBSTONES_MAX: u64 = 1_000;

/// The least a log is allocated, for its header to stand in.
const LOG_ALLOCATION_MIN: u64 = 4 << 10;

/// Tables that are closed for what found no descriptor: about what a job opens.
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
    /// The log begun at open. Without a log it stays, empty, as the first one needed.
    pub(crate) open_log: FileNumber,
    /// One keyspace is created or dropped at a time.
    pub(crate) keyspace_changes: Mutex<()>,
    /// Whether a keyspace was dropped since the database was opened: until then no handle is of one that is gone.
    pub(crate) keyspace_dropped: AtomicBool,
    /// For transactions that keep losing.
    pub(crate) conflict_priority: ConflictPriority,
    /// Held until the database closes. `None` for a read-only handle of a directory whose lock file is not there or may not be opened.
    pub(crate) lock: Mutex<Option<Box<dyn FileLock>>>,
    /// A close has brought everything that was ever taken into tables.
    pub(crate) flushed_to_close: AtomicBool,
}

/// What back-pressure looks at, kept in atomics so that a put does not walk the tree.
#[derive(Debug, Default)]
pub(crate) struct SharedBacklog {
    /// Held from looking at the superversion to noting what it means: of two that note, the later one has
    /// the later superversion. An older one's figures would stop writers for good once nothing is left to
    /// be flushed or compacted.
    noting: Mutex<()>,
    sealed: AtomicUsize,
    active_full: AtomicBool,
    /// The most level-0 tables over one key, in any keyspace.
    l0_depth: AtomicUsize,
}

/// A reading of [`SharedBacklog`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backlog {
    pub(crate) sealed: usize,
    pub(crate) active_full: bool,
    pub(crate) l0_depth: usize,
}

impl Core {
    #[inline]
    pub(crate) fn backlog(&self) -> Backlog {
        Backlog {
            sealed: self.backlog.sealed.load(Ordering::Relaxed),
            active_full: self.backlog.active_full.load(Ordering::Relaxed),
            l0_depth: self.backlog.l0_depth.load(Ordering::Relaxed),
        }
    }

    /// Note what the current superversion means for back-pressure, and wake who waits for progress.
    pub(crate) fn note_progress(&self) {
        let noting = self.backlog.noting.lock();
        let current = self.current.load_full();
        let keyspaces = current.version.keyspaces().iter();
        let deepest = keyspaces.map(|keyspace| keyspace.tree.levels[0].depth()).max();
        self.backlog.sealed.store(current.sealed.len(), Ordering::Relaxed);
        self.backlog.l0_depth.store(deepest.unwrap_or(0), Ordering::Relaxed);
        drop(noting);
        self.progress.notify_all();
    }

    /// A foreground call passes: step mode may run background steps now.
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

    /// Seal the memtable if it has reached its size, or would go over its number of range tombstones with
    /// `range_deletes` more, and its flush has somewhere to queue. Called by the leader of the commit queue.
    #[inline]
    pub(crate) fn rotate_if_full(&self, state: &mut CommitState, range_deletes: u64) -> Result<()> {
        let memtable = state.memtable.memtable();
        let tombstones = memtable.range_tombstones();
        let full = memtable.bytes() >= self.options.memtable_full_bytes()
            || tombstones >= RANGE_TOMBSTONES_MAX
            || tombstones > 0 && tombstones.saturating_add(range_deletes) > RANGE_TOMBSTONES_MAX;
        if full { self.rotate_full(state) } else { Ok(()) }
    }

    #[cold]
    fn rotate_full(&self, state: &mut CommitState) -> Result<()> {
        let room = self.backlog().sealed < self.options.sealed_memtables_max;
        self.backlog.active_full.store(!room, Ordering::Relaxed);
        if !room {
            // Writers wait in `admit`; those already past it may overshoot by what they carry.
            return Ok(());
        }
        self.rotate(state, SealReason::Full)
    }

    /// Seal the memtable, begin a new log, and start the flush. An empty memtable stays.
    pub(crate) fn rotate(&self, state: &mut CommitState, reason: SealReason) -> Result<()> {
        let old = Arc::clone(state.memtable.memtable());
        if old.is_empty() {
            return Ok(());
        }
        // A write that failed just now may have left bytes behind the length that the next log would record.
        self.health.check()?;
        if let Some(error) = self.health.forked() {
            state.events.extend(self.stop_writes_quietly(&error));
            return Err(error);
        }
        if state.log.is_some()
            && let Err(error) = self.in_place()
        {
            if matches!(error, Error::Poisoned { .. }) {
                // A log that is made in another directory would be missed where the database is.
                state.events.extend(self.stop_writes_quietly(&error));
            }
            return Err(error);
        }
        let number = self.versions.allocate();
        let log_bytes = state.log.as_ref().map_or(0, LogWriter::written);
        let log = if state.log.is_some() {
            let predecessor = Predecessor { number: state.log_number, len: log_bytes };
            let full = (reason == SealReason::Full).then_some(log_bytes);
            let by_calls = state.log.as_ref().is_some_and(LogWriter::goes_by_calls);
            let old = if full.is_some() && by_calls {
                self.reusable_log()
            } else {
                self.jobs.remove_later(self.recycled_log.give_up().map(FileName::Log));
                None
            };
            let log = self.create_log(number, Some(predecessor), full, old);
            Some(log.map_err(|cause| Error::Aborted { cause: Box::new(cause) })?)
        } else {
            None
        };
        let sealed = Arc::clone(&self.current.load_full().active);
        sealed.seal(state.last_seqno, log_bytes);
        let (memtable, writer) = Memtable::with_filter(self.options.memtable_bytes_max, &self.spare);
        self.current.rotate(MemtableAndLog::new(memtable, number));
        if let Some(log) = &log {
            self.group_sync.begin_log(number, log.syncer());
        }
        state.log = log;
        self.metrics.count_log(log_bytes);
        state.log_number = number;
        state.memtable = writer;
        self.backlog.active_full.store(false, Ordering::Relaxed);
        {
            let _noting = self.backlog.noting.lock();
            self.backlog.sealed.store(self.current.load_full().sealed.len(), Ordering::Relaxed);
        }
        state.events.push(Event::MemtableSealed { log: sealed.log, bytes: old.bytes(), reason });
        self.jobs.start_flush();
        Ok(())
    }

    /// Have the rows that were deleted lately walked over, if they may lie together. Called by the leader of the commit queue.
    #[cold]
    pub(crate) fn sweep(&self, state: &mut CommitState) {
        let Some(deleted) = state.deletes.take() else { return };
        let version = self.versions.current();
        let bounds = deleted.bounds();
        let tree = version.keyspace(deleted.keyspace).map(|state| &state.tree);
        let levels = tree.into_iter().flat_map(|tree| &tree.levels);
        let entries = levels.flat_map(|level| level.overlapping(&bounds)).map(|table| table.meta.entries);
        if !deleted.is_dense_in(entries.sum()) {
            return;
        }
        let KeyBounds { smallest, largest, .. } = bounds;
        let range = KeyRange { start: smallest.clone(), end: Some(after(&largest)) };
        self.dead_ranges.watch(deleted.keyspace, range, &smallest, false, state.last_seqno);
        self.jobs.sweep(deleted);
    }

    /// A new log that will have room for a memtable's worth of records, and has some now. `full`: how long the log before
    /// it is, in bytes, if it ended because its memtable was full; this one will hardly be longer. It is written over log
    /// `old`, if there is one.
    pub(crate) fn create_log(
        &self,
        number: FileNumber,
        predecessor: Option<Predecessor>,
        full: Option<u64>,
        old: Option<FileNumber>,
    ) -> Result<LogWriter> {
        let identity = LogIdentity { database: self.database, number, kind: LogKind::WriteAhead };
        let room = self.options.memtable_bytes_max;
        let writes = match self.options.log_writes {
            LogWrites::Called => RangeWrites::Called,
            LogWrites::Mapped => RangeWrites::Stored,
        };
        // Where a sync follows each group there is nothing to gain.
        let mapped = (self.options.durability != Durability::Sync)
            .then(|| Mapped { writes, end: full.unwrap_or(room) });
        let (fs, dir) = (&*self.env.fs, self.dir.as_path());
        let create =
            |allocated| self.giving_up(|| LogWriter::create(fs, dir, identity, predecessor, allocated));
        let mut log = match old {
            Some(old) => match LogWriter::recycle(fs, dir, identity, predecessor, old) {
                // The old file is gone by then.
                Err(error) if error.is_no_descriptors() => create(LOG_ALLOCATION_MIN),
                made => made,
            },
            None => match create(extent_bytes(room).max(LOG_ALLOCATION_MIN)) {
                // A nearly full disk may still hold the next few commits: go on with room for a few. A header in
                // space that was not reserved might be that of a deleted log after a crash.
                Err(error) if error.is_no_space() => create(LOG_ALLOCATION_MIN),
                made => made,
            },
        }?;
        log.preallocate_ahead(room, mapped);
        Ok(log)
    }

    /// Close tables, which are opened again when they are read, so that something else can be opened: whether there were any.
    pub(crate) fn give_up_descriptors(&self) -> bool {
        self.tables.files.give_up(DESCRIPTORS) > 0
    }

    /// Create a file by `create`; where there is no descriptor for it, once more after tables have given up theirs.
    pub(crate) fn giving_up<T>(&self, create: impl Fn() -> Result<T>) -> Result<T> {
        match create() {
            Err(error) if error.is_no_descriptors() && self.give_up_descriptors() => create(),
            created => created,
        }
    }

    /// Give back the space that is kept for logs to come: memtables hardly fill up any more. As far as that goes.
    pub(crate) fn give_log_space_back(&self) {
        remove_files(self, self.recycled_log.give_up().map(FileName::Log));
        if let Some(log) = &mut self.commits.lock().log {
            let _ = log.trim();
        }
    }

    /// The log whose file the next one is made of.
    fn reusable_log(&self) -> Option<FileNumber> {
        if planted::is(Planted::LiveLogReused) {
            return self.current.load_full().sealed.last().map(|oldest| oldest.log);
        }
        self.recycled_log.take()
    }

    /// Make everything acknowledged so far durable.
    pub(crate) fn persist(&self) -> Result<()> {
        if self.options.read_only {
            return self.health.check_open();
        }
        self.health.check()?;
        if planted::is(Planted::IdlePersist) {
            return Ok(());
        }
        self.check_process()?;
        if self.options.durability == Durability::NoLog {
            return self.flush(SealReason::Asked);
        }
        let position = self.commits.lock().position();
        if let Some(position) = position {
            self.wait_durable(position)?;
            self.witness(position).inspect_err(|error| self.note_manifest_failure(error))?;
        }
        Ok(())
    }

    /// Return when everything in the logs up to `position` is durable.
    pub(crate) fn wait_durable(&self, position: LogPosition) -> Result<()> {
        self.wait_for_sync(position, false)
    }

    /// Make what was acknowledged durable as it stands in the logs, also once writes have stopped: for whoever ends without
    /// what would have done so. As far as that goes.
    pub(crate) fn sync_at_last(&self) {
        let position = self.commits.lock().position();
        let _ = position.map(|position| self.wait_for_sync(position, true));
    }

    fn wait_for_sync(&self, position: LogPosition, even_if_stopped: bool) -> Result<()> {
        let witness = |reached| self.witness_log(reached);
        let waited = self.group_sync.wait(position, &witness, even_if_stopped);
        let Err(failed) = waited else { return Ok(()) };
        if failed.stopped_writes {
            self.tell_that_writes_stopped(&failed.error);
        }
        Err(failed.error)
    }

    /// [`Core::witness`], unless the manifest knows the log, however far.
    pub(crate) fn witness_log(&self, reached: LogPosition) -> Result<()> {
        let known = self.versions.current().marks().durable_log;
        if known.is_some_and(|(log, _)| log >= reached.log) { Ok(()) } else { self.witness(reached) }
    }

    /// Have the manifest know that the log of `position` is durable so far: should the log be gone at the next
    /// open, or end earlier, nothing else may tell. A sync of the manifest, unless it knows already.
    ///
    /// A commit of the manifest that fails and leaves nothing behind, on a full disk perhaps, is let pass: what
    /// was promised is durable without it, and the next sync of a new log, or `persist`, tries again. Whatever it errs
    /// with has to stop writes: that is left to the caller, since others wait for the group sync meanwhile, and a listener
    /// that is told may wait for them.
    fn witness(&self, position: LogPosition) -> Result<()> {
        let edit = |marks: &Marks| {
            let edit = Edit::DurableLog { number: position.log, len: position.offset };
            let known = marks.durable_log >= Some((position.log, position.offset));
            (!known && position.log >= marks.first_log).then_some(edit)
        };
        if planted::is(Planted::NoWitness) || edit(self.versions.current().marks()).is_none() {
            return Ok(());
        }
        let committed = self.in_place().and_then(|()| {
            self.versions.commit_with(|version| Ok(edit(version.marks()).into_iter().collect()))
        });
        let Err(error) = committed else { return Ok(()) };
        if matches!(error, Error::Aborted { .. }) && self.versions.poisoned().is_none() {
            return Ok(());
        }
        Err(error)
    }

    /// Seal the memtable, if it still has the log that is named, and tell the listeners. The log that takes writes now.
    pub(crate) fn seal(&self, reason: SealReason, only: Option<FileNumber>) -> Result<FileNumber> {
        let (log, events) = {
            let mut state = self.commits.lock();
            if only.is_some_and(|only| only != state.log_number) {
                return Ok(state.log_number);
            }
            let rotated = self.rotate(&mut state, reason);
            self.jobs.remove_later(self.recycled_log.give_up().map(FileName::Log));
            (rotated.map(|()| state.log_number), std::mem::take(&mut state.events))
        };
        self.emit_all(&events);
        log
    }

    /// Seal the memtable and return when everything in memory by now is in tables, or when a flush has failed since the call. One
    /// to close goes on as long as the flush is tried: what it leaves in memory may be in no log. But for a cause that may
    /// last, a full disk, it does not wait.
    pub(crate) fn flush(&self, reason: SealReason) -> Result<()> {
        self.health.check()?;
        self.check_process()?;
        self.check_not_within(&[Lane::Flush])?;
        let _waiting = self.jobs.wait_for_flush();
        let (failures, _) = self.jobs.flush_failures();
        let waiting_for = self.seal(reason, None)?;
        loop {
            let seen = self.progress.epoch();
            if self.current.load_full().sealed.iter().all(|m| m.log >= waiting_for) {
                return Ok(());
            }
            self.health.check()?;
            if let (number, Some(error)) = self.jobs.flush_failures()
                && number > failures
                && (reason != SealReason::Closing || error.is_no_space() || error.is_no_descriptors())
            {
                return Err(error);
            }
            self.env.scheduler.wait(&self.progress, seen, None);
        }
    }
}
