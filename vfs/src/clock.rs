//! The clock seam: [`OsClock`] in production, [`SimClock`] in step mode and tests.
#![expect(clippy::disallowed_methods, reason = "the system's clocks are read here and nowhere else")]

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Time, monotonic and of the calendar.
pub trait Clock: Send + Sync {
    /// Time since some fixed moment of this process; never goes back.
    fn monotonic(&self) -> Duration;
    /// Milliseconds since 1970-01-01 UTC; may jump either way. Only ever stored and shown (creation
    /// times), never used to order anything.
    fn wall_millis(&self) -> u64;
}

/// The moment that every [`OsClock`] of this process counts from.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The operating system's clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsClock;

impl OsClock {
    /// The clock. All of a process's clocks count from the same moment.
    pub fn new() -> Self {
        LazyLock::force(&START);
        OsClock
    }
}

impl Clock for OsClock {
    fn monotonic(&self) -> Duration {
        START.elapsed()
    }

    fn wall_millis(&self) -> u64 {
        // A calendar before 1970 reads as 1970: the value is only shown.
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}

/// A clock that stands still until told to move. Shared between a test, the step scheduler and the
/// fault-injecting filesystem.
#[derive(Debug)]
pub struct SimClock {
    /// Nanoseconds since the start; enough for 584 years.
    nanos: AtomicU64,
}

impl SimClock {
    /// What the calendar shows when a simulation starts: 2001-09-09T01:46:40Z.
    pub const WALL_START_MILLIS: i64 = 1_000_000_000_000;

    /// A clock at zero.
    pub fn new() -> Self {
        SimClock { nanos: AtomicU64::new(0) }
    }

    /// Let `time` pass, on both clocks.
    ///
    /// ```
    /// use std::time::Duration;
    /// use esker_vfs::clock::{Clock, SimClock};
    /// let clock = SimClock::new();
    /// clock.advance(Duration::from_millis(3));
    /// assert_eq!(clock.monotonic(), Duration::from_millis(3));
    /// ```
    pub fn advance(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let add = |now: u64| Some(now.saturating_add(nanos));
        // The closure always returns Some, so this cannot fail.
        let _ = self.nanos.fetch_update(Ordering::SeqCst, Ordering::SeqCst, add);
    }

    /// Let time pass until `moment` of the monotonic clock; nothing happens if that has passed.
    pub fn advance_to(&self, moment: Duration) {
        let nanos = u64::try_from(moment.as_nanos()).unwrap_or(u64::MAX);
        self.nanos.fetch_max(nanos, Ordering::SeqCst);
    }
}

impl Default for SimClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SimClock {
    fn monotonic(&self) -> Duration {
        Duration::from_nanos(self.nanos.load(Ordering::SeqCst))
    }

    fn wall_millis(&self) -> u64 {
        let passed = i64::try_from(self.nanos.load(Ordering::SeqCst) / 1_000_000).unwrap_or(i64::MAX);
        let wall = Self::WALL_START_MILLIS.saturating_add(passed);
        u64::try_from(wall).unwrap_or(0)
    }
}
