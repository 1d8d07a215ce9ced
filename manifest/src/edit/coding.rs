//! Edits to bytes and back. `FORMAT.md` is the description; this follows it line by line.

use esker_base::blob::{BlobMeta, BlobRef};
use esker_base::coding::{DecodeError, Decoder, put_bytes, put_varint};
use esker_base::limits::{KEY_BYTES_MAX, KEYSPACE_NAME_BYTES_MAX};
use esker_base::table_meta::{KeyBounds, TableMeta};
use esker_base::{FileNumber, KeyspaceId, SeqNo};

use super::Edit;

/// Bit 0 of a table's flags: the largest key itself is outside.
const LARGEST_EXCLUSIVE: u8 = 1;

/// The payload of a record that makes `edits` take effect together, in the order of their kinds.
///
/// Panics if an edit does not pass [`Edit::check`], or if a kind that stands alone comes twice.
///
/// ```
/// use esker_base::{FileNumber, SeqNo};
/// use esker_manifest::edit::{self, Edit};
/// let edits = [Edit::LastSeqNo(SeqNo(42)), Edit::ClosedLog { number: FileNumber(12), len: 300 }];
/// let payload = edit::encode(&edits);
/// assert_eq!(payload, [5, 12, 0xAC, 0x02, 7, 42]);
/// let back: Vec<Edit> = edit::decode(&payload).collect::<Result<_, _>>().unwrap();
/// assert_eq!(back, [edits[1].clone(), edits[0].clone()]);
/// ```
pub fn encode(edits: &[Edit]) -> Vec<u8> {
    let mut order: Vec<&Edit> = edits.iter().collect();
    order.sort_by_key(|edit| edit.kind());
    let twice =
        order.iter().zip(order.iter().skip(1)).find(|(a, b)| a.kind() == b.kind() && b.stands_alone());
    assert!(twice.is_none(), "one commit holds two edits of a kind that stands alone: {twice:?}");
    let mut out = Vec::with_capacity(edits.len() * 64);
    for edit in order {
        if let Err(why) = edit.check() {
            panic!("{why}: {edit:?}");
        }
        put(&mut out, edit);
    }
    out
}

pub(super) fn put(out: &mut Vec<u8>, edit: &Edit) {
    out.push(edit.kind());
    match edit {
        Edit::DropKeyspace { id } | Edit::NextKeyspace(id) => put_varint(out, id.0.into()),
        Edit::CreateKeyspace { id, name, options } => {
            put_varint(out, id.0.into());
            put_bytes(out, name.as_bytes());
            put_bytes(out, options);
        }
        Edit::RemoveTable { keyspace, level, number } => {
            put_varint(out, keyspace.0.into());
            out.push(*level);
            put_varint(out, number.0);
        }
        Edit::AddTable { level, meta } => {
            out.push(*level);
            put_meta(out, meta);
            if !meta.blobs.is_empty() || meta.hidden_versions > 0 {
                put_refs(out, &meta.blobs);
            }
            if meta.hidden_versions > 0 {
                put_varint(out, meta.hidden_versions);
            }
        }
        Edit::AddBlob { meta } => {
            for number in
                [meta.number.0, meta.keyspace.0.into(), meta.file_bytes, meta.values, meta.value_bytes]
            {
                put_varint(out, number);
            }
        }
        Edit::ClosedLog { number, len }
        | Edit::DurableLog { number, len }
        | Edit::CleanClose { log: number, len } => {
            put_varint(out, number.0);
            put_varint(out, *len);
        }
        Edit::ForgetLogs { before: number } | Edit::NextFile(number) => put_varint(out, number.0),
        Edit::LastSeqNo(seqno) => put_varint(out, seqno.0),
    }
}

fn put_meta(out: &mut Vec<u8>, meta: &TableMeta) {
    put_varint(out, meta.number.0);
    put_varint(out, meta.keyspace.0.into());
    put_varint(out, meta.file_bytes);
    put_bytes(out, &meta.bounds.smallest);
    put_bytes(out, &meta.bounds.largest);
    out.push(if meta.bounds.largest_exclusive { LARGEST_EXCLUSIVE } else { 0 });
    put_varint(out, meta.smallest_seqno.0);
    put_varint(out, meta.largest_seqno.0);
    put_varint(out, meta.entries);
    put_varint(out, meta.point_tombstones);
    put_varint(out, meta.merge_operands);
    put_varint(out, meta.range_tombstones);
    put_varint(out, meta.key_bytes);
    put_varint(out, meta.value_bytes);
    out.extend_from_slice(&meta.content_hash.to_le_bytes());
    put_varint(out, meta.created_millis);
}

fn put_refs(out: &mut Vec<u8>, blobs: &[BlobRef]) {
    put_varint(out, blobs.len() as u64);
    for blob in blobs {
        for number in [blob.number.0, blob.values, blob.value_bytes] {
            put_varint(out, number);
        }
    }
}

/// The edits in a record's payload, one at a time, each checked. The first error ends them.
pub fn decode(payload: &[u8]) -> Edits<'_> {
    Edits { decoder: Decoder::new(payload), last_kind: 0, failed: false }
}

/// What [`decode`] returns.
#[derive(Clone, Debug)]
pub struct Edits<'a> {
    decoder: Decoder<'a>,
    /// Kind of the edit before, 0 at the start.
    last_kind: u8,
    failed: bool,
}

impl Edits<'_> {
    /// Offset in the payload of the next edit.
    pub fn position(&self) -> usize {
        self.decoder.position()
    }

    fn read(&mut self) -> Result<Edit, DecodeError> {
        let start = self.decoder.position();
        let edit = take(&mut self.decoder)?;
        let kind = edit.kind();
        if kind < self.last_kind || (kind == self.last_kind && edit.stands_alone()) {
            return Err(DecodeError { what: "the edit's kind descends or repeats", at: start });
        }
        self.last_kind = kind;
        edit.check().map_err(|what| DecodeError { what, at: start })?;
        Ok(edit)
    }
}

impl Iterator for Edits<'_> {
    type Item = Result<Edit, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed || self.decoder.is_empty() {
            return None;
        }
        let edit = self.read();
        self.failed = edit.is_err();
        Some(edit)
    }
}

fn take(from: &mut Decoder<'_>) -> Result<Edit, DecodeError> {
    let start = from.position();
    Ok(match from.u8("edit kind")? {
        1 => Edit::DropKeyspace { id: take_keyspace(from)? },
        2 => Edit::CreateKeyspace {
            id: take_keyspace(from)?,
            name: take_name(from)?,
            options: from.bytes("keyspace options")?.to_vec(),
        },
        3 => Edit::RemoveTable {
            keyspace: take_keyspace(from)?,
            level: from.u8("level")?,
            number: take_number(from)?,
        },
        4 => Edit::AddTable { level: from.u8("level")?, meta: take_meta(from)? },
        5 => Edit::ClosedLog { number: take_number(from)?, len: from.varint("log length")? },
        6 => Edit::ForgetLogs { before: take_number(from)? },
        7 => Edit::LastSeqNo(SeqNo(from.varint("sequence number")?)),
        8 => Edit::NextFile(take_number(from)?),
        9 => Edit::NextKeyspace(take_keyspace(from)?),
        10 => Edit::CleanClose { log: take_number(from)?, len: from.varint("log length")? },
        11 => Edit::DurableLog { number: take_number(from)?, len: from.varint("log length")? },
        12 => Edit::AddBlob {
            meta: BlobMeta {
                number: take_number(from)?,
                keyspace: take_keyspace(from)?,
                file_bytes: from.varint("blob file size")?,
                values: from.varint("value count")?,
                value_bytes: from.varint("value bytes")?,
            },
        },
        13 => {
            let (level, mut meta) = (from.u8("level")?, take_meta(from)?);
            let at = from.position();
            meta.blobs = take_refs(from)?;
            // A table without any would be added by the other kind of edit.
            if meta.blobs.is_empty() {
                return Err(DecodeError { what: "count of blob files", at });
            }
            Edit::AddTable { level, meta }
        }
        14 => {
            let (level, mut meta) = (from.u8("level")?, take_meta(from)?);
            meta.blobs = take_refs(from)?;
            let at = from.position();
            meta.hidden_versions = from.varint("hidden version count")?;
            if meta.hidden_versions == 0 {
                return Err(DecodeError { what: "hidden version count", at });
            }
            Edit::AddTable { level, meta }
        }
        _ => return Err(DecodeError { what: "the edit's kind has no meaning", at: start }),
    })
}

fn take_keyspace(from: &mut Decoder<'_>) -> Result<KeyspaceId, DecodeError> {
    let at = from.position();
    let id = from.varint("keyspace id")?;
    u32::try_from(id).map(KeyspaceId).map_err(|_| DecodeError { what: "keyspace id", at })
}

fn take_number(from: &mut Decoder<'_>) -> Result<FileNumber, DecodeError> {
    from.varint("file number").map(FileNumber)
}

fn take_name(from: &mut Decoder<'_>) -> Result<String, DecodeError> {
    let at = from.position();
    let bytes = from.bytes("keyspace name")?;
    let name = std::str::from_utf8(bytes).ok().filter(|name| name.len() <= KEYSPACE_NAME_BYTES_MAX);
    name.map(str::to_owned).ok_or(DecodeError { what: "keyspace name", at })
}

fn take_key(from: &mut Decoder<'_>, what: &'static str) -> Result<Vec<u8>, DecodeError> {
    let at = from.position();
    let key = from.bytes(what)?;
    if key.len() > KEY_BYTES_MAX {
        return Err(DecodeError { what, at });
    }
    Ok(key.to_vec())
}

fn take_meta(from: &mut Decoder<'_>) -> Result<TableMeta, DecodeError> {
    Ok(TableMeta {
        number: take_number(from)?,
        keyspace: take_keyspace(from)?,
        file_bytes: from.varint("table size")?,
        bounds: KeyBounds {
            smallest: take_key(from, "smallest key")?,
            largest: take_key(from, "largest key")?,
            largest_exclusive: {
                let at = from.position();
                match from.u8("table flags")? {
                    0 => false,
                    LARGEST_EXCLUSIVE => true,
                    _ => return Err(DecodeError { what: "table flags", at }),
                }
            },
        },
        smallest_seqno: SeqNo(from.varint("smallest sequence number")?),
        largest_seqno: SeqNo(from.varint("largest sequence number")?),
        entries: from.varint("entry count")?,
        point_tombstones: from.varint("point tombstone count")?,
        merge_operands: from.varint("merge operand count")?,
        hidden_versions: 0,
        range_tombstones: from.varint("range tombstone count")?,
        key_bytes: from.varint("key bytes")?,
        value_bytes: from.varint("value bytes")?,
        content_hash: from.u64("content hash")?,
        created_millis: from.varint("creation time")?,
        blobs: Vec::new(),
    })
}

/// What a table refers to in blob files.
fn take_refs(from: &mut Decoder<'_>) -> Result<Vec<BlobRef>, DecodeError> {
    let count = from.varint("count of blob files")?;
    // Memory grows with what is read, whatever the count claims.
    let mut blobs = Vec::new();
    for _ in 0..count {
        blobs.push(BlobRef {
            number: take_number(from)?,
            values: from.varint("value count")?,
            value_bytes: from.varint("value bytes")?,
        });
    }
    Ok(blobs)
}
