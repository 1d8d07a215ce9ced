//! X1: add, check and delete every friend, while the network grows; or on a real network, by degree.

use std::path::Path;

use esker_layouts::followers::{HoleFilling, Layout};

use super::{Axis, panels, random};
use crate::lab::edges::{self, Graph};
use crate::lab::generate::{Plan, from_graph, network};
use crate::lab::model::Operation;
use crate::lab::report::{ExperimentReport, Panel};
use crate::lab::run::{Driver, Ran, Recording};
use crate::lab::store::Store;
use crate::lab::{Experiment, LabError, LabOptions, OpenLayout, Progress, Result, Scale};

/// The article's network sizes.
fn sizes(scale: Scale) -> Vec<u32> {
    match scale {
        Scale::Tiny => vec![10, 20, 30, 40, 50],
        Scale::Smoke | Scale::Desk => (10..=170).step_by(20).collect(),
        Scale::Large => (10..=410).step_by(20).collect(),
    }
}

/// What a real network may cost before its users are sampled.
struct Budget {
    /// Sum of squared degrees: what layouts with numbered columns read.
    squares: u64,
    /// Sum of cubed degrees: what shifting costs a log-structured store. Every delete overwrites half the
    /// row, and later reads of the row pass all that was overwritten.
    cubes: u64,
}

fn budget(scale: Scale) -> Budget {
    match scale {
        Scale::Tiny => Budget { squares: 200_000, cubes: 200_000 },
        Scale::Smoke => Budget { squares: 16_000_000, cubes: 40_000_000 },
        Scale::Desk => Budget { squares: 400_000_000, cubes: 1_000_000_000 },
        Scale::Large => Budget { squares: u64::MAX, cubes: 20_000_000_000 },
    }
}

// What is beyond 64 bits is over any budget: the cube of 2,642,246 friends is.
fn squared(degree: u64) -> u64 {
    degree.saturating_pow(2)
}

fn cubed(degree: u64) -> u64 {
    degree.saturating_pow(3)
}

fn shifts(layout: Layout) -> bool {
    matches!(layout, Layout::Default(HoleFilling::ShiftAll) | Layout::Count(HoleFilling::ShiftAll))
}

pub(in crate::lab) fn run<S: Store>(
    store: &S,
    layouts: &impl OpenLayout<S::Kv>,
    options: &LabOptions,
    progress: &mut dyn Progress,
) -> Result<ExperimentReport> {
    let mut recording = Recording::default();
    let mut notes = Vec::new();
    let (axis, protocol);
    if let Some(file) = &options.graph {
        let graph = edges::read(file)?;
        if graph.edges == 0 {
            return Err(LabError::Empty { file: file.clone(), what: "edges" });
        }
        let budget = budget(options.scale);
        let plan = from_graph(&graph, squared, budget.squares, &mut random(options, &[1]));
        let shifted = from_graph(&graph, cubed, budget.cubes, &mut random(options, &[1]));
        let plan_of = |layout| if shifts(layout) { &shifted } else { &plan };
        progress.begin(Experiment::X1, u64::from(options.repetitions()) * Layout::ALL.len() as u64);
        for repetition in 0..options.repetitions() {
            turn(store, layouts, options, progress, plan_of, &mut recording, repetition, degree_place)?;
        }
        notes.push(describe(file, &graph, &plan, &shifted));
        protocol = "A real network has one size, so costs are grouped by the user's degree at the moment of the \
                    operation, two groups to an octave. Every layout adds all edges, asks for as many friends, \
                    present and absent in turn, and deletes all in shuffled order, over a fresh store in each \
                    repetition, in random order of layouts. Groups below degree 8 or with fewer than 20 operations \
                    are shown and left out of the fits."
            .to_owned();
        axis = Axis {
            label: "degree (friends of the user)",
            logarithmic: true,
            part: " one friend, by degree",
            fitted_from: 8.0,
            operations_min: 20,
            by_degree: true,
            rows_grow: true,
        };
    } else {
        let sizes = sizes(options.scale);
        let steps = sizes.len() as u64 * u64::from(options.repetitions()) * Layout::ALL.len() as u64;
        progress.begin(Experiment::X1, steps);
        // As many cells as the largest network has.
        let ambient = sizes.last().map_or(0, |n| n * n / 2);
        // Repetitions outermost: whatever disturbs the machine for a while disturbs one repetition.
        for repetition in 0..options.repetitions() {
            let mut order = sizes.clone();
            random(options, &[6, u64::from(repetition)]).shuffle(&mut order);
            for n in order {
                let plan = network(n, ambient, &mut random(options, &[1, u64::from(n)]));
                let place = |_: &Ran| u64::from(n);
                turn(store, layouts, options, progress, |_| &plan, &mut recording, repetition, place)?;
            }
        }
        protocol = format!(
            "Networks of n = {}…{} users, degrees uniform on 1…n (the article does not state the distribution). \
             Every layout adds all friends, asks for as many, present and absent in turn, and deletes all in \
             shuffled order, over a fresh store in each repetition, in random order of layouts. Every store \
             first gets {ambient} cells of other users: else its own size would grow by the square of n and \
             drown the effect of the layout. n below 30 is shown and left out of the fits.",
            sizes.first().unwrap_or(&0),
            sizes.last().unwrap_or(&0)
        );
        axis = Axis {
            label: "n (users in the network)",
            logarithmic: false,
            part: " one friend",
            fitted_from: if options.scale == Scale::Tiny { 0.0 } else { 30.0 },
            operations_min: 1,
            by_degree: false,
            rows_grow: true,
        };
    }
    let panels = panels(&recording, &Layout::ALL, &axis, options);
    notes.extend(findings(&panels, options.graph.is_none()));
    Ok(ExperimentReport {
        name: Experiment::X1.to_string(),
        title: "Six layouts of the follower relation, as in the article".into(),
        claimed: "Variants 3–5 take constant time for all three operations. Variant 2 adds in constant time, about \
                  twice that of 3–5, and checks and deletes in linear time. Variant 1 is linear in all three and \
                  the slowest to add. Deletes cost a little more in 4 and 5 than in 3."
            .into(),
        predicted: "With d the user's degree: variant 1 reads d cells for every operation; variant 2 reads its count \
                    to add (so two calls against one), and d + 1 cells to check and delete; 3–5 and the relational \
                    layout touch a fixed number of keys. In one process a call is no round trip, so the factor of \
                    two shows in the calls (and in the modelled time), not necessarily in the time."
            .into(),
        protocol,
        repetitions: options.repetitions(),
        notes,
        panels,
    })
}

/// What was read from the graph, and what of it was used.
fn describe(file: &Path, graph: &Graph, plan: &Plan, shifted: &Plan) -> String {
    format!(
        "{}: {} edges, {} of {} users with friends used ({} edges); {} repeated edges left out, {} self-loops kept. \
         The two forms that shift ran on {} users ({} edges): every shift overwrites the rest of the row, and a \
         log-structured store passes what was overwritten until it compacts.",
        file.file_name().unwrap_or_default().to_string_lossy(),
        graph.edges,
        plan.users.len(),
        graph.rows.len(),
        plan.edges(),
        graph.repeated,
        graph.self_loops,
        shifted.users.len(),
        shifted.edges(),
    )
}

/// The place of an operation on the degree axis: 0 for degree 0, else two places an octave.
fn degree_place(ran: &Ran) -> u64 {
    let degree = ran.step.degree();
    let Some(octave) = degree.checked_ilog2() else { return 0 };
    // The upper half of an octave starts at 2^(octave + 1/2): degree² reaches 2^(2·octave + 1).
    let upper = u128::from(degree).pow(2) >= 1 << (2 * octave + 1);
    1 + 2 * u64::from(octave) + u64::from(upper)
}

/// Every layout once, in random order, each over a fresh store.
#[expect(clippy::too_many_arguments, reason = "what runs, on what, and where it is recorded")]
fn turn<'p, S: Store>(
    store: &S,
    layouts: &impl OpenLayout<S::Kv>,
    options: &LabOptions,
    progress: &mut dyn Progress,
    plan_of: impl Fn(Layout) -> &'p Plan,
    recording: &mut Recording,
    repetition: u32,
    place: impl Fn(&Ran) -> u64,
) -> Result<()> {
    let mut order = Layout::ALL;
    random(options, &[2, u64::from(repetition), plan_of(Layout::Column).edges()]).shuffle(&mut order);
    for layout in order {
        let plan = plan_of(layout);
        let opened = |source| LabError::Layout { doing: format!("open the layout {layout}"), source };
        let kv = store.open().map_err(opened)?;
        let friends = layouts.open(&kv, layout).map_err(opened)?;
        let mut driver = Driver::new(layout, friends.as_ref(), &plan.names);
        for (user, friends) in &plan.ambient {
            driver.load(*user, friends)?;
        }
        run_plan(&mut driver, plan, |ran| recording.record(layout, place(&ran), repetition, &ran))?;
        recording.close(layout, repetition);
        progress.step(&format!("{} edges, {layout}", plan.edges()));
    }
    Ok(())
}

/// All adds, then all checks, then all deletes, user by user.
fn run_plan(driver: &mut Driver<'_>, plan: &Plan, mut record: impl FnMut(Ran)) -> Result<()> {
    for user in &plan.users {
        for friend in &user.add {
            record(driver.add(user.user, *friend)?);
        }
    }
    for user in &plan.users {
        for (friend, present) in &user.check {
            record(driver.check(user.user, *friend, *present)?);
        }
    }
    for user in &plan.users {
        for friend in &user.remove {
            record(driver.delete(user.user, *friend)?);
        }
    }
    Ok(())
}

/// What the counters say beyond the tables.
fn findings(panels: &[Panel], generated: bool) -> Vec<String> {
    let at_end = |operation: Operation, layout: &str| {
        let panel = panels.iter().find(|panel| panel.operation == operation)?;
        panel.series.iter().find(|series| series.layout == layout)?.points.last()
    };
    let mut notes = Vec::new();
    if let (Some(count), Some(column)) = (at_end(Operation::Add, "count"), at_end(Operation::Add, "column"))
    {
        notes.push(format!(
            "Adding takes {:.0} calls in count and {:.0} in column: the article's factor of two is a factor of \
             round trips. Time in this process: {:.2} times; modelled at 200 µs a call: {:.2} times.",
            count.counted.calls,
            column.counted.calls,
            count.nanos.median / column.nanos.median,
            count.modelled_nanos / column.modelled_nanos,
        ));
    }
    if generated {
        let reads = |operation| at_end(operation, "default").map_or(0.0, |point| point.counted.read);
        let n = at_end(Operation::Add, "default").map_or(0.0, |point| point.x);
        notes.push(format!(
            "Cells read by the default layout at n = {n:.0}: {:.1} an add, {:.1} a check, {:.1} a delete; degrees \
             uniform on 1…n let expect (n − 1)/3 = {:.1}, (2n + 1)/3 = {:.1} and (n + 2)/3 = {:.1}.",
            reads(Operation::Add),
            reads(Operation::Check),
            reads(Operation::Delete),
            (n - 1.0) / 3.0,
            (2.0 * n + 1.0) / 3.0,
            (n + 2.0) / 3.0,
        ));
    }
    notes
}

#[cfg(test)]
mod tests;
