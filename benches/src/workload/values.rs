//! Half-compressible values, cut from one pool so that making one costs next to nothing.

use super::keys::mix;

/// Starts a value can have in the pool.
const STARTS: u32 = 1 << 20;

/// Bytes that come once, then a second time: half of any stretch repeats what stands before it.
const RUN: usize = 32;

/// The values of all rows.
pub(super) struct Values {
    pool: Vec<u8>,
    len: usize,
    seed: u64,
}

impl Values {
    /// Values of `len` bytes, drawn from `seed`.
    pub(super) fn new(len: usize, seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(mix(seed));
        let mut pool = Vec::with_capacity(len + STARTS as usize + 2 * RUN);
        while pool.len() < len + STARTS as usize {
            let mut run = [0; RUN];
            random.fill(&mut run);
            pool.extend_from_slice(&run);
            pool.extend_from_slice(&run);
        }
        Values { pool, len, seed }
    }

    /// The value of `row` that pass number `pass` over the rows puts.
    pub(super) fn of(&self, row: u64, pass: u64) -> &[u8] {
        #[expect(clippy::cast_possible_truncation, reason = "the remainder is below STARTS")]
        let start = (mix(row ^ mix(self.seed ^ pass)) % u64::from(STARTS)) as usize;
        &self.pool[start..start + self.len]
    }

    /// Bytes of every value.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Whether `value` is one that `row` was given by the first or the second pass.
    pub(super) fn belongs(&self, row: u64, value: &[u8]) -> bool {
        value == self.of(row, 0) || value == self.of(row, 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_differ_by_row_and_pass_and_repeat_by_seed() {
        let (values, same, other) = (Values::new(100, 1), Values::new(100, 1), Values::new(100, 2));
        assert_eq!(values.of(7, 0), same.of(7, 0));
        assert_ne!(values.of(7, 0), other.of(7, 0));
        assert_ne!(values.of(7, 0), values.of(7, 1));
        assert_ne!(values.of(7, 0), values.of(8, 0));
        assert!(values.belongs(7, same.of(7, 1)) && !values.belongs(8, values.of(7, 0)));
        assert!(Values::new(0, 1).of(3, 0).is_empty());
    }
}
