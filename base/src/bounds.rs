//! The bounds of a scan: from which key to which.

use std::cmp::Ordering;
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

    /// Which of two begins first.
    pub fn cmp_start(&self, other: &Bounds) -> Ordering {
        fn first(start: &Bound<Vec<u8>>) -> (Option<&[u8]>, bool) {
            match start {
                Bound::Unbounded => (None, false),
                Bound::Included(key) => (Some(key), false),
                Bound::Excluded(key) => (Some(key), true),
            }
        }
        first(&self.start).cmp(&first(&other.start))
    }

    /// Which of two ends first.
    pub fn cmp_end(&self, other: &Bounds) -> Ordering {
        match (&self.end, &other.end) {
            (Bound::Unbounded, Bound::Unbounded) => Ordering::Equal,
            (Bound::Unbounded, _) => Ordering::Greater,
            (_, Bound::Unbounded) => Ordering::Less,
            (Bound::Included(mine), Bound::Excluded(other)) if mine == other => Ordering::Greater,
            (Bound::Excluded(mine), Bound::Included(other)) if mine == other => Ordering::Less,
            (
                Bound::Included(mine) | Bound::Excluded(mine),
                Bound::Included(other) | Bound::Excluded(other),
            ) => mine.cmp(other),
        }
    }

    /// Whether they begin before the end of `other`, which does not begin later.
    pub fn begin_within(&self, other: &Bounds) -> bool {
        match &self.start {
            Bound::Unbounded => true,
            Bound::Included(start) | Bound::Excluded(start) => !other.past_end(start),
        }
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
