//! The memtable: recent writes of all keyspaces, sorted, in memory.
//!
//! One writer (whoever holds the commit queue) inserts through the only [`MemtableWriter`]; any number
//! of readers get, walk and list through `Arc<Memtable>` without a lock. Entries ([`entry`]) and index nodes lie
//! in one append-only arena ([`arena`]); every keyspace has an ordered [`index`] of its own, found
//! through the [`directory`]; range tombstones are kept apart ([`tombstones`]).
//!
//! Invariants:
//! 1. An entry is complete before an index links to it: a reader sees all of it or nothing.
//! 2. The writer publishes a sequence number (release, in the commit queue) after the inserts it
//!    covers; a reader loads its number (acquire) before it calls `get`, `seek*` or `tombstones`, and
//!    then finds every entry and tombstone up to that number. It may also meet newer ones, and passes
//!    over them.
//! 3. Nothing that a reader may have come to is changed or freed before the memtable is dropped as a whole; then its memory
//!    goes on to the next ([`spare`]). Until the first reader comes, index nodes that were replaced are used again
//!    ([`first_read`]).
//!
//! Durability: none of its own; the log segment of the same number holds the same writes.

mod arena;
mod cursor;
mod directory;
mod entry;
mod filter;
mod first_read;
mod index;
mod prepared_insert;
mod spare;
mod tombstones;

#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;

use std::sync::Arc;

use esker_base::checksum::key_hash;
use esker_base::range_tombstone::Fragments;
use esker_base::sync::atomic::{AtomicU64, Ordering};
use esker_base::{InternalKey, KeyspaceId, Kind, SeqNo};

use arena::Arena;
pub(crate) use cursor::MemtableCursor;
use directory::Directory;
use entry::{HEADER_BYTES, Reach};
use filter::{KeyFilter, KeyHash, PendingHashes};
use index::{IndexWriter, Pending};
pub(crate) use spare::SpareChunks;
use tombstones::Tombstones;

/// Bytes of a memtable for each byte of its filter: about eight bits a key for entries of 116 bytes.
const FILTER_SHARE: u64 = 128;
/// The largest filter. It is made whole with the memtable.
const FILTER_BYTES_MAX: usize = 4 << 20;

/// Recent writes, sorted. See the module.
#[derive(Debug)]
pub(crate) struct Memtable {
    directory: Directory,
    /// Entries in all keyspaces.
    entries: AtomicU64,
    /// Range tombstones in all keyspaces.
    range_tombstones: AtomicU64,
    /// Over the keys of all keyspaces.
    filter: Option<KeyFilter>,
    arena: Arc<Arena>,
}

/// The right to write to one memtable. There is one for each.
#[derive(Debug)]
pub(crate) struct MemtableWriter {
    memtable: Arc<Memtable>,
    index: IndexWriter,
    /// See [`MemtableWriter::begin_group`].
    group: Option<SeqNo>,
}

/// What a lookup found: one version of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemEntry<'a> {
    /// The write's number.
    pub(crate) seqno: SeqNo,
    /// What the write did.
    pub(crate) kind: Kind,
    /// Its value or operand.
    pub(crate) value: &'a [u8],
}

impl Memtable {
    /// An empty memtable and its only writer.
    pub(crate) fn new() -> (Arc<Memtable>, MemtableWriter) {
        Memtable::build(None, None)
    }

    /// The same, for about `bytes` bytes of a log: in `spare` chunks where there are any, if it will fill two, one of nodes and
    /// one of entries. Of many short logs each would otherwise take as much.
    pub(crate) fn for_log(bytes: u64, spare: &Arc<SpareChunks>) -> (Arc<Memtable>, MemtableWriter) {
        let is_long = bytes >= 2 * arena::CHUNK_BYTES_MAX as u64;
        Memtable::build(None, is_long.then(|| Arc::clone(spare)))
    }

    /// The same, with a filter for gets, for a memtable that will take about `bytes` bytes.
    pub(crate) fn with_filter(bytes: u64, spare: &Arc<SpareChunks>) -> (Arc<Memtable>, MemtableWriter) {
        let filter = usize::try_from(bytes / FILTER_SHARE).unwrap_or(usize::MAX).min(FILTER_BYTES_MAX);
        Memtable::build(Some(KeyFilter::new(filter)), Some(Arc::clone(spare)))
    }

    fn build(
        filter: Option<KeyFilter>,
        spare: Option<Arc<SpareChunks>>,
    ) -> (Arc<Memtable>, MemtableWriter) {
        let (arena, index) = IndexWriter::new(spare);
        arena.count(filter.as_ref().map_or(0, KeyFilter::bytes));
        let memtable = Arc::new(Memtable {
            directory: Directory::new(),
            entries: AtomicU64::new(0),
            range_tombstones: AtomicU64::new(0),
            filter,
            arena,
        });
        let writer = MemtableWriter { memtable: Arc::clone(&memtable), index, group: None };
        (memtable, writer)
    }

    /// The newest version of `key` with a number not above `seqno`. Range tombstones are not
    /// consulted.
    #[inline]
    pub(crate) fn get(&self, keyspace: KeyspaceId, key: &[u8], seqno: SeqNo) -> Option<MemEntry<'_>> {
        let index = &self.directory.get(keyspace)?.index;
        let entry = index.get(InternalKey::new(key, seqno))?;
        Some(MemEntry { seqno: entry.seqno(), kind: entry.kind(), value: entry.value() })
    }

    /// Whether there may be an entry whose key has the hash `checksum::key_hash(key)`; true where nothing is
    /// known.
    #[inline]
    pub(crate) fn may_contain(&self, keyspace: KeyspaceId, hash: u64) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.may_contain(keyspace, hash))
    }

    /// The keyspace's range tombstones at or below `seqno`, and others; `None`, after one relaxed load, while no keyspace has
    /// any.
    #[inline]
    pub(crate) fn tombstones(&self, keyspace: KeyspaceId, seqno: SeqNo) -> Option<Arc<Fragments>> {
        if self.range_tombstones() == 0 {
            return None;
        }
        self.directory.get(keyspace)?.tombstones.fragments(seqno)
    }

    /// The newest range tombstone of the keyspace over `key` at or below `seqno`; `None`, after one relaxed load, while no
    /// keyspace has any. [`SeqNo::MAX`] is for whoever holds the writer, so that nobody adds any meanwhile: who asks after each
    /// range delete has their fragments built seldom.
    #[inline]
    pub(crate) fn covering(&self, keyspace: KeyspaceId, key: &[u8], seqno: SeqNo) -> Option<SeqNo> {
        if self.range_tombstones() == 0 {
            return None;
        }
        self.directory.get(keyspace)?.tombstones.covering(key, seqno)
    }

    /// A cursor over the keyspace's entries, standing nowhere.
    pub(crate) fn cursor(self: &Arc<Self>, keyspace: KeyspaceId) -> MemtableCursor {
        MemtableCursor::new(Arc::clone(self), keyspace)
    }

    /// How far a typical entry reaches.
    fn reach(&self) -> Reach {
        Reach::of(self.entry_bytes().checked_div(self.entries()).unwrap_or_default())
    }

    /// Keys of `keyspace` that have about as many entries between any two, ascending: some hundreds at most, none if there
    /// are few entries. For a memtable that is sealed.
    pub(crate) fn separators(&self, keyspace: KeyspaceId) -> Vec<&[u8]> {
        self.directory.get(keyspace).map_or_else(Vec::new, |found| found.index.separators())
    }

    /// The keyspaces with entries or range tombstones, by ascending number.
    pub(crate) fn keyspaces(&self) -> Vec<KeyspaceId> {
        self.directory.list()
    }

    /// Bytes of memory held: the arena's chunks, used or not, each keyspace's place in the directory, and
    /// the range tombstones with (about) their fragments. One relaxed load.
    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        self.arena.bytes()
    }

    /// [`bytes`](Self::bytes) but for index nodes that were replaced and stay for readers under way, about a
    /// fifth of a memtable filled with random keys: what its entries are worth. Two relaxed loads.
    #[inline]
    pub(crate) fn live_bytes(&self) -> u64 {
        self.arena.bytes().saturating_sub(self.arena.outgrown())
    }

    /// Whether nothing was written to it. Two relaxed loads.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries() == 0 && self.range_tombstones() == 0
    }

    /// Entries inserted, range tombstones not counted. One relaxed load.
    #[inline]
    pub(crate) fn entries(&self) -> u64 {
        self.entries.load(Ordering::Relaxed)
    }

    /// Bytes of the chunks that entries lie in: of them it is nearest to what writers count as written. One relaxed load.
    #[inline]
    pub(crate) fn entry_bytes(&self) -> u64 {
        self.arena.entry_bytes()
    }

    /// About how many bytes its keys and values have.
    pub(crate) fn payload_bytes(&self) -> u64 {
        self.entry_bytes().saturating_sub(self.entries().saturating_mul(HEADER_BYTES as u64))
    }

    /// One entry more. For the writer: nobody else stores, so a load and a store lose nothing and need no locked
    /// instruction.
    #[inline]
    fn count_entry(&self) {
        self.entries.store(self.entries() + 1, Ordering::Relaxed);
    }

    /// Range tombstones added. One relaxed load.
    #[inline]
    pub(crate) fn range_tombstones(&self) -> u64 {
        self.range_tombstones.load(Ordering::Relaxed)
    }
}

impl MemtableWriter {
    /// Begin to write. What is written is complete once the result is dropped or settled.
    #[inline]
    pub(crate) fn writes(&mut self) -> Writes<'_> {
        let memtable = &*self.memtable;
        let (pending, hashes) = (Pending::default(), PendingHashes::default());
        Writes { memtable, index: &mut self.index, group: self.group, pending, hashes }
    }

    /// What is written from now on, with numbers from `first` on, becomes visible to readers all at once, up to
    /// the next call. Before the first call each write does so alone.
    #[inline]
    pub(crate) fn begin_group(&mut self, first: SeqNo) {
        self.group = Some(first);
    }

    /// The memtable this writes to.
    #[inline]
    pub(crate) fn memtable(&self) -> &Arc<Memtable> {
        &self.memtable
    }
}

#[cfg(test)]
impl MemtableWriter {
    pub(crate) fn insert(
        &mut self,
        keyspace: KeyspaceId,
        key: &[u8],
        seqno: SeqNo,
        kind: Kind,
        value: &[u8],
    ) {
        self.writes().insert(keyspace, key, seqno, kind, value);
    }

    pub(crate) fn delete_range(&mut self, keyspace: KeyspaceId, start: &[u8], end: &[u8], seqno: SeqNo) {
        self.writes().delete_range(keyspace, start, end, seqno);
    }
}

/// Writes to one memtable, one after another: insertions come into the index a few at a time, for speed.
#[derive(Debug)]
pub(crate) struct Writes<'a> {
    memtable: &'a Memtable,
    index: &'a mut IndexWriter,
    /// See [`MemtableWriter::begin_group`].
    group: Option<SeqNo>,
    pending: Pending<'a>,
    /// For the filter.
    hashes: PendingHashes,
}

impl<'a> Writes<'a> {
    /// Insert one entry. `key` and `seqno` together are new to the keyspace; the key is at most
    /// 65,535 bytes and the value at most 1 GiB long, or this panics.
    #[inline]
    pub(crate) fn insert(
        &mut self,
        keyspace: KeyspaceId,
        key: &[u8],
        seqno: SeqNo,
        kind: Kind,
        value: &[u8],
    ) {
        let memtable = self.memtable;
        let found = memtable.directory.get_or_create(keyspace, &memtable.arena);
        if let Some(filter) = &memtable.filter {
            self.hashes.push(filter, KeyHash::new(keyspace, key_hash(key)));
        }
        self.pending.insert(self.index, &found.index, InternalKey::new(key, seqno), kind, value);
        memtable.count_entry();
    }

    /// Delete every key in `[start, end)` written before `seqno`. An empty range does nothing.
    pub(crate) fn delete_range(&mut self, keyspace: KeyspaceId, start: &[u8], end: &[u8], seqno: SeqNo) {
        if start >= end {
            return;
        }
        let memtable = self.memtable;
        let found = memtable.directory.get_or_create(keyspace, &memtable.arena);
        found.tombstones.add(start, end, seqno, self.group.unwrap_or(seqno));
        memtable.arena.count(Tombstones::bytes(start, end));
        let count = memtable.range_tombstones();
        memtable.range_tombstones.store(count + 1, Ordering::Release);
    }

    /// The memtable, with all that was written so far.
    #[inline]
    pub(crate) fn settled(&mut self) -> &'a Memtable {
        self.pending.settle(self.index);
        if let Some(filter) = &self.memtable.filter {
            self.hashes.settle(filter);
        }
        self.memtable
    }
}

impl Drop for Writes<'_> {
    #[inline]
    fn drop(&mut self) {
        self.settled();
    }
}
