//! The compaction job: one plan, carried out in steps, then the next, until nothing needs compacting. Of a large
//! plan, other threads carry out parts ([`subcompaction`](super::subcompaction)).
//!
//! Durability order: outputs complete and synced, read back and proven; one manifest edit puts them in
//! the inputs' place; only then the inputs become garbage, removed when no reader holds them.

use std::sync::{Arc, Weak};
use std::time::Duration;

use esker_base::event::Event;
use esker_base::{Error, FileNumber, Result, SeqNo};
use esker_compaction::{Candidate, JobId, LevelCursor, Load, MergeRun, Plan, Reason, RunOutput};
use esker_manifest::{TableHandle, Tree};
use esker_sstable::TableCursor;
use esker_vfs::scheduler::{Job, Progress};

use super::garbage::{not_installed, remove_written};
use super::parts::Parts;
use super::subcompaction::Sharer;
use super::warm::are_cached;
use super::{AfterFailure, Failures, after_failure, stops_writes, tell_failure};
use crate::core::Core;
use crate::table_io;

const NAME: &str = "compaction";
/// What failed, if it panicked.
pub(super) const CALLBACK: &str = "the compaction job";

/// One plan being carried out.
pub(crate) struct Carrying {
    core: Arc<Core>,
    plan: Plan,
    /// Its claim on inputs and key range, until it is given back.
    claim: Option<JobId>,
    began: Duration,
    parts: Option<Arc<Parts<LevelCursor<TableCursor>>>>,
    /// Tables that are to be cached like those that they replace.
    warm: Vec<Weak<TableHandle>>,
}

impl Carrying {
    /// Carry out `plan`, whose inputs `claim` holds.
    pub(crate) fn new(core: &Arc<Core>, plan: Plan, claim: JobId) -> Self {
        let began = core.env.clock.monotonic();
        Carrying { core: Arc::clone(core), plan, claim: Some(claim), began, parts: None, warm: Vec::new() }
    }

    /// Do a piece; whether it is done.
    pub(crate) fn step(&mut self) -> Result<bool> {
        if self.plan.trivial_move {
            self.install(None)?;
            return Ok(true);
        }
        let Some(parts) = &self.parts else {
            let output = table_io::Output::new(&self.core, self.plan.keyspace, self.plan.output_level)?;
            // No output: the keyspace was dropped meanwhile.
            let Some(output) = output else { return Ok(true) };
            let parts = Arc::new(Parts::new(CALLBACK, output.compaction_runs(&self.plan)?));
            self.core.jobs.offer(parts.clone(), Sharer::Compaction);
            self.parts = Some(parts);
            return Ok(false);
        };
        if !parts.step(&*self.core.env.scheduler)? {
            return Ok(false);
        }
        self.install(Some(&MergeRun::finish_parts(parts.finish())?))?;
        Ok(true)
    }

    /// Put the outputs in the inputs' place; a trivial move has none.
    fn install(&mut self, output: Option<&RunOutput>) -> Result<()> {
        let (core, plan) = (&self.core, &self.plan);
        let written = output.map(|output| output.tables.as_slice()).unwrap_or_default();
        let blobs = output.map(|output| output.blobs.as_slice()).unwrap_or_default();
        // What was written goes with the directory it was written to; if only that could not be found out, another try writes anew.
        core.check_in_place().inspect_err(|_| remove_written(core, written, blobs))?;
        // Asked within the commit: right behind it the keyspace may be dropped, while readers have what was put in.
        let mut put_in = false;
        let committed = core.versions.commit_with(|version| {
            // A keyspace dropped meanwhile took its tables with it.
            put_in = version.keyspace(plan.keyspace).is_some();
            Ok(if put_in { plan.edits(written, blobs) } else { Vec::new() })
        });
        let version = committed.inspect_err(|error| not_installed(core, error, written, blobs))?;
        if !put_in {
            remove_written(core, written, blobs);
            return Ok(());
        }
        core.current.install(|| core.versions.current(), None);
        if are_cached(plan.tables().map(|(_, table)| table)) {
            let tree = version.keyspace(plan.keyspace).map(|keyspace| &keyspace.tree);
            let new =
                tree.into_iter().flat_map(|tree| written.iter().filter_map(|meta| tree.table(meta.number)));
            self.warm = new.map(Arc::downgrade).collect();
        }
        let event = self.report(output);
        // First the claim ends, and the version is let go of: a listener on a thread that compacts by hand may do so again, and waits
        // then until what it replaces is removed.
        drop(version);
        self.release();
        self.core.emit(&event);
        Ok(())
    }

    /// Count what was done; what to tell the listeners.
    fn report(&self, output: Option<&RunOutput>) -> Event {
        let (core, plan) = (&self.core, &self.plan);
        let inputs: Vec<FileNumber> = plan.tables().map(|(_, table)| table.number()).collect();
        let bytes_in = plan.tables().map(|(_, table)| table.meta.file_bytes).sum();
        let (outputs, bytes_out) = match output {
            Some(output) => (
                output.tables.iter().map(|table| table.number).collect(),
                output.tables.iter().map(|table| table.file_bytes).sum::<u64>()
                    + output.blobs.iter().map(|blob| blob.file_bytes).sum::<u64>(),
            ),
            None => (inputs.clone(), 0),
        };
        let took = core.env.clock.monotonic().saturating_sub(self.began);
        core.metrics.count_compaction(if output.is_some() { bytes_in } else { 0 }, bytes_out, took);
        Event::Compacted {
            keyspace: plan.keyspace,
            from_level: plan.inputs.first().map_or(plan.output_level, |(level, _)| *level),
            to_level: plan.output_level,
            inputs,
            outputs,
            bytes_in,
            bytes_out,
            reason: plan.reason.to_string(),
            took,
        }
    }

    /// Let go of the inputs, and of what was not installed.
    fn release(&mut self) {
        let Some(claim) = self.claim.take() else { return };
        // Runs that were not finished remove what they wrote.
        if let Some(parts) = self.parts.take() {
            self.core.jobs.withdraw(&*parts);
            parts.abandon(&*self.core.env.scheduler);
        }
        // The last to hold the inputs, if no reader does: they go before long, not with the next garbage.
        self.plan.inputs.clear();
        self.core.jobs.busy().end(claim);
        self.core.jobs.collect_garbage();
        self.core.jobs.warm(std::mem::take(&mut self.warm));
        self.core.note_progress();
    }
}

impl Drop for Carrying {
    fn drop(&mut self) {
        self.release();
    }
}

/// How long a compaction stands aside for a flush before each of its steps, which take about half a millisecond.
const ASIDE: Duration = Duration::from_millis(5);

/// Level 0 rests when its newest table is older than this. After a clock that was set back it never seems
/// to, which costs readers a few tables more until the next flush.
const REST: Duration = Duration::from_secs(5);

/// The load on level 0 of `tree`, where reads have paid for a merge of tables up to `paid`.
pub(crate) fn load(core: &Core, tree: &Tree, paid: Option<FileNumber>) -> Load {
    let tables = tree.levels[0].tables();
    let Some(newest) = tables.first() else { return Load::Rested };
    let age = core.env.clock.wall_millis().saturating_sub(newest.meta.created_millis);
    if !core.jobs.settling() && Duration::from_millis(age) < REST {
        return Load::Flushing;
    }
    let is_paid = paid.is_some_and(|paid| tables.iter().any(|table| table.number() <= paid));
    if is_paid { Load::Read } else { Load::Rested }
}

/// The most urgent plan over all keyspaces, its inputs claimed.
fn pick_and_claim(core: &Arc<Core>) -> Option<Carrying> {
    let mut settings = table_io::compaction_settings(&core.options);
    let oldest = core.snapshots.boundaries().first().copied().unwrap_or(SeqNo::ZERO);
    let paid = core.read_costs.paid();
    // The claims first, the version second: a claim that is gone has its result in the version. The other
    // way round, a job that ended in between would have its inputs picked again.
    let mut busy = core.jobs.busy();
    let version = core.versions.current();
    let shortage = core.jobs.shortage.lock();
    shortage.limit(&mut settings);
    let keyspaces = version.keyspaces().iter().filter(|keyspace| !keyspace.tree.is_empty());
    let candidates = keyspaces.map(|keyspace| Candidate {
        keyspace: keyspace.id,
        tree: &keyspace.tree,
        load: load(core, &keyspace.tree, paid.get(&keyspace.id).copied()),
        may_clean_up: shortage.may_clean_up(keyspace.id, &keyspace.tree),
    });
    let plan = esker_compaction::pick_among(candidates, &settings, &busy, oldest)?;
    drop(shortage);
    let claim = busy.start(&plan);
    drop(busy);
    Some(Carrying::new(core, plan, claim))
}

/// Whether `plan`, which has failed for `error`, is not due any more.
fn is_left_alone(core: &Core, plan: &Plan, error: &Error) -> bool {
    if stops_writes(error) {
        return false;
    }
    if error.is_no_space() {
        let version = core.versions.current();
        let tree = version.keyspace(plan.keyspace).map(|keyspace| &keyspace.tree);
        if core.jobs.shortage.lock().found_none(plan, tree, core.options.table_bytes) {
            return true;
        }
    }
    let is_for_reads = matches!(plan.reason, Reason::Read { .. });
    if is_for_reads {
        core.read_costs.refuse(plan.keyspace);
    }
    is_for_reads
}

/// See the module.
pub(super) struct Compaction {
    core: Weak<Core>,
    carrying: Option<Carrying>,
    failures: Failures,
    /// It has just stood aside for a flush; now it does a step all the same, since a flush may go on and on, or fail.
    stood_aside: bool,
}

impl Compaction {
    /// A job that has work, or `None` if nothing needs compacting.
    pub(super) fn pick(core: &Arc<Core>) -> Option<Self> {
        let carrying = Some(pick_and_claim(core)?);
        Some(Compaction {
            core: Arc::downgrade(core),
            carrying,
            failures: Failures::default(),
            stood_aside: false,
        })
    }

    fn advance(&mut self, core: &Arc<Core>) -> Result<Progress> {
        if self.carrying.is_none() {
            self.carrying = pick_and_claim(core);
        }
        let Some(carrying) = &mut self.carrying else { return Ok(Progress::Done) };
        if carrying.step()? {
            self.carrying = None;
            self.failures = Failures::default();
            core.jobs.shortage.lock().found_space();
            // What it has put down may be work for the others.
            core.jobs.start_compactions();
        }
        Ok(Progress::More)
    }
}

impl Job for Compaction {
    fn name(&self) -> &'static str {
        NAME
    }

    fn step(&mut self) -> Progress {
        let Some(core) = self.core.upgrade() else { return Progress::Done };
        self.stood_aside = !self.stood_aside && core.flush_goes_first();
        if self.stood_aside {
            return Progress::After(ASIDE);
        }
        let error = match self.advance(&core) {
            Ok(Progress::Done) => {
                core.jobs.compaction_ends();
                // A flush that found every place taken just before has left its work to this one.
                core.jobs.start_compactions();
                core.jobs.start_helpers();
                core.note_progress();
                return Progress::Done;
            }
            Ok(progress) => return progress,
            Err(error) => error,
        };
        let carried = self.carrying.take();
        if let Some(plan) = carried.as_ref().map(|carrying| &carrying.plan)
            && is_left_alone(&core, plan, &error)
        {
            // Nobody needs it: neither may it stop writes, nor fill a full disk again and again. First it is not due any more,
            // then its claim ends, and then a listener, who may compact by hand, is told.
            drop(carried);
            tell_failure(&core, NAME, &error, false);
            return Progress::More;
        }
        drop(carried);
        match after_failure(&core, NAME, &error, &mut self.failures) {
            AfterFailure::Retry(pause) => Progress::After(pause),
            AfterFailure::GiveUp => {
                core.jobs.compaction_ends();
                core.progress.notify_all();
                Progress::Done
            }
        }
    }

    fn panicked(&mut self, message: &str) {
        let Some(core) = self.core.upgrade() else { return };
        self.carrying = None;
        core.jobs.compaction_ends();
        let message = message.to_string();
        core.stop_writes(&Error::CallbackPanicked { callback: CALLBACK, message });
    }
}
