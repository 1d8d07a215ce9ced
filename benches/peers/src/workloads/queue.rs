//! A queue: rows are put at the tail and deleted at the head, so that the head lies behind everything
//! that was ever deleted.

use std::hint::black_box;
use std::time::Instant;

use super::main_sequence::expect;
use super::{Bench, VALUE_BYTES, emit, fresh, group, put_rows};
use crate::histogram::Histogram;
use crate::keys::{Key, key};
use crate::store::{Direction, Reader, Result, Settings, Store};
use crate::values::{Values, read_ends};

/// Puts and deletes between two looks at the head.
const LOOK_EVERY: u64 = 10;

/// A queue of a hundredth of the rows; as many pass through it, one by one.
pub(super) fn run<S: Store>(bench: &Bench) -> Result<()> {
    let (length, passing) = (bench.rows / 100, bench.rows / 100);
    let values = Values::new(VALUE_BYTES);
    let store: S = fresh(&bench.dir, Settings::default())?;
    put_rows(&store, &values, 0, 0..length, group::<S>())?;
    let mut histogram = Histogram::new();
    let measure = bench.measure("queue: put, delete")?;
    for head in 0..passing {
        store.put(&key(length + head), values.of(head, 0))?;
        store.delete(&key(head))?;
        if head % LOOK_EVERY == 0 {
            let begun = Instant::now();
            let found = first(&store)?;
            histogram.record(u64::try_from(begun.elapsed().as_nanos())?);
            expect(found == key(head + 1) || S::NULL, || {
                format!("the queue's head is not row {}", head + 1)
            })?;
        }
    }
    emit(&measure.done(passing)?.with_latencies(&histogram))?;
    store.close()
}

/// The first key, as a new reader finds it.
fn first<S: Store>(store: &S) -> Result<Key> {
    let mut found = Key::default();
    store.reader()?.scan(None, Direction::Forward, 1, |key, value| {
        found = key.first_chunk().copied().unwrap_or_default();
        black_box(read_ends(key, value));
    })?;
    Ok(found)
}
