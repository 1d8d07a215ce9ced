//! The whole engine under shuttle: its own threads and the callers' are tasks whose every step at a lock, an
//! atomic or a file is drawn from a seed. Accesses are sequentially consistent here, so what rests on weaker
//! orders is loom's to check.
//!
//! A case is a schedule: one run of a scenario from an empty disk to its end. Half of them are drawn step by
//! step, half with priorities and a few changes of them (PCT), which finds what few switches suffice for. They
//! come in batches: a failure names the batch, and running it again repeats the failure.

mod closing;
mod commits;
mod maintenance;
mod reads;
mod syncs;
mod transactions;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;

use esker_base::planted::{self, Planted};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};

pub use world::Tally;

/// Something that several threads do to a database, and the bugs that it must find.
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    run: fn(),
    /// How many batches of a round it gets: quick ones get two.
    pub weight: usize,
    /// What may be planted for it to find.
    pub bugs: &'static [Planted],
}

/// All of them.
pub const SCENARIOS: [Scenario; 13] = [
    Scenario {
        name: "group-commit",
        run: commits::group_commit,
        weight: 2,
        bugs: &[Planted::TornGroup, Planted::SyncedMeanwhile, Planted::WokenEarly],
    },
    Scenario { name: "rotation", run: commits::rotation, weight: 1, bugs: &[] },
    Scenario { name: "overwrites", run: commits::overwrites, weight: 2, bugs: &[Planted::NumberFirst] },
    Scenario { name: "counter", run: commits::counter, weight: 2, bugs: &[Planted::ShownTwice] },
    Scenario { name: "snapshots", run: reads::snapshots, weight: 1, bugs: &[Planted::SnapshotsForgotten] },
    Scenario { name: "dead-ranges", run: reads::dead_ranges, weight: 2, bugs: &[Planted::DeadForever] },
    Scenario { name: "bank", run: transactions::bank, weight: 2, bugs: &[Planted::UncheckedGroup] },
    Scenario { name: "skew", run: transactions::skew, weight: 1, bugs: &[Planted::UncheckedGroup] },
    Scenario { name: "phantom", run: transactions::phantom, weight: 2, bugs: &[Planted::ForgottenScan] },
    Scenario { name: "close", run: closing::close, weight: 2, bugs: &[Planted::CommitsWhileClosing] },
    Scenario { name: "maintenance", run: maintenance::maintenance, weight: 1, bugs: &[] },
    Scenario {
        name: "failing-sync",
        run: syncs::failing_sync,
        weight: 2,
        bugs: &[Planted::SyncTriedAgain],
    },
    Scenario { name: "persist", run: syncs::persist, weight: 1, bugs: &[Planted::IdlePersist] },
];

/// Schedules of a batch.
pub const BATCH: u64 = 200;

/// Steps after which a schedule counts as one that never ends; a usual one takes a few thousand.
const STEPS_MAX: usize = 200_000;

/// A stack for the engine's deepest calls.
const STACK_BYTES: usize = 256 << 10;

/// Changes of priority in a schedule of PCT.
const PCT_DEPTH: usize = 4;

impl Scenario {
    /// Run the batch of `seed`, with `bug` in the engine if there is one; what was found.
    pub fn batch(&self, seed: u64, bug: Option<Planted>) -> Result<(), String> {
        let mut config = Config::new();
        config.stack_size = STACK_BYTES;
        config.max_steps = MaxSteps::FailAfter(STEPS_MAX);
        // The seed says as much in fewer words.
        config.failure_persistence = FailurePersistence::None;
        config.silence_warnings = true;
        let count = usize::try_from(BATCH).expect("a batch is small");
        planted::choose(bug);
        // Neighbouring seeds are not neighbours: a batch's random schedules count on from its own.
        let spread = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let run = self.run;
        let run = move || {
            run();
            Tally::get().steps.fetch_add(shuttle::current::context_switches() as u64, Ordering::Relaxed);
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            if seed % 2 == 0 {
                Runner::new(RandomScheduler::new_from_seed(spread, count), config).run(run);
            } else {
                Runner::new(PctScheduler::new_from_seed(spread, PCT_DEPTH, count), config).run(run);
            }
        }));
        planted::choose(None);
        outcome.map_err(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic").to_owned()
        })
    }
}
