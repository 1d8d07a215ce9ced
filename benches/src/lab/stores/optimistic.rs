//! Optimistic transactions over an engine that has snapshots and atomic batches.
//!
//! # Invariants
//!
//! 1. A version is a number of commits; a snapshot is taken and numbered under the log's lock, under which
//!    commits are written, so that it holds exactly the commits up to its number.
//! 2. The log holds what every commit later than the oldest live snapshot wrote.
//!
//! # Threads and locks
//!
//! One lock, around the log. Commits hold it from the check for conflicts to the engine's write; reads take it only to
//! be opened and closed.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use esker_layouts::kv::{Bytes, Caps, Costed, KeyRange, KvRead, OrderedKv, Row, ScanOptions};
use esker_layouts::{Error, OpCost, Result};

use super::tx::OptimisticTx;

/// How often a transaction is tried before it gives up.
const ATTEMPTS_MAX: u32 = 1_000;

/// Rows in key order, or against it.
pub type Rows<'a> = Box<dyn Iterator<Item = Result<Row>> + 'a>;

/// An engine.
pub trait Backend: Send + Sync + 'static {
    /// A snapshot of it.
    type View: View;

    /// What it offers.
    fn caps(&self) -> &Caps;

    /// A stable view of everything committed.
    fn view(&self) -> Result<Self::View>;

    /// Set, or with `None` remove, every key of `changes`, all or nothing. Nobody else writes meanwhile.
    fn write(&self, changes: Vec<(Bytes, Option<Bytes>)>) -> Result<()>;
}

/// A snapshot of an engine.
pub trait View {
    /// The value of `key`.
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>>;

    /// The rows in `range`, which is not empty, in key order or in `reverse`.
    fn rows(&self, range: &KeyRange, reverse: bool) -> Result<Rows<'_>>;
}

/// An engine as an ordered store.
pub struct Optimistic<B> {
    backend: B,
    log: Mutex<Log>,
}

/// The versions in use and what recent commits wrote.
#[derive(Default)]
pub(super) struct Log {
    newest: u64,
    /// Live snapshots: version and how many have it.
    live: BTreeMap<u64, usize>,
    commits: VecDeque<(u64, Vec<Touched>)>,
}

/// Something that was read or written.
#[derive(Clone, Debug)]
pub(super) enum Touched {
    Key(Bytes),
    Range(KeyRange),
}

impl Touched {
    fn meets(&self, other: &Touched) -> bool {
        match (self, other) {
            (Touched::Key(a), Touched::Key(b)) => a == b,
            (Touched::Key(key), Touched::Range(range)) | (Touched::Range(range), Touched::Key(key)) => {
                range.contains(key)
            }
            (Touched::Range(a), Touched::Range(b)) => {
                let before = |x: &KeyRange, y: &KeyRange| x.end.as_ref().is_some_and(|end| *end <= y.start);
                !before(a, b) && !before(b, a)
            }
        }
    }
}

impl Log {
    /// Whether a commit later than `version` wrote something of `seen`.
    pub(super) fn changed(&self, version: u64, seen: &[Touched]) -> bool {
        let later = self.commits.iter().filter(|(number, _)| *number > version);
        later.flat_map(|(_, writes)| writes).any(|write| seen.iter().any(|read| read.meets(write)))
    }

    /// The next commit wrote `writes`.
    pub(super) fn commit(&mut self, writes: Vec<Touched>) {
        self.newest += 1;
        self.commits.push_back((self.newest, writes));
        self.forget();
    }

    fn release(&mut self, version: u64) {
        if let Some(holders) = self.live.get_mut(&version) {
            *holders -= 1;
            if *holders == 0 {
                self.live.remove(&version);
                self.forget();
            }
        }
    }

    fn forget(&mut self) {
        let oldest = self.live.keys().next().copied().unwrap_or(self.newest);
        while self.commits.front().is_some_and(|(number, _)| *number <= oldest) {
            self.commits.pop_front();
        }
    }
}

impl<B: Backend> Optimistic<B> {
    /// The empty engine `backend`, to which nobody else writes.
    pub fn new(backend: B) -> Self {
        Optimistic { backend, log: Mutex::default() }
    }

    /// The engine.
    pub fn backend(&self) -> &B {
        &self.backend
    }

    pub(super) fn log(&self) -> MutexGuard<'_, Log> {
        // Its state is whole between any two statements.
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn snapshot(&self) -> Result<OptimisticRead<'_, B>> {
        let mut log = self.log();
        let view = self.backend.view()?;
        let version = log.newest;
        *log.live.entry(version).or_default() += 1;
        Ok(OptimisticRead { store: self, view, version, cost: Cell::default() })
    }
}

impl<B: Backend> OrderedKv for Optimistic<B> {
    type Read<'a> = OptimisticRead<'a, B>;
    type Tx<'a> = OptimisticTx<'a, B>;

    fn caps(&self) -> &Caps {
        self.backend.caps()
    }

    fn read(&self) -> Result<OptimisticRead<'_, B>> {
        self.snapshot()
    }

    fn update<T>(&self, mut f: impl FnMut(&mut OptimisticTx<'_, B>) -> Result<T>) -> Result<Costed<T>> {
        let mut cost = OpCost::default();
        for attempt in 0..ATTEMPTS_MAX {
            let mut tx = OptimisticTx::new(self.snapshot()?);
            let value = f(&mut tx)?;
            cost.add(&tx.cost());
            if let Some(writes) = tx.commit()? {
                cost.add(&writes);
                cost.retries += u64::from(attempt);
                return Ok(Costed { value, cost });
            }
        }
        Err(Error::Conflict { attempts: ATTEMPTS_MAX })
    }
}

/// A snapshot that counts what is read of it.
pub struct OptimisticRead<'a, B: Backend> {
    pub(super) store: &'a Optimistic<B>,
    pub(super) view: B::View,
    pub(super) version: u64,
    pub(super) cost: Cell<OpCost>,
}

impl<B: Backend> Drop for OptimisticRead<'_, B> {
    fn drop(&mut self) {
        self.store.log().release(self.version);
    }
}

/// Count: `change` edits the counters.
pub(super) fn count(cell: &Cell<OpCost>, change: impl FnOnce(&mut OpCost)) {
    let mut cost = cell.get();
    change(&mut cost);
    cell.set(cost);
}

/// Count a row that was handed out.
pub(super) fn count_row(cell: &Cell<OpCost>, key: usize, value: usize) {
    count(cell, |cost| {
        cost.keys_read += 1;
        cost.bytes_read += (key + value) as u64;
    });
}

/// The values of `keys` by `peek`, as one call.
pub(super) fn counted_gets(
    cell: &Cell<OpCost>,
    keys: &[&[u8]],
    peek: impl Fn(&[u8]) -> Result<Option<Bytes>>,
) -> Result<Vec<Option<Bytes>>> {
    count(cell, |cost| cost.calls += 1);
    let mut values = Vec::with_capacity(keys.len());
    for key in keys {
        let value = peek(key)?;
        if let Some(value) = &value {
            count_row(cell, key.len(), value.len());
        }
        values.push(value);
    }
    Ok(values)
}

/// A scan of `rows`, as one call.
pub(super) fn counted_scan<'a>(
    cell: &'a Cell<OpCost>,
    rows: Rows<'a>,
    options: ScanOptions,
) -> OptimisticScan<'a> {
    count(cell, |cost| {
        cost.calls += 1;
        cost.seeks += 1;
    });
    let bytes = options.bytes_limit.unwrap_or(u64::MAX);
    let rows = Box::new(rows.take(options.limit.unwrap_or(usize::MAX)));
    OptimisticScan { cost: cell, rows, keys_only: options.keys_only, bytes }
}

impl<B: Backend> KvRead for OptimisticRead<'_, B> {
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
        counted_gets(&self.cost, keys, |key| self.view.get(key))
    }

    fn scan(&self, range: KeyRange, options: ScanOptions) -> Result<OptimisticScan<'_>> {
        let rows = rows_of(&self.view, &range, options.reverse)?;
        Ok(counted_scan(&self.cost, rows, options))
    }

    fn cost(&self) -> OpCost {
        self.cost.get()
    }
}

/// The rows of a range that may be empty.
pub(super) fn rows_of<'a>(view: &'a impl View, range: &KeyRange, reverse: bool) -> Result<Rows<'a>> {
    if range.is_empty() { Ok(Box::new(std::iter::empty())) } else { view.rows(range, reverse) }
}

/// A scan. Counts each row as it hands it out.
pub struct OptimisticScan<'a> {
    cost: &'a Cell<OpCost>,
    rows: Rows<'a>,
    keys_only: bool,
    /// Bytes left to return; the row that takes the last is the last.
    bytes: u64,
}

impl Iterator for OptimisticScan<'_> {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.bytes == 0 {
            return None;
        }
        let row = self.rows.next()?;
        Some(row.map(|(key, value)| {
            let value = if self.keys_only { Bytes::new() } else { value };
            self.bytes = self.bytes.saturating_sub((key.len() + value.len()) as u64);
            count_row(self.cost, key.len(), value.len());
            (key, value)
        }))
    }
}
