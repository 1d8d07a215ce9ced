//! An insertion that is begun before it may be made: its log record is written in between, and what it looks at comes
//! nearer meanwhile.
//!
//! It borrows the right to write, so nothing else is inserted before it is made or given up: its way stays right.

use esker_base::checksum::key_hash;
use esker_base::{InternalKey, KeyspaceId, Kind, SeqNo};

use super::directory::Keyspace;
use super::index::{Descent, IndexWriter};
use super::{Memtable, MemtableWriter};

/// See the module. Dropped without [`insert`](Self::insert), it has done nothing.
#[derive(Debug)]
pub(crate) struct LoneInsertion<'a> {
    memtable: &'a Memtable,
    index: &'a mut IndexWriter,
    keyspace: KeyspaceId,
    key: &'a [u8],
    /// Of the key; 0 where there is no filter that asks for it.
    hash: u64,
    /// Its place in the directory and how far down the index the way is known; none for the keyspace's first.
    way: Option<(&'a Keyspace, Descent<'a>)>,
}

impl MemtableWriter {
    /// Begin an insertion for `key`: ask for the memory that it will look at, but for the leaf.
    #[inline]
    pub(crate) fn expect<'a>(&'a mut self, keyspace: KeyspaceId, key: &'a [u8]) -> LoneInsertion<'a> {
        let memtable = &*self.memtable;
        let mut hash = 0;
        if let Some(filter) = &memtable.filter {
            hash = key_hash(key);
            filter.expect(keyspace, hash);
        }
        let way = memtable.directory.get(keyspace).map(|found| {
            let target = InternalKey::before_all(key);
            let mut descent = Descent::begin(&found.index, target);
            descent.go_down(target, 1);
            (found, descent)
        });
        LoneInsertion { memtable, index: &mut self.index, keyspace, key, hash, way }
    }
}

impl<'a> LoneInsertion<'a> {
    /// Ask for the leaf, once the node above it had time to come.
    #[inline]
    pub(crate) fn expect_leaf(&mut self) {
        if let Some((_, descent)) = &mut self.way {
            descent.go_down(InternalKey::before_all(self.key), 0);
        }
    }

    /// The memtable, with everything older in it.
    #[inline]
    pub(crate) fn memtable(&self) -> &'a Memtable {
        self.memtable
    }

    /// Make it. See [`Writes::insert`](super::Writes::insert).
    #[inline]
    pub(crate) fn insert(self, seqno: SeqNo, kind: Kind, value: &[u8]) {
        let LoneInsertion { memtable, index: writer, keyspace, key, hash, way } = self;
        let target = InternalKey::new(key, seqno);
        let (found, descent) = way.unwrap_or_else(|| {
            let found = memtable.directory.get_or_create(keyspace, &memtable.arena);
            (found, Descent::begin(&found.index, target))
        });
        if let Some(filter) = &memtable.filter {
            filter.add(keyspace, hash);
        }
        let entry = writer.write(&found.index, target, kind, value);
        writer.link(&descent, target, entry);
        memtable.count_entry();
    }
}
