//! What an index is: its kind and the function that finds a row's entries.

use std::fmt;

use crate::tuple::{Pack, PackedFields, pack};
use crate::{Error, Result};

/// A value that a row is found by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    fields: Vec<u8>,
    included: Vec<u8>,
}

impl Entry {
    /// An entry of these fields.
    pub fn new(fields: &impl Pack) -> Entry {
        Entry { fields: pack(fields), included: Vec::new() }
    }

    /// The entry with a copy of parts of the row, which lookups return without reading the row.
    #[must_use]
    pub fn including(mut self, copy: &[u8]) -> Entry {
        self.included = copy.to_vec();
        self
    }
}

/// The packed fields of a row's entries, with what they include.
///
/// Ascending by fields, each once. Rows have few: to look for one is to look through them.
#[derive(Debug, Default)]
pub(super) struct Entries(Vec<Entry>);

impl Entries {
    /// The fields and what is included, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0.iter().map(|entry| (entry.fields.as_slice(), entry.included.as_slice()))
    }

    /// What the entry with `fields` includes, if there is one.
    pub(super) fn get(&self, fields: &[u8]) -> Option<&[u8]> {
        self.iter().find(|(of, _)| *of == fields).map(|(_, included)| included)
    }
}

type Extract<K> = dyn Fn(&K, &[u8]) -> Result<Vec<Entry>> + Send + Sync;

/// The definition of an index over rows with primary keys `K`.
pub struct Index<K> {
    name: String,
    pub(super) unique: bool,
    pub(super) fields: u64,
    pub(super) version: u64,
    pub(super) verified_on_read: bool,
    extract: Box<Extract<K>>,
}

impl<K> fmt::Debug for Index<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.unique { "unique" } else { "multi" };
        f.debug_struct("Index").field("name", &self.name).field("kind", &kind).finish_non_exhaustive()
    }
}

impl<K> Index<K> {
    /// An index in which a value has one row. `entries` finds a row's entries, each of `fields` fields;
    /// it must depend on its arguments alone. Its errors refuse the row; a row that was there before the index and
    /// is refused has no entries, and stops the [build](super::IndexedTable::build).
    pub fn unique(
        name: &str,
        fields: u32,
        entries: impl Fn(&K, &[u8]) -> Result<Vec<Entry>> + Send + Sync + 'static,
    ) -> Self {
        let (name, extract) = (name.to_owned(), Box::new(entries));
        Index { name, unique: true, fields: fields.into(), version: 1, verified_on_read: false, extract }
    }

    /// An index in which a value has any number of rows; otherwise as [`unique`](Self::unique).
    pub fn multi(
        name: &str,
        fields: u32,
        entries: impl Fn(&K, &[u8]) -> Result<Vec<Entry>> + Send + Sync + 'static,
    ) -> Self {
        Index { unique: false, ..Index::unique(name, fields, entries) }
    }

    /// The version of the function, 1 unless given. Count it up when the function changes: a table then
    /// refuses to open with entries made by the older one.
    #[must_use]
    pub fn version(mut self, version: u64) -> Self {
        self.version = version;
        self
    }

    /// The index with entries that are compared with their rows when they are looked up, instead of kept in
    /// step when a row is written. If all indexes of a table are such, a put does not read the row it
    /// replaces: the row's older entries stay behind, and lookups read every row they find and leave those
    /// entries out, until [`clean`](super::IndexedTable::clean) removes them. For tables that are written far
    /// more often than looked up. Not for unique indexes, whose writers have to read anyway: a table refuses to open with one.
    #[must_use]
    pub fn verified_on_read(mut self) -> Self {
        self.verified_on_read = true;
        self
    }

    /// The index's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The entries of a row.
    pub(super) fn entries(&self, key: &K, row: &[u8]) -> Result<Entries> {
        let mut entries = (self.extract)(key, row)?;
        for entry in &entries {
            let (mut packed, mut fields) = (PackedFields::new(&entry.fields), 0);
            while packed.next()?.is_some() {
                fields += 1;
            }
            if fields != self.fields {
                let why =
                    format!("entries of index {:?} have {} fields, not {fields}", self.name, self.fields);
                return Err(Error::bad_input("entry", &crate::error::show(&entry.fields), why));
            }
        }
        if entries.len() > 1 {
            // Of several with the same fields the last one counts.
            entries.reverse();
            entries.sort_by(|a, b| a.fields.cmp(&b.fields));
            entries.dedup_by(|later, first| later.fields == first.fields);
        }
        Ok(Entries(entries))
    }
}

/// What an index can be used for. See the [module](super) for how it changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Maintained, but older rows have no entries yet.
    Building,
    /// Complete.
    Ready,
    /// Complete, but some values have more than one row.
    UniquePending,
    /// Neither maintained nor usable.
    Disabled,
}

impl State {
    pub(super) const ALL: [State; 4] =
        [State::Building, State::Ready, State::UniquePending, State::Disabled];

    /// The state in words.
    pub fn name(self) -> &'static str {
        match self {
            State::Building => "building",
            State::Ready => "ready",
            State::UniquePending => "unique-pending",
            State::Disabled => "disabled",
        }
    }

    pub(super) fn number(self) -> u64 {
        match self {
            State::Building => 0,
            State::Ready => 1,
            State::UniquePending => 2,
            State::Disabled => 3,
        }
    }
}
