//! From the files in a directory to a version set.
//!
//! 1. Whatever is needed and is not as it was written is an error that names the file: `CURRENT` that is
//!    gone while other files are there, a manifest that is gone or damaged, edits that do not fit, a table
//!    that is gone or of another size. Tables are checked by one listing; none is opened.
//! 2. A writable open writes what it has read into a new manifest before it returns: what was read may have
//!    been in the system's memory only, and everything after this is built on it.
//! 3. A read-only open makes no call that changes anything.
//! 4. Files that nothing refers to are reported, not touched; names that no database writes are not even
//!    reported.
//!
//! Memory is bounded by a small multiple of the manifest's length, time by its length times the logarithm of
//! the number of tables, whatever the bytes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use esker_base::filename::{CURRENT, FileName};
use esker_base::{DatabaseId, Error, FileNumber, Result, SeqNo};
use esker_sstable::TableContext;
use esker_vfs::fs::{EntryKind, Fs};
use esker_wal::{LogReader, Record};

use crate::current_file::{self, Current};
use crate::directory::Directory;
use crate::edit;
use crate::limits::{FILE_NUMBER_END, KEYSPACE_ID_END, LEFT_AT_OPEN, SEQNO_END};
use crate::manifest_file::ManifestFile;
use crate::state::State;
use crate::tree_file::TreeFiles;
use crate::version::Version;
use crate::version_set::{FIRST_MANIFEST, VersionSet};

#[cfg(test)]
mod tests;

/// What recovery has found, beside the version set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// The database's id.
    pub database: DatabaseId,
    /// The newest sequence number that the manifest or a table in it names. Logs may hold newer ones.
    pub last_seqno: SeqNo,
    /// Logs with smaller numbers hold nothing that is not in tables.
    pub first_log: FileNumber,
    /// Final length in bytes of each closed log from `first_log` on: it has to be there, this long.
    pub closed_logs: BTreeMap<FileNumber, u64>,
    /// The last log and its length in bytes, if the database was closed in order.
    pub clean_close: Option<(FileNumber, u64)>,
    /// The logs in the directory, with their length in bytes.
    pub logs: BTreeMap<FileNumber, u64>,
    /// Tables, blob files, manifests and temporary files that nothing refers to, ascending by number: leftovers of jobs
    /// that a crash cut short. A database that is open for writing may remove them. Logs are not among
    /// them: compare [`Recovered::logs`] with [`Recovered::first_log`].
    pub orphans: Vec<FileName>,
    /// The manifest that was read.
    pub manifest: FileNumber,
    /// How many commits it held, its snapshot not counted.
    pub commits: u64,
    /// Whether it ended in an append that a crash had cut short, which was dropped.
    pub torn: bool,
}

impl VersionSet {
    /// Open the database in `dir`, which is locked unless `read_only`. `context` says how tables are opened
    /// once it is known which database this is. `accept` is shown what was read before anything is written.
    ///
    /// # Errors
    /// [`Error::NotADatabase`] if there is none; [`Error::MissingFile`] and [`Error::Corruption`]
    /// naming the file; [`Error::FormatTooNew`]; [`Error::Io`]; what `accept` errs with.
    pub fn recover(
        fs: &Arc<dyn Fs>,
        dir: &Path,
        context: impl FnOnce(DatabaseId) -> TableContext,
        accept: impl FnOnce(&Version) -> Result<()>,
        read_only: bool,
    ) -> Result<(VersionSet, Recovered)> {
        let directory = Directory::list(&**fs, dir)?;
        if !directory.has_current {
            return Err(if directory.is_unborn(FIRST_MANIFEST) {
                let why = "it holds no CURRENT and no other file of a database".to_owned();
                Error::NotADatabase { path: dir.to_path_buf(), why }
            } else {
                current_is_missing(dir)
            });
        }
        let current = current_file::read(&**fs, dir)?;
        let files = TreeFiles::new(context(current.database));
        let mut replay = Replay::new(dir, &current, State::new(Arc::clone(&files)));
        replay.read(&**fs, &directory)?;
        check_files(dir, &replay.state, &directory)?;
        let last_seqno = replay.check_room()?;
        let version = replay.state.publish();
        accept(&version)?;
        let marks = replay.state.marks();
        let recovered = Recovered {
            database: current.database,
            last_seqno,
            first_log: marks.first_log,
            closed_logs: marks.closed_logs.clone(),
            clean_close: marks.clean_close,
            orphans: orphans(&replay.state, &directory, current.manifest),
            manifest: current.manifest,
            commits: replay.commits,
            torn: replay.torn,
            logs: directory.logs,
        };
        let above = directory.greatest.max(current.manifest.0);
        let first_free = replay.state.first_free_number().max(FileNumber(above + 1));
        let read = (current, replay.len);
        let state = (replay.state, version);
        let set = VersionSet::recovered(fs, dir, read, files, state, first_free, read_only)?;
        Ok((set, recovered))
    }
}

/// The error for a directory that holds files of a database, but no `CURRENT`.
pub(crate) fn current_is_missing(dir: &Path) -> Error {
    let why = "the directory holds other files of a database, and it says which of them are in force";
    Error::MissingFile { path: dir.join(CURRENT), why: why.to_owned() }
}

/// A manifest on its way into a state.
struct Replay {
    path: std::path::PathBuf,
    current: Current,
    state: State,
    /// The tag that the next record has to have.
    records: u64,
    commits: u64,
    torn: bool,
    /// Where its last record ends, in bytes.
    len: u64,
}

impl Replay {
    fn new(dir: &Path, current: &Current, state: State) -> Replay {
        let path = dir.join(FileName::Manifest(current.manifest).to_string());
        Replay { path, current: *current, state, records: 0, commits: 0, torn: false, len: 0 }
    }

    fn read(&mut self, fs: &dyn Fs, directory: &Directory) -> Result<()> {
        if !directory.manifests.contains(&self.current.manifest) {
            let why = "CURRENT names it as the manifest in force".to_owned();
            return Err(Error::MissingFile { path: self.path.clone(), why });
        }
        let identity = ManifestFile::identity(self.current.database, self.current.manifest);
        let mut reader = LogReader::open(fs, &self.path, identity, None)?;
        while let Some(record) = reader.next()? {
            self.record(&record)?;
        }
        let tail = reader.tail();
        self.torn = tail.torn;
        self.len = tail.valid_len;
        if self.records == 0 {
            let what = "its first record, a snapshot of everything, does not read";
            return Err(Error::corruption(&self.path, tail.valid_len, what));
        }
        Ok(())
    }

    fn record(&mut self, record: &Record<'_>) -> Result<()> {
        let damaged = |what: String| Error::corruption(&self.path, record.offset, what);
        if record.tag != self.records {
            return Err(damaged(format!(
                "record {} stands where record {} belongs",
                record.tag, self.records
            )));
        }
        if !record.payload.is_empty() {
            self.state.begin();
            for edit in edit::decode(record.payload) {
                let edit = edit.map_err(|error| {
                    damaged(format!("{} at byte {} of record {}", error.what, error.at, record.tag))
                })?;
                self.state
                    .apply(edit)
                    .map_err(|misfit| damaged(format!("record {} does not fit: {misfit}", record.tag)))?;
            }
            self.state.settle();
            self.commits += u64::from(self.records > 0);
        }
        self.records += 1;
        Ok(())
    }

    /// Whether there are numbers left for a long life; the newest sequence number known.
    fn check_room(&self) -> Result<SeqNo> {
        let marks = self.state.marks();
        let in_tables = self.state.tables().map(|table| table.meta.largest_seqno).max();
        let last_seqno = marks.last_seqno.max(in_tables.unwrap_or_default());
        let room = last_seqno.0 < SEQNO_END.0 / LEFT_AT_OPEN
            && self.state.first_free_number().0 < FILE_NUMBER_END / LEFT_AT_OPEN
            && u64::from(marks.next_keyspace.0) < u64::from(KEYSPACE_ID_END) / LEFT_AT_OPEN
            && self.current.manifest.0 < FILE_NUMBER_END / LEFT_AT_OPEN;
        if room {
            return Ok(last_seqno);
        }
        Err(Error::corruption(&self.path, 0, "its numbers are beyond those of every database"))
    }
}

/// Check that every live table, and every blob file that one refers to, is there and has its length.
fn check_files(dir: &Path, state: &State, directory: &Directory) -> Result<()> {
    for table in state.tables() {
        let found = directory.tables.get(&table.number());
        let what = || format!("it holds keys of keyspace {}", table.meta.keyspace.0);
        check_file(dir, FileName::Table(table.number()), found, table.meta.file_bytes, what)?;
    }
    for blob in state.blobs() {
        let found = directory.blobs.get(&blob.number());
        let what = || format!("it holds values of keyspace {}", blob.meta.keyspace.0);
        check_file(dir, FileName::Blob(blob.number()), found, blob.meta.file_bytes, what)?;
    }
    Ok(())
}

fn check_file(
    dir: &Path,
    name: FileName,
    found: Option<&(EntryKind, u64)>,
    written: u64,
    why: impl Fn() -> String,
) -> Result<()> {
    let path = || dir.join(name.to_string());
    match found {
        None => Err(Error::MissingFile { path: path(), why: why() }),
        Some((kind, _)) if *kind != EntryKind::File => {
            Err(Error::corruption(path(), 0, "it is no regular file"))
        }
        Some((_, len)) if *len != written => {
            let what = format!("it is {len} bytes long, and was written with {written}");
            Err(Error::corruption(path(), (*len).min(written), what))
        }
        Some(_) => Ok(()),
    }
}

/// Files in the directory that nothing refers to.
fn orphans(state: &State, directory: &Directory, manifest: FileNumber) -> Vec<FileName> {
    let mut orphans: Vec<(FileNumber, FileName)> = Vec::new();
    let unreferenced = directory
        .tables
        .iter()
        .filter(|(number, (kind, _))| *kind == EntryKind::File && !state.has_table(**number));
    orphans.extend(unreferenced.map(|(&number, _)| (number, FileName::Table(number))));
    let unreferenced = directory
        .blobs
        .iter()
        .filter(|(number, (kind, _))| *kind == EntryKind::File && !state.has_blob(**number));
    orphans.extend(unreferenced.map(|(&number, _)| (number, FileName::Blob(number))));
    let manifests = directory.manifests.iter().filter(|&&number| number != manifest);
    orphans.extend(manifests.map(|&number| (number, FileName::Manifest(number))));
    orphans.extend(directory.temporaries.iter().map(|&number| (number, FileName::Temporary(number))));
    orphans.sort_by_key(|(number, _)| *number);
    orphans.into_iter().map(|(_, name)| name).collect()
}
