//! Reads a log back, from its start to the end of its last good record.
//!
//! **Where a log ends.** The first record that does not check ends the reading, at its offset *b*. It is
//! one of two things:
//! - a *torn tail*: the record, or its group, was being written when the power went. It was never
//!   durable, so dropping it and all after it loses nothing that anybody was promised;
//! - *damage*: the record was durable once, and something has happened to it since.
//!
//! A record says up to where the log was known durable when it was written. So the reader searches what
//! follows *b* for a header that checks, at any offset, and that says "durable beyond *b*". One is proof
//! of damage, and reading ends with [`Error::Corruption`]. Without one it is a torn tail: see
//! [`LogReader::tail`]. The same goes for the log's header, as if it were a record at offset 0.
//!
//! A log may have been written over an older one ([`LogWriter::recycle`](crate::LogWriter::recycle)). What is left of that
//! stands after its end: no record of it checks under this log's number, so it looks like a torn tail, and
//! proves nothing.
//!
//! What this cannot tell: damage after the last offset that some record says is durable looks like a torn
//! tail. A caller that knows better passes `closed_len`, the final length that was recorded once the whole
//! log was durable; then every end before that length is damage.
//!
//! Invariants:
//! 1. Nothing is handed out that has not been checked, header and payload.
//! 2. Memory: a window of 256 KiB, or one fragment if that is longer; and the record being put together,
//!    if it has several fragments. Each grows only by what a header that checks has announced and the
//!    file is long enough for.
//! 3. Once `next` has failed it returns that error for ever; once it has said `None` it says that for
//!    ever.
//!
//! Threads: one owner. The log may be read while nobody writes it.

use std::path::Path;

use esker_base::checksum::ChecksumSeed;
use esker_base::memory::reserve;
use esker_base::{Error, FileNumber, Result};
use esker_vfs::fs::Fs;

use crate::header::{HEADER_LEN, LogHeader, LogIdentity, Predecessor};
use crate::record::{FragmentKind, Layout, RECORD_HEADER_LEN_MAX, RecordHeader};
use crate::scan::{Sighting, find_header};
use crate::window::Window;

/// Reads the records of one log. See the [module](crate::reader).
pub struct LogReader {
    window: Window,
    seed: ChecksumSeed,
    /// How the headers of its records may be laid out: as its version says or, if its own header does not
    /// check, in any known way.
    layouts: &'static [Layout],
    predecessor: Option<Predecessor>,
    closed_len: Option<u64>,
    /// Where the next record starts, if there is one.
    at: u64,
    /// The payload of a record of several fragments.
    assembled: Vec<u8>,
    tail: Tail,
    state: State,
}

enum State {
    Reading,
    Ended,
    Failed(Error),
}

/// A record, whole and checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record<'a> {
    /// What its owner gave it as its tag.
    pub tag: u64,
    /// Where it starts in the file, in bytes.
    pub offset: u64,
    /// Where it ends: the offset of the next record.
    pub end: u64,
    /// Its payload.
    pub payload: &'a [u8],
}

/// How a log ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tail {
    /// Length of the log up to the end of its last good record, in bytes; 0 if not even its header is
    /// good.
    pub valid_len: u64,
    /// Whether something other than zeros stands after that, or the header is not good: an append was under
    /// way when the power went, or this log was made of the file of an older one.
    pub torn: bool,
    /// The largest durable-up-to that a good record carries, in bytes; 0 if none does.
    pub durable_seen: u64,
}

/// Where the record that `advance` found lies.
struct Found {
    tag: u64,
    offset: u64,
    end: u64,
    /// Where its payload starts, if that is in the window; `None` if it was assembled.
    payload_at: Option<u64>,
}

/// A fragment that checks.
#[derive(Clone, Copy)]
struct Fragment {
    header: RecordHeader,
    /// Where its payload starts in the file, in bytes.
    payload_at: u64,
}

impl Fragment {
    /// Where it ends.
    fn end(&self) -> u64 {
        self.payload_at.saturating_add(self.header.payload_len() as u64)
    }
}

impl LogReader {
    /// Open the log at `path`, which must be `identity`'s.
    ///
    /// A log without a good header and without proof that it once had one is *blank*: it has no records,
    /// and its tail says 0 and torn. That is what a crash leaves of a log that was just created.
    ///
    /// `closed_len` is the log's final length where that is known, as a manifest records it after the
    /// log was synced for the last time: reading then ends exactly there or is an error, and bytes after
    /// it are not looked at. The record of the length is the authority; what follows it is unused
    /// allocation, a torn tail that an earlier recovery has dropped, or what a failed write left that was
    /// given up with its log. The successor's [`Predecessor`] is such a record too. A length of 0 is that
    /// of a blank log.
    ///
    /// # Errors
    /// [`Error::Corruption`] for a log of another database, number or kind, and for a header or
    /// length that contradicts `closed_len` or a later record; [`Error::FormatTooNew`];
    /// [`Error::Io`].
    pub fn open(
        fs: &dyn Fs,
        path: &Path,
        identity: LogIdentity,
        closed_len: Option<u64>,
    ) -> Result<LogReader> {
        LogReader::open_recycled(fs, path, identity, closed_len, FileNumber(0))
    }

    /// The same for a log that may have been made of the recycled file of a log before `forgotten`. That
    /// those are not needed was durable before the first of their files was recycled. If the file has the
    /// header of one of those logs, this log's own header was never durable, and the log is blank unless
    /// something proves that it was not.
    pub fn open_recycled(
        fs: &dyn Fs,
        path: &Path,
        identity: LogIdentity,
        closed_len: Option<u64>,
        forgotten: FileNumber,
    ) -> Result<LogReader> {
        let mut window = Window::open(fs, path)?;
        if let Some(len) = closed_len {
            window.cut(len);
        }
        let start = HEADER_LEN as u64;
        let mut reader = LogReader {
            seed: identity.seed(),
            layouts: Layout::ALL,
            predecessor: None,
            closed_len,
            at: start,
            assembled: Vec::new(),
            tail: Tail { valid_len: start, torn: false, durable_seen: 0 },
            state: State::Reading,
            window,
        };
        let header = LogHeader::decode(reader.window.bytes(0, HEADER_LEN)?);
        if let Some(header) = header.filter(|header| !header.is_left_over(&identity, forgotten)) {
            header.verify(path, &identity)?;
            reader.layouts = header.layouts(identity.kind);
            reader.predecessor = header.predecessor();
        } else {
            reader.end(0, start, "the log's header does not check")?;
            reader.tail.torn = closed_len.is_none();
            reader.state = State::Ended;
        }
        Ok(reader)
    }

    /// The log before this one, as this one's header records it. `None` if there is none, and if the
    /// header is not good.
    pub fn predecessor(&self) -> Option<Predecessor> {
        self.predecessor
    }

    /// No record ends behind it: the file's length, or the log's where that is known, in bytes.
    pub fn len_max(&self) -> u64 {
        self.window.end()
    }

    /// The next record, or `None` at the end of the log.
    ///
    /// # Errors
    /// [`Error::Corruption`] at the offset of a record that was durable and does not check;
    /// [`Error::Io`]. An error is final.
    #[expect(clippy::should_implement_trait, reason = "the record borrows from the reader")]
    pub fn next(&mut self) -> Result<Option<Record<'_>>> {
        match &self.state {
            State::Reading => {}
            State::Ended => return Ok(None),
            State::Failed(error) => return Err(error.clone()),
        }
        match self.advance() {
            Ok(Some(found)) => self.record(&found).map(Some),
            Ok(None) => {
                self.state = State::Ended;
                Ok(None)
            }
            Err(error) => {
                self.state = State::Failed(error.clone());
                Err(error)
            }
        }
    }

    /// How the log ends; of use once `next` has returned `None`. Before that, `valid_len` is the end of
    /// the records read so far.
    pub fn tail(&self) -> Tail {
        self.tail
    }

    /// The record that was found, in place.
    fn record(&mut self, found: &Found) -> Result<Record<'_>> {
        let Found { tag, offset, end, payload_at } = *found;
        let payload = match payload_at {
            // Checking it has just put it into the window: nothing is read here.
            Some(at) => {
                let len = usize::try_from(end.saturating_sub(at)).unwrap_or(usize::MAX);
                self.window.bytes(at, len)?.get(..len).unwrap_or_default()
            }
            None => &self.assembled,
        };
        Ok(Record { tag, offset, end, payload })
    }

    /// Check the record at `at` and step over it.
    #[inline]
    fn advance(&mut self) -> Result<Option<Found>> {
        let offset = self.at;
        let fragment = match self.fragment(offset)? {
            Ok(fragment) => fragment,
            Err(why) => return self.end(offset, offset, why),
        };
        match fragment.header.kind {
            FragmentKind::Full => {
                let (RecordHeader { tag, durable, .. }, end) = (fragment.header, fragment.end());
                self.step(end, durable);
                Ok(Some(Found { tag, offset, end, payload_at: Some(fragment.payload_at) }))
            }
            FragmentKind::First => self.assemble(offset, fragment),
            FragmentKind::Middle | FragmentKind::Last => {
                self.end(offset, offset, "a record begins with a fragment that is not its first")
            }
        }
    }

    /// Put together the record whose first fragment, at `offset`, has been checked.
    fn assemble(&mut self, offset: u64, first: Fragment) -> Result<Option<Found>> {
        self.assembled.clear();
        let RecordHeader { tag, durable, .. } = first.header;
        let mut fragment = first;
        loop {
            let len = fragment.header.payload_len();
            let payload = self.window.bytes(fragment.payload_at, len)?;
            reserve(&mut self.assembled, len, "a log's record")?;
            self.assembled.extend_from_slice(payload.get(..len).unwrap_or_default());
            let at = fragment.end();
            if fragment.header.kind == FragmentKind::Last {
                self.step(at, durable);
                return Ok(Some(Found { tag, offset, end: at, payload_at: None }));
            }
            fragment = match self.fragment(at)? {
                Err(why) => return self.end(offset, at, why),
                Ok(next) if next.header.tag != tag => {
                    return self.end(offset, at, "a record's fragments have different tags");
                }
                Ok(next) => match next.header.kind {
                    FragmentKind::Middle | FragmentKind::Last => next,
                    FragmentKind::Full | FragmentKind::First => {
                        return self.end(offset, at, "a record begins before the one before it ends");
                    }
                },
            };
        }
    }

    /// Check the fragment at `at`, payload and all. Returns it, or what is wrong with it.
    #[inline]
    fn fragment(&mut self, at: u64) -> Result<Result<Fragment, &'static str>> {
        let bytes = self.window.bytes(at, RECORD_HEADER_LEN_MAX)?;
        let mut decoded =
            self.layouts.iter().map(|layout| RecordHeader::decode(bytes, *layout, self.seed, at));
        let Some((header, head)) = decoded.find_map(|header| header) else {
            return Ok(Err("a record's header does not check"));
        };
        let payload_at = at.saturating_add(head as u64);
        let len = header.payload_len();
        if len as u64 > self.window.remaining(payload_at) {
            return Ok(Err("a record is longer than the rest of the log"));
        }
        let bytes = self.window.bytes(at, head.saturating_add(len))?;
        let payload = bytes.get(head..).and_then(|rest| rest.get(..len)).unwrap_or_default();
        if self.seed.checksum(payload_at, &[payload]) != header.payload_checksum {
            return Ok(Err("a record's payload does not check"));
        }
        Ok(Ok(Fragment { header, payload_at }))
    }

    /// A good record ends at `end`.
    #[inline]
    fn step(&mut self, end: u64, durable: u64) {
        self.at = end;
        self.tail.valid_len = end;
        self.tail.durable_seen = self.tail.durable_seen.max(durable);
    }

    /// The log ends at `start`, because of `why` at `bad` (a later fragment of the record at `start`,
    /// or `start`): decide between an end, a torn tail and damage.
    #[cold]
    fn end(&mut self, start: u64, bad: u64, why: &str) -> Result<Option<Found>> {
        let path = self.window.path().to_path_buf();
        self.tail.valid_len = start;
        if let Some(closed) = self.closed_len {
            if start == closed {
                return Ok(None);
            }
            let what = format!("{why} (at byte {bad}), and the log was closed with {closed} bytes");
            return Err(Error::corruption(path, start, what));
        }
        // The rest of an allocated log is zeros, and may be long: it is read once.
        self.tail.torn = bad > start || self.window.first_nonzero(start)?.is_some();
        if self.tail.torn
            && let Some(Sighting { offset: later, header, .. }) =
                find_header(&mut self.window, self.layouts, self.seed, bad, Some(start))?
        {
            let what = format!(
                "{why} (at byte {bad}), and it had been durable: so says the record at byte {later}, \
                 written when all before byte {} was",
                header.durable
            );
            return Err(Error::corruption(path, start, what));
        }
        Ok(None)
    }
}
