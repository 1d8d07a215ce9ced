//! Runs a history while things go wrong, and says what may be there afterwards.
//!
//! [`crate::driver`] takes any error for a violation. A survivor knows when there is trouble: from its
//! beginning until it is lifted, calls may err, but only in the ways that were promised, and what they
//! answer is held against the model all the same (P4, P5). It keeps the oracle up to date: a commit that
//! was aborted is no state any more, one in doubt is a state that the next open may show.
//!
//! One thread, in step mode.

pub mod reading;

use std::collections::BTreeMap;
use std::sync::Arc;

use esker::{Database, Durability, Error, Snapshot};
use esker_base::event::{Event, Listener};
use esker_vfs::fault::FaultFs;
use esker_vfs::fs::Fs;
use esker_vfs::mem::MemFs;
use esker_vfs::sim::Simulation;
use parking_lot::Mutex;

use crate::driver::{Keyspaces, Violation, transact, write_alone, write_batch};
use crate::dump::difference;
use crate::ops::{FIXED, Name, Op, PASSING, Write};
use crate::oracle::{Model, Oracle, contents_hash};
use crate::points::Tables;
use crate::setup::{INTERVAL, Setup, keyspace_options};

/// How long a writer waits at most for a flush that cannot be, before it is refused.
pub const PATIENCE: std::time::Duration = std::time::Duration::from_secs(3);

/// What may go wrong around a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Nothing: an error is a violation.
    None,
    /// Calls may err as promised.
    Here,
}

/// How often what happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Commits aborted.
    pub aborted: u64,
    /// Commits in doubt.
    pub in_doubt: u64,
    /// Writes and the like refused otherwise.
    pub refused: u64,
    /// Reads that erred.
    pub unread: u64,
    /// Opens that erred.
    pub unopened: u64,
    /// Handles whose writes had stopped.
    pub stopped: u64,
    /// Commits acknowledged.
    pub acknowledged: u64,
}

impl Counts {
    /// Those of `other` too.
    pub fn add(&mut self, other: &Counts) {
        self.aborted += other.aborted;
        self.in_doubt += other.in_doubt;
        self.refused += other.refused;
        self.unread += other.unread;
        self.unopened += other.unopened;
        self.stopped += other.stopped;
        self.acknowledged += other.acknowledged;
    }
}

struct Open {
    world: Simulation,
    db: Database,
    keyspaces: Keyspaces,
    durability: Durability,
}

/// See the module.
pub struct Survivor<'a> {
    setup: &'a Setup,
    disk: MemFs,
    fs: Arc<dyn Fs>,
    /// The disk under simulated time.
    world: Option<Simulation>,
    open: Option<Open>,
    opens: u64,
    /// What was acknowledged has led to this.
    model: Model,
    /// The same with the commit that is in doubt on this handle.
    doubtful: Option<Model>,
    oracle: Oracle,
    /// Crashes before this call of the trace may show a commit that was aborted since.
    sound_from: usize,
    snapshot: Option<(Snapshot, Vec<Model>)>,
    /// Why no later commit may be acknowledged on this handle.
    stopped: Option<String>,
    /// A failed sync may have taken what was acknowledged and not durable.
    unsynced: bool,
    /// How often an open was tried, and when the sync of a directory failed.
    attempts: u64,
    names_lost: Option<u64>,
    faults: Option<FaultFs>,
    /// So many of the calls that have failed were looked at.
    noted: usize,
    /// Whether errors are in order.
    pub trouble: Trouble,
    /// What happened.
    pub counts: Counts,
    /// Tables that jobs have made.
    pub tables: Arc<Mutex<Tables>>,
}

/// A call's outcome where errors may be in order.
pub type Told<T> = Result<Result<T, Error>, Violation>;

impl<'a> Survivor<'a> {
    /// A history of `setup` about to begin on `disk`, seen through `fs`.
    pub fn new(setup: &'a Setup, disk: &MemFs, fs: Arc<dyn Fs>) -> Survivor<'a> {
        Survivor {
            setup,
            disk: disk.clone(),
            fs,
            world: None,
            open: None,
            opens: 0,
            model: Model::default(),
            doubtful: None,
            oracle: Oracle::new(),
            sound_from: 0,
            snapshot: None,
            stopped: None,
            unsynced: false,
            attempts: 0,
            names_lost: None,
            faults: None,
            noted: 0,
            trouble: Trouble::None,
            counts: Counts::default(),
            tables: Arc::default(),
        }
    }

    /// What may be there after a crash.
    pub fn oracle(&self) -> &Oracle {
        &self.oracle
    }

    /// The first number of calls after which the oracle speaks of every crash.
    pub fn sound_from(&self) -> usize {
        self.sound_from
    }

    /// The world of the handle that is open, or was last.
    pub fn world(&self) -> Option<&Simulation> {
        self.world.as_ref()
    }

    /// The handle that is open.
    pub fn db(&self) -> Option<&Database> {
        self.open.as_ref().map(|open| &open.db)
    }

    /// Whether a handle is open.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Watch `faults`, which the database's files are seen through, for syncs that fail.
    pub fn watch(&mut self, faults: FaultFs) {
        self.faults = Some(faults);
    }

    /// See which syncs have failed. What was not durable may be gone after any of them; after one of a log
    /// no commit is acknowledged any more.
    fn note_failed_syncs(&mut self) {
        let Some(faults) = &self.faults else { return };
        let fired = faults.fired();
        for call in
            fired.iter().skip(self.noted).filter(|call| call.contains("Sync") && call.contains("Fail"))
        {
            self.unsynced = true;
            if call.contains("SyncDir") {
                self.names_lost.get_or_insert(self.attempts);
            }
            if call.contains(".log: ") && self.open.is_some() {
                self.stopped.get_or_insert_with(|| format!("the sync of a log had failed ({call})"));
            }
        }
        self.noted = fired.len();
    }

    /// Whether the oracle speaks of crashes now. Names whose directory has failed to sync may never reach the
    /// disk, whatever a later sync says, before the filesystem was mounted anew: systems stop a filesystem
    /// that fails so. What another handle makes of those names is out of promise.
    pub fn speaks_of_crashes(&self) -> bool {
        self.names_lost.is_none_or(|at| at == self.attempts)
    }

    /// The handle says that it takes no writes any more: from now on it has to hold to that.
    pub fn note_stopped(&mut self, error: &Error) {
        self.stopped.get_or_insert_with(|| format!("it had said: {error}"));
    }

    /// Whether an error is in order here; otherwise it is the violation.
    fn excused(&self, what: &str, error: &Error) -> Result<(), Violation> {
        if self.trouble == Trouble::None && self.stopped.is_none() {
            return Err(format!("{what}, while nothing was wrong: {error}"));
        }
        if error.is_corruption() || matches!(error, Error::FormatTooNew { .. } | Error::NotADatabase { .. })
        {
            return Err(format!("{what}: a failed call is taken for damage: {error}"));
        }
        Ok(())
    }

    /// Open the database, and see what is there.
    ///
    /// # Errors
    /// As a violation; the inner one if it could not be opened and that is in order.
    pub fn open(&mut self) -> Told<()> {
        self.note_failed_syncs();
        self.attempts += 1;
        let nth = self.opens;
        let world = Simulation::on(self.disk.clone(), self.setup.seed.wrapping_add(nth << 32));
        self.world = Some(world.clone());
        let tables = Arc::clone(&self.tables);
        let listener: Arc<dyn Listener> = Arc::new(move |event: &Event| tables.lock().note(event));
        let db = match self.setup.open_over(&world, Arc::clone(&self.fs), nth, Some(listener)) {
            Ok(db) => db,
            Err(error) => {
                self.excused("open", &error)?;
                self.counts.unopened += 1;
                return Ok(Err(error));
            }
        };
        let found = match reading::everything(&db)? {
            Ok(found) => found,
            Err(error) => {
                self.excused("reading after an open", &error)?;
                self.counts.unread += 1;
                // It saw nothing, so nothing is settled.
                let _ = db.close();
                return Ok(Err(error));
            }
        };
        self.note_failed_syncs();
        let least = if self.unsynced { self.oracle.durable() } else { self.least() };
        let allowed = least..=self.oracle.commits();
        let Some(commits) = self.oracle.find(contents_hash(&found), &allowed) else {
            let anywhere = self.oracle.find_anywhere(contents_hash(&found));
            return Err(format!(
                "a reopening shows the state after commits {anywhere:?}, allowed are {allowed:?}; compared \
                 with what was acknowledged: {}",
                difference(&found, self.model.contents())
            ));
        };
        let (_, possible) = self.oracle.keyspaces(&allowed);
        if let Some(name) = found.keys().find(|name| !possible.contains(*name)) {
            return Err(format!("a reopening shows keyspace {name}, which no state that is allowed has"));
        }
        self.oracle.truncate(commits);
        self.oracle.observe(found.keys().cloned().collect());
        self.oracle.all_durable(self.disk.trace_len());
        self.sound_from = self.disk.trace_len();
        self.model = Model::of(found);
        self.doubtful = None;
        self.stopped = None;
        self.unsynced = false;
        self.opens += 1;
        let durability = self.setup.mode.durability(nth);
        let mut open = Open { world, db, keyspaces: BTreeMap::new(), durability };
        for name in FIXED.into_iter().chain(PASSING) {
            if self.model.contents().contains_key(name) {
                let keyspace = open.db.existing_keyspace(name).map_err(|e| e.to_string())?;
                open.keyspaces.insert(name, keyspace);
            }
        }
        self.open = Some(open);
        for name in FIXED {
            self.op(&Op::Create(name))?;
        }
        Ok(Ok(()))
    }

    /// How many commits an open must find at least, if no sync has failed: without a log what is durable,
    /// with one what was acknowledged.
    fn least(&self) -> usize {
        let unlogged = self.opens > 0 && self.setup.mode.durability(self.opens - 1) == Durability::NoLog;
        let doubtful = usize::from(self.doubtful.is_some());
        if unlogged { self.oracle.durable() } else { self.oracle.commits() - doubtful }
    }

    /// Close the handle, if there is one; whether everything was in order.
    pub fn close(&mut self) -> Told<()> {
        self.snapshot = None;
        let Some(Open { db, keyspaces, world, .. }) = self.open.take() else { return Ok(Ok(())) };
        drop(keyspaces);
        let outcome = db.close();
        drop(world);
        self.counts.stopped += u64::from(self.stopped.is_some());
        match outcome {
            Ok(()) if self.stopped.is_some() => {
                Err("a close says Ok although writes had stopped".to_owned())
            }
            Ok(()) => {
                self.oracle.all_durable(self.disk.trace_len());
                Ok(Ok(()))
            }
            Err(error) => {
                self.excused("close", &error)?;
                Ok(Err(error))
            }
        }
    }

    /// Do one operation; those on keyspaces that are not there are passed over.
    pub fn op(&mut self, op: &Op) -> Result<(), Violation> {
        self.note_failed_syncs();
        let Some(open) = &self.open else { return Ok(()) };
        let there = |name: &Name| open.keyspaces.contains_key(name);
        let writable = |writes: &[Write]| writes.iter().all(|write| there(&keyspace_of(write)));
        let synced = open.durability == Durability::Sync;
        match op {
            Op::Write(write) if there(&keyspace_of(write)) => {
                self.commit(|m| m.write(write), synced, true, |open| write_alone(&open.keyspaces, write))
            }
            Op::Batch(writes, sync) if writable(writes) => self.commit(
                |m| writes.iter().for_each(|write| m.write(write)),
                synced || *sync,
                true,
                |open| write_batch(&open.db, &open.keyspaces, writes, *sync),
            ),
            Op::Transaction(reads, writes) if writable(writes) && reads.iter().all(|(n, _)| there(n)) => {
                self.transaction(reads, writes, synced)
            }
            Op::Persist => self.durably("persist", |open| open.db.persist()),
            Op::Flush => self.durably("flush", |open| open.db.flush()),
            Op::Compact(name, range) if there(name) => {
                self.durably("compact", |open| open.keyspaces[name].compact_range(range.clone()))
            }
            Op::Create(name) if !there(name) => self.create(name),
            Op::Drop(name) if there(name) => {
                if let Some(open) = &mut self.open {
                    open.keyspaces.remove(name);
                }
                self.commit(|m| m.drop_keyspace(name), true, false, |open| open.db.drop_keyspace(name))?;
                self.adopt(name)
            }
            Op::TakeSnapshot => {
                self.snapshot = Some((open.db.snapshot(), self.candidates()));
                Ok(())
            }
            Op::ReadSnapshot => self.read_snapshot(),
            Op::Get(name, keys) if there(name) => self.read_keys(name, keys),
            Op::Scan(name) if there(name) => self.read_rows(name),
            Op::Rest => {
                self.rest();
                Ok(())
            }
            Op::Reopen => {
                if self.close()?.is_ok() || self.trouble == Trouble::Here {
                    self.open()?.map_or_else(|_| Ok(()), Ok)
                } else {
                    Ok(())
                }
            }
            _ => Ok(()),
        }
    }

    /// The states that reads may show.
    fn candidates(&self) -> Vec<Model> {
        std::iter::once(&self.model).chain(&self.doubtful).cloned().collect()
    }

    fn commit(
        &mut self,
        apply: impl FnOnce(&mut Model),
        durable: bool,
        plain: bool,
        make: impl FnOnce(&Open) -> Result<(), Error>,
    ) -> Result<(), Violation> {
        let Some(open) = &self.open else { return Ok(()) };
        let mut next = self.model.clone();
        apply(&mut next);
        let doubted = self.doubtful.is_some();
        if !doubted {
            self.oracle.issue(self.disk.trace_len(), &next);
        }
        let outcome = make(open);
        match outcome {
            Ok(()) => {
                if let Some(why) = &self.stopped {
                    return Err(format!("a commit was acknowledged after {why}"));
                }
                self.counts.acknowledged += 1;
                self.model = next;
                if durable {
                    self.oracle.all_durable(self.disk.trace_len());
                }
                return Ok(());
            }
            Err(Error::InDoubt { cause }) => {
                let error = Error::InDoubt { cause };
                self.excused("a commit is in doubt", &error)?;
                if doubted {
                    return Err(format!("a second commit on a handle is in doubt: {error}"));
                }
                self.counts.in_doubt += 1;
                self.doubtful = Some(next);
                self.stopped.get_or_insert_with(|| format!("one was in doubt: {error}"));
                return Ok(());
            }
            Err(error) => {
                self.excused("a commit failed", &error)?;
                match error {
                    Error::Aborted { .. } => self.counts.aborted += 1,
                    Error::Poisoned { .. } | Error::WouldStall { .. } => self.counts.refused += 1,
                    // Not a commit yet: a transaction reads, a keyspace's drop makes durable what precedes it.
                    Error::Io { .. } if !plain => self.counts.refused += 1,
                    _ => return Err(format!("a failed commit says neither aborted nor in doubt: {error}")),
                }
            }
        }
        if !doubted {
            self.oracle.retract();
            self.sound_from = self.disk.trace_len();
        }
        Ok(())
    }

    fn create(&mut self, name: Name) -> Result<(), Violation> {
        self.commit(
            |m| m.create(name),
            false,
            true,
            |open| open.db.keyspace(name, keyspace_options(name)).map(drop),
        )?;
        self.adopt(name)
    }

    /// Take up keyspace `name`, if the database says that it is there.
    fn adopt(&mut self, name: Name) -> Result<(), Violation> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let there = self.model.contents().contains_key(name);
        match open.db.existing_keyspace(name) {
            Ok(keyspace) if there => drop(open.keyspaces.insert(name, keyspace)),
            Err(Error::NoSuchKeyspace { .. }) if !there => {}
            _ if self.doubtful.is_some() => {}
            Ok(_) => {
                return Err(format!("keyspace {name} is there, which was never created or is dropped"));
            }
            Err(error) => return Err(format!("keyspace {name}, which is there: {error}")),
        }
        Ok(())
    }

    fn transaction(
        &mut self,
        reads: &[(Name, Vec<u8>)],
        writes: &[Write],
        synced: bool,
    ) -> Result<(), Violation> {
        let expected: Vec<Vec<Option<Vec<u8>>>> = self
            .candidates()
            .iter()
            .map(|model| reads.iter().map(|(name, key)| model.rows(name).get(key).cloned()).collect())
            .collect();
        let mut wrong = None;
        self.commit(
            |m| writes.iter().for_each(|write| m.write(write)),
            synced,
            false,
            |open| {
                let got = transact(&open.db, &open.keyspaces, reads, writes)?;
                if !expected.contains(&got) {
                    wrong = Some(format!("a transaction read {got:?}, not {:?}", expected[0]));
                }
                Ok(())
            },
        )?;
        wrong.map_or(Ok(()), Err)
    }

    fn durably(
        &mut self,
        what: &str,
        action: impl FnOnce(&Open) -> Result<(), Error>,
    ) -> Result<(), Violation> {
        let Some(open) = &self.open else { return Ok(()) };
        match action(open) {
            Ok(()) => {
                if let Some(why) = &self.stopped {
                    return Err(format!("{what} says Ok after {why}"));
                }
                self.oracle.all_durable(self.disk.trace_len());
                Ok(())
            }
            Err(error) => {
                self.counts.refused += 1;
                self.excused(what, &error)
            }
        }
    }

    /// Let time pass and background work catch up.
    pub fn rest(&mut self) {
        let Some(open) = &self.open else { return };
        open.world.steps.settle();
        open.world.clock.advance(INTERVAL);
        open.world.steps.settle();
        let is_timed = matches!(open.durability, Durability::Interval(_));
        self.note_failed_syncs();
        // Nothing keeps the timer's sync from being made but one that has failed, and a log that ends with what is in doubt.
        if is_timed && !self.unsynced && self.doubtful.is_none() {
            self.oracle.all_durable(self.disk.trace_len());
        }
    }

    /// Whether this handle takes no writes any more, by its own account.
    pub fn refuses_writes(&self) -> Option<Error> {
        let open = self.open.as_ref()?;
        open.db.batch().commit().err()
    }

    /// Everything can be read and is as it was acknowledged; nothing is wrong any more.
    pub fn read_everything(&mut self) -> Result<(), Violation> {
        let names: Vec<Name> = self.open.iter().flat_map(|open| open.keyspaces.keys().copied()).collect();
        names.into_iter().try_for_each(|name| self.read_rows(name))
    }
}

fn keyspace_of(write: &Write) -> Name {
    match write {
        Write::Put(name, ..)
        | Write::Delete(name, ..)
        | Write::DeleteRange(name, ..)
        | Write::Merge(name, ..) => name,
    }
}
