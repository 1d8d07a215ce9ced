//! The lab: experiments that put claims about key layouts to the test.
//!
//! Every experiment drives all layouts through the same operations and scores two things apart:
//! *counters*, which the store keeps below the layout and which must equal a formula at every single
//! operation ([`model`]); and *time*, whose growth is fitted ([`fit`]). A claim is reproduced when the
//! counters match exactly and the time prefers the predicted form ([`verdict`]).
//!
//! ```
//! use esker_bench::lab::{Experiment, LabOptions, Scale, Silent, StoreChoice, run};
//!
//! let options = LabOptions::new(Scale::Tiny, vec![Experiment::X1]);
//! let options = LabOptions { store: StoreChoice::Map, ..options };
//! let report = run(&options, &mut Silent)?;
//! assert!(report.experiments[0].counters_equal());
//! println!("{}", report.to_text());
//! # Ok::<(), esker_bench::lab::LabError>(())
//! ```
//!
//! X1 to X3 are about followers and report series of costs over an axis ([`report::ExperimentReport`]);
//! every other experiment fills a [`study::Study`].
//!
//! # Rules of measuring
//!
//! Inputs come from a seed or a file. In each repetition the layouts run in a fresh random order over
//! fresh or equally prepared stores. Only the call itself is timed; names are formatted and answers
//! checked outside. Figures are medians over repetitions with bootstrap intervals.

pub mod edges;
mod experiments;
mod files;
pub mod fit;
pub mod generate;
pub mod harness;
pub mod interest;
pub mod mail;
pub mod model;
mod registry;
pub mod report;
mod run;
pub mod stats;
pub mod stopwatch;
pub mod store;
#[cfg(feature = "stores")]
pub mod stores;
pub mod study;
pub mod verdict;

use std::fmt;
use std::path::PathBuf;

use esker_layouts::followers::{FriendStore, Layout, open};
use esker_layouts::kv::OrderedKv;

use interest::Interest;
pub use registry::Experiment;
pub use report::Report;
use store::{EngineFactory, MapFactory, Store};

/// Why the lab stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// A line of an edge list is not two ids.
    #[error("{}, line {line}: {what}; an edge list has two ids a line, separated by tabs or blanks, and comments after #", file.display())]
    BadEdge {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong with it.
        what: String,
    },
    /// A file could not be read or written.
    #[error("cannot {op} {}: {source}", file.display())]
    File {
        /// The operation, as a verb.
        op: &'static str,
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A layout or its store failed.
    #[error("{doing}: {source}")]
    Layout {
        /// What the lab was doing.
        doing: String,
        /// What failed.
        source: esker_layouts::Error,
    },
    /// A line of a file of facts is not as its columns say.
    #[error("{}, line {line}: {what}", file.display())]
    BadFact {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong with it.
        what: String,
    },
    /// A layout gave a wrong answer to a question.
    #[error("the layout {layout} answered {question} with {found}; right is {expected}")]
    WrongResult {
        /// The layout.
        layout: &'static str,
        /// The question, and about whom or what.
        question: String,
        /// What it said.
        found: String,
        /// What is right.
        expected: String,
    },
    /// A layout of followers gave a wrong answer.
    #[error("the layout {layout} answered that {user} {} {friend}, which is wrong", if *answer { "reads" } else { "does not read" })]
    WrongAnswer {
        /// The layout.
        layout: Layout,
        /// The user asked about.
        user: String,
        /// The friend asked about.
        friend: String,
        /// What it said.
        answer: bool,
    },
    /// A file could be read, and there is nothing in it.
    #[error("{} has no {what}", file.display())]
    Empty {
        /// The file.
        file: PathBuf,
        /// What it should have: edges, facts, mail.
        what: &'static str,
    },
    /// An option is out of bounds.
    #[error("{0}")]
    BadOption(String),
}

/// The result of the lab's calls.
pub type Result<T, E = LabError> = std::result::Result<T, E>;

/// How much work to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Seconds even unoptimised, for tests: the counters are as exact as ever, the times mean nothing.
    Tiny,
    /// The default experiments within a minute or two on two cores.
    Smoke,
    /// The sizes of the source documents; minutes.
    Desk,
    /// Beyond them; an hour and tens of gigabytes.
    Large,
}

impl Scale {
    /// Repetitions unless the options say otherwise.
    pub fn repeat(self) -> u32 {
        match self {
            Scale::Tiny => 2,
            Scale::Smoke => 3,
            Scale::Desk | Scale::Large => 10,
        }
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Scale::Tiny => "tiny",
            Scale::Smoke => "smoke",
            Scale::Desk => "desk",
            Scale::Large => "large",
        })
    }
}

/// The most repetitions that are run: X2 and X3 make the names of all their rounds' new friends beforehand.
pub const REPEAT_MAX: u32 = 1_000;

/// The store under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreChoice {
    /// esker, in a temporary directory.
    Engine,
    /// The reference store in memory: a `BTreeMap`, with versions for snapshots.
    Map,
    /// redb, in a temporary directory; only with the feature `stores`.
    Redb,
    /// fjall, in a temporary directory; only with the feature `stores`.
    Fjall,
}

/// What to run.
#[derive(Clone, Debug)]
pub struct LabOptions {
    /// The experiments, in order.
    pub experiments: Vec<Experiment>,
    /// How much work.
    pub scale: Scale,
    /// Where all randomness comes from. The same seed gives the same operations in the same order.
    pub seed: u64,
    /// Repetitions, of the experiments that have some; `None`: the scale's own number. At least 1 and at most
    /// [`REPEAT_MAX`].
    pub repeat: Option<u32>,
    /// An edge list (plain or gzip) for X1 instead of generated networks.
    pub graph: Option<PathBuf>,
    /// Facts of users and items for X8 instead of generated ones.
    pub interest: Option<Interest>,
    /// A file of mail for X10 instead of generated mailboxes: see [`mail`].
    pub mail: Option<PathBuf>,
    /// The layouts of X8 to run: `wide`, `tall`, `both`, `whole-key`, `per-field`; all if empty. Claims
    /// about layouts that do not run are left out.
    pub layouts: Vec<String>,
    /// The store under test.
    pub store: StoreChoice,
}

impl LabOptions {
    /// The default options at `scale`: seed 1, generated networks, the engine.
    pub fn new(scale: Scale, experiments: Vec<Experiment>) -> Self {
        LabOptions {
            experiments,
            scale,
            seed: 1,
            repeat: None,
            graph: None,
            interest: None,
            mail: None,
            layouts: Vec::new(),
            store: StoreChoice::Engine,
        }
    }

    /// Repetitions in effect.
    pub fn repetitions(&self) -> u32 {
        self.repeat.unwrap_or(self.scale.repeat())
    }

    /// An error where an option is out of bounds, or is for an experiment that is not to run: a report must not
    /// name data that nothing has read.
    fn check(&self) -> Result<()> {
        let repeat = self.repetitions();
        if repeat == 0 {
            return Err(LabError::BadOption("repeat is 0; at least one repetition is needed".into()));
        }
        if repeat > REPEAT_MAX {
            let what = format!("repeat is {repeat}; at most {REPEAT_MAX} repetitions are run");
            return Err(LabError::BadOption(what));
        }
        for (option, is_given, experiment) in [
            ("graph", self.graph.is_some(), Experiment::X1),
            ("interest", self.interest.is_some(), Experiment::X8),
            ("layouts", !self.layouts.is_empty(), Experiment::X8),
            ("mail", self.mail.is_some(), Experiment::X10),
        ] {
            if is_given && !self.experiments.contains(&experiment) {
                let name = experiment.name();
                return Err(LabError::BadOption(format!(
                    "--{option} is for {name} alone, which is not to run; name {name} too, or leave --{option} out"
                )));
            }
        }
        experiments::x8::check(self)
    }
}

/// Hears how far the lab has come.
pub trait Progress {
    /// An experiment begins and will take `steps` steps.
    fn begin(&mut self, experiment: Experiment, steps: u64);
    /// A step is done; `what` names it.
    fn step(&mut self, what: &str);
    /// The experiment is done.
    fn end(&mut self);
    /// What was found so far, after each experiment: a run of an hour can be kept before it ends. An error
    /// ends the run.
    ///
    /// # Errors
    /// What went wrong with keeping it.
    fn found(&mut self, _so_far: &Report) -> Result<()> {
        Ok(())
    }
}

/// Shows no progress.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn begin(&mut self, _experiment: Experiment, _steps: u64) {}
    fn step(&mut self, _what: &str) {}
    fn end(&mut self) {}
}

/// Opens a layout over a store. The lab uses [`RealLayouts`]; tests put wrong layouts in its place.
pub trait OpenLayout<K> {
    /// `layout` over `store`.
    fn open<'k>(&self, store: &'k K, layout: Layout) -> esker_layouts::Result<Box<dyn FriendStore + 'k>>;
}

/// The layouts as `esker_layouts` has them.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealLayouts;

impl<K: OrderedKv> OpenLayout<K> for RealLayouts {
    fn open<'k>(&self, store: &'k K, layout: Layout) -> esker_layouts::Result<Box<dyn FriendStore + 'k>> {
        open(store, layout)
    }
}

/// Run the experiments of `options` on the store they name.
pub fn run(options: &LabOptions, progress: &mut dyn Progress) -> Result<Report> {
    match options.store {
        StoreChoice::Engine => run_on(&EngineFactory, &RealLayouts, options, progress),
        StoreChoice::Map => run_on(&MapFactory, &RealLayouts, options, progress),
        #[cfg(feature = "stores")]
        StoreChoice::Redb => run_on(&stores::RedbFactory, &RealLayouts, options, progress),
        #[cfg(feature = "stores")]
        StoreChoice::Fjall => run_on(&stores::FjallFactory, &RealLayouts, options, progress),
        #[cfg(not(feature = "stores"))]
        StoreChoice::Redb | StoreChoice::Fjall => Err(LabError::BadOption(
            "this program was built without the stores redb and fjall; build it with --features stores"
                .into(),
        )),
    }
}

/// Run the experiments of `options` on stores from `store`, laid out by `layouts`.
pub fn run_on<S: Store>(
    store: &S,
    layouts: &impl OpenLayout<S::Kv>,
    options: &LabOptions,
    progress: &mut dyn Progress,
) -> Result<Report> {
    options.check()?;
    let mut report = Report::new(store.name(), options);
    for experiment in &options.experiments {
        let found = experiment.run(store, layouts, options, progress);
        progress.end();
        match found? {
            registry::Found::Followers(experiment) => report.experiments.push(experiment),
            registry::Found::Study(study) => report.studies.push(study),
        }
        progress.found(&report)?;
    }
    Ok(report)
}

#[cfg(test)]
mod tests;
