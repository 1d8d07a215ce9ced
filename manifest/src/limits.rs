//! Bounds on what the manifest takes, from disk or from the engine.
//!
//! No database in this world reaches them. Their use: whatever bytes a directory holds, no number, sum or
//! successor that the engine computes from them overflows.

use esker_base::{FileNumber, SeqNo};

/// Levels of a tree, level 0 included.
pub const LEVELS: usize = 7;
/// File numbers stay below this.
pub const FILE_NUMBER_END: u64 = 1 << 48;
/// Whether a file of this number in the directory may be the database's own. A number that no handle ever
/// comes to belongs to somebody else's file, which is passed over.
pub fn may_be_ours(number: FileNumber) -> bool {
    number.0 < FILE_NUMBER_END / LEFT_AT_OPEN
}

/// Keyspace ids stay below this.
pub const KEYSPACE_ID_END: u32 = 1 << 31;
/// Keyspaces that a database may have at a time; a commit that creates more is refused.
pub const KEYSPACES_MAX: usize = 1 << 16;
/// Sequence numbers in the manifest stay below this: half of what the format of keys allows, so that a
/// recovered database always has numbers left.
pub const SEQNO_END: SeqNo = SeqNo(1 << 55);
/// Sizes in bytes, counts, and times in milliseconds stay below this.
pub const COUNT_END: u64 = 1 << 48;

/// How many file numbers, keyspace ids and sequence numbers a database must have left to be opened: half of
/// them. What a handle uses up from there on, before the next open, stays inside of the bounds above.
pub(crate) const LEFT_AT_OPEN: u64 = 2;
