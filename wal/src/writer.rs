//! Appends records to a log.
//!
//! Records are staged in memory and written as one group with one positional write, or with one copy into a
//! [mapped extent](crate::preallocate) of the file. The payload of a long record may be lent instead. It
//! then takes a write of its own, behind what is staged; that costs less than copying it. Which bytes of a
//! group survive a power loss is up to the device; the checksums and the reader's tail rule sort that out.
//!
//! Invariants:
//! 1. `written` is the end of the last good record; nothing before it is ever written again.
//! 2. Beyond `written` there is nothing that a reader could take for a record of this log: the file
//!    ends there or holds zeros or what is left of an older log, whose checksums are of another number, but for the
//!    moments in which a write, or its undoing, is under way.
//! 3. A staged record carries the offset it will stand at, so the buffer is written at `written` or not
//!    at all.
//!
//! **A write that fails** at offset *o* may have left any part of its group in the file. It is undone: all
//! of the group's range that lies inside the file is overwritten with zeros (or, if even that fails, the
//! file is cut at *o*), and the file is synced. If that succeeds the answer is [`WriteFailure::Undone`],
//! otherwise the log is stopped and the answer is [`WriteFailure::Unknown`]. Zeroing the group's first
//! header alone would not do: another group, written at *o* next, might end exactly where a left-over
//! record of the failed group begins, and that record checks.
//!
//! What a power loss leaves, by its moment:
//! - before the sync of the zeros returned: any mix of old bytes, the group, and zeros. Nobody has had
//!   an answer yet, so a prefix of the group may come back, as after a power loss during any write. No
//!   record of the group says that anything from *o* on is durable, so a later record of it that
//!   survives after a hole is a torn tail and never reported as damage.
//! - after: the zeros are durable, no record of the group is in the file, and it never will be.
//! - after a failed sync of the zeros: anything, now or at the next open. That is what `Unknown` says,
//!   and why nothing may be written after it.
//!
//! A process kill, as opposed to a power loss, leaves what the system had been handed: the same list
//! with fewer possibilities.
//!
//! Threads and locks: one owner. `write` takes no lock but that of [`crate::preallocate`], and that only
//! where a mapped extent cannot take the group; others hold it for a write of 64 KiB at most. Undoing a
//! write takes the syncers' `sync_lock`. Syncers run beside it, see [`crate::syncer`].

use std::path::Path;
// A file comes by std's `Arc`, as `esker_vfs` hands it out; under loom the `Arc` of `esker_base::sync` is loom's.
use std::sync::Arc as StdArc;

use esker_base::checksum::Checksums;
use esker_base::sync::Arc;
use esker_base::{Error, FileNumber, Result, memory};
use esker_vfs::fs::{File, Fs};

use crate::header::{HEADER_LEN, LogHeader, LogIdentity, Predecessor};
use crate::preallocate::{Mapped, PreallocateTask, Preallocator};
use crate::record::{
    FRAGMENT_BYTES_MAX, FragmentKind, PLACE_BYTES, RECORD_HEADER_LEN_MAX, RecordHeader, header_len,
};
use crate::syncer::{LogSyncer, Shared};

/// How much memory the staging buffer may keep, in bytes, once its group is written: the memory of one huge
/// batch is not to be held for the life of the log.
const BUFFER_KEPT_BYTES_MAX: usize = 4 << 20;

/// Zeros are written in pieces of this many bytes.
pub(crate) const ZEROS: &[u8] = &[0; 64 << 10];

/// Appends records to one log file. See the [module](crate::writer).
pub struct LogWriter {
    shared: Arc<Shared>,
    number: FileNumber,
    checksums: Checksums,
    /// Staged fragments, encoded for the place they will have from `written` on.
    buffer: Vec<u8>,
    written: u64,
    /// What was reserved of the file when the log was begun.
    allocated: u64,
    /// `None`: nothing is made ready beforehand.
    preallocator: Option<Preallocator>,
    /// [`FRAGMENT_BYTES_MAX`]; smaller in tests.
    pub(crate) fragment_bytes_max: usize,
}

/// Why a group was not written, and what that means for its records.
#[derive(Clone, Debug)]
pub enum WriteFailure {
    /// The write failed and was undone: the staged records are not in the file and never will be. The
    /// writer goes on at the same offset.
    Undone(Error),
    /// The write failed and so did undoing it: the staged records may be read after the next open, all
    /// or a prefix of them. The log takes no more writes.
    Unknown(Error),
    /// An earlier failure, of a write or of a sync, has stopped this log ([`Error::Poisoned`]). The
    /// staged records never reached the file and never will.
    Refused(Error),
}

impl WriteFailure {
    /// The error inside.
    pub fn error(&self) -> &Error {
        match self {
            WriteFailure::Undone(error) | WriteFailure::Unknown(error) | WriteFailure::Refused(error) => {
                error
            }
        }
    }
}

/// As a commit reports it: `Undone` is [`Error::Aborted`], `Unknown` is [`Error::InDoubt`], `Refused` is
/// its [`Error::Poisoned`].
impl From<WriteFailure> for Error {
    fn from(failure: WriteFailure) -> Error {
        match failure {
            WriteFailure::Undone(cause) => Error::Aborted { cause: Box::new(cause) },
            WriteFailure::Unknown(cause) => Error::InDoubt { cause: Box::new(cause) },
            WriteFailure::Refused(error) => error,
        }
    }
}

impl LogWriter {
    /// Create the log `identity` in `dir` and write its header. Nothing is synced: neither the header
    /// (the first [`LogSyncer::sync`] covers it) nor the name (the caller syncs the directory).
    ///
    /// Space for `allocate_bytes` is reserved and reads as zeros until it is written; 0 reserves
    /// nothing. A log may outgrow its reservation. `predecessor` is the log before this one, if any.
    ///
    /// # Errors
    /// [`Error::Io`] if the file exists or cannot be made. A file that was made is removed again
    /// as far as that goes; a left-over one reads as a blank log.
    pub fn create(
        fs: &dyn Fs,
        dir: &Path,
        identity: LogIdentity,
        predecessor: Option<Predecessor>,
        allocate_bytes: u64,
    ) -> Result<LogWriter> {
        let path = dir.join(identity.file_name().to_string());
        let file = fs.create(&path)?;
        let header = LogHeader::encode(&identity, predecessor);
        let allocated = if allocate_bytes > 0 { file.allocate(allocate_bytes) } else { Ok(()) };
        if let Err(error) = allocated.and_then(|()| file.write_at(&header, 0)) {
            drop(file);
            // Best effort: the error to report is the first one.
            let _ = fs.remove(&path);
            return Err(error);
        }
        Ok(LogWriter::behind_header(file, &identity, allocate_bytes))
    }

    /// Recycle the file of log `old` as the log `identity` in `dir`: its space and the system's memory for it are there
    /// already. `old` must not be needed any more, whatever a power loss brings back. The file is written over from its start;
    /// what is left of the old log is no record of this one ([`crate::reader`]). As with [`LogWriter::create`] nothing is
    /// synced, neither header nor name; until they are, the file may have either name and either header after a power loss. No
    /// writer of the old log may be left; a [`PreallocateTask`] of it does no harm.
    ///
    /// # Errors
    /// [`Error::Io`]. The file is removed then, as far as that goes, under either name.
    pub fn recycle(
        fs: &dyn Fs,
        dir: &Path,
        identity: LogIdentity,
        predecessor: Option<Predecessor>,
        old: FileNumber,
    ) -> Result<LogWriter> {
        let from = dir.join(LogIdentity { number: old, ..identity }.file_name().to_string());
        let path = dir.join(identity.file_name().to_string());
        let write_over = || -> Result<_> {
            fs.rename(&from, &path)?;
            let file = fs.open_writable(&path)?;
            file.write_at(&LogHeader::encode(&identity, predecessor), 0)?;
            let allocated = file.len()?;
            Ok((file, allocated))
        };
        let (file, allocated) = write_over().inspect_err(|_| {
            // Best effort: the error to report is the first one.
            let _ = fs.remove(&from);
            let _ = fs.remove(&path);
        })?;
        Ok(LogWriter::behind_header(file, &identity, allocated))
    }

    /// A writer to `file`, which has the header of `identity` and `allocated` bytes of reserved space.
    fn behind_header(file: StdArc<dyn File>, identity: &LogIdentity, allocated: u64) -> LogWriter {
        let written = HEADER_LEN as u64;
        LogWriter {
            shared: Arc::new(Shared::new(file, written)),
            number: identity.number,
            checksums: Checksums::new(identity.seed()),
            buffer: Vec::new(),
            written,
            allocated,
            preallocator: None,
            fragment_bytes_max: FRAGMENT_BYTES_MAX,
        }
    }

    /// Have the log reserved a little ahead of what is written, up to `expected_bytes` bytes in all, by the tasks that
    /// [`LogWriter::preallocate_task`] returns, if the caller runs them. The part that is to be `mapped` is written through
    /// memory wherever a task has mapped it in time.
    pub fn preallocate_ahead(&mut self, expected_bytes: u64, mapped: Option<Mapped>) {
        self.preallocator = Some(Preallocator::new(self.allocated, expected_bytes, mapped));
    }

    /// Cut the file off after the extent that is written next: what follows is left of an older log. For a log that is hardly
    /// written any more; nothing else changes.
    ///
    /// # Errors
    /// [`Error::Io`]. The file may be cut off or not, and the log goes on either way.
    pub fn trim(&mut self) -> Result<()> {
        let Some(preallocator) = &mut self.preallocator else { return Ok(()) };
        let end = preallocator.end_at_rest(self.written);
        if self.shared.check().is_err() || self.shared.file.len()? <= end {
            return Ok(());
        }
        preallocator.cut(end);
        self.shared.file.set_len(end)
    }

    /// A task to be run on another thread now, so that coming groups find space reserved, and mapped. `None` most of the time.
    #[inline]
    pub fn preallocate_task(&mut self) -> Option<PreallocateTask> {
        self.preallocator.as_mut()?.task(&self.shared.file, self.written, self.shared.durable())
    }

    /// Whether groups go by `write(2)`: because they are large on the average, or because nothing is
    /// mapped, as where each group is synced.
    pub fn goes_by_calls(&self) -> bool {
        self.preallocator.as_ref().is_some_and(|preallocator| preallocator.goes_by_calls(self.written))
    }

    /// The log's file number.
    pub fn number(&self) -> FileNumber {
        self.number
    }

    /// Reserve memory for a record of `payload_bytes` bytes, of any length, so that [`LogWriter::stage`] cannot run out of it.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], and nothing has changed.
    pub fn reserve(&mut self, payload_bytes: usize) -> Result<()> {
        let fragments = payload_bytes / self.fragment_bytes_max + 1;
        let headers = fragments.saturating_mul(RECORD_HEADER_LEN_MAX);
        memory::reserve(&mut self.buffer, payload_bytes.saturating_add(headers), "a commit's log record")
    }

    /// Add one record to the group that [`LogWriter::write`] will write: `tag`, and the concatenation of
    /// `payload`. Any length will do, 0 too.
    pub fn stage(&mut self, tag: u64, payload: &[&[u8]]) {
        self.stage_with(tag, |out| payload.iter().for_each(|part| out.extend_from_slice(part)));
    }

    /// [`LogWriter::stage`] for a payload that `encode` appends to what it is given.
    #[inline]
    pub fn stage_with(&mut self, tag: u64, encode: impl FnOnce(&mut Vec<u8>)) {
        let start = self.buffer.len();
        let durable = self.shared.durable();
        let head = header_len(tag, durable);
        // Room for the longest header, cut to the right length afterwards: a length that is known
        // beforehand costs 25 instructions less.
        self.buffer.extend_from_slice(&[0; RECORD_HEADER_LEN_MAX]);
        self.buffer.truncate(start + head);
        encode(&mut self.buffer);
        if self.buffer.len() - start - head <= self.fragment_bytes_max {
            self.seal(start, self.buffer.len(), FragmentKind::Full, tag, durable);
        } else {
            self.divide(start, tag, durable);
        }
    }

    /// Divide the record staged from `start` on, which is longer than one fragment may be, into fragments.
    #[cold]
    fn divide(&mut self, start: usize, tag: u64, durable: u64) {
        let head = header_len(tag, durable);
        let longest = head + self.fragment_bytes_max;
        let len = self.buffer.len() - start - head;
        let fragments = len.div_ceil(self.fragment_bytes_max);
        self.buffer.resize(self.buffer.len() + (fragments - 1) * head, 0);
        // From the last fragment to the first, so that nothing is written over before it has moved.
        for fragment in (1..fragments).rev() {
            let from = start + head + fragment * self.fragment_bytes_max;
            let to = start + fragment * longest + head;
            let end = (from + self.fragment_bytes_max).min(start + head + len);
            self.buffer.copy_within(from..end, to);
        }
        for fragment in 0..fragments {
            let kind = match fragment {
                0 => FragmentKind::First,
                middle if middle + 1 < fragments => FragmentKind::Middle,
                _ => FragmentKind::Last,
            };
            let start = start + fragment * longest;
            self.seal(start, (start + longest).min(self.buffer.len()), kind, tag, durable);
        }
    }

    /// Fill in the header of the fragment that is staged from `start` to `end`, of at most the maximum length.
    ///
    /// The payload's checksum is of its offset and then of itself. So the offset is put right before the
    /// payload, where the header will end, and both are read in one run.
    #[inline]
    fn seal(&mut self, start: usize, end: usize, kind: FragmentKind, tag: u64, durable: u64) {
        let offset = self.written + start as u64;
        let head = header_len(tag, durable);
        let (_, staged) = self.buffer.split_at_mut(start);
        let (fragment, _) = staged.split_at_mut(end - start);
        let (_, placed) = fragment.split_at_mut(head - PLACE_BYTES);
        let (place, payload) = placed.split_at_mut(PLACE_BYTES);
        place.copy_from_slice(&(offset + head as u64).to_le_bytes());
        #[expect(clippy::cast_possible_truncation, reason = "at most FRAGMENT_BYTES_MAX")]
        let len = payload.len() as u32;
        let payload_checksum = self.checksums.of_placed(placed);
        let header = RecordHeader { payload_checksum, len, kind, tag, durable };
        let (front, _) = fragment.split_at_mut(head);
        header.encode(&self.checksums, offset, front);
    }

    /// [`LogWriter::write`], with one more record at the end of the group: `tag` and `payload`. The payload
    /// is written from where it lies, unless it is longer than one fragment may be.
    pub fn write_lending(&mut self, tag: u64, payload: &[u8]) -> Result<u64, WriteFailure> {
        let Some(len) =
            u32::try_from(payload.len()).ok().filter(|_| payload.len() <= self.fragment_bytes_max)
        else {
            self.stage(tag, &[payload]);
            return self.write();
        };
        let start = self.buffer.len();
        let durable = self.shared.durable();
        let head = header_len(tag, durable);
        let offset = self.written + start as u64;
        let payload_checksum = self.checksums.of_parts(offset + head as u64, &[payload]);
        let header = RecordHeader { payload_checksum, len, kind: FragmentKind::Full, tag, durable };
        self.buffer.resize(start + head, 0);
        let (_, front) = self.buffer.split_at_mut(start);
        header.encode(&self.checksums, offset, front);
        self.write_with(payload)
    }

    /// Bytes staged and not yet written, headers included.
    #[cfg(test)]
    pub(crate) fn staged_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Write everything staged as one group, and return the end of it: the offset that a
    /// [`LogSyncer::sync`] has to reach for these records to be durable. With nothing staged, nothing is
    /// written. Either way, failed or not, nothing is staged afterwards.
    #[inline]
    pub fn write(&mut self) -> Result<u64, WriteFailure> {
        self.write_with(&[])
    }

    /// Write everything staged and then `lent` as one group.
    #[inline]
    fn write_with(&mut self, lent: &[u8]) -> Result<u64, WriteFailure> {
        let end = self.written + (self.buffer.len() + lent.len()) as u64;
        let stopped = self.shared.check();
        let outcome =
            if stopped.is_err() || self.buffer.is_empty() { Ok(()) } else { self.write_group(lent, end) };
        self.buffer.clear();
        self.buffer.shrink_to(BUFFER_KEPT_BYTES_MAX);
        if let Err(error) = stopped {
            return Err(WriteFailure::Refused(error));
        }
        if let Err(cause) = outcome {
            return Err(self.undo(end, cause));
        }
        self.written = end;
        self.shared.publish_written(end);
        Ok(end)
    }

    /// Bring the staged group, and what is `lent` to it, into the file, where the group ends at `end`.
    #[inline]
    fn write_group(&mut self, lent: &[u8], end: u64) -> Result<()> {
        let group = self.written..end;
        let mut memory = self.preallocator.as_mut().and_then(|preallocator| preallocator.holding(&group));
        let mut write_at = |bytes: &[u8], offset| match &mut memory {
            Some(memory) => memory.write_at(bytes, offset),
            None => self.shared.file.write_at(bytes, offset),
        };
        write_at(&self.buffer, group.start)?;
        if lent.is_empty() { Ok(()) } else { write_at(lent, end - lent.len() as u64) }
    }

    /// Remove all trace of a failed write of the range from `written` to `end`.
    #[cold]
    fn undo(&mut self, end: u64, cause: Error) -> WriteFailure {
        // The file may be cut below, and a mapping beyond the file's end must not be touched.
        self.preallocator = None;
        let file = &self.shared.file;
        let blanked = self.blank(end).or_else(|_| file.set_len(self.written));
        if blanked.and_then(|()| self.shared.sync_alone()).is_ok() {
            return WriteFailure::Undone(cause);
        }
        self.shared.poison(&cause);
        WriteFailure::Unknown(cause)
    }

    /// Write zeros from `written` to `end`, or to the end of the file if that comes first: there is
    /// nothing to erase beyond it, and growing the file may be what failed.
    fn blank(&self, end: u64) -> Result<()> {
        let file = &self.shared.file;
        let end = end.min(file.len()?);
        let mut at = self.written;
        while at < end {
            let len = usize::try_from(end - at).unwrap_or(ZEROS.len()).min(ZEROS.len());
            let zeros = ZEROS.get(..len).unwrap_or(ZEROS);
            file.write_at(zeros, at)?;
            at += zeros.len() as u64;
        }
        Ok(())
    }

    /// Bytes of memory that staged records take, or have left for the next ones.
    pub fn memory(&self) -> u64 {
        self.buffer.capacity() as u64
    }

    /// The end, in bytes, of what was written: where the next group will start.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// A handle that makes what was written durable, from any thread.
    pub fn syncer(&self) -> LogSyncer {
        LogSyncer::new(Arc::clone(&self.shared))
    }
}
