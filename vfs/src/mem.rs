//! Files in memory.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use esker_base::{Error, Result};
use parking_lot::{Mutex, RwLock};

use crate::fs::{DirEntry, EntryKind, File, FileLock, Fs};

/// A filesystem in memory. `/` and the empty path are directories that exist.
#[derive(Clone, Default)]
pub struct MemFs {
    disk: Arc<Disk>,
}

#[derive(Default)]
struct Disk {
    names: Mutex<BTreeMap<PathBuf, Node>>,
    locked: Mutex<Vec<PathBuf>>,
}

#[derive(Clone)]
enum Node {
    File(Arc<Inode>),
    Directory,
}

#[derive(Default)]
struct Inode {
    data: RwLock<Vec<u8>>,
}

struct MemFile {
    inode: Arc<Inode>,
    path: PathBuf,
    writable: bool,
}

struct MemLock {
    disk: Arc<Disk>,
    path: PathBuf,
    inode: Arc<Inode>,
}

impl MemFs {
    /// An empty filesystem.
    pub fn new() -> Self {
        Self::default()
    }

    fn open_as(&self, path: &Path, op: &'static str, writable: bool) -> Result<Arc<MemFile>> {
        match self.disk.names.lock().get(path) {
            Some(Node::File(inode)) => Ok(Arc::new(MemFile {
                inode: Arc::clone(inode),
                path: path.to_path_buf(),
                writable,
            })),
            Some(Node::Directory) => Err(fail(op, path, ErrorKind::InvalidInput)),
            None => Err(fail(op, path, ErrorKind::NotFound)),
        }
    }
}

fn fail(op: &'static str, path: &Path, kind: ErrorKind) -> Error {
    Error::io(op, path, io::Error::from(kind))
}

fn is_root(path: &Path) -> bool {
    path.parent().is_none()
}

/// The directory that `path` stands in must exist.
fn parent_exists(names: &BTreeMap<PathBuf, Node>, op: &'static str, path: &Path) -> Result<()> {
    match path.parent() {
        Some(parent) if is_root(parent) => Ok(()),
        Some(parent) => match names.get(parent) {
            Some(Node::Directory) => Ok(()),
            Some(Node::File(_)) => Err(fail(op, path, ErrorKind::NotADirectory)),
            None => Err(fail(op, path, ErrorKind::NotFound)),
        },
        None => Err(fail(op, path, ErrorKind::AlreadyExists)),
    }
}

fn entry(path: &Path, node: &Node) -> DirEntry {
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    match node {
        Node::File(inode) => DirEntry {
            name,
            kind: EntryKind::File,
            len: inode.data.read().len() as u64,
        },
        Node::Directory => DirEntry {
            name,
            kind: EntryKind::Directory,
            len: 0,
        },
    }
}

impl Fs for MemFs {
    fn create(&self, path: &Path) -> Result<Arc<dyn File>> {
        let mut names = self.disk.names.lock();
        parent_exists(&names, "create", path)?;
        if names.contains_key(path) {
            return Err(fail("create", path, ErrorKind::AlreadyExists));
        }
        let inode = Arc::<Inode>::default();
        names.insert(path.to_path_buf(), Node::File(Arc::clone(&inode)));
        Ok(Arc::new(MemFile {
            inode,
            path: path.to_path_buf(),
            writable: true,
        }))
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn File>> {
        Ok(self.open_as(path, "open", false)?)
    }

    fn open_writable(&self, path: &Path) -> Result<Arc<dyn File>> {
        Ok(self.open_as(path, "open", true)?)
    }

    fn map(&self, path: &Path) -> Result<Bytes> {
        let file = self.open_as(path, "map", false)?;
        let data = file.inode.data.read();
        Ok(Bytes::copy_from_slice(&data))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let mut names = self.disk.names.lock();
        parent_exists(&names, "rename", to)?;
        match (names.get(from), names.get(to)) {
            (Some(Node::File(_)), None | Some(Node::File(_))) => {}
            (Some(Node::Directory), _) => return Err(fail("rename", from, ErrorKind::Unsupported)),
            (Some(_), Some(Node::Directory)) => {
                return Err(fail("rename", from, ErrorKind::IsADirectory));
            }
            (None, _) => return Err(fail("rename", from, ErrorKind::NotFound)),
        }
        if let Some(node) = names.remove(from) {
            names.insert(to.to_path_buf(), node);
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<()> {
        let mut names = self.disk.names.lock();
        match names.get(path) {
            Some(Node::File(_)) => {
                names.remove(path);
                Ok(())
            }
            Some(Node::Directory) => Err(fail("remove", path, ErrorKind::IsADirectory)),
            None => Err(fail("remove", path, ErrorKind::NotFound)),
        }
    }

    fn hard_link(&self, from: &Path, to: &Path) -> Result<()> {
        let mut names = self.disk.names.lock();
        parent_exists(&names, "link", to)?;
        let node = match names.get(from) {
            Some(node @ Node::File(_)) => node.clone(),
            Some(Node::Directory) => return Err(fail("link", from, ErrorKind::InvalidInput)),
            None => return Err(fail("link", from, ErrorKind::NotFound)),
        };
        if names.contains_key(to) {
            return Err(fail("link", from, ErrorKind::AlreadyExists));
        }
        names.insert(to.to_path_buf(), node);
        Ok(())
    }

    fn create_dir(&self, path: &Path) -> Result<()> {
        if is_root(path) {
            return Ok(());
        }
        let mut names = self.disk.names.lock();
        parent_exists(&names, "create directory", path)?;
        match names.get(path) {
            None => {
                names.insert(path.to_path_buf(), Node::Directory);
                Ok(())
            }
            Some(Node::Directory) => Ok(()),
            Some(Node::File(_)) => Err(fail("create directory", path, ErrorKind::AlreadyExists)),
        }
    }

    fn remove_dir(&self, path: &Path) -> Result<()> {
        let mut names = self.disk.names.lock();
        match names.get(path) {
            Some(Node::Directory) => {}
            Some(Node::File(_)) => {
                return Err(fail("remove directory", path, ErrorKind::NotADirectory));
            }
            None => return Err(fail("remove directory", path, ErrorKind::NotFound)),
        }
        if names.keys().any(|other| other.parent() == Some(path)) {
            return Err(fail("remove directory", path, ErrorKind::DirectoryNotEmpty));
        }
        names.remove(path);
        Ok(())
    }

    fn list(&self, dir: &Path) -> Result<Vec<DirEntry>> {
        let names = self.disk.names.lock();
        match names.get(dir) {
            Some(Node::Directory) => {}
            None if is_root(dir) => {}
            Some(Node::File(_)) => return Err(fail("list", dir, ErrorKind::NotADirectory)),
            None => return Err(fail("list", dir, ErrorKind::NotFound)),
        }
        let within = names.iter().filter(|(path, _)| path.parent() == Some(dir));
        Ok(within.map(|(path, node)| entry(path, node)).collect())
    }

    fn stat(&self, path: &Path) -> Result<Option<DirEntry>> {
        if is_root(path) {
            return Ok(Some(entry(path, &Node::Directory)));
        }
        Ok(self
            .disk
            .names
            .lock()
            .get(path)
            .map(|node| entry(path, node)))
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        match self.stat(dir)? {
            Some(DirEntry {
                kind: EntryKind::Directory,
                ..
            }) => Ok(()),
            Some(_) => Err(fail("sync directory", dir, ErrorKind::NotADirectory)),
            None => Err(fail("sync directory", dir, ErrorKind::NotFound)),
        }
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        if self.stat(path)?.is_none() {
            self.create(path)?;
        }
        let inode = Arc::clone(&self.open_as(path, "lock", true)?.inode);
        let mut locked = self.disk.locked.lock();
        if locked.iter().any(|held| held == path) {
            return Err(Error::Locked {
                path: path.parent().unwrap_or(path).to_path_buf(),
                holder: "another handle of this process".to_owned(),
            });
        }
        locked.push(path.to_path_buf());
        Ok(Box::new(MemLock {
            disk: Arc::clone(&self.disk),
            path: path.to_path_buf(),
            inode,
        }))
    }

    fn free_space(&self, _dir: &Path) -> Result<Option<u64>> {
        Ok(None)
    }
}

impl FileLock for MemLock {
    fn still_in_place(&self) -> Result<bool> {
        let names = self.disk.names.lock();
        Ok(
            matches!(names.get(&self.path), Some(Node::File(inode)) if Arc::ptr_eq(inode, &self.inode)),
        )
    }
}

impl Drop for MemLock {
    fn drop(&mut self) {
        self.disk.locked.lock().retain(|held| *held != self.path);
    }
}

impl MemFile {
    fn change(&self, op: &'static str, len: u64) -> Result<usize> {
        if !self.writable {
            return Err(fail(op, &self.path, ErrorKind::PermissionDenied));
        }
        usize::try_from(len).map_err(|_| fail(op, &self.path, ErrorKind::FileTooLarge))
    }
}

impl File for MemFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> Result<u64> {
        Ok(self.inode.data.read().len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let data = self.inode.data.read();
        let rest = usize::try_from(offset)
            .ok()
            .and_then(|start| data.get(start..))
            .unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let end = self.change("write", offset.saturating_add(bytes.len() as u64))?;
        if bytes.is_empty() {
            return Ok(());
        }
        let mut data = self.inode.data.write();
        if data.len() < end {
            data.resize(end, 0);
        }
        data[end - bytes.len()..end].copy_from_slice(bytes);
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        let len = self.change("set the length of", len)?;
        self.inode.data.write().resize(len, 0);
        Ok(())
    }

    fn allocate(&self, len: u64) -> Result<()> {
        let len = self.change("reserve space for", len)?;
        let mut data = self.inode.data.write();
        if data.len() < len {
            data.resize(len, 0);
        }
        Ok(())
    }

    fn sync_data(&self) -> Result<()> {
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }
}
