//! Reading a blob file: single values, and all of it.
//!
//! Threads: many at once; no locks but those of the block cache. A value is read by one positional read,
//! checked in one pass, and kept in the block cache if that takes it; the next read is then lent the value
//! from there. A value of a mapped file is lent from the mapping, checked each time: a read of a long value
//! waits for its bytes, not for their checksum.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use esker_base::blob::{BlobMeta, BlobPointer};
use esker_base::checksum::ChecksumSeed;
use esker_base::filename::FileName;
use esker_base::limits::VALUE_BYTES_MAX;
use esker_base::{DatabaseId, Error, FileNumber, OpCost, Result};
use esker_vfs::fs::{File, fill_exact_at, read_exact_at};
use esker_vfs::open_files::OpenFiles;

use super::cached::{CachedRecords, PLACE_BYTES, pin};
use super::layout::{
    FOOTER_BYTES, HEADER_BYTES, RECORD_BYTES, RECORD_BYTES_MAX, Record, check, decode_footer,
    decode_header, fields, lengths, record_bytes,
};
use crate::options::TableIdentity;
use crate::reader::TableContext;
use crate::source::TableSource;
use crate::stored::Location;

/// Bytes that verification reads at once.
const PIECE_BYTES: usize = 1 << 20;

/// An open blob file. Used as `Arc<BlobReader>`.
pub struct BlobReader {
    file: Arc<dyn File>,
    identity: TableIdentity,
    seed: ChecksumSeed,
    meta: BlobMeta,
    /// The whole file, where tables are mapped.
    mapped: Option<Bytes>,
    /// None for a mapped file, and for one that no manifest describes.
    cached: Option<CachedRecords>,
}

impl BlobReader {
    /// Open the blob file that `meta` describes. Anything in the file that disagrees with `meta` is
    /// [`Error::Corruption`].
    pub fn open(context: &TableContext, meta: &BlobMeta) -> Result<BlobReader> {
        let path = context.dir.join(FileName::Blob(meta.number).to_string());
        let mut reader = Self::load(context.files.open(&path)?, Some((context.database, meta.number)))?;
        if reader.meta != *meta {
            let what = "the blob file describes itself otherwise than the manifest does";
            return Err(Error::corruption(&path, reader.end(), what));
        }
        match context.source {
            TableSource::Buffered => reader.cached = Some(CachedRecords::new(context, meta)),
            TableSource::Mapped => {
                let mapped = context.files.map(&path)?;
                if mapped.len() as u64 != meta.file_bytes {
                    let what =
                        format!("the file has {} bytes, {} were written", mapped.len(), meta.file_bytes);
                    return Err(Error::corruption(&path, meta.file_bytes.min(mapped.len() as u64), what));
                }
                reader.mapped = Some(mapped);
            }
        }
        Ok(reader)
    }

    /// Open a blob file that no manifest describes, as salvage and inspection do: whose file it is, is
    /// taken from the file itself.
    pub fn open_unlisted(files: &Arc<OpenFiles>, path: &Path) -> Result<BlobReader> {
        Self::load(files.open(path)?, None)
    }

    fn load(file: Arc<dyn File>, expected: Option<(DatabaseId, FileNumber)>) -> Result<BlobReader> {
        let (path, len) = (file.path(), file.len()?);
        if len < (HEADER_BYTES + FOOTER_BYTES) as u64 {
            return Err(Error::corruption(path, len, format!("a blob file is longer than {len} bytes")));
        }
        let identity = decode_header(path, &read_exact_at(&*file, 0, HEADER_BYTES)?, expected)?;
        let footer = read_exact_at(&*file, len - FOOTER_BYTES as u64, FOOTER_BYTES)?;
        let meta = decode_footer(path, &footer, identity, len)?;
        let seed = ChecksumSeed::new(identity.database, identity.number);
        Ok(BlobReader { file, identity, seed, meta, mapped: None, cached: None })
    }

    /// The file's description, from its own header and footer.
    pub fn meta(&self) -> &BlobMeta {
        &self.meta
    }

    /// Whose file it is.
    pub fn identity(&self) -> TableIdentity {
        self.identity
    }

    /// The file's path, for messages.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Where records end.
    pub(super) fn end(&self) -> u64 {
        self.meta.file_bytes.saturating_sub(FOOTER_BYTES as u64)
    }

    pub(super) fn location(&self, offset: u64) -> Location<'_> {
        Location { path: self.file.path(), seed: self.seed, offset }
    }

    /// The length of the record to which `pointer` of `key` leads, if the file can hold one of that length
    /// there.
    pub(super) fn record_len(&self, key: &[u8], pointer: &BlobPointer) -> Result<usize> {
        let len = record_bytes(key.len(), pointer.len);
        let fits = pointer.number == self.meta.number
            && pointer.len as usize <= VALUE_BYTES_MAX
            && pointer.offset >= HEADER_BYTES as u64
            && pointer.offset.checked_add(len).is_some_and(|end| end <= self.end());
        usize::try_from(len)
            .ok()
            .filter(|_| fits)
            .ok_or_else(|| self.location(pointer.offset).damaged(0, "a row's value is not within the file"))
    }

    /// The record of `len` bytes at `offset`, which [`record_len`](Self::record_len) has found within the file, if that
    /// is mapped.
    #[inline]
    pub(super) fn in_mapping(&self, offset: u64, len: usize, cost: &mut OpCost) -> Option<Bytes> {
        let mapped = self.mapped.as_ref()?;
        let start =
            usize::try_from(offset).ok().filter(|start| start.saturating_add(len) <= mapped.len())?;
        cost.bytes_from_disk += len as u64;
        Some(mapped.slice(start..start + len))
    }

    /// Fill `buffer` with what stands at `offset`.
    pub(super) fn fill(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        fill_exact_at(&*self.file, offset, buffer)
    }

    /// The value in `record`, all bytes of the record that `pointer` of `key` leads to.
    #[inline]
    pub(super) fn value_in<'a>(
        &self,
        key: &[u8],
        pointer: &BlobPointer,
        record: &'a [u8],
    ) -> Result<&'a [u8]> {
        let location = self.location(pointer.offset);
        let Record { checksum, key: own, value } = check(location, record)?;
        if checksum != pointer.checksum || own != key || value.len() != pointer.len as usize {
            return Err(location.damaged(0, "the record is not that of the row that refers to it"));
        }
        Ok(value)
    }

    /// The value that `pointer` of `key` leads to: from the mapping, from the cache, or by one read,
    /// checked. A value from the mapping or the cache is not copied; its memory stays as long as somebody
    /// holds on to it.
    ///
    /// # Errors
    /// [`Error::Corruption`] naming file and offset; [`Error::Io`]; [`Error::OutOfMemory`].
    pub fn read(&self, key: &[u8], pointer: &BlobPointer, cost: &mut OpCost) -> Result<Bytes> {
        let len = self.record_len(key, pointer)?;
        cost.blob_values += 1;
        let value = len - pointer.len as usize..len;
        if let Some(record) = self.in_mapping(pointer.offset, len, cost) {
            self.value_in(key, pointer, &record)?;
            return Ok(record.slice(value));
        }
        if let Some(value) = self.in_cache(key, pointer, len, cost) {
            return Ok(value);
        }
        // Where value and record lie in the cache's block.
        let whole = PLACE_BYTES..PLACE_BYTES + len;
        let kept = PLACE_BYTES + value.start..whole.end;
        cost.bytes_from_disk += len as u64;
        let buf =
            self.cached.as_ref().and_then(|cached| Some((cached, cached.allocate(pointer.offset, len)?)));
        let Some((cached, mut buf)) = buf else {
            let record = read_exact_at(&*self.file, pointer.offset, len)?;
            self.value_in(key, pointer, &record)?;
            return Ok(Bytes::from(record).slice(value));
        };
        self.fill(pointer.offset, buf.bytes_mut().get_mut(whole.clone()).unwrap_or_default())?;
        self.value_in(key, pointer, buf.bytes().get(whole).unwrap_or_default())?;
        Ok(pin(cached.insert(pointer.offset, buf, len), kept))
    }

    /// The value that `pointer` of `key` leads to, whose record of `len` bytes [`record_len`](Self::record_len) has found within
    /// the file, if the cache holds it.
    #[inline]
    pub(super) fn in_cache(
        &self,
        key: &[u8],
        pointer: &BlobPointer,
        len: usize,
        cost: &mut OpCost,
    ) -> Option<Bytes> {
        let record = self.cached.as_ref()?.get(pointer.offset, len)?;
        let whole = PLACE_BYTES..PLACE_BYTES + len;
        if !self.is_record_of(key, pointer, record.bytes().get(whole.clone())?) {
            return None;
        }
        cost.blocks_from_cache += 1;
        Some(pin(record, whole.end - pointer.len as usize..whole.end))
    }

    /// Whether `record`, which was checked when it was read from there, is the one that `pointer` of `key` leads to.
    fn is_record_of(&self, key: &[u8], pointer: &BlobPointer, record: &[u8]) -> bool {
        fields(self.location(pointer.offset), record).is_ok_and(|own| {
            own.checksum == pointer.checksum && own.key == key && own.value.len() == pointer.len as usize
        })
    }

    /// Read every byte of the file again and check: header, footer, every record, and the totals.
    ///
    /// The first thing found wrong is [`Error::Corruption`].
    pub fn verify(&self, cost: &mut OpCost) -> Result<()> {
        let path = self.file.path();
        let expected = Some((self.identity.database, self.identity.number));
        let header = decode_header(path, &read_exact_at(&*self.file, 0, HEADER_BYTES)?, expected)?;
        let footer = read_exact_at(&*self.file, self.end(), FOOTER_BYTES)?;
        if decode_footer(path, &footer, header, self.file.len()?)? != self.meta {
            return Err(Error::corruption(path, self.end(), "the file changed since it was opened"));
        }
        cost.bytes_from_disk += self.meta.file_bytes;
        let (mut values, mut value_bytes) = (0, 0);
        let mut piece: Vec<u8> = Vec::new();
        let (mut start, mut offset) = (HEADER_BYTES as u64, HEADER_BYTES as u64);
        while offset < self.end() {
            let at = usize::try_from(offset - start).unwrap_or(usize::MAX);
            let rest = piece.get(at..).unwrap_or_default();
            let claimed = lengths(rest).map(|(key, value)| record_bytes(key.into(), value));
            let whole = claimed.and_then(|len| rest.get(..usize::try_from(len).ok()?));
            if let Some(bytes) = whole {
                let record = check(self.location(offset), bytes)?;
                values += 1;
                value_bytes += record.value.len() as u64;
                offset += bytes.len() as u64;
                continue;
            }
            let needed = claimed.unwrap_or(RECORD_BYTES as u64);
            let left = self.end() - offset;
            if needed > left || needed > RECORD_BYTES_MAX {
                return Err(self
                    .location(offset)
                    .damaged(0, "a record is longer than any, or reaches beyond the end of the records"));
            }
            let len = needed.max(left.min(PIECE_BYTES as u64));
            piece = read_exact_at(&*self.file, offset, usize::try_from(len).unwrap_or(usize::MAX))?;
            // The device reads the next piece while this one is checked.
            self.file.advise_willneed(offset + len, (left - len).min(PIECE_BYTES as u64));
            start = offset;
        }
        if (values, value_bytes) != (self.meta.values, self.meta.value_bytes) {
            return Err(Error::corruption(
                path,
                self.end(),
                "the footer counts other values than the file holds",
            ));
        }
        Ok(())
    }
}

impl std::fmt::Debug for BlobReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlobReader").field("meta", &self.meta).finish_non_exhaustive()
    }
}
