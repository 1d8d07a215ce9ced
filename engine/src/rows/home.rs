//! The database that rows belong to, which is told what walks over them cost ([`read_costs`](crate::read_costs)).

use std::cell::Cell;
use std::sync::{Arc, Weak};

use esker_base::{FileNumber, KeyspaceId};

use super::Rows;
use crate::core::Core;
use crate::read_costs::Reads;
use crate::scan::ScanView;

/// The database is told of a walk after so many seeks, and so many visits.
const SEEKS_TOLD: u64 = 64;
const VISITS_TOLD: u64 = 4096;
/// Of walks that end before, one in so many speaks for all of its thread's. No power of two, to be in step with nobody's habits.
const SAMPLED: u64 = 61;

/// See the module.
#[derive(Default)]
pub(super) struct Home {
    /// None: nobody is asked or told.
    of: Option<Origin>,
    /// Since the database was told.
    reads: Reads,
    /// Sources before this one are memtables, and the others before `sorted` runs of level 0.
    level0: usize,
    sorted: usize,
}

struct Origin {
    keyspace: KeyspaceId,
    /// Rows must not keep a database open.
    core: Weak<Core>,
    /// The log of the memtable that took writes when the walk began.
    log: FileNumber,
}

impl Rows {
    /// These are rows of `view`.
    pub(crate) fn belong_to(&mut self, view: &ScanView) {
        let memtables = self.infos.iter().take_while(|info| info.level.is_none()).count();
        let young = self.infos.iter().take_while(|info| info.level.is_none_or(|level| level == 0)).count();
        let (core, log) = (Weak::clone(&view.core), view.superversion.active.log);
        let of = Some(Origin { keyspace: view.keyspace, core, log });
        self.home = Home { of, reads: Reads::default(), level0: memtables, sorted: young };
    }

    /// Another source leads than before.
    #[inline]
    pub(super) fn count_visit(&mut self) {
        let Some(leader) = self.merge.leader() else { return };
        if leader < self.home.sorted {
            self.home.count_visit(leader);
        }
    }
}

impl Home {
    /// The keyspace and the database, as long as that is open.
    pub(super) fn find(&self) -> Option<(KeyspaceId, Arc<Core>)> {
        let origin = self.of.as_ref()?;
        Some((origin.keyspace, origin.core.upgrade()?))
    }

    /// A walk is sent elsewhere, or turned round.
    #[inline]
    pub(super) fn count_seek(&mut self) {
        self.reads.seeks += 1;
        if self.reads.seeks == SEEKS_TOLD {
            self.tell(1);
        }
    }

    #[inline]
    fn count_visit(&mut self, source: usize) {
        let Reads { memtable_visits, level0_visits, .. } = &mut self.reads;
        let visits = if source < self.level0 { memtable_visits } else { level0_visits };
        *visits += 1;
        if *visits == VISITS_TOLD {
            self.tell(1);
        }
    }

    /// Tell the database, if it still reads what this walk does: what was flushed or merged since does this one no good.
    #[cold]
    fn tell(&mut self, times: u64) {
        let reads = std::mem::take(&mut self.reads);
        let Some(origin) = &self.of else { return };
        if let Some(core) = origin.core.upgrade()
            && core.current.load().active.log == origin.log
        {
            core.count_reads(origin.keyspace, reads.times(times));
        }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        thread_local! {
            static ENDED: Cell<u64> = const { Cell::new(0) };
        }
        let Reads { seeks, memtable_visits, level0_visits, .. } = self.reads;
        if seeks + memtable_visits + level0_visits == 0 {
            return;
        }
        // A thread that ends has nothing to count in any more.
        let ended = ENDED.try_with(|ended| ended.replace(ended.get() + 1)).unwrap_or_default();
        if ended % SAMPLED == SAMPLED - 1 {
            self.tell(SAMPLED);
        }
    }
}
