//! A counter that many threads add to without sharing a cache line.

use std::cell::Cell;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Stripes; more threads than this share some.
const STRIPES: usize = 16;

/// One counter on a cache line of its own (two, for processors that fetch pairs).
#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe(AtomicU64);

/// A sum over stripes.
#[derive(Debug, Default)]
pub(super) struct Striped([Stripe; STRIPES]);

impl Striped {
    /// Add `n` to this thread's stripe.
    #[inline]
    pub(super) fn add(&self, n: u64) {
        if let Some(stripe) = self.0.get(stripe()) {
            stripe.0.fetch_add(n, Ordering::Relaxed);
        }
    }

    /// The sum over all stripes.
    pub(super) fn sum(&self) -> u64 {
        self.0.iter().map(|stripe| stripe.0.load(Ordering::Relaxed)).sum()
    }
}

/// This thread's stripe: threads take turns as they come.
#[inline]
fn stripe() -> usize {
    const UNSET: usize = usize::MAX;
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static MINE: Cell<usize> = const { Cell::new(UNSET) };
    }
    MINE.with(|mine| {
        if mine.get() == UNSET {
            mine.set(NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES);
        }
        mine.get()
    })
}
