//! A blob file that tables of some version refer to: its description, its reader, and its end.
//!
//! It lives as a [`TableHandle`](crate::TableHandle) does, and longer: every handle of a table that refers to it
//! holds it. It is marked obsolete after a commit that leaves no table referring to it is durable; when the last
//! reference to an obsolete handle goes, no version that anybody holds can lead to a value of it, its reader is
//! closed, and the file may be removed.
//!
//! Threads: any, as for tables.

use std::fmt;
use std::sync::Arc;

use esker_base::blob::BlobMeta;
use esker_base::filename::FileName;
use esker_base::{FileNumber, Result};
use esker_sstable::BlobReader;

use crate::tree_file::{TreeFile, TreeFiles};

/// See the module. Shared as `Arc<BlobHandle>`.
pub struct BlobHandle {
    /// The file's description.
    pub meta: BlobMeta,
    file: TreeFile<BlobReader>,
}

impl BlobHandle {
    /// A handle of a blob file in a database's directory.
    pub(crate) fn new(meta: BlobMeta, files: &Arc<TreeFiles>) -> Arc<BlobHandle> {
        Arc::new(BlobHandle { meta, file: TreeFile::new(FileName::Blob(meta.number), files) })
    }

    /// A handle of a blob file that stands in no directory: for simulations and tests of whatever decides by
    /// descriptions alone. Its reader is not to be had.
    pub fn detached(meta: BlobMeta) -> Arc<BlobHandle> {
        Arc::new(BlobHandle { meta, file: TreeFile::detached(FileName::Blob(meta.number)) })
    }

    /// A handle of an open blob file that no version set knows: for tests of compactions, whose blob files are read.
    pub fn of_reader(reader: Arc<BlobReader>) -> Arc<BlobHandle> {
        let meta = *reader.meta();
        Arc::new(BlobHandle { meta, file: TreeFile::of_reader(FileName::Blob(meta.number), reader) })
    }

    /// The open file; the first call opens it, once, and others who want it wait. After an error the next call
    /// tries again.
    ///
    /// # Errors
    /// As [`BlobReader::open`]; [`Error::InvalidArgument`](esker_base::Error::InvalidArgument) for a detached handle.
    #[inline]
    pub fn reader(&self) -> Result<&Arc<BlobReader>> {
        match self.file.opened() {
            Some(reader) => Ok(reader),
            None => self.open(),
        }
    }

    #[cold]
    fn open(&self) -> Result<&Arc<BlobReader>> {
        self.file.open(|context| BlobReader::open(context, &self.meta))
    }

    /// The file's number.
    #[inline]
    pub fn number(&self) -> FileNumber {
        self.meta.number
    }

    /// A durable commit has left no table that refers to the file.
    pub(crate) fn mark_obsolete(&self) {
        self.file.mark_obsolete();
    }
}

impl fmt::Debug for BlobHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlobHandle").field("meta", &self.meta).finish_non_exhaustive()
    }
}
