//! For tests: tables in memory, an operator, and a model of what readers see.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use esker_base::blob::{BlobMeta, BlobPointer};
use esker_base::cursor::OwnedEntry;
use esker_base::ledger::Ledger;
use esker_base::range_tombstone::{Fragments, RangeTombstone};
use esker_base::table_meta::{KeyBounds, TableMeta};
use esker_base::{Cursor, DatabaseId, FileNumber, KeyspaceId, Kind, MergeOperator, OpCost, SeqNo};
use esker_manifest::BlobHandle;
use esker_sstable::{
    BlobReader, BlobWriter, BlockCache, CursorOptions, TableContext, TableCursor, TableIdentity,
    TableOptions, TableReader, TableSource, TableWriter,
};
use esker_vfs::fs::Fs;
use esker_vfs::mem::MemFs;
use esker_vfs::open_files::OpenFiles;

use crate::blobs::BlobRules;
use crate::level_cursor::LevelCursor;
use crate::outputs::MakeWriter;
use crate::run::{MergeRun, RemoveFile, RunSource};

/// A directory in memory.
#[derive(Clone)]
pub(crate) struct Lab {
    pub(crate) context: TableContext,
    next: Arc<AtomicU64>,
}

/// Entries and range tombstones of a source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) entries: Vec<OwnedEntry>,
    pub(crate) tombstones: Vec<RangeTombstone>,
}

/// The description of a table with one row of no bytes in the smallest file, for what decides by descriptions alone.
pub(crate) fn described(
    number: u64,
    smallest: impl Into<Vec<u8>>,
    largest: impl Into<Vec<u8>>,
) -> TableMeta {
    TableMeta {
        number: FileNumber(number),
        keyspace: KeyspaceId(1),
        file_bytes: 1,
        bounds: KeyBounds { smallest: smallest.into(), largest: largest.into(), largest_exclusive: false },
        smallest_seqno: SeqNo(1),
        largest_seqno: SeqNo(1),
        entries: 1,
        point_tombstones: 0,
        merge_operands: 0,
        hidden_versions: 0,
        range_tombstones: 0,
        key_bytes: 0,
        value_bytes: 0,
        content_hash: 0,
        created_millis: 0,
        blobs: Vec::new(),
    }
}

pub(crate) fn entry(key: &str, seqno: u64, kind: Kind, value: &str) -> OwnedEntry {
    OwnedEntry { key: key.into(), seqno: SeqNo(seqno), kind, value: value.into() }
}

pub(crate) fn cover(start: &str, end: &str, seqno: u64) -> RangeTombstone {
    RangeTombstone { start: start.into(), end: end.into(), seqno: SeqNo(seqno) }
}

impl Lab {
    pub(crate) fn new() -> Lab {
        Lab::on(Arc::new(MemFs::new()))
    }

    pub(crate) fn on(fs: Arc<dyn Fs>) -> Lab {
        let dir = PathBuf::from("db");
        fs.create_dir(&dir).expect("memory");
        let ledger = Arc::new(Ledger::default());
        let cache = BlockCache::new(1 << 20, Arc::clone(&ledger));
        let context = TableContext {
            files: OpenFiles::new(fs, usize::MAX),
            dir,
            database: DatabaseId([7; 16]),
            cache,
            ledger,
            source: TableSource::Buffered,
        };
        Lab { context, next: Arc::new(AtomicU64::new(1)) }
    }

    pub(crate) fn maker(&self) -> MakeWriter {
        let lab = self.clone();
        Box::new(move || {
            let number = FileNumber(lab.next.fetch_add(1, Ordering::Relaxed));
            let id = TableIdentity { database: lab.context.database, number, keyspace: KeyspaceId(1) };
            let options = TableOptions { block_bytes: 64, ..TableOptions::default() };
            TableWriter::create(lab.context.files.fs(), &lab.context.dir, id, options, 0)
        })
    }

    pub(crate) fn remover(&self) -> RemoveFile {
        let context = self.context.clone();
        Box::new(move |file| {
            context.files.fs().remove(&context.dir.join(file.to_string())).expect("it was written");
        })
    }

    /// Values of at least `bytes_min` bytes go to blob files of some kilobyte; `sources` are those there are.
    pub(crate) fn blobs(
        &self,
        bytes_min: u32,
        sources: Vec<Arc<BlobHandle>>,
        collect: &[FileNumber],
    ) -> BlobRules {
        let lab = self.clone();
        BlobRules {
            bytes_min: Some(bytes_min),
            file_bytes: 1000,
            make: Box::new(move || {
                let number = FileNumber(lab.next.fetch_add(1, Ordering::Relaxed));
                let id = TableIdentity { database: lab.context.database, number, keyspace: KeyspaceId(1) };
                BlobWriter::create(lab.context.files.fs(), &lab.context.dir, id)
            }),
            sources,
            collect: collect.into(),
        }
    }

    /// The blob file that was written as `meta`.
    pub(crate) fn blob(&self, meta: &BlobMeta) -> Arc<BlobHandle> {
        BlobHandle::of_reader(Arc::new(BlobReader::open(&self.context, meta).expect("it was written")))
    }

    /// What a table holds, with the values that lie in `blobs` in their rows.
    pub(crate) fn whole_content(
        &self,
        meta: &TableMeta,
        blobs: &BTreeMap<FileNumber, Arc<BlobHandle>>,
    ) -> Content {
        let mut content = self.content(meta);
        for entry in content.entries.iter_mut().filter(|entry| entry.kind == Kind::BlobPut) {
            let pointer = BlobPointer::decode(&entry.value).expect("a pointer");
            let reader = blobs[&pointer.number].reader().expect("it is open");
            let value = reader.read(&entry.key, &pointer, &mut OpCost::default()).expect("its value");
            (entry.kind, entry.value) = (Kind::Put, value.to_vec());
        }
        content
    }

    /// A table of this content, which is not empty.
    pub(crate) fn table(&self, content: &Content) -> TableMeta {
        let mut writer = (self.maker())().expect("memory");
        let mut entries = content.entries.clone();
        entries.sort_by(|a, b| a.internal_key().cmp(&b.internal_key()));
        for e in &entries {
            writer.add(&e.key, e.seqno, e.kind, &e.value).expect("memory");
        }
        for fragment in Fragments::build(&content.tombstones).list() {
            writer.add_tombstone(fragment).expect("memory");
        }
        writer.finish().expect("memory")
    }

    pub(crate) fn reader(&self, meta: &TableMeta) -> Arc<TableReader> {
        Arc::new(TableReader::open(&self.context, meta).expect("it was written"))
    }

    pub(crate) fn source(&self, tables: &[TableMeta]) -> RunSource<LevelCursor<TableCursor>> {
        let readers: Vec<Arc<TableReader>> = tables.iter().map(|meta| self.reader(meta)).collect();
        RunSource::of_tables(&readers, tables.to_vec())
    }

    /// What a table holds.
    pub(crate) fn content(&self, meta: &TableMeta) -> Content {
        let reader = self.reader(meta);
        let mut cursor = reader.cursor(CursorOptions::default());
        let mut entries = Vec::new();
        cursor.seek_first().expect("memory");
        while cursor.valid() {
            entries.push(OwnedEntry {
                key: cursor.key().to_vec(),
                seqno: cursor.seqno(),
                kind: cursor.kind(),
                value: cursor.value().to_vec(),
            });
            cursor.next().expect("memory");
        }
        Content { entries, tombstones: reader.tombstones().tombstones().collect() }
    }

    /// The number that the next table will get.
    pub(crate) fn next_number(&self) -> FileNumber {
        FileNumber(self.next.load(Ordering::Relaxed))
    }

    /// The names of all files.
    pub(crate) fn files(&self) -> Vec<String> {
        let listed = self.context.files.fs().list(&self.context.dir).expect("memory");
        listed.into_iter().map(|entry| entry.name).collect()
    }
}

/// Step `run` to its end.
pub(crate) fn drive<C: Cursor>(run: &mut MergeRun<C>, budget: u64) -> esker_base::Result<u64> {
    let mut steps = 1;
    while !run.step(budget)? {
        steps += 1;
    }
    Ok(steps)
}

/// Appends operands, with commas. Refuses operands that hold `!`, panics at `?`.
pub(crate) struct Append;

impl MergeOperator for Append {
    fn name(&self) -> &'static str {
        "append"
    }
    fn fold(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>, String> {
        if operands.iter().any(|operand| operand.contains(&b'!')) {
            return Err("an operand holds !".into());
        }
        assert!(!operands.iter().any(|operand| operand.contains(&b'?')), "an operand holds ?");
        let parts: Vec<&[u8]> = base.into_iter().chain(operands.iter().copied()).collect();
        Ok(parts.join(&b','))
    }
    fn combine(&self, _key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        let plain = |operand: &[u8]| !operand.contains(&b'!') && !operand.contains(&b'~');
        (plain(older) && plain(newer)).then(|| [older, newer].join(&b','))
    }
}

impl Content {
    pub(crate) fn add(&mut self, other: &Content) {
        self.entries.extend(other.entries.iter().cloned());
        self.tombstones.extend(other.tombstones.iter().cloned());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.tombstones.is_empty()
    }

    pub(crate) fn keys(&self) -> BTreeSet<Vec<u8>> {
        self.entries.iter().map(|entry| entry.key.clone()).collect()
    }

    /// What a reader at `upper` sees under `key`, slowly and plainly.
    pub(crate) fn view(&self, key: &[u8], upper: SeqNo) -> Result<Option<Vec<u8>>, String> {
        enum Write<'a> {
            Entry(&'a OwnedEntry),
            Gone,
        }
        let entries = self.entries.iter().filter(|e| e.key == key);
        let ranges = self.tombstones.iter().filter(|t| *t.start <= *key && *key < *t.end);
        let mut writes: Vec<(SeqNo, Write<'_>)> = entries.map(|e| (e.seqno, Write::Entry(e))).collect();
        writes.extend(ranges.map(|t| (t.seqno, Write::Gone)));
        writes.retain(|(seqno, _)| *seqno <= upper);
        writes.sort_by_key(|(seqno, _)| *seqno);
        let mut value: Result<Option<Vec<u8>>, String> = Ok(None);
        for (_, write) in writes {
            value = match write {
                Write::Gone => Ok(None),
                Write::Entry(e) if e.kind == Kind::Put => Ok(Some(e.value.clone())),
                Write::Entry(e) if e.kind == Kind::Delete => Ok(None),
                Write::Entry(e) => match value {
                    Err(refused) => Err(refused),
                    Ok(base) => Append.fold(key, base.as_deref(), &[&e.value]).map(Some),
                },
            };
        }
        value
    }
}
