//! The rules by which a run drops entries and range tombstones: what does some reader still see?
//!
//! The snapshots cut sequence numbers into *stripes*: two numbers are in one stripe if every reader that
//! sees the older sees the newer as well. Readers are the live snapshots and everybody who will read at
//! the newest visible number or later; a number that is not visible yet is a stripe of its own, because
//! a snapshot may still be taken right before it.
//!
//! 1. An entry is hidden if a newer put or delete of its key, or a range tombstone over its key, is in
//!    the same stripe: whoever would see the entry sees what hides it.
//! 2. A range tombstone is hidden by a newer one over the same keys in the same stripe.
//! 3. A tombstone, point or range, is spent if nothing it hides is left: everything it hides is in the
//!    run, or hidden by what the run keeps, or was never there. That is so if it is in the oldest stripe
//!    (all that is older is in its stripe, so the run drops it) and no table below holds its keys.

use std::sync::Arc;

use esker_base::SeqNo;
use esker_base::range_tombstone::{Fragment, Fragments, RangeTombstone};

use crate::below::Below;

#[cfg(test)]
mod tests;

/// The stripes that snapshots cut sequence numbers into.
#[derive(Clone, Debug)]
pub struct Stripes {
    /// Ascending; the last is the newest visible number.
    snapshots: Vec<SeqNo>,
    oldest: SeqNo,
    newest: SeqNo,
}

impl Stripes {
    /// The stripes of these snapshots, in any order; the greatest is the newest visible number. Panics
    /// if there is none: every database has a newest visible number.
    pub fn new(mut snapshots: Vec<SeqNo>) -> Stripes {
        snapshots.sort_unstable();
        snapshots.dedup();
        let oldest = *snapshots.first().expect("the newest visible number is always given");
        let newest = snapshots[snapshots.len() - 1];
        Stripes { snapshots, oldest, newest }
    }

    /// Whether `seqno` is visible to every reader.
    #[inline]
    pub fn is_oldest(&self, seqno: SeqNo) -> bool {
        seqno <= self.oldest
    }

    /// Whether every reader that sees `older` also sees `newer`. Panics in debug builds if they are
    /// given the other way round.
    #[inline]
    pub fn together(&self, older: SeqNo, newer: SeqNo) -> bool {
        debug_assert!(older <= newer);
        newer <= self.oldest || (newer <= self.newest && !self.parted(older, newer))
    }

    /// Whether a snapshot sees `older` and not `newer`.
    fn parted(&self, older: SeqNo, newer: SeqNo) -> bool {
        let first = self.snapshots.partition_point(|&snapshot| snapshot < older);
        self.snapshots.get(first).is_some_and(|&snapshot| snapshot < newer)
    }
}

/// The range tombstones of all inputs, asked for one key after the other in ascending order.
#[derive(Debug)]
pub struct RangeDeletes {
    fragments: Fragments,
    /// How many tombstones no reader can tell from a newer one over the same keys.
    left_out: u64,
    /// The first fragment that does not end before the last key asked for.
    at: usize,
}

impl RangeDeletes {
    /// All tombstones of `inputs` together, the newest of each stripe: however many numbers the fragments of a
    /// damaged or hostile table have, there are at most as many of each as there are stripes.
    pub fn new(inputs: &[Arc<Fragments>], stripes: &Stripes) -> RangeDeletes {
        let mut left_out = 0;
        let mut collapsed: Vec<Fragments> = Vec::new();
        for input in inputs.iter().filter(|fragments| !fragments.is_empty()) {
            let (fragments, less) = input.collapsed(|older, newer| stripes.together(older, newer));
            left_out += less;
            collapsed.push(fragments);
        }
        let fragments = if collapsed.len() > 1 {
            let all: Vec<RangeTombstone> = collapsed.iter().flat_map(Fragments::tombstones).collect();
            drop(collapsed);
            Fragments::build(&all)
        } else {
            collapsed.pop().unwrap_or_default()
        };
        RangeDeletes { fragments, left_out, at: 0 }
    }

    /// The numbers of the tombstones that cover `key`, newest first.
    #[inline]
    pub fn covering(&mut self, key: &[u8]) -> &[SeqNo] {
        if self.fragments.is_empty() { &[] } else { self.find(key) }
    }

    fn find(&mut self, key: &[u8]) -> &[SeqNo] {
        let list = self.fragments.list();
        while list.get(self.at).is_some_and(|fragment| fragment.end.as_slice() <= key) {
            self.at += 1;
        }
        match list.get(self.at) {
            Some(fragment) if fragment.start.as_slice() <= key => &fragment.seqnos,
            _ => &[],
        }
    }

    /// What the output must keep (rules 2 and 3), and how many tombstones that leaves out.
    pub fn retained(&self, stripes: &Stripes, below: &Below) -> (Vec<Fragment>, u64) {
        let mut dropped = self.left_out;
        let mut kept = Vec::new();
        for fragment in self.fragments.list() {
            let bottom = !below.may_hold_within(&fragment.start, &fragment.end);
            let mut seqnos: Vec<SeqNo> = Vec::new();
            for &seqno in &fragment.seqnos {
                let hidden = seqnos.last().is_some_and(|&newer| stripes.together(seqno, newer));
                let spent = bottom && stripes.is_oldest(seqno);
                if hidden || spent {
                    dropped += 1;
                } else {
                    seqnos.push(seqno);
                }
            }
            if !seqnos.is_empty() {
                kept.push(Fragment { start: fragment.start.clone(), end: fragment.end.clone(), seqnos });
            }
        }
        (kept, dropped)
    }
}

/// Whether one of the tombstones `covering` a key (newest first) hides its entry of number `seqno`.
#[inline]
pub fn range_hides(covering: &[SeqNo], seqno: SeqNo, stripes: &Stripes) -> bool {
    // The oldest tombstone above the entry is the most likely to share its stripe.
    let newer = covering.partition_point(|&tombstone| tombstone > seqno);
    newer.checked_sub(1).is_some_and(|oldest| stripes.together(seqno, covering[oldest]))
}
