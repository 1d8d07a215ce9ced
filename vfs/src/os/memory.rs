//! A word to the processor about memory.
#![expect(unsafe_code, reason = "std has no safe form of a prefetch")]

/// Ask for the cache line at `at`: the program goes on while it is under way. Never faults, whatever `at` is;
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

/// Ask for the first `lines` cache lines of `bytes`, or for all if it has fewer.
#[inline]
pub fn prefetch_front(bytes: &[u8], lines: usize) {
    for line in bytes.chunks(64).take(lines) {
        prefetch(line.as_ptr());
    }
}
