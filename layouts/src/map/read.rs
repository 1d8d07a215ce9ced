//! Snapshots of the map and their scans.

use std::cell::Cell;
use std::collections::VecDeque;

use bytes::Bytes;
use parking_lot::RwLock;

use super::state::{State, Version};
use crate::kv::{KeyRange, KvRead, Limits, Row, ScanOptions};
use crate::{OpCost, Result};

/// Rows fetched under the lock at a time: the first page is short for scans that stop soon.
const FIRST_PAGE: usize = 16;
const PAGE: usize = 256;

/// A stable view of the store.
#[derive(Debug)]
pub struct MapRead<'a> {
    pub(super) state: &'a RwLock<State>,
    pub(super) version: Version,
    pub(super) cost: Cell<OpCost>,
}

impl<'a> MapRead<'a> {
    pub(super) fn new(state: &'a RwLock<State>) -> Self {
        let version = state.write().acquire();
        MapRead { state, version, cost: Cell::default() }
    }

    /// Count: `change` edits the counters.
    pub(super) fn count(&self, change: impl FnOnce(&mut OpCost)) {
        let mut cost = self.cost.get();
        change(&mut cost);
        self.cost.set(cost);
    }

    pub(super) fn count_row(&self, key: usize, value: usize) {
        self.count(|cost| {
            cost.keys_read += 1;
            cost.bytes_read += (key + value) as u64;
        });
    }

    /// The value of `key`, not counted.
    pub(super) fn peek(&self, key: &[u8]) -> Option<Bytes> {
        self.state.read().get(key, self.version).cloned()
    }

    /// The next rows of `range` as the store has them, not counted: at most `max`.
    pub(super) fn page(
        &self,
        range: &KeyRange,
        options: ScanOptions,
        max: usize,
        into: &mut VecDeque<Row>,
    ) {
        let state = self.state.read();
        let rows = state.range(range, self.version);
        let own = |(key, value): (&Bytes, &Bytes)| {
            (key.clone(), if options.keys_only { Bytes::new() } else { value.clone() })
        };
        if options.reverse {
            into.extend(rows.rev().take(max).map(own));
        } else {
            into.extend(rows.take(max).map(own));
        }
    }
}

impl Drop for MapRead<'_> {
    fn drop(&mut self) {
        self.state.write().release(self.version);
    }
}

impl KvRead for MapRead<'_> {
    type Scan<'b>
        = MapScan<'b>
    where
        Self: 'b;

    fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        let value = self.peek(key);
        self.count(|cost| cost.calls += 1);
        if let Some(value) = &value {
            self.count_row(key.len(), value.len());
        }
        Ok(value)
    }

    fn contains(&self, key: &[u8]) -> Result<bool> {
        let found = self.state.read().get(key, self.version).is_some();
        self.count(|cost| cost.calls += 1);
        if found {
            self.count_row(key.len(), 0);
        }
        Ok(found)
    }

    fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Bytes>>> {
        self.count(|cost| cost.calls += 1);
        let values: Vec<_> = keys.iter().map(|key| self.peek(key)).collect();
        for (key, value) in keys.iter().zip(&values) {
            if let Some(value) = value {
                self.count_row(key.len(), value.len());
            }
        }
        Ok(values)
    }

    fn scan(&self, range: KeyRange, options: ScanOptions) -> Result<MapScan<'_>> {
        self.count(|cost| {
            cost.calls += 1;
            cost.seeks += 1;
        });
        Ok(MapScan { read: self, pages: Pages::new(range, options), left: Limits::new(options) })
    }

    fn cost(&self) -> OpCost {
        self.cost.get()
    }
}

/// The rows of one range, a page at a time.
#[derive(Debug)]
pub(super) struct Pages {
    /// What has not been fetched yet.
    pub(super) range: KeyRange,
    options: ScanOptions,
    rows: VecDeque<Row>,
    page: usize,
    fetched: usize,
    done: bool,
}

impl Pages {
    pub(super) fn new(range: KeyRange, options: ScanOptions) -> Self {
        let page = options.limit.unwrap_or(FIRST_PAGE).clamp(1, PAGE);
        let done = range.is_empty();
        Pages { range, options, rows: VecDeque::new(), page, fetched: 0, done }
    }

    /// The next row without taking it.
    pub(super) fn peek(&mut self, read: &MapRead<'_>) -> Option<&Row> {
        if self.rows.is_empty() && !self.done {
            read.page(&self.range, self.options, self.page, &mut self.rows);
            self.done = self.rows.len() < self.page;
            self.page = PAGE;
            self.fetched += 1;
            if let Some((last, _)) = self.rows.back() {
                if self.options.reverse {
                    self.range.end = Some(last.to_vec());
                } else {
                    self.range.start = [last.as_ref(), &[0]].concat();
                }
            }
        }
        self.rows.front()
    }

    pub(super) fn next(&mut self, read: &MapRead<'_>) -> Option<Row> {
        self.peek(read)?;
        self.rows.pop_front()
    }

    /// How many pages were fetched.
    pub(super) fn fetched(&self) -> usize {
        self.fetched
    }

    /// Whether everything in the range was fetched.
    pub(super) fn exhausted(&self) -> bool {
        self.done
    }
}

/// A scan of a snapshot.
#[derive(Debug)]
pub struct MapScan<'a> {
    read: &'a MapRead<'a>,
    pages: Pages,
    left: Limits,
}

impl Iterator for MapScan<'_> {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left.reached() {
            return None;
        }
        let row = self.pages.next(self.read)?;
        self.left.take(&row);
        self.read.count_row(row.0.len(), row.1.len());
        Some(Ok(row))
    }
}
