//! The model suite: scripts over the whole public face, every answer compared with what sorted maps say.
//!
//! A history is a script on one database with tiny sizes, in step mode or, every eighth, with background
//! threads. A case is a call on the public face: a write, a read, a step of a scan or cursor. A failure in
//! step mode is shrunk.

use std::fmt::Write as _;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::case::Failure;
use crate::crash::{Outcome, contained};
use crate::determinism;
use crate::many::many;
use crate::planted::Bug;
use crate::points::Hits;
use crate::script::generate::Generator;
use crate::script::reference::Reference;
use crate::script::subject::Subject;
use crate::script::world::Config;
use crate::script::{Answer, Item, Op};

/// Operations of a script.
const SCRIPT_LEN: usize = 3_000;
/// Runs that shrinking a failure may take.
const SHRINK_RUNS: usize = 300;

/// Where a script went wrong.
struct Wrong {
    /// The operation.
    at: usize,
    /// How.
    what: String,
}

/// Whether the history of `seed` has its background work on threads.
fn threaded(seed: u64) -> bool {
    seed % 8 == 7
}

/// The script of `seed`.
fn script(seed: u64) -> Vec<Op> {
    let mut generator = Generator::new(seed, true);
    (0..SCRIPT_LEN).map(|_| generator.op()).collect()
}

/// Run `ops`; what was called and hit, and the first wrong answer.
fn run(config: &Config, ops: &[Op]) -> (u64, Hits, Option<Wrong>) {
    let hits = Arc::<Mutex<Hits>>::default();
    let (mut calls, mut at) = (0, 0);
    let outcome = contained(|| {
        let wrong = |item: Item| format!("{item:?}");
        let mut reference = Reference::default();
        let mut subject = Subject::new(config.clone(), Arc::clone(&hits)).map_err(wrong)?;
        let (mut expected, mut found) = (Answer::new(), Answer::new());
        for op in ops {
            expected.clear();
            found.clear();
            subject.apply(op, &mut found);
            reference.apply(op, &found, &mut expected);
            calls = subject.calls;
            if expected != found {
                return Err(difference(&found, &expected));
            }
            at += 1;
        }
        for op in [Op::Dump, Op::Reopen, Op::Dump] {
            (expected, found) = (Answer::new(), Answer::new());
            subject.apply(&op, &mut found);
            reference.apply(&op, &found, &mut expected);
            if expected != found {
                return Err(difference(&found, &expected));
            }
        }
        subject.close().map_err(wrong)
    });
    let hits = *hits.lock();
    (calls, hits, outcome.err().map(|what| Wrong { at, what }))
}

/// The first piece in which two answers differ.
pub(crate) fn difference(found: &Answer, expected: &Answer) -> String {
    let nth = found.iter().zip(expected).take_while(|(a, b)| a == b).count();
    let show = |answer: &Answer| match answer.get(nth) {
        Some(item) => short(&format!("{item:?}")),
        None => "nothing more".to_owned(),
    };
    format!("piece {nth} of the answer is {}, not {}", show(found), show(expected))
}

fn short(text: &str) -> String {
    let cut = text.char_indices().nth(160).map_or(text.len(), |(at, _)| at);
    text[..cut].to_owned()
}

/// The history of `seed`.
pub fn history(seed: u64, bug: Option<Bug>) -> Outcome {
    let config = Config { bug, ..Config::draw(seed, threaded(seed)) };
    let mut ops = script(seed);
    let doubled = !config.threads && determinism::chosen(seed);
    let (mut cases, mut hits, mut wrong) = (0, Hits::default(), None);
    let same = determinism::run(doubled, || {
        (cases, hits, wrong) = run(&config, &ops);
        Ok((cases, hits, wrong.as_ref().map(|wrong| wrong.what.clone())))
    });
    let mut outcome =
        Outcome { cases, hits, histories: 1, moments: ops.len() as u64, ..Outcome::default() };
    outcome.doubled = if doubled { cases } else { 0 };
    if let Err(what) = same {
        outcome.failures.push(Failure { replay: format!("--seed {seed} --count 1"), what });
    }
    if let Some(wrong) = wrong {
        ops.truncate(wrong.at + 1);
        let mut what =
            format!("operation {}, {}: {}", wrong.at, show(&ops[wrong.at.min(ops.len() - 1)]), wrong.what);
        if !config.threads {
            let (few, last) = shrink(&config, ops);
            let _ = write!(what, "\n  shrunk to {} operations, the last: {last}", few.len());
            for op in &few {
                let _ = write!(what, "\n    {}", show(op));
            }
        }
        outcome.failures.push(Failure { replay: format!("--seed {seed} --count 1"), what });
    }
    outcome
}

fn show(op: &Op) -> String {
    short(&format!("{op:?}"))
}

/// Fewer operations that still go wrong, and how the last of them does.
fn shrink(config: &Config, mut ops: Vec<Op>) -> (Vec<Op>, String) {
    let mut last = String::new();
    let (mut size, mut runs) = (ops.len().div_ceil(2), 0);
    while size > 0 && runs < SHRINK_RUNS {
        let mut from = 0;
        while from < ops.len() && runs < SHRINK_RUNS {
            let to = (from + size).min(ops.len());
            let fewer: Vec<Op> = ops[..from].iter().chain(&ops[to..]).cloned().collect();
            runs += 1;
            match run(config, &fewer).2 {
                Some(wrong) => {
                    last = wrong.what;
                    ops = fewer;
                    ops.truncate(wrong.at + 1);
                }
                None => from = to,
            }
        }
        size /= 2;
    }
    (ops, last)
}

/// Histories from seed `first` on, until `count` calls were made.
pub fn histories(first: u64, count: u64, threads: usize, failures_max: usize) -> Outcome {
    many(count, threads, failures_max, |nth| history(first.wrapping_add(nth), None))
}
