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
//! by those who want the same table.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use esker_base::FileNumber;
use esker_base::table_meta::TableMeta;
use parking_lot::Mutex;

/// What all handles of one database share.
#[derive(Default)]
pub(crate) struct TableFiles {
    /// Tables that were obsolete when their last reference went.
    garbage: Mutex<Vec<FileNumber>>,
}

impl TableFiles {
    /// Take the list of files that nobody can read any more.
    pub(crate) fn take_garbage(&self) -> Vec<FileNumber> {
        std::mem::take(&mut self.garbage.lock())
    }
}

/// A table of the tree. Shared as `Arc<TableHandle>`; see the module for its life.
pub struct TableHandle {
    /// The table's description.
    pub meta: TableMeta,
    /// `None` for a table that stands in no directory.
    files: Option<Arc<TableFiles>>,
    /// A durable commit has removed the table.
    obsolete: AtomicBool,
}

impl TableHandle {
    /// A handle of a table in a database's directory.
    pub(crate) fn new(meta: TableMeta, files: &Arc<TableFiles>) -> Arc<TableHandle> {
        Arc::new(TableHandle { meta, files: Some(Arc::clone(files)), obsolete: AtomicBool::new(false) })
    }

    /// A handle of a table that stands in no directory: for simulations and tests of whatever decides by
    /// descriptions alone. Its reader is not to be had.
    pub fn detached(meta: TableMeta) -> Arc<TableHandle> {
        Arc::new(TableHandle { meta, files: None, obsolete: AtomicBool::new(false) })
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
            files.garbage.lock().push(self.meta.number);
        }
    }
}

impl fmt::Debug for TableHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableHandle")
            .field("meta", &self.meta)
            .field("obsolete", &self.is_obsolete())
            .finish_non_exhaustive()
    }
}
