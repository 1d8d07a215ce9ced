//! What a database must hold: the state after each commit, as a hash; and which commits a crash at
//! a given moment may take.
//!
//! Creating and dropping a keyspace are commits like any other. The state's hash is a sum over its
//! rows, so that it is kept up to date at the price of the rows that a commit touches, and a recovered
//! dump is looked up by its own sum.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use esker_base::checksum::entry_hash;

use crate::ops::{Name, Write};

/// The rows of one keyspace.
pub type Rows = BTreeMap<Vec<u8>, Vec<u8>>;
/// The rows of every keyspace, by name.
pub type Contents = BTreeMap<String, Rows>;

/// What one row adds to the hash of a state.
pub fn row_hash(keyspace: &str, key: &[u8], value: &[u8]) -> u64 {
    entry_hash(key, entry_hash(keyspace.as_bytes(), 0, 0, b""), 1, value)
}

/// The hash of a whole state. Keyspaces without rows count for nothing.
pub fn contents_hash(contents: &Contents) -> u64 {
    let rows = contents.iter().flat_map(|(name, rows)| rows.iter().map(move |row| (name, row)));
    rows.map(|(name, (key, value))| row_hash(name, key, value)).fold(0, u64::wrapping_add)
}

/// The state that a history leads to.
#[derive(Clone, Debug, Default)]
pub struct Model {
    contents: Contents,
    hash: u64,
}

impl Model {
    /// A model that starts from what a database holds.
    pub fn of(contents: Contents) -> Model {
        let hash = contents_hash(&contents);
        Model { contents, hash }
    }

    /// Everything in it.
    pub fn contents(&self) -> &Contents {
        &self.contents
    }

    /// Its hash.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// The rows of keyspace `name`.
    pub fn rows(&self, name: &str) -> &Rows {
        static NONE: Rows = Rows::new();
        self.contents.get(name).unwrap_or(&NONE)
    }

    /// Create keyspace `name` unless it is there.
    pub fn create(&mut self, name: Name) {
        self.contents.entry(name.to_owned()).or_default();
    }

    /// Drop keyspace `name`.
    pub fn drop_keyspace(&mut self, name: Name) {
        for (key, value) in self.contents.remove(name).unwrap_or_default() {
            self.hash = self.hash.wrapping_sub(row_hash(name, &key, &value));
        }
    }

    /// Do one write.
    pub fn write(&mut self, write: &Write) {
        match write {
            Write::Put(name, key, value) => self.set(name, key, Some(value.clone())),
            Write::Delete(name, key) => self.set(name, key, None),
            Write::DeleteRange(name, range) => {
                let keys: Vec<Vec<u8>> =
                    self.rows(name).range(range.clone()).map(|(key, _)| key.clone()).collect();
                for key in &keys {
                    self.set(name, key, None);
                }
            }
            Write::Merge(name, key, operand) => {
                let mut value = self.rows(name).get(key).cloned().unwrap_or_default();
                value.extend_from_slice(operand);
                self.set(name, key, Some(value));
            }
        }
    }

    fn set(&mut self, name: Name, key: &[u8], value: Option<Vec<u8>>) {
        let rows = self.contents.get_mut(name).expect("histories write to keyspaces that are there");
        let added = value.as_deref().map_or(0, |value| row_hash(name, key, value));
        let removed = match value {
            Some(value) => rows.insert(key.to_vec(), value),
            None => rows.remove(key),
        };
        let removed = removed.map_or(0, |value| row_hash(name, key, &value));
        self.hash = self.hash.wrapping_add(added).wrapping_sub(removed);
    }
}

/// The commits of a history, and from which call of the disk's trace on each was under way or durable.
#[derive(Clone, Debug)]
pub struct Oracle {
    /// The hash of the state after each number of commits; the first is that of the empty database.
    hashes: Vec<u64>,
    /// The keyspaces after each number of commits.
    catalogs: Vec<Arc<BTreeSet<String>>>,
    /// Before call `.0` of the trace, commits up to number `.1` were not under way yet.
    issued: Vec<(usize, usize)>,
    /// After the first `.0` calls of the trace, the first `.1` commits were durable.
    durable: Vec<(usize, usize)>,
}

impl Default for Oracle {
    fn default() -> Self {
        Self::new()
    }
}

impl Oracle {
    /// Of a database that is about to be created.
    pub fn new() -> Oracle {
        Oracle { hashes: vec![0], catalogs: vec![Arc::default()], issued: Vec::new(), durable: Vec::new() }
    }

    /// A commit is about to begin that leads to `model`; the disk has seen `calls` calls.
    pub fn issue(&mut self, calls: usize, model: &Model) {
        self.hashes.push(model.hash());
        let last = &self.catalogs[self.catalogs.len() - 1];
        let same = last.iter().eq(model.contents().keys());
        let catalog =
            if same { Arc::clone(last) } else { Arc::new(model.contents().keys().cloned().collect()) };
        self.catalogs.push(catalog);
        self.issued.push((calls, self.commits()));
    }

    /// The last commit that was issued failed for good: it is no state any more, before or after a crash
    /// from now on.
    pub fn retract(&mut self) {
        self.truncate(self.commits() - 1);
    }

    /// Only the first `commits` commits are left, and nothing else will ever be there again.
    pub fn truncate(&mut self, commits: usize) {
        self.hashes.truncate(commits + 1);
        self.catalogs.truncate(commits + 1);
        self.issued.truncate(commits);
        for mark in &mut self.durable {
            mark.1 = mark.1.min(commits);
        }
    }

    /// Of the last commit's keyspaces these are there: their creation may be durable ahead of the rows that
    /// tell one commit from another, and those without rows tell nothing.
    pub fn observe(&mut self, keyspaces: BTreeSet<String>) {
        if let Some(last) = self.catalogs.last_mut() {
            *last = Arc::new(keyspaces);
        }
    }

    /// How many commits are durable by now.
    pub fn durable(&self) -> usize {
        self.durable.last().map_or(0, |mark| mark.1)
    }

    /// Everything issued so far is durable; the disk has seen `calls` calls.
    pub fn all_durable(&mut self, calls: usize) {
        self.durable.push((calls, self.commits()));
    }

    /// How many commits were issued.
    pub fn commits(&self) -> usize {
        self.hashes.len() - 1
    }

    /// The numbers of commits that a database may hold after a crash that came after `calls` calls.
    pub fn allowed(&self, calls: usize) -> RangeInclusive<usize> {
        let last_at = |marks: &[(usize, usize)], count: usize| {
            count.checked_sub(1).and_then(|last| marks.get(last)).map_or(0, |mark| mark.1)
        };
        let durable = self.durable.partition_point(|(at, _)| *at <= calls);
        // A commit issued when `calls` calls were made has made none of them.
        let issued = self.issued.partition_point(|(at, _)| *at < calls);
        last_at(&self.durable, durable)..=last_at(&self.issued, issued)
    }

    /// The number of commits, within `allowed`, whose state has the hash `hash`.
    pub fn find(&self, hash: u64, allowed: &RangeInclusive<usize>) -> Option<usize> {
        allowed.clone().rev().find(|&commits| self.hashes[commits] == hash)
    }

    /// Of all states the numbers of those with the hash `hash`, for messages.
    pub fn find_anywhere(&self, hash: u64) -> Vec<usize> {
        (0..self.hashes.len()).filter(|&commits| self.hashes[commits] == hash).collect()
    }

    /// The keyspaces that are there whichever of the `allowed` states was recovered, and those of any of them.
    pub fn keyspaces(&self, allowed: &RangeInclusive<usize>) -> (BTreeSet<String>, BTreeSet<String>) {
        let mut certain = (*self.catalogs[*allowed.start()]).clone();
        let mut possible = certain.clone();
        // Most states share their catalog with the one before.
        for pair in
            self.catalogs[allowed.clone()].windows(2).filter(|pair| !Arc::ptr_eq(&pair[0], &pair[1]))
        {
            certain.retain(|name| pair[1].contains(name));
            possible.extend(pair[1].iter().cloned());
        }
        (certain, possible)
    }
}
