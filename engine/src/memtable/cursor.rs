//! A walk over one keyspace of a memtable.
//!
//! The cursor keeps the memtable alive. It sees every entry that was inserted before its last `seek*`
//! call, or the approach to it, and may or may not see later ones; whoever reads at a sequence number
//! loads that number first, seeks then, and passes over what is newer.

use std::sync::Arc;

use esker_base::bounds::Bounds;
use esker_base::cursor::{EntryView, Stepped};
use esker_base::key::head;
use esker_base::{Cursor, InternalKey, KeyspaceId, Kind, OpCost, Result, SeqNo};

use super::Memtable;
use super::entry::Entry;
use super::index::{Pinned, Walked};

/// A cursor over one keyspace's entries, in internal order. `Send`; owns its memtable.
#[derive(Debug)]
pub(crate) struct MemtableCursor {
    memtable: Arc<Memtable>,
    keyspace: KeyspaceId,
    position: Pinned,
    /// See [`MemtableCursor::serving`].
    scan: Option<Served>,
    /// Since it was last drained.
    cost: Walked,
}

/// What a scan wants of its cursors.
#[derive(Debug)]
struct Served {
    /// None where everything is in them.
    bounds: Option<Arc<Bounds>>,
    upto: SeqNo,
}

impl MemtableCursor {
    pub(super) fn new(memtable: Arc<Memtable>, keyspace: KeyspaceId) -> Self {
        let position = Pinned::nowhere(Arc::clone(&memtable.arena), memtable.reach());
        MemtableCursor { memtable, keyspace, position, scan: None, cost: Walked::default() }
    }

    /// The same cursor for a scan of `bounds` that sees writes up to `upto`: with each cheap step it tells whether that has led to
    /// a row ([`Stepped::is_row`]), so that the scan need not look at the entry again. Of the bounds a step looks at the end to which
    /// it goes; the scan does not seek beyond the other.
    #[must_use]
    pub(crate) fn serving(mut self, bounds: &Arc<Bounds>, upto: SeqNo) -> Self {
        let bounds = (!bounds.are_unbounded()).then(|| Arc::clone(bounds));
        self.scan = Some(Served { bounds, upto });
        self
    }

    #[inline]
    fn here(&self) -> Entry<'_> {
        self.position.entry().expect("the cursor stands on an entry")
    }

    #[inline]
    fn entry_view(&self) -> EntryView<'_> {
        let entry = self.here();
        EntryView { key: entry.key(), seqno: entry.seqno(), kind: entry.kind(), value: entry.value() }
    }
}

impl Served {
    /// Whether the scan sees `entry`, a put, and does not find its key `outside`.
    #[inline]
    fn wants(&self, entry: Entry<'_>, outside: impl FnOnce(&Bounds, &[u8]) -> bool) -> bool {
        entry.is_put_upto(self.upto)
            && self.bounds.as_ref().is_none_or(|bounds| !outside(bounds, entry.key()))
    }
}

#[inline]
fn stepped(entry: Entry<'_>, is_row: bool) -> Stepped<'_> {
    Stepped { head: head(entry.key()), key: entry.key(), value: entry.value(), is_row }
}

impl Cursor for MemtableCursor {
    fn seek_first(&mut self) -> Result<()> {
        self.cost.seeks += 1;
        if let Some(found) = self.memtable.directory.get(self.keyspace) {
            self.position.first(&found.index);
        }
        Ok(())
    }

    fn seek_last(&mut self) -> Result<()> {
        self.cost.seeks += 1;
        if let Some(found) = self.memtable.directory.get(self.keyspace) {
            self.position.last(&found.index);
        }
        Ok(())
    }

    fn seek(&mut self, target: InternalKey<'_>) -> Result<()> {
        self.cost.seeks += 1;
        if let Some(found) = self.memtable.directory.get(self.keyspace) {
            self.position.seek(&found.index, target);
        }
        Ok(())
    }

    fn seek_before(&mut self, target: InternalKey<'_>) -> Result<()> {
        self.cost.seeks += 1;
        if let Some(found) = self.memtable.directory.get(self.keyspace) {
            self.position.seek_before(&found.index, target);
        }
        Ok(())
    }

    fn approach(&mut self, target: InternalKey<'_>, step: u8) {
        if let Some(found) = self.memtable.directory.get(self.keyspace) {
            self.position.approach(&found.index, target, step);
        }
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        assert!(self.valid(), "next() on a cursor that stands nowhere");
        self.position.next();
        Ok(())
    }

    fn next_older(&mut self, seqno: SeqNo) -> Result<u64> {
        assert!(self.valid(), "next_older() on a cursor that stands nowhere");
        let found = self.memtable.directory.get(self.keyspace).expect("the keyspace of an entry");
        let (stepped, sought) = self.position.next_older(&found.index, seqno);
        self.cost.seeks += u64::from(sought);
        Ok(stepped)
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        assert!(self.valid(), "prev() on a cursor that stands nowhere");
        self.position.prev();
        Ok(())
    }

    // Not inlined: it would crowd the step of a table beside it.
    #[inline(never)]
    fn next_distinct(&mut self) -> Option<Stepped<'_>> {
        let found = || self.memtable.directory.get(self.keyspace).map(|found| &found.index);
        let entry = self.position.next_distinct(found, &mut self.cost)?;
        // The newest version of its key comes first.
        let is_row = self.scan.as_ref().is_some_and(|scan| scan.wants(entry, Bounds::past_end));
        Some(stepped(entry, is_row))
    }

    #[inline(never)]
    fn prev_distinct(&mut self) -> Option<Stepped<'_>> {
        let (entry, newest) = self.position.prev_distinct()?;
        let wanted = || self.scan.as_ref().is_some_and(|scan| scan.wants(entry, Bounds::before_start));
        Some(stepped(entry, newest && wanted()))
    }

    #[inline(never)]
    fn pass_overwritten(&mut self, seqno: SeqNo) -> u64 {
        let found = || self.memtable.directory.get(self.keyspace).map(|found| &found.index);
        self.position.pass_overwritten(found, seqno, &mut self.cost)
    }

    #[inline]
    fn is_behind_distinct(&self) -> bool {
        self.position.is_behind_distinct()
    }

    #[inline]
    fn valid(&self) -> bool {
        self.position.entry().is_some()
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.here().key()
    }

    #[inline]
    fn seqno(&self) -> SeqNo {
        self.here().seqno()
    }

    #[inline]
    fn kind(&self) -> Kind {
        self.here().kind()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.here().value()
    }

    #[inline]
    fn entry(&self) -> EntryView<'_> {
        self.entry_view()
    }

    fn drain_cost(&mut self, cost: &mut OpCost) {
        let Walked { seeks, passed } = std::mem::take(&mut self.cost);
        cost.seeks += seeks;
        cost.entries_skipped += passed;
    }
}
