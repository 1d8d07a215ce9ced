//! A byte among few: the zero that ends a text, a delimiter.

const ONES: u64 = u64::from_le_bytes([0x01; 8]);
const HIGH: u64 = u64::from_le_bytes([0x80; 8]);

/// Which byte of `word`, counted from its lowest, is the first of `wanted`.
///
/// The word `(word − 0x01…) & !word & 0x80…` has the high bit of a byte set where `word` has its first zero,
/// and none below it (Warren, Hacker's Delight, 6–1).
#[inline]
fn in_word<const N: usize>(wanted: [u8; N], word: u64) -> Option<usize> {
    let met = wanted.iter().fold(0, |met, byte| {
        let word = word ^ u64::from_le_bytes([*byte; 8]);
        met | (word.wrapping_sub(ONES) & !word & HIGH)
    });
    (met != 0).then(|| met.trailing_zeros() as usize / 8)
}

/// Where one of `wanted` is first met in `bytes`. Looks at eight bytes at once: fields are mostly too short for
/// what the standard library does for long ones.
#[inline]
pub(crate) fn find<const N: usize>(wanted: [u8; N], bytes: &[u8]) -> Option<usize> {
    // What is looked at twice at the end holds none of the wanted.
    let behind = |place| bytes.len() + place - 8;
    if let Some(last) = bytes.last_chunk() {
        for (number, word) in bytes.as_chunks().0.iter().enumerate() {
            if let Some(place) = in_word(wanted, u64::from_le_bytes(*word)) {
                return Some(8 * number + place);
            }
        }
        return in_word(wanted, u64::from_le_bytes(*last)).map(behind);
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let word = u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << 32;
        return in_word(wanted, word).map(|place| if place < 4 { place } else { behind(place) });
    }
    bytes.iter().position(|byte| wanted.contains(byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::find;

    /// The bytes between which carries and borrows run.
    fn byte() -> impl Strategy<Value = u8> {
        prop_oneof![
            any::<u8>(),
            Just(0),
            Just(1),
            Just(0x7F),
            Just(0x80),
            Just(0xFF),
            Just(b'.'),
            Just(b'/')
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]

        #[test]
        fn finds_the_first(one in byte(), two in byte(), bytes in prop::collection::vec(byte(), 0..40)) {
            prop_assert_eq!(find([one], &bytes), bytes.iter().position(|&byte| byte == one));
            let either = bytes.iter().position(|&byte| byte == one || byte == two);
            prop_assert_eq!(find([one, two], &bytes), either);
        }

        #[test]
        fn finds_a_late_one(before in prop::collection::vec(1..=255u8, 0..70), after in any::<Option<u8>>()) {
            prop_assert_eq!(find([0], &before), None);
            let bytes = [before.as_slice(), &[0], after.as_slice()].concat();
            prop_assert_eq!(find([0], &bytes), Some(before.len()));
        }
    }
}
