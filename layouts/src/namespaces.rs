//! Namespaces: a directory of paths, each with a short key prefix of its own.
//!
//! A path such as `["app", "users"]` gets a number once; its data lie under that number and a generation, five to
//! eight bytes behind the directory's prefix for the first 16 million numbers and 255 generations, however long the
//! path is. So a rename moves no data, a namespace with all it holds goes by one range delete, and the prefix of one
//! never begins another's.
//!
//! Whoever keeps a prefix may keep it too long: what is written under it after the namespace was removed or emptied
//! by others is found by nobody. [`enter`](Namespace::enter) therefore checks the generation, in the transaction that
//! uses the namespace. Neither numbers nor generations are used again, so even an unchecked prefix reaches no keys
//! but those of the namespace as it was found.
//!
//! ```
//! use esker_layouts::kv::{KvTx, OrderedKv};
//! use esker_layouts::map::MapStore;
//! use esker_layouts::namespaces::Directory;
//! use esker_layouts::tuple::Space;
//!
//! let store = MapStore::new();
//! let directory = Directory::open(&store, &Space::root())?;
//! let users = directory.create(&["app", "users"])?;
//! let put = |name: &str| store.update(|tx| {
//!     let space = users.enter(tx)?;
//!     tx.put(&space.key(&(name,)), b"");
//!     Ok(())
//! });
//! put("ann")?;
//! directory.rename(&["app", "users"], &["app", "people"])?;
//! put("bo")?; // the same prefix, still
//! directory.remove(&["app"])?;
//! assert!(put("cy").is_err());
//! # Ok::<(), esker_layouts::Error>(())
//! ```
//!
//! # Invariants
//!
//! 1. Every number but the root's (0) has one link from its parent and one record, or neither.
//! 2. The counter is above every number ever given.
//! 3. Data lie under the generation that their namespace had when its space was taken: a handle of an older one
//!    never writes among those of a newer.

use crate::kv::{KvRead, KvTx, Needs, OrderedKv, ScanOptions};
use crate::tuple::{KeyError, KeyErrorKind, Space, pack, unpack};
use crate::{Error, OpCost, Result};

const LAYOUT: &str = "namespaces";
/// The first field behind the space: the next number.
const NEXT: u64 = 0;
/// The first field behind the space: children by parent and name.
const LINKS: u64 = 1;
/// The first field behind the space: generation, parent and name of a number.
const RECORDS: u64 = 2;
/// The first field behind the space: the data, by number and generation.
const DATA: u64 = 3;
/// The number of the empty path, which holds no data.
const ROOT: u64 = 0;

/// A namespace as it was found. Cheap to keep; see [`enter`](Self::enter).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    directory: Space,
    number: u64,
    generation: u64,
}

impl Namespace {
    /// The space of the namespace's keys, for this transaction or snapshot: one get.
    /// [`Error::StaleNamespace`] if it was removed or emptied since it was found; find it again then.
    pub fn enter(&self, read: &impl KvRead) -> Result<Space> {
        match record(read, &self.directory, self.number)? {
            Some(record) if record.generation == self.generation => Ok(self.space()),
            _ => Err(Error::StaleNamespace { number: self.number }),
        }
    }

    /// The space of the namespace's keys, unchecked: for a layout opened in it. What is written there
    /// after the namespace was removed or emptied is found by nobody; it goes with the next removal or emptying, or,
    /// once the namespace is removed, never.
    pub fn space(&self) -> Space {
        self.directory.sub(&(DATA, self.number, self.generation))
    }
}

/// What is stored about a number.
struct Record {
    generation: u64,
    parent: u64,
    name: String,
}

impl Record {
    fn save(&self, tx: &mut impl KvTx, space: &Space, number: u64) {
        let value = pack(&(self.generation, self.parent, self.name.as_str()));
        tx.put(&space.key(&(RECORDS, number)), &value);
    }
}

fn foreign(key: &[u8]) -> impl Fn(KeyError) -> Error {
    move |error| Error::foreign(LAYOUT, key, error)
}

fn record(read: &impl KvRead, space: &Space, number: u64) -> Result<Option<Record>> {
    let key = space.key(&(RECORDS, number));
    let Some(value) = read.get(&key)? else { return Ok(None) };
    let (generation, parent, name) = unpack(&value).map_err(foreign(&key))?;
    Ok(Some(Record { generation, parent, name }))
}

/// The number in the value of `key`.
fn number(read: &impl KvRead, key: &[u8]) -> Result<Option<u64>> {
    let Some(value) = read.get(key)? else { return Ok(None) };
    Ok(Some(unpack::<(u64,)>(&value).map_err(foreign(key))?.0))
}

/// A directory of namespaces. A handle; open as many as you like.
#[derive(Debug)]
pub struct Directory<S> {
    store: S,
    space: Space,
}

impl<S: OrderedKv> Directory<S> {
    /// The directory in `space`. Nothing else may write there. [`Error::Unsupported`] if the store lacks
    /// transactions.
    pub fn open(store: S, space: &Space) -> Result<Self> {
        Needs { transactions: true, ..Needs::default() }.check(LAYOUT, store.caps())?;
        Ok(Directory { store, space: space.clone() })
    }

    fn link(&self, parent: u64, name: &str) -> Vec<u8> {
        self.space.key(&(LINKS, parent, name))
    }

    /// The number of `path`.
    fn resolve(&self, read: &impl KvRead, path: &[&str]) -> Result<Option<u64>> {
        let mut at = ROOT;
        for name in path {
            match number(read, &self.link(at, name))? {
                Some(next) => at = next,
                None => return Ok(None),
            }
        }
        Ok(Some(at))
    }

    /// The number of `path`, made with the parents that are missing. Nothing is written before all that can be refused.
    fn make(&self, tx: &mut impl KvTx, path: &[&str]) -> Result<u64> {
        let (mut at, mut absent) = (ROOT, path);
        while let [name, rest @ ..] = absent {
            let Some(next) = number(tx, &self.link(at, name))? else { break };
            (at, absent) = (next, rest);
        }
        if absent.is_empty() {
            return Ok(at);
        }
        let counter = self.space.key(&(NEXT,));
        let first = number(tx, &counter)?.unwrap_or(ROOT + 1);
        let behind =
            first.checked_add(absent.len() as u64).ok_or_else(|| Error::no_next(LAYOUT, &counter))?;
        tx.put(&counter, &pack(&(behind,)));
        for (name, next) in absent.iter().zip(first..) {
            tx.put(&self.link(at, name), &pack(&(next,)));
            Record { generation: 0, parent: at, name: (*name).to_owned() }.save(tx, &self.space, next);
            at = next;
        }
        Ok(at)
    }

    fn namespace(&self, read: &impl KvRead, number: u64) -> Result<Namespace> {
        let record = record(read, &self.space, number)?.ok_or(Error::StaleNamespace { number })?;
        Ok(Namespace { directory: self.space.clone(), number, generation: record.generation })
    }

    fn missing(path: &[&str]) -> Error {
        Error::bad_input("path", &path.join("/"), "there is no such namespace; create it first")
    }

    /// Refuse a path that can name no namespace.
    fn check(&self, path: &[&str]) -> Result<()> {
        if path.is_empty() {
            return Err(Error::bad_input(
                "path",
                "",
                "it is empty, and the root holds no data; name one part",
            ));
        }
        let max = self.store.caps().key_bytes_max / 4;
        match path.iter().find(|name| name.is_empty() || name.len() > max) {
            None => Ok(()),
            Some(name) => {
                let why = format!("a part has {} bytes; give each 1 to {max}", name.len());
                Err(Error::bad_input("path", &path.join("/"), why))
            }
        }
    }

    /// The namespace `path`, created with its parents where absent. Every part is one name; any text but
    /// the empty one, of at most a quarter of the store's longest key.
    ///
    /// [`Error::BadInput`] for an empty path, and for a part that is empty or too long.
    pub fn create(&self, path: &[&str]) -> Result<Namespace> {
        Ok(self.store.update(|tx| self.create_in(tx, path))?.value)
    }

    /// [`create`](Self::create) in the caller's transaction.
    pub fn create_in(&self, tx: &mut impl KvTx, path: &[&str]) -> Result<Namespace> {
        self.check(path)?;
        let number = self.make(tx, path)?;
        self.namespace(tx, number)
    }

    /// The namespace `path`, if there is one: a get per part and one more.
    pub fn find(&self, path: &[&str]) -> Result<Option<Namespace>> {
        self.find_in(&self.store.read()?, path)
    }

    /// [`find`](Self::find) in the caller's snapshot or transaction.
    pub fn find_in(&self, read: &impl KvRead, path: &[&str]) -> Result<Option<Namespace>> {
        self.check(path)?;
        self.resolve(read, path)?.map(|number| self.namespace(read, number)).transpose()
    }

    /// The names directly under `path`, in the order of text; `&[]` for the first parts.
    pub fn list(&self, path: &[&str]) -> Result<Vec<String>> {
        self.list_in(&self.store.read()?, path)
    }

    /// [`list`](Self::list) in the caller's snapshot or transaction.
    pub fn list_in(&self, read: &impl KvRead, path: &[&str]) -> Result<Vec<String>> {
        let number = self.resolve(read, path)?.ok_or_else(|| Self::missing(path))?;
        Ok(self.children(read, number)?.into_iter().map(|(name, _)| name).collect())
    }

    fn children(&self, read: &impl KvRead, parent: u64) -> Result<Vec<(String, u64)>> {
        let mut children = Vec::new();
        for row in read.scan(self.space.under(&(LINKS, parent)), ScanOptions::new())? {
            let (key, value) = row?;
            let (_, _, name): (u64, u64, String) = self.space.unpack(&key).map_err(foreign(&key))?;
            let (number,) = unpack(&value).map_err(foreign(&key))?;
            children.push((name, number));
        }
        Ok(children)
    }

    /// Give the namespace `from`, with all under it, the path `to`, whose parents are created where
    /// absent. Moves no data: three writes, and namespaces found before stay valid.
    ///
    /// [`Error::BadInput`] if `from` is missing, `to` exists, or `to` lies under `from`.
    pub fn rename(&self, from: &[&str], to: &[&str]) -> Result<OpCost> {
        Ok(self.store.update(|tx| self.rename_in(tx, from, to))?.cost)
    }

    /// [`rename`](Self::rename) in the caller's transaction.
    pub fn rename_in(&self, tx: &mut impl KvTx, from: &[&str], to: &[&str]) -> Result<()> {
        self.check(from)?;
        self.check(to)?;
        if to.starts_with(from) {
            let why = "it is the old path or lies under it; give a path outside";
            return Err(Error::bad_input("new path", &to.join("/"), why));
        }
        let number = self.resolve(tx, from)?.ok_or_else(|| Self::missing(from))?;
        if self.resolve(tx, to)?.is_some() {
            let why = "there is a namespace with this path; remove or rename it first";
            return Err(Error::bad_input("new path", &to.join("/"), why));
        }
        let mut record = record(tx, &self.space, number)?.ok_or(Error::StaleNamespace { number })?;
        let (name, parents) = to.split_last().ok_or_else(|| Self::missing(to))?;
        // Before the first write: it may be refused.
        let parent = self.make(tx, parents)?;
        tx.delete(&self.link(record.parent, &record.name));
        record.parent = parent;
        (*name).clone_into(&mut record.name);
        tx.put(&self.link(record.parent, name), &pack(&(number,)));
        record.save(tx, &self.space, number);
        Ok(())
    }

    /// Remove all data of the namespace `path`, not of those under it: one range delete. Namespaces
    /// found before are stale.
    pub fn clear(&self, path: &[&str]) -> Result<OpCost> {
        Ok(self.store.update(|tx| self.clear_in(tx, path))?.cost)
    }

    /// [`clear`](Self::clear) in the caller's transaction.
    pub fn clear_in(&self, tx: &mut impl KvTx, path: &[&str]) -> Result<()> {
        self.check(path)?;
        let number = self.resolve(tx, path)?.ok_or_else(|| Self::missing(path))?;
        let mut record = record(tx, &self.space, number)?.ok_or(Error::StaleNamespace { number })?;
        let next = record.generation.checked_add(1);
        let at = || self.space.key(&(RECORDS, number));
        record.generation = next.ok_or_else(|| Error::no_next(LAYOUT, &at()))?;
        tx.delete_range(self.space.under(&(DATA, number)));
        record.save(tx, &self.space, number);
        Ok(())
    }

    /// Remove the namespace `path` with its data and every namespace under it: one range delete and two
    /// tombstones for each, however much they hold; a get and a scan of its children for each, before the first write.
    ///
    /// [`Error::BadInput`] if there is none; [`Error::Foreign`], with the key, if a link or a record does not read or the two
    /// do not agree: the data may be another's. Nothing is removed then.
    pub fn remove(&self, path: &[&str]) -> Result<OpCost> {
        Ok(self.store.update(|tx| self.remove_in(tx, path))?.cost)
    }

    /// [`remove`](Self::remove) in the caller's transaction.
    pub fn remove_in(&self, tx: &mut impl KvTx, path: &[&str]) -> Result<()> {
        self.check(path)?;
        let (name, parents) = path.split_last().ok_or_else(|| Self::missing(path))?;
        let parent = self.resolve(tx, parents)?.ok_or_else(|| Self::missing(path))?;
        let top = number(tx, &self.link(parent, name))?.ok_or_else(|| Self::missing(path))?;
        let mut found = vec![(parent, (*name).to_owned(), top)];
        let mut looked_at = 0;
        while let Some((parent, name, number)) = found.get(looked_at) {
            self.check_link(tx, *parent, name, *number)?;
            let number = *number;
            for (name, child) in self.children(tx, number)? {
                if child == top {
                    // Its record may name one that lies under it.
                    return Err(self.astray(number, &name));
                }
                found.push((number, name, child));
            }
            looked_at += 1;
        }
        for (parent, name, number) in found {
            tx.delete_range(self.space.under(&(DATA, number)));
            tx.delete(&self.link(parent, &name));
            tx.delete(&self.space.key(&(RECORDS, number)));
        }
        Ok(())
    }

    /// Err unless the record of `number` says that it is `name` under `parent`, which links to it. So a walk from parents to
    /// children meets no number twice but the one it began with.
    fn check_link(&self, read: &impl KvRead, parent: u64, name: &str, number: u64) -> Result<()> {
        match record(read, &self.space, number)? {
            Some(record) if record.parent == parent && record.name == name => Ok(()),
            _ => Err(self.astray(parent, name)),
        }
    }

    /// The link of `name` under `parent` leads to what is not there.
    fn astray(&self, parent: u64, name: &str) -> Error {
        let outside = KeyError { at: 0, kind: KeyErrorKind::OtherSpace };
        Error::foreign(LAYOUT, &self.link(parent, name), outside)
    }
}

#[cfg(test)]
mod tests;
