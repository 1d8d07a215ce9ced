//! Who leads, and how many wait: one word, so that a leader goes only if nobody has come to wait meanwhile.
//!
//! Whoever has queued either finds a leader, who then cannot go without seeing them, or becomes it. That holds by the order of
//! changes to one word alone; what the leader works on is under locks of its own.

use esker_base::sync::atomic::{AtomicUsize, Ordering};

#[cfg(all(test, loom))]
mod models;

/// The bit that says that somebody leads.
const LED: usize = 1;
/// One writer that waits, in the bits above it.
const WAITER: usize = 2;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Lead(AtomicUsize);

impl Lead {
    /// Become the leader, if there is none; whether that was so.
    #[inline]
    pub(crate) fn begin(&self) -> bool {
        self.0.fetch_or(LED, Ordering::AcqRel) & LED == 0
    }

    /// Stop leading, unless somebody waits; whether that was so. For the leader.
    #[inline]
    pub(crate) fn leave(&self) -> bool {
        self.0.compare_exchange(LED, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// One more has queued. Who calls this then has to try to lead.
    pub(crate) fn add_waiting(&self) {
        self.0.fetch_add(WAITER, Ordering::AcqRel);
    }

    /// So many of those who wait are taken out of the queue. For the leader.
    pub(crate) fn take_waiting(&self, count: usize) {
        self.0.fetch_sub(count * WAITER, Ordering::AcqRel);
    }

    /// How many wait, about.
    #[inline]
    pub(crate) fn waiting(&self) -> usize {
        self.0.load(Ordering::Relaxed) / WAITER
    }

    /// Whether somebody leads.
    #[cfg(test)]
    pub(crate) fn is_led(&self) -> bool {
        self.0.load(Ordering::Relaxed) & LED != 0
    }
}
