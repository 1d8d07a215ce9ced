//! What decides between keys whose heads are equal: the bytes that follow what they have in common.
//!
//! Text, URLs and keys that begin with a tenant's name have equal heads, and to compare two of them whole,
//! two sources have to be asked where they stand. So each key has a rank: the sixteen bytes that follow a
//! prefix, as a number. The prefix is chosen where keys were lately found to differ. A prefix that does not
//! suit decides little, and nothing wrongly; then another one is chosen.

use std::cmp::Ordering;

use crate::key::shared_prefix;

/// How many comparisons are left open before a prefix is chosen: a short scan makes fewer.
const OPEN_FIRST: u32 = if cfg!(test) { 2 } else { 32 };
/// The same before another one is chosen.
const OPEN_THEN: u32 = if cfg!(test) { 2 } else { 8 };
/// Bytes of a rank before the place where two keys were found to differ: their neighbours may differ sooner.
const BEFORE: usize = 8;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Ranks {
    prefix: Vec<u8>,
    /// The rank of each source's current key, complemented as its head is; of the leader it may be an earlier entry's, since that
    /// moves most often and nobody asks. Empty until a prefix is chosen.
    current: Vec<u128>,
    /// Comparisons left open since it was last time to choose a prefix, or since the walk began.
    open: u32,
}

impl Ranks {
    /// A walk begins, and no prefix is chosen yet.
    #[inline]
    pub(super) fn reset(&mut self) {
        self.current.clear();
        self.open = 0;
    }

    /// Whether a prefix was chosen.
    #[inline]
    pub(super) fn are_chosen(&self) -> bool {
        !self.current.is_empty()
    }

    /// The order of these sources' current keys, if it is known by their ranks.
    #[inline]
    pub(super) fn order(&self, a: usize, b: usize) -> Ordering {
        if self.are_chosen() { self.current[a].cmp(&self.current[b]) } else { Ordering::Equal }
    }

    /// The rank of this source's current key is this one.
    #[inline]
    pub(super) fn set(&mut self, source: usize, rank: u128) {
        self.current[source] = rank;
    }

    /// The rank of `key`: the smaller of two keys never has the larger rank.
    #[inline]
    pub(super) fn of(&self, key: &[u8]) -> u128 {
        match key.strip_prefix(&self.prefix[..]) {
            Some(rest) => first_sixteen(rest),
            None if key < &self.prefix[..] => 0,
            None => u128::MAX,
        }
    }

    /// Count comparisons that ranks left open; whether it is time to choose another prefix.
    #[inline]
    pub(super) fn leave_open(&mut self, more: u32) -> bool {
        self.open += more;
        let is_time = self.open >= if self.are_chosen() { OPEN_THEN } else { OPEN_FIRST };
        if is_time {
            // Counting starts anew also where no two keys differ, so that no prefix could be chosen.
            self.open = 0;
        }
        is_time
    }

    /// Choose the prefix that these two keys suggest. After that the rank of each source, `sources` of
    /// them, has to be [`set`](Ranks::set).
    pub(super) fn choose(&mut self, a: &[u8], b: &[u8], sources: usize) {
        let prefix = shared_prefix(a, b).saturating_sub(BEFORE);
        self.prefix.clear();
        self.prefix.extend_from_slice(&a[..prefix]);
        self.current.resize(sources, 0);
    }
}

/// The first sixteen bytes of `bytes`, big-endian, padded with zeros.
#[inline]
fn first_sixteen(bytes: &[u8]) -> u128 {
    if let Some(first) = bytes.first_chunk::<16>() {
        return u128::from_be_bytes(*first);
    }
    let mut first = [0; 16];
    first[..bytes.len()].copy_from_slice(bytes);
    u128::from_be_bytes(first)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ranks_never_contradict_the_keys(
            keys in prop::collection::vec(prop::collection::vec(0u8..3, 0..40), 2..9),
            chosen_by in prop::array::uniform2(prop::collection::vec(0u8..3, 0..40)),
        ) {
            let [one, other] = &chosen_by;
            let mut ranks = Ranks::default();
            ranks.choose(one, other, 0);
            for (a, b) in keys.iter().zip(&keys[1..]) {
                let order = ranks.of(a).cmp(&ranks.of(b));
                prop_assert!(order.is_eq() || order == a.cmp(b), "{:?} {:?}", a, b);
            }
            // It decides between the two keys by which it was chosen, unless one of them goes on with
            // zeros.
            let is_start = one.starts_with(other) || other.starts_with(one);
            prop_assert!(is_start || ranks.of(one) != ranks.of(other));
        }
    }
}
