//! Floor 8 of the `esker` storage engine: a person at a terminal.
//!
//! The binary `esker` is this library and a `main` of one line: what it understands is in [`args`],
//! how it writes and reads keys in [`keys`], how it ends in [`exit`]. Answers go to standard output,
//! everything else to standard error.
//!
//! This crate is an inner floor of the package `esker`; it promises no semver of its own.
#![forbid(unsafe_code)]

pub mod args;
pub mod exit;
pub mod keys;

use std::ffi::OsString;

use clap::Parser as _;

use exit::Exit;

/// Do what the command line says; the first of `arguments` is the program's name.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    match args::Cli::try_parse_from(arguments) {
        Ok(args::Cli {}) => show_help(),
        Err(error) => {
            // Help and version go to standard output, mistakes to standard error; a closed stream is
            // no reason to end differently.
            let _ = error.print();
            if error.use_stderr() { Exit::Usage } else { Exit::Done }
        }
    }
}

fn show_help() -> Exit {
    use clap::CommandFactory as _;
    match args::Cli::command().print_long_help() {
        Ok(()) => Exit::Done,
        Err(_) => Exit::Failed,
    }
}
