//! Memory whose size somebody else decides: a user, or bytes on disk that have been checked.
//!
//! What may be large is asked for here, and is [`Error::OutOfMemory`] if the system has none. What is small,
//! or grows by small steps, is asked for as everywhere: without memory for that the process ends, as if it
//! had been killed.

use crate::{Error, Result};

/// Pieces up to this many bytes count as small.
pub const SMALL_BYTES: usize = 1 << 20;

/// `len` bytes, all zero, for `what`.
///
/// ```
/// assert_eq!(esker_base::memory::zeroed(3, "a block")?, [0; 3]);
/// assert!(esker_base::memory::zeroed(usize::MAX >> 1, "a block").is_err());
/// # Ok::<(), esker_base::Error>(())
/// ```
#[inline]
pub fn zeroed(len: usize, what: &'static str) -> Result<Vec<u8>> {
    if len <= SMALL_BYTES {
        return Ok(vec![0; len]);
    }
    let mut bytes = reserved(len, what)?;
    bytes.resize(len, 0);
    Ok(bytes)
}

/// Room for `len` bytes, none of which is there yet, for `what`.
#[inline]
pub fn reserved(len: usize, what: &'static str) -> Result<Vec<u8>> {
    if len <= SMALL_BYTES {
        return Ok(Vec::with_capacity(len));
    }
    let mut room = Vec::new();
    room.try_reserve_exact(len).map_err(|_| refused(len, what))?;
    Ok(room)
}

/// A copy of `bytes`, for `what`.
#[inline]
pub fn copied(bytes: &[u8], what: &'static str) -> Result<Vec<u8>> {
    let mut copy = reserved(bytes.len(), what)?;
    copy.extend_from_slice(bytes);
    Ok(copy)
}

/// Room for `more` bytes behind those that `bytes` holds, for `what`; it grows as a vector does.
#[inline]
pub fn reserve(bytes: &mut Vec<u8>, more: usize, what: &'static str) -> Result<()> {
    if bytes.capacity() - bytes.len() >= more {
        return Ok(());
    }
    // Twice as much is asked for first, to copy seldom.
    let grown = bytes.try_reserve(more).or_else(|_| bytes.try_reserve_exact(more));
    grown.map_err(|_| refused(more, what))
}

/// Err if there is no room at the moment for `len` bytes, for `what`. The room is not held: the caller
/// takes it right after, in a way that can no longer fail without ending the process.
#[inline]
pub fn probe(len: usize, what: &'static str) -> Result<()> {
    if len <= SMALL_BYTES {
        return Ok(());
    }
    let mut room: Vec<u8> = Vec::new();
    let outcome = room.try_reserve_exact(len).map_err(|_| refused(len, what));
    // Without this the optimiser removes the allocation.
    std::hint::black_box(&mut room);
    outcome
}

#[cold]
fn refused(bytes: usize, what: &'static str) -> Error {
    Error::OutOfMemory { what, bytes: bytes as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_has_is_refused_and_nothing_changes() {
        let huge = isize::MAX as usize;
        let refused = |outcome: Result<()>| matches!(outcome, Err(Error::OutOfMemory { what: "a test", bytes }) if bytes == huge as u64);
        assert!(refused(zeroed(huge, "a test").map(drop)));
        assert!(refused(probe(huge, "a test")));
        let mut bytes = vec![1, 2, 3];
        assert!(refused(reserve(&mut bytes, huge, "a test")));
        assert_eq!(bytes, [1, 2, 3]);
    }

    #[test]
    fn large_pieces_are_what_was_asked_for() {
        for len in [0, 1, SMALL_BYTES, SMALL_BYTES + 1, 3 * SMALL_BYTES] {
            let bytes = zeroed(len, "a test").expect("there is memory");
            assert!(bytes.len() == len && bytes.iter().all(|byte| *byte == 0));
            let mut bytes = copied(&vec![7; len], "a test").expect("there is memory");
            assert!(bytes.len() == len && bytes.iter().all(|byte| *byte == 7));
            reserve(&mut bytes, len, "a test").expect("there is memory");
            assert!(bytes.capacity() >= 2 * len);
            probe(len, "a test").expect("there is memory");
        }
    }
}
