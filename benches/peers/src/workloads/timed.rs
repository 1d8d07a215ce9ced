//! Operations of which each one is timed: from the end of the one before to its own, one reading of the
//! clock an operation.

use std::time::{Duration, Instant};

use super::GROUP;
use crate::histogram::Histogram;
use crate::keys::{Key, key};
use crate::store::{Result, Store};
use crate::values::Values;

/// Where a loop ends: after so many operations or after so long, whichever comes first.
#[derive(Clone, Copy)]
pub(super) struct Budget {
    pub(super) operations: u64,
    pub(super) time: Duration,
}

impl Budget {
    /// So many operations, however long they take.
    pub(super) fn operations(operations: u64) -> Budget {
        Budget { operations, time: Duration::MAX }
    }
}

/// Repeat `operation` within `budget`.
pub(super) fn repeat(budget: Budget, mut operation: impl FnMut() -> Result<()>) -> Result<Histogram> {
    let mut histogram = Histogram::new();
    let begun = Instant::now();
    let mut last = begun;
    while histogram.count() < budget.operations && last - begun < budget.time {
        operation()?;
        let now = Instant::now();
        histogram.record(nanos(now - last));
        last = now;
    }
    Ok(histogram)
}

/// Write `version` of `puts` rows that `next` names. The samples are commits: of one row, or of 1,000 where
/// an engine is not made for single puts.
pub(super) fn puts<S: Store>(
    store: &S,
    values: &Values,
    version: u64,
    puts: u64,
    mut next: impl FnMut() -> u64,
) -> Result<Histogram> {
    if !S::BATCHED {
        return repeat(Budget::operations(puts), || {
            let row = next();
            store.put(&key(row), values.of(row, version))
        });
    }
    let mut left = puts;
    repeat(Budget::operations(puts.div_ceil(GROUP as u64)), || {
        let size = left.min(GROUP as u64);
        left -= size;
        put_group(store, values, version, size, &mut next)
    })
}

/// Write `version` of `size` rows that `next` names, in one commit.
pub(super) fn put_group<S: Store>(
    store: &S,
    values: &Values,
    version: u64,
    size: u64,
    mut next: impl FnMut() -> u64,
) -> Result<()> {
    let row = |row| (key(row), values.of(row, version));
    let batch: Vec<(Key, &[u8])> = (0..size).map(|_| row(next())).collect();
    store.put_all(&batch)
}

/// `time` in whole nanoseconds: as many as fit, which is 584 years.
pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
