//! Keys, sequence numbers and kinds: the words every floor shares.
//!
//! A *user key* is a byte string, ordered bytewise. An *internal key* adds the sequence number of
//! the write; internal keys order by user key ascending, then by sequence number **descending**, so
//! that the newest version of a key comes first. No two entries of one keyspace share both.

use std::cmp::Ordering;
use std::fmt;

/// The position of a write in commit order, from 1; 0 means "before every write".
///
/// Each operation of a batch takes one number. Numbers fit 56 bits so that a number and a kind fit
/// one 64-bit word.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SeqNo(pub u64);

impl SeqNo {
    /// Before every write.
    pub const ZERO: SeqNo = SeqNo(0);
    /// After every possible write: reading at `MAX` sees the newest version.
    pub const MAX: SeqNo = SeqNo((1 << 56) - 1);

    /// The number `n` places later. Panics past [`SeqNo::MAX`]: 2^56 writes are out of reach.
    #[must_use]
    #[inline]
    pub fn plus(self, n: u64) -> SeqNo {
        let sum = self.0 + n;
        assert!(sum <= Self::MAX.0, "sequence numbers are used up");
        SeqNo(sum)
    }
}

impl fmt::Debug for SeqNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", self.0)
    }
}

impl fmt::Display for SeqNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// What a write did. The discriminants are on disk: never renumber them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum Kind {
    /// The value is the key's new value.
    Put = 1,
    /// The key is gone (a point tombstone); the value is empty.
    Delete = 2,
    /// The value is an operand for the keyspace's merge operator.
    Merge = 3,
    /// Key and value are the bounds `[start, end)` of a range tombstone. Never in a data block:
    /// range tombstones are kept apart.
    RangeDelete = 4,
    /// As [`Kind::Put`], with the new value in a blob file; what stands in the value's place is a
    /// [`BlobPointer`](crate::blob::BlobPointer). Only in tables: no caller and no log writes it.
    BlobPut = 5,
}

impl Kind {
    /// Whether it gives the key a new value, wherever that lies.
    #[inline]
    pub fn is_put(self) -> bool {
        matches!(self, Kind::Put | Kind::BlobPut)
    }

    /// The kind of a byte from disk, or `None` for a byte no version of the format has used.
    ///
    /// ```
    /// use esker_base::Kind;
    /// assert_eq!(Kind::from_byte(1), Some(Kind::Put));
    /// assert_eq!(Kind::from_byte(9), None);
    /// ```
    #[inline]
    pub fn from_byte(byte: u8) -> Option<Kind> {
        match byte {
            1 => Some(Kind::Put),
            2 => Some(Kind::Delete),
            3 => Some(Kind::Merge),
            4 => Some(Kind::RangeDelete),
            5 => Some(Kind::BlobPut),
            _ => None,
        }
    }
}

/// A keyspace's number, never used again after the keyspace is dropped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct KeyspaceId(pub u32);

/// The number in a file's name. Logs, tables, blob files and manifests draw from one sequence; a number is
/// never used twice in a database's life.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct FileNumber(pub u64);

impl FileNumber {
    /// How many digits a name has at least.
    pub(crate) const DIGITS: usize = 6;
}

impl fmt::Display for FileNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:0digits$}", self.0, digits = FileNumber::DIGITS)
    }
}

/// Sixteen bytes made when a database is created, a hash of the moment and the place; every file carries them (or a
/// checksum seeded with them), so that a file of another database is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct DatabaseId(pub [u8; 16]);

/// A user key with the sequence number of its write, borrowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InternalKey<'a> {
    /// The user key.
    pub user: &'a [u8],
    /// The write's number.
    pub seqno: SeqNo,
}

impl<'a> InternalKey<'a> {
    /// The position a reader at `seqno` seeks to: the newest version of `user` not after `seqno`.
    pub fn new(user: &'a [u8], seqno: SeqNo) -> Self {
        InternalKey { user, seqno }
    }

    /// The position before every version of `user`.
    pub fn before_all(user: &'a [u8]) -> Self {
        InternalKey { user, seqno: SeqNo::MAX }
    }
}

impl Ord for InternalKey<'_> {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.user.cmp(other.user).then_with(|| other.seqno.cmp(&self.seqno))
    }
}

impl PartialOrd for InternalKey<'_> {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The first eight bytes of `key`, big-endian, padded with zeros: comparing two heads decides most
/// comparisons in one instruction. Equal heads decide nothing.
///
/// ```
/// use esker_base::key::head;
/// assert!(head(b"apple") < head(b"apply"));
/// assert_eq!(head(b"a"), head(b"a\0"));
/// ```
#[inline]
pub fn head(key: &[u8]) -> u64 {
    if let Some(first) = key.first_chunk::<8>() {
        return u64::from_be_bytes(*first);
    }
    let mut bytes = [0u8; 8];
    bytes[..key.len()].copy_from_slice(key);
    u64::from_be_bytes(bytes)
}

/// `a.cmp(b)`, without a call where their heads decide.
///
/// ```
/// use std::cmp::Ordering;
/// use esker_base::key::compare;
/// assert_eq!(compare(b"apple", b"apply"), Ordering::Less);
/// assert_eq!(compare(b"a\0", b"a"), Ordering::Greater);
/// ```
#[inline]
pub fn compare(a: &[u8], b: &[u8]) -> Ordering {
    head(a).cmp(&head(b)).then_with(|| a.cmp(b))
}

/// `key` without `prefix`, or `None` if it does not start with it. For prefixes of a few bytes, which all keys
/// of a block or table share: compared here, where `<[u8]>::strip_prefix` calls the system's `memcmp`.
///
/// ```
/// use esker_base::key::strip_prefix;
/// assert_eq!(strip_prefix(b"user/7", b"user/"), Some(&b"7"[..]));
/// assert_eq!(strip_prefix(b"use", b"user/"), None);
/// ```
#[inline]
pub fn strip_prefix<'a>(key: &'a [u8], prefix: &[u8]) -> Option<&'a [u8]> {
    let (front, rest) = key.split_at_checked(prefix.len())?;
    let same = match prefix.len() {
        0..4 => front.iter().eq(prefix),
        // The same bytes twice, where the halves meet.
        4..=8 => {
            front.first_chunk::<4>() == prefix.first_chunk::<4>()
                && front.last_chunk::<4>() == prefix.last_chunk::<4>()
        }
        _ => front == prefix,
    };
    same.then_some(rest)
}

/// Whether two keys are the same. For keys that mostly are the same: keys of eight to sixteen bytes are
/// compared here, not by a call.
///
/// ```
/// use esker_base::key::equal;
/// assert!(equal(b"user/0001/name", b"user/0001/name") && !equal(b"user/0001/name", b"user/0001/note"));
/// ```
#[inline]
pub fn equal(a: &[u8], b: &[u8]) -> bool {
    match a.len() {
        // The same bytes twice, where the halves meet.
        8..=16 if b.len() == a.len() => {
            a.first_chunk::<8>() == b.first_chunk::<8>() && a.last_chunk::<8>() == b.last_chunk::<8>()
        }
        _ => a == b,
    }
}

/// The length of the prefix that `a` and `b` share.
///
/// ```
/// use esker_base::key::shared_prefix;
/// assert_eq!(shared_prefix(b"user/0001/name", b"user/0001/note"), 11);
/// ```
#[inline]
pub fn shared_prefix(a: &[u8], b: &[u8]) -> usize {
    let mut shared = 0;
    // Eight bytes a step: block encoding and in-block searches spend much of their time here.
    for (x, y) in a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0) {
        let difference = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if difference != 0 {
            return shared + difference.trailing_zeros() as usize / 8;
        }
        shared += 8;
    }
    shared + a[shared..].iter().zip(&b[shared..]).take_while(|(x, y)| x == y).count()
}

/// The smallest key after `key`.
///
/// ```
/// use esker_base::key::after;
/// assert_eq!(after(b"user"), b"user\0");
/// ```
pub fn after(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// The smallest key after every key that starts with `prefix`, or `None` if there is none (an empty
/// prefix, or one of only 0xFF bytes).
///
/// ```
/// use esker_base::key::prefix_end;
/// assert_eq!(prefix_end(b"user"), Some(b"uses".to_vec()));
/// assert_eq!(prefix_end(b"a\xff"), Some(b"b".to_vec()));
/// assert_eq!(prefix_end(b"\xff\xff"), None);
/// ```
pub fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&b| b != 0xFF)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}
