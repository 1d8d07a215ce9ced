//! The database that rows belong to, which is told what walks over them cost ([`read_costs`](crate::read_costs)).

use std::sync::{Arc, Weak};

use esker_base::{FileNumber, KeyspaceId};

use super::Rows;
use crate::core::Core;
use crate::read_costs::Reads;
use crate::scan::ScanView;

/// The database is told of a walk after so many seeks, and so many visits.
const SEEKS_TOLD: u64 = 64;
const VISITS_TOLD: u64 = 4096;

/// See the module.
#[derive(Default)]
pub(super) struct Home {
    /// None: nobody is asked or told.
    of: Option<Origin>,
    /// Since the database was told.
    seeks: u64,
    memtable_visits: u64,
    level0_visits: u64,
    /// Sources before this one are memtables, and the others before `sorted` runs of level 0. None where a transaction's own
    /// writes are the first: their number shifts with what it writes.
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
        let has_own = view.own.as_ref().is_some_and(|(memtable, _)| !memtable.is_empty());
        let (level0, sorted) = if has_own { (0, 0) } else { (memtables, young) };
        (self.home.of, self.home.level0, self.home.sorted) = (of, level0, sorted);
    }

    /// Another source leads than before, or holds the same key.
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
        self.seeks += 1;
        if self.seeks == SEEKS_TOLD {
            self.tell();
        }
    }

    #[inline]
    fn count_visit(&mut self, source: usize) {
        let visits = if source < self.level0 { &mut self.memtable_visits } else { &mut self.level0_visits };
        *visits += 1;
        if *visits == VISITS_TOLD {
            self.tell();
        }
    }

    #[cold]
    fn tell(&mut self) {
        if let Some((_, core)) = self.find() {
            self.tell_of(&core, 1);
        }
    }

    /// Have `core` count what it was not told, so many times.
    fn tell_of(&mut self, core: &Core, times: u64) {
        let Some(origin) = &self.of else { return };
        let seeks = std::mem::take(&mut self.seeks);
        let reads = Reads {
            memtable_seeks: seeks * self.level0 as u64,
            level0_seeks: seeks * (self.sorted - self.level0) as u64,
            memtable_visits: std::mem::take(&mut self.memtable_visits),
            level0_visits: std::mem::take(&mut self.level0_visits),
            ..Reads::default()
        };
        core.count_reads(origin.keyspace, Some(origin.log), reads, times);
    }
}

/// Of walks that end before they have told anything some speak for all.
impl Drop for Home {
    fn drop(&mut self) {
        if self.seeks + self.memtable_visits + self.level0_visits > 0
            && let Some((_, core)) = self.find()
            && let times = core.metrics.count_walk()
            && times > 0
        {
            self.tell_of(&core, times);
        }
    }
}
