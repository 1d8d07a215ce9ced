//! The database handle.

use std::path::Path;
use std::sync::Arc;

use esker_base::event::SealReason;
use esker_base::limits::{self, KEYSPACE_NAME_BYTES_MAX};
use esker_base::sync::atomic::Ordering;
use esker_base::{Error, KeyspaceId, Result};
use esker_manifest::Edit;

use crate::batch::Batch;
use crate::core::Core;
use crate::group_sync::SyncFailed;
use crate::keyspace::Keyspace;
use crate::metrics::DatabaseMetrics;
use crate::open::DatabaseBuilder;
use crate::options::{Durability, KeyspaceOptions};
use crate::snapshot::Snapshot;

#[cfg(test)]
mod tests;

/// An open database: keyspaces, batches, snapshots and transactions over one directory.
///
/// A cheap handle: clone it, share it between threads. The database closes when [`Database::close`] is
/// called or the last handle (keyspaces, readers, snapshots, batches and transactions hold one; scans and cursors do not) is dropped; `close` tells
/// whether that went well.
///
/// A child made by `fork` may read through the handle it inherits; whatever writes, and `close`, errs there with
/// [`Error::Poisoned`] and changes nothing, and it opens no database: fork before the first open.
///
/// ```
/// use esker::{Database, KeyspaceOptions};
/// # let dir = tempfile::tempdir()?;
/// let db = Database::open(dir.path())?;
/// let users = db.keyspace("users", KeyspaceOptions::default())?;
/// users.put("7", "Olya")?;
/// assert_eq!(users.get("7")?.as_deref(), Some(&b"Olya"[..]));
/// db.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Database {
    handle: Arc<Handle>,
}

/// Closes the database when the last user of it lets go.
pub(crate) struct Handle {
    core: Arc<Core>,
}

impl Handle {
    pub(crate) fn new(core: Arc<Core>) -> Arc<Self> {
        Arc::new(Handle { core })
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.core.health.forked().is_some() {
            // Nor does a child free anything: a thread that is not there may hold the locks that this takes.
            std::mem::forget(Arc::clone(&self.core));
        }
        // Whoever wants to know calls `close`.
        let _ = self.core.close();
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database").field("dir", &self.core().dir).finish_non_exhaustive()
    }
}

impl Database {
    pub(crate) fn new(handle: Arc<Handle>) -> Self {
        Database { handle }
    }

    #[inline]
    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.handle.core
    }

    /// Open the database in `dir` with default settings, creating it if there is none. What is acknowledged outlives a
    /// process kill, not a power loss: see [`Durability::Os`](crate::Durability::Os). Errs as [`DatabaseBuilder::open`].
    pub fn open(dir: impl AsRef<Path>) -> Result<Database> {
        Self::builder(dir).open()
    }

    /// Settings and components for a database in `dir`.
    pub fn builder(dir: impl AsRef<Path>) -> DatabaseBuilder {
        DatabaseBuilder::new(dir.as_ref())
    }

    /// A database in memory, gone with its last handle. For tests and caches.
    ///
    /// ```
    /// let db = esker::Database::in_memory()?;
    /// db.keyspace("k", esker::KeyspaceOptions::default())?.put("a", "1")?;
    /// # Ok::<(), esker::Error>(())
    /// ```
    pub fn in_memory() -> Result<Database> {
        Self::builder("/esker").env(esker_vfs::Env::memory()?).open()
    }

    /// The directory it was opened in.
    pub fn path(&self) -> &Path {
        &self.core().dir
    }

    /// The keyspace `name`, created with `options` if there is none.
    ///
    /// # Errors
    /// [`Error::OptionMismatch`] if it exists with other options; [`Error::InvalidArgument`] for an empty name, an option out of
    /// bounds, a merge operator that is not registered, or more than 65,536 keyspaces; [`Error::TooLarge`] for a name of more than
    /// 255 bytes; [`Error::Closed`]. If it would have to be created: [`Error::ReadOnly`], [`Error::Poisoned`], and, from the
    /// commit of the manifest, [`Error::Aborted`] (there is none) or [`Error::InDoubt`] (there may be one after the next open).
    pub fn keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        let core = self.core();
        core.health.check_open()?;
        options.validate()?;
        if let Some(stored) = self.stored_options(name)? {
            stored.1.check_same(name, &options)?;
            return Keyspace::new(self.clone(), stored.0, name.to_string(), stored.1);
        }
        core.check_writable()?;
        if name.is_empty() {
            return Err(Error::invalid("a keyspace's name must not be empty"));
        }
        limits::check("keyspace name", name.len(), KEYSPACE_NAME_BYTES_MAX)?;
        if let Some(operator) = &options.merge_operator {
            core.operators.find(operator)?;
        }
        // Listeners hear of a failure once the lock is gone: they may call back.
        let created = {
            let _changing = core.keyspace_changes.lock();
            self.create_keyspace(name, &options)
        };
        created.inspect_err(|error| core.note_manifest_failure(error))?;
        self.keyspace(name, options)
    }

    /// Create the keyspace `name` unless somebody else just has. Under the lock of keyspaces' changes.
    fn create_keyspace(&self, name: &str, options: &KeyspaceOptions) -> Result<()> {
        let core = self.core();
        if self.stored_options(name)?.is_some() {
            return Ok(());
        }
        core.in_place()?;
        let id = core.versions.current().next_keyspace();
        let edit = Edit::CreateKeyspace { id, name: name.to_string(), options: options.encode() };
        core.versions.commit(vec![edit])?;
        core.current.install(|| core.versions.current(), None);
        Ok(())
    }

    /// The keyspace `name` with the options it was created with.
    ///
    /// # Errors
    /// [`Error::NoSuchKeyspace`]; [`Error::InvalidArgument`] if its merge operator is not registered; [`Error::Closed`].
    pub fn existing_keyspace(&self, name: &str) -> Result<Keyspace> {
        let (id, options) = self.existing_options(name)?;
        Keyspace::new(self.clone(), id, name.to_string(), options)
    }

    /// The options that keyspace `name` was created with. Its merge operator need not be registered.
    ///
    /// # Errors
    /// [`Error::NoSuchKeyspace`]; [`Error::Closed`].
    pub fn keyspace_options(&self, name: &str) -> Result<KeyspaceOptions> {
        Ok(self.existing_options(name)?.1)
    }

    /// The names of all keyspaces, sorted.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = esker::Database::open(dir.path())?;
    /// for name in ["users", "orders"] {
    ///     db.keyspace(name, esker::KeyspaceOptions::default())?;
    /// }
    /// assert_eq!(db.keyspaces(), ["orders", "users"]);
    /// db.drop_keyspace("users")?;
    /// assert_eq!(db.keyspaces(), ["orders"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn keyspaces(&self) -> Vec<String> {
        let version = self.core().versions.current();
        let mut names: Vec<String> = version.keyspaces().iter().map(|k| k.name.clone()).collect();
        names.sort_unstable();
        names
    }

    /// Drop the keyspace `name` and everything in it, in a time that does not depend on its size. Reads
    /// and writes through handles to it err from now on; scans under way go on. A new keyspace of the same name starts empty.
    ///
    /// The drop is durable when this returns, in every mode, and so is everything that was acknowledged before it took effect:
    /// what was copied elsewhere before its keyspace was dropped is not lost with the power. (So it takes syncs of the log
    /// and of the manifest, for the last of which commits wait; without a log, a flush before and another if something was
    /// written meanwhile.) With a log that holds at every moment; without one, a process that ends during the call may leave the
    /// keyspace dropped and lose what was written meanwhile. Its files are removed in the background:
    /// [`wait_for_compactions`](Database::wait_for_compactions) returns when their space is there again.
    ///
    /// # Errors
    /// [`Error::NoSuchKeyspace`], [`Error::ReadOnly`], [`Error::Poisoned`], [`Error::Closed`], and what [`Database::persist`] errs
    /// with: nothing was dropped. From the commit of the manifest [`Error::Aborted`] (it is still there) or [`Error::InDoubt`].
    /// Without a log, [`Error::Io`] and what else [`Database::flush`] errs with may also come from the second flush: then it was dropped,
    /// and what was written during the call is in memory alone.
    pub fn drop_keyspace(&self, name: &str) -> Result<()> {
        let core = self.core();
        core.check_writable()?;
        let find = || match core.versions.current().by_name(name) {
            Some(state) => Ok(state.id),
            None => Err(Error::NoSuchKeyspace { name: name.to_string() }),
        };
        find()?;
        core.check_in_place()?;
        // The manifest is ahead of the log: what came before the drop must not be lost without it. Most of it is made
        // durable here, while others commit.
        core.persist()?;
        // Listeners, who may call back, were told of that flush before the locks, and hear of a failure behind them.
        let dropped = {
            let _changing = core.keyspace_changes.lock();
            let _no_commits = core.commits.lock();
            find().map_err(SyncFailed::from).and_then(|id| core.drop_keyspace(id))
        };
        if let Err(SyncFailed { error, stopped_writes }) = dropped {
            if stopped_writes {
                core.tell_that_writes_stopped(&error);
            }
            core.note_manifest_failure(&error);
            return Err(error);
        }
        core.jobs.collect_garbage();
        core.note_progress();
        if core.options.durability == Durability::NoLog {
            // Under the commit lock nobody may wait for a flush: what was written since the first one is made durable now.
            core.persist()?;
        }
        Ok(())
    }

    /// An empty batch.
    pub fn batch(&self) -> Batch {
        Batch::new(self.clone())
    }

    /// The database as it is now, for reads that must agree over keyspaces and time. Does not err on a closed database; reads
    /// through it do.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(self.clone())
    }

    /// Make everything acknowledged so far durable, in every durability mode: a sync of the log, and one of the manifest, which
    /// is told how far the log is durable, so that its end would be missed; none if nothing was written since the last. In mode
    /// `NoLog` a [`flush`](Database::flush). A database opened for reading only has nothing to do.
    ///
    /// # Errors
    /// [`Error::Io`] of a sync that failed: writes stop on this handle, and whatever was acknowledged and not durable may be lost with the
    /// power. [`Error::Poisoned`], [`Error::Closed`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = esker::Database::open(dir.path())?;
    /// let log = db.keyspace("log", esker::KeyspaceOptions::default())?;
    /// for line in 0..1000u32 {
    ///     log.put(line.to_be_bytes(), "a line")?;
    /// }
    /// db.persist()?; // one sync for all of them
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn persist(&self) -> Result<()> {
        self.core().persist()
    }

    /// Write everything that is in memory by now to tables and return when it is there, durable.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`Error::Poisoned`], [`Error::Closed`]; [`Error::Aborted`] if no new log can be begun. Otherwise the error of a
    /// flush that has failed since the call: on a full disk, or without descriptors, that goes on being tried all the same.
    pub fn flush(&self) -> Result<()> {
        self.core().check_writable()?;
        self.core().flush(SealReason::Asked)
    }

    /// Return when no flush and no compaction is due any more and none is under way, one by another thread's
    /// [`Keyspace::compact_range`] included (unless that thread waits likewise, from within a callback), and give back the space
    /// that is kept for coming logs. Cleaning up for which a full disk has no room is not due. A database opened for reading only
    /// has none. It does not flush the memtable in use, and may wait for ever while others write or compact.
    ///
    /// # Errors
    /// [`Error::Poisoned`] once a flush or compaction has failed for good and stopped writes; [`Error::Closed`].
    pub fn wait_for_compactions(&self) -> Result<()> {
        self.core().wait_until_settled()
    }

    /// Read every byte of every table and blob file and check it against its checksums, its description and its
    /// order; check the manifest, and the records of every log that holds what is in no table yet. Returns
    /// what was read.
    ///
    /// # Errors
    /// [`Error::Corruption`] or [`Error::MissingFile`] for the first damage found, naming file and
    /// offset; [`Error::Io`]; [`Error::Closed`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = esker::Database::open(dir.path())?;
    /// db.keyspace("users", esker::KeyspaceOptions::default())?.put("7", "Olya")?;
    /// db.flush()?;
    /// assert_eq!(db.verify()?.tables, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn verify(&self) -> Result<Verified> {
        self.core().verify()
    }

    /// Make a copy of the database, as it is now, in the new directory `dir`, whose parent must exist: a database of its own. Flushes the
    /// memtable first. Writes go on meanwhile.
    ///
    /// Tables and blob files are hard links, or copies where there are none to be had (on another filesystem). What
    /// is linked is shared: damage to a file is damage to both databases. A backup is a copy of a checkpoint on another device.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if `dir` exists, be it since the call began, and [`Error::Locked`] if somebody opens a database in
    /// it the moment it is made: both leave alone what is there. Of several calls for one `dir` at once, one is Ok.
    /// [`Error::InvalidArgument`] too if keyspaces are dropped all the time, one during each of eight flushes.
    /// [`Error::ReadOnly`], [`Error::Poisoned`], [`Error::Closed`], [`Error::Aborted`];
    /// [`Error::Io`], after which what was made of it is removed again.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = esker::Database::open(dir.path().join("db"))?;
    /// db.checkpoint(dir.path().join("copy"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<()> {
        self.core().checkpoint(dir.as_ref())
    }

    /// Figures of this moment: counters since the database was opened, and what it holds now; sizes are in bytes, as stored.
    ///
    /// Takes the commit lock for an instant, so it may wait for the group of commits that is being written, and walks over
    /// the descriptions of all tables. Ask once a second, not for each request.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = esker::Database::open(dir.path())?;
    /// let users = db.keyspace("users", esker::KeyspaceOptions::default())?;
    /// let before = db.metrics().counters;
    /// users.put("7", "Olya")?;
    /// users.get("7")?;
    /// let metrics = db.metrics();
    /// assert_eq!(metrics.counters.commits - before.commits, 1);
    /// assert_eq!(metrics.counters.user_bytes - before.user_bytes, 5); // of key and value
    /// assert_eq!(metrics.counters.gets - before.gets, 1);
    /// assert_eq!(metrics.keyspaces[0].name, "users");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn metrics(&self) -> DatabaseMetrics {
        self.core().database_metrics()
    }

    /// Close: flush memory to tables, finish background work, release the lock. It takes about as long as a flush of what is in
    /// memory. To close twice is Ok.
    ///
    /// Every later call on any handle that can err errs with [`Error::Closed`], reads of transactions too. What goes on is reading
    /// where it was begun before: scans, cursors and [readers](crate::Reader), which keep their memtables and tables. A table that was
    /// compacted away, and is not open then, is gone once another handle opens the directory: they err with [`Error::Io`], not found,
    /// when they come to it.
    ///
    /// # Errors
    /// What kept the last writes from becoming durable, if anything did: a flush that fails is tried again as at any time, but on a
    /// full disk, or without descriptors, once at most. On the thread that flushes a [listener](crate::DatabaseBuilder::listener) hears
    /// [`Error::InvalidArgument`] if there was something to flush. The database is closed in any case.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = esker::Database::open(dir.path())?;
    /// let users = db.keyspace("users", esker::KeyspaceOptions::default())?;
    /// users.put("7", "Olya")?;
    /// let reader = users.reader()?;
    /// let transaction = db.begin()?;
    /// db.close()?;
    /// assert!(matches!(users.get("7"), Err(esker::Error::Closed { .. })));
    /// assert_eq!(reader.get("7")?.as_deref(), Some(&b"Olya"[..]));
    /// assert!(matches!(transaction.get(&users, "7"), Err(esker::Error::Closed { .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn close(self) -> Result<()> {
        self.core().close()
    }

    fn existing_options(&self, name: &str) -> Result<(KeyspaceId, KeyspaceOptions)> {
        self.core().health.check_open()?;
        self.stored_options(name)?.ok_or_else(|| Error::NoSuchKeyspace { name: name.to_string() })
    }

    fn stored_options(&self, name: &str) -> Result<Option<(KeyspaceId, KeyspaceOptions)>> {
        let core = self.core();
        let id = core.versions.current().by_name(name).map(|state| state.id);
        let Some(id) = id else { return Ok(None) };
        Ok(core.keyspace_options(id)?.map(|options| (id, options)))
    }
}

/// What [`Database::verify`] has read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Tables.
    pub tables: u64,
    /// Their entries.
    pub entries: u64,
    /// Blob files.
    pub blobs: u64,
    /// Log records.
    pub log_records: u64,
    /// Bytes of all files read.
    pub bytes: u64,
}

impl Core {
    /// Under the lock of keyspaces' changes and the commit lock: what was committed before is durable before the drop is,
    /// and nobody commits afterwards what was read from it.
    fn drop_keyspace(&self, id: KeyspaceId) -> Result<(), SyncFailed> {
        self.in_place()?;
        self.group_sync.sync_now(&|reached| self.witness_log(reached))?;
        // Before anybody can see a version without it: a checkpoint takes one.
        self.keyspace_drops.fetch_add(1, Ordering::Release);
        self.versions.commit(vec![Edit::DropKeyspace { id }])?;
        self.current.install(|| self.versions.current(), None);
        self.forget_operator(id);
        Ok(())
    }
}
