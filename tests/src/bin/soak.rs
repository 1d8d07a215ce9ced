//! Runs the suites of `esker-tests` at any size: `soak crash --count 100000 --seed 1`.
//!
//! Each suite ends in one line, `crash: N cases, V violations, seed S`; the line before it says what the
//! cases have hit. A failure prints one command that replays it. The exit status is 1 if there was one.

use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use esker_tests::crash::{Case, Choice, Effort, crash_many, replay};
use esker_tests::setup::{Mode, Setup};

#[derive(Parser)]
#[command(about = "Runs the crash suites at any size")]
struct Cli {
    #[command(subcommand)]
    suite: Suite,
}

#[derive(Subcommand)]
enum Suite {
    /// Power loss at every call of many histories.
    Crash(CrashArgs),
}

#[derive(Args)]
struct CrashArgs {
    /// How many cases.
    #[arg(long, default_value_t = 20_000)]
    count: u64,
    /// The first history's seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only this mode (sync, interval, os, no-log, mixed); otherwise all in turn.
    #[arg(long)]
    mode: Option<Mode>,
    /// At most this many cases a history, spread over its moments; 0 for all there are.
    #[arg(long, default_value_t = 5_000)]
    per_history: usize,
    /// Only this case of the history of the seed and mode, as a failure names it.
    #[arg(long, value_name = "CALLS@CHOICE", requires = "mode")]
    case: Option<String>,
    /// Threads.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Stop after this many failures.
    #[arg(long, default_value_t = 10)]
    failures: usize,
}

fn main() -> ExitCode {
    match Cli::parse().suite {
        Suite::Crash(args) => crash(&args),
    }
}

fn crash(args: &CrashArgs) -> ExitCode {
    if let (Some(case), Some(mode)) = (&args.case, args.mode) {
        return replay_case(args.seed, mode, case);
    }
    let modes: Vec<Mode> = args.mode.map_or_else(|| Mode::ALL.to_vec(), |mode| vec![mode]);
    let per_history = (args.per_history > 0).then_some(args.per_history);
    let effort = Effort { per_history, failures_max: args.failures };
    let outcome = crash_many(args.seed, args.count, &modes, effort, args.threads);
    for failure in &outcome.failures {
        println!("violation: {}", failure.what);
        match &failure.case {
            Some(case) => println!("  replay: soak crash {case}"),
            None => println!("  replay: soak crash --count 1 (the history itself fails)"),
        }
    }
    println!(
        "{} histories, {} moments; crashed at points: {}",
        outcome.histories, outcome.moments, outcome.hits
    );
    println!("crash: {} cases, {} violations, seed {}", outcome.cases, outcome.failures.len(), args.seed);
    if outcome.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn replay_case(seed: u64, mode: Mode, text: &str) -> ExitCode {
    let parsed = text.split_once('@').and_then(|(calls, choice)| {
        Some(Case { seed, mode, calls: calls.parse().ok()?, choice: choice.parse::<Choice>().ok()? })
    });
    let Some(case) = parsed else {
        eprintln!("{text:?} is no case: CALLS@POLICY:SEED or CALLS@units:BITS");
        return ExitCode::FAILURE;
    };
    match replay(&Setup::new(seed, mode), &case) {
        Ok(()) => {
            println!("the case holds");
            ExitCode::SUCCESS
        }
        Err(what) => {
            println!("violation: {what}");
            ExitCode::FAILURE
        }
    }
}
