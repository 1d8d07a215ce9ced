//! X8: the same facts wide, tall, both ways and hashed, under the article's four questions.
//!
//! [`source`] has the facts, [`truth`] the right answers and what they must cost, [`layouts`] the five
//! layouts, [`measure`] asks and compares, [`findings`] judges and draws.

mod findings;
mod layouts;
mod measure;
mod source;
mod truth;

use std::collections::BTreeMap;

use layouts::{Interest, Layout, Loaded, OpenInterest, RealInterest};
use measure::{Bench, Effort};
use source::{Row, Source};

use super::random;
use crate::lab::store::{Setup, Store};
use crate::lab::study::Study;
use crate::lab::{Experiment, LabError, LabOptions, Progress, Result, Scale, files, stopwatch};

/// Cells in one commit while loading.
const BATCH_CELLS: usize = 2_000;
/// Users are divided here for scans side by side: into up to so many parts.
const PARTS_MAX: usize = 8;

pub(in crate::lab) fn run<S: Store>(
    store: &S,
    options: &LabOptions,
    progress: &mut dyn Progress,
) -> Result<Study> {
    run_with(store, &RealInterest, options, progress)
}

/// The sizes at which everything is asked: a quarter, a half, and all.
fn sizes(facts: u64) -> Vec<u64> {
    let mut sizes: Vec<u64> = [4, 2, 1].into_iter().map(|part| (facts / part).max(1)).collect();
    sizes.dedup();
    sizes
}

fn setup(options: &LabOptions) -> Setup {
    let mut setup = Setup::default();
    // The load is no part of what is measured, and the store goes away with its directory.
    setup.database.durability = esker::Durability::NoLog;
    if options.scale == Scale::Large {
        setup.database.compaction_threads = 2;
    }
    setup
}

/// [`run`] with `open` in the place of the real layouts.
fn run_with<S: Store>(
    store: &S,
    open: &impl OpenInterest<S::Kv>,
    options: &LabOptions,
    progress: &mut dyn Progress,
) -> Result<Study> {
    let chosen = chosen(options)?;
    let source = Source::new(options)?;
    let sizes = sizes(source.facts());
    progress.begin(Experiment::X8, (chosen.len() * sizes.len()) as u64 + 1);
    let effort = Effort::of(options);
    let picks = truth::picks(&source);
    let samples = samples(&source, sizes[0], effort.samples, options);
    let moments = truth::moments(&source, &picks, &samples, &sizes);
    progress.step("the right answers");
    let splits = splits(&source);
    let setup = setup(options);
    let mut bench = Bench::new(&source, &picks, &moments, effort);
    let mut order = chosen;
    random(options, &[8, 2]).shuffle(&mut order);
    for layout in order {
        let failed = |doing: &'static str| {
            move |source| LabError::Layout {
                doing: format!("{doing} the layout {}", layout.name()),
                source,
            }
        };
        files::forget_peak_memory();
        let kv = store.open_as(&setup).map_err(failed("open a store for"))?;
        let opened = open.open(&kv, layout, source.games(), &splits).map_err(failed("open"))?;
        let mut loader = Loader::new(opened.as_ref());
        let mut moment = 0;
        source.each(|row| {
            loader.take(&source, row).map_err(failed("load"))?;
            if sizes.get(moment).is_some_and(|size| loader.facts >= *size) {
                loader.flush().map_err(failed("load"))?;
                let (settled, nanos) = stopwatch::timed(|| store.compact(&kv));
                settled.map_err(failed("compact"))?;
                loader.nanos += nanos;
                bench.loaded(layout, moment, loader.nanos, store.disk_bytes(&kv));
                bench.ask(layout, opened.as_ref(), moment)?;
                moment += 1;
                progress.step(&format!("{}, {} facts", layout.name(), loader.facts));
            }
            Ok::<(), LabError>(())
        })?;
        let alone = files::peak_memory();
        bench.clients(layout, opened.as_ref())?;
        bench.peaks.insert(layout, (alone, files::peak_memory()));
    }
    Ok(findings::study(bench, options, &setup))
}

/// Where users are divided.
fn splits(source: &Source) -> Vec<String> {
    (1..PARTS_MAX as u64)
        .map(|part| u64::from(source.users()) * part / PARTS_MAX as u64)
        .map(|user| source.user(u32::try_from(user).unwrap_or(u32::MAX)))
        .collect()
}

/// An error if `options` name a layout that there is not.
pub(in crate::lab) fn check(options: &LabOptions) -> Result<()> {
    chosen(options).map(drop)
}

/// The layouts that `options` names, or all.
fn chosen(options: &LabOptions) -> Result<Vec<Layout>> {
    if options.layouts.is_empty() {
        return Ok(Layout::ALL.to_vec());
    }
    let named = |name: &String| {
        Layout::ALL.into_iter().find(|layout| layout.short() == name).ok_or_else(|| {
            let known: Vec<&str> = Layout::ALL.iter().map(|layout| layout.short()).collect();
            LabError::BadOption(format!("x8 has no layout {name:?}; it has {}", known.join(", ")))
        })
    };
    let mut chosen = options.layouts.iter().map(named).collect::<Result<Vec<Layout>>>()?;
    chosen.sort_unstable();
    chosen.dedup();
    Ok(chosen)
}

/// Users to ask about: some of those that the first facts are about.
fn samples(source: &Source, facts: u64, amount: usize, options: &LabOptions) -> Vec<u32> {
    let mut seen = 0u64;
    let mut random = random(options, &[8, 3]);
    let mut kept: BTreeMap<u64, u32> = BTreeMap::new();
    let outcome: Result<(), ()> = source.each(|row: Row<'_>| {
        seen += row.games.len() as u64;
        // The users with the smallest draws stay: a sample of rows in one walk.
        kept.insert(random.u64(..), row.user);
        if kept.len() > amount {
            kept.pop_last();
        }
        if seen >= facts { Err(()) } else { Ok(()) }
    });
    // Both ends are good: out of facts, or enough of them.
    let (Ok(()) | Err(())) = outcome;
    let mut users: Vec<u32> = kept.into_values().collect();
    users.sort_unstable();
    users.dedup();
    users
}

/// Collects rows into commits.
struct Loader<'a> {
    layout: &'a dyn Interest,
    rows: Vec<Loaded>,
    cells: usize,
    facts: u64,
    /// Spent in commits so far.
    nanos: u64,
}

impl<'a> Loader<'a> {
    fn new(layout: &'a dyn Interest) -> Self {
        Loader { layout, rows: Vec::new(), cells: 0, facts: 0, nanos: 0 }
    }

    fn take(&mut self, source: &Source, row: Row<'_>) -> esker_layouts::Result<()> {
        self.rows.push((source.user(row.user), row.day, row.games.to_vec()));
        self.cells += row.games.len();
        self.facts += row.games.len() as u64;
        if self.cells >= BATCH_CELLS { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> esker_layouts::Result<()> {
        let rows = std::mem::take(&mut self.rows);
        self.cells = 0;
        let (done, nanos) = stopwatch::timed(|| self.layout.load(&rows));
        self.nanos += nanos;
        done.map(|_| ())
    }
}

#[cfg(test)]
mod tests;
