//! Reading an output back before it is installed: every entry, in order, against the table's description.
//!
//! The writer has synced the file, so what is read is what is there, checksums and all. What is proved:
//! entries ascend strictly, lie inside the bounds, are as many as described and hash to the described
//! content hash; the filter knows each key; the range tombstones are as many as described. Each value that was
//! written to a blob file for the table is read as well, in the order it was written, and there are as many as the
//! file says.

use std::cmp::Ordering;
use std::path::PathBuf;
use std::sync::Arc;

use esker_base::blob::{BlobMeta, BlobPointer};
use esker_base::checksum::{entry_hash, key_hash};
use esker_base::filename::FileName;
use esker_base::key::compare;
use esker_base::table_meta::TableMeta;
use esker_base::{Cursor, Error, Kind, OpCost, Result, SeqNo};
use esker_sstable::{BlobReader, BlobWalk, CursorOptions, TableContext, TableCursor, TableReader};

/// How many keys pass between asking for a filter's line and looking at it: as many as are read in the time
/// that memory takes to answer, and some more.
const EXPECTED_MAX: usize = 8;

const DENIED: &str = "its filter denies a key it holds";

/// The hashes of the keys seen last, whose filter lines are on their way.
#[derive(Default)]
struct Expected {
    hashes: [u64; EXPECTED_MAX],
    /// Keys so far.
    keys: usize,
}

impl Expected {
    /// Ask for the line of a key. Returns whether the filter knows the key that was asked for longest ago.
    #[inline]
    fn pass(&mut self, reader: &TableReader, hash: u64) -> bool {
        reader.prefetch_filter(hash);
        let place = self.keys % EXPECTED_MAX;
        let asked = std::mem::replace(&mut self.hashes[place], hash);
        self.keys += 1;
        self.keys <= EXPECTED_MAX || reader.may_contain(asked)
    }

    /// Whether the filter knows those that are left.
    fn known(&self, reader: &TableReader) -> bool {
        self.hashes.iter().take(self.keys).all(|&hash| reader.may_contain(hash))
    }
}

pub(crate) struct Readback {
    reader: Arc<TableReader>,
    cursor: TableCursor,
    meta: TableMeta,
    path: PathBuf,
    started: bool,
    entries: u64,
    hash: u64,
    expected: Expected,
    /// The blob files that were written for the table, by number.
    blobs: Vec<Written>,
    walk: BlobWalk,
    cost: OpCost,
    /// The last entry seen.
    key: Vec<u8>,
    seqno: SeqNo,
}

/// A blob file that was written, and how much of it was read.
struct Written {
    reader: Arc<BlobReader>,
    values: u64,
    /// Where the last record read begins.
    offset: u64,
}

impl Readback {
    pub(crate) fn open(context: &TableContext, meta: &TableMeta, blobs: &[BlobMeta]) -> Result<Readback> {
        let open = |blob: &BlobMeta| -> Result<Written> {
            Ok(Written { reader: Arc::new(BlobReader::open(context, blob)?), values: 0, offset: 0 })
        };
        let mut blobs = blobs.iter().map(open).collect::<Result<Vec<Written>>>()?;
        blobs.sort_by_key(|blob| blob.reader.meta().number);
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
            expected: Expected::default(),
            blobs,
            walk: BlobWalk::default(),
            cost: OpCost::default(),
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
            let behind = match self.entries {
                0 => Ordering::Less,
                _ => compare(&self.key, key),
            };
            let new_key = behind == Ordering::Less;
            if !new_key && (behind == Ordering::Greater || seqno >= self.seqno) {
                return Err(self.wrong("its entries do not ascend"));
            }
            if new_key {
                if !self.expected.pass(&self.reader, key_hash(key)) {
                    return Err(self.wrong(DENIED));
                }
                self.key.clear();
                self.key.extend_from_slice(key);
            }
            self.seqno = seqno;
            self.entries += 1;
            self.hash = self.hash.wrapping_add(entry_hash(key, seqno.0, kind as u8, value));
            *budget = budget.saturating_sub((key.len() + value.len()) as u64);
            if kind == Kind::BlobPut && !self.blobs.is_empty() {
                *budget = budget.saturating_sub(self.value()?);
            }
            self.cursor.next()?;
        }
        Ok(false)
    }

    /// Read the value that the cursor's entry refers to, if it was written for this table; its length.
    fn value(&mut self) -> Result<u64> {
        let Ok(pointer) = BlobPointer::decode(self.cursor.value()) else {
            return Err(self.wrong("a pointer is none"));
        };
        let at = self.blobs.binary_search_by_key(&pointer.number, |blob| blob.reader.meta().number);
        let Ok(at) = at else { return Ok(0) };
        let blob = &mut self.blobs[at];
        self.walk.value(&blob.reader, self.cursor.key(), &pointer, &mut self.cost)?;
        let ascends = pointer.offset > blob.offset;
        blob.values += 1;
        blob.offset = pointer.offset;
        if ascends { Ok(pointer.len.into()) } else { Err(self.wrong("two rows have one value")) }
    }

    fn conclude(&self) -> Result<bool> {
        let tombstones: usize = self.reader.tombstones().list().iter().map(|f| f.seqnos.len()).sum();
        if !self.expected.known(&self.reader) {
            return Err(self.wrong(DENIED));
        }
        if self.entries != self.meta.entries || self.hash != self.meta.content_hash {
            return Err(self.wrong("its entries are not those that were written"));
        }
        if self.blobs.iter().any(|blob| blob.values != blob.reader.meta().values) {
            return Err(self.wrong("its rows do not refer to all values of its blob files"));
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
