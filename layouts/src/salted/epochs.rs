//! How keys are spread, now and before.

use std::borrow::Cow;

use xxhash_rust::xxh3::xxh3_64;

use super::LAYOUT;
use crate::kv::{Bytes, KvRead, KvTx};
use crate::tuple::{Fields, KeyError, KeyErrorKind, PackedFields, Space, pack, split_packed};
use crate::{Error, Result};

/// The first field behind the space: the list of epochs.
pub(super) const EPOCHS: u64 = 0;
/// The first field behind the space: the rows.
pub(super) const ROWS: u64 = 1;
/// How many epochs may hold rows at a time.
pub(super) const EPOCHS_MAX: usize = 8;
/// The most buckets: a scan of everything reads them all at once.
pub const BUCKETS_MAX: u32 = 1_024;
/// XXH3 (64 bits, seed 0) over the encodings of the chosen fields, one after the other.
const HASH_VERSION: u64 = 1;

/// Over how many buckets keys are spread and by which of their fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Salt {
    buckets: u32,
    fields: Vec<u32>,
}

impl Salt {
    /// `buckets` buckets by the fields with these places in the key, counted from 0. Their order counts.
    pub fn new(buckets: u32, fields: &[u32]) -> Salt {
        Salt { buckets, fields: fields.to_vec() }
    }

    /// How many buckets there are.
    pub fn buckets(&self) -> u32 {
        self.buckets
    }

    /// The fields that choose the bucket, by their place in the key.
    pub fn fields(&self) -> &[u32] {
        &self.fields
    }

    pub(super) fn check(&self) -> Result<()> {
        if !(1..=BUCKETS_MAX).contains(&self.buckets) {
            let why = format!("give 1 to {BUCKETS_MAX}");
            return Err(Error::bad_input("number of buckets", &self.buckets.to_string(), why));
        }
        if self.fields.is_empty() {
            let why = "it is empty, so all keys would share a bucket; name the fields that spread them";
            return Err(Error::bad_input("list of salted fields", "", why));
        }
        Ok(())
    }

    /// The bucket of a key with the encoded fields `fields`; `None` if a chosen field is not among them.
    pub(super) fn bucket(&self, fields: &[&[u8]]) -> Option<u32> {
        let field = |place: &u32| fields.get(usize::try_from(*place).ok()?).copied();
        if let [one] = self.fields.as_slice() {
            return field(one).map(|field| self.bucket_by(field));
        }
        let chosen: Option<Vec<&[u8]>> = self.fields.iter().map(field).collect();
        Some(self.bucket_by(&chosen?.concat()))
    }

    /// The bucket of a key that was packed here; `None` if a chosen field is not in it.
    pub(super) fn bucket_of(&self, packed: &[u8]) -> Result<Option<u32>> {
        let [one] = self.fields.as_slice() else { return Ok(self.bucket(&split_packed(packed)?)) };
        let field = PackedFields::new(packed).nth(usize::try_from(*one).unwrap_or(usize::MAX))?;
        Ok(field.map(|field| self.bucket_by(field)))
    }

    fn bucket_by(&self, chosen: &[u8]) -> u32 {
        // Less than the number of buckets, which is 32 bits.
        u32::try_from(xxh3_64(chosen) % u64::from(self.buckets)).unwrap_or(0)
    }
}

/// A salt that rows lie under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Epoch {
    pub(super) number: u64,
    pub(super) salt: Salt,
}

impl Epoch {
    /// Append where the rows of a bucket lie.
    pub(super) fn rows_into(&self, space: &Space, bucket: u32, out: &mut Vec<u8>) {
        space.key_into(&(ROWS, self.number, bucket), out);
    }
}

/// The epochs that may hold rows, oldest first; never empty.
#[derive(Clone, Debug)]
pub(super) struct Epochs {
    older: Vec<Epoch>,
    newest: Epoch,
}

impl Epochs {
    pub(super) fn newest(&self) -> &Epoch {
        &self.newest
    }

    /// The oldest epoch, unless it is the newest, too.
    pub(super) fn oldest(&self) -> Option<&Epoch> {
        self.older.first()
    }

    pub(super) fn newest_first(&self) -> impl Iterator<Item = &Epoch> {
        std::iter::once(&self.newest).chain(self.older.iter().rev())
    }

    pub(super) fn into_oldest_first(mut self) -> Vec<Epoch> {
        self.older.push(self.newest);
        self.older
    }
}

/// A stored list of epochs, and what it says.
#[derive(Clone, Debug)]
pub(super) struct Known {
    stored: Bytes,
    epochs: Epochs,
}

impl Known {
    /// The list at `at`.
    pub(super) fn load(read: &impl KvRead, at: &[u8]) -> Result<Known> {
        let stored = read.get(at)?.unwrap_or_default();
        Ok(Known { epochs: decode(at, &stored)?, stored })
    }

    /// The epochs at `at` now: these, if the list is still the one that is known.
    pub(super) fn now(&self, read: &impl KvRead, at: &[u8]) -> Result<Cow<'_, Epochs>> {
        let stored = read.get(at)?.unwrap_or_default();
        if stored == self.stored {
            Ok(Cow::Borrowed(&self.epochs))
        } else {
            decode(at, &stored).map(Cow::Owned)
        }
    }
}

fn decode(at: &[u8], stored: &[u8]) -> Result<Epochs> {
    let foreign = |error: KeyError| Error::foreign(LAYOUT, at, error);
    let mut fields = Fields::new(stored);
    let mut epochs = Vec::new();
    while !fields.at_end() {
        let (number, version, buckets, chosen): (u64, u64, u32, Vec<u8>) =
            fields.field().map_err(foreign)?;
        let unknown =
            KeyError { at: fields.position(), kind: KeyErrorKind::IntegerRange("hash version 1") };
        if version != HASH_VERSION {
            return Err(foreign(unknown));
        }
        let mut places = Fields::new(&chosen);
        let mut list = Vec::new();
        while !places.at_end() {
            list.push(places.field().map_err(foreign)?);
        }
        let salt = Salt { buckets, fields: list };
        salt.check()?;
        epochs.push(Epoch { number, salt });
    }
    let newest = epochs.pop().ok_or(foreign(KeyError { at: 0, kind: KeyErrorKind::Truncated }))?;
    Ok(Epochs { older: epochs, newest })
}

/// Set the epochs of the table whose list of them lies at `at`, oldest first.
pub(super) fn save(tx: &mut impl KvTx, at: &[u8], epochs: &[Epoch]) {
    let list: Vec<_> = epochs
        .iter()
        .map(|epoch| {
            let chosen = pack(epoch.salt.fields.as_slice());
            (epoch.number, HASH_VERSION, epoch.salt.buckets, chosen)
        })
        .collect();
    tx.put(at, &pack(list.as_slice()));
}
