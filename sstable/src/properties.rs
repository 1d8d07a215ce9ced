//! What a table says of itself: everything in [`TableMeta`] and how it was written. See FORMAT.md,
//! "Properties".

use esker_base::blob::BlobRef;
use esker_base::coding::{DecodeError, Decoder, put_bytes, put_varint};
use esker_base::limits::KEY_BYTES_MAX;
use esker_base::table_meta::{KeyBounds, TableMeta};
use esker_base::{FileNumber, SeqNo};

use crate::footer::Footer;
use crate::options::{Compression, TableOptions};
use crate::stored::Codec;

/// From this version on, properties end with what the rows refer to in blob files.
const VERSION_OF_BLOBS: u32 = 3;
/// From this version on, that is followed by how many versions are hidden.
const VERSION_OF_HIDDEN: u32 = 4;

/// The properties of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Properties {
    pub(crate) meta: TableMeta,
    pub(crate) options: TableOptions,
    /// Bytes of all data blocks before compression.
    pub(crate) raw_bytes: u64,
    /// Hashes in the filter, which is the number of distinct user keys.
    pub(crate) filter_keys: u64,
}

impl Properties {
    /// The payload. Number, keyspace and file length stand in the footer.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let meta = &self.meta;
        let mut out = Vec::new();
        put_bytes(&mut out, &meta.bounds.smallest);
        put_bytes(&mut out, &meta.bounds.largest);
        put_varint(&mut out, u64::from(meta.bounds.largest_exclusive));
        for number in [
            meta.smallest_seqno.0,
            meta.largest_seqno.0,
            meta.entries,
            meta.point_tombstones,
            meta.merge_operands,
            meta.range_tombstones,
            meta.key_bytes,
            meta.value_bytes,
        ] {
            put_varint(&mut out, number);
        }
        out.extend_from_slice(&meta.content_hash.to_le_bytes());
        put_varint(&mut out, meta.created_millis);
        put_varint(&mut out, self.options.block_bytes.into());
        let (codec, level) = match self.options.compression {
            Compression::None => (Codec::None, 0),
            Compression::Lz4 => (Codec::Lz4, 0),
            Compression::Zstd { level } => (Codec::Zstd, level),
        };
        put_varint(&mut out, codec as u64);
        out.extend_from_slice(&level.to_le_bytes());
        put_varint(&mut out, self.options.filter_bits_per_key.into());
        put_varint(&mut out, self.raw_bytes);
        put_varint(&mut out, self.filter_keys);
        put_varint(&mut out, meta.blobs.len() as u64);
        for blob in &meta.blobs {
            for number in [blob.number.0, blob.values, blob.value_bytes] {
                put_varint(&mut out, number);
            }
        }
        put_varint(&mut out, meta.hidden_versions);
        out
    }

    /// Decode a payload of the table with this footer.
    pub(crate) fn decode(payload: &[u8], footer: &Footer) -> Result<Properties, DecodeError> {
        let mut input = Decoder::new(payload);
        let smallest = input.bytes("smallest key")?.to_vec();
        let largest = input.bytes("largest key")?.to_vec();
        let largest_exclusive = input.varint_max(1, "whether the largest key is exclusive")? == 1;
        if smallest.len().max(largest.len()) > KEY_BYTES_MAX || smallest > largest {
            return Err(input.error("bounds"));
        }
        let meta = TableMeta {
            number: footer.identity.number,
            keyspace: footer.identity.keyspace,
            file_bytes: footer.file_bytes,
            bounds: KeyBounds { smallest, largest, largest_exclusive },
            smallest_seqno: SeqNo(input.varint("smallest sequence number")?),
            largest_seqno: SeqNo(input.varint("largest sequence number")?),
            entries: input.varint("entries")?,
            point_tombstones: input.varint("point tombstones")?,
            merge_operands: input.varint("merge operands")?,
            hidden_versions: 0,
            range_tombstones: input.varint("range tombstones")?,
            key_bytes: input.varint("key bytes")?,
            value_bytes: input.varint("value bytes")?,
            content_hash: input.u64("content hash")?,
            created_millis: input.varint("creation time")?,
            blobs: Vec::new(),
        };
        if meta.smallest_seqno > meta.largest_seqno || meta.largest_seqno > SeqNo::MAX {
            return Err(input.error("sequence numbers"));
        }
        let narrow = |value: u64| u32::try_from(value).ok();
        let block_bytes = narrow(input.varint("block size")?).ok_or(input.error("block size"))?;
        let codec = input.u8("codec")?;
        let level = i32::from_le_bytes(input.array("level")?);
        let compression = match Codec::from_byte(codec) {
            Some(Codec::None) => Compression::None,
            Some(Codec::Lz4) => Compression::Lz4,
            Some(Codec::Zstd) => Compression::Zstd { level },
            None => return Err(input.error("codec")),
        };
        let bits = input.varint_max(255, "filter bits")?;
        let mut properties = Properties {
            meta,
            options: TableOptions {
                block_bytes,
                compression,
                filter_bits_per_key: u8::try_from(bits).unwrap_or(u8::MAX),
            },
            raw_bytes: input.varint("raw bytes")?,
            filter_keys: input.varint("filter keys")?,
        };
        if footer.version >= VERSION_OF_BLOBS {
            properties.meta.blobs = take_blobs(&mut input)?;
        }
        if counts_hidden(footer) {
            properties.meta.hidden_versions = input.varint("hidden versions")?;
        }
        if !input.is_empty() {
            return Err(input.error("end of the properties"));
        }
        Ok(properties)
    }
}

/// Whether the table's properties say how many versions are hidden.
pub(crate) fn counts_hidden(footer: &Footer) -> bool {
    footer.version >= VERSION_OF_HIDDEN
}

/// What the rows refer to in blob files: ascending by file, and at least one value in each.
fn take_blobs(input: &mut Decoder<'_>) -> Result<Vec<BlobRef>, DecodeError> {
    let count = input.varint("blob files")?;
    let mut blobs: Vec<BlobRef> = Vec::new();
    for _ in 0..count {
        let blob = BlobRef {
            number: FileNumber(input.varint("number of a blob file")?),
            values: input.varint("values in a blob file")?,
            value_bytes: input.varint("bytes in a blob file")?,
        };
        if blob.values == 0 || blobs.last().is_some_and(|last| last.number >= blob.number) {
            return Err(input.error("order of the blob files"));
        }
        blobs.push(blob);
    }
    Ok(blobs)
}
