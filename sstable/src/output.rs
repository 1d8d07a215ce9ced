//! A file that is written front to back, with a buffer before it.

use std::sync::Arc;

use esker_base::Result;
use esker_base::checksum::ChecksumSeed;
use esker_vfs::fs::File;

/// Bytes collected before they are written.
pub(crate) const PIECE_BYTES: usize = 512 << 10;

/// The file and what is not in it yet.
pub(crate) struct Output {
    pub(crate) file: Arc<dyn File>,
    pub(crate) seed: ChecksumSeed,
    piece: Vec<u8>,
    written: u64,
}

impl Output {
    /// A new, empty file, whose checksums have this seed.
    pub(crate) fn new(file: Arc<dyn File>, seed: ChecksumSeed) -> Output {
        Output { file, seed, piece: Vec::with_capacity(PIECE_BYTES), written: 0 }
    }

    /// Where the next byte goes.
    #[inline]
    pub(crate) fn offset(&self) -> u64 {
        self.written + self.piece.len() as u64
    }

    /// Bytes of memory held.
    pub(crate) fn memory(&self) -> usize {
        self.piece.capacity()
    }

    pub(crate) fn put(&mut self, mut bytes: &[u8]) -> Result<()> {
        while self.piece.len() + bytes.len() >= PIECE_BYTES {
            if self.piece.is_empty() {
                // What is huge is not copied once more.
                let (whole, rest) = bytes.split_at(bytes.len() / PIECE_BYTES * PIECE_BYTES);
                self.write(whole)?;
                bytes = rest;
            } else {
                let (fills, rest) = bytes.split_at(PIECE_BYTES - self.piece.len());
                self.piece.extend_from_slice(fills);
                self.flush()?;
                bytes = rest;
            }
        }
        self.piece.extend_from_slice(bytes);
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_at(bytes, self.written)?;
        // The device works while the next piece comes together, and the sync at the end has less to wait for.
        self.file.start_writeback(self.written, bytes.len() as u64);
        self.written += bytes.len() as u64;
        Ok(())
    }

    pub(crate) fn flush(&mut self) -> Result<()> {
        if !self.piece.is_empty() {
            let piece = std::mem::take(&mut self.piece);
            self.write(&piece)?;
            self.piece = piece;
            self.piece.clear();
        }
        Ok(())
    }
}
