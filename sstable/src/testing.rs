//! What the tests share: a filesystem in memory, tables of given entries, entries by seed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use esker_base::cursor::OwnedEntry;
use esker_base::ledger::Ledger;
use esker_base::range_tombstone::Fragment;
use esker_base::table_meta::TableMeta;
use esker_base::{DatabaseId, FileNumber, KeyspaceId, Kind, Result, SeqNo};
use esker_vfs::fs::Fs;
use esker_vfs::mem::MemFs;
use esker_vfs::open_files::OpenFiles;

use crate::{BlockCache, TableContext, TableIdentity, TableOptions, TableReader, TableSource, TableWriter};

pub(crate) const DATABASE: DatabaseId = DatabaseId([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
pub(crate) const IDENTITY: TableIdentity =
    TableIdentity { database: DATABASE, number: FileNumber(7), keyspace: KeyspaceId(3) };

pub(crate) fn dir() -> PathBuf {
    PathBuf::from("db")
}

pub(crate) fn memory() -> Arc<dyn Fs> {
    let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
    fs.create_dir(&dir()).expect("a directory in memory");
    fs
}

pub(crate) fn context(fs: &Arc<dyn Fs>, source: TableSource, cache_bytes: u64) -> TableContext {
    let ledger = Arc::new(Ledger::default());
    TableContext {
        files: OpenFiles::new(Arc::clone(fs), usize::MAX),
        dir: dir(),
        database: DATABASE,
        cache: BlockCache::new(cache_bytes, Arc::clone(&ledger)),
        ledger,
        source,
    }
}

pub(crate) fn entry(key: impl AsRef<[u8]>, seqno: u64, kind: Kind, value: impl AsRef<[u8]>) -> OwnedEntry {
    OwnedEntry { key: key.as_ref().to_vec(), seqno: SeqNo(seqno), kind, value: value.as_ref().to_vec() }
}

/// Table 7, taken for what it says of itself.
pub(crate) fn open_unlisted(fs: &Arc<dyn Fs>) -> Result<TableReader> {
    TableReader::open_unlisted(&OpenFiles::new(Arc::clone(fs), 1), &path())
}

/// Write sorted `entries` as table 7.
pub(crate) fn write(
    fs: &Arc<dyn Fs>,
    options: TableOptions,
    entries: &[OwnedEntry],
    fragments: &[Fragment],
) -> Result<TableMeta> {
    let mut writer = TableWriter::create(fs, &dir(), IDENTITY, options, 1000)?;
    for e in entries {
        writer.add(&e.key, e.seqno, e.kind, &e.value)?;
    }
    for fragment in fragments {
        writer.add_tombstone(fragment)?;
    }
    writer.finish()
}

/// A table of sorted `entries` in memory, open.
pub(crate) fn table(
    options: TableOptions,
    source: TableSource,
    entries: &[OwnedEntry],
) -> (TableContext, Arc<TableReader>) {
    let fs = memory();
    let meta = write(&fs, options, entries, &[]).expect("writing to memory");
    let context = context(&fs, source, 1 << 20);
    let reader = TableReader::open(&context, &meta).expect("opening what was written");
    (context, Arc::new(reader))
}

pub(crate) fn path() -> PathBuf {
    dir().join("000007.sst")
}

/// The whole file at `path`.
pub(crate) fn bytes_of(fs: &dyn Fs, path: &Path) -> Vec<u8> {
    esker_vfs::fs::read_all(fs, path, 1 << 30).expect("the file is there")
}

/// Put `bytes` where table 7 stands.
pub(crate) fn overwrite(fs: &dyn Fs, bytes: &[u8]) {
    if fs.stat(&path()).expect("memory").is_some() {
        fs.remove(&path()).expect("memory");
    }
    fs.create(&path()).expect("memory").write_at(bytes, 0).expect("memory");
}

/// Sorts entries and drops those that share key and number.
pub(crate) fn sorted(mut entries: Vec<OwnedEntry>) -> Vec<OwnedEntry> {
    entries.sort_by(|a, b| a.internal_key().cmp(&b.internal_key()));
    entries.dedup_by(|a, b| a.internal_key() == b.internal_key());
    entries
}
