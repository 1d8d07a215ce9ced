//! Recovery: what the logs held when the database was last open becomes memtables again.
//!
//! The logs still needed form a chain: each header names the log before it and that log's final
//! length. The result is always a prefix of commit order, whole batches only:
//!
//! 1. A log that the manifest needs and that is not there is `MissingFile`.
//! 2. A log that ends before the length its successor recorded has lost its tail; one that is not there
//!    although a successor names it is lost whole. If anything in a later log was ever known durable, it
//!    had been durable too, and this is damage: an error. Otherwise the power went before any of it was
//!    synced: what follows the gap is discarded.
//! 3. Damage below an offset that a later record knew to be durable is an error (the log reader says
//!    so); anything else at the end of the last log is a torn tail and is dropped.
//! 4. A log that the manifest calls durable up to a length is there, and as long: the newest log has no
//!    successor to say so.
//! 5. A log without a record that nothing continues is what a failed rotation has left over, and no link of
//!    the chain.
//! 6. Sequence numbers ascend over the whole chain.
//!
//! `chain` decides 1, 2, 4 and 5, for salvage too.
//!
//! What was read is made durable before it is acted on, and its length recorded: a state that was
//! seen once is never lost by the next crash. A sync alone would not do: after one that has failed, the
//! system may show bytes that are not on the disk, take them for clean, and say Ok to every later sync.
//! So what is not known to have been durable is written again, in place and byte for byte, and the file
//! is cut at its end; and a log whose name the manifest does not know is copied, and the copy takes the name.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use esker_base::coding::Decoder;
use esker_base::filename::FileName;
use esker_base::{DatabaseId, Error, FileNumber, Result, SeqNo};
use esker_manifest::limits::{SEQNO_END, may_be_ours};
use esker_manifest::{Marks, Version};
use esker_vfs::Env;
use esker_vfs::fs::Fs;

use crate::batch::decode_op;
use crate::commit::apply;
use crate::memtable::{Memtable, SpareChunks};

pub(crate) mod chain;
mod copy;
#[cfg(test)]
mod tests;

use chain::Chain;
use copy::{LogCopy, rewrite};

/// No log holds a number from here on: half of all there are stay free, for what is written after an open.
const SEQNO_LAST: SeqNo = SeqNo(SEQNO_END.0 / 2);

/// A log read back.
pub(crate) struct RecoveredLog {
    pub(crate) number: FileNumber,
    /// Up to the end of its last whole record, in bytes.
    pub(crate) len: u64,
    /// Up to where it is known to have been durable, in bytes; at most `len`.
    pub(crate) durable: u64,
    /// Whether the manifest knows of it, and so its name is durable.
    named: bool,
    /// One that was begun while it was read.
    copy: Option<LogCopy>,
    pub(crate) memtable: Arc<Memtable>,
    pub(crate) last_seqno: SeqNo,
}

/// What the logs came to.
pub(crate) struct RecoveredLogs {
    /// In order, oldest first.
    pub(crate) kept: Vec<RecoveredLog>,
    /// Logs whose content does not count, to be removed before a new log is begun.
    pub(crate) discarded: Vec<FileNumber>,
    pub(crate) last_seqno: SeqNo,
    /// The last number before all of these logs.
    first_seqno: SeqNo,
}

impl RecoveredLog {
    /// Make it durable to its last whole record, its name included, whatever syncs before have failed. The
    /// caller syncs the directory.
    pub(crate) fn make_durable(&mut self, env: &Env, dir: &Path) -> Result<()> {
        if self.named {
            return self.write_again(&*env.fs, dir);
        }
        // A copy takes its name: a sync of the directory that failed may have left a name that is seen and that no
        // later sync writes.
        let begun = self.copy.take().map_or_else(|| LogCopy::begin(env, dir, self.number), Ok);
        match begun.and_then(|copy| copy.finish(self.len)) {
            // Without room for a copy there is still the file that is there.
            Err(error) if error.is_no_space() => self.write_again(&*env.fs, dir),
            outcome => outcome,
        }
    }

    /// What is not known durable of it is written once more in its place.
    fn write_again(&self, fs: &dyn Fs, dir: &Path) -> Result<()> {
        let file = fs.open_writable(&dir.join(FileName::Log(self.number).to_string()))?;
        rewrite(&*file, self.durable..self.len)?;
        if self.durable < self.len {
            // The length as well: a change is what has it written.
            file.set_len(self.len + 1)?;
            file.set_len(self.len)?;
        }
        file.sync()
    }
}

impl RecoveredLogs {
    /// End the copies that were begun: nobody wants them.
    pub(crate) fn drop_copies(&mut self) {
        self.kept.iter_mut().for_each(|log| log.copy = None);
    }

    /// Those that are still needed: all from the first on that holds what is in no table. One of them without anything goes
    /// with the flush that comes to it.
    pub(crate) fn needed(&self) -> &[RecoveredLog] {
        let first = self.kept.iter().position(|log| !log.memtable.is_empty());
        first.map_or(&[], |first| &self.kept[first..])
    }

    /// The last number before log `number`.
    pub(crate) fn last_before(&self, number: FileNumber) -> SeqNo {
        let before = self.kept.iter().take_while(|log| log.number < number).last();
        before.map_or(self.first_seqno, |log| log.last_seqno)
    }
}

/// Reads the logs of one database.
struct Replay<'a> {
    env: &'a Env,
    chain: Chain<'a>,
    version: &'a Version,
    spare: &'a Arc<SpareChunks>,
    /// Whether a log that has to be written anew is copied meanwhile.
    copies: bool,
}

/// Read every log still needed, into memtables in `spare` chunks. `clean_close` is the last log's length if the database was
/// closed in order. Changes nothing; what is copied meanwhile (`copies`), to be made durable after, goes if it is not used.
pub(crate) fn read_logs(
    env: &Env,
    dir: &Path,
    database: DatabaseId,
    version: &Version,
    clean_close: Option<(FileNumber, u64)>,
    spare: &Arc<SpareChunks>,
    copies: bool,
) -> Result<RecoveredLogs> {
    let marks = &Marks { clean_close, ..version.marks().clone() };
    let chain = Chain { fs: &*env.fs, dir, database, marks };
    let replay = Replay { env, chain, version, spare, copies };
    let chain = &replay.chain;
    let numbers = replay.list()?;
    // Predecessors first: only then is it known how long each log must be.
    let mut predecessors = BTreeMap::new();
    for &number in &numbers {
        if let Some(predecessor) = chain.open(number)?.predecessor() {
            predecessors.insert(number, predecessor);
        }
    }
    let continued = predecessors.values().map(|predecessor| predecessor.number).collect();
    let (numbers, left_over) =
        chain.connect(&numbers, &continued, |number| Ok(chain.open(number)?.next()?.is_none()))?;
    let mut result = RecoveredLogs {
        kept: Vec::new(),
        discarded: left_over,
        last_seqno: marks.last_seqno,
        first_seqno: marks.last_seqno,
    };
    let mut lengths = BTreeMap::new();
    let mut whole = numbers.len();
    for (index, &number) in numbers.iter().enumerate() {
        let Some(&predecessor) = predecessors.get(&number) else { continue };
        if chain.has_hole(index.checked_sub(1).map(|i| numbers[i]), predecessor) {
            // Its name went with the power, unless it is known to have been durable.
            if chain.proof(&numbers[index..])?.is_some() {
                return Err(chain.hole(predecessor.number));
            }
            whole = index;
            break;
        }
        lengths.insert(predecessor.number, predecessor.len);
    }
    let (numbers, unconnected) = numbers.split_at(whole);
    result.discarded.extend_from_slice(unconnected);
    for (index, &number) in numbers.iter().enumerate() {
        // One copy at a time: there may be room for no more.
        let copies = replay.copies && result.kept.iter().all(|log| log.copy.is_none());
        let log = replay.read(number, result.last_seqno, copies)?;
        let wanted = lengths.get(&number).copied();
        let short = chain.is_short(number, log.len, wanted, index + 1 < numbers.len())?;
        let (len, blank) = (log.len, log.len == 0);
        result.last_seqno = log.last_seqno;
        // The first one stays until the manifest forgets it: the next recovery will ask for it.
        if blank && index > 0 {
            result.discarded.push(number);
        } else {
            result.kept.push(log);
        }
        if short {
            replay.check_tail_was_volatile(number, len, &numbers[index + 1..])?;
            result.discarded.extend_from_slice(&numbers[index + 1..]);
            break;
        }
    }
    Ok(result)
}

impl Replay<'_> {
    /// The logs from the first needed on, ascending; those the manifest knows of must be there.
    fn list(&self) -> Result<Vec<FileNumber>> {
        let mut numbers: Vec<FileNumber> = Vec::new();
        for entry in self.env.fs.list(self.chain.dir)? {
            if let Some(FileName::Log(number)) = FileName::parse(&entry.name)
                && number >= self.chain.marks.first_log
                && may_be_ours(number)
            {
                numbers.push(number);
            }
        }
        numbers.sort_unstable();
        match self.chain.absent(&numbers).into_iter().next() {
            Some((_, missing)) => Err(missing),
            None => Ok(numbers),
        }
    }

    /// Replay one log into a memtable of its own.
    fn read(&self, number: FileNumber, after: SeqNo, copies: bool) -> Result<RecoveredLog> {
        let mut reader = self.chain.open(number)?;
        let (memtable, mut writer) = Memtable::for_log(reader.len_max(), self.spare);
        // One group: nobody reads before all of it is there, so that range deletes take memory in proportion to the log.
        writer.begin_group(SeqNo::ZERO);
        let mut writes = writer.writes();
        let mut last = after;
        let closed = self.chain.closed_len(number).is_some();
        let known = self.chain.durable_len(number);
        let named = closed || known > 0;
        let copy = if copies && !named { self.copy(number)? } else { None };
        while let Some(record) = reader.next()? {
            if let Some(copy) = &copy {
                copy.follow(record.offset);
            }
            let damaged = |what: String| Error::corruption(self.chain.path(number), record.offset, what);
            let mut seqno = SeqNo(record.tag);
            if seqno <= last {
                return Err(damaged(format!("a record's sequence number {seqno} follows {last}")));
            }
            let mut decoder = Decoder::new(record.payload);
            loop {
                let op = decode_op(&mut decoder).map_err(|e| {
                    damaged(format!("operation at byte {} of the record: bad {}", e.at, e.what))
                })?;
                let Some(op) = op else { break };
                if seqno >= SEQNO_LAST {
                    return Err(damaged(format!(
                        "sequence number {seqno} is beyond those of every database"
                    )));
                }
                // Created durably before anything was written to it: the manifest has lost its end.
                if op.keyspace >= self.version.next_keyspace() {
                    let what = format!(
                        "it writes to keyspace {}, which the manifest never created",
                        op.keyspace.0
                    );
                    return Err(damaged(what));
                }
                // What a dropped keyspace held is gone with it.
                if self.version.keyspace(op.keyspace).is_some() {
                    apply(&mut writes, op, seqno);
                }
                last = seqno;
                seqno = SeqNo(seqno.0 + 1);
            }
        }
        drop(writes);
        let tail = reader.tail();
        let len = tail.valid_len;
        self.chain.check_durable(number, len)?;
        let durable = if closed { len } else { tail.durable_seen.max(known).min(len) };
        Ok(RecoveredLog { number, len, durable, named, copy, memtable, last_seqno: last })
    }

    /// A copy of log `number`, if there is room.
    fn copy(&self, number: FileNumber) -> Result<Option<LogCopy>> {
        match LogCopy::begin(self.env, self.chain.dir, number) {
            Err(error) if error.is_no_space() => Ok(None),
            begun => begun.map(Some),
        }
    }

    /// Log `number` ends early, at `len`: err if a later log proves that it had been durable.
    fn check_tail_was_volatile(&self, number: FileNumber, len: u64, later: &[FileNumber]) -> Result<()> {
        let Some(log) = self.chain.proof(later)? else { return Ok(()) };
        let what =
            format!("its end is gone, although {} shows that it had been durable", FileName::Log(log));
        Err(Error::corruption(self.chain.path(number), len, what))
    }
}
