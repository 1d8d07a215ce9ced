//! The test of the tests: bugs planted on purpose, each of which a suite must find.
//!
//! Some are lies of the filesystem under an engine as it ships; those that only the engine can have sit
//! behind the feature `planted`. All are chosen at run time, in one build. A hunt runs the suite that
//! should find the bug, and is run once more without the bug, when it must find nothing.
//!
//! `BUGS` says of each which design rule (1 to 10) or promise (P1 to P7) of the project's fault model it
//! breaks. Every rule and every promise has one.

use std::fmt;

use esker_base::planted::Planted;

use crate::case::Failure;
use crate::crash::{Effort, Outcome, contained, crash_many};
use crate::fault::{Sweep, sweep_many};
use crate::lies::Lie;
use crate::scenarios::{self, Scenario};
use crate::setup::{Mode, Setup};
use crate::{callbacks, clock, damage, descriptors, enospc, metamorphic, model, transactions};

/// A bug: its place in `BUGS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bug(usize);

/// How a bug is planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// The filesystem lies.
    Lie(Lie),
    /// The engine has it.
    Engine(Planted),
}

/// Which suite finds it.
#[derive(Clone, Copy)]
enum Hunter {
    /// The crash suite, in these modes.
    Crash(&'static [Mode]),
    /// Damage anywhere in the golden database.
    Damage,
    /// The model suite.
    Model,
    /// The metamorphic suite.
    Metamorphic,
    /// The transactions suite.
    Transactions,
    /// The I/O error sweep; with `true`, of syncs alone.
    Fault(bool),
    /// Full disks.
    Enospc,
    /// No descriptors.
    Descriptors,
    /// Panics of callbacks.
    Callbacks,
    /// Clocks that leap.
    Clock,
    /// A scenario.
    Scenario(Scenario),
}

/// What there is to say of a bug.
struct Entry {
    name: &'static str,
    /// The rules and promises it breaks.
    breaks: &'static str,
    plant: Plant,
    hunter: Hunter,
}

const fn lie(name: &'static str, breaks: &'static str, lie: Lie, hunter: Hunter) -> Entry {
    Entry { name, breaks, plant: Plant::Lie(lie), hunter }
}

const fn engine(name: &'static str, breaks: &'static str, bug: Planted, hunter: Hunter) -> Entry {
    Entry { name, breaks, plant: Plant::Engine(bug), hunter }
}

/// All of them.
#[rustfmt::skip]
const BUGS: &[Entry] = &[
    lie("damage-is-a-tail", "rule 1", Lie::DamageIsATail, Hunter::Damage),
    lie("recovery-unsynced", "rule 2, P3", Lie::RecoverySync, Hunter::Scenario(scenarios::recovered_twice)),
    lie("nameless-files", "rule 3", Lie::DirectorySync, Hunter::Crash(&[Mode::Sync, Mode::Os])),
    lie("log-removed-early", "rule 3", Lie::LogRemovedFirst, Hunter::Crash(&[Mode::Sync, Mode::Os])),
    lie("acknowledged-early", "rule 4, P1", Lie::LogSync, Hunter::Crash(&[Mode::Sync])),
    lie("sync-retried", "rule 4", Lie::SyncRetried, Hunter::Fault(true)),
    lie("log-write-ignored", "P5", Lie::LogWriteIgnored, Hunter::Fault(false)),
    lie("failure-sticks", "a lack of descriptors", Lie::FailureSticks, Hunter::Descriptors),
    engine("unchecked-block", "rule 5, P4", Planted::UncheckedBlock, Hunter::Damage),
    lie("eager-open", "P7", Lie::EagerOpen, Hunter::Damage),
    lie("full-is-broken", "a full disk", Lie::FullIsBroken, Hunter::Enospc),
    lie("moody-disk", "determinism", Lie::Moody, Hunter::Crash(&Mode::ALL)),
    engine("panic-escapes", "rule 10", Planted::PanicEscapes, Hunter::Callbacks),
    engine("unchecked-elapsed", "clocks", Planted::UncheckedElapsed, Hunter::Clock),
    engine("sync-tried-again", "rule 4, P5", Planted::SyncTriedAgain, Hunter::Scenario(scenarios::after_a_failed_sync)),
    engine("placeless-checksum", "rule 5", Planted::PlacelessChecksum, Hunter::Scenario(scenarios::misplaced_block)),
    engine("healed-cursor", "rule 6", Planted::HealedCursor, Hunter::Scenario(scenarios::failed_cursor)),
    engine("mapped-tables", "rule 7", Planted::MappedTables, Hunter::Scenario(scenarios::nothing_mapped)),
    engine("unchecked-length", "rule 8", Planted::UncheckedLength, Hunter::Scenario(scenarios::too_long_a_key)),
    lie("lock-for-all", "rule 9", Lie::Lock, Hunter::Scenario(scenarios::two_handles)),
    engine("unguarded-drop", "rule 10", Planted::UnguardedDrop, Hunter::Scenario(scenarios::panicking_drop)),
    engine("lone-flush", "P1", Planted::LoneFlush, Hunter::Crash(&[Mode::NoLog])),
    engine("live-log-reused", "rule 3, P1", Planted::LiveLogReused, Hunter::Crash(&[Mode::Sync, Mode::Os])),
    engine("idle-persist", "P1", Planted::IdlePersist, Hunter::Crash(&[Mode::Os])),
    engine("torn-record", "P2", Planted::TornRecord, Hunter::Crash(&[Mode::Os, Mode::Interval])),
    engine("torn-group", "P2", Planted::TornGroup, Hunter::Scenario(scenarios::half_a_batch)),
    engine("early-tombstone", "P4", Planted::EarlyTombstone, Hunter::Crash(&Mode::ALL)),
    engine("early-tombstone-in-memory", "P4", Planted::EarlyTombstone, Hunter::Model),
    engine("fold-across-snapshot", "P4", Planted::FoldAcrossSnapshot, Hunter::Model),
    engine("snapshots-forgotten", "P4", Planted::SnapshotsForgotten, Hunter::Model),
    engine("turning-cursor", "P4", Planted::TurningCursor, Hunter::Model),
    engine("sealed-tombstones", "P4", Planted::SealedTombstones, Hunter::Metamorphic),
    engine("filter-denies", "P4", Planted::FilterDenies, Hunter::Metamorphic),
    engine("keys-past-tombstones", "P4", Planted::KeysPastTombstones, Hunter::Model),
    engine("dead-forever", "P4", Planted::DeadForever, Hunter::Model),
    engine("forgotten-scan", "serialisability", Planted::ForgottenScan, Hunter::Transactions),
    engine("unchecked-group", "serialisability", Planted::UncheckedGroup, Hunter::Transactions),
    engine("panic-on-damage", "P6", Planted::PanicOnDamage, Hunter::Scenario(scenarios::damaged_log)),
    engine("no-witness", "P4", Planted::NoWitness, Hunter::Scenario(damage::newest::newest_log)),
    engine("damage-spreads", "P7", Planted::DamageSpreads, Hunter::Scenario(scenarios::damaged_table)),
];

impl Bug {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Bug> {
        (0..BUGS.len()).map(Bug)
    }

    /// The bug called `name`.
    pub fn named(name: &str) -> Option<Bug> {
        BUGS.iter().position(|bug| bug.name == name).map(Bug)
    }

    /// The rules and promises that it breaks.
    pub fn breaks(self) -> &'static str {
        BUGS[self.0].breaks
    }

    /// The lie of the filesystem that is the bug.
    pub fn lie(self) -> Option<Lie> {
        match BUGS[self.0].plant {
            Plant::Lie(lie) => Some(lie),
            Plant::Engine(_) => None,
        }
    }

    /// The bug inside the engine.
    fn in_engine(self) -> Option<Planted> {
        match BUGS[self.0].plant {
            Plant::Lie(_) => None,
            Plant::Engine(bug) => Some(bug),
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

    /// Run the suite that finds this bug, up to `count` cases or the first failure; with the bug if it is
    /// `planted`. Afterwards this thread has no bug.
    pub fn hunt(self, planted: bool, seed: u64, count: u64) -> Outcome {
        let bug = planted.then_some(self);
        let any = |nth: u64| {
            let mode = Mode::ALL[usize::try_from(nth % Mode::ALL.len() as u64).expect("an index")];
            Setup { bug, ..Setup::new(seed.wrapping_add(nth), mode) }
        };
        let outcome = match BUGS[self.0].hunter {
            Hunter::Crash(modes) => {
                let setup = |nth: u64| {
                    let mode = modes[usize::try_from(nth % modes.len() as u64).expect("an index")];
                    Setup { bug, ..Setup::new(seed.wrapping_add(nth), mode) }
                };
                let effort = Effort { per_history: Some(1_000), depth: 0, failures_max: 1 };
                // A thread of its own: the engine's bugs are chosen by thread.
                crash_many(setup, count, effort, 1)
            }
            Hunter::Damage => {
                const ONE: damage::Effort = damage::Effort { threads: 1, failures_max: 1 };
                let hunted = damage::many(seed, None, count.min(5_000), ONE, bug);
                hunted.expect("the golden database is there").0
            }
            // A history has some ten thousand operations, so twenty of them.
            Hunter::Model => one_by_one(seed, count.saturating_mul(20), |seed| model::history(seed, bug)),
            Hunter::Metamorphic => one_by_one(seed, count / 40, |seed| metamorphic::script(seed, bug, 1)),
            Hunter::Transactions => {
                one_by_one(seed, count.saturating_mul(4), |seed| transactions::history(seed, bug))
            }
            Hunter::Fault(only_syncs) => {
                let sweep = Sweep { per_history: 500, skip: 0, only_syncs, failures_max: 1 };
                sweep_many(any, count.min(3_000), sweep, 1).outcome
            }
            Hunter::Enospc => enospc::SIMULATED.simulated(any, count.min(200), 1, 1).outcome,
            Hunter::Descriptors => descriptors::SIMULATED.simulated(any, count.min(200), 1, 1).outcome,
            Hunter::Callbacks => callbacks::sweep(any, count.min(1_000), 100, 1).0,
            Hunter::Clock => clock::sweep(any, count.min(200), 100, 1),
            Hunter::Scenario(scenario) => {
                let setup = Setup { bug, ..Setup::new(seed, Mode::Sync) };
                let mut outcome = Outcome { cases: 1, histories: 1, ..Outcome::default() };
                if let Err(what) = contained(|| scenario(&setup)) {
                    outcome.failures.push(Failure { replay: format!("--seed {seed}"), what });
                }
                outcome
            }
        };
        esker_base::planted::choose(None);
        outcome
    }
}

/// Histories of one seed after the other, on this thread, until one fails or `count` cases were done.
fn one_by_one(seed: u64, count: u64, history: impl Fn(u64) -> Outcome) -> Outcome {
    let mut total = Outcome::default();
    for nth in 0.. {
        total.add(history(seed.wrapping_add(nth)));
        if total.cases >= count || !total.failures.is_empty() {
            break;
        }
    }
    total
}

impl fmt::Display for Bug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(BUGS[self.0].name)
    }
}
