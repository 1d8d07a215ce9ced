//! Memory that the system would give.

use std::ptr::NonNull;

/// Zeroed bytes.
#[derive(Debug)]
pub struct Pages(Vec<u8>);

impl Pages {
    /// `bytes` of them.
    pub fn new(bytes: usize) -> Pages {
        Pages(vec![0; bytes])
    }

    /// Where they start.
    pub fn start(&mut self) -> NonNull<u8> {
        NonNull::from(&mut *self.0).cast()
    }
}
