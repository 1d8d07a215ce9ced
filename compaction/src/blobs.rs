//! What a run does with values that lie, or are to lie, in blob files.
//!
//! 1. A put whose value is long enough goes to a blob file of the run, and its row gets a pointer: that is how a
//!    flush writes it, and how a database from before there were blob files is converted.
//! 2. A row with a pointer is passed on as it is, and its value is not read. But if its blob file is to be
//!    *collected* ([`collect`](crate::collect)), the value is read and goes through rule 1 again.
//! 3. A merge operand's base is read where it lies.
//! 4. The blob files of a table hold its values and no others, are finished before it is, and are finished (so
//!    synced) before anybody reads them back.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use esker_base::blob::{BlobMeta, BlobPointer, BlobRef};
use esker_base::filename::FileName;
use esker_base::{Error, FileNumber, OpCost, Result, memory};
use esker_manifest::BlobHandle;
use esker_sstable::{BlobWalk, BlobWriter};

/// Makes the writer of the next blob file: allocates a file number, creates the file.
pub type MakeBlobWriter = Box<dyn FnMut() -> Result<BlobWriter> + Send>;

/// What a run is told about blob files.
pub struct BlobRules {
    /// Values of at least this many bytes go to blob files; `None` for no value.
    pub bytes_min: Option<u32>,
    /// A blob file is closed once it is this large, in bytes.
    pub file_bytes: u64,
    /// Makes the writer of the next one.
    pub make: MakeBlobWriter,
    /// The blob files that the inputs refer to.
    pub sources: Vec<Arc<BlobHandle>>,
    /// Those of `inputs` whose values are to be written anew, ascending.
    pub collect: Arc<[FileNumber]>,
}

impl BlobRules {
    /// The rules of a run whose inputs have no values in blob files, and that writes none.
    pub fn none() -> BlobRules {
        BlobRules {
            bytes_min: None,
            file_bytes: u64::MAX,
            make: Box::new(|| Err(Error::invalid("a run that writes no blob files was to write one"))),
            sources: Vec::new(),
            collect: Arc::default(),
        }
    }
}

/// The blob files of a run: those it reads, and those it writes.
pub(crate) struct Blobs {
    /// See [`BlobRules::bytes_min`]; `usize::MAX` for no value.
    bytes_min: usize,
    file_bytes: u64,
    make: MakeBlobWriter,
    /// Each with whether it is to be collected.
    sources: BTreeMap<FileNumber, (Arc<BlobHandle>, bool)>,
    walk: BlobWalk,
    writer: Option<BlobWriter>,
    /// Every file that was begun.
    begun: Vec<FileName>,
    finished: Vec<BlobMeta>,
    /// How many of `finished` belong to tables that are finished.
    settled: usize,
    /// Bytes of values read and written since somebody last asked.
    moved: u64,
    cost: OpCost,
}

impl Blobs {
    pub(crate) fn new(rules: BlobRules) -> Blobs {
        let collect = &rules.collect;
        let sources = rules.sources.into_iter();
        Blobs {
            bytes_min: rules.bytes_min.map_or(usize::MAX, |bytes| bytes as usize),
            file_bytes: rules.file_bytes,
            make: rules.make,
            sources: sources
                .map(|blob| {
                    (blob.number(), (Arc::clone(&blob), collect.binary_search(&blob.number()).is_ok()))
                })
                .collect(),
            walk: BlobWalk::default(),
            writer: None,
            begun: Vec::new(),
            finished: Vec::new(),
            settled: 0,
            moved: 0,
            cost: OpCost::default(),
        }
    }

    /// Whether a value of `bytes` goes to a blob file.
    #[inline]
    pub(crate) fn takes(&self, bytes: usize) -> bool {
        bytes >= self.bytes_min
    }

    /// Whether the value that `pointer` leads to is to be written anew.
    ///
    /// Errors: [`Error::Corruption`] if no input refers to that file.
    pub(crate) fn collects(&self, pointer: &BlobPointer) -> Result<bool> {
        self.source(pointer).map(|(_, collect)| *collect)
    }

    /// The file that `pointer` leads to, and whether it is to be collected.
    fn source(&self, pointer: &BlobPointer) -> Result<&(Arc<BlobHandle>, bool)> {
        self.sources.get(&pointer.number).ok_or_else(|| {
            let name = FileName::Blob(pointer.number).to_string();
            let what = "a row refers to it, its table's description does not";
            Error::corruption(name, pointer.offset, what)
        })
    }

    /// Whether a file that the inputs refer to may hold what a table of the run says that it refers to in it.
    pub(crate) fn may_hold(&self, part: &BlobRef) -> bool {
        self.sources.get(&part.number).is_some_and(|(blob, _)| {
            part.values <= blob.meta.values && part.value_bytes <= blob.meta.value_bytes
        })
    }

    /// The value that `pointer` of `key` leads to. It is not cached: its file, or its row, is about to go.
    pub(crate) fn read(&mut self, key: &[u8], pointer: &BlobPointer) -> Result<Bytes> {
        let (blob, _) = self.source(pointer)?;
        let reader = Arc::clone(blob.reader()?);
        self.moved += u64::from(pointer.len);
        let value = self.walk.value(&reader, key, pointer, &mut self.cost)?;
        Ok(memory::copied(value, "a value")?.into())
    }

    /// Write a value; returns the pointer that its row has in its place.
    pub(crate) fn write(&mut self, key: &[u8], value: &[u8]) -> Result<BlobPointer> {
        if self.writer.as_ref().is_some_and(|writer| writer.bytes() >= self.file_bytes) {
            self.finish_file()?;
        }
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => {
                let writer = none.insert((self.make)()?);
                self.begun.push(FileName::Blob(writer.number()));
                writer
            }
        };
        self.moved += value.len() as u64;
        writer.add(key, value)
    }

    /// Close the file under way, if there is one.
    fn finish_file(&mut self) -> Result<()> {
        if let Some(writer) = self.writer.take() {
            self.finished.push(writer.finish()?);
        }
        Ok(())
    }

    /// The table under way is about to be finished: finish its blob files, and return them.
    pub(crate) fn finish_table(&mut self) -> Result<&[BlobMeta]> {
        self.finish_file()?;
        let of_table = self.finished.get(self.settled..).unwrap_or_default();
        self.settled = self.finished.len();
        Ok(of_table)
    }

    /// Every finished blob file.
    pub(crate) fn finished(&self) -> &[BlobMeta] {
        &self.finished
    }

    /// Hand out the finished files, which are the caller's from now on.
    pub(crate) fn take_finished(&mut self) -> Vec<BlobMeta> {
        self.begun.clear();
        std::mem::take(&mut self.finished)
    }

    /// Close what is not finished, and name every file that was begun.
    pub(crate) fn give_up(&mut self) -> Vec<FileName> {
        self.writer = None;
        std::mem::take(&mut self.begun)
    }

    /// Bytes of memory that writing takes.
    pub(crate) fn memory(&self) -> u64 {
        self.writer.as_ref().map_or(0, BlobWriter::memory)
    }

    /// Bytes of values read and written since the last call.
    pub(crate) fn take_moved(&mut self) -> u64 {
        std::mem::take(&mut self.moved)
    }

    /// What reading has cost since the last call.
    pub(crate) fn take_cost(&mut self) -> OpCost {
        std::mem::take(&mut self.cost)
    }
}
