//! One crash case, as it is named in a message and asked for again.

use std::fmt;
use std::str::FromStr;

use esker_vfs::mem::{CrashPoint, MemFs, Policy};

use crate::driver::Violation;
use crate::setup::{Mode, Setup};

/// Which of the disks that a crash could leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// What a policy leaves, with its seed.
    Policy(Policy, u64),
    /// These of the pending units.
    Units(Vec<bool>),
}

/// A crash: after how many calls on the disk, and what it left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crash {
    /// How many calls came before it.
    pub calls: usize,
    /// What it left.
    pub choice: Choice,
}

/// A history and the crashes that follow it: the first in the history, every later one in the recovery
/// from the one before.
///
/// ```
/// use esker_tests::case::{Case, Crash};
/// use esker_tests::setup::Mode;
/// let crashes = Case::parse_crashes("31@Strict:0/4@units:011").unwrap();
/// let case = Case { seed: 5, mode: Mode::Os, crashes };
/// assert_eq!(case.to_string(), "--seed 5 --mode os --case 31@Strict:0/4@units:011");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The history's seed.
    pub seed: u64,
    /// Its mode.
    pub mode: Mode,
    /// The crashes.
    pub crashes: Vec<Crash>,
}

/// A case that failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The arguments that replay it.
    pub replay: String,
    /// Where and how it failed.
    pub what: Violation,
}

impl Choice {
    /// The disk that it leaves at `point`.
    pub fn image(&self, point: &CrashPoint) -> MemFs {
        match self {
            Choice::Policy(policy, seed) => point.image(*policy, *seed),
            Choice::Units(taken) => point.image_subset(taken),
        }
    }
}

impl Crash {
    /// What it leaves of `disk`.
    pub fn image(&self, disk: &MemFs) -> MemFs {
        self.choice.image(&disk.crash_point(self.calls))
    }

    /// Where it happened on `disk`, and how, in words.
    pub fn describe(&self, disk: &MemFs) -> String {
        let last = self.calls.checked_sub(1);
        let after = last.map_or("before any call".to_owned(), |last| {
            format!("after call {last} ({})", disk.describe_call(last))
        });
        format!("crash {after}, {}", self.choice)
    }
}

impl Case {
    /// The history of `setup` without a crash.
    pub fn of(setup: &Setup) -> Case {
        Case { seed: setup.seed, mode: setup.mode, crashes: Vec::new() }
    }

    /// This case, and then `crash`.
    pub fn then(&self, crash: Crash) -> Case {
        let mut longer = self.clone();
        longer.crashes.push(crash);
        longer
    }

    /// A seed that follows from the case: for the order of background work, and the ways of checking.
    pub fn derived_seed(&self) -> u64 {
        esker_base::checksum::key_hash(self.to_string().as_bytes())
    }

    /// The crashes in `text`, as [`Case`] shows them behind `--case`.
    pub fn parse_crashes(text: &str) -> Result<Vec<Crash>, String> {
        text.split('/')
            .map(|crash| {
                let (calls, choice) = crash
                    .split_once('@')
                    .ok_or_else(|| format!("{crash:?} is no CALLS@POLICY:SEED or CALLS@units:BITS"))?;
                let calls = calls.parse().map_err(|_| format!("{calls:?} is no number of calls"))?;
                Ok(Crash { calls, choice: choice.parse()? })
            })
            .collect()
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Choice::Policy(policy, seed) => write!(f, "{policy:?}:{seed}"),
            Choice::Units(taken) => {
                let bits: String = taken.iter().map(|taken| if *taken { '1' } else { '0' }).collect();
                write!(f, "units:{bits}")
            }
        }
    }
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Choice, String> {
        let (what, which) = text.split_once(':').ok_or("a choice is POLICY:SEED or units:BITS")?;
        if what == "units" {
            return Ok(Choice::Units(which.chars().map(|bit| bit == '1').collect()));
        }
        let policy = Policy::ALL.into_iter().find(|policy| format!("{policy:?}") == what);
        let policy = policy.ok_or_else(|| format!("there is no policy {what:?}"))?;
        Ok(Choice::Policy(policy, which.parse().map_err(|_| format!("{which:?} is no seed"))?))
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--seed {} --mode {}", self.seed, self.mode)?;
        for (nth, crash) in self.crashes.iter().enumerate() {
            f.write_str(if nth == 0 { " --case " } else { "/" })?;
            write!(f, "{}@{}", crash.calls, crash.choice)?;
        }
        Ok(())
    }
}
