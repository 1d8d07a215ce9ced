//! Key spaces: a common prefix, and the exact key range of every question about whole fields or text.

use std::ops::{Bound, RangeBounds};

use esker::prefix_end;

use super::code;
use super::decode::{Fields, KeyError, KeyErrorKind, Unpack};
use super::encode::{Pack, pack, put_escaped};
use super::utc::Period;

/// The keys from `start` up to but not including `end`; `end` `None` means to the end of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// The first key in the range.
    pub start: Vec<u8>,
    /// The first key after the range.
    pub end: Option<Vec<u8>>,
}

impl KeyRange {
    /// Every key.
    pub fn all() -> KeyRange {
        KeyRange { start: Vec::new(), end: None }
    }

    /// The keys that start with `prefix`, byte for byte.
    ///
    /// ```
    /// use esker_layouts::tuple::KeyRange;
    /// let range = KeyRange::prefix(b"user");
    /// assert!(range.contains(b"user") && range.contains(b"user\xff\xff") && !range.contains(b"uses"));
    /// ```
    pub fn prefix(prefix: &[u8]) -> KeyRange {
        KeyRange { start: prefix.to_vec(), end: prefix_end(prefix) }
    }

    /// The single key `key`.
    pub fn point(key: &[u8]) -> KeyRange {
        KeyRange { start: key.to_vec(), end: Some(after(key.to_vec())) }
    }

    /// Whether `key` lies in the range.
    pub fn contains(&self, key: &[u8]) -> bool {
        key >= self.start.as_slice() && self.end.as_deref().is_none_or(|end| key < end)
    }

    /// Whether the range is of one key, as [`point`](Self::point) makes it.
    pub(crate) fn is_point(&self) -> bool {
        let end = self.end.as_deref().and_then(<[u8]>::split_last);
        end == Some((&0, self.start.as_slice()))
    }

    /// Whether no key can lie in the range.
    pub fn is_empty(&self) -> bool {
        self.end.as_deref().is_some_and(|end| end <= self.start.as_slice())
    }
}

/// The smallest key after `key`.
fn after(mut key: Vec<u8>) -> Vec<u8> {
    key.push(0);
    key
}

/// All keys that start with one prefix, holding tuples behind it.
///
/// Two kinds of prefix are kept apart, because they differ: *whole fields* ([`under`](Space::under))
/// never match part of a text, and a *text prefix* ([`starts_with`](Space::starts_with)) is the
/// beginning of one text field.
///
/// ```
/// use esker_layouts::tuple::Space;
/// let mail = Space::new(&("mail",));
/// let ann = mail.key(&("ann", 1));
/// let anna = mail.key(&("anna", 1));
/// assert!(mail.under(&("ann",)).contains(&ann) && !mail.under(&("ann",)).contains(&anna));
/// assert!(mail.starts_with(&(), "ann").contains(&ann) && mail.starts_with(&(), "ann").contains(&anna));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Space {
    prefix: Vec<u8>,
}

impl Space {
    /// The whole store.
    pub fn root() -> Space {
        Space { prefix: Vec::new() }
    }

    /// The space whose keys start with the fields `fields`.
    pub fn new<P: Pack + ?Sized>(fields: &P) -> Space {
        Space { prefix: pack(fields) }
    }

    /// The space inside this one whose keys go on with the fields `fields`.
    #[must_use]
    pub fn sub<P: Pack + ?Sized>(&self, fields: &P) -> Space {
        Space { prefix: self.key(fields) }
    }

    /// The bytes every key starts with.
    pub fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// The key of a tuple.
    pub fn key<K: Pack + ?Sized>(&self, key: &K) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.prefix.len() + 32);
        self.key_into(key, &mut out);
        out
    }

    /// Append the key of a tuple to `out`: [`key`](Self::key) into a buffer of one's own.
    pub fn key_into<K: Pack + ?Sized>(&self, key: &K, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.prefix);
        key.pack_into(out);
    }

    /// The tuple that `key` is in this space. Offsets in errors count from the start of `key`.
    pub fn unpack<K: Unpack>(&self, key: &[u8]) -> Result<K, KeyError> {
        let mut fields = self.fields(key)?;
        let tuple = K::unpack_from(&mut fields)?;
        fields.finish()?;
        Ok(tuple)
    }

    /// The fields of `key` behind the prefix.
    pub fn fields<'a>(&self, key: &'a [u8]) -> Result<Fields<'a>, KeyError> {
        if key.starts_with(&self.prefix) {
            Ok(Fields::starting_at(key, self.prefix.len()))
        } else {
            Err(KeyError { at: 0, kind: KeyErrorKind::OtherSpace })
        }
    }

    /// The tuple with exactly these fields and every tuple that continues it.
    ///
    /// Ends exactly: no type code is 0xFF, and an escaped zero inside a longer text is 0x00 0xFF, so a
    /// range that ends at `key‖0xFF` holds all continuations and nothing else.
    pub fn under<P: Pack + ?Sized>(&self, whole_fields: &P) -> KeyRange {
        let start = self.key(whole_fields);
        if start.is_empty() {
            return KeyRange::all();
        }
        let end = past(start.clone());
        KeyRange { start, end: Some(end) }
    }

    /// The tuples whose first fields are `whole_fields` and whose next field is a text that starts
    /// with `text`.
    pub fn starts_with<P: Pack + ?Sized>(&self, whole_fields: &P, text: &str) -> KeyRange {
        self.partial(whole_fields, code::TEXT, text.as_bytes())
    }

    /// The tuples whose first fields are `whole_fields` and whose next field is a byte string that
    /// starts with `bytes`.
    pub fn starts_with_bytes<P: Pack + ?Sized>(&self, whole_fields: &P, bytes: &[u8]) -> KeyRange {
        self.partial(whole_fields, code::BYTES, bytes)
    }

    /// The tuples whose first fields are `whole_fields` and whose next field is a [`Utc`](super::Utc) in
    /// `period`: everything of a month, a day, a quarter.
    ///
    /// ```
    /// use esker_layouts::tuple::{Period, Space, Utc};
    /// let at = |ms| Utc::from_unix_ms(ms).expect("within the calendar");
    /// let series = Space::new(&("temperature",));
    /// let key = series.key(&("cellar", at(1_419_445_800_000), 1)); // 2014-12-24 18:30
    /// let december = Period::month(2014, 12).expect("a month");
    /// let november = Period::month(2014, 11).expect("a month");
    /// assert!(series.during(&("cellar",), &december).contains(&key));
    /// assert!(!series.during(&("cellar",), &november).contains(&key));
    /// ```
    pub fn during<P: Pack + ?Sized>(&self, whole_fields: &P, period: &Period) -> KeyRange {
        let within = self.sub(whole_fields);
        KeyRange { start: within.key(&(period.first(),)), end: Some(past(within.key(&(period.last(),)))) }
    }

    fn partial<P: Pack + ?Sized>(&self, whole_fields: &P, kind: u8, content: &[u8]) -> KeyRange {
        let mut prefix = self.key(whole_fields);
        prefix.push(kind);
        put_escaped(&mut prefix, content);
        KeyRange::prefix(&prefix)
    }

    /// The tuples between two bounds of whole fields: an included bound brings all its continuations
    /// in, an excluded one keeps them all out. Unbounded sides end with the space.
    pub fn between<K: Pack>(&self, bounds: impl RangeBounds<K>) -> KeyRange {
        let whole = self.under(&());
        let start = match bounds.start_bound() {
            Bound::Included(key) => self.key(key),
            Bound::Excluded(key) => past(self.key(key)),
            Bound::Unbounded => whole.start,
        };
        let end = match bounds.end_bound() {
            Bound::Included(key) => Some(past(self.key(key))),
            Bound::Excluded(key) => Some(self.key(key)),
            Bound::Unbounded => whole.end,
        };
        KeyRange { start, end }
    }
}

/// The first key after `key` and all tuples that continue it.
fn past(mut key: Vec<u8>) -> Vec<u8> {
    key.push(code::ESCAPE);
    key
}
