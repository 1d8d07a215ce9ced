//! Words to the processor and the system about memory.
#![expect(unsafe_code, reason = "std has no safe form of these hints")]

use std::ptr::NonNull;
#[cfg(all(target_os = "linux", not(miri)))]
use std::sync::LazyLock;

/// Prefetch the cache line at `at`: the program goes on while it is being loaded. Never faults, whatever `at` is;
/// does nothing where the processor has no such instruction.
#[inline]
pub fn prefetch<T>(at: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch reads nothing the program can observe, and faults on no address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}

/// Prefetch the first `lines` cache lines of `bytes`, or all if it has fewer.
#[inline]
pub fn prefetch_front(bytes: &[u8], lines: usize) {
    for line in 0..lines.min(bytes.len().div_ceil(64)) {
        prefetch(bytes.as_ptr().wrapping_add(64 * line));
    }
}

/// Bytes of a huge page, which one entry of a processor's translation table covers.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Advise the system to back `bytes` bytes at `start`, both multiples of [`HUGE_PAGE_BYTES`], with huge pages when they
/// are first used (`MADV_HUGEPAGE`). It may refuse, and nothing but speed depends on it: 512 page faults cost about 0.7 ms, one huge
/// one 0.1 ms, and an access that misses the processor's caches then finds its translation.
pub fn advise_huge_pages(start: NonNull<u8>, bytes: usize) {
    #[cfg(all(target_os = "linux", not(miri)))]
    // SAFETY: this advice changes no byte of the program's memory, whatever lies in the range and whoever uses it.
    unsafe {
        let _refused = rustix::mm::madvise(start.as_ptr().cast(), bytes, rustix::mm::Advice::LinuxHugepage);
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = (start, bytes);
}

/// Whether this system was set up to have no huge pages: [`make_huge_page`] would not be told so.
#[cfg(all(target_os = "linux", not(miri)))]
fn unwanted() -> bool {
    static UNWANTED: LazyLock<bool> = LazyLock::new(|| {
        let setting = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
        setting.is_ok_and(|setting| setting.contains("[never]"))
    });
    *UNWANTED
}

/// Ask the system to put a huge page in the place of the small ones at the address `start`, a multiple of
/// [`HUGE_PAGE_BYTES`], while the memory is in use (Linux 6.1 and later; others refuse, and one that is set
/// up to have no huge pages is not asked). Whoever touches that memory meanwhile waits, and so does every
/// page fault of the process: half a millisecond here, for the copy, if the system has a huge page at hand.
/// Bringing one in can take ten times as long, where a hypervisor has to find the memory first.
pub fn make_huge_page(start: usize) {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        /// `MADV_COLLAPSE` of Linux's `asm-generic/mman-common.h`.
        const COLLAPSE: libc::c_int = 25;
        if unwanted() {
            return;
        }
        // SAFETY: as in `advise_huge_pages`: the bytes are the same after as before, also for those who use them
        // meanwhile; a range that is not memory, or not the program's own, is refused.
        let _refused =
            unsafe { libc::madvise(std::ptr::without_provenance_mut(start), HUGE_PAGE_BYTES, COLLAPSE) };
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = start;
}
