//! The flush: one sealed memtable becomes level-0 tables of all its keyspaces, oldest memtable first, and blob files of
//! their long values.
//!
//! Durability order: each blob file is complete and synced, then each table; one manifest edit names them all, together
//! with the first log still needed and the last number flushed (the commit makes the new names and
//! itself durable); only then the superversion lets the memtable go and the log is removed. Until the
//! edit is durable, the log is what counts.

use std::sync::{Arc, Weak};
use std::time::Duration;

use esker_base::blob::BlobMeta;
use esker_base::event::Event;
use esker_base::filename::FileName;
use esker_base::planted::{self, Planted};
use esker_base::table_meta::TableMeta;
use esker_base::{Error, FileNumber, KeyspaceId, Result, SeqNo};
use esker_compaction::MergeRun;
use esker_manifest::{Edit, TableHandle, Version};
use esker_vfs::scheduler::{Job, Progress};

use super::garbage::{not_installed, remove_written};
use super::parts::Parts;
use super::subcompaction::Sharer;
use super::warm::{are_cached, warm};
use super::{AfterFailure, Failures, after_failure};
use crate::core::Core;
use crate::memtable::MemtableCursor;
use crate::options::Durability;
use crate::superversion::MemtableAndLog;
use crate::table_io;

const NAME: &str = "flush";
/// What failed, if it panicked.
const CALLBACK: &str = "the flush job";

/// See the module.
pub(super) struct Flush {
    core: Weak<Core>,
    work: Option<Work>,
    failures: Failures,
}

/// One memtable under way. Dropped before it is installed, it removes what was written.
struct Work {
    core: Arc<Core>,
    source: Arc<MemtableAndLog>,
    began: Duration,
    /// Keyspaces still to be written.
    keyspaces: Vec<KeyspaceId>,
    parts: Option<Arc<Parts<MemtableCursor>>>,
    /// What was passed of the keyspaces that are written ([`Parts::bytes_passed`]).
    passed: u64,
    tables: Vec<TableMeta>,
    blobs: Vec<BlobMeta>,
}

impl Flush {
    pub(super) fn new(core: &Arc<Core>) -> Self {
        Flush { core: Arc::downgrade(core), work: None, failures: Failures::default() }
    }

    fn advance(&mut self, core: &Arc<Core>) -> Result<Progress> {
        let Some(work) = &mut self.work else {
            return Ok(match core.current.load_full().sealed.last() {
                Some(oldest) => {
                    self.work = Some(Work::begin(core, Arc::clone(oldest)));
                    Progress::More
                }
                None if core.jobs.flush_ends(core) => Progress::Done,
                None => Progress::More,
            });
        };
        if work.write()? {
            return Ok(Progress::More);
        }
        work.install()?;
        self.work = None;
        self.failures = Failures::default();
        core.jobs.flush_succeeded();
        core.jobs.start_compactions();
        Ok(Progress::More)
    }
}

impl Work {
    fn begin(core: &Arc<Core>, source: Arc<MemtableAndLog>) -> Self {
        let mut keyspaces = source.memtable.keyspaces();
        keyspaces.reverse();
        let began = core.env.clock.monotonic();
        Work {
            core: Arc::clone(core),
            source,
            began,
            keyspaces,
            parts: None,
            passed: 0,
            tables: Vec::new(),
            blobs: Vec::new(),
        }
    }

    /// Write a piece; whether there is more to write.
    fn write(&mut self) -> Result<bool> {
        self.tell_progress();
        if let Some(parts) = &self.parts {
            if parts.step(&*self.core.env.scheduler)?
                && let Some(parts) = self.parts.take()
            {
                self.core.jobs.withdraw(&*parts);
                self.passed += parts.bytes_passed();
                let output = MergeRun::finish_parts(parts.finish())?;
                self.tables.extend(output.tables);
                self.blobs.extend(output.blobs);
            }
            return Ok(true);
        }
        let Some(keyspace) = self.keyspaces.pop() else { return Ok(false) };
        // A dropped keyspace's entries go nowhere.
        if let Some(output) = table_io::Output::new(&self.core, keyspace, 0)? {
            let parts = Arc::new(Parts::new(CALLBACK, output.flush_runs(&self.source.memtable)));
            self.core.jobs.offer(parts.clone(), Sharer::Flush);
            self.parts = Some(parts);
        }
        Ok(true)
    }

    /// Tell writers how far it is.
    fn tell_progress(&self) {
        let memtable = &self.source.memtable;
        let passed = self.passed + self.parts.as_ref().map_or(0, |parts| parts.bytes_passed());
        // Each is merged and read back.
        let all = memtable.payload_bytes().saturating_mul(2).max(1);
        let took = self.core.env.clock.monotonic().saturating_sub(self.began);
        let flushed = (passed.saturating_mul(1000) / all).min(1000);
        self.core.pressure.flushing(memtable.entry_bytes(), flushed, took);
    }

    /// Put what was written in the memtable's place.
    fn install(&mut self) -> Result<()> {
        let core = &Arc::clone(&self.core);
        core.check_in_place()?;
        let first_needed = self.first_log_needed_next();
        let (tables, blobs) = self.commit(core, first_needed)?;
        // Until then readers find in the memtable what would be in no cache yet.
        for table in warm_too(&core.versions.current(), &tables) {
            if core.jobs.state.lock().closing {
                break;
            }
            warm(&table);
        }
        core.current.install(|| core.versions.current(), Some(&self.source));
        core.group_sync.forget_before(first_needed);
        if self.source.log < first_needed && !self.keep_log(core) {
            core.jobs.remove_later([FileName::Log(self.source.log)]);
        }
        core.jobs.collect_garbage();
        self.report(core, &tables, &blobs);
        Ok(())
    }

    /// The first log that is needed once this memtable is in tables.
    fn first_log_needed_next(&self) -> FileNumber {
        let current = self.core.current.load_full();
        let newer = current.sealed.iter().rev().find(|m| m.log > self.source.log);
        let first = newer.map_or(current.active.log, |m| m.log);
        if self.core.options.durability == Durability::NoLog {
            // Memtables are numbered like logs but have none: the empty one begun at open stays.
            first.min(self.core.open_log)
        } else {
            first
        }
    }

    /// Commit what was written for keyspaces that are still there, and that no log before `first_needed` is needed any more; what was
    /// written for others is removed. After an error nothing of it is left to install.
    fn commit(
        &mut self,
        core: &Arc<Core>,
        first_needed: FileNumber,
    ) -> Result<(Vec<TableMeta>, Vec<BlobMeta>)> {
        if planted::is(Planted::LoneFlush) && core.options.durability == Durability::NoLog {
            self.install_one(core)?;
        }
        let durable = core.group_sync.durable().filter(|_| !planted::is(Planted::NoWitness));
        let (mut tables, mut dropped) = (Vec::new(), Vec::new());
        let (mut blobs, mut dropped_blobs) = (Vec::new(), Vec::new());
        let committed = core.versions.commit_with(|version| {
            // A keyspace dropped meanwhile wants none.
            (tables, dropped) =
                self.tables.drain(..).partition(|table| version.keyspace(table.keyspace).is_some());
            (blobs, dropped_blobs) =
                self.blobs.drain(..).partition(|blob| version.keyspace(blob.keyspace).is_some());
            let mut edits: Vec<Edit> = tables
                .iter()
                .map(|meta: &TableMeta| Edit::AddTable { level: 0, meta: meta.clone() })
                .collect();
            edits.extend(blobs.iter().map(|meta: &BlobMeta| Edit::AddBlob { meta: *meta }));
            edits.push(Edit::ForgetLogs { before: first_needed });
            edits.push(Edit::LastSeqNo(self.source.last_seqno()));
            // Nothing is synced for it: it goes along.
            let durable = durable.filter(|durable| {
                durable.log >= first_needed
                    && version.marks().durable_log < Some((durable.log, durable.offset))
            });
            edits.extend(
                durable.map(|durable| Edit::DurableLog { number: durable.log, len: durable.offset }),
            );
            Ok(edits)
        });
        remove_written(core, &dropped, &dropped_blobs);
        // Not in force: the next attempt writes the tables anew.
        committed.inspect_err(|error| not_installed(core, error, &tables, &blobs))?;
        Ok((tables, blobs))
    }

    /// It is installed: count it, and tell writers and listeners.
    fn report(&self, core: &Core, tables: &[TableMeta], blobs: &[BlobMeta]) {
        let table_bytes: u64 = tables.iter().map(|t| t.file_bytes).sum();
        let bytes = table_bytes + blobs.iter().map(|blob| blob.file_bytes).sum::<u64>();
        let now = core.env.clock.monotonic();
        #[expect(clippy::unchecked_time_subtraction, reason = "that is the bug")]
        let took = if planted::is(Planted::UncheckedElapsed) {
            now - self.began
        } else {
            now.saturating_sub(self.began)
        };
        core.note_progress();
        // What a recovered log of dropped keyspaces alone has held drains nothing.
        if self.source.memtable.is_empty() {
            return;
        }
        // A flush takes some time however little it writes.
        if self.source.memtable.bytes() >= core.options.memtable_full_bytes() / 2 {
            core.pressure.drained(self.source.memtable.entry_bytes(), took);
        }
        core.metrics.count_flush(bytes, took);
        let tables = tables.iter().map(|t| (t.keyspace, t.number, t.file_bytes)).collect();
        core.emit(&Event::Flushed { log: self.source.log, tables, took });
    }

    /// Keep the memtable's log, which nobody needs any more, for the next one to be written over; whether it is kept.
    fn keep_log(&self, core: &Core) -> bool {
        // One huge batch is not to hold its space for good.
        let longest = core.options.memtable_bytes_max.saturating_mul(2);
        let len = self.source.sealed_log_bytes();
        len.is_some_and(|len| len <= longest) && core.recycled_log.keep(self.source.log)
    }

    /// Install the first keyspace's tables ahead of the others': a bug for the crash suite to find.
    #[cold]
    fn install_one(&mut self, core: &Arc<Core>) -> Result<()> {
        let Some(keyspace) = self.tables.first().map(|table| table.keyspace) else { return Ok(()) };
        let (alone, others): (Vec<TableMeta>, Vec<TableMeta>) =
            self.tables.drain(..).partition(|table| table.keyspace == keyspace);
        self.tables = others;
        let (apart, others): (Vec<BlobMeta>, Vec<BlobMeta>) =
            self.blobs.drain(..).partition(|blob| blob.keyspace == keyspace);
        self.blobs = others;
        core.versions.commit_with(|version| {
            let there = alone.iter().filter(|_| version.keyspace(keyspace).is_some());
            let blobs = apart.iter().map(|meta| Edit::AddBlob { meta: *meta });
            let blobs: Vec<Edit> = blobs.filter(|_| version.keyspace(keyspace).is_some()).collect();
            Ok(there.map(|meta| Edit::AddTable { level: 0, meta: meta.clone() }).chain(blobs).collect())
        })?;
        Ok(())
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if let Some(parts) = self.parts.take() {
            self.core.jobs.withdraw(&*parts);
            parts.abandon(&*self.core.env.scheduler);
        }
        remove_written(&self.core, &self.tables, &self.blobs);
        self.core.pressure.flush_ended();
    }
}

/// Of these new tables of `version`, keyspace by keyspace, those that are to be cached, like most of what was there before.
fn warm_too(version: &Version, tables: &[TableMeta]) -> Vec<Arc<TableHandle>> {
    let mut warm = Vec::new();
    for new in tables.chunk_by(|a, b| a.keyspace == b.keyspace) {
        let keyspace = new.first().and_then(|table| version.keyspace(table.keyspace));
        let Some(tree) = keyspace.map(|keyspace| &keyspace.tree) else { continue };
        let is_new = |table: &TableHandle| new.iter().any(|meta| meta.number == table.number());
        let (new, before): (Vec<_>, Vec<_>) =
            tree.tables().map(|(_, table)| table).partition(|table| is_new(table));
        if are_cached(before.into_iter()) {
            warm.extend(new.into_iter().cloned());
        }
    }
    warm
}

impl MemtableAndLog {
    /// The last number in a sealed memtable.
    pub(crate) fn last_seqno(&self) -> SeqNo {
        self.sealed_seqno().expect("a memtable is flushed after it was sealed")
    }
}

impl Job for Flush {
    fn name(&self) -> &'static str {
        NAME
    }

    fn step(&mut self) -> Progress {
        let Some(core) = self.core.upgrade() else { return Progress::Done };
        match self.advance(&core) {
            Ok(progress) => progress,
            Err(error) => {
                self.work = None;
                let next = after_failure(&core, NAME, &error, &mut self.failures);
                let ends = matches!(next, AfterFailure::GiveUp);
                core.jobs.flush_failed(error, ends);
                core.progress.notify_all();
                match next {
                    AfterFailure::Retry(pause) => Progress::After(pause),
                    AfterFailure::GiveUp => Progress::Done,
                }
            }
        }
    }

    fn panicked(&mut self, message: &str) {
        let Some(core) = self.core.upgrade() else { return };
        let error = Error::CallbackPanicked { callback: CALLBACK, message: message.to_string() };
        core.jobs.flush_failed(error.clone(), true);
        core.stop_writes(&error);
    }
}
