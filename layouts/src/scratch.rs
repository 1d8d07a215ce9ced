//! Buffers for keys and values that live for one call: kept by the thread, so that a call allocates none.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};

/// A buffer that has grown beyond this is let go: the longest key of most stores.
const KEPT_BYTES_MAX: usize = 64 << 10;

thread_local! {
    /// As many as calls are within each other; the one given last comes first.
    static BUFFERS: [Cell<Vec<u8>>; 4] = const { [const { Cell::new(Vec::new()) }; 4] };
}

/// An empty buffer, the thread's if it has one.
#[inline]
fn take() -> Vec<u8> {
    let kept = BUFFERS.try_with(|buffers| {
        buffers.iter().map(Cell::take).find(|buffer| buffer.capacity() > 0).unwrap_or_default()
    });
    // A thread that ends may have dropped them already.
    kept.unwrap_or_default()
}

/// Leave `buffer` to the thread.
#[inline]
fn give(mut buffer: Vec<u8>) {
    if buffer.capacity() > KEPT_BYTES_MAX {
        return;
    }
    buffer.clear();
    let _ = BUFFERS.try_with(|buffers| {
        for kept in buffers {
            buffer = kept.replace(std::mem::take(&mut buffer));
            if buffer.capacity() == 0 {
                break;
            }
        }
    });
}

/// Run `f` with an empty buffer.
#[inline]
pub(crate) fn with_buffer<T>(f: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    let mut buffer = take();
    let value = f(&mut buffer);
    give(buffer);
    value
}

/// A buffer, at first empty, that outlives a call; goes to the thread that drops it.
#[derive(Clone)]
pub(crate) struct Scratch(Vec<u8>);

impl Default for Scratch {
    #[inline]
    fn default() -> Self {
        Scratch(take())
    }
}

impl Drop for Scratch {
    #[inline]
    fn drop(&mut self) {
        give(std::mem::take(&mut self.0));
    }
}

impl Deref for Scratch {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.0
    }
}

impl DerefMut for Scratch {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }
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
