//! Fields of one width, and digests in the place of fields.

use std::fmt;
use std::marker::PhantomData;

use md5::{Digest, Md5};

use super::code;
use super::decode::{Fields, KeyError, KeyErrorKind, UnpackField};
use super::encode::{PackField, Uuid};

/// A value whose ordered form has one width: integers and byte arrays of up to 255 bytes.
pub trait FixedWidth: Sized {
    /// The width in bytes, at most 255.
    const WIDTH: usize;
    /// Append the bytes, whose order is that of the values.
    fn put_ordered(&self, out: &mut Vec<u8>);
    /// The value that [`put_ordered`](Self::put_ordered) wrote; `None` for another width.
    fn from_ordered(bytes: &[u8]) -> Option<Self>;
}

/// A field of one width: two bytes and then the value, whatever it is. Plain integers take the fewest bytes
/// that hold them; where every key is to have the same length, or ids are random anyway, this is shorter or
/// at least even. Fields of different widths sort by width.
///
/// ```
/// use esker_layouts::tuple::{Fixed, pack};
/// assert_eq!(pack(&(Fixed(1u32),)).len(), pack(&(Fixed(u32::MAX),)).len());
/// assert!(pack(&(Fixed(-1i16),)) < pack(&(Fixed(0i16),)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Fixed<T>(pub T);

macro_rules! fixed_unsigned {
    ($($int:ident),+) => {$(
        impl FixedWidth for $int {
            const WIDTH: usize = size_of::<$int>();

            fn put_ordered(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_be_bytes());
            }

            fn from_ordered(bytes: &[u8]) -> Option<Self> {
                bytes.try_into().ok().map($int::from_be_bytes)
            }
        }
    )+};
}
fixed_unsigned!(u8, u16, u32, u64, u128);

macro_rules! fixed_signed {
    ($($int:ident as $unsigned:ident),+) => {$(
        impl FixedWidth for $int {
            const WIDTH: usize = size_of::<$int>();

            fn put_ordered(&self, out: &mut Vec<u8>) {
                // The sign bit turned over puts negative values first.
                (self.cast_unsigned() ^ $int::MIN.cast_unsigned()).put_ordered(out);
            }

            fn from_ordered(bytes: &[u8]) -> Option<Self> {
                $unsigned::from_ordered(bytes).map(|bits| (bits ^ $int::MIN.cast_unsigned()).cast_signed())
            }
        }
    )+};
}
fixed_signed!(i8 as u8, i16 as u16, i32 as u32, i64 as u64, i128 as u128);

impl<const N: usize> FixedWidth for [u8; N] {
    const WIDTH: usize = N;

    fn put_ordered(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn from_ordered(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok()
    }
}

/// `bytes`, at most 255 of them, as a fixed-width field.
pub(super) fn pack_fixed(bytes: &[u8], out: &mut Vec<u8>) {
    let width = u8::try_from(bytes.len());
    out.extend_from_slice(&[code::FIXED, width.expect("a fixed-width field has at most 255 bytes")]);
    out.extend_from_slice(bytes);
}

impl<T: FixedWidth> PackField for Fixed<T> {
    fn pack_field(&self, out: &mut Vec<u8>, _depth: usize) {
        const { assert!(T::WIDTH <= 255, "a fixed-width field has at most 255 bytes") };
        #[expect(clippy::cast_possible_truncation, reason = "asserted above")]
        out.extend_from_slice(&[code::FIXED, T::WIDTH as u8]);
        self.0.put_ordered(out);
    }
}

impl<T: FixedWidth> UnpackField for Fixed<T> {
    fn unpack_field(fields: &mut Fields<'_>) -> Result<Self, KeyError> {
        let at = fields.position();
        let bytes = fields.fixed()?;
        #[expect(clippy::cast_possible_truncation, reason = "at most 255")]
        let kind = KeyErrorKind::Width { expected: T::WIDTH, found: bytes.len() as u8 };
        T::from_ordered(&bytes).map(Fixed).ok_or(KeyError { at, kind })
    }
}

/// The digest of a field in its place: MD5 of its encoding, stored as a UUID field, as in
/// [`hashed`](crate::hashed) tables. Spreads skewed values evenly and gives them one length.
///
/// The value itself is gone: keep it in the row and compare it, for two values may have one digest, and
/// whoever chooses the values can make it so.
///
/// ```
/// use esker_layouts::tuple::{Hashed, pack, unpack};
/// let key = pack(&(Hashed::of("Вася"), 7));
/// let (user, _): (Hashed<str>, u64) = unpack(&key)?;
/// assert!(user.may_be("Вася") && !user.may_be("Оля"));
/// # Ok::<(), esker_layouts::tuple::KeyError>(())
/// ```
pub struct Hashed<T: ?Sized> {
    digest: [u8; 16],
    of: PhantomData<fn(&T)>,
}

impl<T: PackField + ?Sized> Hashed<T> {
    /// The digest of `value`.
    pub fn of(value: &T) -> Self {
        let mut encoded = Vec::with_capacity(32);
        value.pack_field(&mut encoded, 0);
        Hashed { digest: Md5::digest(&encoded).into(), of: PhantomData }
    }

    /// Whether this is the digest of `value`. True does not prove that it was made of it.
    pub fn may_be(&self, value: &T) -> bool {
        *self == Hashed::of(value)
    }
}

impl<T: ?Sized> Hashed<T> {
    /// The digest.
    pub fn digest(&self) -> [u8; 16] {
        self.digest
    }
}

impl<T: ?Sized> Clone for Hashed<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for Hashed<T> {}

impl<T: ?Sized> PartialEq for Hashed<T> {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl<T: ?Sized> Eq for Hashed<T> {}

impl<T: ?Sized> fmt::Debug for Hashed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hashed({})", Uuid(self.digest))
    }
}

impl<T: ?Sized> PackField for Hashed<T> {
    fn pack_field(&self, out: &mut Vec<u8>, depth: usize) {
        Uuid(self.digest).pack_field(out, depth);
    }
}

impl<T: ?Sized> UnpackField for Hashed<T> {
    fn unpack_field(fields: &mut Fields<'_>) -> Result<Self, KeyError> {
        Ok(Hashed { digest: fields.uuid()?.0, of: PhantomData })
    }
}
