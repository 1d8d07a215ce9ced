//! Memory that goes from one memtable to the next.
//!
//! A memtable that was flushed leaves its largest chunks here, and the one that is being filled takes its own from
//! here first. Given back to the system they would have to be asked for again, cleared, and, under a hypervisor, found:
//! a tenth to five milliseconds for each in which a put waits, 80 ns a put of 116 bytes here on average. What lies
//! here unused is given back after a while ([`SpareChunks::rest`]). The first memtables, and those that a recovery fills, have
//! nobody to take from: whoever takes while few are left has a job bring in the next ones, which takes as long, but on another
//! thread.

use std::sync::{Arc, Weak};

use esker_base::sync::Mutex;
use esker_base::sync::atomic::{AtomicBool, Ordering};
use esker_vfs::os::region::Region;
use esker_vfs::scheduler::{Job, Lane, Progress, Scheduler};

use super::arena::CHUNK_BYTES_MAX;

/// No more are brought in ahead: each is memory that is held beside the memtables' for as long as somebody writes. With six,
/// fills took as long, and recoveries a sixteenth less; with two, fills took as long.
const AHEAD_MAX: usize = 1;

/// A memtable begins with long chunks only if at least this many are worth keeping: in a smaller one the unused rest of a
/// long chunk would be too much.
const TO_BEGIN_WITH: usize = 24;

/// Chunks of [`CHUNK_BYTES_MAX`] bytes that belong to no memtable.
pub(crate) struct SpareChunks {
    chunks: Mutex<Vec<Region>>,
    /// How many are kept.
    count_max: usize,
    /// Whether any was taken since the last rest.
    taken: AtomicBool,
    /// Whether a job brings some in.
    coming: AtomicBool,
    scheduler: Arc<dyn Scheduler>,
}

impl SpareChunks {
    /// None yet; at most `bytes_max` bytes are kept. Jobs run on `scheduler`.
    pub(crate) fn new(bytes_max: u64, scheduler: Arc<dyn Scheduler>) -> Arc<Self> {
        let count_max = usize::try_from(bytes_max).unwrap_or(usize::MAX) / CHUNK_BYTES_MAX;
        Arc::new(SpareChunks {
            chunks: Mutex::new(Vec::new()),
            count_max,
            taken: AtomicBool::new(false),
            coming: AtomicBool::new(false),
            scheduler,
        })
    }

    /// Bytes kept.
    pub(crate) fn bytes(&self) -> u64 {
        (self.chunks.lock().len() * CHUNK_BYTES_MAX) as u64
    }

    /// One of them, for a writer who fills one after another. Its content is whatever was written last.
    pub(super) fn take(self: &Arc<Self>) -> Option<Region> {
        self.scheduler.note_writing();
        self.taken.store(true, Ordering::Relaxed);
        let chunk = self.chunks.lock().pop();
        if self.are_few() && !self.coming.swap(true, Ordering::Relaxed) {
            self.scheduler.spawn(Lane::Compaction, Box::new(BringIn { spare: Arc::downgrade(self) }));
        }
        chunk
    }

    /// Whether a memtable is to take such chunks from its first entry on: one was taken lately, so that they are filled one after
    /// the other, and memtables are so large that it makes no difference. Shorter chunks would be allocated and freed again for
    /// each memtable, beside these, which wait for the next.
    pub(super) fn are_to_begin_with(&self) -> bool {
        self.count_max >= TO_BEGIN_WITH && self.taken.load(Ordering::Relaxed)
    }

    /// Whether more are to be brought in. A quarter of what is kept is enough, so that small memtables do not come to large
    /// memory.
    fn are_few(&self) -> bool {
        self.chunks.lock().len() < AHEAD_MAX.min(self.count_max / 4)
    }

    /// Keep these, as far as there is room.
    pub(super) fn put(&self, mut chunks: Vec<Region>) {
        let mut kept = self.chunks.lock();
        let room = self.count_max.saturating_sub(kept.len());
        kept.extend(chunks.drain(..room.min(chunks.len())));
        drop(kept);
        // Those that are too many are freed behind the lock.
        drop(chunks);
    }

    /// Give all of them back to the system if none was taken since the last call.
    pub(crate) fn rest(&self) {
        if !self.taken.swap(false, Ordering::Relaxed) {
            self.give_back();
        }
    }

    /// Give all of them back to the system: nobody is going to write for a while.
    pub(crate) fn give_back(&self) {
        self.taken.store(false, Ordering::Relaxed);
        let unused = std::mem::take(&mut *self.chunks.lock());
        drop(unused);
    }
}

impl std::fmt::Debug for SpareChunks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SpareChunks").field("chunks", &self.chunks).finish_non_exhaustive()
    }
}

/// Brings in chunks until there are enough.
struct BringIn {
    spare: Weak<SpareChunks>,
}

impl Job for BringIn {
    fn name(&self) -> &'static str {
        "memory for memtables"
    }

    fn step(&mut self) -> Progress {
        let Some(spare) = self.spare.upgrade() else { return Progress::Done };
        if spare.are_few()
            && let Some(region) = Region::brought_in()
        {
            spare.put(vec![region]);
            return Progress::More;
        }
        spare.coming.store(false, Ordering::Relaxed);
        Progress::Done
    }

    /// Whoever needs memory brings it in, until this is tried again.
    fn panicked(&mut self, _message: &str) {
        if let Some(spare) = self.spare.upgrade() {
            spare.coming.store(false, Ordering::Relaxed);
        }
    }
}
