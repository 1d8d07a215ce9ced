//! The operating system's files.
//!
//! Invariants:
//! 1. A file is opened only if it is a regular one; nothing follows a symbolic link in the last
//!    component, and a pipe or device in a file's place errs instead of blocking.
//! 2. A call reads or writes all it was asked for or errs; short and interrupted calls go on.
//! 3. No descriptor 0, 1 or 2 is ever kept: a stray print must not land in a table.
//! 4. Descriptors are not inherited by programs that this process starts.
//!
//! Threads: any number, through `&self`; the only lock is that of the registry of locked files,
//! held for a hash lookup. What differs between systems is in `os::sys`: on Unix rustix provides what
//! std lacks. Elsewhere std alone must do: links are refused by a check before the open instead of by
//! the open itself, space is not reserved, directories are not synced. That side compiles but is
//! not tested.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the system's files are touched here and nowhere else"
)]

pub mod block_pool;
#[cfg(all(target_os = "linux", not(miri)))]
mod copier;
#[cfg(not(all(target_os = "linux", not(miri))))]
#[path = "os/copier_portable.rs"]
mod copier;
pub(crate) mod load;
mod lock;
mod mapped;
pub mod memory;
pub(crate) mod own_processor;
pub mod pages;
pub(crate) mod priority;
pub mod process;
pub mod region;
#[cfg(not(unix))]
#[path = "os/sys_portable.rs"]
mod sys;
#[cfg(unix)]
#[path = "os/sys_unix.rs"]
mod sys;
#[cfg(test)]
mod tests;
mod transfer;

use std::fs::{self, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use esker_base::{Error, Result};

use crate::fs::{Dir, DirEntry, EntryKind, File, FileId, FileLock, Fs, MappedRange, RangeWrites};

/// The operating system's filesystem.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsFs;

/// A file of the operating system.
#[derive(Clone)]
struct OsFile {
    file: Arc<fs::File>,
    path: PathBuf,
}

/// A directory of the operating system.
struct OsDir {
    dir: sys::OpenDir,
    path: PathBuf,
}

impl Dir for OsDir {
    fn sync(&self) -> Result<()> {
        self.dir.sync().map_err(|source| Error::io("sync directory", &self.path, source))
    }
}

impl OsFs {
    /// The filesystem.
    pub fn new() -> Self {
        OsFs
    }
}

fn kind_of(metadata: &Metadata) -> EntryKind {
    let kind = metadata.file_type();
    if kind.is_file() {
        EntryKind::File
    } else if kind.is_dir() {
        EntryKind::Directory
    } else {
        EntryKind::Other
    }
}

fn entry(name: String, metadata: &Metadata) -> DirEntry {
    let kind = kind_of(metadata);
    let len = if kind == EntryKind::File { metadata.len() } else { 0 };
    DirEntry { name, kind, len }
}

fn not_a_file() -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, "it is not a regular file (links are not followed)")
}

/// Open `path` without following a link, and make sure that a regular file was opened.
fn open_regular(path: &Path, options: &mut OpenOptions, creates: bool) -> io::Result<fs::File> {
    if !creates && kind_of(&fs::symlink_metadata(path)?) != EntryKind::File {
        // Checked before the open, because merely opening some devices has effects.
        return Err(not_a_file());
    }
    sys::harden(options);
    let file = sys::above_stdio(options.open(path)?)?;
    // Checked after the open, because another file may have taken the name in between.
    if kind_of(&file.metadata()?) == EntryKind::File { Ok(file) } else { Err(not_a_file()) }
}

fn open_as(op: &'static str, path: &Path, options: &mut OpenOptions, creates: bool) -> Result<OsFile> {
    match open_regular(path, options, creates) {
        Ok(file) => Ok(OsFile { file: Arc::new(file), path: path.to_path_buf() }),
        Err(source) => Err(Error::io(op, path, source)),
    }
}

impl Fs for OsFs {
    fn create(&self, path: &Path) -> Result<Arc<dyn File>> {
        let file =
            open_as("create", path, OpenOptions::new().read(true).write(true).create_new(true), true)?;
        Ok(Arc::new(file))
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn File>> {
        Ok(Arc::new(open_as("open", path, OpenOptions::new().read(true), false)?))
    }

    fn open_writable(&self, path: &Path) -> Result<Arc<dyn File>> {
        Ok(Arc::new(open_as("open", path, OpenOptions::new().read(true).write(true), false)?))
    }

    fn map(&self, path: &Path) -> Result<Bytes> {
        let file = open_as("map", path, OpenOptions::new().read(true), false)?;
        if file.len()? == 0 {
            return Ok(Bytes::new());
        }
        let mapped = map_whole(&file.file).map_err(|source| Error::io("map", path, source))?;
        Ok(Bytes::from_owner(mapped))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        fs::rename(from, to).map_err(|source| Error::io("rename", from, source))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        fs::remove_file(path).map_err(|source| Error::io("remove", path, source))
    }

    fn hard_link(&self, from: &Path, to: &Path) -> Result<()> {
        let link = || match kind_of(&fs::symlink_metadata(from)?) {
            EntryKind::File => fs::hard_link(from, to),
            _ => Err(not_a_file()),
        };
        link().map_err(|source| Error::io("link", from, source))
    }

    fn create_dir(&self, path: &Path) -> Result<()> {
        match self.create_new_dir(path) {
            Err(Error::Io { source, .. })
                if source.kind() == ErrorKind::AlreadyExists
                    && fs::symlink_metadata(path).is_ok_and(|found| found.is_dir()) =>
            {
                Ok(())
            }
            result => result,
        }
    }

    fn create_new_dir(&self, path: &Path) -> Result<()> {
        fs::create_dir(path).map_err(|source| Error::io("create directory", path, source))
    }

    fn remove_dir(&self, path: &Path) -> Result<()> {
        fs::remove_dir(path).map_err(|source| Error::io("remove directory", path, source))
    }

    fn list(&self, dir: &Path) -> Result<Vec<DirEntry>> {
        let scan = || -> io::Result<Vec<DirEntry>> {
            let mut entries = Vec::new();
            for found in fs::read_dir(dir)? {
                let found = found?;
                let Ok(name) = found.file_name().into_string() else {
                    continue;
                };
                match found.metadata() {
                    Ok(metadata) => entries.push(entry(name, &metadata)),
                    // Removed since the name was read.
                    Err(gone) if gone.kind() == ErrorKind::NotFound => {}
                    Err(other) => return Err(other),
                }
            }
            entries.sort_by(|a, b| a.name.cmp(&b.name));
            Ok(entries)
        };
        scan().map_err(|source| Error::io("list", dir, source))
    }

    fn stat(&self, path: &Path) -> Result<Option<DirEntry>> {
        match fs::symlink_metadata(path) {
            Ok(metadata) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                Ok(Some(entry(name, &metadata)))
            }
            Err(source) if source.kind() == ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::io("look up", path, source)),
        }
    }

    fn open_dir(&self, dir: &Path) -> Result<Box<dyn Dir>> {
        let opened = sys::open_dir(dir).map_err(|source| Error::io("open directory", dir, source))?;
        Ok(Box::new(OsDir { dir: opened, path: dir.to_path_buf() }))
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        Ok(Box::new(lock::OsLock::take(path)?))
    }

    fn free_space(&self, dir: &Path) -> Result<Option<u64>> {
        sys::free_space(dir).map_err(|source| Error::io("ask the free space of", dir, source))
    }

    fn open_files_max(&self) -> Option<u64> {
        sys::open_files_max()
    }
}

/// The bytes of `file`.
#[expect(unsafe_code, reason = "mapping a file has no safe form")]
fn map_whole(file: &fs::File) -> io::Result<memmap2::Mmap> {
    // SAFETY: a map is unsound if the mapped bytes change under a `&[u8]`.
    // 1. Only table files are mapped, and those are never written again once they are finished and
    //    synced: their names are used once, and the engine holds the directory's lock.
    // 2. The map is read-only and private to this process's readers.
    // 3. That another program changes or truncates the file meanwhile cannot be excluded. It is the
    //    documented hazard of `TableSource::Mapped`, which is not the default.
    unsafe { memmap2::Mmap::map(file) }
}

impl OsFile {
    fn check<T>(&self, op: &'static str, result: io::Result<T>) -> Result<T> {
        result.map_err(|source| Error::io(op, &self.path, source))
    }
}

impl File for OsFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> Result<u64> {
        self.check("ask the length of", self.file.metadata().map(|metadata| metadata.len()))
    }
    fn id(&self) -> Result<Option<FileId>> {
        sys::file_id(&self.file).map_err(|source| Error::io("look at", &self.path, source))
    }

    fn advise_random(&self) {
        sys::advise_random(&self.file);
    }

    fn advise_willneed(&self, offset: u64, len: u64) {
        sys::advise_willneed(&self.file, offset, len);
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let read = |rest: &mut [u8], at| sys::read_at(&self.file, rest, at);
        self.check("read", transfer::read_fully(buffer, offset, read))
    }

    #[cfg(all(unix, not(miri)))]
    fn read_onto(&self, buffer: &mut Vec<u8>, len: usize, offset: u64) -> Result<usize> {
        let read = |room: &mut Vec<u8>, most, at| sys::read_onto(&self.file, room, most, at);
        self.check("read", transfer::read_onto_fully(buffer, len, offset, read))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let write = |rest: &[u8], at| sys::write_at(&self.file, rest, at);
        self.check("write", transfer::write_fully(bytes, offset, write))
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.check("set the length of", self.file.set_len(len))
    }

    fn allocate(&self, len: u64) -> Result<()> {
        self.check("reserve space for", sys::allocate(&self.file, len))
    }

    fn reserve(&self, len: u64) -> Result<bool> {
        self.check("reserve space for", sys::reserve(&self.file, len))
    }

    fn start_writeback(&self, offset: u64, len: u64) {
        sys::start_writeback(&self.file, offset, len);
    }

    fn sync_data(&self) -> Result<()> {
        self.check("sync", self.file.sync_data())
    }

    fn sync(&self) -> Result<()> {
        self.check("sync", self.file.sync_all())
    }

    fn map_range(&self, offset: u64, len: usize, writes: RangeWrites) -> Option<Box<dyn MappedRange>> {
        mapped::OsRange::map(self, offset, len, writes).map(|range| Box::new(range) as _)
    }
}
