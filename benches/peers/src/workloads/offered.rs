//! Open loop: overwrites arrive by a schedule that was fixed beforehand, at a share of what the engine can
//! do, and a commit's time counts from its arrival. So a stall is seen by all that arrive in it, and not, as
//! where a writer waits for its own last put, by one.
//!
//! Arrivals are equally spaced: whoever waits, waits for the engine (or for the machine: see its jitter, and `walk.rs`).
//! Between arrivals the writer spins. It cannot nap: arrivals are microseconds apart, naps are not; and
//! `sched_yield` costs a thread its turn for milliseconds if anybody else wants the processor.

use std::time::{Duration, Instant};

use super::main_sequence::written;
use super::sample::Sample;
use super::timed::{self, Budget, nanos};
use super::walk::Walk;
use super::{Bench, VALUE_BYTES, emit, fresh, group, put_rows};
use crate::histogram::Histogram;
use crate::keys::{Draw, Permutation, key};
use crate::record::Figure;
use crate::store::{Result, Settings, Store};
use crate::values::Values;

/// Puts that measure capacity, and puts offered at each share, for each row of the database.
const TIMES: u64 = 2;
/// What is offered, in percent of capacity.
const SHARES: [u64; 3] = [50, 80, 95];
/// No offer lasts longer.
const TIME: Duration = Duration::from_secs(90);

/// Fill, capacity, and the offers, each settled.
pub(super) fn run<S: Store>(bench: &Bench) -> Result<()> {
    let values = Values::new(VALUE_BYTES);
    let store: S = fresh(&bench.dir, Settings::default())?;
    let order = Permutation::new(bench.rows, 140);
    put_rows(&store, &values, 0, (0..bench.rows).map(|at| order.at(at)), group::<S>())?;
    store.settle()?;

    let puts = bench.rows * TIMES;
    let overwritten = Draw::new(bench.rows, 141);
    let mut draw = overwritten;
    let measure = bench.measure("offered: capacity")?;
    let histogram = timed::puts(&store, &values, 1, puts, || draw.next())?;
    let settled = store.settle()?;
    let figure = written(bench, measure, settled, puts)?;
    let capacity = figure.per_second();
    emit(&figure.with_puts::<S>(&histogram))?;
    let mut sample = Sample::of(bench.rows).overwritten(overwritten, puts, 1);

    for (version, share) in (2..).zip(SHARES) {
        let rate = capacity * share as f64 / 100.0;
        let puts = puts.min(in_time(rate));
        let measure = bench.measure(&format!("offered: {share} %"))?;
        // Where an engine is not made for single puts, what arrives is a batch of 1,000.
        let size = group::<S>() as u64;
        let overwritten = Draw::new(bench.rows, 142 + version);
        let mut draw = overwritten;
        let offered = offer(puts / size, size as f64 / rate, || {
            if size == 1 {
                let row = draw.next();
                return store.put(&key(row), values.of(row, version));
            }
            timed::put_group(&store, &values, version, size, || draw.next())
        })?;
        store.settle()?;
        let figure = measure.done_at(puts / size * size, offered.end)?;
        emit(&offered.figure(figure).with("offered_kps", rate / 1e3))?;
        sample = sample.overwritten(overwritten, puts / size * size, version);
    }
    sample.check(&store, &values)?;
    store.close()?;
    for share in SHARES {
        walk(bench, capacity, share)?;
    }
    Ok(())
}

/// Offer a walk through memory, whose operations take as long as the engine's, its share of what it can take.
fn walk(bench: &Bench, capacity: f64, share: u64) -> Result<()> {
    let mut walk = Walk::like(Duration::from_secs_f64(1.0 / capacity));
    let tried = Budget::operations(bench.rows / 5);
    let begun = Instant::now();
    timed::repeat(tried, || {
        walk.operate();
        Ok(())
    })?;
    let rate = tried.operations as f64 / begun.elapsed().as_secs_f64() * share as f64 / 100.0;
    let measure = bench.measure(&format!("offered: {share} %, a walk through memory"))?;
    let offered = offer((bench.rows * TIMES).min(in_time(rate)), 1.0 / rate, || {
        walk.operate();
        Ok(())
    })?;
    emit(
        &offered
            .figure(measure.done_at(offered.latencies.count(), offered.end)?)
            .with("offered_kps", rate / 1e3),
    )
}

/// Puts that arrive in [`TIME`].
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and far below 2^63")]
fn in_time(rate: f64) -> u64 {
    (rate * TIME.as_secs_f64()) as u64
}

/// What came of an offer.
struct Offered {
    /// From each arrival to the end of its operation, and from its beginning.
    latencies: Histogram,
    calls: Histogram,
    end: Instant,
}

impl Offered {
    /// Waits overlap: how long it stood still is told by the operations alone.
    fn figure(&self, figure: Figure) -> Figure {
        figure.with_latencies(&self.latencies).with("stalled_ms", self.calls.stalled() as f64 / 1e6)
    }
}

/// Carry out `operation` at each of `arrivals` that are `spacing` seconds apart.
fn offer(arrivals: u64, spacing: f64, mut operation: impl FnMut() -> Result<()>) -> Result<Offered> {
    let (mut latencies, mut calls) = (Histogram::new(), Histogram::new());
    let begun = Instant::now();
    for arrival in 0..arrivals {
        let due = begun + Duration::from_secs_f64(arrival as f64 * spacing);
        let mut called = Instant::now();
        while called < due {
            std::hint::spin_loop();
            called = Instant::now();
        }
        operation()?;
        let done = Instant::now();
        latencies.record(nanos(done - due));
        calls.record(nanos(done - called));
    }
    Ok(Offered { latencies, calls, end: Instant::now() })
}
