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
#[derive(Clone, Debug)]
pub struct Sublevels {
    /// Each table's sublevel.
    sublevels: Vec<usize>,
    /// For each interval, left to right: the tables that cover it, oldest first.
    stacks: Vec<Vec<usize>>,
}

/// An end of a table: before a key, or right after it.
type End<'a> = (&'a [u8], bool);

fn ends(bounds: &KeyBounds) -> [End<'_>; 2] {
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
        let mut sublevels = vec![0; tables.len()];
        let mut stacks: Vec<Vec<usize>> = vec![Vec::new(); all.len()];
        let mut heights = vec![0; all.len()];
        // Tables stand newest first.
        for (index, table) in tables.iter().enumerate().rev() {
            let covered = intervals(&table.meta.bounds);
            let sublevel = heights[covered.clone()].iter().copied().max().unwrap_or(0);
            sublevels[index] = sublevel;
            heights[covered.clone()].fill(sublevel + 1);
            stacks[covered].iter_mut().for_each(|stack| stack.push(index));
        }
        Sublevels { sublevels, stacks }
    }

    /// The sublevel of table `index`; 0 is the oldest.
    pub fn sublevel(&self, index: usize) -> usize {
        self.sublevels[index]
    }

    /// How many sublevels there are.
    pub fn count(&self) -> usize {
        self.sublevels.iter().map(|sublevel| sublevel + 1).max().unwrap_or(0)
    }

    /// The most tables that cover one key.
    pub fn depth(&self) -> usize {
        self.stacks.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// The stacks of all intervals that at least one table covers, highest first; each oldest table
    /// first. Neighbouring intervals with equal stacks count once.
    pub fn stacks(&self) -> Vec<&[usize]> {
        let mut stacks: Vec<&[usize]> = self.stacks.iter().map(Vec::as_slice).collect();
        stacks.dedup();
        stacks.retain(|stack| !stack.is_empty());
        // Stable: of equal heights, the leftmost first.
        stacks.sort_by_key(|stack| std::cmp::Reverse(stack.len()));
        stacks
    }
}

/// Where to cut a flush into `tree`: at keys where tables of the level below level 0 begin, about
/// `flush_split_bytes` of that level apart, so that level 0 falls into columns that line up with it. No
/// table gets smaller than an eighth of `table_bytes` that way.
pub fn flush_cut(tree: &Tree, settings: &Settings) -> Cut {
    let base = tree.levels.iter().skip(1).find(|level| !level.is_empty());
    let mut before = Vec::new();
    let mut since = 0;
    for table in base.into_iter().flat_map(Level::tables) {
        if since >= settings.flush_split_bytes {
            before.push(table.meta.bounds.smallest.clone());
            since = 0;
        }
        since += table.meta.file_bytes;
    }
    Cut {
        table_bytes: settings.table_bytes,
        before,
        boundary_bytes: settings.table_bytes / 8,
        crossings_max: usize::MAX,
    }
}
