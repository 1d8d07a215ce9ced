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

use crate::kv::{Bytes, Costed, KeyRange, KvRead, KvTx, Needs, OrderedKv, ScanOptions};
use crate::scratch::with_buffer;
use crate::tall::check_length;
use crate::tuple::{Fields, Key, KeyError, KeyErrorKind, Pack, PackField, Space, Uuid, pack, unpack};
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
pub struct HashedTable<S, K> {
    store: S,
    rows: Space,
    by: HashBy,
    digest: fn(&[u8]) -> [u8; 16],
    key: PhantomData<fn() -> K>,
}

impl<S, K> fmt::Debug for HashedTable<S, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HashedTable").field("by", &self.by).finish_non_exhaustive()
    }
}

#[inline]
fn md5(bytes: &[u8]) -> [u8; 16] {
    Md5::digest(bytes).into()
}

/// What lies in a row's value: the packed key, and where the value proper starts.
fn open_value<'v>(at: &[u8], stored: &'v [u8]) -> Result<(&'v [u8], usize)> {
    let mut fields = Fields::new(stored);
    let opened = fields.field::<u32>().and_then(|len| {
        let start = fields.position();
        let end = usize::try_from(len).ok().and_then(|len| start.checked_add(len));
        let key = end.and_then(|end| Some((stored.get(start..end)?, end)));
        key.ok_or(KeyError { at: start, kind: KeyErrorKind::Truncated })
    });
    opened.map_err(|error| Error::foreign(LAYOUT, at, error))
}

/// A key: where its row lies, and its plain form, which the row keeps.
struct Place<'b> {
    at: &'b [u8],
    plain: &'b [u8],
}

impl Place<'_> {
    /// The value proper of what is stored here, which must be this key's.
    fn open(&self, stored: &Bytes) -> Result<Bytes> {
        let (plain, start) = open_value(self.at, stored)?;
        if plain == self.plain {
            Ok(stored.slice(start..))
        } else {
            Err(Error::collision(self.plain, plain))
        }
    }

    /// The value proper stored here in `read`.
    fn read(&self, read: &impl KvRead) -> Result<Option<Bytes>> {
        read.get(self.at)?.map(|stored| self.open(&stored)).transpose()
    }

    /// Set the value proper, if what is stored here is this key's.
    fn put(&self, tx: &mut impl KvTx, value: &[u8]) -> Result<()> {
        if let Some(stored) = tx.get(self.at)? {
            let (plain, _) = open_value(self.at, &stored)?;
            if plain != self.plain {
                return Err(Error::collision(self.plain, plain));
            }
        }
        with_buffer(|stored| {
            (self.plain.len() as u64,).pack_into(stored);
            stored.extend_from_slice(self.plain);
            stored.extend_from_slice(value);
            tx.put(self.at, stored);
        });
        Ok(())
    }
}

impl<S: OrderedKv, K: Key> HashedTable<S, K> {
    /// The table in `space`, hashed as `by` says. Nothing else may write there.
    ///
    /// [`Error::BadInput`] if the table was made with the other form; [`Error::Unsupported`] if the
    /// store lacks transactions.
    pub fn open(store: S, space: &Space, by: HashBy) -> Result<Self> {
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

    /// Append the digest that stands for the packed field or key `packed` to `out`, as a field of a key.
    fn digest_into(&self, packed: &[u8], out: &mut Vec<u8>) {
        Uuid((self.digest)(packed)).pack_field(out, 0);
    }

    /// Append the encoding of `fields` to `plain`, which is empty, and the digests that stand for it to `at`.
    fn digests_into(&self, fields: &impl Pack, plain: &mut Vec<u8>, at: &mut Vec<u8>) -> Result<()> {
        match self.by {
            HashBy::WholeKey => {
                fields.pack_into(plain);
                self.digest_into(plain, at);
            }
            HashBy::PerField => {
                let mut start = 0;
                fields.pack_each(plain, &mut |packed| {
                    self.digest_into(packed.get(start..).unwrap_or_default(), at);
                    start = packed.len();
                })?;
            }
        }
        Ok(())
    }

    /// Call `f` with the place of `key`.
    fn place<T>(&self, key: &K, f: impl FnOnce(&Place<'_>) -> Result<T>) -> Result<T> {
        with_buffer(|plain| {
            with_buffer(|at| {
                at.extend_from_slice(self.rows.prefix());
                self.digests_into(key, plain, at)?;
                check_length(key, at.len(), self.store.caps().key_bytes_max)?;
                f(&Place { at, plain })
            })
        })
    }

    /// The row of `key`: one get.
    pub fn get(&self, key: &K) -> Result<Costed<Option<Bytes>>> {
        let mut cost = OpCost::default();
        let value = self.place(key, |place| {
            let stored = self.store.get(place.at)?;
            cost = stored.cost;
            stored.value.map(|stored| place.open(&stored)).transpose()
        })?;
        Ok(Costed { value, cost })
    }

    /// [`get`](Self::get) in the caller's snapshot or transaction.
    pub fn get_in(&self, read: &impl KvRead, key: &K) -> Result<Option<Bytes>> {
        self.place(key, |place| place.read(read))
    }

    /// Set the row of `key`: a get, to notice a collision, and a write.
    pub fn put(&self, key: &K, value: &[u8]) -> Result<OpCost> {
        self.place(key, |place| Ok(self.store.update(|tx| place.put(tx, value))?.cost))
    }

    /// [`put`](Self::put) in the caller's transaction.
    pub fn put_in(&self, tx: &mut impl KvTx, key: &K, value: &[u8]) -> Result<()> {
        self.place(key, |place| place.put(tx, value))
    }

    /// Remove the row of `key`; tells whether there was one.
    pub fn delete(&self, key: &K) -> Result<Costed<bool>> {
        self.store.update(|tx| self.delete_in(tx, key))
    }

    /// [`delete`](Self::delete) in the caller's transaction.
    pub fn delete_in(&self, tx: &mut impl KvTx, key: &K) -> Result<bool> {
        self.place(key, |place| {
            let found = place.read(tx)?.is_some();
            if found {
                tx.delete(place.at);
            }
            Ok(found)
        })
    }

    /// The rows whose keys start with `fields`, given whole, in the order of digests.
    ///
    /// [`Error::BadInput`] if whole keys are hashed, unless `fields` is `()`: a digest of the whole key
    /// keeps no prefix. [`Error::HashCollision`] if a row has the same digests but other fields.
    pub fn under(&self, fields: &impl Pack) -> Result<Costed<Vec<(K, Bytes)>>> {
        let read = self.store.read()?;
        Ok(Costed { value: self.under_in(&read, fields)?, cost: read.cost() })
    }

    /// [`under`](Self::under) in the caller's snapshot or transaction.
    pub fn under_in(&self, read: &impl KvRead, fields: &impl Pack) -> Result<Vec<(K, Bytes)>> {
        // Plain keys that start with the fields: whole ones, where "a\0" is no "a".
        let asked = Space::root().under(fields);
        let (mut prefix, mut start) = (Vec::new(), self.rows.prefix().to_vec());
        self.digests_into(fields, &mut prefix, &mut start)?;
        let range = if prefix.is_empty() {
            self.rows.under(&())
        } else if self.by == HashBy::WholeKey {
            let why = "a digest of the whole key keeps neither prefix nor order; hash per field, or read all \
                       rows and filter them";
            return Err(Error::bad_input("prefix", &crate::error::show(&prefix), why));
        } else {
            KeyRange { end: Some([start.as_slice(), &[0xFF]].concat()), start }
        };
        let mut rows = Vec::new();
        for row in read.scan(range, ScanOptions::new())? {
            let (at, stored) = row?;
            let (original, start) = open_value(&at, &stored)?;
            if !asked.contains(original) {
                return Err(Error::collision(&prefix, original));
            }
            let foreign = |error: KeyError| Error::foreign(LAYOUT, &at, error);
            rows.push((unpack(original).map_err(foreign)?, stored.slice(start..)));
        }
        Ok(rows)
    }
}

#[cfg(test)]
mod tests;
