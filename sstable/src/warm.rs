//! Bringing a table's blocks into the cache before they are read.

use bytes::Bytes;
use esker_base::sync::atomic::Ordering;
use esker_base::{OpCost, Result};

use crate::cache::Fill;
use crate::reader::TableReader;

/// Bytes read at once.
const PIECE_BYTES: u64 = 256 << 10;

impl TableReader {
    /// About how many bytes of the table's data blocks are cached, as they lie in the file.
    pub fn cached_bytes(&self) -> u64 {
        let (cached, blocks) = (self.cached().count() as u64, self.index().blocks().max(1) as u64);
        // A share of what fits a file; with fewer than 2^20 blocks of 16 TiB nothing is lost.
        (u128::from(self.data_bytes()) * u128::from(cached) / u128::from(blocks))
            .try_into()
            .unwrap_or(u64::MAX)
    }

    /// The caller is about to call [`warm`](Self::warm) until nothing is left to do: until then a miss reads its block alone, not
    /// the blocks beside it.
    pub fn expect_warming(&self) {
        self.warming.store(true, Ordering::Relaxed);
    }

    /// Whether all blocks are coming into the cache, as far as there is room.
    pub(crate) fn is_warming(&self) -> bool {
        self.warming.load(Ordering::Relaxed)
    }

    /// Cache the blocks of one piece of the file, from block `from` on, as far as there is room without another block having
    /// to leave; the block to go on with, or `None` where there is nothing more to do. Reads go into `cost`. Of a mapped
    /// table nothing is cached.
    ///
    /// # Errors
    /// Those of reading, and [`Error::Corruption`](esker_base::Error::Corruption). The blocks before are cached.
    pub fn warm(&self, from: usize, cost: &mut OpCost) -> Result<Option<usize>> {
        let index = self.index();
        let blocks = index.blocks();
        if from >= blocks || self.file().mapping().is_some() || !self.has_room(from) {
            self.warming.store(false, Ordering::Relaxed);
            return Ok(None);
        }
        let (start, end) = (index.offset(from), index.end_within(from, PIECE_BYTES));
        let len = usize::try_from(index.offset(end) - start).unwrap_or_default();
        let piece = Bytes::from(self.file().read(start, len)?);
        cost.bytes_from_disk += len as u64;
        for block in (from..end).filter(|&block| !self.cached().holds(block)) {
            let at = usize::try_from(index.offset(block) - start).unwrap_or_default();
            let stored = piece.slice(at..at + index.stored_len(block));
            self.open_slice(block, &stored, Fill::Room, cost)?;
        }
        if end == blocks {
            self.warming.store(false, Ordering::Relaxed);
        }
        Ok((end < blocks).then_some(end))
    }

    fn has_room(&self, block: usize) -> bool {
        self.cached().takes(block, Fill::Room, self.index().stored_len(block))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use esker_base::checksum::key_hash;
    use esker_base::{Kind, SeqNo};

    use super::*;
    use crate::testing::{bytes_of, context, entry, memory, overwrite, path, write};
    use crate::{TableOptions, TableSource};

    /// Rows of about 100 KiB in all.
    fn open(source: TableSource, cache_bytes: u64, damage: bool) -> Arc<TableReader> {
        let fs = memory();
        let entries: Vec<_> = (0..1000u32)
            .map(|n| entry(format!("{n:04}"), 1, Kind::Put, [n.to_le_bytes()[0]; 100]))
            .collect();
        let meta = write(&fs, TableOptions::default(), &entries, &[]).expect("memory");
        if damage {
            let mut bytes = bytes_of(&*fs, &path());
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            overwrite(&*fs, &bytes);
        }
        Arc::new(TableReader::open(&context(&fs, source, cache_bytes), &meta).expect("opened"))
    }

    fn warm(reader: &TableReader, cost: &mut OpCost) -> Result<()> {
        let mut block = Some(0);
        while let Some(from) = block {
            block = reader.warm(from, cost)?;
        }
        Ok(())
    }

    #[test]
    fn a_table_that_was_warmed_is_not_read_again() {
        let reader = open(TableSource::Buffered, 1 << 20, false);
        assert_eq!(reader.cached_bytes(), 0);
        let mut cost = OpCost::default();
        warm(&reader, &mut cost).expect("memory");
        assert_eq!(reader.cached_bytes(), reader.data_bytes());
        assert_eq!(cost.bytes_from_disk, reader.data_bytes());
        let mut cost = OpCost::default();
        for n in 0..1000 {
            let key = format!("{n:04}").into_bytes();
            reader.get(&key, key_hash(&key), SeqNo::MAX, &mut cost).expect("memory").expect("found");
        }
        assert_eq!((cost.blocks_from_cache, cost.blocks_from_disk), (1000, 0));
        warm(&reader, &mut cost).expect("memory");
        assert_eq!(cost.blocks_from_disk, 0, "what is cached is not opened again");
    }

    #[test]
    fn no_block_leaves_for_it() {
        let reader = open(TableSource::Buffered, 30 << 10, false);
        warm(&reader, &mut OpCost::default()).expect("memory");
        let cached = reader.cached_bytes();
        assert!((15 << 10..40 << 10).contains(&cached), "{cached}");
        assert!(reader.cached().holds(0), "the first came first");
        let mut cost = OpCost::default();
        warm(&reader, &mut cost).expect("memory");
        assert_eq!((cost.bytes_from_disk, reader.cached_bytes()), (0, cached), "there is no room");
    }

    #[test]
    fn of_a_mapped_table_nothing_is_cached() {
        let reader = open(TableSource::Mapped, 1 << 20, false);
        warm(&reader, &mut OpCost::default()).expect("memory");
        assert_eq!(reader.cached_bytes(), 0);
    }

    #[test]
    fn a_damaged_block_is_an_error_and_not_cached() {
        let reader = open(TableSource::Buffered, 1 << 20, true);
        let error = warm(&reader, &mut OpCost::default()).expect_err("damaged");
        assert!(error.is_corruption(), "{error}");
        assert!(reader.cached_bytes() < reader.data_bytes());
    }
}
