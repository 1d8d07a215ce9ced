//! The metamorphic suite: one script under many configurations, each of which must give the same answers.
//!
//! The configurations differ in everything that must not matter: sizes of blocks, memtables, levels and
//! tables, compression, filters, cache, source of blocks, durability, order of background steps, threads.
//! Into each run upkeep is inserted, at other places each time: flushes, compactions, checkpoints,
//! reopenings. At the end, and wherever a dump is, every way to read must agree with every other.
//!
//! A case is one script in one configuration.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use fastrand::Rng;
use parking_lot::Mutex;

use crate::case::Failure;
use crate::crash::{Outcome, contained};
use crate::determinism;
use crate::driver::Violation;
use crate::many::many;
use crate::model::difference;
use crate::planted::Bug;
use crate::points::Hits;
use crate::script::generate::Generator;
use crate::script::reference::Reference;
use crate::script::spaces::SPACES;
use crate::script::subject::Subject;
use crate::script::world::Config;
use crate::script::{Answer, At, Item, Move, Op, Parts, Way, everything};

/// Configurations for each script.
pub const CONFIGURATIONS: u64 = 64;
/// Operations of a script.
const SCRIPT_LEN: usize = 600;

/// Whether configuration number `nth` has its background work on threads.
fn on_threads(nth: u64) -> bool {
    nth % 8 == 7
}

/// Configuration number `nth` for the script of `seed`: every eighth with threads.
fn configuration(seed: u64, nth: u64, bug: Option<Bug>) -> Config {
    let drawn = seed.wrapping_mul(CONFIGURATIONS).wrapping_add(nth);
    Config { bug, ..Config::draw(drawn, on_threads(nth)) }
}

/// The script of `seed` with what each call answers, but for the questions that have two right answers.
struct Expected {
    ops: Vec<Op>,
    answers: Vec<Answer>,
}

fn expected(seed: u64) -> Expected {
    let mut generator = Generator::new(seed, true);
    let ops: Vec<Op> = (0..SCRIPT_LEN).map(|_| generator.op()).collect();
    let mut reference = Reference::default();
    let answers = ops.iter().map(|op| {
        let mut answer = Answer::new();
        reference.apply(op, &[], &mut answer);
        answer
    });
    Expected { answers: answers.collect(), ops }
}

/// Run the script of `seed` in configuration `nth`; what was hit, and what went wrong.
fn run(script: &Expected, seed: u64, nth: u64, bug: Option<Bug>) -> (Hits, Result<(), Violation>) {
    let config = configuration(seed, nth, bug);
    let hits = Arc::<Mutex<Hits>>::default();
    let outcome = contained(|| {
        let told = |item: Item| format!("{item:?}");
        let mut random = Rng::with_seed(config.seed ^ 0x6d65_7461);
        let mut inserted = Generator::new(config.seed, true);
        let mut subject = Subject::new(config.clone(), Arc::clone(&hits)).map_err(told)?;
        let mut reference = Reference::default();
        // Once a question with two right answers was answered otherwise, this run has a history of its own.
        let mut same = true;
        let (mut found, mut answer) = (Answer::new(), Answer::new());
        for (place, (op, common)) in script.ops.iter().zip(&script.answers).enumerate() {
            if random.u8(0..12) == 0 {
                let upkeep = match random.u8(0..8) {
                    0 if !reference.holds_something() => Op::Reopen,
                    _ => Op::Upkeep(inserted.upkeep()),
                };
                found.clear();
                subject.apply(&upkeep, &mut found);
                if !found.is_empty() {
                    return Err(format!("before operation {place}, {upkeep:?} answers {found:?}"));
                }
                // It has forgotten what was dropped, like the database.
                reference.apply(&upkeep, &[], &mut answer);
            }
            (found, answer) = (Answer::new(), Answer::new());
            subject.apply(op, &mut found);
            reference.apply(op, &found, &mut answer);
            let own = matches!(op, Op::End(..) | Op::CallDropped) && answer != *common;
            same &= !own;
            let right = if same { common } else { &answer };
            if found != *right {
                return Err(format!("operation {place}, {op:?}: {}", difference(&found, right)));
            }
            // The check lets go of what is held.
            if matches!(op, Op::Dump) && !reference.holds_something() {
                agree(&mut subject)?;
            }
        }
        agree(&mut subject)?;
        subject.close().map_err(told)
    });
    let hits = *hits.lock();
    (hits, outcome)
}

/// Every way to read every keyspace must agree with every other.
fn agree(subject: &mut Subject) -> Result<(), Violation> {
    let mut ask = |op: Op| {
        let mut answer = Answer::new();
        subject.apply(&op, &mut answer);
        answer
    };
    for (space, (name, _)) in SPACES.iter().enumerate() {
        let forward = ask(Op::Scan(space, At::Now, everything(), Way::Forward, usize::MAX, Parts::Whole));
        if forward == [crate::script::NO_KEYSPACE] {
            continue;
        }
        let rows: Vec<(Bytes, Bytes)> = forward
            .iter()
            .filter_map(|item| match item {
                Item::Row(key, value) => Some((key.clone(), value.clone())),
                _ => None,
            })
            .collect();
        if rows.len() + 1 != forward.len() {
            return Err(format!("a scan of {name} answers {:?}", forward.last()));
        }
        let ended = |rows: &mut dyn Iterator<Item = &(Bytes, Bytes)>| -> Answer {
            let rows = rows.map(|(key, value)| Item::Row(key.clone(), value.clone()));
            rows.chain([Item::End]).collect()
        };
        let check = |what: &str, found: &Answer, right: &Answer| {
            if found == right {
                return Ok(());
            }
            Err(format!("{what} of {name} disagrees with its scan: {}", difference(found, right)))
        };
        let reverse = ask(Op::Scan(space, At::Now, everything(), Way::Reverse, usize::MAX, Parts::Whole));
        check("a reverse scan", &reverse, &ended(&mut rows.iter().rev()))?;
        let keys_only = ask(Op::Scan(space, At::Now, everything(), Way::Forward, usize::MAX, Parts::Keys));
        let without_values: Vec<(Bytes, Bytes)> =
            rows.iter().map(|(key, _)| (key.clone(), Bytes::new())).collect();
        check("a scan of keys", &keys_only, &ended(&mut without_values.iter()))?;
        let empty = Bytes::new();
        let prefixed = ask(Op::Prefix(space, At::Now, empty, Way::Forward));
        check("the empty prefix", &prefixed, &forward)?;
        let values: Answer = rows.iter().map(|(_, value)| Item::Value(Some(value.clone()))).collect();
        let keys: Vec<Bytes> = rows.iter().map(|(key, _)| key.clone()).collect();
        check("a multi-get", &ask(Op::MultiGet(space, At::Now, keys.clone())), &values)?;
        let gets: Answer = keys.iter().flat_map(|key| ask(Op::Get(space, At::Now, key.clone()))).collect();
        check("a get of each key", &gets, &values)?;
        ask(Op::OpenCursor(0, space, At::Now, everything(), Parts::Whole));
        let walk = |first: Move, step: &Move| {
            [first].into_iter().chain(keys.iter().map(|_| step.clone())).collect::<Vec<_>>()
        };
        let there = ask(Op::MoveCursor(0, walk(Move::SeekFirst, &Move::Next)));
        check("a cursor forward", &there, &forward)?;
        let back = ask(Op::MoveCursor(0, walk(Move::SeekLast, &Move::Prev)));
        check("a cursor backward", &back, &reverse)?;
        if let [.., (middle, _), _] = rows.as_slice() {
            let range = (Bound::Excluded(middle.clone()), Bound::Unbounded);
            let rest = ask(Op::Scan(space, At::Now, range, Way::Forward, usize::MAX, Parts::Whole));
            check("the last row", &rest, &ended(&mut rows[rows.len() - 1..].iter()))?;
        }
    }
    ask(Op::LetGo(0));
    Ok(())
}

/// The script of `seed` in all configurations.
pub fn script(seed: u64, bug: Option<Bug>, failures_max: usize) -> Outcome {
    let script = expected(seed);
    let mut outcome = Outcome { histories: 1, ..Outcome::default() };
    for nth in 0..CONFIGURATIONS {
        let doubled = !on_threads(nth) && determinism::chosen((seed << 8) ^ nth);
        let mut hits = Hits::default();
        let wrong = determinism::run(doubled, || {
            let (hit, wrong) = run(&script, seed, nth, bug);
            hits = hit;
            wrong
        });
        outcome.cases += 1;
        outcome.doubled += u64::from(doubled);
        outcome.moments += script.ops.len() as u64;
        outcome.hits.add(&hits);
        if let Err(what) = wrong {
            let what = format!("configuration {nth}: {what}");
            outcome
                .failures
                .push(Failure { replay: format!("--seed {seed} --count {CONFIGURATIONS}"), what });
            if outcome.failures.len() >= failures_max {
                break;
            }
        }
    }
    outcome
}

/// Scripts from seed `first` on, until `count` cases were done.
pub fn scripts(first: u64, count: u64, threads: usize, failures_max: usize) -> Outcome {
    many(count, threads, failures_max, |nth| script(first.wrapping_add(nth), None, failures_max))
}
