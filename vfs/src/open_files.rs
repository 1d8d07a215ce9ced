//! Files for reading, of which only a limited number is open at once.
//!
//! A database has as many tables as its rows need, a process as many descriptors as its system grants. So a file
//! stays open until others want its place, and is opened again by its next read. Which one goes is chosen as pages
//! are by the clock algorithm (F. J. Corbató, *A Paging Experiment with the Multics System*, 1968): the hand passes
//! over a file that was read since it came by last, and closes the first that was not.
//!
//! Invariants:
//! 1. A file stands in the clock exactly while its slot holds it open.
//! 2. At most `limit` files stand in the clock; a file that was closed under a read stays open until that read ends.
//!
//! Whoever opens files here leaves them under their names, with the bytes they have, as long as they are
//! read. If another file has taken the place of one that was closed, for example because a directory was
//! replaced by another of the same name, a read errs.
//!
//! Threads: any. A read of an open file takes no lock. Opening holds the file's own lock, then the clock's, which is
//! a leaf; nothing is opened or closed under the clock's.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use esker_base::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use esker_base::sync::{ArcSwapOption, Mutex};
use esker_base::{Error, Result};

use crate::fs::{File, FileId, Fs};

#[cfg(test)]
mod tests;

/// See the module. Shared by all that read one database.
pub struct OpenFiles {
    fs: Arc<dyn Fs>,
    limit: usize,
    clock: Mutex<Clock>,
}

/// The open files in a ring.
#[derive(Default)]
struct Clock {
    slots: Vec<Arc<Slot>>,
    hand: usize,
}

/// A file's place.
struct Slot {
    path: PathBuf,
    open: ArcSwapOption<Handle>,
    /// Held while somebody is opening it.
    opening: Mutex<()>,
    /// Whether it was read since the hand last came by.
    read: AtomicBool,
    /// See [`File::advise_random`]: a file that is opened again is advised again.
    random: AtomicBool,
    /// Where it stands in the clock; written under the clock's lock.
    at: AtomicUsize,
    /// Which file it was when it was first opened.
    first: OnceLock<Option<FileId>>,
}

/// An open file. (An `Arc` of a trait object is two words, which no atomic swaps.)
struct Handle(Arc<dyn File>);

impl OpenFiles {
    /// Files of `fs`, at most `limit` of them (at least one) open at once.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use esker_vfs::fs::{Fs, read_exact_at};
    /// use esker_vfs::mem::MemFs;
    /// use esker_vfs::open_files::OpenFiles;
    ///
    /// let fs = Arc::new(MemFs::new());
    /// for name in ["/a", "/b"] {
    ///     fs.create(name.as_ref())?.write_at(name.as_bytes(), 0)?;
    /// }
    /// let files = OpenFiles::new(fs, 1);
    /// let (a, b) = (files.open("/a".as_ref())?, files.open("/b".as_ref())?);
    /// assert_eq!(read_exact_at(&*a, 1, 1)?, b"a");
    /// assert_eq!(read_exact_at(&*b, 1, 1)?, b"b");
    /// assert_eq!(files.open_now(), 1);
    /// # Ok::<(), esker_base::Error>(())
    /// ```
    pub fn new(fs: Arc<dyn Fs>, limit: usize) -> Arc<OpenFiles> {
        Arc::new(OpenFiles { fs, limit: limit.max(1), clock: Mutex::default() })
    }

    /// The filesystem that the files are of.
    pub fn fs(&self) -> &Arc<dyn Fs> {
        &self.fs
    }

    /// Open the file at `path` for reading. Each read of the result opens it again if it was closed meanwhile, with
    /// the errors of that.
    ///
    /// # Errors
    /// As [`Fs::open`]. Where the process has no descriptor left, a file that others read gives up its own first.
    pub fn open(self: &Arc<Self>, path: &Path) -> Result<Arc<dyn File>> {
        let slot = Slot {
            path: path.to_path_buf(),
            open: ArcSwapOption::default(),
            opening: Mutex::default(),
            read: AtomicBool::new(false),
            random: AtomicBool::new(false),
            at: AtomicUsize::new(0),
            first: OnceLock::new(),
        };
        let file = KeptFile { slot: Arc::new(slot), files: Arc::clone(self) };
        file.reopen()?;
        Ok(Arc::new(file))
    }

    /// How many files are open.
    pub fn open_now(&self) -> usize {
        self.clock.lock().slots.len()
    }

    /// The whole file at `path`, as [`Fs::map`] has it.
    ///
    /// # Errors
    /// As [`OpenFiles::open`].
    pub fn map(&self, path: &Path) -> Result<Bytes> {
        self.giving_up(|| self.fs.map(path))
    }

    /// Do `open`. Where there is no descriptor left for it, close files, and try again until none is left
    /// that could be closed.
    fn giving_up<T>(&self, open: impl Fn() -> Result<T>) -> Result<T> {
        loop {
            match open() {
                // Closing a file that is being read frees no descriptor yet.
                Err(error) if error.is_no_descriptors() && self.give_up(1) > 0 => {}
                opened => return opened,
            }
        }
    }

    /// Close up to `count` files, first those that were not read lately, because somebody needs
    /// descriptors. Returns how many.
    pub fn give_up(&self, count: usize) -> usize {
        let mut clock = self.clock.lock();
        let closed: Vec<_> = (0..count).map_while(|_| clock.close_one()).collect();
        drop(clock);
        closed.len()
    }
}

impl Clock {
    fn add(&mut self, slot: &Arc<Slot>) {
        // The read for which the file was opened does not count: a file that is read once goes before those
        // that are read again and again.
        slot.read.store(false, Ordering::Relaxed);
        slot.at.store(self.slots.len(), Ordering::Relaxed);
        self.slots.push(Arc::clone(slot));
    }

    /// Take the slot at `at` out of the clock. Returns its file, for the caller to drop when the lock is
    /// free again.
    fn take(&mut self, at: usize) -> Option<Arc<Handle>> {
        let slot = self.slots.swap_remove(at);
        if let Some(moved) = self.slots.get(at) {
            moved.at.store(at, Ordering::Relaxed);
        }
        slot.open.swap(None)
    }

    /// Close the first file that was not read since the hand came by; where all are read again and again, the one at
    /// which the hand stands after a round.
    fn close_one(&mut self) -> Option<Arc<Handle>> {
        for _ in 0..self.slots.len() {
            if self.hand >= self.slots.len() {
                self.hand = 0;
            }
            let slot = self.slots.get(self.hand)?;
            if !slot.read.swap(false, Ordering::Relaxed) {
                break;
            }
            self.hand += 1;
        }
        let at = if self.hand < self.slots.len() { self.hand } else { 0 };
        if self.slots.is_empty() { None } else { self.take(at) }
    }
}

/// A file of [`OpenFiles`].
struct KeptFile {
    slot: Arc<Slot>,
    files: Arc<OpenFiles>,
}

impl KeptFile {
    /// Call `work` with the file, which is opened first if it is not open.
    fn with<T>(&self, work: impl FnOnce(&dyn File) -> Result<T>) -> Result<T> {
        // Stored once for each round of the hand, not for each read: other threads read the same cache
        // line.
        if !self.slot.read.load(Ordering::Relaxed) {
            self.slot.read.store(true, Ordering::Relaxed);
        }
        match &*self.slot.open.load() {
            Some(open) => work(&*open.0),
            None => work(&*self.reopen()?.0),
        }
    }

    #[cold]
    fn reopen(&self) -> Result<Arc<Handle>> {
        let KeptFile { slot, files } = self;
        let _turn = slot.opening.lock();
        if let Some(open) = slot.open.load_full() {
            return Ok(open);
        }
        let file = files.giving_up(|| files.fs.open(&slot.path))?;
        let id = file.id()?;
        if slot.first.get_or_init(|| id) != &id {
            let replaced = io::Error::other("another file has come in its place since it was first opened");
            return Err(Error::io("open again", &slot.path, replaced));
        }
        if slot.random.load(Ordering::Relaxed) {
            file.advise_random();
        }
        let open = Arc::new(Handle(file));
        let mut clock = files.clock.lock();
        let closed = if clock.slots.len() < files.limit { None } else { clock.close_one() };
        clock.add(slot);
        slot.open.store(Some(Arc::clone(&open)));
        drop(clock);
        drop(closed);
        Ok(open)
    }
}

impl Drop for KeptFile {
    fn drop(&mut self) {
        let mut clock = self.files.clock.lock();
        // Nobody reads it any more, so nobody opens it.
        let open = self.slot.open.load().is_some();
        let closed = if open { clock.take(self.slot.at.load(Ordering::Relaxed)) } else { None };
        drop(clock);
        drop(closed);
    }
}

impl File for KeptFile {
    fn path(&self) -> &Path {
        &self.slot.path
    }
    fn len(&self) -> Result<u64> {
        self.with(|file| file.len())
    }
    fn id(&self) -> Result<Option<FileId>> {
        self.with(|file| file.id())
    }
    fn advise_random(&self) {
        self.slot.random.store(true, Ordering::Relaxed);
        if let Some(open) = &*self.slot.open.load() {
            open.0.advise_random();
        }
    }
    fn advise_willneed(&self, offset: u64, len: u64) {
        // A failure here is for the read to report.
        let _ = self.with(|file| {
            file.advise_willneed(offset, len);
            Ok(())
        });
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.with(|file| file.read_at(buffer, offset))
    }
    fn read_onto(&self, buffer: &mut Vec<u8>, len: usize, offset: u64) -> Result<usize> {
        self.with(|file| file.read_onto(buffer, len, offset))
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.with(|file| file.write_at(bytes, offset))
    }
    fn set_len(&self, len: u64) -> Result<()> {
        self.with(|file| file.set_len(len))
    }
    fn allocate(&self, len: u64) -> Result<()> {
        self.with(|file| file.allocate(len))
    }
    fn sync_data(&self) -> Result<()> {
        self.with(|file| file.sync_data())
    }
    fn sync(&self) -> Result<()> {
        self.with(|file| file.sync())
    }
}
