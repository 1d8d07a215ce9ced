//! What a reader pins: one consistent set of memtables and tables.
//!
//! A superversion is immutable. A new one is installed when a memtable is sealed or flushed, when a
//! compaction changes the tables, and when keyspaces come or go. Readers load the current one without
//! a lock and without writing a shared cache line; what they pinned stays readable until they let go.
//!
//! A reader whose number is not pinned loads the superversion **first** and its sequence number **second**
//! ([`SuperVersion::read_seqno`]). Everything up to that number is then in the superversion: later writes
//! can only have gone to its active memtable, or, if that was sealed meanwhile, carry numbers beyond
//! the seal, to which the number is clipped. And no compaction in it can have dropped what the number
//! still sees, because its horizon was published before.
//!
//! A *pinned* number (a snapshot's, a transaction's) is taken before the superversion, and that may be any later one:
//! from then on [`SnapshotList::boundaries`] has the number among those that flushes and compactions keep versions for.

use std::sync::Arc;

use esker_base::planted::{self, Planted};
use esker_base::sync::atomic::{AtomicU64, Ordering};
use esker_base::sync::{ArcSwap, Guard, Mutex};
use esker_base::{FileNumber, SeqNo};
use esker_manifest::Version;

use crate::memtable::Memtable;
use crate::snapshot_list::SnapshotList;

/// A memtable and the log that holds the same writes.
pub(crate) struct MemtableAndLog {
    pub(crate) memtable: Arc<Memtable>,
    pub(crate) log: FileNumber,
    /// The last number in it once it is sealed; `u64::MAX` while it takes writes.
    sealed_at: AtomicU64,
    /// The log's final length in bytes once it is sealed; 0 if there is no log.
    log_bytes: AtomicU64,
}

impl MemtableAndLog {
    pub(crate) fn new(memtable: Arc<Memtable>, log: FileNumber) -> Arc<Self> {
        let (sealed_at, log_bytes) = (AtomicU64::new(u64::MAX), AtomicU64::new(0));
        Arc::new(MemtableAndLog { memtable, log, sealed_at, log_bytes })
    }

    /// No write after `last` will go here, and none behind `log_bytes` into the log (0: there is none). The
    /// commit queue calls this before any later write is published.
    pub(crate) fn seal(&self, last: SeqNo, log_bytes: u64) {
        self.log_bytes.store(log_bytes, Ordering::Release);
        self.sealed_at.store(last.0, Ordering::Release);
    }

    /// The log's final length in bytes, if it is sealed and has one.
    pub(crate) fn sealed_log_bytes(&self) -> Option<u64> {
        Some(self.log_bytes.load(Ordering::Acquire)).filter(|bytes| *bytes > 0)
    }

    /// Whether it may hold a write with a number after `after`.
    pub(crate) fn may_hold_after(&self, after: SeqNo) -> bool {
        self.sealed_at.load(Ordering::Acquire) > after.0
    }

    /// The number it was sealed at.
    pub(crate) fn sealed_seqno(&self) -> Option<SeqNo> {
        let at = self.sealed_at.load(Ordering::Acquire);
        (at != u64::MAX).then_some(SeqNo(at))
    }
}

/// See the module.
pub(crate) struct SuperVersion {
    /// Takes the writes.
    pub(crate) active: Arc<MemtableAndLog>,
    /// Waiting for their flush, newest first.
    pub(crate) sealed: Vec<Arc<MemtableAndLog>>,
    /// The tables.
    pub(crate) version: Arc<Version>,
}

impl SuperVersion {
    /// The newest number a reader of this superversion may use.
    #[inline]
    pub(crate) fn read_seqno(&self, snapshots: &SnapshotList) -> SeqNo {
        let visible = snapshots.visible();
        // Loaded after `visible`: whoever published past the seal had sealed before.
        visible.min(SeqNo(self.active.sealed_at.load(Ordering::Acquire)))
    }

    /// All memtables, newest first.
    pub(crate) fn memtables(&self) -> impl Iterator<Item = &Arc<MemtableAndLog>> {
        std::iter::once(&self.active).chain(&self.sealed)
    }
}

/// The current superversion.
pub(crate) struct CurrentSuperVersion {
    current: ArcSwap<SuperVersion>,
    /// Serialises installers; never held across I/O.
    install: Mutex<()>,
}

impl CurrentSuperVersion {
    pub(crate) fn new(first: SuperVersion) -> Self {
        CurrentSuperVersion { current: ArcSwap::from_pointee(first), install: Mutex::new(()) }
    }

    /// The current superversion for a short read on this thread.
    #[inline]
    pub(crate) fn load(&self) -> Guard<Arc<SuperVersion>> {
        self.current.load()
    }

    /// The current superversion to keep.
    pub(crate) fn load_full(&self) -> Arc<SuperVersion> {
        self.current.load_full()
    }

    /// Put `active` in the place of the active memtable, which joins the sealed ones.
    pub(crate) fn rotate(&self, active: Arc<MemtableAndLog>) {
        let _installing = self.install.lock();
        let old = self.current.load_full();
        let sealed = std::iter::once(Arc::clone(&old.active)).chain(old.sealed.iter().cloned()).collect();
        self.current.store(Arc::new(SuperVersion { active, sealed, version: Arc::clone(&old.version) }));
    }

    /// Let `flushed` go, if a flush ended, and show the newest version that `version` yields. It is
    /// asked under the lock, so that of two installers the later one's version stays.
    ///
    /// That version may have tables of a flush that has not come here yet. Their memtable goes too: an operand
    /// that a reader finds in both would count twice.
    pub(crate) fn install(
        &self,
        version: impl FnOnce() -> Arc<Version>,
        flushed: Option<&Arc<MemtableAndLog>>,
    ) {
        let _installing = self.install.lock();
        let old = self.current.load_full();
        let version = version();
        // Up to here everything is in tables.
        let flushed_to = version.marks().last_seqno;
        let is_flushed = |m: &Arc<MemtableAndLog>| {
            m.sealed_seqno().is_some_and(|last| last <= flushed_to)
                && !m.memtable.is_empty()
                && !planted::is(Planted::ShownTwice)
        };
        let goes = |m: &Arc<MemtableAndLog>| {
            flushed.is_some_and(|flushed| Arc::ptr_eq(m, flushed)) || is_flushed(m)
        };
        let sealed = old.sealed.iter().filter(|m| !goes(m)).cloned().collect();
        self.current.store(Arc::new(SuperVersion { active: Arc::clone(&old.active), sealed, version }));
    }
}
