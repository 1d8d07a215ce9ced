//! Variants 1 and 2: columns numbered from 1 hold the friends' ids; variant 2 also keeps their count.
//!
//! Cells are keys: (user, number) → friend id, and in variant 2 (user, "count") → number of friends.
//! Invariant: a user's columns are numbered 1…d without a gap, and the count, where kept, is d. The
//! count stays, as 0, when the last friend goes.

use crate::followers::{FriendStore, HoleFilling, check_id, check_ids};
use crate::kv::{Bytes, Costed, KvRead, KvTx, OrderedKv, Row, ScanOptions};
use crate::tuple::{Element, KeyError, KeyErrorKind, Space, pack, unpack};
use crate::{Error, OpCost, Result};

const COUNT: &str = "count";

pub(super) struct Numbered<K> {
    store: K,
    name: &'static str,
    filling: HoleFilling,
    counted: bool,
}

/// A user's friends as the naive client has them after fetching the row.
struct FetchedRow {
    /// Columns 1…d.
    friends: Vec<Bytes>,
}

impl<K: OrderedKv> Numbered<K> {
    pub(super) fn new(store: K, name: &'static str, filling: HoleFilling, counted: bool) -> Self {
        Numbered { store, name, filling, counted }
    }

    /// Fetch every cell of the user.
    fn fetch(&self, read: &impl KvRead, space: &Space) -> Result<FetchedRow> {
        let mut friends = Vec::new();
        for row in read.scan(space.under(&()), ScanOptions::new())? {
            let (key, value) = row?;
            if self.is_friend(space, &key)? {
                friends.push(value);
            }
        }
        Ok(FetchedRow { friends })
    }

    /// Whether the cell holds a friend (else it is the count).
    fn is_friend(&self, space: &Space, key: &[u8]) -> Result<bool> {
        let foreign = |error: KeyError| Error::foreign(self.name, key, error);
        let mut fields = space.fields(key).map_err(foreign)?;
        Ok(matches!(Element::unpack(&mut fields).map_err(foreign)?, Element::Int(_)))
    }

    /// The number in the count cell; 0 without one.
    fn count(&self, read: &impl KvRead, space: &Space) -> Result<u64> {
        let key = space.key(&(COUNT,));
        match read.get(&key)? {
            None => Ok(0),
            Some(value) => Ok(unpack::<(u64,)>(&value).map_err(|e| Error::foreign(self.name, &key, e))?.0),
        }
    }

    fn set_count(&self, tx: &mut impl KvTx, space: &Space, count: u64) {
        if self.counted {
            tx.put(&space.key(&(COUNT,)), &pack(&(count,)));
        }
    }
}

/// The place, from 0, of `friend` among fetched columns: the search goes through all of them.
fn position(friends: &[Bytes], friend: &str) -> Option<usize> {
    friends.iter().position(|id| id.as_ref() == friend.as_bytes())
}

impl<K: OrderedKv> FriendStore for Numbered<K> {
    fn add(&self, user: &str, friend: &str) -> Result<OpCost> {
        check_ids(user, friend, self.store.caps())?;
        let space = Space::new(&(user,));
        let done = self.store.update(|tx| {
            let degree = if self.counted {
                self.count(tx, &space)?
            } else {
                let row = self.fetch(tx, &space)?;
                if position(&row.friends, friend).is_some() {
                    return Ok(());
                }
                row.friends.len() as u64
            };
            let number = degree.checked_add(1);
            let number = number.ok_or_else(|| Error::no_next(self.name, &space.key(&(COUNT,))))?;
            tx.put(&space.key(&(number,)), friend.as_bytes());
            self.set_count(tx, &space, number);
            Ok(())
        })?;
        Ok(done.cost)
    }

    fn check(&self, user: &str, friend: &str) -> Result<Costed<bool>> {
        check_ids(user, friend, self.store.caps())?;
        let read = self.store.read()?;
        let row = self.fetch(&read, &Space::new(&(user,)))?;
        Ok(Costed { value: position(&row.friends, friend).is_some(), cost: read.cost() })
    }

    fn remove(&self, user: &str, friend: &str) -> Result<OpCost> {
        check_ids(user, friend, self.store.caps())?;
        let space = Space::new(&(user,));
        let done = self.store.update(|tx| {
            let row = self.fetch(tx, &space)?;
            let Some(hole) = position(&row.friends, friend) else { return Ok(()) };
            let last = row.friends.len() - 1;
            let column = |index: usize| space.key(&(index as u64 + 1,));
            match self.filling {
                HoleFilling::MoveLast if hole < last => tx.put(&column(hole), &row.friends[last]),
                HoleFilling::MoveLast => {}
                HoleFilling::ShiftAll => {
                    for (index, id) in row.friends.iter().enumerate().skip(hole + 1) {
                        tx.put(&column(index - 1), id);
                    }
                }
            }
            tx.delete(&column(last));
            self.set_count(tx, &space, last as u64);
            Ok(())
        })?;
        Ok(done.cost)
    }

    fn list(&self, user: &str) -> Result<Costed<Vec<String>>> {
        check_id("user id", user, self.store.caps())?;
        let space = Space::new(&(user,));
        let read = self.store.read()?;
        let mut friends = Vec::new();
        for row in read.scan(space.under(&()), ScanOptions::new())? {
            let (key, value): Row = row?;
            if self.is_friend(&space, &key)? {
                let id = String::from_utf8(value.to_vec()).map_err(|_| {
                    Error::foreign(self.name, &key, KeyError { at: key.len(), kind: KeyErrorKind::NotUtf8 })
                })?;
                friends.push(id);
            }
        }
        Ok(Costed { value: friends, cost: read.cost() })
    }

    fn load(&self, user: &str, friends: &[&str]) -> Result<OpCost> {
        check_id("user id", user, self.store.caps())?;
        let space = Space::new(&(user,));
        let done = self.store.update(|tx| {
            for (index, friend) in friends.iter().enumerate() {
                check_id("friend id", friend, self.store.caps())?;
                tx.put(&space.key(&(index as u64 + 1,)), friend.as_bytes());
            }
            self.set_count(tx, &space, friends.len() as u64);
            Ok(())
        })?;
        Ok(done.cost)
    }
}
