//! Memory that goes from one memtable to the next.
//!
//! A memtable that was flushed leaves its largest chunks here, and the one that is being filled takes its own from
//! here first. Given back to the system they would have to be asked for again, cleared, and, under a hypervisor, found:
//! a tenth to five milliseconds for each in which a put waits, 80 ns a put of 116 bytes here on average. What lies
//! here unused is given back after a while ([`SpareChunks::rest`]). A recovery, before which nothing was left, has some
//! brought in ([`SpareChunks::bring_in`]).

use esker_base::sync::Mutex;
use esker_base::sync::atomic::{AtomicBool, Ordering};

use super::arena::{CHUNK_BYTES_MAX, Chunk};

/// Chunks of [`CHUNK_BYTES_MAX`] bytes that belong to no memtable.
#[derive(Debug)]
pub(crate) struct SpareChunks {
    chunks: Mutex<Vec<Chunk>>,
    /// How many are kept.
    count_max: usize,
    /// Whether any was taken since the last rest.
    taken: AtomicBool,
}

impl SpareChunks {
    /// Bytes of one of them.
    pub(crate) const CHUNK_BYTES: usize = CHUNK_BYTES_MAX;

    /// None yet; at most `bytes_max` bytes are kept.
    pub(crate) fn new(bytes_max: u64) -> Self {
        let count_max = usize::try_from(bytes_max).unwrap_or(usize::MAX) / CHUNK_BYTES_MAX;
        SpareChunks { chunks: Mutex::new(Vec::new()), count_max, taken: AtomicBool::new(false) }
    }

    /// Bytes kept.
    pub(crate) fn bytes(&self) -> u64 {
        (self.chunks.lock().len() * CHUNK_BYTES_MAX) as u64
    }

    /// Have the system bring in one more; whether there was room for it.
    pub(crate) fn bring_in(&self) -> bool {
        let room = self.chunks.lock().len() < self.count_max;
        if room {
            self.put(std::iter::once(Chunk::brought_in()));
        }
        room
    }

    /// One of them. Its content is whatever was written last.
    pub(super) fn take(&self) -> Option<Chunk> {
        self.taken.store(true, Ordering::Relaxed);
        self.chunks.lock().pop()
    }

    /// Keep these, as far as there is room.
    pub(super) fn put(&self, chunks: impl Iterator<Item = Chunk>) {
        // Those that are too many are freed behind the lock.
        let _surplus: Vec<Chunk> = {
            let mut kept = self.chunks.lock();
            let room = self.count_max.saturating_sub(kept.len());
            let mut chunks = chunks;
            kept.extend(chunks.by_ref().take(room));
            chunks.collect()
        };
    }

    /// Give all of them back to the system if none was taken since the last call.
    pub(crate) fn rest(&self) {
        if !self.taken.swap(false, Ordering::Relaxed) {
            let _unused = std::mem::take(&mut *self.chunks.lock());
        }
    }
}
