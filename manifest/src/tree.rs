//! The tree of one keyspace: seven levels, level 0 the newest.

use std::sync::Arc;

use esker_base::FileNumber;
use esker_base::table_meta::KeyBounds;

use crate::level::Level;
use crate::limits::LEVELS;
use crate::table_handle::TableHandle;

#[cfg(test)]
mod tests;

/// The levels of one keyspace. Immutable; shared as `Arc<Tree>`.
///
/// A key's newest version lies in the lowest-numbered level that has the key; in level 0, in the first table
/// that has it.
#[derive(Clone, Debug)]
pub struct Tree {
    /// Level 0 first.
    pub levels: [Level; LEVELS],
}

impl Default for Tree {
    /// A tree without tables.
    fn default() -> Self {
        Tree { levels: std::array::from_fn(|level| Level::of(Vec::new(), level > 0)) }
    }
}

impl Tree {
    /// A tree of these tables, each with its level. Panics if a level does not exist or if two tables of one
    /// level from 1 on overlap. The version set does not build trees this way; simulations and tests do.
    pub fn build(tables: impl IntoIterator<Item = (u8, Arc<TableHandle>)>) -> Tree {
        let mut levels: [Vec<Arc<TableHandle>>; LEVELS] = Default::default();
        for (level, table) in tables {
            let level = levels.get_mut(usize::from(level)).expect("a level of the tree");
            level.push(table);
        }
        let mut number = 0;
        let levels = levels.map(|tables| {
            let level = if number == 0 { Level::newest_first(tables) } else { Level::sorted(tables) };
            number += 1;
            level
        });
        Tree { levels }
    }

    /// Level `number`, or `None` from [`LEVELS`] on.
    #[inline]
    pub fn level(&self, number: u8) -> Option<&Level> {
        self.levels.get(usize::from(number))
    }

    /// Every table with its level, level 0 first.
    pub fn tables(&self) -> impl Iterator<Item = (u8, &Arc<TableHandle>)> {
        (0u8..)
            .zip(&self.levels)
            .flat_map(|(number, level)| level.tables().iter().map(move |t| (number, t)))
    }

    /// How many tables there are.
    pub fn table_count(&self) -> usize {
        self.levels.iter().map(Level::len).sum()
    }

    /// Sum of the tables' sizes, in bytes.
    pub fn bytes(&self) -> u64 {
        self.levels.iter().fold(0, |sum, level| sum.saturating_add(level.bytes()))
    }

    /// Whether there is no table.
    pub fn is_empty(&self) -> bool {
        self.levels.iter().all(Level::is_empty)
    }

    /// The level that table `number` is in.
    pub fn level_of(&self, number: FileNumber) -> Option<u8> {
        self.tables().find(|(_, table)| table.number() == number).map(|(level, _)| level)
    }

    /// The handle of table `number`.
    pub fn table(&self, number: FileNumber) -> Option<&Arc<TableHandle>> {
        self.tables().map(|(_, table)| table).find(|table| table.number() == number)
    }

    /// The deepest level that has a table, or `None` in an empty tree.
    pub fn deepest(&self) -> Option<u8> {
        (0u8..).zip(&self.levels).filter(|(_, level)| !level.is_empty()).map(|(number, _)| number).last()
    }

    /// Whether some table in a level below `level` (with a greater number) may hold a key inside `bounds`.
    pub fn overlaps_below(&self, level: u8, bounds: &KeyBounds) -> bool {
        self.levels.iter().skip(usize::from(level) + 1).any(|l| l.overlapping(bounds).next().is_some())
    }
}
