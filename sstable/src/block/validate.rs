//! Checks every record, kind and number of a block, so that the accessors of [`View`] may rely on them.

use esker_base::SeqNo;
use esker_base::coding::DecodeError;
use esker_base::limits::KEY_BYTES_MAX;

use super::{NARROW, RESTART_INTERVAL, View, WIDE, delta_at, is_entry_kind};

impl View<'_> {
    /// Check every record, kind and number, so that the accessors may rely on them.
    pub(crate) fn validate(self) -> Result<(), DecodeError> {
        let layout = self.layout;
        let bad = |what, at: u32| DecodeError { what, at: at as usize };
        let values_end = if layout.wide {
            self.validate_records::<{ WIDE as usize }>(|[k0, k1, k2, k3, v0, v1, v2, v3, shared]| Record {
                key: u32::from_le_bytes([*k0, *k1, *k2, *k3]),
                value: u32::from_le_bytes([*v0, *v1, *v2, *v3]),
                shared: (*shared).into(),
            })
        } else {
            self.validate_records::<{ NARROW as usize }>(|[k0, k1, v0, v1, shared]| Record {
                key: u16::from_le_bytes([*k0, *k1]).into(),
                value: u16::from_le_bytes([*v0, *v1]).into(),
                shared: (*shared).into(),
            })
        }?;
        let padding = self.bytes.get(values_end as usize..).unwrap_or_default();
        if padding.iter().any(|&byte| byte != 0) {
            return Err(bad("padding of the block", values_end));
        }
        if layout.kind == 0 {
            let kinds = self.bytes.get(layout.kinds as usize..layout.seqnos as usize).unwrap_or_default();
            if !kinds.iter().copied().all(is_entry_kind) {
                return Err(bad("kind of a row", layout.kinds));
            }
        }
        // Where the width allows for more, some sum of base and difference could pass 56 bits.
        let widest = (1u64 << (8 * layout.seqno_width)) - 1;
        let in_range = layout.base.checked_add(widest).is_some_and(|most| most <= SeqNo::MAX.0)
            || (0..layout.rows).all(|row| {
                let number = layout.base.checked_add(delta_at(self.bytes, layout, row));
                number.is_some_and(|number| number <= SeqNo::MAX.0)
            });
        if !in_range {
            return Err(bad("sequence number of a row", layout.seqnos));
        }
        Ok(())
    }

    /// Check the records, of `SIZE` bytes each; where the last value ends. In each restart interval the
    /// starts ascend, what rows share with the restart point never grows, and no key is too long. An
    /// interval is judged as a whole: with a way out at each row that is wrong, a row took 96 instructions,
    /// where all of a block's checks take 52.
    fn validate_records<const SIZE: usize>(
        self,
        read: impl Fn(&[u8; SIZE]) -> Record,
    ) -> Result<u32, DecodeError> {
        let layout = self.layout;
        let bad = |what, record: usize| DecodeError { what, at: layout.records as usize + record * SIZE };
        let bytes = self.bytes.get(layout.records as usize..layout.heads as usize).unwrap_or_default();
        let (records, _) = bytes.as_chunks::<SIZE>();
        let Some((last, rows)) = records.split_last() else { return Err(bad("records", 0)) };
        let (keys_len, prefix_len) = (layout.values - layout.keys, layout.keys - layout.prefix);
        // The sections fit a block's bytes, see `Layout::parse`, and these 32 bits.
        let values_len = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX).saturating_sub(layout.values);
        let own_max = u32::try_from(KEY_BYTES_MAX).unwrap_or(u32::MAX).saturating_sub(prefix_len);
        let last = read(last);
        let mut start = read(records.first().unwrap_or(&[0; SIZE]));
        let mut fits = (start.key, start.value) == (0, 0);
        for (interval, rows) in rows.chunks(RESTART_INTERVAL as usize).enumerate() {
            let following = records.get(interval * RESTART_INTERVAL as usize + 1..).unwrap_or_default();
            // The restart point shares nothing; the row after it at most all that the restart point has.
            let mut shared_max = 0;
            for (at, next) in following.iter().take(rows.len()).enumerate() {
                let next = read(next);
                // Where starts do not ascend this wraps, and is too long.
                let own = next.key.wrapping_sub(start.key);
                fits &= start.key <= next.key && start.value <= next.value;
                fits &= start.shared <= shared_max && own.saturating_add(start.shared) <= own_max;
                shared_max = if at == 0 { own } else { start.shared };
                start = next;
            }
            if !fits {
                return Err(bad("record of a row", interval * RESTART_INTERVAL as usize));
            }
        }
        if last.key != keys_len || last.value > values_len {
            return Err(bad("last record of the block", rows.len()));
        }
        Ok(layout.values + last.value)
    }
}

/// What stands in a block for a row: where its key's own bytes and its value start, and how much its key shares with the
/// restart point.
struct Record {
    key: u32,
    value: u32,
    shared: u32,
}
