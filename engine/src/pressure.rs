//! Back-pressure: writers are slowed in proportion to how far flushes and compactions are behind, and
//! wait, on a condition and not on a clock, only at the hard limits.
//!
//! There are two lags, and the larger one counts.
//!
//! *Compactions*: the lag grows from 0, at `l0_tables_slowdown` tables of level 0 over one key, to 1, at `l0_tables_stop`, where
//! writers wait. A write takes `lag / (1 - lag)` times as long as its bytes take to drain: it is hardly slowed at first, takes as
//! long as its drain half-way, and ever longer from there. So the lag settles where writers are as fast as what follows them,
//! whatever that is.
//!
//! *Flushes*: they are behind if writers are faster than the one under way, that is, if the active memtable is filled
//! further than the sealed one is flushed. Writers as fast as flushes are held there: the active memtable is full when the
//! flush ends, the next flush follows at once, and two memtables are in memory, which is the least with which flushes are
//! never idle. From there the lag grows slowly, by how many memtables writers are ahead, so that a flush that hangs for a
//! moment stops nobody. What a flush drains is what it has drained so far, or what those before it did, if that is less: the
//! system may take twice as long from one flush to the next.
//!
//! Writes are let in by one schedule for all threads (ITU-T I.371, *generic cell rate algorithm*): each takes its time from when
//! the one before is due. Who is due within a millisecond goes on at once, so that a small put pays its share without sleeping;
//! and small ones are paid for together, since to tell the time and the lag costs a tenth of such a put.

use std::time::Duration;

use esker_base::event::Event;
use esker_base::sync::atomic::{AtomicU64, Ordering};
use esker_base::{Error, Result};
use esker_vfs::scheduler::Lane;

use crate::backlog::Backlog;
use crate::core::Core;
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
/// Slowing begins where writers are within this many thousandths of a memtable of being ahead of the flush.
const NEARLY: u64 = 100;
/// A flush under way tells its rate once it has flushed this many thousandths of its memtable.
const TELLING: u64 = 125;
/// Compactions take about this many times as long as flushes to drain what comes into level 0.
const L0_DRAIN: u64 = 4;
/// What writers wait for.
const FLUSH: &str = "a flush";
const COMPACTION: &str = "a compaction of level 0";
/// The drain rate assumed before any flush was measured, in bytes a second.
const RATE_UNKNOWN: u64 = 64 << 20;
/// No lower rate is believed.
const RATE_MIN: u64 = 1 << 20;

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
                // A listener on a thread that writers wait for, or that whoever closes waits for.
                _ if self.check_not_within(&Lane::ALL).is_err() => Some(Duration::ZERO),
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
        match slowdown(&self.options, backlog, active_bytes, self.pressure.flushed()) {
            (0, _) => Verdict::Go,
            (slowdown, reason) => Verdict::Slow(slowdown, reason),
        }
    }
}

/// What writers have to wait for, if they do.
#[inline]
fn stop(options: &DatabaseOptions, backlog: Backlog) -> Option<&'static str> {
    let most = options.sealed_memtables_max;
    // Whoever asks for flushes may seal more than writers do.
    if backlog.sealed > most || backlog.sealed == most && backlog.active_full {
        Some(FLUSH)
    } else if backlog.l0_depth >= options.l0_tables_stop {
        Some(COMPACTION)
    } else {
        None
    }
}

/// How many thousandths of its drain a write is to take, with `active_bytes` in the active memtable and `flushed` thousandths of
/// the oldest sealed one flushed, and because of what. See the module.
fn slowdown(
    options: &DatabaseOptions,
    backlog: Backlog,
    active_bytes: u64,
    flushed: u64,
) -> (u64, &'static str) {
    let active = (active_bytes.saturating_mul(1000) / options.memtable_full_bytes()).min(1000);
    let above = backlog.l0_depth.saturating_sub(options.l0_tables_slowdown) as u64;
    let width = (options.l0_tables_stop - options.l0_tables_slowdown).max(1) as u64;
    let times_drain = |lag: u64| {
        let lag = lag.min(LAG_MAX);
        lag * 1000 / (1000 - lag)
    };
    let by_flush = times_drain(flush_lag(backlog.sealed as u64, active, flushed, options));
    let by_compaction = L0_DRAIN * times_drain(above * 1000 / width);
    if by_flush >= by_compaction { (by_flush, FLUSH) } else { (by_compaction, COMPACTION) }
}

/// How far flushes are behind, in thousandths: 500 where writers are to be as fast as they are.
fn flush_lag(sealed: u64, active: u64, flushed: u64, options: &DatabaseOptions) -> u64 {
    if sealed == 0 {
        return 0;
    }
    // What is to be flushed, beyond one memtable.
    let ahead = (sealed - 1) * 1000 + active;
    match ahead.checked_sub(flushed) {
        None => 500 * (ahead + NEARLY).saturating_sub(flushed) / NEARLY,
        Some(ahead) => 500 + 500 * ahead / (options.sealed_memtables_max as u64 * 1000),
    }
}

enum Verdict {
    Go,
    /// Go slower: take this many thousandths of the time that its bytes take to drain.
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
    /// Those that the flush under way drains; none if that cannot be told.
    rate_now: AtomicU64,
    /// How many thousandths of its memtable it has flushed.
    flushed: AtomicU64,
}

impl Pressure {
    /// A flush of `bytes` of entries took `took`: adjust the drain rate (exponential average, a quarter new).
    pub(crate) fn drained(&self, bytes: u64, took: Duration) {
        let rate = bytes.saturating_mul(1_000_000_000) / nanos(took).max(1);
        let old = self.rate.load(Ordering::Relaxed);
        let new = if old == 0 { rate } else { old - old / 4 + rate / 4 };
        self.rate.store(new.max(RATE_MIN), Ordering::Relaxed);
    }

    /// The flush of a memtable with `bytes` of entries has come to `flushed` thousandths of it in the time that it `took`.
    pub(crate) fn flushing(&self, bytes: u64, flushed: u64, took: Duration) {
        self.flushed.store(flushed, Ordering::Relaxed);
        if flushed >= TELLING {
            let flushed = u128::from(bytes) * u128::from(flushed) / 1000;
            let rate = flushed * 1_000_000_000 / u128::from(nanos(took).max(1));
            self.rate_now.store(u64::try_from(rate).unwrap_or(u64::MAX).max(RATE_MIN), Ordering::Relaxed);
        }
    }

    /// No flush is under way: it has ended, or was given up.
    pub(crate) fn flush_ended(&self) {
        self.rate_now.store(0, Ordering::Relaxed);
        self.flushed.store(0, Ordering::Relaxed);
    }

    /// How many thousandths of its memtable the flush under way has flushed.
    fn flushed(&self) -> u64 {
        self.flushed.load(Ordering::Relaxed)
    }

    /// Bytes a second that drain.
    fn drain_rate(&self) -> u64 {
        let known = [&self.rate, &self.rate_now].map(|rate| rate.load(Ordering::Relaxed));
        known.into_iter().filter(|rate| *rate > 0).min().unwrap_or(RATE_UNKNOWN)
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
        let drain = bytes.saturating_mul(1_000_000_000) / self.drain_rate();
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
