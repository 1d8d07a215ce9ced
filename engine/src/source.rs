//! The sources a scan merges, memtables and sorted runs of tables, and which of them it needs.

use std::path::PathBuf;
use std::sync::Arc;

use esker_base::blob::BlobPointer;
use esker_base::bounds::Bounds;
use esker_base::cursor::{EntryView, Stepped};
use esker_base::range_tombstone::Fragments;
use esker_base::{Cursor, Error, InternalKey, Kind, OpCost, Result, SeqNo};
use esker_manifest::{Level, SortedRun, TableHandle};
use esker_sstable::{BlobReader, TableCursor};

use crate::memtable::MemtableCursor;
use crate::run_cursor::{RunCursor, RunPlace};
use crate::scan_view::ScanView;
use crate::table_io;

/// One of the cursor kinds, dispatched statically.
pub(crate) enum Source {
    Memtable(MemtableCursor),
    /// In an allocation of its own, as short ones are handed out and taken back fast: where all were in one of some thousand bytes, the
    /// allocator took a seventh of a scan of five rows for it. A step takes a load more.
    Run(Box<RunCursor>),
}

impl Source {
    /// The file that it stands in; of a memtable there is none.
    pub(crate) fn path(&self) -> PathBuf {
        match self {
            Source::Memtable(_) => PathBuf::new(),
            Source::Run(run) => run.path(),
        }
    }

    /// Where the value lies that the entry it stands on refers to; and how long it is, and so on.
    pub(crate) fn blob(&self) -> Result<(&Arc<BlobReader>, BlobPointer)> {
        let Source::Run(run) = self else {
            return Err(Error::invalid("a memtable refers to no blob file"));
        };
        let pointer = table_io::pointer(run.value(), || Ok(run.path()))?;
        Ok((run.blob(&pointer)?, pointer))
    }

    /// Whether rows may follow as a run: a memtable has none.
    #[inline]
    pub(crate) fn has_runs(&self) -> bool {
        matches!(self, Source::Run(_))
    }

    /// The cursor of the table that it stands in; a memtable has none.
    #[inline]
    pub(crate) fn table(&mut self) -> Option<&mut TableCursor> {
        match self {
            Source::Memtable(_) => None,
            Source::Run(run) => run.table(),
        }
    }

    /// Whether what it reads from now on is kept in the cache.
    pub(crate) fn keep(&mut self, keeps: bool) {
        if let Source::Run(run) = self {
            run.keep(keeps);
        }
    }
}

/// What a scan knows of a source besides its entries.
pub(crate) struct SourceInfo {
    /// The level of its tables; none: it is a memtable, and what it holds is in memory already.
    pub(crate) level: Option<usize>,
    /// No entry of the source has a larger number.
    pub(crate) largest_seqno: SeqNo,
    /// Its range tombstones; empty ones are left out.
    pub(crate) tombstones: Vec<Arc<Fragments>>,
}

/// What a scan merges, newest first: cursors, and what is known of each.
pub(crate) struct Sources {
    pub(crate) cursors: Vec<Source>,
    pub(crate) infos: Vec<SourceInfo>,
}

impl Sources {
    /// The sources of `view` that may hold something within `bounds`; those alone that may hold something with a number after
    /// `after`, if that is given: of a run, each stretch of such tables is a source.
    pub(crate) fn of(view: &Arc<ScanView>, bounds: &Arc<Bounds>, after: Option<SeqNo>) -> Result<Sources> {
        let levels = &view.tree.levels;
        let runs: usize = levels.iter().map(|level| level.runs().len()).sum();
        // Beside the sealed memtables the active one and a transaction's own.
        let mut sources = Sources::with_capacity(2 + view.superversion.sealed.len() + runs);
        let own = view.own.iter().map(|(memtable, upto)| (memtable, *upto));
        let layers = view.superversion.memtables();
        let layers = layers.filter(|layer| after.is_none_or(|after| layer.may_hold_after(after)));
        let memtables = own.chain(layers.map(|layer| (&layer.memtable, view.read_seqno)));
        for (memtable, upto) in memtables.filter(|(memtable, _)| !memtable.is_empty()) {
            let tombstones = memtable.tombstones(view.keyspace, upto);
            let info = SourceInfo {
                level: None,
                largest_seqno: SeqNo::MAX,
                tombstones: tombstones.into_iter().collect(),
            };
            let cursor = memtable.cursor(view.keyspace).serving(bounds, view.read_seqno);
            sources.push(Source::Memtable(cursor), info);
        }
        for (level, runs) in levels.iter().map(Level::runs).enumerate() {
            for (index, run) in runs.iter().enumerate() {
                sources.push_stretches(run, RunPlace { view, level, index }, bounds, after)?;
            }
        }
        Ok(sources)
    }

    /// None yet, with room for so many.
    pub(crate) fn with_capacity(sources: usize) -> Self {
        Sources { cursors: Vec::with_capacity(sources), infos: Vec::with_capacity(sources) }
    }

    /// One that is older than those that are there.
    pub(crate) fn push(&mut self, cursor: Source, info: SourceInfo) {
        self.cursors.push(cursor);
        self.infos.push(info);
    }

    /// The stretches of tables of `run`, which lies at `place`, that are asked for.
    fn push_stretches(
        &mut self,
        run: &SortedRun,
        place: RunPlace<'_>,
        bounds: &Arc<Bounds>,
        after: Option<SeqNo>,
    ) -> Result<()> {
        let meeting = run.meeting(bounds);
        let mut end = meeting.start;
        let tables = run.tables().get(meeting).unwrap_or_default();
        let is_younger = |t: &Arc<TableHandle>| after.is_none_or(|after| t.meta.largest_seqno > after);
        for stretch in tables.chunk_by(|a, b| is_younger(a) == is_younger(b)) {
            let range = end..end + stretch.len();
            end = range.end;
            if !is_younger(&stretch[0]) {
                continue;
            }
            let mut info =
                SourceInfo { level: Some(place.level), largest_seqno: SeqNo::ZERO, tombstones: Vec::new() };
            for table in stretch {
                info.largest_seqno = info.largest_seqno.max(table.meta.largest_seqno);
                if table.meta.range_tombstones > 0 {
                    info.tombstones.push(Arc::clone(table.reader()?.tombstones()));
                }
            }
            self.push(Source::Run(Box::new(RunCursor::new(place, range, Arc::clone(bounds)))), info);
        }
        Ok(())
    }
}

macro_rules! each {
    ($self:expr, $cursor:ident => $call:expr) => {
        match $self {
            Source::Memtable($cursor) => $call,
            Source::Run($cursor) => $call,
        }
    };
}

impl Cursor for Source {
    #[inline]
    fn seek_first(&mut self) -> Result<()> {
        each!(self, c => c.seek_first())
    }
    #[inline]
    fn seek_last(&mut self) -> Result<()> {
        each!(self, c => c.seek_last())
    }
    #[inline]
    fn seek(&mut self, target: InternalKey<'_>) -> Result<()> {
        each!(self, c => c.seek(target))
    }
    #[inline]
    fn seek_before(&mut self, target: InternalKey<'_>) -> Result<()> {
        each!(self, c => c.seek_before(target))
    }
    #[inline]
    fn next(&mut self) -> Result<()> {
        each!(self, c => c.next())
    }
    #[inline]
    fn prev(&mut self) -> Result<()> {
        each!(self, c => c.prev())
    }
    #[inline]
    fn next_older(&mut self, seqno: SeqNo) -> Result<u64> {
        each!(self, c => c.next_older(seqno))
    }
    #[inline]
    fn approach(&mut self, target: InternalKey<'_>, step: u8) {
        each!(self, c => c.approach(target, step));
    }
    #[inline]
    fn approach_before(&mut self, target: InternalKey<'_>, step: u8) {
        each!(self, c => c.approach_before(target, step));
    }
    #[inline(always)]
    fn next_distinct(&mut self) -> Option<Stepped<'_>> {
        each!(self, c => c.next_distinct())
    }
    #[inline(always)]
    fn prev_distinct(&mut self) -> Option<Stepped<'_>> {
        each!(self, c => c.prev_distinct())
    }
    #[inline]
    fn pass_overwritten(&mut self, seqno: SeqNo) -> u64 {
        each!(self, c => c.pass_overwritten(seqno))
    }
    #[inline]
    fn known_row(&self, back: bool) -> Option<Stepped<'_>> {
        each!(self, c => c.known_row(back))
    }
    #[inline]
    fn is_behind_distinct(&self) -> bool {
        each!(self, c => c.is_behind_distinct())
    }
    #[inline]
    fn valid(&self) -> bool {
        each!(self, c => c.valid())
    }
    #[inline]
    fn key(&self) -> &[u8] {
        each!(self, c => c.key())
    }
    #[inline]
    fn seqno(&self) -> SeqNo {
        each!(self, c => c.seqno())
    }
    #[inline]
    fn kind(&self) -> Kind {
        each!(self, c => c.kind())
    }
    #[inline]
    fn value(&self) -> &[u8] {
        each!(self, c => c.value())
    }
    #[inline]
    fn entry(&self) -> EntryView<'_> {
        each!(self, c => c.entry())
    }
    fn drain_cost(&mut self, cost: &mut OpCost) {
        each!(self, c => c.drain_cost(cost));
    }
}
