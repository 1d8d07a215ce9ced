//! Checked reading and writing of integers and length-prefixed bytes.
//!
//! Everything is little-endian. Varints are LEB128: seven bits a byte, low bits first, at most ten
//! bytes for a `u64`. Bytes from disk are hostile: [`Decoder`] compares every length with what
//! remains before it hands anything out, and never allocates.

/// Why a decoder stopped: what it wanted and the offset, from the start of its input, it stood at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// What could not be read.
    pub what: &'static str,
    /// Offset in the decoder's input, in bytes.
    pub at: usize,
}

/// Append `value` as a varint.
///
/// ```
/// use esker_base::coding::{put_varint, Decoder};
/// let mut bytes = Vec::new();
/// put_varint(&mut bytes, 300);
/// assert_eq!(bytes, [0xAC, 0x02]);
/// assert_eq!(Decoder::new(&bytes).varint("n"), Ok(300));
/// ```
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        #[expect(clippy::cast_possible_truncation, reason = "the low seven bits are meant")]
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    #[expect(clippy::cast_possible_truncation, reason = "below 0x80 here")]
    out.push(value as u8);
}

/// Append `bytes` behind their length as a varint.
#[inline]
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads integers and byte strings from a slice, refusing whatever does not fit.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    input: &'a [u8],
    at: usize,
}

impl<'a> Decoder<'a> {
    /// A decoder at the start of `input`.
    #[inline]
    pub fn new(input: &'a [u8]) -> Self {
        Decoder { input, at: 0 }
    }

    /// The offset of the next byte.
    #[inline]
    pub fn position(&self) -> usize {
        self.at
    }

    /// The bytes not yet read.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.input.get(self.at..).unwrap_or_default()
    }

    /// Whether everything was read.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.at >= self.input.len()
    }

    /// The error for `what` here.
    pub fn error(&self, what: &'static str) -> DecodeError {
        DecodeError { what, at: self.at }
    }

    /// The next `len` bytes.
    #[inline]
    pub fn take(&mut self, len: usize, what: &'static str) -> Result<&'a [u8], DecodeError> {
        let bytes = self.rest().get(..len).ok_or(DecodeError { what, at: self.at })?;
        self.at += len;
        Ok(bytes)
    }

    /// The next `N` bytes as an array.
    #[inline]
    pub fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], DecodeError> {
        let bytes = self.rest().first_chunk::<N>().ok_or(DecodeError { what, at: self.at })?;
        self.at += N;
        Ok(*bytes)
    }

    /// One byte.
    #[inline]
    pub fn u8(&mut self, what: &'static str) -> Result<u8, DecodeError> {
        Ok(self.array::<1>(what)?[0])
    }

    /// A little-endian `u16`.
    #[inline]
    pub fn u16(&mut self, what: &'static str) -> Result<u16, DecodeError> {
        Ok(u16::from_le_bytes(self.array(what)?))
    }

    /// A little-endian `u32`.
    #[inline]
    pub fn u32(&mut self, what: &'static str) -> Result<u32, DecodeError> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    /// A little-endian `u64`.
    #[inline]
    pub fn u64(&mut self, what: &'static str) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// A varint. Overlong encodings past ten bytes and values past 64 bits are refused.
    #[inline]
    pub fn varint(&mut self, what: &'static str) -> Result<u64, DecodeError> {
        // Most are kinds, numbers and lengths of one byte.
        match self.input.get(self.at) {
            Some(&byte) if byte < 0x80 => {
                self.at += 1;
                Ok(u64::from(byte))
            }
            _ => self.varint_of_bytes(what),
        }
    }

    /// A varint of any length.
    #[inline(never)]
    fn varint_of_bytes(&mut self, what: &'static str) -> Result<u64, DecodeError> {
        let start = self.at;
        let mut value = 0u64;
        for shift in (0..70).step_by(7) {
            let byte = self.u8(what).map_err(|_| DecodeError { what, at: start })?;
            let bits = u64::from(byte & 0x7F);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(DecodeError { what, at: start })
    }

    /// A varint that must fit `usize` and be at most `max`.
    #[inline]
    pub fn varint_max(&mut self, max: usize, what: &'static str) -> Result<usize, DecodeError> {
        let at = self.at;
        usize::try_from(self.varint(what)?)
            .ok()
            .filter(|&value| value <= max)
            .ok_or(DecodeError { what, at })
    }

    /// A byte string behind its length as a varint.
    #[inline]
    pub fn bytes(&mut self, what: &'static str) -> Result<&'a [u8], DecodeError> {
        let start = self.at;
        let len = self.varint(what)?;
        let found = usize::try_from(len).ok().and_then(|len| self.rest().get(..len));
        let bytes = found.ok_or(DecodeError { what, at: start })?;
        self.at += bytes.len();
        Ok(bytes)
    }
}
