//! Writing fields: values to bytes.

use std::fmt;

use super::decode::{KeyError, PackedFields};
use super::find::find;
use super::{DEPTH_MAX, code};

/// A UUID: sixteen bytes, ordered bytewise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Uuid(pub [u8; 16]);

/// In hex groups: `00112233-4455-6677-8899-aabbccddeeff`.
impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            write!(f, "{}{byte:02x}", if matches!(i, 4 | 6 | 8 | 10) { "-" } else { "" })?;
        }
        Ok(())
    }
}

/// A value that is one field of a tuple.
pub trait PackField {
    /// Append the field's encoding. `depth` is 0 for a field of the key itself and grows by one inside
    /// each nested tuple: a null is written differently there.
    fn pack_field(&self, out: &mut Vec<u8>, depth: usize);
}

/// A tuple of fields: a whole key, or the first fields of one. Implemented for Rust tuples of up to
/// eight fields (a one-field tuple is `(x,)`), for `()` and for slices of fields.
pub trait Pack {
    /// Append the encodings of all fields.
    fn pack_into(&self, out: &mut Vec<u8>) {
        self.pack_at(out, 0);
    }

    /// Append the encodings of all fields of a tuple that lies `depth` tuples deep.
    fn pack_at(&self, out: &mut Vec<u8>, depth: usize);

    /// As [`pack_into`](Self::pack_into); hands what `out` then holds to `behind` after each field. Unless
    /// written anew, looks for the ends in what was packed, and errs if that is no tuple.
    ///
    /// ```
    /// use esker_layouts::tuple::Pack;
    /// let (mut key, mut ends) = (Vec::new(), Vec::new());
    /// ("ann", 7).pack_each(&mut key, &mut |packed| ends.push(packed.len()))?;
    /// assert_eq!(ends, [5, 7]); // a code, three letters and an end; a code and a byte
    /// # Ok::<(), esker_layouts::tuple::KeyError>(())
    /// ```
    fn pack_each(&self, out: &mut Vec<u8>, behind: &mut impl FnMut(&[u8])) -> Result<(), KeyError> {
        let start = out.len();
        self.pack_into(out);
        let mut fields = PackedFields::new(out.get(start..).unwrap_or_default());
        while fields.next()?.is_some() {
            behind(out.get(..start + fields.position()).unwrap_or_default());
        }
        Ok(())
    }
}

/// The key of a tuple.
///
/// # Panics
/// If tuples, and fields in descending order, nest more than [`DEPTH_MAX`] (64) deep.
///
/// ```
/// use esker_layouts::tuple::pack;
/// assert!(pack(&("a", -5)) < pack(&("a", 3)));
/// assert!(pack(&("a", 300)) < pack(&("b", 3)));
/// ```
pub fn pack<K: Pack + ?Sized>(key: &K) -> Vec<u8> {
    let mut out = Vec::with_capacity(32);
    key.pack_into(&mut out);
    out
}

/// One key for floats that compare equal: −0 becomes +0, every NaN the positive quiet one.
///
/// ```
/// use esker_layouts::tuple::{fold_f64, pack};
/// assert_ne!(pack(&(-0.0,)), pack(&(0.0,)));
/// assert_eq!(pack(&(fold_f64(-0.0),)), pack(&(fold_f64(0.0),)));
/// ```
pub fn fold_f64(x: f64) -> f64 {
    if x.is_nan() { f64::NAN.copysign(1.0) } else { x + 0.0 }
}

/// [`fold_f64`] for 32-bit floats.
pub fn fold_f32(x: f32) -> f32 {
    if x.is_nan() { f32::NAN.copysign(1.0) } else { x + 0.0 }
}

/// `content` with every zero byte escaped, without the final terminator.
pub(crate) fn put_escaped(out: &mut Vec<u8>, content: &[u8]) {
    if find([0], content).is_none() {
        out.extend_from_slice(content);
        return;
    }
    for (i, run) in content.split(|&b| b == 0).enumerate() {
        if i > 0 {
            out.extend_from_slice(&[0, code::ESCAPE]);
        }
        out.extend_from_slice(run);
    }
}

#[inline]
fn put_int(out: &mut Vec<u8>, value: i128) {
    if let Ok(value) = u64::try_from(value) {
        put_u64(out, value);
    } else {
        put_other_int(out, value);
    }
}

/// An integer of at most eight bytes, not negative. All eight are written and those too many cut off: a copy
/// of known length is one instruction.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "at most 8")]
fn put_u64(out: &mut Vec<u8>, value: u64) {
    let skip = value.leading_zeros() / 8;
    let mut bytes = [0; 9];
    bytes[0] = code::INT_ZERO + 8 - skip as u8;
    bytes[1..].copy_from_slice(&value.unbounded_shl(8 * skip).to_be_bytes());
    out.extend_from_slice(&bytes);
    out.truncate(out.len() - skip as usize);
}

fn put_other_int(out: &mut Vec<u8>, value: i128) {
    let bytes = value.unsigned_abs().to_be_bytes();
    let skip = bytes.iter().take_while(|&&b| b == 0).count();
    let magnitude = &bytes[skip..];
    #[expect(clippy::cast_possible_truncation, reason = "at most 16")]
    let len = magnitude.len() as u8;
    if value < 0 {
        if len <= 8 {
            out.push(code::INT_ZERO - len);
        } else {
            out.extend_from_slice(&[code::INT_LONG_NEGATIVE, !len]);
        }
        out.extend(magnitude.iter().map(|b| !b));
    } else {
        out.extend_from_slice(&[code::INT_LONG_POSITIVE, len]);
        out.extend_from_slice(magnitude);
    }
}

impl<T: PackField + ?Sized> PackField for &T {
    fn pack_field(&self, out: &mut Vec<u8>, depth: usize) {
        (**self).pack_field(out, depth);
    }
}

impl<T: PackField> PackField for Option<T> {
    /// `None` is the null field.
    fn pack_field(&self, out: &mut Vec<u8>, depth: usize) {
        match self {
            Some(value) => value.pack_field(out, depth),
            None if depth > 0 => out.extend_from_slice(&[code::NULL, code::ESCAPE]),
            None => out.push(code::NULL),
        }
    }
}

impl PackField for [u8] {
    fn pack_field(&self, out: &mut Vec<u8>, _depth: usize) {
        out.push(code::BYTES);
        put_escaped(out, self);
        out.push(0);
    }
}

impl PackField for Vec<u8> {
    fn pack_field(&self, out: &mut Vec<u8>, depth: usize) {
        self.as_slice().pack_field(out, depth);
    }
}

impl PackField for str {
    fn pack_field(&self, out: &mut Vec<u8>, _depth: usize) {
        out.push(code::TEXT);
        put_escaped(out, self.as_bytes());
        out.push(0);
    }
}

impl PackField for String {
    fn pack_field(&self, out: &mut Vec<u8>, depth: usize) {
        self.as_str().pack_field(out, depth);
    }
}

macro_rules! pack_integers {
    ($($int:ty),+) => {$(
        impl PackField for $int {
            fn pack_field(&self, out: &mut Vec<u8>, _depth: usize) {
                put_int(out, i128::from(*self));
            }
        }
    )+};
}
pack_integers!(i8, i16, i32, i64, i128, u16, u32, u64);

impl PackField for f32 {
    fn pack_field(&self, out: &mut Vec<u8>, _depth: usize) {
        let bits = self.to_bits();
        let ordered = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
        out.push(code::F32);
        out.extend_from_slice(&ordered.to_be_bytes());
    }
}

impl PackField for f64 {
    fn pack_field(&self, out: &mut Vec<u8>, _depth: usize) {
        let bits = self.to_bits();
        let ordered = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
        out.push(code::F64);
        out.extend_from_slice(&ordered.to_be_bytes());
    }
}

impl PackField for bool {
    fn pack_field(&self, out: &mut Vec<u8>, _depth: usize) {
        out.push(if *self { code::TRUE } else { code::FALSE });
    }
}

impl PackField for Uuid {
    fn pack_field(&self, out: &mut Vec<u8>, _depth: usize) {
        out.push(code::UUID);
        out.extend_from_slice(&self.0);
    }
}

/// Append `tuple` as one field of a tuple that lies `depth` tuples deep: its fields between a code and a
/// terminator. For key types of one's own that are fields of others.
pub fn pack_nested<K: Pack + ?Sized>(tuple: &K, out: &mut Vec<u8>, depth: usize) {
    assert!(depth < DEPTH_MAX, "tuples nest at most {DEPTH_MAX} deep");
    out.push(code::NESTED);
    tuple.pack_at(out, depth + 1);
    out.push(0);
}

impl Pack for () {
    fn pack_at(&self, _out: &mut Vec<u8>, _depth: usize) {}
}

impl PackField for () {
    fn pack_field(&self, out: &mut Vec<u8>, depth: usize) {
        pack_nested(self, out, depth);
    }
}

impl<T: PackField> Pack for [T] {
    fn pack_at(&self, out: &mut Vec<u8>, depth: usize) {
        for field in self {
            field.pack_field(out, depth);
        }
    }

    fn pack_each(&self, out: &mut Vec<u8>, behind: &mut impl FnMut(&[u8])) -> Result<(), KeyError> {
        for field in self {
            field.pack_field(out, 0);
            behind(out);
        }
        Ok(())
    }
}

macro_rules! pack_tuples {
    ($(($($field:ident $index:tt),+))+) => {$(
        impl<$($field: PackField),+> Pack for ($($field,)+) {
            fn pack_at(&self, out: &mut Vec<u8>, depth: usize) {
                $(self.$index.pack_field(out, depth);)+
            }

            #[inline]
            fn pack_each(
                &self,
                out: &mut Vec<u8>,
                behind: &mut impl FnMut(&[u8]),
            ) -> Result<(), KeyError> {
                $(
                    self.$index.pack_field(out, 0);
                    behind(out);
                )+
                Ok(())
            }
        }

        impl<$($field: PackField),+> PackField for ($($field,)+) {
            fn pack_field(&self, out: &mut Vec<u8>, depth: usize) {
                pack_nested(self, out, depth);
            }
        }
    )+};
}
pack_tuples! {
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7)
}
