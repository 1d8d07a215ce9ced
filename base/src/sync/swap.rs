//! arc-swap's cells as model checkers can run them: before each access there is a place where threads may switch,
//! and what arc-swap does inside is one step.
//!
//! That place is a change of an atomic beside the cell, so that loom tries all orders of the accesses and
//! sees that a load comes after the store whose value it finds. It does not try loads that still find an
//! older value: what arc-swap does inside is for its own tests.

use std::fmt;
use std::sync::Arc;

use arc_swap::{Guard, RefCnt};

use super::atomic::{AtomicBool, Ordering};

/// A cell.
pub struct ArcSwapAny<T: RefCnt> {
    cell: arc_swap::ArcSwapAny<T>,
    switch: AtomicBool,
}

/// A cell that holds an [`Arc`].
pub type ArcSwap<T> = ArcSwapAny<Arc<T>>;
/// A cell that may hold an [`Arc`].
pub type ArcSwapOption<T> = ArcSwapAny<Option<Arc<T>>>;

impl<T: RefCnt> ArcSwapAny<T> {
    /// A cell with `value`.
    pub fn new(value: T) -> Self {
        ArcSwapAny { cell: arc_swap::ArcSwapAny::new(value), switch: AtomicBool::new(false) }
    }

    fn before_access(&self) -> &arc_swap::ArcSwapAny<T> {
        self.switch.swap(true, Ordering::AcqRel);
        &self.cell
    }

    /// What is in it, for a short while.
    pub fn load(&self) -> Guard<T> {
        self.before_access().load()
    }

    /// What is in it, to keep.
    pub fn load_full(&self) -> T {
        self.before_access().load_full()
    }

    /// Put `value` in the place of what is in it.
    pub fn store(&self, value: T) {
        self.before_access().store(value);
    }

    /// Put `value` in the place of what is in it, and return that.
    pub fn swap(&self, value: T) -> T {
        self.before_access().swap(value)
    }

    /// Replace the content by what `change` makes of it; `change` is called again if somebody else was
    /// faster.
    pub fn rcu<R: Into<T>>(&self, change: impl FnMut(&T) -> R) -> T {
        self.before_access().rcu(change)
    }
}

impl<T> ArcSwapAny<Arc<T>> {
    /// A cell with `value` in an [`Arc`].
    pub fn from_pointee(value: T) -> Self {
        Self::new(Arc::new(value))
    }
}

impl<T> ArcSwapAny<Option<Arc<T>>> {
    /// A cell with nothing in it.
    pub fn empty() -> Self {
        Self::new(None)
    }
}

impl<T: RefCnt + Default> Default for ArcSwapAny<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: RefCnt + fmt::Debug> fmt::Debug for ArcSwapAny<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cell.fmt(f)
    }
}
