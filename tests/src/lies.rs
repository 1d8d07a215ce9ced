//! Filesystems that lie: bugs planted in the seam under the engine.
//!
//! Each lie makes the engine's calls reach the disk as if the engine had the bug, so that the engine
//! itself stays as it ships.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use esker_base::filename::FileName;
use esker_base::inspect::Verdict;
use esker_base::{DatabaseId, Error, Result};
use esker_vfs::fs::{Dir, DirEntry, File, FileId, FileLock, Fs};
use esker_wal::{LogIdentity, LogKind, LogReader};
use parking_lot::Mutex;

/// What is lied about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// Syncs of logs do nothing: commits are acknowledged before they are durable.
    LogSync,
    /// Syncs of directories do nothing.
    DirectorySync,
    /// A manifest's sync comes after the removal of the log that it makes superfluous.
    LogRemovedFirst,
    /// A log that is damaged where it had been durable reads as if it ended there.
    DamageIsATail,
    /// Syncs of logs that were there before do nothing: recovery does not make durable what it has read.
    RecoverySync,
    /// A lock is given to whoever asks.
    Lock,
    /// A sync that fails is tried again, and the Ok of the second believed.
    SyncRetried,
    /// Writes to logs that fail say Ok.
    LogWriteIgnored,
    /// A full disk says that the device has failed.
    FullIsBroken,
    /// Once a file could not be created, none can for good.
    FailureSticks,
    /// Whoever opens a database reads all tables at once, and is refused if one is damaged.
    EagerOpen,
    /// More space is reserved than was asked for, by an amount that follows from no seed.
    Moody,
}

/// A filesystem that tells one lie about another.
#[derive(Clone)]
pub struct LyingFs {
    inner: Arc<dyn Fs>,
    lie: Lie,
    /// The manifest whose sync was put off.
    late: Arc<Mutex<Option<Arc<dyn File>>>>,
    /// A creation has failed.
    stuck: Arc<AtomicBool>,
}

/// Bytes, by how often the process has asked.
fn mood() -> u64 {
    static ASKED: AtomicU64 = AtomicU64::new(0);
    ASKED.fetch_add(1, Ordering::Relaxed) % 7 * 512
}

/// No lock at all.
struct FreeForAll;

impl FileLock for FreeForAll {
    fn still_in_place(&self) -> Result<bool> {
        Ok(true)
    }
}

struct LyingDir {
    inner: Box<dyn Dir>,
    lie: Lie,
    late: Arc<Mutex<Option<Arc<dyn File>>>>,
}

struct LyingFile {
    inner: Arc<dyn File>,
    kind: Option<FileName>,
    lie: Lie,
    /// Where the file seems to end.
    end: Option<u64>,
    late: Arc<Mutex<Option<Arc<dyn File>>>>,
}

impl LyingFs {
    /// `inner`, with `lie` told about it.
    pub fn new(inner: Arc<dyn Fs>, lie: Lie) -> LyingFs {
        LyingFs { inner, lie, late: Arc::default(), stuck: Arc::default() }
    }

    fn wrap(&self, path: &Path, inner: Arc<dyn File>, end: Option<u64>) -> Arc<dyn File> {
        let (lie, late) = (self.lie, Arc::clone(&self.late));
        Arc::new(LyingFile { inner, kind: kind_of(path), lie, end, late })
    }

    /// The error that a damaged table in the directory of `current` gives to whoever reads all of them.
    fn damaged_table(&self, current: &Path) -> Result<()> {
        let Some(dir) = current.parent() else { return Ok(()) };
        for entry in self.inner.list(dir)? {
            let path = dir.join(&entry.name);
            if !matches!(kind_of(&path), Some(FileName::Table(_))) {
                continue;
            }
            for field in esker_sstable::inspect(&*self.inner, &path)? {
                let field = field?;
                if field.verdict == Verdict::Bad {
                    return Err(Error::corruption(path, field.offset, field.value));
                }
            }
        }
        Ok(())
    }

    /// Where the log at `path` has its first damage, if it has any that it knows of.
    fn damage(&self, path: &Path) -> Option<u64> {
        let Some(FileName::Log(number)) = kind_of(path) else { return None };
        let database = database_of(&*self.inner, path)?;
        let identity = LogIdentity { database, number, kind: LogKind::WriteAhead };
        let mut reader = match LogReader::open_recycled(&*self.inner, path, identity, None, number) {
            Ok(reader) => reader,
            Err(error) => return offset_of(&error),
        };
        loop {
            match reader.next() {
                Ok(Some(_)) => {}
                Ok(None) => return None,
                Err(error) => return offset_of(&error),
            }
        }
    }
}

fn kind_of(path: &Path) -> Option<FileName> {
    path.file_name().and_then(|name| name.to_str()).and_then(FileName::parse)
}

fn database_of(fs: &dyn Fs, path: &Path) -> Option<DatabaseId> {
    esker_manifest::current_file::read(fs, path.parent()?).ok().map(|current| current.database)
}

fn offset_of(error: &Error) -> Option<u64> {
    match error {
        Error::Corruption { offset, .. } => Some(*offset),
        _ => None,
    }
}

/// What is said of `result` by a system that takes a full disk for a broken one.
fn broken<T>(lie: Lie, path: &Path, result: Result<T>) -> Result<T> {
    match result {
        Err(full) if lie == Lie::FullIsBroken && full.is_no_space() => {
            Err(Error::io("write", path, std::io::Error::other("the device has failed")))
        }
        other => other,
    }
}

/// Sync the manifest that waits for it.
fn catch_up(late: &Mutex<Option<Arc<dyn File>>>) -> Result<()> {
    match late.lock().take() {
        Some(manifest) => manifest.sync_data(),
        None => Ok(()),
    }
}

impl Fs for LyingFs {
    fn create(&self, path: &Path) -> Result<Arc<dyn File>> {
        catch_up(&self.late)?;
        if self.lie == Lie::FailureSticks && self.stuck.load(Ordering::Relaxed) {
            return Err(Error::io("create", path, std::io::Error::other("as before")));
        }
        let made = self.inner.create(path).inspect_err(|_| self.stuck.store(true, Ordering::Relaxed));
        Ok(self.wrap(path, broken(self.lie, path, made)?, None))
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn File>> {
        if self.lie == Lie::EagerOpen && kind_of(path) == Some(FileName::Current) {
            self.damaged_table(path)?;
        }
        let end = if self.lie == Lie::DamageIsATail { self.damage(path) } else { None };
        Ok(self.wrap(path, self.inner.open(path)?, end))
    }

    fn open_writable(&self, path: &Path) -> Result<Arc<dyn File>> {
        let file = self.inner.open_writable(path)?;
        let lie = if self.lie == Lie::RecoverySync { Lie::LogSync } else { self.lie };
        Ok(LyingFs { lie, ..self.clone() }.wrap(path, file, None))
    }

    fn map(&self, path: &Path) -> Result<Bytes> {
        self.inner.map(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        catch_up(&self.late)?;
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.inner.remove(path)?;
        if self.lie == Lie::LogRemovedFirst && matches!(kind_of(path), Some(FileName::Log(_))) {
            if let Some(dir) = path.parent() {
                self.inner.sync_dir(dir)?;
            }
            catch_up(&self.late)?;
        }
        Ok(())
    }

    fn hard_link(&self, from: &Path, to: &Path) -> Result<()> {
        self.inner.hard_link(from, to)
    }

    fn create_dir(&self, path: &Path) -> Result<()> {
        self.inner.create_dir(path)
    }

    fn create_new_dir(&self, path: &Path) -> Result<()> {
        self.inner.create_new_dir(path)
    }

    fn remove_dir(&self, path: &Path) -> Result<()> {
        self.inner.remove_dir(path)
    }

    fn list(&self, dir: &Path) -> Result<Vec<DirEntry>> {
        self.inner.list(dir)
    }

    fn stat(&self, path: &Path) -> Result<Option<DirEntry>> {
        self.inner.stat(path)
    }

    fn open_dir(&self, dir: &Path) -> Result<Box<dyn Dir>> {
        let (lie, late) = (self.lie, Arc::clone(&self.late));
        Ok(Box::new(LyingDir { inner: self.inner.open_dir(dir)?, lie, late }))
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        if self.lie == Lie::Lock { Ok(Box::new(FreeForAll)) } else { self.inner.lock(path) }
    }

    fn free_space(&self, dir: &Path) -> Result<Option<u64>> {
        self.inner.free_space(dir)
    }
    fn open_files_max(&self) -> Option<u64> {
        self.inner.open_files_max()
    }
}

impl Dir for LyingDir {
    fn sync(&self) -> Result<()> {
        catch_up(&self.late)?;
        if self.lie == Lie::DirectorySync { Ok(()) } else { self.inner.sync() }
    }
}

impl LyingFile {
    fn sync_with(&self, sync: impl Fn() -> Result<()>) -> Result<()> {
        match (self.lie, self.kind) {
            (Lie::LogSync, Some(FileName::Log(_))) => Ok(()),
            (Lie::SyncRetried, _) => sync().or_else(|_| sync()),
            (Lie::LogRemovedFirst, Some(FileName::Manifest(_))) => {
                catch_up(&self.late)?;
                *self.late.lock() = Some(Arc::clone(&self.inner));
                Ok(())
            }
            _ => {
                catch_up(&self.late)?;
                sync()
            }
        }
    }
}

impl File for LyingFile {
    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn len(&self) -> Result<u64> {
        let len = self.inner.len()?;
        Ok(self.end.map_or(len, |end| len.min(end)))
    }
    fn id(&self) -> Result<Option<FileId>> {
        self.inner.id()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let Some(end) = self.end else { return self.inner.read_at(buffer, offset) };
        let left = usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX).min(buffer.len());
        self.inner.read_at(&mut buffer[..left], offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let written = broken(self.lie, self.path(), self.inner.write_at(bytes, offset));
        let ignored = self.lie == Lie::LogWriteIgnored && matches!(self.kind, Some(FileName::Log(_)));
        if ignored { Ok(()) } else { written }
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.inner.set_len(len)
    }

    fn allocate(&self, len: u64) -> Result<()> {
        let len = if self.lie == Lie::Moody { len + mood() } else { len };
        broken(self.lie, self.path(), self.inner.allocate(len))
    }

    fn reserve(&self, len: u64) -> Result<bool> {
        let len = if self.lie == Lie::Moody { len + mood() } else { len };
        broken(self.lie, self.path(), self.inner.reserve(len))
    }

    fn sync_data(&self) -> Result<()> {
        self.sync_with(|| self.inner.sync_data())
    }

    fn sync(&self) -> Result<()> {
        self.sync_with(|| self.inner.sync())
    }
}
