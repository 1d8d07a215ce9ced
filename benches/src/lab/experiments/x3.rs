//! X3: what drives the cost, the size of the network or the degree of the user?

use super::probes::{self, Population};
use super::{Axis, LAYOUTS, panels, random};
use crate::lab::report::ExperimentReport;
use crate::lab::run::Recording;
use crate::lab::store::Store;
use crate::lab::{Experiment, LabOptions, OpenLayout, Progress, Result, Scale};

/// Friends of everybody who is not a probe.
const AMBIENT_DEGREE: u32 = 10;
/// Users measured on.
const PROBES: u32 = 20;
/// Their degree while the network grows.
const PROBE_DEGREE: u32 = 50;

struct Sizes {
    /// Network sizes, at a fixed degree.
    n: &'static [u32],
    /// Degrees, in a network of `n_fixed` users.
    degrees: &'static [u32],
    n_fixed: u32,
    /// Rounds in a repetition, fewer where rows are long.
    rounds: u32,
    /// Cells that the rounds of one repetition may read in one layout.
    cells: u32,
}

fn sizes(scale: Scale) -> Sizes {
    match scale {
        Scale::Tiny => {
            Sizes { n: &[50, 100, 200], degrees: &[10, 40, 160], n_fixed: 50, rounds: 20, cells: 10_000 }
        }
        Scale::Smoke => Sizes {
            n: &[100, 1_000, 10_000],
            degrees: &[10, 100, 1_000, 10_000],
            n_fixed: 1_000,
            rounds: 200,
            cells: 400_000,
        },
        Scale::Desk => Sizes {
            n: &[100, 1_000, 10_000, 100_000],
            degrees: &[10, 100, 1_000, 10_000, 100_000],
            n_fixed: 10_000,
            rounds: 2_000,
            cells: 5_000_000,
        },
        Scale::Large => Sizes {
            n: &[100, 1_000, 10_000, 100_000, 1_000_000],
            degrees: &[10, 100, 1_000, 10_000, 100_000],
            n_fixed: 10_000,
            rounds: 2_000,
            cells: 20_000_000,
        },
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
    progress.begin(Experiment::X3, (sizes.n.len() + sizes.degrees.len()) as u64 * turns);
    let (mut by_size, mut by_degree) = (Recording::default(), Recording::default());
    for &n in sizes.n {
        let population = population(n, PROBE_DEGREE, u64::from(n), &sizes, options);
        probes::run(store, layouts, options, progress, &population, &mut by_size)?;
    }
    for &degree in sizes.degrees {
        let population = population(sizes.n_fixed, degree, u64::from(degree), &sizes, options);
        probes::run(store, layouts, options, progress, &population, &mut by_degree)?;
    }
    let size_axis = Axis {
        label: "n (users in the network)",
        logarithmic: true,
        part: &format!(" one friend, degree fixed at {PROBE_DEGREE}"),
        fitted_from: 0.0,
        operations_min: 1,
        by_degree: false,
        rows_grow: false,
    };
    let degree_axis = Axis {
        label: "degree (friends of the user)",
        part: &format!(" one friend, n fixed at {}", sizes.n_fixed),
        rows_grow: true,
        ..size_axis
    };
    let mut all = panels(&by_size, &LAYOUTS, &size_axis, options);
    all.extend(panels(&by_degree, &LAYOUTS, &degree_axis, options));
    Ok(ExperimentReport {
        name: Experiment::X3.to_string(),
        title: "Network size or degree?".into(),
        claimed: "The article gives its complexities in n, the size of the network, and lets degrees grow with it."
            .into(),
        predicted: "The cost does not depend on n at all. It depends on the user's degree: linear in variants 1 and \
                    2 (but for adding in 2), constant in the others."
            .into(),
        protocol: format!(
            "{PROBES} probe users among others of degree {AMBIENT_DEGREE}. First their degree is {PROBE_DEGREE} \
             while n grows; then n is {} while their degree grows. Rows are built and flushed beforehand. Up to {} rounds in a repetition: ask for a \
             friend, ask for a stranger, add a friend, delete one. Layouts in random order on the same operations. The four take turns, so one that touches few \
             keys may meet caches that another has just swept with a whole row.",
            sizes.n_fixed, sizes.rounds
        ),
        repetitions: options.repetitions(),
        notes: Vec::new(),
        panels: all,
    })
}

fn population(n: u32, degree: u32, place: u64, sizes: &Sizes, options: &LabOptions) -> Population {
    let mut random = random(options, &[5, u64::from(n), u64::from(degree)]);
    let rounds = sizes.rounds.min(sizes.cells / degree).max(PROBES);
    // Probes lie evenly among the others, so they are not all at one end of the key space.
    let probes: Vec<u32> = (0..PROBES).map(|i| n / PROBES * i).collect();
    let used = n.max(degree);
    let rows = (0..n)
        .map(|user| {
            let degree = if probes.binary_search(&user).is_ok() { degree } else { AMBIENT_DEGREE };
            let mut friends = sample(used, degree, &mut random);
            random.shuffle(&mut friends);
            (user, friends)
        })
        .collect();
    Population {
        place,
        names: Population::names(used, rounds, options),
        rows,
        probes,
        rounds,
        strangers: used,
    }
}

/// `amount` distinct ids below `n`, without walking through all of them when few are wanted.
fn sample(n: u32, amount: u32, random: &mut fastrand::Rng) -> Vec<u32> {
    if amount.saturating_mul(4) > n {
        return random.choose_multiple(0..n, amount as usize);
    }
    let mut chosen = std::collections::BTreeSet::new();
    while chosen.len() < amount as usize {
        chosen.insert(random.u32(..n));
    }
    chosen.into_iter().collect()
}
