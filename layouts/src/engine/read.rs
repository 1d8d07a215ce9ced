//! One moment of a keyspace, and its scans.

use std::cell::RefCell;
use std::ops::Bound;

use bytes::Bytes;
use esker::{Reader, RowCursor};

use crate::kv::{Go, KeyRange, KvRead, Limits, Row, ScanOptions};
use crate::{OpCost, Result};

/// Fewer keys than this are got one by one: to sort them and to ask ahead for what their gets look at takes half as many
/// instructions again, which only many misses at once are worth.
const TOGETHER_MIN: usize = 4;

/// The values of `keys`, by `one` or `together`, which is one call to whoever counts.
pub(super) fn get_many(
    keys: &[&[u8]],
    cost: &mut OpCost,
    one: impl Fn(&[u8], &mut OpCost) -> esker::Result<Option<Bytes>>,
    together: impl FnOnce(&mut OpCost) -> esker::Result<Vec<Option<Bytes>>>,
) -> Result<Vec<Option<Bytes>>> {
    let calls = cost.calls + 1;
    let values = if keys.len() < TOGETHER_MIN {
        keys.iter().map(|key| one(key, cost)).collect()
    } else {
        together(cost)
    };
    cost.calls = calls;
    Ok(values?)
}

/// One moment of the keyspace.
pub struct EngineRead {
    reader: Reader,
    cost: RefCell<OpCost>,
}

/// The range as the engine takes it.
pub(super) fn bounds(range: &KeyRange) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (Bound::Included(&range.start), range.end.as_deref().map_or(Bound::Unbounded, Bound::Excluded))
}

impl std::fmt::Debug for EngineRead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineRead").field("reader", &self.reader).finish_non_exhaustive()
    }
}

impl EngineRead {
    pub(super) fn new(reader: Reader) -> Self {
        EngineRead { reader, cost: RefCell::default() }
    }
}

impl KvRead for EngineRead {
    type Scan<'a> = EngineScan<'a>;

    #[inline]
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        Ok(self.reader.get_costed(key, &mut self.cost.borrow_mut())?)
    }

    fn contains(&self, key: &[u8]) -> Result<bool> {
        Ok(self.reader.contains_costed(key, &mut self.cost.borrow_mut())?)
    }

    fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Bytes>>> {
        let one = |key: &[u8], cost: &mut OpCost| self.reader.get_costed(key, cost);
        get_many(keys, &mut self.cost.borrow_mut(), one, |cost| self.reader.multi_get_costed(keys, cost))
    }

    fn scan(&self, range: KeyRange, options: ScanOptions) -> Result<EngineScan<'_>> {
        let mut scan =
            EngineScan { read: self, cursor: None, options, left: Limits::new(options), started: false };
        if !range.is_empty() {
            let cursor = self.reader.cursor_over::<&[u8]>(bounds(&range))?;
            scan.cursor = Some(Box::new(if options.keys_only { cursor.keys_only() } else { cursor }));
        }
        Ok(scan)
    }

    fn visit(&self, range: KeyRange, mut visit: impl FnMut(&[u8], &[u8]) -> Result<Go>) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let mut cursor = self.reader.cursor_over::<&[u8]>(bounds(&range))?;
        let mut walk = || -> Result<()> {
            let mut found = cursor.seek_first()?;
            while found {
                found = match visit(cursor.key(), cursor.value())? {
                    Go::On => cursor.next()?,
                    Go::To(next) if next.as_slice() <= cursor.key() => cursor.next()?,
                    Go::To(next) => cursor.seek(next)?,
                    Go::Stop => false,
                };
            }
            Ok(())
        };
        let outcome = walk();
        self.cost.borrow_mut().add(&cursor.cost());
        outcome
    }

    fn cost(&self) -> OpCost {
        *self.cost.borrow()
    }
}

/// A scan of one moment. Lends from the engine's cursor and copies what it hands out.
pub struct EngineScan<'a> {
    read: &'a EngineRead,
    /// `None` once there is nothing more to come. Elsewhere, because whoever wraps an iterator into others moves it.
    cursor: Option<Box<RowCursor>>,
    options: ScanOptions,
    left: Limits,
    started: bool,
}

impl std::fmt::Debug for EngineScan<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineScan").field("options", &self.options).finish_non_exhaustive()
    }
}

impl EngineScan<'_> {
    fn step(&mut self) -> Result<Option<Row>> {
        let Some(cursor) = self.cursor.as_mut().filter(|_| !self.left.reached()) else { return Ok(None) };
        let found = match (self.started, self.options.reverse) {
            (false, false) => cursor.seek_first()?,
            (false, true) => cursor.seek_last()?,
            (true, false) => cursor.next()?,
            (true, true) => cursor.prev()?,
        };
        self.started = true;
        if !found {
            return Ok(None);
        }
        let value =
            if self.options.keys_only { Bytes::new() } else { Bytes::copy_from_slice(cursor.value()) };
        let row = (Bytes::copy_from_slice(cursor.key()), value);
        self.left.take(&row);
        Ok(Some(row))
    }

    /// Count what the cursor cost, and let it go.
    fn close(&mut self) {
        if let Some(cursor) = &mut self.cursor {
            self.read.cost.borrow_mut().add(&cursor.cost());
            self.cursor = None;
        }
    }
}

impl Iterator for EngineScan<'_> {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Self::Item> {
        let row = self.step().transpose();
        if !matches!(row, Some(Ok(_))) {
            self.close();
        }
        row
    }
}

impl Drop for EngineScan<'_> {
    fn drop(&mut self) {
        self.close();
    }
}
