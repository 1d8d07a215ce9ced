//! Which tables a get asks, and prefetches of what it will look at there.
//!
//! Tables' filters lie far apart in memory, and in a large database each lookup in one is a cache miss. So a get that may come
//! to several tables prefetches their filter lines first. While those come it begins to search the index of the last table,
//! which has most keys, so that these misses overlap. Several gets at a time take these steps side by side, and then one more:
//! the block that the last table may have the key in is prefetched.

use esker_base::SeqNo;
use esker_base::checksum::key_hash;
use esker_manifest::{SortedRun, TableHandle, Tree};
use esker_sstable::{Near, TableReader};

/// A get finds the tables of this many runs before it searches the first. There are more runs only while writes come faster
/// than compactions follow.
const RUNS: usize = 16;

/// By run, the tables of the first runs of a tree that may hold a key.
type ByRun<'a> = [Option<&'a TableHandle>; RUNS];

/// The tables that a get asks.
pub(super) struct Tables<'a> {
    by_run: ByRun<'a>,
    /// Where the key is in one of them, and the number of that one's run.
    near: Option<(usize, Near)>,
}

impl<'a> Tables<'a> {
    /// Those of `key`, whose hash is `hash`. What is to be read there is prefetched.
    #[inline]
    pub(super) fn of(tree: &'a Tree, key: &[u8], hash: u64) -> Tables<'a> {
        let (by_run, last) = find(tree, key, hash);
        Tables { by_run, near: last.map(|(number, reader)| (number, reader.approach(key))) }
    }

    /// The table of `run`, the one with this number, that may hold `key`.
    #[inline]
    pub(super) fn of_run(&self, number: usize, run: &'a SortedRun, key: &[u8]) -> Option<&'a TableHandle> {
        match self.by_run.get(number) {
            Some(table) => *table,
            None => run.find(key).map(|table| &**table),
        }
    }

    /// Where the key is in the table of run `number`, if that is known.
    #[inline]
    pub(super) fn near(&self, number: usize) -> Option<Near> {
        self.near.filter(|(run, _)| *run == number).map(|(_, near)| near)
    }
}

/// The tables that may hold `key`, whose hash is `hash`, and the last of them that is open, with the number of its run. Their
/// filters are prefetched.
#[inline]
fn find<'a>(tree: &'a Tree, key: &[u8], hash: u64) -> (ByRun<'a>, Option<(usize, &'a TableReader)>) {
    let mut by_run = [None; RUNS];
    let mut last = None;
    let mut number = 0;
    for level in &tree.levels {
        for run in level.runs() {
            let Some(place) = by_run.get_mut(number) else { break };
            if let Some(table) = run.find(key) {
                if let Some(reader) = table.opened() {
                    reader.prefetch_filter(hash);
                    reader.prefetch_index();
                    last = Some((number, &**reader));
                }
                *place = Some(&**table);
            }
            number += 1;
        }
    }
    (by_run, last)
}

/// What is known ahead of one of several gets.
pub(super) struct Ahead<'a> {
    pub(super) key: &'a [u8],
    pub(super) hash: u64,
    pub(super) tables: Tables<'a>,
    /// The last table that is open, and the number of its run.
    last: Option<(usize, &'a TableReader)>,
}

/// Fill `ahead` with what is known of gets of `keys` at `read_seqno`. All that they will look at is prefetched, but for tables
/// that are not open yet.
pub(super) fn look_ahead<'a>(
    tree: &'a Tree,
    keys: impl Iterator<Item = &'a [u8]>,
    read_seqno: SeqNo,
    ahead: &mut Vec<Ahead<'a>>,
) {
    ahead.clear();
    ahead.extend(keys.map(|key| {
        let hash = key_hash(key);
        let (by_run, last) = find(tree, key, hash);
        Ahead { key, hash, tables: Tables { by_run, near: None }, last }
    }));
    for Ahead { key, hash, tables, last } in &mut *ahead {
        let holder = last.filter(|(_, reader)| reader.may_contain(*hash));
        tables.near = holder.map(|(number, reader)| (number, reader.approach(key)));
    }
    for Ahead { key, tables, last, .. } in ahead {
        if let Some(((_, reader), (_, near))) = last.zip(tables.near) {
            reader.prefetch_near(near, key, read_seqno);
        }
    }
}
