//! White box: the order of commits is known, and every read is compared with the model in that order.
//!
//! Every transaction that writes also appends its number to one list, by a merge, which reads nothing and
//! so conflicts with nobody: the list is the order of commits. One that only reads reads the list, first or
//! last, which says after how many commits it reads.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use esker::{Database, Durability, Error, Keyspace, Transaction};
use esker_vfs::clock::SimClock;
use esker_vfs::fault::{Cause, Effect, Fault, FaultFs, Operation};
use esker_vfs::mem::MemFs;
use fastrand::Rng;
use parking_lot::Mutex;

use super::{THREADS, Tried};
use crate::driver::Violation;
use crate::model::difference;
use crate::planted::Bug;
use crate::points::Hits;
use crate::script::generate::{Generator, TRANSACTION_SPACES};
use crate::script::reference::Reference;
use crate::script::spaces::{FIXED, SPACES};
use crate::script::subject::{dump, step_transaction};
use crate::script::world::{Config, DIR};
use crate::script::{Answer, Item, Op, Step, Write};

/// The keyspace and key of the list.
const ORDER: (usize, &[u8]) = (7, b"order");
/// Transactions of one thread, and of a history in step mode.
const OF_A_THREAD: usize = 100;
const OF_STEPS: usize = 400;
/// Transactions open at once in step mode.
const CLIENTS: usize = 6;

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It was acknowledged.
    Committed,
    /// It must never appear.
    Refused,
    /// It may appear.
    InDoubt,
}

/// A transaction that has ended.
struct Done {
    id: u64,
    /// Moments, by a counter that all threads share.
    began: u64,
    ended: u64,
    steps: Vec<(Step, Answer)>,
    writes: bool,
    end: End,
}

/// A transaction that is open.
struct Open {
    transaction: Transaction,
    done: Done,
    /// Steps yet to come.
    left: usize,
}

struct Shared {
    db: Database,
    spaces: BTreeMap<usize, Keyspace>,
    moments: AtomicU64,
    ids: AtomicU64,
}

impl Shared {
    fn new(db: Database, config: &Config) -> Result<Shared, Violation> {
        let mut spaces = BTreeMap::new();
        for space in (0..FIXED).chain([ORDER.0]) {
            let keyspace = db.keyspace(SPACES[space].0, config.of(space)).map_err(|e| e.to_string())?;
            spaces.insert(space, keyspace);
        }
        Ok(Shared { db, spaces, moments: AtomicU64::new(0), ids: AtomicU64::new(1) })
    }

    fn moment(&self) -> u64 {
        self.moments.fetch_add(1, Ordering::SeqCst)
    }

    fn begin(&self, random: &mut Rng) -> Result<Open, Violation> {
        let began = self.moment();
        let transaction = self.db.begin().map_err(|e| e.to_string())?;
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let done = Done { id, began, ended: 0, steps: Vec::new(), writes: false, end: End::Refused };
        let mut open = Open { transaction, done, left: random.usize(1..8) };
        if random.u8(0..8) == 0 {
            // One that only reads; the steps that write are left out.
            open.done.id = 0;
            self.step(&mut open, the_list())?;
        }
        Ok(open)
    }

    fn step(&self, open: &mut Open, step: Step) -> Result<(), Violation> {
        let read_only = open.done.id == 0;
        if read_only && matches!(step, Step::Write(_)) {
            return Ok(());
        }
        let mut answer = Answer::new();
        open.done.writes |= matches!(step, Step::Write(_));
        step_transaction(&mut open.transaction, &self.spaces[&step.space()], &step, &mut answer)
            .map_err(|item| format!("{step:?} answers {item:?}"))?;
        open.done.steps.push((step, answer));
        Ok(())
    }

    /// Commit; an error other than a conflict is for the caller to judge.
    fn end(&self, mut open: Open, rolled_back: bool) -> Result<(Done, Option<Error>), Violation> {
        if open.done.writes {
            let id = Bytes::copy_from_slice(&open.done.id.to_le_bytes());
            self.step(&mut open, Step::Write(Write::Merge(ORDER.0, Bytes::from_static(ORDER.1), id)))?;
        } else if open.done.id != 0 {
            // It has come to write nothing: it is one that only reads.
            self.step(&mut open, the_list())?;
        }
        let Open { transaction, mut done, .. } = open;
        let mut error = None;
        if rolled_back {
            transaction.rollback();
        } else {
            match transaction.commit() {
                Ok(()) => done.end = End::Committed,
                Err(Error::Conflict { .. }) => {}
                Err(other) => {
                    done.end =
                        if matches!(other, Error::InDoubt { .. }) { End::InDoubt } else { End::Refused };
                    error = Some(other);
                }
            }
        }
        done.ended = self.moment();
        Ok((done, error))
    }
}

/// Read the list.
fn the_list() -> Step {
    Step::Get(ORDER.0, Bytes::from_static(ORDER.1))
}

/// The numbers in the list.
fn order(list: Option<&[u8]>) -> Vec<u64> {
    let numbers = list.unwrap_or_default().chunks_exact(8);
    numbers.filter_map(|number| Some(u64::from_le_bytes(number.try_into().ok()?))).collect()
}

/// Replay `all` in the order that the database `db` tells, and compare every read and the last state.
fn check(db: &Database, all: Vec<Done>, reopened: bool) -> Result<(), Violation> {
    let told = |e: Error| e.to_string();
    let list =
        db.existing_keyspace(SPACES[ORDER.0].0).and_then(|space| space.get(ORDER.1)).map_err(told)?;
    let order = order(list.as_deref());
    let (writers, others): (Vec<Done>, Vec<Done>) = all.into_iter().partition(|done| done.writes);
    let mut by_id: BTreeMap<u64, Done> = writers.into_iter().map(|done| (done.id, done)).collect();
    let mut after: BTreeMap<usize, Vec<&Done>> = BTreeMap::new();
    for reader in others.iter().filter(|done| done.end == End::Committed) {
        let list = reader.steps.iter().find(|(step, _)| *step == the_list());
        let answer = list.map(|(_, answer)| answer.as_slice()).unwrap_or_default();
        let [Item::Value(list)] = answer else {
            return Err(format!("the list that transaction {} has read is {answer:?}", reader.id));
        };
        after.entry(list.as_ref().map_or(0, |list| list.len() / 8)).or_default().push(reader);
    }
    let mut reference = Reference::default();
    reference.apply(&Op::Create(ORDER.0), &[], &mut Answer::new());
    // Whoever had ended before another began comes before it.
    let (mut latest_begin, mut seen) = (0, BTreeSet::new());
    let mut latest_end = 0;
    for (place, id) in order.iter().enumerate() {
        for reader in after.remove(&place).unwrap_or_default() {
            replay(&mut reference, reader, false)?;
            latest_begin = latest_begin.max(reader.began);
        }
        if !seen.insert(*id) {
            return Err(format!("transaction {id} was committed twice"));
        }
        let Some(done) = by_id.remove(id) else {
            return Err(format!("transaction {id} came from nowhere"));
        };
        if done.end == End::Refused {
            return Err(format!("transaction {id} was refused, and is there as commit {place}"));
        }
        if done.ended < latest_begin {
            return Err(format!(
                "transaction {id} is commit {place}, behind one that began after it ended"
            ));
        }
        latest_begin = latest_begin.max(done.began);
        latest_end = latest_end.max(done.ended);
        replay(&mut reference, &done, true)?;
    }
    for reader in after.remove(&order.len()).unwrap_or_default() {
        replay(&mut reference, reader, false)?;
    }
    if let Some(place) = after.keys().next() {
        return Err(format!("a transaction read {place} commits of {}", order.len()));
    }
    if let Some(lost) = by_id.values().find(|done| done.end == End::Committed) {
        return Err(format!("transaction {} was acknowledged and is not there", lost.id));
    }
    let (found, _) = dump(db).map_err(|item| format!("{item:?}"))?;
    if found != reference.whole() {
        let when = if reopened { "after reopening" } else { "at the end" };
        return Err(format!("{when} the state is {found:?}, not {:?}", reference.whole()));
    }
    Ok(())
}

/// One transaction by itself: what it read must be what the model holds.
fn replay(reference: &mut Reference, done: &Done, commit: bool) -> Result<(), Violation> {
    let mut answer = Answer::new();
    reference.apply(&Op::Begin(0), &[], &mut answer);
    for (nth, (step, found)) in done.steps.iter().enumerate() {
        answer.clear();
        reference.apply(&Op::InTransaction(0, step.clone()), &[], &mut answer);
        if *found != answer {
            let what = difference(found, &answer);
            return Err(format!("transaction {}, step {nth}, {step:?}: {what}", done.id));
        }
    }
    answer.clear();
    reference.apply(&Op::End(0, commit), &[], &mut answer);
    if answer.is_empty() { Ok(()) } else { Err(format!("a replayed commit answers {answer:?}")) }
}

/// Sixteen threads.
#[expect(clippy::disallowed_methods, reason = "the threads of a test")]
pub fn with_threads(seed: u64, bug: Option<Bug>) -> Result<Tried, Violation> {
    let hits = Arc::<Mutex<Hits>>::default();
    let mut config = Config { bug, ..Config::draw(seed, true) };
    // Real waits for a timer would be most of the time.
    config.options.durability = if seed.is_multiple_of(2) { Durability::Os } else { Durability::NoLog };
    let disk = MemFs::new();
    let db = config.open(&disk, Path::new(DIR), 0, false, &hits).map_err(|e| e.to_string())?;
    let shared = Shared::new(db, &config)?;
    let keys = [4, 12, 60][Rng::with_seed(seed).usize(0..3)];
    let outcomes: Vec<Result<Vec<Done>, Violation>> = std::thread::scope(|scope| {
        let work = |thread: u64| {
            let shared = &shared;
            move || {
                if let Some(bug) = bug {
                    bug.plant_in_engine();
                }
                client(shared, seed.wrapping_mul(1_000).wrapping_add(thread), keys)
            }
        };
        let threads: Vec<_> = (0..THREADS as u64).map(|thread| scope.spawn(work(thread))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err("a thread panicked".to_owned())))
            .collect()
    });
    let mut all = Vec::new();
    for outcome in outcomes {
        all.extend(outcome?);
    }
    let tried = all.len() as u64;
    check(&shared.db, all, false)?;
    let Shared { db, spaces, .. } = shared;
    drop(spaces);
    db.close().map_err(|e| e.to_string())?;
    let hits = *hits.lock();
    Ok((tried, hits))
}

/// What one thread does.
fn client(shared: &Shared, seed: u64, keys: usize) -> Result<Vec<Done>, Violation> {
    let mut random = Rng::with_seed(seed);
    let mut steps = Generator::for_transactions(seed, keys);
    let mut all = Vec::with_capacity(OF_A_THREAD);
    for _ in 0..OF_A_THREAD {
        let mut open = shared.begin(&mut random)?;
        for _ in 0..open.left {
            shared.step(&mut open, steps.transaction_step())?;
            if random.bool() {
                super::give_way();
            }
        }
        let (done, error) = shared.end(open, random.u8(0..16) == 0)?;
        if let Some(error) = error {
            return Err(format!("a commit failed: {error}"));
        }
        all.push(done);
        match random.u8(0..200) {
            0 => shared.db.flush().map_err(|e| e.to_string())?,
            1 => shared.spaces[&random.usize(0..TRANSACTION_SPACES)]
                .compact_range::<&[u8]>(..)
                .map_err(|e| e.to_string())?,
            _ => {}
        }
    }
    Ok(all)
}

/// Many transactions at once in step mode, while calls on the filesystem fail; then the database is opened
/// again and says what is there.
pub fn with_faults(seed: u64, bug: Option<Bug>) -> Result<Tried, Violation> {
    let hits = Arc::<Mutex<Hits>>::default();
    let mut random = Rng::with_seed(seed ^ 0x6661_756c_7473);
    let mut config = Config { bug, ..Config::draw(seed, false) };
    if config.options.durability == Durability::NoLog {
        // Without a log a handle that failed takes what is in memory with it.
        config.options.durability = Durability::Sync;
    }
    let disk = MemFs::new();
    let faults = FaultFs::over(&disk, Arc::new(SimClock::new()));
    let open = |nth| config.open_over(Arc::new(faults.clone()), &disk, Path::new(DIR), nth, false, &hits);
    let shared = Shared::new(open(0).map_err(|e| e.to_string())?, &config)?;
    plan(&faults, &mut random);
    let mut steps = Generator::for_transactions(seed, [3, 8, 30][random.usize(0..3)]);
    let mut clients: Vec<Option<Open>> = (0..CLIENTS).map(|_| None).collect();
    let mut all = Vec::new();
    let mut stopped = false;
    while all.len() < OF_STEPS && !stopped {
        let slot = &mut clients[random.usize(0..CLIENTS)];
        let Some(mut open) = slot.take() else {
            *slot = Some(shared.begin(&mut random)?);
            continue;
        };
        if open.left > 0 {
            open.left -= 1;
            shared.step(&mut open, steps.transaction_step())?;
            *slot = Some(open);
            continue;
        }
        let (done, error) = shared.end(open, random.u8(0..16) == 0)?;
        all.push(done);
        // After one in doubt no commit is accepted: the rest is refused, until it is opened again.
        stopped = matches!(error, Some(Error::InDoubt { .. } | Error::Poisoned { .. })) && random.bool();
        if random.u8(0..100) == 0 {
            // It may fail, as planned.
            let _ = shared.db.flush();
        }
    }
    clients.clear();
    let tried = all.len() as u64;
    let Shared { db, spaces, .. } = shared;
    drop(spaces);
    let _ = db.close();
    faults.reset();
    let db = open(1).map_err(|e| format!("after faults {:?}, open: {e}", faults.fired()))?;
    check(&db, all, true)?;
    db.verify().map_err(|e| format!("verify: {e}"))?;
    db.close().map_err(|e| e.to_string())?;
    let hits = *hits.lock();
    Ok((tried, hits))
}

/// A few faults among the calls to come.
fn plan(faults: &FaultFs, random: &mut Rng) {
    for _ in 0..random.usize(0..3) {
        let operations = [
            Operation::Write,
            Operation::SyncData,
            Operation::Sync,
            Operation::Create,
            Operation::SyncDir,
            Operation::Allocate,
        ];
        let operation = operations[random.usize(0..operations.len())];
        let nth =
            faults.count(operation) + random.u64(0..if operation == Operation::Write { 300 } else { 20 });
        let effect = if operation.syncs() || random.bool() {
            Effect::Before
        } else {
            Effect::Partial(random.usize(0..40))
        };
        let cause = if random.bool() { Cause::Device } else { Cause::NoSpace };
        faults.plan(Fault::nth(operation, nth).cause(cause).effect(effect));
    }
}
