//! The state of a disk as plain data: calls go in, crash states come out.
//!
//! A clone shares everything, so keeping the state after each call is cheap.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::choice::{Choice, Drawn};
use super::content::{Content, Page};
use super::directory::{DirId, Directory, InodeId, NameChange, Names, Node};
use super::inode::{Change, Inode, Pending};
use super::trace::Action;
use crate::trace::TraceHash;

/// The directory that every path starts from.
pub(super) const ROOT: DirId = 0;

/// How many freed pages are remembered to be shown as stale blocks.
const FREED_PAGES_MAX: usize = 64;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Model {
    /// Whether what is durable is told from what is not.
    pub(super) tracked: bool,
    pub(super) inodes: BTreeMap<InodeId, Arc<Inode>>,
    pub(super) dirs: BTreeMap<DirId, Arc<Directory>>,
    /// Pages of removed and shortened files, oldest first.
    freed: VecDeque<Arc<Page>>,
}

impl Model {
    pub(super) fn new(tracked: bool) -> Model {
        let dirs = BTreeMap::from([(ROOT, Arc::default())]);
        Model { tracked, inodes: BTreeMap::new(), dirs, freed: VecDeque::new() }
    }

    /// Do what call number `call` does. Its conditions were checked when it was made; what it names
    /// may be gone if nothing could see it any more, and is passed over then.
    pub(super) fn apply(&mut self, call: u64, action: &Action) {
        match action {
            Action::Create { dir, name, inode } => {
                self.inodes.insert(*inode, Arc::new(Inode::settled(Content::default(), 1)));
                self.rename(call, *dir, NameChange::Add(Arc::clone(name), Node::File(*inode)));
            }
            Action::Link { dir, name, inode } => {
                self.count_link(*inode, 1);
                self.rename(call, *dir, NameChange::Add(Arc::clone(name), Node::File(*inode)));
            }
            Action::Remove { dir, name, inode } => {
                self.count_link(*inode, -1);
                self.rename(call, *dir, NameChange::Remove(Arc::clone(name)));
            }
            Action::Rename { from, to, inode, replaced } => {
                if let Some(replaced) = replaced {
                    self.count_link(*replaced, -1);
                }
                let node = Node::File(*inode);
                if from.0 == to.0 {
                    let change = NameChange::Rename(Arc::clone(&from.1), Arc::clone(&to.1), node);
                    self.rename(call, from.0, change);
                } else {
                    self.rename(call, to.0, NameChange::Add(Arc::clone(&to.1), node));
                    self.rename(call, from.0, NameChange::Remove(Arc::clone(&from.1)));
                }
            }
            Action::MakeDir { dir, name, made } => {
                self.dirs.insert(*made, Arc::default());
                self.rename(call, *dir, NameChange::Add(Arc::clone(name), Node::Dir(*made)));
            }
            Action::RemoveDir { dir, name, .. } => {
                self.rename(call, *dir, NameChange::Remove(Arc::clone(name)));
            }
            Action::Write { inode, offset, bytes } => {
                self.change(call, *inode, Change::Write { offset: *offset, bytes: bytes.clone() });
            }
            Action::SetLen { inode, len } => self.change(call, *inode, Change::SetLen(*len)),
            Action::Reserve { inode, len } => self.change(call, *inode, Change::Reserve(*len)),
            Action::Sync { honest: false, .. } | Action::SyncDir { honest: false, .. } => {}
            Action::Sync { inode, .. } => {
                if let Some(inode) = self.inode_mut(*inode) {
                    inode.sync();
                }
            }
            Action::SyncDir { dir, .. } => {
                if let Some(dir) = self.dir_mut(*dir) {
                    dir.sync();
                }
            }
            Action::FailSync { inode, mode, seed } => {
                if let Some(inode) = self.inode_mut(*inode) {
                    inode.fail_sync(&mut Drawn::of_failed_sync(*seed), *mode);
                }
            }
            Action::FailSyncDir { dir, seed } => {
                if let Some(dir) = self.dir_mut(*dir) {
                    dir.fail_sync(&mut Drawn::of_failed_sync(*seed));
                }
            }
        }
    }

    fn inode_mut(&mut self, inode: InodeId) -> Option<&mut Inode> {
        self.inodes.get_mut(&inode).map(Arc::make_mut)
    }

    fn dir_mut(&mut self, dir: DirId) -> Option<&mut Directory> {
        self.dirs.get_mut(&dir).map(Arc::make_mut)
    }

    fn rename(&mut self, call: u64, dir: DirId, change: NameChange) {
        let tracked = self.tracked;
        if let Some(dir) = self.dir_mut(dir) {
            dir.change(call, change, tracked);
        }
    }

    fn change(&mut self, call: u64, inode: InodeId, change: Change) {
        let tracked = self.tracked;
        if let Some(inode) = self.inode_mut(inode) {
            let freed = inode.change(call, change, tracked);
            self.remember_freed(freed);
        }
    }

    fn count_link(&mut self, inode: InodeId, by: i32) {
        if let Some(inode) = self.inode_mut(inode) {
            inode.links = inode.links.saturating_add_signed(by);
        }
    }

    fn remember_freed(&mut self, pages: impl IntoIterator<Item = Arc<Page>>) {
        if self.tracked {
            self.freed.extend(pages);
            let surplus = self.freed.len().saturating_sub(FREED_PAGES_MAX);
            self.freed.drain(..surplus);
        }
    }

    /// Drop `inode` if no name, no open handle (`open`) and no crash can bring it back.
    pub(super) fn forget(&mut self, inode: InodeId, open: bool) {
        let Some(found) = self.inodes.get(&inode) else { return };
        let node = Node::File(inode);
        if found.links > 0 || open || self.dirs.values().any(|dir| dir.may_keep(node)) {
            return;
        }
        if let Some(gone) = self.inodes.remove(&inode) {
            self.remember_freed(gone.volatile.pages().cloned().collect::<Vec<_>>());
        }
    }

    /// [`Model::forget`] every file that has no name.
    pub(super) fn forget_nameless(&mut self, open: impl Fn(InodeId) -> bool) {
        let nameless: Vec<InodeId> =
            self.inodes.iter().filter(|(_, inode)| inode.links == 0).map(|(id, _)| *id).collect();
        for inode in nameless {
            self.forget(inode, open(inode));
        }
    }

    /// The changes of files that are not durable, by file, in order.
    pub(super) fn pending_changes(&self) -> impl Iterator<Item = &Pending> {
        self.inodes.values().flat_map(|inode| &inode.pending)
    }

    /// The calls whose changes of names are not durable, by directory, in order.
    pub(super) fn pending_names(&self) -> impl Iterator<Item = u64> {
        self.dirs.values().flat_map(|dir| dir.pending.iter().map(|(call, _)| *call))
    }

    /// The state after a crash in which `choice` says what reached the disk, with stale blocks shown
    /// if `stale`. Everything in it is durable.
    pub(super) fn crash(&self, choice: &mut dyn Choice, stale: bool) -> Model {
        let settled: BTreeMap<DirId, Names> =
            self.dirs.iter().map(|(id, dir)| (*id, dir.settle(choice))).collect();
        let mut links: BTreeMap<InodeId, u32> = BTreeMap::new();
        let mut image = Model::new(true);
        let mut reached = vec![ROOT];
        while let Some(id) = reached.pop() {
            let Some(names) = settled.get(&id) else { continue };
            for node in names.values() {
                match node {
                    Node::File(inode) => *links.entry(*inode).or_default() += 1,
                    Node::Dir(dir) => reached.push(*dir),
                }
            }
            image.dirs.insert(id, Arc::new(Directory::settled(names.clone())));
        }
        let old = stale.then(|| self.stale_pages());
        for (id, inode) in &self.inodes {
            let named = links.get(id).copied();
            // Also of those without a name: the choice is asked about everything, in order.
            if inode.is_settled() {
                let Some(links) = named else { continue };
                let same = if inode.links == links {
                    Arc::clone(inode)
                } else {
                    Arc::new(Inode::settled(inode.durable.clone(), links))
                };
                image.inodes.insert(*id, same);
            } else {
                let content = inode.settle(choice, old.as_deref());
                let Some(links) = named else { continue };
                image.inodes.insert(*id, Arc::new(Inode::settled(content, links)));
            }
        }
        image
    }

    /// What freed blocks may hold; if none was freed, what other files held when last synced.
    fn stale_pages(&self) -> Vec<Arc<Page>> {
        if self.freed.is_empty() {
            let others = self.inodes.values().flat_map(|inode| inode.durable.pages());
            return others.take(FREED_PAGES_MAX).cloned().collect();
        }
        self.freed.iter().rev().cloned().collect()
    }

    /// A hash over all names, lengths and bytes that readers see.
    pub(super) fn content_hash(&self) -> u64 {
        let mut hash = TraceHash::default();
        self.hash_dir(ROOT, &mut hash);
        hash.value()
    }

    fn hash_dir(&self, dir: DirId, hash: &mut TraceHash) {
        let Some(dir) = self.dirs.get(&dir) else { return };
        hash.number(dir.volatile.len() as u64);
        for (name, node) in &dir.volatile {
            hash.bytes(name.as_bytes());
            match node {
                Node::Dir(dir) => {
                    hash.number(1);
                    self.hash_dir(*dir, hash);
                }
                Node::File(inode) => {
                    hash.number(2);
                    if let Some(inode) = self.inodes.get(inode) {
                        inode.volatile.hash_into(hash);
                    }
                }
            }
        }
    }

    /// Bytes of space taken by files that have a name or are open (`open`).
    pub(super) fn allocated(&self, open: impl Fn(InodeId) -> bool) -> u64 {
        let seen = self.inodes.iter().filter(|(id, inode)| inode.links > 0 || open(**id));
        seen.map(|(_, inode)| inode.volatile.allocated()).sum()
    }
}
