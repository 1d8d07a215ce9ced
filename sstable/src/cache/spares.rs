//! Room of blocks that left the cache, for the next ones that enter it.
//!
//! Allocators keep memory by thread: what one thread has cached and another evicts goes back to the first,
//! which may not need it any more. Eight threads that scan in turn so held twice the cache's capacity. A
//! full cache takes from here what it has just let go of, whoever it was.
//!
//! Locks: `kept`, a leaf, once for each block read and each that leaves.

use std::collections::VecDeque;

use esker_base::sync::Mutex;

use super::cached::{Blank, CachedBlock};

/// Bytes kept at most.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// Longer blocks' room is not kept: they are few.
const ROOM_BYTES_MAX: usize = 64 << 10;

/// Room is made this much longer at most, so that blocks of about the same length fit into one another's.
const STEP_BYTES: usize = 256;

/// How many rooms are looked at for one that fits.
const LOOKS_MAX: usize = 8;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Spares {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// Those that came last are at the end.
    rooms: VecDeque<Blank>,
    bytes: usize,
}

/// Bytes of the room that is made for a block of `len`.
pub(super) fn room_bytes(len: usize) -> usize {
    if len > ROOM_BYTES_MAX { len } else { len.next_multiple_of(STEP_BYTES) }
}

impl Spares {
    /// Room for `len` bytes that is not much longer.
    pub(super) fn take(&self, len: usize) -> Blank {
        if len > ROOM_BYTES_MAX {
            return Blank::new(len);
        }
        let wanted = room_bytes(len);
        let mut kept = self.kept.lock();
        let fits = |room: &Blank| (len..=wanted + wanted / 8).contains(&room.bytes().len());
        let found = kept.rooms.iter().rev().take(LOOKS_MAX).position(fits);
        let room = found.and_then(|from_end| {
            let at = kept.rooms.len() - 1 - from_end;
            kept.rooms.swap_remove_back(at)
        });
        if let Some(room) = &room {
            kept.bytes -= room.bytes().len();
        }
        drop(kept);
        room.unwrap_or_else(|| Blank::new(wanted))
    }

    /// Keep the room of `block`, if nobody reads it any more, in the place of what has lain here longest.
    pub(super) fn give(&self, block: CachedBlock) {
        let Some(room) = Blank::of(block).filter(|room| room.bytes().len() <= ROOM_BYTES_MAX) else {
            return;
        };
        let mut kept = self.kept.lock();
        kept.bytes += room.bytes().len();
        kept.rooms.push_back(room);
        while kept.bytes > KEPT_BYTES_MAX {
            let Some(oldest) = kept.rooms.pop_front() else { return };
            kept.bytes -= oldest.bytes().len();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use esker_base::ledger::{Ledger, Purpose};

    use super::*;
    use crate::block::Label;

    fn finished(blank: Blank) -> CachedBlock {
        let held = Arc::new(Ledger::default()).hold(Purpose::Cache, 1);
        blank.finish(Label::default(), 0, held)
    }

    #[test]
    fn room_that_fits_is_used_again_if_nobody_reads_it() {
        let spares = Spares::default();
        let first = spares.take(4_100);
        assert!((4_100..4_100 + STEP_BYTES).contains(&first.bytes().len()));
        let at = first.bytes().as_ptr();
        spares.give(finished(first));
        let (small, large) = (spares.take(1_000), spares.take(8_000));
        assert!(small.bytes().as_ptr() != at && large.bytes().as_ptr() != at, "it fits neither");
        let again = spares.take(4_250);
        assert_eq!(again.bytes().as_ptr(), at);
        let block = finished(again);
        let reader = block.clone();
        spares.give(block);
        let other = spares.take(4_100);
        assert_ne!(other.bytes().as_ptr(), at, "it is read");
        drop(reader);
    }

    #[test]
    fn few_bytes_are_kept() {
        let spares = Spares::default();
        for len in (100..2_000).cycle().take(10_000) {
            spares.give(finished(Blank::new(len)));
        }
        spares.give(finished(Blank::new(KEPT_BYTES_MAX)));
        let kept = spares.kept.lock();
        assert!(kept.bytes <= KEPT_BYTES_MAX && kept.bytes > KEPT_BYTES_MAX - 2_000);
        assert_eq!(kept.bytes, kept.rooms.iter().map(|room| room.bytes().len()).sum::<usize>());
    }
}
