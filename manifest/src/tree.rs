//! The tree of one keyspace: seven levels, level 0 the newest.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use esker_base::FileNumber;
use esker_base::table_meta::KeyBounds;

use crate::blob_handle::BlobHandle;
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
    /// What is live in each blob file; worked out at the first call that asks for it.
    blobs: OnceLock<Box<[BlobUse]>>,
}

/// A blob file of a tree, and what its tables refer to in it.
#[derive(Clone, Debug)]
pub struct BlobUse {
    /// The file.
    pub handle: Arc<BlobHandle>,
    /// Values that a row refers to.
    pub live_values: u64,
    /// Their bytes.
    pub live_bytes: u64,
}

impl BlobUse {
    /// Bytes of values that no row refers to.
    pub fn dead_bytes(&self) -> u64 {
        self.handle.meta.value_bytes.saturating_sub(self.live_bytes)
    }
}

impl Default for Tree {
    /// A tree without tables.
    fn default() -> Self {
        Tree::of(std::array::from_fn(|level| Level::of(Vec::new(), level > 0)))
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
        Tree::of(levels)
    }

    /// A tree of these levels.
    pub(crate) fn of(levels: [Level; LEVELS]) -> Tree {
        Tree { levels, blobs: OnceLock::new() }
    }

    /// The blob files that its tables refer to, ascending by number. The first call costs the number of their
    /// references.
    pub fn blobs(&self) -> &[BlobUse] {
        self.blobs.get_or_init(|| {
            let mut blobs: BTreeMap<FileNumber, BlobUse> = BTreeMap::new();
            for (_, table) in self.tables() {
                for (handle, part) in table.blobs().iter().zip(&table.meta.blobs) {
                    let blob = blobs.entry(part.number).or_insert_with(|| BlobUse {
                        handle: Arc::clone(handle),
                        live_values: 0,
                        live_bytes: 0,
                    });
                    // A hostile manifest may count too much.
                    blob.live_values = blob.live_values.saturating_add(part.values);
                    blob.live_bytes = blob.live_bytes.saturating_add(part.value_bytes);
                }
            }
            blobs.into_values().collect()
        })
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
