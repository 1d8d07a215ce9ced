//! The logs, read as far as each goes, and held against what has to be there.
//!
//! If the manifest reads, each log has to be as long as it says, and all it knows have to be there; and each log has to
//! begin where the one before it ends. What is wrong is decided as recovery does, by `recovery::chain`. Other than
//! there, what follows a gap is read all the same, so every gap is reported, even one that a power loss may have made
//! before anything behind it was durable. Without a manifest there is no telling: a log ends where it does not read on.
//! Nor is there of logs that were forgotten and whose files are there still: their merges may be folded into values in
//! tables, and are reported.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use esker_base::coding::Decoder;
use esker_base::filename::FileName;
use esker_base::range_tombstone::RangeTombstone;
use esker_base::{DatabaseId, Error, FileNumber, KeyspaceId, Kind, Result, SeqNo};
use esker_manifest::Marks;
use esker_vfs::fs::Fs;
use esker_wal::{LogIdentity, LogKind, LogReader, Predecessor};

use super::catalog::Catalog;
use super::sources::{Entry, Source};
use super::{Loss, Salvaged};
use crate::batch::decode_op;
use crate::recovery::chain::Chain;

/// Where a log's content goes, and what is wrong with it.
struct Logs<'a> {
    fs: &'a dyn Fs,
    dir: &'a Path,
    catalog: &'a Catalog,
    sources: &'a mut BTreeMap<KeyspaceId, Source>,
    report: &'a mut Salvaged,
}

/// A log that was read.
#[derive(Clone, Copy)]
struct Seen {
    predecessor: Option<Predecessor>,
    /// Where its last good record ends, in bytes; `None` if it is reported already that it does not read to its end.
    len: Option<u64>,
    records: u64,
}

/// Read the logs that `catalog` lists in `dir`, of the database `database`, into `sources`.
pub(super) fn read(
    fs: &dyn Fs,
    dir: &Path,
    catalog: &Catalog,
    database: DatabaseId,
    sources: &mut BTreeMap<KeyspaceId, Source>,
    report: &mut Salvaged,
) {
    let mut logs = Logs { fs, dir, catalog, sources, report };
    match &catalog.marks {
        Some(marks) => logs.chain(database, marks),
        None => {
            for &number in &catalog.logs {
                let identity = LogIdentity { database, number, kind: LogKind::WriteAhead };
                let path = dir.join(FileName::Log(number).to_string());
                // Which logs were forgotten nobody may know any more.
                logs.log(number, LogReader::open_recycled(fs, &path, identity, None, number));
            }
        }
    }
    if !catalog.is_complete {
        logs.undecided();
    }
}

impl Logs<'_> {
    /// Read them as the chain that the manifest and their headers make of them.
    fn chain(&mut self, database: DatabaseId, marks: &Marks) {
        let chain = Chain { fs: self.fs, dir: self.dir, database, marks };
        let numbers: Vec<FileNumber> = self.catalog.logs.iter().copied().collect();
        let mut missed = BTreeSet::new();
        for (number, error) in chain.absent(&numbers) {
            missed.insert(number);
            self.report.lose(self.dir, FileName::Log(number), error);
        }
        let seen: BTreeMap<FileNumber, Seen> =
            numbers.iter().map(|&number| (number, self.log(number, chain.open(number)))).collect();
        let predecessors = seen.values().filter_map(|log| log.predecessor);
        let continued = predecessors.map(|before| before.number).collect();
        let holds_nothing =
            |number| Ok(seen.get(&number).is_some_and(|log| log.records == 0 && log.len.is_some()));
        let Ok((numbers, _)) = chain.connect(&numbers, &continued, holds_nothing) else { return };
        let mut before = None;
        for (nth, &number) in numbers.iter().enumerate() {
            let Some(log) = seen.get(&number) else { continue };
            let next = numbers.get(nth + 1).and_then(|next| seen.get(next));
            if let Some(predecessor) = log.predecessor
                && chain.has_hole(before, predecessor)
                // Where a log between does not read, nobody knows what it was.
                && !seen.contains_key(&predecessor.number)
                && missed.insert(predecessor.number)
            {
                let hole = chain.hole(predecessor.number);
                self.report.lose(self.dir, FileName::Log(predecessor.number), hole);
            }
            before = Some(number);
            if let Some(error) = log.len.and_then(|len| gap(&chain, number, len, next)) {
                self.report.lose(self.dir, FileName::Log(number), error);
            }
        }
    }

    /// Read log `number`, if it was `opened`, up to its end or the first thing wrong with it, which is reported.
    fn log(&mut self, number: FileNumber, opened: Result<LogReader>) -> Seen {
        let mut seen = Seen { predecessor: None, len: None, records: 0 };
        let read = opened.and_then(|mut reader| {
            seen.predecessor = reader.predecessor();
            let path = self.dir.join(FileName::Log(number).to_string());
            self.records(number, &path, &mut reader, &mut seen.records)?;
            Ok(reader.tail().valid_len)
        });
        self.report.log_records += seen.records;
        match read {
            Ok(len) => seen.len = Some(len),
            Err(error) => {
                let what = format!("{error}; what follows in it was not read");
                self.report.lose(self.dir, FileName::Log(number), what);
            }
        }
        seen
    }

    fn records(
        &mut self,
        number: FileNumber,
        path: &Path,
        reader: &mut LogReader,
        records: &mut u64,
    ) -> Result<()> {
        while let Some(record) = reader.next()? {
            let mut decoder = Decoder::new(record.payload);
            let mut seqno = SeqNo(record.tag);
            loop {
                let op = decode_op(&mut decoder).map_err(|error| {
                    let what = format!("operation at byte {} of the record: bad {}", error.at, error.what);
                    Error::corruption(path, record.offset, what)
                })?;
                let Some(op) = op else { break };
                if seqno >= SeqNo::MAX {
                    let what = "its sequence number is beyond those of every database";
                    return Err(Error::corruption(path, record.offset, what));
                }
                if self.catalog.counts(op.keyspace) {
                    let source = self.sources.entry(op.keyspace).or_default();
                    if op.kind == Kind::Merge {
                        source.see_merge(number, op.key);
                    }
                    let (key, value) = (op.key.to_vec(), op.value.to_vec());
                    if op.kind == Kind::RangeDelete {
                        source.tombstones.push(RangeTombstone { start: key, end: value, seqno });
                    } else {
                        source.logged.push(Entry { key, seqno, kind: op.kind, value });
                    }
                }
                seqno = SeqNo(seqno.0 + 1);
            }
            *records += 1;
        }
        Ok(())
    }

    /// Report the logs with merges that may be in tables as well. A keyspace without tables has them in logs alone.
    fn undecided(&mut self) {
        for (&id, source) in self.sources.iter().filter(|(_, source)| !source.tables.is_empty()) {
            for (&log, keys) in &source.merged {
                let what = "it holds operands of merges, and nothing tells whether tables have them too, folded into \
                            values: values of merged keys may count operands twice, or lack some";
                self.report.losses.push(Loss {
                    file: self.dir.join(FileName::Log(log).to_string()),
                    keyspace: Some(self.catalog.name_of(id)),
                    keys: Some(keys.clone()),
                    what: what.to_owned(),
                });
            }
        }
    }
}

impl Source {
    /// Log `log` has an operand for `key`.
    fn see_merge(&mut self, log: FileNumber, key: &[u8]) {
        let (first, last) = self.merged.entry(log).or_insert_with(|| (key.to_vec(), key.to_vec()));
        if key < first.as_slice() {
            *first = key.to_vec();
        } else if key > last.as_slice() {
            *last = key.to_vec();
        }
    }
}

/// What is wrong with where log `number`, before `next`, ends: at `len`.
fn gap(chain: &Chain<'_>, number: FileNumber, len: u64, next: Option<&Seen>) -> Option<Error> {
    if let Err(error) = chain.check_durable(number, len) {
        return Some(error);
    }
    let wanted = next.and_then(|log| log.predecessor).filter(|before| before.number == number);
    let what = match chain.is_short(number, len, wanted.map(|before| before.len), next.is_some()) {
        Err(error) => return Some(error),
        Ok(false) => return None,
        Ok(true) => "the log ends here, and the next one was begun when it was longer",
    };
    Some(Error::corruption(chain.path(number), len, what))
}
