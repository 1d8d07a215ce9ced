//! Encoding a block: rows are collected column by column and written out in one go.

use esker_base::key::{head, shared_prefix};
use esker_base::{Kind, SeqNo};

use super::{FLAG_WIDE, HEADER_BYTES, NARROW, RESTART_INTERVAL, WIDE};

/// What decides how wide the columns of numbers and kinds are.
#[derive(Clone, Copy, Debug)]
struct Columns {
    oldest: u64,
    /// Below `oldest` while there is no row.
    newest: u64,
    /// The kind of all rows, if they have the same.
    kind: Option<Kind>,
    /// Bytes that a sequence number takes, stored as the difference to the oldest.
    seqno_width: usize,
}

impl Default for Columns {
    fn default() -> Self {
        Columns { oldest: u64::MAX, newest: 0, kind: None, seqno_width: 0 }
    }
}

impl Columns {
    /// Whether such a row changes nothing.
    #[inline]
    fn cover(&self, seqno: SeqNo, kind: Kind) -> bool {
        self.oldest <= seqno.0 && seqno.0 <= self.newest && self.kind.is_none_or(|all| all == kind)
    }

    /// The columns of these rows and of one more.
    #[cold]
    fn and(&self, seqno: SeqNo, kind: Kind) -> Columns {
        if self.oldest > self.newest {
            return Columns { oldest: seqno.0, newest: seqno.0, kind: Some(kind), seqno_width: 0 };
        }
        let (oldest, newest) = (self.oldest.min(seqno.0), self.newest.max(seqno.0));
        let seqno_width = (64 - (newest - oldest).leading_zeros() as usize).div_ceil(8);
        Columns { oldest, newest, kind: self.kind.filter(|&all| all == kind), seqno_width }
    }

    /// Bytes that a row takes in these two columns.
    #[inline]
    fn width(&self) -> usize {
        self.seqno_width + usize::from(self.kind.is_none())
    }
}

/// A row while its block is being filled.
#[derive(Clone, Copy, Debug)]
struct Pending {
    /// End of the key in `keys`.
    key_end: u32,
    /// End of the value in `values`.
    value_end: u32,
    /// Bytes that the whole key shares with the key of the restart point.
    shared: u16,
    tag: u8,
    kind: Kind,
    seqno: SeqNo,
}

/// Collects the rows of one block, then encodes them; used again for the next block.
#[derive(Debug, Default)]
pub(crate) struct BlockBuilder {
    rows: Vec<Pending>,
    /// Whole user keys, one after the other.
    keys: Vec<u8>,
    values: Vec<u8>,
    /// Start of the last restart point's key in `keys`, and its length.
    restart: (usize, usize),
    /// Bytes of all keys as they will be stored, but for the block's prefix.
    key_area: usize,
    columns: Columns,
}

impl BlockBuilder {
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Bytes that the block takes if it is finished now, or a little more. (The result is too small where
    /// rows share more than 255 bytes with their restart point beyond what the whole block shares: the
    /// bytes beyond 255 are stored with each row.)
    #[inline]
    pub(crate) fn raw_bytes(&self) -> usize {
        self.bytes_of(self.rows.len(), self.columns.width())
    }

    /// Bytes that the block takes with one more row, or a little more: what all its keys share is known
    /// only when it is finished.
    #[inline]
    pub(crate) fn raw_bytes_with(&self, key: usize, seqno: SeqNo, kind: Kind, value: usize) -> usize {
        let columns = &self.columns;
        let width =
            if columns.cover(seqno, kind) { columns.width() } else { columns.and(seqno, kind).width() };
        self.bytes_of(self.rows.len() + 1, width) + key + value
    }

    /// Bytes of a block of the keys and values that are here, with `rows` rows that take `width` bytes each
    /// for number and kind.
    #[inline]
    fn bytes_of(&self, rows: usize, width: usize) -> usize {
        let wide = self.key_area.max(self.values.len()) > u16::MAX as usize;
        let record = if wide { WIDE } else { NARROW } as usize;
        let heads = rows.div_ceil(RESTART_INTERVAL as usize) * 8;
        let rows = rows * (1 + record + width);
        HEADER_BYTES as usize + record + heads + rows + self.key_area + self.values.len()
    }

    /// The last key added.
    #[inline]
    pub(crate) fn last_key(&self) -> &[u8] {
        let start = match self.rows.as_slice() {
            [.., before, _] => before.key_end as usize,
            _ => 0,
        };
        self.keys.get(start..).unwrap_or_default()
    }

    /// Add a row after the last. The caller keeps the order and the block's size.
    #[inline]
    pub(crate) fn add(&mut self, key: &[u8], tag: u8, seqno: SeqNo, kind: Kind, value: &[u8]) {
        let mut shared = 0;
        if self.rows.len().is_multiple_of(RESTART_INTERVAL as usize) {
            self.restart = (self.keys.len(), key.len());
        } else {
            let (start, len) = self.restart;
            shared = shared_prefix(self.keys.get(start..start + len).unwrap_or_default(), key);
        }
        if !self.columns.cover(seqno, kind) {
            self.columns = self.columns.and(seqno, kind);
        }
        self.key_area += key.len() - shared;
        self.keys.extend_from_slice(key);
        self.values.extend_from_slice(value);
        self.rows.push(Pending {
            key_end: fit_u32(self.keys.len()),
            value_end: fit_u32(self.values.len()),
            shared: u16::try_from(shared).unwrap_or(u16::MAX),
            tag,
            kind,
            seqno,
        });
    }

    /// Append everything but the values to `out`; [`BlockBuilder::values`] is the block's end.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let first_key = self.key(0);
        let prefix_len = shared_prefix(first_key, self.last_key());
        let prefix = first_key.get(..prefix_len).unwrap_or_default();
        let rests: usize = self.rests(prefix_len).map(|(_, remainder)| remainder.len()).sum();
        let wide = rests > u16::MAX as usize || self.values.len() > u16::MAX as usize;
        let columns = self.columns;
        let width = columns.seqno_width;

        out.extend_from_slice(&fit_u32(self.rows.len()).to_le_bytes());
        out.push(if wide { FLAG_WIDE } else { 0 });
        out.push(u8::try_from(width).expect("at most eight"));
        out.push(columns.kind.map_or(0, |kind| kind as u8));
        out.push(0);
        out.extend_from_slice(&columns.oldest.to_le_bytes());
        out.extend_from_slice(&u16::try_from(prefix_len).expect("keys fit 16 bits").to_le_bytes());
        out.extend_from_slice(&[0, 0]);
        out.extend_from_slice(&fit_u32(rests).to_le_bytes());
        out.extend(self.rows.iter().map(|row| row.tag));
        if columns.kind.is_none() {
            out.extend(self.rows.iter().map(|row| row.kind as u8));
        }
        if width > 0 {
            for row in &self.rows {
                let bytes = (row.seqno.0 - columns.oldest).to_le_bytes();
                out.extend_from_slice(bytes.get(..width).unwrap_or_default());
            }
        }
        self.encode_records(out, prefix_len, wide);
        for row in (0..self.rows.len()).step_by(RESTART_INTERVAL as usize) {
            let rest = self.key(row).get(prefix_len..).unwrap_or_default();
            out.extend_from_slice(&head(rest).to_le_bytes());
        }
        out.extend_from_slice(prefix);
        for (_, remainder) in self.rests(prefix_len) {
            out.extend_from_slice(remainder);
        }
    }

    fn encode_records(&self, out: &mut Vec<u8>, prefix_len: usize, wide: bool) {
        let record = if wide { WIDE } else { NARROW } as usize;
        out.reserve((self.rows.len() + 1) * record);
        let mut put = |key: usize, value: u32, shared: u8| {
            let (key, value) = (fit_u32(key).to_le_bytes(), value.to_le_bytes());
            if wide {
                let ([k0, k1, k2, k3], [v0, v1, v2, v3]) = (key, value);
                out.extend_from_slice(&[k0, k1, k2, k3, v0, v1, v2, v3, shared]);
            } else {
                let ([k0, k1, ..], [v0, v1, ..]) = (key, value);
                out.extend_from_slice(&[k0, k1, v0, v1, shared]);
            }
        };
        let (mut key_at, mut value_at) = (0, 0);
        for (row, (shared, remainder)) in self.rows.iter().zip(self.rests(prefix_len)) {
            put(key_at, value_at, shared);
            key_at += remainder.len();
            value_at = row.value_end;
        }
        put(key_at, value_at, 0);
    }

    /// For every row: how much of its rest, the key without the prefix, it shares with its restart point, and what
    /// remains.
    fn rests(&self, prefix_len: usize) -> impl Iterator<Item = (u8, &[u8])> {
        let mut start = 0;
        self.rows.iter().enumerate().map(move |(index, row)| {
            let end = row.key_end as usize;
            let whole = self.keys.get(start..end).unwrap_or_default();
            start = end;
            let shared = if index.is_multiple_of(RESTART_INTERVAL as usize) {
                0
            } else {
                u8::try_from((row.shared as usize).saturating_sub(prefix_len)).unwrap_or(u8::MAX)
            };
            (shared, whole.get(prefix_len + shared as usize..).unwrap_or_default())
        })
    }

    fn key(&self, row: usize) -> &[u8] {
        let start = match row.checked_sub(1) {
            Some(before) => self.rows.get(before).map_or(0, |row| row.key_end),
            None => 0,
        };
        let end = self.rows.get(row).map_or(start, |row| row.key_end);
        self.keys.get(start as usize..end as usize).unwrap_or_default()
    }

    /// The block's value area.
    pub(crate) fn values(&self) -> &[u8] {
        &self.values
    }

    /// Add `zeros` zeros after the values of the block that was encoded.
    pub(crate) fn pad(&mut self, zeros: usize) {
        self.values.resize(self.values.len() + zeros, 0);
    }

    /// Make ready for the next block.
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        self.keys.clear();
        self.values.clear();
        // One huge value should not stay allocated for the rest of the table.
        self.values.shrink_to(1 << 20);
        self.key_area = 0;
        self.columns = Columns::default();
        self.restart = (0, 0);
    }
}

/// A block's sizes fit 32 bits: the writer cuts blocks at a megabyte, a longer row stands alone.
pub(crate) fn fit_u32(len: usize) -> u32 {
    u32::try_from(len).expect("a block is below four gigabytes")
}
