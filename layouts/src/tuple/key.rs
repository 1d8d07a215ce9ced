//! Key types, and beginnings of keys that cannot be mistaken for those of another.

use std::marker::PhantomData;

use super::decode::{KeyError, Unpack};
use super::encode::{Pack, PackField};

/// A tuple type that is a table's key: written and read back. Every type that is both [`Pack`] and
/// [`Unpack`] is one, such as `(String, u64)`, and a struct or enum that derives it.
///
/// # Derived
///
/// A struct's key is the tuple of its fields in their order (at most eight); as a field of another key it is
/// a nested tuple. `#[key(desc)]` turns a field's order round, `#[key(fixed)]` writes an integer or array
/// with its full width; with both, both. A digest is a type of its own, [`Hashed`](super::Hashed), since it
/// cannot be turned back. `prefix_…` functions, one for each field but the last, give a [`Prefix`]: the
/// fields up to that one. Mail of a user, by day, the newest message first:
///
/// ```
/// use esker_layouts::kv::ScanOptions;
/// use esker_layouts::map::MapStore;
/// use esker_layouts::tall::TallTable;
/// use esker_layouts::tuple::{Key, Space};
///
/// #[derive(Key, Debug, PartialEq)]
/// struct Mail {
///     user: String,
///     day: u32,
///     #[key(desc)]
///     message: u64,
/// }
///
/// let store = MapStore::new();
/// let mail: TallTable<_, Mail> = TallTable::open(&store, &Space::new(&("mail",)))?;
/// for (user, day, message) in [("ann", 20150101, 1), ("ann", 20150101, 2), ("ann", 20150102, 3), ("bo", 20150101, 4)] {
///     mail.put(&Mail { user: user.to_owned(), day, message }, b"Hi ...")?;
/// }
/// let of_a_day = mail.under(&Mail::prefix_day("ann", &20150101));
/// let found: Vec<u64> = mail.view()?.rows(of_a_day, ScanOptions::new())?
///     .map(|row| row.map(|(key, _)| key.message))
///     .collect::<Result<_, _>>()?;
/// assert_eq!(found, [2, 1]);
/// assert_eq!(mail.view()?.rows(mail.under(&Mail::prefix_user("ann")), ScanOptions::new())?.count(), 3);
/// # Ok::<(), esker_layouts::Error>(())
/// ```
///
/// A prefix has the types of the fields, and it is one of its own key's:
///
/// ```compile_fail,E0277
/// # use esker_layouts::tuple::Key;
/// # #[derive(Key)] struct Mail { user: String, day: u32, message: u64 }
/// let day_is_a_number = Mail::prefix_day("ann", "20150101");
/// ```
///
/// ```compile_fail,E0308
/// # use esker_layouts::{map::MapStore, tall::TallTable, tuple::{Key, Space}};
/// # #[derive(Key)] struct Mail { user: String, day: u32, message: u64 }
/// # #[derive(Key)] struct Interest { user: String, game: String }
/// # let store = MapStore::new();
/// # let mail: TallTable<_, Mail> = TallTable::open(&store, &Space::root()).unwrap();
/// let of_another_key = mail.under(&Interest::prefix_user("ann"));
/// ```
///
/// An enum is its variant's tag and then the variant's fields. Tags are 0, 1, … in the order of declaration,
/// or as given by a discriminant or `#[key(tag = 7)]`; they ascend, so the keys sort as derived `Ord` does.
/// A variant's tag must not change once keys are stored. An enum without fields is a plain number as a field
/// of a key; with fields it is a nested tuple there.
///
/// ```
/// use esker_layouts::tuple::{Key, pack, unpack};
/// #[derive(Key, Debug, PartialEq)]
/// enum Event {
///     Login { user: String },
///     #[key(tag = 5)]
///     Payment(u64, #[key(fixed)] u32),
///     Closed,
/// }
/// assert_eq!(pack(&Event::Payment(7, 8)), pack(&(5, 7, esker_layouts::tuple::Fixed(8u32))));
/// assert_eq!(unpack::<Event>(&pack(&(6,))), Ok(Event::Closed));
/// assert_eq!(pack(&(Event::Closed, 1)), pack(&((6,), 1)));
/// assert!(unpack::<Event>(&pack(&(3,))).unwrap_err().to_string().contains("Event has no variant with tag 3"));
/// ```
///
/// ```compile_fail
/// # use esker_layouts::tuple::Key;
/// #[derive(Key)]
/// enum Wrong { Second = 2, First = 1 } // tags ascend
/// ```
///
/// ```compile_fail
/// # use esker_layouts::tuple::Key;
/// #[derive(Key)]
/// struct Wrong { #[key(hashed)] user: String } // a digest is the type Hashed<String>
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no key",
    note = "a key is a tuple of fields, or a struct or enum with #[derive(Key)] (esker_layouts::tuple::Key)"
)]
pub trait Key: Pack + Unpack {}

impl<K: Pack + Unpack> Key for K {}

#[cfg(feature = "derive")]
pub use esker_layouts_derive::Key;

/// What may be given for a field of type `T`: a `T`, or `str` for a `String`, or bytes for a `Vec<u8>`.
#[diagnostic::on_unimplemented(message = "the field is a `{T}`, not a `{Self}`")]
pub trait FieldOf<T>: PackField {}

impl<T: PackField> FieldOf<T> for T {}
impl FieldOf<String> for str {}
impl FieldOf<Vec<u8>> for [u8] {}

/// The first fields of a key `K`, given whole, as its derived `prefix_…` functions make them. Goes wherever
/// whole fields go, and where a table knows its key, to no table of another.
#[derive(Clone, Copy, Debug)]
pub struct Prefix<K, P> {
    fields: P,
    key: PhantomData<fn() -> K>,
}

impl<K, P: Pack> Prefix<K, P> {
    /// The first fields of a `K`: for key types that write their own prefix functions. `fields` must be
    /// written as `K` writes its first fields.
    pub fn new(fields: P) -> Self {
        Prefix { fields, key: PhantomData }
    }
}

impl<K, P: Pack> Pack for Prefix<K, P> {
    fn pack_at(&self, out: &mut Vec<u8>, depth: usize) {
        self.fields.pack_at(out, depth);
    }

    fn pack_each(&self, out: &mut Vec<u8>, behind: &mut impl FnMut(&[u8])) -> Result<(), KeyError> {
        self.fields.pack_each(out, behind)
    }
}
