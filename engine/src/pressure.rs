//! Back-pressure: writers are slowed in proportion to how far flushes and compactions are behind, and
//! wait, on a condition and not on a clock, only at the hard limits.
//!
//! The delay of a write of `b` bytes is `b ÷ rate`, where the rate falls from the measured drain rate
//! at the slow-down mark towards a tenth of it at the stop mark. Delays are collected until they are
//! worth a wait (one millisecond), so a small put pays its share without sleeping.

use std::time::Duration;

use esker_base::event::Event;
use esker_base::sync::atomic::{AtomicU64, Ordering};
use esker_base::{Error, Result};

use crate::core::Core;
use crate::options::WhenStalled;

#[cfg(test)]
mod tests;

/// A wait shorter than this is saved up instead.
const WORTH_WAITING: Duration = Duration::from_millis(1);
/// The longest single delay: a later writer sees a fresh state.
const DELAY_MAX: Duration = Duration::from_millis(10);
/// The drain rate assumed before any flush or compaction was measured, in bytes a second.
const RATE_UNKNOWN: u64 = 64 << 20;

impl Core {
    /// Let a write of `bytes` in: at once, after a delay, or after a wait; or refuse it, if the
    /// database was told to.
    #[inline]
    pub(crate) fn admit(&self, bytes: u64) -> Result<()> {
        match self.verdict() {
            Verdict::Go => Ok(()),
            _ => self.admit_slowly(bytes),
        }
    }

    #[cold]
    fn admit_slowly(&self, bytes: u64) -> Result<()> {
        let clock = &self.env.clock;
        let began = clock.monotonic();
        let mut owed = true;
        let mut waited_for = None;
        loop {
            let seen = self.progress.epoch();
            self.health.check()?;
            let (reason, limit) = match self.verdict() {
                Verdict::Go => break,
                Verdict::Slow(_) if !owed => break,
                Verdict::Slow(permille) => match self.pressure.delay(bytes, permille) {
                    None => break,
                    Some(delay) => {
                        owed = false;
                        ("compactions to catch up", Some(delay))
                    }
                },
                Verdict::Stop(reason) => (reason, None),
            };
            let waited = clock.monotonic().saturating_sub(began);
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
            // A delay is short: if the wait is worth telling of, then because of a stop.
            waited_for = if limit.is_none() { Some(reason) } else { waited_for.or(Some(reason)) };
        }
        let Some(reason) = waited_for else { return Ok(()) };
        let waited = clock.monotonic().saturating_sub(began);
        self.metrics.count_stall(waited);
        if waited >= Duration::from_millis(100) {
            self.emit(&Event::WriteStall { reason, waited });
        }
        Ok(())
    }

    #[inline]
    fn verdict(&self) -> Verdict {
        let options = &self.options;
        let backlog = self.backlog();
        if backlog.sealed >= options.sealed_memtables_max && backlog.active_full {
            return Verdict::Stop("a flush");
        }
        let l0 = backlog.l0_depth;
        if l0 >= options.l0_tables_stop {
            return Verdict::Stop("a compaction of level 0");
        }
        if l0 < options.l0_tables_slowdown {
            return Verdict::Go;
        }
        let above = (l0 - options.l0_tables_slowdown) as u64;
        let width = (options.l0_tables_stop - options.l0_tables_slowdown).max(1) as u64;
        Verdict::Slow(above * 1000 / width)
    }
}

enum Verdict {
    Go,
    /// Go slower: parts per thousand of the way from the slow-down mark to the stop mark.
    Slow(u64),
    Stop(&'static str),
}

/// How far background work is behind.
#[derive(Debug, Default)]
pub(crate) struct Pressure {
    /// Delay owed by writers, in nanoseconds.
    owed: AtomicU64,
    /// Bytes a second that flushes and compactions drain, averaged.
    rate: AtomicU64,
}

impl Pressure {
    /// A flush of `bytes` took `took`: adjust the drain rate (exponential average, a quarter new).
    pub(crate) fn drained(&self, bytes: u64, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).max(1);
        let rate = bytes.saturating_mul(1_000_000_000) / nanos;
        let old = self.rate.load(Ordering::Relaxed);
        let new = if old == 0 { rate } else { old - old / 4 + rate / 4 };
        self.rate.store(new.max(1 << 20), Ordering::Relaxed);
    }

    /// What a write of `bytes` owes at `permille` of the way to the stop mark; how much of what is
    /// owed to wait for now.
    fn delay(&self, bytes: u64, permille: u64) -> Option<Duration> {
        let drain = match self.rate.load(Ordering::Relaxed) {
            0 => RATE_UNKNOWN,
            rate => rate,
        };
        let rate = (drain / 1000 * (1000 - permille.min(900))).max(1 << 16);
        let nanos = bytes.saturating_mul(1_000_000_000) / rate;
        let owed = self.owed.fetch_add(nanos, Ordering::Relaxed) + nanos;
        if Duration::from_nanos(owed) < WORTH_WAITING {
            return None;
        }
        let taken = self.owed.swap(0, Ordering::Relaxed);
        Some(Duration::from_nanos(taken).min(DELAY_MAX))
    }
}
