//! What everyone above knows of a table without reading it: the manifest stores this, so that opening
//! a database reads no table.

use std::ops::Bound;

use crate::blob::BlobRef;
use crate::bounds::Bounds;
use crate::{FileNumber, KeyspaceId, SeqNo};

/// The user keys a table may hold, range tombstones included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyBounds {
    /// The smallest user key or tombstone start.
    pub smallest: Vec<u8>,
    /// The largest user key, or the end of the last range tombstone if that lies behind it.
    pub largest: Vec<u8>,
    /// Whether `largest` itself is outside: it is a range tombstone's end.
    pub largest_exclusive: bool,
}

impl KeyBounds {
    /// Whether `key` lies inside.
    #[inline]
    pub fn contains(&self, key: &[u8]) -> bool {
        self.smallest.as_slice() <= key && !self.ends_before(key)
    }

    /// Whether all of this lies before `key`.
    #[inline]
    pub fn ends_before(&self, key: &[u8]) -> bool {
        match self.largest.as_slice().cmp(key) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Equal => self.largest_exclusive,
            std::cmp::Ordering::Greater => false,
        }
    }

    /// Whether some key may lie inside these and `bounds`.
    pub fn meets(&self, bounds: &Bounds) -> bool {
        let starts_past_end = bounds.past_end(&self.smallest);
        let ends_before_start = match &bounds.start {
            Bound::Unbounded => false,
            Bound::Included(start) | Bound::Excluded(start) => self.ends_before(start),
        };
        !starts_past_end && !ends_before_start
    }

    /// Whether some key lies inside both.
    pub fn overlaps(&self, other: &KeyBounds) -> bool {
        !self.ends_before(&other.smallest) && !other.ends_before(&self.smallest)
    }

    /// The bounds that hold both.
    #[must_use]
    pub fn union(&self, other: &KeyBounds) -> KeyBounds {
        let smallest = self.smallest.clone().min(other.smallest.clone());
        // With equal keys the inclusive bound reaches further.
        let reach = |b: &KeyBounds| (b.largest.clone(), !b.largest_exclusive);
        let (largest, inclusive) = reach(self).max(reach(other));
        KeyBounds { smallest, largest, largest_exclusive: !inclusive }
    }
}

/// A table's description. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableMeta {
    /// The file's number.
    pub number: FileNumber,
    /// The keyspace its entries belong to.
    pub keyspace: KeyspaceId,
    /// The file's size.
    pub file_bytes: u64,
    /// What keys it may hold.
    pub bounds: KeyBounds,
    /// The smallest sequence number of any entry or range tombstone.
    pub smallest_seqno: SeqNo,
    /// The largest sequence number of any entry or range tombstone.
    pub largest_seqno: SeqNo,
    /// Entries of every kind, range tombstones not counted.
    pub entries: u64,
    /// Point tombstones among the entries.
    pub point_tombstones: u64,
    /// Merge operands among the entries.
    pub merge_operands: u64,
    /// Entries that stand behind a newer put or delete of their key in the same table: once every reader
    /// sees that put or delete, they are garbage. Entries that stand behind merge operands alone are not
    /// counted. Zero in tables of format versions before 4, whatever they hold.
    pub hidden_versions: u64,
    /// Range tombstones (one for each number of each fragment).
    pub range_tombstones: u64,
    /// User keys of all entries, before compression.
    pub key_bytes: u64,
    /// Values of all entries, before compression; of a value in a blob file, its pointer.
    pub value_bytes: u64,
    /// Wrapping sum of [`entry_hash`](crate::checksum::entry_hash) over all entries.
    pub content_hash: u64,
    /// When it was written, in milliseconds since 1970 by the database's clock; for people and age
    /// rules, never for order.
    pub created_millis: u64,
    /// The blob files that its rows refer to, ascending by number.
    pub blobs: Vec<BlobRef>,
}
