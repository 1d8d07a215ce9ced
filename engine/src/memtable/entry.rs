//! An entry: how one version of a key lies in an [`Arena`](super::arena::Arena).
//!
//! Invariant:
//! 1. An entry's bytes never change after [`Entry::write`] has returned.
#![expect(unsafe_code, reason = "entries are laid out by hand in memory that is freed as a whole")]

use std::alloc::Layout;
use std::cmp::Ordering;
use std::marker::PhantomData;
use std::ptr::NonNull;

use esker_base::{InternalKey, Kind, SeqNo};

use esker_vfs::os::memory::prefetch;

use super::arena::{ArenaWriter, LINE_BYTES};

/// Cache lines that an entry of 16 + 100 bytes lies in, at most: as many are prefetched ahead of a write, and at most as
/// many ahead of a walk.
pub(super) const ENTRY_LINES: usize = 3;

/// Bytes before an entry's key: `tag: u64` (sequence number above the kind's byte), `value_len: u32`,
/// `key_len: u16`. Entries stand wherever the last one ended: aligned, they would take four bytes more on
/// average.
pub(super) const HEADER_BYTES: usize = 14;
/// Where `value_len` and `key_len` stand.
const VALUE_LEN_AT: usize = 8;
const KEY_LEN_AT: usize = 12;

/// How far from its beginning an entry is prefetched: as far as a typical one of its memtable reaches. Lines of its
/// neighbours, which a walk in the order of keys has no use for, would only keep others waiting.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reach(usize);

impl Reach {
    /// For entries of `bytes` bytes with header, key and value, about.
    pub(super) fn of(bytes: u64) -> Reach {
        let longest = (ENTRY_LINES - 1) * LINE_BYTES;
        Reach(usize::try_from(bytes).map_or(longest, |bytes| bytes.min(longest)))
    }

    /// Prefetch the entry at `at`, which may be anything.
    #[inline]
    pub(super) fn prefetch(self, at: *const u8) {
        // Three times in any case: which line is which costs less than a branch.
        prefetch(at);
        prefetch(at.wrapping_add(self.0.min(LINE_BYTES)));
        prefetch(at.wrapping_add(self.0));
    }
}

/// An entry in an arena: a pointer to its header, key, value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'a> {
    at: NonNull<u8>,
    arena: PhantomData<&'a [u8]>,
}

// SAFETY: this is a shared reference in all but name, to bytes that never change (invariant 1).
unsafe impl Send for Entry<'_> {}
// SAFETY: as above.
unsafe impl Sync for Entry<'_> {}

impl<'a> Entry<'a> {
    /// Copy an entry into the arena. The result's lifetime is the caller's to choose, up to that of
    /// the writer's arena: hence `unsafe`.
    ///
    /// # Safety
    /// `'a` must not outlive the `Arena` of `writer`.
    pub(super) unsafe fn write(
        writer: &mut ArenaWriter,
        key: InternalKey<'_>,
        kind: Kind,
        value: &[u8],
    ) -> Entry<'a> {
        let key_len = u16::try_from(key.user.len()).expect("keys are at most 65,535 bytes");
        let value_len = u32::try_from(value.len()).expect("values are at most 1 GiB");
        let size = HEADER_BYTES + key.user.len() + value.len();
        let layout = Layout::from_size_align(size, 1).expect("fits an allocation");
        let at = writer.allocate(layout);
        let tag = key.seqno.0 << 8 | kind as u64;
        // SAFETY: (1) the piece is `size` bytes, and nobody else has it; (2) every write below ends at or
        // before `size`; (3) the writes need no alignment; (4) the sources are borrowed slices, and a
        // fresh piece overlaps neither.
        unsafe {
            at.cast::<u64>().write_unaligned(tag);
            at.add(VALUE_LEN_AT).cast::<u32>().write_unaligned(value_len);
            at.add(KEY_LEN_AT).cast::<u16>().write_unaligned(key_len);
            let bytes = at.add(HEADER_BYTES);
            bytes.copy_from_nonoverlapping(NonNull::from(key.user).cast(), key.user.len());
            bytes.add(key.user.len()).copy_from_nonoverlapping(NonNull::from(value).cast(), value.len());
        }
        Entry { at, arena: PhantomData }
    }

    /// The entry at `at`.
    ///
    /// # Safety
    /// `at` came from [`as_ptr`](Self::as_ptr) of an entry whose arena outlives `'a`, and the write of
    /// that entry happened before this call.
    #[inline]
    pub(super) unsafe fn from_ptr(at: NonNull<u8>) -> Self {
        Entry { at, arena: PhantomData }
    }

    /// The pointer to hand to [`from_ptr`](Self::from_ptr).
    #[inline]
    pub(super) fn as_ptr(self) -> NonNull<u8> {
        self.at
    }

    #[inline]
    fn tag(self) -> u64 {
        // SAFETY: `at` points to an entry that `write` filled, alive for `'a` and never changed.
        unsafe { self.at.cast::<u64>().read_unaligned() }
    }

    /// The entry's sequence number.
    #[inline]
    pub(super) fn seqno(self) -> SeqNo {
        SeqNo(self.tag() >> 8)
    }

    /// The entry's kind.
    #[inline]
    pub(super) fn kind(self) -> Kind {
        Kind::from_byte((self.tag() & 0xFF) as u8).expect("a kind was written")
    }

    /// Whether it is a put with a number not above `upto`.
    #[inline]
    pub(super) fn is_put_upto(self, upto: SeqNo) -> bool {
        let tag = self.tag();
        tag & 0xFF == Kind::Put as u64 && tag >> 8 <= upto.0
    }

    #[inline]
    fn key_len(self) -> usize {
        // SAFETY: as in `tag`.
        usize::from(unsafe { self.at.add(KEY_LEN_AT).cast::<u16>().read_unaligned() })
    }

    /// The user key.
    #[inline]
    pub(super) fn key(self) -> &'a [u8] {
        // SAFETY: (1) `write` put `key_len` bytes behind the header; (2) they live for `'a` and never
        // change.
        unsafe { NonNull::slice_from_raw_parts(self.at.add(HEADER_BYTES), self.key_len()).as_ref() }
    }

    /// The value.
    #[inline]
    pub(super) fn value(self) -> &'a [u8] {
        // SAFETY: (1) `write` put `value_len` bytes behind the key; (2) they live for `'a` and never
        // change.
        unsafe {
            let len = self.at.add(VALUE_LEN_AT).cast::<u32>().read_unaligned() as usize;
            NonNull::slice_from_raw_parts(self.at.add(HEADER_BYTES + self.key_len()), len).as_ref()
        }
    }

    /// The entry's internal key.
    #[inline]
    pub(super) fn internal_key(self) -> InternalKey<'a> {
        InternalKey::new(self.key(), self.seqno())
    }

    /// How `target` compares with this entry's internal key.
    #[inline]
    pub(super) fn compare(self, target: InternalKey<'_>) -> Ordering {
        target.user.cmp(self.key()).then_with(|| self.seqno().cmp(&target.seqno))
    }
}
