//! How a blob file's bytes lie: header, records, footer.

use std::path::Path;

use esker_base::blob::BlobMeta;
use esker_base::checksum::ChecksumSeed;
use esker_base::coding::{DecodeError, Decoder};
use esker_base::format::{BLOB_END_MAGIC, BLOB_MAGIC, BLOB_VERSION};
use esker_base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use esker_base::{DatabaseId, Error, FileNumber, KeyspaceId, Result};

use crate::options::TableIdentity;
use crate::stored::Location;

/// Bytes of a header.
pub(super) const HEADER_BYTES: usize = 44;
/// Bytes of a record before its key.
pub(super) const RECORD_BYTES: usize = 10;
/// The longest record there may be, in bytes.
pub(super) const RECORD_BYTES_MAX: u64 = (RECORD_BYTES + KEY_BYTES_MAX + VALUE_BYTES_MAX) as u64;
/// Bytes of a footer.
pub(super) const FOOTER_BYTES: usize = 36;
/// Bytes of a checksum, which a record begins with.
const CHECKSUM_BYTES: usize = 4;

/// How long a record is.
pub(super) fn record_bytes(key: usize, value: u32) -> u64 {
    RECORD_BYTES as u64 + key as u64 + u64::from(value)
}

/// The header's bytes.
pub(super) fn encode_header(identity: TableIdentity, seed: ChecksumSeed) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_BYTES);
    out.extend_from_slice(&BLOB_MAGIC);
    out.extend_from_slice(&BLOB_VERSION.to_le_bytes());
    out.extend_from_slice(&identity.database.0);
    out.extend_from_slice(&identity.number.0.to_le_bytes());
    out.extend_from_slice(&identity.keyspace.0.to_le_bytes());
    out.extend_from_slice(&seed.checksum(0, &[&out]).to_le_bytes());
    out
}

/// Whose file starts with `bytes`. With `expected`, checksums are those of that database's file with that number;
/// without, the header's own word is taken.
pub(super) fn decode_header(
    path: &Path,
    bytes: &[u8],
    expected: Option<(DatabaseId, FileNumber)>,
) -> Result<TableIdentity> {
    let damaged = |what: &str| Error::corruption(path, 0, what);
    let decode = |e: DecodeError| damaged(&format!("the header does not decode: {}", e.what));
    let mut input = Decoder::new(bytes);
    if input.array::<8>("magic").map_err(decode)? != BLOB_MAGIC {
        return Err(damaged("the file does not start with a blob file's magic number"));
    }
    let version = input.u32("version").map_err(decode)?;
    let database = DatabaseId(input.array("database").map_err(decode)?);
    let number = FileNumber(input.u64("file number").map_err(decode)?);
    let keyspace = KeyspaceId(input.u32("keyspace").map_err(decode)?);
    let (covered, _) = bytes.split_at_checked(input.position()).unwrap_or_default();
    let crc = input.u32("checksum").map_err(decode)?;
    let (of_database, of_number) = expected.unwrap_or((database, number));
    if ChecksumSeed::new(of_database, of_number).checksum(0, &[covered]) != crc {
        return Err(if (of_database, of_number) == (database, number) {
            damaged("the checksum of the header does not match")
        } else {
            damaged(&format!("the header is damaged or belongs to another file ({number}) or database"))
        });
    }
    if version > BLOB_VERSION {
        return Err(Error::FormatTooNew { path: path.into(), found: version, supported: BLOB_VERSION });
    }
    if version == 0 || (database, number) != (of_database, of_number) {
        return Err(damaged("the header's version is unknown, or it names another file or database"));
    }
    Ok(TableIdentity { database, number, keyspace })
}

/// The footer's bytes, in a file of this description.
pub(super) fn encode_footer(meta: &BlobMeta, seed: ChecksumSeed) -> Vec<u8> {
    let mut out = Vec::with_capacity(FOOTER_BYTES);
    for number in [meta.values, meta.value_bytes, meta.file_bytes] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    let crc = seed.checksum(meta.file_bytes - FOOTER_BYTES as u64, &[&out]);
    out.extend_from_slice(&crc.to_le_bytes());
    out.extend_from_slice(&BLOB_END_MAGIC);
    out
}

/// What the footer `bytes`, the last of a file of `file_bytes`, says of the file.
pub(super) fn decode_footer(
    path: &Path,
    bytes: &[u8],
    identity: TableIdentity,
    file_bytes: u64,
) -> Result<BlobMeta> {
    let at = file_bytes.saturating_sub(FOOTER_BYTES as u64);
    let damaged = |what: &str| Error::corruption(path, at, what);
    let decode = |e: DecodeError| damaged(&format!("the footer does not decode: {}", e.what));
    let mut input = Decoder::new(bytes);
    let values = input.u64("values").map_err(decode)?;
    let value_bytes = input.u64("value bytes").map_err(decode)?;
    let length = input.u64("file length").map_err(decode)?;
    let (covered, _) = bytes.split_at_checked(input.position()).unwrap_or_default();
    let crc = input.u32("checksum").map_err(decode)?;
    let seed = ChecksumSeed::new(identity.database, identity.number);
    if input.array::<8>("magic").map_err(decode)? != BLOB_END_MAGIC {
        return Err(damaged("the file does not end with a blob file's magic number"));
    }
    if seed.checksum(at, &[covered]) != crc {
        return Err(damaged("the checksum of the footer does not match"));
    }
    if length != file_bytes {
        return Err(damaged(&format!("the file has {file_bytes} bytes, {length} were written")));
    }
    Ok(BlobMeta { number: identity.number, keyspace: identity.keyspace, file_bytes, values, value_bytes })
}

/// What a record begins with: its checksum, and what that covers up to the key.
pub(super) fn record_start(seed: ChecksumSeed, offset: u64, key: &[u8], value: &[u8]) -> (u32, [u8; 6]) {
    // Both were compared with their limits by the caller that adds the record.
    let value_len = u32::try_from(value.len()).unwrap_or(u32::MAX).to_le_bytes();
    let key_len = u16::try_from(key.len()).unwrap_or(u16::MAX).to_le_bytes();
    let [v0, v1, v2, v3] = value_len;
    let [k0, k1] = key_len;
    let lengths = [v0, v1, v2, v3, k0, k1];
    (seed.checksum(offset, &[&lengths, key, value]), lengths)
}

/// A record's fields, its checksum compared.
pub(super) struct Record<'a> {
    pub(super) checksum: u32,
    pub(super) key: &'a [u8],
    pub(super) value: &'a [u8],
}

/// The lengths of key and value that the first bytes of a record claim.
pub(super) fn lengths(start: &[u8]) -> Option<(u16, u32)> {
    let mut input = Decoder::new(start);
    input.u32("checksum").ok()?;
    let value = input.u32("value length").ok()?;
    // Two bytes: there is no decoder of those.
    let key = input.array::<2>("key length").ok()?;
    Some((u16::from_le_bytes(key), value))
}

/// The record that is all of `bytes`, if it checks.
pub(super) fn check<'a>(location: Location<'_>, bytes: &'a [u8]) -> Result<Record<'a>> {
    let short = || location.damaged(0, "the record is too short");
    let (stored, covered) = bytes.split_first_chunk::<CHECKSUM_BYTES>().ok_or_else(short)?;
    let checksum = u32::from_le_bytes(*stored);
    if location.seed.checksum(location.offset, &[covered]) != checksum {
        return Err(location.damaged(0, "the checksum of the value's record does not match"));
    }
    fields(location, bytes)
}

/// The fields of the record that is all of `bytes`, whose checksum was compared before.
pub(super) fn fields<'a>(location: Location<'_>, bytes: &'a [u8]) -> Result<Record<'a>> {
    let short = || location.damaged(0, "the record is too short");
    let checksum = u32::from_le_bytes(*bytes.first_chunk::<CHECKSUM_BYTES>().ok_or_else(short)?);
    let (key_len, value_len) = lengths(bytes).ok_or_else(short)?;
    let rest = bytes.get(RECORD_BYTES..).ok_or_else(short)?;
    let (key, value) = rest.split_at_checked(key_len.into()).ok_or_else(short)?;
    if value.len() != value_len as usize {
        return Err(location.damaged(4, "the record's length is not the one it says"));
    }
    Ok(Record { checksum, key, value })
}
