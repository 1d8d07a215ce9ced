//! What a history does: operations, drawn by seed.
//!
//! A history is a list of [`Op`]s that is valid by construction: it names only keyspaces that exist
//! when their turn comes, and merges only where there is an operator. Keys are few, so that they are
//! overwritten, deleted and covered by ranges again and again; values are small, with a few that take
//! several disk pages.

use std::collections::BTreeSet;
use std::ops::Range;

use fastrand::Rng;

/// A keyspace, by what it is called.
pub type Name = &'static str;

/// Keyspaces that are there from the start: plain, compressed, and one whose values are appended to.
pub const FIXED: [Name; 3] = ["plain", "lz4", "append"];
/// Keyspaces that come and go.
pub const PASSING: [Name; 2] = ["passing-1", "passing-2"];

/// Whether `merge` works in the keyspace `name`.
pub fn has_operator(name: Name) -> bool {
    name == "append"
}

/// One write of a batch or transaction, or alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Set a key.
    Put(Name, Vec<u8>, Vec<u8>),
    /// Delete a key.
    Delete(Name, Vec<u8>),
    /// Delete the keys from the first to before the second.
    DeleteRange(Name, Range<Vec<u8>>),
    /// Append to a key's value.
    Merge(Name, Vec<u8>, Vec<u8>),
}

/// One operation of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// A single write.
    Write(Write),
    /// A batch; `true` asks for the durability of `Sync` (not in a database without a log).
    Batch(Vec<Write>, bool),
    /// A transaction: reads, then writes.
    Transaction(Vec<(Name, Vec<u8>)>, Vec<Write>),
    /// Make everything durable.
    Persist,
    /// Turn memory into tables.
    Flush,
    /// Compact a range of a keyspace.
    Compact(Name, Range<Vec<u8>>),
    /// Create a keyspace that is not there.
    Create(Name),
    /// Drop a keyspace that is there.
    Drop(Name),
    /// Take a snapshot, in place of the one held before.
    TakeSnapshot,
    /// Compare what the snapshot shows with what was there when it was taken, and let go of it.
    ReadSnapshot,
    /// Read keys and compare.
    Get(Name, Vec<Vec<u8>>),
    /// Scan a keyspace both ways and compare.
    Scan(Name),
    /// Let time pass and background work catch up.
    Rest,
    /// Close and open again.
    Reopen,
}

/// Draws operations.
struct Generator {
    random: Rng,
    /// Keys are numbers below this.
    keys: u32,
    passing: BTreeSet<Name>,
    /// The history may ask for stronger durability.
    log: bool,
}

/// The history of `seed`: `len` operations. Without a `log`, no batch asks to be durable by itself.
///
/// ```
/// use esker_tests::ops::history;
/// assert_eq!(history(7, 200, true), history(7, 200, true));
/// assert_ne!(history(7, 200, true), history(8, 200, true));
/// ```
pub fn history(seed: u64, len: usize, log: bool) -> Vec<Op> {
    let mut random = Rng::with_seed(seed ^ 0x6f70_735f_6f66_5f61);
    let keys = [6, 24, 80][random.usize(0..3)];
    let mut generator = Generator { random, keys, passing: BTreeSet::new(), log };
    (0..len).map(|_| generator.op()).collect()
}

impl Generator {
    fn op(&mut self) -> Op {
        match self.random.u32(0..1000) {
            0..560 => Op::Write(self.write()),
            560..700 => {
                let writes = self.writes();
                Op::Batch(writes, self.log && self.random.u8(0..8) == 0)
            }
            700..760 => {
                let reads = (0..self.random.usize(0..4)).map(|_| (self.name(), self.key())).collect();
                Op::Transaction(reads, self.writes())
            }
            760..790 => Op::Persist,
            790..815 => Op::Flush,
            815..830 => Op::Compact(self.name(), self.range()),
            830..860 => self.change_keyspace(),
            860..885 => Op::TakeSnapshot,
            885..905 => Op::ReadSnapshot,
            905..945 => Op::Get(self.name(), (0..4).map(|_| self.key()).collect()),
            945..965 => Op::Scan(self.name()),
            965..985 => Op::Rest,
            _ => Op::Reopen,
        }
    }

    fn change_keyspace(&mut self) -> Op {
        let name = PASSING[self.random.usize(0..PASSING.len())];
        if self.passing.remove(name) {
            return Op::Drop(name);
        }
        self.passing.insert(name);
        Op::Create(name)
    }

    fn name(&mut self) -> Name {
        let passing: Vec<Name> = self.passing.iter().copied().collect();
        let nth = self.random.usize(0..FIXED.len() + passing.len());
        FIXED.get(nth).copied().unwrap_or_else(|| passing[nth - FIXED.len()])
    }

    fn key(&mut self) -> Vec<u8> {
        format!("key-{:04}", self.random.u32(0..self.keys)).into_bytes()
    }

    fn range(&mut self) -> Range<Vec<u8>> {
        let (a, b) = (self.key(), self.key());
        // A range of one key now and then: its end is the key's immediate successor.
        if a == b { a.clone()..[a.as_slice(), &[0]].concat() } else { a.clone().min(b.clone())..a.max(b) }
    }

    fn value(&mut self) -> Vec<u8> {
        let len = match self.random.u8(0..40) {
            0..2 => 0,
            2..36 => self.random.usize(1..300),
            36..39 => self.random.usize(300..1500),
            _ => self.random.usize(1500..9000),
        };
        let first = self.random.u8(..);
        // Half compressible, and different at every place.
        (0..len).map(|at| if at % 2 == 0 { first } else { self.random.u8(..) }).collect()
    }

    fn write(&mut self) -> Write {
        let name = self.name();
        match self.random.u8(0..100) {
            0..20 => Write::Delete(name, self.key()),
            20..26 => Write::DeleteRange(name, self.range()),
            26..50 if has_operator(name) => {
                let len = self.random.usize(0..40);
                Write::Merge(name, self.key(), (0..len).map(|_| self.random.u8(..)).collect())
            }
            _ => Write::Put(name, self.key(), self.value()),
        }
    }

    fn writes(&mut self) -> Vec<Write> {
        (0..self.random.usize(1..9)).map(|_| self.write()).collect()
    }
}
