//! What every engine has to offer here, and the settings that all of them get.
//!
//! Everything is statically dispatched, so that the seam costs nothing: see the null store's figures.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use crate::keys::Key;

/// Any failure: it ends the run with a message for a person.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Block cache of every engine that has one, in bytes, unless a workload says otherwise.
const CACHE_BYTES: usize = 1 << 30;
/// Size at which a memtable is flushed, in bytes, unless a workload says otherwise.
const MEMTABLE_BYTES: usize = 64 << 20;
/// Memtables that may exist at a time: the active one and those that wait for their flush.
pub(crate) const MEMTABLES: usize = 4;
/// Bits a key in bloom filters.
pub(crate) const FILTER_BITS: u8 = 10;
/// Raw size of a data block, in bytes.
pub(crate) const BLOCK_BYTES: u32 = 4096;
/// LMDB and redb read inside transactions: a new one after this many gets, so that a reader does not
/// hold on to an old state for ever, nor pay for a transaction with every get.
pub(crate) const GETS_PER_TRANSACTION: u32 = 1000;

/// The settings above, by name, for a record.
pub(crate) fn shared_settings() -> BTreeMap<String, u64> {
    [
        ("cache_bytes", CACHE_BYTES as u64),
        ("memtable_bytes", MEMTABLE_BYTES as u64),
        ("memtables", MEMTABLES as u64),
        ("filter_bits", u64::from(FILTER_BITS)),
        ("block_bytes", u64::from(BLOCK_BYTES)),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// What differs from one opening to the next.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "switches that do not depend on each other")]
pub(crate) struct Settings {
    /// A write returns after it is on the device; otherwise after the system has it.
    pub(crate) sync: bool,
    /// Blocks are compressed with LZ4; otherwise not at all.
    pub(crate) lz4: bool,
    /// Block cache of an engine that has one, in bytes.
    pub(crate) cache_bytes: usize,
    /// Size at which a memtable is flushed, in bytes.
    pub(crate) memtable_bytes: usize,
    /// The data is several times what memory may hold: an engine whose reads make the system read ahead
    /// may tell it not to.
    pub(crate) beyond_memory: bool,
    /// What each engine's own guides recommend for this machine and these rows, instead of its defaults.
    pub(crate) tuned: bool,
    /// An engine that can stores its log records into mapped memory, without a call of the system.
    pub(crate) mapped_log: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            sync: false,
            lz4: false,
            cache_bytes: CACHE_BYTES,
            memtable_bytes: MEMTABLE_BYTES,
            beyond_memory: false,
            tuned: false,
            mapped_log: false,
        }
    }
}

/// The way of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// By ascending keys.
    Forward,
    /// By descending keys.
    Reverse,
}

/// An open database with one ordered map of byte strings.
pub(crate) trait Store: Sized + Send + Sync {
    /// Single puts are not what it is made for: fills go in batches of 1,000.
    const BATCHED: bool;
    /// It can compress with LZ4.
    const LZ4: bool;
    /// Unsynced commits survive the process. Otherwise it may keep them in memory of its own.
    const SURVIVES: bool = true;
    /// It keeps nothing: what it reads is made up, what is written is gone.
    const NULL: bool = false;

    /// A view for reads by one thread.
    type Reader<'a>: Reader
    where
        Self: 'a;

    /// Open the database in `dir`, or create it.
    fn open(dir: &Path, settings: Settings) -> Result<Self>;
    /// Set one row, in a commit of its own.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()>;
    /// Set these rows in one commit.
    fn put_all<K: AsRef<[u8]>>(&self, rows: &[(K, &[u8])]) -> Result<()>;
    /// Delete one row, in a commit of its own.
    fn delete(&self, key: &[u8]) -> Result<()>;
    /// Delete these rows in one commit.
    fn delete_all<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<()>;
    /// Delete all rows from `from` up to but not including `to`; false if it offers no such call.
    fn delete_range(&self, from: &Key, to: &Key) -> Result<bool>;
    /// Wait until no flush and no compaction is due. Returns when that was first so.
    fn settle(&self) -> Result<Instant>;
    /// A view for reads by the calling thread. No thread holds two.
    fn reader(&self) -> Result<Self::Reader<'_>>;
    /// Close cleanly.
    fn close(self) -> Result<()>;
}

/// Reads of one thread.
pub(crate) trait Reader {
    /// Show the value of `key` to `see`; false if there is none. Sees recent commits.
    fn get(&mut self, key: &[u8], see: impl FnOnce(&[u8])) -> Result<bool>;

    /// Show the values of `keys`, all of which are there, to `see`, in any order; how many there were. Engines
    /// without such a call get one after the other.
    fn multi_get(&mut self, keys: &[Key], mut see: impl FnMut(&[u8])) -> Result<u64> {
        let mut found = 0;
        for key in keys {
            found += u64::from(self.get(key, &mut see)?);
        }
        Ok(found)
    }

    /// Show up to `rows` rows to `see`: from the first at or after `from` on (in reverse: from the last
    /// at or before it), or from the end if `from` is `None`. Returns how many there were. Sees at least
    /// what was committed before this reader was made.
    fn scan(
        &mut self,
        from: Option<&[u8]>,
        direction: Direction,
        rows: u64,
        see: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64>;

    /// Show all rows whose keys begin with `prefix` to `see`, by ascending keys; how many there were.
    fn prefix(&mut self, prefix: &[u8], see: impl FnMut(&[u8], &[u8])) -> Result<u64>;

    /// Show the first `rows` keys to `see`, by ascending keys, without their values where an engine can do
    /// that; how many there were.
    fn keys(&mut self, rows: u64, mut see: impl FnMut(&[u8])) -> Result<u64> {
        self.scan(None, Direction::Forward, rows, |key, _| see(key))
    }
}

/// Show what `rows` yields to `see`, up to `limit`: for engines whose scans are iterators.
pub(crate) fn show<R, E>(
    rows: impl Iterator<Item = std::result::Result<R, E>>,
    limit: u64,
    mut see: impl FnMut(&R),
) -> Result<u64>
where
    E: std::error::Error + Send + Sync + 'static,
{
    let mut seen = 0;
    // The limit is checked before the next row is asked for: making one that nobody sees costs time.
    let mut rows = rows;
    while seen < limit {
        let Some(row) = rows.next() else { break };
        see(&row?);
        seen += 1;
    }
    Ok(seen)
}
