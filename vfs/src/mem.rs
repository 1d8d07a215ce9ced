//! Files in memory, and on the same code a simulated disk that can lose power.
//!
//! [`MemFs::new`] is a filesystem and nothing more. [`MemFs::simulated`] also tells what is durable
//! from what is not: it keeps every call that changes something in a trace, and from any prefix of
//! the trace makes the disks that a crash at that moment could leave ([`CrashPoint`]). A workload runs
//! once; its crashes are then functions of the trace, a [`Policy`] and a seed.
//!
//! What is modelled: files are pages of 4 KiB, shared until written; sectors of 512 bytes reach the disk
//! whole or not at all, in any order, each as it stood after one of the writes to it; each length and each
//! name reaches it independently, a rename whole; a sync settles what it promises; freed blocks keep their
//! bytes. Space may be bounded, syncs may fail or lie. Renaming a directory is not supported.
//!
//! Paths are looked up from one root: `/`, `.` and the empty path are it, and `a/b` is `/a/b`.
//!
//! Threads: any number. One lock over the whole disk, shared by readers, held for a copy at most: this
//! is for tests, teaching and small data.

mod choice;
mod content;
mod crash;
mod directory;
mod file;
mod inode;
mod live;
mod model;
mod trace;

use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use esker_base::sync::{Mutex, RwLock};
use esker_base::{Error, Result};

pub use choice::{Policy, Unit, UnitKind};
pub use content::{PAGE_BYTES, SECTOR_BYTES};
pub use crash::{CrashPoint, Selections, Sweep};
pub use inode::SyncFailure;

use crate::fs::{Dir, DirEntry, File, FileLock, Fs};
use directory::Node;
use file::{MemDir, MemFile, MemLock};
use live::Live;
use model::Model;
use trace::{Action, Call};

/// See the module. Clones are handles of the same disk.
#[derive(Clone)]
pub struct MemFs {
    disk: Arc<Disk>,
}

struct Disk {
    live: RwLock<Live>,
    /// The state that the trace starts from.
    start: Model,
    /// The last state replayed from the trace and how many calls it took: crash points are mostly
    /// asked for in order.
    replayed: Mutex<Option<(usize, Model)>>,
}

impl Default for MemFs {
    fn default() -> Self {
        Self::new()
    }
}

impl MemFs {
    /// An empty filesystem on which everything is durable at once.
    pub fn new() -> Self {
        Self::with(Model::new(false))
    }

    /// An empty simulated disk.
    ///
    /// ```
    /// use std::path::Path;
    /// use esker_vfs::fs::Fs;
    /// use esker_vfs::mem::{MemFs, Policy};
    /// # fn main() -> esker_base::Result<()> {
    /// let disk = MemFs::simulated();
    /// let file = disk.create(Path::new("log"))?;
    /// disk.sync_dir(Path::new("/"))?;
    /// file.write_at(b"synced", 0)?;
    /// file.sync()?;
    /// file.write_at(b", not synced", 6)?;
    /// // Power fails after the last call:
    /// let after = disk.image_at(disk.trace_len(), Policy::Strict, 0);
    /// assert_eq!(after.open(Path::new("log"))?.len()?, 6);
    /// # Ok(())
    /// # }
    /// ```
    pub fn simulated() -> Self {
        Self::with(Model::new(true))
    }

    fn with(model: Model) -> Self {
        let live = RwLock::new(Live::new(model.clone()));
        MemFs { disk: Arc::new(Disk { live, start: model, replayed: Mutex::new(None) }) }
    }

    /// How many calls have changed the disk; 0 unless it is simulated.
    pub fn trace_len(&self) -> usize {
        self.disk.live.read().trace.len()
    }

    /// A hash over the calls that have changed the disk, with all their arguments.
    pub fn trace_hash(&self) -> u64 {
        self.disk.live.read().hash.value()
    }

    /// Call `nth` of the trace in words, for messages of failing tests.
    pub fn describe_call(&self, nth: usize) -> String {
        self.disk.live.read().trace.get(nth).map_or_else(|| "no such call".to_owned(), Call::to_string)
    }

    /// A hash over all names, lengths and bytes as readers see them: equal for disks of equal content.
    pub fn content_hash(&self) -> u64 {
        self.disk.live.read().model.content_hash()
    }

    /// Bound the space for files to `bytes` (whole pages count), or lift the bound. What is there
    /// stays, whatever the bound; a call that needs more errs as a full disk does.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.disk.live.write().capacity = bytes;
    }

    /// From now on syncs return Ok and do nothing; or, if `lies` is false, do again what they say.
    pub fn set_sync_lies(&self, lies: bool) {
        self.disk.live.write().sync_lies = lies;
    }

    /// The next sync of a file or directory fails, whoever calls it. `seed` draws the sectors, lengths
    /// and names that reach the disk all the same; 0 is none, 1 is all. Names stay in the cache in
    /// either mode.
    pub fn fail_next_sync(&self, mode: SyncFailure, seed: u64) {
        self.disk.live.write().fail_next_sync = Some((mode, seed));
    }

    /// Take [`MemFs::fail_next_sync`] back.
    pub(crate) fn fail_no_sync(&self) {
        self.disk.live.write().fail_next_sync = None;
    }
}

/// An error of operation `op` on `path`.
fn fail(op: &'static str, path: &Path, kind: ErrorKind) -> Error {
    Error::io(op, path, io::Error::from(kind))
}

/// What the system says when a device fails.
#[cfg(unix)]
pub(crate) fn device_error() -> io::Error {
    rustix::io::Errno::IO.into()
}

/// What the system says when a device fails.
#[cfg(not(unix))]
pub(crate) fn device_error() -> io::Error {
    io::Error::other("input/output error")
}

impl Disk {
    fn open_as(self: &Arc<Self>, op: &'static str, path: &Path, writable: bool) -> Result<MemFile> {
        let mut live = self.live.write();
        match live.find(op, path)? {
            Some(Node::File(inode)) => Ok(MemFile::new(self, &mut live, inode, path, writable)),
            Some(Node::Dir(_)) => Err(fail(op, path, ErrorKind::InvalidInput)),
            None => Err(fail(op, path, ErrorKind::NotFound)),
        }
    }

    /// Make the directory `path`; one that is there already will do if `may_exist`.
    fn make_dir(&self, path: &Path, may_exist: bool) -> Result<()> {
        let mut live = self.live.write();
        let taken = || fail("create directory", path, ErrorKind::AlreadyExists);
        // The root stands in no directory, and is always there.
        let Some((dir, name)) = live.locate("create directory", path)? else {
            return if may_exist { Ok(()) } else { Err(taken()) };
        };
        match live.directory(dir).and_then(|dir| dir.volatile.get(name)) {
            Some(Node::Dir(_)) if may_exist => Ok(()),
            Some(_) => Err(taken()),
            None => {
                let made = live.new_id();
                live.perform(path, Action::MakeDir { dir, name: name.into(), made });
                Ok(())
            }
        }
    }
}

impl Fs for MemFs {
    fn create(&self, path: &Path) -> Result<Arc<dyn File>> {
        let mut live = self.disk.live.write();
        let (dir, name, taken) = live.place("create", path)?;
        if taken.is_some() {
            return Err(fail("create", path, ErrorKind::AlreadyExists));
        }
        let inode = live.new_id();
        live.perform(path, Action::Create { dir, name: name.into(), inode });
        Ok(Arc::new(MemFile::new(&self.disk, &mut live, inode, path, true)))
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn File>> {
        Ok(Arc::new(self.disk.open_as("open", path, false)?))
    }

    fn open_writable(&self, path: &Path) -> Result<Arc<dyn File>> {
        Ok(Arc::new(self.disk.open_as("open", path, true)?))
    }

    fn map(&self, path: &Path) -> Result<Bytes> {
        self.disk.open_as("map", path, false)?.read_whole()
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let mut live = self.disk.live.write();
        let (from_dir, from_name, node) = live.place("rename", from)?;
        let (to_dir, to_name, taken) = live.place("rename", to)?;
        let inode = match node {
            Some(Node::File(inode)) => inode,
            Some(Node::Dir(_)) => return Err(fail("rename", from, ErrorKind::Unsupported)),
            None => return Err(fail("rename", from, ErrorKind::NotFound)),
        };
        let replaced = match taken {
            Some(Node::Dir(_)) => return Err(fail("rename", from, ErrorKind::IsADirectory)),
            // Two names of one file: POSIX leaves both.
            Some(Node::File(same)) if same == inode => return Ok(()),
            Some(Node::File(replaced)) => Some(replaced),
            None => None,
        };
        let (source, target) = ((from_dir, from_name.into()), (to_dir, to_name.into()));
        live.perform(from, Action::Rename { from: source, to: target, inode, replaced });
        if let Some(replaced) = replaced {
            live.release(replaced);
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<()> {
        let mut live = self.disk.live.write();
        match live.place("remove", path)? {
            (dir, name, Some(Node::File(inode))) => {
                live.perform(path, Action::Remove { dir, name: name.into(), inode });
                live.release(inode);
                Ok(())
            }
            (_, _, Some(Node::Dir(_))) => Err(fail("remove", path, ErrorKind::IsADirectory)),
            (_, _, None) => Err(fail("remove", path, ErrorKind::NotFound)),
        }
    }

    fn hard_link(&self, from: &Path, to: &Path) -> Result<()> {
        let mut live = self.disk.live.write();
        let inode = match live.find("link", from)? {
            Some(Node::File(inode)) => inode,
            Some(Node::Dir(_)) => return Err(fail("link", from, ErrorKind::InvalidInput)),
            None => return Err(fail("link", from, ErrorKind::NotFound)),
        };
        let (dir, name, taken) = live.place("link", to)?;
        if taken.is_some() {
            return Err(fail("link", from, ErrorKind::AlreadyExists));
        }
        live.perform(to, Action::Link { dir, name: name.into(), inode });
        Ok(())
    }

    fn create_dir(&self, path: &Path) -> Result<()> {
        self.disk.make_dir(path, true)
    }

    fn create_new_dir(&self, path: &Path) -> Result<()> {
        self.disk.make_dir(path, false)
    }

    fn remove_dir(&self, path: &Path) -> Result<()> {
        let mut live = self.disk.live.write();
        let removed = live.find_dir("remove directory", path)?;
        if live.directory(removed).is_some_and(|dir| !dir.volatile.is_empty()) {
            return Err(fail("remove directory", path, ErrorKind::DirectoryNotEmpty));
        }
        let Some((dir, name)) = live.locate("remove directory", path)? else {
            return Err(fail("remove directory", path, ErrorKind::ResourceBusy));
        };
        live.perform(path, Action::RemoveDir { dir, name: name.into(), removed });
        Ok(())
    }

    fn list(&self, dir: &Path) -> Result<Vec<DirEntry>> {
        let live = self.disk.live.read();
        let id = live.find_dir("list", dir)?;
        let names = live.directory(id).map(|dir| &dir.volatile).into_iter().flatten();
        Ok(names.map(|(name, node)| live.entry(name, *node)).collect())
    }

    fn stat(&self, path: &Path) -> Result<Option<DirEntry>> {
        let live = self.disk.live.read();
        let found = match live.find("look up", path) {
            // The directory it would stand in is not there either.
            Err(missing) if missing.is_not_found() => return Ok(None),
            found => found?,
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Ok(found.map(|node| live.entry(&name, node)))
    }

    fn open_dir(&self, path: &Path) -> Result<Box<dyn Dir>> {
        Ok(Box::new(MemDir::open(&self.disk, path)?))
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        if self.stat(path)?.is_none() {
            match self.create(path) {
                Err(Error::Io { source, .. }) if source.kind() == ErrorKind::AlreadyExists => {}
                result => drop(result?),
            }
        }
        let file = self.disk.open_as("lock", path, true)?;
        Ok(Box::new(MemLock::take(file)?))
    }

    fn free_space(&self, dir: &Path) -> Result<Option<u64>> {
        let live = self.disk.live.read();
        live.find_dir("ask the free space of", dir)?;
        Ok(live.free_space())
    }

    fn open_files_max(&self) -> Option<u64> {
        None
    }
}
