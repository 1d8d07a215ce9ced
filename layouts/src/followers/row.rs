//! Variant 4: everything in the row key, `user.friend`; columns need not be read at all.
//!
//! The key is one text field. The delimiter makes it ambiguous as soon as an id contains one ("a.b"
//! reads "c", or "a" reads "b.c"?), so such ids are refused.

use crate::followers::{FriendStore, check_id, check_ids};
use crate::kv::{Caps, Costed, KvRead, OrderedKv, ScanOptions, Write};
use crate::scratch::with_buffer;
use crate::tuple::{KeyError, KeyErrorKind, Pack, Space, put_escaped, unpack};
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
    if id.as_bytes().contains(&(DELIMITER as u8)) {
        let why = format!(
            "it contains {DELIMITER:?}, which separates user and friend in this layout's keys; \
             use the column layout, whose keys need no delimiter"
        );
        return Err(Error::bad_input(what, id, why));
    }
    Ok(())
}

/// Call `f` with the key of the pair.
fn with_key<T>(user: &str, friend: &str, caps: &Caps, f: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
    check_ids(user, friend, caps)?;
    check_delimiter("user id", user)?;
    check_delimiter("friend id", friend)?;
    with_buffer(|key| {
        // As the encoding of "user.friend" grows: a text ends with one byte, and starts with one.
        (user,).pack_into(key);
        if let Some(end) = key.last_mut() {
            *end = DELIMITER as u8;
        }
        put_escaped(key, friend.as_bytes());
        key.push(0);
        f(key)
    })
}

impl<K: OrderedKv> FriendStore for Row<'_, K> {
    fn add(&self, user: &str, friend: &str) -> Result<OpCost> {
        with_key(user, friend, self.store.caps(), |key| self.store.put(key, &[]))
    }

    fn check(&self, user: &str, friend: &str) -> Result<Costed<bool>> {
        with_key(user, friend, self.store.caps(), |key| self.store.contains(key))
    }

    fn remove(&self, user: &str, friend: &str) -> Result<OpCost> {
        with_key(user, friend, self.store.caps(), |key| self.store.delete(key))
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
        self.store.write(|write| {
            friends.iter().try_for_each(|friend| {
                with_key(user, friend, caps, |key| {
                    write(Write::Put(key, &[]));
                    Ok(())
                })
            })
        })
    }
}
