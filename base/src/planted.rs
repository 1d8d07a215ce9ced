//! Bugs planted on purpose, to see that the crash suite finds them.
//!
//! Without the feature `planted` nothing here costs anything: [`is`] is `false` at compile time. With it,
//! a test chooses a bug for its own thread, where step mode runs everything. Most bugs are planted in a
//! filesystem under the engine; here are those that only the engine itself can have.

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// A run takes it that nothing lies below its output: tombstones go too early.
    EarlyTombstone,
    /// Without a log, a flush commits one keyspace's tables before the others'.
    LoneFlush,
}

#[cfg(feature = "planted")]
mod chosen {
    use super::Planted;
    use std::cell::Cell;

    thread_local! {
        static CHOSEN: Cell<Option<Planted>> = const { Cell::new(None) };
    }

    /// From now on this thread runs with `bug`, or without one.
    pub fn choose(bug: Option<Planted>) {
        CHOSEN.set(bug);
    }

    /// Whether this thread runs with `bug`.
    #[inline]
    pub fn is(bug: Planted) -> bool {
        CHOSEN.get() == Some(bug)
    }
}

#[cfg(feature = "planted")]
pub use chosen::{choose, is};

/// Does nothing, in this build.
#[cfg(not(feature = "planted"))]
pub const fn choose(_bug: Option<Planted>) {}

/// Whether this thread runs with `bug`: never, in this build.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub const fn is(_bug: Planted) -> bool {
    false
}
