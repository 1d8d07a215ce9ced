//! What a writer is told: identity and options of a table.

use esker_base::{DatabaseId, Error, FileNumber, KeyspaceId, Result};

/// The smallest target size of a data block, in bytes.
pub(crate) const BLOCK_BYTES_MIN: u32 = 32;
/// The largest target size of a data block, in bytes.
pub(crate) const BLOCK_BYTES_MAX: u32 = 1 << 20;
/// The most filter bits a key.
pub(crate) const FILTER_BITS_MAX: u8 = 32;

/// How data blocks are compressed. A block stays raw where that saves less than 12 %.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all: fastest to read, the right choice for data in memory.
    None,
    /// LZ4: cheap both ways, the right choice for most data on disk.
    Lz4,
    /// zstd, with the cargo feature `zstd`: smaller and slower, for the coldest level.
    Zstd {
        /// zstd's level, usually 1 to 19; negative levels are faster.
        level: i32,
    },
}

/// How a table is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableOptions {
    /// The size in bytes at which a data block is cut, before compression; a longer row gets a block
    /// of its own. Default 4,096. From 32 to 1 MiB. Larger blocks compress better and cost more for
    /// each uncached get; whole pages lie on pages of their own (FORMAT.md, "Data block").
    pub block_bytes: u32,
    /// Compression of data blocks. Default none.
    pub compression: Compression,
    /// Filter bits a distinct user key: 0 for no filter, 10 for about 1 % false positives. Default 10,
    /// at most 32.
    pub filter_bits_per_key: u8,
}

impl Default for TableOptions {
    fn default() -> Self {
        TableOptions { block_bytes: 4096, compression: Compression::None, filter_bits_per_key: 10 }
    }
}

impl TableOptions {
    /// Refuse what is out of bounds, or asks for zstd in a build without it.
    ///
    /// ```
    /// use esker_sstable::TableOptions;
    /// assert!(TableOptions::default().validate().is_ok());
    /// assert!(TableOptions { block_bytes: 1, ..TableOptions::default() }.validate().is_err());
    /// ```
    pub fn validate(&self) -> Result<()> {
        if !(BLOCK_BYTES_MIN..=BLOCK_BYTES_MAX).contains(&self.block_bytes) {
            return Err(Error::invalid(format!(
                "block_bytes is {}, it must be from {BLOCK_BYTES_MIN} to {BLOCK_BYTES_MAX}",
                self.block_bytes
            )));
        }
        if self.filter_bits_per_key > FILTER_BITS_MAX {
            return Err(Error::invalid(format!(
                "filter_bits_per_key is {}, it must be at most {FILTER_BITS_MAX}",
                self.filter_bits_per_key
            )));
        }
        if matches!(self.compression, Compression::Zstd { .. }) && !cfg!(feature = "zstd") {
            return Err(Error::invalid("compression with zstd needs a build with the feature `zstd`"));
        }
        Ok(())
    }
}

/// Whose table, or blob file, it is; part of every checksum in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableIdentity {
    /// The database.
    pub database: DatabaseId,
    /// The file's number.
    pub number: FileNumber,
    /// The keyspace of all its entries.
    pub keyspace: KeyspaceId,
}
