//! The database that rows belong to, which is told what walks over them cost ([`read_costs`](crate::read_costs)).

use std::sync::Arc;

use esker_base::KeyspaceId;

use super::Rows;
use crate::core::Core;
use crate::read_costs::Reads;
use crate::scan_view::ScanView;

/// The database is told of a walk after so many seeks, and so many visits.
const SEEKS_TOLD: u64 = 64;
const VISITS_TOLD: u64 = 4096;

/// See the module.
#[derive(Default)]
pub(super) struct Owner {
    /// Whose database is asked and told; none: nobody's.
    view: Option<Arc<ScanView>>,
    /// Since the database was told.
    seeks: u64,
    memtable_visits: u64,
    level0_visits: u64,
    /// Sources before this one are memtables, and the others before `sorted` runs of level 0. None where a transaction's own
    /// writes are the first: their number shifts with what it writes.
    level0: usize,
    sorted: usize,
}

impl Rows {
    /// These are rows of `view`: its database is told what they cost, asked for dead ranges, and told of those that are found.
    pub(crate) fn belong_to(&mut self, view: &Arc<ScanView>) {
        let memtables = self.infos.iter().take_while(|info| info.level.is_none()).count();
        let young = self.infos.iter().take_while(|info| info.level.is_none_or(|level| level == 0)).count();
        let has_own = view.own.as_ref().is_some_and(|(memtable, _)| !memtable.is_empty());
        let (level0, sorted) = if has_own { (0, 0) } else { (memtables, young) };
        (self.owner.level0, self.owner.sorted) = (level0, sorted);
        self.owner.view = Some(Arc::clone(view));
        // Of what a transaction itself has put there nobody else knows.
        self.dead_run = if has_own { u32::MAX } else { view.dead_run };
    }

    /// Another source leads than before, or holds the same key.
    #[inline]
    pub(super) fn count_visit(&mut self) {
        let Some(leader) = self.merge.leader() else { return };
        if leader < self.owner.sorted {
            self.owner.count_visit(leader);
        }
    }
}

impl Owner {
    /// The keyspace and the database, as long as that is open.
    pub(super) fn find(&self) -> Option<(KeyspaceId, Arc<Core>)> {
        let view = self.view.as_ref()?;
        Some((view.keyspace, view.core.upgrade()?))
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
        let Some(view) = &self.view else { return };
        let seeks = std::mem::take(&mut self.seeks);
        let reads = Reads {
            memtable_seeks: seeks * self.level0 as u64,
            level0_seeks: seeks * (self.sorted - self.level0) as u64,
            memtable_visits: std::mem::take(&mut self.memtable_visits),
            level0_visits: std::mem::take(&mut self.level0_visits),
            ..Reads::default()
        };
        core.count_reads(view.keyspace, Some(view.superversion.active.log), reads, times);
    }
}

/// Of walks that end before they have told anything some speak for all.
impl Drop for Owner {
    fn drop(&mut self) {
        let times = self.view.as_ref().map_or(0, |view| view.speaks_for);
        if times > 0
            && self.seeks + self.memtable_visits + self.level0_visits > 0
            && let Some((_, core)) = self.find()
        {
            self.tell_of(&core, times);
        }
    }
}
