//! The state that edits lead to, and the rules for which edit fits. All rules are here, except for those of
//! the marks, which are with the marks.
//!
//! 1. [`State::apply`] takes one edit, checks it against everything here, and changes the state or leaves it
//!    as it was. Recovery applies what it reads; a commit applies what it is about to write.
//! 2. [`State::undo`] takes back every change since [`State::begin`]: a commit that cannot be written
//!    leaves no trace.
//! 3. Each edit costs the logarithm of the number of tables, whatever the level: replaying a manifest of a
//!    hundred thousand edits is not quadratic. The flat arrays that lookups want are made by
//!    [`State::publish`], for the touched levels alone.
//! 4. Within one record, a table that is removed and added again keeps its handle.
//! 5. A blob file is there from the record that adds it to the one that leaves no table referring to it.
//!
//! Threads: none of its own; the version set keeps it under its commit lock.

mod keyspace;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use esker_base::blob::{BlobMeta, BlobRef};
use esker_base::table_meta::TableMeta;
use esker_base::{FileNumber, KeyspaceId};

use crate::blob_handle::BlobHandle;
use crate::edit::Edit;
use crate::limits::KEYSPACES_MAX;
use crate::table_handle::TableHandle;
use crate::tree::Tree;
use crate::tree_file::TreeFiles;
use crate::version::{KeyspaceState, Marks, Version};

use keyspace::Keyspace;

/// Why an edit does not fit, for people.
pub(crate) type Misfit = String;

/// The state that edits lead to. See the module.
pub(crate) struct State {
    files: Arc<TreeFiles>,
    keyspaces: BTreeMap<KeyspaceId, Keyspace>,
    /// The id behind each name.
    names: BTreeMap<Arc<str>, KeyspaceId>,
    /// Every live table, with its level.
    tables: BTreeMap<FileNumber, (u8, Arc<TableHandle>)>,
    /// Every blob file that is there, and how many live tables refer to it.
    blobs: Blobs,
    /// Blob files that were added since `begin`, or have lost the last table that referred to them.
    unreferred: Vec<FileNumber>,
    marks: Marks,
    /// The greatest file number that any edit has named.
    greatest_number: FileNumber,
    /// The tree of every keyspace that has no tables yet.
    empty: Arc<Tree>,
    /// How to take back what was applied since `begin`, newest last.
    undo: Vec<Undo>,
    /// `marks` as of `begin`.
    marks_before: Marks,
    /// Tables removed since `begin`: those that come back keep their handle.
    departed: BTreeMap<FileNumber, Arc<TableHandle>>,
    /// As of the last `publish`; `None` when a keyspace has come or gone since.
    directory: Option<Directory>,
}

/// The parts of a version that change only when a keyspace comes or goes.
#[derive(Clone)]
struct Directory {
    ids: Arc<[KeyspaceId]>,
    names: Arc<[(Arc<str>, KeyspaceId)]>,
}

enum Undo {
    Created(KeyspaceId),
    Dropped(KeyspaceId, Box<Keyspace>),
    Removed(u8, Arc<TableHandle>),
    Added(FileNumber),
    AddedBlob(FileNumber),
}

/// What a record has removed for good.
pub(crate) struct Departed {
    pub(crate) tables: Vec<Arc<TableHandle>>,
    pub(crate) blobs: Vec<Arc<BlobHandle>>,
}

impl State {
    /// The state of a database without a past. Handles report their end to `files`.
    pub(crate) fn new(files: Arc<TreeFiles>) -> State {
        State {
            files,
            keyspaces: BTreeMap::new(),
            names: BTreeMap::new(),
            tables: BTreeMap::new(),
            blobs: BTreeMap::new(),
            unreferred: Vec::new(),
            marks: Marks::default(),
            greatest_number: FileNumber(0),
            empty: Arc::default(),
            undo: Vec::new(),
            marks_before: Marks::default(),
            departed: BTreeMap::new(),
            directory: None,
        }
    }

    pub(crate) fn marks(&self) -> &Marks {
        &self.marks
    }

    pub(crate) fn keyspace_count(&self) -> usize {
        self.keyspaces.len()
    }

    /// Every live table.
    pub(crate) fn tables(&self) -> impl ExactSizeIterator<Item = &Arc<TableHandle>> {
        self.tables.values().map(|(_, table)| table)
    }

    /// Every blob file that is there.
    pub(crate) fn blobs(&self) -> impl ExactSizeIterator<Item = &Arc<BlobHandle>> {
        self.blobs.values().map(|(blob, _)| blob)
    }

    /// Whether blob file `number` is there.
    pub(crate) fn has_blob(&self, number: FileNumber) -> bool {
        self.blobs.contains_key(&number)
    }

    /// Whether table `number` is live.
    pub(crate) fn has_table(&self, number: FileNumber) -> bool {
        self.tables.contains_key(&number)
    }

    /// A number above every one that an edit has named.
    pub(crate) fn first_free_number(&self) -> FileNumber {
        self.marks.next_file.max(FileNumber(self.greatest_number.0 + 1))
    }

    /// No file number from `mark` on was handed out.
    pub(crate) fn move_mark(&mut self, mark: FileNumber) {
        self.marks.next_file = mark;
    }

    /// A record of edits begins: forget how to take back the one before.
    pub(crate) fn begin(&mut self) {
        self.undo.clear();
        self.departed.clear();
        self.unreferred.clear();
        self.marks_before.clone_from(&self.marks);
        self.marks.begin();
    }

    /// The record stands. Returns what it has removed for good.
    pub(crate) fn settle(&mut self) -> Departed {
        self.undo.clear();
        let live = &self.tables;
        let departed = std::mem::take(&mut self.departed);
        let tables = departed.into_values().filter(|table| !live.contains_key(&table.number())).collect();
        let mut blobs = Vec::new();
        for number in std::mem::take(&mut self.unreferred) {
            if self.blobs.get(&number).is_some_and(|(_, tables)| *tables == 0) {
                blobs.extend(self.blobs.remove(&number).map(|(blob, _)| blob));
            }
        }
        Departed { tables, blobs }
    }

    /// Take back everything since `begin`.
    pub(crate) fn undo(&mut self) {
        while let Some(change) = self.undo.pop() {
            match change {
                Undo::Created(id) => {
                    if let Some(keyspace) = self.keyspaces.remove(&id) {
                        self.names.remove(&keyspace.name);
                    }
                }
                Undo::Dropped(id, keyspace) => {
                    self.names.insert(Arc::clone(&keyspace.name), id);
                    for (level, table) in keyspace.tables() {
                        refer(&mut self.blobs, table);
                        self.tables.insert(table.number(), (level, Arc::clone(table)));
                    }
                    self.keyspaces.insert(id, *keyspace);
                }
                Undo::Removed(level, table) => self.place(level, table),
                Undo::Added(number) => {
                    self.displace(number);
                }
                Undo::AddedBlob(number) => {
                    self.blobs.remove(&number);
                }
            }
        }
        self.departed.clear();
        self.unreferred.clear();
        self.directory = None;
        self.marks.clone_from(&self.marks_before);
    }

    /// Apply one edit, or say why it does not fit and change nothing.
    pub(crate) fn apply(&mut self, edit: Edit) -> Result<(), Misfit> {
        edit.check()?;
        match edit {
            Edit::DropKeyspace { id } => self.drop_keyspace(id),
            Edit::CreateKeyspace { id, name, options } => self.create_keyspace(id, name, options),
            Edit::RemoveTable { keyspace, level, number } => self.remove_table(keyspace, level, number),
            Edit::AddTable { level, meta } => self.add_table(level, meta),
            Edit::AddBlob { meta } => self.add_blob(meta),
            Edit::LastSeqNo(_) | Edit::NextFile(_) | Edit::NextKeyspace(_) => self.marks.apply(&edit),
            Edit::ClosedLog { number, .. }
            | Edit::ForgetLogs { before: number }
            | Edit::DurableLog { number, .. }
            | Edit::CleanClose { log: number, .. } => {
                self.marks.apply(&edit)?;
                self.see(number);
                Ok(())
            }
        }
    }

    fn see(&mut self, number: FileNumber) {
        self.greatest_number = self.greatest_number.max(number);
    }

    fn create_keyspace(&mut self, id: KeyspaceId, name: String, options: Vec<u8>) -> Result<(), Misfit> {
        ensure(id >= self.marks.next_keyspace, || format!("keyspace id {} was used before", id.0))?;
        ensure(self.keyspaces.len() < KEYSPACES_MAX, || {
            format!("there are {KEYSPACES_MAX} keyspaces already")
        })?;
        ensure(!self.names.contains_key(name.as_str()), || {
            format!("there is a keyspace {name:?} already")
        })?;
        let shared: Arc<str> = name.as_str().into();
        self.names.insert(Arc::clone(&shared), id);
        let published = Arc::new(KeyspaceState { id, name, options, tree: Arc::clone(&self.empty) });
        self.keyspaces.insert(id, Keyspace::new(shared, published));
        self.marks.next_keyspace = KeyspaceId(id.0 + 1);
        self.directory = None;
        self.undo.push(Undo::Created(id));
        Ok(())
    }

    fn drop_keyspace(&mut self, id: KeyspaceId) -> Result<(), Misfit> {
        let keyspace = self.keyspaces.remove(&id).ok_or_else(|| unknown(id))?;
        self.names.remove(&keyspace.name);
        for (_, table) in keyspace.tables() {
            self.tables.remove(&table.number());
            forget(&mut self.blobs, &mut self.unreferred, table);
            self.departed.insert(table.number(), Arc::clone(table));
        }
        self.directory = None;
        self.undo.push(Undo::Dropped(id, Box::new(keyspace)));
        Ok(())
    }

    fn remove_table(&mut self, keyspace: KeyspaceId, level: u8, number: FileNumber) -> Result<(), Misfit> {
        let found = self.tables.get(&number);
        ensure(found.is_some_and(|(at, table)| *at == level && table.meta.keyspace == keyspace), || {
            format!("table {number} is not in level {level} of keyspace {}", keyspace.0)
        })?;
        if let Some((level, table)) = self.displace(number) {
            self.departed.insert(number, Arc::clone(&table));
            self.undo.push(Undo::Removed(level, table));
        }
        Ok(())
    }

    fn add_table(&mut self, level: u8, meta: TableMeta) -> Result<(), Misfit> {
        let number = meta.number;
        let keyspace = self.keyspaces.get(&meta.keyspace).ok_or_else(|| unknown(meta.keyspace))?;
        ensure(!self.tables.contains_key(&number), || format!("table {number} is in the tree already"))?;
        if let Some(other) = keyspace.overlapping(level, &meta) {
            let other = other.number();
            return Err(format!("tables {number} and {other} overlap in level {level}"));
        }
        let table = match self.departed.get(&number) {
            Some(departed) if departed.meta == meta => Arc::clone(departed),
            Some(_) => return Err(format!("table {number} comes back with another description")),
            None => {
                let blobs = self.referred(&meta)?;
                TableHandle::new(meta, blobs, &self.files)
            }
        };
        self.see(number);
        self.place(level, table);
        self.undo.push(Undo::Added(number));
        Ok(())
    }

    fn add_blob(&mut self, meta: BlobMeta) -> Result<(), Misfit> {
        let number = meta.number;
        ensure(self.keyspaces.contains_key(&meta.keyspace), || unknown(meta.keyspace))?;
        ensure(!self.blobs.contains_key(&number), || format!("blob file {number} is there already"))?;
        self.see(number);
        self.blobs.insert(number, (BlobHandle::new(meta, &self.files), 0));
        self.unreferred.push(number);
        self.undo.push(Undo::AddedBlob(number));
        Ok(())
    }

    /// The blob files that a table refers to, if they can hold what it refers to.
    fn referred(&self, meta: &TableMeta) -> Result<Vec<Arc<BlobHandle>>, Misfit> {
        let find = |part: &BlobRef| {
            let (table, number) = (meta.number, part.number);
            let (blob, _) = self
                .blobs
                .get(&number)
                .ok_or_else(|| format!("table {table} refers to blob file {number}, which is not there"))?;
            let holds = blob.meta.keyspace == meta.keyspace
                && part.values <= blob.meta.values
                && part.value_bytes <= blob.meta.value_bytes;
            ensure(holds, || {
                format!(
                    "table {table} refers to more of blob file {number} than it holds, or is of another keyspace"
                )
            })?;
            Ok(Arc::clone(blob))
        };
        meta.blobs.iter().map(find).collect()
    }

    /// Put a table where it is known to fit.
    fn place(&mut self, level: u8, table: Arc<TableHandle>) {
        if let Some(keyspace) = self.keyspaces.get_mut(&table.meta.keyspace) {
            keyspace.insert(level, &table);
            refer(&mut self.blobs, &table);
            self.tables.insert(table.number(), (level, table));
        }
    }

    /// Take a live table out.
    fn displace(&mut self, number: FileNumber) -> Option<(u8, Arc<TableHandle>)> {
        let (level, table) = self.tables.remove(&number)?;
        if let Some(keyspace) = self.keyspaces.get_mut(&table.meta.keyspace) {
            keyspace.remove(level, &table);
        }
        forget(&mut self.blobs, &mut self.unreferred, &table);
        Some((level, table))
    }

    /// A version of this state. Costs the size of the touched levels and the number of keyspaces.
    pub(crate) fn publish(&mut self) -> Version {
        for keyspace in self.keyspaces.values_mut() {
            keyspace.publish();
        }
        let directory = self.directory.get_or_insert_with(|| Directory {
            ids: self.keyspaces.keys().copied().collect(),
            names: self.names.iter().map(|(name, id)| (Arc::clone(name), *id)).collect(),
        });
        Version {
            keyspaces: self.keyspaces.values().map(|keyspace| Arc::clone(&keyspace.published)).collect(),
            ids: Arc::clone(&directory.ids),
            names: Arc::clone(&directory.names),
            marks: self.marks.clone(),
        }
    }
}

type Blobs = BTreeMap<FileNumber, (Arc<BlobHandle>, usize)>;

/// `table` has come: it refers to its blob files.
fn refer(blobs: &mut Blobs, table: &TableHandle) {
    for blob in table.blobs() {
        blobs.entry(blob.number()).or_insert_with(|| (Arc::clone(blob), 0)).1 += 1;
    }
}

/// `table` has gone; blob files that no table is left to refer to join `unreferred`.
fn forget(blobs: &mut Blobs, unreferred: &mut Vec<FileNumber>, table: &TableHandle) {
    for blob in table.blobs() {
        if let Some((_, tables)) = blobs.get_mut(&blob.number()) {
            *tables = tables.saturating_sub(1);
            if *tables == 0 {
                unreferred.push(blob.number());
            }
        }
    }
}

pub(crate) fn ensure(holds: bool, otherwise: impl FnOnce() -> Misfit) -> Result<(), Misfit> {
    if holds { Ok(()) } else { Err(otherwise()) }
}

fn unknown(id: KeyspaceId) -> Misfit {
    format!("there is no keyspace {}", id.0)
}
