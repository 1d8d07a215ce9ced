//! A cached block: what is known of it and its bytes, in one allocation. A get that finds it in its slot can ask for
//! the bytes at once: it need not wait for a header that says where they are, which lay in another page.

use esker_base::ledger::Held;
use esker_base::sync::atomic::{AtomicBool, Ordering};
use triomphe::{Arc, ThinArc};

use crate::block::Label;

/// A block in the cache, or that was there: a handle, cheap to clone.
pub(crate) type CachedBlock = ThinArc<Head, u8>;

/// What lies before the bytes.
#[derive(Debug)]
pub(crate) struct Head {
    /// How to read them.
    pub(crate) label: Label,
    /// The block's length; the room for it may be larger.
    pub(crate) len: usize,
    /// Used since the clock's hand last passed.
    referenced: AtomicBool,
    /// The room's debit; `None` while it is a [`Blank`].
    held: Option<Held>,
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
    /// Room for `len` bytes, all zero.
    pub(super) fn new(len: usize) -> Blank {
        let head = Head { label: Label::default(), len: 0, referenced: AtomicBool::new(false), held: None };
        Blank(ThinArc::from_header_and_slice(head, &vec![0; len]))
    }

    /// The room of `block`, unless somebody still reads it. Its debit is given back.
    pub(super) fn of(mut block: CachedBlock) -> Option<Blank> {
        let is_free = block.with_arc_mut(|block| match Arc::get_mut(block) {
            Some(block) => {
                block.header_mut().held = None;
                true
            }
            None => false,
        });
        is_free.then_some(Blank(block))
    }

    /// All the bytes there is room for.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0.slice
    }

    /// Let `write` write to them.
    pub(crate) fn write<R>(&mut self, write: impl FnOnce(&mut [u8]) -> R) -> R {
        self.0
            .with_arc_mut(|block| write(Arc::get_mut(block).expect("nobody else has seen it").slice_mut()))
    }

    /// The block whose first `len` bytes were written, read as `label` says, with its debit.
    pub(super) fn finish(mut self, label: Label, len: usize, held: Held) -> CachedBlock {
        self.0.with_arc_mut(|block| {
            let head = Arc::get_mut(block).expect("nobody else has seen it").header_mut();
            *head = Head { label, len, referenced: AtomicBool::new(false), held: Some(held) };
        });
        self.0
    }
}
