//! A disk in memory that does as it is told: it fails the calls it was told to fail, keeps a part of a
//! failed write, and knows which bytes a power loss would spare.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use bytes::Bytes;
use esker_base::{Error, Result};
use esker_vfs::fs::{Dir, DirEntry, EntryKind, File, FileLock, Fs, MappedRange, RangeWrites};

/// What happens to one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Good,
    /// It fails; a write leaves its first bytes, this many, behind.
    Bad(usize),
}

#[derive(Default)]
struct State {
    bytes: Vec<u8>,
    durable: Vec<u8>,
    /// What happens to the next writes, syncs, cuts; good once they are used up.
    writes: Vec<Outcome>,
    syncs: Vec<Outcome>,
    cuts: Vec<Outcome>,
    /// Every write that was asked for: offset, length.
    written: Vec<(u64, usize)>,
    /// Those of them that were not of zeros alone.
    called: Vec<(u64, usize)>,
    sync_count: usize,
    /// Whether parts of it can be mapped, and every write into such a part: offset, length.
    maps: bool,
    stored: Vec<(u64, usize)>,
    /// Every content since the last sync, oldest first: what a power loss picks sectors from.
    versions: Option<Vec<Vec<u8>>>,
}

impl State {
    fn changed(&mut self) {
        let bytes = self.bytes.clone();
        if let Some(versions) = &mut self.versions {
            versions.push(bytes);
        }
    }
}

/// Runs inside every sync, before it takes effect.
type SyncHook = Box<dyn Fn() + Send + Sync>;

/// One file.
pub(super) struct MemoryFile {
    path: PathBuf,
    state: Arc<Mutex<State>>,
    sync_hook: OnceLock<SyncHook>,
}

#[derive(Default)]
pub(super) struct Disk {
    files: Mutex<BTreeMap<PathBuf, Arc<MemoryFile>>>,
    /// Whether the next file created fails its first write.
    doomed: AtomicBool,
}

fn take(plan: &mut Vec<Outcome>) -> Outcome {
    if plan.is_empty() { Outcome::Good } else { plan.remove(0) }
}

impl Disk {
    pub(super) fn file(&self, path: &Path) -> Arc<MemoryFile> {
        Arc::clone(&self.files.lock().expect("no panic under it")[path])
    }

    pub(super) fn fail_next_file(&self) {
        self.doomed.store(true, Ordering::SeqCst);
    }
}

impl MemoryFile {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic under it")
    }

    fn fail(&self, op: &'static str, kind: ErrorKind) -> Error {
        Error::io(op, &self.path, io::Error::from(kind))
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        self.state().bytes.clone()
    }

    /// What a power loss now would leave, if it took everything that was not synced.
    pub(super) fn durable(&self) -> Vec<u8> {
        self.state().durable.clone()
    }

    /// Remember every content from now on, for [`MemoryFile::power_loss`].
    pub(super) fn remember_versions(&self) {
        self.state().versions = Some(Vec::new());
    }

    /// What a power loss may leave: each sector of `sector` bytes from the durable content or from any
    /// content since, as `pick(n)`, below n, says; and so the length.
    pub(super) fn power_loss(&self, sector: usize, mut pick: impl FnMut(usize) -> usize) -> Vec<u8> {
        let state = self.state();
        let mut versions = vec![state.durable.clone()];
        versions.extend(state.versions.clone().expect("they are remembered"));
        let mut image = vec![0; versions[pick(versions.len())].len()];
        for (index, piece) in image.chunks_mut(sector).enumerate() {
            let from = versions[pick(versions.len())].get(index * sector..).unwrap_or_default();
            let len = piece.len().min(from.len());
            piece[..len].copy_from_slice(&from[..len]);
        }
        image
    }

    pub(super) fn hook_syncs(&self, hook: impl Fn() + Send + Sync + 'static) {
        assert!(self.sync_hook.set(Box::new(hook)).is_ok(), "one hook a file");
    }

    pub(super) fn plan_writes(&self, plan: &[Outcome]) {
        self.state().writes = plan.to_vec();
    }

    pub(super) fn plan_syncs(&self, plan: &[Outcome]) {
        self.state().syncs = plan.to_vec();
    }

    pub(super) fn plan_cuts(&self, plan: &[Outcome]) {
        self.state().cuts = plan.to_vec();
    }

    pub(super) fn written(&self) -> Vec<(u64, usize)> {
        self.state().written.clone()
    }

    /// The writes by calls that were not of zeros, with which extents are cleared.
    pub(super) fn called(&self) -> Vec<(u64, usize)> {
        self.state().called.clone()
    }

    /// From now on parts of it can be mapped.
    pub(super) fn allow_maps(&self) {
        self.state().maps = true;
    }

    pub(super) fn stored(&self) -> Vec<(u64, usize)> {
        self.state().stored.clone()
    }

    pub(super) fn sync_count(&self) -> usize {
        self.state().sync_count
    }
}

impl File for MemoryFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> Result<u64> {
        Ok(self.state().bytes.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let state = self.state();
        let from = state.bytes.len().min(offset as usize);
        let len = buffer.len().min(state.bytes.len() - from);
        buffer[..len].copy_from_slice(&state.bytes[from..from + len]);
        Ok(len)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let mut state = self.state();
        let offset = offset as usize;
        state.written.push((offset as u64, bytes.len()));
        if bytes.iter().any(|byte| *byte != 0) {
            state.called.push((offset as u64, bytes.len()));
        }
        let outcome = take(&mut state.writes);
        let kept = match outcome {
            Outcome::Good => bytes.len(),
            Outcome::Bad(kept) => kept.min(bytes.len()),
        };
        if kept > 0 && state.bytes.len() < offset + kept {
            state.bytes.resize(offset + kept, 0);
        }
        if kept > 0 {
            state.bytes[offset..offset + kept].copy_from_slice(&bytes[..kept]);
        }
        state.changed();
        if outcome == Outcome::Good { Ok(()) } else { Err(self.fail("write", ErrorKind::StorageFull)) }
    }

    fn set_len(&self, len: u64) -> Result<()> {
        let mut state = self.state();
        if take(&mut state.cuts) != Outcome::Good {
            return Err(self.fail("cut", ErrorKind::Other));
        }
        state.bytes.resize(len as usize, 0);
        state.changed();
        Ok(())
    }

    fn allocate(&self, len: u64) -> Result<()> {
        let mut state = self.state();
        if state.bytes.len() < len as usize {
            state.bytes.resize(len as usize, 0);
        }
        Ok(())
    }

    fn reserve(&self, len: u64) -> Result<bool> {
        self.allocate(len).map(|()| true)
    }

    fn sync_data(&self) -> Result<()> {
        if let Some(hook) = self.sync_hook.get() {
            hook();
        }
        let mut state = self.state();
        state.sync_count += 1;
        if take(&mut state.syncs) != Outcome::Good {
            return Err(self.fail("sync", ErrorKind::Other));
        }
        state.durable = state.bytes.clone();
        if let Some(versions) = &mut state.versions {
            versions.clear();
        }
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.sync_data()
    }

    fn map_range(&self, offset: u64, len: usize, _writes: RangeWrites) -> Option<Box<dyn MappedRange>> {
        let state = self.state();
        let range = offset..offset + len as u64;
        if !state.maps || range.end > state.bytes.len() as u64 {
            return None;
        }
        Some(Box::new(MemoryRange { state: Arc::clone(&self.state), range }))
    }
}

/// A mapped part of a file: what is written to it does not fail.
struct MemoryRange {
    state: Arc<Mutex<State>>,
    range: Range<u64>,
}

impl MappedRange for MemoryRange {
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> Result<()> {
        let end = offset + bytes.len() as u64;
        assert!(self.range.start <= offset && end <= self.range.end, "within the range");
        let mut state = self.state.lock().expect("no panic under it");
        assert!(end <= state.bytes.len() as u64, "the file was cut under its map");
        state.stored.push((offset, bytes.len()));
        state.bytes[offset as usize..end as usize].copy_from_slice(bytes);
        state.changed();
        Ok(())
    }
}

impl Fs for Disk {
    fn create(&self, path: &Path) -> Result<Arc<dyn File>> {
        let mut files = self.files.lock().expect("no panic under it");
        if files.contains_key(path) {
            return Err(Error::io("create", path, io::Error::from(ErrorKind::AlreadyExists)));
        }
        let file = Arc::new(MemoryFile {
            path: path.to_path_buf(),
            state: Arc::default(),
            sync_hook: OnceLock::new(),
        });
        if self.doomed.swap(false, Ordering::SeqCst) {
            file.plan_writes(&[Outcome::Bad(7)]);
        }
        files.insert(path.to_path_buf(), Arc::clone(&file));
        Ok(file)
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn File>> {
        match self.files.lock().expect("no panic under it").get(path) {
            Some(file) => Ok(Arc::clone(file) as Arc<dyn File>),
            None => Err(Error::io("open", path, io::Error::from(ErrorKind::NotFound))),
        }
    }

    fn stat(&self, path: &Path) -> Result<Option<DirEntry>> {
        let files = self.files.lock().expect("no panic under it");
        let Some(file) = files.get(path) else {
            return Ok(None);
        };
        Ok(Some(DirEntry { name: String::new(), kind: EntryKind::File, len: file.len()? }))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.files.lock().expect("no panic under it").remove(path);
        Ok(())
    }

    fn open_writable(&self, path: &Path) -> Result<Arc<dyn File>> {
        self.open(path)
    }

    fn map(&self, _: &Path) -> Result<Bytes> {
        unreachable!("a log is never mapped")
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let mut files = self.files.lock().expect("no panic under it");
        let Some(old) = files.remove(from) else {
            return Err(Error::io("rename", from, io::Error::from(ErrorKind::NotFound)));
        };
        let (path, state) = (to.to_path_buf(), Arc::clone(&old.state));
        files.insert(to.to_path_buf(), Arc::new(MemoryFile { path, state, sync_hook: OnceLock::new() }));
        Ok(())
    }

    fn hard_link(&self, _: &Path, _: &Path) -> Result<()> {
        unreachable!("a log is never linked")
    }

    fn create_dir(&self, _: &Path) -> Result<()> {
        unreachable!("a log makes no directory")
    }

    fn create_new_dir(&self, _: &Path) -> Result<()> {
        unreachable!("a log makes no directory")
    }

    fn remove_dir(&self, _: &Path) -> Result<()> {
        unreachable!("a log removes no directory")
    }

    fn list(&self, _: &Path) -> Result<Vec<DirEntry>> {
        unreachable!("a log lists no directory")
    }

    fn open_dir(&self, _: &Path) -> Result<Box<dyn Dir>> {
        unreachable!("its creator syncs the directory")
    }

    fn lock(&self, _: &Path) -> Result<Box<dyn FileLock>> {
        unreachable!("a log is not locked")
    }

    fn free_space(&self, _: &Path) -> Result<Option<u64>> {
        Ok(None)
    }
    fn open_files_max(&self) -> Option<u64> {
        None
    }
}
