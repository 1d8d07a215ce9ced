//! The store that does nothing: what it "reaches" is what the measuring loop costs.

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use crate::keys::{Key, prefix_rows};
use crate::store::{Direction, Reader, Result, Settings, Store};

/// Keeps nothing.
pub(crate) struct Null;

/// Makes up the same row for every question.
pub(crate) struct NullReader {
    key: Key,
    value: [u8; 100],
}

impl Store for Null {
    const BATCHED: bool = false;
    const LZ4: bool = true;
    const NULL: bool = true;
    type Reader<'a> = NullReader;

    fn open(_dir: &Path, _settings: Settings) -> Result<Self> {
        Ok(Null)
    }

    #[inline(never)]
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        black_box((key, value));
        Ok(())
    }

    #[inline(never)]
    fn put_all<K: AsRef<[u8]>>(&self, rows: &[(K, &[u8])]) -> Result<()> {
        black_box(rows);
        Ok(())
    }

    #[inline(never)]
    fn delete(&self, key: &[u8]) -> Result<()> {
        black_box(key);
        Ok(())
    }

    #[inline(never)]
    fn delete_all<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<()> {
        black_box(keys);
        Ok(())
    }

    fn delete_range(&self, _from: &Key, _to: &Key) -> Result<bool> {
        Ok(true)
    }

    fn settle(&self) -> Result<Instant> {
        Ok(Instant::now())
    }

    fn reader(&self) -> Result<NullReader> {
        Ok(NullReader { key: [1; 16], value: [1; 100] })
    }

    fn close(self) -> Result<()> {
        Ok(())
    }
}

impl Reader for NullReader {
    #[inline(never)]
    fn get(&mut self, key: &[u8], see: impl FnOnce(&[u8])) -> Result<bool> {
        black_box(key);
        see(&self.value);
        Ok(true)
    }

    #[inline(never)]
    fn scan(
        &mut self,
        from: Option<&[u8]>,
        _direction: Direction,
        rows: u64,
        mut see: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        black_box(from);
        for _ in 0..rows {
            see(black_box(&self.key), &self.value);
        }
        Ok(rows)
    }

    /// As many rows as a prefix of the workloads' grouped keys has.
    fn prefix(&mut self, prefix: &[u8], see: impl FnMut(&[u8], &[u8])) -> Result<u64> {
        self.scan(None, Direction::Forward, prefix_rows(prefix.len()), see)
    }
}
