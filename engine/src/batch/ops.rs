//! The operations of a batch and their wire form, which is also a log record's payload.
//!
//! ```text
//! batch := op*                       (the log record's tag is the first op's sequence number)
//! op    := kind u8, keyspace varint, key length varint, key, [value length varint, value]
//! ```
//! A delete has no value; a range delete's value is the end of its range. The number of operations is
//! not stored: they end with the record. See `FORMAT.md` for a worked example.

use esker_base::coding::{DecodeError, Decoder, put_bytes, put_varint};
use esker_base::limits::{self, BATCH_BYTES_MAX};
use esker_base::planted::{self, Planted};
use esker_base::{KeyspaceId, Kind, Result, memory};

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
    #[inline]
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

    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    #[inline]
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// How many of them delete keys or ranges.
    #[inline]
    pub(crate) fn deletes(&self) -> u64 {
        self.deletes
    }

    /// How many of them delete ranges.
    #[inline]
    pub(crate) fn range_deletes(&self) -> u64 {
        self.range_deletes
    }

    /// Bytes of their keys and values.
    #[inline]
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
