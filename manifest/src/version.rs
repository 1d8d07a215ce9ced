//! A version: which keyspaces there are and which tables make each, at one moment.
//!
//! 1. A version is immutable and complete: whoever holds it can read everything in it, whatever commits
//!    follow. Holding it keeps its tables' files.
//! 2. A commit makes a new version that shares every tree it does not touch, and every level of a touched
//!    tree that it does not touch.

use std::collections::BTreeMap;
use std::sync::Arc;

use esker_base::{FileNumber, KeyspaceId, SeqNo};

use crate::edit::Edit;
use crate::state::ensure;
use crate::tree::Tree;

/// One keyspace of a version.
#[derive(Clone, Debug)]
pub struct KeyspaceState {
    /// Its id.
    pub id: KeyspaceId,
    /// Its name, unique in the version.
    pub name: String,
    /// What the engine stored with it when it was created.
    pub options: Vec<u8>,
    /// Its tables.
    pub tree: Arc<Tree>,
}

/// What the manifest knows of the write-ahead logs, and of the numbers in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marks {
    /// Logs with smaller numbers hold nothing that is not in tables.
    pub first_log: FileNumber,
    /// Final length in bytes of each closed log from `first_log` on.
    pub closed_logs: BTreeMap<FileNumber, u64>,
    /// The newest sequence number that a commit named: everything up to it is in tables. Logs may hold newer ones.
    pub last_seqno: SeqNo,
    /// The newest log of which something was known to be durable, and how many bytes of it were.
    pub durable_log: Option<(FileNumber, u64)>,
    /// The last log and its length, if nothing was committed since the database was closed in order.
    pub clean_close: Option<(FileNumber, u64)>,
    /// File numbers from here on are not reserved yet.
    pub next_file: FileNumber,
    /// Keyspace ids from here on were never used.
    pub next_keyspace: KeyspaceId,
}

impl Default for Marks {
    /// Of a database without a past.
    fn default() -> Self {
        Marks {
            first_log: FileNumber(0),
            closed_logs: BTreeMap::new(),
            last_seqno: SeqNo::ZERO,
            durable_log: None,
            clean_close: None,
            next_file: FileNumber(1),
            next_keyspace: KeyspaceId(1),
        }
    }
}

impl Marks {
    /// A record of edits begins.
    pub fn begin(&mut self) {
        self.clean_close = None;
    }

    /// Apply one edit, or say why it does not fit and change nothing. Edits of keyspaces, tables and blob
    /// files do not concern the marks, and fit: whoever creates a keyspace takes care of `next_keyspace`.
    pub fn apply(&mut self, edit: &Edit) -> Result<(), String> {
        match *edit {
            Edit::ClosedLog { number, len } => self.close_log(number, len),
            Edit::ForgetLogs { before } => self.forget_logs(before),
            Edit::LastSeqNo(seqno) => self.advance_seqno(seqno),
            Edit::NextFile(number) => {
                self.next_file = number;
                Ok(())
            }
            Edit::NextKeyspace(id) => {
                ensure(id >= self.next_keyspace, || format!("keyspace ids from {} on are in use", id.0))?;
                self.next_keyspace = id;
                Ok(())
            }
            Edit::DurableLog { number, len } => self.raise_durable_log(number, len),
            Edit::CleanClose { log, len } => {
                self.clean_close = Some((log, len));
                Ok(())
            }
            Edit::DropKeyspace { .. }
            | Edit::CreateKeyspace { .. }
            | Edit::RemoveTable { .. }
            | Edit::AddTable { .. }
            | Edit::AddBlob { .. } => Ok(()),
        }
    }

    fn close_log(&mut self, number: FileNumber, len: u64) -> Result<(), String> {
        ensure(number >= self.first_log, || format!("log {number} was forgotten and is now closed"))?;
        ensure(!self.closed_logs.contains_key(&number), || format!("log {number} is closed twice"))?;
        self.closed_logs.insert(number, len);
        Ok(())
    }

    fn forget_logs(&mut self, before: FileNumber) -> Result<(), String> {
        ensure(before >= self.first_log, || {
            format!("logs before {} were forgotten and {before} is needed again", self.first_log)
        })?;
        self.closed_logs = self.closed_logs.split_off(&before);
        self.durable_log = self.durable_log.filter(|(number, _)| *number >= before);
        self.first_log = before;
        Ok(())
    }

    fn raise_durable_log(&mut self, number: FileNumber, len: u64) -> Result<(), String> {
        ensure(number >= self.first_log, || format!("log {number} was forgotten and is now durable"))?;
        ensure(self.durable_log <= Some((number, len)), || {
            format!("more was known to be durable than {len} bytes of log {number}")
        })?;
        self.durable_log = Some((number, len));
        Ok(())
    }

    fn advance_seqno(&mut self, seqno: SeqNo) -> Result<(), String> {
        let last = self.last_seqno;
        ensure(seqno >= last, || format!("the last sequence number goes back from {last} to {seqno}"))?;
        self.last_seqno = seqno;
        Ok(())
    }
}

/// The keyspaces and tables at one moment. Shared as `Arc<Version>`.
#[derive(Clone, Debug, Default)]
pub struct Version {
    /// Ascending by id.
    pub(crate) keyspaces: Box<[Arc<KeyspaceState>]>,
    /// The ids of `keyspaces`, side by side.
    pub(crate) ids: Arc<[KeyspaceId]>,
    /// Ascending by name.
    pub(crate) names: Arc<[(Arc<str>, KeyspaceId)]>,
    pub(crate) marks: Marks,
}

impl Version {
    /// The keyspace with this id.
    #[inline]
    pub fn keyspace(&self, id: KeyspaceId) -> Option<&Arc<KeyspaceState>> {
        // Ids are handed out one after the other: unless keyspaces were dropped, this hits.
        let first = self.ids.first()?;
        let guess = id.0.checked_sub(first.0)? as usize;
        let index =
            if self.ids.get(guess) == Some(&id) { guess } else { self.ids.binary_search(&id).ok()? };
        self.keyspaces.get(index)
    }

    /// Every keyspace, ascending by id.
    #[inline]
    pub fn keyspaces(&self) -> &[Arc<KeyspaceState>] {
        &self.keyspaces
    }

    /// The keyspace with this name.
    pub fn by_name(&self, name: &str) -> Option<&Arc<KeyspaceState>> {
        let index = self.names.binary_search_by(|(candidate, _)| (**candidate).cmp(name)).ok()?;
        self.keyspace(self.names.get(index)?.1)
    }

    /// An id for a new keyspace, never used before.
    #[inline]
    pub fn next_keyspace(&self) -> KeyspaceId {
        self.marks.next_keyspace
    }

    /// Logs and numbers, as of this version.
    #[inline]
    pub fn marks(&self) -> &Marks {
        &self.marks
    }

    /// The edits that lead from nothing to this version.
    pub(crate) fn snapshot(&self) -> Vec<Edit> {
        let mut edits = Vec::with_capacity(self.keyspaces.len() + self.table_count() + 8);
        edits.extend(self.keyspaces.iter().map(|keyspace| Edit::CreateKeyspace {
            id: keyspace.id,
            name: keyspace.name.clone(),
            options: keyspace.options.clone(),
        }));
        let blobs = self.keyspaces.iter().flat_map(|keyspace| keyspace.tree.blobs());
        edits.extend(blobs.map(|blob| Edit::AddBlob { meta: blob.handle.meta }));
        let tables = self.keyspaces.iter().flat_map(|keyspace| keyspace.tree.tables());
        edits.extend(tables.map(|(level, table)| Edit::AddTable { level, meta: table.meta.clone() }));
        let marks = &self.marks;
        edits.extend(marks.closed_logs.iter().map(|(&number, &len)| Edit::ClosedLog { number, len }));
        edits.push(Edit::ForgetLogs { before: marks.first_log });
        edits.push(Edit::LastSeqNo(marks.last_seqno));
        edits.push(Edit::NextFile(marks.next_file));
        edits.push(Edit::NextKeyspace(marks.next_keyspace));
        edits.extend(marks.clean_close.map(|(log, len)| Edit::CleanClose { log, len }));
        edits.extend(marks.durable_log.map(|(number, len)| Edit::DurableLog { number, len }));
        edits
    }

    /// How many tables all keyspaces have.
    pub fn table_count(&self) -> usize {
        self.keyspaces.iter().map(|keyspace| keyspace.tree.table_count()).sum()
    }

    /// Size of all blob files, in bytes.
    pub fn blob_bytes(&self) -> u64 {
        let blobs = self.keyspaces.iter().flat_map(|keyspace| keyspace.tree.blobs());
        blobs.fold(0, |sum, blob| sum.saturating_add(blob.handle.meta.file_bytes))
    }

    /// Size of all tables, in bytes.
    pub fn bytes(&self) -> u64 {
        self.keyspaces.iter().fold(0, |sum, keyspace| sum.saturating_add(keyspace.tree.bytes()))
    }
}
