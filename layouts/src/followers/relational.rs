//! The relational answer: a table of two columns and a unique index.
//!
//! ("table", row number) → (user, friend), ("index", user, friend) → row number, ("sequence") → the
//! last row number given out. As a database with an auto-incremented row number would, an insert asks
//! the index whether the pair exists, takes the next number and writes row, index entry and sequence.

use crate::followers::{FriendStore, check_id, check_ids};
use crate::kv::{Costed, KvRead, KvTx, OrderedKv, ScanOptions};
use crate::tuple::{Space, pack, unpack};
use crate::{Error, OpCost, Result};

pub(super) struct Relational<K> {
    store: K,
    table: Space,
    index: Space,
    sequence: Vec<u8>,
}

impl<K: OrderedKv> Relational<K> {
    pub(super) fn new(store: K) -> Self {
        Relational {
            store,
            table: Space::new(&("table",)),
            index: Space::new(&("index",)),
            sequence: pack(&("sequence",)),
        }
    }

    /// The row number in the value at `key`, if there is one.
    fn number(read: &impl KvRead, key: &[u8]) -> Result<Option<u64>> {
        let Some(value) = read.get(key)? else { return Ok(None) };
        let (number,) = unpack(&value).map_err(|e| Error::foreign("relational", key, e))?;
        Ok(Some(number))
    }
}

impl<K: OrderedKv> FriendStore for Relational<K> {
    fn add(&self, user: &str, friend: &str) -> Result<OpCost> {
        self.load(user, &[friend])
    }

    fn check(&self, user: &str, friend: &str) -> Result<Costed<bool>> {
        check_ids(user, friend, self.store.caps())?;
        let read = self.store.read()?;
        // The index covers the question; the table need not be read.
        let found = read.contains(&self.index.key(&(user, friend)))?;
        Ok(Costed { value: found, cost: read.cost() })
    }

    fn remove(&self, user: &str, friend: &str) -> Result<OpCost> {
        check_ids(user, friend, self.store.caps())?;
        let entry = self.index.key(&(user, friend));
        let done = self.store.update(|tx| {
            if let Some(number) = Self::number(tx, &entry)? {
                tx.delete(&self.table.key(&(number,)));
                tx.delete(&entry);
            }
            Ok(())
        })?;
        Ok(done.cost)
    }

    fn list(&self, user: &str) -> Result<Costed<Vec<String>>> {
        check_id("user id", user, self.store.caps())?;
        let entries = self.index.sub(&(user,));
        let read = self.store.read()?;
        let mut friends = Vec::new();
        for row in read.scan(entries.under(&()), ScanOptions::new().keys_only())? {
            let (key, _) = row?;
            let (friend,) = entries.unpack(&key).map_err(|e| Error::foreign("relational", &key, e))?;
            friends.push(friend);
        }
        Ok(Costed { value: friends, cost: read.cost() })
    }

    fn load(&self, user: &str, friends: &[&str]) -> Result<OpCost> {
        for friend in friends {
            check_ids(user, friend, self.store.caps())?;
        }
        let done = self.store.update(|tx| {
            let mut number = Self::number(tx, &self.sequence)?.unwrap_or(0);
            for friend in friends {
                let entry = self.index.key(&(user, *friend));
                if tx.contains(&entry)? {
                    continue;
                }
                let next = number.checked_add(1);
                number = next.ok_or_else(|| Error::no_next("relational", &self.sequence))?;
                tx.put(&self.table.key(&(number,)), &pack(&(user, *friend)));
                tx.put(&entry, &pack(&(number,)));
                tx.put(&self.sequence, &pack(&(number,)));
            }
            Ok(())
        })?;
        Ok(done.cost)
    }
}
