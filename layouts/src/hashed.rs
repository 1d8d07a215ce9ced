//! Hashed keys: digests in the place of the key, or of each of its fields.
//!
//! Digests spread skewed keys evenly and give every key the same length. They cost the order, 17 bytes a
//! digest, and the original, which has to be kept in the value:
//!
//! | | order of keys | rows under the first fields | everything |
//! |---|---|---|---|
//! | [`HashBy::PerField`] | none | one scan, in no useful order | a scan |
//! | [`HashBy::WholeKey`] | none | refused: only a scan of everything finds them | a scan |
//!
//! The digest is MD5 of the field's (or key's) tuple encoding. MD5 is not secure: whoever chooses keys
//! can make two with one digest. Every row keeps its key and every access compares it, so a collision is
//! [`Error::HashCollision`] and never another key's row; a put therefore reads before it writes.
//!
//! ```
//! use esker_layouts::hashed::{HashBy, HashedTable};
//! use esker_layouts::map::MapStore;
//! use esker_layouts::tuple::Space;
//!
//! let store = MapStore::new();
//! let reads: HashedTable<_, (String, String)> =
//!     HashedTable::open(&store, &Space::new(&("reads",)), HashBy::PerField)?;
//! reads.put(&("Вася".into(), "Оля".into()), b"school")?;
//! assert_eq!(reads.get(&("Вася".into(), "Оля".into()))?.value.as_deref(), Some(&b"school"[..]));
//! let of_vasya = reads.under(&("Вася",))?;
//! assert_eq!(of_vasya.value[0].0.1, "Оля");
//! # Ok::<(), esker_layouts::Error>(())
//! ```

use std::fmt;
use std::marker::PhantomData;

use md5::{Digest, Md5};

use crate::kv::{Bytes, Costed, KvRead, KvTx, Needs, OrderedKv, ScanOptions};
use crate::tall::check_length;
use crate::tuple::{Element, Fields, Key, KeyError, KeyErrorKind, Pack, Space, Uuid, pack, split, unpack};
use crate::{Error, OpCost, Result};

const LAYOUT: &str = "hashed";
/// The first field behind the space: what is hashed and how.
const FORM: u64 = 0;
/// The first field behind the space: the rows.
const ROWS: u64 = 1;
/// MD5 over tuple encodings.
const HASH_VERSION: u64 = 1;

/// What is hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HashBy {
    /// Each field by itself.
    PerField,
    /// The key as a whole.
    WholeKey,
}

impl HashBy {
    fn number(self) -> u64 {
        match self {
            HashBy::PerField => 0,
            HashBy::WholeKey => 1,
        }
    }
}

/// A table under hashed keys `K`. A handle; open as many as you like.
pub struct HashedTable<'k, S, K> {
    store: &'k S,
    rows: Space,
    by: HashBy,
    digest: fn(&[u8]) -> [u8; 16],
    key: PhantomData<fn() -> K>,
}

impl<S, K> fmt::Debug for HashedTable<'_, S, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HashedTable").field("by", &self.by).finish_non_exhaustive()
    }
}

fn md5(bytes: &[u8]) -> [u8; 16] {
    Md5::digest(bytes).into()
}

/// The value of a row: the packed key behind its length, then the value proper.
fn close_value(key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut stored = pack(&(key.len() as u64,));
    stored.extend_from_slice(key);
    stored.extend_from_slice(value);
    stored
}

/// What lies in a row's value: the packed key and the value proper.
fn open_value(at: &[u8], stored: &Bytes) -> Result<(Bytes, Bytes)> {
    let mut fields = Fields::new(stored);
    let opened = fields.field::<u32>().and_then(|len| {
        let start = fields.position();
        let end = usize::try_from(len).ok().and_then(|len| start.checked_add(len));
        end.filter(|end| *end <= stored.len())
            .map(|end| (stored.slice(start..end), stored.slice(end..)))
            .ok_or(KeyError { at: start, kind: KeyErrorKind::Truncated })
    });
    opened.map_err(|error| Error::foreign(LAYOUT, at, error))
}

impl<'k, S: OrderedKv, K: Key> HashedTable<'k, S, K> {
    /// The table in `space`, hashed as `by` says. Nothing else may write there.
    ///
    /// [`Error::BadInput`] if the table was made with the other form; [`Error::Unsupported`] if the
    /// store lacks transactions.
    pub fn open(store: &'k S, space: &Space, by: HashBy) -> Result<Self> {
        Needs { transactions: true, ..Needs::default() }.check(LAYOUT, store.caps())?;
        let form = space.key(&(FORM,));
        let stored = store.update(|tx| {
            if let Some(stored) = tx.get(&form)? {
                return Ok(stored);
            }
            let value = pack(&(by.number(), HASH_VERSION));
            tx.put(&form, &value);
            Ok(value.into())
        })?;
        let stored: (u64, u64) =
            unpack(&stored.value).map_err(|error| Error::foreign(LAYOUT, &form, error))?;
        if stored != (by.number(), HASH_VERSION) {
            let why = "the table was made with another form of hashing, under which no key would be found; \
                       open it with that";
            return Err(Error::bad_input("form of hashing", &format!("{by:?}"), why));
        }
        Ok(HashedTable { store, rows: space.sub(&(ROWS,)), by, digest: md5, key: PhantomData })
    }

    /// The digests that stand for `fields`, as fields of a key.
    fn digests(&self, fields: &impl Pack) -> Result<Vec<Element<'static>>> {
        let packed = pack(fields);
        let digest = |bytes: &[u8]| Element::Uuid(Uuid((self.digest)(bytes)));
        Ok(match self.by {
            HashBy::WholeKey => vec![digest(&packed)],
            HashBy::PerField => split(&packed)?.into_iter().map(digest).collect(),
        })
    }

    fn key(&self, key: &K) -> Result<Vec<u8>> {
        let bytes = self.rows.key(self.digests(key)?.as_slice());
        check_length(key, bytes.len(), self.store.caps().key_bytes_max)?;
        Ok(bytes)
    }

    /// The value under `at`, which must be `key`'s.
    fn read(read: &impl KvRead, at: &[u8], key: &K) -> Result<Option<Bytes>> {
        let Some(stored) = read.get(at)? else { return Ok(None) };
        let (original, value) = open_value(at, &stored)?;
        let given = pack(key);
        if original == given { Ok(Some(value)) } else { Err(Error::collision(&given, &original)) }
    }

    /// The row of `key`: one get.
    pub fn get(&self, key: &K) -> Result<Costed<Option<Bytes>>> {
        let read = self.store.read()?;
        let value = Self::read(&read, &self.key(key)?, key)?;
        Ok(Costed { value, cost: read.cost() })
    }

    /// Set the row of `key`: a get, to notice a collision, and a write.
    pub fn put(&self, key: &K, value: &[u8]) -> Result<OpCost> {
        Ok(self.store.update(|tx| self.put_in(tx, key, value))?.cost)
    }

    /// [`put`](Self::put) in the caller's transaction.
    pub fn put_in(&self, tx: &mut impl KvTx, key: &K, value: &[u8]) -> Result<()> {
        let at = self.key(key)?;
        Self::read(tx, &at, key)?;
        tx.put(&at, &close_value(&pack(key), value));
        Ok(())
    }

    /// Remove the row of `key`; tells whether there was one.
    pub fn delete(&self, key: &K) -> Result<Costed<bool>> {
        self.store.update(|tx| self.delete_in(tx, key))
    }

    /// [`delete`](Self::delete) in the caller's transaction.
    pub fn delete_in(&self, tx: &mut impl KvTx, key: &K) -> Result<bool> {
        let at = self.key(key)?;
        let found = Self::read(tx, &at, key)?.is_some();
        if found {
            tx.delete(&at);
        }
        Ok(found)
    }

    /// The rows whose keys start with `fields`, given whole, in the order of digests.
    ///
    /// [`Error::BadInput`] if whole keys are hashed, unless `fields` is `()`: a digest of the whole key
    /// keeps no prefix. [`Error::HashCollision`] if a row has the same digests but other fields.
    pub fn under(&self, fields: &impl Pack) -> Result<Costed<Vec<(K, Bytes)>>> {
        let prefix = pack(fields);
        if self.by == HashBy::WholeKey && !prefix.is_empty() {
            let why = "a digest of the whole key keeps neither prefix nor order; hash per field, or read all \
                       rows and filter them";
            return Err(Error::bad_input("prefix", &crate::error::show(&prefix), why));
        }
        let range = if prefix.is_empty() {
            self.rows.under(&())
        } else {
            self.rows.under(self.digests(fields)?.as_slice())
        };
        let read = self.store.read()?;
        let mut rows = Vec::new();
        for row in read.scan(range, ScanOptions::new())? {
            let (at, stored) = row?;
            let (original, value) = open_value(&at, &stored)?;
            if !original.starts_with(&prefix) {
                return Err(Error::collision(&prefix, &original));
            }
            let foreign = |error: KeyError| Error::foreign(LAYOUT, &at, error);
            rows.push((unpack(&original).map_err(foreign)?, value));
        }
        Ok(Costed { value: rows, cost: read.cost() })
    }
}

#[cfg(test)]
mod tests;
