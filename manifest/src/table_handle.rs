//! A table that some version of the tree holds: its description, its reader, and its end.
//!
//! 1. The reader is opened by the first read that needs it and stays open as long as the handle lives: a
//!    version holds handles, not readers, so opening a database opens no table.
//! 2. Two handles never stand for the same live table: a move to another level carries the handle along.
//! 3. A handle is marked obsolete only after a commit that removes its table is durable. When the last
//!    reference to an obsolete handle goes, its reader is closed and then its number is put on the garbage
//!    list; from then on nobody can read the file, and it may be removed.
//!
//! Threads: any. An open reader is one load away; the lock is taken only while a reader is being opened,
//! by those who want the same table; it is a leaf but for what opening a file takes.

use std::fmt;
use std::sync::{Arc, OnceLock};

use esker_base::blob::BlobPointer;
use esker_base::filename::FileName;
use esker_base::sync::Mutex;
use esker_base::sync::atomic::{AtomicBool, Ordering};
use esker_base::table_meta::TableMeta;
use esker_base::{Error, FileNumber, Result};
use esker_sstable::{BlobReader, TableContext, TableReader};

use crate::blob_handle::BlobHandle;

#[cfg(test)]
mod tests;

/// What all handles of one database share, those of blob files too.
pub(crate) struct TableFiles {
    /// How tables are opened.
    context: TableContext,
    /// Files that were obsolete when their last reference went.
    garbage: Mutex<Vec<FileName>>,
}

impl TableFiles {
    pub(crate) fn new(context: TableContext) -> Arc<TableFiles> {
        Arc::new(TableFiles { context, garbage: Mutex::default() })
    }

    /// Take the list of files that nobody can read any more.
    pub(crate) fn take_garbage(&self) -> Vec<FileName> {
        std::mem::take(&mut self.garbage.lock())
    }

    /// How tables and blob files are opened.
    pub(crate) fn context(&self) -> &TableContext {
        &self.context
    }

    /// Nobody can read this file any more.
    pub(crate) fn discard(&self, name: FileName) {
        self.garbage.lock().push(name);
    }
}

/// A table of the tree. Shared as `Arc<TableHandle>`; see the module for its life.
pub struct TableHandle {
    /// The table's description.
    pub meta: TableMeta,
    /// The blob files that it refers to, as in its description.
    blobs: Vec<Arc<BlobHandle>>,
    /// `None` for a table that stands in no directory.
    files: Option<Arc<TableFiles>>,
    /// The open table, from the first read on.
    reader: OnceLock<Arc<TableReader>>,
    /// Held while the table is being opened.
    opening: Mutex<()>,
    /// A durable commit has removed the table.
    obsolete: AtomicBool,
}

impl TableHandle {
    /// A handle of a table in a database's directory.
    pub(crate) fn new(
        meta: TableMeta,
        blobs: Vec<Arc<BlobHandle>>,
        files: &Arc<TableFiles>,
    ) -> Arc<TableHandle> {
        Arc::new(TableHandle::build(meta, blobs, Some(Arc::clone(files))))
    }

    /// A handle of a table that stands in no directory: for simulations and tests of whatever decides by
    /// descriptions alone. Its reader is not to be had.
    pub fn detached(meta: TableMeta) -> Arc<TableHandle> {
        TableHandle::detached_with(meta, Vec::new())
    }

    /// The same of a table that refers to these blob files, in the order of its description.
    pub fn detached_with(meta: TableMeta, blobs: Vec<Arc<BlobHandle>>) -> Arc<TableHandle> {
        Arc::new(TableHandle::build(meta, blobs, None))
    }

    fn build(meta: TableMeta, blobs: Vec<Arc<BlobHandle>>, files: Option<Arc<TableFiles>>) -> TableHandle {
        let (reader, opening) = (OnceLock::new(), Mutex::new(()));
        TableHandle { meta, blobs, files, reader, opening, obsolete: AtomicBool::new(false) }
    }

    /// The open table; the first call opens it, once, and others who want the same table wait. After an
    /// error the next call tries again.
    ///
    /// # Errors
    /// As [`TableReader::open`]; [`Error::InvalidArgument`] for a detached handle.
    #[inline]
    pub fn reader(&self) -> Result<&Arc<TableReader>> {
        match self.reader.get() {
            Some(reader) => Ok(reader),
            None => self.open(),
        }
    }

    #[cold]
    fn open(&self) -> Result<&Arc<TableReader>> {
        let number = self.meta.number;
        let files = self.files.as_ref();
        let files =
            files.ok_or_else(|| Error::invalid(format!("table {number} stands in no directory")))?;
        let _turn = self.opening.lock();
        if let Some(reader) = self.reader.get() {
            return Ok(reader);
        }
        let reader = Arc::new(TableReader::open(&files.context, &self.meta)?);
        Ok(self.reader.get_or_init(|| reader))
    }

    /// The table, if it was opened before: nothing is read.
    #[inline]
    pub fn opened(&self) -> Option<&Arc<TableReader>> {
        self.reader.get()
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
        match &self.files {
            Some(files) => {
                let name = FileName::Table(self.meta.number).to_string();
                Error::corruption(files.context.dir.join(name), 0, what)
            }
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
        self.obsolete.load(Ordering::Acquire)
    }

    /// A durable commit has removed the table.
    pub(crate) fn mark_obsolete(&self) {
        self.obsolete.store(true, Ordering::Release);
    }
}

impl Drop for TableHandle {
    fn drop(&mut self) {
        if let (true, Some(files)) = (*self.obsolete.get_mut(), &self.files) {
            drop(self.reader.take());
            files.discard(FileName::Table(self.meta.number));
        }
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
