//! What people ask of a database by hand: verify it, copy it, compact a range of it.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use esker_base::bounds::Bounds;
use esker_base::event::SealReason;
use esker_base::filename::FileName;
use esker_base::sync::atomic::Ordering;
use esker_base::{Error, FileNumber, KeyspaceId, OpCost, Result, SeqNo};
use esker_compaction::{RangeRequest, RangeStep, plan_range};
use esker_manifest::{Version, write_checkpoint};
use esker_vfs::fs::Fs;
use esker_wal::{LogIdentity, LogKind, LogReader, LogWriter};

use crate::core::Core;
use crate::database::Verified;
use crate::jobs::{Carrying, stops_writes};
use crate::new_directory::NewDirectory;
use crate::superversion::SuperVersion;
use crate::table_io;

/// What a checkpoint does with its target, for messages.
const CHECKPOINT: &str = "make a checkpoint in";

/// How often a checkpoint flushes because a keyspace was dropped meanwhile.
const FLUSHES_MAX: u32 = 8;

impl Core {
    /// See [`Database::verify`](crate::Database::verify).
    pub(crate) fn verify(&self) -> Result<Verified> {
        self.health.check_open()?;
        let mut verified = Verified::default();
        // The version is held, so its tables stay; logs first, while none of them is flushed away.
        let (current, logs) = self.live_logs();
        for (number, len) in logs {
            self.verify_log(number, len, &mut verified)?;
        }
        verified.bytes += self.versions.verify()?;
        for keyspace in current.version.keyspaces() {
            for (_, table) in keyspace.tree.tables() {
                let mut cost = OpCost::default();
                table.reader()?.verify(&mut cost)?;
                verified.tables += 1;
                verified.entries += table.meta.entries;
                verified.bytes += table.meta.file_bytes;
            }
            for blob in keyspace.tree.blobs() {
                blob.handle.reader()?.verify(&mut OpCost::default())?;
                verified.blobs += 1;
                verified.bytes += blob.handle.meta.file_bytes;
            }
        }
        Ok(verified)
    }

    /// The logs that the next open would read, with the length that is surely written: the one in use, those
    /// whose memtable is not in tables yet, and what else the manifest asks for. And the superversion.
    fn live_logs(&self) -> (Arc<SuperVersion>, BTreeMap<FileNumber, u64>) {
        // No log is begun meanwhile.
        let state = self.commits.lock();
        let current = self.current.load_full();
        let marks = current.version.marks();
        let mut logs: BTreeMap<FileNumber, u64> =
            marks.closed_logs.range(marks.first_log..).map(|(number, len)| (*number, *len)).collect();
        logs.extend(current.sealed.iter().filter_map(|layer| Some((layer.log, layer.sealed_log_bytes()?))));
        logs.extend(state.log.as_ref().map(|log| (state.log_number, log.written())));
        (current, logs)
    }

    fn verify_log(&self, number: FileNumber, len: u64, verified: &mut Verified) -> Result<()> {
        let identity = LogIdentity { database: self.database, number, kind: LogKind::WriteAhead };
        let path = self.dir.join(FileName::Log(number).to_string());
        let read = || {
            let mut reader = LogReader::open(&*self.env.fs, &path, identity, Some(len))?;
            let mut records = 0;
            while reader.next()?.is_some() {
                records += 1;
            }
            Ok(records)
        };
        match read() {
            Ok(records) => {
                verified.log_records += records;
                verified.bytes += len;
                Ok(())
            }
            // Flushed since it was listed, and its file removed or written over: its content is in tables.
            Err(_) if self.versions.current().marks().first_log > number => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// See [`Database::checkpoint`](crate::Database::checkpoint).
    pub(crate) fn checkpoint(&self, target: &Path) -> Result<()> {
        let fs = &self.env.fs;
        NewDirectory::check_free(&**fs, target, CHECKPOINT)?;
        self.check_writable()?;
        let version = self.flushed_version()?;
        self.check_in_place()?;
        let made = NewDirectory::make(fs, target, CHECKPOINT)?;
        match self.fill_checkpoint(target, &version) {
            Ok(()) => {
                made.unlock();
                Ok(())
            }
            Err(error) => {
                if error.is_no_descriptors() {
                    // To find what was made takes one.
                    self.give_up_descriptors();
                }
                made.discard();
                Err(error)
            }
        }
    }

    /// A version whose tables hold everything that was committed before the call, and a prefix of commit order: memtables
    /// become tables whole and in order. A keyspace that was dropped is not in the manifest any more, whether or not what was
    /// committed before its drop is in tables: after one during the flush there is another, but not for ever. (A drop cannot wait:
    /// a listener may drop a keyspace on the thread that flushes.)
    fn flushed_version(&self) -> Result<Arc<Version>> {
        for _ in 0..FLUSHES_MAX {
            // A drop that is counted here takes place before the flush, which waits for the commit lock.
            let drops = self.keyspace_drops.load(Ordering::Acquire);
            self.flush(SealReason::Asked)?;
            let version = self.versions.current();
            if self.keyspace_drops.load(Ordering::Acquire) == drops {
                return Ok(version);
            }
        }
        let what = format!(
            "cannot make a checkpoint now: during each of {FLUSHES_MAX} flushes a keyspace was dropped"
        );
        Err(Error::invalid(what))
    }

    fn fill_checkpoint(&self, target: &Path, version: &Arc<Version>) -> Result<()> {
        let fs = &self.env.fs;
        for keyspace in version.keyspaces() {
            let tables = keyspace.tree.tables().map(|(_, table)| FileName::Table(table.number()));
            let blobs = keyspace.tree.blobs().iter().map(|blob| FileName::Blob(blob.handle.number()));
            for name in tables.chain(blobs) {
                let name = name.to_string();
                link_or_copy(&**fs, &self.dir.join(&name), &target.join(&name))?;
            }
        }
        // The version names the first log still needed. What that holds is newer than the tables: the
        // copy gets an empty one.
        let number = version.marks().first_log;
        let identity = LogIdentity { database: self.database, number, kind: LogKind::WriteAhead };
        self.giving_up(|| LogWriter::create(&**fs, target, identity, None, 0))?.syncer().sync()?;
        fs.sync_dir(target)?;
        write_checkpoint(&**fs, target, self.database, version)?;
        make_name_durable(&**fs, target)
    }

    /// See [`Keyspace::compact_range`](crate::Keyspace::compact_range).
    pub(crate) fn compact_range(self: &Arc<Self>, keyspace: KeyspaceId, bounds: &Bounds) -> Result<()> {
        self.check_writable()?;
        let _by_hand = self.by_hand()?;
        self.flush(SealReason::Asked)?;
        let settings = table_io::compaction_settings(&self.options);
        let start = match &bounds.start {
            Bound::Unbounded => Vec::new(),
            Bound::Included(key) | Bound::Excluded(key) => key.clone(),
        };
        let end = match &bounds.end {
            Bound::Unbounded => None,
            Bound::Excluded(key) => Some(key.clone()),
            Bound::Included(key) => Some([key.as_slice(), &[0]].concat()),
        };
        let upto = self.current.load_full().read_seqno(&self.snapshots);
        let oldest = self.snapshots.boundaries().first().copied().unwrap_or(SeqNo::ZERO);
        self.check_in_place()?;
        let (before, again) = (self.versions.allocate(), FileNumber(0));
        let mut request = RangeRequest { start, end, before, again, oldest, upto };
        loop {
            let seen = self.progress.epoch();
            self.health.check()?;
            self.jobs.check_open()?;
            let (step, claim) = {
                // The claims first, the version second, as whoever picks has to.
                let mut busy = self.jobs.busy();
                let version = self.versions.current();
                let Some(state) = version.keyspace(keyspace) else { return Ok(()) };
                let step = plan_range(&state.tree, keyspace, &settings, &busy, &request);
                let claim = match &step {
                    RangeStep::Run(plan) => Some(busy.start(plan)),
                    RangeStep::Wait | RangeStep::Done => None,
                };
                (step, claim)
            };
            match (step, claim) {
                (RangeStep::Run(plan), Some(claim)) => {
                    let carried = self.carry_out(Carrying::new(self, *plan, claim));
                    carried.inspect_err(|error| {
                        if stops_writes(error) {
                            self.stop_writes(error);
                        }
                    })?;
                }
                (RangeStep::Done, _) if request.again == FileNumber(0) => {
                    self.check_in_place()?;
                    request.again = self.versions.allocate();
                }
                (RangeStep::Done, _) => return self.wait_for_removal(),
                _ => {
                    self.env.scheduler.wait(&self.progress, seen, None);
                }
            }
        }
    }

    /// Do all of it, by hand. What it held is let go of when this returns, before a listener is told of an error.
    fn carry_out(&self, mut carrying: Carrying) -> Result<()> {
        while !carrying.step()? {
            self.health.check()?;
        }
        Ok(())
    }
}

/// Make the name of the new directory `dir` durable.
pub(crate) fn make_name_durable(fs: &dyn Fs, dir: &Path) -> Result<()> {
    let Some(parent) = dir.parent() else { return Ok(()) };
    // The parent may be a link, which the call that made `dir` has followed: what is opened is what it leads to.
    match fs.sync_dir(&parent.join(".")) {
        // Somebody made the directory for us where we may not look.
        Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::PermissionDenied => Ok(()),
        synced => synced,
    }
}

/// A second name for a file, or where links are not to be had, a copy.
fn link_or_copy(fs: &dyn Fs, from: &Path, to: &Path) -> Result<()> {
    if fs.hard_link(from, to).is_ok() {
        return Ok(());
    }
    let source = fs.open(from)?;
    let target = fs.create(to)?;
    let len = source.len()?;
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    while at < len {
        let read = source.read_at(&mut buffer, at)?;
        if read == 0 {
            return Err(Error::corruption(from, at, "the file became shorter while it was copied"));
        }
        target.write_at(&buffer[..read], at)?;
        at += read as u64;
    }
    target.sync()
}
