//! Taking what is readable out of a damaged table.

use esker_base::{Error, Kind, OpCost, SeqNo};

use crate::block::BlockCursor;
use crate::reader::TableReader;

impl TableReader {
    /// Hand every entry of every block that checks to `each`, in order, and return what was wrong with
    /// the others: one error for each block that does not check. Range tombstones are in
    /// [`TableReader::tombstones`].
    ///
    /// A table whose footer, index or properties are damaged cannot be opened and so not salvaged;
    /// nothing else in the file tells blocks apart from values that look like them.
    pub fn salvage(&self, mut each: impl FnMut(&[u8], SeqNo, Kind, &[u8])) -> Vec<Error> {
        let mut damage = Vec::new();
        let mut cursor = BlockCursor::default();
        for block in 0..self.index().blocks() {
            match self.read_block(block, false, &mut OpCost::default()) {
                Err(error) => damage.push(error),
                Ok(block) => {
                    cursor.set(block);
                    for row in 0..cursor.rows() {
                        cursor.stand(row);
                        each(cursor.key(), cursor.seqno(), cursor.kind(), cursor.value());
                    }
                }
            }
        }
        damage
    }
}
