//! A running hash over what happened, so that two runs can be told equal by one number.

use esker_base::checksum::key_hash;

/// The hash of a sequence of numbers and byte strings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TraceHash(u64);

impl TraceHash {
    /// Take in a number.
    pub(crate) fn number(&mut self, number: u64) {
        // The finaliser of splitmix64 over a state that depends on the order.
        let mut mixed = (self.0 ^ number).wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        self.0 = mixed ^ (mixed >> 31);
    }

    /// Take in a byte string.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.number(key_hash(bytes));
    }

    /// The hash of everything so far.
    pub(crate) fn value(self) -> u64 {
        self.0
    }
}
