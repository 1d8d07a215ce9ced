//! Taking what is readable out of a damaged table.

use esker_base::{Error, Kind, OpCost, Result, SeqNo};

use crate::block::{BlockCursor, Known};
use crate::cache::Fill;
use crate::reader::TableReader;

impl TableReader {
    /// How many data blocks there are.
    pub fn block_count(&self) -> usize {
        self.index().blocks()
    }

    /// A user key that is at or after every key of data block `block`, whether the block is readable or
    /// not. `None` if there is no such block.
    pub fn block_end(&self, block: usize) -> Option<Vec<u8>> {
        (block < self.index().blocks()).then(|| self.index().separator(block))
    }

    /// Hand every entry of data block `block` to `each`, in order.
    ///
    /// # Errors
    /// [`Error::Corruption`] if the block does not check; `each` was not called then.
    pub fn salvage_block(
        &self,
        block: usize,
        mut each: impl FnMut(&[u8], SeqNo, Kind, &[u8]),
    ) -> Result<()> {
        let mut cursor = BlockCursor::default();
        cursor.set(self.read_block(block, Fill::No, &mut OpCost::default())?, Known::default());
        for row in 0..cursor.rows() {
            cursor.stand(row);
            each(cursor.key(), cursor.seqno(), cursor.kind(), cursor.value());
        }
        Ok(())
    }

    /// Hand every entry of every block that checks to `each`, in order, and return what was wrong with
    /// the others: one error for each block that does not check. Range tombstones are in
    /// [`TableReader::tombstones`].
    ///
    /// A table whose footer, index or properties are damaged cannot be opened and so not salvaged;
    /// nothing else in the file tells blocks apart from values that look like them.
    pub fn salvage(&self, mut each: impl FnMut(&[u8], SeqNo, Kind, &[u8])) -> Vec<Error> {
        let blocks = 0..self.block_count();
        blocks.filter_map(|block| self.salvage_block(block, &mut each).err()).collect()
    }
}
