//! Edits: what changes the set of files, and their bytes (see `FORMAT.md`).
//!
//! 1. The edits of one record take effect together. [`encode`] orders them by kind, so that applying them
//!    one by one never meets a state in between that is refused.
//! 2. [`decode`] hands out one edit at a time: memory is bounded by one edit, whatever the record claims.
//! 3. [`Edit::check`] holds for every edit that is encoded and for every edit that was decoded.

mod coding;
#[cfg(test)]
mod tests;

pub use coding::{Edits, decode, encode};

use esker_base::blob::BlobMeta;
use esker_base::limits::{KEY_BYTES_MAX, KEYSPACE_NAME_BYTES_MAX};
use esker_base::table_meta::TableMeta;
use esker_base::{FileNumber, KeyspaceId, SeqNo};

use crate::limits::{COUNT_END, FILE_NUMBER_END, KEYSPACE_ID_END, LEVELS, SEQNO_END};

/// One change to the set of files. See `FORMAT.md` for what each means and when it is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// A keyspace is gone, with every table it has.
    DropKeyspace {
        /// Its id, never used again.
        id: KeyspaceId,
    },
    /// A new, empty keyspace.
    CreateKeyspace {
        /// An id never used before: [`Version::next_keyspace`](crate::Version::next_keyspace).
        id: KeyspaceId,
        /// Its name, 1 to 255 bytes, which no other keyspace has.
        name: String,
        /// What the engine stores with it, to be told it later.
        options: Vec<u8>,
    },
    /// A table leaves a level. With an [`Edit::AddTable`] of the same number beside it, the table moves.
    RemoveTable {
        /// The keyspace it is in.
        keyspace: KeyspaceId,
        /// The level it is in.
        level: u8,
        /// The file's number.
        number: FileNumber,
    },
    /// A table enters a level of the keyspace that its description names.
    AddTable {
        /// The level, below [`LEVELS`].
        level: u8,
        /// Its description. The file is complete and synced; the commit makes its name durable.
        meta: TableMeta,
    },
    /// A blob file is there. It is gone again after the record that leaves no table referring to it.
    AddBlob {
        /// Its description. The file is complete and synced; the commit makes its name durable.
        meta: BlobMeta,
    },
    /// A log takes no more records and is synced to its end.
    ClosedLog {
        /// The log.
        number: FileNumber,
        /// Its final length in bytes.
        len: u64,
    },
    /// Everything in older logs is in tables.
    ForgetLogs {
        /// The first log that is still needed.
        before: FileNumber,
    },
    /// The newest sequence number that is known to be used; never goes back.
    LastSeqNo(SeqNo),
    /// No file number from this one on was ever used. The version set writes it by itself.
    NextFile(FileNumber),
    /// No keyspace id from this one on was ever used. The version set writes it by itself.
    NextKeyspace(KeyspaceId),
    /// The database was closed in order; holds until the next commit.
    CleanClose {
        /// The last log.
        log: FileNumber,
        /// Its length in bytes, all of it synced.
        len: u64,
    },
    /// A log that may still take records is durable up to a length, its name included: from now on it must
    /// not be missing.
    DurableLog {
        /// The log, the newest of which anything is durable.
        number: FileNumber,
        /// How many bytes of it, at least; all older logs are durable to their ends.
        len: u64,
    },
}

impl Edit {
    /// The byte that names the kind on disk; edits of one record stand in this order.
    pub fn kind(&self) -> u8 {
        match self {
            Edit::DropKeyspace { .. } => 1,
            Edit::CreateKeyspace { .. } => 2,
            Edit::RemoveTable { .. } => 3,
            Edit::AddTable { meta, .. } if meta.hidden_versions > 0 => 14,
            Edit::AddTable { meta, .. } if meta.blobs.is_empty() => 4,
            Edit::AddTable { .. } => 13,
            Edit::AddBlob { .. } => 12,
            Edit::ClosedLog { .. } => 5,
            Edit::ForgetLogs { .. } => 6,
            Edit::LastSeqNo(_) => 7,
            Edit::NextFile(_) => 8,
            Edit::NextKeyspace(_) => 9,
            Edit::CleanClose { .. } => 10,
            Edit::DurableLog { .. } => 11,
        }
    }

    /// Whether a record may hold this kind only once.
    pub(crate) fn stands_alone(&self) -> bool {
        (6..=11).contains(&self.kind())
    }

    /// What is wrong with this edit whatever the state it meets: values out of bounds, bounds that end
    /// before they begin.
    pub fn check(&self) -> Result<(), &'static str> {
        match self {
            Edit::DropKeyspace { id } | Edit::NextKeyspace(id) => check_keyspace(*id),
            Edit::CreateKeyspace { id, name, .. } => {
                // The next id is in bounds as well.
                check_keyspace(KeyspaceId(id.0.saturating_add(1)))?;
                ensure(
                    !name.is_empty() && name.len() <= KEYSPACE_NAME_BYTES_MAX,
                    "the keyspace's name is empty or too long",
                )
            }
            Edit::RemoveTable { keyspace, level, number } => {
                check_keyspace(*keyspace)?;
                check_level(*level)?;
                check_number(*number)
            }
            Edit::AddTable { level, meta } => {
                check_level(*level)?;
                check_meta(meta)
            }
            Edit::AddBlob { meta } => check_blob(meta),
            Edit::ClosedLog { number, len }
            | Edit::DurableLog { number, len }
            | Edit::CleanClose { log: number, len } => {
                check_number(*number)?;
                ensure(*len < COUNT_END, "the log's length is beyond every log")
            }
            Edit::ForgetLogs { before: number } | Edit::NextFile(number) => check_number(*number),
            Edit::LastSeqNo(seqno) => {
                ensure(*seqno < SEQNO_END, "the sequence number is beyond every database")
            }
        }
    }
}

fn ensure(holds: bool, otherwise: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(otherwise) }
}

fn check_keyspace(id: KeyspaceId) -> Result<(), &'static str> {
    ensure(id.0 < KEYSPACE_ID_END, "the keyspace id is beyond every database")
}

fn check_number(number: FileNumber) -> Result<(), &'static str> {
    ensure(number.0 < FILE_NUMBER_END, "the file number is beyond every database")
}

fn check_level(level: u8) -> Result<(), &'static str> {
    ensure(usize::from(level) < LEVELS, "there is no such level")
}

fn check_meta(meta: &TableMeta) -> Result<(), &'static str> {
    check_number(meta.number)?;
    check_keyspace(meta.keyspace)?;
    let bounds = &meta.bounds;
    ensure(
        bounds.smallest.len() <= KEY_BYTES_MAX && bounds.largest.len() <= KEY_BYTES_MAX,
        "a key in the table's bounds is too long",
    )?;
    ensure(!bounds.ends_before(&bounds.smallest), "the table's bounds end before they begin")?;
    ensure(
        meta.smallest_seqno <= meta.largest_seqno && meta.largest_seqno < SEQNO_END,
        "the table's sequence numbers are out of order or beyond every database",
    )?;
    let counts = [
        meta.file_bytes,
        meta.entries,
        meta.point_tombstones,
        meta.merge_operands,
        meta.hidden_versions,
        meta.range_tombstones,
        meta.key_bytes,
        meta.value_bytes,
        meta.created_millis,
    ];
    ensure(
        counts.iter().all(|&count| count < COUNT_END),
        "a size, count or time of the table is beyond every table",
    )?;
    ensure(
        meta.point_tombstones + meta.merge_operands <= meta.entries,
        "the table has more tombstones and operands than entries",
    )?;
    ensure(meta.hidden_versions <= meta.entries, "the table has more hidden versions than entries")?;
    ensure(
        meta.blobs.iter().zip(meta.blobs.iter().skip(1)).all(|(a, b)| a.number < b.number),
        "the table's blob files do not ascend",
    )?;
    let mut values = 0u64;
    for blob in &meta.blobs {
        check_number(blob.number)?;
        values = values.saturating_add(blob.values);
        ensure(
            blob.values > 0 && blob.value_bytes < COUNT_END,
            "a count of what the table refers to in a blob file is none of any table",
        )?;
    }
    ensure(values <= meta.entries, "the table refers to more values in blob files than it has entries")
}

fn check_blob(meta: &BlobMeta) -> Result<(), &'static str> {
    check_number(meta.number)?;
    check_keyspace(meta.keyspace)?;
    ensure(
        [meta.file_bytes, meta.values, meta.value_bytes].iter().all(|&count| count < COUNT_END),
        "a size or count of the blob file is beyond every file",
    )?;
    ensure(meta.value_bytes <= meta.file_bytes, "the blob file is shorter than its values")
}
