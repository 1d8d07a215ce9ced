//! Finding rows in a block: the first row not before a position, and the newest version of a key.

use std::cmp::Ordering;

use esker_base::key::{head, shared_prefix, strip_prefix};
use esker_base::{InternalKey, SeqNo};

use super::{HEADER_BYTES, RESTART_INTERVAL, View, delta_at};

/// What a block holds of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// This row is the newest version that the reader sees.
    Row(u32),
    /// Only versions that are newer than the reader's bound.
    OnlyNewer,
    /// Nothing.
    Absent,
}

impl<'a> View<'a> {
    /// The first row at or after `target` in internal order; `rows()` if there is none.
    pub(crate) fn lower_bound(self, target: InternalKey<'_>) -> u32 {
        let prefix = self.prefix();
        let Some(rest) = strip_prefix(target.user, prefix) else {
            return if target.user < prefix { 0 } else { self.rows() };
        };
        // The answer lies after the last restart point that is before the target.
        let Some(interval) = self.restarts_before(rest, target.seqno).checked_sub(1) else { return 0 };
        let start = interval * RESTART_INTERVAL;
        let restart = self.remainder(self.row(start));
        let common = shared_prefix(restart, rest);
        let mut low = start + 1;
        let mut high = (start + RESTART_INTERVAL).min(self.rows());
        while low < high {
            let middle = low.midpoint(high);
            if self.is_before(middle, common, rest, target.seqno) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// How many restart points are before (`rest`, `seqno`).
    fn restarts_before(self, rest: &[u8], seqno: SeqNo) -> u32 {
        let wanted = head(rest);
        let (mut low, mut high) = (0, self.rows().div_ceil(RESTART_INTERVAL));
        while low < high {
            let middle = low.midpoint(high);
            let before = match self.head(middle).cmp(&wanted) {
                Ordering::Less => true,
                Ordering::Greater => false,
                Ordering::Equal => {
                    let row = middle * RESTART_INTERVAL;
                    self.order(row, self.remainder(self.row(row)), rest, seqno) == Ordering::Less
                }
            };
            if before {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The head of the rest of restart point number `restart`.
    #[inline]
    fn head(self, restart: u32) -> u64 {
        let at = (self.layout.heads + restart * 8) as usize;
        let bytes = self.bytes.get(at..).and_then(<[u8]>::first_chunk::<8>).copied().unwrap_or_default();
        u64::from_le_bytes(bytes)
    }

    /// Row `row`, of which `bytes` is compared with `wanted`, against (`wanted`, `seqno`).
    #[inline]
    fn order(self, row: u32, bytes: &[u8], wanted: &[u8], seqno: SeqNo) -> Ordering {
        // Eight bytes of each decide most comparisons without a call.
        if let (Some(mine), Some(theirs)) = (bytes.first_chunk::<8>(), wanted.first_chunk::<8>())
            && mine != theirs
        {
            return u64::from_be_bytes(*mine).cmp(&u64::from_be_bytes(*theirs));
        }
        bytes.cmp(wanted).then_with(|| seqno.cmp(&self.seqno(row)))
    }

    /// Whether a row that is no restart point is before (`rest`, `seqno`), which lies at or after the row's restart
    /// point and shares `common` bytes with it.
    ///
    /// A row that shares more with the restart point than the target does is before the target, one that
    /// shares less is after it; only an equal share needs a comparison. (`shared` is one byte: 255 means
    /// "at least 255".)
    #[inline]
    fn is_before(self, row: u32, common: usize, rest: &[u8], seqno: SeqNo) -> bool {
        let here = self.row(row);
        let shared = here.shared as usize;
        match shared.cmp(&common) {
            Ordering::Greater => true,
            Ordering::Less if shared < 255 => false,
            _ => {
                let wanted = rest.get(shared..).unwrap_or_default();
                self.order(row, self.remainder(here), wanted, seqno) == Ordering::Less
            }
        }
    }

    /// The newest version of `key` not after `upper`. `tag` is the key's.
    ///
    /// Compares the tags of eight rows at a time and looks only at rows whose tag agrees: one in 256
    /// of the others.
    pub(crate) fn find(self, key: &[u8], tag: u8, upper: SeqNo) -> Found {
        let Some(rest) = strip_prefix(key, self.prefix()) else { return Found::Absent };
        let pattern = u64::from(tag) * LOW_BITS;
        for base in (0..self.rows()).step_by(8) {
            // Eight bytes can be read at every tag: records follow.
            let at = (HEADER_BYTES + base) as usize;
            let word = self.bytes.get(at..).and_then(<[u8]>::first_chunk::<8>).copied().unwrap_or_default();
            let mut equal = zero_bytes(u64::from_le_bytes(word) ^ pattern);
            while equal != 0 {
                let row = base + equal.trailing_zeros() / 8;
                if row >= self.rows() {
                    break;
                }
                if self.is_key(row, rest) {
                    return self.version(row, key, rest, upper);
                }
                equal &= equal - 1;
            }
        }
        Found::Absent
    }

    /// The newest version of `key` not after `upper`, given its first row in the block. `rest` is the
    /// key without the prefix.
    #[inline]
    fn version(self, row: u32, key: &[u8], rest: &[u8], upper: SeqNo) -> Found {
        if self.seqno(row) <= upper {
            return Found::Row(row);
        }
        // There may be many versions: search instead of walking.
        let row = self.lower_bound(InternalKey::new(key, upper));
        if row < self.rows() && self.is_key(row, rest) { Found::Row(row) } else { Found::OnlyNewer }
    }

    /// Whether the rest of row `row`'s key is `rest`.
    #[inline]
    fn is_key(self, row: u32, rest: &[u8]) -> bool {
        let here = self.row(row);
        let Some((shared, own)) = rest.split_at_checked(here.shared as usize) else { return false };
        own == self.remainder(here) && (shared.is_empty() || self.restart_of(row).starts_with(shared))
    }

    /// Whether no two neighbouring rows have the same key. Rows of one key have one tag, so keys are compared only where
    /// neighbours' tags agree: of different keys one pair in 256.
    pub(crate) fn is_distinct(self) -> bool {
        let (from, to) = (HEADER_BYTES as usize, (HEADER_BYTES + self.rows()) as usize);
        let tags = self.bytes.get(from..to).unwrap_or_default();
        let pairs = (0u32..).zip(tags.iter().zip(tags.get(1..).unwrap_or_default()));
        !pairs.filter(|(_, (tag, next))| tag == next).any(|(row, _)| self.is_followed_by_same(row))
    }

    /// Whether row `row`, which is not the last, and the one after it have the same key.
    #[inline(never)]
    fn is_followed_by_same(self, row: u32) -> bool {
        let (here, next) = (self.row(row), self.row(row + 1));
        let (shared, shares) = (here.shared as usize, next.shared as usize);
        let (own, rest) = (self.remainder(here), self.remainder(next));
        // The keys are `restart[..shared] ‖ own` and `restart[..shares] ‖ rest`: the next restart point shares nothing.
        let restart = self.restart_of(row);
        if shares >= shared {
            let more = restart.get(shared..shares).unwrap_or_default();
            own.strip_prefix(more) == Some(rest)
        } else {
            let more = restart.get(shares..shared).unwrap_or_default();
            rest.strip_prefix(more) == Some(own)
        }
    }

    /// The largest number of a row.
    pub(crate) fn newest(self) -> SeqNo {
        let most = (0..self.rows()).map(|row| delta_at(self.bytes, self.layout, row)).max();
        SeqNo(self.layout.base.wrapping_add(most.unwrap_or_default()))
    }

    /// The rest of row `row`'s restart point, which the row is compressed against.
    #[inline]
    fn restart_of(self, row: u32) -> &'a [u8] {
        self.remainder(self.row(row - row % RESTART_INTERVAL))
    }

    /// Append the user key of row `row` to `out`.
    pub(crate) fn key_into(self, row: u32, out: &mut Vec<u8>) {
        let here = self.row(row);
        out.extend_from_slice(self.prefix());
        out.extend_from_slice(self.restart_of(row).get(..here.shared as usize).unwrap_or_default());
        out.extend_from_slice(self.remainder(here));
    }
}

const LOW_BITS: u64 = 0x0101_0101_0101_0101;

/// The high bit of every byte of `word` that is zero, and nothing else. (The shorter classic sets bits
/// above the first zero byte wrongly.)
#[inline]
fn zero_bytes(word: u64) -> u64 {
    const REST: u64 = 0x7F * LOW_BITS;
    !(((word & REST) + REST) | word | REST)
}
