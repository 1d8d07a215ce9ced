//! Values from 8 bytes to 1 MiB: a fill in random order and gets that read every byte.

use std::time::Duration;

use super::sample::Sample;
use super::{Bench, emit, fresh, put_rows, reads};
use crate::keys::Permutation;
use crate::store::{Result, Settings, Store};
use crate::values::Values;

/// Bytes of a value, and what to call that.
const SIZES: &[(usize, &str)] =
    &[(8, "8 B"), (400, "400 B"), (4 << 10, "4 KiB"), (64 << 10, "64 KiB"), (1 << 20, "1 MiB")];
/// Gets of as many rows as there are, again and again for at least as long: one pass over the longest values takes a fiftieth
/// of it, a few turns of the scheduler.
const GETS_TIME: Duration = Duration::from_secs(2);
/// Bytes that a batch aims at, for engines that are not made for single puts.
const GROUP_BYTES: usize = 1 << 20;

/// Each size on a database of its own: a fifth of the rows, or as many as take a hundred bytes for each
/// row of the full-sized workloads.
pub(super) fn run<S: Store>(bench: &Bench) -> Result<()> {
    for (len, name) in SIZES {
        let rows = (bench.rows / 5).min(bench.rows * 100 / *len as u64).max(10);
        let values = Values::new(*len);
        let order = Permutation::new(rows, 100);
        let store: S = fresh(&bench.dir.join("rows"), Settings::default())?;
        let group = if S::BATCHED { (GROUP_BYTES / len).clamp(1, 1000) } else { 1 };
        let measure = bench.measure(&format!("{name} values: fill"))?;
        put_rows(&store, &values, 0, (0..rows).map(|at| order.at(at)), group)?;
        let settled = store.settle()?;
        emit(&measure.done_at(rows, settled)?)?;
        Sample::of(rows).check(&store, &values)?;
        reads::get_rows(&store, rows, rows, 101)?;
        let measure = bench.measure(&format!("{name} values: get"))?;
        let mut passes = 0;
        while passes == 0 || measure.elapsed() < GETS_TIME {
            reads::get_rows(&store, rows, rows, 102 + passes)?;
            passes += 1;
        }
        emit(&measure.done(passes * rows)?)?;
        store.close()?;
    }
    Ok(())
}
