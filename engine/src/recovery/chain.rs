//! Which logs have to be there, how long each has to be, and which follows which: by the manifest's marks and by
//! what the logs say of each other.
//!
//! Recovery refuses a database at the first thing that is wrong; salvage reports each and reads on. What is wrong is
//! decided here, for both.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use esker_base::filename::FileName;
use esker_base::{DatabaseId, Error, FileNumber, Result};
use esker_manifest::Marks;
use esker_vfs::fs::Fs;
use esker_wal::{LogIdentity, LogKind, LogReader, Predecessor};

/// Why a log that the manifest knows may not be missing.
const KNOWN: &str = "the manifest says that it may hold writes which are in no table yet";

/// The logs of one database. See the module.
pub(crate) struct Chain<'a> {
    pub(crate) fs: &'a dyn Fs,
    pub(crate) dir: &'a Path,
    pub(crate) database: DatabaseId,
    pub(crate) marks: &'a Marks,
}

impl Chain<'_> {
    /// Where log `number` is.
    pub(crate) fn path(&self, number: FileNumber) -> PathBuf {
        self.dir.join(FileName::Log(number).to_string())
    }

    /// The error for log `number`, which is not there.
    pub(crate) fn missing(&self, number: FileNumber, why: &str) -> Error {
        Error::MissingFile { path: self.path(number), why: why.to_string() }
    }

    /// The logs that the manifest knows of and that are not among `numbers`, which ascend: an error each.
    pub(crate) fn absent(&self, numbers: &[FileNumber]) -> Vec<(FileNumber, Error)> {
        let marks = self.marks;
        let closed = marks.closed_logs.keys().copied().filter(|&number| number >= marks.first_log);
        let last = marks.clean_close.map(|(number, _)| number);
        let first = (marks.first_log.0 > 0).then_some(marks.first_log);
        let durable = marks.durable_log.map(|(number, _)| number);
        let known: BTreeSet<FileNumber> = closed.chain(last).chain(first).chain(durable).collect();
        let absent = known.into_iter().filter(|number| numbers.binary_search(number).is_err());
        absent.map(|number| (number, self.missing(number, KNOWN))).collect()
    }

    /// Open log `number`: with the length that it has to have, if the manifest knows it.
    pub(crate) fn open(&self, number: FileNumber) -> Result<LogReader> {
        let identity = LogIdentity { database: self.database, number, kind: LogKind::WriteAhead };
        let (closed_len, forgotten) = (self.closed_len(number), self.marks.first_log);
        LogReader::open_recycled(self.fs, &self.path(number), identity, closed_len, forgotten)
    }

    /// The length of log `number` in bytes, if the manifest knows it: then it was durable before.
    pub(crate) fn closed_len(&self, number: FileNumber) -> Option<u64> {
        let clean = self.marks.clean_close.filter(|(log, _)| *log == number).map(|(_, len)| len);
        self.marks.closed_logs.get(&number).copied().or(clean)
    }

    /// How much of log `number` the manifest knows to have been durable, in bytes.
    pub(crate) fn durable_len(&self, number: FileNumber) -> u64 {
        self.marks.durable_log.filter(|(log, _)| *log == number).map_or(0, |(_, len)| len)
    }

    /// Whether the manifest knows that log `number` was durable, in part at least.
    fn is_known(&self, number: FileNumber) -> bool {
        self.closed_len(number).is_some() || self.durable_len(number) > 0
    }

    /// Tell the chain from what failed rotations have left over: logs that hold nothing, that no log
    /// continues and the manifest does not know. The log before one of them went on taking writes.
    ///
    /// `continued` are the logs that others continue; whether a log holds nothing is asked if nothing else tells.
    pub(crate) fn connect(
        &self,
        numbers: &[FileNumber],
        continued: &BTreeSet<FileNumber>,
        mut holds_nothing: impl FnMut(FileNumber) -> Result<bool>,
    ) -> Result<(Vec<FileNumber>, Vec<FileNumber>)> {
        let (mut chain, mut left_over) = (Vec::new(), Vec::new());
        for &number in numbers {
            let counts = chain.is_empty() || continued.contains(&number) || self.is_known(number);
            if !counts && holds_nothing(number)? { left_over.push(number) } else { chain.push(number) }
        }
        Ok((chain, left_over))
    }

    /// Whether a log is missing that one with the predecessor `predecessor` continues, when `before` stands before it.
    pub(crate) fn has_hole(&self, before: Option<FileNumber>, predecessor: Predecessor) -> bool {
        predecessor.number >= self.marks.first_log && before != Some(predecessor.number)
    }

    /// The error for log `number`, which is missing and which a later one continues.
    pub(crate) fn hole(&self, number: FileNumber) -> Error {
        self.missing(number, "a later log continues it")
    }

    /// Log `number` was read to its end, at `len`: err if the manifest knows that more of it was durable.
    pub(crate) fn check_durable(&self, number: FileNumber, len: u64) -> Result<()> {
        let known = self.durable_len(number);
        if len >= known {
            return Ok(());
        }
        let what = format!("the log ends here, and the manifest says that {known} bytes were durable");
        Err(Error::corruption(self.path(number), len, what))
    }

    /// Log `number` was read to its end, at `len`; a successor recorded the length `wanted`, or there is one
    /// (`has_successor`) that does not name it. Whether its end is gone. Err if it goes on behind that.
    pub(crate) fn is_short(
        &self,
        number: FileNumber,
        len: u64,
        wanted: Option<u64>,
        has_successor: bool,
    ) -> Result<bool> {
        match wanted {
            Some(wanted) if len > wanted => {
                let what = "the log goes on after the length that its successor recorded";
                Err(Error::corruption(self.path(number), len, what))
            }
            Some(wanted) => Ok(len < wanted),
            None => Ok(len == 0 && has_successor),
        }
    }

    /// The first of the logs `later` of which something was ever durable: then so was all before them.
    pub(crate) fn proof(&self, later: &[FileNumber]) -> Result<Option<FileNumber>> {
        for &log in later {
            if self.is_known(log) {
                return Ok(Some(log));
            }
            let mut reader = self.open(log)?;
            while reader.next()?.is_some() {}
            if reader.tail().durable_seen > 0 {
                return Ok(Some(log));
            }
        }
        Ok(None)
    }
}
