//! Sums over a table's content: the writer makes them to describe the table, verification to check the
//! description.

use std::collections::BTreeMap;

use esker_base::blob::{BlobPointer, BlobRef};
use esker_base::range_tombstone::Fragment;
use esker_base::table_meta::{KeyBounds, TableMeta};
use esker_base::{FileNumber, Kind, SeqNo};

use crate::options::TableIdentity;

/// Sums over all entries and range tombstones so far.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) entries: u64,
    point_tombstones: u64,
    merge_operands: u64,
    hidden_versions: u64,
    /// A put or delete of the last entry's key has come: older versions follow it.
    hides: bool,
    range_tombstones: u64,
    key_bytes: u64,
    value_bytes: u64,
    content_hash: u64,
    /// The smallest and largest number seen.
    seqnos: Option<(SeqNo, SeqNo)>,
    /// Values, and their bytes, by blob file.
    blobs: BTreeMap<FileNumber, (u64, u64)>,
}

impl Totals {
    /// Count an entry of this content hash; `same_key` if it is an older version of the key of the entry before it.
    #[inline]
    pub(crate) fn entry(
        &mut self,
        key: &[u8],
        same_key: bool,
        seqno: SeqNo,
        kind: Kind,
        value: &[u8],
        hash: u64,
    ) {
        self.entries += 1;
        self.point_tombstones += u64::from(kind == Kind::Delete);
        self.merge_operands += u64::from(kind == Kind::Merge);
        let hidden = self.hides && same_key;
        self.hidden_versions += u64::from(hidden);
        // An operand hides nothing, and may stay beside older versions for ever.
        self.hides = hidden || kind != Kind::Merge;
        self.key_bytes += key.len() as u64;
        self.value_bytes += value.len() as u64;
        self.content_hash = self.content_hash.wrapping_add(hash);
        self.number(seqno);
    }

    /// Count what an entry refers to.
    pub(crate) fn refer(&mut self, pointer: BlobPointer) {
        let (values, bytes) = self.blobs.entry(pointer.number).or_default();
        *values += 1;
        *bytes += u64::from(pointer.len);
    }

    /// Count a fragment.
    pub(crate) fn fragment(&mut self, fragment: &Fragment) {
        self.range_tombstones += fragment.seqnos.len() as u64;
        for &seqno in &fragment.seqnos {
            self.number(seqno);
        }
    }

    #[inline]
    fn number(&mut self, seqno: SeqNo) {
        let (low, high) = self.seqnos.unwrap_or((seqno, seqno));
        self.seqnos = Some((low.min(seqno), high.max(seqno)));
    }

    /// Describe a table of these entries, from `first` to `last`, and these fragments. `None` if it
    /// holds nothing.
    pub(crate) fn describe(
        &self,
        identity: TableIdentity,
        (first, last): (&[u8], &[u8]),
        fragments: &[Fragment],
        file_bytes: u64,
        created_millis: u64,
    ) -> Option<TableMeta> {
        let points = (self.entries > 0).then(|| KeyBounds {
            smallest: first.to_vec(),
            largest: last.to_vec(),
            largest_exclusive: false,
        });
        let ranges = fragments.first().zip(fragments.last()).map(|(first, last)| KeyBounds {
            smallest: first.start.clone(),
            largest: last.end.clone(),
            largest_exclusive: true,
        });
        let bounds = match (points, ranges) {
            (Some(points), Some(ranges)) => points.union(&ranges),
            (points, ranges) => points.or(ranges)?,
        };
        let (smallest_seqno, largest_seqno) = self.seqnos.unwrap_or_default();
        Some(TableMeta {
            number: identity.number,
            keyspace: identity.keyspace,
            file_bytes,
            bounds,
            smallest_seqno,
            largest_seqno,
            entries: self.entries,
            point_tombstones: self.point_tombstones,
            merge_operands: self.merge_operands,
            hidden_versions: self.hidden_versions,
            range_tombstones: self.range_tombstones,
            key_bytes: self.key_bytes,
            value_bytes: self.value_bytes,
            content_hash: self.content_hash,
            created_millis,
            blobs: self
                .blobs
                .iter()
                .map(|(&number, &(values, value_bytes))| BlobRef { number, values, value_bytes })
                .collect(),
        })
    }
}

/// Which field of a table's own description differs from another of it, in words; `None` if none does.
pub(crate) fn disagreement(own: &TableMeta, other: &TableMeta, other_name: &str) -> Option<String> {
    if own == other {
        return None;
    }
    let fields = [
        ("keyspace", u64::from(own.keyspace.0), u64::from(other.keyspace.0)),
        ("number", own.number.0, other.number.0),
        ("file length", own.file_bytes, other.file_bytes),
        ("entries", own.entries, other.entries),
        ("point tombstones", own.point_tombstones, other.point_tombstones),
        ("merge operands", own.merge_operands, other.merge_operands),
        ("hidden versions", own.hidden_versions, other.hidden_versions),
        ("range tombstones", own.range_tombstones, other.range_tombstones),
        ("smallest sequence number", own.smallest_seqno.0, other.smallest_seqno.0),
        ("largest sequence number", own.largest_seqno.0, other.largest_seqno.0),
        ("key bytes", own.key_bytes, other.key_bytes),
        ("value bytes", own.value_bytes, other.value_bytes),
        ("content hash", own.content_hash, other.content_hash),
        ("creation time", own.created_millis, other.created_millis),
    ];
    if own.blobs != other.blobs {
        return Some(format!(
            "the table's own description refers to other values in blob files than {other_name}"
        ));
    }
    Some(match fields.iter().find(|(_, own, other)| own != other) {
        Some((name, own, other)) => {
            format!("the table's own description says {name} {own}, {other_name} says {other}")
        }
        None => format!("the table's own description has other key bounds than {other_name}"),
    })
}
