//! Which tables a get asks, and prefetches of what it will look at there.
//!
//! Tables' filters lie far apart in memory, and in a large database each lookup in one is a cache miss. So a get that may come
//! to several tables prefetches their filter lines first. While those come it begins to search the index of the last table,
//! which has most keys, so that these misses overlap. For several gets at a time more is prefetched, step by step for all of
//! them: first the filters, then the cache's slot of the block that the last table may have the key in, then that block.

use esker_base::SeqNo;
use esker_base::checksum::key_hash;
use esker_manifest::{Level, SortedRun, TableHandle, Tree};
use esker_sstable::{Near, TableReader};

/// A get finds the tables of this many runs before it searches the first. There are more runs only while writes come faster
/// than compactions follow.
const RUNS: usize = 16;

/// The tables of the first runs of a tree that may hold a key, by run.
pub(super) struct Tables<'a> {
    tables: [Option<&'a TableHandle>; RUNS],
    /// The number of the last of these runs whose table is open, and where the key is in it.
    last: Option<(usize, Near)>,
}

impl<'a> Tables<'a> {
    /// Those of `key`, whose hash is `hash`.
    #[inline]
    pub(super) fn of(tree: &'a Tree, key: &[u8], hash: u64) -> Tables<'a> {
        let mut tables = [None; RUNS];
        let mut last = None;
        let mut number = 0;
        for level in &tree.levels {
            for run in level.runs() {
                let Some(place) = tables.get_mut(number) else { break };
                if let Some(table) = run.find(key) {
                    if let Some(reader) = table.opened() {
                        reader.prefetch_filter(hash);
                        reader.prefetch_index();
                        last = Some((number, reader));
                    }
                    *place = Some(&**table);
                }
                number += 1;
            }
        }
        Tables { tables, last: last.map(|(number, reader)| (number, reader.approach(key))) }
    }

    /// The table of `run`, the one with this number, that may hold `key`.
    #[inline]
    pub(super) fn of_run(&self, number: usize, run: &'a SortedRun, key: &[u8]) -> Option<&'a TableHandle> {
        match self.tables.get(number) {
            Some(table) => *table,
            None => run.find(key).map(|table| &**table),
        }
    }

    /// Where the key is in the table of run `number`, if that is known.
    #[inline]
    pub(super) fn near(&self, number: usize) -> Option<Near> {
        self.last.filter(|(last, _)| *last == number).map(|(_, near)| near)
    }
}

/// Prefetch what gets of `keys` at `read_seqno` will look at. Tables that are not open yet are left out.
pub(super) fn prefetch_gets(tree: &Tree, keys: &[&[u8]], read_seqno: SeqNo) {
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
        asked.into_iter().map(|(key, _, reader)| (reader, reader.locate(key, read_seqno))).collect();
    for (reader, located) in located {
        reader.prefetch_located(located);
    }
}
