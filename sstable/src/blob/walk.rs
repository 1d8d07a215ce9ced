//! Reading values one after the other, as a scan, a compaction and the proof of what was written do.
//!
//! A value whose record follows the last one's in the same file is read together with what follows it; the
//! longer that goes on, the more is read at once, since the values of keys that were written together lie
//! in key order. Every other value is read alone, into memory that stays in the processor's cache. Values
//! of a mapped file are lent from the mapping. A scan is lent what the block cache holds, and puts nothing
//! there. The proof of what was written reads the file itself.

use std::sync::Arc;

use bytes::Bytes;
use esker_base::blob::BlobPointer;
use esker_base::{OpCost, Result, memory};

use super::reader::BlobReader;

/// The most that is read ahead, in bytes: what the processor's second cache holds beside what else is in it.
const AHEAD_BYTES_MAX: u64 = 256 << 10;

/// What the buffer's length is a multiple of.
const ROOM_BYTES: usize = 16 << 10;

/// See the module.
#[derive(Default)]
pub struct BlobWalk {
    /// Whether values that the block cache holds are lent from there.
    from_cache: bool,
    /// The file that was read last.
    reader: Option<Arc<BlobReader>>,
    buffer: Vec<u8>,
    /// Where in the file the buffer begins, and how much of it counts.
    start: u64,
    len: usize,
    /// Where the last record ended.
    next: u64,
    /// What is read ahead next time.
    ahead: u64,
    /// The last value: in a mapping or a cached block, or where in the buffer it lies.
    lent: Option<Bytes>,
    last: (usize, usize),
}

impl BlobWalk {
    /// A scan's: what the block cache holds is lent from there, and not read again.
    pub fn from_cache() -> BlobWalk {
        BlobWalk { from_cache: true, ..BlobWalk::default() }
    }

    /// The value that `pointer` of `key` leads to in the file of `reader`; lent until the next call.
    ///
    /// # Errors
    /// As [`BlobReader::read`].
    pub fn value(
        &mut self,
        reader: &Arc<BlobReader>,
        key: &[u8],
        pointer: &BlobPointer,
        cost: &mut OpCost,
    ) -> Result<&[u8]> {
        (self.lent, self.last) = (None, (0, 0));
        let len = reader.record_len(key, pointer)?;
        if let Some(record) = reader.in_mapping(pointer.offset, len, cost) {
            cost.blob_values += 1;
            let value = reader.value_in(key, pointer, &record)?.len();
            return Ok(self.lent.insert(record.slice(len - value..)));
        }
        let same = self.reader.as_ref().is_some_and(|last| Arc::ptr_eq(last, reader));
        let held = pointer.offset.checked_sub(self.start).and_then(|at| usize::try_from(at).ok());
        let held = held.filter(|at| same && at.checked_add(len).is_some_and(|end| end <= self.len));
        if self.from_cache
            && held.is_none()
            && let Some(value) = reader.in_cache(key, pointer, len, cost)
        {
            // What follows it may be cached as well: it is not read ahead.
            cost.blob_values += 1;
            return Ok(self.lent.insert(value));
        }
        if !same {
            self.reader = Some(Arc::clone(reader));
            (self.len, self.next, self.ahead) = (0, 0, 0);
        }
        let at = if let Some(at) = held {
            at
        } else {
            self.read(reader, pointer.offset, len, cost)?;
            0
        };
        self.next = pointer.offset + len as u64;
        cost.blob_values += 1;
        let record = self.buffer.get(at..at + len).unwrap_or_default();
        let value = reader.value_in(key, pointer, record)?;
        self.last = (at + len - value.len(), at + len);
        Ok(value)
    }

    /// The value that was read last; empty before the first and after an error.
    #[inline]
    pub fn last(&self) -> &[u8] {
        match &self.lent {
            Some(value) => value,
            None => self.buffer.get(self.last.0..self.last.1).unwrap_or_default(),
        }
    }

    /// Read the record of `len` bytes at `offset`, and what it pays to read with it.
    fn read(&mut self, reader: &BlobReader, offset: u64, len: usize, cost: &mut OpCost) -> Result<()> {
        let wanted = len as u64;
        self.ahead =
            if offset == self.next { (2 * self.ahead.max(wanted)).min(AHEAD_BYTES_MAX) } else { 0 };
        let reach = self.ahead.min(reader.end().saturating_sub(offset)).max(wanted);
        let reach = usize::try_from(reach).unwrap_or(len);
        // Nothing counts should the read fail.
        self.len = 0;
        if self.buffer.len() < reach {
            // The old buffer is given back first, and the new one is somewhat longer than needed: values of
            // slightly different lengths take turns.
            self.buffer = Vec::new();
            self.buffer = memory::zeroed(reach.next_multiple_of(ROOM_BYTES), "a value")?;
        }
        reader.fill(offset, self.buffer.get_mut(..reach).unwrap_or_default())?;
        (self.start, self.len) = (offset, reach);
        cost.bytes_from_disk += reach as u64;
        Ok(())
    }
}
