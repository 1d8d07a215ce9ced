//! A queue: rows are put at the tail and deleted at the head, so that the head lies behind everything
//! that was ever deleted.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use super::main_sequence::expect;
use super::timed::nanos;
use super::{Bench, VALUE_BYTES, emit, fresh, group, put_rows};
use crate::histogram::Histogram;
use crate::keys::{Key, key};
use crate::record::Figure;
use crate::store::{Direction, Reader, Result, Settings, Store};
use crate::values::{Values, read_ends};

/// Puts and deletes between two looks at the head.
const LOOK_EVERY: u64 = 10;

/// A queue of a hundredth of the rows; as many pass through it, one by one. Looks have a time and a figure of their own: an
/// engine for which one takes a hundred times as long as a put would show little else.
pub(super) fn run<S: Store>(bench: &Bench) -> Result<()> {
    let (length, passing) = (bench.rows / 100, bench.rows / 100);
    let values = Values::new(VALUE_BYTES);
    let store: S = fresh(&bench.dir, Settings::default())?;
    put_rows(&store, &values, 0, 0..length, group::<S>())?;
    let (mut histogram, mut looking) = (Histogram::new(), Duration::ZERO);
    let measure = bench.measure("queue: put and delete")?;
    for head in 0..passing {
        store.put(&key(length + head), values.of(head, 0))?;
        store.delete(&key(head))?;
        if head % LOOK_EVERY == 0 {
            let begun = Instant::now();
            let found = first(&store)?;
            let took = begun.elapsed();
            histogram.record(nanos(took));
            looking += took;
            expect(found == key(head + 1) || S::NULL, || {
                format!("the queue's head is not row {}", head + 1)
            })?;
        }
    }
    let mut writes = measure.done(passing)?;
    let seconds = looking.as_secs_f64();
    writes.seconds -= seconds;
    // Measured over both, and a look takes some engines far longer than a put. What is written is the puts' and deletes'.
    for of_both in ["cpu_us_per_operation", "read_mib", "read_bytes_per_operation"] {
        writes.measures.remove(of_both);
    }
    emit(&writes)?;
    let (workload, operations) = ("queue: look at the head".to_owned(), histogram.count());
    let looks = Figure { workload, operations, seconds, measures: BTreeMap::new() };
    emit(&looks.with_latencies(&histogram))?;
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
