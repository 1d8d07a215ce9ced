//! The share of a processor that a thread gets where others want it too.

/// Let other threads go before the calling one, for the rest of its life: where they share a processor it gets a
/// third of what another one gets (nicer by 5, up to 19, the most; sched(7): each step is a factor of about 1.25).
/// Elsewhere than on Linux, where niceness belongs to a process, nothing happens.
pub(crate) fn go_behind_others() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{getpriority_process, setpriority_process};
        const NICER: i32 = 5;
        const NICE_MAX: i32 = 19;
        // Only speed depends on it. Without a number this is the calling thread.
        let _refused = getpriority_process(None)
            .and_then(|nice| setpriority_process(None, (nice + NICER).min(NICE_MAX)));
    }
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use rustix::process::{getpriority_process, setpriority_process};

    use super::*;

    /// What a thread of niceness `before`, or of the tester's if that is more, has before and after [`go_behind_others`].
    #[expect(clippy::disallowed_methods, reason = "a thread of its own: niceness cannot be taken back")]
    fn behind(before: i32) -> (i32, i32) {
        let own = || getpriority_process(None).expect("asked");
        let run = move || {
            let before = before.max(own());
            setpriority_process(None, before).expect("nicer is allowed");
            go_behind_others();
            (before, own())
        };
        std::thread::spawn(run).join().expect("no panic")
    }

    #[test]
    fn a_program_that_is_nice_already_has_nicer_threads() {
        for (before, after) in [behind(10), behind(17)] {
            assert_eq!(after, (before + 5).min(19));
        }
    }
}
