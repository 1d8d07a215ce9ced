//! One directory: the names that are durable, those that are seen, and the changes in between.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::choice::Choice;

/// A file, by its number; never used again for another.
pub(super) type InodeId = u64;
/// A directory, by its number; never used again for another.
pub(super) type DirId = u64;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Node {
    File(InodeId),
    Dir(DirId),
}

/// The names of a directory.
pub(super) type Names = BTreeMap<Arc<str>, Node>;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Directory {
    pub(super) durable: Names,
    pub(super) volatile: Names,
    /// Changes since the last sync with the calls that made them.
    pub(super) pending: Vec<(u64, NameChange)>,
}

/// A change that happens whole or not at all.
#[derive(Clone, Debug)]
pub(super) enum NameChange {
    Add(Arc<str>, Node),
    Remove(Arc<str>),
    /// Within this directory. A rename into another is a `Remove` here and an `Add` there, each by
    /// itself, which is harsher than a filesystem with a journal.
    Rename(Arc<str>, Arc<str>, Node),
}

impl NameChange {
    fn apply(&self, names: &mut Names) {
        match self {
            NameChange::Add(name, node) => {
                names.insert(Arc::clone(name), *node);
            }
            NameChange::Remove(name) => {
                names.remove(name);
            }
            NameChange::Rename(from, to, node) => {
                // If an earlier change of `from` did not happen, another file may have that name.
                if names.get(from) == Some(node) {
                    names.remove(from);
                }
                names.insert(Arc::clone(to), *node);
            }
        }
    }

    fn nodes(&self) -> Option<Node> {
        match self {
            NameChange::Add(_, node) | NameChange::Rename(_, _, node) => Some(*node),
            NameChange::Remove(_) => None,
        }
    }
}

impl Directory {
    /// A directory that is durable as it stands.
    pub(super) fn settled(names: Names) -> Directory {
        Directory { durable: names.clone(), volatile: names, pending: Vec::new() }
    }

    /// Do `change` as call number `call`.
    pub(super) fn change(&mut self, call: u64, change: NameChange, tracked: bool) {
        change.apply(&mut self.volatile);
        if tracked {
            self.pending.push((call, change));
        }
    }

    /// Make every name durable.
    pub(super) fn sync(&mut self) {
        for (_, change) in self.pending.drain(..) {
            change.apply(&mut self.durable);
        }
    }

    /// A sync fails: what `choice` takes is durable, the rest is lost at a crash but goes on being
    /// seen until then.
    pub(super) fn fail_sync(&mut self, choice: &mut dyn Choice) {
        self.durable = self.settle(choice);
        self.pending.clear();
    }

    /// The names that a crash leaves if `choice` says which changes reached the disk.
    pub(super) fn settle(&self, choice: &mut dyn Choice) -> Names {
        choice.begin(self.pending.len(), &|nth| self.pending[nth].0);
        let mut names = self.durable.clone();
        for (call, change) in &self.pending {
            if choice.name(*call) {
                change.apply(&mut names);
            }
        }
        names
    }

    /// Whether a crash could leave a name for `node`.
    pub(super) fn may_keep(&self, node: Node) -> bool {
        self.durable.values().any(|kept| *kept == node)
            || self.pending.iter().any(|(_, change)| change.nodes() == Some(node))
    }
}
