//! Whether anybody has ever read a memtable.
//!
//! As long as nobody has, what its writer takes out of an index is seen by nobody, and may be used again: a memtable that is filled
//! while its rows are not asked for takes a sixth less memory for that ([`index`](super::index)). One reader ends it, for good: readers say that they come, but not
//! when they go, which would cost each of them a locked instruction on a line that all write to.
//!
//! Why the writer may trust an answer of "nobody": a reader notes itself, fences, and loads its way into an index; the writer takes a
//! node out, fences, and looks at the note. Whose fence comes second sees what the other did before its own (the two sides of
//! Dekker's mutual exclusion; C++20, 33.5.4, on `seq_cst` fences). A reader that finds [`SEEN`] need not fence: it has acquired what was released
//! behind the fence of one that did.

use esker_base::sync::atomic::{AtomicU8, Ordering, fence};

const NOBODY: u8 = 0;
/// A reader comes, and has not fenced yet.
const COMING: u8 = 1;
/// A reader has noted itself, and fenced.
const SEEN: u8 = 2;

/// See the module.
#[derive(Debug)]
pub(super) struct FirstRead(AtomicU8);

impl FirstRead {
    /// Nobody has read yet.
    pub(super) fn new() -> FirstRead {
        FirstRead(AtomicU8::new(NOBODY))
    }

    /// A reader comes. Called before it loads what leads to a node.
    #[inline]
    pub(super) fn note(&self) {
        if self.0.load(Ordering::Acquire) != SEEN {
            self.note_first();
        }
    }

    #[cold]
    fn note_first(&self) {
        self.0.store(COMING, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.0.store(SEEN, Ordering::Release);
    }

    /// Whether no reader has seen, nor will see, what the writer took out before this call. For the writer.
    #[inline]
    pub(super) fn is_to_come(&self) -> bool {
        let nobody = || self.0.load(Ordering::Relaxed) == NOBODY;
        nobody() && {
            fence(Ordering::SeqCst);
            nobody()
        }
    }
}
