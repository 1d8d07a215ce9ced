//! The tables a run writes: where one ends and the next begins.
//!
//! Invariants:
//! 1. A cut lies between user keys: all versions of a key go into one table.
//! 2. Range tombstones are clipped to the piece of key space between two cuts, so that the bounds of two
//!    outputs never overlap.
//! 3. A table holds at least one entry or one range tombstone.
//! 4. The table under way is cut at a key once it is `table_bytes` large, or its filter, index and range tombstones are
//!    almost more than a table can hold; at a boundary (where a table of the next level begins) already
//!    once it is `boundary_bytes` large or has passed `crossings_max` boundaries. So outputs tend to end
//!    where next-level tables end, and none, however sparse, overlaps much of the next level.
//! 5. What the writer says it wrote (count, hash) is what it was given, and refers to every value of the table's
//!    blob files.
//!
//! Durability: `finish` syncs each file, those of a table's values before the table; names become durable with the commit that installs
//! the tables.

use bytes::Bytes;
use esker_base::blob::{BlobMeta, BlobPointer};
use esker_base::checksum::entry_hash;
use esker_base::filename::FileName;
use esker_base::key::head;
use esker_base::range_tombstone::Fragment;
use esker_base::table_meta::TableMeta;
use esker_base::{Error, Kind, Result, SeqNo};
use esker_sstable::TableWriter;

use crate::blobs::Blobs;
use crate::versions::Emit;

/// Where outputs are cut. See invariant 4 of the module's source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// A table is closed at the next key once it is this large, in bytes.
    pub table_bytes: u64,
    /// Boundaries, ascending: keys at which tables of the next level begin.
    pub before: Vec<Vec<u8>>,
    /// At a boundary, a table is closed once it is this large, in bytes.
    pub boundary_bytes: u64,
    /// A table is closed at a boundary, however small, when it has passed this many.
    pub crossings_max: usize,
}

impl Cut {
    /// Cut by size alone.
    pub fn by_size(table_bytes: u64) -> Cut {
        Cut { table_bytes, before: Vec::new(), boundary_bytes: table_bytes, crossings_max: usize::MAX }
    }
}

/// Makes the writer of the next output: allocates a file number, creates the file.
pub type MakeWriter = Box<dyn FnMut() -> Result<TableWriter> + Send>;

/// The outputs of a run. See the module.
pub(crate) struct Outputs {
    make: MakeWriter,
    cut: Cut,
    /// [`TableWriter::METADATA_BYTES_MAX`], but in tests.
    metadata_bytes_max: u64,
    writer: Option<TableWriter>,
    /// Count and content hash of what the table under way was given.
    given: (u64, u64),
    /// The next boundary to come, as an index into `cut.before`.
    boundary: usize,
    /// Boundaries passed since the table under way began.
    crossings: usize,
    /// Fragments not begun yet, in reverse order.
    ahead: Vec<Fragment>,
    /// Fragments that begin in the table under way.
    begun: Vec<Fragment>,
    /// What `begun` will take in the file, roughly.
    begun_bytes: u64,
    /// Head of the next boundary or fragment start, `u64::MAX` if there is none: keys with a smaller
    /// head have nothing to pass.
    next_event: u64,
    /// Every table's file that was begun.
    begun_files: Vec<FileName>,
    finished: Vec<TableMeta>,
    blobs: Blobs,
}

impl Outputs {
    /// Outputs that will hold `fragments` (ascending, not overlapping) besides entries.
    pub(crate) fn new(make: MakeWriter, cut: Cut, mut fragments: Vec<Fragment>, blobs: Blobs) -> Outputs {
        fragments.reverse();
        let mut outputs = Outputs {
            make,
            cut,
            metadata_bytes_max: TableWriter::METADATA_BYTES_MAX,
            writer: None,
            given: (0, 0),
            boundary: 0,
            crossings: 0,
            ahead: fragments,
            begun: Vec::new(),
            begun_bytes: 0,
            next_event: 0,
            begun_files: Vec::new(),
            finished: Vec::new(),
            blobs,
        };
        outputs.note_next_event();
        outputs
    }

    /// The finished tables, in key order.
    pub(crate) fn finished(&self) -> &[TableMeta] {
        &self.finished
    }

    /// Bytes of memory that writing takes.
    pub(crate) fn memory(&self) -> u64 {
        self.writer.as_ref().map_or(0, TableWriter::memory) + self.blobs.memory()
    }

    /// The values in blob files.
    pub(crate) fn blobs(&mut self) -> &mut Blobs {
        &mut self.blobs
    }

    /// The blob files that were written for a finished table.
    pub(crate) fn blobs_of(&self, meta: &TableMeta) -> Vec<BlobMeta> {
        let of_table =
            |blob: &&BlobMeta| meta.blobs.binary_search_by_key(&blob.number, |part| part.number).is_ok();
        self.blobs.finished().iter().filter(of_table).copied().collect()
    }

    /// No entry comes any more: write what is left.
    pub(crate) fn end(&mut self) -> Result<()> {
        while let Some(fragment) = self.ahead.last() {
            let start = fragment.start.clone();
            self.pass_events(&start)?;
        }
        // A wide last fragment may reach over many more boundaries.
        while let Some((boundary, last)) = self.cut.before.get(self.boundary).zip(self.begun.last()) {
            if *boundary >= last.end {
                break;
            }
            self.pass_boundary()?;
        }
        self.end_table(None)
    }

    /// Hand out the finished tables and blob files, which are the caller's from now on.
    pub(crate) fn take_finished(&mut self) -> (Vec<TableMeta>, Vec<BlobMeta>) {
        self.begun_files.clear();
        (std::mem::take(&mut self.finished), self.blobs.take_finished())
    }

    /// Close what is not finished, and name every file that was begun.
    pub(crate) fn give_up(&mut self) -> Vec<FileName> {
        self.writer = None;
        let mut files = std::mem::take(&mut self.begun_files);
        files.append(&mut self.blobs.give_up());
        files
    }

    /// The writer of the table under way, or of the next.
    #[inline]
    fn writer(&mut self) -> Result<TableWriter> {
        if let Some(writer) = self.writer.take() {
            return Ok(writer);
        }
        let writer = (self.make)()?;
        self.begun_files.push(FileName::Table(writer.number()));
        Ok(writer)
    }

    #[inline]
    fn size(&self) -> u64 {
        self.writer.as_ref().map_or(0, TableWriter::estimated_bytes) + self.begun_bytes
    }

    /// Whether the table under way ends where the next key or range tombstone begins.
    #[inline]
    fn is_full(&self) -> bool {
        let metadata = self.writer.as_ref().map_or(0, TableWriter::metadata_bytes) + self.begun_bytes;
        self.size() >= self.cut.table_bytes || metadata >= self.metadata_bytes_max
    }

    fn note_next_event(&mut self) {
        let boundary = self.cut.before.get(self.boundary).map(|key| head(key));
        let fragment = self.ahead.last().map(|fragment| head(&fragment.start));
        self.next_event = boundary.into_iter().chain(fragment).min().unwrap_or(u64::MAX);
    }

    /// Pass every boundary and begin every fragment up to `key`, in key order.
    #[cold]
    fn pass_events(&mut self, key: &[u8]) -> Result<()> {
        loop {
            let boundary = self.cut.before.get(self.boundary).filter(|at| at.as_slice() <= key);
            let fragment = self.ahead.last().filter(|fragment| fragment.start.as_slice() <= key);
            match (boundary, fragment) {
                (None, None) => break,
                (Some(at), Some(fragment)) if fragment.start < *at => self.begin_fragment()?,
                (None, Some(_)) => self.begin_fragment()?,
                (Some(_), _) => self.pass_boundary()?,
            }
        }
        self.note_next_event();
        Ok(())
    }

    fn pass_boundary(&mut self) -> Result<()> {
        let at = self.boundary;
        self.boundary += 1;
        if self.writer.is_none() && self.begun.is_empty() {
            return Ok(());
        }
        self.crossings += 1;
        if self.size() >= self.cut.boundary_bytes || self.crossings >= self.cut.crossings_max {
            let key = self.cut.before[at].clone();
            return self.end_table(Some(&key));
        }
        Ok(())
    }

    fn begin_fragment(&mut self) -> Result<()> {
        let Some(fragment) = self.ahead.pop() else { return Ok(()) };
        if self.is_full() {
            self.end_table(Some(&fragment.start))?;
        }
        self.begun_bytes += fragment_bytes(&fragment);
        self.begun.push(fragment);
        Ok(())
    }

    /// Close the table under way, if there is one, before `at` (or at the end of everything).
    fn end_table(&mut self, at: Option<&[u8]>) -> Result<()> {
        self.crossings = 0;
        self.begun_bytes = 0;
        let mut fragments = std::mem::take(&mut self.begun);
        // Fragments do not overlap, so that at most the last reaches over the cut.
        if let (Some(at), Some(last)) = (at, fragments.last_mut())
            && last.end.as_slice() > at
        {
            let rest = Fragment {
                start: at.to_vec(),
                end: std::mem::replace(&mut last.end, at.to_vec()),
                seqnos: last.seqnos.clone(),
            };
            if last.start.as_slice() >= at {
                fragments.pop();
            }
            self.begun_bytes = fragment_bytes(&rest);
            self.begun.push(rest);
        }
        if self.writer.is_none() && fragments.is_empty() {
            return Ok(());
        }
        let mut writer = self.writer()?;
        for fragment in &fragments {
            writer.add_tombstone(fragment)?;
        }
        let blobs = self.blobs.finish_table()?;
        let meta = writer.finish()?;
        let complete = blobs.iter().all(|blob| {
            let part = meta.blobs.iter().find(|part| part.number == blob.number);
            part.is_some_and(|part| (part.values, part.value_bytes) == (blob.values, blob.value_bytes))
        });
        let own: Vec<_> = blobs.iter().map(|blob| blob.number).collect();
        let beyond =
            meta.blobs.iter().find(|part| !own.contains(&part.number) && !self.blobs.may_hold(part));
        let given = std::mem::take(&mut self.given);
        if let Some(part) = beyond {
            // An input was forged: several rows have the same pointer, or pointers are longer than the
            // values are.
            let name = FileName::Blob(part.number).to_string();
            self.finished.push(meta);
            return Err(Error::corruption(name, 0, "rows refer to more values in it than it holds"));
        }
        if !complete {
            let name = FileName::Table(meta.number).to_string();
            self.finished.push(meta);
            return Err(Error::corruption(name, 0, "it does not refer to all values of its blob files"));
        }
        if (meta.entries, meta.content_hash) != given {
            let name = FileName::Table(meta.number).to_string();
            let what = format!("it was given {} entries and wrote {} others", given.0, meta.entries);
            self.finished.push(meta);
            return Err(Error::corruption(name, 0, what));
        }
        self.finished.push(meta);
        Ok(())
    }
}

impl Emit for Outputs {
    #[inline]
    fn advance(&mut self, key: &[u8]) -> Result<()> {
        if self.next_event <= head(key) {
            self.pass_events(key)?;
        }
        if self.is_full() { self.end_table(Some(key)) } else { Ok(()) }
    }

    #[inline]
    fn emit(&mut self, key: &[u8], seqno: SeqNo, kind: Kind, value: &[u8], hash: u64) -> Result<()> {
        match kind {
            Kind::Put if self.blobs.takes(value.len()) => self.put_apart(key, seqno, value),
            Kind::BlobPut => self.pass_on(key, seqno, value, hash),
            _ => self.add(key, seqno, kind, value, hash),
        }
    }

    fn value_of(&mut self, key: &[u8], pointer: &[u8]) -> Result<Bytes> {
        self.blobs.read(key, &decoded(pointer)?)
    }
}

impl Outputs {
    /// A row of the table under way, as it stands.
    #[inline]
    fn add(&mut self, key: &[u8], seqno: SeqNo, kind: Kind, value: &[u8], hash: u64) -> Result<()> {
        self.given = (self.given.0 + 1, self.given.1.wrapping_add(hash));
        if let Some(writer) = &mut self.writer {
            return writer.add_hashed(key, seqno, kind, value, hash);
        }
        let writer = self.writer()?;
        self.writer.insert(writer).add_hashed(key, seqno, kind, value, hash)
    }

    /// A put whose value goes to a blob file.
    fn put_apart(&mut self, key: &[u8], seqno: SeqNo, value: &[u8]) -> Result<()> {
        let pointer = self.blobs.write(key, value)?.encode();
        let hash = entry_hash(key, seqno.0, Kind::BlobPut as u8, &pointer);
        self.add(key, seqno, Kind::BlobPut, &pointer, hash)
    }

    /// A put whose value lies in a blob file, and stays there unless that file is to be collected.
    fn pass_on(&mut self, key: &[u8], seqno: SeqNo, pointer: &[u8], hash: u64) -> Result<()> {
        let decoded = decoded(pointer)?;
        if !self.blobs.collects(&decoded)? {
            return self.add(key, seqno, Kind::BlobPut, pointer, hash);
        }
        let value = self.blobs.read(key, &decoded)?;
        if self.blobs.takes(value.len()) {
            return self.put_apart(key, seqno, &value);
        }
        let hash = entry_hash(key, seqno.0, Kind::Put as u8, &value);
        self.add(key, seqno, Kind::Put, &value, hash)
    }
}

/// A pointer whose length the run has checked.
fn decoded(pointer: &[u8]) -> Result<BlobPointer> {
    BlobPointer::decode(pointer).map_err(|error| Error::invalid(error.what))
}

/// What a fragment takes in a file, roughly.
fn fragment_bytes(fragment: &Fragment) -> u64 {
    (fragment.start.len() + fragment.end.len() + 8 * fragment.seqnos.len() + 8) as u64
}

#[cfg(test)]
mod tests;
