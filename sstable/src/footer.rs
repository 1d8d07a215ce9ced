//! The last bytes of a table: who it is and where its parts are. See FORMAT.md, "Footer".

use std::path::Path;

use esker_base::checksum::ChecksumSeed;
use esker_base::coding::{DecodeError, Decoder};
use esker_base::format::{TABLE_MAGIC, TABLE_VERSION};
use esker_base::{DatabaseId, Error, FileNumber, KeyspaceId, Result};

use crate::options::TableIdentity;

/// Bytes of a footer.
pub(crate) const FOOTER_BYTES: usize = 104;
/// Bytes before the four fields that every version ends with.
const BODY_BYTES: u32 = 84;
/// Length, version, checksum, magic: the end of a footer of any version.
const TAIL_BYTES: usize = 20;

/// Where a part of the table, a stored block, lies; `len` 0 means that the table has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlockHandle {
    pub(crate) offset: u64,
    /// Stored length, trailer included (LevelDB's and RocksDB's leave the trailer out).
    pub(crate) len: u32,
}

impl BlockHandle {
    fn end(self) -> Option<u64> {
        self.offset.checked_add(self.len.into())
    }
}

/// The footer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    /// The format's version, 1 to [`TABLE_VERSION`].
    pub(crate) version: u32,
    pub(crate) identity: TableIdentity,
    pub(crate) file_bytes: u64,
    pub(crate) tombstones: BlockHandle,
    pub(crate) filter: BlockHandle,
    pub(crate) index: BlockHandle,
    pub(crate) properties: BlockHandle,
}

impl Footer {
    /// Where the footer itself stands.
    pub(crate) fn offset(&self) -> u64 {
        self.file_bytes.saturating_sub(FOOTER_BYTES as u64)
    }

    /// Bytes of data blocks, which start at 0.
    pub(crate) fn data_bytes(&self) -> u64 {
        self.tombstones.offset
    }

    /// The parts with their names, in file order.
    pub(crate) fn parts(&self) -> [(&'static str, BlockHandle); 4] {
        [
            ("tombstones", self.tombstones),
            ("filter", self.filter),
            ("index", self.index),
            ("properties", self.properties),
        ]
    }

    pub(crate) fn seed(&self) -> ChecksumSeed {
        ChecksumSeed::new(self.identity.database, self.identity.number)
    }

    /// The footer's bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(FOOTER_BYTES);
        out.extend_from_slice(&self.identity.database.0);
        out.extend_from_slice(&self.identity.number.0.to_le_bytes());
        out.extend_from_slice(&self.identity.keyspace.0.to_le_bytes());
        out.extend_from_slice(&self.file_bytes.to_le_bytes());
        for (_, part) in self.parts() {
            out.extend_from_slice(&part.offset.to_le_bytes());
            out.extend_from_slice(&part.len.to_le_bytes());
        }
        out.extend_from_slice(&BODY_BYTES.to_le_bytes());
        out.extend_from_slice(&self.version.to_le_bytes());
        let crc = self.seed().checksum(self.offset(), &[&out]);
        out.extend_from_slice(&crc.to_le_bytes());
        out.extend_from_slice(&TABLE_MAGIC);
        out
    }

    /// Decode the footer from `end`, the last bytes of a file of `file_bytes`: at least
    /// [`FOOTER_BYTES`] of them, or the whole file if it is shorter.
    ///
    /// With `expected`, checksums are those of that database's file with that number; without, the
    /// footer's own word is taken for who it is.
    pub(crate) fn decode(
        path: &Path,
        end: &[u8],
        file_bytes: u64,
        expected: Option<(DatabaseId, FileNumber)>,
    ) -> Result<Footer> {
        let at = file_bytes.saturating_sub(FOOTER_BYTES as u64);
        let damaged = |what: &str| Error::corruption(path, at, what);
        let (body, tail) =
            end.split_last_chunk::<TAIL_BYTES>().ok_or_else(|| damaged("the table has no footer"))?;
        if !tail.ends_with(&TABLE_MAGIC) {
            return Err(damaged("the file does not end with a table's magic number"));
        }
        let decode = |e: DecodeError| damaged(&format!("the footer does not decode: {}", e.what));
        let mut fields = Decoder::new(tail);
        let body_len = fields.u32("footer length").map_err(decode)?;
        let version = fields.u32("version").map_err(decode)?;
        let crc = fields.u32("checksum").map_err(decode)?;
        let start = body
            .len()
            .checked_sub(body_len as usize)
            .ok_or_else(|| damaged("the footer's length is wrong"))?;
        let body = body.get(start..).unwrap_or_default();
        let mut input = Decoder::new(body);
        let database = DatabaseId(input.array("database").map_err(decode)?);
        let number = FileNumber(input.u64("file number").map_err(decode)?);
        let (of_database, of_number) = expected.unwrap_or((database, number));
        let (checked, _) = tail.split_at(8);
        let offset = file_bytes - TAIL_BYTES as u64 - u64::from(body_len);
        if ChecksumSeed::new(of_database, of_number).checksum(offset, &[body, checked]) != crc {
            return Err(if (of_database, of_number) == (database, number) {
                damaged("the checksum of the footer does not match")
            } else {
                damaged(&format!("the footer is damaged or belongs to another file ({number}) or database"))
            });
        }
        if version > TABLE_VERSION {
            return Err(Error::FormatTooNew {
                path: path.into(),
                found: version,
                supported: TABLE_VERSION,
            });
        }
        if version == 0 || body_len != BODY_BYTES {
            return Err(damaged("the footer's version is unknown"));
        }
        let keyspace = KeyspaceId(input.u32("keyspace").map_err(decode)?);
        let length = input.u64("file length").map_err(decode)?;
        let mut part = || -> Result<BlockHandle, DecodeError> {
            Ok(BlockHandle { offset: input.u64("offset of a part")?, len: input.u32("length of a part")? })
        };
        let mut next = || part().map_err(decode);
        let footer = Footer {
            version,
            identity: TableIdentity { database, number, keyspace },
            file_bytes: length,
            tombstones: next()?,
            filter: next()?,
            index: next()?,
            properties: next()?,
        };
        if length != file_bytes {
            return Err(damaged(&format!("the file has {file_bytes} bytes, {length} were written")));
        }
        if (database, number) != (of_database, of_number) {
            return Err(damaged("the footer names another file or database"));
        }
        footer.check_layout().ok_or_else(|| damaged("the parts do not follow each other"))?;
        Ok(footer)
    }

    /// The parts follow each other without gaps up to the footer; index and properties are there.
    fn check_layout(&self) -> Option<()> {
        let contiguous = self.tombstones.end()? == self.filter.offset
            && self.filter.end()? == self.index.offset
            && self.index.end()? == self.properties.offset
            && self.properties.end()? == self.offset();
        (contiguous && self.index.len > 0 && self.properties.len > 0).then_some(())
    }
}
