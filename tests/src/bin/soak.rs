//! Runs the suites of `esker-tests` at any size: `soak crash --count 100000 --seed 1`.
//!
//! Each suite ends in one line, `crash: N cases (D of them twice), V violations, seed S`; the line before it says what the
//! cases have hit. A failure prints one command that replays it. The exit status is 1 if there was one, and 77 if the
//! machine does not let the suite run.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use esker_tests::case::{Case, Failure};
use esker_tests::crash::{Effort, Outcome, crash_many, in_turn, replay};
use esker_tests::driver::Violation;
use esker_tests::fault::{self, Sweep, sweep_many};
use esker_tests::planted::Bug;
use esker_tests::powercut::{self, Stop};
use esker_tests::real;
use esker_tests::setup::{Mode, Setup};
use esker_tests::{callbacks, clock, damage, descriptors, determinism, enospc, hostile, kill, rows};

#[derive(Parser)]
#[command(about = "Runs the reliability suites at any size")]
struct Cli {
    #[command(subcommand)]
    suite: Suite,
}

#[derive(Subcommand)]
enum Suite {
    /// Power loss at every call of many histories.
    Crash(Asked),
    /// Power loss in the recovery from power loss, two deep.
    Nested(Asked),
    /// Bugs planted on purpose, each of which must be found.
    Planted(Asked),
    /// Histories that run twice and must be equal.
    Determinism(Asked),
    /// A real process, killed for real: --count times in each mode.
    Kill(Asked),
    /// --count rows written by a process that is killed, and read again.
    Rows(Asked),
    /// Scripts over the whole public face against sorted maps: --count calls.
    Model(Asked),
    /// Histories of transactions, of 16 threads and under faults: --count transactions.
    Transactions(Asked),
    /// A script under 64 configurations with upkeep anywhere: --count cases, one script in one configuration each.
    Metamorphic(Asked),
    /// Damage of every kind in every place of the golden database.
    Damage(Cases),
    /// Directories made to do harm, their checksums made right.
    Hostile(Cases),
    /// Runs hostile cases for its parent.
    #[command(hide = true)]
    HostileChild(HostileChild),
    /// I/O errors at every call of a history, in every way, for once and for good.
    Fault(Asked),
    /// Full disks, simulated.
    Enospc(Asked),
    /// No descriptors for a while, simulated.
    Descriptors(Asked),
    /// Full disks, for real (needs root).
    EnospcReal(Asked),
    /// Syncs that fail, at every one of a history, simulated.
    Badsync(Asked),
    /// Panics in the user's code, wherever the engine calls it.
    Callbacks(Asked),
    /// Clocks that jump, stand still or run backwards.
    Clock(Asked),
    /// Power cuts of a real filesystem (needs root).
    Powercut(Asked),
    /// A real filesystem on a disk that fails (needs root).
    BadsyncReal(Asked),
    /// Real processes that run out of descriptors, address space or file length.
    Exhaustion(Asked),
    /// Works until it is killed.
    #[command(hide = true)]
    KillChild(Child),
    /// Writes rows until it is killed.
    #[command(hide = true)]
    RowsChild(Child),
}

#[derive(Args)]
struct Asked {
    /// How many cases.
    #[arg(long)]
    count: Option<u64>,
    /// The first seed.
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
    /// Pass over so many cases of the first history.
    #[arg(long, default_value_t = 0)]
    skip: usize,
    /// Threads.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Stop after this many failures.
    #[arg(long, default_value_t = 10)]
    failures: usize,
    /// Where real files go; a directory on a disk in memory, if there is one.
    #[arg(long)]
    dir: Option<PathBuf>,
}

/// What a suite of numbered cases is asked.
#[derive(Args)]
struct Cases {
    /// How many cases; without --first they are drawn, and --first 0 without it is every one.
    #[arg(long)]
    count: Option<u64>,
    /// Go through the cases in order, from this one on.
    #[arg(long)]
    first: Option<u64>,
    /// Draws the cases, and what is random in them.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only this case, as a failure names it.
    #[arg(long)]
    case: Option<u64>,
    /// Threads.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Stop after this many failures.
    #[arg(long, default_value_t = 10)]
    failures: usize,
}

#[derive(Args)]
struct HostileChild {
    #[arg(long)]
    seed: u64,
    #[arg(long)]
    count: u64,
    #[arg(long)]
    fault: Option<hostile::Fault>,
}

#[derive(Args)]
struct Child {
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[arg(long, default_value = "os")]
    mode: Mode,
    #[arg(long, default_value_t = 0)]
    round: u64,
    #[arg(long, default_value_t = 0)]
    count: u64,
    #[arg(long)]
    dir: PathBuf,
}

/// How this ends if the machine does not let the suite run; others use the number for the same.
const SKIPPED: u8 = 77;

impl Suite {
    /// Its name and why it cannot run here, if it cannot.
    fn impossible(&self) -> Option<(&'static str, Violation)> {
        match self {
            Suite::EnospcReal(_) => Some(("enospc-real", real::no_memory_mounts()?)),
            Suite::Powercut(_) => Some(("powercut", real::unavailable()?)),
            Suite::BadsyncReal(_) => Some(("badsync-real", real::unavailable()?)),
            _ => None,
        }
    }
}

fn main() -> ExitCode {
    let suite = Cli::parse().suite;
    if let Some((name, why)) = suite.impossible() {
        real::say_skipped(name, &why);
        return ExitCode::from(SKIPPED);
    }
    let outcome = match suite {
        Suite::Crash(asked) => crash("crash", &asked, 20_000, 0),
        Suite::Nested(asked) => crash("nested", &asked, 20_000, 2),
        Suite::Planted(asked) => planted(&asked),
        Suite::Determinism(asked) => {
            let count = asked.count.unwrap_or(50);
            let outcome = determinism::many(in_turn(asked.seed, &modes(&asked)), count);
            report("determinism", &asked, &outcome, count, "each history ran twice")
        }
        Suite::Kill(asked) => killed(&asked),
        Suite::Rows(asked) => many_rows(&asked),
        Suite::Model(asked) => histories("model", &asked, 1_000_000, esker_tests::model::histories),
        Suite::Metamorphic(asked) => {
            histories("metamorphic", &asked, 6_400, esker_tests::metamorphic::scripts)
        }
        Suite::Transactions(asked) => {
            histories("transactions", &asked, 50_000, esker_tests::transactions::histories)
        }
        Suite::Damage(asked) => damaged(&asked),
        Suite::Hostile(asked) => hostiles(&asked),
        Suite::HostileChild(child) => hostile::work(child.seed, child.count, child.fault),
        Suite::Fault(asked) => faulty("fault", &asked, 5_000, false),
        Suite::Badsync(asked) => faulty("badsync", &asked, 5_000, true),
        Suite::Enospc(asked) => full(&asked),
        Suite::Descriptors(asked) => without_descriptors(&asked),
        Suite::EnospcReal(asked) => really_full(&asked),
        Suite::Callbacks(asked) => panics(&asked),
        Suite::Clock(asked) => leaps(&asked),
        Suite::Powercut(asked) => stopped("powercut", &asked, Stop::Power, 200),
        Suite::BadsyncReal(asked) => stopped("badsync-real", &asked, Stop::NoBacking, 20),
        Suite::Exhaustion(asked) => exhausted(&asked),
        Suite::KillChild(child) => kill::work(&child.dir, child.seed, child.mode, child.round),
        Suite::RowsChild(child) => rows::work(&child.dir, child.count),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("{what}");
            ExitCode::FAILURE
        }
    }
}

fn modes(asked: &Asked) -> Vec<Mode> {
    asked.mode.map_or_else(|| Mode::ALL.to_vec(), |mode| vec![mode])
}

/// [`modes`] without the one that mixes them, which takes a history's own.
fn single_modes(asked: &Asked) -> Vec<Mode> {
    modes(asked).into_iter().filter(|mode| *mode != Mode::Mixed).collect()
}

/// Print what was found; `hits` says what the cases have met. Fewer cases than `wanted` are no success.
fn report(suite: &str, asked: &Asked, outcome: &Outcome, wanted: u64, hits: &str) -> Result<(), String> {
    closing(suite, asked.seed, outcome, wanted, hits)
}

fn closing(suite: &str, seed: u64, outcome: &Outcome, wanted: u64, hits: &str) -> Result<(), String> {
    for failure in &outcome.failures {
        println!("violation: {}", failure.what);
        println!("  replay: soak {suite} {}", failure.replay);
    }
    let violations = outcome.failures.len();
    println!("{} histories, {} moments; {hits}", outcome.histories, outcome.moments);
    let doubled = match outcome.doubled {
        0 => String::new(),
        doubled => format!(" ({doubled} of them twice)"),
    };
    println!("{suite}: {} cases{doubled}, {violations} violations, seed {seed}", outcome.cases);
    if violations > 0 {
        return Err(format!("{suite}: there were violations"));
    }
    if outcome.cases < wanted.max(1) {
        return Err(format!("{suite}: there were {} cases of {wanted}", outcome.cases));
    }
    Ok(())
}

fn crash(suite: &str, asked: &Asked, count: u64, depth: usize) -> Result<(), String> {
    if let (Some(text), Some(mode)) = (&asked.case, asked.mode) {
        let setup = Setup::new(asked.seed, mode);
        let case = Case { seed: asked.seed, mode, crashes: Case::parse_crashes(text)? };
        return replay(&setup, &case).map(|()| println!("the case holds"));
    }
    let count = asked.count.unwrap_or(count);
    let per_history = match asked.per_history {
        0 => None,
        // A case of the nested suite is followed by hundreds; a short run wants several histories, too.
        most if depth > 0 => Some(most.min(usize::try_from(count / 100).unwrap_or(usize::MAX)) / 50 + 1),
        most => Some(most),
    };
    let effort = Effort { per_history, depth, failures_max: asked.failures };
    let modes = modes(asked);
    let outcome = crash_many(in_turn(asked.seed, &modes), count, effort, asked.threads);
    let hits = format!("crashed at points: {}", outcome.hits);
    report(suite, asked, &outcome, count, &hits)
}

/// A suite of histories, which go through flushes, compactions, rotations and openings.
fn histories(
    suite: &str,
    asked: &Asked,
    count: u64,
    run: impl Fn(u64, u64, usize, usize) -> Outcome,
) -> Result<(), String> {
    let count = asked.count.unwrap_or(count);
    let outcome = run(asked.seed, count, asked.threads, asked.failures);
    report(suite, asked, &outcome, count, &format!("went through points: {}", outcome.hits))
}

fn damaged(asked: &Cases) -> Result<(), String> {
    if let Some(case) = asked.case {
        return damage::replay(asked.seed, case).map(|()| println!("the case holds"));
    }
    let count = asked.count.unwrap_or(if asked.first.is_some() { u64::MAX } else { 20_000 });
    let effort = damage::Effort { threads: asked.threads, failures_max: asked.failures };
    let (outcome, verdicts) = damage::many(asked.seed, asked.first, count, effort, None)?;
    println!("{verdicts}");
    let hits = format!("damaged at points: {}", outcome.hits);
    // No more than there are.
    closing("damage", asked.seed, &outcome, outcome.moments, &hits)
}

fn hostiles(asked: &Cases) -> Result<(), String> {
    if let Some(case) = asked.case {
        return hostile::replay(case).map(|()| println!("the case holds"));
    }
    let exe = std::env::current_exe().map_err(|e| e.to_string())?;
    let first = asked.seed.wrapping_add(asked.first.unwrap_or(0));
    let count = asked.count.unwrap_or(20_000);
    let report = hostile::many(&exe, first, count, asked.threads as u64, None);
    println!("{}", report.ends);
    let hits = format!("changed at points: {}", report.outcome.hits);
    closing("hostile", asked.seed, &report.outcome, count, &hits)
}

fn faulty(suite: &str, asked: &Asked, count: u64, only_syncs: bool) -> Result<(), String> {
    if let (Some(text), Some(mode)) = (&asked.case, asked.mode) {
        let setup = Setup::new(asked.seed, mode);
        return fault::replay(&setup, text.parse()?).map(|()| println!("the case holds"));
    }
    let (per_history, skip) = (asked.per_history, asked.skip);
    let sweep = Sweep { per_history, skip, only_syncs, failures_max: asked.failures };
    let (modes, count) = (modes(asked), asked.count.unwrap_or(count));
    let swept = sweep_many(in_turn(asked.seed, &modes), count, sweep, asked.threads);
    let hits = format!("failed at points: {}; {:?}", swept.outcome.hits, swept.counts);
    report(suite, asked, &swept.outcome, count, &hits)
}

fn full(asked: &Asked) -> Result<(), String> {
    if let (Some(nth), Some(mode)) = (&asked.case, asked.mode) {
        let nth = nth.parse().map_err(|_| format!("{nth:?} is no number"))?;
        return enospc::SIMULATED
            .replay(&Setup::new(asked.seed, mode), nth)
            .map(|()| println!("the case holds"));
    }
    let modes = modes(asked);
    let count = asked.count.unwrap_or(500);
    let swept =
        enospc::SIMULATED.simulated(in_turn(asked.seed, &modes), count, asked.threads, asked.failures);
    let hits = format!("noticed by: {}; {:?}", swept.outcome.hits, swept.counts);
    report("enospc", asked, &swept.outcome, count, &hits)
}

fn without_descriptors(asked: &Asked) -> Result<(), String> {
    if let (Some(nth), Some(mode)) = (&asked.case, asked.mode) {
        let nth = nth.parse().map_err(|_| format!("{nth:?} is no number"))?;
        return descriptors::SIMULATED
            .replay(&Setup::new(asked.seed, mode), nth)
            .map(|()| println!("the case holds"));
    }
    let count = asked.count.unwrap_or(500);
    let swept = descriptors::SIMULATED.simulated(
        in_turn(asked.seed, &modes(asked)),
        count,
        asked.threads,
        asked.failures,
    );
    let hits = format!("noticed by: {}; {:?}", swept.outcome.hits, swept.counts);
    report("descriptors", asked, &swept.outcome, count, &hits)
}

fn really_full(asked: &Asked) -> Result<(), String> {
    let dir = scratch(asked)?;
    let modes = single_modes(asked);
    let count = asked.count.unwrap_or(64);
    let (outcome, (aborted, refused)) = enospc::real::disks(dir.path(), asked.seed, &modes, count);
    let hits = format!("a disk each; {aborted} commits aborted, {refused} refused");
    report("enospc-real", asked, &outcome, count, &hits)
}

fn panics(asked: &Asked) -> Result<(), String> {
    if let (Some(case), Some(mode)) = (&asked.case, asked.mode) {
        return callbacks::replay(&Setup::new(asked.seed, mode), case).map(|()| println!("the case holds"));
    }
    let modes = modes(asked);
    let count = asked.count.unwrap_or(5_000);
    let (outcome, by) =
        callbacks::sweep(in_turn(asked.seed, &modes), count, asked.per_history, asked.threads);
    report("callbacks", asked, &outcome, count, &format!("panicked first in {by:?}"))
}

fn leaps(asked: &Asked) -> Result<(), String> {
    if let (Some(case), Some(mode)) = (&asked.case, asked.mode) {
        return clock::replay(&Setup::new(asked.seed, mode), case).map(|()| println!("the case holds"));
    }
    let modes = modes(asked);
    let count = asked.count.unwrap_or(2_000);
    let outcome = clock::sweep(in_turn(asked.seed, &modes), count, asked.per_history, asked.threads);
    report("clock", asked, &outcome, count, "a leap each, which the engine saw")
}

fn stopped(suite: &str, asked: &Asked, stop: Stop, count: u64) -> Result<(), String> {
    let dir = scratch(asked)?;
    let modes = single_modes(asked);
    let count = asked.count.unwrap_or(count);
    let outcome = powercut::stop_many(dir.path(), stop, asked.seed, &modes, count, None);
    report(suite, asked, &outcome, count, "a mount and a recovery each")
}

/// What a limit lets a child do.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Room {
    /// It may not even open a database.
    Nothing,
    /// Whether it can is the machine's matter.
    Little,
    /// It opens a database and works.
    Enough,
}

/// What `ulimit` leaves a child (descriptors, blocks of a file's length, kilobytes of address space), and what that has
/// room for. A manifest reserves 64 KiB: nobody opens a database with less of a file's length.
const LIMITS: [(&str, Room); 9] = [
    ("-n 10", Room::Little),
    ("-n 16", Room::Little),
    ("-n 24", Room::Little),
    ("-n 64", Room::Enough),
    ("-f 8", Room::Nothing),
    ("-f 128", Room::Little),
    ("-f 256", Room::Enough),
    ("-v 60000", Room::Little),
    ("-v 200000", Room::Enough),
];

impl Room {
    /// What is wrong if `children` did this, if anything: a suite whose children did nothing has shown nothing.
    fn complaint(self, children: kill::Children) -> Option<&'static str> {
        match self {
            Room::Nothing if children.opened > 0 => Some("somebody opened it"),
            Room::Enough if children.opened == 0 => Some("nobody opened it"),
            Room::Enough if children.acknowledged == 0 => Some("nothing was acknowledged"),
            _ => None,
        }
    }
}

fn exhausted(asked: &Asked) -> Result<(), String> {
    let exe = std::env::current_exe().map_err(|e| e.to_string())?;
    let (modes, count) = (single_modes(asked), asked.count.unwrap_or(4));
    let each = count * modes.len() as u64;
    let mut total = Outcome::default();
    for (limit, room) in LIMITS {
        let mut all = kill::Children::default();
        for mode in &modes {
            let dir = scratch(asked)?;
            let db = dir.path().join("db");
            let (outcome, children) =
                kill::cycles_limited(&exe, &db, asked.seed, *mode, count, Some(limit));
            total.add(outcome);
            all.add(children);
        }
        let kill::Children { opened, acknowledged } = all;
        println!(
            "under {limit}: {opened} of {each} children opened it, {acknowledged} operations acknowledged"
        );
        if let Some(what) = room.complaint(all) {
            let replay = format!("--seed {} --count {count}", asked.seed);
            total.failures.push(Failure { replay, what: format!("under {limit} {what}") });
        }
    }
    let wanted = each * LIMITS.len() as u64;
    report(
        "exhaustion",
        asked,
        &total,
        wanted,
        &format!("children under {:?}", LIMITS.map(|limit| limit.0)),
    )
}

fn planted(asked: &Asked) -> Result<(), String> {
    let count = asked.count.unwrap_or(20_000);
    let mut total = Outcome::default();
    let (mut caught, mut skipped) = (0, 0);
    for bug in Bug::all() {
        if !bug.is_available() {
            println!("skipped {bug}: it is inside the engine; build with --features planted");
            skipped += 1;
            continue;
        }
        let with = bug.hunt(true, asked.seed, count);
        let found = with.failures.first().map(|failure| failure.what.clone());
        let without = bug.hunt(false, asked.seed, with.cases.max(500));
        match &found {
            Some(what) => {
                let what = what.lines().next().unwrap_or_default();
                println!("caught {bug} ({}) after {} cases: {what}", bug.breaks(), with.cases);
            }
            None => println!("missed {bug} in {} cases", with.cases),
        }
        caught += u32::from(found.is_some());
        total.cases += with.cases;
        total.histories += with.histories + without.histories;
        if found.is_none() {
            let replay = format!("--seed {} --count {count}", asked.seed);
            total.failures.push(Failure { replay, what: format!("{bug} was not found") });
        }
        total.failures.extend(without.failures);
    }
    let hits = format!("{caught} of {} bugs caught, {skipped} skipped", Bug::all().count());
    report("planted", asked, &total, 1, &hits)
}

/// A directory for real files: on a disk in memory if there is one, since the kills are real and the power
/// stays on.
fn scratch(asked: &Asked) -> Result<tempfile::TempDir, String> {
    let memory = Path::new("/dev/shm");
    match &asked.dir {
        Some(dir) => tempfile::tempdir_in(dir),
        None => tempfile::tempdir_in(memory).or_else(|_| tempfile::tempdir()),
    }
    .map_err(|e| format!("no directory to work in: {e}"))
}

fn killed(asked: &Asked) -> Result<(), String> {
    let exe = std::env::current_exe().map_err(|e| e.to_string())?;
    let (modes, count) = (single_modes(asked), asked.count.unwrap_or(50));
    let (mut total, mut all) = (Outcome::default(), kill::Children::default());
    for mode in &modes {
        let dir = scratch(asked)?;
        let (outcome, children) = kill::cycles(&exe, &dir.path().join("db"), asked.seed, *mode, count);
        total.add(outcome);
        all.add(children);
    }
    if let Some(what) = Room::Enough.complaint(all) {
        let replay = format!("--seed {} --count {count}", asked.seed);
        total.failures.push(Failure { replay, what: what.to_owned() });
    }
    let hits = format!("a kill each, {} operations acknowledged before", all.acknowledged);
    report("kill", asked, &total, count * modes.len() as u64, &hits)
}

fn many_rows(asked: &Asked) -> Result<(), String> {
    let exe = std::env::current_exe().map_err(|e| e.to_string())?;
    let dir = scratch(asked)?;
    let rows = asked.count.unwrap_or(10_000_000);
    let read = rows::write_kill_verify(&exe, &dir.path().join("db"), rows)?;
    println!("every row was read by a scan, one in a thousand by a get; all tables were verified");
    println!("rows: {read} cases, 0 violations, seed {}", asked.seed);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_that_did_nothing_have_shown_nothing() {
        let did = |opened, acknowledged| kill::Children { opened, acknowledged };
        let nothing = Some("nothing was acknowledged");
        for (room, children, wanted) in [
            (Room::Enough, did(0, 0), Some("nobody opened it")),
            (Room::Enough, did(9, 0), nothing),
            (Room::Enough, did(9, 1), None),
            (Room::Little, did(0, 0), None),
            (Room::Little, did(9, 0), None),
            (Room::Nothing, did(0, 0), None),
            (Room::Nothing, did(1, 0), Some("somebody opened it")),
        ] {
            assert_eq!(room.complaint(children), wanted, "{room:?} {children:?}");
        }
    }

    #[test]
    fn fewer_cases_than_were_asked_for_are_no_success() {
        let closed =
            |cases, wanted| closing("crash", 1, &Outcome { cases, ..Outcome::default() }, wanted, "");
        assert!(closed(10, 10).is_ok() && closed(11, 10).is_ok());
        for (cases, wanted) in [(9, 10), (0, 0)] {
            let what = closed(cases, wanted).expect_err("too few");
            assert!(what.contains(&format!("{cases} cases")), "{what}");
        }
    }
}
