//! Synced puts, beside the least that they could cost: the same bytes appended to a file that has its
//! space already, each write followed by an fdatasync.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use super::sample::Sample;
use super::{Bench, VALUE_BYTES, emit, fresh, in_threads, put_rows};
use crate::keys::Permutation;
use crate::store::{Result, Settings, Store};
use crate::values::Values;

/// A put of 16 B + 100 B with what a log adds to it, in bytes.
const APPEND_BYTES: usize = 140;

/// The bare loop, puts by one thread, the bare loop again, and puts by 2, 4, 8 and 16 threads. The two loops enclose what they
/// are the measure of: within seconds a shared device may be a tenth faster or slower.
pub(super) fn run<S: Store>(bench: &Bench) -> Result<()> {
    let operations = bench.rows / 400;
    bare(bench, "bare write + fdatasync, before", operations)?;
    let values = Values::new(VALUE_BYTES);
    for threads in [1, 2, 4, 8, 16] {
        let rows = operations / threads * threads;
        let order = Permutation::new(rows, 60);
        let store: S = fresh(&bench.dir.join("rows"), Settings { sync: true, ..Settings::default() })?;
        // The first commits make files longer or create them: they are not counted.
        put_rows(&store, &values, 1, (0..rows).take(50), 1)?;
        let plural = if threads == 1 { "" } else { "s" };
        let measure = bench.measure(&format!("synced put, {threads} thread{plural}"))?;
        in_threads(threads, |thread| {
            let share = rows / threads;
            let mine = (thread * share..(thread + 1) * share).map(|at| order.at(at));
            put_rows(&store, &values, 0, mine, 1)
        })?;
        emit(&measure.done(rows)?)?;
        Sample::of(rows).check(&store, &values)?;
        store.close()?;
        if threads == 1 {
            bare(bench, "bare write + fdatasync, after", operations)?;
        }
    }
    Ok(())
}

fn bare(bench: &Bench, workload: &str, operations: u64) -> Result<()> {
    let mut file = fallocated(&bench.dir.join("bare"), operations * APPEND_BYTES as u64)?;
    let bytes = [7; APPEND_BYTES];
    let measure = bench.measure(workload)?;
    for _ in 0..operations {
        file.write_all(&bytes)?;
        file.sync_data()?;
    }
    emit(&measure.done(operations)?)
}

/// A new file with `bytes` of space, and both on the device.
fn fallocated(path: &Path, bytes: u64) -> Result<File> {
    let file = File::create(path)?;
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes)?;
    file.sync_all()?;
    Ok(file)
}
