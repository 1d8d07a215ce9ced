//! Back-pressure: writers are slowed in proportion to how far flushes and compactions are behind, and
//! wait, on a condition and not on a clock, only at the hard limits.
//!
//! Two things may be behind, and the worse one counts: memtables that wait for their flush, once more than one memtable's
//! memory is in use, and tables of level 0 beyond their slow-down mark. The lag is 0 there and 1 where writers
//! wait, and a write takes `lag / (1 - lag)` times as long as its bytes take to drain, by the measured rate: it is hardly slowed at first,
//! takes as long as its flush half-way, and ever longer from there. So a lag settles where writers are as fast as what follows
//! them, whatever that is, and flushes that come to take three times as long stop nobody.
//!
//! Writes are let in by one schedule for all threads (ITU-T I.371, *generic cell rate algorithm*): each takes its time from when
//! the one before is due. Who is due within a millisecond goes on at once, so that a small put pays its share without sleeping;
//! and small ones are paid for together, since to tell the time and the lag costs a tenth of such a put.

use std::time::Duration;

use esker_base::event::Event;
use esker_base::sync::atomic::{AtomicU64, Ordering};
use esker_base::{Error, Result};

use crate::core::{Backlog, Core};
use crate::options::{DatabaseOptions, WhenStalled};

#[cfg(test)]
mod tests;

/// Who is due sooner than this does not wait.
const WORTH_WAITING: Duration = Duration::from_millis(1);
/// The longest a write is to take, unless twice its drain is longer: a later one sees a fresh state.
const DELAY_MAX: Duration = Duration::from_millis(10);
/// Bytes that writes owe for together before one of them pays.
const OWED_MAX: u64 = 1024;
/// What writers are behind their schedule beyond this is forgiven.
const BEHIND_MAX: Duration = Duration::from_secs(1);
/// The greatest lag before writers wait, in thousandths.
const LAG_MAX: u64 = 990;
/// Compactions take about this many times as long as flushes to drain what comes into level 0.
const L0_DRAIN: u64 = 4;
/// What writers wait for.
const FLUSH: &str = "a flush";
const COMPACTION: &str = "a compaction of level 0";
/// The drain rate assumed before any flush was measured, in bytes a second.
const RATE_UNKNOWN: u64 = 64 << 20;

impl Core {
    /// Let a write of `bytes` in: at once, after a delay, or after a wait; or refuse it, if the
    /// database was told to.
    #[inline]
    pub(crate) fn admit(&self, bytes: u64) -> Result<()> {
        let backlog = self.backlog();
        let is_clear = backlog.sealed == 0 && backlog.l0_depth < self.options.l0_tables_slowdown;
        if is_clear {
            return Ok(());
        }
        match self.pressure.owe(bytes) {
            0 if stop(&self.options, backlog).is_none() => Ok(()),
            owed => self.admit_slowly(owed),
        }
    }

    /// Let in what owes for `owed` bytes.
    #[cold]
    fn admit_slowly(&self, mut owed: u64) -> Result<()> {
        let clock = &self.env.clock;
        let began = clock.monotonic();
        let mut waited = Duration::ZERO;
        let mut waited_for = None;
        loop {
            let seen = self.progress.epoch();
            self.health.check()?;
            let (reason, limit) = match self.verdict() {
                Verdict::Go => break,
                Verdict::Slow(..) if owed == 0 => break,
                Verdict::Slow(slowdown, reason) => {
                    let delay = self.pressure.delay(std::mem::take(&mut owed), slowdown, began + waited);
                    let Some(delay) = delay else { break };
                    (reason, Some(delay))
                }
                Verdict::Stop(reason) => (reason, None),
            };
            let deadline = match self.options.when_stalled {
                WhenStalled::Wait => None,
                WhenStalled::Fail => Some(Duration::ZERO),
                WhenStalled::WaitFor(longest) => Some(longest),
            };
            // A delay is part of going on; only a stop is a stall that may be refused.
            let timeout = match (limit, deadline) {
                (Some(delay), _) => Some(delay),
                (None, Some(longest)) if waited >= longest => {
                    return Err(Error::WouldStall { reason, waited });
                }
                (None, Some(longest)) => Some(longest.saturating_sub(waited)),
                (None, None) => None,
            };
            self.env.scheduler.wait(&self.progress, seen, timeout);
            waited = clock.monotonic().saturating_sub(began);
            // A delay is short: if the wait is worth telling of, then because of a stop.
            waited_for = if limit.is_none() { Some(reason) } else { waited_for.or(Some(reason)) };
        }
        let Some(reason) = waited_for else { return Ok(()) };
        self.metrics.count_stall(waited);
        if waited >= Duration::from_millis(100) {
            self.emit(&Event::WriteStall { reason, waited });
        }
        Ok(())
    }

    fn verdict(&self) -> Verdict {
        let backlog = self.backlog();
        if let Some(reason) = stop(&self.options, backlog) {
            return Verdict::Stop(reason);
        }
        let active_bytes = self.current.load().active.memtable.bytes();
        match slowdown(&self.options, backlog, active_bytes) {
            (0, _) => Verdict::Go,
            (slowdown, reason) => Verdict::Slow(slowdown, reason),
        }
    }
}

/// What writers have to wait for, if they do.
#[inline]
fn stop(options: &DatabaseOptions, backlog: Backlog) -> Option<&'static str> {
    if backlog.sealed >= options.sealed_memtables_max && backlog.active_full {
        Some(FLUSH)
    } else if backlog.l0_depth >= options.l0_tables_stop {
        Some(COMPACTION)
    } else {
        None
    }
}

/// How many thousandths of its drain a write is to take, with `active_bytes` in the active memtable, and because of what. See
/// the module.
fn slowdown(options: &DatabaseOptions, backlog: Backlog, active_bytes: u64) -> (u64, &'static str) {
    let active = (active_bytes.saturating_mul(1000) / options.memtable_full_bytes()).min(1000);
    let used = backlog.sealed as u64 * 1000 + active;
    let all = (options.sealed_memtables_max as u64 + 1) * 1000;
    let memory_lag = used.saturating_sub(1000) * 1000 / (all - 1000);
    let above = backlog.l0_depth.saturating_sub(options.l0_tables_slowdown) as u64;
    let width = (options.l0_tables_stop - options.l0_tables_slowdown).max(1) as u64;
    let times_drain = |lag: u64| {
        let lag = lag.min(LAG_MAX);
        lag * 1000 / (1000 - lag)
    };
    let by_flush = times_drain(memory_lag);
    let by_compaction = L0_DRAIN * times_drain(above * 1000 / width);
    if by_flush >= by_compaction { (by_flush, FLUSH) } else { (by_compaction, COMPACTION) }
}

enum Verdict {
    Go,
    /// Go slower: take so many thousandths of the time that it takes to drain.
    Slow(u64, &'static str),
    /// Wait for this.
    Stop(&'static str),
}

/// How far background work is behind.
#[derive(Debug, Default)]
pub(crate) struct Pressure {
    /// When the next slowed write is due, in nanoseconds of the monotonic clock.
    due: AtomicU64,
    /// Bytes of slowed writes that nobody has paid for yet.
    owed: AtomicU64,
    /// Bytes of entries a second that flushes drain, averaged.
    rate: AtomicU64,
}

impl Pressure {
    /// A flush of `bytes` of entries took `took`: adjust the drain rate (exponential average, a quarter new).
    pub(crate) fn drained(&self, bytes: u64, took: Duration) {
        let rate = bytes.saturating_mul(1_000_000_000) / nanos(took).max(1);
        let old = self.rate.load(Ordering::Relaxed);
        let new = if old == 0 { rate } else { old - old / 4 + rate / 4 };
        self.rate.store(new.max(1 << 20), Ordering::Relaxed);
    }

    /// Owe for `bytes` more: for how many to pay now.
    #[inline]
    fn owe(&self, bytes: u64) -> u64 {
        let before = self.owed.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) < OWED_MAX { 0 } else { self.owed.swap(0, Ordering::Relaxed) }
    }

    /// Give a write of `bytes` that begins at `now` its place in the schedule, `slowdown` thousandths of its drain after the
    /// one before; how long to wait until then, if that is worth it.
    fn delay(&self, bytes: u64, slowdown: u64, now: Duration) -> Option<Duration> {
        let rate = match self.rate.load(Ordering::Relaxed) {
            0 => RATE_UNKNOWN,
            rate => rate,
        };
        let drain = bytes.saturating_mul(1_000_000_000) / rate;
        let longest = nanos(DELAY_MAX).max(drain.saturating_mul(2));
        let takes = (drain.saturating_mul(slowdown) / 1000).min(longest);
        let now = nanos(now);
        let latest = now.saturating_add(nanos(BEHIND_MAX));
        let after = |due: u64| due.max(now).min(latest).saturating_add(takes);
        let moved = self.due.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |due| Some(after(due)));
        let (Ok(before) | Err(before)) = moved;
        let wait = Duration::from_nanos(after(before) - now);
        (wait >= WORTH_WAITING).then_some(wait)
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
