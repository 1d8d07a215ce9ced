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
        Output { file, seed, piece: Vec::with_capacity(PIECE_BYTES + (64 << 10)), written: 0 }
    }

    /// Where the next byte goes.
    #[inline]
    pub(crate) fn offset(&self) -> u64 {
        self.written + self.piece.len() as u64
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.len() >= PIECE_BYTES {
            // A huge value is not copied once more.
            self.flush()?;
            self.file.write_at(bytes, self.written)?;
            self.written += bytes.len() as u64;
            return Ok(());
        }
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    pub(crate) fn flush(&mut self) -> Result<()> {
        if !self.piece.is_empty() {
            self.file.write_at(&self.piece, self.written)?;
            // The device works while the next piece comes together, and the sync at the end has less to wait for.
            self.file.start_writeback(self.written, self.piece.len() as u64);
            self.written += self.piece.len() as u64;
            self.piece.clear();
        }
        Ok(())
    }
}
