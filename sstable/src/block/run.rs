//! Rows of one block that a scan takes one after another, as long as nothing of another source goes before them.
//!
//! A step of a merge asks which source leads, of what kind it is, in which block it stands and where, and
//! keeps all of that up to date. In a run all of that is known. What is left is to put the next key
//! together and to compare its head with that of the runner-up, the source that comes second. Where keys
//! have a long part in common their heads are equal; then the eight bytes are compared that stand behind
//! what the run's first key and the runner-up's key share.

use esker_base::cursor::Below;
use esker_base::key::{head, shared_prefix};

use super::ahead::Ahead;
use super::key_buffer::{KeyBuffer, first_bytes, head_at, spliced_head};
use super::{Layout, NARROW};

/// What ends a run: the first row that may not go before the runner-up's.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bound {
    /// How many bytes the keys of the run share with the runner-up's, and with each other: heads are taken behind them.
    skip: u32,
    /// The runner-up's head there.
    below: u64,
    /// The head there of the row taken last.
    head: u64,
}

impl Bound {
    /// The bound of a run that follows the row with key `key`, whose head is `at`.
    #[inline]
    pub(super) fn new(below: Below<'_>, at: u64, key: &[u8]) -> Bound {
        match below {
            Below::Head(below) => Bound { skip: 0, below, head: at },
            Below::Key(below) => Bound::behind_shared(below, key),
        }
    }

    #[inline(never)]
    fn behind_shared(below: &[u8], key: &[u8]) -> Bound {
        let shared = shared_prefix(below, key);
        let rest = |key: &[u8]| head(key.get(shared..).unwrap_or_default());
        // A block's keys are shorter than 4 GiB.
        let skip = u32::try_from(shared).unwrap_or(u32::MAX);
        Bound { skip, below: rest(below), head: rest(key) }
    }
}

/// See the module. The cursor that began the run lends it the key's buffer, and goes to where the run has
/// come when the run is over.
///
/// Invariant: the buffer holds the block's prefix and all that the next row shares with its restart point, since
/// shares never grow within a restart interval.
#[derive(Debug, Default)]
pub struct RowRun {
    /// The first row, the next one, and the end of the block's rows.
    first: u32,
    next: u32,
    end: u32,
    bound: Bound,
    /// The next row was looked at, and perhaps is not below the bound.
    bounded: bool,
    /// Where the column of the records starts, and the sections of the keys and of the values.
    records: u32,
    keys: u32,
    values: u32,
    prefix_len: u32,
    /// Where the next row's own bytes start, and its value.
    key: u32,
    value: u32,
    ahead: Ahead,
    buffer: KeyBuffer,
}

impl RowRun {
    /// The rows from row `next` on, below `bound`, of a block with narrow starts. The row before has the key in `buffer`, which
    /// the run takes, and its own bytes and value end at `ends`.
    #[inline]
    pub(super) fn begin(
        &mut self,
        layout: &Layout,
        next: u32,
        bound: Bound,
        buffer: &mut KeyBuffer,
        ends: (u32, u32),
        ahead: Ahead,
    ) {
        (self.first, self.next, self.end) = (next, next, layout.rows);
        (self.bound, self.bounded) = (bound, false);
        (self.records, self.keys, self.values) = (layout.records, layout.keys, layout.values);
        self.prefix_len = layout.keys - layout.prefix;
        (self.key, self.value) = ends;
        self.ahead = ahead;
        std::mem::swap(&mut self.buffer, buffer);
    }

    /// Take no more rows, and give the buffer back. Returns the row taken last, or the one before the first
    /// if none was taken, and where its own bytes and its value end.
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

    /// Whether the next row was looked at, and perhaps is not below the bound.
    #[inline]
    pub fn is_bounded(&self) -> bool {
        self.bounded
    }

    /// Key and value of the run's next row; `bytes` are the block's. `None`, and the run stays where it is,
    /// if no row is left.
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
        let Some(head) = self.head_below(bytes, at, own) else {
            self.bounded = true;
            return None;
        };
        self.buffer.copy(bytes, at, self.key, own);
        let value = self.value as usize..value_end as usize;
        self.ahead.prefetch(bytes, value_end);
        (self.bound.head, self.key, self.value) = (head, key_end, value_end);
        self.next += 1;
        Some((self.buffer.get(len), bytes.get(value).unwrap_or_default()))
    }

    /// The head of the next row, of which `own` bytes, its own, follow the first `at` of the row before, if it is below the bound.
    #[inline(always)]
    fn head_below(&self, bytes: &[u8], at: u32, own: u32) -> Option<u64> {
        let Bound { skip, below, head } = self.bound;
        let head = match at.checked_sub(skip) {
            Some(kept) => {
                let head = spliced_head(head, kept, head_at(bytes, self.key));
                let len = kept + own;
                if len < 8 { head & first_bytes(len) } else { head }
            }
            None => self.head_behind_own(bytes, at, own)?,
        };
        (head < below).then_some(head)
    }

    /// That head, not compared yet, of a row some of whose own bytes belong to what the run's keys share: a
    /// restart point, or a row behind one that shares less. `None` if they differ, which makes it larger
    /// than the bound (in a block that is in order).
    #[inline(never)]
    fn head_behind_own(&self, bytes: &[u8], at: u32, own: u32) -> Option<u64> {
        let shared = self.buffer.get(self.bound.skip).get(at as usize..)?;
        let own = bytes.get(self.key as usize..)?.get(..own as usize)?;
        own.strip_prefix(shared).map(head)
    }
}
