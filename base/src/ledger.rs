//! The memory ledger: every large class of memory that comes and goes in many places debits one account. Memtables and the
//! log's buffer, which lie in one place each, are asked for what they hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What memory is held for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Purpose {
    /// Data blocks in the cache.
    Cache = 0,
    /// Indexes, filters and properties of open tables, and the cache's slots for them and for blob files.
    TableMetadata = 1,
    /// What flushes and compactions write tables and blob files with: buffers, and what becomes filters and indexes.
    Compaction = 2,
}

/// Every purpose with its name, in the order of the accounts.
pub const PURPOSES: [(Purpose, &str); 3] = [
    (Purpose::Cache, "cache"),
    (Purpose::TableMetadata, "table metadata"),
    (Purpose::Compaction, "compaction"),
];

/// Bytes held, by purpose. Cheap to share; a debit is one relaxed atomic add.
#[derive(Debug, Default)]
pub struct Ledger {
    bytes: [AtomicU64; PURPOSES.len()],
}

impl Ledger {
    /// Take `bytes` for `purpose`; they are given back when the result is dropped.
    pub fn hold(self: &Arc<Self>, purpose: Purpose, bytes: u64) -> Held {
        self.bytes[purpose as usize].fetch_add(bytes, Ordering::Relaxed);
        Held { ledger: Arc::clone(self), purpose, bytes }
    }

    /// Bytes held for `purpose` now.
    pub fn held(&self, purpose: Purpose) -> u64 {
        self.bytes[purpose as usize].load(Ordering::Relaxed)
    }

    /// Bytes held for everything.
    pub fn total(&self) -> u64 {
        self.bytes.iter().map(|b| b.load(Ordering::Relaxed)).sum()
    }
}

/// Bytes taken from a [`Ledger`], given back on drop.
///
/// ```
/// use esker_base::ledger::{Ledger, Purpose};
/// let ledger = std::sync::Arc::new(Ledger::default());
/// let held = ledger.hold(Purpose::Cache, 4096);
/// assert_eq!(ledger.total(), 4096);
/// drop(held);
/// assert_eq!(ledger.total(), 0);
/// ```
#[derive(Debug)]
pub struct Held {
    ledger: Arc<Ledger>,
    purpose: Purpose,
    bytes: u64,
}

impl Held {
    /// Hold `bytes` in all from now on.
    pub fn resize(&mut self, bytes: u64) {
        let account = &self.ledger.bytes[self.purpose as usize];
        if bytes >= self.bytes {
            account.fetch_add(bytes - self.bytes, Ordering::Relaxed);
        } else {
            account.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
    }

    /// How many bytes are held.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.ledger.bytes[self.purpose as usize].fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
