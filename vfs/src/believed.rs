//! A filesystem that believes no sync of one directory after the first that failed.
//!
//! After a sync that failed the system may have forgotten what was to be written, and says Ok to the next:
//! that one proves nothing about the names before it. Several threads sync one directory, and only one of
//! them hears of the failure; from then on the others must not hear an Ok. So the outcome is remembered
//! here, below all of them, until the database is opened again ([`Believed`] is made anew for each open,
//! and what an open finds it writes again). It does not concern itself with other directories, such as a
//! checkpoint's: what is made there is made anew after a failure.
//!
//! The directory stays open from its first sync on, which an open makes: a process that has no descriptor left
//! later can still sync the names it has made, and need not take the lack for a sync that failed.
//!
//! Locks: `state`, held across the sync, so that no second one begins between a failure and its note.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use esker_base::sync::Mutex;
use esker_base::{Error, Result};

use crate::fs::{Dir, DirEntry, File, FileLock, Fs};

/// See the module.
pub struct Believed {
    inner: Arc<dyn Fs>,
    dir: PathBuf,
    state: Mutex<State>,
}

/// What is known of `dir`.
#[derive(Default)]
struct State {
    /// The open directory, from its first sync on.
    open: Option<Box<dyn Dir>>,
    /// The error of its first failed sync.
    failed: Option<Error>,
}

impl Believed {
    /// `inner`, with no sync of `dir` failed yet.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use esker_vfs::believed::Believed;
    /// use esker_vfs::clock::SimClock;
    /// use esker_vfs::fault::{Fault, FaultFs, Operation};
    /// use esker_vfs::fs::Fs;
    /// use esker_vfs::mem::MemFs;
    ///
    /// let fs = FaultFs::over(&MemFs::simulated(), Arc::new(SimClock::new()));
    /// let believed = Believed::new(Arc::new(fs.clone()), "/".as_ref());
    /// believed.sync_dir("/".as_ref())?;
    /// fs.plan(Fault::when(|call| call.operation == Operation::SyncDir));
    /// assert!(believed.sync_dir("/".as_ref()).is_err());
    /// fs.clear();
    /// assert!(fs.sync_dir("/".as_ref()).is_ok());
    /// assert!(believed.sync_dir("/".as_ref()).is_err());
    /// # Ok::<(), esker_base::Error>(())
    /// ```
    pub fn new(inner: Arc<dyn Fs>, dir: &Path) -> Self {
        Believed { inner, dir: dir.to_path_buf(), state: Mutex::default() }
    }
}

impl Fs for Believed {
    fn create(&self, path: &Path) -> Result<Arc<dyn File>> {
        self.inner.create(path)
    }
    fn open(&self, path: &Path) -> Result<Arc<dyn File>> {
        self.inner.open(path)
    }
    fn open_writable(&self, path: &Path) -> Result<Arc<dyn File>> {
        self.inner.open_writable(path)
    }
    fn map(&self, path: &Path) -> Result<Bytes> {
        self.inner.map(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.inner.rename(from, to)
    }
    fn remove(&self, path: &Path) -> Result<()> {
        self.inner.remove(path)
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
        self.inner.open_dir(dir)
    }
    fn sync_dir(&self, dir: &Path) -> Result<()> {
        if dir != self.dir {
            return self.inner.sync_dir(dir);
        }
        let State { open, failed } = &mut *self.state.lock();
        if let Some(error) = failed {
            return Err(error.clone());
        }
        let open = match open {
            Some(open) => open,
            closed => closed.insert(self.inner.open_dir(dir)?),
        };
        open.sync().inspect_err(|error| *failed = Some(error.clone()))
    }
    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        self.inner.lock(path)
    }
    fn free_space(&self, dir: &Path) -> Result<Option<u64>> {
        self.inner.free_space(dir)
    }
    fn open_files_max(&self) -> Option<u64> {
        self.inner.open_files_max()
    }
}
