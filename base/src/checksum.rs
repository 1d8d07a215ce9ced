//! Checksums and hashes, each with one fixed algorithm: they are on disk.
//!
//! Stored bytes carry a CRC-32 (IEEE 802.3) seeded with where they belong (database, file, offset),
//! so that a valid piece in the wrong place is refused. Filters, the cache and salting use XXH3-64.

use crate::planted::{self, Planted};
use crate::{DatabaseId, FileNumber};

/// The seed for everything in one file: a CRC state that has consumed the database's id and the
/// file's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChecksumSeed(u32);

impl ChecksumSeed {
    /// The seed of file `number` in database `database`.
    pub fn new(database: DatabaseId, number: FileNumber) -> Self {
        if planted::is(Planted::PlacelessChecksum) {
            return ChecksumSeed(0);
        }
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&database.0);
        hasher.update(&number.0.to_le_bytes());
        ChecksumSeed(hasher.finalize())
    }

    /// The checksum of the pieces `parts`, in order, standing at `offset` of the file.
    ///
    /// ```
    /// use esker_base::checksum::ChecksumSeed;
    /// use esker_base::{DatabaseId, FileNumber};
    /// let seed = ChecksumSeed::new(DatabaseId([7; 16]), FileNumber(3));
    /// assert_eq!(seed.checksum(0, &[b"ab", b"c"]), seed.checksum(0, &[b"abc"]));
    /// assert_ne!(seed.checksum(0, &[b"abc"]), seed.checksum(1, &[b"abc"]));
    /// ```
    #[inline]
    pub fn checksum(self, offset: u64, parts: &[&[u8]]) -> u32 {
        Checksums::new(self).of_parts(offset, parts)
    }
}

/// Makes many small checksums of one file: how this processor computes them is looked up once.
#[derive(Clone, Debug)]
pub struct Checksums {
    begun: crc32fast::Hasher,
}

impl Checksums {
    /// The checksums of the file with this `seed`.
    pub fn new(seed: ChecksumSeed) -> Self {
        Checksums { begun: crc32fast::Hasher::new_with_initial(seed.0) }
    }

    /// [`ChecksumSeed::checksum`] of one piece, at the offset that stands in front of it as eight little-endian
    /// bytes: in one run, which costs less than two.
    ///
    /// ```
    /// use esker_base::checksum::{Checksums, ChecksumSeed};
    /// use esker_base::{DatabaseId, FileNumber};
    /// let seed = ChecksumSeed::new(DatabaseId([7; 16]), FileNumber(3));
    /// let placed = [&64u64.to_le_bytes()[..], b"abc"].concat();
    /// assert_eq!(Checksums::new(seed).of_placed(&placed), seed.checksum(64, &[b"abc"]));
    /// ```
    #[inline]
    pub fn of_placed(&self, placed: &[u8]) -> u32 {
        let mut hasher = self.begun.clone();
        if planted::is(Planted::PlacelessChecksum) {
            hasher.update(&[0; 8]);
            hasher.update(placed.get(8..).unwrap_or_default());
        } else {
            hasher.update(placed);
        }
        hasher.finalize()
    }

    /// [`ChecksumSeed::checksum`] of the pieces `parts`, in order, standing at `offset`.
    ///
    /// ```
    /// use esker_base::checksum::{Checksums, ChecksumSeed};
    /// use esker_base::{DatabaseId, FileNumber};
    /// let seed = ChecksumSeed::new(DatabaseId([7; 16]), FileNumber(3));
    /// assert_eq!(Checksums::new(seed).of_parts(64, &[b"ab", b"c"]), seed.checksum(64, &[b"abc"]));
    /// ```
    #[inline]
    pub fn of_parts(&self, offset: u64, parts: &[&[u8]]) -> u32 {
        let mut hasher = self.begun.clone();
        let offset = if planted::is(Planted::PlacelessChecksum) { 0 } else { offset };
        hasher.update(&offset.to_le_bytes());
        for part in parts {
            hasher.update(part);
        }
        hasher.finalize()
    }
}

/// XXH3-64 of a user key. Computed once a lookup and reused for filters, block tags and the cache.
#[inline]
pub fn key_hash(key: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(key)
}

/// A hash of one entry for an order-independent sum over a table's content: compaction proves with
/// it that what it wrote is what it meant to write.
#[inline]
pub fn entry_hash(key: &[u8], seqno: u64, kind: u8, value: &[u8]) -> u64 {
    let seed = xxhash_rust::xxh3::xxh3_64_with_seed(key, seqno ^ (u64::from(kind) << 56));
    xxhash_rust::xxh3::xxh3_64_with_seed(value, seed)
}
