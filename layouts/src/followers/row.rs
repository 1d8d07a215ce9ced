//! Variant 4: everything in the row key, `user.friend`; columns need not be read at all.
//!
//! The key is one text field. The delimiter makes it ambiguous as soon as an id contains one ("a.b"
//! reads "c", or "a" reads "b.c"?), so such ids are refused.

use crate::followers::{FriendStore, check_id, check_ids};
use crate::kv::{Caps, Costed, KvRead, OrderedKv, ScanOptions, Write};
use crate::scratch::with_buffer;
use crate::tuple::{KeyError, KeyErrorKind, Space, TEXT, find, put_escaped, unpack};
use crate::{Error, OpCost, Result};

/// Between user and friend.
const DELIMITER: char = '.';

pub(super) struct Row<K> {
    store: K,
}

impl<K: OrderedKv> Row<K> {
    pub(super) fn new(store: K) -> Self {
        Row { store }
    }
}

fn check_delimiter(what: &'static str, id: &str) -> Result<()> {
    if find([DELIMITER as u8], id.as_bytes()).is_some() { Err(ambiguous(what, id)) } else { Ok(()) }
}

#[cold]
fn ambiguous(what: &'static str, id: &str) -> Error {
    let why = format!(
        "it contains {DELIMITER:?}, which separates user and friend in this layout's keys; \
         use the column layout, whose keys need no delimiter"
    );
    Error::bad_input(what, id, why)
}

/// Append `id`, the content of a text or a part of it, to `key`.
#[inline]
fn put_id(what: &'static str, id: &str, key: &mut Vec<u8>) -> Result<()> {
    if find([0, DELIMITER as u8], id.as_bytes()).is_some() {
        check_delimiter(what, id)?;
        put_escaped(key, id.as_bytes());
    } else {
        key.extend_from_slice(id.as_bytes());
    }
    Ok(())
}

/// Call `f` with the key of the pair.
fn with_key<T>(user: &str, friend: &str, caps: &Caps, f: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
    check_ids(user, friend, caps)?;
    with_buffer(|key| {
        // As the encoding of "user.friend" grows: a text starts with one byte, and ends with one.
        key.push(TEXT);
        put_id("user id", user, key)?;
        key.push(DELIMITER as u8);
        put_id("friend id", friend, key)?;
        key.push(0);
        f(key)
    })
}

impl<K: OrderedKv> FriendStore for Row<K> {
    fn add(&self, user: &str, friend: &str) -> Result<OpCost> {
        with_key(user, friend, self.store.caps(), |key| self.store.put(key, &[]))
    }

    fn check(&self, user: &str, friend: &str) -> Result<Costed<bool>> {
        let mut cost = OpCost::default();
        let value = with_key(user, friend, self.store.caps(), |key| {
            let found = self.store.contains(key)?;
            cost = found.cost;
            Ok(found.value)
        })?;
        Ok(Costed { value, cost })
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
