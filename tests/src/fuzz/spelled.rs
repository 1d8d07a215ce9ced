//! The targets that run a database: a history spelled by the bytes, against the model, and with a crash.

use std::collections::BTreeSet;
use std::ops::Range;

use esker_vfs::mem::Policy;

use crate::case::{Choice, Crash};
use crate::check::{Expected, check};
use crate::driver::run;
use crate::ops::{FIXED, Name, Op, PASSING, Write, has_operator};
use crate::setup::{Mode, Setup};

/// A history has at most so many operations, whatever is left of the bytes.
const OPS_MAX: usize = 150;
/// Ways in which one moment's crash is tried.
const CRASHES: u64 = 4;

/// Spells operations; keyspaces are there when their turn comes.
struct Speller<'a> {
    bytes: &'a [u8],
    passing: BTreeSet<Name>,
    log: bool,
}

impl Speller<'_> {
    /// The next byte, or 0 behind the last.
    fn byte(&mut self) -> u8 {
        let (first, rest) =
            self.bytes.split_first().map_or((0, self.bytes), |(first, rest)| (*first, rest));
        self.bytes = rest;
        first
    }

    fn name(&mut self) -> Name {
        let nth = usize::from(self.byte());
        let all: Vec<Name> = FIXED.into_iter().chain(self.passing.iter().copied()).collect();
        all[nth % all.len()]
    }

    fn key(&mut self) -> Vec<u8> {
        match self.byte() {
            byte @ 0..0xf0 => format!("key-{:04}", byte % 80).into_bytes(),
            // Keys of any bytes, the empty one among them.
            byte => (0..byte % 16).map(|_| self.byte()).collect(),
        }
    }

    /// Up to some 8 KiB, from two bytes that decide.
    fn value(&mut self) -> Vec<u8> {
        let (len, fill) = (usize::from(self.byte()), self.byte());
        let len = if len >= 0xf0 { (len - 0xe0) * 256 } else { len };
        (0..len)
            .map(
                |at| {
                    if at % 2 == 0 { fill } else { fill.wrapping_mul(31).wrapping_add(at.to_le_bytes()[0]) }
                },
            )
            .collect()
    }

    fn range(&mut self) -> Range<Vec<u8>> {
        let (a, b) = (self.key(), self.key());
        if a == b { a.clone()..[a.as_slice(), &[0]].concat() } else { a.clone().min(b.clone())..a.max(b) }
    }

    fn write(&mut self) -> Write {
        let name = self.name();
        match self.byte() {
            0..50 => Write::Delete(name, self.key()),
            50..70 => Write::DeleteRange(name, self.range()),
            70..140 if has_operator(name) => Write::Merge(name, self.key(), self.value()),
            _ => Write::Put(name, self.key(), self.value()),
        }
    }

    fn writes(&mut self) -> Vec<Write> {
        (0..=self.byte() % 8).map(|_| self.write()).collect()
    }

    fn op(&mut self) -> Op {
        match self.byte() % 32 {
            0..3 => {
                let writes = self.writes();
                Op::Batch(writes, self.byte().is_multiple_of(4) && self.log)
            }
            3..5 => {
                let reads = (0..self.byte() % 4).map(|_| (self.name(), self.key())).collect();
                Op::Transaction(reads, self.writes())
            }
            5 => Op::Persist,
            6 | 7 => Op::Flush,
            8 => Op::Compact(self.name(), self.range()),
            9 => {
                let name = PASSING[usize::from(self.byte()) % PASSING.len()];
                if self.passing.remove(name) {
                    return Op::Drop(name);
                }
                self.passing.insert(name);
                Op::Create(name)
            }
            10 => Op::TakeSnapshot,
            11 => Op::ReadSnapshot,
            12 => Op::Get(self.name(), (0..4).map(|_| self.key()).collect()),
            13 => Op::Scan(self.name()),
            14 => Op::Rest,
            15 => Op::Reopen,
            _ => Op::Write(self.write()),
        }
    }
}

/// The database and history that `data` spells.
fn spelled(data: &[u8]) -> Option<(Setup, Vec<Op>)> {
    let [mode, seed, bytes @ ..] = data else { return None };
    let mode = Mode::ALL[usize::from(*mode) % Mode::ALL.len()];
    let mut speller = Speller { bytes, passing: BTreeSet::new(), log: mode.always_logs() };
    let mut ops = Vec::new();
    while !speller.bytes.is_empty() && ops.len() < OPS_MAX {
        ops.push(speller.op());
    }
    Some((Setup::new(u64::from(*seed), mode), ops))
}

/// A history against the model.
pub(super) fn operations(data: &[u8]) {
    let Some((setup, ops)) = spelled(data) else { return };
    run(&setup, &ops).map(drop).expect("the database does what the model does");
}

/// A history, and power lost at a moment of it in a few ways.
pub(super) fn crashes(data: &[u8]) {
    let [low, high, policy, seed, data @ ..] = data else { return };
    let Some((setup, ops)) = spelled(data) else { return };
    let recording = run(&setup, &ops).expect("the database does what the model does");
    let calls = recording.disk.trace_len() * usize::from(u16::from_le_bytes([*low, *high])) / 0xffff;
    for nth in 0..CRASHES {
        let nth_policy = usize::from(*policy) + usize::try_from(nth).unwrap_or_default();
        let policy = Policy::ALL[nth_policy % Policy::ALL.len()];
        let crash = Crash { calls, choice: Choice::Policy(policy, u64::from(*seed) ^ nth) };
        let image = crash.image(&recording.disk);
        let expected = Expected::after(&recording.oracle, calls);
        if let Err(what) = check(&setup, &image, &expected, u64::from(*seed)) {
            panic!("{}: {what}", crash.describe(&recording.disk));
        }
    }
}
