//! A store that writes down which keys and ranges its user asks for and writes.
//!
//! Routing is counted here, below the layout: from the keys that really are read and written, not from what
//! a layout says of itself.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Mutex, PoisonError};

use esker_layouts::kv::{
    Bytes, Caps, Costed, Expect, Go, KeyRange, KvRead, KvTx, Merge, OrderedKv, Row, ScanOptions,
};
use esker_layouts::{OpCost, Result};

/// One access to the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Get(Vec<u8>),
    /// The part of the range that was read, of a scan of a snapshot: it may be dropped, or end at a limit, long before
    /// its end. Of one in a transaction all of the range.
    Scan(KeyRange),
    Visit(Visit),
    /// The key, and the length of its value.
    Put(Vec<u8>, usize),
}

/// The way of one visit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Visit {
    /// It ends where the visit stopped.
    pub(super) range: KeyRange,
    /// By key: the rows from which it went anywhere but on, and where.
    turns: BTreeMap<Vec<u8>, Go>,
}

impl Visit {
    /// Where it goes from the row of `key`. A row that it went past, which only a store that lacks rows lends,
    /// is gone past again.
    pub(super) fn go(&self, key: &[u8]) -> Go {
        let before = self.turns.range::<[u8], _>((Bound::Unbounded, Bound::Included(key))).next_back();
        before.map_or(Go::On, |(_, go)| go.clone())
    }
}

/// Accesses of transactions that did not commit are among them: they were made.
#[derive(Debug)]
pub(super) struct Traced<K> {
    inner: K,
    /// `None` while nothing is written down.
    log: Log,
}

impl<K> Traced<K> {
    pub(super) fn new(inner: K) -> Self {
        Traced { inner, log: Mutex::new(None) }
    }

    pub(super) fn store(&self) -> &K {
        &self.inner
    }

    /// What `work` asks of the store.
    pub(super) fn trace<T>(&self, work: impl FnOnce() -> T) -> (T, Vec<Access>) {
        self.swap(Some(Vec::new()));
        let done = work();
        (done, self.swap(None).unwrap_or_default())
    }

    fn swap(&self, log: Option<Vec<Access>>) -> Option<Vec<Access>> {
        std::mem::replace(&mut *self.log.lock().unwrap_or_else(PoisonError::into_inner), log)
    }
}

type Log = Mutex<Option<Vec<Access>>>;

fn is_kept(log: &Log) -> bool {
    log.lock().unwrap_or_else(PoisonError::into_inner).is_some()
}

fn note(log: &Log, access: impl FnOnce() -> Access) {
    if let Some(log) = log.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
        log.push(access());
    }
}

impl<K: OrderedKv + 'static> OrderedKv for Traced<K> {
    type Read<'a>
        = TracedRead<'a, K::Read<'a>>
    where
        Self: 'a;
    type Tx<'a>
        = TracedTx<'a>
    where
        Self: 'a;

    fn caps(&self) -> &Caps {
        self.inner.caps()
    }

    fn read(&self) -> Result<Self::Read<'_>> {
        Ok(TracedRead { read: self.inner.read()?, log: &self.log })
    }

    fn update<T>(&self, mut f: impl FnMut(&mut Self::Tx<'_>) -> Result<T>) -> Result<Costed<T>> {
        self.inner.update(|tx| f(&mut TracedTx { tx, log: &self.log }))
    }
}

/// A snapshot.
pub(super) struct TracedRead<'a, R> {
    read: R,
    log: &'a Log,
}

impl<R: KvRead> KvRead for TracedRead<'_, R> {
    type Scan<'b>
        = TracedScan<'b, R::Scan<'b>>
    where
        Self: 'b;

    fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        note(self.log, || Access::Get(key.to_vec()));
        self.read.get(key)
    }

    fn contains(&self, key: &[u8]) -> Result<bool> {
        note(self.log, || Access::Get(key.to_vec()));
        self.read.contains(key)
    }

    fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Bytes>>> {
        for key in keys {
            note(self.log, || Access::Get(key.to_vec()));
        }
        self.read.get_many(keys)
    }

    fn scan(&self, range: KeyRange, options: ScanOptions) -> Result<Self::Scan<'_>> {
        let part = is_kept(self.log).then(|| Part {
            range: range.clone(),
            options,
            rows: 0,
            last: None,
            whole: false,
        });
        Ok(TracedScan { rows: self.read.scan(range, options)?, part, log: self.log })
    }

    fn visit(&self, range: KeyRange, mut visit: impl FnMut(&[u8], &[u8]) -> Result<Go>) -> Result<()> {
        if !is_kept(self.log) {
            return self.read.visit(range, visit);
        }
        let mut way = Visit { range: range.clone(), turns: BTreeMap::new() };
        let done = self.read.visit(range, |key, value| {
            let go = visit(key, value)?;
            if go == Go::Stop {
                way.range.end = KeyRange::point(key).end;
            }
            if go != Go::On {
                way.turns.insert(key.to_vec(), go.clone());
            }
            Ok(go)
        });
        note(self.log, || Access::Visit(way));
        done
    }

    fn cost(&self) -> OpCost {
        self.read.cost()
    }
}

/// A scan. It is written down when it is dropped, for only then is it known how much of it was read.
pub(super) struct TracedScan<'a, I> {
    rows: I,
    /// `None` while nothing is written down.
    part: Option<Part>,
    log: &'a Log,
}

/// As much of a range as was read.
struct Part {
    range: KeyRange,
    options: ScanOptions,
    rows: usize,
    last: Option<Bytes>,
    /// Whether the scan came to the end of the range.
    whole: bool,
}

impl Part {
    fn take(&mut self, row: Option<&Result<Row>>) {
        match row {
            Some(Ok((key, _))) => (self.rows, self.last) = (self.rows + 1, Some(key.clone())),
            Some(Err(_)) => {}
            // At a limit the scan ends, and the range need not.
            None => {
                self.whole |= self.options.limit.is_none_or(|limit| self.rows < limit)
                    && self.options.bytes_limit.is_none();
            }
        }
    }

    /// `None` if nothing was read.
    fn range(self) -> Option<KeyRange> {
        let (mut range, whole) = (self.range, self.whole);
        match self.last.filter(|_| !whole) {
            Some(last) if self.options.reverse => range.start = last.to_vec(),
            Some(last) => range.end = KeyRange::point(&last).end,
            None => return whole.then_some(range),
        }
        Some(range)
    }
}

impl<I: Iterator<Item = Result<Row>>> Iterator for TracedScan<'_, I> {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Self::Item> {
        let row = self.rows.next();
        if let Some(part) = &mut self.part {
            part.take(row.as_ref());
        }
        row
    }
}

impl<I> Drop for TracedScan<'_, I> {
    fn drop(&mut self) {
        if let Some(range) = self.part.take().and_then(Part::range) {
            note(self.log, || Access::Scan(range));
        }
    }
}

/// Rows of a transaction.
type Rows<'a> = Box<dyn Iterator<Item = Result<Row>> + 'a>;

/// [`KvTx`] as an object: the type of a transaction has a lifetime that a wrapper cannot name.
trait AnyTx {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>>;
    fn contains(&self, key: &[u8]) -> Result<bool>;
    fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Bytes>>>;
    fn scan(&self, range: KeyRange, options: ScanOptions) -> Result<Rows<'_>>;
    fn cost(&self) -> OpCost;
    fn put(&mut self, key: &[u8], value: &[u8]);
    fn delete(&mut self, key: &[u8]);
    fn delete_range(&mut self, range: KeyRange);
    fn merge(&mut self, key: &[u8], merge: Merge);
    fn expect(&mut self, key: &[u8], expected: Expect);
    fn watch_range(&mut self, range: KeyRange);
}

impl<T: KvTx> AnyTx for T {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        KvRead::get(self, key)
    }
    fn contains(&self, key: &[u8]) -> Result<bool> {
        KvRead::contains(self, key)
    }
    fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Bytes>>> {
        KvRead::get_many(self, keys)
    }
    fn scan(&self, range: KeyRange, options: ScanOptions) -> Result<Rows<'_>> {
        Ok(Box::new(KvRead::scan(self, range, options)?))
    }
    fn cost(&self) -> OpCost {
        KvRead::cost(self)
    }
    fn put(&mut self, key: &[u8], value: &[u8]) {
        KvTx::put(self, key, value);
    }
    fn delete(&mut self, key: &[u8]) {
        KvTx::delete(self, key);
    }
    fn delete_range(&mut self, range: KeyRange) {
        KvTx::delete_range(self, range);
    }
    fn merge(&mut self, key: &[u8], merge: Merge) {
        KvTx::merge(self, key, merge);
    }
    fn expect(&mut self, key: &[u8], expected: Expect) {
        KvTx::expect(self, key, expected);
    }
    fn watch_range(&mut self, range: KeyRange) {
        KvTx::watch_range(self, range);
    }
}

/// A transaction.
pub(super) struct TracedTx<'a> {
    tx: &'a mut (dyn AnyTx + 'a),
    log: &'a Log,
}

impl KvRead for TracedTx<'_> {
    type Scan<'b>
        = Rows<'b>
    where
        Self: 'b;

    fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        note(self.log, || Access::Get(key.to_vec()));
        self.tx.get(key)
    }

    fn contains(&self, key: &[u8]) -> Result<bool> {
        note(self.log, || Access::Get(key.to_vec()));
        self.tx.contains(key)
    }

    fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Bytes>>> {
        for key in keys {
            note(self.log, || Access::Get(key.to_vec()));
        }
        self.tx.get_many(keys)
    }

    fn scan(&self, range: KeyRange, options: ScanOptions) -> Result<Rows<'_>> {
        note(self.log, || Access::Scan(range.clone()));
        self.tx.scan(range, options)
    }

    fn cost(&self) -> OpCost {
        self.tx.cost()
    }
}

impl KvTx for TracedTx<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) {
        note(self.log, || Access::Put(key.to_vec(), value.len()));
        self.tx.put(key, value);
    }

    fn delete(&mut self, key: &[u8]) {
        note(self.log, || Access::Put(key.to_vec(), 0));
        self.tx.delete(key);
    }

    fn delete_range(&mut self, range: KeyRange) {
        note(self.log, || Access::Scan(range.clone()));
        self.tx.delete_range(range);
    }

    fn merge(&mut self, key: &[u8], merge: Merge) {
        note(self.log, || Access::Put(key.to_vec(), 0));
        self.tx.merge(key, merge);
    }

    fn expect(&mut self, key: &[u8], expected: Expect) {
        note(self.log, || Access::Get(key.to_vec()));
        self.tx.expect(key, expected);
    }

    fn watch_range(&mut self, range: KeyRange) {
        self.tx.watch_range(range);
    }
}
