//! Variant 4: everything in the row key, `user.friend`; columns need not be read at all.
//!
//! The key is one text field. The delimiter makes it ambiguous as soon as an id contains one ("a.b"
//! reads "c", or "a" reads "b.c"?), so such ids are refused.

use crate::followers::{FriendStore, check_id, check_ids};
use crate::kv::{Caps, Costed, KvRead, KvTx, OrderedKv, ScanOptions};
use crate::tuple::{KeyError, KeyErrorKind, Space, pack, unpack};
use crate::{Error, OpCost, Result};

/// Between user and friend.
const DELIMITER: char = '.';

pub(super) struct Row<'k, K> {
    store: &'k K,
}

impl<'k, K: OrderedKv> Row<'k, K> {
    pub(super) fn new(store: &'k K) -> Self {
        Row { store }
    }
}

fn check_delimiter(what: &'static str, id: &str) -> Result<()> {
    if id.contains(DELIMITER) {
        let why = format!(
            "it contains {DELIMITER:?}, which separates user and friend in this layout's keys; \
             use the column layout, whose keys need no delimiter"
        );
        return Err(Error::bad_input(what, id, why));
    }
    Ok(())
}

fn row_key(user: &str, friend: &str, caps: &Caps) -> Result<Vec<u8>> {
    check_ids(user, friend, caps)?;
    check_delimiter("user id", user)?;
    check_delimiter("friend id", friend)?;
    Ok(pack(&(format!("{user}{DELIMITER}{friend}"),)))
}

impl<K: OrderedKv> FriendStore for Row<'_, K> {
    fn add(&self, user: &str, friend: &str) -> Result<OpCost> {
        self.load(user, &[friend])
    }

    fn check(&self, user: &str, friend: &str) -> Result<Costed<bool>> {
        let key = row_key(user, friend, self.store.caps())?;
        let read = self.store.read()?;
        Ok(Costed { value: read.contains(&key)?, cost: read.cost() })
    }

    fn remove(&self, user: &str, friend: &str) -> Result<OpCost> {
        let key = row_key(user, friend, self.store.caps())?;
        let done = self.store.update(|tx| {
            tx.delete(&key);
            Ok(())
        })?;
        Ok(done.cost)
    }

    fn list(&self, user: &str) -> Result<Costed<Vec<String>>> {
        check_id("user id", user, self.store.caps())?;
        check_delimiter("user id", user)?;
        let read = self.store.read()?;
        // With its delimiter, or the friends of "ann" would include those of "anna".
        let range = Space::root().starts_with(&(), &format!("{user}{DELIMITER}"));
        let mut friends = Vec::new();
        for row in read.scan(range, ScanOptions::new().keys_only())? {
            let (key, _) = row?;
            let foreign = |e| Error::foreign("row", &key, e);
            let (text,): (String,) = unpack(&key).map_err(foreign)?;
            let (_, friend) = text
                .split_once(DELIMITER)
                .ok_or_else(|| foreign(KeyError { at: key.len(), kind: KeyErrorKind::Truncated }))?;
            friends.push(friend.to_owned());
        }
        Ok(Costed { value: friends, cost: read.cost() })
    }

    fn load(&self, user: &str, friends: &[&str]) -> Result<OpCost> {
        let caps = self.store.caps();
        let keys = friends.iter().map(|f| row_key(user, f, caps)).collect::<Result<Vec<_>>>()?;
        let done = self.store.update(|tx| {
            for key in &keys {
                tx.put(key, &[]);
            }
            Ok(())
        })?;
        Ok(done.cost)
    }
}
