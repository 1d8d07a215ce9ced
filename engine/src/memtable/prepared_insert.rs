//! An insertion in two phases: prefetch the search path, write the log record, then insert. It borrows the writer, so the
//! path cannot change in between.

use esker_base::checksum::key_hash;
use esker_base::{InternalKey, KeyspaceId, Kind, SeqNo};

use super::directory::Keyspace;
use super::filter::KeyHash;
use super::index::{Descent, IndexWriter};
use super::{Memtable, MemtableWriter};

/// See the module. Dropped without [`insert`](Self::insert), it has done nothing.
#[derive(Debug)]
pub(crate) struct PreparedInsert<'a> {
    memtable: &'a Memtable,
    index: &'a mut IndexWriter,
    keyspace: KeyspaceId,
    key: &'a [u8],
    /// The key's, for the filter, if there is one.
    hash: KeyHash,
    /// Its keyspace and how far down its index the search path is known; none for the keyspace's first entry.
    way: Option<(&'a Keyspace, Descent<'a>)>,
}

impl MemtableWriter {
    /// Begin an insertion for `key`: prefetch its search path down to the node above the leaf.
    #[inline]
    pub(crate) fn begin_insert<'a>(
        &'a mut self,
        keyspace: KeyspaceId,
        key: &'a [u8],
    ) -> PreparedInsert<'a> {
        self.index.reclaim();
        let memtable = &*self.memtable;
        let mut hash = KeyHash::default();
        if let Some(filter) = &memtable.filter {
            hash = KeyHash::new(keyspace, key_hash(key));
            filter.prefetch(hash);
        }
        let way = memtable.directory.get(keyspace).map(|found| {
            let target = InternalKey::before_all(key);
            let mut descent = Descent::begin(&found.index, target);
            descent.go_down(target, 1);
            (found, descent)
        });
        PreparedInsert { memtable, index: &mut self.index, keyspace, key, hash, way }
    }
}

impl<'a> PreparedInsert<'a> {
    /// Prefetch the leaf. Called once the node above it had time to come.
    #[inline]
    pub(crate) fn prefetch_leaf(&mut self) {
        if let Some((_, descent)) = &mut self.way {
            descent.go_down(InternalKey::before_all(self.key), 0);
        }
    }

    /// The memtable, with everything older in it.
    #[inline]
    pub(crate) fn memtable(&self) -> &'a Memtable {
        self.memtable
    }

    /// Insert. See [`Writes::insert`](super::Writes::insert).
    #[inline]
    pub(crate) fn insert(self, seqno: SeqNo, kind: Kind, value: &[u8]) {
        let PreparedInsert { memtable, index: writer, keyspace, key, hash, way } = self;
        let target = InternalKey::new(key, seqno);
        let (found, descent) = way.unwrap_or_else(|| {
            let found = memtable.directory.get_or_create(keyspace, &memtable.arena);
            (found, Descent::begin(&found.index, target))
        });
        if let Some(filter) = &memtable.filter {
            filter.add(hash);
        }
        let entry = writer.write(&found.index, target, kind, value);
        // Nothing was inserted since the descent began.
        if descent.is_behind_all() {
            writer.push(&found.index, target, entry);
        } else {
            writer.link(&descent, target, entry);
        }
        memtable.count_entry();
    }
}
