//! Writing a table, front to back.
//!
//! One owner, no locks. Order: data blocks as they fill, then tombstones, filter, index, properties
//! and footer, then one `sync`; only then does [`TableWriter::finish`] return the table's description.
//! The file's *name* is not durable before the caller syncs the directory. A file that was not
//! finished has no footer and is nobody's: no manifest names it.

use std::cmp::Ordering;
use std::path::Path;
use std::sync::Arc;

use esker_base::blob::BlobPointer;
use esker_base::checksum::{ChecksumSeed, entry_hash, key_hash};
use esker_base::filename::FileName;
use esker_base::format::TABLE_VERSION;
use esker_base::key::compare;
use esker_base::range_tombstone::Fragment;
use esker_base::table_meta::TableMeta;
use esker_base::{Error, FileNumber, InternalKey, Kind, Result, SeqNo, limits};
use esker_vfs::fs::Fs;

use crate::block::{BlockBuilder, fit_u32, tag};
use crate::compression::Compressor;
use crate::filter::{Filter, KeyHashes};
use crate::footer::{BlockHandle, FOOTER_BYTES, Footer};
use crate::index::IndexBuilder;
use crate::options::{TableIdentity, TableOptions};
use crate::output::Output;
use crate::pages;
use crate::properties::Properties;
use crate::stored::{Codec, TRAILER_BYTES, trailer};
use crate::tombstones;
use crate::totals::Totals;

/// The most that a part of a table may take before its trailer: its length is 32 bits wide.
const PART_BYTES_MAX: u64 = u32::MAX as u64 - TRAILER_BYTES as u64;

/// Writes one table.
///
/// Entries come in ascending internal order; range tombstones, ascending and not overlapping, at any
/// time in between. After an error it is of no more use. A writer that is dropped, or that could not finish, leaves its
/// file where it is, for the directory's owner to remove.
pub struct TableWriter {
    identity: TableIdentity,
    options: TableOptions,
    output: Output,
    block: BlockBuilder,
    /// Stored bytes of the block that is filled, at most, unless its first row has more.
    block_bytes_max: usize,
    compressor: Compressor,
    /// Whether blocks end with pages where that takes little.
    pads: bool,
    /// The encoded block but its values; with compression, all of it.
    encoded: Vec<u8>,
    index: IndexBuilder,
    last_key: Vec<u8>,
    last_seqno: SeqNo,
    first_key: Vec<u8>,
    /// Hashes of the distinct user keys.
    hashes: KeyHashes,
    distinct: u64,
    fragments: Vec<Fragment>,
    tombstone_bytes: u64,
    totals: Totals,
    /// Bytes of all data blocks before compression.
    raw_bytes: u64,
    created_millis: u64,
}

impl TableWriter {
    /// A table whose [`metadata_bytes`](Self::metadata_bytes) are more than this may not be finished any more: a part of it may
    /// take more than a length of 32 bits can tell.
    pub const METADATA_BYTES_MAX: u64 = PART_BYTES_MAX / 2;

    /// Create the table's file in `dir`. `created_millis` is recorded as the time of writing.
    ///
    /// ```no_run
    /// # fn write(fs: std::sync::Arc<dyn esker_vfs::fs::Fs>) -> esker_base::Result<()> {
    /// use esker_base::{DatabaseId, FileNumber, KeyspaceId, Kind, SeqNo};
    /// use esker_sstable::{TableIdentity, TableOptions, TableWriter};
    /// let identity =
    ///     TableIdentity { database: DatabaseId([1; 16]), number: FileNumber(7), keyspace: KeyspaceId(0) };
    /// let mut writer = TableWriter::create(&fs, "db".as_ref(), identity, TableOptions::default(), 0)?;
    /// writer.add(b"key", SeqNo(2), Kind::Put, b"newer")?;
    /// writer.add(b"key", SeqNo(1), Kind::Put, b"older")?;
    /// let meta = writer.finish()?;
    /// assert_eq!(meta.entries, 2);
    /// # Ok(()) }
    /// ```
    pub fn create(
        fs: &Arc<dyn Fs>,
        dir: &Path,
        identity: TableIdentity,
        options: TableOptions,
        created_millis: u64,
    ) -> Result<TableWriter> {
        options.validate()?;
        let compressor = Compressor::new(options.compression)?;
        let file = fs.create(&dir.join(FileName::Table(identity.number).to_string()))?;
        let seed = ChecksumSeed::new(identity.database, identity.number);
        Ok(TableWriter {
            identity,
            options,
            output: Output::new(file, seed),
            block: BlockBuilder::default(),
            block_bytes_max: pages::block_bytes_max(0, options.block_bytes),
            compressor,
            pads: true,
            encoded: Vec::new(),
            index: IndexBuilder::default(),
            last_key: Vec::new(),
            last_seqno: SeqNo::ZERO,
            first_key: Vec::new(),
            hashes: KeyHashes::default(),
            distinct: 0,
            fragments: Vec::new(),
            tombstone_bytes: 0,
            totals: Totals::default(),
            raw_bytes: 0,
            created_millis,
        })
    }

    /// The same writer, whose blocks follow one another instead of ending with pages: a thirtieth less to write, for a
    /// table that is soon merged and not often read from the device.
    #[must_use]
    pub fn packed(self) -> TableWriter {
        TableWriter { pads: false, ..self }
    }

    /// Add an entry after the last. Panics if it is not after the last in internal order, is a range
    /// tombstone, or is said to lie in a blob file and has no pointer for its value.
    #[inline]
    pub fn add(&mut self, key: &[u8], seqno: SeqNo, kind: Kind, value: &[u8]) -> Result<()> {
        self.add_hashed(key, seqno, kind, value, entry_hash(key, seqno.0, kind as u8, value))
    }

    /// [`add`](Self::add) for a caller who knows the entry's content hash, because the entry was read
    /// somewhere else. The description takes the hash over, so that a table that is read back and agrees
    /// with its description holds what was read there, whatever happened in between.
    #[inline]
    pub fn add_hashed(
        &mut self,
        key: &[u8],
        seqno: SeqNo,
        kind: Kind,
        value: &[u8],
        hash: u64,
    ) -> Result<()> {
        limits::check_key(key)?;
        limits::check_value(value)?;
        assert!(kind != Kind::RangeDelete, "range tombstones are added with add_tombstone");
        let behind = match self.totals.entries {
            0 => Ordering::Less,
            _ => compare(self.last_user_key(), key),
        };
        assert!(behind != Ordering::Greater, "entries are added in ascending order");
        let same_key = behind == Ordering::Equal;
        assert!(!same_key || seqno < self.last_seqno, "versions of a key are added newest first");
        self.totals.entry(key, same_key, seqno, kind, value, hash);
        if kind == Kind::BlobPut {
            let pointer = BlobPointer::decode(value).expect("a pointer is written as one");
            self.totals.refer(pointer);
        }
        let with_this = self.block.raw_bytes_with(key.len(), seqno, kind, value.len()) + TRAILER_BYTES;
        if with_this > self.block_bytes_max && !self.block.is_empty() {
            self.finish_block(Some(InternalKey::new(key, seqno)))?;
        }
        let key_hash = key_hash(key);
        if !same_key {
            self.distinct += 1;
            if self.options.filter_bits_per_key > 0 {
                self.hashes.push(key_hash);
            }
        }
        if self.totals.entries == 1 {
            self.first_key = key.to_vec();
        }
        self.block.add(key, tag(key_hash), seqno, kind, value);
        self.last_seqno = seqno;
        Ok(())
    }

    /// The last user key added.
    #[inline]
    fn last_user_key(&self) -> &[u8] {
        if self.block.is_empty() { &self.last_key } else { self.block.last_key() }
    }

    /// Add a range tombstone after the last. Panics if it overlaps or precedes the last.
    pub fn add_tombstone(&mut self, fragment: &Fragment) -> Result<()> {
        limits::check_key(&fragment.start)?;
        limits::check_key(&fragment.end)?;
        let behind = self.fragments.last().is_none_or(|last| last.end <= fragment.start);
        assert!(behind, "range tombstones are added in ascending order");
        let falls = fragment.seqnos.windows(2).all(|pair| matches!(pair, [a, b] if a > b));
        assert!(
            fragment.start < fragment.end && !fragment.seqnos.is_empty() && falls,
            "a fragment covers something and names its tombstones newest first"
        );
        self.totals.fragment(fragment);
        self.tombstone_bytes +=
            (fragment.start.len() + fragment.end.len() + 8 * fragment.seqnos.len()) as u64;
        self.fragments.push(fragment.clone());
        Ok(())
    }

    /// About how large the file would be if it was finished now, in bytes.
    #[inline]
    pub fn estimated_bytes(&self) -> u64 {
        self.output.offset() + self.block.raw_bytes() as u64 + self.metadata_bytes()
    }

    /// What of that are filter, index and range tombstones: about what they would take, and no less than half.
    #[inline]
    pub fn metadata_bytes(&self) -> u64 {
        let filter = self.hashes.len() as u64 * u64::from(self.options.filter_bits_per_key) / 8;
        filter + self.index.estimated_bytes() + self.tombstone_bytes
    }

    /// Bytes of memory held, about.
    pub fn memory(&self) -> u64 {
        let bytes =
            self.output.memory() + self.block.raw_bytes() + self.encoded.capacity() + self.hashes.memory();
        bytes as u64 + self.index.estimated_bytes() + self.tombstone_bytes
    }

    /// Entries added so far, range tombstones not counted.
    #[inline]
    pub fn entries(&self) -> u64 {
        self.totals.entries
    }

    /// Its file's number.
    pub fn number(&self) -> FileNumber {
        self.identity.number
    }

    /// Write what is left, sync the file and describe the table. Panics if nothing was added.
    pub fn finish(mut self) -> Result<TableMeta> {
        assert!(self.totals.entries > 0 || !self.fragments.is_empty(), "a table holds something");
        if !self.block.is_empty() {
            self.finish_block(None)?;
        }
        let tombstones = match self.fragments.as_slice() {
            [] => self.output.absent(),
            fragments => self.output.part(&tombstones::encode(fragments))?,
        };
        let filter = match Filter::build(&self.hashes, self.options.filter_bits_per_key) {
            None => self.output.absent(),
            Some(filter) => self.output.part(&filter.encode())?,
        };
        let index = self.output.part(&self.index.encode()?)?;
        let keys = (self.first_key.as_slice(), self.last_key.as_slice());
        let meta = self
            .totals
            .describe(self.identity, keys, &self.fragments, 0, self.created_millis)
            .expect("something was added, see above");
        let mut properties = Properties {
            meta,
            options: self.options,
            raw_bytes: self.raw_bytes,
            filter_keys: if filter.len == 0 { 0 } else { self.distinct },
        };
        let part = self.output.part(&properties.encode())?;
        properties.meta.file_bytes = self.output.offset() + FOOTER_BYTES as u64;
        let footer = Footer {
            version: TABLE_VERSION,
            identity: self.identity,
            file_bytes: properties.meta.file_bytes,
            tombstones,
            filter,
            index,
            properties: part,
        };
        self.output.put(&footer.encode())?;
        self.output.flush()?;
        self.output.file.sync()?;
        Ok(properties.meta)
    }

    /// Encode the block, write it, and index it: what separates it from the next depends on the key behind it.
    fn finish_block(&mut self, next: Option<InternalKey<'_>>) -> Result<()> {
        self.last_key.clear();
        self.last_key.extend_from_slice(self.block.last_key());
        self.encoded.clear();
        self.block.encode(&mut self.encoded);
        let stored = self.store_block()?;
        self.index.add(stored, InternalKey::new(&self.last_key, self.last_seqno), next);
        self.block.clear();
        self.block_bytes_max = pages::block_bytes_max(self.output.offset(), self.options.block_bytes);
        Ok(())
    }

    /// Write the encoded block: compressed if that saves enough, else padded if that takes little. Its stored length.
    fn store_block(&mut self) -> Result<u32> {
        let columns = self.encoded.len();
        if self.compressor.is_active() {
            self.encoded.extend_from_slice(self.block.values());
            if let Some((codec, payload)) = self.compressor.compress(&self.encoded) {
                self.raw_bytes += self.encoded.len() as u64;
                return self.output.stored([payload, &[]], codec, fit_u32(self.encoded.len()));
            }
            self.encoded.truncate(columns);
        }
        let stored = columns + self.block.values().len() + TRAILER_BYTES;
        if self.pads {
            self.block.pad(pages::padding(self.output.offset(), stored));
        }
        let raw = columns + self.block.values().len();
        self.raw_bytes += raw as u64;
        self.output.stored([&self.encoded, self.block.values()], Codec::None, fit_u32(raw))
    }
}

impl Output {
    /// A stored block whose payload is `parts`, one after the other; its stored length.
    fn stored(&mut self, parts: [&[u8]; 2], codec: Codec, raw_len: u32) -> Result<u32> {
        let trailer = trailer(self.seed, self.offset(), parts, codec, raw_len);
        let [first, second] = parts;
        self.put(first)?;
        self.put(second)?;
        self.put(&trailer)?;
        let len = first.len() + second.len() + TRAILER_BYTES;
        Ok(fit_u32(len))
    }

    /// A part of the table that is not compressed.
    fn part(&mut self, payload: &[u8]) -> Result<BlockHandle> {
        let (bytes, max) = (payload.len() as u64, PART_BYTES_MAX);
        let len = u32::try_from(bytes).ok().filter(|_| bytes <= max).ok_or(Error::TooLarge {
            what: "metadata of a table",
            len: bytes,
            max,
        })?;
        let offset = self.offset();
        let len = self.stored([payload, &[]], Codec::None, len)?;
        Ok(BlockHandle { offset, len })
    }

    /// A part that the table does not have.
    fn absent(&self) -> BlockHandle {
        BlockHandle { offset: self.offset(), len: 0 }
    }
}
