//! A table that some version of the tree holds: its description, its reader, its blob files, and its end.
//!
//! 1. It is opened and removed as `tree_file` says: by the first read that needs it, and after the last.
//! 2. Two handles never stand for the same live table: a move to another level carries the handle along.
//! 3. A table ends before its blob files: when a handle goes, its reader is closed and the table is put on
//!    the garbage list, if it is obsolete; only then are the handles of its blob files let go.
//!
//! Threads: any. An open reader is one load away; a lock is taken only while a reader is being opened, by
//! those who want to read the same table.

use std::fmt;
use std::sync::Arc;

use esker_base::blob::BlobPointer;
use esker_base::filename::FileName;
use esker_base::table_meta::TableMeta;
use esker_base::{Error, FileNumber, Result};
use esker_sstable::{BlobReader, TableReader};

use crate::blob_handle::BlobHandle;
use crate::tree_file::{TreeFile, TreeFiles};

#[cfg(test)]
mod tests;

/// A table of the tree. Shared as `Arc<TableHandle>`; see the module for its life.
pub struct TableHandle {
    /// The table's description.
    pub meta: TableMeta,
    /// Before `blobs`, since fields are dropped in this order: see 3 above.
    file: TreeFile<TableReader>,
    /// The blob files that it refers to, as in its description.
    blobs: Vec<Arc<BlobHandle>>,
}

impl TableHandle {
    /// A handle of a table in a database's directory.
    pub(crate) fn new(
        meta: TableMeta,
        blobs: Vec<Arc<BlobHandle>>,
        files: &Arc<TreeFiles>,
    ) -> Arc<TableHandle> {
        let file = TreeFile::new(FileName::Table(meta.number), files);
        Arc::new(TableHandle { meta, file, blobs })
    }

    /// A handle of a table that stands in no directory: for simulations and tests of whatever decides by
    /// descriptions alone. Its reader is not to be had.
    pub fn detached(meta: TableMeta) -> Arc<TableHandle> {
        TableHandle::detached_with(meta, Vec::new())
    }

    /// The same of a table that refers to these blob files, in the order of its description.
    pub fn detached_with(meta: TableMeta, blobs: Vec<Arc<BlobHandle>>) -> Arc<TableHandle> {
        let file = TreeFile::detached(FileName::Table(meta.number));
        Arc::new(TableHandle { meta, file, blobs })
    }

    /// The open table; the first call opens it, once, and others who want the same table wait. After an
    /// error the next call tries again.
    ///
    /// # Errors
    /// As [`TableReader::open`]; [`Error::InvalidArgument`] for a detached handle.
    #[inline]
    pub fn reader(&self) -> Result<&Arc<TableReader>> {
        match self.file.opened() {
            Some(reader) => Ok(reader),
            None => self.open(),
        }
    }

    #[cold]
    fn open(&self) -> Result<&Arc<TableReader>> {
        self.file.open(|context| TableReader::open(context, &self.meta))
    }

    /// The table, if it was opened before: nothing is read.
    #[inline]
    pub fn opened(&self) -> Option<&Arc<TableReader>> {
        self.file.opened()
    }

    /// The blob files that its rows refer to, ascending by number.
    pub fn blobs(&self) -> &[Arc<BlobHandle>] {
        &self.blobs
    }

    /// The open file that `pointer`, of one of its rows, leads to.
    ///
    /// # Errors
    /// As [`BlobHandle::reader`]; [`Error::Corruption`] if its description names no such blob file.
    pub fn blob(&self, pointer: &BlobPointer) -> Result<&Arc<BlobReader>> {
        let at = self.blobs.binary_search_by_key(&pointer.number, |blob| blob.number());
        match at.ok().and_then(|at| self.blobs.get(at)) {
            Some(blob) => blob.reader(),
            None => Err(self.stray(pointer)),
        }
    }

    #[cold]
    fn stray(&self, pointer: &BlobPointer) -> Error {
        let what = format!("a row refers to blob file {}, its description does not", pointer.number);
        match self.file.path() {
            Some(path) => Error::corruption(path, 0, what),
            None => Error::invalid(what),
        }
    }

    /// The file's number.
    #[inline]
    pub fn number(&self) -> FileNumber {
        self.meta.number
    }

    /// Whether a durable commit has removed the table; older versions may still read it.
    pub fn is_obsolete(&self) -> bool {
        self.file.is_obsolete()
    }

    /// A durable commit has removed the table.
    pub(crate) fn mark_obsolete(&self) {
        self.file.mark_obsolete();
    }
}

impl fmt::Debug for TableHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableHandle")
            .field("meta", &self.meta)
            .field("open", &self.opened().is_some())
            .field("obsolete", &self.is_obsolete())
            .finish_non_exhaustive()
    }
}
