//! Rows' keys, and the orders rows are passed in.

use std::ops::Range;

/// Bytes of every key.
pub const KEY_BYTES: usize = 16;

/// A key.
pub(super) type Key = [u8; KEY_BYTES];

/// The key of `row`: decimal digits, so that key order is row order and a person can read it.
pub(super) fn key(row: u64) -> Key {
    let mut digits = [b'0'; KEY_BYTES];
    let mut rest = row;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    digits
}

/// The key after `key`.
#[inline]
pub(super) fn increment(key: &mut Key) {
    for digit in key.iter_mut().rev() {
        if *digit < b'9' {
            *digit += 1;
            return;
        }
        *digit = b'0';
    }
}

/// Bits of `word` well mixed (the finaliser of SplitMix64).
pub(super) fn mix(word: u64) -> u64 {
    let mut z = word.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A shuffle of `0..rows` that takes no memory: a Feistel network over the next even power of two,
/// walked until it lands inside.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shuffle {
    rows: u64,
    /// Bits of each half.
    half: u32,
    seed: u64,
}

impl Shuffle {
    pub(super) fn new(rows: u64, seed: u64) -> Self {
        let bits = u64::BITS - rows.saturating_sub(1).leading_zeros();
        Shuffle { rows, half: bits.div_ceil(2).max(1), seed }
    }

    /// The row in place `index`, which is below the number of rows.
    pub(super) fn row(&self, index: u64) -> u64 {
        let mut row = index;
        loop {
            row = self.once(row);
            if row < self.rows {
                return row;
            }
        }
    }

    fn once(&self, row: u64) -> u64 {
        let mask = (1 << self.half) - 1;
        let (mut left, mut right) = (row >> self.half, row & mask);
        for round in 0..4 {
            (left, right) = (right, left ^ (mix(right ^ self.seed.wrapping_add(round << 56)) & mask));
        }
        (left << self.half) | right
    }
}

/// The part of `0..rows` that falls to `thread` of `threads`.
pub(super) fn share(rows: u64, thread: u64, threads: u64) -> Range<u64> {
    let each = rows / threads;
    let longer = rows % threads;
    let start = thread * each + thread.min(longer);
    start..start + each + u64::from(thread < longer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counting_in_digits_is_counting() {
        let mut counted = key(0);
        for row in 0..1_200 {
            assert_eq!(counted, key(row));
            increment(&mut counted);
        }
    }

    #[test]
    fn keys_sort_as_rows_do() {
        assert_eq!(&key(1_234), b"0000000000001234");
        assert!(key(99) < key(100) && key(999_999_999_999_999) > key(9));
    }

    #[test]
    fn a_shuffle_passes_every_row_once() {
        for rows in [1, 2, 3, 5, 64, 100, 1_000] {
            let shuffle = Shuffle::new(rows, 7);
            let mut seen: Vec<u64> = (0..rows).map(|index| shuffle.row(index)).collect();
            let in_order = seen.is_sorted();
            seen.sort_unstable();
            assert_eq!(seen, (0..rows).collect::<Vec<_>>(), "{rows} rows");
            assert!(rows < 64 || !in_order, "{rows} rows stayed in order");
        }
    }

    #[test]
    fn shares_cover_all_rows_once() {
        for (rows, threads) in [(10, 3), (2, 4), (7, 7), (1_000_003, 16)] {
            let mut at = 0;
            for thread in 0..threads {
                let share = share(rows, thread, threads);
                assert_eq!(share.start, at);
                at = share.end;
            }
            assert_eq!(at, rows);
        }
    }
}
