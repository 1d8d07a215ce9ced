//! Running a list of named steps: each announces itself, all run even if one fails, and one line
//! sums up.

use std::fs::File;
use std::io::Write as _;
use std::sync::mpsc;
use std::time::Instant;

use crate::cargo;

/// What a step came to.
pub(crate) enum Outcome {
    /// It held. The note, if any, is shown beside it.
    Held(String),
    /// It could not run here, and why: shown, never silent.
    Skipped(String),
    /// It did not hold, and why.
    Failed(String),
}

impl Outcome {
    /// `Held` if `problems` is empty, otherwise `Failed` after printing each.
    pub(crate) fn of_problems(problems: &[String], held: String) -> Outcome {
        for problem in problems {
            println!("{problem}");
        }
        match problems.len() {
            0 => Outcome::Held(held),
            1 => Outcome::Failed("1 problem".to_owned()),
            count => Outcome::Failed(format!("{count} problems")),
        }
    }
}

/// A step: its name and what it does.
pub(crate) type Step = (&'static str, fn() -> Outcome);

/// Run `plan` in order; how many steps failed. Those named `beside` run one after the other beside the rest, which
/// leaves cores idle, and are told of when it is their turn.
pub(crate) fn run(command: &str, plan: &[Step], skipped: &[String], beside: &[&str]) -> usize {
    let begun = Instant::now();
    let is_skipped = |name: &str| skipped.iter().any(|skip| skip == name);
    let (apart, done) = mpsc::channel();
    let runs_beside = |name: &str| plan.len() > 1 && beside.contains(&name);
    let others: Vec<Step> =
        plan.iter().copied().filter(|(name, _)| runs_beside(name) && !is_skipped(name)).collect();
    std::thread::spawn(move || others.into_iter().try_for_each(|step| apart.send(logged(step))));
    let mut lines = Vec::new();
    let (mut held, mut left_out, mut failed) = (0, 0, 0);
    for (name, step) in plan {
        println!("── {name}");
        flush();
        let step_begun = Instant::now();
        let (outcome, seconds) = if is_skipped(name) {
            (Outcome::Skipped("asked with --skip".to_owned()), 0.0)
        } else if runs_beside(name) {
            let lost = |_| (Outcome::Failed("it ended without an outcome".to_owned()), 0.0, String::new());
            let (outcome, seconds, output) = done.recv().unwrap_or_else(lost);
            print!("{output}");
            (outcome, seconds)
        } else {
            (step(), step_begun.elapsed().as_secs_f64())
        };
        let (word, note) = match outcome {
            Outcome::Held(note) => {
                held += 1;
                ("ok", note)
            }
            Outcome::Skipped(why) => {
                left_out += 1;
                ("SKIPPED", why)
            }
            Outcome::Failed(why) => {
                failed += 1;
                ("FAILED", why)
            }
        };
        let colon = if note.is_empty() { "" } else { ": " };
        let line = format!("{name:<12} {seconds:>7.1} s  {word}{colon}{note}");
        println!("{line}");
        flush();
        lines.push(line);
    }
    println!("──");
    if lines.len() > 1 {
        println!("{}", lines.join("\n"));
    }
    println!(
        "xtask {command}: {held} ok, {left_out} skipped, {failed} failed in {:.1} s",
        begun.elapsed().as_secs_f64()
    );
    failed
}

/// Run a step with its output in a file; what it came to, how long it took, and its output.
fn logged((name, step): Step) -> (Outcome, f64, String) {
    let begun = Instant::now();
    let path = cargo::target_dir().join(format!("{name}.log"));
    let log = std::fs::create_dir_all(cargo::target_dir()).and_then(|()| File::create(&path));
    let outcome = match log {
        Ok(log) => {
            cargo::log_to(log);
            step()
        }
        Err(error) => Outcome::Failed(format!("cannot create {}: {error}", path.display())),
    };
    let output = std::fs::read(&path).unwrap_or_default();
    (outcome, begun.elapsed().as_secs_f64(), String::from_utf8_lossy(&output).into_owned())
}

/// Keep our lines and those of the programs we start in order when the output is a file.
fn flush() {
    // A closed standard output is not worth a failed check.
    let _ = std::io::stdout().flush();
}
