//! How keys are spread, now and before.

use xxhash_rust::xxh3::xxh3_64;

use super::LAYOUT;
use crate::kv::{KvRead, KvTx};
use crate::tuple::{Fields, KeyError, KeyErrorKind, Space, pack};
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
        let chosen: Option<Vec<&[u8]>> =
            self.fields.iter().map(|place| fields.get(usize::try_from(*place).ok()?).copied()).collect();
        let hash = xxh3_64(&chosen?.concat());
        u32::try_from(hash % u64::from(self.buckets)).ok()
    }
}

/// A salt that rows lie under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Epoch {
    pub(super) number: u64,
    pub(super) salt: Salt,
}

impl Epoch {
    /// The rows of a bucket.
    pub(super) fn rows(&self, space: &Space, bucket: u32) -> Space {
        space.sub(&(ROWS, self.number, bucket))
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

/// The epochs of the table in `space`.
pub(super) fn load(read: &impl KvRead, space: &Space) -> Result<Epochs> {
    let at = space.key(&(EPOCHS,));
    let stored = read.get(&at)?.unwrap_or_default();
    let foreign = |error: KeyError| Error::foreign(LAYOUT, &at, error);
    let mut fields = Fields::new(&stored);
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

/// Set the epochs of the table in `space`, oldest first.
pub(super) fn save(tx: &mut impl KvTx, space: &Space, epochs: &[Epoch]) {
    let list: Vec<_> = epochs
        .iter()
        .map(|epoch| {
            let chosen = pack(epoch.salt.fields.as_slice());
            (epoch.number, HASH_VERSION, epoch.salt.buckets, chosen)
        })
        .collect();
    tx.put(&space.key(&(EPOCHS,)), &pack(list.as_slice()));
}
