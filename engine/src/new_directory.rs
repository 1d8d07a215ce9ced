//! The directory of a database that is being made: a checkpoint's, or what is salvaged.
//!
//! 1. Whether its name is free is decided when the directory is made, by the call that makes it.
//! 2. It is locked from then on, as an open database's is: nobody makes or opens a database among the files of
//!    an unfinished one. Whoever has made something there in the instant before keeps it.
//! 3. Only what stands in such a directory is ever discarded.
//!
//! Threads: the one that makes the database. Locks: that of the directory.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use esker_base::filename::{self, FileName};
use esker_base::{Error, Result};
use esker_vfs::fs::{FileLock, Fs};

/// See the module. It is unlocked when it is dropped, and stays.
pub(crate) struct NewDirectory {
    fs: Arc<dyn Fs>,
    path: PathBuf,
    /// `None` where the filesystem has no locks. Nobody opens a database for writing there.
    lock: Option<Arc<dyn FileLock>>,
}

impl NewDirectory {
    /// Err early, before the work for what is to be done (`purpose`, in words) in `path`, if there is something of
    /// that name already.
    pub(crate) fn check_free(fs: &dyn Fs, path: &Path, purpose: &str) -> Result<()> {
        if fs.stat(path)?.is_some() { Err(exists(path, purpose)) } else { Ok(()) }
    }

    /// Make the directory `path`, for `purpose`, and lock it.
    ///
    /// Errors, after which nothing of what others have there is touched: [`Error::InvalidArgument`] if there is
    /// something of that name, or if somebody puts something into the directory the moment it is there;
    /// [`Error::Locked`] if somebody opens a database in it in that moment; [`Error::Io`].
    pub(crate) fn make(fs: &Arc<dyn Fs>, path: &Path, purpose: &str) -> Result<NewDirectory> {
        fs.create_new_dir(path).map_err(|error| match error {
            Error::Io { source, .. } if source.kind() == ErrorKind::AlreadyExists => exists(path, purpose),
            other => other,
        })?;
        let lock = match fs.lock(&path.join(filename::LOCK)) {
            Ok(lock) => Some(Arc::from(lock)),
            Err(Error::Io { source, .. }) if source.kind() == ErrorKind::Unsupported => None,
            Err(error) => {
                // It goes if it is empty.
                let _ = fs.remove_dir(path);
                return Err(error);
            }
        };
        let made = NewDirectory { fs: Arc::clone(fs), path: path.to_path_buf(), lock };
        match fs.list(path) {
            Ok(entries) if entries.iter().all(|entry| entry.name == filename::LOCK) => Ok(made),
            Ok(_) => Err(exists(path, purpose)),
            Err(error) => {
                // It goes if it is empty.
                made.unlock();
                let _ = fs.remove_dir(path);
                Err(error)
            }
        }
    }

    /// The lock, for whoever opens the database: both hold it then.
    pub(crate) fn lock(&self) -> Option<Arc<dyn FileLock>> {
        self.lock.clone()
    }

    /// Whether what stands at the path is the directory that was made still: it may have been moved, and another one
    /// have come to its place. Not to know is a no.
    fn is_in_place(&self) -> bool {
        self.lock.as_ref().is_none_or(|lock| matches!(lock.still_in_place(), Ok(true)))
    }

    /// Remove a file of the directory, best effort.
    fn remove(&self, name: &str) {
        if self.is_in_place() {
            let _ = self.fs.remove(&self.path.join(name));
        }
    }

    /// Remove the lock's file and let go of the lock: what is not open has none, so that several may read it at once.
    pub(crate) fn unlock(self) {
        // Its removal may be undone by a crash: then there is a lock that nobody holds.
        self.remove(filename::LOCK);
    }

    /// Remove it, and what was made in it: names that a database makes, the lock's last.
    pub(crate) fn discard(self) {
        let Ok(entries) = self.fs.list(&self.path) else { return };
        for entry in entries {
            if FileName::parse(&entry.name).is_some_and(|name| name != FileName::Lock) {
                self.remove(&entry.name);
            }
        }
        let (fs, path) = (Arc::clone(&self.fs), self.path.clone());
        self.unlock();
        let _ = fs.remove_dir(&path);
    }
}

fn exists(path: &Path, purpose: &str) -> Error {
    Error::invalid(format!("cannot {purpose} {}: it exists; name a new directory", path.display()))
}
