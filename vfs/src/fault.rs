//! A filesystem that fails as planned.
//!
//! [`FaultFs`] wraps any other and counts its calls; a [`Fault`] says which of them fail, with what,
//! once or for good, before or after the effect. A sweep runs a workload once to count its calls, then
//! once for each call and kind of fault. Over a [`MemFs`] a failed sync does to the disk what failed
//! syncs do: bytes are gone though the cache shows them, or the cache reverts; a later sync says Ok
//! and proves nothing.
//!
//! Short and interrupted calls are not among the faults: [`crate::fs`] promises that nobody above
//! sees them, and the operating system's side of it is where they are tested.
//!
//! Threads: any number. One lock around the plan and the counters, not held while the call runs.

mod plan;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use esker_base::sync::Mutex;
use esker_base::{Error, Result};

pub use plan::{Call, Cause, Effect, Fault, Operation};

use crate::clock::SimClock;
use crate::fs::{Dir, DirEntry, File, FileId, FileLock, Fs, MappedRange, RangeWrites};
use crate::mem::MemFs;
use plan::Outcome;

/// See the module. Clones share plan and counters.
#[derive(Clone)]
pub struct FaultFs {
    inner: Arc<dyn Fs>,
    control: Arc<Control>,
}

struct Control {
    /// The disk below, if it can tell what a failed sync leaves.
    disk: Option<MemFs>,
    clock: Option<Arc<SimClock>>,
    state: Mutex<State>,
    /// Held around each sync on a disk that can be armed to fail one.
    failing_sync: Mutex<()>,
}

#[derive(Default)]
struct State {
    plan: Vec<Fault>,
    latency: BTreeMap<Operation, Duration>,
    calls: u64,
    counts: BTreeMap<Operation, u64>,
    fired: Vec<String>,
}

/// What the plan says of a call.
enum Verdict {
    Pass,
    Fail { fault: Fault, cause: Cause, effect: Effect },
}

impl FaultFs {
    /// Over any filesystem. Failing syncs have no effect at all, or all of it.
    pub fn new(inner: Arc<dyn Fs>) -> Self {
        Self::with(inner, None, None)
    }

    /// Over a simulated disk, on which failing syncs lose bytes; delays and latency pass on `clock`.
    pub fn over(disk: &MemFs, clock: Arc<SimClock>) -> Self {
        Self::with(Arc::new(disk.clone()), Some(disk.clone()), Some(clock))
    }

    fn with(inner: Arc<dyn Fs>, disk: Option<MemFs>, clock: Option<Arc<SimClock>>) -> Self {
        let control = Control { disk, clock, state: Mutex::default(), failing_sync: Mutex::default() };
        FaultFs { inner, control: Arc::new(control) }
    }

    /// Add `fault` to the plan. Its numbers count from the last [`FaultFs::reset`].
    pub fn plan(&self, fault: Fault) {
        self.control.state.lock().plan.push(fault);
    }

    /// Forget the plan; counters and latency stay.
    pub fn clear(&self) {
        self.control.state.lock().plan.clear();
    }

    /// Forget plan and latency, and count from 0 again.
    pub fn reset(&self) {
        *self.control.state.lock() = State::default();
    }

    /// Let every call of `operation` take `time` on the simulated clock.
    pub fn set_latency(&self, operation: Operation, time: Duration) {
        self.control.state.lock().latency.insert(operation, time);
    }

    /// How many calls were made.
    pub fn calls(&self) -> u64 {
        self.control.state.lock().calls
    }

    /// How many calls of `operation` were made.
    pub fn count(&self, operation: Operation) -> u64 {
        self.control.state.lock().counts.get(&operation).copied().unwrap_or(0)
    }

    /// How many calls were made that may change the disk.
    pub fn changing_calls(&self) -> u64 {
        Operation::ALL.into_iter().filter(|operation| operation.changes()).map(|it| self.count(it)).sum()
    }

    /// The calls that failed or were delayed as planned, in words.
    pub fn fired(&self) -> Vec<String> {
        self.control.state.lock().fired.clone()
    }
}

impl Control {
    /// Count a call, let its time pass, and see what the plan says.
    fn decide(&self, operation: Operation, path: &Path) -> Verdict {
        let mut state = self.state.lock();
        let count = state.counts.entry(operation).or_default();
        let nth = *count;
        *count += 1;
        let call = Call { number: state.calls, operation, nth, path };
        state.calls += 1;
        let mut time = state.latency.get(&operation).copied().unwrap_or_default();
        let mut failing = None;
        let mut fired = Vec::new();
        for fault in &mut state.plan {
            // Every fault is asked, so that each counts its own first match.
            if !fault.hits(&call) {
                continue;
            }
            fired.push(format!(
                "call {}, {:?} {}: {:?}",
                call.number,
                operation,
                path.display(),
                fault.outcome
            ));
            match fault.outcome {
                Outcome::Delay(delay) => time += delay,
                Outcome::Fail(cause, effect) => {
                    failing.get_or_insert_with(|| (fault.clone(), cause, effect));
                }
            }
        }
        state.fired.extend(fired);
        drop(state);
        if let Some(clock) = &self.clock
            && !time.is_zero()
        {
            clock.advance(time);
        }
        match failing {
            Some((fault, cause, effect)) => Verdict::Fail { fault, cause, effect },
            None => Verdict::Pass,
        }
    }

    /// Run a call that happens whole or not at all.
    fn run<T>(&self, operation: Operation, path: &Path, call: impl FnOnce() -> Result<T>) -> Result<T> {
        let verdict = self.decide(operation, path);
        let disk = self.disk.as_ref().filter(|_| operation.syncs());
        // A sync that is to succeed must not meet the failure that was armed for another one.
        let _turn = disk.map(|_| self.failing_sync.lock());
        let Verdict::Fail { fault, cause, effect } = verdict else { return call() };
        match (effect, disk) {
            (Effect::After, _) => drop(call()?),
            (Effect::Before | Effect::Partial(_), Some(disk)) => {
                let (mode, seed) = fault.sync_failure;
                disk.fail_next_sync(mode, seed);
                // It errs, as armed or for a reason of its own; the planned error is reported.
                drop(call());
                disk.fail_no_sync();
            }
            (Effect::Before | Effect::Partial(_), None) => {}
        }
        Err(Error::io(operation.verb(), path, cause.error()))
    }

    /// Run a write, of which a part may happen.
    fn write(&self, path: &Path, bytes: &[u8], mut write: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        match self.decide(Operation::Write, path) {
            Verdict::Pass => write(bytes),
            Verdict::Fail { cause, effect, .. } => {
                let happens = match effect {
                    Effect::Before => 0,
                    Effect::After => bytes.len(),
                    Effect::Partial(count) => count.min(bytes.len()),
                };
                write(&bytes[..happens])?;
                Err(Error::io(Operation::Write.verb(), path, cause.error()))
            }
        }
    }

    fn wrap(self: &Arc<Self>, inner: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(FaultFile { inner, control: Arc::clone(self) })
    }
}

impl Fs for FaultFs {
    fn create(&self, path: &Path) -> Result<Arc<dyn File>> {
        self.control.run(Operation::Create, path, || Ok(self.control.wrap(self.inner.create(path)?)))
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn File>> {
        self.control.run(Operation::Open, path, || Ok(self.control.wrap(self.inner.open(path)?)))
    }

    fn open_writable(&self, path: &Path) -> Result<Arc<dyn File>> {
        let open = || Ok(self.control.wrap(self.inner.open_writable(path)?));
        self.control.run(Operation::OpenWritable, path, open)
    }

    fn map(&self, path: &Path) -> Result<Bytes> {
        self.control.run(Operation::Map, path, || self.inner.map(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.control.run(Operation::Rename, from, || self.inner.rename(from, to))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.control.run(Operation::Remove, path, || self.inner.remove(path))
    }

    fn hard_link(&self, from: &Path, to: &Path) -> Result<()> {
        self.control.run(Operation::HardLink, from, || self.inner.hard_link(from, to))
    }

    fn create_dir(&self, path: &Path) -> Result<()> {
        self.control.run(Operation::CreateDir, path, || self.inner.create_dir(path))
    }

    fn create_new_dir(&self, path: &Path) -> Result<()> {
        self.control.run(Operation::CreateDir, path, || self.inner.create_new_dir(path))
    }

    fn remove_dir(&self, path: &Path) -> Result<()> {
        self.control.run(Operation::RemoveDir, path, || self.inner.remove_dir(path))
    }

    fn list(&self, dir: &Path) -> Result<Vec<DirEntry>> {
        self.control.run(Operation::List, dir, || self.inner.list(dir))
    }

    fn stat(&self, path: &Path) -> Result<Option<DirEntry>> {
        self.control.run(Operation::Stat, path, || self.inner.stat(path))
    }

    fn open_dir(&self, path: &Path) -> Result<Box<dyn Dir>> {
        self.control.run(Operation::OpenDir, path, || {
            let inner = self.inner.open_dir(path)?;
            Ok(Box::new(FaultDir { inner, path: path.to_path_buf(), control: Arc::clone(&self.control) })
                as _)
        })
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        let inner = self.control.run(Operation::Lock, path, || self.inner.lock(path))?;
        Ok(Box::new(FaultLock { inner, path: path.to_path_buf(), control: Arc::clone(&self.control) }))
    }

    fn free_space(&self, dir: &Path) -> Result<Option<u64>> {
        self.control.run(Operation::FreeSpace, dir, || self.inner.free_space(dir))
    }

    fn open_files_max(&self) -> Option<u64> {
        self.inner.open_files_max()
    }
}

/// A lock whose look at its place is counted and fails as planned.
struct FaultLock {
    inner: Box<dyn FileLock>,
    path: PathBuf,
    control: Arc<Control>,
}

impl FileLock for FaultLock {
    fn still_in_place(&self) -> Result<bool> {
        self.control.run(Operation::StillInPlace, &self.path, || self.inner.still_in_place())
    }
}

/// A directory whose syncs are counted and fail as planned.
struct FaultDir {
    inner: Box<dyn Dir>,
    path: PathBuf,
    control: Arc<Control>,
}

impl Dir for FaultDir {
    fn sync(&self) -> Result<()> {
        self.control.run(Operation::SyncDir, &self.path, || self.inner.sync())
    }
}

/// A file whose calls are counted and fail as planned.
struct FaultFile {
    inner: Arc<dyn File>,
    control: Arc<Control>,
}

impl FaultFile {
    fn run<T>(&self, operation: Operation, call: impl FnOnce() -> Result<T>) -> Result<T> {
        self.control.run(operation, self.inner.path(), call)
    }
}

impl File for FaultFile {
    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn len(&self) -> Result<u64> {
        self.run(Operation::Len, || self.inner.len())
    }
    fn id(&self) -> Result<Option<FileId>> {
        self.inner.id()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.run(Operation::Read, || self.inner.read_at(buffer, offset))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.control.write(self.path(), bytes, |bytes| self.inner.write_at(bytes, offset))
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.run(Operation::SetLen, || self.inner.set_len(len))
    }

    fn allocate(&self, len: u64) -> Result<()> {
        self.run(Operation::Allocate, || self.inner.allocate(len))
    }

    fn reserve(&self, len: u64) -> Result<bool> {
        self.run(Operation::Allocate, || self.inner.reserve(len))
    }

    fn sync_data(&self) -> Result<()> {
        self.run(Operation::SyncData, || self.inner.sync_data())
    }

    fn sync(&self) -> Result<()> {
        self.run(Operation::Sync, || self.inner.sync())
    }

    fn map_range(&self, offset: u64, len: usize, writes: RangeWrites) -> Option<Box<dyn MappedRange>> {
        let inner = self.inner.map_range(offset, len, writes)?;
        let (path, control) = (self.path().to_path_buf(), Arc::clone(&self.control));
        Some(Box::new(FaultRange { inner, path, control }))
    }
}

/// A part of a file whose stores are counted, and fail, as writes.
struct FaultRange {
    inner: Box<dyn MappedRange>,
    path: PathBuf,
    control: Arc<Control>,
}

impl MappedRange for FaultRange {
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> Result<()> {
        let FaultRange { inner, path, control } = self;
        control.write(path, bytes, |bytes| inner.write_at(bytes, offset))
    }
}
