//! How much of a processor a thread gets where others want it too.

/// Let other threads go before the calling one, for the rest of its life: where they share a processor it gets a
/// third of what another one gets (nice 5; sched(7): each step is a factor of about 1.25). Elsewhere than on
/// Linux, where niceness belongs to a process, nothing happens.
pub(crate) fn go_behind_others() {
    #[cfg(target_os = "linux")]
    {
        const NICE: i32 = 5;
        // Only speed depends on it. Without a number this is the calling thread.
        let _refused = rustix::process::setpriority_process(None, NICE);
    }
}
