//! `esker lab`: the experiments on key layouts.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::parse_count;

/// Run the lab: measure what key layouts cost on this engine, and write a report.
///
/// Without names every experiment runs. Answers that two layouts give are compared before their costs
/// are: a layout that is fast and wrong fails the run.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct LabArgs {
    /// The experiments to run, by name; all of them if none is named.
    #[arg(value_name = "X")]
    pub experiments: Vec<String>,
    /// Write the figures as JSON to this file.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the report into this directory (created if absent).
    #[arg(long, value_name = "DIR", default_value = "esker-report")]
    pub report: PathBuf,
    /// How much data.
    #[arg(long, value_enum, default_value_t = Scale::Desk)]
    pub scale: Scale,
    /// The seed all data and orders are drawn from: the same seed, the same operations.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// How often to repeat each measurement; the report shows medians and spread.
    #[arg(long, value_name = "N", default_value = "3", value_parser = at_least_one)]
    pub repeat: u64,
    /// Use the graph in this file (lines of two node numbers, `#` comments, optionally gzipped)
    /// instead of a generated one.
    #[arg(long, value_name = "FILE")]
    pub graph: Option<PathBuf>,
}

/// How much data an experiment works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scale {
    /// Seconds: shows that everything runs, its figures mean little.
    Smoke,
    /// Minutes on a laptop.
    Desk,
    /// More than memory holds: for a machine of its own.
    Large,
}

fn at_least_one(text: &str) -> Result<u64, String> {
    match parse_count(text)? {
        0 => Err("at least 1".to_owned()),
        count => Ok(count),
    }
}
