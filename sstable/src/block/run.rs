//! Rows of one block that a scan takes one after another, as long as nothing of another source goes before them.
//!
//! A step of a merge asks which source leads, of what kind it is, in which block it stands and where, and keeps all of that
//! up to date. In a run it is known; what is left is to put the next key together and to compare its head with the one
//! of the runner-up.

use super::key_buffer::{KeyBuffer, first_bytes, head_at, spliced_head};
use super::{AHEAD_BYTES, Layout, NARROW, prefetch_values};

/// See the module. The cursor that began the run lends it the key's buffer, and goes to where the run has come when that is
/// over.
///
/// Invariant: the buffer holds the block's prefix and all that the next row shares with its restart point, since
/// shares never grow within a restart interval.
#[derive(Debug, Default)]
pub struct RowRun {
    /// The first row, the next, and the end of the block's.
    first: u32,
    next: u32,
    end: u32,
    /// Rows with this head or a larger one are not of the run.
    below: u64,
    /// The next row was looked at, and is such a one.
    bounded: bool,
    /// The head of the row taken last.
    head: u64,
    /// Where the column of the records starts, and the sections of the keys and of the values.
    records: u32,
    keys: u32,
    values: u32,
    prefix_len: u32,
    /// Where the next row's own bytes start, and its value.
    key: u32,
    value: u32,
    buffer: KeyBuffer,
}

impl RowRun {
    /// The rows from row `next` on, with heads below `below`, of a block with narrow starts. The row before has the key in
    /// `buffer`, which the run takes, and the head `head`, and its own bytes and value end at `ends`.
    #[inline]
    pub(super) fn begin(
        &mut self,
        layout: &Layout,
        (next, below): (u32, u64),
        head: u64,
        buffer: &mut KeyBuffer,
        ends: (u32, u32),
    ) {
        (self.first, self.next, self.end) = (next, next, layout.rows);
        (self.below, self.bounded, self.head) = (below, false, head);
        (self.records, self.keys, self.values) = (layout.records, layout.keys, layout.values);
        self.prefix_len = layout.keys - layout.prefix;
        (self.key, self.value) = ends;
        std::mem::swap(&mut self.buffer, buffer);
    }

    /// Take no more rows, and give the buffer back; the row taken last, or the one before the first, and where its own bytes
    /// and its value end.
    #[inline]
    pub(super) fn end(&mut self, buffer: &mut KeyBuffer) -> (u32, u32, u32) {
        std::mem::swap(&mut self.buffer, buffer);
        self.end = 0;
        (self.next.wrapping_sub(1), self.key, self.value)
    }

    /// Whether rows may be left.
    #[inline(always)]
    pub fn goes_on(&self) -> bool {
        self.next < self.end
    }

    /// How many rows were taken.
    #[inline]
    pub fn taken(&self) -> u32 {
        self.next - self.first
    }

    /// Whether the next row was seen not to be below the bound.
    #[inline]
    pub fn is_bounded(&self) -> bool {
        self.bounded
    }

    /// Key and value of the run's next row in the block that `bytes` are. `None`, and it is still the next, if there is none
    /// left.
    #[inline(always)]
    pub fn next<'a>(&'a mut self, bytes: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
        if !self.goes_on() {
            return None;
        }
        // What the row shares, and the starts of the next. A head stands after the records, so eight bytes are there.
        let record = (self.records + self.next * NARROW + NARROW - 1) as usize;
        let [shared, k0, k1, v0, v1, ..] = *bytes.get(record..record + 8)?.first_chunk::<8>()?;
        let key_end = self.keys.wrapping_add(u16::from_le_bytes([k0, k1]).into());
        let value_end = self.values.wrapping_add(u16::from_le_bytes([v0, v1]).into());
        let at = self.prefix_len + u32::from(shared);
        let own = key_end.saturating_sub(self.key);
        let len = at + own;
        // What precedes a row's own bytes the row before has as well.
        let mut head = spliced_head(self.head, at, head_at(bytes, self.key));
        if len < 8 {
            head &= first_bytes(len);
        }
        if head >= self.below {
            self.bounded = true;
            return None;
        }
        self.buffer.copy(bytes, at, self.key, own);
        let value = self.value as usize..value_end as usize;
        prefetch_values(bytes, value_end.saturating_add(AHEAD_BYTES));
        (self.head, self.key, self.value) = (head, key_end, value_end);
        self.next += 1;
        Some((self.buffer.get(len), bytes.get(value).unwrap_or_default()))
    }
}
