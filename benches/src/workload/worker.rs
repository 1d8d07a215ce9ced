//! One thread's loop over its share of a workload.
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the real clock")]

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use esker::OpCost;
use hdrhistogram::Histogram;

use super::keys::{Key, Shuffle, increment, key, mix};
use super::options::{Order, Workload};
use super::store::Session;
use super::values::Values;
use super::{Result, WorkloadError};

/// Rows read after each seek.
pub(super) const SEEK_ROWS: u64 = 10;
/// Rows of a scan that are timed together: a single step is shorter than reading the clock.
pub(super) const SCAN_ROWS: u64 = 1_000;
/// How often a worker says how far it is, in rows.
const REPORT_ROWS: u64 = 256;
/// The longest latency told apart, in nanoseconds: an hour.
const LONGEST_NANOS: u64 = 3_600_000_000_000;

/// What all threads of a phase share.
pub(super) struct Shared<'a> {
    pub(super) workload: Workload,
    pub(super) order: Order,
    pub(super) rows: u64,
    pub(super) batch: u64,
    pub(super) seed: u64,
    pub(super) values: &'a Values,
    /// Rows passed by all threads.
    pub(super) done: AtomicU64,
    /// Set when a thread has failed, so that the others end too.
    pub(super) stop: AtomicBool,
}

/// Latencies of one kind of call.
pub(super) struct Timings {
    /// What a call is: "put", "seek + 10 rows".
    pub(super) call: String,
    /// Rows that a full call passes.
    pub(super) rows: u64,
    /// Nanoseconds of each call.
    pub(super) histogram: Histogram<u64>,
}

impl Timings {
    fn new(call: impl Into<String>, rows: u64) -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST_NANOS, 3)
            .expect("the bounds are apart and the digits few");
        Timings { call: call.into(), rows, histogram }
    }

    #[inline]
    fn time<T>(&mut self, call: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let result = call();
        let nanos = begun.elapsed().as_nanos();
        self.histogram.saturating_record(u64::try_from(nanos).unwrap_or(LONGEST_NANOS));
        result
    }
}

/// What a thread has done.
pub(super) struct Outcome {
    pub(super) timings: Vec<Timings>,
    /// What its seeks and steps cost.
    pub(super) cost: OpCost,
}

/// A share of a workload being worked off.
struct Worker<'a, 'b, S> {
    session: &'b mut S,
    shared: &'b Shared<'a>,
    shuffle: Shuffle,
    random: fastrand::Rng,
    unreported: u64,
}

/// Work off `share` (of the operations, numbered from 0) as thread number `thread`.
pub(super) fn work<S: Session>(
    session: &mut S,
    shared: &Shared<'_>,
    share: Range<u64>,
    thread: u64,
) -> Result<Outcome> {
    let pass = pass_of(shared.workload);
    let mut worker = Worker {
        session,
        shared,
        // A pass of its own order, so that an overwrite does not repeat the fill's.
        shuffle: Shuffle::new(shared.rows, mix(shared.seed).wrapping_add(pass)),
        random: fastrand::Rng::with_seed(mix(shared.seed ^ mix(thread + 1))),
        unreported: 0,
    };
    let timings = match shared.workload {
        Workload::Fill | Workload::Overwrite => worker.put(share)?,
        Workload::Delete => worker.delete(share)?,
        Workload::Get => worker.get(share)?,
        Workload::Mixed => worker.mixed(share)?,
        Workload::Seek => worker.seek(share)?,
        Workload::Scan => worker.scan(share)?,
    };
    worker.report();
    Ok(Outcome { timings, cost: worker.session.cost() })
}

/// Which pass over the rows a workload's puts are: the fill is the first.
fn pass_of(workload: Workload) -> u64 {
    u64::from(workload != Workload::Fill)
}

/// An engine's error while `doing`.
fn failed(doing: &'static str) -> impl FnOnce(esker::Error) -> WorkloadError {
    move |source| WorkloadError::Engine { doing, source }
}

impl<S: Session> Worker<'_, '_, S> {
    /// Whether to go on; counts `rows` passed.
    #[inline]
    fn pass(&mut self, rows: u64) -> bool {
        self.unreported += rows;
        if self.unreported >= REPORT_ROWS {
            self.report();
            return !self.shared.stop.load(Ordering::Relaxed);
        }
        true
    }

    fn report(&mut self) {
        self.shared.done.fetch_add(std::mem::take(&mut self.unreported), Ordering::Relaxed);
    }

    /// The row that operation `index` puts or deletes.
    #[inline]
    fn row_at(&self, index: u64) -> u64 {
        match self.shared.order {
            Order::Random => self.shuffle.row(index),
            Order::Ordered => index,
        }
    }

    /// The row that operation `index` looks up.
    #[inline]
    fn lookup_at(&mut self, index: u64) -> u64 {
        match self.shared.order {
            Order::Random => self.random.u64(0..self.shared.rows),
            Order::Ordered => index,
        }
    }

    fn put(&mut self, share: Range<u64>) -> Result<Vec<Timings>> {
        let pass = pass_of(self.shared.workload);
        let values = self.shared.values;
        if self.shared.batch == 1 {
            let mut timings = Timings::new("put", 1);
            for index in share {
                let row = self.row_at(index);
                let (key, value) = (key(row), values.of(row, pass));
                timings.time(|| self.session.put(&key, value)).map_err(failed("put"))?;
                if !self.pass(1) {
                    break;
                }
            }
            return Ok(vec![timings]);
        }
        let mut timings = Timings::new(format!("batch of {} puts", self.shared.batch), self.shared.batch);
        let mut rows: Vec<(Key, &[u8])> = Vec::new();
        for chunk in chunks(share, self.shared.batch) {
            rows.clear();
            for index in chunk {
                let row = self.row_at(index);
                rows.push((key(row), values.of(row, pass)));
            }
            timings.time(|| self.session.put_batch(&rows)).map_err(failed("commit a batch"))?;
            if !self.pass(rows.len() as u64) {
                break;
            }
        }
        Ok(vec![timings])
    }

    fn delete(&mut self, share: Range<u64>) -> Result<Vec<Timings>> {
        if self.shared.batch == 1 {
            let mut timings = Timings::new("delete", 1);
            for index in share {
                let key = key(self.row_at(index));
                timings.time(|| self.session.delete(&key)).map_err(failed("delete"))?;
                if !self.pass(1) {
                    break;
                }
            }
            return Ok(vec![timings]);
        }
        let mut timings =
            Timings::new(format!("batch of {} deletes", self.shared.batch), self.shared.batch);
        let mut keys: Vec<Key> = Vec::new();
        for chunk in chunks(share, self.shared.batch) {
            keys.clear();
            keys.extend(chunk.map(|index| key(self.row_at(index))));
            timings.time(|| self.session.delete_batch(&keys)).map_err(failed("commit a batch"))?;
            if !self.pass(keys.len() as u64) {
                break;
            }
        }
        Ok(vec![timings])
    }

    fn get(&mut self, share: Range<u64>) -> Result<Vec<Timings>> {
        let mut timings = Timings::new("get", 1);
        for index in share {
            let row = self.lookup_at(index);
            self.get_one(row, &mut timings)?;
            if !self.pass(1) {
                break;
            }
        }
        Ok(vec![timings])
    }

    fn mixed(&mut self, share: Range<u64>) -> Result<Vec<Timings>> {
        let (mut gets, mut puts) = (Timings::new("get", 1), Timings::new("put", 1));
        let values = self.shared.values;
        for index in share {
            let row = self.lookup_at(index);
            if self.random.bool() {
                self.get_one(row, &mut gets)?;
            } else {
                let (key, value) = (key(row), values.of(row, 1));
                puts.time(|| self.session.put(&key, value)).map_err(failed("put"))?;
            }
            if !self.pass(1) {
                break;
            }
        }
        Ok(vec![gets, puts])
    }

    #[inline]
    fn get_one(&mut self, row: u64, timings: &mut Timings) -> Result<()> {
        let key = key(row);
        let values = self.shared.values;
        let found = timings
            .time(|| self.session.get(row, &key, |value| values.belongs(row, value)))
            .map_err(failed("get"))?;
        if found != Some(true) {
            return Err(WorkloadError::WrongAnswer(match found {
                None => format!("row {row} was put and is not found"),
                Some(_) => format!("row {row} has a value that it was never given"),
            }));
        }
        Ok(())
    }

    fn seek(&mut self, share: Range<u64>) -> Result<Vec<Timings>> {
        let mut timings = Timings::new(format!("seek + {SEEK_ROWS} rows"), SEEK_ROWS);
        for index in share {
            let row = self.lookup_at(index);
            let begun = key(row);
            let rows = (self.shared.rows - row).min(SEEK_ROWS);
            let found = timings.time(|| {
                if !self.session.seek(row, &begun)? {
                    return Ok(0);
                }
                self.read_on(row, rows)
            });
            check_found(row, rows, found.map_err(failed("seek"))?)?;
            if !self.pass(1) {
                break;
            }
        }
        Ok(vec![timings])
    }

    fn scan(&mut self, share: Range<u64>) -> Result<Vec<Timings>> {
        let mut timings = Timings::new(format!("{SCAN_ROWS} rows"), SCAN_ROWS);
        if share.is_empty() || !self.session.seek(share.start, &key(share.start)).map_err(failed("seek"))? {
            check_found(share.start, share.end - share.start, 0)?;
            return Ok(vec![timings]);
        }
        let end = share.end;
        for chunk in chunks(share, SCAN_ROWS) {
            let rows = chunk.end - chunk.start;
            let found = timings
                .time(|| {
                    let found = self.read_on(chunk.start, rows)?;
                    // The next chunk begins where this one ends.
                    if chunk.end < end { self.session.next().map(|_| found) } else { Ok(found) }
                })
                .map_err(failed("scan"))?;
            check_found(chunk.start, rows, found)?;
            if !self.pass(rows) {
                break;
            }
        }
        Ok(vec![timings])
    }

    /// Read `rows` rows from the one stood on, which is to be `first`; stands on the last of them
    /// then. How many were as they should be; the whole value is looked at where [`is_looked_at`] says so.
    fn read_on(&mut self, first: u64, rows: u64) -> esker::Result<u64> {
        let mut expected = key(first);
        for row in first..first + rows {
            let (key, value) = self.session.row();
            let whole = !is_looked_at(row) || self.shared.values.belongs(row, value);
            let right = (key == expected) & (value.len() == self.shared.values.len()) & whole;
            if !right {
                return Ok(row - first);
            }
            increment(&mut expected);
            if row + 1 < first + rows && !self.session.next()? {
                return Ok(row + 1 - first);
            }
        }
        Ok(rows)
    }
}

/// An error unless of `wanted` rows from row `first` as many were found.
fn check_found(first: u64, wanted: u64, found: u64) -> Result<()> {
    if found == wanted {
        return Ok(());
    }
    Err(WorkloadError::WrongAnswer(format!(
        "reading {wanted} rows from row {first}, row {} was missing or wrong",
        first + found
    )))
}

/// Whether a walk compares the whole value of `row`: of one row in 64.
#[inline]
pub(super) fn is_looked_at(row: u64) -> bool {
    row.is_multiple_of(64)
}

/// `range` in pieces of `len`, the last one shorter.
fn chunks(range: Range<u64>, len: u64) -> impl Iterator<Item = Range<u64>> {
    let end = range.end;
    (range.start..end)
        .step_by(usize::try_from(len).unwrap_or(usize::MAX))
        .map(move |start| start..end.min(start + len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_cover_a_range() {
        let pieces: Vec<_> = chunks(5..17, 5).collect();
        assert_eq!(pieces, [5..10, 10..15, 15..17]);
        assert_eq!(chunks(3..3, 5).count(), 0);
    }
}
