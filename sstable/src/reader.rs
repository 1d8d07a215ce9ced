//! Reading a table: opening it, and single keys.
//!
//! Invariants:
//! 1. An open reader's index, filter and tombstones were checked and decoded whole; its file was as
//!    long as the footer says.
//! 2. Every data block is checked when it is read, or on first touch since the file was opened if it
//!    is mapped; a failure is reported each time and caches nothing.
//!
//! Threads: many at once; no locks on the read path (see [`cache`](crate::cache) for misses).

mod load;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use esker_base::checksum::ChecksumSeed;
use esker_base::filename::FileName;
use esker_base::ledger::{Held, Ledger, Purpose};
use esker_base::planted::{self, Planted};
use esker_base::range_tombstone::Fragments;
use esker_base::sync::atomic::AtomicBool;
use esker_base::table_meta::TableMeta;
use esker_base::{DatabaseId, Error, FileNumber, InternalKey, Kind, OpCost, Result, SeqNo};
use esker_vfs::open_files::OpenFiles;

use crate::block::{Found, tag};
use crate::cache::{BlockCache, CachedTable};
use crate::cursor::{CursorOptions, TableCursor};
use crate::filter::Filter;
use crate::footer::{BlockHandle, Footer};
use crate::index::{Index, Near};
use crate::options::TableIdentity;
use crate::properties::Properties;
use crate::source::{TableFile, TableSource};
use crate::stored::{Location, check_plain};
use crate::tombstones;
use crate::totals::disagreement;

/// How many bytes are read from the end when a table is opened: they hold the footer of any version, and
/// small indexes too.
const TAIL_BYTES: u64 = 4096;

/// What all tables of a database share.
#[derive(Clone)]
pub struct TableContext {
    /// The files that are open, and where they are.
    pub files: Arc<OpenFiles>,
    /// The database's directory.
    pub dir: PathBuf,
    /// The database, part of every checksum.
    pub database: DatabaseId,
    /// Data blocks.
    pub cache: Arc<BlockCache>,
    /// Debited for indexes, filters and tombstones.
    pub ledger: Arc<Ledger>,
    /// How tables are read.
    pub source: TableSource,
}

/// An open table. Used as `Arc<TableReader>`.
pub struct TableReader {
    properties: Properties,
    footer: Footer,
    seed: ChecksumSeed,
    file: TableFile,
    index: Index,
    filter: Filter,
    tombstones: Arc<Fragments>,
    cached: CachedTable,
    /// See [`TableReader::expect_warming`].
    pub(crate) warming: AtomicBool,
    _held: Held,
}

/// An entry found by [`TableReader::get`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableEntry {
    /// The write's number.
    pub seqno: SeqNo,
    /// What the write did.
    pub kind: Kind,
    /// Its value or operand.
    pub value: Bytes,
}

/// An entry lent by [`TableReader::get_with`].
#[derive(Clone, Copy, Debug)]
pub struct EntryRef<'a> {
    /// The write's number.
    pub seqno: SeqNo,
    /// What the write did.
    pub kind: Kind,
    /// Its value or operand.
    pub value: &'a [u8],
}

impl TableReader {
    /// Open the table that `meta` describes. Anything in the file that disagrees with `meta` is
    /// [`Error::Corruption`].
    pub fn open(context: &TableContext, meta: &TableMeta) -> Result<TableReader> {
        let path = context.dir.join(FileName::Table(meta.number).to_string());
        let expected = Some((context.database, meta.number));
        let file = TableFile::new(context.files.open(&path)?);
        let len = file.len()?;
        if len != meta.file_bytes {
            let what = format!("the table has {len} bytes, the manifest recorded {}", meta.file_bytes);
            return Err(Error::corruption(&path, len.min(meta.file_bytes), what));
        }
        let reader = Self::load(context, file, expected)?;
        if let Some(what) = disagreement(&reader.properties.meta, meta, "the manifest") {
            return Err(Error::corruption(&path, reader.footer.properties.offset, what));
        }
        Ok(reader)
    }

    /// Open a table that no manifest describes, as salvage and inspection do: whose table it is, is taken
    /// from the file itself.
    pub fn open_unlisted(files: &Arc<OpenFiles>, path: &Path) -> Result<TableReader> {
        let ledger = Arc::new(Ledger::default());
        let context = TableContext {
            files: Arc::clone(files),
            dir: path.parent().unwrap_or(Path::new("")).to_path_buf(),
            database: DatabaseId([0; 16]),
            cache: BlockCache::new(0, Arc::clone(&ledger)),
            ledger,
            source: TableSource::Buffered,
        };
        Self::load(&context, TableFile::new(files.open(path)?), None)
    }

    fn load(
        context: &TableContext,
        mut file: TableFile,
        expected: Option<(DatabaseId, FileNumber)>,
    ) -> Result<TableReader> {
        let parts = Parts::read(&file, expected)?;
        let Parts { footer, properties, index, filter, tombstones } = parts;
        if context.source == TableSource::Mapped || planted::is(Planted::MappedTables) {
            file.map(&context.files, index.blocks())?;
            let mapped = file.mapping().map_or(0, |mapping| mapping.bytes.len() as u64);
            if mapped != footer.file_bytes {
                let what = format!("the file has {mapped} bytes, {} were written", footer.file_bytes);
                return Err(Error::corruption(file.path(), mapped.min(footer.file_bytes), what));
            }
        }
        let slots = index.blocks() as u64 * 8;
        let memory = index.memory() + filter.memory() + slots + memory_of(&tombstones);
        let cached = context.cache.open_table(index.blocks(), properties.raw_bytes);
        Ok(TableReader {
            properties,
            seed: footer.seed(),
            footer,
            file,
            cached,
            warming: AtomicBool::new(false),
            index,
            filter,
            tombstones: Arc::new(tombstones),
            _held: context.ledger.hold(Purpose::TableMetadata, memory),
        })
    }

    /// The newest entry of `key` not after `upper`, copied: for tests and tools. `hash` is
    /// `checksum::key_hash(key)`.
    ///
    /// Counts the table, its filter's answer and the block in `cost`.
    #[inline]
    pub fn get(
        &self,
        key: &[u8],
        hash: u64,
        upper: SeqNo,
        cost: &mut OpCost,
    ) -> Result<Option<TableEntry>> {
        self.get_with(key, hash, upper, None, cost, |entry| TableEntry {
            seqno: entry.seqno,
            kind: entry.kind,
            value: Bytes::copy_from_slice(entry.value),
        })
    }

    /// The same, with the entry lent to `read`: nothing is copied. `near` is what
    /// [`approach`](Self::approach) returned for the key, if it was called.
    #[inline]
    pub fn get_with<R>(
        &self,
        key: &[u8],
        hash: u64,
        upper: SeqNo,
        near: Option<Near>,
        cost: &mut OpCost,
        read: impl FnOnce(EntryRef<'_>) -> R,
    ) -> Result<Option<R>> {
        cost.tables += 1;
        if !self.filter.may_contain(hash) {
            cost.filter_negatives += 1;
            return Ok(None);
        }
        let near = near.unwrap_or_else(|| self.approach(key));
        let block = self.index.arrive(near, InternalKey::new(key, upper));
        let found = if block == self.index.blocks() {
            Err(Found::Absent)
        } else {
            self.with_block(block, cost, |view| match view.find(key, tag(hash), upper) {
                Found::Row(row) => Ok(read(EntryRef {
                    seqno: view.seqno(row),
                    kind: view.kind(row),
                    value: view.value(row),
                })),
                missing => Err(missing),
            })?
        };
        match found {
            Ok(result) => Ok(Some(result)),
            Err(missing) => {
                cost.filter_false_positives +=
                    u64::from(missing == Found::Absent && self.filter.is_active());
                Ok(None)
            }
        }
    }

    /// All of the index search for `key` but its last step. The filter is not asked. What the last step
    /// reads, and the cache's slots of the blocks at which it may end, are prefetched.
    #[inline]
    pub fn approach(&self, key: &[u8]) -> Near {
        let near = self.index.approach(key);
        self.prefetch_block_locations(near.first());
        near
    }

    /// Prefetch the block in which an entry of `key` not after `upper` would lie, if it is cached. `near` is what `approach` said.
    #[inline]
    pub fn prefetch_near(&self, near: Near, key: &[u8], upper: SeqNo) {
        self.prefetch_block(self.index.arrive(near, InternalKey::new(key, upper)), 0);
    }

    /// The block in which the first entry at or after `target` lies, or behind which: that of the index search, whose slot in
    /// the cache is prefetched on the way.
    #[inline]
    pub(crate) fn locate(&self, target: InternalKey<'_>) -> usize {
        self.index.arrive(self.approach(target.user), target)
    }

    /// Whether a key with this hash may be in the table; a table without a filter never says no.
    #[inline]
    pub fn may_contain(&self, hash: u64) -> bool {
        self.filter.may_contain(hash)
    }

    /// Prefetch what `may_contain(hash)` will read.
    #[inline]
    pub fn prefetch_filter(&self, hash: u64) {
        self.filter.prefetch(hash);
    }

    /// Prefetch the root of the index, where `approach` begins.
    #[inline]
    pub fn prefetch_index(&self) {
        self.index.prefetch_root();
    }

    /// A cursor over the entries; stands nowhere.
    pub fn cursor(self: &Arc<Self>, options: CursorOptions) -> TableCursor {
        TableCursor::new(Arc::clone(self), options)
    }

    /// The range tombstones, fragmented.
    #[inline]
    pub fn tombstones(&self) -> &Arc<Fragments> {
        &self.tombstones
    }

    /// About how many bytes of the file lie before `key`.
    pub fn approximate_offset(&self, key: &[u8]) -> u64 {
        self.index.offset(self.index.find(InternalKey::before_all(key)))
    }

    /// How many bytes of the file hold entries.
    pub fn data_bytes(&self) -> u64 {
        self.index.offset(self.index.blocks())
    }

    /// Keys that divide the data into `count` pieces of about the same size. Ascending, not all different; none for a
    /// table without entries.
    pub fn sample_keys(&self, count: usize) -> impl Iterator<Item = Vec<u8>> + '_ {
        let blocks = self.index.blocks();
        let last_blocks = (1..count).filter_map(move |piece| (blocks * piece / count).checked_sub(1));
        last_blocks.map(|block| self.index.separator(block))
    }

    /// The table's description, from its own properties.
    pub fn meta(&self) -> &TableMeta {
        &self.properties.meta
    }

    /// Whose table it is.
    pub fn identity(&self) -> TableIdentity {
        self.footer.identity
    }

    /// The file's path, for messages.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    pub(crate) fn index(&self) -> &Index {
        &self.index
    }

    pub(crate) fn properties(&self) -> &Properties {
        &self.properties
    }

    pub(crate) fn footer(&self) -> &Footer {
        &self.footer
    }

    pub(crate) fn cached(&self) -> &CachedTable {
        &self.cached
    }

    pub(crate) fn file(&self) -> &TableFile {
        &self.file
    }
}

impl std::fmt::Debug for TableReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableReader").field("meta", self.meta()).finish_non_exhaustive()
    }
}

/// Everything of a table but its data blocks.
pub(crate) struct Parts {
    pub(crate) footer: Footer,
    pub(crate) properties: Properties,
    pub(crate) index: Index,
    pub(crate) filter: Filter,
    pub(crate) tombstones: Fragments,
}

impl Parts {
    /// Read and check them.
    pub(crate) fn read(file: &TableFile, expected: Option<(DatabaseId, FileNumber)>) -> Result<Parts> {
        let path = file.path();
        let len = file.len()?;
        let tail_len = len.min(TAIL_BYTES);
        let tail_at = len - tail_len;
        let tail = file.read(tail_at, usize::try_from(tail_len).unwrap_or_default())?;
        let footer = Footer::decode(path, &tail, len, expected)?;
        let seed = footer.seed();
        let location = |part: BlockHandle| Location { path, seed, offset: part.offset };
        let read = |part: BlockHandle| -> Result<Vec<u8>> {
            let len = part.len as usize;
            // Small tables lie in the tail already.
            let start = part.offset.checked_sub(tail_at).and_then(|at| usize::try_from(at).ok());
            match start.and_then(|start| tail.get(start..start + len)) {
                Some(bytes) => Ok(bytes.to_vec()),
                None => file.read(part.offset, len),
            }
        };

        let stored = read(footer.properties)?;
        let at = location(footer.properties);
        let properties = Properties::decode(check_plain(at, "properties", &stored)?, &footer)
            .map_err(|e| at.undecodable("properties", e))?;
        let stored = read(footer.index)?;
        let at = location(footer.index);
        let index = Index::decode(check_plain(at, "index", &stored)?, footer.data_bytes())
            .map_err(|e| at.undecodable("index", e))?;
        let filter = if footer.filter.len == 0 {
            Filter::default()
        } else {
            let stored = read(footer.filter)?;
            let at = location(footer.filter);
            Filter::decode(check_plain(at, "filter", &stored)?).map_err(|e| at.undecodable("filter", e))?
        };
        let tombstones = if footer.tombstones.len == 0 {
            Fragments::default()
        } else {
            let stored = read(footer.tombstones)?;
            let at = location(footer.tombstones);
            tombstones::decode(check_plain(at, "tombstones", &stored)?)
                .map_err(|e| at.undecodable("tombstones", e))?
        };
        let has_entries = index.blocks() > 0;
        if has_entries != (properties.meta.entries > 0)
            || tombstones.is_empty() != (properties.meta.range_tombstones == 0)
            || (!has_entries && tombstones.is_empty())
        {
            return Err(location(footer.properties)
                .damaged(0, "the properties count other entries than the table holds"));
        }
        Ok(Parts { footer, properties, index, filter, tombstones })
    }
}

/// Bytes of memory held by `fragments`.
fn memory_of(fragments: &Fragments) -> u64 {
    let each = |f: &esker_base::range_tombstone::Fragment| {
        size_of_val(f) + f.start.capacity() + f.end.capacity() + f.seqnos.capacity() * 8
    };
    fragments.list().iter().map(each).sum::<usize>() as u64
}
