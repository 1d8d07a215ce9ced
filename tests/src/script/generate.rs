//! Draws scripts.

use std::ops::Bound;

use bytes::Bytes;
use fastrand::Rng;

use super::spaces::{FIXED, Fold, SPACES};
use super::{At, Move, Op, Parts, Range, SLOTS, Space, Step, Upkeep, Way, Write, everything};

/// Where values come from: slices of it differ.
const POOL_BYTES: usize = 128 << 10;

/// The keyspaces of scripts that are transactions only.
pub const TRANSACTION_SPACES: usize = 3;

/// Draws calls. The keys are few, so that they are overwritten, deleted and covered again and again.
pub struct Generator {
    random: Rng,
    keys: Vec<Bytes>,
    pool: Bytes,
    /// One value in so many is long, up to 64 KiB.
    long_every: u32,
    /// Whether calls may close the database or change its keyspaces.
    whole: bool,
    /// Only the first so many keyspaces.
    spaces: usize,
}

impl Generator {
    /// The script of `seed`. Without `whole`, no call closes the database or touches what others share.
    pub fn new(seed: u64, whole: bool) -> Generator {
        let mut random = Rng::with_seed(seed ^ 0x7363_7269_7074);
        let mut pool = vec![0u8; POOL_BYTES];
        // Half compressible, in runs.
        pool.chunks_mut(16).for_each(|chunk| {
            let byte = random.u8(..);
            chunk
                .iter_mut()
                .enumerate()
                .for_each(|(at, to)| *to = if at < 8 { byte } else { random.u8(..) });
        });
        let count = [6, 40, 150, 400][random.usize(0..4)];
        let prefixes: Vec<Vec<u8>> = (0..4)
            .map(|nth| {
                let len = [0, 3, 24, 280][nth];
                let byte = [b'a', b'b', 0, 0xFF][random.usize(0..4)];
                vec![byte; len]
            })
            .collect();
        let mut keys: Vec<Bytes> = (0..count)
            .map(|_| {
                let prefix = &prefixes[[0, 1, 1, 2, 2, 3][random.usize(0..6)]];
                let len = [1, 2, 4, 4, 12][random.usize(0..5)];
                let tail = (0..len).map(|_| [0, 1, b'a', b'k', b'z', 0xFF][random.usize(0..6)]);
                prefix.iter().copied().chain(tail).collect()
            })
            .collect();
        keys.push(Bytes::new());
        let long_every = [500, 2_000, 20_000][random.usize(0..3)];
        Generator { random, keys, pool: pool.into(), long_every, whole, spaces: SPACES.len() }
    }

    /// Steps of transactions: `keys` keys in [`TRANSACTION_SPACES`] keyspaces, which do not depend on the seed.
    pub fn for_transactions(seed: u64, keys: usize) -> Generator {
        let keys = (0..keys).map(|key| format!("key-{key:03}").into()).collect();
        Generator { keys, spaces: TRANSACTION_SPACES, long_every: 20_000, ..Generator::new(seed, false) }
    }

    /// The next call.
    pub fn op(&mut self) -> Op {
        match self.random.u32(0..10_000) {
            0..3_000 => Op::Write(self.write()),
            3_000..3_400 => Op::Batch((0..self.random.usize(1..12)).map(|_| self.write()).collect()),
            3_400..3_500 => {
                let new = self.random.bool().then(|| self.value(0));
                Op::Swap(0, self.key(), self.random.bool(), new)
            }
            4_700..5_000 => Op::GetWith(self.space(), self.at(), self.key()),
            5_000..5_300 => Op::Contains(self.space(), self.at(), self.key()),
            5_300..5_500 => {
                let keys = (0..self.random.usize(1..12)).map(|_| self.key()).collect();
                Op::MultiGet(self.space(), self.at(), keys)
            }
            5_500..6_100 => {
                let most = self.most();
                Op::Scan(self.space(), self.at(), self.range(), self.way(), most, self.parts())
            }
            6_100..6_200 => Op::Prefix(self.space(), self.at(), self.prefix(), self.way()),
            6_200..6_500 => {
                let range = if self.random.bool() { everything() } else { self.range() };
                Op::OpenCursor(self.slot(), self.space(), self.at(), range, self.parts())
            }
            6_500..7_500 => {
                let moves = (0..self.random.usize(1..16)).map(|_| self.step()).collect();
                Op::MoveCursor(self.slot(), moves)
            }
            7_500..7_700 => Op::Begin(self.slot()),
            7_700..8_700 => Op::InTransaction(self.slot(), self.transaction_step()),
            8_700..8_950 => Op::End(self.slot(), self.random.u8(0..8) > 0),
            8_950..9_150 => Op::TakeSnapshot(self.slot()),
            9_150..9_300 => Op::MakeReader(self.slot(), self.space(), self.at()),
            9_300..9_400 => Op::LetGo(self.slot()),
            9_400..9_480 if self.whole => Op::Create(self.random.usize(FIXED..SPACES.len())),
            9_480..9_520 if self.whole => Op::Drop(self.random.usize(FIXED..SPACES.len())),
            9_520..9_530 if self.whole => Op::CallDropped,
            3_500..4_700 | 9_400..9_880 => Op::Get(self.space(), self.at(), self.key()),
            9_880..9_960 => Op::Upkeep(self.upkeep()),
            9_960..9_970 if self.whole => Op::Dump,
            9_970..9_974 => Op::Verify,
            9_974..9_984 if self.whole => Op::Reopen,
            9_984..9_986 if self.whole => Op::ReadOnly,
            _ => Op::Upkeep(Upkeep::Settle),
        }
    }

    /// Something that must not change any answer.
    pub fn upkeep(&mut self) -> Upkeep {
        match self.random.u8(0..24) {
            0..8 => Upkeep::Flush,
            8..11 => Upkeep::Persist,
            11..15 => Upkeep::Compact(self.space(), self.range()),
            15..18 => Upkeep::Settle,
            18..19 if self.whole => Upkeep::Checkpoint,
            _ => Upkeep::Size(self.space(), self.range()),
        }
    }

    fn slot(&mut self) -> usize {
        self.random.usize(0..SLOTS)
    }

    fn space(&mut self) -> Space {
        let some = if self.random.u8(0..8) == 0 { SPACES.len() } else { FIXED };
        self.random.usize(0..some.min(self.spaces))
    }

    fn at(&mut self) -> At {
        match self.random.u8(0..8) {
            0..5 => At::Now,
            5..7 => At::Snapshot(self.slot()),
            _ => At::Reader(self.slot()),
        }
    }

    fn key(&mut self) -> Bytes {
        let key = &self.keys[self.random.usize(0..self.keys.len())];
        match self.random.u8(0..24) {
            // A neighbour that was hardly ever written.
            0 => [key, &[self.random.u8(..)][..]].concat().into(),
            1 => key.slice(..self.random.usize(..=key.len())),
            _ => key.clone(),
        }
    }

    fn prefix(&mut self) -> Bytes {
        let key = self.key();
        let len = self.random.usize(..=key.len());
        key.slice(..len)
    }

    fn bound(&mut self) -> Bound<Bytes> {
        match self.random.u8(0..8) {
            0 => Bound::Unbounded,
            1..3 => Bound::Excluded(self.key()),
            _ => Bound::Included(self.key()),
        }
    }

    fn range(&mut self) -> Range {
        let (a, b) = (self.bound(), self.bound());
        let key = |bound: &Bound<Bytes>| match bound {
            Bound::Included(key) | Bound::Excluded(key) => Some(key.clone()),
            Bound::Unbounded => None,
        };
        let reversed = matches!((key(&a), key(&b)), (Some(a), Some(b)) if a > b);
        // A few ranges are the wrong way round, and hold nothing.
        if reversed && self.random.u8(0..20) > 0 { (b, a) } else { (a, b) }
    }

    /// A range that a batch can delete.
    fn closed_range(&mut self) -> Range {
        let (a, b) = (self.key(), self.key());
        (Bound::Included(a.clone().min(b.clone())), Bound::Excluded(a.max(b)))
    }

    /// A range of few keys, mostly.
    fn deleted_range(&mut self) -> Range {
        if self.random.u8(0..6) == 0 {
            return self.range();
        }
        let start = self.key();
        let end = match self.keys.iter().filter(|key| **key > start).min() {
            Some(next) if self.random.bool() => Bound::Excluded(next.clone()),
            _ => Bound::Included(start.clone()),
        };
        (Bound::Included(start), end)
    }

    fn most(&mut self) -> usize {
        if self.random.u8(0..12) == 0 { usize::MAX } else { self.random.usize(0..12) }
    }

    fn way(&mut self) -> Way {
        match self.random.u8(0..3) {
            0 => Way::Forward,
            1 => Way::Reverse,
            _ => Way::Mixed(self.random.u64(..)),
        }
    }

    fn parts(&mut self) -> Parts {
        if self.random.u8(0..4) == 0 { Parts::Keys } else { Parts::Whole }
    }

    fn step(&mut self) -> Move {
        match self.random.u8(0..20) {
            0 => Move::SeekFirst,
            1 => Move::SeekLast,
            2..5 => Move::Seek(self.key()),
            5..8 => Move::SeekForPrev(self.key()),
            8..14 => Move::Next,
            _ => Move::Prev,
        }
    }

    fn value(&mut self, space: Space) -> Bytes {
        if SPACES[space].1 == Fold::Add {
            return Bytes::copy_from_slice(&i64::from(self.random.i32(..)).to_le_bytes());
        }
        let len = if self.random.u32(0..self.long_every) == 0 {
            self.random.usize(0..=64 << 10)
        } else {
            match self.random.u8(0..40) {
                0..3 => 0,
                3..37 => self.random.usize(1..100),
                37..39 => self.random.usize(100..1_000),
                _ => self.random.usize(1_000..4_000),
            }
        };
        let from = self.random.usize(0..=POOL_BYTES - len);
        self.pool.slice(from..from + len)
    }

    fn operand(&mut self, space: Space) -> Bytes {
        match SPACES[space].1 {
            Fold::Affine => {
                let from = self.random.usize(0..=POOL_BYTES - 16);
                self.pool.slice(from..from + 16)
            }
            Fold::Append => {
                let len = self.random.usize(0..12);
                let from = self.random.usize(0..=POOL_BYTES - len);
                self.pool.slice(from..from + len)
            }
            _ => self.value(space),
        }
    }

    fn write(&mut self) -> Write {
        let space = self.space();
        let key = self.key();
        match self.random.u8(0..100) {
            0..22 => Write::Delete(space, key),
            22..26 => Write::DeleteRange(space, self.deleted_range()),
            26 if self.random.u8(0..4) == 0 => {
                let key = self.key();
                let len = self.random.usize(key.len() / 2..=key.len());
                Write::DeletePrefix(space, key.slice(..len))
            }
            27..60 if SPACES[space].1 != Fold::None => Write::Merge(space, key, self.operand(space)),
            _ => Write::Put(space, key, self.value(space)),
        }
    }

    /// The next step of a transaction.
    pub fn transaction_step(&mut self) -> Step {
        match self.random.u8(0..40) {
            0..12 => Step::Get(self.space(), self.key()),
            12..16 => Step::Contains(self.space(), self.key()),
            16..21 => {
                let most = self.most();
                Step::Scan(self.space(), self.closed_range(), self.way(), most, self.parts())
            }
            21 => Step::Prefix(self.space(), self.prefix(), self.way()),
            22..24 => Step::Watch(self.space(), self.closed_range()),
            _ => Step::Write(self.write()),
        }
    }
}
