//! Range tombstones: one record that deletes every key in `[start, end)` written before it.
//!
//! Sources keep them apart from entries, *fragmented*: cut at each other's bounds, so that fragments
//! do not overlap and each carries the sequence numbers of all tombstones that cover it, newest
//! first. One binary search then tells what covers a key.

use std::collections::BTreeSet;

use crate::SeqNo;

#[cfg(test)]
mod tests;

/// One deletion of a range, owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeTombstone {
    /// First key deleted.
    pub start: Vec<u8>,
    /// First key not deleted any more; after `start`.
    pub end: Vec<u8>,
    /// The deletion's number: it hides entries with smaller numbers.
    pub seqno: SeqNo,
}

/// A piece of key space and the tombstones that cover all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// First key covered.
    pub start: Vec<u8>,
    /// First key not covered any more.
    pub end: Vec<u8>,
    /// The covering tombstones' numbers, newest first, at least one.
    pub seqnos: Vec<SeqNo>,
}

impl Fragment {
    /// The newest covering tombstone that a reader at `upper` sees.
    #[inline]
    pub fn newest(&self, upper: SeqNo) -> Option<SeqNo> {
        self.seqnos.iter().copied().find(|&seqno| seqno <= upper)
    }
}

/// Non-overlapping fragments in key order. Immutable; shared as `Arc<Fragments>`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fragments {
    list: Vec<Fragment>,
}

impl Fragments {
    /// Fragment `tombstones`, given in any order.
    ///
    /// ```
    /// use esker_base::range_tombstone::{Fragments, RangeTombstone};
    /// use esker_base::SeqNo;
    /// let cover = |s: &str, e: &str, n| RangeTombstone { start: s.into(), end: e.into(), seqno: SeqNo(n) };
    /// let fragments = Fragments::build(&[cover("a", "m", 5), cover("g", "z", 9)]);
    /// assert_eq!(fragments.list().len(), 3); // a..g @5, g..m @9 @5, m..z @9
    /// assert_eq!(fragments.covering(b"h", SeqNo(8)), Some(SeqNo(5)));
    /// assert_eq!(fragments.covering(b"z", SeqNo::MAX), None);
    /// ```
    ///
    /// Tombstones within each other take memory by the square of their number: what comes from disk is built
    /// by [`build_newest`](Self::build_newest), or [`collapsed`](Self::collapsed) first.
    pub fn build(tombstones: &[RangeTombstone]) -> Fragments {
        Self::build_together(tombstones, |seqno| seqno)
    }

    /// The same for readers that see the tombstones of one commit together or none of them: of those of one
    /// commit that cover a fragment, it has the newest number alone. `first` returns, for a number, the
    /// first number of the commit to which it belongs. So tombstones of few commits take memory in
    /// proportion to their number, and time little more, however deep they lie within each other.
    ///
    /// ```
    /// use esker_base::range_tombstone::{Fragments, RangeTombstone};
    /// use esker_base::SeqNo;
    /// let cover = |s: &str, e: &str, n| RangeTombstone { start: s.into(), end: e.into(), seqno: SeqNo(n) };
    /// let all = [cover("a", "z", 3), cover("a", "z", 5), cover("b", "y", 6)];
    /// // 3 is a commit of its own, 5 and 6 are one.
    /// let fragments = Fragments::build_together(&all, |seqno| if seqno < SeqNo(5) { seqno } else { SeqNo(5) });
    /// assert_eq!(fragments.fragment_at(b"c").map(|f| &f.seqnos[..]), Some(&[SeqNo(6), SeqNo(3)][..]));
    /// ```
    pub fn build_together(tombstones: &[RangeTombstone], first: impl Fn(SeqNo) -> SeqNo) -> Fragments {
        Self::sweep(tombstones, |open| {
            let mut seqnos = Vec::new();
            let mut next = open.last();
            while let Some(&(seqno, _)) = next {
                seqnos.push(seqno);
                next = open.range(..(first(seqno), 0)).next_back();
            }
            seqnos
        })
    }

    /// The same for readers that see all of `tombstones`: each fragment has the newest number alone, and the
    /// whole takes memory in proportion to `tombstones`.
    ///
    /// ```
    /// use esker_base::range_tombstone::{Fragments, RangeTombstone};
    /// use esker_base::SeqNo;
    /// let cover = |s: &str, e: &str, n| RangeTombstone { start: s.into(), end: e.into(), seqno: SeqNo(n) };
    /// let fragments = Fragments::build_newest(&[cover("a", "m", 5), cover("g", "z", 9)]);
    /// assert_eq!(fragments.covering(b"h", SeqNo::MAX), Some(SeqNo(9)));
    /// assert_eq!(fragments.covering(b"h", SeqNo(8)), None);
    /// ```
    pub fn build_newest(tombstones: &[RangeTombstone]) -> Fragments {
        Self::build_together(tombstones, |_| SeqNo::ZERO)
    }

    /// These fragments without the numbers that no reader can tell from a newer one, and how many those
    /// are: of two neighbours (older, newer) in a fragment that are `together`, the newer one stays.
    pub fn collapsed(&self, together: impl Fn(SeqNo, SeqNo) -> bool) -> (Fragments, u64) {
        let mut left_out = 0;
        let list = self.list.iter().map(|fragment| {
            let mut seqnos: Vec<SeqNo> = Vec::new();
            for &seqno in &fragment.seqnos {
                if seqnos.last().is_some_and(|&newer| together(seqno, newer)) {
                    left_out += 1;
                } else {
                    seqnos.push(seqno);
                }
            }
            Fragment { start: fragment.start.clone(), end: fragment.end.clone(), seqnos }
        });
        let list = list.collect();
        (Fragments { list }, left_out)
    }

    /// Cut `tombstones` at each other's bounds; `numbers` says which numbers of the tombstones over it a
    /// fragment keeps.
    fn sweep(
        tombstones: &[RangeTombstone],
        numbers: impl Fn(&BTreeSet<(SeqNo, usize)>) -> Vec<SeqNo>,
    ) -> Fragments {
        // Sweep over the bounds, keeping the set of tombstones that are open at each.
        let mut bounds: Vec<(&[u8], bool, SeqNo)> = Vec::with_capacity(tombstones.len() * 2);
        for tombstone in tombstones.iter().filter(|t| t.start < t.end) {
            bounds.push((&tombstone.start, true, tombstone.seqno));
            bounds.push((&tombstone.end, false, tombstone.seqno));
        }
        bounds.sort_unstable();
        let mut list: Vec<Fragment> = Vec::new();
        // One commit may delete several ranges under numbers of their own, so the numbers are unique
        // but for copies of one tombstone that were cut apart: count those.
        let mut open: BTreeSet<(SeqNo, usize)> = BTreeSet::new();
        let mut from: &[u8] = &[];
        for (at, starts, seqno) in bounds {
            if at > from && !open.is_empty() {
                list.push(Fragment { start: from.to_vec(), end: at.to_vec(), seqnos: numbers(&open) });
            }
            from = at;
            let copies = open.range((seqno, 0)..=(seqno, usize::MAX)).count();
            if starts {
                open.insert((seqno, copies));
            } else {
                open.remove(&(seqno, copies.wrapping_sub(1)));
            }
        }
        Fragments { list }
    }

    /// Put `fragment` behind the last, as one after the other is read from a table. `None`, and nothing changes, if
    /// it covers nothing, has no numbers or not the newest first, or begins before the last ends.
    pub fn push(&mut self, fragment: Fragment) -> Option<()> {
        let Fragment { start, end, seqnos } = &fragment;
        let covers = start < end && !seqnos.is_empty() && seqnos.is_sorted_by(|newer, older| newer > older);
        let behind = self.list.last().is_none_or(|last| last.end <= *start);
        (covers && behind).then(|| self.list.push(fragment))
    }

    /// Give back the memory that was taken for more fragments.
    pub fn shrink_to_fit(&mut self) {
        self.list.shrink_to_fit();
    }

    /// The fragments in key order.
    pub fn list(&self) -> &[Fragment] {
        &self.list
    }

    /// Whether nothing is deleted.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The newest tombstone not after `upper` that covers `key`.
    #[inline]
    pub fn covering(&self, key: &[u8], upper: SeqNo) -> Option<SeqNo> {
        self.fragment_at(key)?.newest(upper)
    }

    /// The fragment that covers `key`.
    #[inline]
    pub fn fragment_at(&self, key: &[u8]) -> Option<&Fragment> {
        let after = self.list.partition_point(|f| f.start.as_slice() <= key);
        let fragment = self.list.get(after.checked_sub(1)?)?;
        (key < fragment.end.as_slice()).then_some(fragment)
    }

    /// The tombstones again, one for each number of each fragment.
    pub fn tombstones(&self) -> impl Iterator<Item = RangeTombstone> + '_ {
        self.list.iter().flat_map(|f| {
            f.seqnos.iter().map(|&seqno| RangeTombstone {
                start: f.start.clone(),
                end: f.end.clone(),
                seqno,
            })
        })
    }
}
