//! Which pending pieces a crash leaves: the policies.

use std::collections::BTreeSet;

use super::content::{PAGE_BYTES, SECTOR_BYTES};
use super::model::Model;

/// How much of what was not synced a power loss leaves. Each is a different way in which a disk, a
/// cache or a filesystem may keep the contract of [`crate::fs`] and no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Policy {
    /// Nothing but what was synced.
    Strict,
    /// All of it: what a process kill leaves.
    Everything,
    /// Of each file and directory a prefix of its changes, each of another length.
    PerFilePrefix,
    /// Each sector of each write, each length and each name, independently of the others, at odds drawn
    /// from the seed.
    RandomSectors,
    /// A prefix of all changes in the order of the calls, the last write of which is torn: only some
    /// of its sectors are there.
    SectorTear,
    /// Of each file and directory all or nothing, so that later calls survive earlier ones.
    CrossFileReorder,
    /// Names and lengths without the bytes, which read as zeros.
    MetadataBeforeData,
    /// The bytes without the names and lengths.
    DataBeforeMetadata,
    /// Names and lengths with some of the bytes; new pages show what freed blocks held.
    StaleBlocks,
}

impl Policy {
    /// All of them.
    pub const ALL: [Policy; 9] = [
        Policy::Strict,
        Policy::Everything,
        Policy::PerFilePrefix,
        Policy::RandomSectors,
        Policy::SectorTear,
        Policy::CrossFileReorder,
        Policy::MetadataBeforeData,
        Policy::DataBeforeMetadata,
        Policy::StaleBlocks,
    ];

    /// Whether the seed makes a difference.
    pub fn is_seeded(self) -> bool {
        !matches!(
            self,
            Policy::Strict | Policy::Everything | Policy::MetadataBeforeData | Policy::DataBeforeMetadata
        )
    }
}

/// Says of each pending piece whether it reached the disk. Asked in one fixed order: directories,
/// then files, by number; in each its changes in order; of each change the length, then the sectors.
pub(super) trait Choice {
    /// The next file or directory has `changes` pending changes; `nth_call` returns the call that made
    /// each.
    fn begin(&mut self, changes: usize, nth_call: &dyn Fn(usize) -> u64);
    /// Whether the sector as call `call` left it is there.
    fn data(&mut self, call: u64, sector: u64) -> bool;
    /// Whether the length is there that call `call` set.
    fn length(&mut self, call: u64) -> bool;
    /// Whether the change of a directory is there that call `call` made.
    fn name(&mut self, call: u64) -> bool;
}

/// All of it.
pub(super) struct Everything;

impl Choice for Everything {
    fn begin(&mut self, _changes: usize, _nth_call: &dyn Fn(usize) -> u64) {}
    fn data(&mut self, _call: u64, _sector: u64) -> bool {
        true
    }
    fn length(&mut self, _call: u64) -> bool {
        true
    }
    fn name(&mut self, _call: u64) -> bool {
        true
    }
}

/// The pieces that a policy takes.
pub(super) struct Drawn {
    policy: Policy,
    random: fastrand::Rng,
    /// Of 8 pieces this many are taken, where each is drawn by itself.
    odds: u8,
    /// Calls before this one are taken, where a prefix is.
    limit: u64,
    /// The sectors taken of the torn write at `limit`.
    tear: Tear,
}

/// Which sectors of a torn write are there, counted from its first.
#[derive(Clone, Copy)]
enum Tear {
    Before(u64),
    From(u64),
    Scattered,
}

impl Drawn {
    pub(super) fn new(model: &Model, policy: Policy, seed: u64) -> Drawn {
        // The policies draw from different streams of the same seed.
        let mut random = fastrand::Rng::with_seed(seed ^ ((policy as u64 + 1) << 56));
        let odds = [1, 4, 7][random.usize(0..3)];
        let mut drawn = Drawn { policy, random, odds, limit: u64::MAX, tear: Tear::Scattered };
        match policy {
            Policy::SectorTear => drawn.tear_a_write(model),
            // Often none of the bytes at all: that shows most of what freed blocks held.
            Policy::StaleBlocks => drawn.odds = [0, 0, 4][drawn.random.usize(0..3)],
            _ => {}
        }
        drawn
    }

    /// A failed sync leaves nothing (seed 0), everything (seed 1), or sectors drawn by the seed.
    pub(super) fn of_failed_sync(seed: u64) -> Drawn {
        let odds = match seed {
            0 => 0,
            1 => 8,
            _ => 4,
        };
        Drawn {
            policy: Policy::RandomSectors,
            random: fastrand::Rng::with_seed(seed),
            odds,
            limit: u64::MAX,
            tear: Tear::Scattered,
        }
    }

    /// Draw the write to tear; without one, draw where the prefix ends.
    fn tear_a_write(&mut self, model: &Model) {
        let writes: Vec<(u64, u64)> = model
            .pending_changes()
            .filter_map(|change| change.sectors().map(|span| (change.call, span.end() - span.start() + 1)))
            .collect();
        if let Some(&(call, sectors)) = self.random.choice(&writes) {
            self.limit = call;
            let within = self.random.u64(0..=sectors);
            self.tear = match self.random.u8(0..3) {
                0 => Tear::Before(within),
                1 => Tear::From(within),
                _ => Tear::Scattered,
            };
            return;
        }
        let calls: BTreeSet<u64> = model.pending_names().collect();
        let calls: Vec<u64> = calls.into_iter().collect();
        self.limit = self.random.choice(&calls).copied().unwrap_or(u64::MAX);
    }

    fn coin(&mut self) -> bool {
        self.random.u8(0..8) < self.odds
    }
}

impl Choice for Drawn {
    fn begin(&mut self, changes: usize, nth_call: &dyn Fn(usize) -> u64) {
        match self.policy {
            Policy::PerFilePrefix => {
                let kept = self.random.usize(0..=changes);
                self.limit = if kept < changes { nth_call(kept) } else { u64::MAX };
            }
            Policy::CrossFileReorder => self.limit = if self.random.bool() { u64::MAX } else { 0 },
            _ => {}
        }
    }

    fn data(&mut self, call: u64, _sector: u64) -> bool {
        match self.policy {
            Policy::Strict | Policy::MetadataBeforeData => false,
            Policy::Everything | Policy::DataBeforeMetadata => true,
            Policy::RandomSectors | Policy::StaleBlocks => self.coin(),
            Policy::SectorTear if call == self.limit => match &mut self.tear {
                // Counted down as the write's sectors come by in order.
                Tear::Before(left) => {
                    let taken = *left > 0;
                    *left = left.saturating_sub(1);
                    taken
                }
                Tear::From(left) => {
                    let taken = *left == 0;
                    *left = left.saturating_sub(1);
                    taken
                }
                Tear::Scattered => self.random.bool(),
            },
            Policy::PerFilePrefix | Policy::CrossFileReorder | Policy::SectorTear => call < self.limit,
        }
    }

    fn length(&mut self, call: u64) -> bool {
        match self.policy {
            Policy::MetadataBeforeData | Policy::StaleBlocks => true,
            Policy::DataBeforeMetadata => false,
            Policy::SectorTear if call == self.limit => self.random.bool(),
            _ => self.name(call),
        }
    }

    fn name(&mut self, call: u64) -> bool {
        match self.policy {
            Policy::Strict | Policy::DataBeforeMetadata => false,
            Policy::Everything | Policy::MetadataBeforeData | Policy::StaleBlocks => true,
            Policy::PerFilePrefix | Policy::CrossFileReorder | Policy::SectorTear => call < self.limit,
            Policy::RandomSectors => self.coin(),
        }
    }
}

/// A piece that reaches the disk by itself, or not, when all subsets are tried. Data is counted by
/// pages here, to keep their number small; [`Policy::SectorTear`] goes below that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// The call that made the change, by its place in the trace.
    pub call: u64,
    /// What of it.
    pub kind: UnitKind,
}

/// What a [`Unit`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitKind {
    /// A change of a directory: names and what they stand for.
    Name,
    /// The length of a file.
    Length,
    /// The bytes that a write put into this page of its file.
    Page(u64),
}

/// Lists the units, taking none.
#[derive(Default)]
pub(super) struct Listing {
    pub(super) units: Vec<Unit>,
}

impl Choice for Listing {
    fn begin(&mut self, _changes: usize, _nth_call: &dyn Fn(usize) -> u64) {}

    fn data(&mut self, call: u64, sector: u64) -> bool {
        let unit = Unit { call, kind: UnitKind::Page(sector * SECTOR_BYTES / PAGE_BYTES) };
        // A page's sectors come one after another.
        if self.units.last() != Some(&unit) {
            self.units.push(unit);
        }
        false
    }

    fn length(&mut self, call: u64) -> bool {
        self.units.push(Unit { call, kind: UnitKind::Length });
        false
    }

    fn name(&mut self, call: u64) -> bool {
        self.units.push(Unit { call, kind: UnitKind::Name });
        false
    }
}

/// Takes the units that a list says, in the order of [`Listing`].
pub(super) struct Subset<'a> {
    taken: &'a [bool],
    next: usize,
    last: Option<Unit>,
}

impl<'a> Subset<'a> {
    pub(super) fn new(taken: &'a [bool]) -> Self {
        Subset { taken, next: 0, last: None }
    }

    fn step(&mut self, unit: Unit) -> bool {
        self.last = Some(unit);
        self.next += 1;
        self.current()
    }

    fn current(&self) -> bool {
        self.taken.get(self.next.wrapping_sub(1)).copied().unwrap_or(false)
    }
}

impl Choice for Subset<'_> {
    fn begin(&mut self, _changes: usize, _nth_call: &dyn Fn(usize) -> u64) {}

    fn data(&mut self, call: u64, sector: u64) -> bool {
        let unit = Unit { call, kind: UnitKind::Page(sector * SECTOR_BYTES / PAGE_BYTES) };
        if self.last == Some(unit) { self.current() } else { self.step(unit) }
    }

    fn length(&mut self, call: u64) -> bool {
        self.step(Unit { call, kind: UnitKind::Length })
    }

    fn name(&mut self, call: u64) -> bool {
        self.step(Unit { call, kind: UnitKind::Name })
    }
}
