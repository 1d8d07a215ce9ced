//! Variant 5: the row key is MD5(user)‖MD5(friend): fixed length, no delimiter.
//!
//! The digests are the raw sixteen bytes of MD5 over the id's UTF-8 (hex text would double every key).
//! A digest cannot be turned back, so the value keeps both ids; reading it also shows whether two
//! different pairs share a digest, which MD5 allows an adversary to arrange.

use md5::{Digest, Md5};

use crate::followers::{FriendStore, check_id, check_ids};
use crate::kv::{Costed, KeyRange, KvRead, KvTx, OrderedKv, ScanOptions};
use crate::tuple::{pack, unpack};
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

pub(super) fn row_key(user: &str, friend: &str) -> Vec<u8> {
    [digest(user), digest(friend)].concat()
}

pub(super) struct Hash<'k, K> {
    store: &'k K,
}

impl<'k, K: OrderedKv> Hash<'k, K> {
    pub(super) fn new(store: &'k K) -> Self {
        Hash { store }
    }
}

/// The ids under `key`, which must be those asked for.
fn stored_ids(key: &[u8], value: &[u8]) -> Result<(String, String)> {
    unpack(value).map_err(|e| Error::foreign("hash", key, e))
}

impl<K: OrderedKv> FriendStore for Hash<'_, K> {
    fn add(&self, user: &str, friend: &str) -> Result<OpCost> {
        self.load(user, &[friend])
    }

    fn check(&self, user: &str, friend: &str) -> Result<Costed<bool>> {
        check_ids(user, friend, self.store.caps())?;
        let key = row_key(user, friend);
        let read = self.store.read()?;
        let found = match read.get(&key)? {
            None => false,
            Some(value) => {
                let stored = stored_ids(&key, &value)?;
                if (stored.0.as_str(), stored.1.as_str()) != (user, friend) {
                    return Err(Error::collision(&pack(&(user, friend)), &value));
                }
                true
            }
        };
        Ok(Costed { value: found, cost: read.cost() })
    }

    fn remove(&self, user: &str, friend: &str) -> Result<OpCost> {
        check_ids(user, friend, self.store.caps())?;
        let key = row_key(user, friend);
        let done = self.store.update(|tx| {
            tx.delete(&key);
            Ok(())
        })?;
        Ok(done.cost)
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
        let done = self.store.update(|tx| {
            for friend in friends {
                tx.put(&row_key(user, friend), &pack(&(user, *friend)));
            }
            Ok(())
        })?;
        Ok(done.cost)
    }
}
