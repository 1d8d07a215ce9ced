//! Variant 5: the row key is MD5(user)‖MD5(friend): fixed length, no delimiter.
//!
//! The digests are the raw sixteen bytes of MD5 over the id's UTF-8 (hex text would double every key).
//! A digest cannot be turned back, so the value keeps both ids; reading it also shows whether two
//! different pairs share a digest, which MD5 allows an adversary to arrange.

use md5::{Digest, Md5};

use crate::followers::{FriendStore, check_id, check_ids};
use crate::kv::{Costed, KeyRange, KvRead, OrderedKv, ScanOptions, Write};
use crate::scratch::with_buffer;
use crate::tuple::{Fields, Pack, pack, unpack};
use crate::{Error, OpCost, Result};

/// MD5 of the id's UTF-8 bytes.
///
/// ```
/// use esker_layouts::followers::digest;
/// assert_eq!(digest("Вася")[..4], [0xdc, 0x08, 0x4e, 0xf0]);
/// ```
pub fn digest(id: &str) -> [u8; 16] {
    Md5::digest(id.as_bytes()).into()
}

pub(super) fn row_key(user: &str, friend: &str) -> [u8; 32] {
    let mut key = [0; 32];
    key[..16].copy_from_slice(&digest(user));
    key[16..].copy_from_slice(&digest(friend));
    key
}

pub(super) struct Hash<K> {
    store: K,
}

impl<K: OrderedKv> Hash<K> {
    pub(super) fn new(store: K) -> Self {
        Hash { store }
    }
}

/// The ids under `key`, which must be those asked for.
fn stored_ids(key: &[u8], value: &[u8]) -> Result<(String, String)> {
    unpack(value).map_err(|e| Error::foreign("hash", key, e))
}

impl<K: OrderedKv> FriendStore for Hash<K> {
    fn add(&self, user: &str, friend: &str) -> Result<OpCost> {
        check_ids(user, friend, self.store.caps())?;
        with_buffer(|ids| {
            (user, friend).pack_into(ids);
            self.store.put(&row_key(user, friend), ids)
        })
    }

    fn check(&self, user: &str, friend: &str) -> Result<Costed<bool>> {
        check_ids(user, friend, self.store.caps())?;
        let key = row_key(user, friend);
        let Costed { value, cost } = self.store.get(&key)?;
        if let Some(value) = &value {
            let mut fields = Fields::new(value);
            let foreign = |e| Error::foreign("hash", &key, e);
            let stored = (fields.text().map_err(foreign)?, fields.text().map_err(foreign)?);
            fields.finish().map_err(foreign)?;
            if (stored.0.as_ref(), stored.1.as_ref()) != (user, friend) {
                return Err(Error::collision(&pack(&(user, friend)), value));
            }
        }
        Ok(Costed { value: value.is_some(), cost })
    }

    fn remove(&self, user: &str, friend: &str) -> Result<OpCost> {
        check_ids(user, friend, self.store.caps())?;
        self.store.delete(&row_key(user, friend))
    }

    fn list(&self, user: &str) -> Result<Costed<Vec<String>>> {
        check_id("user id", user, self.store.caps())?;
        let read = self.store.read()?;
        let mut friends = Vec::new();
        for row in read.scan(KeyRange::prefix(&digest(user)), ScanOptions::new())? {
            let (key, value) = row?;
            let stored = stored_ids(&key, &value)?;
            if stored.0 != user {
                return Err(Error::collision(&pack(&(user, stored.1.as_str())), &value));
            }
            friends.push(stored.1);
        }
        Ok(Costed { value: friends, cost: read.cost() })
    }

    fn load(&self, user: &str, friends: &[&str]) -> Result<OpCost> {
        for friend in friends {
            check_ids(user, friend, self.store.caps())?;
        }
        self.store.write(|write| {
            for friend in friends {
                write(Write::Put(&row_key(user, friend), &pack(&(user, *friend))));
            }
            Ok(())
        })
    }
}
