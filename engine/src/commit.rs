//! The commit queue: the one way a write takes into the log and the memtable.
//!
//! Writers queue. Whoever finds that nobody leads does: it takes everything queued so far, gives each
//! commit its sequence numbers, writes their log records with one call, applies them to the memtable,
//! publishes the last number, and wakes the others with their outcomes. Syncs run outside the queue
//! ([`GroupSync`](crate::group_sync::GroupSync)). A commit becomes visible before it is durable; its caller hears of it only after it
//! has the durability it asked for.
//!
//! 1. A commit that fails before its log record is written has no effect and takes no number.
//! 2. If writing the log fails and the record is provably not there, the commit is `Aborted` and the
//!    queue goes on; otherwise it is `InDoubt` and the queue takes no more writes.
//! 3. A panic on the way is a failure like any other: the group is `InDoubt`, the queue takes no more writes.
//! 4. What is published is in the memtable; what is in the memtable is in the log (unless `NoLog`).
//!
//! Locks: `queue` for a few instructions, by those who wait, by a leader that takes them, under the commit lock, and by
//! one that leaves; `state`, the *commit lock*, for the length of one group, including its write but no sync of the log. What
//! else is taken under it stands in `core`.

mod group;
mod queue;

use std::sync::Arc;

use esker_base::sync::atomic::Ordering;
use esker_base::{Error, OpCost, Result};

use crate::batch::{Op, Ops};
use crate::core::Core;
use crate::group_sync::LogPosition;
use crate::options::Durability;
use crate::recent_writes::RecentWrites;
use crate::sync_lane::LogPosition;
use crate::transaction::read_set::ReadSet;
pub(crate) use group::{CommitState, apply};
pub(crate) use queue::CommitQueue;

impl Core {
    /// Commit `ops` with at least the database's durability.
    pub(crate) fn commit(
        &self,
        ops: &Ops,
        durability: Option<Durability>,
        cost: &mut OpCost,
    ) -> Result<()> {
        if ops.count() == 0 {
            return self.health.check();
        }
        self.commit_work(Work::Batch(ops), None, durability, cost)
    }

    /// Commit `work` and wait for its durability.
    pub(crate) fn commit_work(
        &self,
        work: Work<'_>,
        reads: Option<&Arc<ReadSet>>,
        durability: Option<Durability>,
        cost: &mut OpCost,
    ) -> Result<()> {
        let durability = self.effective_durability(durability)?;
        self.check_writable()?;
        if durability == Durability::Sync {
            // A system call, but a sync takes a thousand times as long.
            self.check_process()?;
        }
        self.check_keyspaces(&work)?;
        self.admit(work.bytes() as u64)?;
        if let Some(reads) = reads {
            // Validate here, outside the queue, so that the leader only checks what was committed since.
            reads.check(self)?;
        }
        let committed = self.commits.commit(self, work, reads).map_err(|error| *error)?;
        cost.calls += 1;
        cost.tombstones_written += work.deletes();
        cost.keys_written += work.ops() - work.deletes();
        cost.bytes_written += work.user_bytes();
        if durability == Durability::Sync
            && let Some(position) = committed.position
        {
            // The record is in the log and visible; if the sync fails its fate is open.
            self.wait_durable(position).map_err(|cause| Error::InDoubt { cause: Box::new(cause) })?;
        }
        self.breathe();
        Ok(())
    }

/// How many numbers [`Turn::firsts`] keeps room for: more than a group of threads that wait mostly has.
const FIRSTS_KEPT_MAX: usize = 64;

/// Cache lines of a lone put's value that are asked for before anything is done with it; the processor asks for the rest
/// once it is read.
const LONE_VALUE_LINES: usize = 4;

const CLOSING: &str = "close() was called on this handle or a clone of it";

/// The state only the leader touches.
pub(crate) struct Turn {
    /// `None` without a log.
    pub(crate) log: Option<LogWriter>,
    pub(crate) log_number: FileNumber,
    pub(crate) memtable: MemtableWriter,
    pub(crate) last_seqno: SeqNo,
    /// How many had queued for the last group.
    pub(crate) followers: usize,
    /// Room for a group's first numbers, kept from group to group.
    pub(crate) firsts: Vec<Option<SeqNo>>,
    /// The rows that were deleted one by one lately.
    pub(crate) deletes: Deletes,
    /// What was committed while transactions are checked.
    pub(crate) recent: RecentWrites,
    /// The database is being closed: what is written by now is the last of it.
    pub(crate) closing: bool,
    /// To be told to the listeners once the turn is over: they may call back.
    pub(crate) events: Vec<Event>,
}

impl Turn {
    /// Where the log ends; none without a log.
    #[inline]
    fn check_keyspaces(&self, work: &Work<'_>) -> Result<()> {
        if self.keyspace_dropped.load(Ordering::Acquire) { self.look_for_keyspaces(work) } else { Ok(()) }
    }

    /// [`Core::check_keyspaces`] once any was dropped.
    #[cold]
    fn look_for_keyspaces(&self, work: &Work<'_>) -> Result<()> {
        let current = self.current.load();
        let mut gone = None;
        work.for_each(|op| {
            if current.version.keyspace(op.keyspace).is_none() {
                gone = Some(op.keyspace);
            }
        });
        match gone {
            None => Ok(()),
            Some(id) => Err(Error::KeyspaceDropped { id }),
        }
    }

    /// The stronger of the database's durability and what a batch asked for.
    fn effective_durability(&self, asked: Option<Durability>) -> Result<Durability> {
        let own = self.options.durability;
        let Some(asked) = asked else { return Ok(own) };
        let quicker = match (asked, own) {
            (Durability::Interval(asked), Durability::Interval(own)) => asked < own,
            _ => false,
        };
        if asked.strength() <= own.strength() && !quicker {
            return Ok(own);
        }
        if own == Durability::NoLog {
            return Err(Error::invalid(
                "a NoLog database has no log to make a batch durable with; call persist() after the commit",
            ));
        }
        // The timer of an interval is the database's: where it has none, or a slower one, a sync now keeps
        // what the interval promises.
        Ok(Durability::Sync)
    }
}

/// One commit's content, borrowed from whoever waits for it.
#[derive(Clone, Copy)]
pub(crate) enum Work<'a> {
    /// A single operation: no batch is encoded for it.
    One(Op<'a>),
    /// A batch.
    Batch(&'a Ops),
    /// A transaction's writes, to be committed only if nothing it read has changed.
    Transaction(&'a Ops, &'a ReadSet),
}

/// The same, owned: what a writer leaves in the queue when somebody else leads.
enum OwnedWork {
    Batch(Ops),
    Transaction(Ops, Arc<ReadSet>),
}

impl OwnedWork {
    fn as_work(&self) -> Work<'_> {
        match self {
            OwnedWork::Batch(ops) => Work::Batch(ops),
            OwnedWork::Transaction(ops, reads) => Work::Transaction(ops, reads),
        }
    }
}

/// A writer in the queue.
struct Request {
    work: OwnedWork,
    /// Set with the outcome: what the writer looks at before it sleeps.
    answered: AtomicBool,
    outcome: Mutex<Outcome>,
    woken: Condvar,
}

enum Outcome {
    Waiting,
    /// The leader before has left: this writer leads now.
    Lead,
    Done(Answer),
}

/// Where a commit went.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Committed {
    /// The end of its log record; `None` without a log.
    pub(crate) position: Option<LogPosition>,
}

/// What the lane answers a commit. The error is boxed: an answer is handed on a few times.
type Answer = Result<Committed, Box<Error>>;

/// See the module.
pub(crate) struct Lane {
    queue: Mutex<Vec<Arc<Request>>>,
    /// How many wait in `queue`, for whoever only looks: changed under its lock.
    waiting: AtomicUsize,
    /// Whether somebody leads. Whoever makes it true does; a leader makes it false under the lock of `queue`, and only
    /// if nobody waits there, so nobody who found it true under that lock, and queued, is left behind.
    led: AtomicBool,
    /// How many transactions are being checked or wait for their last check.
    checking: AtomicUsize,
    turn: Mutex<Turn>,
}

/// While there is one, what is committed is noted.
pub(crate) struct Checking<'a>(&'a Lane);

impl Drop for Checking<'_> {
    fn drop(&mut self) {
        self.0.checking.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Work<'_> {
    fn ops(&self) -> u64 {
        match self {
            Work::One(_) => 1,
            Work::Batch(ops) | Work::Transaction(ops, _) => ops.count(),
        }
    }

    /// How many operations delete a key or a range of them.
    fn deletes(&self) -> u64 {
        match self {
            Work::One(op) => u64::from(op.is_delete()),
            Work::Batch(ops) | Work::Transaction(ops, _) => ops.deletes(),
        }
    }

    fn range_deletes(&self) -> u64 {
        match self {
            // A range delete may be two operations, so it always comes as a batch.
            Work::One(_) => 0,
            Work::Batch(ops) | Work::Transaction(ops, _) => ops.range_deletes(),
        }
    }

    /// Bytes of keys and values.
    fn user_bytes(&self) -> u64 {
        match self {
            Work::One(op) => (op.key.len() + op.value.len()) as u64,
            Work::Batch(ops) | Work::Transaction(ops, _) => ops.user_bytes(),
        }
    }

    /// About the bytes of its part of a log record.
    fn bytes(&self) -> usize {
        match self {
            Work::One(op) => op.key.len() + op.value.len(),
            Work::Batch(ops) | Work::Transaction(ops, _) => ops.bytes().len(),
        }
    }

    fn to_owned(self, reads: Option<&Arc<ReadSet>>) -> Result<OwnedWork> {
        Ok(match (self, reads) {
            (Work::One(op), _) => {
                let mut ops = Ops::default();
                ops.push(op)?;
                OwnedWork::Batch(ops)
            }
            (Work::Batch(ops), _) => OwnedWork::Batch(ops.copied()?),
            (Work::Transaction(ops, _), Some(reads)) => {
                OwnedWork::Transaction(ops.copied()?, Arc::clone(reads))
            }
            (Work::Transaction(..), None) => unreachable!("a transaction comes with its reads"),
        })
    }

    pub(crate) fn for_each(&self, mut each: impl FnMut(Op<'_>)) {
        match self {
            Work::One(op) => each(*op),
            Work::Batch(ops) | Work::Transaction(ops, _) => ops.iter().for_each(each),
        }
    }
}

impl Lane {
    pub(crate) fn new(turn: Turn) -> Self {
        Lane {
            queue: Mutex::new(Vec::new()),
            waiting: AtomicUsize::new(0),
            led: AtomicBool::new(false),
            checking: AtomicUsize::new(0),
            turn: Mutex::new(turn),
        }
    }

    /// The leader's state, for rotation and closing.
    pub(crate) fn turn(&self) -> MutexGuard<'_, Turn> {
        self.turn.lock()
    }

    /// The leader's state, if nobody leads just now.
    pub(crate) fn try_turn(&self) -> Option<MutexGuard<'_, Turn>> {
        self.turn.try_lock()
    }

    /// Have what is committed from now on noted, for a transaction that is checked. A commit that is under way may not be: then
    /// the transaction finds that its own first is missing.
    pub(crate) fn begin_check(&self) -> Checking<'_> {
        self.checking.fetch_add(1, Ordering::Relaxed);
        Checking(self)
    }

    /// Whether a transaction is being checked beside the `group` ones that are about to be committed.
    #[inline]
    fn is_checking(&self, group: usize) -> bool {
        self.checking.load(Ordering::Relaxed) > group
    }

    /// Commit `work`. `reads` is the transaction's read set again, to share with another leader.
    #[inline]
    pub(crate) fn commit(&self, core: &Core, work: Work<'_>, reads: Option<&Arc<ReadSet>>) -> Answer {
        if self.begin_lead() { self.lead(core, work) } else { self.queue_up(core, work, reads) }
    }

    /// Whether nobody led: now the caller does.
    #[inline]
    fn begin_lead(&self) -> bool {
        !self.led.swap(true, Ordering::Acquire)
    }

    /// Wait behind a leader; should it go meanwhile, lead.
    #[inline(never)]
    fn queue_up(&self, core: &Core, work: Work<'_>, reads: Option<&Arc<ReadSet>>) -> Answer {
        // A batch may be large: the copy is made while others may queue.
        let request = Arc::new(Request {
            work: work.to_owned(reads)?,
            answered: AtomicBool::new(false),
            outcome: Mutex::new(Outcome::Waiting),
            woken: Condvar::new(),
        });
        {
            let mut queue = self.queue.lock();
            if !self.begin_lead() {
                queue.push(Arc::clone(&request));
                self.waiting.store(queue.len(), Ordering::Relaxed);
                drop(queue);
                return self.follow(core, &request);
            }
        }
        self.lead(core, work)
    }

    /// Wait for the outcome, or for the lead.
    fn follow(&self, core: &Core, request: &Arc<Request>) -> Answer {
        request.watch();
        {
            let mut outcome = request.outcome.lock();
            while matches!(*outcome, Outcome::Waiting) {
                request.woken.wait(&mut outcome);
            }
            if let Outcome::Done(result) = std::mem::replace(&mut *outcome, Outcome::Waiting) {
                return result;
            }
        }
        self.lead(core, request.work.as_work())
    }

    /// Commit `own`, with whoever has queued by now, and then others: see [`Lane::lead_groups`].
    #[inline]
    fn lead(&self, core: &Core, own: Work<'_>) -> Answer {
        let mut turn = self.begin_group();
        // By reference: what was stored field by field a moment ago is slow to copy.
        let op = match &own {
            Work::One(op) if self.waiting.load(Ordering::Relaxed) == 0 => op,
            _ => return self.lead_groups(core, turn, Some(own)).unwrap_or_else(unanswered),
        };
        turn.followers = 0;
        let outcome = commit_contained(core, &mut turn, |turn| commit_lone(core, turn, op));
        let answer = outcome.map(|()| Committed { position: turn.position() });
        let events = std::mem::take(&mut turn.events);
        drop(turn);
        if !matches!(self.leave(true), Leaving::Free) {
            self.lead_groups(core, self.begin_group(), None);
        }
        for event in &events {
            core.emit(event);
        }
        answer
    }

    /// The turn, once as many have queued as can be hoped for.
    #[inline]
    fn begin_group(&self) -> MutexGuard<'_, Turn> {
        let turn = self.turn.lock();
        self.wait_for_followers(turn.followers);
        turn
    }

    /// Commit `own`, if there is any, and whoever has queued by now, then whoever has queued meanwhile, until nobody is
    /// left or enough was done for others. The answer to `own`.
    #[inline(never)]
    fn lead_groups<'a>(
        &'a self,
        core: &Core,
        mut turn: MutexGuard<'a, Turn>,
        mut own: Option<Work<'_>>,
    ) -> Option<Answer> {
        let mut answer = None;
        let mut events = Vec::new();
        let mut groups = 0;
        let next = loop {
            let followers = self.take_followers(own);
            turn.followers = followers.len();
            answer = answer.or(commit_and_wake(core, &mut turn, own.take(), &followers));
            events.append(&mut turn.events);
            drop(turn);
            groups += 1;
            match self.leave(groups < GROUPS_MAX) {
                Leaving::Stay => turn = self.begin_group(),
                Leaving::Free => break None,
                Leaving::To(next) => break Some(next),
            }
        };
        // Until that one runs nobody commits: hence the patience before.
        if let Some(next) = next {
            next.wake(Outcome::Lead);
        }
        for event in &events {
            core.emit(event);
        }
        answer
    }

    /// Wait until `hoped` have queued, but not for long.
    #[inline]
    fn wait_for_followers(&self, hoped: usize) {
        for _ in 0..PATIENCE {
            if self.waiting.load(Ordering::Relaxed) >= hoped {
                return;
            }
            std::hint::spin_loop();
        }
    }

    /// Those who go with `own`, or without it: at least one then.
    fn take_followers(&self, own: Option<Work<'_>>) -> Vec<Arc<Request>> {
        // Whoever queues now is found at the end: a lone batch need not ask for the lock twice.
        if self.waiting.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        let mut bytes = own.map_or(0, |own| own.bytes());
        let mut queue = self.queue.lock();
        let fits = queue
            .iter()
            .take_while(|request| {
                bytes += request.work.as_work().bytes();
                bytes <= GROUP_BYTES_MAX
            })
            .count();
        let least = usize::from(own.is_none()).min(queue.len());
        let followers = queue.drain(..fits.max(least)).collect();
        self.waiting.store(queue.len(), Ordering::Relaxed);
        followers
    }

    /// Whether the leader is done: nobody waits, or somebody does and `patient` is false.
    #[inline]
    fn leave(&self, patient: bool) -> Leaving {
        let mut queue = self.queue.lock();
        if queue.is_empty() {
            self.led.store(false, Ordering::Release);
            Leaving::Free
        } else if patient {
            Leaving::Stay
        } else {
            let next = queue.remove(0);
            self.waiting.store(queue.len(), Ordering::Relaxed);
            Leaving::To(next)
        }
    }
}

/// Where a commit went.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Committed {
    /// The end of its log record; `None` without a log.
    pub(crate) position: Option<LogPosition>,
}

/// Commit a group of `own`, if there is any, and `followers`, wake those, and return the answer to `own`.
fn commit_and_wake(
    core: &Core,
    turn: &mut Turn,
    own: Option<Work<'_>>,
    followers: &[Arc<Request>],
) -> Option<Answer> {
    let group: Vec<Work<'_>> = own.into_iter().chain(followers.iter().map(|f| f.work.as_work())).collect();
    let mut results: Vec<Option<Answer>> = group.iter().map(|_| None).collect();
    let outcome = commit_contained(core, turn, |turn| {
        commit_group(core, turn, &group, &mut results);
        Ok(())
    });
    if let Err(in_doubt) = outcome {
        results.fill_with(|| Some(Err(in_doubt.clone())));
    }
    let mut results = results.into_iter();
    let result = own.and_then(|_| results.next().flatten());
    for (follower, result) in followers.iter().zip(results) {
        follower.wake(Outcome::Done(result.unwrap_or_else(unanswered)));
    }
    result
}

fn unanswered() -> Answer {
    unreachable!("every commit of a group gets an outcome")
}

impl Request {
    /// Wait a while for the outcome, awake.
    fn watch(&self) {
        for _ in 0..YIELDS {
            for _ in 0..SPINS {
                if self.answered.load(Ordering::Acquire) {
                    return;
                }
                std::hint::spin_loop();
            }
            give_way();
        }
    }

    fn wake(&self, outcome: Outcome) {
        *self.outcome.lock() = outcome;
        self.answered.store(true, Ordering::Release);
        self.woken.notify_one();
    }
}

/// What `commit` says. A panic in it must not leave the lane led by nobody, and its followers waiting: what it was
/// committing is in doubt, and writes stop.
#[inline]
fn commit_contained<T>(
    core: &Core,
    turn: &mut Turn,
    commit: impl FnOnce(&mut Turn) -> Result<T, Box<Error>>,
) -> Result<T, Box<Error>> {
    contained(|| commit(turn)).unwrap_or_else(|message| {
        let cause = Error::CallbackPanicked { callback: "a call within a commit", message };
        turn.events.extend(core.stop_writes_quietly(&cause));
        Err(Box::new(Error::InDoubt { cause: Box::new(cause) }))
    })
}

/// Err if no commit is taken any more. A memtable that is full is sealed first; `range_deletes` are to come into it. Where
/// many rows were deleted lately, a walk over them is begun.
#[inline]
fn begin_commit(core: &Core, turn: &mut Turn, range_deletes: u64) -> Result<(), Box<Error>> {
    if turn.closing && !planted::is(Planted::CommitsWhileClosing) {
        return Err(Box::new(Error::Closed { why: CLOSING }));
    }
    core.health().check()?;
    core.rotate_if_full(turn, range_deletes)?;
    if turn.deletes.are_many() {
        core.sweep(turn);
    }
    Ok(())
}

/// Number, log, apply and publish a single operation, not a range delete, that has come alone. The insertion is begun
/// before the log is written: what it looks at comes nearer while the record is made, and the last of it while the
/// system writes.
#[inline(never)]
fn commit_lone(core: &Core, turn: &mut Turn, op: &Op<'_>) -> Result<(), Box<Error>> {
    begin_commit(core, turn, 0)?;
    let bytes = op.key.len() + op.value.len();
    make_room(turn.log.as_mut(), bytes).map_err(aborted)?;
    let number = turn.last_seqno.plus(1);
    prefetch_front(op.value, LONE_VALUE_LINES);
    let mut insertion = turn.memtable.expect(op.keyspace, op.key);
    if let Some(log) = &mut turn.log {
        log.stage_with(number.0, |out| op.encode(out));
    }
    insertion.expect_leaf();
    write_log(core, &mut turn.log, &mut turn.events)?;
    if op.kind == Kind::Delete {
        turn.deletes.note(op.keyspace, op.key);
    } else if core.dead_ranges.any() && !op.is_delete() {
        core.dead_ranges.put(op.keyspace, op.key);
    }
    if core.lane().is_checking(0) {
        turn.recent.note(*op, number);
    } else {
        turn.recent.forget();
    }
    match (op.kind == Kind::Merge).then(|| core.fold_early(insertion.memtable(), *op, number)).flatten() {
        Some(folded) => insertion.insert(number, Kind::Put, &folded),
        None => insertion.insert(number, op.kind, op.value),
    }
    turn.last_seqno = number;
    core.snapshots().publish(number);
    core.metrics().count_commit(1, bytes as u64);
    Ok(())
}

fn aborted(cause: Error) -> Error {
    Error::Aborted { cause: Box::new(cause) }
}

/// Number, log, apply and publish a group; `results` gets an outcome for each of `group`.
fn commit_group(core: &Core, turn: &mut Turn, group: &[Work<'_>], results: &mut [Option<Answer>]) {
    let range_deletes = group.iter().map(Work::range_deletes).sum();
    if let Err(error) = begin_commit(core, turn, range_deletes) {
        results.fill_with(|| Some(Err(error.clone())));
        return;
    }
    // Numbers and log records. A transaction is checked against everything published and against
    // the members of this group before it, which are not applied yet: those it meets in `earlier`.
    let mut next = turn.last_seqno.plus(1);
    let mut firsts = std::mem::take(&mut turn.firsts);
    firsts.clear();
    for (index, work) in group.iter().enumerate() {
        if let Work::Transaction(_, reads) = work {
            let earlier = group[..index].iter().zip(&firsts).filter(|(_, first)| first.is_some());
            let earlier = earlier.map(|(work, _)| work).filter(|_| !planted::is(Planted::UncheckedGroup));
            let outcome = reads.check_group(earlier).and_then(|()| reads.check_last(core, &turn.recent));
            if let Err(error) = outcome {
                results[index] = Some(Err(Box::new(error)));
                firsts.push(None);
                continue;
            }
        }
        if let Err(cause) = make_room(turn.log.as_mut(), work.bytes()) {
            results[index] = Some(Err(Box::new(aborted(cause))));
            firsts.push(None);
            continue;
        }
        if let Some(log) = &mut turn.log {
            stage(log, next, work);
        }
        firsts.push(Some(next));
        next = next.plus(work.ops());
    }
    if firsts.iter().all(Option::is_none) {
        return;
    }
    if let Err(error) = write_log(core, &mut turn.log, &mut turn.events) {
        for result in results.iter_mut().filter(|r| r.is_none()) {
            *result = Some(Err(error.clone()));
        }
        return;
    }
    let position = turn.position();
    let transactions = group.iter().filter(|work| matches!(work, Work::Transaction(..))).count();
    let checking = core.lane().is_checking(transactions);
    if !checking {
        turn.recent.forget();
    }
    // Published together below.
    turn.memtable.begin_group(turn.last_seqno.plus(1));
    let mut writes = turn.memtable.writes();
    for (index, (work, first)) in group.iter().zip(&firsts).enumerate() {
        let Some(first) = *first else { continue };
        let mut seqno = first;
        let watched = core.dead_ranges.any();
        work.for_each(|op| {
            if op.kind == Kind::Delete {
                turn.deletes.note(op.keyspace, op.key);
            } else if watched && !op.is_delete() {
                core.dead_ranges.put(op.keyspace, op.key);
            }
            if checking {
                turn.recent.note(op, seqno);
            }
            match (op.kind == Kind::Merge).then(|| core.fold_early(writes.settled(), op, seqno)).flatten() {
                Some(folded) => writes.insert(op.keyspace, op.key, seqno, Kind::Put, &folded),
                None => apply(&mut writes, op, seqno),
            }
            if planted::is(Planted::TornGroup) {
                writes.settled();
                core.snapshots().publish(seqno);
            }
            seqno = SeqNo(seqno.0 + 1);
        });
        core.metrics().count_commit(work.ops(), work.user_bytes());
        results[index] = Some(Ok(Committed { position }));
    }
    drop(writes);
    turn.last_seqno = SeqNo(next.0 - 1);
    core.snapshots().publish(turn.last_seqno);
    firsts.shrink_to(FIRSTS_KEPT_MAX);
    turn.firsts = firsts;
}

/// Err if there is no memory for a commit of `bytes` bytes, in the log's buffer or in the memtable: behind the log's write it
/// would be too late.
#[inline]
fn make_room(log: Option<&mut LogWriter>, bytes: usize) -> Result<()> {
    if bytes <= SMALL_BYTES { Ok(()) } else { make_much_room(log, bytes) }
}

#[cold]
fn make_much_room(log: Option<&mut LogWriter>, bytes: usize) -> Result<()> {
    if let Some(log) = log {
        // A single operation is encoded on the way.
        log.reserve(bytes.saturating_add(Op::HEADS_BYTES_MAX))?;
    }
    memory::probe(bytes, "a commit's part of the memtable")
}

fn stage(log: &mut LogWriter, first: SeqNo, work: &Work<'_>) {
    match work {
        Work::Batch(ops) if planted::is(Planted::TornRecord) && ops.count() > 1 => {
            let (head, tail) = ops.bytes().split_at(ops.first_bytes());
            log.stage(first.0, &[head]);
            log.stage(first.0 + 1, &[tail]);
        }
        Work::Batch(ops) | Work::Transaction(ops, _) => log.stage(first.0, &[ops.bytes()]),
        Work::One(op) => log.stage_with(first.0, |out| op.encode(out)),
    }
}

/// Write what is staged.
#[inline]
fn write_log(core: &Core, log: &mut Option<LogWriter>, events: &mut Vec<Event>) -> Result<(), Box<Error>> {
    let Some(log) = log else { return Ok(()) };
    if let Err(failure) = log.write() {
        if !matches!(failure, WriteFailure::Undone(_)) {
            events.extend(core.stop_writes_quietly(failure.error()));
        }
        return Err(Box::new(failure.into()));
    }
    if let Some(preparation) = log.preallocate_task() {
        core.jobs.prepare_log(preparation);
    }
    Ok(())
}

/// Put one operation into a memtable.
pub(crate) fn apply(memtable: &mut Writes<'_>, op: Op<'_>, seqno: SeqNo) {
    match op.kind {
        Kind::RangeDelete => memtable.delete_range(op.keyspace, op.key, op.value, seqno),
        kind => memtable.insert(op.keyspace, op.key, seqno, kind, op.value),
    }
}

impl Core {
    /// Commit `ops` with at least the database's durability.
    pub(crate) fn commit(
        &self,
        ops: &Ops,
        durability: Option<Durability>,
        cost: &mut OpCost,
    ) -> Result<()> {
        if ops.count() == 0 {
            return self.health().check();
        }
        self.commit_work(Work::Batch(ops), None, durability, cost)
    }

    /// Commit `work` and wait for its durability.
    pub(crate) fn commit_work(
        &self,
        work: Work<'_>,
        reads: Option<&Arc<ReadSet>>,
        durability: Option<Durability>,
        cost: &mut OpCost,
    ) -> Result<()> {
        let durability = self.effective_durability(durability)?;
        self.check_writable()?;
        if durability == Durability::Sync {
            // A sync takes a thousand times as long as this.
            self.check_process()?;
        }
        self.check_keyspaces(&work)?;
        self.admit(work.bytes() as u64)?;
        let checking = reads.map(|_| self.lane().begin_check());
        if let Some(reads) = reads {
            // What can be found to conflict, or not to, while nobody waits for the lane is left out there.
            reads.check(self)?;
        }
        let committed = self.lane().commit(self, work, reads).map_err(|error| *error)?;
        drop(checking);
        cost.calls += 1;
        cost.tombstones_written += work.deletes();
        cost.keys_written += work.ops() - work.deletes();
        cost.bytes_written += work.user_bytes();
        if durability == Durability::Sync
            && let Some(position) = committed.position
        {
            // The record is in the log and visible; if the sync fails its fate is open.
            self.wait_durable(position).map_err(|cause| Error::InDoubt { cause: Box::new(cause) })?;
        }
        self.breathe();
        Ok(())
    }

    /// Err if an operation goes to a keyspace that was dropped.
    #[inline]
    fn check_keyspaces(&self, work: &Work<'_>) -> Result<()> {
        if self.keyspace_dropped.load(Ordering::Acquire) { self.look_for_keyspaces(work) } else { Ok(()) }
    }

    #[cold]
    fn look_for_keyspaces(&self, work: &Work<'_>) -> Result<()> {
        let current = self.current.load();
        let mut gone = None;
        work.for_each(|op| {
            if current.version.keyspace(op.keyspace).is_none() {
                gone = Some(op.keyspace);
            }
        });
        match gone {
            None => Ok(()),
            Some(id) => Err(Error::KeyspaceDropped { id }),
        }
    }

    fn effective_durability(&self, asked: Option<Durability>) -> Result<Durability> {
        let own = self.options().durability;
        let Some(asked) = asked else { return Ok(own) };
        let quicker = match (asked, own) {
            (Durability::Interval(asked), Durability::Interval(own)) => asked < own,
            _ => false,
        };
        if asked.strength() <= own.strength() && !quicker {
            return Ok(own);
        }
        if own == Durability::NoLog {
            return Err(Error::invalid(
                "a NoLog database has no log to make a batch durable with; call persist() after the commit",
            ));
        }
        // The timer of an interval is the database's: where it has none, or a slower one, a sync now keeps
        // what the interval promises.
        Ok(Durability::Sync)
    }
}
