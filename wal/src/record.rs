//! A record's header: 29 bytes before every piece of payload.
//!
//! A record is one fragment ([`FragmentKind::Full`]) or, when its payload is longer than
//! [`FRAGMENT_BYTES_MAX`], a [`FragmentKind::First`], any number of [`FragmentKind::Middle`] and a
//! [`FragmentKind::Last`], one right after the other and all with the record's tag.
//!
//! Header and payload have a checksum each. A header can so be believed, its length above all, before
//! a byte of payload is read; and a header whose payload is damaged still bears witness to what was
//! durable when it was written.

use esker_base::checksum::{ChecksumSeed, Checksums};
use esker_base::coding::{DecodeError, Decoder};

/// Length of a fragment's header in bytes.
pub const RECORD_HEADER_LEN: usize = 29;

/// The longest payload of one fragment, in bytes: 16 MiB.
///
/// A reader has to hold a fragment to check it, and has to believe its length before that. So this
/// bounds what a reader holds of bytes not yet checked; longer records grow from fragments that
/// checked. Larger than nearly every record, so that nearly every record is read without a copy.
pub const FRAGMENT_BYTES_MAX: usize = 16 << 20;

/// [`FRAGMENT_BYTES_MAX`] as the length field's type.
#[expect(clippy::cast_possible_truncation, reason = "2^24")]
const FRAGMENT_LEN_MAX: u32 = FRAGMENT_BYTES_MAX as u32;

/// Length of an offset in front of what its checksum covers.
pub(crate) const PLACE_BYTES: usize = 8;

/// Offset of the kind in the header. It is never zero in a header, so zeros are never a record.
pub(crate) const KIND_AT: usize = 12;

/// Which part of its record a fragment is. The discriminants are on disk: never renumber them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum FragmentKind {
    /// All of it.
    Full = 1,
    /// The start of it.
    First = 2,
    /// Neither its start nor its end.
    Middle = 3,
    /// The end of it.
    Last = 4,
}

impl FragmentKind {
    /// The kind of a byte from disk.
    pub(crate) fn from_byte(byte: u8) -> Option<FragmentKind> {
        match byte {
            1 => Some(FragmentKind::Full),
            2 => Some(FragmentKind::First),
            3 => Some(FragmentKind::Middle),
            4 => Some(FragmentKind::Last),
            _ => None,
        }
    }
}

/// A fragment's header, without its own checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RecordHeader {
    pub(crate) payload_checksum: u32,
    /// Length of the fragment's payload in bytes.
    pub(crate) len: u32,
    pub(crate) kind: FragmentKind,
    pub(crate) tag: u64,
    /// Everything before this offset was durable when the record was staged.
    pub(crate) durable: u64,
}

impl RecordHeader {
    /// The header's bytes for a fragment that starts at `offset`.
    #[inline]
    pub(crate) fn encode(&self, checksums: &Checksums, offset: u64) -> [u8; RECORD_HEADER_LEN] {
        // The offset, then all that the checksum covers.
        let mut placed = [0; PLACE_BYTES + RECORD_HEADER_LEN - 4];
        placed[..8].copy_from_slice(&offset.to_le_bytes());
        placed[8..12].copy_from_slice(&self.payload_checksum.to_le_bytes());
        placed[12..16].copy_from_slice(&self.len.to_le_bytes());
        placed[16] = self.kind as u8;
        placed[17..25].copy_from_slice(&self.tag.to_le_bytes());
        placed[25..33].copy_from_slice(&self.durable.to_le_bytes());
        let checksum = checksums.of_placed(&placed);
        let mut bytes = [0; RECORD_HEADER_LEN];
        bytes[..4].copy_from_slice(&checksum.to_le_bytes());
        bytes[4..].copy_from_slice(&placed[PLACE_BYTES..]);
        bytes
    }

    /// The header at the start of `bytes`, which stand at `offset`, if it is one: whole, its checksum
    /// right, and nothing in it that a writer would not write. The cheap tests come first, for a
    /// search that tries every offset.
    #[inline]
    pub(crate) fn decode(bytes: &[u8], seed: ChecksumSeed, offset: u64) -> Option<RecordHeader> {
        let bytes: &[u8; RECORD_HEADER_LEN] = bytes.first_chunk()?;
        let kind = FragmentKind::from_byte(bytes[KIND_AT])?;
        let raw = RawRecordHeader::parse(bytes).ok()?;
        if raw.durable > offset || raw.len > FRAGMENT_LEN_MAX {
            return None;
        }
        if seed.checksum(offset, &[&bytes[4..]]) != raw.header_checksum {
            return None;
        }
        let RawRecordHeader { payload_checksum, len, tag, durable, .. } = raw;
        Some(RecordHeader { payload_checksum, len, kind, tag, durable })
    }

    /// Length of the fragment's payload.
    pub(crate) fn payload_len(&self) -> usize {
        // At most 16 MiB, which fits the address space of every machine this runs on.
        self.len as usize
    }
}

/// The checksum of the `payload` of the fragment at `offset`: seeded with where the payload itself starts.
#[inline]
pub(crate) fn payload_checksum(seed: ChecksumSeed, offset: u64, payload: &[u8]) -> u32 {
    seed.checksum(payload_offset(offset), &[payload])
}

/// Where the payload of the fragment at `offset` starts.
#[inline]
pub(crate) fn payload_offset(offset: u64) -> u64 {
    offset.saturating_add(RECORD_HEADER_LEN as u64)
}

/// The header's fields as they stand in a file, nothing checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RawRecordHeader {
    pub(crate) header_checksum: u32,
    pub(crate) payload_checksum: u32,
    pub(crate) len: u32,
    pub(crate) kind: u8,
    pub(crate) tag: u64,
    pub(crate) durable: u64,
}

impl RawRecordHeader {
    /// The fields at the start of `bytes`.
    #[inline]
    pub(crate) fn parse(bytes: &[u8]) -> Result<RawRecordHeader, DecodeError> {
        let mut input = Decoder::new(bytes);
        Ok(RawRecordHeader {
            header_checksum: input.u32("header checksum")?,
            payload_checksum: input.u32("payload checksum")?,
            len: input.u32("length")?,
            kind: input.u8("kind")?,
            tag: input.u64("tag")?,
            durable: input.u64("durable-up-to")?,
        })
    }
}
