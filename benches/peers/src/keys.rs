//! Keys of 16 bytes, and orders to visit them in.

/// A key: a row's number in big-endian order, then eight bytes that look random and depend on it alone.
pub(crate) type Key = [u8; 16];

/// The key of row `row`. Keys ascend with their rows.
#[inline]
pub(crate) fn key(row: u64) -> Key {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&row.to_be_bytes());
    key[8..].copy_from_slice(&mix(row).to_be_bytes());
    key
}

/// A key that no row has, between those of `row` and the next.
#[inline]
pub(crate) fn absent_key(row: u64) -> Key {
    let mut key = key(row);
    key[15] ^= 1;
    key
}

/// Rows that share the first [`FEW_PREFIX`] bytes of a [`grouped_key`], and the first [`MANY_PREFIX`].
const FEW: u64 = 10;
const MANY: u64 = 1000;
/// Bytes of a prefix of few rows.
pub(crate) const FEW_PREFIX: usize = 8;
/// Bytes of a prefix of many rows.
pub(crate) const MANY_PREFIX: usize = 6;

/// A key of row `row` that shares its first bytes with its neighbours': the thousand's number, the ten's
/// within it, and the rest. Keys ascend with their rows.
#[inline]
pub(crate) fn grouped_key(row: u64) -> Key {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&(((row / MANY) << 16) | ((row % MANY) / FEW)).to_be_bytes());
    key[8..].copy_from_slice(&(mix(row) >> 4).to_be_bytes());
    key[8] = (key[8] & 0x0f) | ((row % FEW) << 4).to_le_bytes()[0];
    key
}

/// How many rows share a prefix of `bytes` bytes.
pub(crate) fn prefix_rows(bytes: usize) -> u64 {
    if bytes == MANY_PREFIX { MANY } else { FEW }
}

/// A 64-bit finaliser (the one of SplitMix64): a bijection.
#[inline]
pub(crate) fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A permutation of `0..rows`: every row once, in an order without pattern.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Permutation {
    rows: u64,
    mask: u64,
    shift: u32,
    seed: u64,
}

impl Permutation {
    /// The permutation of `0..rows` with this seed.
    pub(crate) fn new(rows: u64, seed: u64) -> Self {
        let bits = rows.next_power_of_two().trailing_zeros().max(2);
        Permutation { rows, mask: (1 << bits) - 1, shift: bits / 2, seed: mix(seed) }
    }

    /// How many rows it permutes.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Where `at` goes. Multiplications by odd numbers and shifts are bijections of the next power of
    /// two; what lands beyond `rows` is sent round again.
    #[inline]
    pub(crate) fn at(&self, at: u64) -> u64 {
        let mut x = at;
        loop {
            x = (x ^ self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) & self.mask;
            x ^= x >> self.shift;
            x = x.wrapping_mul(0xd1b5_4a32_d192_ed03) & self.mask;
            x ^= x >> self.shift;
            if x < self.rows {
                return x;
            }
        }
    }
}

/// Rows drawn at random, with repetition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draw {
    state: u64,
    rows: u64,
}

impl Draw {
    /// Draws from `0..rows` with this seed.
    pub(crate) fn new(rows: u64, seed: u64) -> Self {
        Draw { state: mix(seed.wrapping_add(0x9e37_79b9_7f4a_7c15)), rows }
    }

    /// The next row.
    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        // The product's upper half: uniform enough, and no division.
        ((u128::from(mix(self.state)) * u128::from(self.rows)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permutation_has_every_row_once() {
        for rows in [1, 2, 3, 1000, 4096, 5000] {
            let order = Permutation::new(rows, 7);
            let mut seen: Vec<u64> = (0..rows).map(|at| order.at(at)).collect();
            assert!(rows < 100 || seen.windows(2).filter(|w| w[0] < w[1]).count() as u64 <= rows * 6 / 10);
            seen.sort_unstable();
            assert!(seen.iter().copied().eq(0..rows), "{rows}");
        }
    }

    #[test]
    fn keys_ascend_and_absent_ones_lie_between() {
        for row in 0..1000 {
            assert!(key(row) < key(row + 1) && absent_key(row) < key(row + 1));
            assert_ne!(absent_key(row), key(row));
        }
    }

    #[test]
    fn grouped_keys_ascend_and_share_their_prefixes() {
        for row in 0..5000 {
            let (this, next) = (grouped_key(row), grouped_key(row + 1));
            assert!(this < next, "{row}");
            for (bytes, rows) in [(FEW_PREFIX, FEW), (MANY_PREFIX, MANY)] {
                assert_eq!(this[..bytes] == next[..bytes], row / rows == (row + 1) / rows, "{row}");
                assert_eq!(prefix_rows(bytes), rows);
            }
        }
    }

    #[test]
    fn draws_stay_inside_and_spread() {
        let mut draw = Draw::new(10, 1);
        let mut counts = [0; 10];
        (0..10_000).for_each(|_| counts[usize::try_from(draw.next()).expect("small")] += 1);
        assert!(counts.iter().all(|n| (800..1200).contains(n)), "{counts:?}");
    }
}
