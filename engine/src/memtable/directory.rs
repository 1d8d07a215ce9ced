//! Which index belongs to which keyspace: a trie over the bits of the keyspace's number that only
//! grows.
//!
//! A node holds one keyspace and up to [`FAN_OUT`] others; the top has [`TOP`] of them, so that with
//! up to 32 keyspaces of neighbouring numbers a lookup is one load and one comparison, and with ten
//! thousand about three more. A keyspace that was not written to has no node.
//!
//! Threads: the one writer adds nodes; readers follow `OnceLock`s, whose `get` is one acquire load.

use std::sync::{Arc, OnceLock};

use esker_base::KeyspaceId;

use super::arena::Arena;
use super::index::Index;
use super::tombstones::Tombstones;

/// Slots at the top: half a KB. (A memtable that takes more than one is out of the short lists of glibc's allocator, and every transaction
/// begins with one.)
const TOP: usize = 32;
/// Slots of a node.
const FAN_OUT: usize = 8;

type Slot = OnceLock<Box<Node>>;

/// Everything of one keyspace in one memtable.
#[derive(Debug)]
pub(super) struct Keyspace {
    pub(super) index: Index,
    pub(super) tombstones: Tombstones,
}

/// The keyspaces of one memtable.
#[derive(Debug)]
pub(super) struct Directory {
    top: [Slot; TOP],
}

#[derive(Debug)]
struct Node {
    id: KeyspaceId,
    keyspace: Keyspace,
    others: [Slot; FAN_OUT],
}

impl Directory {
    /// A directory without keyspaces.
    pub(super) fn new() -> Self {
        Directory { top: std::array::from_fn(|_| Slot::new()) }
    }

    /// The keyspace's part of the memtable, if it was ever written to.
    #[inline]
    pub(super) fn get(&self, id: KeyspaceId) -> Option<&Keyspace> {
        let mut bits = id.0 as usize;
        let mut node = self.top[bits % TOP].get()?;
        bits /= TOP;
        while node.id != id {
            node = node.others[bits % FAN_OUT].get()?;
            bits /= FAN_OUT;
        }
        Some(&node.keyspace)
    }

    /// The same, made if it is not there. For the one writer.
    pub(super) fn get_or_create(&self, id: KeyspaceId, arena: &Arc<Arena>) -> &Keyspace {
        let create = || {
            arena.count(size_of::<Node>());
            let keyspace = Keyspace { index: Index::new(Arc::clone(arena)), tombstones: Tombstones::new() };
            Box::new(Node { id, keyspace, others: std::array::from_fn(|_| Slot::new()) })
        };
        let mut bits = id.0 as usize;
        let mut node = self.top[bits % TOP].get_or_init(create);
        bits /= TOP;
        // Ends: the numbers that share a path differ in the bits not yet used, so after the last bit
        // the node is this keyspace's own.
        while node.id != id {
            node = node.others[bits % FAN_OUT].get_or_init(create);
            bits /= FAN_OUT;
        }
        &node.keyspace
    }

    /// Every keyspace that was written to, by ascending number.
    pub(super) fn list(&self) -> Vec<KeyspaceId> {
        let mut found = Vec::new();
        let mut waiting: Vec<&Slot> = self.top.iter().collect();
        while let Some(slot) = waiting.pop() {
            if let Some(node) = slot.get() {
                found.push(node.id);
                waiting.extend(&node.others);
            }
        }
        found.sort_unstable();
        found
    }
}
