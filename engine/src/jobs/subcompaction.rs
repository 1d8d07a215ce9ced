//! Helpers: threads of background work that have nothing to do carry out parts of running compactions, and the thread
//! that flushes compactions of its own.
//!
//! A compaction's thread helps while there is nothing else to compact; the thread that flushes helps while no flush is
//! due and somebody waits for compactions, because otherwise it would take from writers a processor that they may need:
//! with two of them, and writers who did not wait, puts came up to 150 ms late. Where no compaction under way has parts
//! to share, it carries out another, and hands that over to the compactions' threads when a flush is due. A helper is a
//! job like any other and shares its thread step by step; it ends as soon as its lane has work of its own, or nothing
//! wants help, and is started again when that changes: a compaction begins or ends, a flush ends, somebody begins to wait.

use std::sync::{Arc, Weak};

use esker_base::Error;
use esker_vfs::scheduler::{Job, Lane, Progress};

use super::compact::{Carrying, JOB, pick_and_claim};
use super::parts::Shared;
use super::{Jobs, State, after_failure};
use crate::core::Core;

/// What a job has to share.
struct Offer {
    parts: Arc<dyn Shared>,
    of: Of,
}

/// Whose parts they are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
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
    /// Whether the flushes' thread carries out a compaction of its own.
    own: bool,
    /// Its last one failed. It begins no other until one of the others has succeeded, which wait between their attempts
    /// and count them.
    own_failed: bool,
    /// Compactions that it has begun and left to the others.
    left: Vec<Carrying>,
}

impl Helping {
    /// Whether no compaction is with the flushes' thread, or left by it.
    pub(super) fn is_idle(&self) -> bool {
        !self.own && self.left.is_empty()
    }
}

impl Jobs {
    /// A job has parts to share until [`withdraw`](Self::withdraw).
    pub(super) fn offer(&self, parts: Arc<dyn Shared>, of: Of) {
        if parts.want_help() {
            self.state.lock().helping.offers.push(Offer { parts, of });
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
                let own = {
                    let mut state = self.state.lock();
                    let awaited = core.what_is_awaited(&state);
                    if !state.may_help(lane, width, 1, awaited) {
                        break;
                    }
                    let wanted = state.wants_help(lane, awaited).is_some();
                    let own = if wanted { None } else { state.begin_own(&core, lane) };
                    if !wanted && own.is_none() {
                        break;
                    }
                    state.begin_to_help(lane);
                    own
                };
                let helper = Subcompaction { core: Arc::downgrade(&core), lane, own };
                core.env.scheduler.spawn(lane, Box::new(helper));
            }
        }
    }

    /// A compaction that the flushes' thread has begun and left.
    pub(super) fn take_left(&self) -> Option<Carrying> {
        self.state.lock().helping.left.pop()
    }

    /// A compaction of the compactions' threads has succeeded.
    pub(super) fn compaction_succeeded(&self) {
        self.state.lock().helping.own_failed = false;
    }

    /// Give up what nobody will go on with.
    pub(crate) fn give_up_left(&self) {
        let left = std::mem::take(&mut self.state.lock().helping.left);
        drop(left);
    }
}

impl Core {
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
            Lane::Upkeep => false,
        };
        free && !self.closing
    }

    /// What a helper on `lane` is to go on with: with a flush, if one is awaited, before compactions.
    fn wants_help(&self, lane: Lane, awaited: Awaited) -> Option<&Arc<dyn Shared>> {
        let of = |of: Of| self.helping.offers.iter().filter(move |offer| offer.of == of);
        let flushes = of(Of::Flush).filter(|_| lane == Lane::Compaction && awaited.flushes);
        flushes.chain(of(Of::Compaction)).map(|offer| &offer.parts).find(|parts| parts.want_help())
    }

    /// A compaction for a helper on `lane` to carry out, claimed while this is locked: whoever waits until nothing is under
    /// way finds either nothing to do or this. The compactions' threads have jobs of their own for that.
    fn begin_own(&mut self, core: &Arc<Core>, lane: Lane) -> Option<Carrying> {
        if lane != Lane::Flush || self.helping.own_failed {
            return None;
        }
        let own = self.helping.left.pop().or_else(|| pick_and_claim(core));
        self.helping.own = own.is_some();
        own
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
    /// What the flushes' thread carries out itself.
    own: Option<Carrying>,
}

/// What a helper does next.
enum Help {
    /// Go on with its own.
    Own,
    /// Another's parts.
    Parts(Arc<dyn Shared>),
    /// Nothing any more.
    End,
}

impl Subcompaction {
    /// What to do next, decided under the lock that whoever starts helpers takes: none is missed in between.
    fn next(&mut self, core: &Arc<Core>) -> Help {
        let width = core.env.scheduler.width(Lane::Compaction);
        let mut state = core.jobs.state.lock();
        let awaited = core.what_is_awaited(&state);
        if state.may_help(self.lane, width, 0, awaited) {
            if self.own.is_some() {
                return Help::Own;
            }
            if let Some(parts) = state.wants_help(self.lane, awaited) {
                return Help::Parts(Arc::clone(parts));
            }
            self.own = state.begin_own(core, self.lane);
            if self.own.is_some() {
                return Help::Own;
            }
        }
        state.helping.left.extend(self.own.take());
        self.end(&mut state);
        Help::End
    }

    fn end(&self, state: &mut State) {
        state.helping.own &= self.lane != Lane::Flush;
        state.end_to_help(self.lane);
    }

    /// Do a step of its own compaction.
    fn carry(&mut self, core: &Arc<Core>) {
        let Some(own) = &mut self.own else { return };
        let failed = match own.step() {
            Ok(false) => return,
            Ok(true) => false,
            Err(error) => {
                let _ = after_failure(core, "compaction", &error, 1);
                true
            }
        };
        self.own = None;
        {
            let helping = &mut core.jobs.state.lock().helping;
            (helping.own, helping.own_failed) = (false, failed);
        }
        core.progress.open();
        core.jobs.start_compactions();
    }
}

impl Job for Subcompaction {
    fn name(&self) -> &'static str {
        "subcompaction"
    }

    fn step(&mut self) -> Progress {
        let Some(core) = self.core.upgrade() else { return Progress::Done };
        match self.next(&core) {
            Help::Own => self.carry(&core),
            Help::Parts(parts) => parts.help(),
            Help::End => {
                core.jobs.start_compactions();
                return Progress::Done;
            }
        }
        Progress::More
    }

    fn panicked(&mut self, message: &str) {
        let Some(core) = self.core.upgrade() else { return };
        self.own = None;
        self.end(&mut core.jobs.state.lock());
        let message = message.to_string();
        core.stop_writes(&Error::CallbackPanicked { callback: JOB, message });
    }
}
