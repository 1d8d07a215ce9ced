//! Values in files of their own (*blob files*): what a row says of its value, and what everyone above knows
//! of such a file without reading it.
//!
//! A row of [`Kind::BlobPut`](crate::Kind::BlobPut) holds a [`BlobPointer`] where its value would be.

use crate::coding::{DecodeError, Decoder};
use crate::{FileNumber, KeyspaceId};

/// Where a value lies, and what its record's checksum is. On disk [`BlobPointer::BYTES`] bytes, see the
/// format of blob files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobPointer {
    /// The blob file.
    pub number: FileNumber,
    /// Where its record begins, in bytes from the start of the file.
    pub offset: u64,
    /// The value's length in bytes.
    pub len: u32,
    /// The checksum that the record has: a pointer tells its value from every other.
    pub checksum: u32,
}

impl BlobPointer {
    /// Length of an encoded pointer.
    pub const BYTES: usize = 24;

    /// Its bytes.
    ///
    /// ```
    /// use esker_base::FileNumber;
    /// use esker_base::blob::BlobPointer;
    /// let pointer = BlobPointer { number: FileNumber(7), offset: 44, len: 4096, checksum: 9 };
    /// assert_eq!(BlobPointer::decode(&pointer.encode()), Ok(pointer));
    /// assert!(BlobPointer::decode(&pointer.encode()[1..]).is_err());
    /// ```
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.number.0.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.offset.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.len.to_le_bytes());
        bytes[20..].copy_from_slice(&self.checksum.to_le_bytes());
        bytes
    }

    /// The pointer that is all of `bytes`. Any values decode: whoever follows it compares them with the file.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut d = Decoder::new(bytes);
        let pointer = BlobPointer {
            number: FileNumber(d.u64("blob file of a pointer")?),
            offset: d.u64("offset of a pointer")?,
            len: d.u32("length of a pointer")?,
            checksum: d.u32("checksum of a pointer")?,
        };
        if d.is_empty() { Ok(pointer) } else { Err(d.error("end of a pointer")) }
    }
}

/// A blob file's description: the manifest stores it. Sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobMeta {
    /// The file's number.
    pub number: FileNumber,
    /// The keyspace whose rows its values belong to.
    pub keyspace: KeyspaceId,
    /// The file's size.
    pub file_bytes: u64,
    /// Values that were written to it.
    pub values: u64,
    /// Their bytes.
    pub value_bytes: u64,
}

/// What the rows of one table refer to in one blob file: the part of the file that this table keeps live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobRef {
    /// The blob file.
    pub number: FileNumber,
    /// Rows that refer to it.
    pub values: u64,
    /// The bytes of their values.
    pub value_bytes: u64,
}
