//! Directories made to do harm (row 18): structure-aware changes of the golden database, every checksum
//! made right again. Whatever is in them, there is no panic and no hang, memory stays bounded, and nothing
//! outside of the directory is touched.
//!
//! A child process runs the cases one after the other and looks at its own peak memory after each; its
//! parent is the watchdog, and hears of a child that was aborted. The files lie in memory there; [`real`] has
//! those that only a real filesystem can have, links and pipes and the like.

pub mod mutate;
#[cfg(unix)]
pub mod real;
mod run;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use crate::case::Failure;
use crate::crash::Outcome;
use crate::driver::Violation;
use crate::points::{Hits, Point};

pub(crate) use run::attack;
pub use run::{Ends, Fault, replay, work};

/// A case takes a few milliseconds: a child that says nothing for this long hangs.
const PATIENCE: Duration = Duration::from_mins(1);

/// Cases between two lines of a child.
const LINE_EVERY: u64 = 100;

/// What all children came to.
#[derive(Debug, Default)]
pub struct Report {
    /// As other suites have it.
    pub outcome: Outcome,
    /// Directories that were opened, and those that were refused.
    pub ends: Ends,
}

/// Run `count` cases from `seed` on in `children` processes of `exe`, `fault` planted in them.
#[expect(clippy::disallowed_methods, reason = "one thread watches each child")]
pub fn many(exe: &Path, seed: u64, count: u64, children: u64, fault: Option<Fault>) -> Report {
    let mut report = Report::default();
    let share = count.div_ceil(children.max(1));
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..children.max(1))
            .map(|child| {
                let first = child * share;
                let cases = share.min(count.saturating_sub(first));
                scope.spawn(move || watch(exe, seed.wrapping_add(first), cases, fault))
            })
            .collect();
        for thread in threads {
            let one = thread.join().unwrap_or_default();
            report.outcome.add(one.outcome);
            report.ends.add(one.ends);
        }
    });
    report
}

fn start(exe: &Path, seed: u64, count: u64, fault: Option<Fault>) -> Result<Child, Violation> {
    let mut command = Command::new(exe);
    command.args(["hostile-child", "--seed", &seed.to_string(), "--count", &count.to_string()]);
    if let Some(fault) = fault {
        command.args(["--fault", &fault.to_string()]);
    }
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    command.spawn().map_err(|e| format!("cannot start {}: {e}", exe.display()))
}

/// Run cases `seed` to before `seed + count` in one child after another: a child that died is followed by one
/// that goes on behind the case it died of.
#[expect(clippy::disallowed_methods, reason = "the child's lines are read by a thread of their own")]
fn watch(exe: &Path, seed: u64, count: u64, fault: Option<Fault>) -> Report {
    let mut report = Report::default();
    let mut done = 0;
    while done < count && report.outcome.failures.len() < 5 {
        let fail = |report: &mut Report, at: u64, what: Violation| {
            report
                .outcome
                .failures
                .push(Failure { replay: format!("--case {}", seed.wrapping_add(at)), what });
        };
        let mut child = match start(exe, seed.wrapping_add(done), count - done, fault) {
            Ok(child) => child,
            Err(what) => {
                fail(&mut report, done, what);
                break;
            }
        };
        let Some(out) = child.stdout.take() else { break };
        let (tell, told) = mpsc::channel();
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if tell.send(line).is_err() {
                    break;
                }
            }
        });
        let mut current = done;
        let ended = loop {
            match told.recv_timeout(PATIENCE) {
                Ok(line) => report.take(&line, seed, &mut done, &mut current),
                Err(mpsc::RecvTimeoutError::Disconnected) => break true,
                Err(mpsc::RecvTimeoutError::Timeout) => break false,
            }
        };
        if !ended {
            let _ = child.kill();
            let what = format!(
                "it hangs, or one of the {LINE_EVERY} after it: nothing was heard for {PATIENCE:?}"
            );
            fail(&mut report, current, what);
            done = current + 1;
        }
        let status = child.wait();
        let _ = reader.join();
        if ended && done < count {
            let what =
                format!("the process died: {}", status.map_or_else(|e| e.to_string(), |s| s.to_string()));
            fail(&mut report, current, what);
            done = current + 1;
        }
    }
    report.outcome.cases = done;
    report.outcome.histories = 1;
    report.outcome.moments = done;
    report
}

impl Report {
    /// Understand a child's line: `at CASE`, `bad CASE WHAT`, `ends COUNTS`.
    fn take(&mut self, line: &str, seed: u64, done: &mut u64, current: &mut u64) {
        let mut words = line.splitn(3, ' ');
        let (word, case) = (words.next(), words.next().and_then(|case| case.parse::<u64>().ok()));
        let at = |case: u64| case.wrapping_sub(seed);
        match (word, case) {
            (Some("at"), Some(case)) => *current = at(case),
            (Some("done"), Some(case)) => *done = at(case),
            (Some("bad"), Some(case)) => {
                let what = words.next().unwrap_or_default().to_owned();
                self.outcome.failures.push(Failure { replay: format!("--case {case}"), what });
            }
            (Some("ends"), _) => {
                let counts = line.split(' ').skip(1).filter_map(|count| count.parse().ok());
                self.ends.add(Ends::from_counts(counts));
            }
            (Some("hits"), _) => {
                let mut hits = Hits::default();
                for (point, count) in Point::ALL.into_iter().zip(line.split(' ').skip(1)) {
                    (0..count.parse().unwrap_or(0)).for_each(|_: u64| hits.count(point));
                }
                self.outcome.hits.add(&hits);
            }
            _ => {}
        }
    }
}
