//! Read-triggered flushes and compactions: a memtable at rest is flushed, and a level 0 at rest merged, once reads have spent
//! about as much time in them as that takes.
//!
//! Where nobody writes any more, sizes and depths ask for nothing, and each read pays for ever for what the last writes have
//! left in memory and in level 0. Whether there will be enough reads to be worth a merge nobody knows; who waits until they
//! have cost as much has spent at most a small multiple of what was best (the ski rental of Karlin, Manasse, Rudolph and Sleator,
//! *Competitive Snoopy Caching*, Algorithmica 3, 1988). LevelDB's seek compactions and Pebble's read-triggered ones go by
//! counts of tables looked into in vain; here the count is of time.
//!
//! Everything is counted in bytes: those that a merge would have written meanwhile. Reads are counted by keyspace where it costs
//! them little, and weighed once a second against the shape that the tree has then. However much they pay, no more is written
//! for each byte that was new than by a step from level to level.

use std::collections::BTreeMap;

use esker_base::event::SealReason;
use esker_base::sync::Mutex;
use esker_base::{FileNumber, KeyspaceId, Result};
use esker_compaction::{Load, base_level};
use esker_manifest::Tree;

use crate::core::Core;
use crate::jobs::load;
use crate::superversion::SuperVersion;
use crate::table_io;

/// Bytes that a merge writes, at 5 ns each, in the time in which a get looks into a memtable in vain (0.2 µs), and into a
/// run of level 0, whose filter mostly answers (0.075 µs).
const GET_OF_MEMTABLE_BYTES: u64 = 40;
const GET_OF_LEVEL0_BYTES: u64 = 15;
/// Of a seek's look into either (0.7 µs), and of a walk that goes there for a row or a few, and back (0.18 µs).
const SEEK_BYTES: u64 = 140;
const VISIT_BYTES: u64 = 36;
/// Of what a flush and a merge take however little they write: syncs, above all (5 ms).
const JOB_BYTES: u64 = 1 << 20;

/// Once a second the upkeep job looks how much was written. The database rests if, for [`QUIET_LOOKS`] looks in a row, it
/// would have taken at least [`LOOKS_TO_DOUBLE`] looks at that rate to double the memtable or to fill one [`QUIET_SHARE`]th
/// of a full one, whichever is sooner.
const LOOKS_TO_DOUBLE: u64 = 60;
const QUIET_SHARE: u64 = 16;
const QUIET_LOOKS: u32 = 5;
/// A memtable is not worth a table of its own below a part of its full size: reads find it in the processor's caches.
const WORTH_FLUSHING: u64 = 64;

/// Reads of one keyspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reads {
    /// Gets that looked into tables.
    pub(crate) gets_of_tables: u64,
    /// Seeks in memtables, and in runs of level 0.
    pub(crate) memtable_seeks: u64,
    pub(crate) level0_seeks: u64,
    /// How many times a walk went to rows of a memtable, and of level 0.
    pub(crate) memtable_visits: u64,
    pub(crate) level0_visits: u64,
}

impl Reads {
    /// Add `more`, so many times.
    fn add(&mut self, more: Reads, times: u64) {
        self.gets_of_tables += more.gets_of_tables * times;
        self.memtable_seeks += more.memtable_seeks * times;
        self.level0_seeks += more.level0_seeks * times;
        self.memtable_visits += more.memtable_visits * times;
        self.level0_visits += more.level0_visits * times;
    }
}

/// What readers tell, and what they have paid for.
#[derive(Debug, Default)]
pub(crate) struct ReadCosts {
    /// Since they were last weighed.
    counted: Mutex<BTreeMap<KeyspaceId, Reads>>,
    /// What became of the payments for merges of level 0.
    merges: Mutex<BTreeMap<KeyspaceId, Merge>>,
}

/// A merge of level 0 that reads have paid for.
#[derive(Clone, Copy, Debug)]
enum Merge {
    /// It is due as long as there is a table up to this one.
    Paid(FileNumber),
    /// It has failed. As long as this is level 0's newest table no other is tried.
    Failed(FileNumber),
}

impl ReadCosts {
    /// Up to which table of level 0 reads have paid for a merge, by keyspace.
    pub(crate) fn paid(&self) -> BTreeMap<KeyspaceId, FileNumber> {
        let merges = self.merges.lock();
        let paid = |(keyspace, merge): (&KeyspaceId, &Merge)| match merge {
            Merge::Paid(newest) => Some((*keyspace, *newest)),
            Merge::Failed(_) => None,
        };
        merges.iter().filter_map(paid).collect()
    }

    /// Reads have paid for a merge of the level 0 of `keyspace`, whose newest table is this. Not if that merge has failed.
    fn pay(&self, keyspace: KeyspaceId, newest: FileNumber) {
        let mut merges = self.merges.lock();
        if !matches!(merges.get(&keyspace), Some(Merge::Failed(table)) if *table == newest) {
            merges.insert(keyspace, Merge::Paid(newest));
        }
    }

    /// A merge of the level 0 of `keyspace` that was paid for has failed.
    pub(crate) fn refuse(&self, keyspace: KeyspaceId) {
        if let Some(merge) = self.merges.lock().get_mut(&keyspace)
            && let Merge::Paid(newest) = *merge
        {
            *merge = Merge::Failed(newest);
        }
    }
}

impl Core {
    /// Count `reads` of `keyspace`, so many times, if they read what others read now: what is flushed or merged does those of
    /// an older state no good. Not if somebody else is about to count: an estimate is worth no waiting.
    #[cold]
    pub(crate) fn count_reads(
        &self,
        keyspace: KeyspaceId,
        log: Option<FileNumber>,
        reads: Reads,
        times: u64,
    ) {
        if self.options.compact_for_reads
            && !self.options.read_only
            && log.is_none_or(|log| log == self.current.load().active.log)
            && let Some(mut counted) = self.read_costs.counted.try_lock()
        {
            counted.entry(keyspace).or_default().add(reads, times);
        }
    }
}

/// The upkeep job's accounts: what reads have paid towards a flush and towards merges, in bytes.
#[derive(Debug, Default)]
pub(crate) struct ReadAccounts {
    /// What users had written by the last look, in bytes.
    user_bytes: u64,
    /// At how many looks in a row hardly anything had been.
    quiet: u32,
    memtable: u64,
    trees: BTreeMap<KeyspaceId, u64>,
    /// The log of a memtable that could not be sealed. No other try is made with it.
    failed: Option<FileNumber>,
}

impl ReadAccounts {
    /// Weigh what was read since the last call, and have done what it has paid for: the memtable is sealed here, and the next
    /// pick of a compaction finds level 0 due. Err if sealing fails, which is not tried again before others have sealed it.
    pub(crate) fn weigh(&mut self, core: &Core) -> Result<()> {
        let reads = std::mem::take(&mut *core.read_costs.counted.lock());
        let user_bytes = core.metrics.user_bytes();
        let written = user_bytes.saturating_sub(std::mem::replace(&mut self.user_bytes, user_bytes));
        let current = core.current.load_full();
        let bytes = current.active.memtable.live_bytes();
        let quiet = bytes.min(core.options.memtable_bytes_max / QUIET_SHARE);
        if written.saturating_mul(LOOKS_TO_DOUBLE) > quiet {
            (self.quiet, self.memtable) = (0, 0);
            self.trees.clear();
            core.read_costs.merges.lock().retain(|_, merge| matches!(merge, Merge::Failed(_)));
            return Ok(());
        }
        self.quiet = self.quiet.saturating_add(1);
        if self.quiet < QUIET_LOOKS || reads.is_empty() {
            return Ok(());
        }
        self.credit_trees(core, &current, &reads);
        let log = current.active.log;
        if self.failed != Some(log) && self.credit_memtable(core, &current, &reads) {
            self.memtable = 0;
            core.seal(SealReason::Reads, Some(log)).inspect_err(|_| self.failed = Some(log))?;
        }
        Ok(())
    }

    /// Credit `reads` to the level 0 of their keyspaces where that rests; where it is paid for, it is due.
    fn credit_trees(&mut self, core: &Core, current: &SuperVersion, reads: &BTreeMap<KeyspaceId, Reads>) {
        self.trees.retain(|keyspace, _| current.version.keyspace(*keyspace).is_some());
        core.read_costs.merges.lock().retain(|keyspace, _| current.version.keyspace(*keyspace).is_some());
        for (keyspace, reads) in reads {
            let Some(state) = current.version.keyspace(*keyspace) else { continue };
            let tree = &state.tree;
            let (level0, depth) = (&tree.levels[0], tree.levels[0].depth() as u64);
            let base = base_level_of(core, tree);
            // One of the runs stays, whatever is merged.
            let spare = if tree.levels[base].is_empty() { depth.saturating_sub(1) } else { depth };
            if spare == 0 {
                self.trees.remove(keyspace);
                core.read_costs.merges.lock().remove(keyspace);
                continue;
            }
            if load(core, tree, None) != Load::Rested {
                continue;
            }
            let paid = self.trees.entry(*keyspace).or_default();
            let walks = reads.level0_seeks * SEEK_BYTES + reads.level0_visits * VISIT_BYTES;
            *paid += spare * reads.gets_of_tables * GET_OF_LEVEL0_BYTES + walks * spare / depth;
            let met = tree.levels[base].tables().iter();
            let met = met.filter(|below| level0.overlapping(&below.meta.bounds).next().is_some());
            let written = level0.bytes() + met.map(|table| table.meta.file_bytes).sum::<u64>();
            // Part of a merge would be due sooner or later all the same.
            let price = written / 2 + JOB_BYTES;
            *paid = price.min(*paid);
            if *paid == price && is_worth_writing(core, level0.bytes(), written) {
                *paid = 0;
                // The newest table is the one with the greatest number, whatever its place.
                if let Some(newest) = level0.tables().iter().map(|table| table.number()).max() {
                    core.read_costs.pay(*keyspace, newest);
                }
            }
        }
    }

    /// Credit `reads` to the memtable; whether they have paid for its flush, and for what that brings nearer: a merge of level 0
    /// after so many flushes.
    fn credit_memtable(
        &mut self,
        core: &Core,
        current: &SuperVersion,
        reads: &BTreeMap<KeyspaceId, Reads>,
    ) -> bool {
        let memtable = &current.active.memtable;
        let bytes = memtable.live_bytes();
        if !current.sealed.is_empty() || bytes < core.options.memtable_bytes_max / WORTH_FLUSHING {
            self.memtable = 0;
            return false;
        }
        let (mut merged, mut jobs) = (0, 0);
        for keyspace in memtable.keyspaces() {
            let Some(state) = current.version.keyspace(keyspace) else { continue };
            jobs += JOB_BYTES;
            merged +=
                state.tree.levels[0].bytes() + state.tree.levels[base_level_of(core, &state.tree)].bytes();
            let Some(reads) = reads.get(&keyspace) else { continue };
            // A get that finds its row in the memtable looks into one source before and after.
            let walks = reads.memtable_seeks * SEEK_BYTES + reads.memtable_visits * VISIT_BYTES;
            self.memtable += reads.gets_of_tables * GET_OF_MEMTABLE_BYTES + walks;
        }
        let merged = merged / core.options.l0_tables_trigger as u64;
        // A flush takes half as long as a merge of as much.
        self.memtable >= bytes / 2 + merged + jobs && is_worth_writing(core, bytes, bytes + merged)
    }
}

/// The level that level 0 is merged into.
fn base_level_of(core: &Core, tree: &Tree) -> usize {
    usize::from(base_level(tree, &table_io::compaction_settings(&core.options)))
}

/// Whether it may be worth it to write so many bytes for `new` ones, as far as the device goes: no more than a step from
/// level to level writes for each.
fn is_worth_writing(core: &Core, new: u64, written: u64) -> bool {
    written <= new.saturating_mul(1 + core.options.level_fanout)
}
