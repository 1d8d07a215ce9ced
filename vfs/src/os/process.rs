//! Which process this is, told without a system call: a forked child has its parent's memory and must be
//! told from its parent before each write.
//!
//! A handler that runs in every forked child counts the forks since the program began; whoever has kept the
//! count of an earlier moment compares one word. Invariants:
//! 1. The handler is registered before the first [`Process`] is made.
//! 2. It touches atomics only: in a child of many threads nothing else may be done there.
//!
//! Where the system has no such handlers, or refuses one, the count stands still: then, and after a `clone`
//! or `vfork` that goes round the C library, only [`Process::is_surely_current`] tells.
//!
//! Threads: any; no locks.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// How many forks lie between this process and the start of its program.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// How many threads of ours run in this process.
static WORKERS: AtomicU32 = AtomicU32::new(0);

/// Whether this process was forked while threads of ours ran in its parent.
static ORPHANED: AtomicBool = AtomicBool::new(false);

/// A thread of ours begins.
pub(crate) fn worker_began() {
    WORKERS.fetch_add(1, Ordering::Relaxed);
}

/// A thread of ours has ended.
pub(crate) fn worker_ended() {
    WORKERS.fetch_sub(1, Ordering::Relaxed);
}

/// Whether this process was forked from one in which threads of ours ran. Locks keep their sleepers in lists
/// that lead through the sleepers' stacks; here those threads are not, new ones get their stacks, and wake-ups
/// are lost. No thread may be started any more.
pub(crate) fn is_orphaned() -> bool {
    ORPHANED.load(Ordering::Relaxed)
}

/// The process that made this value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    forks: u32,
    id: u32,
}

impl Process {
    /// The process that calls.
    pub fn current() -> Process {
        count_forks();
        Process { forks: FORKS.load(Ordering::Relaxed), id: std::process::id() }
    }

    /// Whether the caller is in the same process: false in a child made by `fork`. Costs one load. See the
    /// [module](self) for the children that it takes for their parents.
    #[inline]
    pub fn is_current(&self) -> bool {
        // Relaxed: the child's only thread has added to it itself, before `fork` returned there.
        FORKS.load(Ordering::Relaxed) == self.forks
    }

    /// Whether the caller is in the same process, however that came about. Costs a system call.
    pub fn is_surely_current(&self) -> bool {
        self.is_current() && std::process::id() == self.id
    }
}

#[cfg(all(
    not(miri),
    any(
        target_os = "linux",
        target_os = "android",
        target_vendor = "apple",
        target_os = "freebsd",
        target_os = "netbsd",
        target_os = "openbsd",
        target_os = "dragonfly",
        target_os = "illumos",
        target_os = "solaris"
    )
))]
#[expect(unsafe_code, reason = "a call of the C library that std and rustix have no form for")]
fn count_forks() {
    static REGISTERED: std::sync::Once = std::sync::Once::new();
    extern "C" fn in_child() {
        FORKS.fetch_add(1, Ordering::Relaxed);
        if WORKERS.load(Ordering::Relaxed) > 0 {
            ORPHANED.store(true, Ordering::Relaxed);
        }
    }
    REGISTERED.call_once(|| {
        // SAFETY:
        // 1. `in_child` lives as long as the program; in a library that is unloaded, the C library forgets it
        //    together with that library.
        // 2. It runs in a child that may have been forked from many threads, where only what is safe in a
        //    signal handler may be done: it takes no lock, allocates nothing and cannot panic.
        // 3. A failure (no memory) registers nothing, and nothing leans on it: see the module.
        let _ = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

#[cfg(any(
    miri,
    not(any(
        target_os = "linux",
        target_os = "android",
        target_vendor = "apple",
        target_os = "freebsd",
        target_os = "netbsd",
        target_os = "openbsd",
        target_os = "dragonfly",
        target_os = "illumos",
        target_os = "solaris"
    ))
))]
fn count_forks() {}
