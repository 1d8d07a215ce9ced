//! The new database: each key's newest visible value, put into a keyspace of the same name.
//!
//! A keyspace whose merge operator is not to be had becomes one without an operator. A keyspace that names an operator keeps
//! its whole database from being opened without it; and whoever has the operator salvages the old one again, with all its rows.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use esker_base::range_tombstone::Fragments;
use esker_base::{Kind, MergeOperator, Result, SeqNo};
use esker_vfs::Env;
use esker_vfs::open_files::OpenFiles;

use super::catalog::Catalog;
use super::sources::{Entry, Merged, Source, Values, gather};
use super::{Loss, Salvaged};
use crate::batch::Batch;
use crate::database::Database;
use crate::keyspace::Keyspace;
use crate::new_directory::NewDirectory;
use crate::options::DatabaseOptions;

/// A batch is committed at this size, in bytes.
const BATCH_BYTES: usize = 1 << 20;

/// What salvage does with its target, for messages.
pub(super) const SALVAGE: &str = "salvage into";

/// Make the database `into` from what `catalog` lists in `from`.
pub(super) fn write(
    env: &Env,
    from: &Path,
    into: &Path,
    catalog: &Catalog,
    operators: Vec<Arc<dyn MergeOperator>>,
    report: &mut Salvaged,
) -> Result<()> {
    // The new database has tables of its own to read while it compacts.
    let limit = DatabaseOptions::default().open_files(env.fs.open_files_max()) / 2;
    let files = OpenFiles::new(Arc::clone(&env.fs), limit);
    let sources = gather(&files, from, catalog, report);
    let made = NewDirectory::make(&env.fs, into, SALVAGE)?;
    let mut builder = Database::builder(into).env(env.clone()).locked(made.lock());
    for operator in operators {
        builder = builder.merge_operator(operator);
    }
    let filled = builder.open().and_then(|db| {
        fill(&files, &db, from, catalog, sources, report)?;
        db.close()
    });
    if filled.is_err() {
        made.discard();
    }
    filled
}

fn fill(
    files: &Arc<OpenFiles>,
    db: &Database,
    from: &Path,
    catalog: &Catalog,
    mut sources: BTreeMap<esker_base::KeyspaceId, Source>,
    report: &mut Salvaged,
) -> Result<()> {
    let ids: BTreeSet<_> = catalog.keyspaces.keys().chain(sources.keys()).copied().collect();
    for id in ids {
        let name = catalog.name_of(id);
        let mut options =
            catalog.keyspaces.get(&id).map(|(_, options)| options.clone()).unwrap_or_default();
        let unregistered = |operator: &mut String| db.core().operators.find(operator).is_err();
        let missing = options.merge_operator.take_if(unregistered);
        let keyspace = db.keyspace(&name, options)?;
        let mut source = sources.remove(&id).unwrap_or_default();
        let tombstones = Fragments::build_newest(&std::mem::take(&mut source.tombstones));
        let merged = Merged::new(&mut source, from, name.clone(), report);
        let mut copy = Copy {
            db,
            keyspace,
            tombstones,
            batch: db.batch(),
            batch_bytes: 0,
            rows: 0,
            values: Values::new(files, from),
            unfolded: Unfolded::default(),
        };
        copy.all(merged, report)?;
        if let Some(what) = copy.unfolded.describe(missing.as_deref()) {
            let keys = copy.unfolded.keys;
            report.losses.push(Loss { file: from.to_path_buf(), keyspace: Some(name.clone()), keys, what });
        }
        report.rows.insert(name, copy.rows);
    }
    Ok(())
}

/// One keyspace on its way.
struct Copy<'a> {
    db: &'a Database,
    keyspace: Keyspace,
    tombstones: Fragments,
    batch: Batch,
    batch_bytes: usize,
    rows: u64,
    values: Values<'a>,
    unfolded: Unfolded,
}

/// The keys with operands that nobody can fold.
#[derive(Default)]
struct Unfolded {
    /// Those that have an older value, without the operands.
    older: u64,
    /// Those that have none.
    none: u64,
    /// The first and the last.
    keys: Option<(Vec<u8>, Vec<u8>)>,
}

impl Unfolded {
    /// Take note of `key`, which comes after all before it.
    fn add(&mut self, key: &[u8], has_base: bool) {
        *(if has_base { &mut self.older } else { &mut self.none }) += 1;
        match &mut self.keys {
            Some((_, last)) => *last = key.to_vec(),
            None => self.keys = Some((key.to_vec(), key.to_vec())),
        }
    }

    /// What is lost of a keyspace with the operator `missing`, or with one that is not even known by name; `None` if
    /// nothing is.
    fn describe(&self, missing: Option<&str>) -> Option<String> {
        let operator = match missing {
            Some(name) => {
                format!("its merge operator {name:?} is not registered, and the new keyspace has none")
            }
            None if self.keys.is_some() => "its merge operator is not known any more".to_owned(),
            None => return None,
        };
        let (older, none) = (self.older, self.none);
        Some(format!(
            "{operator}; of the keys with operands, {older} have an older value and {none} have none"
        ))
    }
}

impl Copy<'_> {
    fn all(&mut self, mut merged: Merged<'_>, report: &mut Salvaged) -> Result<()> {
        while let Some(newest) = merged.next(report) {
            let key = newest.key.clone();
            let covered = self.tombstones.covering(&key, SeqNo::MAX);
            // Compaction gives the oldest version of a key the number 0.
            let is_covered = |seqno: SeqNo| covered.is_some_and(|tombstone| seqno < tombstone);
            let mut operands: Vec<Vec<u8>> = Vec::new();
            let mut base = None;
            let mut open = true;
            let mut last = None;
            let mut entry = Some(newest);
            while let Some(Entry { seqno, kind, value, .. }) = entry {
                // The same write may be in a table and in a log, or in a compaction's input and output.
                let again = last.replace(seqno) == Some(seqno);
                if open && !again {
                    open = !is_covered(seqno) && kind == Kind::Merge;
                    match kind {
                        _ if is_covered(seqno) => {}
                        Kind::Merge => operands.push(value),
                        Kind::Put => base = Some(value),
                        Kind::BlobPut => {
                            base = self.values.read(&key, &value, self.keyspace.name(), report);
                            if base.is_none() {
                                // Operands on nothing would be another value.
                                operands.clear();
                            }
                        }
                        Kind::Delete | Kind::RangeDelete => {}
                    }
                }
                entry = if merged.goes_on(&key) { merged.next(report) } else { None };
            }
            self.row(&key, base.as_deref(), &operands)?;
        }
        self.commit()
    }

    /// Put one row: a base and the operands on it, newest first. Without an operator, the base alone.
    fn row(&mut self, key: &[u8], base: Option<&[u8]>, operands: &[Vec<u8>]) -> Result<()> {
        if base.is_none() && operands.is_empty() {
            return Ok(());
        }
        if !operands.is_empty() && !self.keyspace.has_operator() {
            self.unfolded.add(key, base.is_some());
        }
        let mut bytes = key.len();
        if let Some(base) = base {
            bytes += base.len();
            self.batch.put(&self.keyspace, key, base)?;
        }
        if self.keyspace.has_operator() {
            for operand in operands.iter().rev() {
                bytes += operand.len();
                self.batch.merge(&self.keyspace, key, operand)?;
            }
        } else if base.is_none() {
            return Ok(());
        }
        self.rows += 1;
        self.batch_bytes += bytes;
        if self.batch_bytes >= BATCH_BYTES { self.commit() } else { Ok(()) }
    }

    fn commit(&mut self) -> Result<()> {
        self.batch_bytes = 0;
        std::mem::replace(&mut self.batch, self.db.batch()).commit()
    }
}
