//! The test of the tests: bugs planted on purpose, each of which the suite must find.
//!
//! Most are lies of the filesystem under an engine as it ships; those that only the engine can have sit
//! behind the feature `planted`. All are chosen at run time, in one build. A hunt runs the suite that
//! should find the bug, and is run once more without the bug, when it must find nothing.

use std::fmt;

use esker_base::planted::Planted;

use crate::crash::{Effort, Outcome, crash_many};
use crate::damage;
use crate::lies::Lie;
use crate::setup::{Mode, Setup};

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A commit is acknowledged before its log is durable (rule 4, the promise of `Sync`).
    AcknowledgedEarly,
    /// Directories are not synced: new logs and manifests may have no name (rule 3).
    NamelessFiles,
    /// A log is removed before the manifest edit is durable that makes it superfluous (rule 3).
    LogRemovedEarly,
    /// Damage in what had been durable is taken for a torn tail (rule 1).
    DamageIsATail,
    /// A tombstone is dropped while an older version lies below it (P4).
    EarlyTombstone,
    /// Without a log, one keyspace is flushed alone (P1).
    LoneFlush,
}

impl Bug {
    /// All of them.
    pub const ALL: [Bug; 6] = [
        Bug::AcknowledgedEarly,
        Bug::NamelessFiles,
        Bug::LogRemovedEarly,
        Bug::DamageIsATail,
        Bug::EarlyTombstone,
        Bug::LoneFlush,
    ];

    /// The lie of the filesystem that is the bug.
    pub fn lie(self) -> Option<Lie> {
        match self {
            Bug::AcknowledgedEarly => Some(Lie::LogSync),
            Bug::NamelessFiles => Some(Lie::DirectorySync),
            Bug::LogRemovedEarly => Some(Lie::LogRemovedFirst),
            Bug::DamageIsATail => Some(Lie::DamageIsATail),
            Bug::EarlyTombstone | Bug::LoneFlush => None,
        }
    }

    /// The bug inside the engine.
    fn in_engine(self) -> Option<Planted> {
        match self {
            Bug::EarlyTombstone => Some(Planted::EarlyTombstone),
            Bug::LoneFlush => Some(Planted::LoneFlush),
            _ => None,
        }
    }

    /// Whether this build can have the bug.
    pub fn is_available(self) -> bool {
        self.in_engine().is_none() || cfg!(feature = "planted")
    }

    /// Let this thread's engine have the bug, if it is one of the engine's.
    pub(crate) fn plant_in_engine(self) {
        esker_base::planted::choose(self.in_engine());
    }

    /// The modes in which the bug shows.
    fn modes(self) -> &'static [Mode] {
        match self {
            Bug::AcknowledgedEarly | Bug::DamageIsATail => &[Mode::Sync],
            Bug::NamelessFiles | Bug::LogRemovedEarly => &[Mode::Sync, Mode::Os],
            Bug::EarlyTombstone => &Mode::ALL,
            Bug::LoneFlush => &[Mode::NoLog],
        }
    }

    /// Run the suite that finds this bug, on this thread, up to `count` cases or the first failure; with
    /// the bug if it is `planted`.
    pub fn hunt(self, planted: bool, seed: u64, count: u64) -> Outcome {
        let modes = self.modes();
        let setup = |nth: u64| {
            let mode = modes[usize::try_from(nth % modes.len() as u64).expect("an index")];
            Setup { bug: planted.then_some(self), ..Setup::new(seed.wrapping_add(nth), mode) }
        };
        if self == Bug::DamageIsATail {
            return damage::flip_bits(&setup(0), count);
        }
        let effort = Effort { per_history: Some(1_000), depth: 0, failures_max: 1 };
        // A thread of its own: the engine's bugs are chosen by thread.
        crash_many(setup, count, effort, 1)
    }
}

impl fmt::Display for Bug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Bug::AcknowledgedEarly => "acknowledged-early",
            Bug::NamelessFiles => "nameless-files",
            Bug::LogRemovedEarly => "log-removed-early",
            Bug::DamageIsATail => "damage-is-a-tail",
            Bug::EarlyTombstone => "early-tombstone",
            Bug::LoneFlush => "lone-flush",
        })
    }
}
