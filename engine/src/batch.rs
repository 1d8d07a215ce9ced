//! Atomic batches and their wire form, which is also a log record's payload.
//!
//! ```text
//! batch := op*                       (the log record's tag is the first op's sequence number)
//! op    := kind u8, keyspace varint, key length varint, key, [value length varint, value]
//! ```
//! A delete has no value; a range delete's value is the end of its range. The number of operations is
//! not stored: they end with the record. See `FORMAT.md` for a worked example.

use std::ops::{Bound, RangeBounds};

use esker_base::bounds::Bounds;
use esker_base::coding::{DecodeError, Decoder, put_bytes, put_varint};
use esker_base::key::{after, prefix_end};
use esker_base::limits::{self, BATCH_BYTES_MAX};
use esker_base::planted::{self, Planted};
use esker_base::{KeyspaceId, Kind, Result, memory};

use crate::keyspace::Keyspace;
use crate::options::Durability;
use crate::scan::{bounds_of, bounds_of_prefix};
use crate::{Database, OpCost};

#[cfg(test)]
mod tests;

/// One operation, borrowed from its batch or its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Op<'a> {
    pub(crate) keyspace: KeyspaceId,
    pub(crate) kind: Kind,
    pub(crate) key: &'a [u8],
    /// Value, operand or end of range; empty for a delete.
    pub(crate) value: &'a [u8],
}

impl Op<'_> {
    /// The most that [`encode`](Self::encode) adds to key and value, in bytes.
    pub(crate) const HEADS_BYTES_MAX: usize = 32;

    /// Append the operation as a batch has it.
    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        if let (Ok(keyspace @ ..0x80), Ok(len @ ..0x80)) =
            (u8::try_from(self.keyspace.0), u8::try_from(self.key.len()))
        {
            // Varints of one byte, as most are: they go together.
            out.extend_from_slice(&[self.kind as u8, keyspace, len]);
        } else {
            out.push(self.kind as u8);
            put_varint(out, u64::from(self.keyspace.0));
            put_varint(out, self.key.len() as u64);
        }
        out.extend_from_slice(self.key);
        if self.kind != Kind::Delete {
            put_bytes(out, self.value);
        }
    }

    /// Bytes of its key and value.
    #[inline]
    pub(crate) fn user_bytes(&self) -> usize {
        self.key.len() + self.value.len()
    }

    /// Whether it deletes a key or a range of them.
    #[inline]
    pub(crate) fn is_delete(&self) -> bool {
        matches!(self.kind, Kind::Delete | Kind::RangeDelete)
    }
}

/// The deletion of all keys within some bounds, as the log has it: of those in `[start, end)`, if that holds any, and
/// where the bounds have no end, of the largest key there can be, up to which `end` goes then.
pub(crate) struct RangeDelete {
    start: Vec<u8>,
    end: Vec<u8>,
    open: bool,
}

impl RangeDelete {
    /// # Errors
    /// [`Error::TooLarge`](crate::Error::TooLarge) for a bound that is longer than keys may be, unless no key lies within.
    pub(crate) fn of(bounds: Bounds) -> Result<Self> {
        let start = match bounds.start {
            Bound::Unbounded => Some(Vec::new()),
            Bound::Included(key) => Some(key),
            Bound::Excluded(key) => just_after(&key),
        };
        // Behind the largest key there is nothing.
        let Some(start) = start else {
            return Ok(RangeDelete { start: Vec::new(), end: Vec::new(), open: false });
        };
        let end = match bounds.end {
            Bound::Unbounded => None,
            Bound::Included(key) => just_after(&key),
            Bound::Excluded(key) => Some(key),
        };
        let open = end.is_none();
        let end = end.unwrap_or_else(|| vec![0xFF; limits::KEY_BYTES_MAX]);
        if open || start < end {
            limits::check_key(&start)?;
            limits::check_key(&end)?;
        }
        Ok(RangeDelete { start, end, open })
    }

    /// Its operations in `keyspace`.
    pub(crate) fn ops(&self, keyspace: KeyspaceId) -> impl Iterator<Item = Op<'_>> + Clone {
        let range = Op { keyspace, kind: Kind::RangeDelete, key: &self.start, value: &self.end };
        let last = Op { keyspace, kind: Kind::Delete, key: &self.end, value: &[] };
        [(range, self.start < self.end), (last, self.open)]
            .into_iter()
            .filter_map(|(op, counts)| counts.then_some(op))
    }
}

/// The smallest key after `key`, none of which is longer than keys may be; `None` if there is none.
fn just_after(key: &[u8]) -> Option<Vec<u8>> {
    if key.len() < limits::KEY_BYTES_MAX { Some(after(key)) } else { prefix_end(key) }
}

/// Encoded operations.
#[derive(Debug, Default)]
pub(crate) struct Ops {
    bytes: Vec<u8>,
    count: u64,
    /// Of keys and of ranges.
    deletes: u64,
    range_deletes: u64,
    /// Of keys and values.
    user_bytes: u64,
}

impl Ops {
    /// Append `op`, whose key and value were checked against the limits.
    pub(crate) fn push(&mut self, op: Op<'_>) -> Result<()> {
        self.push_all(std::iter::once(op))
    }

    /// Append `ops`, whose keys and values were checked against the limits: all of them or none.
    #[inline]
    pub(crate) fn push_all<'a>(&mut self, ops: impl Iterator<Item = Op<'a>> + Clone) -> Result<()> {
        let more = ops.clone().map(|op| op.user_bytes() + Op::HEADS_BYTES_MAX).sum();
        limits::check("batch", self.bytes.len().saturating_add(more), BATCH_BYTES_MAX)?;
        memory::reserve(&mut self.bytes, more, "a batch")?;
        for op in ops {
            op.encode(&mut self.bytes);
            self.count += 1;
            self.deletes += u64::from(op.is_delete());
            self.range_deletes += u64::from(op.kind == Kind::RangeDelete);
            self.user_bytes += op.user_bytes() as u64;
        }
        Ok(())
    }

    /// The same again.
    pub(crate) fn copied(&self) -> Result<Ops> {
        Ok(Ops { bytes: memory::copied(&self.bytes, "a batch")?, ..*self })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// How many of them delete keys or ranges.
    pub(crate) fn deletes(&self) -> u64 {
        self.deletes
    }

    /// How many of them delete ranges.
    pub(crate) fn range_deletes(&self) -> u64 {
        self.range_deletes
    }

    /// Bytes of their keys and values.
    pub(crate) fn user_bytes(&self) -> u64 {
        self.user_bytes
    }

    /// The length of the first operation.
    pub(crate) fn first_bytes(&self) -> usize {
        let mut decoder = Decoder::new(&self.bytes);
        decode_op(&mut decoder).expect("a batch we encoded decodes");
        decoder.position()
    }

    /// The operations again. They were encoded by us: what does not decode is our mistake.
    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = Op<'_>> {
        let mut decoder = Decoder::new(&self.bytes);
        std::iter::from_fn(move || decode_op(&mut decoder).expect("a batch we encoded decodes"))
    }
}

/// The next operation of an encoded batch, `None` at its end.
#[inline]
pub(crate) fn decode_op<'a>(d: &mut Decoder<'a>) -> Result<Option<Op<'a>>, DecodeError> {
    if d.is_empty() {
        return Ok(None);
    }
    // A value is put whole: where it lies is for tables to say.
    let kind = Kind::from_byte(d.u8("kind")?).filter(|kind| *kind != Kind::BlobPut);
    let kind = kind.ok_or_else(|| d.error("kind"))?;
    let keyspace = u32::try_from(d.varint("keyspace")?).map_err(|_| d.error("keyspace"))?;
    let key = d.bytes("key")?;
    let value = if kind == Kind::Delete { &[] } else { d.bytes("value")? };
    let too_long = !planted::is(Planted::UncheckedLength)
        && (key.len() > limits::KEY_BYTES_MAX
            || value.len() > limits::VALUE_BYTES_MAX
            || (kind == Kind::RangeDelete && value.len() > limits::KEY_BYTES_MAX));
    if too_long {
        return Err(d.error("length"));
    }
    Ok(Some(Op { keyspace: KeyspaceId(keyspace), kind, key, value }))
}

/// Writes that take effect together or not at all, across keyspaces, in the order they were added. At most 2 GiB, encoded.
///
/// A keyspace of another database is a programmer's mistake: it panics.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// let db = esker::Database::open(dir.path())?;
/// let users = db.keyspace("users", esker::KeyspaceOptions::default())?;
/// let names = db.keyspace("names", esker::KeyspaceOptions::default())?;
/// let mut batch = db.batch();
/// batch.put(&users, b"7", b"Olya")?;
/// batch.put(&names, b"Olya", b"7")?;
/// batch.commit()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a batch has no effect until `commit`"]
pub struct Batch {
    db: Database,
    ops: Ops,
    durability: Option<Durability>,
}

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batch")
            .field("db", &self.db)
            .field("operations", &self.ops.count())
            .finish_non_exhaustive()
    }
}

impl Batch {
    pub(crate) fn new(db: Database) -> Self {
        Batch { db, ops: Ops::default(), durability: None }
    }

    /// Ask for a stronger durability than the database's for this commit; everything before it in the
    /// log becomes durable with it. A weaker one has no effect; an interval shorter than the database's, or
    /// where it has none, means a sync at once; in a `NoLog` database a stronger one is refused by `commit`, with
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument).
    pub fn durability(&mut self, durability: Durability) -> &mut Self {
        self.durability = Some(durability);
        self
    }

    /// Set `key` to `value`.
    ///
    /// # Errors
    /// [`Error::TooLarge`](crate::Error::TooLarge): a key of more than 65,535 bytes, a value of more than 1 GiB, or a batch of more than 2 GiB (each
    /// operation counted with 32 bytes besides); [`Error::OutOfMemory`](crate::Error::OutOfMemory). The batch is as it was before. All that adds to it
    /// errs so.
    ///
    /// # Panics
    /// If `keyspace` belongs to another database.
    pub fn put(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.push(keyspace, Kind::Put, key.as_ref(), value.as_ref())
    }

    /// Delete `key`.
    pub fn delete(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<()> {
        self.push(keyspace, Kind::Delete, key.as_ref(), &[])
    }

    /// Give `operand` for `key` to the keyspace's merge operator. Errs as [`Batch::put`] does, and with
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if the keyspace has none.
    pub fn merge(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        keyspace.require_operator()?;
        self.push(keyspace, Kind::Merge, key.as_ref(), operand.as_ref())
    }

    /// Delete every key in `range`, in constant time; see [`Keyspace::delete_range`]. A range without an end is two
    /// operations; one that ends before it begins, none.
    ///
    /// # Errors
    /// [`Error::TooLarge`](crate::Error::TooLarge) for a bound that is longer than keys may be, unless no key lies within.
    pub fn delete_range<K: AsRef<[u8]>>(
        &mut self,
        keyspace: &Keyspace,
        range: impl RangeBounds<K>,
    ) -> Result<()> {
        self.delete_within(keyspace, bounds_of(&range))
    }

    /// Delete every key that starts with `prefix`, in constant time; an empty one deletes all.
    ///
    /// # Errors
    /// As [`Batch::delete_range`].
    pub fn delete_prefix(&mut self, keyspace: &Keyspace, prefix: impl AsRef<[u8]>) -> Result<()> {
        self.delete_within(keyspace, bounds_of_prefix(prefix.as_ref()))
    }

    /// Number of operations so far.
    pub fn len(&self) -> u64 {
        self.ops.count()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ops.count() == 0
    }

    /// Make all of it visible at once. Returns when the durability asked for is reached. An empty
    /// batch does nothing.
    ///
    /// # Errors
    /// [`Error::Aborted`](crate::Error::Aborted): it will never appear;
    /// [`Error::InDoubt`](crate::Error::InDoubt): it may appear, whole, after the next open; anything
    /// else, [`Error::KeyspaceDropped`](crate::Error::KeyspaceDropped) among it, was refused before it had any effect.
    pub fn commit(self) -> Result<()> {
        self.commit_costed(&mut OpCost::default())
    }

    /// [`Batch::commit`], adding to `cost` what it took.
    pub fn commit_costed(self, cost: &mut OpCost) -> Result<()> {
        self.db.core().commit(&self.ops, self.durability, cost)
    }

    fn delete_within(&mut self, keyspace: &Keyspace, bounds: Bounds) -> Result<()> {
        keyspace.check_belongs_to(self.db.core());
        self.ops.push_all(RangeDelete::of(bounds)?.ops(keyspace.id()))
    }

    fn push(&mut self, keyspace: &Keyspace, kind: Kind, key: &[u8], value: &[u8]) -> Result<()> {
        limits::check_key(key)?;
        limits::check_value(value)?;
        keyspace.check_belongs_to(self.db.core());
        self.ops.push(Op { keyspace: keyspace.id(), kind, key, value })
    }
}
