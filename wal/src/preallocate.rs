//! Preallocation at the end of a log: space of its file is reserved ahead of the writer and, where that pays, mapped to memory
//! too, so that a group is copied into the mapping instead of going through `write(2)`.
//!
//! A log takes space up to what its owner expects it to need, but one *extent* at a time, so that a log
//! with little in it is short on the disk too. A [`PreallocateTask`] makes the next extent ready on another
//! thread, because reserving and mapping may wait for the filesystem's journal. Where extents are only
//! reserved, the next one is reserved when less than half an extent is left ahead of the writer. Where they
//! are mapped, and their pages faulted in, work on the next one begins when the writer comes to an extent.
//!
//! An extent is cleared, by writes of zeros, before it is mapped; it reads as before. For a long write the
//! system allocates memory for many pages at a time, and faulting these in takes a sixth of the time of
//! faulting in pages one by one. The writer's own `write(2)` calls may go to the part that is being
//! cleared; so the writer notes under a lock how far its calls go, and the task clears each piece under
//! that lock.
//!
//! Mapping does not always pay. Where a log is synced before an extent is full, the sync writes the mapped
//! pages that are not used yet too, and then each of these has to be made writable anew. Large groups are
//! faster by `write(2)`, in which the system faults in many pages at a time. So an extent is only reserved,
//! not mapped, if a sync came during the one before, or if groups had more than 16 KiB on the average.
//!
//! Invariants:
//! 1. The writer itself never reserves, maps, faults in or unmaps while its log is in use. A group for which no space is reserved
//!    makes the file longer by its `write(2)`; in a mapped log a group that does not fit into what is left of its extent, or
//!    comes before the next is ready, goes by `write(2)`. Both ways reach the same pages of the system's cache, so a reader or
//!    a sync cannot tell them apart.
//! 2. At most one task that maps is under way.
//! 3. What is mapped was reserved, and none of it is used after a failed write, whose undoing may have cut the file.
//! 4. What a `write(2)` of the writer has written, or may be writing, is not cleared. A `write(2)` that
//!    comes while a piece is cleared waits for the end of that one write, as it would in the system, where
//!    writes to one file take turns.

use std::ops::Range;
// A file comes by std's `Arc`, as `esker_vfs` hands it out; under loom the `Arc` of `esker_base::sync` is loom's.
use std::sync::Arc as StdArc;

use esker_base::sync::{Arc, Mutex};
use esker_vfs::fs::{File, MappedRange, RangeWrites};

use crate::writer::ZEROS;

/// The longest extent, in bytes: some 28,000 small records. Where one MiB was reserved at a time, random fills took 2 %
/// longer.
const EXTENT_BYTES_MAX: u64 = 4 << 20;
/// The length of the first extent that is mapped, in bytes: nothing is mapped when a log begins, and groups
/// go by `write(2)` until this one is. Each extent is twice as long as the one before.
const MAPPED_BYTES_MIN: u64 = 256 << 10;
/// The length of the longest extent that is mapped, in bytes: some 14,000 small records, or 14 ms of a busy
/// writer, in which the next one has to become ready. Two are mapped at a time.
const MAPPED_BYTES_MAX: u64 = 2 << 20;
/// An extent is cleared in pieces of this many bytes.
const CLEAR_BYTES: u64 = ZEROS.len() as u64;
/// Groups of this many bytes take about as much of the processors either way: 7 to 8 µs by `write(2)`, 2 µs into memory that
/// took 4 µs to fault in.
const GROUP_BYTES_MAX: u64 = 16 << 10;
/// A small log has this many extents, so that it meets every way of going from one to the next.
const EXTENTS: u64 = 8;

/// How much of a log that is expected to be `expected_bytes` long is reserved at a time, in bytes: not 0.
///
/// ```
/// assert_eq!(esker_wal::preallocate::extent_bytes(64 << 20), 4 << 20);
/// assert_eq!(esker_wal::preallocate::extent_bytes(64 << 10), 8 << 10);
/// ```
pub fn extent_bytes(expected_bytes: u64) -> u64 {
    (expected_bytes / EXTENTS).clamp(1, EXTENT_BYTES_MAX)
}

/// Which part of a log is mapped, and how it is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// How.
    pub writes: RangeWrites,
    /// Where it ends, in bytes: where the log is expected to end. What is mapped beyond the log's end was faulted in for
    /// nothing, and may even be written to the device.
    pub end: u64,
}

/// A mapped extent of the log, and where it lies in the file.
struct MappedExtent {
    memory: Box<dyn MappedRange>,
    range: Range<u64>,
}

/// The writer's side: which extent is in use, and what is to be made ready next. See the module.
pub(crate) struct Preallocator {
    /// Which extents are mapped, and how. `None`: all are reserved only, because the log is not to be mapped or the system
    /// refused to.
    mapped: Option<Mapped>,
    /// Whether the last one was reserved only.
    only_reserved: bool,
    /// The ends of what was known to be durable and of what was written, in bytes, when the last task was made.
    durable: u64,
    written: u64,
    /// Groups written since then, and before.
    groups: u64,
    groups_before: u64,
    current: Option<MappedExtent>,
    next: Next,
    handover: Arc<Mutex<Handover>>,
    /// The end, in bytes, of what is reserved, or will be by a task that was made.
    reserved: u64,
    /// The same of what is mapped.
    mapped_to: u64,
    /// The length of the next extent that is mapped, at most.
    mapped_len: u64,
    /// The most that is reserved of the log.
    expected_bytes: u64,
    /// The length of an extent that is reserved only.
    len: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    /// No task for it was made yet.
    Wanted,
    /// A task that maps it is under way.
    UnderWay,
    /// There will be none: all that the log is expected to need is ready.
    Never,
}

/// What the writer and a task leave for each other.
#[derive(Default)]
struct Handover {
    answer: Option<Answer>,
    /// Extents that were written to their ends. The next task unmaps them, so that no writer has to.
    spent: Vec<MappedExtent>,
    /// The bytes before this offset may have been written by `write(2)`: they are not to be cleared.
    written_by_calls: u64,
}

enum Answer {
    Ready(MappedExtent),
    Refused,
}

/// Makes the next extent of a log ready; to be run on a thread that no writer waits for.
pub struct PreallocateTask {
    file: StdArc<dyn File>,
    range: Range<u64>,
    /// `None`: it is reserved only.
    mapped: Option<(RangeWrites, Arc<Mutex<Handover>>)>,
}

impl Preallocator {
    /// For a log whose first `reserved` bytes are reserved, and of which `expected_bytes` bytes are to be reserved at most.
    pub(crate) fn new(reserved: u64, expected_bytes: u64, mapped: Option<Mapped>) -> Preallocator {
        Preallocator {
            mapped,
            only_reserved: mapped.is_none(),
            durable: 0,
            written: 0,
            groups: 0,
            groups_before: 0,
            current: None,
            next: Next::Wanted,
            handover: Arc::new(Mutex::new(Handover::default())),
            reserved,
            mapped_to: 0,
            mapped_len: MAPPED_BYTES_MIN,
            expected_bytes,
            len: extent_bytes(expected_bytes),
        }
    }

    /// The mapping that covers `group`, the range of the file that is written next, if there is one.
    #[inline]
    pub(crate) fn holding(&mut self, group: &Range<u64>) -> Option<&mut (dyn MappedRange + 'static)> {
        self.mapped?;
        if !self.holds(group) {
            self.advance(group.end);
            if !self.holds(group) {
                return None;
            }
        }
        self.current.as_mut().map(|extent| &mut *extent.memory)
    }

    #[inline]
    fn holds(&self, group: &Range<u64>) -> bool {
        let holds = |range: &Range<u64>| range.start <= group.start && group.end <= range.end;
        self.current.as_ref().is_some_and(|extent| holds(&extent.range))
    }

    /// The current extent cannot take a group that ends at `end`: go on to the next, if it is ready. If that cannot
    /// either, the group will go by `write(2)`.
    #[cold]
    fn advance(&mut self, end: u64) {
        let mut handover = self.handover.lock();
        handover.written_by_calls = end;
        handover.spent.extend(self.current.take());
        match handover.answer.take() {
            None => {}
            Some(Answer::Refused) => {
                (self.mapped, self.only_reserved) = (None, true);
                self.next = Next::Wanted;
            }
            Some(Answer::Ready(extent)) => {
                self.next = Next::Wanted;
                // Groups that went by `write(2)` may have gone past it.
                if extent.range.end > end {
                    self.current = Some(extent);
                } else {
                    handover.spent.push(extent);
                }
            }
        }
    }

    /// Called after each group. Returns the task that makes the next extent ready: the one behind the
    /// current extent, or behind `written` if there is none. `None` while that is not needed yet, while
    /// such a task is under way, and where all is ready. `durable` is the end of what is known to be
    /// durable.
    #[inline]
    pub(crate) fn task(
        &mut self,
        file: &StdArc<dyn File>,
        written: u64,
        durable: u64,
    ) -> Option<PreallocateTask> {
        self.groups += 1;
        let enough = self.only_reserved && written.saturating_add(self.len / 2) <= self.reserved;
        if self.next != Next::Wanted || enough {
            return None;
        }
        let to_map = self.current.as_ref().map_or(written, |extent| extent.range.end);
        let pays = durable == self.durable
            && (written - self.written) <= self.groups.saturating_mul(GROUP_BYTES_MAX);
        let mapped = self.mapped.filter(|mapped| pays && to_map < mapped.end);
        let (start, len, end) = match mapped {
            Some(mapped) => (to_map, self.len.min(self.mapped_len), mapped.end.min(self.expected_bytes)),
            None => (self.reserved.max(written), self.len, self.expected_bytes),
        };
        let range = start..start.saturating_add(len).min(end);
        if range.is_empty() {
            self.next = Next::Never;
            return None;
        }
        self.groups_before += self.groups;
        (self.durable, self.written, self.groups) = (durable, written, 0);
        self.only_reserved = mapped.is_none();
        self.reserved = self.reserved.max(range.end);
        if mapped.is_some() {
            self.next = Next::UnderWay;
            self.mapped_to = range.end;
            self.mapped_len = (2 * self.mapped_len).min(MAPPED_BYTES_MAX);
        }
        let mapped = mapped.map(|mapped| (mapped.writes, Arc::clone(&self.handover)));
        Some(PreallocateTask { file: StdArc::clone(file), range, mapped })
    }

    /// Whether groups go by `write(2)` in a log that ends at `written`, by the average over the whole log
    /// and not only over its last extent.
    pub(crate) fn goes_by_calls(&self, written: u64) -> bool {
        let groups = self.groups_before + self.groups;
        self.mapped.is_none() || written > groups.saturating_mul(GROUP_BYTES_MAX)
    }

    /// Where the file of a log that is written rarely may be cut off: one extent after `written`, or where what is mapped ends if
    /// that is later.
    pub(crate) fn end_at_rest(&self, written: u64) -> u64 {
        written.saturating_add(self.len).max(self.mapped_to)
    }

    /// The file is being cut off at `end`, which [`end_at_rest`](Self::end_at_rest) returned.
    pub(crate) fn cut(&mut self, end: u64) {
        self.reserved = self.reserved.min(end);
    }
}

impl PreallocateTask {
    /// Make the extent ready: about as much work as a few hundred writes, and now and then a wait for the
    /// filesystem.
    pub fn run(self) {
        let PreallocateTask { file, range, mapped } = self;
        if let Some((_, handover)) = &mapped {
            // They are unmapped only when the lock, which the writer takes, is free again.
            let spent = std::mem::take(&mut handover.lock().spent);
            drop(spent);
        }
        // Should the disk be full, a write will say so.
        let reserved = file.reserve(range.end).unwrap_or(false);
        let Some((writes, handover)) = mapped else { return };
        let ready = reserved && clear(&*file, &range, &handover);
        let len = usize::try_from(range.end - range.start).ok().filter(|_| ready);
        let memory = len.and_then(|len| file.map_range(range.start, len, writes));
        let answer = memory.map_or(Answer::Refused, |memory| Answer::Ready(MappedExtent { memory, range }));
        handover.lock().answer = Some(answer);
    }
}

/// Write zeros to `range`, but not to what the writer's `write(2)` calls have reached; whether that went well.
fn clear(file: &dyn File, range: &Range<u64>, handover: &Mutex<Handover>) -> bool {
    let mut at = range.start;
    loop {
        // Held while the piece is written: see invariant 4.
        let handover = handover.lock();
        at = at.max(handover.written_by_calls);
        if at >= range.end {
            return true;
        }
        // Pieces end at multiples of their length, as the large folios of the system's page cache do.
        let end = (at - at % CLEAR_BYTES).saturating_add(CLEAR_BYTES).min(range.end);
        let zeros = usize::try_from(end - at).ok().and_then(|len| ZEROS.get(..len)).unwrap_or_default();
        if file.write_at(zeros, at).is_err() {
            return false;
        }
        at = end;
    }
}

impl Drop for Preallocator {
    /// From here on the writer does not note how far it writes: nothing more may be cleared.
    fn drop(&mut self) {
        self.handover.lock().written_by_calls = u64::MAX;
    }
}
