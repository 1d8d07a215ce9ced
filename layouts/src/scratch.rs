//! Buffers for keys and values that live for one call: kept by the thread, so that a call allocates none.

use std::cell::RefCell;

/// A buffer that has grown beyond this is let go: the longest key of most stores.
const KEPT_BYTES_MAX: usize = 64 << 10;

thread_local! {
    /// As many as calls were within each other.
    static BUFFERS: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Run `f` with an empty buffer.
#[inline]
pub(crate) fn with_buffer<T>(f: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    // A thread that ends may have dropped it already.
    let kept = BUFFERS.try_with(|buffers| buffers.borrow_mut().pop());
    let mut buffer = kept.ok().flatten().unwrap_or_default();
    let value = f(&mut buffer);
    if buffer.capacity() <= KEPT_BYTES_MAX {
        buffer.clear();
        let _ = BUFFERS.try_with(|buffers| buffers.borrow_mut().push(buffer));
    }
    value
}

#[cfg(test)]
mod tests {
    use super::with_buffer;

    #[test]
    fn a_call_within_a_call_has_a_buffer_of_its_own_and_each_begins_empty() {
        with_buffer(|outer| {
            outer.extend_from_slice(b"outer");
            with_buffer(|inner| {
                assert!(inner.is_empty());
                inner.extend_from_slice(b"inner");
            });
            assert_eq!(outer, b"outer");
        });
        with_buffer(|next| assert!(next.is_empty()));
    }
}
