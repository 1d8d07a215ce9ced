//! Handles of files in memory.

use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use esker_base::{Error, Result};

use super::content::{Content, FILE_BYTES_MAX};
use super::directory::{InodeId, Node};
use super::live::Live;
use super::trace::Action;
use super::{Disk, device_error, fail};
use crate::fs::{Dir, File, FileId, FileLock, MappedRange, RangeWrites};

/// An open file. It lives as long as its handles, whatever becomes of its name.
pub(super) struct MemFile {
    disk: Arc<Disk>,
    inode: InodeId,
    path: Arc<Path>,
    writable: bool,
}

impl MemFile {
    pub(super) fn new(
        disk: &Arc<Disk>,
        live: &mut Live,
        inode: InodeId,
        path: &Path,
        writable: bool,
    ) -> MemFile {
        *live.open.entry(inode).or_default() += 1;
        MemFile { disk: Arc::clone(disk), inode, path: path.into(), writable }
    }

    fn with_content<T>(&self, op: &'static str, look: impl FnOnce(&Content) -> T) -> Result<T> {
        let live = self.disk.live.read();
        match live.model.inodes.get(&self.inode) {
            Some(inode) => Ok(look(&inode.volatile)),
            None => Err(fail(op, &self.path, ErrorKind::StaleNetworkFileHandle)),
        }
    }

    pub(super) fn read_whole(&self) -> Result<Bytes> {
        let copied = self.with_content("map", |content| {
            let mut bytes = vec![0; usize::try_from(content.len()).ok()?];
            content.read_at(&mut bytes, 0);
            Some(Bytes::from(bytes))
        })?;
        copied.ok_or_else(|| fail("map", &self.path, ErrorKind::FileTooLarge))
    }

    /// Make the change that `action` makes of the file's number, if there is room for `start..end`.
    fn change(&self, op: &'static str, start: u64, end: Option<u64>, action: Action) -> Result<()> {
        if !self.writable {
            return Err(fail(op, &self.path, ErrorKind::PermissionDenied));
        }
        let end = end.filter(|end| *end <= FILE_BYTES_MAX);
        let end = end.ok_or_else(|| fail(op, &self.path, ErrorKind::FileTooLarge))?;
        let mut live = self.disk.live.write();
        if let Some(free) = live.free_space()
            && let Some(inode) = live.model.inodes.get(&self.inode)
            && inode.volatile.needed(start, end) > free
        {
            return Err(fail(op, &self.path, ErrorKind::StorageFull));
        }
        live.perform_shared(&self.path, action);
        Ok(())
    }

    fn settle(&self) -> Result<()> {
        let mut live = self.disk.live.write();
        let inode = self.inode;
        if let Some((mode, seed)) = live.fail_next_sync.take() {
            live.perform_shared(&self.path, Action::FailSync { inode, mode, seed });
            return Err(Error::io("sync", &*self.path, device_error()));
        }
        let honest = !live.sync_lies;
        live.perform_shared(&self.path, Action::Sync { inode, honest });
        Ok(())
    }
}

impl Drop for MemFile {
    fn drop(&mut self) {
        let mut live = self.disk.live.write();
        if let Some(handles) = live.open.get_mut(&self.inode) {
            *handles -= 1;
            if *handles == 0 {
                live.open.remove(&self.inode);
                live.release(self.inode);
            }
        }
    }
}

impl File for MemFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> Result<u64> {
        self.with_content("ask the length of", Content::len)
    }

    fn id(&self) -> Result<Option<FileId>> {
        Ok(Some(FileId(0, self.inode)))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.with_content("read", |content| content.read_at(buffer, offset))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let end = offset.checked_add(bytes.len() as u64);
        let bytes = Bytes::copy_from_slice(bytes);
        self.change("write", offset, end, Action::Write { inode: self.inode, offset, bytes })
    }

    fn set_len(&self, len: u64) -> Result<()> {
        // Growing makes a hole: no space is taken.
        self.change("set the length of", len, Some(len), Action::SetLen { inode: self.inode, len })
    }

    fn allocate(&self, len: u64) -> Result<()> {
        self.change("reserve space for", 0, Some(len), Action::Reserve { inode: self.inode, len })
    }

    fn reserve(&self, len: u64) -> Result<bool> {
        self.allocate(len).map(|()| true)
    }

    fn sync_data(&self) -> Result<()> {
        self.settle()
    }

    fn sync(&self) -> Result<()> {
        self.settle()
    }

    /// Not for [`RangeWrites::Called`]: so histories differ in whether a log has such memory.
    fn map_range(&self, offset: u64, len: usize, writes: RangeWrites) -> Option<Box<dyn MappedRange>> {
        let end = offset.checked_add(len as u64)?;
        if len == 0
            || writes == RangeWrites::Called
            || !self.writable
            || !self.len().is_ok_and(|len| end <= len)
        {
            return None;
        }
        let live = &mut self.disk.live.write();
        let file = MemFile::new(&self.disk, live, self.inode, &self.path, self.writable);
        Some(Box::new(MemRange { file, range: offset..end }))
    }
}

/// A part of a file to write to. What a crash makes of a store is what it makes of a call: the cache writes
/// whole sectors, when it likes.
struct MemRange {
    file: MemFile,
    range: Range<u64>,
}

impl MappedRange for MemRange {
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> Result<()> {
        let end = offset.checked_add(bytes.len() as u64);
        let within = offset >= self.range.start && end.is_some_and(|end| end <= self.range.end);
        assert!(within, "a write at {offset} outside of the mapped {:?}", self.range);
        self.file.write_at(bytes, offset)
    }
}

/// An open directory.
pub(super) struct MemDir {
    disk: Arc<Disk>,
    path: Box<Path>,
}

impl MemDir {
    pub(super) fn open(disk: &Arc<Disk>, path: &Path) -> Result<MemDir> {
        disk.live.read().find_dir("open directory", path)?;
        Ok(MemDir { disk: Arc::clone(disk), path: path.into() })
    }
}

impl Dir for MemDir {
    fn sync(&self) -> Result<()> {
        let path = &self.path;
        let mut live = self.disk.live.write();
        let dir = live.find_dir("sync directory", path)?;
        if let Some((_, seed)) = live.fail_next_sync.take() {
            live.perform(path, Action::FailSyncDir { dir, seed });
            return Err(Error::io("sync directory", path.as_ref(), device_error()));
        }
        let honest = !live.sync_lies;
        live.perform(path, Action::SyncDir { dir, honest });
        let Live { model, open, .. } = &mut *live;
        model.forget_nameless(|inode| open.contains_key(&inode));
        Ok(())
    }
}

/// A held lock.
pub(super) struct MemLock {
    file: MemFile,
}

impl MemLock {
    /// Lock `file`, which was opened for this.
    pub(super) fn take(file: MemFile) -> Result<MemLock> {
        if file.disk.live.write().locked.insert(file.inode) {
            return Ok(MemLock { file });
        }
        let dir = file.path.parent().map_or_else(PathBuf::new, Path::to_path_buf);
        Err(Error::Locked { path: dir, holder: "another handle of this process".to_owned() })
    }
}

impl FileLock for MemLock {
    fn still_in_place(&self) -> Result<bool> {
        let live = self.file.disk.live.read();
        match live.find("look up", &self.file.path) {
            Ok(found) => Ok(found == Some(Node::File(self.file.inode))),
            Err(missing) if missing.is_not_found() => Ok(false),
            Err(other) => Err(other),
        }
    }
}

impl Drop for MemLock {
    fn drop(&mut self) {
        self.file.disk.live.write().locked.remove(&self.file.inode);
    }
}
