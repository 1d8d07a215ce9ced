//! Sorted sources that follow one another, as the tables of one level do, as one cursor (RocksDB's `LevelIterator`).
//!
//! Every source lies wholly before the next, so no comparison between them is ever needed: the cursor
//! stands on the entry its current source stands on. At most one source is valid.
//!
//! It is for compactions: it is made of a cursor for each table, all open from the start, since a
//! compaction reads every table. The engine's `RunCursor`, with which scans walk over a level, opens a
//! table only when it comes to it, moves one cursor from table to table, and knows the scan's bounds.

use esker_base::{Cursor, Error, InternalKey, Kind, OpCost, Result, SeqNo};

/// Cursors over ascending, separate ranges, as one. See [`Cursor`] for the contract.
#[derive(Debug)]
pub struct LevelCursor<C> {
    sources: Vec<C>,
    /// The source that stands on the current entry; `sources.len()` if none does.
    at: usize,
    error: Option<Error>,
}

impl<C: Cursor> LevelCursor<C> {
    /// A cursor over `sources`, each wholly before the next, standing nowhere.
    pub fn new(sources: Vec<C>) -> Self {
        let at = sources.len();
        LevelCursor { sources, at, error: None }
    }

    /// Try `seek` on one source after the other until one stands somewhere.
    fn first_valid(
        &mut self,
        order: impl Iterator<Item = usize>,
        mut seek: impl FnMut(&mut C) -> Result<()>,
    ) -> Result<()> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        for index in order {
            let source = &mut self.sources[index];
            if let Err(error) = seek(source) {
                return Err(self.fail(error));
            }
            if source.valid() {
                self.at = index;
                return Ok(());
            }
        }
        self.at = self.sources.len();
        Ok(())
    }

    /// Keep the first error; from it on the cursor stands nowhere.
    #[cold]
    fn fail(&mut self, error: Error) -> Error {
        self.at = self.sources.len();
        self.error.get_or_insert(error).clone()
    }

    #[inline]
    fn here(&self) -> &C {
        &self.sources[self.at]
    }
}

impl<C: Cursor> Cursor for LevelCursor<C> {
    fn seek_first(&mut self) -> Result<()> {
        self.first_valid(0..self.sources.len(), C::seek_first)
    }
    fn seek_last(&mut self) -> Result<()> {
        self.first_valid((0..self.sources.len()).rev(), C::seek_last)
    }
    fn seek(&mut self, target: InternalKey<'_>) -> Result<()> {
        self.first_valid(0..self.sources.len(), |source| source.seek(target))
    }
    fn seek_before(&mut self, target: InternalKey<'_>) -> Result<()> {
        self.first_valid((0..self.sources.len()).rev(), |source| source.seek_before(target))
    }
    #[inline]
    fn next(&mut self) -> Result<()> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        let source = &mut self.sources[self.at];
        if let Err(error) = source.next() {
            return Err(self.fail(error));
        }
        if source.valid() {
            Ok(())
        } else {
            self.first_valid(self.at + 1..self.sources.len(), C::seek_first)
        }
    }
    #[inline]
    fn prev(&mut self) -> Result<()> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        let source = &mut self.sources[self.at];
        if let Err(error) = source.prev() {
            return Err(self.fail(error));
        }
        if source.valid() { Ok(()) } else { self.first_valid((0..self.at).rev(), C::seek_last) }
    }
    #[inline]
    fn valid(&self) -> bool {
        self.sources.get(self.at).is_some_and(C::valid)
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
    fn drain_cost(&mut self, cost: &mut OpCost) {
        for source in &mut self.sources {
            source.drain_cost(cost);
        }
    }
}

#[cfg(test)]
mod tests;
