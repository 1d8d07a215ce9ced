//! How any block lies in the file: payload, codec, raw length, checksum. See FORMAT.md, "Stored
//! blocks".
//!
//! Invariant: nothing of a payload is looked at before its checksum was compared, and no length is
//! allocated before it was compared with the largest that is possible.

use std::path::Path;

use esker_base::checksum::ChecksumSeed;
use esker_base::coding::DecodeError;
use esker_base::limits::VALUE_BYTES_MAX;
use esker_base::planted::{self, Planted};
use esker_base::{Error, Result};

/// Bytes of codec, raw length and checksum after every payload.
pub(crate) const TRAILER_BYTES: usize = 9;
/// The longest raw block: one row with the longest value, and room for its key, its columns and padding.
pub(crate) const RAW_BYTES_MAX: usize = VALUE_BYTES_MAX + (1 << 20);

/// How a payload is compressed. The discriminants are on disk: never renumber them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Codec {
    None = 0,
    Lz4 = 1,
    Zstd = 2,
}

impl Codec {
    pub(crate) fn from_byte(byte: u8) -> Option<Codec> {
        match byte {
            0 => Some(Codec::None),
            1 => Some(Codec::Lz4),
            2 => Some(Codec::Zstd),
            _ => None,
        }
    }
}

/// Where a stored block, or a record of a blob file, lies: enough to check it and to say where it is damaged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Location<'a> {
    pub(crate) path: &'a Path,
    pub(crate) seed: ChecksumSeed,
    pub(crate) offset: u64,
}

impl Location<'_> {
    /// Damage `at` bytes into it.
    #[cold]
    pub(crate) fn damaged(&self, at: usize, what: impl Into<String>) -> Error {
        Error::corruption(self.path, self.offset.saturating_add(at as u64), what)
    }

    /// Damage as a decoder reports it; `part` names what is there.
    #[cold]
    pub(crate) fn undecodable(&self, part: &str, error: DecodeError) -> Error {
        self.damaged(error.at, format!("the {part} does not decode: {}", error.what))
    }
}

/// The largest raw length that `payload` stored bytes may claim.
pub(crate) fn raw_bytes_max(payload: usize) -> usize {
    payload.saturating_mul(255).saturating_add(64).min(RAW_BYTES_MAX)
}

/// The trailer for the payload that `parts` make up, standing at `offset`.
pub(crate) fn trailer(
    seed: ChecksumSeed,
    offset: u64,
    parts: [&[u8]; 2],
    codec: Codec,
    raw_len: u32,
) -> [u8; TRAILER_BYTES] {
    let raw = raw_len.to_le_bytes();
    let code = [codec as u8];
    let [first, second] = parts;
    let crc = seed.checksum(offset, &[first, second, &code, &raw]).to_le_bytes();
    let [r0, r1, r2, r3] = raw;
    let [c0, c1, c2, c3] = crc;
    [codec as u8, r0, r1, r2, r3, c0, c1, c2, c3]
}

/// A payload whose checksum is right.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Checked<'a> {
    pub(crate) payload: &'a [u8],
    pub(crate) codec: Codec,
    pub(crate) raw_len: usize,
}

/// A payload and the nine bytes after it, nothing checked.
pub(crate) fn split(stored: &[u8]) -> Option<(&[u8], [u8; TRAILER_BYTES])> {
    let (payload, trailer) = stored.split_last_chunk::<TRAILER_BYTES>()?;
    Some((payload, *trailer))
}

/// Check the stored block at `location`; `part` names it in errors.
pub(crate) fn check<'a>(location: Location<'_>, part: &str, stored: &'a [u8]) -> Result<Checked<'a>> {
    let Some((payload, trailer)) = split(stored) else {
        return Err(location.damaged(0, format!("the {part} is {} bytes long, too short", stored.len())));
    };
    let [code, r0, r1, r2, r3, c0, c1, c2, c3] = trailer;
    let raw = [r0, r1, r2, r3];
    let crc = u32::from_le_bytes([c0, c1, c2, c3]);
    let expected = location.seed.checksum(location.offset, &[payload, &[code], &raw]);
    if expected != crc && !planted::is(Planted::UncheckedBlock) {
        return Err(location.damaged(0, format!("the checksum of the {part} does not match")));
    }
    let codec = Codec::from_byte(code).ok_or_else(|| {
        location.damaged(payload.len(), format!("the {part} has the unknown codec {code}"))
    })?;
    let raw_len = u32::from_le_bytes(raw) as usize;
    let fits = match codec {
        Codec::None => raw_len == payload.len(),
        Codec::Lz4 | Codec::Zstd => raw_len <= raw_bytes_max(payload.len()),
    };
    if !fits {
        let what = format!("the {part} of {} bytes claims to hold {raw_len}", payload.len());
        return Err(location.damaged(payload.len(), what));
    }
    Ok(Checked { payload, codec, raw_len })
}

/// Check a part that is never compressed.
pub(crate) fn check_plain<'a>(location: Location<'_>, part: &str, stored: &'a [u8]) -> Result<&'a [u8]> {
    let checked = check(location, part, stored)?;
    if checked.codec != Codec::None {
        return Err(location.damaged(checked.payload.len(), format!("the {part} is compressed")));
    }
    Ok(checked.payload)
}
