//! Values that compress to about half, and what a reader does with one.

use crate::keys::Draw;

/// Bytes of the pool that values are cut from: large against a compressor's window over one block, small
/// enough to stay in a cache near the core.
const POOL_BYTES: usize = 1 << 20;
/// A piece: this many random bytes, then the same again.
const PIECE: usize = 50;

/// Where values come from.
pub(crate) struct Values {
    pool: Vec<u8>,
    len: usize,
    slots: u64,
}

impl Values {
    /// Values of `len` bytes.
    pub(crate) fn new(len: usize) -> Self {
        let mut draw = Draw::new(256, 42);
        let mut pool = Vec::with_capacity(POOL_BYTES + len + 2 * PIECE);
        while pool.len() < POOL_BYTES + len {
            let piece: [u8; PIECE] = std::array::from_fn(|_| draw.next().to_le_bytes()[0]);
            pool.extend_from_slice(&piece);
            pool.extend_from_slice(&piece);
        }
        Values { pool, len, slots: (POOL_BYTES / (2 * PIECE)) as u64 }
    }

    /// The value of `row` in its `version`-th writing.
    #[inline]
    pub(crate) fn of(&self, row: u64, version: u64) -> &[u8] {
        let slot =
            (row.wrapping_mul(0x9e37_79b9).wrapping_add(version.wrapping_mul(6151)) >> 5) % self.slots;
        let begin = usize::try_from(slot).unwrap_or(0) * 2 * PIECE;
        &self.pool[begin..begin + self.len]
    }

    /// Bytes of a value.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

/// Read every byte of `value`: what a get's caller does.
#[inline]
pub(crate) fn read_all(value: &[u8]) -> u64 {
    let (words, rest) = value.as_chunks::<8>();
    let sum = words.iter().fold(0u64, |sum, word| sum.wrapping_add(u64::from_le_bytes(*word)));
    rest.iter().fold(sum, |sum, byte| sum.wrapping_add(u64::from(*byte)))
}

/// Read a row's first key bytes and both ends of its value: what a scan's caller does with short rows.
#[inline]
pub(crate) fn read_ends(key: &[u8], value: &[u8]) -> u64 {
    let ends = [key.get(7), value.first(), value.last()];
    ends.into_iter().flatten().fold(0, |sum, byte| sum + u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_their_length_and_repeat_half() {
        for len in [100, 16_384] {
            let values = Values::new(len);
            for row in 0..10_000 {
                let value = values.of(row, 3);
                assert_eq!(value.len(), len);
                assert_eq!(value[..PIECE], value[PIECE..2 * PIECE]);
            }
        }
    }

    #[test]
    fn a_new_version_is_another_value() {
        let values = Values::new(100);
        let same = (0..1000).filter(|row| values.of(*row, 0) == values.of(*row, 1)).count();
        assert!(same < 20, "{same}");
    }

    #[test]
    fn every_byte_counts() {
        let value = vec![1u8; 103];
        let all = read_all(&value);
        for at in 0..value.len() {
            let mut other = value.clone();
            other[at] = 2;
            assert_ne!(read_all(&other), all, "{at}");
        }
    }
}
