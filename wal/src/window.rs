//! A window sliding over a file, for reading and searching it in order with bounded memory.
//!
//! It holds one piece of the file: [`CHUNK_BYTES`] at least where the file has them, and more only while
//! its caller needs a longer piece. A caller needs one only after a header that checks has said so, and
//! never more than the file has.

use std::path::Path;
use std::sync::Arc;

use esker_base::memory::reserve;
use esker_base::{Error, Result};
use esker_vfs::fs::{File, Fs};

/// Bytes read at once: enough for the call to cost nothing beside checking them, few enough to stay in a
/// second-level cache.
pub(crate) const CHUNK_BYTES: usize = 256 << 10;

/// See the [module](crate::window).
pub(crate) struct Window {
    file: Arc<dyn File>,
    /// Nothing at or beyond this offset is read.
    end: u64,
    /// Offset of the first byte held.
    start: u64,
    /// How many bytes of `buffer` are held.
    held: usize,
    buffer: Vec<u8>,
}

impl Window {
    /// A window over the file at `path`, up to the length it has now.
    pub(crate) fn open(fs: &dyn Fs, path: &Path) -> Result<Window> {
        let file = fs.open(path)?;
        let end = file.len()?;
        Ok(Window { file, end, start: 0, held: 0, buffer: Vec::new() })
    }

    /// The file's path.
    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    /// The end of what can be read.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Read nothing from `end` on.
    pub(crate) fn cut(&mut self, end: u64) {
        self.end = self.end.min(end);
        if self.start.saturating_add(self.held as u64) > self.end {
            self.held = 0;
        }
    }

    /// How many bytes there are from `at` on.
    pub(crate) fn remaining(&self, at: u64) -> u64 {
        self.end.saturating_sub(at)
    }

    /// The bytes from `at` on: at least `want` of them, or all there are; and whatever more is held.
    #[inline]
    pub(crate) fn bytes(&mut self, at: u64, want: usize) -> Result<&[u8]> {
        if self.range(at, want).is_none() {
            self.slide(at, want)?;
        }
        let from = self.range(at, 0).unwrap_or(self.held);
        Ok(self.buffer.get(from..self.held).unwrap_or_default())
    }

    /// Where in the buffer the byte at `at` is, if it and the `want` bytes from it on are held.
    #[inline]
    fn range(&self, at: u64, want: usize) -> Option<usize> {
        let from = usize::try_from(at.checked_sub(self.start)?).ok()?;
        (from.checked_add(want)? <= self.held).then_some(from)
    }

    /// Make the window start at `at` and hold at least `want` bytes, or all there are.
    fn slide(&mut self, at: u64, want: usize) -> Result<()> {
        let remaining = usize::try_from(self.remaining(at)).unwrap_or(usize::MAX);
        let target = want.max(CHUNK_BYTES).min(remaining);
        match self.range(at, 0) {
            Some(from) => {
                self.buffer.copy_within(from..self.held, 0);
                self.held -= from;
            }
            None => self.held = 0,
        }
        self.start = at;
        if self.buffer.len() < target {
            let more = target - self.buffer.len();
            reserve(&mut self.buffer, more, "a log's record")?;
            self.buffer.resize(target, 0);
        }
        let from = at.saturating_add(self.held as u64);
        let Some(room) = self.buffer.get_mut(self.held..target) else {
            return Ok(()); // everything there is, is held
        };
        let read = self.file.read_at(room, from)?;
        if read < room.len() {
            let missing = room.len() - read;
            self.held = 0;
            return Err(Error::corruption(
                self.file.path(),
                from.saturating_add(read as u64),
                format!("the file became {missing} bytes shorter while it was read"),
            ));
        }
        self.held = target;
        Ok(())
    }

    /// The offset of the first byte from `at` on that is not zero.
    pub(crate) fn first_nonzero(&mut self, mut at: u64) -> Result<Option<u64>> {
        loop {
            let bytes = self.bytes(at, 1)?;
            if bytes.is_empty() {
                return Ok(None);
            }
            if let Some(index) = nonzero(bytes) {
                return Ok(Some(at.saturating_add(index as u64)));
            }
            at = at.saturating_add(bytes.len() as u64);
        }
    }
}

/// The index of the first byte that is not zero. Whole cache lines of zeros are passed at once: the
/// unused part of an allocated log is tens of megabytes of them.
#[inline]
pub(crate) fn nonzero(bytes: &[u8]) -> Option<usize> {
    let (lines, _) = bytes.as_chunks::<64>();
    let zero_lines = lines.iter().take_while(|line| line.iter().fold(0, |or, byte| or | byte) == 0).count();
    let skipped = zero_lines * 64;
    let index = bytes.get(skipped..)?.iter().position(|&byte| byte != 0)?;
    Some(skipped + index)
}
