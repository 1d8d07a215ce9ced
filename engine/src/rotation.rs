//! The change to the next memtable and log: when a memtable is full, or when somebody asks.
//!
//! It is made under the commit lock, by the leader of the commit queue or by whoever seals; what else is taken under that stands in
//! [`core`](crate::core). The new log is there before the new memtable takes writes, and names the one before it with its length, so that a log
//! that is missing or cut short is noticed at the next open.

use std::sync::Arc;

use esker_base::event::{Event, SealReason};
use esker_base::filename::FileName;
use esker_base::planted::{self, Planted};
use esker_base::sync::atomic::Ordering;
use esker_base::{Error, FileNumber, Result};
use esker_vfs::fs::RangeWrites;
use esker_wal::preallocate::extent_bytes;
use esker_wal::{LogIdentity, LogKind, LogWriter, Mapped, Predecessor};

use crate::commit::CommitState;
use crate::core::Core;
use crate::jobs::remove_files;
use crate::memtable::Memtable;
use crate::options::{Durability, LogWrites};
use crate::superversion::MemtableAndLog;

/// Range tombstones that a memtable takes before it is sealed: the first reader after each that is added
/// builds the fragments of all of them anew, and a fragment has a number of each commit that covers it. More
/// than these come from one commit group alone, which counts as one.
const RANGE_TOMBSTONES_MAX: u64 = 1_000;

/// The least a log is allocated, for its header to stand in.
const LOG_ALLOCATION_MIN: u64 = 4 << 10;

impl Core {
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
        if let Err(error) = self.in_place() {
            if matches!(error, Error::Poisoned { .. }) {
                // A log that is made in another directory would be missed where the database is; and the number may take a commit
                // of the manifest.
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
                self.give_up_recycled_log();
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

    /// Seal the memtable, if it still has the log that is named, and tell the listeners. The log that takes writes now.
    pub(crate) fn seal(&self, reason: SealReason, only: Option<FileNumber>) -> Result<FileNumber> {
        let (log, events) = {
            let mut state = self.commits.lock();
            if only.is_some_and(|only| only != state.log_number) {
                return Ok(state.log_number);
            }
            let rotated = self.rotate(&mut state, reason);
            self.give_up_recycled_log();
            (rotated.map(|()| state.log_number), std::mem::take(&mut state.events))
        };
        self.emit_all(&events);
        log
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

    /// Have the log removed that was kept to be written over: none is wanted any more.
    fn give_up_recycled_log(&self) {
        self.jobs.remove_later(self.recycled_log.give_up().map(FileName::Log));
    }
}
