//! Making the log durable, outside the commit queue: while one sync runs, the next group is formed,
//! written and applied; whoever needs durability waits here, and one sync serves all who came before
//! it began. Threads that write and wait in turn would fall into two halves so, each of which finds the other's sync under
//! way: so whoever is to sync waits a while for as many as there were before.
//!
//! Order of one sync, which the promises lean on: older logs before newer ones; a log's directory
//! entry before anything in it counts as durable; then the manifest is told of the newest log, if it does not
//! know of it yet, because no later log can witness that it was there; a position is published only after
//! all that.
//!
//! Locks: `state`, for a few instructions at a time, never across I/O. The first failed sync stops
//! writes on this handle for good (a later Ok would prove nothing). A panic in one, of a filesystem or clock that is
//! not ours, is a failure like any other: those who wait for it must hear of it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use esker_base::event_count::EventCount;
use esker_base::planted::{self, Planted};
use esker_base::sync::atomic::{AtomicUsize, Ordering};
use esker_base::sync::{Mutex, give_way};
use esker_base::{Error, FileNumber, Result};
use esker_vfs::Env;
use esker_wal::LogSyncer;

use crate::health::Health;
use crate::metrics::Histogram;
use crate::operators::contained;

/// A place in the logs: everything before `offset` of log `log`, and all of every older log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LogPosition {
    pub(crate) log: FileNumber,
    pub(crate) offset: u64,
}

#[derive(Clone)]
struct OpenLog {
    number: FileNumber,
    syncer: LogSyncer,
    /// Whether the directory entry is durable.
    named: bool,
    /// Closed logs get no more writes: synced once, they leave the list.
    closed: bool,
}

struct State {
    /// Logs that may hold unsynced bytes, oldest first.
    logs: Vec<OpenLog>,
    durable: LogPosition,
    syncing: bool,
    /// The first sync that panicked. No log and no directory remembers that it failed, so none is synced again.
    panicked: Option<Error>,
    /// How many came for the last sync or while it was under way.
    expected: usize,
    /// How long the last sync took.
    last_took: Duration,
}

/// How often whoever is to sync looks whether as many have come as expected: it gives others the processor each time. This
/// ends the wait where time stands still.
const LOOKS: u32 = if cfg!(any(loom, shuttle)) { 0 } else { 256 };
/// The longest that it waits for them is one such part of the time that the last sync took.
const PATIENCE_PART: u32 = 2;

/// See the module.
pub(crate) struct GroupSync {
    env: Env,
    dir: PathBuf,
    health: Arc<Health>,
    state: Mutex<State>,
    /// How many have come since the last sync began. Whoever comes counts under the lock of `state`; whoever syncs, one at a
    /// time, takes them all without it.
    waiting: AtomicUsize,
    synced: EventCount,
    /// How long syncs took.
    pub(crate) times: Histogram,
}

/// Why somebody waited in vain.
#[derive(Debug)]
pub(crate) struct SyncFailed {
    pub(crate) error: Error,
    /// Writes have stopped because of it, and nobody was told yet.
    pub(crate) stopped_writes: bool,
}

impl From<Error> for SyncFailed {
    fn from(error: Error) -> Self {
        SyncFailed { error, stopped_writes: false }
    }
}

impl GroupSync {
    pub(crate) fn new(env: Env, dir: PathBuf, health: Arc<Health>) -> Self {
        let durable = LogPosition { log: FileNumber(0), offset: 0 };
        let state = State {
            logs: Vec::new(),
            durable,
            syncing: false,
            panicked: None,
            expected: 0,
            last_took: Duration::ZERO,
        };
        GroupSync {
            env,
            dir,
            health,
            state: Mutex::new(state),
            waiting: AtomicUsize::new(0),
            synced: EventCount::new(),
            times: Histogram::default(),
        }
    }

    /// A new log takes the writes; the ones before it are closed.
    pub(crate) fn begin_log(&self, number: FileNumber, syncer: LogSyncer) {
        let mut state = self.state.lock();
        for log in &mut state.logs {
            log.closed = true;
        }
        state.logs.push(OpenLog { number, syncer, named: false, closed: false });
    }

    /// Logs before `number` are in tables: nobody needs them synced any more.
    pub(crate) fn forget_before(&self, number: FileNumber) {
        let mut state = self.state.lock();
        state.logs.retain(|log| log.number >= number);
        state.durable = state.durable.max(LogPosition { log: number, offset: 0 });
    }

    /// How far the newest log is durable, if anything in it is. What is older is durable to its end.
    pub(crate) fn durable(&self) -> Option<LogPosition> {
        let state = self.state.lock();
        let newest = state.logs.last()?;
        Some(state.durable).filter(|durable| durable.log == newest.number && durable.offset > 0)
    }

    /// Return when everything up to `position` is durable. How many syncs this call made. `witness` makes
    /// the manifest know a log that is durable so far, or finds that it does; it is handed in, because nothing here knows the
    /// manifest. `even_if_stopped`: sync also once writes have stopped.
    ///
    /// # Errors
    /// A sync that failed has stopped writes; whoever made it hears whether that was the first failure to do so. The log, or
    /// the directory, that it failed for refuses every later one; after a panic all are refused.
    pub(crate) fn wait(
        &self,
        position: LogPosition,
        witness: &dyn Fn(LogPosition) -> Result<()>,
        even_if_stopped: bool,
    ) -> Result<u64, SyncFailed> {
        let mut syncs = 0;
        let mut counted = false;
        loop {
            let seen = self.synced.epoch();
            let (expected, patience) = {
                let mut state = self.state.lock();
                if state.durable >= position {
                    return Ok(syncs);
                }
                if !even_if_stopped {
                    self.health.check()?;
                }
                if let Some(error) = &state.panicked {
                    return Err(error.clone().into());
                }
                if !counted {
                    counted = true;
                    self.waiting.fetch_add(1, Ordering::Relaxed);
                }
                if state.syncing {
                    drop(state);
                    self.env.scheduler.wait(&self.synced, seen, None);
                    continue;
                }
                state.syncing = true;
                (state.expected, state.last_took / PATIENCE_PART)
            };
            let (mut served, mut took) = (0, Duration::ZERO);
            let outcome = self.stop_if_it_fails(|| {
                self.wait_for_others(expected, patience);
                let began = self.env.clock.monotonic();
                served = self.waiting.swap(0, Ordering::Relaxed);
                let outcome = self.sync_all(witness);
                took = self.env.clock.monotonic().saturating_sub(began);
                outcome
            });
            self.times.record(took);
            if planted::is(Planted::WokenEarly) {
                self.synced.notify_all();
            }
            {
                let mut state = self.state.lock();
                state.syncing = false;
                state.expected = served + self.waiting.load(Ordering::Relaxed);
                state.last_took = took;
            }
            if !planted::is(Planted::WokenEarly) {
                self.synced.notify_all();
            }
            outcome?;
            syncs += 1;
        }
    }

    /// Make everything in the logs durable now, beside whoever else does: for a caller that holds the commit lock, so that nothing
    /// is written meanwhile, and must not wait for a turn. `witness` and errors as for [`GroupSync::wait`].
    pub(crate) fn sync_now(&self, witness: &dyn Fn(LogPosition) -> Result<()>) -> Result<(), SyncFailed> {
        self.health.check()?;
        let began = self.env.clock.monotonic();
        let outcome = self.stop_if_it_fails(|| self.sync_all(witness));
        self.times.record(self.env.clock.monotonic().saturating_sub(began));
        outcome
    }

    /// Run `sync`; a failure stops writes before this returns: whoever finds nobody syncing must not try again and be told Ok.
    fn stop_if_it_fails(&self, sync: impl FnOnce() -> Result<()>) -> Result<(), SyncFailed> {
        let outcome = contained(sync).unwrap_or_else(|message| {
            let error = Error::CallbackPanicked { callback: "a call within a sync of the log", message };
            self.state.lock().panicked.get_or_insert_with(|| error.clone());
            Err(error)
        });
        outcome.map_err(|error| {
            let stopped_writes = !planted::is(Planted::SyncTriedAgain) && self.health.poison(&error);
            SyncFailed { error, stopped_writes }
        })
    }

    /// Wait until `expected` have come, but not longer than `patience`.
    fn wait_for_others(&self, expected: usize, patience: Duration) {
        if self.waiting.load(Ordering::Relaxed) >= expected {
            return;
        }
        let began = self.env.clock.monotonic();
        for _ in 0..LOOKS {
            give_way();
            let come = self.waiting.load(Ordering::Relaxed) >= expected;
            if come || self.env.clock.monotonic().saturating_sub(began) >= patience {
                return;
            }
        }
    }

    /// Sync every listed log, oldest first. By one thread at a time that waits for its turn, and one under the commit lock: a log's
    /// and a directory's syncs take turns themselves, and what is published here only grows.
    fn sync_all(&self, witness: &dyn Fn(LogPosition) -> Result<()>) -> Result<()> {
        let logs = self.state.lock().logs.clone();
        if logs.iter().any(|log| !log.named) {
            self.env.fs.sync_dir(&self.dir)?;
        }
        let mut synced = Vec::with_capacity(logs.len());
        for log in logs {
            let offset = log.syncer.sync()?;
            synced.push((log, offset));
        }
        if let Some((newest, offset)) = synced.last() {
            witness(LogPosition { log: newest.number, offset: *offset })?;
        }
        let mut state = self.state.lock();
        for (log, offset) in synced {
            // A closed log that is synced is durable to its end, whatever came after.
            let offset = if log.closed { u64::MAX } else { offset };
            state.durable = state.durable.max(LogPosition { log: log.number, offset });
            if log.closed {
                state.logs.retain(|other| other.number != log.number);
            } else if let Some(open) = state.logs.iter_mut().find(|other| other.number == log.number) {
                open.named = true;
            }
        }
        Ok(())
    }
}
