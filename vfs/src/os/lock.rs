//! The lock on a database's directory.
//!
//! Two layers: `flock` (through std) against other processes, and a registry of the locked files of
//! this process, because some filesystems emulate `flock` with POSIX locks, which the same process
//! may take twice and which any close of the file drops.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use esker_base::{Error, Result};
use parking_lot::Mutex;

use super::process::Process;
use super::{open_regular, sys};
use crate::fs::FileLock;

/// The files that this process has locked.
static HELD: LazyLock<Mutex<BTreeSet<sys::Identity>>> = LazyLock::new(Mutex::default);

/// An entry of [`HELD`]; dropping it takes the entry out.
struct Registration(sys::Identity);

impl Registration {
    fn take(identity: sys::Identity) -> Option<Registration> {
        let free = HELD.lock().insert(identity.clone());
        // Only for a free file: dropping a registration takes the entry out.
        free.then(|| Registration(identity))
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        HELD.lock().remove(&self.0);
    }
}

/// A held lock.
pub(super) struct OsLock {
    path: PathBuf,
    /// The process that took the lock: a forked child shares the descriptor but not the lock.
    process: Process,
    // Fields drop in this order: the system's lock goes before the registration, so that whoever
    // finds the registry free also finds the file free.
    file: fs::File,
    registration: Registration,
}

impl OsLock {
    /// Lock the file at `path`, creating it if need be.
    pub(super) fn take(path: &Path) -> Result<OsLock> {
        let locked = |holder: &str| Error::Locked {
            path: path.parent().unwrap_or(path).to_path_buf(),
            holder: holder.to_owned(),
        };
        loop {
            // Checked before it is opened, since to open it would end in a close. If there is no file yet,
            // or another takes the name now, the check of the open file finds that out.
            if sys::identity_at(path).is_ok_and(|identity| HELD.lock().contains(&identity)) {
                return Err(locked("another handle of this process"));
            }
            let (file, identity) = open(path).map_err(|source| Error::io("lock", path, source))?;
            let Some(registration) = Registration::take(identity) else {
                return Err(locked("another handle of this process"));
            };
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(locked("another process")),
                Err(TryLockError::Error(source)) => return Err(Error::io("lock", path, named(source))),
            }
            let lock = OsLock { path: path.to_path_buf(), process: Process::current(), file, registration };
            // The name may have gone to another file between the open and the lock.
            if lock.still_in_place()? {
                return Ok(lock);
            }
        }
    }
}

impl Drop for OsLock {
    fn drop(&mut self) {
        // Closing the file would not do: a forked child's copy of the descriptor keeps a lock that nobody
        // releases. And what such a child drops belongs to its parent.
        if self.process.is_surely_current() {
            // If this is refused, the close releases the lock, unless there is a child.
            let _refused = self.file.unlock();
        }
    }
}

/// The same error, of the kind `Unsupported` if it says that the filesystem has no locks: some say it by another number.
fn named(source: io::Error) -> io::Error {
    #[cfg(target_os = "linux")]
    if source.raw_os_error() == Some(rustix::io::Errno::NOLCK.raw_os_error()) {
        return io::Error::new(io::ErrorKind::Unsupported, source);
    }
    source
}

fn open(path: &Path) -> io::Result<(fs::File, sys::Identity)> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let file = open_regular(path, &mut options, true)?;
    let identity = sys::identity(&file, path)?;
    Ok((file, identity))
}

impl FileLock for OsLock {
    fn still_in_place(&self) -> Result<bool> {
        if !self.process.is_surely_current() {
            return Ok(false);
        }
        match sys::identity_at(&self.path) {
            Ok(identity) => Ok(identity == self.registration.0),
            Err(gone) if gone.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(Error::io("look up", &self.path, source)),
        }
    }
}
