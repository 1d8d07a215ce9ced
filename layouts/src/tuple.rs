//! The order-preserving tuple codec: typed fields as keys whose byte order is the fields' order.
//!
//! Byte-compatible with the FoundationDB tuple layer for null, byte strings, text, integers of up to 128
//! bits, 32- and 64-bit floats, booleans, UUIDs and nested tuples; the other types have codes that it leaves
//! to its users. `FORMAT.md` has the bytes.
//!
//! ```
//! use esker_layouts::tuple::{pack, unpack, Element};
//! let key = pack(&("users", 42, "name"));
//! assert_eq!(key, b"\x02users\0\x15\x2a\x02name\0");
//! let (table, id, field): (String, u64, String) = unpack(&key)?;
//! assert_eq!((table.as_str(), id, field.as_str()), ("users", 42, "name"));
//! assert_eq!(Element::unpack_all(&key)?[1], Element::Int(42));
//! # Ok::<(), esker_layouts::tuple::KeyError>(())
//! ```
//!
//! # Order
//!
//! Across types: null < bytes < text < nested tuple < integers < `f32` < `f64` < false < true < UUID <
//! descending < fixed width < calendar fields < time-ordered ids.
//! Within a type: bytes and text bytewise (text thus by code point, neither dictionary nor UTF-16
//! order); tuples field by field, a shorter one first; integers by value, whatever their width.
//! Bytes and text are two types: `b"a"` and `"a"` are two keys, and a range over one never holds the other.
//!
//! [`Desc`] turns the order of any field around, also that of text and of nested tuples. [`Fixed`] gives
//! numbers and ids one width; [`Utc`] is a moment as calendar fields, whose [`Period`]s are key ranges;
//! [`TimeUuid`] orders version-1 UUIDs by their time, and [`TimeIds`] makes ids that sort by themselves.
//!
//! # Floats
//!
//! All bits are kept and the order is IEEE 754 `totalOrder` (`f64::total_cmp`): −NaN < −∞ < … < −0 < +0
//! < … < +∞ < +NaN. So −0 and +0 are two keys, and so are NaNs with different payloads. Whoever wants
//! one key for what compares equal passes values through [`fold_f32`] or [`fold_f64`] first.
//!
//! # Invariants
//!
//! 1. One value, one encoding: the decoder refuses any bytes that the encoder would not write.
//! 2. Concatenating encodings concatenates tuples, so a tuple's key is a byte prefix of the keys of all
//!    tuples that continue it; [`Space::under`] ends such a range exactly.
//! 3. Decoding hostile bytes returns a [`KeyError`] with an offset; it neither panics nor allocates more
//!    than a small multiple of the input, and nesting is bounded by [`DEPTH_MAX`].

mod decode;
mod desc;
mod element;
mod encode;
mod find;
mod fixed;
mod key;
mod space;
mod time_uuid;
mod utc;

pub use decode::{Fields, KeyError, KeyErrorKind, Unpack, UnpackField, split, unpack};
pub(crate) use decode::{PackedFields, split_packed};
pub use desc::Desc;
pub(crate) use desc::is_null;
pub use element::Element;
pub(crate) use encode::put_escaped;
pub use encode::{Pack, PackField, Uuid, fold_f32, fold_f64, pack, pack_nested};
pub(crate) use find::find;
pub use fixed::{Fixed, FixedWidth, Hashed};
pub use key::{FieldOf, Key, Prefix};
pub use space::{KeyRange, Space};
pub use time_uuid::{TimeIds, TimeUuid};
pub use utc::{Period, Utc};

/// How deep tuples may nest: beyond it the decoder refuses and the encoder panics.
pub const DEPTH_MAX: usize = 64;

/// What the encoding of a text starts with.
pub(crate) const TEXT: u8 = code::TEXT;

/// Type codes, as in the FoundationDB tuple layer.
mod code {
    pub(super) const NULL: u8 = 0x00;
    pub(super) const BYTES: u8 = 0x01;
    pub(super) const TEXT: u8 = 0x02;
    pub(super) const NESTED: u8 = 0x05;
    /// A negative integer of more than eight bytes; the complement of its length follows.
    pub(super) const INT_LONG_NEGATIVE: u8 = 0x0B;
    /// Zero. A positive integer of n bytes has this plus n, a negative one this minus n.
    pub(super) const INT_ZERO: u8 = 0x14;
    /// A positive integer of more than eight bytes; its length follows.
    pub(super) const INT_LONG_POSITIVE: u8 = 0x1D;
    pub(super) const F32: u8 = 0x20;
    pub(super) const F64: u8 = 0x21;
    pub(super) const FALSE: u8 = 0x26;
    pub(super) const TRUE: u8 = 0x27;
    pub(super) const UUID: u8 = 0x30;
    // From here to 0x4F the FoundationDB tuple layer leaves the codes to its users.
    pub(super) const DESC: u8 = 0x40;
    pub(super) const FIXED: u8 = 0x41;
    pub(super) const UTC: u8 = 0x42;
    pub(super) const TIME_UUID: u8 = 0x43;
    /// After a zero byte: that zero is content, not the end.
    pub(super) const ESCAPE: u8 = 0xFF;
}

#[cfg(test)]
pub(crate) mod tests;
