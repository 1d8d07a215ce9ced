//! A file that is written front to back, with a buffer before it.

use std::sync::Arc;

use esker_base::Result;
use esker_base::checksum::ChecksumSeed;
use esker_vfs::fs::File;
use esker_vfs::os::pages::Pages;

/// Bytes collected before they are written.
pub(crate) const PIECE_BYTES: usize = 512 << 10;

/// The system is told to begin with so many bytes at once. Each time costs an interrupt, and with some filesystems a turn of
/// another thread that notes what is on the device: both take the processor from whoever runs there.
const WRITEBACK_BYTES: u64 = 4 << 20;

/// The file and what is not in it yet.
pub(crate) struct Output {
    pub(crate) file: Arc<dyn File>,
    pub(crate) seed: ChecksumSeed,
    piece: Pages,
    /// Bytes in the piece.
    filled: usize,
    written: u64,
}

impl Output {
    /// A new, empty file, whose checksums have this seed.
    pub(crate) fn new(file: Arc<dyn File>, seed: ChecksumSeed) -> Output {
        Output { file, seed, piece: Pages::new(PIECE_BYTES), filled: 0, written: 0 }
    }

    /// Where the next byte goes.
    #[inline]
    pub(crate) fn offset(&self) -> u64 {
        self.written + self.filled as u64
    }

    /// Bytes of memory held.
    pub(crate) fn memory(&self) -> usize {
        self.piece.len()
    }

    pub(crate) fn put(&mut self, mut bytes: &[u8]) -> Result<()> {
        while self.filled + bytes.len() >= PIECE_BYTES {
            if self.filled == 0 {
                // What is huge is not copied once more.
                let (whole, rest) = bytes.split_at(bytes.len() / PIECE_BYTES * PIECE_BYTES);
                write(&*self.file, whole, &mut self.written)?;
                bytes = rest;
            } else {
                let (fills, rest) = bytes.split_at(PIECE_BYTES - self.filled);
                self.fill(fills);
                self.flush()?;
                bytes = rest;
            }
        }
        self.fill(bytes);
        Ok(())
    }

    /// Put into the piece what has room there.
    #[inline]
    fn fill(&mut self, bytes: &[u8]) {
        let end = self.filled + bytes.len();
        self.piece.get_mut(self.filled..end).expect("it has room").copy_from_slice(bytes);
        self.filled = end;
    }

    pub(crate) fn flush(&mut self) -> Result<()> {
        let filled = std::mem::take(&mut self.filled);
        let piece = self.piece.get(..filled).expect("what was put there");
        write(&*self.file, piece, &mut self.written)
    }
}

/// Write `bytes` behind the `written` ones.
fn write(file: &dyn File, bytes: &[u8], written: &mut u64) -> Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    file.write_at(bytes, *written)?;
    let end = *written + bytes.len() as u64;
    // The device works while the next bytes come together, and the sync at the end has less to wait for.
    let whole = |bytes: u64| bytes / WRITEBACK_BYTES * WRITEBACK_BYTES;
    if whole(end) > whole(*written) {
        file.start_writeback(whole(*written), whole(end) - whole(*written));
    }
    *written = end;
    Ok(())
}
