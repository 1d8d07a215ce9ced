//! Any field in descending order.
//!
//! A reversed field is the body of a tuple with that one field (the field, then its terminator), every byte
//! complemented. The terminator makes encodings of different values differ before either ends, so that the
//! complement turns the order round exactly, also among texts of which one begins with the other.

use std::cmp::Ordering;

use super::decode::{Fields, KeyError, UnpackField};
use super::encode::PackField;
use super::{DEPTH_MAX, code};

/// A field that sorts from the greatest value down.
///
/// ```
/// use esker_layouts::tuple::{Desc, pack, unpack};
/// // The newest of a user's messages comes first.
/// assert!(pack(&("ann", Desc(20150102))) < pack(&("ann", Desc(20150101))));
/// assert!(pack(&(Desc("ab"),)) < pack(&(Desc("a"),)));
/// assert_eq!(unpack::<(Desc<u64>,)>(&pack(&(Desc(7u64),)))?.0.0, 7);
/// # Ok::<(), esker_layouts::tuple::KeyError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Desc<T>(pub T);

impl<T: Ord> Ord for Desc<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.0.cmp(&self.0)
    }
}

impl<T: PartialOrd> PartialOrd for Desc<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        other.0.partial_cmp(&self.0)
    }
}

/// `field` reversed.
pub(super) fn pack_reversed<T: PackField + ?Sized>(field: &T, out: &mut Vec<u8>, depth: usize) {
    assert!(depth < DEPTH_MAX, "tuples nest at most {DEPTH_MAX} deep");
    out.push(code::DESC);
    let start = out.len();
    field.pack_field(out, depth + 1);
    out.push(0);
    out.iter_mut().skip(start).for_each(|byte| *byte = !*byte);
}

/// Whether the encoded `field` is null, or null turned round, however often: it is the same value, in another order.
pub(crate) fn is_null(field: &[u8]) -> bool {
    let mut mask = 0;
    for byte in field {
        match byte ^ mask {
            // The one field in a reversed one follows, complemented once more.
            code::DESC => mask = !mask,
            code => return code == code::NULL,
        }
    }
    false
}

impl<T: PackField> PackField for Desc<T> {
    fn pack_field(&self, out: &mut Vec<u8>, depth: usize) {
        pack_reversed(&self.0, out, depth);
    }
}

impl<T: UnpackField> UnpackField for Desc<T> {
    fn unpack_field(fields: &mut Fields<'_>) -> Result<Self, KeyError> {
        fields.reversed(Fields::field).map(Desc)
    }
}
