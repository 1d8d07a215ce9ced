//! What std has no portable form for, on Unix.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

#[cfg(not(miri))]
use rustix::buffer::spare_capacity;
use rustix::fs::OFlags;

use crate::fs::FileId;

/// Do not follow a link in the last component, and do not wait for the other end of a pipe.
pub(super) fn harden(options: &mut OpenOptions) {
    // std adds O_CLOEXEC itself.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    options.custom_flags(flags.bits().cast_signed());
}

/// `file` under a descriptor above standard input, output and error.
pub(super) fn above_stdio(file: File) -> io::Result<File> {
    if file.as_raw_fd() > 2 {
        return Ok(file);
    }
    Ok(rustix::io::fcntl_dupfd_cloexec(&file, 3)?.into())
}

/// One read call.
pub(super) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    file.read_at(buffer, offset)
}

/// One read call, for `most` bytes at most, onto the end of `buffer`, which has room for them.
#[cfg(not(miri))]
pub(super) fn read_onto(file: &File, buffer: &mut Vec<u8>, most: usize, offset: u64) -> io::Result<usize> {
    let end = buffer.len() + most;
    // It reads into all the room there is.
    let read = rustix::io::pread(file, spare_capacity(buffer), offset)?;
    buffer.truncate(end);
    Ok(read.min(most))
}

/// One write call.
pub(super) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    file.write_at(bytes, offset)
}

/// Reserve space for the first `len` bytes and make the file at least that long.
pub(super) fn allocate(file: &File, len: u64) -> io::Result<()> {
    if len == 0 || reserve(file, len)? || file.metadata()?.len() >= len {
        Ok(())
    } else {
        file.set_len(len)
    }
}

/// The same if the filesystem can reserve; otherwise nothing.
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
pub(super) fn reserve(file: &File, len: u64) -> io::Result<bool> {
    use rustix::io::Errno;
    loop {
        match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, len) {
            Ok(()) => return Ok(true),
            Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => return Ok(false),
            Err(other) => return Err(other.into()),
        }
    }
}

/// No such call is known here.
#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
pub(super) fn reserve(_file: &File, _len: u64) -> io::Result<bool> {
    Ok(false)
}

/// Whether a page of `file` that is there stays there: written back and written again it takes no new space,
/// and no other machine has a say. True for ext2 to ext4, XFS and tmpfs, by the numbers of statfs(2).
#[cfg(target_os = "linux")]
pub(super) fn writes_in_place(file: &File) -> bool {
    const EXT: u64 = 0xef53;
    const XFS: u64 = 0x5846_5342;
    const TMPFS: u64 = 0x0102_1994;
    rustix::fs::fstatfs(file).is_ok_and(|stat| [EXT, XFS, TMPFS].contains(&stat.f_type.cast_unsigned()))
}

/// Not known of other systems.
#[cfg(not(target_os = "linux"))]
pub(super) fn writes_in_place(_file: &File) -> bool {
    false
}

/// Have the system read what it is asked for and nothing after it.
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
pub(super) fn advise_random(file: &File) {
    // Only speed depends on it.
    let _refused = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::Random);
}

/// Let the system begin to read `len` bytes at `offset`.
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
pub(super) fn advise_willneed(file: &File, offset: u64, len: u64) {
    if let Some(len) = std::num::NonZeroU64::new(len) {
        let _refused = rustix::fs::fadvise(file, offset, Some(len), rustix::fs::Advice::WillNeed);
    }
}

/// No such word is known here.
#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
pub(super) fn advise_random(_file: &File) {}

/// No such word is known here.
#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
pub(super) fn advise_willneed(_file: &File, _offset: u64, _len: u64) {}

/// Let the device begin with what was written at `offset`.
#[cfg(all(target_os = "linux", not(miri)))]
#[expect(unsafe_code, reason = "a call of the C library that std and rustix have no form for")]
pub(super) fn start_writeback(file: &File, offset: u64, len: u64) {
    let (offset, len) = (offset.cast_signed(), len.cast_signed());
    // An error is not looked at: without one of the flags that wait, the call leaves a write that fails for the
    // next fsync of this file to tell, and what could not be begun is begun there.
    // SAFETY: the call takes numbers only, and the descriptor is open as long as `file` is borrowed.
    let _ = unsafe { libc::sync_file_range(file.as_raw_fd(), offset, len, libc::SYNC_FILE_RANGE_WRITE) };
}

/// No such word is known here.
#[cfg(not(all(target_os = "linux", not(miri))))]
pub(super) fn start_writeback(_file: &File, _offset: u64, _len: u64) {}

/// An open directory.
pub(super) struct OpenDir(File);

/// Open the directory `dir`, not through a link.
pub(super) fn open_dir(dir: &Path) -> io::Result<OpenDir> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags((OFlags::DIRECTORY | OFlags::NOFOLLOW).bits().cast_signed());
    Ok(OpenDir(above_stdio(options.open(dir)?)?))
}

impl OpenDir {
    /// Make its names durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.0.sync_all()
    }
}

/// Bytes an unprivileged write into `dir` could use.
pub(super) fn free_space(dir: &Path) -> io::Result<Option<u64>> {
    let stat = rustix::fs::statvfs(dir)?;
    Ok(Some(stat.f_bavail.saturating_mul(stat.f_frsize)))
}

/// The soft limit of the process's descriptors, as it is now.
pub(super) fn open_files_max() -> Option<u64> {
    // None is "unlimited".
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current.or(Some(u64::MAX))
}

/// What identifies a file whatever its names.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

/// Which file it is.
pub(super) fn file_id(file: &File) -> io::Result<Option<FileId>> {
    file.metadata().map(|metadata| Some(FileId(metadata.dev(), metadata.ino())))
}

/// The identity of an open file.
pub(super) fn identity(file: &File, _path: &Path) -> io::Result<Identity> {
    file.metadata().map(|metadata| of(&metadata))
}

/// The identity of what stands at `path`.
pub(super) fn identity_at(path: &Path) -> io::Result<Identity> {
    fs::symlink_metadata(path).map(|metadata| of(&metadata))
}

fn of(metadata: &Metadata) -> Identity {
    Identity { device: metadata.dev(), inode: metadata.ino() }
}
