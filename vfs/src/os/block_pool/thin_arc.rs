//! A reference-counted pointer to a header and bytes: as `Arc<(H, [u8])>` would be if the pointer were thin, the length
//! lying beside the count, and the memory came from a [`BlockPool`].
//!
//! Invariants:
//! 1. A handle points to memory that `pool` allocated for [`whole`] of its length: a valid [`Inner`], and after it
//!    `len` initialised bytes. `handles` is the number of handles.
//! 2. Header and bytes are written to by [`ThinArc::get_mut`] only, while there is one handle and that is borrowed mutably.
//! 3. The handle that is dropped last drops the [`Inner`] and gives the memory back, once.

use std::alloc::Layout;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

use esker_base::sync::RefCnt;
use esker_base::sync::atomic::{AtomicUsize, Ordering, fence};

use super::BlockPool;

/// A header and bytes, shared by its handles. Cheap to clone; a cell of `arc-swap` can hold it.
pub struct ThinArc<H> {
    inner: NonNull<Inner<H>>,
    owns: PhantomData<Inner<H>>,
}

/// What lies before the bytes.
struct Inner<H> {
    handles: AtomicUsize,
    len: usize,
    pool: Arc<BlockPool>,
    header: H,
}

// SAFETY: as for `Arc<(H, [u8])>`: handles on several threads share what they point to, and any of them may be the
// one that drops it.
unsafe impl<H: Send + Sync> Send for ThinArc<H> {}
// SAFETY: as above.
unsafe impl<H: Send + Sync> Sync for ThinArc<H> {}

/// The layout of an [`Inner`] and `len` bytes.
fn whole<H>(len: usize) -> Layout {
    let (layout, bytes_at) = Layout::array::<u8>(len)
        .and_then(|bytes| Layout::new::<Inner<H>>().extend(bytes))
        .expect("fewer bytes than half of the address space");
    debug_assert_eq!(bytes_at, size_of::<Inner<H>>(), "bytes need no alignment");
    layout
}

impl<H> ThinArc<H> {
    /// Memory taken beside the bytes, in bytes, at most: the `Inner`, and what the allocator needs and rounds up.
    pub const OVERHEAD_BYTES: usize = size_of::<Inner<H>>() + 40;

    /// `header` and `len` bytes in memory from `pool`: first `bytes`, which are at most `len`, then
    /// arbitrary ones: clearing 4 KiB that are read into next took a tenth of that read's time.
    pub fn new(pool: &Arc<BlockPool>, header: H, bytes: &[u8], len: usize) -> ThinArc<H> {
        assert!(bytes.len() <= len, "it holds what is put into it");
        let inner = pool.allocate(whole::<H>(len)).cast::<Inner<H>>();
        // SAFETY: (1) this memory is nobody else's yet, aligned for the `Inner`, and long enough for it and `len` bytes;
        // (2) so `bytes`, which are at most `len`, neither overlap it nor reach beyond it; (3) what is not written was
        // initialised before.
        unsafe {
            inner.write(Inner { handles: AtomicUsize::new(1), len, pool: Arc::clone(pool), header });
            let to = inner.add(1).cast::<u8>();
            to.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
        }
        ThinArc { inner, owns: PhantomData }
    }

    #[inline]
    fn inner(&self) -> &Inner<H> {
        // SAFETY: (1) invariant 1, for as long as there is this handle; (2) by invariant 2 nobody writes to it while
        // the handle is borrowed, but through its atomics.
        unsafe { self.inner.as_ref() }
    }

    /// Its bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: as in `inner`: they lie after it, in the same memory.
        unsafe { std::slice::from_raw_parts(self.inner.add(1).cast().as_ptr(), self.inner().len) }
    }

    /// Header and bytes to write to, if this is the only handle.
    pub fn get_mut(&mut self) -> Option<(&mut H, &mut [u8])> {
        // Acquire: what was done with handles that are dropped by now comes before what is written now.
        if self.inner().handles.load(Ordering::Acquire) != 1 {
            return None;
        }
        let len = self.inner().len;
        // SAFETY: (1) as in `inner` and `bytes`; (2) there is no other handle, and nobody can make one while this one
        // is borrowed mutably; (3) `Inner` and bytes do not overlap.
        unsafe {
            let bytes = std::slice::from_raw_parts_mut(self.inner.add(1).cast().as_ptr(), len);
            Some((&mut self.inner.as_mut().header, bytes))
        }
    }

    /// Where count, header and bytes lie, in this order, to be prefetched.
    #[inline]
    pub fn as_ptr(&self) -> *const u8 {
        self.inner.cast().as_ptr()
    }

    /// The last handle is dropped.
    #[cold]
    fn end(&mut self) {
        // SAFETY: (1) invariant 1; (2) nobody else reaches the `Inner`, and it is read out once: a drop ends here and
        // has no second; (3) the memory came from this pool for this layout, and is initialised again.
        unsafe {
            let Inner { len, pool, header, .. } = self.inner.read();
            drop(header);
            // The padding of an `Inner` counts as uninitialised.
            self.inner.cast::<u8>().write_bytes(0, size_of::<Inner<H>>());
            pool.deallocate(self.inner.cast(), whole::<H>(len));
        }
    }
}

impl<H> Deref for ThinArc<H> {
    type Target = H;

    #[inline]
    fn deref(&self) -> &H {
        &self.inner().header
    }
}

impl<H: fmt::Debug> fmt::Debug for ThinArc<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThinArc")
            .field("header", &self.inner().header)
            .field("len", &self.inner().len)
            .finish()
    }
}

impl<H> Clone for ThinArc<H> {
    #[inline]
    fn clone(&self) -> Self {
        // Relaxed: the handle that is cloned keeps everything in place meanwhile.
        let handles = self.inner().handles.fetch_add(1, Ordering::Relaxed);
        if isize::try_from(handles).is_err() {
            // Handles were forgotten until the count would overflow. This must not panic: `arc-swap` clones
            // where it must not unwind.
            std::process::abort();
        }
        ThinArc { inner: self.inner, owns: PhantomData }
    }
}

impl<H> Drop for ThinArc<H> {
    #[inline]
    fn drop(&mut self) {
        // Release: what was done with this handle comes before the end.
        if self.inner().handles.fetch_sub(1, Ordering::Release) == 1 {
            // Acquire: so does what was done with the others.
            fence(Ordering::Acquire);
            self.end();
        }
    }
}

// SAFETY: `into_ptr` gives a handle's pointer away and `from_ptr` makes it one again, `as_ptr` leads to the same
// place, and it stays there; a clone is one handle more.
unsafe impl<H> RefCnt for ThinArc<H> {
    type Base = std::ffi::c_void;

    #[inline]
    fn into_ptr(me: Self) -> *mut Self::Base {
        ManuallyDrop::new(me).inner.as_ptr().cast()
    }

    #[inline]
    fn as_ptr(me: &Self) -> *mut Self::Base {
        me.inner.as_ptr().cast()
    }

    #[inline]
    unsafe fn from_ptr(at: *const Self::Base) -> Self {
        // SAFETY: the caller has it from `into_ptr` or `as_ptr`, which give what is not null.
        ThinArc { inner: unsafe { NonNull::new_unchecked(at.cast_mut().cast()) }, owns: PhantomData }
    }
}
