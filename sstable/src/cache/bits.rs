//! One bit a block, which threads set and clear without a lock.

use esker_base::sync::atomic::{AtomicU64, Ordering};

/// Blocks of a word.
const WORD: usize = u64::BITS as usize;

/// A bit for each block of a table. Setting or clearing a bit beyond the last one does nothing.
#[derive(Debug)]
pub(super) struct Bits(Vec<AtomicU64>);

impl Bits {
    /// `len` bits, all clear.
    pub(super) fn new(len: usize) -> Bits {
        Bits((0..len.div_ceil(WORD)).map(|_| AtomicU64::new(0)).collect())
    }

    /// Set bit `index`; whether it was set before.
    pub(super) fn set(&self, index: usize) -> bool {
        let bit = 1 << (index % WORD);
        self.0.get(index / WORD).is_some_and(|word| word.fetch_or(bit, Ordering::AcqRel) & bit != 0)
    }

    /// Clear bit `index`; whether it was set before.
    pub(super) fn clear(&self, index: usize) -> bool {
        let bit = 1 << (index % WORD);
        self.0.get(index / WORD).is_some_and(|word| word.fetch_and(!bit, Ordering::AcqRel) & bit != 0)
    }

    /// Whether bit `index` is set.
    pub(super) fn get(&self, index: usize) -> bool {
        let bit = 1 << (index % WORD);
        self.0.get(index / WORD).is_some_and(|word| word.load(Ordering::Acquire) & bit != 0)
    }

    /// The first bit from `from` on that is set. Bits that are not set are passed 64 at a time.
    pub(super) fn next(&self, from: usize) -> Option<usize> {
        let mut mask = u64::MAX << (from % WORD);
        for (nth, word) in self.0.iter().enumerate().skip(from / WORD) {
            let bits = word.load(Ordering::Acquire) & mask;
            if bits != 0 {
                return Some(nth * WORD + bits.trailing_zeros() as usize);
            }
            mask = u64::MAX;
        }
        None
    }

    /// Clear the words that end between `from` and `to`, or there. A walk over all bits in several steps clears each word once,
    /// when it has passed it.
    pub(super) fn forget(&self, from: usize, to: usize) {
        let words = self.0.get(from.saturating_sub(1) / WORD..self.0.len().min(to / WORD));
        words.unwrap_or_default().iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A walk over the bits of another set forgets each word, and none before it has passed it.
    #[test]
    fn a_walk_forgets_what_is_behind_it() {
        const LEN: usize = 300;
        for step in [1, 3, 63, 64, 65, 200] {
            let missed = Bits::new(LEN);
            (0..LEN).for_each(|index| assert!(!missed.set(index) && missed.get(index)));
            let mut at = 0;
            while at < LEN {
                let next = at + step;
                missed.forget(at, if next < LEN { next } else { usize::MAX });
                at = next;
                let first = if at < LEN { Some(at / WORD * WORD) } else { None };
                assert_eq!(missed.next(0), first, "{step} {at}");
                assert!(
                    (0..LEN).all(|index| missed.get(index) == first.is_some_and(|first| index >= first))
                );
            }
        }
    }
}
