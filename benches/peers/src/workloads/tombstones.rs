//! Deletes in key order, and what a seek over what they leave costs.

use std::hint::black_box;
use std::time::Duration;

use super::main_sequence::expect;
use super::{Bench, GROUP, emit};
use crate::keys::{Key, key};
use crate::store::{Direction, Reader, Result, Store};
use crate::values::read_ends;

/// The first half of the rows is deleted one by one and sought over: at once, again, and a second later.
/// Then the other half, but for its last row, is deleted by range and sought over.
pub(super) fn run<S: Store>(bench: &Bench, store: &S) -> Result<()> {
    let half = bench.rows / 2;
    delete(bench, store, "delete")?;

    seek(bench, store, "seek over tombstones, first", 0, half)?;
    seek(bench, store, "seek over tombstones, second", 0, half)?;
    std::thread::sleep(Duration::from_secs(1));
    seek(bench, store, "seek over tombstones, a second later", 0, half)?;

    let last = bench.rows - 1;
    let measure = bench.measure("delete by range")?;
    if store.delete_range(&key(half), &key(last))? {
        emit(&measure.done(1)?)?;
        seek(bench, store, "seek over a deleted range", half, last)?;
    }
    Ok(())
}

/// Delete the first half of the rows, in their order.
pub(super) fn delete<S: Store>(bench: &Bench, store: &S, workload: &str) -> Result<()> {
    let half = bench.rows / 2;
    let measure = bench.measure(workload)?;
    if S::BATCHED {
        let mut batch: Vec<Key> = Vec::with_capacity(GROUP);
        for from in (0..half).step_by(GROUP) {
            batch.clear();
            batch.extend((from..half.min(from + GROUP as u64)).map(key));
            store.delete_all(&batch)?;
        }
    } else {
        for row in 0..half {
            store.delete(&key(row))?;
        }
    }
    emit(&measure.done(half)?)
}

/// A seek to row `from` by a new reader; it has to find row `to`.
fn seek<S: Store>(bench: &Bench, store: &S, workload: &str, from: u64, to: u64) -> Result<()> {
    let measure = bench.measure(workload)?;
    let mut reader = store.reader()?;
    let mut found = Key::default();
    reader.scan(Some(&key(from)), Direction::Forward, 1, |key, value| {
        found = key.first_chunk().copied().unwrap_or_default();
        black_box(read_ends(key, value));
    })?;
    let figure = measure.done(1)?;
    expect(found == key(to) || S::NULL, || format!("{workload}: found {found:x?} instead of row {to}"))?;
    emit(&figure)
}
