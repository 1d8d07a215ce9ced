//! Writing a blob file, front to back.
//!
//! One owner, no locks. Order: header, records as they come, footer, then one `sync`; only then does
//! [`BlobWriter::finish`] return the file's description. The file's *name* is not durable before the caller syncs
//! the directory. A file that was not finished is nobody's.

use std::path::Path;
use std::sync::Arc;

use esker_base::blob::{BlobMeta, BlobPointer};
use esker_base::checksum::ChecksumSeed;
use esker_base::filename::FileName;
use esker_base::{FileNumber, Result, limits};
use esker_vfs::fs::Fs;

use super::layout::{FOOTER_BYTES, encode_footer, encode_header, record_start};
use crate::options::TableIdentity;
use crate::output::Output;

/// Writes one blob file. After an error it is of no more use. A writer that is dropped, or that could not finish, leaves its
/// file where it is, for the directory's owner to remove.
pub struct BlobWriter {
    identity: TableIdentity,
    output: Output,
    values: u64,
    value_bytes: u64,
}

impl BlobWriter {
    /// Create the file in `dir`.
    ///
    /// ```no_run
    /// # fn write(fs: std::sync::Arc<dyn esker_vfs::fs::Fs>) -> esker_base::Result<()> {
    /// use esker_base::{DatabaseId, FileNumber, KeyspaceId};
    /// use esker_sstable::{BlobWriter, TableIdentity};
    /// let identity =
    ///     TableIdentity { database: DatabaseId([1; 16]), number: FileNumber(7), keyspace: KeyspaceId(0) };
    /// let mut writer = BlobWriter::create(&fs, "db".as_ref(), identity)?;
    /// let pointer = writer.add(b"key", &[7; 5000])?;
    /// let meta = writer.finish()?;
    /// assert_eq!((meta.values, pointer.len), (1, 5000));
    /// # Ok(()) }
    /// ```
    pub fn create(fs: &Arc<dyn Fs>, dir: &Path, identity: TableIdentity) -> Result<BlobWriter> {
        let file = fs.create(&dir.join(FileName::Blob(identity.number).to_string()))?;
        let seed = ChecksumSeed::new(identity.database, identity.number);
        let output = Output::new(file, seed);
        let mut writer = BlobWriter { identity, output, values: 0, value_bytes: 0 };
        writer.output.put(&encode_header(identity, seed))?;
        Ok(writer)
    }

    /// Add a value; returns the pointer that its row has in its place.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<BlobPointer> {
        limits::check_key(key)?;
        limits::check_value(value)?;
        let offset = self.output.offset();
        let (checksum, lengths) = record_start(self.output.seed, offset, key, value);
        self.output.put(&checksum.to_le_bytes())?;
        self.output.put(&lengths)?;
        self.output.put(key)?;
        self.output.put(value)?;
        self.values += 1;
        self.value_bytes += value.len() as u64;
        let len = u32::try_from(value.len()).unwrap_or(u32::MAX);
        Ok(BlobPointer { number: self.identity.number, offset, len, checksum })
    }

    /// Bytes of memory held, about.
    pub fn memory(&self) -> u64 {
        self.output.memory() as u64
    }

    /// How large the file would be if it was finished now, in bytes.
    pub fn bytes(&self) -> u64 {
        self.output.offset() + FOOTER_BYTES as u64
    }

    /// Its file's number.
    pub fn number(&self) -> FileNumber {
        self.identity.number
    }

    /// Write what is left, sync the file and describe it.
    pub fn finish(mut self) -> Result<BlobMeta> {
        let meta = BlobMeta {
            number: self.identity.number,
            keyspace: self.identity.keyspace,
            file_bytes: self.bytes(),
            values: self.values,
            value_bytes: self.value_bytes,
        };
        self.output.put(&encode_footer(&meta, self.output.seed))?;
        self.output.flush()?;
        self.output.file.sync()?;
        Ok(meta)
    }
}
