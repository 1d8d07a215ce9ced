//! The heads of a table's separators, as a static B-tree without pointers.
//!
//! The leaves hold them in order, [`GROUP`] to a group, which is a node of the tree; each level above holds the last head of
//! every group of the level below it, in the same order. A search looks at one group of each level: two neighbouring cache
//! lines, which come at the same time. A binary search would wait for one line after the other; where a cache of blocks is
//! large, none of them is near the processor any more.
//!
//! Invariants: the unused rest of a level's last group is filled with the largest head, which is before no
//! other. All levels lie in one piece of memory: first the root, which has [`ROOT_GROUPS`] groups at most.
//!
//! Source: P.-V. Khuong and P. Morin, "Array Layouts for Comparison-Based Searching", 2017, section 4.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use esker_vfs::os::memory::prefetch;

/// Heads of a group: they lie in two neighbouring cache lines.
pub(crate) const GROUP: usize = 16;
/// Heads of a quarter of a group.
const QUARTER: usize = GROUP / 4;

/// Groups of the root, at most: they are loaded at the same time, where one more level would be one more
/// wait.
const ROOT_GROUPS: usize = 4;

/// The most levels there are: those over as many heads as a `u32` counts.
const LEVELS_MAX: usize = 8;

/// Where a search has come to before its last look: a group of the leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Near(usize);

impl Near {
    /// The search ends at this head, at one of the [`GROUP`] minus one after it, or after all.
    #[inline]
    pub(crate) fn first(self) -> usize {
        self.0 * GROUP
    }
}

/// Heads in two cache lines of their own.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Group([[u64; QUARTER]; 4]);

impl Group {
    /// How many of its heads are before `wanted`. The first four comparisons wait for nothing but the two
    /// lines, and decide which three come next. Where all sixteen heads were compared, gets from a cache of
    /// 600 MB took a tenth longer.
    #[inline]
    fn before(&self, wanted: u64) -> usize {
        let quarters = self.0.iter().map(|[.., last]| usize::from(*last < wanted)).sum::<usize>();
        let within = self.0.get(quarters).map_or(0, |[first, second, third, _]| {
            usize::from(*first < wanted) + usize::from(*second < wanted) + usize::from(*third < wanted)
        });
        quarters * QUARTER + within
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Heads {
    /// How many heads the leaves hold.
    len: usize,
    groups: Vec<Group>,
    /// Where each level begins in `groups`, the root first. Entries after that of the leaves are not used.
    levels: [u32; LEVELS_MAX],
    /// How many levels lie above the leaves.
    above: usize,
    /// Where the leaves begin in `groups`.
    leaves: usize,
}

impl Heads {
    /// A tree over `heads`, which ascend and are no more than a `u32` counts.
    pub(super) fn new(heads: &[u64]) -> Heads {
        // The root first.
        let mut sizes = VecDeque::from([heads.len().div_ceil(GROUP)]);
        while let Some(&below) = sizes.front()
            && below > ROOT_GROUPS
        {
            sizes.push_front(below.div_ceil(GROUP));
        }
        assert!(sizes.len() <= LEVELS_MAX, "an index counts its blocks in 32 bits");
        let mut groups = vec![Group([[u64::MAX; QUARTER]; 4]); sizes.iter().sum()];
        let mut levels = [0; LEVELS_MAX];
        let mut end = groups.len();
        let mut below = heads.to_vec();
        for (begin, size) in levels.iter_mut().zip(&sizes).rev() {
            let level = groups.get_mut(end - size..end).unwrap_or_default();
            for (group, heads) in level.iter_mut().zip(below.chunks(GROUP)) {
                group.0.as_flattened_mut().iter_mut().zip(heads).for_each(|(place, head)| *place = *head);
            }
            below = level.iter().map(|Group([.., [.., last]])| *last).collect();
            end -= size;
            *begin = u32::try_from(end).expect("fewer groups than heads");
        }
        let leaves = groups.len() - sizes.back().copied().unwrap_or_default();
        Heads { len: heads.len(), groups, levels, above: sizes.len() - 1, leaves }
    }

    /// How many there are.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Head number `at`.
    #[inline]
    pub(super) fn get(&self, at: usize) -> Option<u64> {
        if at >= self.len {
            return None;
        }
        let group = self.groups.get(self.leaves + at / GROUP);
        group.and_then(|group| group.0.as_flattened().get(at % GROUP)).copied()
    }

    /// Where a level begins in `groups`.
    #[inline]
    fn begin(&self, level: usize) -> usize {
        self.levels.get(level).map_or(0, |begin| *begin as usize)
    }

    /// How many heads of a group are before `wanted`.
    #[inline]
    fn before(&self, group: usize, wanted: u64) -> usize {
        self.groups.get(group).map_or(0, |group| group.before(wanted))
    }

    /// Where the search for `wanted` comes to before its look at the leaves. The group that it will look at
    /// is prefetched.
    #[inline]
    pub(super) fn approach(&self, wanted: u64) -> Near {
        if self.above == 0 {
            let found = (0..self.groups.len()).map(|group| self.before(group, wanted)).sum::<usize>();
            return Near(found / GROUP);
        }
        let mut group = (0..self.begin(1)).map(|group| self.before(group, wanted)).sum::<usize>();
        // After the last group of a level the search ends after the last of each level below.
        for level in 1..self.above {
            group = group * GROUP + self.before(self.begin(level) + group, wanted);
        }
        if let Some(Group([first, _, third, _])) = self.groups.get(self.leaves + group) {
            prefetch(first);
            prefetch(third);
        }
        Near(group)
    }

    /// The first head that is `wanted` or larger; `len()` if there is none. `near` is what `approach(wanted)` said.
    #[inline]
    pub(super) fn first_from(&self, near: Near, wanted: u64) -> usize {
        (near.first() + self.before(self.leaves + near.0, wanted)).min(self.len)
    }

    /// Prefetch the root's first group, where every search begins.
    #[inline]
    pub(super) fn prefetch_root(&self) {
        if let Some(group) = self.groups.first() {
            prefetch(group);
        }
    }

    /// Bytes of memory held.
    pub(super) fn memory(&self) -> usize {
        self.groups.capacity() * size_of::<Group>()
    }
}
