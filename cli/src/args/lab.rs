//! `esker lab`: the experiments on key layouts.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum, value_parser};
use esker_bench::lab::interest::Columns;
use esker_bench::lab::{Experiment, REPEAT_MAX};

/// Run the lab: measure what key layouts cost on this engine, and write a report.
///
/// Answers that layouts give are compared before their costs are: a layout that is fast and wrong
/// fails the run. The last line on standard output names the report's page.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct LabArgs {
    /// The experiments to run, in this order. If none is named: x1 and x8; or those whose data --graph,
    /// --interest and --mail give.
    #[arg(value_parser = experiment_parser(), value_name = "X", ignore_case = true)]
    pub experiments: Vec<Experiment>,
    /// Write the figures as JSON to this file.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the report into this directory (created if absent).
    #[arg(long, value_name = "DIR", default_value = "esker-report")]
    pub report: PathBuf,
    /// How much data.
    #[arg(long, value_enum, default_value_t = Scale::Smoke)]
    pub scale: Scale,
    /// The seed all data and orders are drawn from: the same seed, the same operations.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// How often to repeat each measurement of x1, x2, x3, x8, x11 and x12, for medians and spread: at most 1000 times; as
    /// the scale has it if not given. The others measure once, many operations; the report says what was done.
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=i64::from(REPEAT_MAX)))]
    pub repeat: Option<u32>,
    /// Use the graph in this file (lines of two node numbers, `#` comments, optionally gzipped)
    /// for x1 instead of a generated one.
    #[arg(long, value_name = "FILE")]
    pub graph: Option<PathBuf>,
    /// Use the facts in this file (who played what, on which day, how often; tabs, `::` or commas between
    /// columns, optionally gzipped) for x8 instead of generated ones.
    #[arg(long, value_name = "FILE")]
    pub interest: Option<PathBuf>,
    /// The columns of --interest, by the name in its first line or by number, such as
    /// `user=reviewerId,item=vendorId,day=date,count=rating` or `user=1,item=2,header`. Day and count may be
    /// left out; without --columns, the first two are user and item.
    #[arg(long, value_name = "COLUMNS", requires = "interest")]
    pub columns: Option<Columns>,
    /// Use the mail in this file (a message a line: id, path whose first part is the mailbox, seconds since
    /// 1970, subject; tabs between columns, optionally gzipped) for x10 instead of generated mailboxes.
    #[arg(long, value_name = "FILE")]
    pub mail: Option<PathBuf>,
    /// The layouts of x8 to run: wide, tall, both, whole-key, per-field; all if not given.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub layouts: Vec<String>,
    /// The store under test.
    #[arg(long, value_enum, default_value_t = Store::Engine)]
    pub store: Store,
}

impl Default for LabArgs {
    /// As `esker lab` without arguments.
    fn default() -> Self {
        LabArgs {
            experiments: Vec::new(),
            json: None,
            report: "esker-report".into(),
            scale: Scale::Smoke,
            seed: 1,
            repeat: None,
            graph: None,
            interest: None,
            columns: None,
            mail: None,
            layouts: Vec::new(),
            store: Store::Engine,
        }
    }
}

/// An experiment by its name, as the lab's list of them has it.
fn experiment_parser() -> impl TypedValueParser<Value = Experiment> {
    let names =
        Experiment::ALL.map(|experiment| PossibleValue::new(experiment.name()).help(experiment.about()));
    PossibleValuesParser::new(names).try_map(|name| {
        let named = |experiment: &Experiment| experiment.name().eq_ignore_ascii_case(&name);
        Experiment::ALL.into_iter().find(named).ok_or_else(|| format!("there is no experiment {name}"))
    })
}

/// How much data an experiment works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scale {
    /// Seconds: shows that everything runs, its times mean nothing.
    Tiny,
    /// The default experiments within a minute or two.
    Smoke,
    /// The sizes of the original study: minutes.
    Desk,
    /// Beyond them: an hour, and tens of gigabytes.
    Large,
}

/// The store under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Store {
    /// The engine, in a temporary directory.
    Engine,
    /// A sorted map in memory (a BTreeMap), for comparison.
    Map,
    /// redb, if the program was built with the feature `stores`.
    Redb,
    /// fjall, if the program was built with the feature `stores`.
    Fjall,
}
