//! Has tables opened after the database was, so that no reader has to wait until one of them is.
//!
//! The database is open before any table has been looked at. Each is opened by whoever asks it first, who reads its index, its
//! filter and its range tombstones for that, some hundred microseconds from the system's cache and more from a device. This job is mostly
//! there before, table by table, those of level 0 first: nearly every read asks them. It ends where what open tables keep in
//! memory comes to a fourth of what the cache may take: of a database that is large for its machine only what is asked for
//! is to be in memory.

use std::sync::{Arc, Weak};

use esker_base::ledger::Purpose;
use esker_manifest::TableHandle;
use esker_vfs::scheduler::{Job, Lane, Progress};

use super::Jobs;
use crate::core::Core;

/// Tables are opened ahead as long as their memory is less than one such part of the cache's limit.
const CACHE_SHARE: u64 = 4;

impl Jobs {
    /// Have all tables opened.
    pub(crate) fn open_tables(&self) {
        let Some(core) = self.core() else { return };
        let version = core.versions.current();
        let trees = version.keyspaces().iter().map(|keyspace| &keyspace.tree);
        let mut tables: Vec<(u8, Weak<TableHandle>)> = trees
            .flat_map(|tree| tree.tables())
            .map(|(level, table)| (level, Arc::downgrade(table)))
            .collect();
        if tables.is_empty() {
            return;
        }
        // The last is opened first.
        tables.sort_by_key(|(level, _)| std::cmp::Reverse(*level));
        let tables = tables.into_iter().map(|(_, table)| table).collect();
        let job = FirstLook { core: Arc::downgrade(&core), tables };
        core.env.scheduler.spawn(Lane::Upkeep, Box::new(job));
    }
}

/// See the module.
struct FirstLook {
    core: Weak<Core>,
    /// Still to be opened. Weak: a table that goes meanwhile is not held up.
    tables: Vec<Weak<TableHandle>>,
}

impl Job for FirstLook {
    fn name(&self) -> &'static str {
        "first look at tables"
    }

    fn step(&mut self) -> Progress {
        let Some(core) = self.core.upgrade() else { return Progress::Done };
        let most = core.options.cache_bytes / CACHE_SHARE;
        if core.health.check().is_err() || core.tables.ledger.held(Purpose::TableMetadata) >= most {
            return Progress::Done;
        }
        let Some(table) = self.tables.pop() else { return Progress::Done };
        if let Some(table) = table.upgrade().filter(|table| !table.is_obsolete()) {
            // Whoever reads what cannot be read hears of it.
            let _unreadable = table.reader();
        }
        Progress::More
    }

    fn panicked(&mut self, _message: &str) {}
}
