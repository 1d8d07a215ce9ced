//! A file that is written front to back, with a buffer before it.

use std::sync::Arc;

use esker_base::Result;
use esker_base::checksum::ChecksumSeed;
use esker_vfs::fs::File;
use esker_vfs::os::pages::Pages;

/// Bytes collected before they are written.
pub(crate) const PIECE_BYTES: usize = 512 << 10;

/// Each time that this many bytes were written, the system is told to begin writing them to the device.
/// Each time costs an interrupt, and with some filesystems a turn of another thread that notes what is on
/// the device: both take the processor from whoever runs there.
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
                // A huge piece is not copied once more.
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

    /// Put as much into the piece as it has room for.
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use esker_base::sync::Mutex;
    use esker_base::{DatabaseId, FileNumber};

    use super::*;

    /// What is asked of a file: the bytes written front to back, and the hints.
    #[derive(Default)]
    struct Noted {
        bytes: Mutex<Vec<u8>>,
        begun: Mutex<Vec<(u64, u64)>>,
    }

    impl File for Noted {
        fn path(&self) -> &Path {
            Path::new("noted")
        }
        fn len(&self) -> Result<u64> {
            Ok(self.bytes.lock().len() as u64)
        }
        fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
            assert_eq!(offset, self.len()?, "front to back");
            self.bytes.lock().extend_from_slice(bytes);
            Ok(())
        }
        fn start_writeback(&self, offset: u64, len: u64) {
            assert!(
                offset + len <= self.bytes.lock().len() as u64,
                "only what is written can go to the device"
            );
            self.begun.lock().push((offset, len));
        }
        fn read_at(&self, _buffer: &mut [u8], _offset: u64) -> Result<usize> {
            unreachable!("nothing is read")
        }
        fn set_len(&self, _len: u64) -> Result<()> {
            unreachable!("nothing is cut")
        }
        fn allocate(&self, _len: u64) -> Result<()> {
            unreachable!("nothing is reserved")
        }
        fn sync_data(&self) -> Result<()> {
            Ok(())
        }
        fn sync(&self) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_is_put_is_written_and_goes_to_the_device_by_whole_steps_each_once() {
        let step = WRITEBACK_BYTES as usize;
        let seed = ChecksumSeed::new(DatabaseId([7; 16]), FileNumber(1));
        for lengths in [
            vec![4_096; 3 * step / 4_096],
            vec![5, PIECE_BYTES - 1, PIECE_BYTES, 2 * step + 7, 100_000, step - 1, 1],
            vec![3 * step],
            vec![step - 1],
        ] {
            let file = Arc::new(Noted::default());
            let mut output = Output::new(file.clone(), seed);
            let mut put = Vec::new();
            for (number, len) in lengths.into_iter().enumerate() {
                let bytes = vec![number as u8; len];
                output.put(&bytes).expect("it has room");
                put.extend_from_slice(&bytes);
                assert_eq!(output.offset(), put.len() as u64);
            }
            output.flush().expect("it has room");
            assert!(*file.bytes.lock() == put, "{} bytes are not those that were put", put.len());
            let begun = file.begun.lock();
            let end = begun.iter().fold(0, |end, &(offset, len)| {
                assert_eq!((offset, len % WRITEBACK_BYTES), (end, 0), "whole steps, one behind the other");
                end + len
            });
            assert_eq!(end, put.len() as u64 / WRITEBACK_BYTES * WRITEBACK_BYTES);
        }
    }
}
