//! The `esker` command; its parts are in the library beside it.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    esker_cli::run(std::env::args_os()).into()
}
