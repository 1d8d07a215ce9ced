//! `cargo xtask`: the project's checks, one command each.
//!
//! Every step prints its name, its outcome and how long it took; the last line sums up. The exit code
//! is 0 when nothing failed, 1 when a step failed, 2 when the command line was not understood.
#![forbid(unsafe_code)]
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a tool beside the engine: it reads the source tree and times its steps for real"
)]

mod audit;
mod callgrind;
mod cargo;
mod engine_cost;
mod fuzz;
mod layout_cost;
mod plan;
mod steps;
mod tidy;

use std::process::ExitCode;

const HELP: &str = "\
One-command checks for the esker workspace.

usage: cargo xtask COMMAND [--skip STEP]...

  check   what every commit has to pass: format, clippy, tests, doctests, docs, audit, tidy
  ci      check, and what is slower: planted bugs, zstd and other stores (features), the workspaces inside,
          downstream crate, packaging, what layouts and leaves cost, lab smoke, soaks, loom models, shuttle
          schedules, Miri
  audit   licences, sources, duplicates and bans of every dependency
  layout-cost
          instructions of each layout's operations beside the same engine calls by hand, under callgrind
  engine-cost [--accept]
          instructions of the engine's leaves beside benches/engine_cost.txt, under callgrind; or make what is
          measured the baseline
  tidy    file and function sizes, floors, dead files, links, marks, FORMAT.md, models, unsafe,
          docs/reliability.md

  soak SUITE --count N --seed S
          a suite of tests/ at length, in a release build; without a suite, which there are;
          `shuttle` runs schedules of tests/models, and knows --scenario too

  fuzz [--seconds N] [TARGET]...
          the targets of tests/fuzz under libFuzzer with the address sanitizer, or these; 30 seconds each.
          Wants a nightly toolchain and cargo-fuzz

  --skip STEP   leave a step of check or ci out, visibly
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(usage) => {
            eprintln!("{usage}\n\n{HELP}");
            ExitCode::from(2)
        }
    }
}

/// Run what the command line asks for; how many steps failed, or what was not understood.
fn run(arguments: &[String]) -> Result<usize, String> {
    let (command, rest) = arguments.split_first().ok_or("a command is missing")?;
    if matches!(command.as_str(), "help" | "--help" | "-h") {
        print!("{HELP}");
        return Ok(0);
    }
    if command == "soak" {
        return Ok(usize::from(!plan::soak(rest)));
    }
    if command == "engine-cost" && rest == ["--accept"] {
        return Ok(steps::run(command, &[("engine-cost", engine_cost::accept)], &[], &[]));
    }
    if command == "fuzz" {
        return Ok(usize::from(!fuzz::run(rest)?));
    }
    let plan = plan::named(command).ok_or_else(|| format!("there is no command {command:?}"))?;
    let skipped = parse_skips(rest)?;
    if let Some(unknown) = skipped.iter().find(|name| !plan.iter().any(|(step, _)| step == name)) {
        return Err(format!("{command} has no step {unknown:?}"));
    }
    Ok(steps::run(command, &plan, &skipped, &plan::BESIDE))
}

fn parse_skips(arguments: &[String]) -> Result<Vec<String>, String> {
    let mut skipped = Vec::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--skip" => skipped.push(rest.next().ok_or("--skip needs the name of a step")?.clone()),
            other => return Err(format!("{other:?} was not understood")),
        }
    }
    Ok(skipped)
}
