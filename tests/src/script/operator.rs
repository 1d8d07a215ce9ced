//! A merge operator of the suite's own, whose operands do not commute.

use esker::MergeOperator;

/// `affine`: the value is a number `x`, an operand `(a, b)` makes it `a * x + b`. Two operands combine, in
/// their order only.
#[derive(Debug)]
pub struct Affine;

/// The eight bytes at `at`, little-endian; what is missing is zero.
fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.iter_mut().zip(bytes.iter().skip(at)).for_each(|(to, from)| *to = *from);
    u64::from_le_bytes(word)
}

impl MergeOperator for Affine {
    fn name(&self) -> &'static str {
        "affine"
    }

    fn fold(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>, String> {
        let base = word(base.unwrap_or_default(), 0);
        let apply =
            |x: u64, operand: &&[u8]| word(operand, 0).wrapping_mul(x).wrapping_add(word(operand, 8));
        Ok(operands.iter().fold(base, apply).to_le_bytes().to_vec())
    }

    fn combine(&self, _key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        let (a, b) = (word(newer, 0), word(newer, 8));
        let both = [a.wrapping_mul(word(older, 0)), a.wrapping_mul(word(older, 8)).wrapping_add(b)];
        Some(both.map(u64::to_le_bytes).concat())
    }
}
