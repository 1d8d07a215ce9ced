//! A disk of one directory that forgets, for this crate's tests: every byte and every name is durable or
//! not, any call can be made to fail, and what a power loss may leave can be had at any moment.

use std::collections::BTreeMap;
use std::io::{Error as IoError, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use esker_base::{Error, Result};
use esker_vfs::fs::{DirEntry, EntryKind, File, FileLock, Fs};
use parking_lot::Mutex;

/// What happens at the call with a given number, and after.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    /// The call, counted from 0 since [`Disk::break_at`].
    pub(crate) call: usize,
    /// How much of it takes effect before it errs.
    pub(crate) effect: Effect,
    /// Whether every later call errs as well, without effect: the power is gone.
    pub(crate) forever: bool,
}

/// How much of a failing call takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    None,
    /// Half of the bytes of a write; of a sync, that nothing is left to sync; nothing of any other call.
    Half,
    All,
}

/// What survives of what was not synced.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Survives {
    Nothing,
    Everything,
    /// Any part, by seed.
    Any(u64),
}

#[derive(Clone, Debug)]
enum Change {
    Write(usize, Vec<u8>),
    Length(usize),
}

#[derive(Clone, Debug)]
enum NameChange {
    Link(String, usize),
    Rename(String, String),
    Remove(String),
}

#[derive(Clone, Debug, Default)]
struct Inode {
    data: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<Change>,
}

#[derive(Debug, Default)]
struct Inner {
    inodes: Vec<Inode>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    pending: Vec<NameChange>,
    calls: usize,
    changes: usize,
    fault: Option<Fault>,
}

/// The disk. A clone is the same disk.
#[derive(Clone, Default)]
pub(crate) struct Disk(Arc<Mutex<Inner>>);

fn change_bytes(data: &mut Vec<u8>, change: &Change, keep: usize) {
    match change {
        Change::Write(offset, bytes) => {
            let bytes = &bytes[..keep.min(bytes.len())];
            let end = offset + bytes.len();
            if data.len() < end {
                data.resize(end, 0);
            }
            data[*offset..end].copy_from_slice(bytes);
        }
        Change::Length(len) => data.resize(*len, 0),
    }
}

fn change_names(names: &mut BTreeMap<String, usize>, change: &NameChange) {
    match change {
        NameChange::Link(name, inode) => {
            names.insert(name.clone(), *inode);
        }
        NameChange::Rename(from, to) => {
            if let Some(inode) = names.remove(from) {
                names.insert(to.clone(), inode);
            }
        }
        NameChange::Remove(name) => {
            names.remove(name);
        }
    }
}

impl Inner {
    /// Count a call; whether it fails, and with how much effect.
    fn call(&mut self) -> Option<Effect> {
        let number = self.calls;
        self.calls += 1;
        let fault = self.fault?;
        if number == fault.call {
            return Some(fault.effect);
        }
        (fault.forever && number > fault.call).then_some(Effect::None)
    }

    fn rename_now(&mut self, change: NameChange) {
        self.changes += 1;
        change_names(&mut self.names, &change);
        self.pending.push(change);
    }
}

fn failed(op: &'static str, path: &Path) -> Error {
    Error::io(op, path, IoError::other("planned"))
}

fn name_of(path: &Path) -> String {
    path.file_name().expect("a name").to_string_lossy().into_owned()
}

impl Disk {
    /// From now on calls are counted from 0, and one of them fails.
    pub(crate) fn break_at(&self, fault: Option<Fault>) {
        let mut inner = self.0.lock();
        inner.calls = 0;
        inner.fault = fault;
    }

    /// Calls since `break_at`.
    pub(crate) fn calls(&self) -> usize {
        self.0.lock().calls
    }

    /// Calls that changed something, ever.
    pub(crate) fn changes(&self) -> usize {
        self.0.lock().changes
    }

    /// The disk after a power loss now.
    pub(crate) fn after_power_loss(&self, survives: Survives) -> Disk {
        let inner = self.0.lock();
        let mut draw = match survives {
            Survives::Any(seed) => seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            _ => 1,
        };
        // xorshift: any sequence will do that is the same for the same seed.
        let mut random = |below: usize| {
            draw ^= draw << 13;
            draw ^= draw >> 7;
            draw ^= draw << 17;
            (draw >> 11) as usize % below.max(1)
        };
        let mut image = Inner { names: inner.durable_names.clone(), ..Inner::default() };
        for inode in &inner.inodes {
            let mut data = inode.durable.clone();
            for change in &inode.pending {
                let keep = match survives {
                    Survives::Nothing => continue,
                    Survives::Any(_) if random(3) == 0 => continue,
                    Survives::Any(_) if random(3) == 0 => random(200),
                    Survives::Everything | Survives::Any(_) => usize::MAX,
                };
                change_bytes(&mut data, change, keep);
            }
            image.inodes.push(Inode { durable: data.clone(), data, pending: Vec::new() });
        }
        for change in &inner.pending {
            let lost = match survives {
                Survives::Nothing => true,
                Survives::Everything => false,
                Survives::Any(_) => random(2) == 0,
            };
            if !lost {
                change_names(&mut image.names, change);
            }
        }
        image.durable_names = image.names.clone();
        Disk(Arc::new(Mutex::new(image)))
    }

    /// The bytes of file `name`.
    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        let inner = self.0.lock();
        inner.inodes[inner.names[name]].data.clone()
    }

    /// Make file `name` hold `bytes`, durably and without a call.
    pub(crate) fn put(&self, name: &str, bytes: &[u8]) {
        let mut inner = self.0.lock();
        let number = inner.inodes.len();
        inner.inodes.push(Inode { data: bytes.to_vec(), durable: bytes.to_vec(), pending: Vec::new() });
        inner.names.insert(name.to_owned(), number);
        inner.durable_names.insert(name.to_owned(), number);
    }

    /// Remove file `name`, durably and without a call.
    pub(crate) fn take(&self, name: &str) {
        let mut inner = self.0.lock();
        inner.names.remove(name);
        inner.durable_names.remove(name);
    }

    /// The names there are.
    pub(crate) fn names(&self) -> Vec<String> {
        self.0.lock().names.keys().cloned().collect()
    }

    fn file(&self, path: &Path, op: &'static str) -> Result<Arc<dyn File>> {
        let mut inner = self.0.lock();
        if inner.call().is_some() {
            return Err(failed(op, path));
        }
        let not_found = || Error::io(op, path, ErrorKind::NotFound.into());
        let inode = *inner.names.get(&name_of(path)).ok_or_else(not_found)?;
        Ok(Arc::new(OpenFile { disk: self.clone(), inode, path: path.to_path_buf() }))
    }

    fn rename_call(&self, op: &'static str, path: &Path, change: NameChange) -> Result<()> {
        let mut inner = self.0.lock();
        let fault = inner.call();
        if matches!(fault, None | Some(Effect::All)) {
            inner.rename_now(change);
        }
        fault.map_or(Ok(()), |_| Err(failed(op, path)))
    }
}

impl Fs for Disk {
    fn create(&self, path: &Path) -> Result<Arc<dyn File>> {
        let mut inner = self.0.lock();
        let fault = inner.call();
        if inner.names.contains_key(&name_of(path)) {
            return Err(Error::io("create", path, ErrorKind::AlreadyExists.into()));
        }
        let inode = inner.inodes.len();
        if matches!(fault, None | Some(Effect::All)) {
            inner.inodes.push(Inode::default());
            inner.rename_now(NameChange::Link(name_of(path), inode));
        }
        match fault {
            None => Ok(Arc::new(OpenFile { disk: self.clone(), inode, path: path.to_path_buf() })),
            Some(_) => Err(failed("create", path)),
        }
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn File>> {
        self.file(path, "open")
    }

    fn open_writable(&self, path: &Path) -> Result<Arc<dyn File>> {
        self.file(path, "open")
    }

    fn map(&self, path: &Path) -> Result<Bytes> {
        Ok(Bytes::from(self.bytes(&name_of(path))))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.rename_call("rename", from, NameChange::Rename(name_of(from), name_of(to)))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.rename_call("remove", path, NameChange::Remove(name_of(path)))
    }

    fn hard_link(&self, from: &Path, _to: &Path) -> Result<()> {
        Err(failed("link", from))
    }

    fn create_dir(&self, _path: &Path) -> Result<()> {
        Ok(())
    }

    fn remove_dir(&self, path: &Path) -> Result<()> {
        Err(failed("remove", path))
    }

    fn list(&self, dir: &Path) -> Result<Vec<DirEntry>> {
        let mut inner = self.0.lock();
        if inner.call().is_some() {
            return Err(failed("list", dir));
        }
        let entry = |(name, &inode): (&String, &usize)| DirEntry {
            name: name.clone(),
            kind: EntryKind::File,
            len: inner.inodes[inode].data.len() as u64,
        };
        Ok(inner.names.iter().map(entry).collect())
    }

    fn stat(&self, path: &Path) -> Result<Option<DirEntry>> {
        let name = name_of(path);
        Ok(self.list(path)?.into_iter().find(|entry| entry.name == name))
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        let mut inner = self.0.lock();
        let fault = inner.call();
        if fault != Some(Effect::None) {
            for change in std::mem::take(&mut inner.pending) {
                // Half: the names are there to see, and no later sync makes them durable.
                if fault != Some(Effect::Half) {
                    change_names(&mut inner.durable_names, &change);
                }
            }
        }
        fault.map_or(Ok(()), |_| Err(failed("sync", dir)))
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        Err(failed("lock", path))
    }

    fn free_space(&self, _dir: &Path) -> Result<Option<u64>> {
        Ok(None)
    }
}

struct OpenFile {
    disk: Disk,
    inode: usize,
    path: PathBuf,
}

impl OpenFile {
    fn change(&self, op: &'static str, change: Change) -> Result<()> {
        let mut inner = self.disk.0.lock();
        let fault = inner.call();
        let keep = match (fault, &change) {
            (None | Some(Effect::All), _) => usize::MAX,
            (Some(Effect::Half), Change::Write(_, bytes)) => bytes.len() / 2,
            _ => return Err(failed(op, &self.path)),
        };
        inner.changes += 1;
        let kept = match change {
            Change::Write(offset, bytes) => Change::Write(offset, bytes[..keep.min(bytes.len())].to_vec()),
            length @ Change::Length(_) => length,
        };
        let inode = &mut inner.inodes[self.inode];
        change_bytes(&mut inode.data, &kept, usize::MAX);
        inode.pending.push(kept);
        fault.map_or(Ok(()), |_| Err(failed(op, &self.path)))
    }
}

impl File for OpenFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> Result<u64> {
        Ok(self.disk.0.lock().inodes[self.inode].data.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let mut inner = self.disk.0.lock();
        if inner.call().is_some() {
            return Err(failed("read", &self.path));
        }
        let data = &inner.inodes[self.inode].data;
        let rest = &data[data.len().min(offset as usize)..];
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.change("write", Change::Write(offset as usize, bytes.to_vec()))
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.change("cut", Change::Length(len as usize))
    }

    fn allocate(&self, len: u64) -> Result<()> {
        let now = self.len()?;
        self.change("allocate", Change::Length(now.max(len) as usize))
    }

    fn sync_data(&self) -> Result<()> {
        let mut inner = self.disk.0.lock();
        let fault = inner.call();
        let inode = &mut inner.inodes[self.inode];
        match fault {
            None | Some(Effect::All) => {
                for change in std::mem::take(&mut inode.pending) {
                    change_bytes(&mut inode.durable, &change, usize::MAX);
                }
            }
            // The system marks the bytes clean: they are readable, and no later sync makes them durable.
            Some(Effect::Half) => inode.pending.clear(),
            Some(Effect::None) => {}
        }
        fault.map_or(Ok(()), |_| Err(failed("sync", &self.path)))
    }

    fn sync(&self) -> Result<()> {
        self.sync_data()
    }
}
