//! Helpers: threads of background work that have nothing to do carry out parts of running compactions and flushes.
//!
//! A compaction's thread helps compactions while there is nothing else to compact, and a flush while a caller waits for it or
//! another memtable is full; the thread that flushes helps while no flush is due and somebody waits for compactions, because
//! otherwise it would take from writers a processor that they may need: with two of them, and writers who did not wait,
//! puts came up to 150 ms late. A helper is a job like any other and shares its thread step by step; it ends as soon as its
//! lane has work of its own, or nothing wants help, and is started again when that changes: a compaction begins or ends, a
//! flush ends, somebody begins to wait.

use std::sync::{Arc, Weak};

use esker_base::Error;
use esker_vfs::scheduler::{Job, Lane, Progress};

use super::compact::CALLBACK;
use super::parts::Shared;
use super::{Jobs, State};
use crate::core::Core;

/// What a job has to share.
struct Offer {
    parts: Arc<dyn Shared>,
    sharer: Sharer,
}

/// Whose parts they are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sharer {
    Compaction,
    Flush,
}

/// What somebody waits for.
#[derive(Clone, Copy)]
struct Awaited {
    compactions: bool,
    flushes: bool,
}

/// Who helps whom.
#[derive(Default)]
pub(super) struct Helping {
    /// What running jobs have to share.
    offers: Vec<Offer>,
    /// Whether the flushes' thread helps.
    flush: bool,
    /// How many of the compactions' threads help.
    compaction: usize,
}

impl Jobs {
    /// A job has parts to share until [`withdraw`](Self::withdraw).
    pub(super) fn offer(&self, parts: Arc<dyn Shared>, sharer: Sharer) {
        if parts.want_help() {
            self.state.lock().helping.offers.push(Offer { parts, sharer });
            self.start_helpers();
        }
    }

    /// No helper comes to these parts from now on; one may still be at them.
    pub(super) fn withdraw(&self, parts: &dyn Shared) {
        self.state.lock().helping.offers.retain(|offer| !std::ptr::addr_eq(&raw const *offer.parts, parts));
    }

    /// Let threads help that have no work of their own.
    pub(crate) fn start_helpers(&self) {
        let Some(core) = self.core() else { return };
        let width = core.env.scheduler.width(Lane::Compaction);
        for lane in [Lane::Flush, Lane::Compaction] {
            loop {
                {
                    let mut state = self.state.lock();
                    let awaited = core.what_is_awaited(&state);
                    let wanted = state.wants_help(lane, awaited).is_some();
                    if !wanted || !state.may_help(lane, width, 1, awaited) {
                        break;
                    }
                    state.begin_to_help(lane);
                }
                let helper = Subcompaction { core: Arc::downgrade(&core), lane };
                core.env.scheduler.spawn(lane, Box::new(helper));
            }
        }
    }
}

/// A writer, a flush and a compaction.
const BUSY_THREADS: usize = 3;

impl Core {
    /// Whether compactions stand aside: a flush is under way, a writer, it and a compaction are more than there are
    /// processors, and nobody waits for compactions.
    pub(super) fn flush_goes_first(&self) -> bool {
        if self.env.scheduler.processors() >= BUSY_THREADS {
            return false;
        }
        let state = self.jobs.state.lock();
        state.flushing && !self.what_is_awaited(&state).compactions
    }

    /// What callers wait for, or writers: whom the depth of level 0 slows, or who have filled another memtable.
    fn what_is_awaited(&self, state: &State) -> Awaited {
        let backlog = self.backlog();
        let compactions = self.jobs.settling()
            || !state.by_hand.is_empty()
            || backlog.l0_depth >= self.options.l0_tables_slowdown;
        Awaited { compactions, flushes: self.jobs.flushes_are_awaited() || backlog.sealed > 1 }
    }
}

impl State {
    /// Whether `lane`, `width` threads wide, has no work of its own for `more` helpers beyond those there are.
    fn may_help(&self, lane: Lane, width: usize, more: usize, awaited: Awaited) -> bool {
        let free = match lane {
            Lane::Flush => {
                awaited.compactions && !self.flushing && usize::from(self.helping.flush) + more <= 1
            }
            Lane::Compaction => self.compacting + self.helping.compaction + more <= width,
            Lane::Removal | Lane::Upkeep => false,
        };
        free && !self.closing
    }

    /// What a helper on `lane` is to go on with: with a flush, if one is awaited, before compactions.
    fn wants_help(&self, lane: Lane, awaited: Awaited) -> Option<&Arc<dyn Shared>> {
        let of = |sharer: Sharer| self.helping.offers.iter().filter(move |offer| offer.sharer == sharer);
        let flushes = of(Sharer::Flush).filter(|_| lane == Lane::Compaction && awaited.flushes);
        flushes.chain(of(Sharer::Compaction)).map(|offer| &offer.parts).find(|parts| parts.want_help())
    }

    fn begin_to_help(&mut self, lane: Lane) {
        match lane {
            Lane::Flush => self.helping.flush = true,
            _ => self.helping.compaction += 1,
        }
    }

    fn end_to_help(&mut self, lane: Lane) {
        match lane {
            Lane::Flush => self.helping.flush = false,
            _ => self.helping.compaction -= 1,
        }
    }
}

/// See the module.
struct Subcompaction {
    core: Weak<Core>,
    lane: Lane,
}

impl Job for Subcompaction {
    fn name(&self) -> &'static str {
        "subcompaction"
    }

    fn step(&mut self) -> Progress {
        let Some(core) = self.core.upgrade() else { return Progress::Done };
        let width = core.env.scheduler.width(Lane::Compaction);
        let parts = {
            let mut state = core.jobs.state.lock();
            let awaited = core.what_is_awaited(&state);
            let may = state.may_help(self.lane, width, 0, awaited);
            let parts = state.wants_help(self.lane, awaited).filter(|_| may).cloned();
            // Under the lock that whoever starts helpers takes: none is missed in between.
            if parts.is_none() {
                state.end_to_help(self.lane);
            }
            parts
        };
        let Some(parts) = parts else { return Progress::Done };
        parts.help();
        Progress::More
    }

    fn panicked(&mut self, message: &str) {
        let Some(core) = self.core.upgrade() else { return };
        core.jobs.state.lock().end_to_help(self.lane);
        let message = message.to_string();
        core.stop_writes(&Error::CallbackPanicked { callback: CALLBACK, message });
    }
}
