//! The simulated disk with faults, as this crate's tests want it: one directory, and a power loss at any
//! moment.

use std::sync::Arc;

use esker_base::filename::CURRENT;
use esker_vfs::clock::SimClock;
use esker_vfs::fault::{self, Cause, FaultFs, Operation};
use esker_vfs::fs::{self, Fs};
use esker_vfs::mem::{MemFs, Policy, SyncFailure};

use super::dir;

/// What happens at the call with a given number, and after.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    /// The call, counted from 0 since [`Disk::break_at`].
    pub(crate) call: u64,
    /// How much of it takes effect before it errs.
    pub(crate) effect: Effect,
    /// Whether every later call errs as well, without effect: the power is gone.
    pub(crate) forever: bool,
}

/// How much of a failing call takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Nothing. A failing sync loses what it was for: readers see it, and no later sync makes it durable.
    None,
    /// As `None`, but readers see what was durable before a failing sync.
    Reverted,
    /// The first 30 bytes of a write; of a sync, some of what it was for.
    Part,
    /// All of it.
    All,
}

/// Every effect there is.
pub(crate) const EFFECTS: [Effect; 4] = [Effect::None, Effect::Reverted, Effect::Part, Effect::All];

/// What survives of what was not synced.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Survives {
    Nothing,
    Everything,
    /// Some of it, by one of the disk's policies.
    Some(Policy, u64),
}

/// One image of each policy.
pub(crate) fn survivors() -> impl Iterator<Item = Survives> {
    (0..).zip(Policy::ALL).map(|(seed, policy)| Survives::Some(policy, seed))
}

/// The disk. A clone is the same disk.
#[derive(Clone)]
pub(crate) struct Disk {
    memory: MemFs,
    faults: FaultFs,
}

impl Default for Disk {
    fn default() -> Self {
        let memory = MemFs::simulated();
        memory.create_dir(dir()).expect("a directory");
        memory.sync_dir(dir().parent().expect("the root")).expect("its name is durable");
        Disk::of(memory)
    }
}

impl Disk {
    fn of(memory: MemFs) -> Disk {
        let faults = FaultFs::over(&memory, Arc::new(SimClock::new()));
        Disk { memory, faults }
    }

    /// What a version set gets.
    pub(crate) fn fs(&self) -> Arc<dyn Fs> {
        Arc::new(self.faults.clone())
    }

    /// From now on calls are counted from 0, and one of them fails.
    pub(crate) fn break_at(&self, fault: Option<Fault>) {
        self.faults.reset();
        let Some(Fault { call, effect, forever }) = fault else { return };
        let planned = fault::Fault::at(call);
        self.faults.plan(match effect {
            Effect::None => planned,
            Effect::Reverted => planned.sync_failure(SyncFailure::CacheReverted, 0),
            Effect::Part => {
                planned.effect(fault::Effect::Partial(30)).sync_failure(SyncFailure::CacheKept, 99)
            }
            Effect::All => planned.effect(fault::Effect::After),
        });
        if forever {
            self.faults.plan(fault::Fault::at(call + 1).sticky());
        }
    }

    /// From now on there is no descriptor for `CURRENT`, nor for what it is staged in.
    pub(crate) fn keep_descriptors_from_current(&self) {
        let is_current = |call: &fault::Call<'_>| {
            let opens = matches!(call.operation, Operation::Create | Operation::Open);
            opens && (call.path.ends_with(CURRENT) || call.path.extension().is_some_and(|e| e == "tmp"))
        };
        self.faults.plan(fault::Fault::when(is_current).cause(Cause::Descriptors).sticky());
    }

    /// Whether any call has failed.
    pub(crate) fn has_failed(&self) -> bool {
        !self.faults.fired().is_empty()
    }

    /// Calls since `break_at`.
    pub(crate) fn calls(&self) -> u64 {
        self.faults.calls()
    }

    /// Calls that changed something, ever.
    pub(crate) fn changes(&self) -> usize {
        self.memory.trace_len()
    }

    /// The disk after a power loss now.
    pub(crate) fn after_power_loss(&self, survives: Survives) -> Disk {
        let (policy, seed) = match survives {
            Survives::Nothing => (Policy::Strict, 0),
            Survives::Everything => (Policy::Everything, 0),
            Survives::Some(policy, seed) => (policy, seed),
        };
        Disk::of(self.memory.image_at(self.memory.trace_len(), policy, seed))
    }

    /// The bytes of file `name`.
    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read_all(&self.memory, &dir().join(name), u64::MAX).expect("a file")
    }

    /// Make file `name` hold `bytes`, durably and without a call.
    pub(crate) fn put(&self, name: &str, bytes: &[u8]) {
        fs::replace(&self.memory, dir(), name, "put.tmp", bytes).expect("a file");
    }

    /// Remove file `name`, durably and without a call.
    pub(crate) fn take(&self, name: &str) {
        self.memory.remove(&dir().join(name)).expect("a file");
        self.memory.sync_dir(dir()).expect("durable");
    }

    /// The names there are.
    pub(crate) fn names(&self) -> Vec<String> {
        self.memory.list(dir()).expect("a listing").into_iter().map(|entry| entry.name).collect()
    }
}
