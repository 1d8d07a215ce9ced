//! How full each level is, measured against targets that follow from the data.
//!
//! The last level has no target: it is as large as the data. Every level above is to be `fanout` times
//! smaller than the next, so that all of them together add about 1/(`fanout` − 1) to the space the data
//! takes. The *base level*, into which level 0 is compacted, is the highest level to which this gives a
//! size worth having: while the data is small, that is the last level itself, and everything above it stays
//! empty. This is RocksDB's `level_compaction_dynamic_level_bytes`, except for which size is worth having:
//! there, a level opens as soon as the one below is larger than the base level may be; here, when its own
//! target has grown to `base_bytes`. A level smaller than what level 0 hands down would be written on to
//! the next one at once, and readers would have one more level to look into.

use esker_manifest::{LEVELS, Tree};

use crate::settings::{Load, Settings};

#[cfg(test)]
mod tests;

/// How urgent compaction is, level by level. A score of 1 or more asks for a compaction.
#[derive(Clone, Debug, PartialEq)]
pub struct Score {
    /// The level that level 0 is compacted into, from 1 on.
    pub base_level: u8,
    /// Target size of each level in bytes; 0 for level 0 and the levels above the base level,
    /// `u64::MAX` for the last.
    pub targets: [u64; LEVELS],
    /// Level 0: depth over trigger, and at least 1 where reads have paid for a merge. Others: bytes over target. The last level's is 0.
    pub levels: [f64; LEVELS],
    /// The most level-0 tables that cover one key.
    pub l0_depth: usize,
    /// Tables in level 0.
    pub l0_tables: usize,
    /// Bytes that compactions will have to read until every level is within its target, estimated.
    /// Writers outrun compaction if it grows. (Nobody is slowed by it: that goes by level 0's depth.)
    pub pending_bytes: u64,
}

impl Score {
    /// The greatest score of any level.
    pub fn greatest(&self) -> f64 {
        self.levels.iter().copied().fold(0.0, f64::max)
    }
}

/// Score `tree` under `load`.
///
/// ```
/// use esker_compaction::{Load, Settings, score};
/// use esker_manifest::Tree;
/// let empty = score(&Tree::default(), &Settings::default(), Load::Rested);
/// assert_eq!((empty.base_level, empty.pending_bytes), (6, 0));
/// assert!(empty.greatest() < 1.0);
/// ```
pub fn score(tree: &Tree, settings: &Settings, load: Load) -> Score {
    let (base_level, targets, drain) = targets(tree, settings);
    let l0 = &tree.levels[0];
    let l0_depth = l0.depth();
    let mut levels = [0.0; LEVELS];
    levels[0] = l0_score(l0_depth, l0.len(), l0.bytes(), settings, load);
    for level in usize::from(base_level)..LEVELS - 1 {
        levels[level] = tree.levels[level].bytes() as f64 / targets[level] as f64;
    }
    if let Some(level) = drain {
        levels[level] = levels[level].max(1.0);
    }
    let pending_bytes = pending_bytes(tree, settings, base_level, &targets, levels[0]);
    Score { base_level, targets, levels, l0_depth, l0_tables: l0.len(), pending_bytes }
}

/// The level that level 0 of `tree` is merged into, from 1 on. It may be empty.
///
/// ```
/// use esker_compaction::{Settings, base_level};
/// assert_eq!(base_level(&esker_manifest::Tree::default(), &Settings::default()), 6);
/// ```
pub fn base_level(tree: &Tree, settings: &Settings) -> u8 {
    targets(tree, settings).0
}

/// The score of level 0. Its depth decides; but tables that overlap little never get deep, so their number
/// and bytes count a little, too.
fn l0_score(depth: usize, tables: usize, bytes: u64, settings: &Settings, load: Load) -> f64 {
    let trigger = settings.l0_trigger(load) as f64;
    let by_depth = depth as f64 / trigger;
    let by_count = tables as f64 / (16.0 * trigger);
    let by_bytes = bytes as f64 / (trigger * settings.memtable_bytes as f64);
    let score = by_depth.max(by_count).max(by_bytes);
    // Level 0 is due then, but no more urgent than it was.
    if load == Load::Read && depth > 0 { score.max(1.0) } else { score }
}

/// The base level, each level's target, and the level to be emptied because the data has shrunk too
/// much to need it.
fn targets(tree: &Tree, settings: &Settings) -> (u8, [u64; LEVELS], Option<usize>) {
    let last = LEVELS - 1;
    let sorted = 1..LEVELS;
    let first = sorted.clone().find(|&level| !tree.levels[level].is_empty()).unwrap_or(last);
    let largest = sorted.map(|level| tree.levels[level].bytes()).max().unwrap_or(0);

    // The size that level `first` should have, seen from the largest.
    let mut ideal = (first..last).fold(largest, |size, _| size / settings.fanout);
    let drain = (first < last && ideal < settings.base_bytes / 2).then_some(first);
    let mut base = first;
    while base > 1 && ideal / settings.fanout > settings.base_bytes {
        base -= 1;
        ideal /= settings.fanout;
    }

    let mut targets = [0; LEVELS];
    let mut target = ideal.max(settings.base_bytes);
    for level in &mut targets[base..last] {
        *level = target;
        target = target.saturating_mul(settings.fanout);
    }
    targets[last] = u64::MAX;
    let base = u8::try_from(base).expect("levels are few");
    (base, targets, drain)
}

/// What must be read until all levels are in size: each level's excess, together with the share of the
/// next level that it overlaps, and so on down.
fn pending_bytes(
    tree: &Tree,
    settings: &Settings,
    base: u8,
    targets: &[u64; LEVELS],
    l0_score: f64,
) -> u64 {
    let bytes = |level: usize| tree.levels[level].bytes();
    let base = usize::from(base);
    let (mut pending, mut coming) = (0u64, 0u64);
    if l0_score >= 1.0 {
        coming = bytes(0);
        pending = coming + bytes(base).min(coming.saturating_mul(settings.fanout));
    }
    for (level, target) in targets.iter().enumerate().take(LEVELS - 1).skip(base) {
        let full = bytes(level) + coming;
        let excess = full.saturating_sub(*target);
        if excess == 0 {
            break;
        }
        let overlap = (bytes(level + 1) as f64 / full as f64).min(settings.fanout as f64);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "an estimate, not negative"
        )]
        let read = (excess as f64 * (1.0 + overlap)) as u64;
        pending = pending.saturating_add(read);
        coming = excess;
    }
    pending
}
