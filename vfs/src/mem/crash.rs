//! The disks that a crash could leave.

use super::MemFs;
use super::choice::{Drawn, Listing, Policy, Subset, Unit};
use super::model::Model;

/// Up to this many units, [`Selections`] goes through every subset.
const EXHAUSTIVE_UNITS_MAX: usize = 12;

/// The moment after some number of calls: what is durable then and what is not. Independent of the
/// disk it was taken from; may be sent to another thread.
#[derive(Clone, Debug)]
pub struct CrashPoint {
    calls: usize,
    model: Model,
}

impl CrashPoint {
    /// How many calls came before.
    pub fn calls(&self) -> usize {
        self.calls
    }

    /// Whether nothing is pending: every crash leaves the same disk.
    pub fn is_settled(&self) -> bool {
        self.model.pending_names().next().is_none()
            && self.model.inodes.values().all(|inode| inode.is_settled())
    }

    /// The pieces that may each have reached the disk or not, in the order in which
    /// [`CrashPoint::image_subset`] takes them: directories first, then files.
    pub fn pending_units(&self) -> Vec<Unit> {
        let mut listing = Listing::default();
        self.model.crash(&mut listing, false);
        listing.units
    }

    /// The disk after a crash at this moment, as `policy` and `seed` have it. It is a simulated disk
    /// of its own, on which everything is durable, and may crash again.
    pub fn image(&self, policy: Policy, seed: u64) -> MemFs {
        let mut drawn = Drawn::new(&self.model, policy, seed);
        MemFs::with(self.model.crash(&mut drawn, policy == Policy::StaleBlocks))
    }

    /// The disk after a crash at this moment that left those of the pending units for which `taken`
    /// has true, in the order of [`CrashPoint::pending_units`].
    pub fn image_subset(&self, taken: &[bool]) -> MemFs {
        MemFs::with(self.model.crash(&mut Subset::new(taken), false))
    }

    /// Subsets of the pending units worth trying: all of them if there are at most 12 units; otherwise
    /// each single omission and each single survivor, then `samples` drawn by `seed`.
    pub fn selections(&self, samples: usize, seed: u64) -> Selections {
        let units = self.pending_units().len();
        Selections { units, samples, random: fastrand::Rng::with_seed(seed), next: 0 }
    }
}

/// See [`CrashPoint::selections`].
#[derive(Debug)]
pub struct Selections {
    units: usize,
    samples: usize,
    random: fastrand::Rng,
    next: usize,
}

impl Iterator for Selections {
    type Item = Vec<bool>;

    fn next(&mut self) -> Option<Vec<bool>> {
        let nth = self.next;
        self.next += 1;
        if self.units <= EXHAUSTIVE_UNITS_MAX {
            return (nth < 1 << self.units)
                .then(|| (0..self.units).map(|unit| nth >> unit & 1 == 1).collect());
        }
        if nth < self.units {
            return Some((0..self.units).map(|unit| unit != nth).collect());
        }
        if nth < 2 * self.units {
            return Some((0..self.units).map(|unit| unit == nth - self.units).collect());
        }
        (nth - 2 * self.units < self.samples).then(|| (0..self.units).map(|_| self.random.bool()).collect())
    }
}

/// The crash points of a disk in order; each costs the replay of one call.
pub struct Sweep {
    disk: MemFs,
    model: Model,
    next: usize,
    end: usize,
}

impl Iterator for Sweep {
    type Item = CrashPoint;

    fn next(&mut self) -> Option<CrashPoint> {
        if self.next > self.end {
            return None;
        }
        let point = CrashPoint { calls: self.next, model: self.model.clone() };
        if self.next < self.end {
            self.disk.replay(&mut self.model, self.next, self.next + 1);
        }
        self.next += 1;
        Some(point)
    }
}

impl MemFs {
    /// The moment after the first `calls` calls of the trace (all of them if it is shorter). Asking in
    /// ascending order is cheap, going back replays from the start.
    pub fn crash_point(&self, calls: usize) -> CrashPoint {
        let calls = calls.min(self.trace_len());
        let mut replayed = self.disk.replayed.lock();
        let (from, mut model) = match replayed.take() {
            Some((from, model)) if from <= calls => (from, model),
            _ => (0, self.disk.start.clone()),
        };
        self.replay(&mut model, from, calls);
        *replayed = Some((calls, model.clone()));
        CrashPoint { calls, model }
    }

    /// All crash points of the trace so far: before its first call, after each, after its last.
    pub fn sweep(&self) -> Sweep {
        Sweep { disk: self.clone(), model: self.disk.start.clone(), next: 0, end: self.trace_len() }
    }

    /// [`CrashPoint::image`] of [`MemFs::crash_point`].
    pub fn image_at(&self, calls: usize, policy: Policy, seed: u64) -> MemFs {
        self.crash_point(calls).image(policy, seed)
    }

    /// Take `model` from after `from` calls to after `to`.
    fn replay(&self, model: &mut Model, from: usize, to: usize) {
        let live = self.disk.live.read();
        for (number, call) in live.trace.iter().enumerate().take(to).skip(from) {
            model.apply(number as u64, &call.action);
            // Handles are not part of a crash: only names keep a file. Done at syncs of directories,
            // when names become final.
            if call.action.settles_names() {
                model.forget_nameless(|_| false);
            }
        }
    }
}
