//! The version set: the version in force, the numbers in use, and the one way to change either.
//!
//! **What holds**
//! 1. A commit that returned Ok is durable, and every later open finds it. One that returned
//!    [`Error::Aborted`] is not in force and never will be. One that returned [`Error::InDoubt`] is in force
//!    after the next open or not; from then on every commit is refused ([`Error::Poisoned`]), and nobody
//!    may remove a file that either outcome needs.
//! 2. Whatever happens to commits, [`VersionSet::current`] goes on serving the last version that is in
//!    force.
//! 3. **No file number is used twice.** The manifest holds a mark: no number from it on was ever handed out.
//!    [`VersionSet::allocate`] counts up to the mark without touching the disk and has the mark moved,
//!    durably, before it goes beyond; commits move it along while they are at it, so that this is rare.
//!    Recovery counts on from the mark (or from the greatest number it has met in the manifest or in the
//!    directory, should that be greater). So a number that was handed out before a crash lies below every
//!    number handed out after it, whether or not its file, or the removal of its file, survived. Two things
//!    are outside of the mark, and covered by the directory's names: a number handed out although the
//!    manifest could not be written (nothing can be committed then), and the number of a manifest that a
//!    crash kept from coming into force (it never held anything that anybody was told).
//!
//! **Order of a commit**, each step durable before the next:
//! 1. if it adds tables or blob files, or says from which log on logs are needed: the directory is synced, so that the
//!    names of those files and of that log are durable; their content is, from whoever wrote them;
//! 2. the record is appended to the manifest, and synced;
//! 3. the new version is installed, and tables and blob files that it does not hold are marked obsolete.
//!
//! **When a step fails**
//! - the directory's sync: the commit is aborted and the set is poisoned, for a later Ok of the same call
//!   would prove nothing;
//! - the write, and the log has taken it back: the commit is aborted; the next one may try;
//! - the write otherwise, or the sync: the record's fate is open. Once, within the same call, the manifest is
//!   superseded: a new one, whose snapshot holds the commit, is written, synced and put into force. If that
//!   fails as well, the commit is in doubt.
//!
//! **Order of a rewrite** (when the manifest outgrows its content, after a failure, and at every writable
//! open): new manifest with a snapshot, synced → directory synced → `CURRENT` replaced, directory synced →
//! old manifest removed. A failure before `CURRENT` was renamed leaves the old one in force.
//!
//! **Threads and locks**: any thread. `committer` is held through a commit, I/O included; it serialises
//! commits and nothing else. `current` is a pointer that is swapped; readers never wait. The lock in
//! `TreeFiles` is a leaf.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use esker_base::filename::{CURRENT, FileName};
use esker_base::sync::atomic::{AtomicU64, Ordering};
use esker_base::sync::{ArcSwap, Mutex};
use esker_base::{DatabaseId, Error, FileNumber, Result};
use esker_sstable::TableContext;
use esker_vfs::fs::Fs;
use esker_wal::LogReader;

use crate::checkpoint::put_into_force;
use crate::current_file::{self, Current};
use crate::directory::Directory;
use crate::edit::{self, Edit};
use crate::limits::KEYSPACES_MAX;
use crate::manifest_file::{AppendFailure, ManifestFile};
use crate::state::State;
use crate::tree_file::TreeFiles;
use crate::version::Version;

#[cfg(test)]
mod tests;

/// How many file numbers the mark is moved by.
const NUMBERS_RESERVED: u64 = 256;

/// The manifest of a new database.
pub(crate) const FIRST_MANIFEST: FileNumber = FileNumber(1);

/// The version in force, and the way to the next. See the module.
pub struct VersionSet {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    database: DatabaseId,
    files: Arc<TreeFiles>,
    current: ArcSwap<Version>,
    /// The next file number.
    next_file: AtomicU64,
    /// Numbers below this are reserved by the manifest in force.
    reserved: AtomicU64,
    /// `None` in a database that was opened for reading only.
    committer: Option<Mutex<Committer>>,
    /// The manifest that recovery has read, and the end of its last record; 0 for a new database.
    read: (FileNumber, u64),
}

/// What only the commit under way touches.
struct Committer {
    state: State,
    /// The manifest in force.
    manifest: InForce,
    /// Why no commit is taken any more.
    poisoned: Option<Error>,
}

/// The manifest that `CURRENT` names.
enum InForce {
    /// As recovery read it: nothing was re-synced, so it is superseded before it takes a record.
    Read(FileNumber),
    /// As this handle wrote it.
    Written(Box<ManifestFile>),
}

impl InForce {
    fn number(&self) -> FileNumber {
        match self {
            InForce::Read(number) => *number,
            InForce::Written(manifest) => manifest.number(),
        }
    }
}

/// How a commit failed.
struct Failure {
    cause: Error,
    /// Whether the next open may find it in force.
    in_doubt: bool,
    /// Whether commits end here. Always, if in doubt.
    fatal: bool,
}

impl Failure {
    fn aborted(cause: Error) -> Failure {
        Failure { cause, in_doubt: false, fatal: false }
    }

    fn fatal(cause: Error) -> Failure {
        Failure { cause, in_doubt: false, fatal: true }
    }

    fn in_doubt(cause: Error) -> Failure {
        Failure { cause, in_doubt: true, fatal: true }
    }
}

impl VersionSet {
    /// Make a new database in `dir`, which exists and is locked: its first manifest, and `CURRENT`. What is
    /// left of a creation that a crash cut short is replaced.
    ///
    /// `context` says how tables are opened; its directory and database are these.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if there is a database; [`Error::MissingFile`] if there are files
    /// of one whose `CURRENT` is gone; [`Error::Io`].
    pub fn create(
        fs: &Arc<dyn Fs>,
        dir: &Path,
        database: DatabaseId,
        context: TableContext,
    ) -> Result<VersionSet> {
        let directory = Directory::list(&**fs, dir)?;
        if directory.has_current {
            return Err(Error::invalid(format!("{} holds a database already", dir.display())));
        }
        if !directory.is_unborn(FIRST_MANIFEST) {
            return Err(crate::recovery::current_is_missing(dir));
        }
        if !directory.manifests.is_empty() {
            fs.remove(&dir.join(FileName::Manifest(FIRST_MANIFEST).to_string()))?;
        }
        let files = TreeFiles::new(context);
        let mut state = State::new(Arc::clone(&files));
        let first_free = FileNumber(FIRST_MANIFEST.0.max(directory.greatest) + 1);
        let reserved = FileNumber(first_free.0 + NUMBERS_RESERVED);
        state.begin();
        state.apply(Edit::NextFile(reserved)).expect("a new database takes any mark");
        state.settle();
        let version = state.publish();
        let manifest = put_into_force(&**fs, dir, database, FIRST_MANIFEST, &version)?;
        let manifest = InForce::Written(Box::new(manifest));
        let committer = Committer { state, manifest, poisoned: None };
        Ok(VersionSet::new(fs, dir, database, files, version, first_free, Some(committer)))
    }

    fn new(
        fs: &Arc<dyn Fs>,
        dir: &Path,
        database: DatabaseId,
        files: Arc<TreeFiles>,
        version: Version,
        first_free: FileNumber,
        committer: Option<Committer>,
    ) -> VersionSet {
        VersionSet {
            fs: Arc::clone(fs),
            dir: dir.to_path_buf(),
            database,
            files,
            reserved: AtomicU64::new(version.marks.next_file.0),
            current: ArcSwap::from_pointee(version),
            next_file: AtomicU64::new(first_free.0),
            committer: committer.map(Mutex::new),
            read: (FIRST_MANIFEST, 0),
        }
    }

    /// What recovery has read becomes a version set. If it may write, the manifest it was read from is
    /// superseded before anything is built on it: what was read may have been in memory only.
    pub(crate) fn recovered(
        fs: &Arc<dyn Fs>,
        dir: &Path,
        (current, len): (Current, u64),
        files: Arc<TreeFiles>,
        (state, version): (State, Version),
        first_free: FileNumber,
        read_only: bool,
    ) -> Result<VersionSet> {
        let (database, read) = (current.database, (current.manifest, len));
        if read_only {
            let set = VersionSet::new(fs, dir, database, files, version, first_free, None);
            return Ok(VersionSet { read, ..set });
        }
        let committer = Committer { state, manifest: InForce::Read(current.manifest), poisoned: None };
        let set = VersionSet::new(fs, dir, database, files, version, first_free, Some(committer));
        let set = VersionSet { read, ..set };
        set.with_committer(|committer| set.commit_edits(committer, Vec::new()))?;
        Ok(set)
    }

    /// How its tables and blob files are opened.
    pub fn table_context(&self) -> &TableContext {
        self.files.context()
    }

    /// The version in force. Costs two atomic operations; whoever reads much keeps it.
    #[inline]
    pub fn current(&self) -> Arc<Version> {
        self.current.load_full()
    }

    /// The database's id.
    pub fn database(&self) -> DatabaseId {
        self.database
    }

    /// Tables and blob files that are in no version that anybody holds, each handed out once: they may be removed.
    pub fn take_garbage(&self) -> Vec<FileName> {
        self.files.take_garbage()
    }

    /// A file number that was never used and never will be again, also after a crash. See rule 3 of the
    /// module. Nearly always without I/O; not to be called inside of [`VersionSet::commit_with`].
    pub fn allocate(&self) -> FileNumber {
        let number = self.next_file.fetch_add(1, Ordering::SeqCst);
        if number >= self.reserved.load(Ordering::SeqCst)
            && let Some(committer) = &self.committer
        {
            let mut committer = committer.lock();
            if committer.poisoned.is_none() && number >= self.reserved.load(Ordering::SeqCst) {
                // If this fails, the number is protected only by the names in the directory: see rule 3.
                let _ = self.commit_edits(&mut committer, Vec::new());
            }
        }
        FileNumber(number)
    }

    /// Make `edits` take effect together, durably, and install the version they lead to.
    ///
    /// Tables that are added are complete and synced; their names become durable here. Marks of numbers
    /// ([`Edit::NextFile`], [`Edit::NextKeyspace`]) are written by the set itself. An empty list changes
    /// nothing and writes nothing.
    ///
    /// Panics, changing nothing, if an edit does not fit the version in force (see `FORMAT.md`). Where that
    /// depends on what others commit meanwhile, use [`VersionSet::commit_with`].
    ///
    /// # Errors
    /// See the module; [`Error::ReadOnly`]; [`Error::InvalidArgument`] for more than
    /// [`KEYSPACES_MAX`] keyspaces.
    pub fn commit(&self, edits: Vec<Edit>) -> Result<Arc<Version>> {
        self.commit_with(|_| Ok(edits))
    }

    /// As [`VersionSet::commit`], with edits that `build` makes from the version they will be applied to:
    /// nothing is committed between. If `build` errs, that is the result and nothing has happened.
    ///
    /// `build` does no I/O and does not call the set.
    pub fn commit_with(&self, build: impl FnOnce(&Version) -> Result<Vec<Edit>>) -> Result<Arc<Version>> {
        self.with_committer(|committer| {
            let edits = build(&self.current.load())?;
            if edits.is_empty() {
                return Ok(());
            }
            assert!(
                !edits.iter().any(|edit| matches!(edit, Edit::NextFile(_) | Edit::NextKeyspace(_))),
                "the version set writes the marks of numbers by itself"
            );
            check_keyspace_count(committer.state.keyspace_count(), &edits)?;
            self.commit_edits(committer, edits)
        })?;
        Ok(self.current())
    }

    /// Read `CURRENT` and the manifest in force again, up to the end of its last record, and check that
    /// they say what they said. Returns how many bytes that were.
    ///
    /// # Errors
    /// [`Error::Corruption`] and [`Error::MissingFile`] naming the file; [`Error::Io`].
    pub fn verify(&self) -> Result<u64> {
        loop {
            let in_force = self.in_force();
            match self.verify_manifest(in_force) {
                // It was superseded meanwhile.
                Err(_) if self.in_force().0 != in_force.0 => {}
                outcome => return outcome,
            }
        }
    }

    /// The manifest in force, and how many bytes of it are written.
    fn in_force(&self) -> (FileNumber, u64) {
        let Some(committer) = &self.committer else { return self.read };
        match &committer.lock().manifest {
            InForce::Read(_) => self.read,
            InForce::Written(manifest) => (manifest.number(), manifest.written()),
        }
    }

    fn verify_manifest(&self, (number, len): (FileNumber, u64)) -> Result<u64> {
        let current = self.dir.join(CURRENT);
        let missing = |path: &Path, error: Error| {
            if !error.is_not_found() {
                return error;
            }
            Error::MissingFile { path: path.to_path_buf(), why: "an open needs it".to_owned() }
        };
        let named = current_file::read(&*self.fs, &self.dir).map_err(|error| missing(&current, error))?;
        if named != (Current { database: self.database, manifest: number }) {
            return Err(Error::corruption(current, 0, format!("it does not name manifest {number}")));
        }
        let path = self.path(FileName::Manifest(number));
        let identity = ManifestFile::identity(self.database, number);
        let reader = LogReader::open(&*self.fs, &path, identity, Some(len));
        let mut reader = reader.map_err(|error| missing(&path, error))?;
        while reader.next()?.is_some() {}
        Ok(len.saturating_add(named.encode().len() as u64))
    }

    /// Why no commit is taken any more, if none is. Waits for a commit under way.
    pub fn poisoned(&self) -> Option<Error> {
        self.committer.as_ref()?.lock().poisoned.clone()
    }

    /// Wait for the commit under way, if there is one, and refuse all later ones with `why`
    /// ([`Error::Poisoned`]): the directory is about to be unlocked.
    pub fn close(&self, why: Error) {
        if let Some(committer) = &self.committer {
            committer.lock().poisoned.get_or_insert(why);
        }
    }

    fn with_committer(&self, action: impl FnOnce(&mut Committer) -> Result<()>) -> Result<()> {
        let mut committer = self.committer.as_ref().ok_or(Error::ReadOnly)?.lock();
        if let Some(cause) = &committer.poisoned {
            return Err(Error::Poisoned { cause: Box::new(cause.clone()) });
        }
        action(&mut committer)
    }

    /// Commit `edits` and a mark of numbers.
    fn commit_edits(&self, committer: &mut Committer, mut edits: Vec<Edit>) -> Result<()> {
        edits.extend(self.next_mark(&edits));
        edits.sort_by_key(Edit::kind);
        let outcome = self.apply(committer, &edits);
        // Commits alone move the mark; after one that failed it is where it was.
        self.reserved.store(committer.state.marks().next_file.0, Ordering::SeqCst);
        outcome.map_err(|failure| {
            let cause = Box::new(failure.cause);
            if failure.fatal {
                committer.poisoned = Some((*cause).clone());
            }
            if failure.in_doubt { Error::InDoubt { cause } } else { Error::Aborted { cause } }
        })
    }

    /// Where the mark of numbers is to be after a commit of `edits`, if elsewhere than it is.
    fn next_mark(&self, edits: &[Edit]) -> Option<Edit> {
        if edits.iter().any(|edit| matches!(edit, Edit::CleanClose { .. })) {
            // Nothing is handed out after a clean close, so nothing need be skipped at the next open.
            // Whoever asks for a number from here on all the same waits for this commit, and moves the mark
            // again.
            self.reserved.store(0, Ordering::SeqCst);
            return Some(Edit::NextFile(FileNumber(self.next_file.load(Ordering::SeqCst))));
        }
        let next = self.next_file.load(Ordering::SeqCst);
        let left = self.reserved.load(Ordering::SeqCst).saturating_sub(next);
        (left < NUMBERS_RESERVED / 2).then_some(Edit::NextFile(FileNumber(next + NUMBERS_RESERVED)))
    }

    /// Apply, write, install.
    fn apply(&self, committer: &mut Committer, edits: &[Edit]) -> Result<(), Failure> {
        committer.state.begin();
        for edit in edits {
            if let Err(why) = committer.state.apply(edit.clone()) {
                committer.state.undo();
                panic!("an edit does not fit the version in force: {why} ({edit:?})");
            }
        }
        let mut version = committer.state.publish();
        if let Err(failure) = self.write(committer, edits, &mut version) {
            committer.state.undo();
            return Err(failure);
        }
        let departed = committer.state.settle();
        let before = self.current.swap(Arc::new(version));
        for table in &departed.tables {
            table.mark_obsolete();
        }
        for blob in &departed.blobs {
            blob.mark_obsolete();
        }
        // Only now may the last references to departed tables go.
        drop(before);
        Ok(())
    }

    /// Make `edits`, which lead to `version`, durable.
    fn write(
        &self,
        committer: &mut Committer,
        edits: &[Edit],
        version: &mut Version,
    ) -> Result<(), Failure> {
        if needs_names(edits) {
            self.fs.sync_dir(&self.dir).map_err(Failure::fatal)?;
        }
        let takes_records = match &committer.manifest {
            InForce::Written(manifest) if manifest.takes_records() => {
                if !manifest.outgrown() {
                    return self.append(committer, edits, version);
                }
                true
            }
            _ => false,
        };
        match self.rewrite(committer, version) {
            Err(failure) if takes_records && !failure.fatal => {
                if let InForce::Written(manifest) = &mut committer.manifest {
                    manifest.put_off_rewriting();
                }
                self.append(committer, edits, version)
            }
            outcome => outcome,
        }
    }

    /// Append `edits` to the manifest in force; if that leaves their fate open, supersede it.
    fn append(
        &self,
        committer: &mut Committer,
        edits: &[Edit],
        version: &mut Version,
    ) -> Result<(), Failure> {
        let InForce::Written(manifest) = &mut committer.manifest else {
            return self.rewrite(committer, version);
        };
        match manifest.append(&edit::encode(edits)) {
            Ok(()) => Ok(()),
            Err(AppendFailure::Absent(cause)) => Err(Failure::aborted(cause)),
            // The first cause is the one to report.
            Err(AppendFailure::Unknown(cause)) => {
                self.rewrite(committer, version).map_err(|_| Failure::in_doubt(cause))
            }
        }
    }

    /// Put a new manifest into force whose snapshot is `version`.
    fn rewrite(&self, committer: &mut Committer, version: &mut Version) -> Result<(), Failure> {
        let number = FileNumber(self.next_file.fetch_add(1, Ordering::SeqCst));
        if number >= version.marks.next_file {
            let mark = FileNumber(number.0 + 1);
            committer.state.move_mark(mark);
            version.marks.next_file = mark;
        }
        let snapshot = edit::encode(&version.snapshot());
        let created = ManifestFile::create(&*self.fs, &self.dir, self.database, number, &snapshot);
        let manifest = created.map_err(Failure::aborted)?;
        self.fs.sync_dir(&self.dir).map_err(Failure::fatal)?;
        let old = committer.manifest.number();
        let named = Current { database: self.database, manifest: number };
        if let Err(cause) = current_file::stage(&*self.fs, &self.dir, &named) {
            // Nothing was renamed, which is not to be asked of a process that has no descriptor left, say.
            return Err(self.abandon(number, cause));
        }
        if let Err(cause) = current_file::put_in_place(&*self.fs, &self.dir, &named) {
            return Err(self.not_renamed(old, number, cause));
        }
        committer.manifest = InForce::Written(Box::new(manifest));
        // Best effort: the next open reports what is left over.
        let _ = self.fs.remove(&self.path(FileName::Manifest(old)));
        Ok(())
    }

    /// Replacing `CURRENT` failed: what names it now? If it still names `old`, it was not renamed, and the
    /// new manifest will never be in force. Otherwise the rename may or may not survive.
    fn not_renamed(&self, old: FileNumber, new: FileNumber, cause: Error) -> Failure {
        match current_file::read(&*self.fs, &self.dir) {
            Ok(current) if current.manifest == old => self.abandon(new, cause),
            _ => Failure::in_doubt(cause),
        }
    }

    /// Manifest `new` will never be in force.
    fn abandon(&self, new: FileNumber, cause: Error) -> Failure {
        // Best effort, both: the next open reports what is left over.
        let _ = self.fs.remove(&self.dir.join(current_file::temporary(new)));
        let _ = self.fs.remove(&self.path(FileName::Manifest(new)));
        Failure::aborted(cause)
    }

    fn path(&self, name: FileName) -> PathBuf {
        self.dir.join(name.to_string())
    }
}

/// The number of keyspaces is the one rule that a user can break; all others only a programmer can.
fn check_keyspace_count(now: usize, edits: &[Edit]) -> Result<()> {
    let created = edits.iter().filter(|edit| matches!(edit, Edit::CreateKeyspace { .. })).count();
    let dropped = edits.iter().filter(|edit| matches!(edit, Edit::DropKeyspace { .. })).count();
    if created > 0 && (now + created).saturating_sub(dropped) > KEYSPACES_MAX {
        return Err(Error::invalid(format!(
            "a database has at most {KEYSPACES_MAX} keyspaces; drop one first"
        )));
    }
    Ok(())
}

/// Whether `edits` name files that must be there from now on: tables that were not in the tree before, as
/// opposed to tables that move; blob files; the first log that is needed.
fn needs_names(edits: &[Edit]) -> bool {
    let removed: BTreeSet<FileNumber> = edits
        .iter()
        .filter_map(|edit| match edit {
            Edit::RemoveTable { number, .. } => Some(*number),
            _ => None,
        })
        .collect();
    edits.iter().any(|edit| match edit {
        Edit::AddTable { meta, .. } => !removed.contains(&meta.number),
        Edit::AddBlob { .. } | Edit::ForgetLogs { .. } => true,
        _ => false,
    })
}
