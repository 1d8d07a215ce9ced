//! The filesystem seam.
//!
//! Contract, kept by every implementation and leaned on by every floor above:
//! 1. Bytes written are readable at once, by any handle; they survive power loss only after
//!    [`File::sync`] (or [`File::sync_data`]) returned Ok.
//! 2. A created, renamed, linked or removed name survives power loss only after [`Fs::sync_dir`] on
//!    its directory returned Ok.
//! 3. Short reads, short writes and interrupted calls are handled here: a call does all or errs.
//! 4. An error names the operation and the path. After a failed call that writes, the affected range
//!    holds old bytes, new bytes or a mix; after a failed sync nothing is known about any byte
//!    written since the last successful one, and a later Ok proves nothing about them.
//! 5. Nothing follows a symbolic link in the last component of a path.
//! 6. A path is a directory joined with one file name: of the database's own directory, of a new one that a checkpoint or
//!    salvage makes, or, to make a new directory's name durable, that of its parent.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use esker_base::Result;

/// What a directory entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, pipe, device or socket: never opened.
    Other,
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The name, without its directory. Names that are not UTF-8 are left out of listings: no file
    /// of a database has one.
    pub name: String,
    /// What it is.
    pub kind: EntryKind,
    /// Its length in bytes; 0 for anything but a file.
    pub len: u64,
}

/// A filesystem.
pub trait Fs: Send + Sync {
    /// Create a file that must not exist yet, readable and writable. Its name is not durable before
    /// [`Fs::sync_dir`].
    fn create(&self, path: &Path) -> Result<Arc<dyn File>>;
    /// Open an existing regular file for reading; writing through it is an error.
    fn open(&self, path: &Path) -> Result<Arc<dyn File>>;
    /// Open an existing regular file for reading and writing.
    fn open_writable(&self, path: &Path) -> Result<Arc<dyn File>>;
    /// The whole of an existing file as bytes that live as long as the result, mapped where the system can.
    /// Where a call would return an error, because a device fails or somebody cuts the file short, a
    /// mapping ends the process by a signal. Whoever opens a database decides whether to take that risk, by
    /// `TableSource::Mapped`.
    fn map(&self, path: &Path) -> Result<Bytes>;
    /// Give `from` the name `to`, replacing a file of that name.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;
    /// Remove a file's name.
    fn remove(&self, path: &Path) -> Result<()>;
    /// Give the file `from` a second name `to`, which must not exist. Across filesystems, or where there
    /// are no links, this errs and the caller copies.
    fn hard_link(&self, from: &Path, to: &Path) -> Result<()>;
    /// Create a directory; Ok if it exists.
    fn create_dir(&self, path: &Path) -> Result<()>;
    /// Create a directory that must not exist yet: of several calls at once, by whatever process, one makes it.
    /// Its name is not durable before [`Fs::sync_dir`] on the directory it stands in.
    ///
    /// # Errors
    /// [`Error::Io`](esker_base::Error::Io); of the kind `AlreadyExists` if there is anything of that name, a
    /// dangling symbolic link too.
    fn create_new_dir(&self, path: &Path) -> Result<()>;
    /// Remove an empty directory.
    fn remove_dir(&self, path: &Path) -> Result<()>;
    /// The names in a directory, sorted.
    fn list(&self, dir: &Path) -> Result<Vec<DirEntry>>;
    /// What stands at `path`, or `None`.
    fn stat(&self, path: &Path) -> Result<Option<DirEntry>>;
    /// Open a directory, to make its names durable.
    fn open_dir(&self, dir: &Path) -> Result<Box<dyn Dir>>;
    /// Make every name created, renamed or removed in `dir` so far durable.
    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.open_dir(dir)?.sync()
    }
    /// Lock the file at `path` (created if absent) against every other handle, in this process or
    /// another, until the result is dropped by the process that took it, whatever children that has forked.
    /// [`Error::Locked`](esker_base::Error::Locked) at once if somebody has it.
    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>>;
    /// Bytes that a write into `dir` could still use, or `None` where that is not known.
    fn free_space(&self, dir: &Path) -> Result<Option<u64>>;
    /// How many files this process may have open, of whatever kind, or `None` where that is not known.
    fn open_files_max(&self) -> Option<u64>;
}

/// An open directory.
pub trait Dir: Send + Sync {
    /// Make every name created, renamed or removed in it so far durable.
    fn sync(&self) -> Result<()>;
}

/// A lock on a file; dropping it releases the lock.
pub trait FileLock: Send + Sync {
    /// Whether the locked file still stands under its name (rule: a directory moved or replaced under
    /// an open database stops its writes) and the caller is the process that took the lock: a forked child
    /// shares the descriptor, but not the lock.
    fn still_in_place(&self) -> Result<bool>;
}

/// A share of a lock: it is released when the last one is dropped.
impl FileLock for Arc<dyn FileLock> {
    fn still_in_place(&self) -> Result<bool> {
        (**self).still_in_place()
    }
}

/// What tells a file from all others, whatever their names, as long as it exists: on Unix the numbers of
/// the device and of the inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId(pub u64, pub u64);

/// An open file. All methods take `&self`: one thread may sync while another writes behind the
/// synced range.
pub trait File: Send + Sync {
    /// The path it was opened under, for messages.
    fn path(&self) -> &Path;
    /// Its length in bytes.
    fn len(&self) -> Result<u64>;
    /// Which file it is, or `None` where that is not known.
    fn id(&self) -> Result<Option<FileId>> {
        Ok(None)
    }
    /// Whether it is empty.
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Advise the system that reads through this handle will be random, so that it does no readahead
    /// (`POSIX_FADV_RANDOM`). A hint: it may have no effect.
    fn advise_random(&self) {}
    /// Advise the system that `len` bytes at `offset` will be read soon, through any handle, so that it begins to
    /// read them (`POSIX_FADV_WILLNEED`). A hint: it may have no effect.
    fn advise_willneed(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }
    /// Read up to `buffer.len()` bytes at `offset`; fewer only at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize>;
    /// Read up to `len` bytes at `offset` onto the end of `buffer`; fewer only at the end of the file.
    /// Returns how many. An implementation need not write to that part of the buffer first, as this default
    /// does.
    fn read_onto(&self, buffer: &mut Vec<u8>, len: usize, offset: u64) -> Result<usize> {
        let start = buffer.len();
        buffer.resize(start + len, 0);
        let read = self.read_at(buffer.get_mut(start..).unwrap_or_default(), offset);
        buffer.truncate(start + read.as_ref().copied().unwrap_or_default());
        read
    }
    /// Write all of `bytes` at `offset`, growing the file as needed.
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()>;
    /// Make the file `len` bytes long, cutting or filling with zeros.
    fn set_len(&self, len: u64) -> Result<()>;
    /// Reserve space for the first `len` bytes, so that writing them cannot fail for lack of space,
    /// and make the file at least that long (new bytes read as zeros). Where the system cannot
    /// reserve, only the length changes.
    fn allocate(&self, len: u64) -> Result<()>;
    /// As [`File::allocate`], from a thread beside the one that writes: whether the space is reserved. Where the
    /// system cannot reserve, nothing happens, because setting a length might cut off what is written meanwhile.
    fn reserve(&self, len: u64) -> Result<bool> {
        let _ = len;
        Ok(false)
    }
    /// Tell the system that the `len` bytes written at `offset` will be synced before long and may go to
    /// the device at once. Promises nothing; a failure is for the sync to report.
    fn start_writeback(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }
    /// Make written bytes, and the length needed to read them, durable.
    fn sync_data(&self) -> Result<()>;
    /// Make written bytes and all of the file's metadata durable.
    fn sync(&self) -> Result<()>;
    /// The `len` bytes from `offset` on, which [`File::allocate`] has reserved, as memory to write to.
    /// `None` where there is no such memory, or a failure under it would be more likely than a bad device:
    /// then, and outside of it, [`File::write_at`] does the same. May take as long as a few hundred writes.
    fn map_range(&self, offset: u64, len: usize, writes: RangeWrites) -> Option<Box<dyn MappedRange>> {
        let _ = (offset, len, writes);
        None
    }
}

/// How a [`MappedRange`] is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeWrites {
    /// The system copies, by a call that takes about half as long as [`File::write_at`]. A failure is an
    /// error.
    Called,
    /// This program stores. The hazard: if the device fails, or another program cuts the file, the process
    /// ends by a signal where a call would have returned an error.
    Stored,
}

/// A part of a file as memory to write to: a write brings bytes into that memory, and is otherwise the same
/// as [`File::write_at`]. It is good as long as its file is not cut.
pub trait MappedRange: Send {
    /// Write all of `bytes` at `offset` of the file. Panics unless they lie within the range.
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> Result<()>;
}

/// Read exactly `len` bytes at `offset`, which the caller has checked against the file's length; a
/// file that turns out shorter is [`Error::Corruption`](esker_base::Error::Corruption).
pub fn read_exact_at(file: &dyn File, offset: u64, len: usize) -> Result<Vec<u8>> {
    let mut buffer = esker_base::memory::reserved(len, "a read of a file")?;
    let read = file.read_onto(&mut buffer, len, offset)?;
    check_whole(file, offset, read, len)?;
    Ok(buffer)
}

/// [`read_exact_at`] that fills `buffer`.
pub fn fill_exact_at(file: &dyn File, offset: u64, buffer: &mut [u8]) -> Result<()> {
    let read = file.read_at(buffer, offset)?;
    check_whole(file, offset, read, buffer.len())
}

fn check_whole(file: &dyn File, offset: u64, read: usize, len: usize) -> Result<()> {
    if read < len {
        return Err(esker_base::Error::corruption(
            file.path(),
            offset + read as u64,
            format!("the file ends {} bytes early", len - read),
        ));
    }
    Ok(())
}

/// The whole content of a file of at most `max` bytes.
pub fn read_all(fs: &dyn Fs, path: &Path, max: u64) -> Result<Vec<u8>> {
    let file = fs.open(path)?;
    let len = file.len()?;
    match usize::try_from(len) {
        Ok(fits) if len <= max => read_exact_at(&*file, 0, fits),
        _ => Err(esker_base::Error::corruption(
            path,
            0,
            format!("it is {len} bytes long, at most {max} were expected"),
        )),
    }
}

/// Write `bytes` as the file `dir/name` so that after a crash either the old content or the new is
/// there: write `dir/temporary`, sync it, rename, sync the directory.
pub fn replace(fs: &dyn Fs, dir: &Path, name: &str, temporary: &str, bytes: &[u8]) -> Result<()> {
    stage(fs, dir, temporary, bytes)?;
    put_in_place(fs, dir, temporary, name)
}

/// The first half of [`replace`]: write `bytes` as the file `dir/temporary`, whatever is there, and sync it. An error of this
/// one has changed nothing but that file.
pub fn stage(fs: &dyn Fs, dir: &Path, temporary: &str, bytes: &[u8]) -> Result<()> {
    let staged: PathBuf = dir.join(temporary);
    if fs.stat(&staged)?.is_some() {
        fs.remove(&staged)?;
    }
    let file = fs.create(&staged)?;
    file.write_at(bytes, 0)?;
    file.sync()
}

/// The second half: rename `dir/temporary` to `dir/name` and sync the directory. After an error it may be either.
pub fn put_in_place(fs: &dyn Fs, dir: &Path, temporary: &str, name: &str) -> Result<()> {
    fs.rename(&dir.join(temporary), &dir.join(name))?;
    fs.sync_dir(dir)
}
