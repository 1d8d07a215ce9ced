//! Words to the processor about what gets will look at. Nothing follows from them but that it is there earlier.
//!
//! Tables' filters lie far apart in memory, and in a large database each look at one waits for memory. So a get that may come
//! to several tables asks for the lines of all of them first. Several gets ask for more: step by step for all of them,
//! first the filters, then where the block is cached that the last table may have, then that block.

use esker_base::SeqNo;
use esker_base::checksum::key_hash;
use esker_manifest::{Level, SortedRun, TableHandle, Tree};
use esker_sstable::TableReader;

/// Of so many runs a get knows the tables ahead. There are more only while writes come faster than compactions follow.
const RUNS: usize = 16;

/// The tables of the first runs of a tree that may hold a key, by run.
pub(super) struct Tables<'a>([Option<&'a TableHandle>; RUNS]);

impl<'a> Tables<'a> {
    /// Those of `key`, whose hash is `hash`. What their filters will be asked is on its way.
    #[inline]
    pub(super) fn of(tree: &'a Tree, key: &[u8], hash: u64) -> Tables<'a> {
        let mut tables = [None; RUNS];
        let mut number = 0;
        for level in &tree.levels {
            for run in level.runs() {
                let Some(place) = tables.get_mut(number) else { break };
                if let Some(table) = run.find(key) {
                    if let Some(reader) = table.opened() {
                        reader.prefetch_filter(hash);
                        reader.prefetch_index();
                    }
                    *place = Some(&**table);
                }
                number += 1;
            }
        }
        Tables(tables)
    }

    /// The table of `run`, the one with this number, that may hold `key`.
    #[inline]
    pub(super) fn of_run(&self, number: usize, run: &'a SortedRun, key: &[u8]) -> Option<&'a TableHandle> {
        match self.0.get(number) {
            Some(table) => *table,
            None => run.find(key).map(|table| &**table),
        }
    }
}

/// Ask for what gets of `keys` will look at, at or below `upper`. A table that was not opened yet is left alone.
pub(crate) fn expect_gets(tree: &Tree, keys: &[&[u8]], upper: SeqNo) {
    let runs = || tree.levels.iter().flat_map(Level::runs);
    let mut asked: Vec<(&[u8], u64, &TableReader)> = Vec::with_capacity(keys.len());
    for key in keys {
        let last = runs().rev().find_map(|run| run.find(key));
        if let Some(reader) = last.and_then(|table| table.opened()) {
            let hash = key_hash(key);
            reader.prefetch_filter(hash);
            reader.prefetch_index();
            asked.push((key, hash, reader));
        }
    }
    asked.retain(|(_, hash, reader)| reader.may_contain(*hash));
    let located: Vec<_> =
        asked.into_iter().map(|(key, _, reader)| (reader, reader.locate(key, upper))).collect();
    for (reader, located) in located {
        reader.expect(located);
    }
}
