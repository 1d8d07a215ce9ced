//! Entries out of tables and logs (`logs` reads those), in the order of keys, over what is damaged.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use esker_base::blob::BlobPointer;
use esker_base::filename::FileName;
use esker_base::range_tombstone::RangeTombstone;
use esker_base::{DatabaseId, FileNumber, KeyspaceId, Kind, OpCost, SeqNo};
use esker_sstable::{BlobReader, TableReader};
use esker_vfs::open_files::OpenFiles;

use super::catalog::Catalog;
use super::{Loss, Salvaged, logs};

/// One version of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) key: Vec<u8>,
    pub(super) seqno: SeqNo,
    pub(super) kind: Kind,
    pub(super) value: Vec<u8>,
}

/// By key, the newest version first. Of two versions with one number an operand comes last: the other one is that
/// operand, folded by a memtable or a compaction with what lay below it.
impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        let place = |entry: &Entry| (Reverse(entry.seqno), entry.kind == Kind::Merge);
        self.key.cmp(&other.key).then_with(|| place(self).cmp(&place(other)))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The values in the directory's blob files, each file opened when a row first refers to it.
pub(super) struct Values<'a> {
    open: &'a Arc<OpenFiles>,
    dir: &'a Path,
    /// `None` for a file that does not open.
    files: BTreeMap<FileNumber, Option<BlobReader>>,
}

impl<'a> Values<'a> {
    pub(super) fn new(open: &'a Arc<OpenFiles>, dir: &'a Path) -> Self {
        Values { open, dir, files: BTreeMap::new() }
    }

    /// The value of the row `key` of `keyspace`, which refers to it with `pointer`; `None`, with a loss in `report`,
    /// if it is not readable.
    pub(super) fn read(
        &mut self,
        key: &[u8],
        pointer: &[u8],
        keyspace: &str,
        report: &mut Salvaged,
    ) -> Option<Vec<u8>> {
        let Ok(pointer) = BlobPointer::decode(pointer) else {
            report.lose_row(self.dir, keyspace, key, "the row has no pointer to its value");
            return None;
        };
        let path = self.dir.join(FileName::Blob(pointer.number).to_string());
        let file = self.files.entry(pointer.number).or_insert_with(|| {
            let opened = BlobReader::open_unlisted(self.open, &path);
            opened.inspect_err(|error| report.lose(self.dir, FileName::Blob(pointer.number), error)).ok()
        });
        let Some(file) = file else {
            report.lose_row(&path, keyspace, key, "its value was in this file");
            return None;
        };
        let value = file.read(key, &pointer, &mut OpCost::default());
        value.inspect_err(|error| report.lose_row(&path, keyspace, key, error)).ok().map(Vec::from)
    }
}

/// What the directory holds of one keyspace.
#[derive(Default)]
pub(super) struct Source {
    pub(super) tables: Vec<(FileNumber, Arc<TableReader>)>,
    /// From the logs, sorted.
    pub(super) logged: Vec<Entry>,
    /// The first and the last key with a merge operand in each log that has any.
    pub(super) merged: BTreeMap<FileNumber, (Vec<u8>, Vec<u8>)>,
    pub(super) tombstones: Vec<RangeTombstone>,
}

/// Everything readable, by keyspace. Damage found on the way goes into `report`.
pub(super) fn gather(
    files: &Arc<OpenFiles>,
    dir: &Path,
    catalog: &Catalog,
    report: &mut Salvaged,
) -> BTreeMap<KeyspaceId, Source> {
    let mut sources: BTreeMap<KeyspaceId, Source> = BTreeMap::new();
    let mut opened = Vec::new();
    for (&number, meta) in &catalog.tables {
        let name = FileName::Table(number);
        let reader = match TableReader::open_unlisted(files, &dir.join(name.to_string())) {
            Ok(reader) => reader,
            Err(error) => {
                let known = meta.as_ref();
                report.losses.push(Loss {
                    file: dir.join(name.to_string()),
                    keyspace: known.map(|meta| catalog.name_of(meta.keyspace)),
                    keys: known.map(|meta| (meta.bounds.smallest.clone(), meta.bounds.largest.clone())),
                    what: error.to_string(),
                });
                continue;
            }
        };
        opened.push((number, reader));
    }
    let database = catalog.database.or_else(|| most_common(opened.iter().map(|(_, table)| table)));
    for (number, reader) in opened {
        let identity = reader.identity();
        if database != Some(identity.database) || identity.number != number {
            report.lose(
                dir,
                FileName::Table(number),
                "it is a table of another database, or under another's name",
            );
            continue;
        }
        if !catalog.counts(identity.keyspace) {
            continue;
        }
        report.tables += 1;
        let source = sources.entry(identity.keyspace).or_default();
        // Nobody reads an earlier state of what is salvaged.
        source.tombstones.extend(reader.tombstones().collapsed(|_, _| true).0.tombstones());
        source.tables.push((number, Arc::new(reader)));
    }
    if let Some(database) = database {
        logs::read(&**files.fs(), dir, catalog, database, &mut sources, report);
    }
    for source in sources.values_mut() {
        source.logged.sort_unstable();
    }
    sources
}

/// The database that most of `tables` say they belong to.
fn most_common<'a>(tables: impl Iterator<Item = &'a TableReader>) -> Option<DatabaseId> {
    let mut counts: BTreeMap<[u8; 16], usize> = BTreeMap::new();
    for table in tables {
        *counts.entry(table.identity().database.0).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(database, _)| DatabaseId(database))
}

/// The entries of one table or of the logs, one block in memory.
struct Input {
    /// `None` for the logs.
    table: Option<(FileNumber, Arc<TableReader>)>,
    next_block: usize,
    rows: VecDeque<Entry>,
    /// The last key handed out.
    last: Vec<u8>,
}

/// All entries of a keyspace, by key, the newest version first.
pub(super) struct Merged<'a> {
    inputs: Vec<Input>,
    heads: BinaryHeap<Reverse<(Entry, usize)>>,
    dir: &'a Path,
    keyspace: String,
}

impl<'a> Merged<'a> {
    /// What `source` holds of the keyspace `keyspace`.
    pub(super) fn new(source: &mut Source, dir: &'a Path, keyspace: String, report: &mut Salvaged) -> Self {
        let logged = Input {
            table: None,
            next_block: 0,
            rows: std::mem::take(&mut source.logged).into(),
            last: Vec::new(),
        };
        let tables = source.tables.drain(..).map(|table| Input {
            table: Some(table),
            next_block: 0,
            rows: VecDeque::new(),
            last: Vec::new(),
        });
        let inputs = std::iter::once(logged).chain(tables).collect();
        let mut merged = Merged { inputs, heads: BinaryHeap::new(), dir, keyspace };
        for input in 0..merged.inputs.len() {
            merged.refill(input, report);
        }
        merged
    }

    /// The next entry.
    pub(super) fn next(&mut self, report: &mut Salvaged) -> Option<Entry> {
        let Reverse((entry, input)) = self.heads.pop()?;
        self.refill(input, report);
        Some(entry)
    }

    /// Whether the next entry is a version of `key`.
    pub(super) fn goes_on(&self, key: &[u8]) -> bool {
        self.heads.peek().is_some_and(|Reverse((entry, _))| entry.key == key)
    }

    /// Put the next entry of input number `nth` among the heads.
    fn refill(&mut self, nth: usize, report: &mut Salvaged) {
        let (dir, keyspace) = (self.dir, &self.keyspace);
        let Some(input) = self.inputs.get_mut(nth) else { return };
        while input.rows.is_empty() && input.read_block(dir, keyspace, report) {}
        if let Some(entry) = input.rows.pop_front() {
            input.last.clone_from(&entry.key);
            self.heads.push(Reverse((entry, nth)));
        }
    }
}

impl Input {
    /// Read the next block; whether there was one, readable or not.
    fn read_block(&mut self, dir: &Path, keyspace: &str, report: &mut Salvaged) -> bool {
        let Some((number, reader)) = &self.table else { return false };
        let block = self.next_block;
        if block >= reader.block_count() {
            return false;
        }
        self.next_block += 1;
        let rows = &mut self.rows;
        let read = reader.salvage_block(block, |key, seqno, kind, value| {
            rows.push_back(Entry { key: key.to_vec(), seqno, kind, value: value.to_vec() });
        });
        if let Err(error) = read {
            let first = if self.last.is_empty() { &reader.meta().bounds.smallest } else { &self.last };
            let end = reader.block_end(block).unwrap_or_default();
            report.losses.push(Loss {
                file: dir.join(FileName::Table(*number).to_string()),
                keyspace: Some(keyspace.to_owned()),
                keys: Some((first.clone(), end.clone())),
                what: error.to_string(),
            });
            self.last = end;
        }
        true
    }
}

impl Catalog {
    /// What the keyspace `id` is called: by its name, or by one that no other has.
    pub(super) fn name_of(&self, id: KeyspaceId) -> String {
        if let Some((name, _)) = self.keyspaces.get(&id) {
            return name.clone();
        }
        let mut invented = format!("keyspace-{}", id.0);
        while self.names.contains(&invented) {
            invented.push('_');
        }
        invented
    }

    /// Whether entries of keyspace `id` count: not if it is known to have been dropped. One that the manifest has never
    /// heard of was created in a part of it that is lost.
    pub(super) fn counts(&self, id: KeyspaceId) -> bool {
        let is_unheard_of = || self.marks.as_ref().is_none_or(|marks| id >= marks.next_keyspace);
        !self.is_complete || self.keyspaces.contains_key(&id) || is_unheard_of()
    }
}
