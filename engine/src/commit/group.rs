//! One group of commits: numbered, written to the log, applied to the memtable and published, by its leader.

use std::ops::RangeInclusive;
use std::sync::Arc;

use esker_base::event::Event;
use esker_base::memory::{self, SMALL_BYTES};
use esker_base::planted::{self, Planted};
use esker_base::{Error, FileNumber, Kind, Result, SeqNo};
use esker_vfs::os::memory::prefetch_front;
use esker_wal::{LogWriter, WriteFailure};

use super::queue::{Outcome, Writer};
use super::{Answer, Work};
use crate::batch::Op;
use crate::core::Core;
use crate::deletes::DeleteTracker;
use crate::group_sync::LogPosition;
use crate::health::closed;
use crate::memtable::{Memtable, MemtableWriter, Writes};
use crate::operators::contained;
use crate::recent_writes::RecentWrites;

/// The largest capacity that [`CommitState::first_seqnos`] keeps: more commits than a group mostly has.
const FIRST_SEQNOS_KEPT_MAX: usize = 64;

/// Cache lines of a lone put's value that are prefetched; the processor's own prefetcher brings the rest once it is read.
const LONE_VALUE_LINES: usize = 4;

/// Lengths, in bytes, of batches that the log writes straight from the batch's own memory. A shorter batch is copied into
/// the log's buffer, because a second call of the system would take longer than the copy; a longer one too, because the log
/// may have to divide it into fragments.
const LENT_BYTES: RangeInclusive<usize> = 32 << 10..=8 << 20;

/// What the commit lock guards: only the leader, and whoever rotates or closes, touches it.
pub(crate) struct CommitState {
    /// `None` without a log.
    pub(crate) log: Option<LogWriter>,
    pub(crate) log_number: FileNumber,
    pub(crate) memtable: MemtableWriter,
    pub(crate) last_seqno: SeqNo,
    /// How many writers had queued for the last group.
    pub(crate) followers: usize,
    /// The first sequence number of each commit of a group, kept from group to group for its allocation.
    pub(crate) first_seqnos: Vec<Option<SeqNo>>,
    /// The rows that were deleted one by one lately.
    pub(crate) deletes: DeleteTracker,
    /// What was committed while transactions are checked.
    pub(crate) recent: RecentWrites,
    /// The database is being closed: no more commits.
    pub(crate) closing: bool,
    /// For the listeners, once the commit lock is released: they may call back.
    pub(crate) events: Vec<Event>,
}

impl CommitState {
    /// Where the log ends; none without a log.
    #[inline]
    pub(crate) fn position(&self) -> Option<LogPosition> {
        self.log.as_ref().map(|log| LogPosition { log: self.log_number, offset: log.written() })
    }
}

/// Commit a group of `own`, if there is any, and `followers`, wake the followers, and return the answer to `own`.
pub(super) fn commit_and_wake(
    core: &Core,
    state: &mut CommitState,
    own: Option<Work<'_>>,
    followers: &[Arc<Writer>],
) -> Option<Answer> {
    let group: Vec<Work<'_>> = own.into_iter().chain(followers.iter().map(|f| f.work.as_work())).collect();
    let mut results: Vec<Option<Answer>> = group.iter().map(|_| None).collect();
    let outcome = commit_contained(core, state, |state| {
        commit_group(core, state, &group, &mut results);
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

pub(super) fn unanswered() -> Answer {
    unreachable!("every commit of a group gets an outcome")
}

/// The outcome of `commit`. A panic in it must not leave the queue without a leader and the followers waiting: what it was
/// committing is in doubt, and writes stop.
#[inline]
pub(super) fn commit_contained<T>(
    core: &Core,
    state: &mut CommitState,
    commit: impl FnOnce(&mut CommitState) -> Result<T, Box<Error>>,
) -> Result<T, Box<Error>> {
    contained(|| commit(state)).unwrap_or_else(|message| {
        let cause = Error::CallbackPanicked { callback: "a call within a commit", message };
        state.events.extend(core.stop_writes_quietly(&cause));
        Err(Box::new(Error::InDoubt { cause: Box::new(cause) }))
    })
}

/// Err if no commit is taken any more. Seals the memtable if it is full, or would be with `range_deletes` more. Starts the
/// sweep of rows that were deleted lately, if they are many.
#[inline]
fn begin_commit(core: &Core, state: &mut CommitState, range_deletes: u64) -> Result<(), Box<Error>> {
    if state.closing && !planted::is(Planted::CommitsWhileClosing) {
        return Err(Box::new(closed()));
    }
    core.health.check()?;
    core.rotate_if_full(state, range_deletes)?;
    if state.deletes.are_many() {
        core.sweep(state);
    }
    Ok(())
}

/// Number, log, apply and publish a single operation (no range delete) that has come alone. The search path of its insertion
/// is prefetched while the log record is made, and the leaf while the system writes it.
#[inline(never)]
pub(super) fn commit_lone(core: &Core, state: &mut CommitState, op: &Op<'_>) -> Result<(), Box<Error>> {
    begin_commit(core, state, 0)?;
    core.check_keyspaces(&Work::One(*op))?;
    let bytes = op.user_bytes();
    reserve_memory(state.log.as_mut(), bytes).map_err(aborted)?;
    let seqno = state.last_seqno.plus(1);
    prefetch_front(op.value, LONE_VALUE_LINES);
    let mut insertion = state.memtable.begin_insert(op.keyspace, op.key);
    if let Some(log) = &mut state.log {
        log.stage_with(seqno.0, |out| op.encode(out));
    }
    insertion.prefetch_leaf();
    write_log(core, &mut state.log, &mut state.events, LogWriter::write)?;
    let recent = state.recent.begin_group(core.commits.is_checking(0));
    note(core, &mut state.deletes, recent, op, seqno);
    match folded(core, op, seqno, || insertion.memtable()) {
        Some(folded) => insertion.insert(seqno, Kind::Put, &folded),
        None => insertion.insert(seqno, op.kind, op.value),
    }
    state.last_seqno = seqno;
    core.snapshots.publish(seqno);
    core.metrics.count_commit(1, bytes as u64);
    Ok(())
}

fn aborted(cause: Error) -> Error {
    Error::Aborted { cause: Box::new(cause) }
}

/// Tell those who watch writes of `op`, which is in the log and not published yet: who counts deletes, who knows of dead ranges,
/// and, while a transaction is being checked, what was written lately. A call of it takes every write some twenty instructions.
#[inline(always)]
fn note(
    core: &Core,
    deletes: &mut DeleteTracker,
    recent: Option<&mut RecentWrites>,
    op: &Op<'_>,
    seqno: SeqNo,
) {
    if op.kind == Kind::Delete {
        deletes.note(op.keyspace, op.key);
    } else if core.dead_ranges.any() && !op.is_delete() {
        core.dead_ranges.put(op.keyspace, op.key);
    }
    if let Some(recent) = recent {
        recent.note(*op, seqno);
    }
}

/// The value to put in place of `op`, if that is a merge whose base is at hand: see [`Core::fold_early`].
#[inline(always)]
fn folded<'m>(
    core: &Core,
    op: &Op<'_>,
    seqno: SeqNo,
    memtable: impl FnOnce() -> &'m Memtable,
) -> Option<Vec<u8>> {
    if op.kind == Kind::Merge { core.fold_early(memtable(), *op, seqno) } else { None }
}

/// What of a group the log takes.
struct Numbered<'a> {
    /// The first sequence number of each commit; `None` for one that was refused.
    first_seqnos: Vec<Option<SeqNo>>,
    /// The number after the last that was given.
    next: SeqNo,
    /// Number and operations of the last commit, if the log is to write them from where they lie.
    lent: Option<(SeqNo, &'a [u8])>,
}

/// Number, log, apply and publish a group; `results` gets an outcome for each of `group`.
fn commit_group(core: &Core, state: &mut CommitState, group: &[Work<'_>], results: &mut [Option<Answer>]) {
    let range_deletes = group.iter().map(Work::range_deletes).sum();
    if let Err(error) = begin_commit(core, state, range_deletes) {
        results.fill_with(|| Some(Err(error.clone())));
        return;
    }
    let numbered = number_and_stage(core, state, group, results);
    if numbered.first_seqnos.iter().any(Option::is_some) {
        let written = write_log(core, &mut state.log, &mut state.events, |log| match numbered.lent {
            Some((seqno, operations)) => log.write_lending(seqno.0, operations),
            None => log.write(),
        });
        match written {
            Ok(()) => apply_group(core, state, group, &numbered, results),
            Err(error) => {
                for result in results.iter_mut().filter(|result| result.is_none()) {
                    *result = Some(Err(error.clone()));
                }
            }
        }
    }
    state.first_seqnos = numbered.first_seqnos;
    state.first_seqnos.shrink_to(FIRST_SEQNOS_KEPT_MAX);
}

/// Give each of `group` its sequence numbers, and the log their records, but for one that it is to write from where it lies.
/// Those that are refused get their outcome in `results`.
///
/// A transaction is checked against everything published, and against the members of this group before it (`earlier`), which
/// are not applied yet.
fn number_and_stage<'a>(
    core: &Core,
    state: &mut CommitState,
    group: &[Work<'a>],
    results: &mut [Option<Answer>],
) -> Numbered<'a> {
    let mut next = state.last_seqno.plus(1);
    let mut first_seqnos = std::mem::take(&mut state.first_seqnos);
    first_seqnos.clear();
    let mut lent = None;
    for (index, work) in group.iter().enumerate() {
        let outcome = core.check_keyspaces(work).and_then(|()| match work {
            Work::One(_) | Work::Batch(_) => Ok(()),
            Work::Transaction(_, reads) => {
                let earlier = group[..index].iter().zip(&first_seqnos).filter(|(_, first)| first.is_some());
                let earlier =
                    earlier.map(|(work, _)| work).filter(|_| !planted::is(Planted::UncheckedGroup));
                reads.check_group(earlier).and_then(|()| reads.check_last(core, &state.recent))
            }
        });
        if let Err(error) = outcome {
            results[index] = Some(Err(Box::new(error)));
            first_seqnos.push(None);
            continue;
        }
        let operations = if index + 1 == group.len() { to_lend(work) } else { None };
        let log = state.log.as_mut().filter(|_| operations.is_none());
        if let Err(cause) = reserve_memory(log, work.bytes()) {
            results[index] = Some(Err(Box::new(aborted(cause))));
            first_seqnos.push(None);
            continue;
        }
        match (operations, &mut state.log) {
            (Some(operations), _) => lent = Some((next, operations)),
            (None, Some(log)) => stage(log, next, work),
            (None, None) => {}
        }
        first_seqnos.push(Some(next));
        next = next.plus(work.ops());
    }
    Numbered { first_seqnos, next, lent }
}

/// Apply and publish a group, which is in the log.
fn apply_group(
    core: &Core,
    state: &mut CommitState,
    group: &[Work<'_>],
    numbered: &Numbered<'_>,
    results: &mut [Option<Answer>],
) {
    let position = state.position();
    let transactions = group.iter().filter(|work| matches!(work, Work::Transaction(..))).count();
    let mut recent = state.recent.begin_group(core.commits.is_checking(transactions));
    // Readers see none of it before the last number is published below.
    state.memtable.begin_group(state.last_seqno.plus(1));
    let mut writes = state.memtable.writes();
    for (index, (work, first)) in group.iter().zip(&numbered.first_seqnos).enumerate() {
        let Some(mut seqno) = *first else { continue };
        work.for_each(|op| {
            note(core, &mut state.deletes, recent.as_deref_mut(), &op, seqno);
            match folded(core, &op, seqno, || writes.settled()) {
                Some(folded) => writes.insert(op.keyspace, op.key, seqno, Kind::Put, &folded),
                None => apply(&mut writes, op, seqno),
            }
            if planted::is(Planted::TornGroup) {
                writes.settled();
                core.snapshots.publish(seqno);
            }
            seqno = SeqNo(seqno.0 + 1);
        });
        core.metrics.count_commit(work.ops(), work.user_bytes());
        results[index] = Some(Ok(position));
    }
    drop(writes);
    state.last_seqno = SeqNo(numbered.next.0 - 1);
    core.snapshots.publish(state.last_seqno);
}

/// Err if there is no memory for a commit of `bytes` bytes, in the log's buffer or in the memtable: after the log record is
/// written a commit must not fail.
#[inline]
fn reserve_memory(log: Option<&mut LogWriter>, bytes: usize) -> Result<()> {
    if bytes <= SMALL_BYTES { Ok(()) } else { reserve_much_memory(log, bytes) }
}

#[cold]
fn reserve_much_memory(log: Option<&mut LogWriter>, bytes: usize) -> Result<()> {
    if let Some(log) = log {
        // A single operation is encoded into the buffer: its head comes on top.
        log.reserve(bytes.saturating_add(Op::HEADS_BYTES_MAX))?;
    }
    memory::probe(bytes, "a commit's part of the memtable")
}

/// The operations of `work`, if the log is to write them from where they lie.
fn to_lend<'a>(work: &Work<'a>) -> Option<&'a [u8]> {
    match work {
        Work::Batch(ops) | Work::Transaction(ops, _) => Some(ops.bytes())
            .filter(|bytes| LENT_BYTES.contains(&bytes.len()) && !planted::is(Planted::TornRecord)),
        Work::One(_) => None,
    }
}

/// Encode the log record of `work`, whose operations are numbered from `first` on.
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

/// Have `write` write the group's records to the log. A failure that may have left something in it stops writes.
#[inline]
fn write_log(
    core: &Core,
    log: &mut Option<LogWriter>,
    events: &mut Vec<Event>,
    write: impl FnOnce(&mut LogWriter) -> Result<u64, WriteFailure>,
) -> Result<(), Box<Error>> {
    let Some(log) = log else { return Ok(()) };
    if let Err(failure) = write(log) {
        if !matches!(failure, WriteFailure::Undone(_)) {
            events.extend(core.stop_writes_quietly(failure.error()));
        }
        return Err(Box::new(failure.into()));
    }
    if let Some(task) = log.preallocate_task() {
        core.jobs.preallocate_log(task);
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
