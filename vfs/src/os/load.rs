//! How much of the machine's processors this process takes.
#![expect(clippy::disallowed_methods, reason = "processors' time is set against the system's clock")]

use std::time::{Duration, Instant};

/// What a process had taken of processors at a moment.
#[derive(Debug)]
pub(crate) struct Load {
    at: Instant,
    taken: Duration,
}

impl Load {
    /// Up to now.
    pub(crate) fn now() -> Load {
        Load { at: Instant::now(), taken: process_time() }
    }

    /// Whether this process has left half of one of `processors` unused since the moment `self`, which is
    /// then set to now. Whether other processes want that half is not known.
    pub(crate) fn spared_one_of(&mut self, processors: usize) -> bool {
        let before = std::mem::replace(self, Load::now());
        let passed = self.at.saturating_duration_since(before.at);
        let taken = self.taken.saturating_sub(before.taken);
        let processors = u32::try_from(processors).unwrap_or(u32::MAX);
        // Where there are more processors than a time can be multiplied by, they are never all taken.
        passed.checked_mul(processors).is_none_or(|all| all.saturating_sub(passed / 2) >= taken)
    }
}

/// What all threads of this process have taken together since it began; nothing where the system does not tell.
pub(crate) fn process_time() -> Duration {
    system::process_time()
}

#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) use system::{ThreadClock, thread_clock};

#[cfg(all(target_os = "linux", not(miri)))]
#[expect(
    unsafe_code,
    reason = "calls of the C library that std has no form for; at rustix's, programs end under valgrind"
)]
mod system {
    use std::time::Duration;

    pub(super) fn process_time() -> Duration {
        time(libc::CLOCK_PROCESS_CPUTIME_ID)
    }

    /// What one thread takes of processors.
    pub(crate) struct ThreadClock(libc::clockid_t);

    impl ThreadClock {
        /// Since the thread began; nothing once it has ended.
        pub(crate) fn taken(&self) -> Duration {
            time(self.0)
        }
    }

    /// The calling thread's clock.
    pub(crate) fn thread_clock() -> Option<ThreadClock> {
        let mut clock: libc::clockid_t = 0;
        // SAFETY: the thread is the calling one; the clock is this function's own, and lives as long as the call.
        let outcome = unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &raw mut clock) };
        (outcome == 0).then_some(ThreadClock(clock))
    }

    fn time(clock: libc::clockid_t) -> Duration {
        // SAFETY: zeros are a valid time.
        let mut taken: libc::timespec = unsafe { std::mem::zeroed() };
        // SAFETY: it is this function's own, and lives as long as the call.
        let outcome = unsafe { libc::clock_gettime(clock, &raw mut taken) };
        match (u64::try_from(taken.tv_sec), u32::try_from(taken.tv_nsec)) {
            (Ok(seconds), Ok(nanos)) if outcome == 0 => Duration::new(seconds, nanos),
            _ => Duration::ZERO,
        }
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
mod system {
    use std::time::Duration;

    pub(super) fn process_time() -> Duration {
        Duration::ZERO
    }
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use super::*;

    /// Of one processor that was taken nothing is spare, of one that slept all is.
    #[test]
    fn what_is_taken_is_not_spare() {
        let busy = |load: &mut Load| {
            let begun = load.taken;
            while process_time().saturating_sub(begun) < Duration::from_millis(20) {
                std::hint::spin_loop();
            }
        };
        let mut load = Load::now();
        std::thread::sleep(Duration::from_millis(200));
        assert!(load.spared_one_of(usize::MAX));
        // Other tests of this process may run meanwhile, and other processes: these only make it less.
        let spared = (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(20));
            load.spared_one_of(64)
        });
        assert!(spared, "64 processors were all taken");
        let taken = (0..100).any(|_| {
            busy(&mut load);
            !load.spared_one_of(1)
        });
        assert!(taken, "half of the one processor was never taken");
    }
}
