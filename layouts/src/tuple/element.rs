//! A field whose type is known only at run time: for tools that show or compare any key.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

use super::code;
use super::decode::{Fields, KeyError, KeyErrorKind};
use super::desc::pack_reversed;
use super::encode::{Pack, PackField, Uuid, pack_nested};
use super::fixed::pack_fixed;
use super::time_uuid::TimeUuid;
use super::utc::Utc;

/// One field of a tuple.
///
/// Compares as its encoding does: see the order in [`tuple`](super).
#[derive(Clone, Debug)]
pub enum Element<'a> {
    /// Nothing.
    Null,
    /// A byte string.
    Bytes(Cow<'a, [u8]>),
    /// Text.
    Text(Cow<'a, str>),
    /// A nested tuple.
    Tuple(Vec<Element<'a>>),
    /// An integer.
    Int(i128),
    /// A 32-bit float, all bits kept.
    F32(f32),
    /// A 64-bit float, all bits kept.
    F64(f64),
    /// A boolean.
    Bool(bool),
    /// A UUID.
    Uuid(Uuid),
    /// A field in descending order.
    Desc(Box<Element<'a>>),
    /// A fixed-width field: the ordered bytes, at most 255.
    Fixed(Cow<'a, [u8]>),
    /// Calendar fields.
    Utc(Utc),
    /// A re-ordered version-1 UUID.
    TimeUuid(TimeUuid),
}

impl<'a> Element<'a> {
    /// Every field of `key`.
    pub fn unpack_all(key: &'a [u8]) -> Result<Vec<Element<'a>>, KeyError> {
        Self::rest_of(&mut Fields::new(key))
    }

    /// The fields that are left in the tuple that `fields` stands in.
    pub(super) fn rest_of(fields: &mut Fields<'a>) -> Result<Vec<Element<'a>>, KeyError> {
        let mut elements = Vec::new();
        while !fields.at_end() {
            elements.push(Element::unpack(fields)?);
        }
        Ok(elements)
    }

    /// The next field, whatever its type.
    pub fn unpack(fields: &mut Fields<'a>) -> Result<Element<'a>, KeyError> {
        let found = fields.code()?;
        Ok(match found {
            code::NULL => {
                fields.null()?;
                Element::Null
            }
            code::BYTES => Element::Bytes(fields.bytes()?),
            code::TEXT => Element::Text(fields.text()?),
            code::NESTED => Element::Tuple(fields.nested(Element::rest_of)?),
            code::INT_LONG_NEGATIVE..=code::INT_LONG_POSITIVE => Element::Int(fields.int()?),
            code::F32 => Element::F32(fields.f32()?),
            code::F64 => Element::F64(fields.f64()?),
            code::FALSE | code::TRUE => Element::Bool(fields.bool()?),
            code::UUID => Element::Uuid(fields.uuid()?),
            code::DESC => Element::Desc(Box::new(fields.reversed(Element::unpack)?)),
            code::FIXED => Element::Fixed(fields.fixed()?),
            code::UTC => Element::Utc(fields.utc()?),
            code::TIME_UUID => Element::TimeUuid(fields.time_uuid()?),
            _ => return Err(fields.error(KeyErrorKind::UnknownCode(found))),
        })
    }

    /// The place of the element's type in the order of types.
    fn rank(&self) -> u8 {
        match self {
            Element::Null => code::NULL,
            Element::Bytes(_) => code::BYTES,
            Element::Text(_) => code::TEXT,
            Element::Tuple(_) => code::NESTED,
            Element::Int(_) => code::INT_ZERO,
            Element::F32(_) => code::F32,
            Element::F64(_) => code::F64,
            Element::Bool(false) => code::FALSE,
            Element::Bool(true) => code::TRUE,
            Element::Uuid(_) => code::UUID,
            Element::Desc(_) => code::DESC,
            Element::Fixed(_) => code::FIXED,
            Element::Utc(_) => code::UTC,
            Element::TimeUuid(_) => code::TIME_UUID,
        }
    }
}

impl PackField for Element<'_> {
    fn pack_field(&self, out: &mut Vec<u8>, depth: usize) {
        match self {
            Element::Null => None::<bool>.pack_field(out, depth),
            Element::Bytes(bytes) => bytes.as_ref().pack_field(out, depth),
            Element::Text(text) => text.as_ref().pack_field(out, depth),
            Element::Tuple(fields) => pack_nested(fields.as_slice() as &[Element<'_>], out, depth),
            Element::Int(value) => value.pack_field(out, depth),
            Element::F32(value) => value.pack_field(out, depth),
            Element::F64(value) => value.pack_field(out, depth),
            Element::Bool(value) => value.pack_field(out, depth),
            Element::Uuid(value) => value.pack_field(out, depth),
            Element::Desc(field) => pack_reversed(field.as_ref(), out, depth),
            Element::Fixed(bytes) => pack_fixed(bytes, out),
            Element::Utc(value) => value.pack_field(out, depth),
            Element::TimeUuid(value) => value.pack_field(out, depth),
        }
    }
}

impl Pack for Element<'_> {
    /// A single element as a key of one field.
    fn pack_at(&self, out: &mut Vec<u8>, depth: usize) {
        self.pack_field(out, depth);
    }
}

impl Ord for Element<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Element::Bytes(a), Element::Bytes(b)) => a.cmp(b),
            (Element::Text(a), Element::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
            (Element::Tuple(a), Element::Tuple(b)) => a.cmp(b),
            (Element::Int(a), Element::Int(b)) => a.cmp(b),
            (Element::F32(a), Element::F32(b)) => a.total_cmp(b),
            (Element::F64(a), Element::F64(b)) => a.total_cmp(b),
            (Element::Uuid(a), Element::Uuid(b)) => a.cmp(b),
            (Element::Desc(a), Element::Desc(b)) => b.cmp(a),
            (Element::Fixed(a), Element::Fixed(b)) => (a.len(), a).cmp(&(b.len(), b)),
            (Element::Utc(a), Element::Utc(b)) => a.cmp(b),
            (Element::TimeUuid(a), Element::TimeUuid(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Element<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Element<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Element<'_> {}

/// As people read it: `null`, `b"…"`, `"…"`, `(…)`, numbers, `true`, UUIDs in hex groups, `desc(…)`,
/// `fixed(0x…)`, `utc(2014-12-24T18:30:00.000Z)`, `v1(…)`.
impl fmt::Display for Element<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Element::Null => f.write_str("null"),
            Element::Bytes(bytes) => write!(f, "b\"{}\"", bytes.escape_ascii()),
            Element::Text(text) => write!(f, "{text:?}"),
            Element::Tuple(fields) => {
                f.write_str("(")?;
                for (i, field) in fields.iter().enumerate() {
                    write!(f, "{}{field}", if i > 0 { ", " } else { "" })?;
                }
                f.write_str(")")
            }
            Element::Int(value) => write!(f, "{value}"),
            Element::F32(value) => write!(f, "{value:?}f32"),
            Element::F64(value) => write!(f, "{value:?}"),
            Element::Bool(value) => write!(f, "{value}"),
            Element::Uuid(value) => value.fmt(f),
            Element::Desc(field) => write!(f, "desc({field})"),
            Element::Fixed(bytes) => {
                f.write_str("fixed(0x")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
                f.write_str(")")
            }
            Element::Utc(value) => write!(f, "utc({value})"),
            Element::TimeUuid(value) => write!(f, "v1({})", value.uuid()),
        }
    }
}
