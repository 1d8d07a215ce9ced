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

/// A watchdog gives up after so many failures.
const FAILURES_MAX: usize = 5;

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
            let one = thread.join().unwrap_or_else(|_| {
                let mut lost = Report::default();
                lost.fail(seed, "a watchdog panicked: its cases are lost".to_owned());
                lost
            });
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

/// Run cases `seed` to before `seed + count` in one child after another. One that died is followed by a child for each
/// case that it may have died of, up to the one that dies again; the next goes on behind that.
fn watch(exe: &Path, seed: u64, count: u64, fault: Option<Fault>) -> Report {
    let mut report = Report::default();
    let mut done = 0;
    while done < count && report.outcome.failures.len() < FAILURES_MAX {
        let case = |at: u64| seed.wrapping_add(at);
        let Err((last, what)) = child(exe, case(done), count - done, fault, &mut report) else {
            done = count;
            break;
        };
        let last = last.wrapping_sub(seed);
        let end = count.min(last + LINE_EVERY);
        let culprit = (last..end).find_map(|at| {
            let (_, what) = child(exe, case(at), 1, fault, &mut report).err()?;
            Some((at, what))
        });
        let (at, what) = culprit.unwrap_or_else(|| {
            (end - 1, format!("{what}; none of the {LINE_EVERY} cases up to here does so by itself"))
        });
        report.fail(case(at), what);
        done = at + 1;
    }
    report.outcome.cases = done;
    report.outcome.histories = 1;
    report.outcome.moments = done;
    report
}

/// Run cases `first` to before `first + count` in one child. If it does not come to its end: the last case it has
/// named, and what became of it.
#[expect(clippy::disallowed_methods, reason = "the child's lines are read by a thread of their own")]
fn child(
    exe: &Path,
    first: u64,
    count: u64,
    fault: Option<Fault>,
    report: &mut Report,
) -> Result<(), (u64, Violation)> {
    let mut child = start(exe, first, count, fault).map_err(|what| (first, what))?;
    let out = child.stdout.take().ok_or((first, "the child has no output".to_owned()))?;
    let (tell, told) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            if tell.send(line).is_err() {
                break;
            }
        }
    });
    let (mut last, mut done) = (first, false);
    let ended = loop {
        match told.recv_timeout(PATIENCE) {
            Ok(line) => match line.split_once(' ') {
                Some(("at", case)) => last = case.parse().unwrap_or(last),
                Some(("done", _)) => done = true,
                _ => report.take(&line),
            },
            Err(mpsc::RecvTimeoutError::Disconnected) => break true,
            Err(mpsc::RecvTimeoutError::Timeout) => break false,
        }
    };
    if !ended {
        let _ = child.kill();
    }
    let status = child.wait();
    let _ = reader.join();
    if !ended {
        return Err((last, format!("it hangs: nothing was heard for {PATIENCE:?}")));
    }
    if !done {
        let status = status.map_or_else(|e| e.to_string(), |status| status.to_string());
        return Err((last, format!("the process died: {status}")));
    }
    Ok(())
}

impl Report {
    /// Case `case` has failed: a case that runs again fails once.
    fn fail(&mut self, case: u64, what: Violation) {
        let replay = format!("--case {case}");
        if self.outcome.failures.iter().all(|failure| failure.replay != replay) {
            self.outcome.failures.push(Failure { replay, what });
        }
    }

    /// Understand a child's line: `bad CASE WHAT`, `ends COUNTS`, `hits COUNTS`.
    fn take(&mut self, line: &str) {
        let mut words = line.splitn(3, ' ');
        let (word, case) = (words.next(), words.next().and_then(|case| case.parse::<u64>().ok()));
        match (word, case) {
            (Some("bad"), Some(case)) => self.fail(case, words.next().unwrap_or_default().to_owned()),
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
