//! Bugs planted on purpose, to see that the suites find them.
//!
//! Without the feature `planted` nothing here costs anything: [`is`] is `false` at compile time. With it,
//! a test chooses a bug for its own thread, where step mode runs everything. Most bugs are planted in a
//! filesystem under the engine; here are those that only the engine itself can have.

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// A run assumes that nothing lies below its output: tombstones are dropped too early.
    EarlyTombstone,
    /// Without a log, a flush commits one keyspace's tables before the others'.
    LoneFlush,
    /// A run folds merge operands together though a snapshot lies between them.
    FoldAcrossSnapshot,
    /// A run knows of no snapshot.
    SnapshotsForgotten,
    /// A get passes over the range tombstones of sealed memtables.
    SealedTombstones,
    /// A filter denies one key in 64 that is there.
    FilterDenies,
    /// A cursor that turns from reverse to forward passes over a row.
    TurningCursor,
    /// A scan of keys alone knows of no range tombstones.
    KeysPastTombstones,
    /// A cursor that has failed once stands at an end from then on, without an error.
    HealedCursor,
    /// A group's operations become visible one by one.
    TornGroup,
    /// A batch is logged as two records.
    TornRecord,
    /// A transaction forgets the ranges that it has scanned.
    ForgottenScan,
    /// A transaction is not checked against its own commit group.
    UncheckedGroup,
    /// A failed sync of a log does not stop writes.
    SyncTriedAgain,
    /// The manifest is not told how far the log in use is durable.
    NoWitness,
    /// A log is made of the file of one that holds what is in no table yet.
    LiveLogReused,
    /// `persist` returns without a sync.
    IdlePersist,
    /// Checksums know nothing of the place they are for.
    PlacelessChecksum,
    /// The checksum of a table's block is not compared.
    UncheckedBlock,
    /// Tables are mapped into memory whatever was asked for.
    MappedTables,
    /// A length in a log is not compared with its limit.
    UncheckedLength,
    /// The payload of a callback's panic is dropped without protection.
    UnguardedDrop,
    /// Damage found in a log ends in a panic.
    PanicOnDamage,
    /// Damage in one table closes the database.
    DamageSpreads,
    /// A panic of a callback in a read goes on to the reader.
    PanicEscapes,
    /// A put into a range that is known to be dead does not bring it back to life.
    DeadForever,
    /// The time that a flush took is computed as if clocks never went back.
    UncheckedElapsed,
    /// A reader loads its number before its superversion.
    NumberFirst,
    /// Rows of a flush that is ending are shown in its memtable and in its tables.
    ShownTwice,
    /// A sync makes durable, by its own account, what was written while it ran.
    SyncedMeanwhile,
    /// Those who wait for a sync are woken before the next one may begin.
    WokenEarly,
    /// Commits are taken while the database closes.
    CommitsWhileClosing,
}

#[cfg(feature = "planted")]
mod chosen {
    use super::Planted;
    use std::cell::Cell;

    thread_local! {
        static CHOSEN: Cell<Option<Planted>> = const { Cell::new(None) };
    }

    /// From now on this thread runs with `bug`, or without one.
    pub fn choose(bug: Option<Planted>) {
        CHOSEN.set(bug);
    }

    /// Whether this thread runs with `bug`.
    #[inline]
    pub fn is(bug: Planted) -> bool {
        CHOSEN.get() == Some(bug)
    }
}

#[cfg(feature = "planted")]
pub use chosen::{choose, is};

/// Does nothing, in this build.
#[cfg(not(feature = "planted"))]
pub const fn choose(_bug: Option<Planted>) {}

/// Whether this thread runs with `bug`: never, in this build.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub const fn is(_bug: Planted) -> bool {
    false
}
