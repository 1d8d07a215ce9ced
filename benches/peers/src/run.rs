//! Starting children and collecting what they print.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use clap::Args;

use crate::record::{Figure, Record, Run};
use crate::store::Result;
use crate::stores;
use crate::workloads::{self, BY_NAME_ONLY, Bench, SEQUENCES};

/// Engines in this build. `null` is the measuring loop itself: its cost is subtracted from the others'.
const ENGINES: &[&str] = &[
    "null",
    #[cfg(feature = "rocksdb")]
    "rocksdb",
    "fjall",
    "lmdb",
    "redb",
    "esker",
];

/// What to measure.
#[derive(Args)]
pub(crate) struct Options {
    /// Rows of the full-sized workloads.
    #[arg(long, default_value_t = 5_000_000)]
    rows: u64,
    /// Engines, separated by commas; all of this build if left out. Without `null`, rates hold the harness's own time.
    #[arg(long, value_delimiter = ',')]
    engines: Vec<String>,
    /// Sequences of workloads, separated by commas (`peers list` names them); all but those that need root or
    /// hours if left out.
    #[arg(long, value_delimiter = ',')]
    workloads: Vec<String>,
    /// Rounds: every sequence on every engine, once a round.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Where the record is kept; made if it is not there, continued if it is one of the same build on the same machine.
    #[arg(long)]
    out: PathBuf,
    /// Where databases are made, and removed; by default beside this program.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Start nothing more after this many minutes. The same command goes on from there.
    #[arg(long)]
    minutes: Option<f64>,
}

/// One child's part.
#[derive(Args)]
pub(crate) struct Child {
    #[arg(long)]
    engine: String,
    #[arg(long)]
    sequence: String,
    #[arg(long)]
    rows: u64,
    #[arg(long)]
    dir: PathBuf,
}

/// Fewest rows with which every workload has something to do.
const ROWS_MIN: u64 = 20_000;

/// Print what can be run.
pub(crate) fn list() {
    println!("engines: {}", ENGINES.join(", "));
    for (name, what) in SEQUENCES {
        let only = if BY_NAME_ONLY.contains(name) { "; runs only if it is named" } else { "" };
        println!("{name:16} {what}{only}");
    }
}

/// All of `chosen`, or all there are; each must be among `known`.
fn choose(chosen: &[String], known: &[&str], what: &str) -> Result<Vec<String>> {
    if chosen.is_empty() {
        return Ok(known.iter().map(|name| (*name).to_owned()).collect());
    }
    match chosen.iter().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(format!("there is no {what} {name}: try {}", known.join(", ")).into()),
        None => Ok(chosen.to_vec()),
    }
}

/// Run everything that the record does not hold yet: in each round each sequence, in each sequence each
/// engine, the engines in another order every round.
pub(crate) fn run(options: &Options) -> Result<()> {
    if options.rows < ROWS_MIN {
        return Err(format!("{} rows are too few: at least {ROWS_MIN}", options.rows).into());
    }
    let engines = choose(&options.engines, ENGINES, "engine")?;
    let names: Vec<&str> = SEQUENCES.iter().map(|(name, _)| *name).collect();
    let mut sequences = choose(&options.workloads, &names, "sequence")?;
    if options.workloads.is_empty() {
        sequences.retain(|name| !BY_NAME_ONLY.contains(&name.as_str()));
    }
    let program = std::env::current_exe()?;
    let dir = options.dir.clone().unwrap_or_else(|| program.with_file_name("peers-data"));
    let mut record = Record::load(&options.out, options.rows)?;
    let begun = Instant::now();
    let left = options.minutes.map(|minutes| Duration::from_secs_f64(minutes * 60.0));
    for round in 0..options.rounds {
        for sequence in &sequences {
            for engine in in_turn(&engines, round) {
                if record.has(round, &engine, sequence) {
                    continue;
                }
                if left.is_some_and(|left| begun.elapsed() > left) {
                    eprintln!("out of time: the same command goes on from here");
                    return Ok(());
                }
                let started = Instant::now();
                let began_unix_seconds = SystemTime::UNIX_EPOCH.elapsed().ok().map(|time| time.as_secs());
                let child = Child {
                    engine: engine.clone(),
                    sequence: sequence.clone(),
                    rows: options.rows,
                    dir: dir.clone(),
                };
                let figures = start(&program, &child)?;
                eprintln!("round {round}, {sequence}, {engine}: {:.1} s", started.elapsed().as_secs_f64());
                let sequence = sequence.clone();
                record.runs.push(Run { round, engine, sequence, began_unix_seconds, figures });
                record.save(&options.out)?;
            }
        }
    }
    Ok(())
}

/// The engines' order in `round`. What one leaves behind (free memory above all) the next one finds: so over as many rounds
/// as there are engines, or twice as many if that is odd, each stands at each place, and behind each other one, equally
/// often. Source: Williams, Experimental designs balanced for the estimation of residual effects of treatments, 1949.
fn in_turn(engines: &[String], round: u32) -> Vec<String> {
    let (count, round) = (engines.len(), round as usize);
    // 0, 1, n - 1, 2, n - 2, …: the steps between neighbours are all different.
    let zigzag = |place: usize| if place.is_multiple_of(2) { count - place / 2 } else { place.div_ceil(2) };
    let mut order: Vec<_> =
        (0..count).map(|place| engines[(zigzag(place) + round) % count].clone()).collect();
    if !count.is_multiple_of(2) && !(round / count).is_multiple_of(2) {
        order.reverse();
    }
    order
}

/// Run a child in an empty directory, with nothing of its predecessor's waiting to be written.
fn start(program: &Path, child: &Child) -> Result<Vec<Figure>> {
    if child.dir.exists() {
        std::fs::remove_dir_all(&child.dir)?;
    }
    std::fs::create_dir_all(&child.dir)?;
    rustix::fs::sync();
    let output = Command::new(program)
        .args(["child", "--engine", &child.engine, "--sequence", &child.sequence])
        .args(["--rows", &child.rows.to_string(), "--dir"])
        .arg(&child.dir)
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("{} in {} failed: {}", child.sequence, child.engine, output.status).into());
    }
    std::fs::remove_dir_all(&child.dir)?;
    let lines = std::str::from_utf8(&output.stdout)?.lines();
    lines.map(|line| Ok(serde_json::from_str(line)?)).collect()
}

/// Run one sequence on one engine in this process.
pub(crate) fn child(child: &Child) -> Result<()> {
    let bench = Bench { dir: child.dir.clone(), rows: child.rows, engine: child.engine.clone() };
    match child.engine.as_str() {
        "null" => workloads::run::<stores::null::Null>(&bench, &child.sequence),
        "esker" => workloads::run::<stores::esker::Esker>(&bench, &child.sequence),
        "fjall" => workloads::run::<stores::fjall::Fjall>(&bench, &child.sequence),
        "lmdb" => workloads::run::<stores::lmdb::Lmdb>(&bench, &child.sequence),
        "redb" => workloads::run::<stores::redb::Redb>(&bench, &child.sequence),
        #[cfg(feature = "rocksdb")]
        "rocksdb" => workloads::run::<stores::rocksdb::Rocks>(&bench, &child.sequence),
        other => Err(format!("there is no engine {other} in this build").into()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::in_turn;

    #[test]
    fn each_engine_stands_at_each_place_and_behind_each_other_equally_often() {
        for count in 1..=6 {
            let engines: Vec<String> = (0..count).map(|engine: u32| engine.to_string()).collect();
            let rounds = if count % 2 == 0 { count } else { 2 * count };
            let (mut places, mut pairs) = (HashMap::new(), HashMap::new());
            for round in 0..rounds {
                let order = in_turn(&engines, round);
                for (place, engine) in order.iter().enumerate() {
                    *places.entry((place, engine.clone())).or_insert(0) += 1;
                }
                for pair in order.windows(2) {
                    *pairs.entry(pair.to_vec()).or_insert(0) += 1;
                }
            }
            let (each, count) = (rounds / count, count as usize);
            assert!(places.len() == count * count && places.values().all(|&times| times == each));
            assert!(pairs.len() == count * (count - 1) && pairs.values().all(|&times| times == each));
        }
    }
}
