//! Writes to a log without a call: what is written next goes to memory that was made ready beforehand.
//!
//! The log's reserved space is taken in stretches. The writer stores into the current one; a [`Preparation`] maps the next and brings its pages in, on some other thread, because that may wait
//! for the filesystem's journal.
//!
//! Invariants:
//! 1. The writer never maps, brings in or unmaps a page, and never waits: a group that does not fit into
//!    what is left of its stretch, or comes before the next one is ready, goes by a call. Both ways reach
//!    the same pages of the system's cache, so a reader or a sync cannot tell them apart.
//! 2. At most one preparation is under way.
//! 3. A stretch lies within the space that was reserved, and none is used after a failed write, whose
//!    undoing may have cut the file.

use std::ops::Range;
use std::sync::Arc as StdArc;

use esker_base::sync::{Arc, Mutex};
use esker_vfs::fs::{File, MappedRange};

/// The most that is mapped at a time, in bytes: some 7,000 small records, 7 ms of a busy writer, before whose
/// end the next has to be ready. Two are mapped at a time.
const STRETCH_BYTES_MAX: u64 = 1 << 20;
/// A small log has as many stretches as this, so that it meets every way of going from one to the next.
const STRETCHES: u64 = 8;

/// A mapped part of the log, and where it lies.
struct Stretch {
    memory: Box<dyn MappedRange>,
    range: Range<u64>,
}

/// The writer's side. See the module.
pub(crate) struct Stretches {
    current: Option<Stretch>,
    next: Next,
    handover: Arc<Mutex<Handover>>,
    /// The end of the reserved space.
    reserved: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    /// Nobody was asked for it.
    Wanted,
    /// A preparation is under way.
    Asked,
    /// There will be none: the reserved space ends, or the system has no such memory.
    Never,
}

/// What the writer and a preparation leave for each other.
#[derive(Default)]
struct Handover {
    answer: Option<Answer>,
    /// Written to their ends. The next preparation unmaps them, so that no writer has to.
    spent: Vec<Stretch>,
}

enum Answer {
    Ready(Stretch),
    Refused,
}

/// The next stretch of a log, to be made ready on a thread that nobody waits for.
pub struct Preparation {
    file: StdArc<dyn File>,
    range: Range<u64>,
    handover: Arc<Mutex<Handover>>,
}

impl Stretches {
    /// Of a log whose first `reserved` bytes are reserved.
    pub(crate) fn new(reserved: u64) -> Stretches {
        Stretches {
            current: None,
            next: Next::Wanted,
            handover: Arc::new(Mutex::new(Handover::default())),
            reserved,
        }
    }

    /// The memory that holds `group`, where the writer is now, if it is ready.
    #[inline]
    pub(crate) fn holding(&mut self, group: &Range<u64>) -> Option<&mut (dyn MappedRange + 'static)> {
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

    /// The current stretch cannot take a group that ends at `end`: go on to the next, if it is ready.
    #[cold]
    fn advance(&mut self, end: u64) {
        let mut handover = self.handover.lock();
        handover.spent.extend(self.current.take());
        match handover.answer.take() {
            None => {}
            Some(Answer::Refused) => self.next = Next::Never,
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

    /// The preparation of what comes after the current stretch, or else after `written`; `None` while one is
    /// under way, and where there is nothing to prepare.
    #[inline]
    pub(crate) fn preparation(&mut self, file: &StdArc<dyn File>, written: u64) -> Option<Preparation> {
        if self.next != Next::Wanted {
            return None;
        }
        let start = self.current.as_ref().map_or(written, |stretch| stretch.range.end);
        let len = (self.reserved / STRETCHES).clamp(1, STRETCH_BYTES_MAX);
        let range = start..start.saturating_add(len).min(self.reserved);
        if range.is_empty() {
            self.next = Next::Never;
            return None;
        }
        self.next = Next::Asked;
        Some(Preparation { file: StdArc::clone(file), range, handover: Arc::clone(&self.handover) })
    }
}

impl Preparation {
    /// Do it: about as much work as a few hundred writes, and now and then a wait for the filesystem.
    pub fn run(self) {
        drop(std::mem::take(&mut self.handover.lock().spent));
        let len = usize::try_from(self.range.end - self.range.start).ok();
        let memory = len.and_then(|len| self.file.map_range(self.range.start, len));
        let answer = memory
            .map_or(Answer::Refused, |memory| Answer::Ready(Stretch { memory, range: self.range.clone() }));
        self.handover.lock().answer = Some(answer);
    }
}
