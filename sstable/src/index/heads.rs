//! The heads of a table's separators, as a static B-tree without pointers.
//!
//! The ground floor holds them in order, [`GROUP`] to a group; each floor above holds the last head of every group below
//! it, so that groups stand in the same order there. A search looks at one group of each floor: two neighbouring cache
//! lines, which come at the same time. By halves it would wait for one line after the other; where a cache of blocks is
//! large, none of them is near the processor any more.
//!
//! Invariants: what is left of a floor's last group is filled with the largest head, which is before no other. All floors
//! lie in one piece of memory, the highest, of [`ROOT_GROUPS`] groups at most, first.
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

/// Groups of the highest floor, at most: they come at the same time, where one more floor would be one more wait.
const ROOT_GROUPS: usize = 4;

/// Floors over as many heads as a `u32` counts.
const FLOORS: usize = 8;

/// Where a search has come to before its last look: a group of the ground floor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Near(usize);

impl Near {
    /// The search ends at this head, at one of the [`GROUP`] minus one behind, or behind all.
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
    /// How many of its heads are before `wanted`. The first four comparisons wait for nothing but both lines, and decide which
    /// three come next; with all sixteen gets from a cache of 600 MB took a tenth longer.
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
    /// How many heads the ground floor holds.
    len: usize,
    groups: Vec<Group>,
    /// Where each floor begins in `groups`, the highest first. Those behind the ground floor are not there.
    floors: [u32; FLOORS],
    /// How many floors lie above the ground.
    above: usize,
    /// Where the ground floor begins in `groups`.
    ground: usize,
}

impl Heads {
    /// A tree over `heads`, which ascend and are no more than a `u32` counts.
    pub(super) fn new(heads: &[u64]) -> Heads {
        // The highest first.
        let mut sizes = VecDeque::from([heads.len().div_ceil(GROUP)]);
        while let Some(&below) = sizes.front()
            && below > ROOT_GROUPS
        {
            sizes.push_front(below.div_ceil(GROUP));
        }
        assert!(sizes.len() <= FLOORS, "an index counts its blocks in 32 bits");
        let mut groups = vec![Group([[u64::MAX; QUARTER]; 4]); sizes.iter().sum()];
        let mut floors = [0; FLOORS];
        let mut end = groups.len();
        let mut below = heads.to_vec();
        for (begin, size) in floors.iter_mut().zip(&sizes).rev() {
            let floor = groups.get_mut(end - size..end).unwrap_or_default();
            for (group, heads) in floor.iter_mut().zip(below.chunks(GROUP)) {
                group.0.as_flattened_mut().iter_mut().zip(heads).for_each(|(place, head)| *place = *head);
            }
            below = floor.iter().map(|Group([.., [.., last]])| *last).collect();
            end -= size;
            *begin = u32::try_from(end).expect("fewer groups than heads");
        }
        let ground = groups.len() - sizes.back().copied().unwrap_or_default();
        Heads { len: heads.len(), groups, floors, above: sizes.len() - 1, ground }
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
        let group = self.groups.get(self.ground + at / GROUP);
        group.and_then(|group| group.0.as_flattened().get(at % GROUP)).copied()
    }

    /// Where a floor begins in `groups`.
    #[inline]
    fn begin(&self, floor: usize) -> usize {
        self.floors.get(floor).map_or(0, |begin| *begin as usize)
    }

    /// How many heads of a group are before `wanted`.
    #[inline]
    fn before(&self, group: usize, wanted: u64) -> usize {
        self.groups.get(group).map_or(0, |group| group.before(wanted))
    }

    /// Where the search for `wanted` ends, but for its look at the ground floor. What that looks at is on its way.
    #[inline]
    pub(super) fn approach(&self, wanted: u64) -> Near {
        if self.above == 0 {
            let found = (0..self.groups.len()).map(|group| self.before(group, wanted)).sum::<usize>();
            return Near(found / GROUP);
        }
        let mut group = (0..self.begin(1)).map(|group| self.before(group, wanted)).sum::<usize>();
        // Behind the last group of a floor the search ends behind the last of each floor below.
        for floor in 1..self.above {
            group = group * GROUP + self.before(self.begin(floor) + group, wanted);
        }
        if let Some(Group([first, _, third, _])) = self.groups.get(self.ground + group) {
            prefetch(first);
            prefetch(third);
        }
        Near(group)
    }

    /// The first head that is `wanted` or larger; `len()` if there is none. `near` is what `approach(wanted)` said.
    #[inline]
    pub(super) fn first_from(&self, near: Near, wanted: u64) -> usize {
        (near.first() + self.before(self.ground + near.0, wanted)).min(self.len)
    }

    /// Start loading where every search begins.
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
