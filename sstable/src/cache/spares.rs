//! Buffers of blocks that left the cache, for the next ones that enter it.
//!
//! Allocators keep memory by thread: what one thread has cached and another evicts goes back to the first,
//! which may not need it any more. Eight threads that scan in turn so held twice the cache's capacity. A
//! full cache takes from here what it has just let go of, whoever it was.
//!
//! Locks: `kept`, a leaf, once for each block read and each that leaves.

use std::collections::VecDeque;

use esker_base::sync::Mutex;

/// Bytes kept at most.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// Longer buffers are not kept: their blocks are few.
const BUFFER_BYTES_MAX: usize = 64 << 10;

/// Buffers are made this much longer at most, so that blocks of about the same length fit into one another's.
const STEP_BYTES: usize = 256;

/// How many buffers are looked at for one that fits.
const LOOKS_MAX: usize = 8;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Spares {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// Those that came last are at the end.
    buffers: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl Spares {
    /// An empty buffer for `len` bytes that is not much longer; `None` if buffers of that length are not kept.
    pub(super) fn take(&self, len: usize) -> Option<Vec<u8>> {
        if len > BUFFER_BYTES_MAX {
            return None;
        }
        let wanted = len.next_multiple_of(STEP_BYTES);
        let mut kept = self.kept.lock();
        let fits = |buffer: &Vec<u8>| (len..=wanted + wanted / 8).contains(&buffer.capacity());
        let found = kept.buffers.iter().rev().take(LOOKS_MAX).position(fits);
        let buffer = found.and_then(|from_end| {
            let at = kept.buffers.len() - 1 - from_end;
            kept.buffers.swap_remove_back(at)
        });
        if let Some(buffer) = &buffer {
            kept.bytes -= buffer.capacity();
        }
        drop(kept);
        Some(buffer.unwrap_or_else(|| Vec::with_capacity(wanted)))
    }

    /// Keep `buffer`, in the place of those that have lain here longest.
    pub(super) fn give(&self, mut buffer: Vec<u8>) {
        if buffer.capacity() > BUFFER_BYTES_MAX {
            return;
        }
        buffer.clear();
        let mut kept = self.kept.lock();
        kept.bytes += buffer.capacity();
        kept.buffers.push_back(buffer);
        while kept.bytes > KEPT_BYTES_MAX {
            let Some(oldest) = kept.buffers.pop_front() else { return };
            kept.bytes -= oldest.capacity();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_that_fits_is_used_again() {
        let spares = Spares::default();
        let taken = |len| spares.take(len).expect("short");
        let first = taken(4_100);
        assert!((4_100..4_100 + STEP_BYTES).contains(&first.capacity()));
        let at = first.as_ptr();
        spares.give(first);
        let (small, large) = (taken(1_000), taken(8_000));
        assert!(small.as_ptr() != at && large.as_ptr() != at, "it fits neither");
        let again = taken(4_250);
        assert_eq!((again.as_ptr(), again.len()), (at, 0));
        let other = taken(4_100);
        assert_ne!(other.as_ptr(), at, "it is taken");
    }

    #[test]
    fn few_bytes_are_kept() {
        let spares = Spares::default();
        for len in (100..2_000).cycle().take(10_000) {
            spares.give(Vec::with_capacity(len));
        }
        spares.give(Vec::with_capacity(KEPT_BYTES_MAX));
        assert!(spares.take(BUFFER_BYTES_MAX + 1).is_none());
        let kept = spares.kept.lock();
        assert!(kept.bytes <= KEPT_BYTES_MAX && kept.bytes > KEPT_BYTES_MAX - 2_000);
        assert_eq!(kept.bytes, kept.buffers.iter().map(Vec::capacity).sum::<usize>());
    }
}
