//! Transactions of the map: a snapshot, buffered writes laid over it, and the check at commit.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;

use super::read::{MapRead, Pages};
use super::state::{State, Written};
use crate::kv::{Expect, KeyRange, KvRead, KvTx, Limits, Merge, Row, ScanOptions};
use crate::{OpCost, Result};

/// A buffered change of one key.
#[derive(Clone, Debug)]
enum Change {
    Put(Bytes),
    Delete,
    /// Merges onto whatever lies under this transaction, oldest first.
    Merge(Vec<Merge>),
}

/// A transaction.
#[derive(Debug)]
pub struct MapTx<'a> {
    read: MapRead<'a>,
    /// Removed ranges. They lie under `changes`: an earlier change inside one was taken out.
    cleared: Vec<KeyRange>,
    changes: BTreeMap<Bytes, Change>,
    expected: Vec<(Bytes, Expect)>,
    /// What was read, for conflicts.
    seen: RefCell<Vec<Written>>,
    /// What the commit will have cost: one count an operation, as issued.
    writes: OpCost,
}

impl<'a> MapTx<'a> {
    pub(super) fn new(read: MapRead<'a>) -> Self {
        MapTx {
            read,
            cleared: Vec::new(),
            changes: BTreeMap::new(),
            expected: Vec::new(),
            seen: RefCell::default(),
            writes: OpCost::default(),
        }
    }

    fn cleared(&self, key: &[u8]) -> bool {
        self.cleared.iter().any(|range| range.contains(key))
    }

    /// The value of `key` as this transaction sees it, not counted.
    fn peek(&self, key: &[u8]) -> Result<Option<Bytes>> {
        let below = || if self.cleared(key) { None } else { self.read.peek(key) };
        match self.changes.get(key) {
            None => Ok(below()),
            Some(change) => change.applied(key, below()),
        }
    }

    fn saw_key(&self, key: &[u8]) {
        self.seen.borrow_mut().push(Written::Key(Bytes::copy_from_slice(key)));
    }

    /// Commit. `None`: a later commit changed what this one read, and nothing was written.
    pub(super) fn commit(self) -> Result<Option<OpCost>> {
        let MapTx { read, cleared, changes, expected, seen, mut writes } = self;
        let nothing = cleared.is_empty() && changes.is_empty() && expected.is_empty();
        if nothing {
            // A snapshot is consistent by itself: a transaction that only read cannot conflict.
            return Ok(Some(OpCost::default()));
        }
        let mut state = read.state.write();
        let seen = seen.into_inner();
        if state.written_since(read.version).any(|write| seen.iter().any(|mine| mine.meets(write))) {
            return Ok(None);
        }
        for (key, expect) in &expected {
            expect.check(key, state.get(key, state.newest()))?;
        }
        let (changes, trace) = resolve(&state, &cleared, changes)?;
        // The own snapshot goes first, or it would keep the versions that this commit replaces.
        state.release(read.version);
        state.install(changes, trace);
        drop(state);
        std::mem::forget(read);
        writes.calls += 1;
        Ok(Some(writes))
    }
}

/// What the buffered writes come to on the committed state, and their trace for others' conflicts.
type Resolved = (Vec<(Bytes, Option<Bytes>)>, Vec<Written>);

fn resolve(state: &State, cleared: &[KeyRange], changes: BTreeMap<Bytes, Change>) -> Result<Resolved> {
    let newest = state.newest();
    let mut removed = BTreeMap::new();
    for range in cleared {
        removed.extend(state.range(range, newest).map(|(key, _)| (key.clone(), None)));
    }
    let mut trace: Vec<Written> = cleared.iter().cloned().map(Written::Range).collect();
    for (key, change) in changes {
        let below = || if removed.contains_key(&key) { None } else { state.get(&key, newest).cloned() };
        let value = change.applied(&key, below())?;
        trace.push(Written::Key(key.clone()));
        removed.insert(key, value);
    }
    Ok((removed.into_iter().collect(), trace))
}

impl Change {
    fn applied(&self, key: &[u8], below: Option<Bytes>) -> Result<Option<Bytes>> {
        match self {
            Change::Put(value) => Ok(Some(value.clone())),
            Change::Delete => Ok(None),
            Change::Merge(merges) => {
                Ok(Merge::apply_all(merges, key, below.map(Vec::from))?.map(Bytes::from))
            }
        }
    }
}

impl Written {
    /// Whether what was read here (`self`) is touched by `write`.
    fn meets(&self, write: &Written) -> bool {
        match (self, write) {
            (Written::Key(a), Written::Key(b)) => a == b,
            (Written::Key(key), Written::Range(range)) | (Written::Range(range), Written::Key(key)) => {
                range.contains(key)
            }
            (Written::Range(a), Written::Range(b)) => {
                let before = |x: &KeyRange, y: &KeyRange| x.end.as_ref().is_some_and(|end| *end <= y.start);
                !before(a, b) && !before(b, a)
            }
        }
    }
}

impl KvRead for MapTx<'_> {
    type Scan<'b>
        = MapTxScan<'b>
    where
        Self: 'b;

    fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        self.saw_key(key);
        let value = self.peek(key)?;
        self.read.count(|cost| cost.calls += 1);
        if let Some(value) = &value {
            self.read.count_row(key.len(), value.len());
        }
        Ok(value)
    }

    fn contains(&self, key: &[u8]) -> Result<bool> {
        self.saw_key(key);
        let found = self.peek(key)?.is_some();
        self.read.count(|cost| cost.calls += 1);
        if found {
            self.read.count_row(key.len(), 0);
        }
        Ok(found)
    }

    fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Bytes>>> {
        self.read.count(|cost| cost.calls += 1);
        let mut values = Vec::with_capacity(keys.len());
        for key in keys {
            self.saw_key(key);
            let value = self.peek(key)?;
            if let Some(value) = &value {
                self.read.count_row(key.len(), value.len());
            }
            values.push(value);
        }
        Ok(values)
    }

    fn scan(&self, range: KeyRange, options: ScanOptions) -> Result<MapTxScan<'_>> {
        self.read.count(|cost| {
            cost.calls += 1;
            cost.seeks += 1;
        });
        let slot = {
            let mut seen = self.seen.borrow_mut();
            seen.push(Written::Range(KeyRange {
                start: range.start.clone(),
                end: Some(range.start.clone()),
            }));
            seen.len() - 1
        };
        Ok(MapTxScan {
            tx: self,
            slot,
            pages: Pages::new(range.clone(), options),
            whole: range.clone(),
            own: range,
            options,
            left: Limits::new(options),
            noted: usize::MAX,
        })
    }

    fn cost(&self) -> OpCost {
        self.read.cost.get()
    }
}

impl KvTx for MapTx<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.writes.keys_written += 1;
        self.writes.bytes_written += (key.len() + value.len()) as u64;
        self.changes.insert(Bytes::copy_from_slice(key), Change::Put(Bytes::copy_from_slice(value)));
    }

    fn delete(&mut self, key: &[u8]) {
        self.writes.tombstones_written += 1;
        self.writes.bytes_written += key.len() as u64;
        self.changes.insert(Bytes::copy_from_slice(key), Change::Delete);
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
        match self.changes.get_mut(key) {
            Some(Change::Merge(merges)) => merges.push(merge),
            // What the merge meets is known here, so it can wait on top of the buffered change.
            Some(change) => {
                let below = std::mem::replace(change, Change::Delete);
                let mut merges = Vec::new();
                if let Change::Put(value) = below {
                    merges.push(Merge::Append(value));
                }
                merges.push(merge);
                *change = Change::Merge(merges);
                // The key's committed value must not show through.
                self.cleared.push(KeyRange::point(key));
            }
            None => {
                self.changes.insert(Bytes::copy_from_slice(key), Change::Merge(vec![merge]));
            }
        }
    }

    fn expect(&mut self, key: &[u8], expected: Expect) {
        self.expected.push((Bytes::copy_from_slice(key), expected));
    }

    fn watch_range(&mut self, range: KeyRange) {
        self.seen.get_mut().push(Written::Range(range));
    }
}

/// A scan of a transaction: the snapshot's rows with the buffered changes laid over them.
#[derive(Debug)]
pub struct MapTxScan<'a> {
    tx: &'a MapTx<'a>,
    /// Where in the transaction's read set this scan's range stands.
    slot: usize,
    pages: Pages,
    /// The range asked for.
    whole: KeyRange,
    /// What of it has not been taken from the buffered changes yet.
    own: KeyRange,
    options: ScanOptions,
    left: Limits,
    /// Pages that the read set already covers.
    noted: usize,
}

impl MapTxScan<'_> {
    /// Widen the read set to what the scan has looked at.
    fn note(&mut self) {
        if self.noted == self.pages.fetched() {
            return;
        }
        self.noted = self.pages.fetched();
        let range = if self.pages.exhausted() {
            self.whole.clone()
        } else if self.options.reverse {
            let start = self.pages.range.end.clone().unwrap_or_default();
            KeyRange { start, end: self.whole.end.clone() }
        } else {
            KeyRange { start: self.whole.start.clone(), end: Some(self.pages.range.start.clone()) }
        };
        if let Some(slot) = self.tx.seen.borrow_mut().get_mut(self.slot) {
            *slot = Written::Range(range);
        }
    }

    /// The next buffered change, not taken.
    fn next_change(&self) -> Option<(&Bytes, &Change)> {
        if self.own.is_empty() || self.tx.changes.is_empty() {
            return None;
        }
        let start = Bound::Included(self.own.start.as_slice());
        let end = self.own.end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut changes = self.tx.changes.range::<[u8], _>((start, end));
        if self.options.reverse { changes.next_back() } else { changes.next() }
    }

    /// The next row as the transaction sees it.
    fn step(&mut self) -> Result<Option<Row>> {
        if self.tx.changes.is_empty() && self.tx.cleared.is_empty() {
            let row = self.pages.next(&self.tx.read);
            self.note();
            return Ok(row);
        }
        loop {
            let stored = self.pages.peek(&self.tx.read).map(|(key, _)| key.clone());
            self.note();
            let changed = self.next_change().map(|(key, _)| key.clone());
            let key = match (stored, changed) {
                (None, None) => return Ok(None),
                (Some(key), None) | (None, Some(key)) => key,
                (Some(a), Some(b)) => {
                    if (a < b) ^ self.options.reverse {
                        a
                    } else {
                        b
                    }
                }
            };
            let mut below = None;
            if self.pages.peek(&self.tx.read).is_some_and(|(stored, _)| *stored == key) {
                below = self.pages.next(&self.tx.read).filter(|_| !self.tx.cleared(&key)).map(|row| row.1);
            }
            let value = match self.tx.changes.get(&key) {
                None => below,
                // A merge needs the value even when the caller does not.
                Some(Change::Merge(_)) => self.tx.peek(&key)?,
                Some(change) => change.applied(&key, below)?,
            };
            if self.options.reverse {
                self.own.end = Some(key.to_vec());
            } else {
                self.own.start = [key.as_ref(), &[0]].concat();
            }
            if let Some(value) = value {
                let value = if self.options.keys_only { Bytes::new() } else { value };
                return Ok(Some((key, value)));
            }
        }
    }
}

impl Iterator for MapTxScan<'_> {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left.reached() {
            return None;
        }
        let row = match self.step() {
            Ok(row) => row?,
            Err(error) => {
                self.left = Limits::new(ScanOptions::new().limit(0));
                return Some(Err(error));
            }
        };
        self.left.take(&row);
        self.tx.read.count_row(row.0.len(), row.1.len());
        Some(Ok(row))
    }
}
