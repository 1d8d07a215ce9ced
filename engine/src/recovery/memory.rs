//! Memory for the memtable that a log becomes, brought in on a thread beside the one that reads.
//!
//! A fresh page is cleared by the system when it is first touched, and under a hypervisor found as well: of the time that
//! recovery took to read a log of 60 MB, that was a third.

use std::sync::{Arc, Weak};

use esker_vfs::scheduler::{Job, Progress};

use crate::memtable::SpareChunks;

/// What this many bytes of a log become lies in small chunks, which are not brought in beforehand.
const SMALL_BYTES: u64 = 8 << 20;
/// Bytes of a chunk.
const CHUNK_BYTES: u64 = SpareChunks::CHUNK_BYTES as u64;

/// See the module.
pub(super) struct BringIn {
    spare: Weak<SpareChunks>,
    /// How many chunks are still to come.
    chunks: u64,
}

impl BringIn {
    /// The job for a log of at most `bytes` bytes; `None` for a small one.
    pub(super) fn for_log(bytes: u64, spare: &Arc<SpareChunks>) -> Option<Self> {
        let chunks = bytes.saturating_sub(SMALL_BYTES) / CHUNK_BYTES;
        (chunks > 0).then(|| BringIn { spare: Arc::downgrade(spare), chunks })
    }
}

impl Job for BringIn {
    fn name(&self) -> &'static str {
        "memory for recovery"
    }

    fn step(&mut self) -> Progress {
        let Some(spare) = self.spare.upgrade() else { return Progress::Done };
        if self.chunks == 0 || !spare.bring_in() {
            return Progress::Done;
        }
        self.chunks -= 1;
        Progress::More
    }

    /// Who needs memory brings it in.
    fn panicked(&mut self, _message: &str) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_log_has_memory_brought_in_and_no_more_than_may_be_kept() {
        let spare = Arc::new(SpareChunks::new(10 * CHUNK_BYTES));
        assert!(BringIn::for_log(SMALL_BYTES, &spare).is_none());
        let log_bytes = |chunks| SMALL_BYTES + chunks * CHUNK_BYTES;
        for (chunks, kept) in [(2, 2), (3, 5), (1 << 40, 10)] {
            let mut job = BringIn::for_log(log_bytes(chunks), &spare).expect("a large log");
            while job.step() == Progress::More {}
            assert_eq!(spare.bytes(), kept * CHUNK_BYTES);
        }
        let mut late = BringIn::for_log(log_bytes(1), &spare).expect("a large log");
        drop(spare);
        assert_eq!(late.step(), Progress::Done, "nobody is left to bring it in for");
    }
}
