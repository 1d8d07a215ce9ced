//! Shows a log to a person: every field with its place, its value and whether it checks.
//!
//! Unlike the reader it goes on after what does not check, to show as much as there is, and takes the
//! log's identity from the log itself. It says nothing about whether the records are in force. Memory is
//! bounded as the reader's is; any bytes will do.

use std::collections::VecDeque;
use std::path::Path;

use esker_base::checksum::ChecksumSeed;
use esker_base::error::printable;
use esker_base::filename::FileName;
use esker_base::{DatabaseId, FileNumber, Result};
use esker_vfs::fs::Fs;

use crate::header::{HEADER_LEN, LogHeader, LogKind, hex};
use crate::record::{FragmentKind, Layout, RECORD_HEADER_LEN_MAX, RecordHeader};
use crate::scan::{Sighting, find_header, find_other};
use crate::window::Window;

pub use esker_base::inspect::{Field, Verdict};

/// The fields of the log at `path`, from its start to its end. An error of the system ends them.
///
/// # Example
///
/// ```no_run
/// # fn main() -> esker_base::Result<()> {
/// # let fs: std::sync::Arc<dyn esker_vfs::fs::Fs> = unimplemented!();
/// for field in esker_wal::inspect(&*fs, "db/000012.log".as_ref())? {
///     let field = field?;
///     println!("{:>8} {:<16} {} ({})", field.offset, field.name, field.value, field.verdict);
/// }
/// # Ok(())
/// # }
/// ```
pub fn inspect(fs: &dyn Fs, path: &Path) -> Result<Inspection> {
    let window = Window::open(fs, path)?;
    let fields = VecDeque::new();
    let layouts = Layout::ALL;
    Ok(Inspection {
        in_vain_left: window.end(),
        window,
        seed: None,
        layouts,
        reusable: None,
        newer: false,
        at: 0,
        fields,
        failed: false,
    })
}

/// An iterator over the fields of a log. Made by [`inspect`].
pub struct Inspection {
    window: Window,
    /// `None` until the header has been read.
    seed: Option<ChecksumSeed>,
    /// How headers of records may be laid out.
    layouts: &'static [Layout],
    /// How many more bytes of payloads may be read in vain: in all as many as the file has, so that forged
    /// headers do not make them be read again and again.
    in_vain_left: u64,
    /// Whose it is, if it may have been written over an older log.
    reusable: Option<(DatabaseId, FileNumber)>,
    /// Whether its version is one that this build does not know.
    newer: bool,
    /// Everything before this offset has been turned into fields.
    at: u64,
    /// Fields not yet handed out.
    fields: VecDeque<Field>,
    failed: bool,
}

impl Iterator for Inspection {
    type Item = Result<Field>;

    fn next(&mut self) -> Option<Result<Field>> {
        if self.fields.is_empty() && !self.failed && self.at < self.window.end() {
            let done = match self.seed {
                None => self.header(),
                Some(_) if self.newer => {
                    let what = "cannot be told apart in a version that is not known".to_owned();
                    self.push(self.window.end() - self.at, "records", what, Verdict::Newer);
                    Ok(())
                }
                Some(seed) => self.record(seed),
            };
            if let Err(error) = done {
                self.failed = true;
                return Some(Err(error));
            }
        }
        self.fields.pop_front().map(Ok)
    }
}

impl Inspection {
    /// Hand out the next `len` bytes as a field.
    fn push(&mut self, len: u64, name: &'static str, value: String, verdict: Verdict) {
        self.fields.push_back(Field { offset: self.at, len, name, value, verdict });
        self.at = self.at.saturating_add(len);
    }

    fn header(&mut self) -> Result<()> {
        let bytes = self.window.bytes(0, HEADER_LEN)?;
        let bytes = bytes.get(..HEADER_LEN).unwrap_or(bytes).to_vec();
        let Ok(header) = LogHeader::parse(&bytes) else {
            self.seed = Some(ChecksumSeed::new(DatabaseId([0; 16]), FileNumber(0)));
            self.push(
                bytes.len() as u64,
                "header",
                format!("cut short: {}", printable(&bytes)),
                Verdict::Bad,
            );
            return Ok(());
        };
        self.seed = Some(ChecksumSeed::new(header.database, header.number));
        let expected = header.expected_checksum(&bytes);
        let checks = header.checksum == expected;
        let kind = LogKind::from_magic(header.magic);
        if let Some(kind) = kind.filter(|_| checks) {
            self.layouts = header.layouts(kind);
        }
        self.newer = checks && kind.is_some_and(|kind| header.version > kind.version());
        let covered = match checks {
            true if self.newer => Verdict::Newer,
            true => Verdict::Ok,
            false => Verdict::Unchecked,
        };
        if checks && kind == Some(LogKind::WriteAhead) {
            self.reusable = Some((header.database, header.number));
        }
        let newer = self.newer;
        let unless = |wrong: bool| if wrong && !newer { Verdict::Bad } else { covered };

        let magic = match kind {
            Some(kind) => format!("{} ({kind})", printable(&header.magic)),
            None => format!("{} (no log's)", printable(&header.magic)),
        };
        self.push(8, "magic", magic, unless(kind.is_none()));
        let known = kind.is_some_and(|kind| (1..=kind.version()).contains(&header.version));
        self.push(4, "version", header.version.to_string(), unless(!known));
        self.push(
            4,
            "has predecessor",
            header.has_predecessor.to_string(),
            unless(header.has_predecessor > 1),
        );
        self.push(16, "database", hex(&header.database.0), covered);
        self.push(8, "number", header.number.to_string(), covered);
        self.push(8, "predecessor", header.predecessor.number.to_string(), covered);
        self.push(8, "predecessor len", header.predecessor.len.to_string(), covered);
        self.push(4, "reserved", header.reserved.to_string(), unless(header.reserved != 0));
        self.checksum("header checksum", header.checksum, Some(expected));
        Ok(())
    }

    /// Hand out a checksum as a field; `expected` is what it ought to be, if that is known.
    fn checksum(&mut self, name: &'static str, found: u32, expected: Option<u32>) {
        let (value, verdict) = match expected {
            None => (format!("{found:08x}"), Verdict::Unchecked),
            Some(expected) if expected == found => (format!("{found:08x}"), Verdict::Ok),
            Some(expected) => (format!("{found:08x}, computed {expected:08x}"), Verdict::Bad),
        };
        self.push(4, name, value, verdict);
    }

    /// The fields of the fragment at `at`, or what stands there instead, up to the next fragment.
    fn record(&mut self, seed: ChecksumSeed) -> Result<()> {
        let at = self.at;
        let bytes = self.window.bytes(at, RECORD_HEADER_LEN_MAX)?;
        let decode = |layout: &Layout| Some((*layout, RecordHeader::decode(bytes, *layout, seed, at)?));
        if let Some((layout, (header, head))) = self.layouts.iter().find_map(decode)
            && let Some(checksum) = bytes.first_chunk().copied()
        {
            return self.fragment(seed, header, layout, head, u32::from_le_bytes(checksum));
        }
        let next = self.next_fragment(seed, at)?;
        let end = next.unwrap_or(self.window.end());
        match self.window.first_nonzero(at)? {
            Some(nonzero) if nonzero < end => {
                let bytes = self.window.bytes(at, 64)?;
                let shown = usize::try_from(end - at).unwrap_or(usize::MAX).min(bytes.len()).min(65);
                let value = printable(bytes.get(..shown).unwrap_or_default());
                match self.left_of(at)?.filter(|_| next.is_none()) {
                    Some(older) => {
                        let value = format!("{value}, left of {}", FileName::Log(older));
                        self.push(end - at, "no record", value, Verdict::Unchecked);
                    }
                    None => self.push(end - at, "no record", value, Verdict::Bad),
                }
            }
            _ => self.push(end - at, "unused", "zeros".to_owned(), Verdict::Ok),
        }
        Ok(())
    }

    /// The first offset from `from` on at which a fragment stands: one whose header alone says enough, or whose payload checks.
    fn next_fragment(&mut self, seed: ChecksumSeed, mut from: u64) -> Result<Option<u64>> {
        while let Some(Sighting { offset, header, payload_at }) =
            find_header(&mut self.window, self.layouts, seed, from, None)?
        {
            let len = header.payload_len();
            let Some(left) = self.in_vain_left.checked_sub(len as u64).filter(|_| header.durable == 0)
            else {
                return Ok(Some(offset));
            };
            let payload = self.window.bytes(payload_at, len)?.get(..len);
            if payload
                .is_some_and(|payload| seed.checksum(payload_at, &[payload]) == header.payload_checksum)
            {
                return Ok(Some(offset));
            }
            self.in_vain_left = left;
            from = offset.saturating_add(1);
        }
        Ok(None)
    }

    /// The older log that this one was written over, if records of it stand after `at`.
    fn left_of(&mut self, at: u64) -> Result<Option<FileNumber>> {
        /// How far back: memtables sealed at a time are far fewer.
        const OLDER_MAX: u64 = 64;
        let Some((database, FileNumber(number))) = self.reusable else { return Ok(None) };
        let older = || (number.saturating_sub(OLDER_MAX)..number).rev().map(FileNumber);
        let seeds: Vec<_> = older().map(|older| ChecksumSeed::new(database, older)).collect();
        let found = find_other(&mut self.window, &seeds, at)?;
        Ok(found.and_then(|index| older().nth(index)))
    }

    /// The fields of the fragment at `at`, whose header, of `head` bytes, checks.
    fn fragment(
        &mut self,
        seed: ChecksumSeed,
        header: RecordHeader,
        layout: Layout,
        head: usize,
        header_checksum: u32,
    ) -> Result<()> {
        let at = self.at;
        let len = header.payload_len();
        let payload_at = at.saturating_add(head as u64);
        let there = usize::try_from(self.window.remaining(payload_at)).unwrap_or(usize::MAX).min(len);
        let payload = self.window.bytes(payload_at, there)?;
        let payload = payload.get(..there).unwrap_or_default();
        let text = printable(payload);
        let computed = (there == len).then(|| seed.checksum(payload_at, &[payload]));

        self.checksum("header checksum", header_checksum, Some(header_checksum));
        self.checksum("payload checksum", header.payload_checksum, computed);
        let [of_len, of_tag, of_durable] = layout.field_lens(header.tag, header.durable);
        if there == len {
            self.push(of_len, "length", len.to_string(), Verdict::Ok);
        } else {
            self.push(of_len, "length", format!("{len}, of which the file has {there}"), Verdict::Bad);
        }
        let kind = match header.kind {
            FragmentKind::Full => "full",
            FragmentKind::First => "first",
            FragmentKind::Middle => "middle",
            FragmentKind::Last => "last",
        };
        self.push(1, "kind", format!("{} ({kind})", header.kind as u8), Verdict::Ok);
        self.push(of_tag, "tag", header.tag.to_string(), Verdict::Ok);
        if of_durable > 0 {
            self.push(of_durable, "durable-up-to", header.durable.to_string(), Verdict::Ok);
        }
        let checks = computed == Some(header.payload_checksum);
        if there > 0 {
            self.push(there as u64, "payload", text, if checks { Verdict::Ok } else { Verdict::Bad });
        }
        Ok(())
    }
}
