//! Locks, atomics and threads, by build: parking_lot, arc-swap and std in production, loom's or shuttle's
//! models under `--cfg loom` and `--cfg shuttle`. Code that may be model-checked takes its primitives from
//! here.
//!
//! All locks here are without poisoning: a panic in a callback must not make a database unreadable.
//!
//! Loom checks single lock-free structures against the memory model; shuttle runs the whole engine, under
//! schedules drawn at random, as if every access were sequentially consistent (`tests/models`). Under shuttle
//! all threads are one thread of the system: whoever held a lock of another kind than these across a call that
//! may switch threads would hang the model.

#[cfg(not(any(loom, shuttle)))]
pub use arc_swap::{ArcSwap, ArcSwapAny, ArcSwapOption};
pub use arc_swap::{Guard, RefCnt};
#[cfg(not(any(loom, shuttle)))]
pub use parking_lot::{
    Condvar, Mutex, MutexGuard, ReentrantMutex, ReentrantMutexGuard, RwLock, RwLockReadGuard,
    RwLockWriteGuard,
};
#[cfg(not(any(loom, shuttle)))]
pub use std::sync::{Arc, atomic};
#[cfg(not(shuttle))]
pub use std::thread;
#[cfg(not(shuttle))]
pub use std::time::Instant;

#[cfg(loom)]
pub use loom::sync::{Arc, atomic};
#[cfg(shuttle)]
pub use shuttle::{
    sync::{Arc, atomic},
    thread,
};

#[cfg(any(loom, shuttle))]
mod model;
#[cfg(any(loom, shuttle))]
mod swap;
#[cfg(any(loom, shuttle))]
pub use model::{Condvar, Mutex, MutexGuard};
#[cfg(any(loom, shuttle))]
pub use swap::{ArcSwap, ArcSwapAny, ArcSwapOption};

#[cfg(shuttle)]
mod whole;
#[cfg(shuttle)]
pub use whole::{
    Instant, ReentrantMutex, ReentrantMutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, TimedOut,
};

/// Let others have this processor for a moment, if any want it: for a wait that is awake and soon over. Longer waits are
/// for an [`EventCount`](crate::event_count::EventCount).
#[expect(clippy::disallowed_methods, reason = "the one place: nothing else polls")]
pub fn give_way() {
    thread::yield_now();
}
