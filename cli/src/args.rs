//! What the command line understands. Help texts are the documentation comments here.
//!
//! A command's arguments are plain data; running it is another module's business.

mod count;
pub mod db;
pub mod inspect;
pub mod lab;
pub mod workload;

pub use count::parse_count;

use clap::{Parser, Subcommand};

/// esker: an embedded, ordered key-value engine and a laboratory for key layouts.
///
/// The engine is a log-structured merge tree: writes go to a log and to memory, memory is flushed to
/// sorted tables, and tables are merged level by level.
///
/// Without a command the lab runs a study of followers and one of wide and tall tables, and writes
/// esker-report/index.html.
#[derive(Parser, Debug)]
#[command(name = "esker", version, max_term_width = 100, after_long_help = crate::exit::HELP)]
pub struct Cli {
    /// What to do; the lab's two default experiments if nothing is said.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// A command.
#[derive(Subcommand, Debug, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "a comment on a variant would be its help text; the arguments' types have it"
)]
pub enum Command {
    Lab(lab::LabArgs),
    #[command(after_long_help = db::EXAMPLES)]
    Db(db::DbArgs),
    #[command(after_long_help = workload::EXAMPLES)]
    Workload(workload::WorkloadArgs),
    Inspect(inspect::InspectArgs),
}

#[cfg(test)]
mod tests;
