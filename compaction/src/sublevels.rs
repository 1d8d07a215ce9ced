//! Level 0 taken apart: which tables lie over which keys.
//!
//! The ends of all tables cut the key space into intervals; in each, a certain *stack* of tables covers
//! every key. A read of a key looks into the stack of its interval, so the height of the highest stack,
//! the *depth*, is what level 0 costs readers, and what compactions of it are to bring down. Tables that
//! share no interval can be compacted apart.
//!
//! A table's *sublevel* is one more than the greatest sublevel of the older tables it overlaps: tables of
//! one sublevel do not overlap, so a scan needs one cursor a sublevel.

use std::ops::Range;

use esker_base::table_meta::KeyBounds;
use esker_manifest::{Level, Tree};

use crate::outputs::Cut;
use crate::settings::Settings;

#[cfg(test)]
mod tests;

/// The structure of one level 0. Tables are named by their index in `Level::tables`.
///
/// Two tables overlap exactly if they share an interval. Takes memory in proportion to the number of tables, however
/// they overlap; making it takes time in proportion to that number times the depth.
#[derive(Clone, Debug)]
pub struct Sublevels {
    /// Each table's sublevel.
    of_tables: Vec<usize>,
    /// The intervals that each table covers, which are numbered from left to right.
    covered: Vec<Range<usize>>,
    /// The tables that each table lies on directly. They are at most three times as many as the tables: seen from above,
    /// each new table adds two pieces at most, and all but two of those under it are not seen again.
    lies_on: Vec<Vec<usize>>,
    /// How many tables cover each interval.
    heights: Vec<usize>,
    /// The newest table that covers each interval: it overlaps all others that do.
    newest: Vec<Option<usize>>,
}

/// An end of a table: before a key, or right after it.
pub(crate) type End<'a> = (&'a [u8], bool);

/// Where `bounds` begin and end.
pub(crate) fn ends(bounds: &KeyBounds) -> [End<'_>; 2] {
    [(&bounds.smallest, false), (&bounds.largest, !bounds.largest_exclusive)]
}

impl Sublevels {
    /// The structure of `level0`.
    pub fn new(level0: &Level) -> Sublevels {
        let tables = level0.tables();
        let mut all: Vec<End<'_>> = tables.iter().flat_map(|table| ends(&table.meta.bounds)).collect();
        all.sort_unstable();
        all.dedup();
        let intervals = |bounds: &KeyBounds| -> Range<usize> {
            let [from, to] = ends(bounds).map(|end| all.partition_point(|other| *other < end));
            from..to
        };
        let covered: Vec<Range<usize>> = tables.iter().map(|table| intervals(&table.meta.bounds)).collect();
        let mut of_tables = vec![0; tables.len()];
        let mut lies_on = vec![Vec::new(); tables.len()];
        let mut heights = vec![0; all.len()];
        let mut newest = vec![None; all.len()];
        // Tables stand newest first.
        for (index, covered) in covered.iter().enumerate().rev() {
            let below = newest[covered.clone()].chunk_by(|a, b| a == b).filter_map(|same| same[0]);
            let below: Vec<usize> = below.collect();
            of_tables[index] = below.iter().map(|&older| of_tables[older] + 1).max().unwrap_or(0);
            lies_on[index] = below;
            newest[covered.clone()].fill(Some(index));
            heights[covered.clone()].iter_mut().for_each(|height| *height += 1);
        }
        Sublevels { of_tables, covered, lies_on, heights, newest }
    }

    /// The sublevel of table `index`; 0 is the oldest.
    pub fn sublevel(&self, index: usize) -> usize {
        self.of_tables[index]
    }

    /// How many sublevels there are.
    pub fn count(&self) -> usize {
        self.of_tables.iter().map(|sublevel| sublevel + 1).max().unwrap_or(0)
    }

    /// The tables that table `index` lies on directly: in some interval, the next older one. It overlaps an older table
    /// only if it lies on it, directly or through others that overlap it, too.
    pub(crate) fn lies_on(&self, index: usize) -> &[usize] {
        &self.lies_on[index]
    }

    /// The tables that overlap no other, from left to right.
    pub(crate) fn alone(&self) -> Vec<usize> {
        let is_alone = |index: &usize| {
            let mut heights = self.heights[self.covered[*index].clone()].iter();
            heights.all(|height| *height == 1)
        };
        let mut alone: Vec<usize> = (0..self.covered.len()).filter(is_alone).collect();
        alone.sort_unstable_by_key(|&index| self.covered[index].start);
        alone
    }

    /// The stacks of all intervals that at least `worth` tables cover, and at least one, and whose newest table
    /// `is_free`; highest first; each oldest table first. A stack is listed when it is asked for, in one walk over all
    /// tables.
    pub fn stacks(
        &self,
        worth: usize,
        is_free: impl Fn(usize) -> bool,
    ) -> impl Iterator<Item = Vec<usize>> {
        let worth = worth.max(1);
        let is_wanted = |&at: &usize| self.heights[at] >= worth && self.newest[at].is_some_and(&is_free);
        let mut highest: Vec<usize> = (0..self.heights.len()).filter(is_wanted).collect();
        // Stable: of equal heights, the leftmost first.
        highest.sort_by_key(|&at| std::cmp::Reverse(self.heights[at]));
        highest.into_iter().map(|at| {
            let tables = (0..self.covered.len()).rev();
            tables.filter(|&index| self.covered[index].contains(&at)).collect()
        })
    }
}

/// About the most columns into which flushes are cut: each brings a table to every one of them.
const COLUMNS: u64 = 8;

/// Where to cut a flush into `tree`, so that level 0 falls into columns that can be compacted one by one: where the
/// oldest tables of level 0 begin, so that one flush is cut like the other; where level 0 has none, where tables of the
/// level below begin; at least `flush_split_bytes` apart. No table is made that is smaller than a 32nd of `table_bytes`.
/// The first flush of all, which finds nothing, is cut by size alone, into tables that make such columns.
pub fn flush_cut(tree: &Tree, settings: &Settings) -> Cut {
    let floor = floor(tree);
    let mut ahead: u64 = floor.iter().map(|slab| slab.bytes).sum();
    let first = settings.flush_split_bytes.min(settings.table_bytes);
    let table_bytes = if ahead == 0 { first } else { settings.table_bytes };
    let column = settings.flush_split_bytes.max(ahead / COLUMNS);
    let mut before = Vec::new();
    let mut since: u64 = 0;
    for slab in floor {
        // A column is cut as near to its size as whole tables allow, and only if what is left for the last
        // one is worth a column.
        let near = since > 0 && since + slab.bytes / 2 >= column;
        if near && ahead >= column / 2 {
            before.push(slab.start.to_vec());
            since = 0;
        }
        since += slab.bytes;
        ahead -= slab.bytes;
    }
    Cut { table_bytes, before, boundary_bytes: settings.table_bytes / 32, crossings_max: usize::MAX }
}

/// A piece of what columns stand on, up to where the next begins.
struct Slab<'a> {
    start: &'a [u8],
    /// Bytes of all tables that begin in it, in level 0 and below.
    bytes: u64,
}

/// What columns stand on, ascending: the oldest tables of level 0, and the tables of the level below where there are none.
fn floor(tree: &Tree) -> Vec<Slab<'_>> {
    let level0 = tree.levels[0].tables();
    let base = tree.levels.iter().skip(1).find(|level| !level.is_empty()).map_or(&[][..], Level::tables);
    let sublevels = Sublevels::new(&tree.levels[0]);
    let oldest = level0.iter().enumerate().filter(|(at, _)| sublevels.sublevel(*at) == 0);
    let mut oldest: Vec<&KeyBounds> = oldest.map(|(_, table)| &table.meta.bounds).collect();
    // They do not overlap: if any overlaps a table below, the first that reaches to it does.
    oldest.sort_unstable_by(|a, b| a.smallest.cmp(&b.smallest));
    let overlaps_oldest = |bounds: &KeyBounds| {
        let reaching = oldest.partition_point(|table| table.ends_before(&bounds.smallest));
        oldest.get(reaching).is_some_and(|table| table.overlaps(bounds))
    };
    let below = base.iter().map(|table| &table.meta.bounds);
    let alone = below.filter(|bounds| !overlaps_oldest(bounds));
    let mut ground: Vec<&KeyBounds> = alone.chain(oldest.iter().copied()).collect();
    ground.sort_unstable_by(|a, b| a.smallest.cmp(&b.smallest));
    let mut floor: Vec<Slab<'_>> = Vec::new();
    let mut last: Option<&KeyBounds> = None;
    for bounds in ground {
        // The first key of a table in level 0 lies a little behind the cut, which was at the start of one below.
        let begun = base.partition_point(|table| table.meta.bounds.smallest <= bounds.smallest);
        let cut = begun.checked_sub(1).map(|at| base[at].meta.bounds.smallest.as_slice());
        let cut = cut.filter(|start| last.is_none_or(|last| last.ends_before(start)));
        floor.push(Slab { start: cut.unwrap_or(&bounds.smallest), bytes: 0 });
        last = Some(bounds);
    }
    for table in level0.iter().chain(base) {
        let begun = floor.partition_point(|slab| *slab.start <= *table.meta.bounds.smallest);
        if let Some(slab) = floor.get_mut(begun.saturating_sub(1)) {
            slab.bytes += table.meta.file_bytes;
        }
    }
    floor
}
