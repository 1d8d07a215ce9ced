//! What std has no portable form for, on systems that are not Unix. Compiles for Windows; not tested.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// Nothing to add: `open_regular` looks before it opens.
pub(super) fn harden(_options: &mut OpenOptions) {}

/// Handles are not numbered from standard input here.
pub(super) fn above_stdio(file: File) -> io::Result<File> {
    Ok(file)
}

/// One read call.
#[cfg(windows)]
pub(super) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    use std::os::windows::fs::FileExt;
    match file.seek_read(buffer, offset) {
        // ERROR_HANDLE_EOF: the offset is at or past the end.
        Err(end) if end.raw_os_error() == Some(38) => Ok(0),
        result => result,
    }
}

/// One write call.
#[cfg(windows)]
pub(super) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_write(file, bytes, offset)
}

/// Positional calls share the file's one cursor here, so they take turns.
#[cfg(not(windows))]
static CURSOR: parking_lot::Mutex<()> = parking_lot::Mutex::new(());

/// One read call.
#[cfg(not(windows))]
pub(super) fn read_at(mut file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    use std::io::{Read, Seek, SeekFrom};
    let _turn = CURSOR.lock();
    file.seek(SeekFrom::Start(offset))?;
    file.read(buffer)
}

/// One write call.
#[cfg(not(windows))]
pub(super) fn write_at(mut file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    use std::io::{Seek, SeekFrom, Write};
    let _turn = CURSOR.lock();
    file.seek(SeekFrom::Start(offset))?;
    file.write(bytes)
}

/// Only the length changes.
pub(super) fn allocate(file: &File, len: u64) -> io::Result<()> {
    if file.metadata()?.len() < len { file.set_len(len) } else { Ok(()) }
}

/// No such call is known here.
pub(super) fn reserve(_file: &File, _len: u64) -> io::Result<bool> {
    Ok(false)
}

/// Not known here.
pub(super) fn writes_in_place(_file: &File) -> bool {
    false
}

/// No such word is known here.
pub(super) fn advise_random(_file: &File) {}

/// No such word is known here.
pub(super) fn advise_willneed(_file: &File, _offset: u64, _len: u64) {}

/// No such word is known here.
pub(super) fn start_writeback(_file: &File, _offset: u64, _len: u64) {}

/// A directory, by its path: std opens none here.
pub(super) struct OpenDir(PathBuf);

/// The directory `dir`.
pub(super) fn open_dir(dir: &Path) -> io::Result<OpenDir> {
    fs::metadata(dir).map(|_| OpenDir(dir.to_path_buf()))
}

impl OpenDir {
    /// A directory cannot be synced through std here; NTFS journals its names.
    pub(super) fn sync(&self) -> io::Result<()> {
        fs::metadata(&self.0).map(|_| ())
    }
}

/// Not known.
pub(super) fn free_space(_dir: &Path) -> io::Result<Option<u64>> {
    Ok(None)
}

/// Not known.
pub(super) fn open_files_max() -> Option<u64> {
    None
}

/// Not known.
pub(super) fn file_id(_file: &File) -> io::Result<Option<FileId>> {
    Ok(None)
}

/// What identifies a file: its resolved path, since std shows no file number here.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Identity(PathBuf);

/// The identity of an open file.
pub(super) fn identity(_file: &File, path: &Path) -> io::Result<Identity> {
    identity_at(path)
}

/// The identity of what stands at `path`.
pub(super) fn identity_at(path: &Path) -> io::Result<Identity> {
    fs::canonicalize(path).map(Identity)
}
