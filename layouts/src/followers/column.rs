//! Variant 3: the friend's id is the column's name. (user, friend) → group, here always 1.

use crate::followers::{FriendStore, check_id, check_ids};
use crate::kv::{Costed, KvRead, OrderedKv, ScanOptions, Write};
use crate::scratch::with_buffer;
use crate::tuple::{Pack, Space, pack};
use crate::{Error, OpCost, Result};

pub(super) struct Column<K> {
    store: K,
    /// The encoded group every friend is in.
    group: Vec<u8>,
}

/// Call `f` with the key of the pair.
fn with_key<T>(user: &str, friend: &str, f: impl FnOnce(&[u8]) -> T) -> T {
    with_buffer(|key| {
        (user, friend).pack_into(key);
        f(key)
    })
}

impl<K: OrderedKv> Column<K> {
    pub(super) fn new(store: K) -> Self {
        Column { store, group: pack(&(1,)) }
    }
}

impl<K: OrderedKv> FriendStore for Column<K> {
    fn add(&self, user: &str, friend: &str) -> Result<OpCost> {
        check_ids(user, friend, self.store.caps())?;
        with_key(user, friend, |key| self.store.put(key, &self.group))
    }

    fn check(&self, user: &str, friend: &str) -> Result<Costed<bool>> {
        check_ids(user, friend, self.store.caps())?;
        with_key(user, friend, |key| self.store.contains(key))
    }

    fn remove(&self, user: &str, friend: &str) -> Result<OpCost> {
        check_ids(user, friend, self.store.caps())?;
        with_key(user, friend, |key| self.store.delete(key))
    }

    fn list(&self, user: &str) -> Result<Costed<Vec<String>>> {
        check_id("user id", user, self.store.caps())?;
        let space = Space::new(&(user,));
        let read = self.store.read()?;
        let mut friends = Vec::new();
        for row in read.scan(space.under(&()), ScanOptions::new().keys_only())? {
            let (key, _) = row?;
            let (friend,) = space.unpack(&key).map_err(|e| Error::foreign("column", &key, e))?;
            friends.push(friend);
        }
        Ok(Costed { value: friends, cost: read.cost() })
    }

    fn load(&self, user: &str, friends: &[&str]) -> Result<OpCost> {
        for friend in friends {
            check_ids(user, friend, self.store.caps())?;
        }
        self.store.write(|write| {
            for friend in friends {
                with_key(user, friend, |key| write(Write::Put(key, &self.group)));
            }
            Ok(())
        })
    }
}
