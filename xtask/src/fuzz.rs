//! `cargo xtask fuzz`: the targets of `tests/fuzz` under libFuzzer and the address sanitizer.
//!
//! What is found on the way stays in the target directory: the committed corpus is small and chosen by hand.
//! An input that fails is kept by cargo-fuzz under `tests/fuzz/artifacts` and named in the output.

use std::process::{Command, Stdio};
use std::time::Instant;

use crate::cargo::{output, program, root, succeeds, target_dir};

/// Seconds for each target, if nothing else is asked for.
const SECONDS: u64 = 30;
/// What a target may take of memory, the sanitizer's own included, in MiB.
const MEMORY_MIB: u32 = 2_048;

/// What the command line asks for.
struct Asked {
    seconds: u64,
    targets: Vec<String>,
}

/// `cargo fuzz`, on nightly, with the `tests` directory as the one that it fuzzes.
fn cargo_fuzz(arguments: &[&str]) -> Command {
    let mut command = program("rustup", &["run", "nightly", "cargo", "fuzz"]);
    command.args(arguments).current_dir(root().join("tests"));
    command.env("CARGO_TARGET_DIR", target_dir());
    command
}

/// Run the targets that `arguments` name, or all; whether they held. What was not understood is an error.
pub(crate) fn run(arguments: &[String]) -> Result<bool, String> {
    let mut asked = parse(arguments)?;
    if !succeeds(cargo_fuzz(&["--version"])) {
        let how = "rustup toolchain install nightly, cargo install cargo-fuzz";
        println!("fuzz: SKIPPED, there is no nightly toolchain with cargo-fuzz ({how})");
        return Ok(true);
    }
    let known = output(cargo_fuzz(&["list"]))?;
    let known: Vec<&str> = known.split_whitespace().collect();
    if let Some(unknown) = asked.targets.iter().find(|target| !known.contains(&target.as_str())) {
        return Err(format!("there is no target {unknown:?}, but {}", known.join(", ")));
    }
    if asked.targets.is_empty() {
        asked.targets = known.iter().map(|&target| target.to_owned()).collect();
    }
    let mut held = true;
    for target in &asked.targets {
        match one(target, asked.seconds) {
            Ok(line) => println!("{line}"),
            Err(why) => {
                println!("{why}\nfuzz {target}: FAILED");
                held = false;
            }
        }
    }
    Ok(held)
}

fn parse(arguments: &[String]) -> Result<Asked, String> {
    let mut asked = Asked { seconds: SECONDS, targets: Vec::new() };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--seconds" => {
                let seconds = rest.next().ok_or("--seconds needs a number")?;
                asked.seconds = seconds.parse().map_err(|_| format!("{seconds:?} is no number"))?;
            }
            option if option.starts_with('-') => return Err(format!("{option:?} was not understood")),
            target => asked.targets.push(target.to_owned()),
        }
    }
    Ok(asked)
}

/// Fuzz `target`; what is to be said of it. The error is everything that it printed last.
fn one(target: &str, seconds: u64) -> Result<String, String> {
    let found = target_dir().join("fuzz-corpus").join(target);
    std::fs::create_dir_all(&found).map_err(|error| format!("{}: {error}", found.display()))?;
    let built = cargo_fuzz(&["build", target]).status().map_err(|error| error.to_string())?;
    if !built.success() {
        return Err(format!("it does not build: {built}"));
    }
    let mut command = cargo_fuzz(&["run", target]);
    // New inputs go into the first directory.
    command.arg(&found).arg(root().join("tests/fuzz/corpus").join(target)).arg("--");
    command.arg(format!("-max_total_time={seconds}")).arg(format!("-rss_limit_mb={MEMORY_MIB}"));
    command.args(["-print_final_stats=1", "-timeout=20", "-max_len=4096"]);
    let begun = Instant::now();
    let ran = command.stderr(Stdio::piped()).output().map_err(|error| error.to_string())?;
    let told = String::from_utf8_lossy(&ran.stderr);
    if !ran.status.success() {
        let lines: Vec<&str> = told.lines().collect();
        return Err(lines[lines.len().saturating_sub(60)..].join("\n"));
    }
    let count = |name: &str| told.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("?").trim();
    Ok(format!(
        "fuzz {target}: {} executions in {:.0} s, {} inputs that reach something new, peak {} MiB",
        count("stat::number_of_executed_units:"),
        begun.elapsed().as_secs_f64(),
        count("stat::new_units_added:"),
        count("stat::peak_rss_mb:"),
    ))
}
