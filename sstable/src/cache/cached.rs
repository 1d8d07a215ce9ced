//! A cached block: what is known of it and its bytes, in one piece of memory. A get that finds it in its slot can
//! ask for the bytes at once: it need not wait for a header that says where they are, which lay in another page.

use std::sync::Arc;

use esker_base::ledger::Held;
use esker_base::sync::atomic::{AtomicBool, Ordering};
use esker_vfs::os::rooms::{Room, Rooms};

use crate::block::Label;

/// A block in the cache, or that was there: a handle, cheap to clone.
pub(crate) type CachedBlock = Room<Head>;

/// What lies before the bytes.
#[derive(Debug)]
pub(crate) struct Head {
    /// How to read them.
    pub(crate) label: Label,
    /// The block's length; the room for it may be larger.
    pub(crate) len: usize,
    /// Used since the clock's hand last passed.
    referenced: AtomicBool,
    /// The room's debit.
    _held: Held,
}

impl Head {
    /// Mark as used. Looks before it writes: a hot block's mark stays set and its line stays shared.
    #[inline]
    pub(crate) fn mark(&self) {
        if !self.referenced.load(Ordering::Relaxed) {
            self.referenced.store(true, Ordering::Relaxed);
        }
    }

    /// Take the mark away; whether it was there.
    pub(crate) fn unmark(&self) -> bool {
        self.referenced.swap(false, Ordering::Relaxed)
    }
}

/// Room for a block that nobody has seen yet.
#[derive(Debug)]
pub(crate) struct Blank(CachedBlock);

impl Blank {
    /// Room for `len` bytes, debited by `held`: first `bytes`, then whatever lies there.
    pub(super) fn new(rooms: &Arc<Rooms>, bytes: &[u8], len: usize, held: Held) -> Blank {
        let head =
            Head { label: Label::default(), len: 0, referenced: AtomicBool::new(false), _held: held };
        Blank(Room::new(rooms, head, bytes, len))
    }

    fn alone(&mut self) -> (&mut Head, &mut [u8]) {
        self.0.alone().expect("nobody else has seen it")
    }

    /// All the bytes there is room for.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }

    /// Them, to write to.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        self.alone().1
    }

    /// The block whose first `len` bytes were written, to be read as `label` says.
    pub(crate) fn finish(mut self, label: Label, len: usize) -> CachedBlock {
        let head = self.alone().0;
        (head.label, head.len) = (label, len);
        self.0
    }
}
