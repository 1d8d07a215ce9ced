//! No call is known here that copies into mapped memory.

use std::io;

use memmap2::MmapRaw;

/// There is none.
pub(super) enum Copier {}

impl Copier {
    pub(super) fn new() -> Option<Copier> {
        None
    }

    pub(super) fn copy(&mut self, _bytes: &[u8], _target: &MmapRaw, _at: usize) -> io::Result<()> {
        match *self {}
    }
}
