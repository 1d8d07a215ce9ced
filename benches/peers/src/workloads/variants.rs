//! The same things with other rows: values of 16 KiB, and compressed blocks.

use std::hint::black_box;

use super::main_sequence::{expect, written};
use super::sample::Sample;
use super::{Bench, VALUE_BYTES, emit, fresh, group, mib, put_rows, reads};
use crate::keys::{Key, Permutation};
use crate::machine::disk_bytes;
use crate::store::{Direction, Reader, Result, Settings, Store};
use crate::values::{Values, read_all, read_ends};

/// Bytes of a large value.
const LARGE_BYTES: usize = 16 << 10;
/// Rows of a batch of them, for engines that are not made for single puts.
const LARGE_GROUP: usize = 100;

/// Values of 16 KiB, a fortieth of the rows; every byte is read.
pub(super) fn large<S: Store>(bench: &Bench) -> Result<()> {
    long_values::<S>(bench, Settings::default(), "16 KiB values")
}

/// The same with what each engine's guides recommend.
pub(super) fn tuned_large<S: Store>(bench: &Bench) -> Result<()> {
    let settings = Settings { tuned: true, ..Settings::default() };
    long_values::<S>(bench, settings, "tuned: 16 KiB values")
}

fn long_values<S: Store>(bench: &Bench, settings: Settings, what: &str) -> Result<()> {
    let rows = bench.rows / 40;
    let values = Values::new(LARGE_BYTES);
    let order = Permutation::new(rows, 70);
    let store: S = fresh(&bench.dir, settings)?;

    let measure = bench.measure(&format!("{what}: fill"))?;
    let group = if S::BATCHED { LARGE_GROUP } else { 1 };
    put_rows(&store, &values, 0, (0..rows).map(|at| order.at(at)), group)?;
    let settled = store.settle()?;
    let figure = measure.done_at(rows, settled)?;
    let user = mib(rows * (values.len() + size_of::<Key>()) as u64);
    let amplification = figure.measures["written_mib"] / user;
    let disk = mib(disk_bytes(&bench.dir)) / user;
    emit(&figure.with("write_amplification", amplification).with("disk_per_live", disk))?;
    Sample::of(rows).check(&store, &values)?;

    reads::get_rows(&store, rows, rows, 71)?;
    let measure = bench.measure(&format!("{what}: get"))?;
    reads::get_rows(&store, rows, rows, 72)?;
    emit(&measure.done(rows)?)?;

    let mut reader = store.reader()?;
    let measure = bench.measure(&format!("{what}: full scan"))?;
    let mut sum = 0u64;
    let limit = if S::NULL { rows } else { u64::MAX };
    let seen = reader.scan(None, Direction::Forward, limit, |_, value| {
        sum = sum.wrapping_add(read_all(value));
    })?;
    let figure = measure.done(seen)?;
    black_box(sum);
    expect(seen == rows, || format!("{seen} rows of 16 KiB instead of {rows}"))?;
    emit(&figure)?;

    let measure = bench.measure(&format!("{what}: keys-only scan"))?;
    let seen = reader.keys(limit, |key| sum = sum.wrapping_add(read_ends(key, &[])))?;
    let figure = measure.done(seen)?;
    black_box(sum);
    expect(seen == rows, || format!("{seen} keys of 16 KiB values instead of {rows}"))?;
    emit(&figure)?;
    drop(reader);
    store.close()
}

/// Blocks compressed with LZ4; engines without it are left out.
pub(super) fn lz4<S: Store>(bench: &Bench) -> Result<()> {
    if !S::LZ4 {
        return Ok(());
    }
    let values = Values::new(VALUE_BYTES);
    let order = Permutation::new(bench.rows, 80);
    let store: S = fresh(&bench.dir, Settings { lz4: true, ..Settings::default() })?;
    let measure = bench.measure("LZ4: fill")?;
    put_rows(&store, &values, 0, (0..bench.rows).map(|at| order.at(at)), group::<S>())?;
    let settled = store.settle()?;
    emit(&written(bench, measure, settled, bench.rows)?)?;
    Sample::of(bench.rows).check(&store, &values)?;

    let gets = bench.rows / 5;
    reads::get_rows(&store, bench.rows, gets, 81)?;
    let measure = bench.measure("LZ4: get")?;
    reads::get_rows(&store, bench.rows, gets, 82)?;
    emit(&measure.done(gets)?)?;
    reads::scan(bench, &store, "LZ4: full scan", Direction::Forward)?;
    store.close()
}
