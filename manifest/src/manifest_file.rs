//! One manifest: a log of edits, synced record by record.
//!
//! 1. The first record is a snapshot and is durable when [`ManifestFile::create`] returns; the name is not.
//! 2. A record is durable when [`ManifestFile::append`] returns Ok. A *seal* follows it, an empty record
//!    that is not synced: its header says that what stands before it was durable, so that damage there is
//!    never mistaken for an append that a crash cut short. A seal that cannot be written is no failure.
//! 3. After a failure that leaves a record's fate open, nothing is appended any more.
//!
//! Threads: one owner, the version set's commit lock.

use std::path::Path;

use esker_base::filename::FileName;
use esker_base::{DatabaseId, Error, FileNumber, Result};
use esker_vfs::fs::Fs;
use esker_wal::{LogIdentity, LogKind, LogWriter, WriteFailure};

/// Space reserved ahead, in bytes: small databases commit into it even when the disk is full, and a sync
/// that need not grow the file is cheaper.
const ALLOCATE_BYTES: u64 = 64 << 10;

/// A manifest is rewritten only beyond this length, in bytes.
const REWRITE_BYTES_MIN: u64 = 1 << 20;
/// A manifest is rewritten when it is longer than its snapshot by more than this factor.
const REWRITE_FACTOR: u64 = 4;

/// The manifest that takes commits. See the module.
pub(crate) struct ManifestFile {
    log: LogWriter,
    /// The tag of the next record: its place in the file.
    records: u64,
    /// Beyond this length, in bytes, it is better rewritten.
    rewrite_at: u64,
    /// It takes no more records.
    broken: bool,
}

/// Why a record could not be appended.
#[derive(Debug)]
pub(crate) enum AppendFailure {
    /// It is not in the file and never will be.
    Absent(Error),
    /// It may be read after a crash.
    Unknown(Error),
}

impl ManifestFile {
    /// The identity of manifest `number`.
    pub(crate) fn identity(database: DatabaseId, number: FileNumber) -> LogIdentity {
        LogIdentity { database, number, kind: LogKind::Manifest }
    }

    /// Make manifest `number` in `dir` with `snapshot` as its first record, and sync it. After an error the
    /// file is removed again, as far as that goes: nothing names it.
    pub(crate) fn create(
        fs: &dyn Fs,
        dir: &Path,
        database: DatabaseId,
        number: FileNumber,
        snapshot: &[u8],
    ) -> Result<ManifestFile> {
        let log = LogWriter::create(fs, dir, Self::identity(database, number), None, ALLOCATE_BYTES)?;
        let mut manifest = ManifestFile { log, records: 0, rewrite_at: 0, broken: false };
        match manifest.append(snapshot) {
            Ok(()) => {
                let enough = manifest.log.written().saturating_mul(REWRITE_FACTOR);
                manifest.rewrite_at = enough.max(REWRITE_BYTES_MIN);
                Ok(manifest)
            }
            Err(AppendFailure::Absent(error) | AppendFailure::Unknown(error)) => {
                drop(manifest);
                // Best effort: the next open reports what is left over.
                let _ = fs.remove(&dir.join(FileName::Manifest(number).to_string()));
                Err(error)
            }
        }
    }

    pub(crate) fn number(&self) -> FileNumber {
        self.log.number()
    }

    /// How many bytes of it were written.
    pub(crate) fn written(&self) -> u64 {
        self.log.written()
    }

    /// Whether it can take another record.
    pub(crate) fn takes_records(&self) -> bool {
        !self.broken
    }

    /// Whether it has outgrown its content.
    pub(crate) fn outgrown(&self) -> bool {
        self.log.written() > self.rewrite_at
    }

    /// Rewriting it failed: try again only after it has grown by as much as a rewrite takes at least.
    pub(crate) fn put_off_rewriting(&mut self) {
        self.rewrite_at = self.log.written().saturating_add(REWRITE_BYTES_MIN);
    }

    /// Append one record and sync it.
    pub(crate) fn append(&mut self, payload: &[u8]) -> Result<(), AppendFailure> {
        self.log.stage(self.records, &[payload]);
        match self.log.write() {
            Ok(_) => {}
            Err(WriteFailure::Undone(error)) => return Err(AppendFailure::Absent(error)),
            Err(WriteFailure::Refused(error)) => {
                self.broken = true;
                return Err(AppendFailure::Absent(error));
            }
            Err(WriteFailure::Unknown(error)) => {
                self.broken = true;
                return Err(AppendFailure::Unknown(error));
            }
        }
        if let Err(error) = self.log.syncer().sync() {
            self.broken = true;
            return Err(AppendFailure::Unknown(error));
        }
        self.records += 1;
        self.seal();
        Ok(())
    }

    /// Write a seal behind the last record: it says that the record is durable.
    fn seal(&mut self) {
        self.log.stage(self.records, &[]);
        match self.log.write() {
            Ok(_) => self.records += 1,
            Err(WriteFailure::Undone(_)) => {}
            Err(WriteFailure::Refused(_) | WriteFailure::Unknown(_)) => self.broken = true,
        }
    }
}
