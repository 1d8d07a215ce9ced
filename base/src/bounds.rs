//! The bounds of a scan: from which key to which.

use std::ops::Bound;

/// User keys between two bounds.
///
/// ```
/// use std::ops::Bound;
/// use esker_base::bounds::Bounds;
/// let to_m = Bounds { start: Bound::Unbounded, end: Bound::Excluded(b"m".to_vec()) };
/// assert!(to_m.past_end(b"m") && !to_m.past_end(b"lz"));
/// assert!(to_m.overlap(b"l", b"z") && !to_m.overlap(b"m", b"z"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Where they begin.
    pub start: Bound<Vec<u8>>,
    /// Where they end.
    pub end: Bound<Vec<u8>>,
}

impl Bounds {
    /// Bounds that hold no key.
    pub fn nothing() -> Bounds {
        Bounds { start: Bound::Unbounded, end: Bound::Excluded(Vec::new()) }
    }

    /// Whether no key lies outside.
    pub fn are_unbounded(&self) -> bool {
        matches!((&self.start, &self.end), (Bound::Unbounded, Bound::Unbounded))
    }

    /// Whether these are [`Bounds::nothing`].
    pub fn are_nothing(&self) -> bool {
        matches!(&self.end, Bound::Excluded(end) if end.is_empty())
    }

    /// Whether `[start, end)` has a key within.
    pub fn overlap(&self, start: &[u8], end: &[u8]) -> bool {
        let after;
        let mine = match &self.start {
            Bound::Unbounded => start,
            Bound::Included(first) => first.as_slice(),
            Bound::Excluded(first) => {
                after = crate::key::after(first);
                after.as_slice()
            }
        };
        let first = mine.max(start);
        first < end && !self.past_end(first)
    }

    /// Whether `key` lies before them.
    #[inline]
    pub fn before_start(&self, key: &[u8]) -> bool {
        match &self.start {
            Bound::Unbounded => false,
            Bound::Included(start) => key < start.as_slice(),
            Bound::Excluded(start) => key <= start.as_slice(),
        }
    }

    /// Whether `key` lies behind them.
    #[inline]
    pub fn past_end(&self, key: &[u8]) -> bool {
        match &self.end {
            Bound::Unbounded => false,
            Bound::Included(end) => key > end.as_slice(),
            Bound::Excluded(end) => key >= end.as_slice(),
        }
    }
}
