//! What decides when and how a keyspace's tables are merged: plain data, validated once.

use esker_base::{Error, Result};

/// Settings of one keyspace's compaction. The defaults suit memtables that are given 64 MiB.
///
/// ```
/// use esker_compaction::Settings;
/// assert!(Settings::default().validate().is_ok());
/// assert!(Settings { fanout: 1, ..Settings::default() }.validate().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Level 0 is compacted from this many *sublevels* on (tables that cover one key, counted where
    /// they are most), if no flush has added to it for a while. Default 4, from 1 to 64. Larger writes
    /// less and makes every read look into more tables.
    pub l0_tables_trigger: usize,
    /// The same while flushes follow one another. Default 20, from `l0_tables_trigger` to 1000. The more
    /// flushes share a merge, the fewer times the level below is written for them.
    pub l0_tables_trigger_loaded: usize,
    /// What a flush brings, about, in bytes: level 0 is compacted, too, when it holds as much as a trigger's flushes, however
    /// little they overlap. Default 44 MiB, at least 1 KiB.
    pub memtable_bytes: u64,
    /// No level between level 0 and the last is opened whose target would be smaller, in bytes. Default
    /// 256 MiB, at least `table_bytes`. Larger makes fewer levels.
    pub base_bytes: u64,
    /// How many times larger each level is than the one above. Default 10, from 2 to 100. Larger makes
    /// fewer levels (fewer reads, less space), smaller writes less.
    pub fanout: u64,
    /// The size at which an output table is closed, in bytes. Default 32 MiB, at least 4 KiB. Smaller
    /// makes compactions more local and the number of files larger.
    pub table_bytes: u64,
    /// The most input that a job takes on beyond what it must, in bytes. Default 512 MiB, at least
    /// `table_bytes`. It bounds the disk space a job holds twice while it runs.
    pub job_bytes_max: u64,
    /// A flush is cut where this many bytes of the level that level 0 is compacted into lie on one
    /// side, or of the oldest tables of level 0 where there is nothing in that level, so that level 0
    /// falls into columns that can be compacted one by one. Default 8 MiB, at least 4 KiB.
    pub flush_split_bytes: u64,
    /// A table is garbage to be cleaned up, however small its level is, if at least this share of its
    /// entries are tombstones or hidden versions, in percent; and always if it holds range tombstones. Default 20, from 1
    /// to 100. Smaller frees space sooner and writes more.
    pub garbage_percent: u8,
    /// When more than this share of the values in a keyspace's blob files is dead, in percent, the deadest files
    /// are written anew. Default 30, from 1 to 95. Smaller takes less space and writes more.
    pub blob_garbage_percent: u8,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            l0_tables_trigger: 4,
            l0_tables_trigger_loaded: 20,
            memtable_bytes: 44 << 20,
            base_bytes: 256 << 20,
            fanout: 10,
            table_bytes: 32 << 20,
            job_bytes_max: 512 << 20,
            flush_split_bytes: 8 << 20,
            garbage_percent: 20,
            blob_garbage_percent: 30,
        }
    }
}

/// Whether level 0 is growing. Merging it early then means merging the level below once more for every
/// few flushes, so it waits for more of them to share the cost; once nothing comes any more, readers
/// come first, and where they are many, they have all of it merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// No flush for a while.
    Rested,
    /// Flushes follow one another.
    Flushing,
    /// No flush for a while, and reads have spent about as much time in level 0 as it takes to merge it.
    Read,
}

impl Settings {
    /// The depth from which on level 0 is compacted.
    pub(crate) fn l0_trigger(&self, load: Load) -> usize {
        match load {
            Load::Rested | Load::Read => self.l0_tables_trigger,
            Load::Flushing => self.l0_tables_trigger_loaded,
        }
    }

    /// Refuse what is out of bounds; the error names the setting, its value and its bounds.
    pub fn validate(&self) -> Result<()> {
        let within = |name: &str, value: u64, min: u64, max: u64| {
            if (min..=max).contains(&value) {
                return Ok(());
            }
            Err(Error::invalid(format!("{name} is {value}, it must be from {min} to {max}")))
        };
        within("l0_tables_trigger", self.l0_tables_trigger as u64, 1, 64)?;
        let (rested, loaded) = (self.l0_tables_trigger as u64, self.l0_tables_trigger_loaded as u64);
        within("l0_tables_trigger_loaded", loaded, rested, 1000)?;
        within("fanout", self.fanout, 2, 100)?;
        within("table_bytes", self.table_bytes, 4096, 1 << 40)?;
        within("memtable_bytes", self.memtable_bytes, 1 << 10, 1 << 50)?;
        within("base_bytes", self.base_bytes, self.table_bytes, 1 << 50)?;
        within("job_bytes_max", self.job_bytes_max, self.table_bytes, 1 << 50)?;
        within("flush_split_bytes", self.flush_split_bytes, 4096, 1 << 50)?;
        within("garbage_percent", u64::from(self.garbage_percent), 1, 100)?;
        within("blob_garbage_percent", u64::from(self.blob_garbage_percent), 1, 95)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bound_is_named() {
        let good = Settings::default();
        let bad = [
            ("l0_tables_trigger", Settings { l0_tables_trigger: 0, ..good.clone() }),
            ("l0_tables_trigger_loaded", Settings { l0_tables_trigger_loaded: 3, ..good.clone() }),
            ("memtable_bytes", Settings { memtable_bytes: 0, ..good.clone() }),
            ("base_bytes", Settings { base_bytes: 1 << 20, ..good.clone() }),
            ("fanout", Settings { fanout: 101, ..good.clone() }),
            ("table_bytes", Settings { table_bytes: 100, ..good.clone() }),
            ("job_bytes_max", Settings { job_bytes_max: 1 << 20, ..good.clone() }),
            ("flush_split_bytes", Settings { flush_split_bytes: 0, ..good.clone() }),
            ("garbage_percent", Settings { garbage_percent: 0, ..good.clone() }),
            ("blob_garbage_percent", Settings { blob_garbage_percent: 96, ..good }),
        ];
        for (name, settings) in bad {
            let error = settings.validate().expect_err(name).to_string();
            assert!(error.starts_with(name), "{error}");
        }
    }
}
