//! A blob file that tables of some version refer to: its description, its reader, and its end.
//!
//! It lives as a [`TableHandle`](crate::TableHandle) does, and longer: every handle of a table that refers to it
//! holds it. It is marked obsolete after a commit that leaves no table referring to it is durable; when the last
//! reference to an obsolete handle goes, no version that anybody holds can lead to a value of it, its reader is
//! closed, and the file may be removed.
//!
//! Threads: any, as for tables.

use std::fmt;
use std::sync::{Arc, OnceLock};

use esker_base::blob::BlobMeta;
use esker_base::filename::FileName;
use esker_base::sync::Mutex;
use esker_base::sync::atomic::{AtomicBool, Ordering};
use esker_base::{Error, FileNumber, Result};
use esker_sstable::BlobReader;

use crate::table_handle::TableFiles;

/// See the module. Shared as `Arc<BlobHandle>`.
pub struct BlobHandle {
    /// The file's description.
    pub meta: BlobMeta,
    /// `None` for a file that stands in no directory.
    files: Option<Arc<TableFiles>>,
    /// The open file, from the first read on.
    reader: OnceLock<Arc<BlobReader>>,
    /// Held while the file is being opened.
    opening: Mutex<()>,
    obsolete: AtomicBool,
}

impl BlobHandle {
    pub(crate) fn new(meta: BlobMeta, files: &Arc<TableFiles>) -> Arc<BlobHandle> {
        Arc::new(BlobHandle::build(meta, Some(Arc::clone(files))))
    }

    /// A handle of a blob file that stands in no directory: for simulations and tests of whatever decides by
    /// descriptions alone. Its reader is not to be had.
    pub fn detached(meta: BlobMeta) -> Arc<BlobHandle> {
        Arc::new(BlobHandle::build(meta, None))
    }

    /// A handle of an open blob file that no version set knows: for tests of compactions, whose blob files are read.
    pub fn of_reader(reader: Arc<BlobReader>) -> Arc<BlobHandle> {
        let handle = BlobHandle::build(*reader.meta(), None);
        handle.reader.get_or_init(|| reader);
        Arc::new(handle)
    }

    fn build(meta: BlobMeta, files: Option<Arc<TableFiles>>) -> BlobHandle {
        let (reader, opening) = (OnceLock::new(), Mutex::new(()));
        BlobHandle { meta, files, reader, opening, obsolete: AtomicBool::new(false) }
    }

    /// The open file; the first call opens it, once, and others who want it wait. After an error the next call
    /// tries again.
    ///
    /// # Errors
    /// As [`BlobReader::open`]; [`Error::InvalidArgument`] for a detached handle.
    #[inline]
    pub fn reader(&self) -> Result<&Arc<BlobReader>> {
        match self.reader.get() {
            Some(reader) => Ok(reader),
            None => self.open(),
        }
    }

    #[cold]
    fn open(&self) -> Result<&Arc<BlobReader>> {
        let number = self.meta.number;
        let files = self.files.as_ref();
        let files =
            files.ok_or_else(|| Error::invalid(format!("blob file {number} stands in no directory")))?;
        let _turn = self.opening.lock();
        if let Some(reader) = self.reader.get() {
            return Ok(reader);
        }
        let reader = Arc::new(BlobReader::open(files.context(), &self.meta)?);
        Ok(self.reader.get_or_init(|| reader))
    }

    /// The file's number.
    #[inline]
    pub fn number(&self) -> FileNumber {
        self.meta.number
    }

    /// A durable commit has left no table that refers to the file.
    pub(crate) fn mark_obsolete(&self) {
        self.obsolete.store(true, Ordering::Release);
    }
}

impl Drop for BlobHandle {
    fn drop(&mut self) {
        if let (true, Some(files)) = (*self.obsolete.get_mut(), &self.files) {
            drop(self.reader.take());
            files.discard(FileName::Blob(self.meta.number));
        }
    }
}

impl fmt::Debug for BlobHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlobHandle").field("meta", &self.meta).finish_non_exhaustive()
    }
}
