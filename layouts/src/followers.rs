//! Who reads whom, in six layouts.
//!
//! A directed relation between users: *user reads friend*. The layouts answer the same four questions
//! and differ in what one row is:
//!
//! | layout | key → value | add | check | remove | list |
//! |---|---|---|---|---|---|
//! | [`Default`](Layout::Default) | (user, number) → friend | reads the row | reads the row | reads the row | row |
//! | [`Count`](Layout::Count) | the same, and (user, "count") → degree | reads the count | reads the row | reads the row | row |
//! | [`Column`](Layout::Column) | (user, friend) → group | blind write | one get | blind write | row |
//! | [`Row`](Layout::Row) | "user.friend" → nothing | blind write | one key-only get | blind write | text prefix |
//! | [`Hash`](Layout::Hash) | MD5(user)‖MD5(friend) → (user, friend) | blind write | one get | blind write | byte prefix |
//! | [`Relational`](Layout::Relational) | (row number) → (user, friend), unique index (user, friend) → row number | 2 gets | one get | one get | index |
//!
//! The clients are naive on purpose, as a first attempt would be: a "read of the row" fetches every
//! cell of the user, and a search goes through all that was fetched. What each call costs is what the
//! store counted.
//!
//! # Contract
//!
//! `add` is for a friend that is not there yet. Where the layout notices that it is (all but
//! [`Count`](Layout::Count)) a second `add` changes nothing; `Count` reads only the number of friends
//! and would write a second cell. `remove` of an absent friend changes nothing. Every call is one atomic
//! transaction, so concurrent callers leave neither holes nor lost cells.
//!
//! ```
//! use esker_layouts::followers::{Layout, open};
//! use esker_layouts::map::MapStore;
//!
//! let store = MapStore::new();
//! let friends = open(&store, Layout::Column)?;
//! friends.add("Вася", "Оля")?;
//! let answer = friends.check("Вася", "Оля")?;
//! assert!(answer.value);
//! assert_eq!((answer.cost.calls, answer.cost.keys_read), (1, 1));
//! # Ok::<(), esker_layouts::Error>(())
//! ```

mod column;
mod hash;
mod numbered;
mod relational;
mod row;

use std::fmt;

pub use hash::digest;

use crate::kv::{Caps, Costed, Needs, OrderedKv};
use crate::{Error, OpCost, Result};

/// A layout of the relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Layout {
    /// Variant 1: columns numbered from 1 hold the friends' ids.
    Default(HoleFilling),
    /// Variant 2: variant 1 with a column that holds the number of friends.
    Count(HoleFilling),
    /// Variant 3: the friend's id is the column's name.
    Column,
    /// Variant 4: the row key is `user.friend`.
    Row,
    /// Variant 5: the row key is the digests of user and friend.
    Hash,
    /// A table of two columns with a unique index.
    Relational,
}

/// What `remove` does about the gap it leaves in numbered columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HoleFilling {
    /// Move the last column into the gap: one write, order lost.
    MoveLast,
    /// Shift every later column by one: as many writes as columns follow, order kept.
    ShiftAll,
}

impl Layout {
    /// Every layout, numbered columns in both forms of hole filling.
    pub const ALL: [Layout; 8] = [
        Layout::Default(HoleFilling::MoveLast),
        Layout::Default(HoleFilling::ShiftAll),
        Layout::Count(HoleFilling::MoveLast),
        Layout::Count(HoleFilling::ShiftAll),
        Layout::Column,
        Layout::Row,
        Layout::Hash,
        Layout::Relational,
    ];

    /// A short name, unique among [`ALL`](Layout::ALL).
    pub fn name(self) -> &'static str {
        match self {
            Layout::Default(HoleFilling::MoveLast) => "default",
            Layout::Default(HoleFilling::ShiftAll) => "default-shift",
            Layout::Count(HoleFilling::MoveLast) => "count",
            Layout::Count(HoleFilling::ShiftAll) => "count-shift",
            Layout::Column => "column",
            Layout::Row => "row",
            Layout::Hash => "hash",
            Layout::Relational => "relational",
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The relation "user reads friend", in some layout. See the module for the contract.
pub trait FriendStore: Send + Sync {
    /// From now on `user` reads `friend`.
    fn add(&self, user: &str, friend: &str) -> Result<OpCost>;

    /// Whether `user` reads `friend`.
    fn check(&self, user: &str, friend: &str) -> Result<Costed<bool>>;

    /// From now on `user` does not read `friend`.
    fn remove(&self, user: &str, friend: &str) -> Result<OpCost>;

    /// Everyone `user` reads, in the layout's order.
    fn list(&self, user: &str) -> Result<Costed<Vec<String>>>;

    /// Write all of a new user's friends in one commit. For filling a store: the user must have none.
    fn load(&self, user: &str, friends: &[&str]) -> Result<OpCost>;
}

/// The relation in `store`, laid out as `layout`. Refuses a store that lacks what the layout needs.
pub fn open<'k, K: OrderedKv + 'k>(store: K, layout: Layout) -> Result<Box<dyn FriendStore + 'k>> {
    let needs = match layout {
        Layout::Default(_) | Layout::Count(_) | Layout::Relational => {
            Needs { transactions: true, ..Needs::default() }
        }
        Layout::Column | Layout::Row | Layout::Hash => Needs::default(),
    };
    needs.check(layout.name(), store.caps())?;
    Ok(match layout {
        Layout::Default(filling) => Box::new(numbered::Numbered::new(store, layout.name(), filling, false)),
        Layout::Count(filling) => Box::new(numbered::Numbered::new(store, layout.name(), filling, true)),
        Layout::Column => Box::new(column::Column::new(store)),
        Layout::Row => Box::new(row::Row::new(store)),
        Layout::Hash => Box::new(hash::Hash::new(store)),
        Layout::Relational => Box::new(relational::Relational::new(store)),
    })
}

/// What the longest key of a layout, a [`Layout::Relational`] index entry, has beside the two ids: the field `"index"`, and
/// the type code and the terminator of each id.
const ENTRY_BYTES: usize = 7 + 2 * 2;

/// The longest id: two of them fit a key of every layout, also with each byte a zero, which takes two.
#[inline]
fn id_bytes_max(caps: &Caps) -> usize {
    caps.key_bytes_max.saturating_sub(ENTRY_BYTES) / 4
}

/// Refuse an id that no layout can store.
#[inline]
fn check_id(what: &'static str, id: &str, caps: &Caps) -> Result<()> {
    let max = id_bytes_max(caps);
    if id.is_empty() || id.len() > max { Err(unfit(what, id, max)) } else { Ok(()) }
}

#[cold]
fn unfit(what: &'static str, id: &str, max: usize) -> Error {
    if id.is_empty() {
        return Error::bad_input(what, id, "it is empty; give every user a name or number");
    }
    let why = format!("it has {} bytes and at most {max} fit a key; use a shorter id", id.len());
    Error::bad_input(what, id, why)
}

/// [`check_id`] for both ends of the relation.
fn check_ids(user: &str, friend: &str, caps: &Caps) -> Result<()> {
    check_id("user id", user, caps)?;
    check_id("friend id", friend, caps)
}

#[cfg(test)]
mod tests;
