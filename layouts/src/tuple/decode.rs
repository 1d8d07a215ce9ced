//! Reading fields: hostile bytes to values or a typed error.

use std::borrow::Cow;

use super::element::Element;
use super::encode::Uuid;
use super::find::find;
use super::time_uuid::TimeUuid;
use super::utc::Utc;
use super::{DEPTH_MAX, code};

/// Why bytes are not the tuple that was asked for, and where in the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at byte {at} of the key: {kind}")]
pub struct KeyError {
    /// Offset from the start of the key, in bytes.
    pub at: usize,
    /// What is wrong there.
    pub kind: KeyErrorKind,
}

/// What can be wrong with the bytes of a tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyErrorKind {
    /// The key ends inside a field, or has fewer fields than asked for.
    #[error("the key ends too early")]
    Truncated,
    /// No type has this code.
    #[error("no field type has code 0x{0:02x}")]
    UnknownCode(u8),
    /// A field of another type than asked for.
    #[error("expected {expected}, found type code 0x{found:02x}")]
    WrongType {
        /// The type asked for.
        expected: &'static str,
        /// The code found.
        found: u8,
    },
    /// Bytes that the encoder never writes: an integer with leading zeros.
    #[error("the integer is not in its shortest form")]
    NotCanonical,
    /// The integer does not fit the type asked for.
    #[error("the integer does not fit {0}")]
    IntegerRange(&'static str),
    /// Text that is not UTF-8.
    #[error("the text is not UTF-8")]
    NotUtf8,
    /// Tuples nest deeper than [`DEPTH_MAX`].
    #[error("tuples nest deeper than {DEPTH_MAX}")]
    TooDeep,
    /// The key has more fields than asked for.
    #[error("the key goes on after the last field asked for")]
    TrailingFields,
    /// A fixed-width field of another width than asked for.
    #[error("expected a field of {expected} fixed bytes, found {found}")]
    Width {
        /// The width asked for, in bytes.
        expected: usize,
        /// The width found.
        found: u8,
    },
    /// Calendar fields that are no date and time, such as 30 February.
    #[error("the calendar fields are no date and time")]
    NotADate,
    /// Bytes that are no re-ordered version-1 UUID.
    #[error("the bytes are no time-ordered id")]
    NotATimeId,
    /// An enum has no variant with this tag.
    #[error("{of} has no variant with tag {tag}")]
    UnknownVariant {
        /// The enum.
        of: &'static str,
        /// The tag found.
        tag: u32,
    },
    /// The bytes before the tuple are not this space's prefix.
    #[error("the key lies outside this key space")]
    OtherSpace,
}

/// `content` if it is UTF-8. Not inlined: so the answer comes in registers. The standard library's own, which is not
/// inlined either, comes in memory, from where it is read in another width than it was written: a stall a row.
#[inline(never)]
fn utf8(content: &[u8]) -> Option<&str> {
    std::str::from_utf8(content).ok()
}

/// Reads the fields of one key in order.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    key: &'a [u8],
    at: usize,
    depth: usize,
    /// 0xFF inside a reversed field, whose bytes are complemented; 0 elsewhere.
    mask: u8,
}

impl<'a> Fields<'a> {
    /// The fields of the tuple that `key` is.
    pub fn new(key: &'a [u8]) -> Self {
        Fields::starting_at(key, 0)
    }

    /// The fields of the tuple that starts at byte `at` of `key`; offsets in errors count from 0.
    pub fn starting_at(key: &'a [u8], at: usize) -> Self {
        Fields { key, at, depth: 0, mask: 0 }
    }

    /// The offset of the next field.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Whether there is no further field in the current tuple.
    pub fn at_end(&self) -> bool {
        if self.depth == 0 {
            self.at >= self.key.len()
        } else {
            self.peek() == Some(0) && self.byte(self.at + 1) != Some(code::ESCAPE)
        }
    }

    /// The next field as `T`.
    pub fn field<T: UnpackField>(&mut self) -> Result<T, KeyError> {
        T::unpack_field(self)
    }

    /// Refuse further fields.
    pub fn finish(&self) -> Result<(), KeyError> {
        if self.at < self.key.len() { Err(self.error(KeyErrorKind::TrailingFields)) } else { Ok(()) }
    }

    pub(super) fn error(&self, kind: KeyErrorKind) -> KeyError {
        KeyError { at: self.at, kind }
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.key.get(at).map(|byte| byte ^ self.mask)
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.byte(self.at)
    }

    pub(super) fn code(&self) -> Result<u8, KeyError> {
        self.peek().ok_or(self.error(KeyErrorKind::Truncated))
    }

    #[cold]
    fn wrong_type(&self, expected: &'static str, found: u8) -> KeyError {
        self.error(KeyErrorKind::WrongType { expected, found })
    }

    #[inline]
    fn expect(&mut self, wanted: u8, expected: &'static str) -> Result<(), KeyError> {
        let found = self.code()?;
        if found != wanted {
            return Err(self.wrong_type(expected, found));
        }
        self.at += 1;
        Ok(())
    }

    #[inline]
    fn take<const N: usize>(&mut self) -> Result<[u8; N], KeyError> {
        let rest = self.key.get(self.at..).unwrap_or_default();
        let bytes = rest.first_chunk::<N>().ok_or(self.error(KeyErrorKind::Truncated))?;
        self.at += N;
        Ok(bytes.map(|byte| byte ^ self.mask))
    }

    /// `bytes` of the key as the encoder meant them.
    fn plain(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        if self.mask == 0 {
            Cow::Borrowed(bytes)
        } else {
            Cow::Owned(bytes.iter().map(|byte| byte ^ self.mask).collect())
        }
    }

    /// The content of a byte string or text after its code, unless it holds escaped zeros or is reversed: then
    /// [`escaped_or_reversed`](Self::escaped_or_reversed) reads it.
    #[inline(always)]
    fn unescaped(&mut self) -> Option<&'a [u8]> {
        if self.mask != 0 {
            return None;
        }
        let rest = self.key.get(self.at..).unwrap_or_default();
        let len = find([0], rest).filter(|len| rest.get(len + 1) != Some(&code::ESCAPE))?;
        self.at += len + 1;
        rest.get(..len)
    }

    /// The same for any content, borrowed where it can be.
    #[inline(never)]
    fn escaped_or_reversed(&mut self) -> Result<Cow<'a, [u8]>, KeyError> {
        let mut owned: Option<Vec<u8>> = None;
        loop {
            let rest = self.key.get(self.at..).unwrap_or_default();
            let len =
                rest.iter().position(|&b| b == self.mask).ok_or(self.error(KeyErrorKind::Truncated))?;
            let (run, after) = rest.split_at(len);
            if after.get(1) == Some(&(code::ESCAPE ^ self.mask)) {
                self.at += len + 2;
                let content = owned.get_or_insert_default();
                content.extend(run.iter().map(|byte| byte ^ self.mask));
                content.push(0);
                continue;
            }
            self.at += len + 1;
            return Ok(match owned {
                None => self.plain(run),
                Some(mut content) => {
                    content.extend(run.iter().map(|byte| byte ^ self.mask));
                    Cow::Owned(content)
                }
            });
        }
    }

    /// The next field, a byte string, borrowed or else unescaped into `scratch`, which is cleared first.
    pub(crate) fn bytes_in<'s>(&mut self, scratch: &'s mut Vec<u8>) -> Result<&'s [u8], KeyError>
    where
        'a: 's,
    {
        self.expect(code::BYTES, "bytes")?;
        scratch.clear();
        loop {
            let rest = self.key.get(self.at..).unwrap_or_default();
            let len = find([0], rest).ok_or(self.error(KeyErrorKind::Truncated))?;
            let (run, after) = rest.split_at(len);
            if after.get(1) == Some(&code::ESCAPE) {
                self.at += len + 2;
                scratch.extend_from_slice(run);
                scratch.push(0);
                continue;
            }
            self.at += len + 1;
            if scratch.is_empty() {
                return Ok(run);
            }
            scratch.extend_from_slice(run);
            return Ok(scratch);
        }
    }

    /// Pass over the next field, whatever its type. It is not decoded: that it ends is all that is checked.
    ///
    /// ```
    /// use esker_layouts::tuple::{Fields, pack};
    /// let key = pack(&("ann", 7));
    /// let mut fields = Fields::new(&key);
    /// fields.skip()?;
    /// assert_eq!(fields.field::<u64>()?, 7);
    /// # Ok::<(), esker_layouts::tuple::KeyError>(())
    /// ```
    #[inline]
    pub fn skip(&mut self) -> Result<(), KeyError> {
        let content = match self.code()? {
            code::BYTES | code::TEXT if self.mask == 0 => return self.skip_escaped(),
            found @ 0x0C..=0x1C => usize::from(found.abs_diff(code::INT_ZERO)),
            code::UUID => 16,
            code::F64 => 8,
            code::F32 => 4,
            code::FALSE | code::TRUE => 0,
            _ => return Element::unpack(self).map(|_| ()),
        };
        let end = self.at + 1 + content;
        if end > self.key.len() {
            return Err(KeyError { at: self.at + 1, kind: KeyErrorKind::Truncated });
        }
        self.at = end;
        Ok(())
    }

    /// [`skip`](Self::skip) for a byte string or text that is not reversed.
    #[inline]
    fn skip_escaped(&mut self) -> Result<(), KeyError> {
        let mut at = self.at + 1;
        loop {
            let rest = self.key.get(at..).unwrap_or_default();
            let Some(len) = find([0], rest) else {
                return Err(KeyError { at, kind: KeyErrorKind::Truncated });
            };
            at += len + 1;
            if rest.get(len + 1) != Some(&code::ESCAPE) {
                self.at = at;
                return Ok(());
            }
            at += 1;
        }
    }

    pub(super) fn null(&mut self) -> Result<(), KeyError> {
        self.expect(code::NULL, "null")?;
        if self.depth > 0 {
            self.expect(code::ESCAPE, "an escaped null")?;
        }
        Ok(())
    }

    /// The next field, a byte string, borrowed unless it holds escaped zeros.
    pub fn bytes(&mut self) -> Result<Cow<'a, [u8]>, KeyError> {
        self.expect(code::BYTES, "bytes")?;
        match self.unescaped() {
            Some(content) => Ok(Cow::Borrowed(content)),
            None => self.escaped_or_reversed(),
        }
    }

    /// The next field, a text, borrowed unless it holds escaped zeros.
    #[inline(always)]
    pub fn text(&mut self) -> Result<Cow<'a, str>, KeyError> {
        self.expect(code::TEXT, "text")?;
        let start = self.at;
        match self.unescaped() {
            Some(content) => utf8(content).map(Cow::Borrowed),
            None => match self.escaped_or_reversed()? {
                Cow::Borrowed(content) => utf8(content).map(Cow::Borrowed),
                Cow::Owned(content) => String::from_utf8(content).map(Cow::Owned).ok(),
            },
        }
        .ok_or(KeyError { at: start, kind: KeyErrorKind::NotUtf8 })
    }

    pub(super) fn int(&mut self) -> Result<i128, KeyError> {
        self.short_int().map_or_else(|| self.any_int(), |value| value.map(i128::from))
    }

    /// The next field if it is an integer of at most eight bytes, neither negative nor reversed: what most are.
    #[inline]
    fn short_int(&mut self) -> Option<Result<u64, KeyError>> {
        let len = self.peek()?.checked_sub(code::INT_ZERO).filter(|len| *len <= 8 && self.mask == 0)?;
        Some(self.int_of(usize::from(len)))
    }

    /// The next field, an integer of `len` bytes, at most eight, neither negative nor reversed.
    #[inline]
    fn int_of(&mut self, len: usize) -> Result<u64, KeyError> {
        let start = self.at;
        let rest = self.key.get(start + 1..).unwrap_or_default();
        let Some(body) = rest.get(..len) else {
            self.at += 1;
            return Err(self.error(KeyErrorKind::Truncated));
        };
        if body.first() == Some(&0) {
            return Err(KeyError { at: start, kind: KeyErrorKind::NotCanonical });
        }
        self.at = start + 1 + len;
        Ok(body.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    fn any_int(&mut self) -> Result<i128, KeyError> {
        let start = self.at;
        let found = self.code()?;
        let negative = found < code::INT_ZERO;
        let len = match found {
            0x0C..=0x1C => usize::from(found.abs_diff(code::INT_ZERO)),
            code::INT_LONG_NEGATIVE | code::INT_LONG_POSITIVE => {
                self.at += 1;
                let raw = self.code()?;
                let len = usize::from(if negative { !raw } else { raw });
                if len <= 8 {
                    return Err(KeyError { at: start, kind: KeyErrorKind::NotCanonical });
                }
                len
            }
            _ => return Err(self.wrong_type("an integer", found)),
        };
        self.at += 1;
        let rest = self.key.get(self.at..).unwrap_or_default();
        let body = rest.get(..len).ok_or(self.error(KeyErrorKind::Truncated))?;
        let mut bytes = [0u8; 16];
        let place = bytes
            .len()
            .checked_sub(len)
            .ok_or(KeyError { at: start, kind: KeyErrorKind::IntegerRange("128 bits") })?;
        for (to, from) in bytes.iter_mut().skip(place).zip(body) {
            let byte = from ^ self.mask;
            *to = if negative { !byte } else { byte };
        }
        if len > 0 && bytes.get(place) == Some(&0) {
            return Err(KeyError { at: start, kind: KeyErrorKind::NotCanonical });
        }
        self.at += len;
        let magnitude = u128::from_be_bytes(bytes);
        let value = if negative {
            0i128.checked_sub_unsigned(magnitude)
        } else {
            0i128.checked_add_unsigned(magnitude)
        };
        value.ok_or(KeyError { at: start, kind: KeyErrorKind::IntegerRange("i128") })
    }

    pub(super) fn f32(&mut self) -> Result<f32, KeyError> {
        self.expect(code::F32, "a 32-bit float")?;
        let ordered = u32::from_be_bytes(self.take()?);
        Ok(f32::from_bits(if ordered >> 31 == 0 { !ordered } else { ordered & !(1 << 31) }))
    }

    #[inline]
    pub(super) fn f64(&mut self) -> Result<f64, KeyError> {
        self.expect(code::F64, "a 64-bit float")?;
        let ordered = u64::from_be_bytes(self.take()?);
        Ok(f64::from_bits(if ordered >> 63 == 0 { !ordered } else { ordered & !(1 << 63) }))
    }

    pub(super) fn bool(&mut self) -> Result<bool, KeyError> {
        let found = self.code()?;
        let value = match found {
            code::FALSE => false,
            code::TRUE => true,
            _ => return Err(self.wrong_type("a boolean", found)),
        };
        self.at += 1;
        Ok(value)
    }

    pub(super) fn uuid(&mut self) -> Result<Uuid, KeyError> {
        self.expect(code::UUID, "a UUID")?;
        Ok(Uuid(self.take()?))
    }

    /// The content of a fixed-width field.
    pub(super) fn fixed(&mut self) -> Result<Cow<'a, [u8]>, KeyError> {
        self.expect(code::FIXED, "a fixed-width field")?;
        let [len] = self.take()?;
        let rest = self.key.get(self.at..).unwrap_or_default();
        let content = rest.get(..usize::from(len)).ok_or(self.error(KeyErrorKind::Truncated))?;
        self.at += content.len();
        Ok(self.plain(content))
    }

    pub(super) fn utc(&mut self) -> Result<Utc, KeyError> {
        let at = self.at;
        self.expect(code::UTC, "calendar fields")?;
        Utc::from_bytes(self.take()?).ok_or(KeyError { at, kind: KeyErrorKind::NotADate })
    }

    pub(super) fn time_uuid(&mut self) -> Result<TimeUuid, KeyError> {
        let at = self.at;
        self.expect(code::TIME_UUID, "a time-ordered id")?;
        TimeUuid::from_bytes(self.take()?).ok_or(KeyError { at, kind: KeyErrorKind::NotATimeId })
    }

    /// Read a reversed field: `read` takes the one field in it.
    pub(super) fn reversed<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, KeyError>,
    ) -> Result<T, KeyError> {
        if self.depth >= DEPTH_MAX {
            return Err(self.error(KeyErrorKind::TooDeep));
        }
        self.expect(code::DESC, "a reversed field")?;
        self.depth += 1;
        self.mask = !self.mask;
        let value = read(self)?;
        self.expect(0, "the end of a reversed field")?;
        self.mask = !self.mask;
        self.depth -= 1;
        Ok(value)
    }

    /// Read a nested tuple: `read` takes its fields and leaves at its end.
    pub fn nested<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, KeyError>,
    ) -> Result<T, KeyError> {
        if self.depth >= DEPTH_MAX {
            return Err(self.error(KeyErrorKind::TooDeep));
        }
        self.expect(code::NESTED, "a nested tuple")?;
        self.depth += 1;
        let value = read(self)?;
        if !self.at_end() {
            let kind =
                if self.peek().is_none() { KeyErrorKind::Truncated } else { KeyErrorKind::TrailingFields };
            return Err(self.error(kind));
        }
        self.at += 1;
        self.depth -= 1;
        Ok(value)
    }
}

/// A type that one field decodes to.
pub trait UnpackField: Sized {
    /// Read the next field.
    fn unpack_field(fields: &mut Fields<'_>) -> Result<Self, KeyError>;
}

/// A tuple type that a whole key decodes to.
pub trait Unpack: Sized {
    /// Read the tuple's fields, leaving any that follow.
    fn unpack_from(fields: &mut Fields<'_>) -> Result<Self, KeyError>;
}

/// The tuple that `key` is; refuses a key with more fields.
pub fn unpack<K: Unpack>(key: &[u8]) -> Result<K, KeyError> {
    let mut fields = Fields::new(key);
    let tuple = K::unpack_from(&mut fields)?;
    fields.finish()?;
    Ok(tuple)
}

/// The encodings of the fields of `key`, one slice each.
///
/// ```
/// use esker_layouts::tuple::{pack, split};
/// let key = pack(&("ann", 7));
/// assert_eq!(split(&key)?, [pack(&("ann",)), pack(&(7,))]);
/// # Ok::<(), esker_layouts::tuple::KeyError>(())
/// ```
pub fn split(key: &[u8]) -> Result<Vec<&[u8]>, KeyError> {
    let mut fields = Fields::new(key);
    let mut parts = Vec::new();
    while !fields.at_end() {
        let start = fields.position();
        Element::unpack(&mut fields)?;
        parts.push(key.get(start..fields.position()).unwrap_or_default());
    }
    Ok(parts)
}

/// The encodings of the fields of a key that was packed in this program, one after the other: they are
/// passed over, not checked.
#[derive(Clone, Debug)]
pub(crate) struct PackedFields<'a>(Fields<'a>);

impl<'a> PackedFields<'a> {
    pub(crate) fn new(key: &'a [u8]) -> Self {
        PackedFields(Fields::new(key))
    }

    /// Where the next field starts.
    pub(crate) fn position(&self) -> usize {
        self.0.at
    }

    /// The next field, if there is one.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<&'a [u8]>, KeyError> {
        let start = self.0.at;
        if self.0.at_end() {
            return Ok(None);
        }
        self.0.skip()?;
        Ok(self.0.key.get(start..self.0.at))
    }

    /// The field at `place`, counted from 0 behind those already taken, if there are so many.
    #[inline]
    pub(crate) fn nth(&mut self, place: usize) -> Result<Option<&'a [u8]>, KeyError> {
        for _ in 0..place {
            if self.next()?.is_none() {
                return Ok(None);
            }
        }
        self.next()
    }
}

/// [`split`] for a key that was packed in this program.
pub(crate) fn split_packed(key: &[u8]) -> Result<Vec<&[u8]>, KeyError> {
    let (mut fields, mut parts) = (PackedFields::new(key), Vec::new());
    while let Some(field) = fields.next()? {
        parts.push(field);
    }
    Ok(parts)
}

impl UnpackField for Vec<u8> {
    fn unpack_field(fields: &mut Fields<'_>) -> Result<Self, KeyError> {
        Ok(fields.bytes()?.into_owned())
    }
}

impl UnpackField for String {
    fn unpack_field(fields: &mut Fields<'_>) -> Result<Self, KeyError> {
        Ok(fields.text()?.into_owned())
    }
}

impl UnpackField for f32 {
    fn unpack_field(fields: &mut Fields<'_>) -> Result<Self, KeyError> {
        fields.f32()
    }
}

impl UnpackField for f64 {
    #[inline]
    fn unpack_field(fields: &mut Fields<'_>) -> Result<Self, KeyError> {
        fields.f64()
    }
}

impl UnpackField for bool {
    fn unpack_field(fields: &mut Fields<'_>) -> Result<Self, KeyError> {
        fields.bool()
    }
}

impl UnpackField for Uuid {
    fn unpack_field(fields: &mut Fields<'_>) -> Result<Self, KeyError> {
        fields.uuid()
    }
}

impl<T: UnpackField> UnpackField for Option<T> {
    fn unpack_field(fields: &mut Fields<'_>) -> Result<Self, KeyError> {
        if fields.peek() == Some(code::NULL) && !(fields.depth > 0 && fields.at_end()) {
            fields.null()?;
            return Ok(None);
        }
        fields.field().map(Some)
    }
}

macro_rules! unpack_integers {
    ($($int:ident),+) => {$(
        impl UnpackField for $int {
            fn unpack_field(fields: &mut Fields<'_>) -> Result<Self, KeyError> {
                let at = fields.position();
                let kind = KeyErrorKind::IntegerRange(stringify!($int));
                match fields.short_int() {
                    Some(value) => value?.try_into().map_err(|_| KeyError { at, kind }),
                    None => fields.any_int()?.try_into().map_err(|_| KeyError { at, kind }),
                }
            }
        }
    )+};
}
unpack_integers!(i8, i16, i32, i64, i128, u16, u32, u64);

impl Unpack for () {
    fn unpack_from(_fields: &mut Fields<'_>) -> Result<Self, KeyError> {
        Ok(())
    }
}

impl UnpackField for () {
    fn unpack_field(fields: &mut Fields<'_>) -> Result<Self, KeyError> {
        fields.nested(|_| Ok(()))
    }
}

macro_rules! unpack_tuples {
    ($(($($field:ident),+))+) => {$(
        impl<$($field: UnpackField),+> Unpack for ($($field,)+) {
            fn unpack_from(fields: &mut Fields<'_>) -> Result<Self, KeyError> {
                Ok(($(fields.field::<$field>()?,)+))
            }
        }

        impl<$($field: UnpackField),+> UnpackField for ($($field,)+) {
            fn unpack_field(fields: &mut Fields<'_>) -> Result<Self, KeyError> {
                fields.nested(|inner| Self::unpack_from(inner))
            }
        }
    )+};
}
unpack_tuples! {
    (A)
    (A, B)
    (A, B, C)
    (A, B, C, D)
    (A, B, C, D, E)
    (A, B, C, D, E, F)
    (A, B, C, D, E, F, G)
    (A, B, C, D, E, F, G, H)
}
