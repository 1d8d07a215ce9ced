//! The merge run: sorted sources in, tables out. Flush and compaction both are one.
//!
//! A run is resumable: each [`MergeRun::step`] does a bounded amount of work and holds nothing but
//! memory between steps. In order:
//!
//! 1. Merge the sources, drop what nobody sees ([`drop_rules`](crate::drop_rules)), cut the rest into
//!    tables (`outputs`); long values go to blob files ([`blobs`](crate::blobs)).
//! 2. Read every finished table, and the values written for it, back before going on (`readback`).
//! 3. At the end, prove the counts: entries in − dropped = entries out, and each output holds what it was
//!    given.
//!
//! Then [`MergeRun::finish`] hands the tables out, if each input gave as many entries, with the same content
//! hash, as its description says: to this run, or to it and the runs over other parts of the keys
//! ([`subcompaction`](crate::subcompaction)) together. On any error the inputs are untouched and the
//! outputs are worthless: drop the run, and it has what it wrote removed ([`RunInput::remove`]).
//!
//! Durability order: each output is synced before it is read back; its name becomes durable with the
//! manifest commit that installs it; only after that commit may inputs or logs go.

use std::cmp::Ordering;
use std::sync::Arc;

use esker_base::blob::{BlobMeta, BlobPointer};
use esker_base::checksum::entry_hash;
use esker_base::filename::FileName;
use esker_base::key::compare;
use esker_base::ledger::{Held, Purpose};
use esker_base::merge::Merge;
use esker_base::range_tombstone::Fragments;
use esker_base::table_meta::TableMeta;
use esker_base::{Cursor, Error, InternalKey, Kind, MergeOperator, OpCost, Result, SeqNo};
use esker_manifest::TableHandle;
use esker_sstable::{CursorOptions, TableContext, TableCursor, TableReader};

use crate::below::Below;
use crate::blobs::{BlobRules, Blobs};
use crate::drop_rules::{RangeDeletes, Stripes};
use crate::level_cursor::LevelCursor;
use crate::outputs::{Cut, MakeWriter, Outputs};
use crate::plan::Plan;
use crate::readback::Readback;
use crate::subcompaction::Part;
use crate::versions::{Dropped, Versions};

#[cfg(test)]
pub(crate) mod tests;

/// One sorted input of a run.
pub struct RunSource<C> {
    /// Its entries.
    pub cursor: C,
    /// Its range tombstones, one set for each table or memtable.
    pub tombstones: Vec<Arc<Fragments>>,
    /// The tables that the cursor walks, to prove what it gave; empty for a memtable.
    pub tables: Vec<TableMeta>,
}

impl RunSource<LevelCursor<TableCursor>> {
    /// The inputs of `plan`: one source for each level-0 table, one for each other level. `open` hands
    /// out a table's reader, as `|table| table.reader().cloned()` does. Nothing that is read goes into the block cache.
    pub fn of_plan(
        plan: &Plan,
        mut open: impl FnMut(&Arc<TableHandle>) -> Result<Arc<TableReader>>,
    ) -> Result<Vec<Self>> {
        let mut sources = Vec::new();
        for (level, tables) in &plan.inputs {
            let apart = if *level == 0 { 1 } else { tables.len() };
            for tables in tables.chunks(apart) {
                let readers = tables.iter().map(&mut open).collect::<Result<Vec<_>>>()?;
                let metas = tables.iter().map(|table| table.meta.clone()).collect();
                sources.push(RunSource::of_tables(&readers, metas));
            }
        }
        Ok(sources)
    }

    /// Tables of one level, ascending, as one source.
    pub fn of_tables(readers: &[Arc<TableReader>], tables: Vec<TableMeta>) -> Self {
        let options = CursorOptions { fill_cache: false, readahead: true };
        RunSource {
            cursor: LevelCursor::new(readers.iter().map(|reader| reader.cursor(options)).collect()),
            tombstones: readers.iter().map(|reader| Arc::clone(reader.tombstones())).collect(),
            tables,
        }
    }
}

impl<C: Cursor> RunSource<C> {
    /// A memtable.
    pub fn of_memtable(cursor: C, tombstones: Option<Arc<Fragments>>) -> Self {
        RunSource { cursor, tombstones: tombstones.into_iter().collect(), tables: Vec::new() }
    }
}

/// What a run is told.
pub struct RunInput<C> {
    /// What to merge. The order of sources does not matter: entries are ordered by sequence number alone.
    pub sources: Vec<RunSource<C>>,
    /// The numbers of the live snapshots, taken when the run begins, and the newest visible number. Not
    /// empty. Snapshots taken later are at least as new as that.
    pub snapshots: Vec<SeqNo>,
    /// What may lie below the output.
    pub below: Below,
    /// The level of the output; 0 for a flush.
    pub output_level: u8,
    /// The keys to merge; [`Part::default`] for all.
    pub part: Part,
    /// The keyspace's merge operator. Without one, operands are kept as they are.
    pub operator: Option<Arc<dyn MergeOperator>>,
    /// Where outputs are cut.
    pub cut: Cut,
    /// Makes the writer of the next output.
    pub outputs: MakeWriter,
    /// What is done with values in blob files.
    pub blobs: BlobRules,
    /// Where the outputs lie, to read them back.
    pub context: TableContext,
    /// Removes a file that the run has written when the run is given up: only the directory's owner knows
    /// whether the file with that name is still the run's. Best effort: what is left is removed when the
    /// database is opened again.
    pub remove: RemoveFile,
}

/// See [`RunInput::remove`].
pub type RemoveFile = Box<dyn FnMut(FileName) + Send>;

/// What a run came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunOutput {
    /// The tables, in key order; not overlapping; synced and read back.
    pub tables: Vec<TableMeta>,
    /// The blob files that were written for them; synced and read back.
    pub blobs: Vec<BlobMeta>,
    /// Entries read.
    pub entries_in: u64,
    /// Keys and values read, in bytes.
    pub bytes_in: u64,
    /// Entries that were dropped, by reason.
    pub dropped: Dropped,
    /// Range tombstones that were dropped, counted by fragment and number.
    pub range_tombstones_dropped: u64,
    /// Entries whose number became zero.
    pub zeroed: u64,
}

/// A merge in progress. See the module.
pub struct MergeRun<C: Cursor> {
    merge: Merge<C>,
    /// For each source: what its tables hold by their descriptions.
    promised: Vec<Vec<TableMeta>>,
    /// For each source: entries and content hash as read.
    given: Vec<(u64, u64)>,
    part: Part,
    versions: Versions,
    /// The number of the last entry read, of the key that `versions` holds.
    seqno: SeqNo,
    outputs: Outputs,
    readback: Option<Readback>,
    /// How many outputs were read back.
    proved: usize,
    context: TableContext,
    remove: RemoveFile,
    totals: RunOutput,
    phase: Phase,
    /// The memory that writing takes.
    held: Held,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    New,
    Merging,
    /// Everything is merged; the last outputs are being read back.
    Proving,
    Done,
    /// An error came: nothing more will be done.
    Failed,
}

impl<C: Cursor> MergeRun<C> {
    /// A run that has done nothing yet.
    pub fn new(input: RunInput<C>) -> Self {
        let stripes = Stripes::new(input.snapshots);
        let tombstones: Vec<Arc<Fragments>> =
            input.sources.iter().flat_map(|source| source.tombstones.iter().cloned()).collect();
        let ranges = RangeDeletes::new(&tombstones, &stripes);
        let (retained, dropped) = ranges.retained(&stripes, &input.below);
        let range_tombstones_dropped = if input.part.is_first() { dropped } else { 0 };
        let retained = input.part.clip(retained);
        let zero = input.output_level > 0 && input.below.is_nothing();
        let (cursors, promised): (Vec<C>, Vec<Vec<TableMeta>>) =
            input.sources.into_iter().map(|source| (source.cursor, source.tables)).unzip();
        MergeRun {
            given: vec![(0, 0); cursors.len()],
            merge: Merge::new(cursors),
            promised,
            part: input.part,
            versions: Versions::new(stripes, ranges, input.below, zero, input.operator),
            seqno: SeqNo::ZERO,
            outputs: Outputs::new(input.outputs, input.cut, retained, Blobs::new(input.blobs)),
            readback: None,
            proved: 0,
            held: input.context.ledger.hold(Purpose::Compaction, 0),
            context: input.context,
            remove: input.remove,
            totals: RunOutput { range_tombstones_dropped, ..RunOutput::default() },
            phase: Phase::New,
        }
    }

    /// Go on for about `budget_bytes` of keys and values (an output that is finished meanwhile is synced
    /// in the same step); whether the run is done. After an error every later step is a programmer's
    /// mistake and panics.
    pub fn step(&mut self, budget_bytes: u64) -> Result<bool> {
        assert!(self.phase != Phase::Failed, "a step of a run that has failed");
        let result = self.go_on(budget_bytes);
        self.held.resize(self.outputs.memory());
        if result.is_err() {
            self.phase = Phase::Failed;
        }
        result
    }

    /// Hand the tables out. Errs if an input did not give what its description promises. Panics unless a
    /// step has said that the run is done.
    pub fn finish(self) -> Result<RunOutput> {
        MergeRun::finish_parts(vec![self])
    }

    /// Hand out the tables of runs that were told the same except for their parts, which ascend and
    /// together hold every key. Errs if they, together, were not given what an input's description
    /// promises. Panics unless each is done.
    pub fn finish_parts(mut runs: Vec<Self>) -> Result<RunOutput> {
        assert!(runs.iter().all(|run| run.phase == Phase::Done), "a run is finished before it is done");
        MergeRun::prove(&runs)?;
        MergeRun::check_reach(&runs)?;
        let mut all = RunOutput::default();
        for run in &mut runs {
            let totals = std::mem::take(&mut run.totals);
            let (tables, blobs) = run.outputs.take_finished();
            all.tables.extend(tables);
            all.blobs.extend(blobs);
            all.entries_in += totals.entries_in;
            all.bytes_in += totals.bytes_in;
            all.dropped.add(totals.dropped);
            all.range_tombstones_dropped += totals.range_tombstones_dropped;
            all.zeroed += totals.zeroed;
        }
        Ok(all)
    }

    /// Whether each source gave `runs` together the entries that its tables' descriptions promise.
    fn prove(runs: &[Self]) -> Result<()> {
        let Some(first) = runs.first() else { return Ok(()) };
        for (source, tables) in first.promised.iter().enumerate().filter(|(_, tables)| !tables.is_empty()) {
            let sum = |all: (u64, u64), one: (u64, u64)| (all.0 + one.0, all.1.wrapping_add(one.1));
            let promised = tables.iter().map(|table| (table.entries, table.content_hash)).fold((0, 0), sum);
            let given = runs.iter().map(|run| run.given[source]).fold((0, 0), sum);
            if given != promised {
                return Err(
                    first.wrong(source, "it does not hold the entries that its description promises")
                );
            }
        }
        Ok(())
    }

    /// Whether what `runs` wrote lies where the tables' descriptions promise: in ascending order, and with no key and no number
    /// that no description has. The tree has room for nothing else.
    fn check_reach(runs: &[Self]) -> Result<()> {
        let Some(first) = runs.first() else { return Ok(()) };
        let sources = || first.promised.iter().flatten();
        let bounds = sources().map(|table| table.bounds.clone()).reduce(|all, one| all.union(&one));
        // A memtable promises nothing: its rows came through the engine.
        let Some(bounds) = bounds else { return Ok(()) };
        let newest = sources().map(|table| table.largest_seqno).max();
        let mut last: Option<&TableMeta> = None;
        for table in runs.iter().flat_map(|run| run.outputs.finished()) {
            let reaches_out = bounds.union(&table.bounds) != bounds || Some(table.largest_seqno) > newest;
            if reaches_out || last.is_some_and(|last| !last.bounds.ends_before(&table.bounds.smallest)) {
                let at = first.promised.iter().position(|tables| !tables.is_empty()).unwrap_or(0);
                let what = "it, or another that is merged with it, has keys or numbers beyond those of its description";
                return Err(first.wrong(at, what));
            }
            last = Some(table);
        }
        Ok(())
    }

    /// Take another description of a source's tables for true.
    #[cfg(test)]
    pub(crate) fn describe_anew(&mut self, source: usize, tables: Vec<TableMeta>) {
        self.promised[source] = tables;
    }

    /// Add what reading the sources has cost since the last call to `cost`.
    pub fn drain_cost(&mut self, cost: &mut OpCost) {
        self.merge.drain_cost(cost);
        cost.add(&self.outputs.blobs().take_cost());
    }

    fn go_on(&mut self, budget_bytes: u64) -> Result<bool> {
        let mut budget = budget_bytes.max(1);
        if self.phase == Phase::New {
            match &self.part.start {
                None => self.merge.seek_first()?,
                Some(start) => self.merge.seek(InternalKey::before_all(start))?,
            }
            self.phase = Phase::Merging;
        }
        while budget > 0 && self.phase != Phase::Done {
            if self.read_back(&mut budget)? {
                match self.phase {
                    Phase::Merging => self.merge_on(&mut budget)?,
                    _ => self.phase = Phase::Done,
                }
            }
        }
        Ok(self.phase == Phase::Done)
    }

    /// Read finished outputs back; whether none is left.
    fn read_back(&mut self, budget: &mut u64) -> Result<bool> {
        while let Some(meta) = self.outputs.finished().get(self.proved) {
            let readback = match &mut self.readback {
                Some(readback) => readback,
                none => none.insert(Readback::open(&self.context, meta, &self.outputs.blobs_of(meta))?),
            };
            if !readback.step(budget)? {
                return Ok(false);
            }
            self.readback = None;
            self.proved += 1;
        }
        Ok(true)
    }

    /// Merge until the budget is used up, an output is finished, or nothing is left of the part.
    fn merge_on(&mut self, budget: &mut u64) -> Result<()> {
        while *budget > 0 && self.outputs.finished().len() == self.proved {
            let Some(leader) = self.merge.leader() else { return self.end() };
            let (key, value) = (self.merge.key(), self.merge.value());
            let (seqno, kind) = (self.merge.seqno(), self.merge.kind());
            let behind = match self.totals.entries_in {
                0 => Ordering::Less,
                _ => compare(self.versions.key(), key),
            };
            let same_key = behind == Ordering::Equal;
            if !same_key && self.part.is_before(key) {
                return self.end();
            }
            let hash = entry_hash(key, seqno.0, kind as u8, value);
            let given = &mut self.given[leader];
            *given = (given.0 + 1, given.1.wrapping_add(hash));
            let bytes = (key.len() + value.len()) as u64;
            self.totals.bytes_in += bytes;
            *budget = budget.saturating_sub(bytes);
            let ascends = if same_key { seqno < self.seqno } else { behind == Ordering::Less };
            let pointer_fits = kind != Kind::BlobPut || value.len() == BlobPointer::BYTES;
            if !ascends || kind == Kind::RangeDelete || !pointer_fits {
                return Err(self.wrong(leader, "its entries are not in order or not of a known kind"));
            }
            self.totals.entries_in += 1;
            self.seqno = seqno;
            if !same_key {
                self.versions.begin(key, &mut self.outputs)?;
            }
            self.versions.entry(seqno, kind, value, hash, &mut self.outputs)?;
            *budget = budget.saturating_sub(self.outputs.blobs().take_moved());
            self.merge.next()?;
        }
        Ok(())
    }

    /// All of the part is read: write what is left and prove the counts.
    fn end(&mut self) -> Result<()> {
        self.versions.end(&mut self.outputs)?;
        self.outputs.end()?;
        self.totals.dropped = self.versions.dropped;
        self.totals.zeroed = self.versions.zeroed;
        let written: u64 = self.outputs.finished().iter().map(|table| table.entries).sum();
        assert_eq!(
            self.totals.entries_in,
            written + self.totals.dropped.total(),
            "a run lost count of its entries"
        );
        self.phase = Phase::Proving;
        Ok(())
    }

    /// Damage in `source`, which names its first table.
    #[cold]
    fn wrong(&self, source: usize, what: &str) -> Error {
        let tables = &self.promised[source];
        let name =
            tables.first().map_or("a memtable".to_owned(), |t| FileName::Table(t.number).to_string());
        let among = match tables.len() {
            0 | 1 => String::new(),
            count => format!(" (or one of the {} tables behind it in its level)", count - 1),
        };
        Error::corruption(self.context.dir.join(name), 0, format!("{what}{among}"))
    }
}

impl<C: Cursor> Drop for MergeRun<C> {
    fn drop(&mut self) {
        // Files are closed before they are removed.
        self.readback = None;
        for file in self.outputs.give_up() {
            (self.remove)(file);
        }
    }
}
