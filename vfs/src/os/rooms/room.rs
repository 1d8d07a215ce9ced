//! A counted pointer to a head and bytes: as `Arc<(H, [u8])>` would be if it were thin and took its memory from
//! [`Rooms`].
//!
//! Invariants:
//! 1. A handle points to memory that `rooms` gave for [`whole`] of its length: a valid [`Front`], and behind it
//!    `len` initialised bytes. `users` is the number of handles.
//! 2. Head and bytes are written to by [`Room::alone`] only, while there is one handle and that is borrowed mutably.
//! 3. The handle that goes last drops the front and gives the memory back, once.

use std::alloc::Layout;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

use esker_base::sync::RefCnt;
use esker_base::sync::atomic::{AtomicUsize, Ordering, fence};

use super::Rooms;

/// A head and bytes, shared by its handles. Cheap to clone; a cell of `arc-swap` can hold it.
pub struct Room<H> {
    front: NonNull<Front<H>>,
    owns: PhantomData<Front<H>>,
}

/// What lies before the bytes.
struct Front<H> {
    users: AtomicUsize,
    len: usize,
    rooms: Arc<Rooms>,
    head: H,
}

// SAFETY: as for `Arc<(H, [u8])>`: handles on several threads share what is behind them, and any of them may be the
// one that drops it.
unsafe impl<H: Send + Sync> Send for Room<H> {}
// SAFETY: as above.
unsafe impl<H: Send + Sync> Sync for Room<H> {}

/// The layout of a front and `len` bytes.
fn whole<H>(len: usize) -> Layout {
    let (layout, bytes_at) = Layout::array::<u8>(len)
        .and_then(|bytes| Layout::new::<Front<H>>().extend(bytes))
        .expect("fewer bytes than half of the address space");
    debug_assert_eq!(bytes_at, size_of::<Front<H>>(), "bytes need no alignment");
    layout
}

impl<H> Room<H> {
    /// What a room takes beside its bytes, at most: the front, and what the allocator needs and rounds up.
    pub const OVERHEAD_BYTES: usize = size_of::<Front<H>>() + 40;

    /// `head` and `len` bytes in memory from `rooms`: first `bytes`, which are not more, then what lies there: to clear
    /// 4 KiB that are read into next took a tenth of that read's time.
    pub fn new(rooms: &Arc<Rooms>, head: H, bytes: &[u8], len: usize) -> Room<H> {
        assert!(bytes.len() <= len, "a room holds what is put into it");
        let front = rooms.take(whole::<H>(len)).cast::<Front<H>>();
        // SAFETY: (1) this memory is nobody else's yet, aligned for the front, and long enough for it and `len` bytes;
        // (2) so `bytes`, which are at most `len`, neither overlap it nor reach beyond it; (3) what is not written was
        // initialised before.
        unsafe {
            front.write(Front { users: AtomicUsize::new(1), len, rooms: Arc::clone(rooms), head });
            let to = front.add(1).cast::<u8>();
            to.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
        }
        Room { front, owns: PhantomData }
    }

    #[inline]
    fn front(&self) -> &Front<H> {
        // SAFETY: (1) invariant 1, for as long as there is this handle; (2) by invariant 2 nobody writes to it while
        // the handle is borrowed, but through its atomics.
        unsafe { self.front.as_ref() }
    }

    /// Its bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: as in `front`: they lie behind it, in the same memory.
        unsafe { std::slice::from_raw_parts(self.front.add(1).cast().as_ptr(), self.front().len) }
    }

    /// Head and bytes to write to, if this is the only handle.
    pub fn alone(&mut self) -> Option<(&mut H, &mut [u8])> {
        // Acquire: what those did that have let go comes before what is written now.
        if self.front().users.load(Ordering::Acquire) != 1 {
            return None;
        }
        let len = self.front().len;
        // SAFETY: (1) as in `front` and `bytes`; (2) there is no other handle, and nobody can make one while this one
        // is borrowed mutably; (3) front and bytes do not overlap.
        unsafe {
            let bytes = std::slice::from_raw_parts_mut(self.front.add(1).cast().as_ptr(), len);
            Some((&mut self.front.as_mut().head, bytes))
        }
    }

    /// Where front, head and bytes lie, in this order, to ask for before they are looked at.
    #[inline]
    pub fn as_ptr(&self) -> *const u8 {
        self.front.cast().as_ptr()
    }

    /// The last handle goes.
    #[cold]
    fn end(&mut self) {
        // SAFETY: (1) invariant 1; (2) nobody else reaches the front, and it is taken out once: a drop ends here and
        // has no second; (3) the memory came from these rooms for this layout, and is initialised again.
        unsafe {
            let Front { len, rooms, head, .. } = self.front.read();
            drop(head);
            // What a front leaves where it has no fields counts as uninitialised.
            self.front.cast::<u8>().write_bytes(0, size_of::<Front<H>>());
            rooms.give(self.front.cast(), whole::<H>(len));
        }
    }
}

impl<H> Deref for Room<H> {
    type Target = H;

    #[inline]
    fn deref(&self) -> &H {
        &self.front().head
    }
}

impl<H: fmt::Debug> fmt::Debug for Room<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Room").field("head", &self.front().head).field("len", &self.front().len).finish()
    }
}

impl<H> Clone for Room<H> {
    #[inline]
    fn clone(&self) -> Self {
        // Relaxed: whoever clones has a handle, which keeps everything in place meanwhile.
        let users = self.front().users.fetch_add(1, Ordering::Relaxed);
        if isize::try_from(users).is_err() {
            // As many were forgotten: the count would begin again. A cell must not be met by a panic here.
            std::process::abort();
        }
        Room { front: self.front, owns: PhantomData }
    }
}

impl<H> Drop for Room<H> {
    #[inline]
    fn drop(&mut self) {
        // Release: what this user did comes before the end.
        if self.front().users.fetch_sub(1, Ordering::Release) == 1 {
            // Acquire: so does what the others did.
            fence(Ordering::Acquire);
            self.end();
        }
    }
}

// SAFETY: `into_ptr` gives a handle's pointer away and `from_ptr` makes it one again, `as_ptr` leads to the same
// place, and it stays there; a clone is one handle more.
unsafe impl<H> RefCnt for Room<H> {
    type Base = std::ffi::c_void;

    #[inline]
    fn into_ptr(me: Self) -> *mut Self::Base {
        ManuallyDrop::new(me).front.as_ptr().cast()
    }

    #[inline]
    fn as_ptr(me: &Self) -> *mut Self::Base {
        me.front.as_ptr().cast()
    }

    #[inline]
    unsafe fn from_ptr(at: *const Self::Base) -> Self {
        // SAFETY: the caller has it from `into_ptr` or `as_ptr`, which give what is not null.
        Room { front: unsafe { NonNull::new_unchecked(at.cast_mut().cast()) }, owns: PhantomData }
    }
}
