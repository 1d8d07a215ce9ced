//! X2: do the shapes of X1 persist in larger networks?

use super::probes::{self, Population};
use super::{Axis, LAYOUTS, panels, random};
use crate::lab::report::ExperimentReport;
use crate::lab::run::Recording;
use crate::lab::store::Store;
use crate::lab::{Experiment, LabOptions, OpenLayout, Progress, Result, Scale};

struct Sizes {
    /// Network sizes.
    n: &'static [u32],
    /// Cells to build at most.
    cells: u64,
    /// Rounds of four operations in a repetition.
    rounds: u32,
}

fn sizes(scale: Scale) -> Sizes {
    match scale {
        Scale::Tiny => Sizes { n: &[16, 64, 256], cells: 4_000, rounds: 20 },
        Scale::Smoke => Sizes { n: &[64, 128, 256, 512, 1024, 2048, 4096], cells: 60_000, rounds: 150 },
        Scale::Desk => Sizes { n: &[64, 128, 256, 512, 1024, 2048, 4096], cells: 2_000_000, rounds: 5_000 },
        Scale::Large => Sizes { n: &[64, 128, 256, 512, 1024, 2048, 4096], cells: u64::MAX, rounds: 5_000 },
    }
}

pub(in crate::lab) fn run<S: Store>(
    store: &S,
    layouts: &impl OpenLayout<S::Kv>,
    options: &LabOptions,
    progress: &mut dyn Progress,
) -> Result<ExperimentReport> {
    let sizes = sizes(options.scale);
    let turns = u64::from(options.repetitions() + 1) * LAYOUTS.len() as u64;
    progress.begin(Experiment::X2, sizes.n.len() as u64 * turns);
    let mut recording = Recording::default();
    let mut notes = Vec::new();
    for &n in sizes.n {
        let population = population(n, &sizes, options);
        if (population.rows.len() as u64) < u64::from(n) {
            let cells: usize = population.rows.iter().map(|(_, friends)| friends.len()).sum();
            notes.push(format!("n = {n}: {} of the users built, {cells} cells.", population.rows.len()));
        }
        probes::run(store, layouts, options, progress, &population, &mut recording)?;
    }
    let axis = Axis {
        label: "n (users in the network)",
        logarithmic: true,
        part: " one friend, larger networks",
        fitted_from: if options.scale == Scale::Tiny { 0.0 } else { 128.0 },
        operations_min: 1,
        by_degree: false,
        rows_grow: true,
    };
    Ok(ExperimentReport {
        name: Experiment::X2.to_string(),
        title: "The same in larger networks".into(),
        claimed: "The article stopped at n = 170, fifteen minutes of its test rig, and claims its shapes for any n."
            .into(),
        predicted: "The shapes persist. Where a layout touches a fixed number of keys, time rises only with the \
                    depth of the store."
            .into(),
        protocol: format!(
            "Networks of n users, degrees spread evenly over 1…n, rows built and flushed beforehand. {} rounds in a repetition \
             on random users: ask for a friend, ask for a stranger, add a friend, delete one. Same stores and same \
             operations for every layout, layouts in random order. The four take turns, so one that touches few keys \
             may meet caches that another has just swept with a whole row. n below 128 is shown and left out of the fits.",
            sizes.rounds
        ),
        repetitions: options.repetitions(),
        notes,
        panels: panels(&recording, &LAYOUTS, &axis, options),
    })
}

fn population(n: u32, sizes: &Sizes, options: &LabOptions) -> Population {
    let mut random = random(options, &[4, u64::from(n)]);
    let users = u64::from(n).min(sizes.cells / (u64::from(n) / 2)).max(2);
    let users = u32::try_from(users).expect("at most n");
    let rows: Vec<(u32, Vec<u32>)> = (0..users)
        .map(|user| {
            // One user from each of equal slices of 1…n: the mean degree is n/2 however few are built.
            let (low, high) = (n * user / users, n * (user + 1) / users);
            let degree = (low + 1 + random.u32(..(high - low).max(1))).min(n) as usize;
            let mut friends = random.choose_multiple(0..n, degree);
            random.shuffle(&mut friends);
            (user, friends)
        })
        .collect();
    Population {
        place: u64::from(n),
        names: Population::names(n, sizes.rounds, options),
        probes: rows.iter().map(|(user, _)| *user).collect(),
        rows,
        rounds: sizes.rounds,
        strangers: n,
    }
}
