//! Tables of typed rows with a schema, each row packed in one value or spread over a key per field.
//!
//! | | [`RowMode::Packed`] | [`RowMode::Cells`] |
//! |---|---|---|
//! | a whole row | one get | one scan, a key per field and one more |
//! | one field | the whole row | its own key |
//! | change a field | read and write the whole row | read the row's version, write one key |
//! | space | once the key | the key with every field |
//!
//! Either way a row is all there or not at all, and both modes answer the same. A row is a struct that
//! derives [`Row`]; what is stored says under which version of it a row was written, and is checked when read.
//!
//! ```
//! use esker_layouts::map::MapStore;
//! use esker_layouts::table::{Row, RowMode, Table};
//! use esker_layouts::tuple::Space;
//!
//! #[derive(Row, Debug, PartialEq)]
//! struct User {
//!     name: String,
//!     age: u32,
//! }
//!
//! let store = MapStore::new();
//! let users: Table<_, (u64,), User> = Table::open(&store, &Space::new(&("users",)), RowMode::Packed)?;
//! users.put(&(7,), &User { name: "Ann".into(), age: 40 })?;
//! users.set(&(7,), User::AGE, &41)?;
//! users.patch(&(7,), |user| user.name.push('a'))?;
//! let view = users.view()?;
//! assert_eq!(view.get(&(7,))?, Some(User { name: "Anna".into(), age: 41 }));
//! assert_eq!(view.field(&(7,), User::AGE)?, Some(41));
//! assert!(view.exists(&(7,))? && !view.exists(&(8,))?);
//! # Ok::<(), esker_layouts::Error>(())
//! ```
//!
//! # Versions
//!
//! Opening a table writes its version and fields down. Whoever opens it later with the same version must have
//! the same fields, or gets [`Error::Schema`]; with a higher version the table is that version's from then on,
//! handles of the lower one cannot write any more, and a row of a lower version goes through
//! [`Row::upgrade`] whenever it is read, until it is written again. A program that is older than a row gets
//! [`Error::Schema`], never a guess.
//!
//! # Costs
//!
//! Every write reads the table's version (one get). [`put`](Table::put) and [`remove`](Table::remove) read
//! nothing else.
//!
//! # Invariants
//!
//! 1. A stored row has a version, and all fields of that version.
//! 2. Writers read the table's version in their transaction, so a change of it conflicts with writers under
//!    way.

mod read;
mod schema;
mod write;

use std::fmt;
use std::marker::PhantomData;

use crate::kv::{KeyRange, KvRead, KvTx, Needs, OrderedKv};
use crate::tuple::{Element, Key, Pack, Prefix, Space, Unpack};
use crate::{Error, Result};

#[cfg(feature = "derive")]
pub use esker_layouts_derive::Row;
pub use read::{Rows, TableView};

const LAYOUT: &str = "table";
/// The first field behind the space: the schema.
const SCHEMA: u64 = 0;
/// The first field behind the space: the rows.
const ROWS: u64 = 1;

/// The most fields that a row may have. A put in cells removes what rows of another version may have left in each place up
/// to the most fields that the stored record tells, so damage there must not be able to tell any number.
const FIELDS_MAX: usize = 1 << 16;

/// How a row is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowMode {
    /// The whole row in one value.
    Packed,
    /// A key per field.
    Cells,
}

/// A type of rows: its fields in their order, with names and a version.
///
/// `#[derive(Row)]` makes one of a struct with named fields whose types are fields of tuples. It gives a
/// [`Field`] for each, named in capitals (`User::AGE`), version 1, and no upgrades;
/// `#[row(version = 2, upgrade = from_older)]` says otherwise, where `from_older` is a function with the
/// signature of [`upgrade`](Row::upgrade). Count the version up whenever fields come, go, move, or change
/// their types.
///
/// ```
/// # use esker_layouts::table::Row;
/// use esker_layouts::tuple::Element;
///
/// #[derive(Row)]
/// #[row(version = 2, upgrade = from_older)]
/// struct User { name: String, age: Option<u32> }
///
/// /// Version 1 had no age.
/// fn from_older(version: u64, fields: &[Element<'_>]) -> Option<User> {
///     match (version, fields) {
///         (1, [Element::Text(name)]) => Some(User { name: name.to_string(), age: None }),
///         _ => None,
///     }
/// }
/// assert_eq!((User::VERSION, User::FIELDS), (2, &["name", "age"][..]));
/// ```
pub trait Row: Pack + Unpack {
    /// The version of the fields and their types.
    const VERSION: u64;
    /// The fields' names, in the order in which they are packed.
    const FIELDS: &'static [&'static str];

    /// The row that was written with the fields `fields` under an older `version`; `None` if that is none of
    /// the known ones.
    fn upgrade(version: u64, fields: &[Element<'_>]) -> Option<Self> {
        let _ = (version, fields);
        None
    }
}

/// A field of the rows `R`, of type `T`.
pub struct Field<R, T> {
    place: u32,
    of: PhantomData<fn(R) -> T>,
}

impl<R, T> Field<R, T> {
    /// The field at `place`, counted from 0. Derived rows have these as constants; whoever makes one has to
    /// give the field's own type, or rows will not decode.
    pub const fn at(place: u32) -> Self {
        Field { place, of: PhantomData }
    }
}

impl<R, T> Clone for Field<R, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R, T> Copy for Field<R, T> {}

impl<R, T> fmt::Debug for Field<R, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Field").field(&self.place).finish()
    }
}

/// A table of rows `R` under keys `K`. A handle; open as many as you like.
pub struct Table<S, K, R> {
    store: S,
    schema: schema::Known,
    rows: Space,
    mode: RowMode,
    of: PhantomData<fn() -> (K, R)>,
}

impl<S, K, R> fmt::Debug for Table<S, K, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("mode", &self.mode).field("rows", &self.rows).finish_non_exhaustive()
    }
}

impl<S: OrderedKv, K: Key, R: Row> Table<S, K, R> {
    /// The table in `space`, created if absent. Nothing else may write there.
    ///
    /// [`Error::Schema`] if the table's version is higher than `R`'s, or the same with other fields;
    /// [`Error::BadInput`] if it was made with another mode, or for more than 65,536 fields; [`Error::Unsupported`] if the store lacks
    /// transactions.
    pub fn open(store: S, space: &Space, mode: RowMode) -> Result<Self> {
        Needs { transactions: true, ..Needs::default() }.check(LAYOUT, store.caps())?;
        let schema = store.update(|tx| schema::register::<R>(tx, space, mode))?.value;
        Ok(Table { store, schema, rows: space.sub(&(ROWS,)), mode, of: PhantomData })
    }

    /// The keys that begin with whole fields, for [`TableView::rows`].
    pub fn under(&self, prefix: &Prefix<K, impl Pack>) -> KeyRange {
        self.rows.under(prefix)
    }

    /// The space of the keys: `keys().under(&(first,))`, `keys().between(…)`. In a table of cells a range must
    /// begin and end with whole keys or their first fields.
    pub fn keys(&self) -> &Space {
        &self.rows
    }

    /// Refuse to write where the table is another version's by now; the most fields its rows ever had.
    fn check(&self, tx: &mut impl KvTx) -> Result<u64> {
        self.schema.check::<R>(tx)
    }

    /// The table at this moment.
    pub fn view(&self) -> Result<TableView<'_, S, K, R>> {
        Ok(self.view_in(self.store.read()?))
    }

    /// The table as the caller's snapshot or transaction has it: `view_in(&*tx)`.
    pub fn view_in<In: KvRead>(&self, read: In) -> TableView<'_, S, K, R, In> {
        TableView::new(self, read)
    }
}

impl Error {
    fn schema(at: &[u8], stored: u64, known: u64, why: &'static str) -> Error {
        Error::Schema { key: esker::printable(at), stored, known, why }
    }
}

#[cfg(test)]
mod tests;
