//! Reads of data that is ten times what memory may hold, under a memory control group that counts the
//! page cache.
//!
//! The database is filled without a cap and closed; its files are written to the device and taken out of
//! the page cache. A second process joins the group before it opens anything, so that all of its memory
//! and all pages that it reads are charged to the group, and reads. Each row of the table comes after a
//! third of its time uncounted: caches are as full, and as well chosen, as they get.

use std::hint::black_box;
use std::time::Duration;

use super::main_sequence::expect;
use super::sample::Sample;
use super::timed::{Budget, repeat};
use super::{Bench, VALUE_BYTES, emit, fresh, group, mib, put_rows, reads};
use crate::control_group::ControlGroup;
use crate::keys::{Draw, Permutation, key};
use crate::machine::{forget_pages, memory};
use crate::store::{Direction, Reader, Result, Settings, Store};
use crate::values::{Values, read_ends};
use crate::zipf::Zipf;

/// The part that runs in the group.
pub(super) const READS: &str = "capped-reads";
/// Rows of the database for each row of the full-sized workloads: 45 million of 116 bytes, 5.2 GB.
const TIMES: u64 = 9;
/// The cap, in bytes for each row of the full-sized workloads: 512 MiB for 5 million.
const CAP_BYTES: f64 = (512 << 20) as f64 / 5e6;
/// Of the cap, one in so many is an engine's block cache …
const CACHE_SHARE: u64 = 4;
/// … and a memtable …
const MEMTABLE_SHARE: u64 = 32;
/// … and a memtable of the fill, which an engine may leave to its log, and so to the reads.
const FILL_MEMTABLE_SHARE: u64 = 8;
/// How long a row of the table takes at most.
const TIME: Duration = Duration::from_secs(30);
/// Rows that a seek shows.
const SEEK_ROWS: u64 = 10;

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and far below 2^63")]
fn cap(bench: &Bench) -> u64 {
    (bench.rows as f64 * CAP_BYTES) as u64
}

/// The name of the group that process `maker` makes.
fn group_of(maker: u32) -> String {
    format!("esker-peers-{maker}")
}

/// Fill, close, forget, and have another process read.
pub(super) fn run<S: Store>(bench: &Bench) -> Result<()> {
    // Before the fill: who has no right to it hears so at once.
    let _group = ControlGroup::make(&group_of(std::process::id()), cap(bench))?;
    let rows = bench.rows * TIMES;
    let (values, order) = (Values::new(VALUE_BYTES), Permutation::new(rows, 120));
    let memtable_bytes = usize::try_from(cap(bench) / FILL_MEMTABLE_SHARE)?;
    let store: S = fresh(&bench.dir, Settings { memtable_bytes, ..Settings::default() })?;
    let measure = bench.measure("capped: fill, without the cap")?;
    put_rows(&store, &values, 0, (0..rows).map(|at| order.at(at)), group::<S>())?;
    let settled = store.settle()?;
    emit(&measure.done_at(rows, settled)?)?;
    store.close()?;
    forget_pages(&bench.dir)?;
    let status = bench.part(READS)?.status()?;
    let cap = mib(cap(bench));
    expect(status.success(), || {
        format!("the reads under a cap of {cap:.0} MiB failed: {status} (signal 9: memory ran out)")
    })
}

/// The part under the cap.
pub(super) fn reads<S: Store>(bench: &Bench) -> Result<()> {
    let group = ControlGroup::named(&group_of(std::os::unix::process::parent_id()))?;
    group.join()?;
    let cap = cap(bench);
    let settings = Settings {
        cache_bytes: usize::try_from(cap / CACHE_SHARE)?,
        memtable_bytes: usize::try_from(cap / MEMTABLE_SHARE)?,
        beyond_memory: true,
        ..Settings::default()
    };
    let store = S::open(&bench.dir, settings)?;
    store.settle()?;
    let rows = bench.rows * TIMES;
    Sample::of(rows).check(&store, &Values::new(VALUE_BYTES))?;

    let mut reader = store.reader()?;
    let mut draw = Draw::new(rows, 121);
    row(bench, &group, "capped: get", || reads::get(&mut reader, draw.next()))?;
    let (mut zipf, order) = (Zipf::new(rows, 122), Permutation::new(rows, 123));
    row(bench, &group, "capped: get, zipf", || reads::get(&mut reader, order.at(zipf.next())))?;
    let mut draw = Draw::new(rows - SEEK_ROWS, 124);
    row(bench, &group, "capped: seek + 10 rows", || {
        let mut sum = 0;
        let from = key(draw.next());
        let see = |key: &[u8], value: &[u8]| sum += read_ends(key, value);
        let seen = reader.scan(Some(&from), Direction::Forward, SEEK_ROWS, see)?;
        black_box(sum);
        expect(seen == SEEK_ROWS, || format!("a seek showed {seen} rows"))
    })?;
    drop(reader);
    store.close()
}

/// A row of the table: `read` again and again, first uncounted.
fn row(
    bench: &Bench,
    group: &ControlGroup,
    workload: &str,
    mut read: impl FnMut() -> Result<()>,
) -> Result<()> {
    repeat(Budget { operations: bench.rows / 3, time: TIME / 3 }, &mut read)?;
    let measure = bench.measure(workload)?;
    let histogram = repeat(Budget { operations: bench.rows, time: TIME }, &mut read)?;
    let figure = measure.done(histogram.count())?.with_latencies(&histogram);
    let (_, anonymous) = memory()?;
    emit(&figure.with("group_peak_mib", mib(group.peak()?)).with("anonymous_mib", mib(anonymous)))
}
