//! Typed events with reasons: what the engine did in the background, and why.

use std::time::Duration;

use crate::{Error, FileNumber, KeyspaceId};

/// Something that happened. Listeners get it on the thread that did the work, which holds no lock.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A memtable was closed to writes and a new log begun.
    MemtableSealed {
        /// The log that belongs to the sealed memtable.
        log: FileNumber,
        /// Bytes in the memtable.
        bytes: u64,
        /// Why it was sealed.
        reason: SealReason,
    },
    /// A memtable became tables in level 0.
    Flushed {
        /// The log whose entries are in tables now.
        log: FileNumber,
        /// The new tables, with their size in bytes.
        tables: Vec<(KeyspaceId, FileNumber, u64)>,
        /// How long it took, by the database's clock.
        took: Duration,
    },
    /// Tables were merged, or moved down without rewriting.
    Compacted {
        /// The keyspace.
        keyspace: KeyspaceId,
        /// The first input level.
        from_level: u8,
        /// The output level.
        to_level: u8,
        /// Input tables.
        inputs: Vec<FileNumber>,
        /// Output tables; equal to `inputs` after a trivial move.
        outputs: Vec<FileNumber>,
        /// Bytes read.
        bytes_in: u64,
        /// Bytes written.
        bytes_out: u64,
        /// Why it was picked, for people.
        reason: String,
        /// How long it took, by the database's clock.
        took: Duration,
    },
    /// A background job failed. Reads go on; see the error for what happens to writes.
    JobFailed {
        /// The job's name.
        job: &'static str,
        /// What went wrong.
        error: Error,
        /// Whether the job will be tried again by itself.
        will_retry: bool,
    },
    /// A writer had to wait for 100 ms or more, at a hard limit: one that is only slowed down waits for 10
    /// ms at most. The event comes when the wait is over and the write goes on; a wait that ends in
    /// [`Error::WouldStall`] has no event.
    WriteStall {
        /// What it waited for: `a flush`, `a compaction of level 0`; the last of them if there were several. (Or `compactions to
        /// catch up`, where the machine made a short delay a long one.)
        reason: &'static str,
        /// How long it waited.
        waited: Duration,
    },
    /// An earlier failure stopped writes on this handle.
    WritesStopped {
        /// The failure.
        error: Error,
    },
}

/// Why a memtable was sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SealReason {
    /// It reached its size, or the most range deletions that a memtable takes.
    Full,
    /// Somebody called `flush`, `persist` without a log, or `checkpoint`.
    Asked,
    /// The database is closing.
    Closing,
    /// Hardly anybody wrote to it any more, and reads had spent about as much time in it as its flush takes.
    Reads,
}

/// Receives events. Must not block; a panic is contained and counted, and changes nothing else.
///
/// Mostly called on the engine's threads, which on a small machine are kept off a writer's processor at times (Linux): a
/// thread that is started from here would inherit that, and keep it.
pub trait Listener: Send + Sync {
    /// `event` has happened.
    fn on_event(&self, event: &Event);
}

impl<F: Fn(&Event) + Send + Sync> Listener for F {
    fn on_event(&self, event: &Event) {
        self(event);
    }
}
