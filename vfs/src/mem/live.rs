//! The disk as it is used: the state, its trace, handles and locks.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Component, Path};
use std::sync::Arc;

use esker_base::Result;

use super::directory::{DirId, Directory, InodeId, Node};
use super::fail;
use super::inode::SyncFailure;
use super::model::{Model, ROOT};
use super::trace::{Action, Call};
use crate::fs::{DirEntry, EntryKind};
use crate::trace::TraceHash;

/// The disk as it is used.
pub(super) struct Live {
    pub(super) model: Model,
    pub(super) trace: Vec<Call>,
    pub(super) hash: TraceHash,
    /// The next number of a file or directory.
    pub(super) next_id: u64,
    /// Handles by file.
    pub(super) open: BTreeMap<InodeId, usize>,
    pub(super) locked: BTreeSet<InodeId>,
    pub(super) capacity: Option<u64>,
    pub(super) sync_lies: bool,
    pub(super) fail_next_sync: Option<(SyncFailure, u64)>,
}

impl Live {
    /// A disk in the state `model`, unused so far.
    pub(super) fn new(model: Model) -> Live {
        let files = model.inodes.keys().next_back().copied();
        let dirs = model.dirs.keys().next_back().copied();
        Live {
            model,
            trace: Vec::new(),
            hash: TraceHash::default(),
            next_id: files.max(dirs).unwrap_or(ROOT) + 1,
            open: BTreeMap::new(),
            locked: BTreeSet::new(),
            capacity: None,
            sync_lies: false,
            fail_next_sync: None,
        }
    }

    /// Do `action` and write it down.
    pub(super) fn perform(&mut self, path: &Path, action: Action) {
        self.perform_shared(&Arc::from(path), action);
    }

    pub(super) fn perform_shared(&mut self, path: &Arc<Path>, action: Action) {
        self.model.apply(self.trace.len() as u64, &action);
        if self.model.tracked {
            let call = Call { path: Arc::clone(path), action };
            call.hash_into(&mut self.hash);
            self.trace.push(call);
        }
    }

    pub(super) fn is_open(&self, inode: InodeId) -> bool {
        self.open.contains_key(&inode)
    }

    pub(super) fn new_id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    pub(super) fn directory(&self, id: DirId) -> Option<&Arc<Directory>> {
        self.model.dirs.get(&id)
    }

    /// The directory that holds the last component of `path`, and that component; `None` for the root.
    pub(super) fn locate<'a>(&self, op: &'static str, path: &'a Path) -> Result<Option<(DirId, &'a str)>> {
        let mut at = ROOT;
        let mut last: Option<&str> = None;
        for component in path.components() {
            let name = match component {
                Component::Normal(name) => name.to_str(),
                Component::RootDir | Component::CurDir => continue,
                Component::ParentDir | Component::Prefix(_) => None,
            };
            let name = name.ok_or_else(|| fail(op, path, ErrorKind::InvalidInput))?;
            if let Some(within) = last.replace(name) {
                at = match self.directory(at).and_then(|dir| dir.volatile.get(within)) {
                    Some(Node::Dir(dir)) => *dir,
                    Some(Node::File(_)) => return Err(fail(op, path, ErrorKind::NotADirectory)),
                    None => return Err(fail(op, path, ErrorKind::NotFound)),
                };
            }
        }
        Ok(last.map(|name| (at, name)))
    }

    /// Where the new name `path` goes, and what has it now.
    pub(super) fn place<'a>(
        &self,
        op: &'static str,
        path: &'a Path,
    ) -> Result<(DirId, &'a str, Option<Node>)> {
        let (dir, name) = self.locate(op, path)?.ok_or_else(|| fail(op, path, ErrorKind::AlreadyExists))?;
        let node = self.directory(dir).and_then(|dir| dir.volatile.get(name)).copied();
        Ok((dir, name, node))
    }

    /// What stands at `path`.
    pub(super) fn find(&self, op: &'static str, path: &Path) -> Result<Option<Node>> {
        Ok(match self.locate(op, path)? {
            Some((dir, name)) => self.directory(dir).and_then(|dir| dir.volatile.get(name)).copied(),
            None => Some(Node::Dir(ROOT)),
        })
    }

    /// The directory at `path`.
    pub(super) fn find_dir(&self, op: &'static str, path: &Path) -> Result<DirId> {
        match self.find(op, path)? {
            Some(Node::Dir(dir)) => Ok(dir),
            Some(Node::File(_)) => Err(fail(op, path, ErrorKind::NotADirectory)),
            None => Err(fail(op, path, ErrorKind::NotFound)),
        }
    }

    pub(super) fn entry(&self, name: &str, node: Node) -> DirEntry {
        let (kind, len) = match node {
            Node::Dir(_) => (EntryKind::Directory, 0),
            Node::File(inode) => {
                let inode = self.model.inodes.get(&inode);
                (EntryKind::File, inode.map_or(0, |inode| inode.volatile.len()))
            }
        };
        DirEntry { name: name.to_owned(), kind, len }
    }

    pub(super) fn free_space(&self) -> Option<u64> {
        let capacity = self.capacity?;
        Some(capacity.saturating_sub(self.model.allocated(|inode| self.is_open(inode))))
    }

    /// The last name or handle of `inode` may have gone.
    pub(super) fn release(&mut self, inode: InodeId) {
        let open = self.is_open(inode);
        self.model.forget(inode, open);
    }
}
