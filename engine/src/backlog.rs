//! How much is to be flushed and compacted: the figures that back-pressure goes by.
//!
//! Locks: `noting`, over the load of the superversion and the stores of what it means.

use esker_base::sync::Mutex;
use esker_base::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::core::Core;

/// What back-pressure looks at, kept in atomics so that a put does not walk the tree.
#[derive(Debug, Default)]
pub(crate) struct SharedBacklog {
    /// Held from looking at the superversion to noting what it means: of two that note, the later one has
    /// the later superversion. An older one's figures would stop writers for good once nothing is left to
    /// be flushed or compacted.
    pub(crate) noting: Mutex<()>,
    pub(crate) sealed: AtomicUsize,
    pub(crate) active_full: AtomicBool,
    /// The most level-0 tables over one key, in any keyspace.
    pub(crate) l0_depth: AtomicUsize,
}

/// A reading of [`SharedBacklog`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backlog {
    pub(crate) sealed: usize,
    pub(crate) active_full: bool,
    pub(crate) l0_depth: usize,
}

impl Core {
    #[inline]
    pub(crate) fn backlog(&self) -> Backlog {
        Backlog {
            sealed: self.backlog.sealed.load(Ordering::Relaxed),
            active_full: self.backlog.active_full.load(Ordering::Relaxed),
            l0_depth: self.backlog.l0_depth.load(Ordering::Relaxed),
        }
    }

    /// Note what the current superversion means for back-pressure, and wake who waits for progress.
    pub(crate) fn note_progress(&self) {
        let noting = self.backlog.noting.lock();
        let current = self.current.load_full();
        let keyspaces = current.version.keyspaces().iter();
        let deepest = keyspaces.map(|keyspace| keyspace.tree.levels[0].depth()).max();
        self.backlog.sealed.store(current.sealed.len(), Ordering::Relaxed);
        self.backlog.l0_depth.store(deepest.unwrap_or(0), Ordering::Relaxed);
        drop(noting);
        self.progress.notify_all();
    }
}
