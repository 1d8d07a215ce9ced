//! The experiments there are: their names, what they are about, and where they run. An experiment is
//! added here and nowhere else; its work is one file or folder in `experiments/`.

use std::fmt;

use super::experiments::{x1, x2, x3, x6, x8, x9, x10, x11, x12, x13, x15};
use super::report::ExperimentReport;
use super::store::Store;
use super::study::Study;
use super::{LabOptions, OpenLayout, Progress, Result};

/// An experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Experiment {
    /// The article's own: add, check and delete all friends while the network grows; or, with a graph
    /// from a file, while the degree does.
    X1,
    /// The same to larger networks, on sampled operations.
    X2,
    /// What drives the cost: the network's size at a fixed degree, and the degree in a fixed network.
    X3,
    /// How long a name is: concatenated and hashed keys of followers.
    X6,
    /// The same facts in wide rows, tall tables and under hashed keys: who plays which game?
    X8,
    /// Filters and block sizes: reads of what is there and what is not, cold and warm; skewed users.
    X9,
    /// Mailboxes wide and narrow: a user's mail, a day's, one message; the slides' bounds.
    X10,
    /// Hot spots: which servers of a cluster the writers of growing keys keep busy, under each key layout.
    X11,
    /// Keys dropped by a loop or a range delete, and the scans after it.
    X12,
    /// Rows and vectors: packed, in cells, in chunks.
    X13,
    /// Secondary indexes: lookups, writes, races.
    X15,
}

impl Experiment {
    /// All experiments, in the order of their numbers.
    pub const ALL: [Experiment; 11] = [
        Experiment::X1,
        Experiment::X2,
        Experiment::X3,
        Experiment::X6,
        Experiment::X8,
        Experiment::X9,
        Experiment::X10,
        Experiment::X11,
        Experiment::X12,
        Experiment::X13,
        Experiment::X15,
    ];

    /// Those that run when none is named.
    pub const DEFAULT: [Experiment; 2] = [Experiment::X1, Experiment::X8];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Experiment::X1 => "x1",
            Experiment::X2 => "x2",
            Experiment::X3 => "x3",
            Experiment::X6 => "x6",
            Experiment::X8 => "x8",
            Experiment::X9 => "x9",
            Experiment::X10 => "x10",
            Experiment::X11 => "x11",
            Experiment::X12 => "x12",
            Experiment::X13 => "x13",
            Experiment::X15 => "x15",
        }
    }

    /// What it does, in a line of help.
    pub fn about(self) -> &'static str {
        match self {
            Experiment::X1 => {
                "Add, check and delete followers while the network grows (or, with --graph, the degree)"
            }
            Experiment::X2 => "The same to larger networks, on sampled operations",
            Experiment::X8 => {
                "Who plays which game: wide rows, tall tables, hashed keys (with --interest, your own facts)"
            }
            Experiment::X6 => {
                "How long a name is: concatenated and hashed keys, bytes on disk and time an operation"
            }
            Experiment::X9 => {
                "Filters and block sizes: keys that are there or not, wide and narrow rows cold and warm, skew"
            }
            Experiment::X10 => {
                "Mailboxes wide and narrow: a user, a day, a message (with --mail, your own mail)"
            }
            Experiment::X11 => {
                "Hot spots: growing keys plain, salted, reordered and hashed over 16 servers"
            }
            Experiment::X12 => "Many keys dropped by a loop or a range delete, and the scans after it",
            Experiment::X13 => {
                "Rows packed in one value or with a key per field; vectors packed, per element, in chunks"
            }
            Experiment::X15 => {
                "Secondary indexes: reads per lookup, writes per index, racing inserts, a build under load"
            }
            Experiment::X3 => "What drives the cost of a follower: the network's size, or the degree",
        }
    }

    /// Run it.
    pub(super) fn run<S: Store>(
        self,
        store: &S,
        layouts: &impl OpenLayout<S::Kv>,
        options: &LabOptions,
        progress: &mut dyn Progress,
    ) -> Result<Found> {
        match self {
            Experiment::X1 => x1::run(store, layouts, options, progress).map(Found::Followers),
            Experiment::X2 => x2::run(store, layouts, options, progress).map(Found::Followers),
            Experiment::X3 => x3::run(store, layouts, options, progress).map(Found::Followers),
            Experiment::X6 => x6::run(store, layouts, options, progress).map(Found::Study),
            Experiment::X8 => x8::run(store, options, progress).map(Found::Study),
            Experiment::X9 => x9::run(store, options, progress).map(Found::Study),
            Experiment::X10 => x10::run(store, options, progress).map(Found::Study),
            Experiment::X11 => x11::run(store, options, progress).map(Found::Study),
            Experiment::X12 => x12::run(store, options, progress).map(Found::Study),
            Experiment::X13 => x13::run(store, options, progress).map(Found::Study),
            Experiment::X15 => x15::run(store, options, progress).map(Found::Study),
        }
    }
}

impl fmt::Display for Experiment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// What an experiment found.
pub(super) enum Found {
    /// About followers.
    Followers(ExperimentReport),
    /// About anything else.
    Study(Study),
}
