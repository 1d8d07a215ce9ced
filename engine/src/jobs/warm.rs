//! Has new tables cached whose predecessors were.
//!
//! A flush and a compaction write tables that nobody has read yet, beside or in place of tables that readers have brought
//! into the cache. Every first look at one of their blocks would be a read of the file: beside a writer up to one get in
//! eleven, here, and all of the slowest hundredth. So where most of what was there before is cached, what is new comes
//! into the cache as well, as far as there is room: what a flush writes before readers see it; what a compaction writes
//! afterwards, when the tables it replaces have left the cache and made room.

use std::sync::{Arc, Weak};

use esker_base::OpCost;
use esker_manifest::TableHandle;
use esker_vfs::scheduler::{Job, Lane, Progress};

use super::Jobs;
use crate::core::Core;

/// Whether at least half of what these tables hold is cached.
pub(super) fn are_cached<'a>(tables: impl Iterator<Item = &'a Arc<TableHandle>>) -> bool {
    let (mut cached, mut all) = (0, 0);
    for table in tables {
        all += table.meta.file_bytes;
        cached += table.opened().map_or(0, |reader| reader.cached_bytes());
    }
    cached > 0 && cached >= all / 2
}

/// Cache a table, as far as there is room.
pub(super) fn warm(table: &TableHandle) {
    let mut block = Some(0);
    while let Some(from) = block.filter(|_| !table.is_obsolete()) {
        // Whoever reads what cannot be read hears of it.
        block = table.reader().and_then(|reader| reader.warm(from, &mut OpCost::default())).ok().flatten();
    }
}

impl Jobs {
    /// Have these tables cached, as far as there is room.
    pub(super) fn warm(&self, tables: Vec<Weak<TableHandle>>) {
        let Some(core) = self.core().filter(|_| !tables.is_empty()) else { return };
        for table in tables.iter().filter_map(Weak::upgrade) {
            // Whoever reads what cannot be read hears of it.
            let _unreadable = table.reader().map(|reader| reader.expect_warming());
        }
        core.env
            .scheduler
            .spawn(Lane::Upkeep, Box::new(Warm { core: Arc::downgrade(&core), tables, block: 0 }));
    }
}

/// See the module. Whatever becomes of it, readers can do without.
struct Warm {
    core: Weak<Core>,
    /// Still to be cached. Weak: a table that goes meanwhile is not held up.
    tables: Vec<Weak<TableHandle>>,
    /// Where to go on in the last of them.
    block: usize,
}

impl Job for Warm {
    fn name(&self) -> &'static str {
        "warming of the cache"
    }

    fn step(&mut self) -> Progress {
        let Some(core) = self.core.upgrade() else { return Progress::Done };
        if core.health.check().is_err() {
            return Progress::Done;
        }
        let Some(table) = self.tables.last() else { return Progress::Done };
        let table = table.upgrade().filter(|table| !table.is_obsolete());
        let block = self.block;
        // Whoever reads what cannot be read hears of it.
        let further =
            table.and_then(|table| table.reader().ok()?.warm(block, &mut OpCost::default()).ok()?);
        if further.is_none() {
            self.tables.pop();
        }
        self.block = further.unwrap_or_default();
        Progress::More
    }

    fn panicked(&mut self, _message: &str) {}
}
