//! Rows whose values lie in blob files.
//!
//! Values are read when the walk comes to their rows, unless nobody wants values.

use esker_base::cursor::Lent;
use esker_base::planted::{self, Planted};
use esker_base::{Cursor, Result};

use super::{Rows, Stand, WalkEnd};

impl Rows {
    /// Nobody will ask for values from here on.
    pub(crate) fn read_keys_only(&mut self) {
        self.keys_only = true;
        if planted::is(Planted::KeysPastTombstones) {
            self.has_tombstones = false;
        }
    }

    /// The merge's entry, of `self.key`, is the row, and its value lies in a blob file.
    #[inline(never)]
    pub(super) fn stand_on_blob(&mut self) -> Result<WalkEnd> {
        if !self.keys_only {
            self.read_blob()?;
        }
        self.lend_blob(Stand::OnEntry);
        Ok(WalkEnd::Done)
    }

    /// Read the value of the merge's entry from its blob file; it is what `blobs` has read last then.
    #[inline(never)]
    pub(super) fn read_blob(&mut self) -> Result<()> {
        let source = self.merge.leader().map(|leader| &self.merge.sources()[leader]);
        let (reader, pointer) = source.expect("the merge stands on an entry").blob()?;
        self.blobs.value(reader, self.merge.key(), &pointer, &mut self.cost)?;
        Ok(())
    }

    /// Stand on a row whose key is a copy, and whose value was the last to be read from a blob file, if it was read.
    #[inline]
    pub(super) fn lend_blob(&mut self, stand: Stand) {
        let value = if self.keys_only { &[] } else { self.blobs.last() };
        self.lend(stand, Lent { key: self.key.as_slice(), value });
    }
}
