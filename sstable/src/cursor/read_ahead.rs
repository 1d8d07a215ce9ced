//! Read-ahead: blocks that lie next to each other in the file are read in growing pieces once a walk looks sequential.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use esker_base::Result;
use esker_vfs::os::pages::Pages;

use crate::index::Index;
use crate::reader::TableReader;

/// The largest piece read ahead, in bytes.
const PIECE_BYTES_MAX: u64 = 256 << 10;
/// Each piece of a cursor that reads ahead from the first block on: a compaction has one for each of its sources, twenty or so.
const PIECE_BYTES_EAGER: usize = 128 << 10;
/// The first piece read ahead by a cursor that only looks sequential.
const PIECE_BYTES_MIN: u64 = 16 << 10;

/// Blocks that were read but not yet walked over, and how the next ones will be read.
#[derive(Default)]
pub(super) struct ReadAhead {
    /// Blocks from `first` on, before `end`, lie in `bytes`.
    first: usize,
    end: usize,
    bytes: Bytes,
    /// What the bytes were read into.
    memory: Option<Arc<Pages>>,
    /// The block that was asked for last, and how many neighbours in a row were asked for before it.
    last_read: Option<usize>,
    neighbours: u32,
    /// Whether the last read went backwards.
    back: bool,
    /// The length of a piece, in bytes; 0 while nothing is read ahead.
    piece: u64,
}

impl ReadAhead {
    /// Whether pieces have grown as long as they may be: the walk is a long one.
    pub(super) fn is_longest(&self) -> bool {
        self.piece == PIECE_BYTES_MAX
    }

    /// The stored bytes of block `block`, if they were read already.
    pub(super) fn stored(&self, table: &TableReader, block: usize) -> Option<Bytes> {
        if !(self.first..self.end).contains(&block) {
            return None;
        }
        let index = table.index();
        let start = usize::try_from(index.offset(block) - index.offset(self.first)).ok()?;
        let end = start + index.stored_len(block);
        (end <= self.bytes.len()).then(|| self.bytes.slice(start..end))
    }

    /// Which blocks to read now that `block` is needed: it, and those after it (or before it, when
    /// walking back) that fit the piece.
    pub(super) fn plan(&mut self, table: &TableReader, block: usize, eager: bool) -> Range<usize> {
        let back = self.last_read == Some(block + 1) || self.end > 0 && self.first == block + 1;
        let onward = block > 0 && (self.last_read == Some(block - 1) || self.end == block);
        self.neighbours = if back || onward { self.neighbours + 1 } else { 0 };
        self.last_read = Some(block);
        self.back = back;
        self.piece = if eager {
            PIECE_BYTES_EAGER as u64
        } else if self.neighbours < 2 {
            0
        } else {
            (self.piece * 2).clamp(PIECE_BYTES_MIN, PIECE_BYTES_MAX)
        };
        let index = table.index();
        let (mut first, mut end) = (block, block + 1);
        if back {
            while first > 0 && index.offset(end) - index.offset(first - 1) <= self.piece {
                first -= 1;
            }
        } else {
            end = index.end_within(first, self.piece);
        }
        first..end
    }

    /// Read the piece with `blocks`, which were planned, into the memory of the one before it, and have the system begin with the
    /// one that will follow; how many bytes were read. A compaction's pieces come from the system, as many as it has sources; those
    /// of scans, which may be short and many, from the program's allocator.
    pub(super) fn read(&mut self, table: &TableReader, blocks: Range<usize>, eager: bool) -> Result<u64> {
        let index = table.index();
        let (start, stop) = (index.offset(blocks.start), index.offset(blocks.end));
        let len = usize::try_from(stop - start).unwrap_or_default();
        // Let go of the memory, so that it can be read over.
        self.end = self.first;
        self.bytes = Bytes::new();
        let new = || if eager { Pages::new(PIECE_BYTES_EAGER.max(len)) } else { Pages::of_program(len) };
        self.bytes = table.file().read_over(start, len, &mut self.memory, new)?;
        (self.first, self.end) = (blocks.start, blocks.end);
        let further = self.further(index, start..stop);
        table.file().prefetch_bytes(further.start, further.end - further.start);
        Ok(len as u64)
    }

    /// Where in the file the piece lies that will follow the one at `piece`.
    fn further(&self, index: &Index, piece: Range<u64>) -> Range<u64> {
        if self.back {
            piece.start.saturating_sub(self.piece)..piece.start
        } else {
            piece.end..piece.end.saturating_add(self.piece).min(index.offset(index.blocks()))
        }
    }
}
