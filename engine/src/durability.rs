//! What it takes to say that something is durable: syncs of the log, the manifest's word that a log was there, or a flush.
//!
//! The commit lock is taken for the position up to which to sync, and let go before the sync ([`GroupSync`](crate::group_sync::GroupSync)).

use esker_base::event::SealReason;
use esker_base::planted::{self, Planted};
use esker_base::{Error, Result};
use esker_manifest::{Edit, Marks};
use esker_vfs::scheduler::Lane;

use crate::core::Core;
use crate::group_sync::LogPosition;
use crate::options::Durability;

impl Core {
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

    /// Seal the memtable and return when everything in memory by now is in tables, or when a flush has failed since the
    /// call. A flush that closes the database goes on for as long as the flush is tried again, because what it leaves in
    /// memory may be in no log; but it does not wait for a cause that may last, a full disk for instance.
    pub(crate) fn flush(&self, reason: SealReason) -> Result<()> {
        self.health.check()?;
        self.check_process()?;
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
            self.jobs.check_open()?;
            self.check_not_within(&[Lane::Flush])?;
            self.env.scheduler.wait(&self.progress, seen, None);
        }
    }
}
