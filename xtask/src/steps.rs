//! Running a list of named steps: each announces itself, all run even if one fails, and one line
//! sums up.

use std::io::Write as _;
use std::time::Instant;

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

/// Run `plan` in order; how many steps failed.
pub(crate) fn run(command: &str, plan: &[Step], skipped: &[String]) -> usize {
    let begun = Instant::now();
    let mut lines = Vec::new();
    let (mut held, mut left_out, mut failed) = (0, 0, 0);
    for (name, step) in plan {
        println!("── {name}");
        flush();
        let step_begun = Instant::now();
        let outcome = if skipped.iter().any(|skip| skip == name) {
            Outcome::Skipped("asked with --skip".to_owned())
        } else {
            step()
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
        let seconds = step_begun.elapsed().as_secs_f64();
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

/// Keep our lines and those of the programs we start in order when the output is a file.
fn flush() {
    // A closed standard output is not worth a failed check.
    let _ = std::io::stdout().flush();
}
