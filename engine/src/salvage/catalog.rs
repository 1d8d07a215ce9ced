//! What there is to salvage: whose the directory is, its keyspaces, the tables and logs that count.
//!
//! A manifest is read as far as it goes. If it reads to its end and is the one in force, the tables are those it names,
//! and the logs those that it has not forgotten. If not, the tables are all those in the directory but for the ones that
//! the readable part removes, and the logs all but those that it forgets: a compaction may have replaced some of the
//! tables, and what is in a log may have been deleted since, tombstone and all, which is reported.
//!
//! Which manifest is in force, `CURRENT` says. Where that does not read, a manifest counts as the one in force if there is
//! no other and the tables in the directory are those that it tells of. Beside others the newest is read, and not trusted: it may never have
//! come into force, and tell of a commit that was given up, while an older one went on. One whose header does not check is no
//! manifest yet.
//!
//! Whose the directory is, `CURRENT` says, or else the newest manifest whose header checks, or else the oldest log of which that
//! is so. Where none is, the tables decide, when they are read.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use esker_base::filename::{CURRENT, FileName};
use esker_base::table_meta::TableMeta;
use esker_base::{DatabaseId, FileNumber, KeyspaceId, Result};
use esker_manifest::current_file;
use esker_manifest::limits::may_be_ours;
use esker_manifest::{Edit, Marks, edit};
use esker_vfs::fs::{EntryKind, Fs, read_exact_at};
use esker_wal::header::{HEADER_LEN, database_of};
use esker_wal::{LogIdentity, LogKind, LogReader};

use super::Salvaged;
use crate::options::KeyspaceOptions;
use crate::recovery::chain::Chain;

/// See the module.
#[derive(Default)]
pub(super) struct Catalog {
    /// The database, if anything says but its tables.
    pub(super) database: Option<DatabaseId>,
    /// Names and options by id, as far as known.
    pub(super) keyspaces: BTreeMap<KeyspaceId, (String, KeyspaceOptions)>,
    /// These names.
    pub(super) names: BTreeSet<String>,
    /// Whether `keyspaces`, `tables` and `logs` are all there are, and in force: entries of other keyspaces belong to
    /// dropped ones, and no write is in a table and in a log.
    pub(super) is_complete: bool,
    /// The tables to read, with their description if the manifest has it.
    pub(super) tables: BTreeMap<FileNumber, Option<TableMeta>>,
    /// What the manifest says of the logs, if it reads to its end and is the one in force.
    pub(super) marks: Option<Marks>,
    /// The logs to read.
    pub(super) logs: BTreeSet<FileNumber>,
}

/// What the readable part of a manifest says.
#[derive(Default)]
struct Told {
    keyspaces: BTreeMap<KeyspaceId, (String, Vec<u8>)>,
    /// Their names.
    names: BTreeSet<String>,
    tables: BTreeMap<FileNumber, TableMeta>,
    removed: BTreeSet<FileNumber>,
    marks: Marks,
    /// Whether it was read to its end.
    whole: bool,
}

/// Why a manifest may be the one in force.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// `CURRENT` names it.
    Named,
    /// There is no other, and `CURRENT` does not read.
    Alone,
    /// It is the newest, and `CURRENT` does not read.
    Newest,
}

impl Told {
    /// Apply one edit, or say why it does not fit.
    fn apply(&mut self, edit: Edit) -> std::result::Result<(), String> {
        self.marks.apply(&edit)?;
        match edit {
            Edit::DropKeyspace { id } => {
                if let Some((name, _)) = self.keyspaces.remove(&id) {
                    self.names.remove(&name);
                }
                let dropped = self.tables.extract_if(.., |_, meta| meta.keyspace == id);
                self.removed.extend(dropped.map(|(number, _)| number));
            }
            Edit::CreateKeyspace { id, name, options } => {
                let next = KeyspaceId(id.0.saturating_add(1));
                self.marks.next_keyspace = self.marks.next_keyspace.max(next);
                if !self.names.insert(name.clone()) {
                    return Err(format!("there is a keyspace {name:?} already"));
                }
                self.keyspaces.insert(id, (name, options));
            }
            Edit::RemoveTable { number, .. } => {
                self.tables.remove(&number);
                self.removed.insert(number);
            }
            Edit::AddTable { meta, .. } => {
                self.removed.remove(&meta.number);
                self.tables.insert(meta.number, meta);
            }
            _ => {}
        }
        Ok(())
    }
}

impl Catalog {
    /// Find out what is in `dir`; what is wrong with `CURRENT` and the manifest goes into `report`.
    ///
    /// # Errors
    /// [`Error::Io`](esker_base::Error::Io) if the directory cannot be listed.
    pub(super) fn read(fs: &dyn Fs, dir: &Path, report: &mut Salvaged) -> Result<Catalog> {
        let mut catalog = Catalog::default();
        let mut manifests = BTreeSet::new();
        let mut in_directory = BTreeSet::new();
        for entry in fs.list(dir)?.into_iter().filter(|entry| entry.kind == EntryKind::File) {
            match FileName::parse(&entry.name) {
                Some(FileName::Table(number)) => drop(in_directory.insert(number)),
                Some(FileName::Log(number)) if may_be_ours(number) => drop(catalog.logs.insert(number)),
                Some(FileName::Manifest(number)) => drop(manifests.insert(number)),
                _ => {}
            }
        }
        let current = current_file::read(fs, dir);
        let current = current.inspect_err(|error| report.lose(dir, FileName::Current, error)).ok();
        let standing = match (current, manifests.len()) {
            (Some(_), _) => Standing::Named,
            (None, 1) => Standing::Alone,
            (None, _) => Standing::Newest,
        };
        let mut found = current.map(|current| (current.database, current.manifest));
        // Without CURRENT, the newest manifest: an older one is left over only by a crash.
        for &number in manifests.iter().rev() {
            if found.is_some() {
                break;
            }
            let name = FileName::Manifest(number);
            found = id_in_log(fs, dir, name).map(|database| (database, number));
            if found.is_none() {
                report.lose(dir, name, "its header does not check");
            }
        }
        let in_logs = || catalog.logs.iter().find_map(|log| id_in_log(fs, dir, FileName::Log(*log)));
        catalog.database = found.map(|(database, _)| database).or_else(in_logs);
        let mut told = Told::default();
        if let Some((database, number)) = found {
            let identity = LogIdentity { database, number, kind: LogKind::Manifest };
            match read_manifest(fs, dir, identity, &mut told) {
                Ok(()) => told.whole = true,
                Err(error) => report.lose(dir, FileName::Manifest(number), error),
            }
        } else if manifests.is_empty() {
            report.losses.push(super::Loss {
                file: dir.join(CURRENT),
                keyspace: None,
                keys: None,
                what: "there is no manifest: keyspaces have lost their names and options".to_owned(),
            });
        }
        catalog.trust(fs, dir, &told, standing, &in_directory);
        catalog.take(told, &in_directory, dir, report);
        Ok(catalog)
    }

    /// Decide how far what a manifest `told` holds, and drop the logs that it has forgotten.
    fn trust(
        &mut self,
        fs: &dyn Fs,
        dir: &Path,
        told: &Told,
        standing: Standing,
        in_directory: &BTreeSet<FileNumber>,
    ) {
        let Some(database) = self.database else { return };
        let in_force = match standing {
            Standing::Named => true,
            // It is an older one, or was never in force, only if the one that was is gone as well: then a compaction
            // has most likely replaced a table of it, or the commit that it tells of was given up with its tables.
            // And one that has lost its end unnoticed does not tell of what was made since.
            Standing::Alone => {
                let is_told =
                    |table: &FileNumber| told.tables.contains_key(table) || told.removed.contains(table);
                told.whole
                    && told.tables.keys().all(|table| in_directory.contains(table))
                    && in_directory.iter().all(is_told)
            }
            Standing::Newest => false,
        };
        if !in_force {
            return;
        }
        // What was forgotten stays so, also where the rest of the manifest does not read. The file of such a log may be
        // there still, kept to be written over: its writes are in tables, and merges among them would count twice.
        self.logs.retain(|number| *number >= told.marks.first_log);
        if !told.whole {
            return;
        }
        let logs: Vec<FileNumber> = self.logs.iter().copied().collect();
        let chain = Chain { fs, dir, database, marks: &told.marks };
        // A log that is missed may have been forgotten by a later manifest, which is gone: what else that named is read.
        self.is_complete = standing == Standing::Named || chain.absent(&logs).is_empty();
        self.marks = Some(told.marks.clone());
    }

    fn take(&mut self, told: Told, in_directory: &BTreeSet<FileNumber>, dir: &Path, report: &mut Salvaged) {
        self.names = told.names;
        for (id, (name, options)) in told.keyspaces {
            let mut options = KeyspaceOptions::decode(&options).unwrap_or_else(|what| {
                let what =
                    format!("the options of keyspace {name} do not read ({what}): defaults were taken");
                report.lose(dir, FileName::Current, what);
                KeyspaceOptions::default()
            });
            if options.wants_missing_codec() {
                options.compression = KeyspaceOptions::default().compression;
                let what = format!(
                    "keyspace {name} is compressed with zstd, which this build lacks: the new one is not compressed, and rows in \
                     such blocks are missing; to have them, build with the feature `zstd` and salvage again"
                );
                report.lose(dir, FileName::Current, what);
            }
            self.keyspaces.insert(id, (name, options));
        }
        if self.is_complete {
            self.tables = told.tables.into_iter().map(|(number, meta)| (number, Some(meta))).collect();
            return;
        }
        let described = told.tables.keys().copied().collect::<BTreeSet<FileNumber>>();
        let mut descriptions = told.tables;
        let all = in_directory.union(&described).filter(|number| !told.removed.contains(number));
        self.tables = all.map(|number| (*number, descriptions.remove(number))).collect();
        if !self.tables.is_empty() || !self.logs.is_empty() {
            let what = "it does not say which tables and logs are in force: all were read, among them perhaps tables \
                        that a compaction had replaced and logs whose writes are in tables, so that deleted rows may be \
                        back, rows be missing that were put again after a deletion, or be older than they were, and \
                        operands of merges count twice";
            report.lose(dir, FileName::Current, what);
        }
    }

    /// Whether there is nothing to read at all.
    pub(super) fn is_empty(&self) -> bool {
        self.keyspaces.is_empty() && self.tables.is_empty() && self.logs.is_empty()
    }
}

/// Read the manifest `identity` into `told`, up to the first thing wrong with it.
fn read_manifest(fs: &dyn Fs, dir: &Path, identity: LogIdentity, told: &mut Told) -> Result<()> {
    let path = dir.join(identity.file_name().to_string());
    let mut reader = LogReader::open(fs, &path, identity, None)?;
    let mut records = 0;
    while let Some(record) = reader.next()? {
        if !record.payload.is_empty() {
            told.marks.begin();
        }
        for edit in edit::decode(record.payload) {
            let edit = edit.map_err(|error| {
                let at = record.offset.saturating_add(error.at as u64);
                esker_base::Error::corruption(&path, at, format!("bad {}", error.what))
            })?;
            told.apply(edit).map_err(|misfit| {
                let what = format!("its edits do not fit: {misfit}");
                esker_base::Error::corruption(&path, record.offset, what)
            })?;
        }
        records += 1;
    }
    if records == 0 {
        return Err(esker_base::Error::corruption(&path, 0, "its first record does not read"));
    }
    Ok(())
}

/// The database that the header of the log or manifest `name` names, if it checks.
fn id_in_log(fs: &dyn Fs, dir: &Path, name: FileName) -> Option<DatabaseId> {
    let file = fs.open(&dir.join(name.to_string())).ok()?;
    database_of(&read_exact_at(&*file, 0, HEADER_LEN).ok()?)
}
