//! Reading an output back before it is installed: every entry, in order, against the table's description.
//!
//! The writer has synced the file, so what is read is what is there, checksums and all. What is proved:
//! entries ascend strictly, lie inside the bounds, are as many as described and hash to the described
//! content hash; the filter knows each key; the range tombstones are as many as described.

use std::path::PathBuf;
use std::sync::Arc;

use esker_base::checksum::{entry_hash, key_hash};
use esker_base::filename::FileName;
use esker_base::table_meta::TableMeta;
use esker_base::{Cursor, Error, Result, SeqNo};
use esker_sstable::{CursorOptions, TableContext, TableCursor, TableReader};

pub(crate) struct Readback {
    reader: Arc<TableReader>,
    cursor: TableCursor,
    meta: TableMeta,
    path: PathBuf,
    started: bool,
    entries: u64,
    hash: u64,
    /// The last entry seen.
    key: Vec<u8>,
    seqno: SeqNo,
}

impl Readback {
    pub(crate) fn open(context: &TableContext, meta: &TableMeta) -> Result<Readback> {
        let reader = Arc::new(TableReader::open(context, meta)?);
        let cursor = reader.cursor(CursorOptions { fill_cache: false, readahead: true });
        let path = context.dir.join(FileName::Table(meta.number).to_string());
        Ok(Readback {
            reader,
            cursor,
            meta: meta.clone(),
            path,
            started: false,
            entries: 0,
            hash: 0,
            key: Vec::new(),
            seqno: SeqNo::MAX,
        })
    }

    /// Read about `budget` bytes more, and take them off the budget; whether the whole table was read and
    /// found right.
    pub(crate) fn step(&mut self, budget: &mut u64) -> Result<bool> {
        if !self.started {
            self.started = true;
            self.cursor.seek_first()?;
        }
        while *budget > 0 {
            if !self.cursor.valid() {
                return self.conclude();
            }
            let (key, value) = (self.cursor.key(), self.cursor.value());
            let (seqno, kind) = (self.cursor.seqno(), self.cursor.kind());
            let new_key = self.entries == 0 || self.key.as_slice() != key;
            let ascends =
                if new_key { self.entries == 0 || self.key.as_slice() < key } else { seqno < self.seqno };
            if !ascends {
                return Err(self.wrong("its entries do not ascend"));
            }
            if new_key {
                if !self.reader.may_contain(key_hash(key)) {
                    return Err(self.wrong("its filter denies a key it holds"));
                }
                self.key.clear();
                self.key.extend_from_slice(key);
            }
            self.seqno = seqno;
            self.entries += 1;
            self.hash = self.hash.wrapping_add(entry_hash(key, seqno.0, kind as u8, value));
            *budget = budget.saturating_sub((key.len() + value.len()) as u64);
            self.cursor.next()?;
        }
        Ok(false)
    }

    fn conclude(&self) -> Result<bool> {
        let tombstones: usize = self.reader.tombstones().list().iter().map(|f| f.seqnos.len()).sum();
        if self.entries != self.meta.entries || self.hash != self.meta.content_hash {
            return Err(self.wrong("its entries are not those that were written"));
        }
        if tombstones as u64 != self.meta.range_tombstones {
            return Err(self.wrong("its range tombstones are not those that were written"));
        }
        if self.entries > 0 && !self.meta.bounds.contains(&self.key) {
            return Err(self.wrong("its last key lies outside its bounds"));
        }
        Ok(true)
    }

    fn wrong(&self, what: &str) -> Error {
        Error::corruption(&self.path, 0, format!("read back right after it was written, {what}"))
    }
}

#[cfg(test)]
mod tests;
