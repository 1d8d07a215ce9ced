//! What the lab found, as data, as text for a terminal, as JSON and as one HTML page.

mod chart;
mod html;
mod raster;
mod study_html;
mod study_text;
mod svg;
mod text;
mod units;

use std::path::{Path, PathBuf};

use esker_layouts::followers::Layout;
use serde::Serialize;

use super::fit::Fit;
use super::model::{Form, Operation, Tally};
use super::stats::Interval;
use super::study::Study;
use super::verdict::{Outcome, Verdict};
use super::{Experiment, LabOptions, Result, files};
pub(super) use units::duration;
use units::signed;

/// Everything one run of the lab found.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Version of this program.
    pub version: &'static str,
    /// Whether it was built with optimisation.
    pub optimised: bool,
    /// Processor, cores, memory, system.
    pub machine: String,
    /// The store under test.
    pub store: String,
    /// How much work was done.
    pub scale: String,
    /// The seed of all randomness.
    pub seed: u64,
    /// The edge list X1 ran on.
    pub graph: Option<PathBuf>,
    /// The file of facts X8 ran on.
    pub interest: Option<PathBuf>,
    /// The file of mail X10 ran on.
    pub mail: Option<PathBuf>,
    /// The experiments on followers, in the order they ran.
    pub experiments: Vec<ExperimentReport>,
    /// The other experiments, in the order they ran.
    pub studies: Vec<Study>,
}

/// What one experiment found.
#[derive(Clone, Debug, Serialize)]
pub struct ExperimentReport {
    /// "X1".
    pub name: String,
    /// In a few words.
    pub title: String,
    /// What the source document claims.
    pub claimed: String,
    /// What theory predicts.
    pub predicted: String,
    /// What was done.
    pub protocol: String,
    /// How often all of it was repeated.
    pub repetitions: u32,
    /// What was counted, in words, beyond the tables.
    pub notes: Vec<String>,
    /// One panel for every operation (and part).
    pub panels: Vec<Panel>,
}

/// One operation's cost over one range of x, for every layout.
#[derive(Clone, Debug, Serialize)]
pub struct Panel {
    /// What the panel shows.
    pub title: String,
    /// The operation.
    pub operation: Operation,
    /// What x is.
    pub x_label: String,
    /// Whether both axes are logarithmic.
    pub logarithmic: bool,
    /// One series a layout.
    pub series: Vec<Series>,
}

/// One layout's cost in a panel.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    /// The layout's name.
    pub layout: &'static str,
    /// How the cost should grow.
    pub predicted: Form,
    /// The points, x ascending.
    pub points: Vec<Point>,
    /// Counters against formulas, over all points and repetitions.
    pub counters: Tally,
    /// Whether every single operation's counters equalled the formula.
    pub counters_equal: bool,
    /// Growth of the keys touched.
    pub counter_fit: Option<Fit>,
    /// Growth of the time.
    pub time_fit: Option<Fit>,
    /// Whether the claim holds.
    pub verdict: Verdict,
}

/// The cost at one x.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// Network size or degree.
    pub x: f64,
    /// Whether the point enters the fits.
    pub fitted: bool,
    /// Operations in one repetition.
    pub operations: u64,
    /// Nanoseconds an operation: within a repetition the mean without the fastest and slowest 2.5 %, over
    /// repetitions the median.
    pub nanos: Interval,
    /// Nanoseconds an operation: plain mean within a repetition, median over repetitions. Much above
    /// `nanos` means stalls.
    pub mean_nanos: f64,
    /// The same for checks that were answered yes.
    pub hit_nanos: Option<Interval>,
    /// The same for checks that were answered no.
    pub miss_nanos: Option<Interval>,
    /// *Modelled*: the median time plus 200 µs for every call, as over a network.
    pub modelled_nanos: f64,
    /// Counted by the store, mean of an operation.
    pub counted: MeanCounters,
    /// By the formula, mean of an operation.
    pub formula: MeanCounters,
}

/// Counters of the average operation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MeanCounters {
    /// Keys read.
    pub read: f64,
    /// Keys written.
    pub written: f64,
    /// Tombstones written.
    pub tombstones: f64,
    /// Calls into the store.
    pub calls: f64,
}

impl Report {
    /// A report that nothing was found for yet.
    pub(super) fn new(store: &str, options: &LabOptions) -> Self {
        Report {
            version: env!("CARGO_PKG_VERSION"),
            optimised: !cfg!(debug_assertions),
            machine: files::machine(),
            store: store.to_owned(),
            scale: options.scale.to_string(),
            seed: options.seed,
            graph: options.graph.clone(),
            interest: options.interest.as_ref().map(|interest| interest.file.clone()),
            mail: options.mail.clone(),
            experiments: Vec::new(),
            studies: Vec::new(),
        }
    }

    /// The report of `experiment`, if it ran and is about followers.
    pub fn experiment(&self, experiment: Experiment) -> Option<&ExperimentReport> {
        self.experiments.iter().find(|report| report.name == experiment.to_string())
    }

    /// The study of `experiment`, if it ran and is not about followers.
    pub fn study(&self, experiment: Experiment) -> Option<&Study> {
        self.studies.iter().find(|study| study.name == experiment.to_string())
    }

    /// Whether every counter of every experiment equalled its formula.
    pub fn counters_equal(&self) -> bool {
        self.experiments.iter().all(ExperimentReport::counters_equal)
            && self.studies.iter().all(Study::counters_equal)
    }

    /// How many operations were compared with a formula.
    pub fn compared(&self) -> u64 {
        let followers = self.experiments.iter().flat_map(ExperimentReport::series);
        let followers = followers.map(|(_, series)| series.counters.operations);
        followers.chain(self.studies.iter().map(Study::compared)).sum()
    }

    /// Tables for a terminal.
    pub fn to_text(&self) -> String {
        text::render(self)
    }

    /// One self-contained HTML page, without scripts and without anything fetched.
    pub fn to_html(&self) -> String {
        html::render(self)
    }

    /// JSON, indented.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain structs serialise")
    }

    /// Write the JSON to `file`.
    pub fn write_json(&self, file: &Path) -> Result<()> {
        files::write(file, &self.to_json())
    }

    /// An error if the page could not be written to `directory`, or the figures to `json`, as things are: to be
    /// known before hours of measuring. Leaves nothing behind.
    pub fn probe(directory: &Path, json: Option<&Path>) -> Result<()> {
        files::probe(&page(directory))?;
        json.map_or(Ok(()), files::probe)
    }

    /// Write the page to `index.html` in `directory`, which is made if need be; returns its path.
    pub fn write_html(&self, directory: &Path) -> Result<PathBuf> {
        let file = page(directory);
        files::write(&file, &self.to_html())?;
        Ok(file)
    }

    /// The options of the run in one line.
    pub fn options_line(&self) -> String {
        let name = |file: &PathBuf| file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let files = [("graph", &self.graph), ("interest", &self.interest), ("mail", &self.mail)];
        let files = files.into_iter().filter_map(|(what, file)| Some((what, file.as_ref()?)));
        let mut data: Vec<String> = files.map(|(what, file)| format!("{what} {}", name(file))).collect();
        if data.is_empty() {
            data.push("generated data".to_owned());
        }
        let data = data.join(", ");
        format!("scale {}, seed {}, {data}", self.scale, self.seed)
    }
}

/// The page in `directory`.
fn page(directory: &Path) -> PathBuf {
    directory.join("index.html")
}

impl ExperimentReport {
    /// What was done, and how often.
    fn done(&self) -> String {
        done(&self.protocol, Some(self.repetitions))
    }

    /// Every series with its panel.
    pub fn series(&self) -> impl Iterator<Item = (&Panel, &Series)> {
        self.panels.iter().flat_map(|panel| panel.series.iter().map(move |series| (panel, series)))
    }

    /// Whether every counter of every layout and operation equalled its formula.
    pub fn counters_equal(&self) -> bool {
        self.series().all(|(_, series)| series.counters_equal)
    }

    /// How many claims came out as `outcome`.
    pub fn outcomes(&self, outcome: Outcome) -> usize {
        self.series().filter(|(_, series)| series.verdict.outcome == outcome).count()
    }
}

impl Study {
    /// What was done, and how often.
    fn done(&self) -> String {
        done(&self.protocol, self.repetitions)
    }
}

fn done(protocol: &str, repetitions: Option<u32>) -> String {
    match repetitions {
        Some(repetitions) => format!("{protocol} Repetitions: {repetitions}."),
        None => format!("{protocol} Each measurement was made once, of many operations."),
    }
}

/// What the article calls a layout.
fn article_name(layout: &str) -> &'static str {
    match Layout::ALL.into_iter().find(|known| known.name() == layout) {
        Some(Layout::Default(_)) => "variant 1",
        Some(Layout::Count(_)) => "variant 2",
        Some(Layout::Column) => "variant 3",
        Some(Layout::Row) => "variant 4",
        Some(Layout::Hash) => "variant 5",
        Some(Layout::Relational) | None => "table and index",
    }
}

/// "0.97 [0.94, 1.01]", or a dash.
fn slope(fit: Option<&Fit>) -> String {
    fit.and_then(|fit| fit.slope)
        .map_or("–".into(), |s| format!("{} [{}, {}]", signed(s.median), signed(s.low), signed(s.high)))
}

fn big_o(form: Form) -> &'static str {
    match form {
        Form::Constant => "O(1)",
        Form::Affine => "O(n)",
    }
}
