//! Opening: lock, manifest, logs, and only then anything that changes the directory.
//!
//! Durability order of a writable open: the recovered logs are made durable; logs that do not count are
//! removed; a new log is created and its name made durable; one manifest edit records the recovered
//! logs' lengths, that the new one is there, and which log is the first needed; then writes are let in. A crash anywhere on the
//! way leaves a directory that opens to the same state.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use esker_base::event::Listener;
use esker_base::event_count::EventCount;
use esker_base::filename::{self, FileName};
use esker_base::ledger::Ledger;
use esker_base::planted::{self, Planted};
use esker_base::sync::atomic::{AtomicBool, AtomicU64};
use esker_base::sync::{ArcSwap, Mutex};
use esker_base::{DatabaseId, Error, FileNumber, MergeOperator, Result};
use esker_manifest::{Edit, KeyspaceState, Version, VersionSet};
use esker_sstable::{BlockCache, TableContext};
use esker_vfs::Env;
use esker_vfs::believed::Believed;
use esker_vfs::fs::FileLock;
use esker_vfs::open_files::OpenFiles;
use esker_wal::Predecessor;

use crate::backlog::SharedBacklog;
use crate::commit::{CommitQueue, CommitState};
use crate::conflict_priority::ConflictPriority;
use crate::core::Core;
use crate::database::{Database, Handle};
use crate::dead_ranges::DeadRanges;
use crate::deletes::DeleteTracker;
use crate::group_sync::GroupSync;
use crate::health::Health;
use crate::jobs::{Jobs, remove_files};
use crate::maintenance::make_name_durable;
use crate::memtable::{Memtable, SpareChunks};
use crate::metrics::Metrics;
use crate::operators::Operators;
use crate::options::{DatabaseOptions, Durability, KeyspaceOptions, LogWrites, TableSource, WhenStalled};
use crate::pressure::Pressure;
use crate::recent_writes::RecentWrites;
use crate::recovery::{RecoveredLogs, read_logs};
use crate::recycled_log::RecycledLog;
use crate::snapshot_list::SnapshotList;
use crate::superversion::{CurrentSuperVersion, MemtableAndLog, SuperVersion};

/// Settings and components of a database about to be opened. See [`DatabaseOptions`] for what each
/// setting does.
///
/// ```
/// use esker::{Database, Durability};
/// # let dir = tempfile::tempdir()?;
/// let db = Database::builder(dir.path()).cache_bytes(64 << 20).durability(Durability::Sync).open()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "nothing is opened before `open`"]
pub struct DatabaseBuilder {
    dir: PathBuf,
    options: DatabaseOptions,
    env: Option<Env>,
    operators: Vec<Arc<dyn MergeOperator>>,
    listeners: Vec<Arc<dyn Listener>>,
    /// The lock of the directory, if whoever opens the database holds it already.
    lock: Option<Arc<dyn FileLock>>,
}

impl std::fmt::Debug for DatabaseBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DatabaseBuilder")
            .field("dir", &self.dir)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// A setter for each of these options, named after it.
macro_rules! setters {
    ($($option:ident: $type:ty,)*) => { $(
        #[doc = concat!("See [`DatabaseOptions::", stringify!($option), "`].")]
        pub fn $option(mut self, $option: $type) -> Self {
            self.options.$option = $option;
            self
        }
    )* };
}

impl DatabaseBuilder {
    pub(crate) fn new(dir: &Path) -> Self {
        DatabaseBuilder {
            dir: dir.to_path_buf(),
            options: DatabaseOptions::default(),
            env: None,
            operators: Vec::new(),
            listeners: Vec::new(),
            lock: None,
        }
    }

    /// Take all settings from `options`, in place of what was set before: call it first.
    pub fn options(mut self, options: DatabaseOptions) -> Self {
        self.options = options;
        self
    }

    /// See [`DatabaseOptions::open_files_max`].
    pub fn open_files_max(mut self, files: u32) -> Self {
        self.options.open_files_max = Some(files);
        self
    }

    /// See [`DatabaseOptions::level_base_bytes`].
    pub fn level_base_bytes(mut self, bytes: u64) -> Self {
        self.options.level_base_bytes = Some(bytes);
        self
    }

    setters! {
        create_if_missing: bool,
        read_only: bool,
        durability: Durability,
        log_writes: LogWrites,
        when_stalled: WhenStalled,
        memtable_bytes_max: u64,
        sealed_memtables_max: usize,
        cache_bytes: u64,
        table_source: TableSource,
        compaction_threads: usize,
        l0_tables_trigger: usize,
        l0_tables_slowdown: usize,
        l0_tables_stop: usize,
        compact_for_reads: bool,
        level_fanout: u64,
        table_bytes: u64,
        dead_run: u32,
    }

    /// Register a merge operator under its name; `add-i64`, `add-u64`, `min`, `max` and `append` are there. Register all that the
    /// database's keyspaces use: without, it does not open for writing, and opened for reading only it does not hand out the
    /// keyspaces whose operators are missing.
    ///
    /// It is called on the engine's threads and on those of callers (a read, a commit, a compaction by hand), several at a time, and
    /// must not call the database.
    ///
    /// # Errors
    /// [`open`](DatabaseBuilder::open) errs with [`Error::InvalidArgument`] if the name is empty, or that of another operator, and
    /// with [`Error::CallbackPanicked`] if it cannot be had.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use esker::{Database, KeyspaceOptions, MergeOperator};
    ///
    /// /// The longest value that was ever given.
    /// struct Longest;
    ///
    /// impl MergeOperator for Longest {
    ///     fn name(&self) -> &str {
    ///         "longest"
    ///     }
    ///     fn fold(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>, String> {
    ///         let longest = base.into_iter().chain(operands.iter().copied()).max_by_key(|value| value.len());
    ///         Ok(longest.unwrap_or_default().to_vec())
    ///     }
    /// }
    ///
    /// # let dir = tempfile::tempdir()?;
    /// let db = Database::builder(dir.path()).merge_operator(Arc::new(Longest)).open()?;
    /// let names = db.keyspace("names", KeyspaceOptions::default().with_merge_operator("longest"))?;
    /// names.merge("7", "Olga")?;
    /// names.merge("7", "Ol")?;
    /// assert_eq!(names.get("7")?.as_deref(), Some(&b"Olga"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn merge_operator(mut self, operator: Arc<dyn MergeOperator>) -> Self {
        self.operators.push(operator);
        self
    }

    /// Hear of flushes, compactions, stalls and failures: every [`Event`](esker_base::event::Event) from `open` to `close`. Of
    /// several listeners each hears of all of them.
    ///
    /// It is called on the thread that did the work, the engine's or a caller's, which holds no lock and goes on when the listener
    /// returns; by several threads at a time, so that events of different jobs come in no order. A panic is contained, and counted
    /// as `listener_panics` in the [metrics](crate::Database::metrics).
    ///
    /// It may read and write. On the engine's threads, what would wait for the work that waits for the listener errs instead:
    ///
    /// - where the memtable is flushed, [`flush`](crate::Database::flush) and what begins with one, and
    ///   [`wait_for_compactions`](crate::Database::wait_for_compactions), with [`Error::InvalidArgument`];
    /// - where tables are merged, [`wait_for_compactions`](crate::Database::wait_for_compactions), with [`Error::InvalidArgument`];
    /// - on all of them a write that would have to stop, with [`Error::WouldStall`].
    ///
    /// It may also close the database, or let go of its last handle: where the memtable is flushed, that leaves to the log what is in
    /// memory, and without a log ([`Durability::NoLog`](crate::Durability::NoLog)) loses it. Another thread that closes waits until
    /// listeners return.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use esker::event::Event;
    ///
    /// # let dir = tempfile::tempdir()?;
    /// let flushes = Arc::new(AtomicU64::new(0));
    /// let seen = Arc::clone(&flushes);
    /// let listener = move |event: &Event| {
    ///     if matches!(event, Event::Flushed { .. }) {
    ///         seen.fetch_add(1, Ordering::Relaxed);
    ///     }
    /// };
    /// let db = esker::Database::builder(dir.path()).listener(Arc::new(listener)).open()?;
    /// db.keyspace("k", esker::KeyspaceOptions::default())?.put("a", "1")?;
    /// db.close()?;
    /// assert_eq!(flushes.load(Ordering::Relaxed), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn listener(mut self, listener: Arc<dyn Listener>) -> Self {
        self.listeners.push(listener);
        self
    }

    /// Live in another world: files in memory, a simulated disk, step mode. The scheduler belongs to
    /// this database alone and is stopped when it closes; its threads are as many as it was made with, whatever
    /// [`compaction_threads`](DatabaseBuilder::compaction_threads) says. Clones of an [`Env`] share one: make another for the next database.
    ///
    /// Without this, `open` makes [`Env::os`], and errs with [`Error::Io`] if its threads cannot be started.
    ///
    /// ```
    /// use esker::vfs::Env;
    ///
    /// // A disk, clock and scheduler that do what a seed says, on the caller's thread alone.
    /// let (env, _world) = Env::simulated(7);
    /// let db = esker::Database::builder("/db").env(env).open()?;
    /// db.keyspace("k", esker::KeyspaceOptions::default())?.put("a", "1")?;
    /// db.close()?;
    /// # Ok::<(), esker::Error>(())
    /// ```
    pub fn env(mut self, env: Env) -> Self {
        self.env = Some(env);
        self
    }

    /// Share `lock`, which is that of the directory, instead of taking it.
    pub(crate) fn locked(mut self, lock: Option<Arc<dyn FileLock>>) -> Self {
        self.lock = lock;
        self
    }

    /// Open the database, or create it.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`], before anything is changed, for a setting out of bounds or a merge operator's name, for a keyspace
    /// compressed with zstd if this build lacks that, and, unless it is opened for reading only, for an operator that a keyspace uses and
    /// nobody registered; [`Error::CallbackPanicked`] of an operator's name;
    /// [`Error::Locked`] if somebody has it open; [`Error::NotADatabase`] if there is none and none is to be created; [`Error::FormatTooNew`];
    /// [`Error::Corruption`] and [`Error::MissingFile`] naming the file; [`Error::Io`]; [`Error::OutOfMemory`]. In a process that was forked from one
    /// with a database open: [`Error::Io`], of kind `Unsupported`.
    pub fn open(self) -> Result<Database> {
        self.options.validate()?;
        let operators = Operators::new(self.operators)?;
        let env = match self.env {
            Some(env) => env,
            None => Env::os(self.options.compaction_threads)?,
        };
        let env = Env { fs: Arc::new(Believed::new(Arc::clone(&env.fs), &self.dir)), ..env };
        let stop = env.scheduler.clone();
        let opening = Opening {
            env,
            dir: self.dir,
            options: self.options,
            operators,
            listeners: self.listeners,
            lock: self.lock,
        };
        opening.run().inspect_err(|_| stop.stop())
    }
}

/// What the last handle left besides the set of files itself.
#[derive(Default)]
struct Left {
    orphans: Vec<FileName>,
    /// The last log's length, if that handle was closed in order: an open for writing has dropped it from
    /// the manifest by the time the logs are read.
    clean_close: Option<(FileNumber, u64)>,
}

struct Opening {
    env: Env,
    dir: PathBuf,
    options: DatabaseOptions,
    operators: Operators,
    listeners: Vec<Arc<dyn Listener>>,
    lock: Option<Arc<dyn FileLock>>,
}

impl Opening {
    fn run(self) -> Result<Database> {
        let lock = self.lock()?;
        let (versions, left) = self.versions()?;
        let version = versions.current();
        // What one memtable leaves, and what was brought in ahead meanwhile or is left of the one before.
        let bytes_max = self.options.memtable_bytes_max;
        let spare = SpareChunks::new(bytes_max + bytes_max / 2, Arc::clone(&self.env.scheduler));
        let copies = !self.options.read_only;
        let mut logs = read_logs(
            &self.env,
            &self.dir,
            versions.database(),
            &version,
            left.clean_close,
            &spare,
            copies,
        )
        .inspect_err(|error| assert!(!planted::is(Planted::PanicOnDamage), "{error}"))?;
        let core = self.core(versions, &mut logs, spare, lock)?;
        core.jobs.attach(&core);
        core.note_progress();
        if !core.options.read_only {
            remove_files(&core, left.orphans);
            core.jobs.start_upkeep();
            core.jobs.start_flush();
            core.jobs.start_compactions();
        }
        core.jobs.open_tables();
        Ok(Database::new(Handle::new(core)))
    }

    /// Lock the directory, creating it if need be.
    fn lock(&self) -> Result<Option<Box<dyn FileLock>>> {
        let fs = &*self.env.fs;
        let lock = self.dir.join(filename::LOCK);
        let not_there = |why: &str| Error::NotADatabase { path: self.dir.clone(), why: why.to_string() };
        match fs.stat(&self.dir)? {
            Some(entry) if entry.kind == esker_vfs::fs::EntryKind::Directory => {}
            Some(_) => return Err(not_there("it is no directory")),
            None if self.options.read_only || !self.options.create_if_missing => {
                return Err(not_there("there is no such directory"));
            }
            None => {
                fs.create_dir(&self.dir)?;
            }
        }
        let exists = fs.stat(&self.dir.join(filename::CURRENT))?.is_some();
        if !exists && !self.options.read_only && !self.options.create_if_missing {
            return Err(not_there("it has no CURRENT file"));
        }
        if !self.options.read_only {
            if !exists {
                // This open may have made the directory, or one before that came no further.
                make_name_durable(fs, &self.dir)?;
            }
            return match &self.lock {
                Some(held) => Ok(Some(Box::new(Arc::clone(held)))),
                None => fs.lock(&lock).map(Some),
            };
        }
        // A reader changes nothing, not even by creating a lock file; one that is there it honours.
        match fs.stat(&lock)? {
            None => Ok(None),
            Some(_) => match fs.lock(&lock) {
                Ok(held) => Ok(Some(held)),
                Err(error) if may_not_lock(&error) => Ok(None),
                // Nobody knows whether somebody holds it.
                Err(error) => Err(error),
            },
        }
    }

    fn versions(&self) -> Result<(VersionSet, Left)> {
        let fs = &self.env.fs;
        let ledger = Arc::new(Ledger::default());
        let cache = BlockCache::new(self.options.cache_bytes, Arc::clone(&ledger));
        cache.grow_by(Arc::clone(&self.env.scheduler));
        let files = OpenFiles::new(Arc::clone(fs), self.options.open_files(fs.open_files_max()));
        let (dir, source) = (self.dir.clone(), self.options.table_source);
        let context = |database| TableContext { files, dir, database, cache, ledger, source };
        let exists = fs.stat(&self.dir.join(filename::CURRENT))?.is_some();
        if exists || self.options.read_only {
            let accept = |version: &Version| {
                version.keyspaces().iter().try_for_each(|keyspace| self.check_keyspace(keyspace))
            };
            let (versions, recovered) =
                VersionSet::recover(fs, &self.dir, context, accept, self.options.read_only)?;
            return Ok((versions, Left { orphans: recovered.orphans, clean_close: recovered.clean_close }));
        }
        let database = self.new_id();
        let versions = VersionSet::create(fs, &self.dir, database, context(database))?;
        Ok((versions, Left::default()))
    }

    /// An id for a new database: a hash of the moment, to the nanosecond, and the place. Two databases
    /// share one only if both were created under one path at one moment; a simulated world gets the same
    /// one each time.
    fn new_id(&self) -> DatabaseId {
        let clock = &self.env.clock;
        let mut seed = clock.wall_millis().to_le_bytes().to_vec();
        seed.extend_from_slice(&clock.monotonic().as_nanos().to_le_bytes());
        seed.extend_from_slice(self.dir.as_os_str().as_encoded_bytes());
        let low = esker_base::checksum::key_hash(&seed);
        seed.push(1);
        let high = esker_base::checksum::key_hash(&seed);
        let mut id = [0; 16];
        id[..8].copy_from_slice(&low.to_le_bytes());
        id[8..].copy_from_slice(&high.to_le_bytes());
        DatabaseId(id)
    }

    /// Whether this build, with these operators, can work with `keyspace`.
    fn check_keyspace(&self, keyspace: &KeyspaceState) -> Result<()> {
        let options = KeyspaceOptions::decode(&keyspace.options)
            .map_err(|what| Error::corruption(self.dir.join(filename::CURRENT), 0, what))?;
        if options.wants_missing_codec() {
            return Err(Error::invalid(format!(
                "keyspace {:?} is compressed with zstd, which this build lacks; build it with the feature `zstd`",
                keyspace.name
            )));
        }
        match options.merge_operator {
            // Compactions need all of them. Where none run, a handle of the keyspace asks for its own.
            Some(name) if !self.options.read_only => self.operators.find(&name).map(drop),
            _ => Ok(()),
        }
    }

    /// Everything that handles share, with the logs' content in memtables and a new log begun.
    fn core(
        self,
        versions: VersionSet,
        logs: &mut RecoveredLogs,
        spare: Arc<SpareChunks>,
        lock: Option<Box<dyn FileLock>>,
    ) -> Result<Arc<Core>> {
        let log_number = versions.allocate();
        let (memtable, writer) = Memtable::with_filter(self.options.memtable_bytes_max, &spare);
        let health = Arc::new(Health::new());
        let group_sync = GroupSync::new(self.env.clone(), self.dir.clone(), Arc::clone(&health));
        let sealed: Vec<Arc<MemtableAndLog>> = logs
            .needed()
            .iter()
            .map(|log| {
                let layer = MemtableAndLog::new(Arc::clone(&log.memtable), log.number);
                layer.seal(log.last_seqno, log.len);
                layer
            })
            .rev()
            .collect();
        let state = CommitState {
            log: None,
            log_number,
            memtable: writer,
            last_seqno: logs.last_seqno,
            followers: 0,
            first_seqnos: Vec::new(),
            deletes: DeleteTracker::new(self.options.dead_run),
            recent: RecentWrites::default(),
            closing: false,
            events: Vec::new(),
        };
        let first = SuperVersion {
            active: MemtableAndLog::new(memtable, log_number),
            sealed,
            version: versions.current(),
        };
        let core = Arc::new(Core {
            database: versions.database(),
            tables: versions.table_context().clone(),
            versions,
            current: CurrentSuperVersion::new(first),
            spare,
            recycled_log: RecycledLog::default(),
            snapshots: Arc::new(SnapshotList::new(logs.last_seqno)),
            dead_ranges: DeadRanges::default(),
            commits: CommitQueue::new(state),
            group_sync,
            health,
            pressure: Pressure::default(),
            metrics: Metrics::default(),
            read_costs: crate::read_costs::ReadCosts::default(),
            jobs: Jobs::default(),
            progress: EventCount::new(),
            backlog: SharedBacklog::default(),
            open_log: log_number,
            keyspace_changes: Mutex::new(()),
            keyspace_drops: AtomicU64::new(0),
            conflict_priority: ConflictPriority::new(),
            lock: Mutex::new(lock),
            flushed_to_close: AtomicBool::new(false),
            env: self.env,
            dir: self.dir,
            options: self.options,
            operators: self.operators,
            merge_operators: ArcSwap::default(),
            listeners: self.listeners,
        });
        if !core.options.read_only {
            // Before the lock goes: the next one to open makes copies under the same names.
            begin_writing(&core, logs).inspect_err(|_| logs.drop_copies())?;
        }
        Ok(core)
    }
}

/// Whether `error` says that a lock's file may not be opened to be locked, or that its filesystem has no locks: so a reader goes
/// without one.
fn may_not_lock(error: &Error) -> bool {
    let Error::Io { source, .. } = error else { return false };
    matches!(
        source.kind(),
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem | ErrorKind::Unsupported
    )
}

/// Make what was recovered durable and begin a log after it.
fn begin_writing(core: &Arc<Core>, logs: &mut RecoveredLogs) -> Result<()> {
    for log in &mut logs.kept {
        log.make_durable(&core.env, &core.dir)?;
    }
    if !logs.discarded.is_empty() {
        for number in &logs.discarded {
            core.env.fs.remove(&core.dir.join(FileName::Log(*number).to_string()))?;
        }
        core.env.fs.sync_dir(&core.dir)?;
    }
    let predecessor = logs.kept.last().map(|log| Predecessor { number: log.number, len: log.len });
    let log = core.create_log(core.open_log, predecessor, None, None)?;
    let syncer = log.syncer();
    syncer.sync()?;
    // The commit below makes its name durable.
    let needed = logs.needed();
    let before = needed.first().map_or(core.open_log, |log| log.number);
    // An earlier recovery may have closed some of them before it was cut short itself.
    let version = core.versions.current();
    let open = needed.iter().filter(|log| !version.marks().closed_logs.contains_key(&log.number));
    let mut edits: Vec<Edit> =
        open.map(|log| Edit::ClosedLog { number: log.number, len: log.len }).collect();
    edits.push(Edit::ForgetLogs { before });
    // What the needed logs hold goes on from here when they are read again: the mark is where they begin.
    edits.push(Edit::LastSeqNo(logs.last_before(before)));
    edits.push(Edit::DurableLog { number: core.open_log, len: log.written() });
    core.versions.commit(edits)?;
    core.current.install(|| core.versions.current(), None);
    remove_files(core, logs_before(core, before)?);
    let mut state = core.commits.lock();
    if core.options.durability != Durability::NoLog {
        core.group_sync.begin_log(core.open_log, syncer);
        state.log = Some(log);
    }
    Ok(())
}

/// The logs in the directory that nobody needs: those that were just recovered as empty, and those whose
/// removal a crash has undone.
fn logs_before(core: &Core, first: FileNumber) -> Result<Vec<FileName>> {
    let names = core.env.fs.list(&core.dir)?.into_iter().filter_map(|entry| FileName::parse(&entry.name));
    Ok(names.filter(|name| matches!(name, FileName::Log(number) if *number < first)).collect())
}
