//! Scripts: lists of calls on the whole public face, and what each must answer.
//!
//! A script is drawn by seed ([`generate`]). The [`mod@reference`] says what every call answers: sorted maps
//! and nothing else. The [`subject`] makes the same calls on a database in a [`world`] and writes down
//! what it says. Both are total: a call on something that is not there (a keyspace dropped, a slot empty)
//! is answered by both in the same way, so that any part of a script is a script, and a failure shrinks.

use std::ops::Bound;

use bytes::Bytes;

pub mod generate;
pub mod operator;
pub mod reference;
pub mod spaces;
pub mod subject;
pub mod world;

/// A keyspace, by its place in [`spaces::SPACES`].
pub type Space = usize;

/// Places for snapshots, and as many for readers, cursors and transactions each.
pub const SLOTS: usize = 2;

/// A range of keys.
pub type Range = (Bound<Bytes>, Bound<Bytes>);

/// One write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Set a key.
    Put(Space, Bytes, Bytes),
    /// Delete a key.
    Delete(Space, Bytes),
    /// Delete a range; in batches and transactions from an included key to an excluded one.
    DeleteRange(Space, Range),
    /// Delete all keys with a prefix; only alone.
    DeletePrefix(Space, Bytes),
    /// Give an operand to the keyspace's operator.
    Merge(Space, Bytes, Bytes),
}

/// The moment that a read sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// The present.
    Now,
    /// That of the snapshot in a slot.
    Snapshot(usize),
    /// That of the reader in a slot, and its keyspace instead of the one named.
    Reader(usize),
}

/// How a scan goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the front.
    Forward,
    /// From the back.
    Reverse,
    /// From both ends: a set bit takes from the front; after 64 steps the bits come again.
    Mixed(u64),
}

/// What is read of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    /// Keys and values.
    Whole,
    /// Keys: every value is left out.
    Keys,
}

/// One move of a cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the method of that name")]
pub enum Move {
    SeekFirst,
    SeekLast,
    Seek(Bytes),
    SeekForPrev(Bytes),
    Next,
    Prev,
}

/// One call on a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Read a key.
    Get(Space, Bytes),
    /// `contains`.
    Contains(Space, Bytes),
    /// Scan, at most so many rows.
    Scan(Space, Range, Way, usize, Parts),
    /// `prefix`.
    Prefix(Space, Bytes, Way),
    /// Count a range as read.
    Watch(Space, Range),
    /// Write.
    Write(Write),
}

/// One call, or a few that belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// A write alone.
    Write(Write),
    /// A batch.
    Batch(Vec<Write>),
    /// `compare_and_swap` to the new value; `true` expects what is there, `false` something else.
    Swap(Space, Bytes, bool, Option<Bytes>),
    /// `get`.
    Get(Space, At, Bytes),
    /// `get_with`.
    GetWith(Space, At, Bytes),
    /// `contains`.
    Contains(Space, At, Bytes),
    /// `multi_get`.
    MultiGet(Space, At, Vec<Bytes>),
    /// `range` or `iter`, at most so many rows.
    Scan(Space, At, Range, Way, usize, Parts),
    /// `prefix`.
    Prefix(Space, At, Bytes, Way),
    /// Open the cursor of a slot.
    OpenCursor(usize, Space, At, Range, Parts),
    /// Move the cursor of a slot.
    MoveCursor(usize, Vec<Move>),
    /// Begin the transaction of a slot.
    Begin(usize),
    /// A call on the transaction of a slot.
    InTransaction(usize, Step),
    /// End the transaction of a slot: commit it, or roll it back.
    End(usize, bool),
    /// Take the snapshot of a slot.
    TakeSnapshot(usize),
    /// Make the reader of a slot.
    MakeReader(usize, Space, At),
    /// Let the snapshot, reader, cursor and transaction of a slot go.
    LetGo(usize),
    /// Create a keyspace unless it is there.
    Create(Space),
    /// Drop a keyspace if it is there.
    Drop(Space),
    /// Call a handle of a keyspace that was dropped.
    CallDropped,
    /// Something that must not change any answer.
    Upkeep(Upkeep),
    /// Dump every keyspace, both ways.
    Dump,
    /// Verify all files.
    Verify,
    /// Close and open, which lets go of everything.
    Reopen,
    /// Close, open for reading only, dump, be refused a write, and open again.
    ReadOnly,
}

/// What must not change any answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Upkeep {
    /// `flush`.
    Flush,
    /// `persist`.
    Persist,
    /// `compact_range`.
    Compact(Space, Range),
    /// `wait_for_compactions`.
    Settle,
    /// `checkpoint`, and what it holds.
    Checkpoint,
    /// `approximate_size` of a range, which is no larger than that of everything.
    Size(Space, Range),
}

/// One piece of what a call answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A value, or that there is none.
    Value(Option<Bytes>),
    /// A row.
    Row(Bytes, Bytes),
    /// A scan ended, or a cursor stands nowhere.
    End,
    /// Yes or no.
    Flag(bool),
    /// The keyspaces, and the hash of all their rows.
    Whole(Vec<&'static str>, u64),
    /// An error that has to come.
    Refused(&'static str),
    /// An error that must not come, or something else that is wrong.
    Wrong(String),
}

/// What a call answers, piece by piece.
pub type Answer = Vec<Item>;

/// The keyspace is not there, or no more.
pub const NO_KEYSPACE: Item = Item::Refused("no such keyspace");
/// The transaction has read what was written since.
pub const CONFLICT: Item = Item::Refused("conflict");
/// The database is open for reading only.
pub const READ_ONLY: Item = Item::Refused("read-only");

impl Write {
    /// The keyspace it goes to.
    pub fn space(&self) -> Space {
        match self {
            Write::Put(space, ..)
            | Write::Delete(space, _)
            | Write::DeleteRange(space, _)
            | Write::DeletePrefix(space, _)
            | Write::Merge(space, ..) => *space,
        }
    }
}

impl Step {
    /// The keyspace it is about.
    pub fn space(&self) -> Space {
        match self {
            Step::Get(space, _)
            | Step::Contains(space, _)
            | Step::Scan(space, ..)
            | Step::Prefix(space, ..)
            | Step::Watch(space, _) => *space,
            Step::Write(write) => write.space(),
        }
    }
}

/// The range of everything.
pub fn everything() -> Range {
    (Bound::Unbounded, Bound::Unbounded)
}

/// The range of the keys that start with `prefix`.
pub fn prefix_range(prefix: &Bytes) -> Range {
    let end = esker::prefix_end(prefix);
    (Bound::Included(prefix.clone()), end.map_or(Bound::Unbounded, |end| Bound::Excluded(end.into())))
}

/// `range` as its first key and the first key behind it (`None`: there is none).
pub fn half_open(range: &Range) -> (Vec<u8>, Option<Vec<u8>>) {
    let after = |key: &Bytes| [key, &[0][..]].concat();
    let start = match &range.0 {
        Bound::Unbounded => Vec::new(),
        Bound::Included(key) => key.to_vec(),
        Bound::Excluded(key) => after(key),
    };
    let end = match &range.1 {
        Bound::Unbounded => None,
        Bound::Included(key) => Some(after(key)),
        Bound::Excluded(key) => Some(key.to_vec()),
    };
    (start, end)
}

/// Whether some key is in both ranges.
pub fn meet(a: &Range, b: &Range) -> bool {
    let ((a_start, a_end), (b_start, b_end)) = (half_open(a), half_open(b));
    let start = a_start.max(b_start);
    let end = match (a_end, b_end) {
        (None, end) | (end, None) => end,
        (Some(a), Some(b)) => Some(a.min(b)),
    };
    end.is_none_or(|end| start < end)
}
