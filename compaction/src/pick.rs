//! What to compact next: a pure function of a tree's shape.
//!
//! In order:
//!
//! 1. The level furthest beyond its target: level 0 into the base level (`level0`), or a part of a sorted
//!    level into the next (`sorted`). Level 0 has no precedence: if it had, under lasting load nothing
//!    would ever leave the base level, and each merge of level 0 would rewrite a larger base level than the
//!    one before.
//! 2. Garbage: tables dense with tombstones or hidden versions, although every level is in size
//!    (`garbage`). So an idle database full of deleted data, or of data that only a dropped snapshot saw,
//!    cleans itself.
//! 3. Blob files full of dead values (`values`).
//!
//! With several trees, a level that is beyond its target in any of them comes before what is merely worth
//! cleaning up in another.
//!
//! A candidate that would touch what a running job uses is passed over for the next best.
//!
//! Two rules hold for every plan, and keep newer data above older for every key:
//!
//! - A level-0 table goes down only together with all older level-0 tables it overlaps.
//! - The plan's output level holds no table inside the plan's bounds that is not an input.

mod garbage;
mod level0;
mod sorted;
mod values;

#[cfg(test)]
mod tests;

use std::cell::OnceCell;
use std::sync::Arc;

use esker_base::table_meta::KeyBounds;
use esker_base::{FileNumber, KeyspaceId, SeqNo};
use esker_manifest::{TableHandle, Tree};

use crate::busy::Busy;
use crate::collect::to_collect;
use crate::plan::{Plan, Reason, hull};
use crate::score::{Score, score};
use crate::settings::{Load, Settings};

/// A trivial move takes at most this many tables: it is one manifest edit.
const MOVED_TABLES_MAX: usize = 256;

/// The compaction of `tree` that is worth most now, or `None` if there is nothing to do (or nothing that
/// `busy` allows). Every number up to `oldest_snapshot` is visible to every reader: tombstones and hidden
/// versions above it cannot be cleaned up yet, so they are no reason for a compaction.
///
/// Carrying a plan out and asking again ends: with no writes, after finitely many plans there is none.
pub fn pick(
    tree: &Tree,
    keyspace: KeyspaceId,
    settings: &Settings,
    busy: &Busy,
    oldest_snapshot: SeqNo,
    load: Load,
) -> Option<Plan> {
    let candidate = Candidate { keyspace, tree, load, may_clean_up: true };
    pick_among([candidate], settings, busy, oldest_snapshot)
}

/// The tree of a keyspace, for [`pick_among`].
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// The keyspace.
    pub keyspace: KeyspaceId,
    /// Its tree.
    pub tree: &'a Tree,
    /// The load on its level 0.
    pub load: Load,
    /// Whether it may be merged for the sake of its garbage, tables' or blob files', alone.
    pub may_clean_up: bool,
}

/// The compaction of these trees that is worth most now: [`pick`] for several keyspaces at once.
pub fn pick_among<'a>(
    candidates: impl IntoIterator<Item = Candidate<'a>>,
    settings: &Settings,
    busy: &Busy,
    oldest_snapshot: SeqNo,
) -> Option<Plan> {
    let scored = |candidate: Candidate<'a>| Scored {
        candidate,
        score: score(candidate.tree, settings, candidate.load),
    };
    let mut trees: Vec<Scored<'_>> = candidates.into_iter().map(scored).collect();
    trees.sort_by(|a, b| b.score.greatest().total_cmp(&a.score.greatest()));
    let urgent = trees.iter().take_while(|scored| scored.score.greatest() >= 1.0);
    let plan = urgent.map(|scored| scored.picker(settings, busy)).find_map(|picker| picker.full_level());
    plan.or_else(|| {
        let dirty = trees.iter().filter(|scored| scored.candidate.may_clean_up);
        let mut pickers = dirty.map(|scored| scored.picker(settings, busy));
        pickers.find_map(|picker| picker.garbage(oldest_snapshot).or_else(|| picker.values()))
    })
}

struct Scored<'a> {
    candidate: Candidate<'a>,
    score: Score,
}

impl<'a> Scored<'a> {
    fn picker(&'a self, settings: &'a Settings, busy: &'a Busy) -> Picker<'a> {
        let Candidate { keyspace, tree, load, .. } = self.candidate;
        Picker::new(tree, keyspace, settings, busy, load, &self.score)
    }
}

/// What every picker looks at.
pub(crate) struct Picker<'a> {
    pub(crate) tree: &'a Tree,
    pub(crate) keyspace: KeyspaceId,
    pub(crate) settings: &'a Settings,
    pub(crate) busy: &'a Busy,
    pub(crate) load: Load,
    pub(crate) score: &'a Score,
    /// The blob files that are to be collected, the deadest first.
    pub(crate) collect: Vec<FileNumber>,
    /// What level 0 is made of; worked out at the first call that asks for it.
    level0: OnceCell<level0::Parts>,
}

type Tables = Vec<Arc<TableHandle>>;

impl<'a> Picker<'a> {
    pub(crate) fn new(
        tree: &'a Tree,
        keyspace: KeyspaceId,
        settings: &'a Settings,
        busy: &'a Busy,
        load: Load,
        score: &'a Score,
    ) -> Self {
        let collect = to_collect(tree, settings);
        Picker { tree, keyspace, settings, busy, load, score, collect, level0: OnceCell::new() }
    }
}

impl Picker<'_> {
    /// The level furthest beyond its target.
    fn full_level(&self) -> Option<Plan> {
        let scores = &self.score.levels;
        let mut full: Vec<u8> = (0u8..).zip(scores).filter(|(_, s)| **s >= 1.0).map(|(l, _)| l).collect();
        full.sort_by(|&a, &b| scores[usize::from(b)].total_cmp(&scores[usize::from(a)]));
        full.into_iter().find_map(|level| if level == 0 { self.level0() } else { self.sorted_level(level) })
    }

    pub(crate) fn level_tables(&self, level: u8) -> &[Arc<TableHandle>] {
        self.tree.level(level).map_or(&[], |level| level.tables())
    }

    /// The tables of `level` that overlap `bounds`.
    pub(crate) fn overlapping(&self, level: u8, bounds: &KeyBounds) -> Tables {
        let level = self.tree.level(level).into_iter();
        level.flat_map(|level| level.overlapping(bounds)).cloned().collect()
    }

    /// Whether running jobs leave `table` of `level` free to go to level `to`, or to be written anew if it is there, with
    /// what it overlaps there and nothing else. If they do not, there is no plan with it; if they do, there is
    /// none if they are in the way of what else comes along.
    pub(crate) fn is_free(&self, level: u8, table: &TableHandle, to: u8) -> bool {
        let is_free = |table: &TableHandle| {
            let bounds = &table.meta.bounds;
            !self.busy.uses(table.number()) && self.busy.leaves_way(self.keyspace, level, to, bounds)
        };
        let mut lower = self.tree.level(to).into_iter().flat_map(|to| to.overlapping(&table.meta.bounds));
        is_free(table) && lower.all(|lower| is_free(lower))
    }

    /// A plan, if running jobs allow it, with the blob files that it collects.
    pub(crate) fn plan(&self, inputs: Vec<(u8, Tables)>, output_level: u8, reason: Reason) -> Option<Plan> {
        let plan = Plan::new(self.tree, self.keyspace, self.settings, inputs, output_level, reason);
        self.busy.allows(&plan).then(|| Plan { collect: self.collected_by(&plan), ..plan })
    }

    /// Merge `upper` of `level` into `level + 1`, with whatever it overlaps there. More tables of `level`
    /// come along if they bring in no more of `level + 1`. The plan is a move if there is nothing to merge
    /// with.
    pub(crate) fn push_down(&self, level: u8, upper: Tables, reason: Reason) -> Option<Plan> {
        let bounds = hull(&upper)?;
        let lower = self.overlapping(level + 1, &bounds);
        if lower.is_empty() && upper.iter().all(|table| self.may_move(level + 1, table)) {
            return Some(self.plan(vec![(level, upper)], level + 1, reason)?.into_move());
        }
        let (upper, lower) = self.widen(level, upper, lower);
        self.plan(vec![(level, upper), (level + 1, lower)], level + 1, reason)
    }

    /// Add tables of `level` that lie inside what the job spans anyway, unless that grows `lower` or the
    /// job beyond its limit.
    fn widen(&self, level: u8, upper: Tables, lower: Tables) -> (Tables, Tables) {
        let Some(span) = hull(upper.iter().chain(&lower)) else { return (upper, lower) };
        let wider = self.overlapping(level, &span);
        let Some(wider_bounds) = hull(&wider) else { return (upper, lower) };
        let wider_lower = self.overlapping(level + 1, &wider_bounds);
        let fits = bytes(&wider) + bytes(&wider_lower) <= self.settings.job_bytes_max;
        let free = !wider.iter().any(|table| self.busy.uses(table.number()));
        if wider.len() > upper.len() && wider_lower.len() == lower.len() && fits && free {
            return (wider, lower);
        }
        (upper, lower)
    }

    /// Whether `table`, which overlaps nothing in level `to`, may go there as it is. It may not if its
    /// tombstones would come to a place where there is nothing for them to hide: writing the table anew
    /// drops them. It may not if it spans so much of the level below that moving it on from there would
    /// cost much: writing it anew cuts it.
    pub(crate) fn may_move(&self, to: u8, table: &TableHandle) -> bool {
        let meta = &table.meta;
        let tombstones = meta.point_tombstones + meta.range_tombstones > 0;
        if tombstones && !self.tree.overlaps_below(to, &meta.bounds) {
            return false;
        }
        bytes(&self.overlapping(to + 1, &meta.bounds)) <= self.settings.job_bytes_max
    }
}

/// Size of these tables together.
pub(crate) fn bytes(tables: &[Arc<TableHandle>]) -> u64 {
    tables.iter().map(|table| table.meta.file_bytes).sum()
}
