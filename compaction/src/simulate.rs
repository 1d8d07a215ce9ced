//! The schedule on paper: the real pickers over imagined trees, without I/O.
//!
//! A writer fills memtables at a given rate, flushes turn them into level-0 tables, a few workers carry
//! out whatever [`pick`](crate::pick()) says at a given speed, and a clock that is a number goes on to the next
//! event. Tables are descriptions only. Every key is a number below `keys`; a table of `n` entries holds
//! an unknown, evenly spread choice of them between its bounds. Merging is done by expectation: where
//! tables hold the shares d₁, d₂, … of all keys, their merge holds 1 − (1 − d₁)(1 − d₂)… of them
//! (`model`). There is nothing random in it: the same input gives the same report.
//!
//! It answers what a setting does to write amplification, space and stalls in milliseconds instead of
//! hours, and shows each decision with its reason.

mod model;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use esker_base::{KeyspaceId, SeqNo};
use esker_manifest::{TableHandle, Tree};

use crate::busy::{Busy, JobId};
use crate::pick::pick;
use crate::plan::Plan;
use crate::score::score;
use crate::settings::{Load, Settings};
use crate::sublevels::flush_cut;
use model::Model;

/// In which order keys are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Any key at any time, evenly.
    Random,
    /// Each key once, in ascending order (and again from the first, if more is written).
    Ascending,
}

/// What is written, and how fast things go.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// How many distinct keys there are.
    pub keys: u64,
    /// Key and value of one entry, in bytes.
    pub entry_bytes: u64,
    /// The order of writes.
    pub order: Order,
    /// How much is written in all, in bytes.
    pub user_bytes: u64,
    /// How fast the writer writes while nothing holds it up, in bytes a second.
    pub write_rate: f64,
    /// A memtable is flushed at this size, in bytes.
    pub memtable_bytes: u64,
    /// How many compactions run at the same time.
    pub workers: usize,
    /// How fast one compaction reads its input, in bytes a second.
    pub merge_rate: f64,
    /// The writer waits while level 0 is this deep.
    pub l0_depth_stop: usize,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Bytes written by the user.
    pub user_bytes: u64,
    /// Bytes written by flushes.
    pub flushed_bytes: u64,
    /// Bytes written by compactions.
    pub compacted_bytes: u64,
    /// Bytes moved to another level without being written.
    pub moved_bytes: u64,
    /// The greatest depth of level 0.
    pub l0_depth_max: usize,
    /// The most bytes of tables at any time, inputs of running jobs and their outputs together.
    pub peak_bytes: u64,
    /// Bytes of tables at the end.
    pub final_bytes: u64,
    /// What the live entries take at the end, in bytes.
    pub live_bytes: u64,
    /// How long the writer waited, in seconds.
    pub stalled_seconds: f64,
    /// How long everything took until nothing was left to do, in seconds.
    pub seconds: f64,
    /// Plans carried out, by what they did and why (without the numbers).
    pub plans: BTreeMap<&'static str, u64>,
    /// Bytes of each level at the end.
    pub levels: Vec<u64>,
}

impl Report {
    /// Bytes written by flushes and compactions for each byte of the user's (the log is not counted).
    pub fn write_amplification(&self) -> f64 {
        (self.flushed_bytes + self.compacted_bytes) as f64 / self.user_bytes.max(1) as f64
    }

    /// Bytes of tables at the end for each live byte.
    pub fn space_amplification(&self) -> f64 {
        self.final_bytes as f64 / self.live_bytes.max(1) as f64
    }
}

/// Run `workload` under `settings` until everything is written and settled; `observe` sees each plan as
/// it is begun, with the time in seconds.
///
/// ```
/// use esker_compaction::simulate::{Order, Workload, simulate};
/// use esker_compaction::Settings;
/// let workload = Workload {
///     keys: 10_000_000, entry_bytes: 116, order: Order::Ascending, user_bytes: 1 << 30,
///     write_rate: 100e6, memtable_bytes: 64 << 20, workers: 1, merge_rate: 300e6, l0_depth_stop: 20,
/// };
/// let report = simulate(&Settings::default(), &workload, |_, _| {});
/// assert!(report.write_amplification() < 1.1, "ordered writes are flushed once and then moved");
/// ```
pub fn simulate(settings: &Settings, workload: &Workload, observe: impl FnMut(f64, &Plan)) -> Report {
    let mut simulation = Simulation {
        settings,
        workload,
        model: Model::new(workload),
        tables: Vec::new(),
        busy: Busy::default(),
        jobs: Vec::new(),
        now: 0.0,
        load: Load::Rested,
        last_flush: 0.0,
        report: Report::default(),
        observe,
    };
    simulation.run();
    simulation.conclude()
}

struct Simulation<'a, F> {
    settings: &'a Settings,
    workload: &'a Workload,
    model: Model,
    tables: Vec<(u8, Arc<TableHandle>)>,
    busy: Busy,
    jobs: Vec<Running>,
    now: f64,
    load: Load,
    last_flush: f64,
    report: Report,
    observe: F,
}

/// When this long has passed without a flush, level 0 rests.
const REST_SECONDS: f64 = 5.0;

struct Running {
    plan: Plan,
    id: JobId,
    ends: f64,
}

impl<F: FnMut(f64, &Plan)> Simulation<'_, F> {
    fn run(&mut self) {
        let fill_seconds = self.workload.memtable_bytes as f64 / self.workload.write_rate;
        let mut full_at = fill_seconds;
        while self.report.user_bytes < self.workload.user_bytes {
            let stalled = self.l0_depth() >= self.workload.l0_depth_stop;
            match self.next_end() {
                None if self.resting_from() < full_at => self.rest(),
                Some(end) if !stalled && self.resting_from() < end.min(full_at) => self.rest(),
                Some(end) if stalled || end < full_at => {
                    let waits_from = self.now.max(full_at);
                    self.finish_job(end);
                    if stalled && end > waits_from {
                        self.report.stalled_seconds += end - waits_from;
                        full_at = end;
                    }
                }
                _ => {
                    self.now = self.now.max(full_at);
                    self.flush();
                    full_at = self.now + fill_seconds;
                }
            }
            self.start_jobs();
        }
        loop {
            match self.next_end() {
                Some(end) if end <= self.resting_from() => self.finish_job(end),
                _ if self.resting_from().is_finite() => self.rest(),
                Some(end) => self.finish_job(end),
                None => return,
            }
            self.start_jobs();
        }
    }

    /// When the last flush will be long enough ago; never, if it is already.
    fn resting_from(&self) -> f64 {
        match self.load {
            Load::Flushing => self.last_flush + REST_SECONDS,
            Load::Rested | Load::Read => f64::INFINITY,
        }
    }

    fn rest(&mut self) {
        self.now = self.now.max(self.resting_from());
        self.load = Load::Rested;
    }

    fn l0_depth(&self) -> usize {
        score(&self.tree(), self.settings, self.load).l0_depth
    }

    fn conclude(mut self) -> Report {
        let tree = self.tree();
        self.report.levels = tree.levels.iter().map(esker_manifest::Level::bytes).collect();
        self.report.final_bytes = tree.bytes();
        self.report.live_bytes = self.model.live_bytes();
        self.report.seconds = self.now;
        self.report
    }

    fn tree(&self) -> Tree {
        Tree::build(self.tables.iter().cloned())
    }

    fn next_end(&self) -> Option<f64> {
        self.jobs.iter().map(|job| job.ends).min_by(f64::total_cmp)
    }

    fn flush(&mut self) {
        let tree = self.tree();
        let outputs = self.model.flush(&flush_cut(&tree, self.settings));
        self.report.user_bytes += self.workload.memtable_bytes;
        self.report.flushed_bytes += outputs.iter().map(|meta| meta.file_bytes).sum::<u64>();
        self.tables.extend(outputs.into_iter().map(|meta| (0, TableHandle::detached(meta))));
        self.report.l0_depth_max = self.report.l0_depth_max.max(self.l0_depth());
        (self.load, self.last_flush) = (Load::Flushing, self.now);
        self.note_peak();
    }

    /// Keep the workers busy.
    fn start_jobs(&mut self) {
        while self.jobs.len() < self.workload.workers {
            let tree = self.tree();
            let plan = pick(&tree, KeyspaceId(1), self.settings, &self.busy, SeqNo::MAX, self.load);
            let Some(plan) = plan else { return };
            (self.observe)(self.now, &plan);
            *self.report.plans.entry(plan.kind()).or_default() += 1;
            let seconds =
                if plan.trivial_move { 0.0 } else { plan.input_bytes() as f64 / self.workload.merge_rate };
            let id = self.busy.start(&plan);
            self.jobs.push(Running { plan, id, ends: self.now + seconds });
            // Moves take no time, and free what stands behind them.
            if seconds == 0.0 {
                self.finish_job(self.now);
            }
        }
    }

    /// The job that ends at `end` is installed.
    fn finish_job(&mut self, end: f64) {
        self.now = self.now.max(end);
        let Some(at) = self.jobs.iter().position(|job| job.ends <= end) else { return };
        let Running { plan, id, .. } = self.jobs.swap_remove(at);
        self.busy.end(id);
        let level = plan.output_level;
        if plan.trivial_move {
            self.report.moved_bytes += plan.input_bytes();
        }
        let outputs: Vec<Arc<TableHandle>> = if plan.trivial_move {
            plan.tables().map(|(_, table)| Arc::clone(table)).collect()
        } else {
            let metas = self.model.merge(&plan);
            self.report.compacted_bytes += metas.iter().map(|meta| meta.file_bytes).sum::<u64>();
            metas.into_iter().map(TableHandle::detached).collect()
        };
        if !plan.trivial_move {
            self.tables.extend(outputs.iter().map(|table| (level, Arc::clone(table))));
            self.note_peak();
            self.tables.truncate(self.tables.len() - outputs.len());
        }
        let gone: Vec<_> = plan.tables().map(|(_, table)| table.number()).collect();
        self.tables.retain(|(_, table)| !gone.contains(&table.number()));
        self.tables.extend(outputs.into_iter().map(|table| (level, table)));
    }

    fn note_peak(&mut self) {
        let bytes = self.tables.iter().map(|(_, table)| table.meta.file_bytes).sum();
        self.report.peak_bytes = self.report.peak_bytes.max(bytes);
    }
}
