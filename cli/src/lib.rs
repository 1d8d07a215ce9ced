//! Floor 8 of the `esker` storage engine: a person at a terminal.
//!
//! The binary `esker` is this library and a `main` of one line: what it understands is in [`args`],
//! how it writes and reads keys in [`keys`] and values in [`values`], how it ends in [`exit`]; each
//! command is run by the module of its name; without one the lab runs. Answers go to standard output, everything else to
//! standard error. That nobody reads either of them changes no exit code.
//!
//! This crate is an inner floor of the package `esker`; it promises no semver of its own.
#![forbid(unsafe_code)]

pub mod args;
mod db;
pub mod exit;
mod failure;
mod inspect;
pub mod keys;
mod lab;
mod output;
mod progress;
pub mod values;
mod workload;

use std::ffi::OsString;
use std::io::{BufWriter, Write as _};

use clap::Parser as _;

use args::lab::LabArgs;
use args::{Cli, Command};
use exit::Exit;
use failure::Failure;

/// Do what the command line says; the first of `arguments` is the program's name.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version go to standard output, mistakes to standard error; a closed stream is
            // no reason to end differently.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage } else { Exit::Done };
        }
    };
    let mut out = BufWriter::new(std::io::stdout().lock());
    let result = match &cli.command {
        Some(Command::Db(args)) => db::run(args, &mut out),
        Some(Command::Workload(args)) => workload::run(args, &mut out),
        Some(Command::Inspect(args)) => inspect::run(args, &mut out),
        Some(Command::Lab(args)) => lab::run(args, &mut out),
        None => lab::run(&LabArgs::default(), &mut out),
    };
    // What was found before a failure is part of the answer.
    let flushed = out.flush().map_err(|error| Failure::output(&error));
    match result.and_then(|exit| flushed.map(|()| exit).map_err(|failure| failure.beside(exit))) {
        Ok(exit) => exit,
        Err(Failure { exit, message }) => {
            if let Some(message) = message {
                output::note!("error: {message}");
            }
            exit
        }
    }
}
