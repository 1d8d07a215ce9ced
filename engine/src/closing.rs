//! The end of background work: until nothing more is due, and for good.

use esker_base::Result;
use esker_base::event::SealReason;
use esker_base::sync::atomic::Ordering;
use esker_manifest::Edit;
use esker_vfs::scheduler::Lane;

use crate::core::Core;
use crate::health::closed;
use crate::jobs::{Doing, collect_garbage_now};

/// Lets go of the database's lock, also where closing panics: others wait for that.
struct Unlock<'a>(&'a Core);

impl Drop for Unlock<'_> {
    fn drop(&mut self) {
        *self.0.lock.lock() = None;
        self.0.progress.notify_all();
    }
}

impl Core {
    /// What [`Database::wait_for_compactions`](crate::Database::wait_for_compactions) does.
    pub(crate) fn wait_until_settled(&self) -> Result<()> {
        if self.options.read_only {
            return self.health.check_open();
        }
        self.check_process()?;
        self.check_not_within(&[Lane::Flush, Lane::Compaction])?;
        let _settling = self.jobs.settle();
        let _settles = self.hand_is(Doing::Settle);
        self.spare.give_back();
        loop {
            let seen = self.progress.epoch();
            self.health.check()?;
            self.jobs.check_open()?;
            // What flushes leave meanwhile, unless somebody goes on writing.
            self.spare.rest();
            self.jobs.start_compactions();
            self.jobs.start_helpers();
            if self.jobs.idle() && self.current.load_full().sealed.is_empty() {
                self.give_log_space_back();
                return Ok(());
            }
            self.env.scheduler.wait(&self.progress, seen, None);
        }
    }

    /// What [`Database::close`](crate::Database::close) does, and what the last handle does that is dropped.
    pub(crate) fn close(&self) -> Result<()> {
        if self.health.check_open().is_err() {
            self.wait_until_unlocked();
            return Ok(());
        }
        if let Some(error) = self.health.forked() {
            // Everything is the parent's: its files, and the lock that a close would let go of.
            self.health.close();
            return if self.options.read_only { Ok(()) } else { Err(error) };
        }
        let outcome = if self.options.read_only { Ok(()) } else { self.flush_and_mark() };
        if outcome.is_ok() {
            self.flushed_to_close.store(true, Ordering::Release);
        }
        self.jobs.close();
        self.progress.notify_all();
        self.env.scheduler.stop();
        self.health.close();
        let unlock = Unlock(self);
        self.progress.notify_all();
        self.wait_for_hands();
        // Threads of the user may be about to commit a keyspace or a compaction: not once the lock is gone.
        self.versions.close(self.health.check().err().unwrap_or_else(closed));
        collect_garbage_now(self);
        drop(unlock);
        // Two may close at the same time, and the one that is ahead closes what the other still wants to write
        // to. Nothing was taken since that began: what one of them has flushed is all there is.
        if self.flushed_to_close.load(Ordering::Acquire) { Ok(()) } else { outcome }
    }

    /// Return when the call that closes, if one does, has let go of the lock, for whoever closes a second time and opens then; but
    /// not where that call waits for this thread.
    fn wait_until_unlocked(&self) {
        // First of all, since a child may find a lock held by a thread that is not there.
        if self.health.forked().is_some() || self.jobs.check_open().is_ok() {
            return;
        }
        if self.check_not_within(&Lane::ALL).is_err() || self.jobs.works_by_hand() {
            return;
        }
        loop {
            let seen = self.progress.epoch();
            if self.lock.lock().is_none() {
                return;
            }
            self.progress.wait(seen);
        }
    }

    fn flush_and_mark(&self) -> Result<()> {
        // Nothing is acknowledged that the flush, and the length recorded below, would leave out.
        self.commits.lock().closing = true;
        if let Err(error) = self.flush(SealReason::Closing) {
            // The log may take a sync where there is no room for a table.
            self.sync_at_last();
            return Err(error);
        }
        self.persist()?;
        let (log, len) = {
            let state = self.commits.lock();
            match &state.log {
                Some(log) => (state.log_number, log.written()),
                None => return Ok(()),
            }
        };
        self.check_in_place()?;
        self.versions.commit(vec![Edit::CleanClose { log, len }])?;
        Ok(())
    }
}
