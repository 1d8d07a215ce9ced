//! The sources a scan merges: memtables and sorted runs of tables.

use std::path::PathBuf;
use std::sync::Arc;

use esker_base::blob::BlobPointer;
use esker_base::cursor::{EntryView, Stepped};
use esker_base::range_tombstone::Fragments;
use esker_base::{Cursor, Error, InternalKey, Kind, OpCost, Result, SeqNo};
use esker_sstable::{BlobReader, TableCursor};

use crate::memtable::MemtableCursor;
use crate::run_cursor::RunCursor;
use crate::table_io;

/// One of the cursor kinds, dispatched statically.
#[expect(
    clippy::large_enum_variant,
    reason = "a handful in each scan, and a step must not chase a pointer"
)]
pub(crate) enum Source {
    Memtable(MemtableCursor),
    Run(RunCursor),
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
    pub(crate) level: Option<u8>,
    /// No entry of the source has a larger number.
    pub(crate) largest_seqno: SeqNo,
    /// Its range tombstones; empty ones are left out.
    pub(crate) tombstones: Vec<Arc<Fragments>>,
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
    fn known_row(&self) -> Option<Stepped<'_>> {
        each!(self, c => c.known_row())
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
