//! Helpers: threads of background work that have nothing to do carry out parts of running compactions.
//!
//! Towards the end of a load there is often one compaction left, and it is a large one. A compaction's thread helps
//! while there is nothing else to compact; the thread that flushes helps while no flush is due and somebody waits for
//! compactions, because otherwise it would take from writers a processor that they may need: with two of them, and
//! writers who did not wait, puts came up to 150 ms late. A helper is a job like any other and shares its thread step
//! by step; it ends as soon as its lane has work of its own, or nothing wants help, and is started again when that
//! changes: a compaction begins or ends, a flush ends, somebody begins to wait.

use std::sync::{Arc, Weak};

use esker_base::Error;
use esker_vfs::scheduler::{Job, Lane, Progress};

use super::parts::Parts;
use super::{Jobs, State};
use crate::core::Core;

/// Who helps whom.
#[derive(Default)]
pub(super) struct Helping {
    /// What running compactions have to share.
    offers: Vec<Arc<Parts>>,
    /// Whether the flushes' thread helps.
    flush: bool,
    /// How many of the compactions' threads help.
    compaction: usize,
}

impl Jobs {
    /// A compaction has parts to share until [`withdraw`](Self::withdraw).
    pub(super) fn offer(&self, parts: &Arc<Parts>) {
        if parts.want_help() {
            self.state.lock().helping.offers.push(Arc::clone(parts));
            self.start_helpers();
        }
    }

    /// No helper comes to these parts from now on; one may still be at them.
    pub(super) fn withdraw(&self, parts: &Arc<Parts>) {
        self.state.lock().helping.offers.retain(|offer| !Arc::ptr_eq(offer, parts));
    }

    /// Let threads help that have no work of their own.
    pub(crate) fn start_helpers(&self) {
        let Some(core) = self.core() else { return };
        let width = core.env.scheduler.width(Lane::Compaction);
        for lane in [Lane::Flush, Lane::Compaction] {
            loop {
                {
                    let mut state = self.state.lock();
                    let awaited = core.compactions_are_awaited(&state);
                    if !state.may_help(lane, width, 1, awaited) || state.wants_help().is_none() {
                        break;
                    }
                    state.begin_to_help(lane);
                }
                core.env
                    .scheduler
                    .spawn(lane, Box::new(Subcompaction { core: Arc::downgrade(&core), lane }));
            }
        }
    }
}

impl Core {
    /// Whether somebody waits for compactions: a caller, or writers, whom the depth of level 0 slows.
    fn compactions_are_awaited(&self, state: &State) -> bool {
        self.jobs.settling()
            || !state.by_hand.is_empty()
            || self.backlog().l0_depth >= self.options.l0_tables_slowdown
    }
}

impl State {
    /// Whether `lane`, `width` threads wide, has no work of its own for `more` helpers beyond those there are.
    fn may_help(&self, lane: Lane, width: usize, more: usize, awaited: bool) -> bool {
        let free = match lane {
            Lane::Flush => awaited && !self.flushing && usize::from(self.helping.flush) + more <= 1,
            Lane::Compaction => self.compacting + self.helping.compaction + more <= width,
            Lane::Upkeep => false,
        };
        free && !self.closing
    }

    fn wants_help(&self) -> Option<&Arc<Parts>> {
        self.helping.offers.iter().find(|parts| parts.want_help())
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
            let awaited = core.compactions_are_awaited(&state);
            let parts =
                state.wants_help().filter(|_| state.may_help(self.lane, width, 0, awaited)).cloned();
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
        core.stop_writes(&Error::CallbackPanicked { callback: "the compaction job", message });
    }
}
