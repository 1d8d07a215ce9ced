//! Where a table's bytes come from: positional reads, or a mapping of the file.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use esker_base::Result;
use esker_vfs::fs::{File, fill_exact_at, read_exact_at};
use esker_vfs::open_files::OpenFiles;
use esker_vfs::os::pages::Pages;

/// How tables are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TableSource {
    /// Positional reads into the block cache. An I/O error stays an error. The default.
    #[default]
    Buffered,
    /// A mapping of the whole file; each uncompressed block is checked on its first touch and then
    /// read in place. For data that fits in memory: an I/O error on a page, or a file that is cut
    /// while it is open, kills the process with a signal. Compressed blocks are decompressed into
    /// the cache. Values in files of their own are lent from the mapping too, checked each time.
    Mapped,
}

/// An open table file.
pub(crate) struct TableFile {
    file: Arc<dyn File>,
    mapping: Option<Mapping>,
}

/// A mapped file and which of its blocks were checked.
pub(crate) struct Mapping {
    pub(crate) bytes: Bytes,
    /// One bit a block. Relaxed everywhere: the bytes under a bit never change, so a reader that does
    /// not see the bit yet only checks again.
    checked: Vec<AtomicU64>,
}

impl Mapping {
    /// Whether block `block` was checked since the file was opened.
    #[inline]
    pub(crate) fn is_checked(&self, block: usize) -> bool {
        self.checked
            .get(block / 64)
            .is_some_and(|word| word.load(Ordering::Relaxed) >> (block % 64) & 1 == 1)
    }

    /// Record that block `block` was checked.
    pub(crate) fn set_checked(&self, block: usize) {
        if let Some(word) = self.checked.get(block / 64) {
            word.fetch_or(1 << (block % 64), Ordering::Relaxed);
        }
    }
}

/// Pages that are read from as long as somebody holds them.
struct SharedPages(Arc<Pages>);

impl AsRef<[u8]> for SharedPages {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl TableFile {
    pub(crate) fn new(file: Arc<dyn File>) -> TableFile {
        // A get wants one block. A reader of several in a row calls `prefetch_bytes`.
        file.advise_random();
        TableFile { file, mapping: None }
    }

    /// Have the system begin to read `len` bytes at `offset`, which will be read soon.
    pub(crate) fn prefetch_bytes(&self, offset: u64, len: u64) {
        self.file.advise_willneed(offset, len);
    }

    /// Map the file, which has `blocks` data blocks, besides.
    pub(crate) fn map(&mut self, files: &OpenFiles, blocks: usize) -> Result<()> {
        let checked = (0..blocks.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        self.mapping = Some(Mapping { bytes: files.map(self.file.path())?, checked });
        Ok(())
    }

    #[inline]
    pub(crate) fn mapping(&self) -> Option<&Mapping> {
        self.mapping.as_ref()
    }

    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    pub(crate) fn len(&self) -> Result<u64> {
        self.file.len()
    }

    /// Read `len` bytes at `offset`, both compared with the file's length before.
    pub(crate) fn read(&self, offset: u64, len: usize) -> Result<Vec<u8>> {
        read_exact_at(&*self.file, offset, len)
    }

    /// [`read`](Self::read), into `memory` if it is long enough and nobody else reads from it, else into `new` memory, which costs a
    /// page fault for every 4 KiB.
    pub(crate) fn read_over(
        &self,
        offset: u64,
        len: usize,
        memory: &mut Option<Arc<Pages>>,
        new: impl FnOnce() -> Pages,
    ) -> Result<Bytes> {
        let old = memory.take().filter(|pages| pages.len() >= len);
        let old = old.and_then(|pages| Arc::try_unwrap(pages).ok());
        let mut pages = old.unwrap_or_else(new);
        self.read_into(offset, pages.get_mut(..len).unwrap_or_default())?;
        let pages = memory.insert(Arc::new(pages));
        Ok(Bytes::from_owner(SharedPages(Arc::clone(pages))).slice(..len))
    }

    /// Read as many bytes at `offset` as fit `buffer`.
    pub(crate) fn read_into(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        fill_exact_at(&*self.file, offset, buffer)
    }
}
