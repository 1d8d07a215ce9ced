//! What a log has ready for the writes to come: space of its file and, where the log is written through memory, that.
//!
//! A log may take as much room as its owner expects it to, but takes it in stretches, so that one with little in it is
//! short on the disk too. A [`Preparation`] makes the next stretch ready on some other thread, because that may wait for
//! the filesystem's journal. With less than half a stretch ahead of the writer, the next one is reserved. In a mapped log it
//! is mapped and its pages brought in as well, and groups are copied into the current one.
//!
//! Zeros are written to a stretch before it is mapped, which changes no byte of it. A long write has the system take memory
//! for many pages at a time, and these are brought in for a sixth of what they take when each comes by itself. The writer's
//! calls go where it is in the file, whether that is being cleared or not; so both say under a lock what they are at.
//!
//! Memory does not always pay. Where a log is synced again before it has come a stretch further, each sync writes the pages
//! that lie ready too, and then each has to be made writable anew. Large groups go faster by calls, which have the
//! system bring in many pages at a time. So a stretch that follows a sync, or groups of more than 16 KiB on
//! the average, is reserved only.
//!
//! Invariants:
//! 1. Until its log ends the writer never reserves, maps, brings in or unmaps: a group that comes before space is ready
//!    makes the file longer by its call; in a mapped log one that does not fit into what is left of its stretch, or
//!    comes before the next is ready, goes by a call. Both ways reach the same pages of the system's cache, so a reader or
//!    a sync cannot tell them apart.
//! 2. At most one preparation that maps is under way.
//! 3. What is mapped was reserved, and none of it is used after a failed write, whose undoing may have cut the file.
//! 4. What a call has written, or may be writing, is not cleared. A call that comes while a piece is cleared waits
//!    for the end of that one write, as it would in the system, where writes to one file take turns.

use std::ops::Range;
use std::sync::Arc as StdArc;

use esker_base::sync::{Arc, Mutex};
use esker_vfs::fs::{File, MappedRange, RangeWrites};

use crate::writer::ZEROS;

/// The longest stretch, in bytes: some 28,000 small records. Where one MiB was reserved at a time, random fills took 2 %
/// longer.
const STRETCH_BYTES_MAX: u64 = 4 << 20;
/// The first that is mapped, in bytes: nothing is ready when a log begins, and groups go by calls until this is. Each is twice
/// as long as the one before.
const MAPPED_BYTES_MIN: u64 = 256 << 10;
/// The longest that is mapped, in bytes: some 14,000 small records, 14 ms of a busy writer, before whose end the next has
/// to be ready. Two are mapped at a time.
const MAPPED_BYTES_MAX: u64 = 2 << 20;
/// A stretch is cleared in pieces of this many bytes.
const CLEAR_BYTES: u64 = ZEROS.len() as u64;
/// Groups of this many bytes take about as much of the processors either way: 7 to 8 µs by `write(2)`, 2 µs into memory that
/// took 4 µs to bring in.
const GROUP_BYTES_MAX: u64 = 16 << 10;
/// A small log has as many stretches as this, so that it meets every way of going from one to the next.
const STRETCHES: u64 = 8;

/// How much of a log with `room` bytes of room is reserved at a time, in bytes: not 0.
///
/// ```
/// assert_eq!(esker_wal::stretch::stretch_bytes(64 << 20), 4 << 20);
/// assert_eq!(esker_wal::stretch::stretch_bytes(64 << 10), 8 << 10);
/// ```
pub fn stretch_bytes(room: u64) -> u64 {
    (room / STRETCHES).clamp(1, STRETCH_BYTES_MAX)
}

/// Which part of a log is written to memory, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// How.
    pub writes: RangeWrites,
    /// Where it ends, in bytes: where the log is expected to end. What lies ready beyond its end was brought in for
    /// nothing, and may even be written to the device.
    pub end: u64,
}

/// A mapped part of the log, and where it lies.
struct Stretch {
    memory: Box<dyn MappedRange>,
    range: Range<u64>,
}

/// The writer's side. See the module.
pub(crate) struct Stretches {
    /// Which are mapped, and how. `None`: all are reserved only, because nobody wants it otherwise or the system has no
    /// such memory.
    mapped: Option<Mapped>,
    /// Whether the last one was reserved only.
    only_reserved: bool,
    /// What was known to be durable, and what was written, when the last one was asked for.
    durable: u64,
    written: u64,
    /// Groups since then, and before.
    groups: u64,
    groups_before: u64,
    current: Option<Stretch>,
    next: Next,
    handover: Arc<Mutex<Handover>>,
    /// The end of what is reserved, or was asked to be.
    reserved: u64,
    /// The end of what is mapped, or was asked to be.
    mapped_to: u64,
    /// How much is mapped next, at most.
    mapped_len: u64,
    /// The most that is reserved.
    room: u64,
    /// The length of a stretch that is reserved only.
    len: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    /// Nobody was asked for it.
    Wanted,
    /// A preparation that maps is under way.
    Asked,
    /// There will be none: the room ends.
    Never,
}

/// What the writer and a preparation leave for each other.
#[derive(Default)]
struct Handover {
    answer: Option<Answer>,
    /// Written to their ends. The next preparation unmaps them, so that no writer has to.
    spent: Vec<Stretch>,
    /// What lies before this, in bytes, may have been written by calls.
    called: u64,
}

enum Answer {
    Ready(Stretch),
    Refused,
}

/// The next stretch of a log, to be made ready on a thread that nobody waits for.
pub struct Preparation {
    file: StdArc<dyn File>,
    range: Range<u64>,
    /// `None`: it is reserved, and that is all.
    mapped: Option<(RangeWrites, Arc<Mutex<Handover>>)>,
}

impl Stretches {
    /// Of a log whose first `reserved` bytes are reserved, and that is to have `room` bytes at most.
    pub(crate) fn new(reserved: u64, room: u64, mapped: Option<Mapped>) -> Stretches {
        Stretches {
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
            room,
            len: stretch_bytes(room),
        }
    }

    /// The memory that holds `group`, where the writer is now, if it is ready.
    #[inline]
    pub(crate) fn holding(&mut self, group: &Range<u64>) -> Option<&mut (dyn MappedRange + 'static)> {
        self.mapped?;
        if !self.holds(group) {
            self.advance(group.end);
            if !self.holds(group) {
                return None;
            }
        }
        self.current.as_mut().map(|stretch| &mut *stretch.memory)
    }

    #[inline]
    fn holds(&self, group: &Range<u64>) -> bool {
        let holds = |range: &Range<u64>| range.start <= group.start && group.end <= range.end;
        self.current.as_ref().is_some_and(|stretch| holds(&stretch.range))
    }

    /// The current stretch cannot take a group that ends at `end`: go on to the next, if it is ready. If that cannot
    /// either, the group will go by a call.
    #[cold]
    fn advance(&mut self, end: u64) {
        let mut handover = self.handover.lock();
        handover.called = end;
        handover.spent.extend(self.current.take());
        match handover.answer.take() {
            None => {}
            Some(Answer::Refused) => {
                (self.mapped, self.only_reserved) = (None, true);
                self.next = Next::Wanted;
            }
            Some(Answer::Ready(stretch)) => {
                self.next = Next::Wanted;
                // Calls may have overtaken it.
                if stretch.range.end > end {
                    self.current = Some(stretch);
                } else {
                    handover.spent.push(stretch);
                }
            }
        }
    }

    /// Called after each group: the preparation of what comes after the current stretch, or else after `written`. `None`
    /// while it is not needed yet, while one is under way, and where there is nothing to prepare. What lies before
    /// `durable` is known to be that.
    #[inline]
    pub(crate) fn preparation(
        &mut self,
        file: &StdArc<dyn File>,
        written: u64,
        durable: u64,
    ) -> Option<Preparation> {
        self.groups += 1;
        let enough = self.only_reserved && written.saturating_add(self.len / 2) <= self.reserved;
        if self.next != Next::Wanted || enough {
            return None;
        }
        let to_map = self.current.as_ref().map_or(written, |stretch| stretch.range.end);
        let pays = durable == self.durable
            && (written - self.written) <= self.groups.saturating_mul(GROUP_BYTES_MAX);
        let mapped = self.mapped.filter(|mapped| pays && to_map < mapped.end);
        let (start, len, end) = match mapped {
            Some(mapped) => (to_map, self.len.min(self.mapped_len), mapped.end.min(self.room)),
            None => (self.reserved.max(written), self.len, self.room),
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
            self.next = Next::Asked;
            self.mapped_to = range.end;
            self.mapped_len = (2 * self.mapped_len).min(MAPPED_BYTES_MAX);
        }
        let mapped = mapped.map(|mapped| (mapped.writes, Arc::clone(&self.handover)));
        Some(Preparation { file: StdArc::clone(file), range, mapped })
    }

    /// Whether groups go by calls in a log that ends at `written`, by their average and not by its last stretch.
    pub(crate) fn goes_by_calls(&self, written: u64) -> bool {
        let groups = self.groups_before + self.groups;
        self.mapped.is_none() || written > groups.saturating_mul(GROUP_BYTES_MAX)
    }

    /// Where the file may be cut off, if no more than this is to lie ready behind `written`.
    pub(crate) fn end_at_rest(&self, written: u64) -> u64 {
        written.saturating_add(self.len).max(self.mapped_to)
    }

    /// The file was cut off at `end`, where it might be.
    pub(crate) fn cut(&mut self, end: u64) {
        self.reserved = self.reserved.min(end);
    }
}

impl Preparation {
    /// Do it: about as much work as a few hundred writes, and now and then a wait for the filesystem.
    pub fn run(self) {
        let Preparation { file, range, mapped } = self;
        if let Some((_, handover)) = &mapped {
            // Unmapped when the lock, which the writer takes, is free again.
            let spent = std::mem::take(&mut handover.lock().spent);
            drop(spent);
        }
        // Should the disk be full, a write will say so.
        let reserved = file.reserve(range.end).unwrap_or(false);
        let Some((writes, handover)) = mapped else { return };
        let ready = reserved && clear(&*file, &range, &handover);
        let len = usize::try_from(range.end - range.start).ok().filter(|_| ready);
        let memory = len.and_then(|len| file.map_range(range.start, len, writes));
        let answer = memory.map_or(Answer::Refused, |memory| Answer::Ready(Stretch { memory, range }));
        handover.lock().answer = Some(answer);
    }
}

/// Write zeros to `range` but for what calls have overtaken; whether that went well.
fn clear(file: &dyn File, range: &Range<u64>, handover: &Mutex<Handover>) -> bool {
    let mut at = range.start;
    loop {
        // Held while the piece is written: see invariant 4.
        let handover = handover.lock();
        at = at.max(handover.called);
        if at >= range.end {
            return true;
        }
        // Pieces end where the system's own do, which lie at multiples of their length.
        let end = (at - at % CLEAR_BYTES).saturating_add(CLEAR_BYTES).min(range.end);
        let zeros = usize::try_from(end - at).ok().and_then(|len| ZEROS.get(..len)).unwrap_or_default();
        if file.write_at(zeros, at).is_err() {
            return false;
        }
        at = end;
    }
}

impl Drop for Stretches {
    /// From here on nobody says what calls write.
    fn drop(&mut self) {
        self.handover.lock().called = u64::MAX;
    }
}
