//! Makes what a log's writer wrote durable, from any thread, while the writer goes on writing.
//!
//! Invariants:
//! 1. `durable` ≤ `written`, and both only grow.
//! 2. Every byte before `durable` survives power loss: it was written before a sync that returned Ok
//!    began. A sync reads `written` *before* it asks the system to sync and publishes that value after;
//!    what the writer appends in between waits for the next one.
//! 3. Once a sync has failed, every later sync and write of this log fails. After a failed sync the
//!    system may have dropped the unsynced bytes and marked them clean, so that the next sync says Ok
//!    and proves nothing.
//!
//! Threads and locks: `write` comes from the writer's one thread, `sync` from any. Syncs of one log
//! take turns under `sync_lock`, because the system reports an error once: a second sync running beside a
//! failing one would be told Ok. Nothing is locked while `sync_lock` is held but the mutex of `failure`, a leaf.
//!
//! Durability: syncing a new log does not make its name durable; its creator syncs the directory.

#[cfg(all(test, loom))]
mod models;

use esker_base::planted::{self, Planted};
use esker_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use esker_base::sync::{Arc, Mutex};
use esker_base::{Error, Result};
use esker_vfs::fs::File;

/// What a writer and its syncers share.
pub(crate) struct Shared {
    /// By std's `Arc`, as `esker_vfs` hands it out; under loom the `Arc` of `esker_base::sync` is loom's.
    pub(crate) file: std::sync::Arc<dyn File>,
    /// End of the last write that succeeded.
    written: AtomicU64,
    /// Everything before this offset is durable.
    durable: AtomicU64,
    /// Held for the length of a sync.
    sync_lock: Mutex<()>,
    /// Whether `failure` holds something: one load on the path of every write.
    failed: AtomicBool,
    failure: Mutex<Option<Error>>,
}

impl Shared {
    pub(crate) fn new(file: std::sync::Arc<dyn File>, written: u64) -> Shared {
        Shared {
            file,
            written: AtomicU64::new(written),
            durable: AtomicU64::new(0),
            sync_lock: Mutex::new(()),
            failed: AtomicBool::new(false),
            failure: Mutex::new(None),
        }
    }

    /// Publish that everything before `end` is written.
    #[inline]
    pub(crate) fn publish_written(&self, end: u64) {
        // Release: a sync that reads `end` begins after the write that reached it.
        self.written.store(end, Ordering::Release);
    }

    #[inline]
    pub(crate) fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    /// Stop this log for good. The first cause is kept.
    pub(crate) fn poison(&self, cause: &Error) {
        let mut failure = self.failure.lock();
        if failure.is_none() {
            *failure = Some(cause.clone());
        }
        drop(failure);
        self.failed.store(true, Ordering::Release);
    }

    /// An error if the log was stopped.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        if self.failed.load(Ordering::Acquire) { self.reason() } else { Ok(()) }
    }

    #[cold]
    fn reason(&self) -> Result<()> {
        match &*self.failure.lock() {
            Some(cause) => Err(Error::Poisoned { cause: Box::new(cause.clone()) }),
            None => Ok(()), // not reached: `failed` is set after the cause
        }
    }

    /// Sync, unless everything published is durable already.
    fn sync(&self) -> Result<u64> {
        self.check()?;
        let wanted = self.written.load(Ordering::Acquire);
        let durable = self.durable();
        if durable >= wanted {
            return Ok(durable);
        }
        let _alone = self.sync_lock.lock();
        // The sync waited for may have failed, or have covered what this one is for.
        self.check()?;
        let durable = self.durable();
        if durable >= wanted {
            return Ok(durable);
        }
        let written = self.written.load(Ordering::Acquire);
        if let Err(cause) = self.file.sync_data() {
            if !planted::is(Planted::SyncTriedAgain) {
                self.poison(&cause);
            }
            return Err(cause);
        }
        let written = if planted::is(Planted::SyncedMeanwhile) {
            self.written.load(Ordering::Acquire)
        } else {
            written
        };
        self.durable.store(written, Ordering::Release);
        Ok(written)
    }

    /// Sync this log alone. It publishes nothing: what a log says is durable is taken for proof that the logs
    /// before it are, and those this does not sync.
    pub(crate) fn sync_alone(&self) -> Result<()> {
        self.check()?;
        let _alone = self.sync_lock.lock();
        self.check()?;
        self.file.sync_data().inspect_err(|cause| self.poison(cause))
    }
}

/// Makes a log durable. Cheap to clone; every clone speaks of the same log.
#[derive(Clone)]
pub struct LogSyncer {
    shared: Arc<Shared>,
}

impl LogSyncer {
    pub(crate) fn new(shared: Arc<Shared>) -> LogSyncer {
        LogSyncer { shared }
    }

    /// Make everything durable that was written before this call; the result is the offset that is
    /// durable now, which records staged from now on carry. Returns at once if there is nothing to do.
    ///
    /// Calls from several threads take turns, and one sync serves all who waited for it.
    ///
    /// # Errors
    /// The first failure as it is ([`Error::Io`]), every later call [`Error::Poisoned`], also
    /// when it was the writer that failed.
    pub fn sync(&self) -> Result<u64> {
        self.shared.sync()
    }

    /// Everything before this offset, in bytes, survives power loss (given a durable name).
    pub fn durable(&self) -> u64 {
        self.shared.durable()
    }

    /// The end of what was written, in bytes: what a `sync` now would make durable.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn written(&self) -> u64 {
        self.shared.written.load(Ordering::Acquire)
    }

    /// Ok while the log takes writes; the error that `sync` would return once it does not.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn check(&self) -> Result<()> {
        self.shared.check()
    }
}
