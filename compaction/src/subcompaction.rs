//! Subcompactions: one compaction, or flush, as several runs, each over a part of the key space, for threads to share.
//!
//! 1. The parts follow one another and hold every key between them. They are cut between user keys, so all
//!    versions of a key are in one part, and what becomes of them does not depend on where the cuts are.
//! 2. Every part is told the same snapshots, the same tables below, and the same range tombstones. These are
//!    judged whole, as one run would judge them; what is kept of them is then clipped to the part, and what is
//!    dropped is counted by the first part alone.
//! 3. No part can prove what an input gave, because it reads only a piece of the input. The proof is over
//!    the sum of all parts ([`MergeRun::finish_parts`](crate::run::MergeRun::finish_parts)), and so an
//!    entry that a cut had lost or doubled would be found like one that the disk had.
//!
//! A part ends with a table that may be small. So there are at most as many parts as one run would make
//! tables, the last of which need not be full: two parts of 29 MiB make as many tables of up to 32 MiB as
//! one run over both does.

use std::sync::Arc;

use esker_base::key::compare;
use esker_base::range_tombstone::Fragment;
use esker_sstable::TableReader;

use crate::outputs::Cut;
use crate::plan::Plan;

#[cfg(test)]
mod tests;

/// How many places for a cut are considered in each table.
const SAMPLES: usize = 32;

/// User keys from one key on and before another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// The first key; `None` for all keys before `end`.
    pub start: Option<Vec<u8>>,
    /// The first key behind; `None` for all keys from `start` on.
    pub end: Option<Vec<u8>>,
}

impl Part {
    /// The parts between these keys, which ascend.
    pub fn between(cuts: &[Vec<u8>]) -> Vec<Part> {
        let starts = std::iter::once(None).chain(cuts.iter().cloned().map(Some));
        let ends = cuts.iter().cloned().map(Some).chain(std::iter::once(None));
        starts.zip(ends).map(|(start, end)| Part { start, end }).collect()
    }

    /// Whether no part lies before this one.
    pub fn is_first(&self) -> bool {
        self.start.is_none()
    }

    /// Whether `key`, and so every key after it, lies behind this part.
    #[inline]
    pub fn is_before(&self, key: &[u8]) -> bool {
        self.end.as_ref().is_some_and(|end| compare(end, key).is_le())
    }

    /// What of these fragments lies in this part.
    pub(crate) fn clip(&self, fragments: Vec<Fragment>) -> Vec<Fragment> {
        let clipped = fragments.into_iter().filter_map(|mut fragment| {
            if let Some(start) = self.start.as_ref().filter(|start| **start > fragment.start) {
                fragment.start.clone_from(start);
            }
            if let Some(end) = self.end.as_ref().filter(|end| **end < fragment.end) {
                fragment.end.clone_from(end);
            }
            (fragment.start < fragment.end).then_some(fragment)
        });
        clipped.collect()
    }
}

impl Plan {
    /// How many parts are worth having where `hands` threads may share in this plan.
    pub fn parts(&self, hands: usize) -> usize {
        let worth = self.input_bytes().div_ceil(self.cut.table_bytes.max(1));
        usize::try_from(worth).unwrap_or(usize::MAX).clamp(1, hands.max(1))
    }
}

/// Keys that cut what `tables` hold into `parts` parts of about the same size. Ascending; fewer than asked for
/// if the tables have too few places to cut.
pub fn cuts(tables: &[Arc<TableReader>], parts: usize) -> Vec<Vec<u8>> {
    if parts < 2 {
        return Vec::new();
    }
    let mut keys: Vec<Vec<u8>> = tables.iter().flat_map(|table| table.sample_keys(SAMPLES)).collect();
    keys.sort_unstable();
    keys.dedup();
    let before = |key: &[u8]| -> u64 { tables.iter().map(|table| table.approximate_offset(key)).sum() };
    let total: u64 = tables.iter().map(|table| table.data_bytes()).sum();
    let mut cuts: Vec<usize> = (1..parts as u64)
        .map(|part| keys.partition_point(|key| before(key) < total / parts as u64 * part))
        .filter(|&at| at < keys.len())
        .collect();
    cuts.dedup();
    cuts.into_iter().map(|at| std::mem::take(&mut keys[at])).collect()
}

/// The fewest separators of a memtable's index for each part of its flush: a part with fewer is not worth
/// sharing.
const PART_SEPARATORS: usize = 4;

/// Keys that cut a flush into `parts` parts, by `separators`, which ascend and have about as much of the memtable between
/// any two: where the flush is cut into tables anyway, if that is near; else where it is best. Ascending; fewer than
/// asked for if there are too few separators.
pub fn flush_cuts(separators: &[&[u8]], cut: &Cut, parts: usize) -> Vec<Vec<u8>> {
    let parts = parts.min(separators.len() / PART_SEPARATORS);
    let mut cuts: Vec<Vec<u8>> = Vec::new();
    for part in 1..parts {
        let best = separators.len() * part / parts;
        let far = |key: &[u8]| separators.partition_point(|separator| *separator < key).abs_diff(best);
        let nearest = cut.before.iter().map(Vec::as_slice).min_by_key(|key| far(key));
        let near = nearest.filter(|key| far(key) <= separators.len() / parts / 4);
        let at = near.unwrap_or(separators[best]);
        if cuts.last().is_none_or(|last| last.as_slice() < at) {
            cuts.push(at.to_vec());
        }
    }
    cuts
}
