//! esker and its peers under the same workloads, side by side. See README.md.
//!
//! The process that a person starts measures nothing: it starts a child for each round, sequence of
//! workloads and engine, so that a peak of memory belongs to one engine and a slow minute of the machine
//! to none in particular.
#![deny(unsafe_code)]

mod control_group;
mod histogram;
mod keys;
mod machine;
mod record;
mod rows;
mod run;
mod shapes;
mod store;
mod stores;
mod table;
mod values;
mod workloads;
mod zipf;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::store::Result;

/// esker and other embedded storage engines under the same workloads, side by side.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure; runs that FILE holds already are not repeated.
    Run(run::Options),
    /// Print FILE as a Markdown table: medians, spread, ratios to esker.
    Table {
        /// The record that `run` wrote.
        file: PathBuf,
    },
    /// List engines and sequences of workloads.
    List,
    /// Run one sequence on one engine and print its figures: what `run` starts.
    #[command(hide = true)]
    Child(run::Child),
}

fn main() -> ExitCode {
    let outcome: Result<()> = match Arguments::parse().command {
        Command::Run(options) => run::run(&options),
        Command::Table { file } => table::print(&file),
        Command::List => {
            run::list();
            Ok(())
        }
        Command::Child(child) => run::child(&child),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("peers: {error}");
            ExitCode::FAILURE
        }
    }
}
