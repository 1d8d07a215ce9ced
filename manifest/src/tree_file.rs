//! A file of the tree that is opened by its first reader and removed after its last: what a table and a
//! blob file have in common.
//!
//! 1. It is opened by the first read that needs it, and stays open as long as its handle lives. A version
//!    holds handles, not readers, so opening a database opens no table and no blob file.
//! 2. It is marked obsolete only after a commit that removes it is durable. When the last reference to an
//!    obsolete handle goes, the reader is closed, and then the file's name is put on the garbage list: from
//!    then on nobody can read the file, and it may be removed.
//!
//! Threads: any. An open reader is one load away. The lock `opening` is taken only while the file is being
//! opened, by those who want to read it; it is a leaf but for the locks that opening a file takes. The lock
//! of the garbage list is a leaf.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use esker_base::filename::FileName;
use esker_base::sync::Mutex;
use esker_base::sync::atomic::{AtomicBool, Ordering};
use esker_base::{Error, Result};
use esker_sstable::TableContext;

/// What the handles of all tables and blob files of one database share.
pub(crate) struct TreeFiles {
    /// How tables and blob files are opened.
    context: TableContext,
    /// Files that were obsolete when their last reference went.
    garbage: Mutex<Vec<FileName>>,
}

impl TreeFiles {
    pub(crate) fn new(context: TableContext) -> Arc<TreeFiles> {
        Arc::new(TreeFiles { context, garbage: Mutex::default() })
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
    fn discard(&self, name: FileName) {
        self.garbage.lock().push(name);
    }
}

/// See the module. `R` reads the file.
pub(crate) struct TreeFile<R> {
    name: FileName,
    /// `None` for a file that stands in no directory.
    files: Option<Arc<TreeFiles>>,
    /// The open file, from the first read on.
    reader: OnceLock<Arc<R>>,
    /// Held while the file is being opened.
    opening: Mutex<()>,
    /// A durable commit has removed the file.
    obsolete: AtomicBool,
}

impl<R> TreeFile<R> {
    /// A file in a database's directory.
    pub(crate) fn new(name: FileName, files: &Arc<TreeFiles>) -> TreeFile<R> {
        TreeFile::build(name, Some(Arc::clone(files)))
    }

    /// A file that stands in no directory: its reader is not to be had.
    pub(crate) fn detached(name: FileName) -> TreeFile<R> {
        TreeFile::build(name, None)
    }

    /// A file that is open already, and that no version set knows.
    pub(crate) fn of_reader(name: FileName, reader: Arc<R>) -> TreeFile<R> {
        let file = TreeFile::detached(name);
        file.reader.get_or_init(|| reader);
        file
    }

    fn build(name: FileName, files: Option<Arc<TreeFiles>>) -> TreeFile<R> {
        let (reader, opening) = (OnceLock::new(), Mutex::new(()));
        TreeFile { name, files, reader, opening, obsolete: AtomicBool::new(false) }
    }

    /// Open the file by `open`, if it is not open yet: once, and others who want it wait. After an error the next
    /// call tries again.
    ///
    /// A read looks at [`opened`](Self::opened) first, and a handle calls this from a function that is not
    /// inlined. This one is generic: it would be compiled into the crates above, where gets took up to 0.9 %
    /// more instructions for it.
    ///
    /// # Errors
    /// Those of `open`; [`Error::InvalidArgument`] for a file that stands in no directory.
    pub(crate) fn open(&self, open: impl FnOnce(&TableContext) -> Result<R>) -> Result<&Arc<R>> {
        let files = self.files.as_ref();
        let files = files.ok_or_else(|| Error::invalid(format!("{} stands in no directory", self.name)))?;
        let _turn = self.opening.lock();
        if let Some(reader) = self.reader.get() {
            return Ok(reader);
        }
        let reader = Arc::new(open(&files.context)?);
        Ok(self.reader.get_or_init(|| reader))
    }

    /// The open file, if it was opened before: nothing is read.
    #[inline]
    pub(crate) fn opened(&self) -> Option<&Arc<R>> {
        self.reader.get()
    }

    /// Its path; `None` if it stands in no directory.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        self.files.as_ref().map(|files| files.context.dir.join(self.name.to_string()))
    }

    /// Whether a durable commit has removed the file; older versions may still read it.
    pub(crate) fn is_obsolete(&self) -> bool {
        self.obsolete.load(Ordering::Acquire)
    }

    /// A durable commit has removed the file.
    pub(crate) fn mark_obsolete(&self) {
        self.obsolete.store(true, Ordering::Release);
    }
}

impl<R> Drop for TreeFile<R> {
    fn drop(&mut self) {
        if let (true, Some(files)) = (*self.obsolete.get_mut(), &self.files) {
            drop(self.reader.take());
            files.discard(self.name);
        }
    }
}
