//! The command: hunts the planted bugs, then runs schedules in batches on every core.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use esker_base::planted::Planted;
use esker_models::whole::{BATCH, SCENARIOS, Scenario, Tally};

/// Batches in which a planted bug must be found.
const HUNT_BATCHES: u64 = 100;

struct Asked {
    count: u64,
    seed: u64,
    scenario: Option<String>,
}

fn parse() -> Result<Asked, String> {
    let mut asked = Asked { count: 10_000, seed: 1, scenario: None };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
        let number = || value.parse::<u64>().map_err(|error| format!("{name} {value}: {error}"));
        match name.as_str() {
            "--count" => asked.count = number()?,
            "--seed" => asked.seed = number()?,
            "--scenario" => asked.scenario = Some(value),
            _ => return Err(format!("{name} was not understood: --count N --seed S --scenario NAME")),
        }
    }
    Ok(asked)
}

pub(crate) fn main() -> ExitCode {
    let asked = match parse() {
        Ok(asked) => asked,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::from(2);
        }
    };
    let chosen = |scenario: &&Scenario| asked.scenario.as_ref().is_none_or(|name| name == scenario.name);
    let scenarios: Vec<&Scenario> = SCENARIOS.iter().filter(chosen).collect();
    if scenarios.is_empty() {
        let names: Vec<&str> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
        eprintln!("there is no such scenario; there are {}", names.join(", "));
        return ExitCode::from(2);
    }
    // Failures are told below; a panic that is looked for is no news.
    std::panic::set_hook(Box::new(|_| {}));
    let held = hunt(&scenarios, asked.seed) & explore(&scenarios, asked.seed, asked.count);
    if held { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Do `task` for 0, 1, 2, … on every core until it says that this was the last.
fn on_every_core(task: impl Fn(u64) -> bool + Sync) {
    let next = AtomicU64::new(0);
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| while task(next.fetch_add(1, Ordering::Relaxed)) {});
        }
    });
}

/// Plant each scenario's bugs; whether all were found.
fn hunt(scenarios: &[&Scenario], seed: u64) -> bool {
    let bugs: Vec<(&Scenario, Planted)> =
        scenarios.iter().flat_map(|scenario| scenario.bugs.iter().map(|bug| (*scenario, *bug))).collect();
    let missed = AtomicU64::new(0);
    on_every_core(|nth| {
        let Some((scenario, bug)) = usize::try_from(nth).ok().and_then(|nth| bugs.get(nth)) else {
            return false;
        };
        let found = (0..HUNT_BATCHES)
            .find_map(|batch| scenario.batch(seed + batch, Some(*bug)).err().map(|what| (batch, what)));
        match found {
            Some((batch, what)) => {
                let line = what.lines().next().unwrap_or_default();
                println!(
                    "{:<13} {bug:?} found within {} schedules: {line}",
                    scenario.name,
                    (batch + 1) * BATCH
                );
            }
            None => {
                println!("{:<13} {bug:?} NOT FOUND in {} schedules", scenario.name, HUNT_BATCHES * BATCH);
                missed.fetch_add(1, Ordering::Relaxed);
            }
        }
        true
    });
    let missed = missed.into_inner();
    println!("planted bugs: {} of {} found", bugs.len() as u64 - missed, bugs.len());
    missed == 0
}

/// Run `count` schedules without a bug, each scenario its share; whether nothing was found.
fn explore(scenarios: &[&Scenario], seed: u64, count: u64) -> bool {
    let began = Instant::now();
    let batches = count.div_ceil(BATCH);
    // Which scenarios a round runs, each with the seeds that follow its last.
    let round: Vec<(usize, u64)> = (scenarios.iter().enumerate())
        .flat_map(|(which, scenario)| (0..scenario.weight as u64).map(move |nth| (which, seed + nth)))
        .collect();
    let failures = Mutex::new(Vec::new());
    let tally = Tally::get();
    for counter in
        [&tally.sealed, &tally.flushes, &tally.compactions, &tally.conflicts, &tally.images, &tally.steps]
    {
        counter.store(0, Ordering::Relaxed);
    }
    let spent: Vec<(AtomicU64, AtomicU64)> = scenarios.iter().map(|_| Default::default()).collect();
    on_every_core(|nth| {
        if nth >= batches || !failures.lock().expect("nobody panicked").is_empty() {
            return false;
        }
        let (which, seed) = round[usize::try_from(nth % round.len() as u64).expect("an index")];
        let scenario = scenarios[which];
        let seed = seed.wrapping_add(nth / round.len() as u64 * scenario.weight as u64);
        let batch_began = Instant::now();
        if let Err(what) = scenario.batch(seed, None) {
            let replay = format!("--scenario {} --seed {seed} --count {BATCH}", scenario.name);
            failures
                .lock()
                .expect("nobody panicked")
                .push(format!("{what}\n  cargo xtask soak shuttle {replay}"));
        }
        let micros = u64::try_from(batch_began.elapsed().as_micros()).unwrap_or(u64::MAX);
        spent[which].0.fetch_add(BATCH, Ordering::Relaxed);
        spent[which].1.fetch_add(micros, Ordering::Relaxed);
        true
    });
    for (scenario, (schedules, micros)) in scenarios.iter().zip(&spent) {
        let (schedules, micros) = (schedules.load(Ordering::Relaxed), micros.load(Ordering::Relaxed));
        println!(
            "{:<13} {schedules:>7} schedules, {:>5} µs each",
            scenario.name,
            micros / schedules.max(1)
        );
    }
    let failures = failures.into_inner().expect("nobody panicked");
    for failure in &failures {
        println!("FAILED {failure}");
    }
    let schedules: u64 = spent.iter().map(|(schedules, _)| schedules.load(Ordering::Relaxed)).sum();
    let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    println!(
        "shuttle: {schedules} schedules in {:.1} s, seed {seed}; {} steps, {} memtables sealed, {} flushes, {} compactions, \
         {} conflicts, {} power losses; {} violations",
        began.elapsed().as_secs_f64(),
        of(&tally.steps),
        of(&tally.sealed),
        of(&tally.flushes),
        of(&tally.compactions),
        of(&tally.conflicts),
        of(&tally.images),
        failures.len()
    );
    failures.is_empty()
}
