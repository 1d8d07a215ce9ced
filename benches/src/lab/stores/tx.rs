//! Transactions: a snapshot with buffered changes laid over it, and the check at commit.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::iter::Peekable;

use esker_layouts::kv::{Bytes, Expect, KeyRange, KvRead, KvTx, Merge, Row, ScanOptions};
use esker_layouts::{Error, OpCost, Result};

use super::optimistic::{
    Backend, OptimisticRead, OptimisticScan, Rows, Touched, View, counted_gets, counted_scan, rows_of,
};

/// What becomes of a key: a value of its own, or the one below, and merges onto it, oldest first.
#[derive(Clone, Debug)]
struct Change {
    base: Base,
    merges: Vec<Merge>,
}

#[derive(Clone, Debug)]
enum Base {
    Below,
    Value(Option<Bytes>),
}

impl Change {
    fn to(value: Option<Bytes>) -> Change {
        Change { base: Base::Value(value), merges: Vec::new() }
    }

    fn applied(&self, key: &[u8], below: impl FnOnce() -> Result<Option<Bytes>>) -> Result<Option<Bytes>> {
        let base = match &self.base {
            Base::Below => below()?,
            Base::Value(value) => value.clone(),
        };
        if self.merges.is_empty() {
            return Ok(base);
        }
        Ok(Merge::apply_all(&self.merges, key, base.map(Vec::from))?.map(Bytes::from))
    }
}

/// A transaction.
pub struct OptimisticTx<'a, B: Backend> {
    read: OptimisticRead<'a, B>,
    /// Removed ranges. They lie under `changes`: an earlier change inside one was taken out.
    cleared: Vec<KeyRange>,
    changes: BTreeMap<Bytes, Change>,
    expected: Vec<(Bytes, Expect)>,
    /// What was read, for conflicts. A scan counts with its whole range.
    seen: RefCell<Vec<Touched>>,
    /// What the commit will have cost: one count an operation, as issued.
    writes: OpCost,
}

fn inside(ranges: &[KeyRange], key: &[u8]) -> bool {
    ranges.iter().any(|range| range.contains(key))
}

impl<'a, B: Backend> OptimisticTx<'a, B> {
    pub(super) fn new(read: OptimisticRead<'a, B>) -> Self {
        OptimisticTx {
            read,
            cleared: Vec::new(),
            changes: BTreeMap::new(),
            expected: Vec::new(),
            seen: RefCell::default(),
            writes: OpCost::default(),
        }
    }

    fn saw(&self, touched: Touched) {
        self.seen.borrow_mut().push(touched);
    }

    /// The value of `key` over `view`.
    fn over(&self, view: &impl View, key: &[u8]) -> Result<Option<Bytes>> {
        let below = || if inside(&self.cleared, key) { Ok(None) } else { view.get(key) };
        match self.changes.get(key) {
            None => below(),
            Some(change) => change.applied(key, below),
        }
    }

    /// Commit. `None`: a later commit changed what this one read, and nothing was written.
    pub(super) fn commit(self) -> Result<Option<OpCost>> {
        if self.cleared.is_empty() && self.changes.is_empty() && self.expected.is_empty() {
            // A snapshot is consistent by itself: a transaction that only read cannot conflict.
            return Ok(Some(OpCost::default()));
        }
        let mut log = self.read.store.log();
        if log.changed(self.read.version, &self.seen.borrow()) {
            return Ok(None);
        }
        let newest = self.read.store.backend().view()?;
        for (key, expected) in &self.expected {
            check(key, expected, newest.get(key)?.as_ref())?;
        }
        let mut changes = BTreeMap::new();
        for range in &self.cleared {
            for row in rows_of(&newest, range, false)? {
                changes.insert(row?.0, None);
            }
        }
        for key in self.changes.keys() {
            changes.insert(key.clone(), self.over(&newest, key)?);
        }
        drop(newest);
        self.read.store.backend().write(changes.into_iter().collect())?;
        let keys = self.changes.keys().cloned().map(Touched::Key);
        log.commit(self.cleared.iter().cloned().map(Touched::Range).chain(keys).collect());
        let mut cost = self.writes;
        cost.calls += 1;
        // The snapshot takes the lock when it goes.
        drop(log);
        Ok(Some(cost))
    }
}

/// Err unless `found` at `key` is as `expected`.
fn check(key: &[u8], expected: &Expect, found: Option<&Bytes>) -> Result<()> {
    let (holds, expected) = match expected {
        Expect::Absent => (found.is_none(), "absent"),
        Expect::Value(value) => (found == Some(value), "at the expected value"),
    };
    if holds { Ok(()) } else { Err(Error::Unexpected { key: esker::printable(key), expected }) }
}

impl<B: Backend> KvRead for OptimisticTx<'_, B> {
    type Scan<'b>
        = OptimisticScan<'b>
    where
        Self: 'b;

    fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        Ok(self.get_many(&[key])?.pop().flatten())
    }

    fn contains(&self, key: &[u8]) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Bytes>>> {
        for key in keys {
            self.saw(Touched::Key(Bytes::copy_from_slice(key)));
        }
        counted_gets(&self.read.cost, keys, |key| self.over(&self.read.view, key))
    }

    fn scan(&self, range: KeyRange, options: ScanOptions) -> Result<OptimisticScan<'_>> {
        let stored = rows_of(&self.read.view, &range, options.reverse)?;
        let kept = |row: &Result<Row>| !row.as_ref().is_ok_and(|(key, _)| inside(&self.cleared, key));
        let stored: Rows<'_> = Box::new(stored.filter(kept));
        let own = self.changes.iter().filter(|(key, _)| range.contains(key));
        let mut own: Vec<_> = own.map(|(key, change)| (key.clone(), change.clone())).collect();
        if options.reverse {
            own.reverse();
        }
        self.saw(Touched::Range(range));
        let rows = Overlay {
            stored: stored.peekable(),
            own: own.into_iter().peekable(),
            reverse: options.reverse,
        };
        Ok(counted_scan(&self.read.cost, Box::new(rows), options))
    }

    fn cost(&self) -> OpCost {
        self.read.cost.get()
    }
}

/// Stored rows with own changes laid over them.
struct Overlay<'a> {
    stored: Peekable<Rows<'a>>,
    own: Peekable<std::vec::IntoIter<(Bytes, Change)>>,
    reverse: bool,
}

impl Iterator for Overlay<'_> {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let order = match (self.stored.peek(), self.own.peek()) {
                (None, None) => return None,
                (Some(Err(_)), _) | (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(Ok((stored, _))), Some((own, _))) if self.reverse => own.cmp(stored),
                (Some(Ok((stored, _))), Some((own, _))) => stored.cmp(own),
            };
            if order == Ordering::Less {
                return self.stored.next();
            }
            let below = if order == Ordering::Equal { self.stored.next().transpose() } else { Ok(None) };
            let (key, change) = self.own.next()?;
            let value = below.and_then(|row| change.applied(&key, || Ok(row.map(|(_, value)| value))));
            if let Some(value) = value.transpose() {
                return Some(value.map(|value| (key, value)));
            }
        }
    }
}

impl<B: Backend> KvTx for OptimisticTx<'_, B> {
    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.writes.keys_written += 1;
        self.writes.bytes_written += (key.len() + value.len()) as u64;
        let change = Change::to(Some(Bytes::copy_from_slice(value)));
        self.changes.insert(Bytes::copy_from_slice(key), change);
    }

    fn delete(&mut self, key: &[u8]) {
        self.writes.tombstones_written += 1;
        self.writes.bytes_written += key.len() as u64;
        self.changes.insert(Bytes::copy_from_slice(key), Change::to(None));
    }

    fn delete_range(&mut self, range: KeyRange) {
        if range.is_empty() {
            return;
        }
        self.writes.tombstones_written += 1;
        self.writes.bytes_written += (range.start.len() + range.end.as_ref().map_or(0, Vec::len)) as u64;
        self.changes.retain(|key, _| !range.contains(key));
        self.cleared.push(range);
    }

    fn merge(&mut self, key: &[u8], merge: Merge) {
        self.writes.keys_written += 1;
        self.writes.bytes_written += key.len() as u64 + merge.operand_bytes();
        let change = self.changes.entry(Bytes::copy_from_slice(key));
        change.or_insert(Change { base: Base::Below, merges: Vec::new() }).merges.push(merge);
    }

    fn expect(&mut self, key: &[u8], expected: Expect) {
        self.expected.push((Bytes::copy_from_slice(key), expected));
    }

    fn watch_range(&mut self, range: KeyRange) {
        self.saw(Touched::Range(range));
    }
}
