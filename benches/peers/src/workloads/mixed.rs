//! One thread writes as fast as it can, another gets as fast as it can.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{Bench, emit, group, put_rows, reads};
use crate::histogram::Histogram;
use crate::keys::Draw;
use crate::store::{Result, Store};
use crate::values::Values;

/// Until a fifth of the rows has been overwritten.
pub(super) fn run<S: Store>(bench: &Bench, store: &S, values: &Values) -> Result<()> {
    let writes = bench.rows / 5;
    let (stop, both) = (AtomicBool::new(false), Barrier::new(2));
    let reads = bench.measure("one writer, one reader: reads")?;
    let measure = bench.measure("one writer, one reader: writes")?;
    let (wrote, read) = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            both.wait();
            read(store, bench.rows, &stop)
        });
        let mut draw = Draw::new(bench.rows, 50);
        both.wait();
        let wrote = put_rows(store, values, 2, (0..writes).map(|_| draw.next()), group::<S>());
        stop.store(true, Ordering::Relaxed);
        (wrote, reader.join())
    });
    let end = Instant::now();
    wrote?;
    let (histogram, took) = read.map_err(|_| "the reader panicked")??;
    emit(&measure.done_at(writes, end)?)?;
    let mut reads = reads.done_at(histogram.count(), end)?;
    // The reader's own: what passes until it runs would be most of the null store's time, whose writer is done in milliseconds.
    reads.seconds = took.as_secs_f64();
    emit(&reads.with_latencies(&histogram))?;
    store.settle()?;
    Ok(())
}

/// Gets until `stop`, at least one, and how long all of them took.
fn read<S: Store>(store: &S, rows: u64, stop: &AtomicBool) -> Result<(Histogram, Duration)> {
    let mut draw = Draw::new(rows, 51);
    let mut reader = store.reader()?;
    let mut histogram = Histogram::new();
    let begun = Instant::now();
    let mut last = begun;
    loop {
        reads::get(&mut reader, draw.next())?;
        let now = Instant::now();
        histogram.record(u64::try_from((now - last).as_nanos())?);
        last = now;
        if stop.load(Ordering::Relaxed) {
            return Ok((histogram, last - begun));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Settings;
    use crate::stores::esker::Esker;
    use crate::workloads::{VALUE_BYTES, fresh};

    #[test]
    fn a_row_that_is_gone_is_noticed() {
        let (dir, values) = (tempfile::tempdir().expect("directory"), Values::new(VALUE_BYTES));
        let store: Esker = fresh(dir.path(), Settings::default()).expect("a store");
        let stop = AtomicBool::new(true);
        assert!(read(&store, 1, &stop).is_err(), "there is no row");
        put_rows(&store, &values, 0, 0..1, 1).expect("written");
        let (histogram, _) = read(&store, 1, &stop).expect("there is one");
        assert_eq!(histogram.count(), 1);
        store.close().expect("closed");
    }
}
