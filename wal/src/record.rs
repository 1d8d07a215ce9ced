//! A record's header: 16 to 28 bytes before every piece of payload.
//!
//! A record is one fragment ([`FragmentKind::Full`]) or, when its payload is longer than
//! [`FRAGMENT_BYTES_MAX`], a [`FragmentKind::First`], any number of [`FragmentKind::Middle`] and a
//! [`FragmentKind::Last`], one right after the other and all with the record's tag.
//!
//! Header and payload have a checksum each. So a header can be believed, its length above all, before a
//! byte of the payload is read; and a header whose payload is damaged still proves what was durable when it
//! was written.
//!
//! A header is written in the layout of the newest version, and read in the layout of its log's version. In
//! the newest, a tag below 2³² takes four bytes and a durable-up-to of 0 takes none: most headers have 16
//! bytes, where they had 29 in the first version.

use esker_base::checksum::{ChecksumSeed, Checksums};
use esker_base::coding::Decoder;

/// Length of the shortest header in bytes.
pub(crate) const RECORD_HEADER_LEN_MIN: usize = 16;

/// Length of the longest header in bytes, of any version.
pub const RECORD_HEADER_LEN_MAX: usize = WIDE_LEN;

/// The longest payload of one fragment, in bytes: 16 MiB but for one byte.
///
/// A reader has to hold a fragment to check it, and has to believe its length before that. So this bounds
/// how many bytes a reader holds that were not checked yet; longer records are put together from fragments
/// that checked. It is larger than nearly every record, so that nearly every record is read without a copy.
pub const FRAGMENT_BYTES_MAX: usize = LEN_MASK as usize;

/// The part of a word that is a length; the byte above it is the control byte.
const LEN_MASK: u32 = 0x00ff_ffff;

/// The longest payload of one fragment of version 1.
const WIDE_FRAGMENT_LEN_MAX: u32 = 16 << 20;

/// Length of a header of version 1 in bytes.
const WIDE_LEN: usize = 29;

/// Length of an offset in front of what its checksum covers.
pub(crate) const PLACE_BYTES: usize = 8;

/// Bits of a control byte: the tag takes eight bytes; a durable-up-to follows the tag. The other bits are
/// the kind.
const WIDE_TAG: u8 = 8;
const HAS_DURABLE: u8 = 16;

/// How headers are laid out. FORMAT.md has both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Layout {
    /// Version 1: each field at its full length. Only read.
    Wide,
    /// Since version 2.
    Compact,
}

impl Layout {
    /// All, for a log whose version is not known.
    pub(crate) const ALL: &[Layout] = &[Layout::Compact, Layout::Wide];

    /// Offset of the byte in a header that tells its kind. It is never zero in a header, so zeros are never a record.
    pub(crate) fn kind_at(self) -> usize {
        match self {
            Layout::Wide => 12,
            Layout::Compact => 11,
        }
    }

    /// Lengths in bytes of a header's length, tag and durable-up-to.
    pub(crate) fn field_lens(self, tag: u64, durable: u64) -> [u64; 3] {
        match self {
            Layout::Wide => [4, 8, 8],
            Layout::Compact => [3, if is_wide(tag) { 8 } else { 4 }, if durable > 0 { 8 } else { 0 }],
        }
    }

    /// Whether a header may have `byte` there.
    #[inline]
    pub(crate) fn is_kind(self, byte: u8) -> bool {
        let flags = match self {
            Layout::Wide => 0,
            Layout::Compact => WIDE_TAG | HAS_DURABLE,
        };
        FragmentKind::from_byte(byte & !flags).is_some()
    }

    /// Whether a header that has `byte` there may say that something was durable.
    #[inline]
    pub(crate) fn is_kind_of_witness(self, byte: u8) -> bool {
        self.is_kind(byte) && (self == Layout::Wide || byte & HAS_DURABLE != 0)
    }
}

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

/// The length in bytes of a header that is written with this tag and this durable-up-to.
#[inline]
pub(crate) fn header_len(tag: u64, durable: u64) -> usize {
    RECORD_HEADER_LEN_MIN + if is_wide(tag) { 4 } else { 0 } + if durable > 0 { 8 } else { 0 }
}

#[inline]
fn is_wide(tag: u64) -> bool {
    tag > u64::from(u32::MAX)
}

impl RecordHeader {
    /// Write the header of a fragment that starts at `offset` to `out`, which is as long as [`header_len`] says. `len` is at most
    /// [`FRAGMENT_BYTES_MAX`].
    #[inline]
    pub(crate) fn encode(&self, checksums: &Checksums, offset: u64, out: &mut [u8]) {
        // The offset, then all that the checksum covers.
        let mut placed = [0; PLACE_BYTES + RECORD_HEADER_LEN_MAX];
        let mut control = self.kind as u8;
        placed[..8].copy_from_slice(&offset.to_le_bytes());
        placed[8..12].copy_from_slice(&self.payload_checksum.to_le_bytes());
        placed[16..24].copy_from_slice(&self.tag.to_le_bytes());
        if is_wide(self.tag) {
            control |= WIDE_TAG;
            placed[24..32].copy_from_slice(&self.durable.to_le_bytes());
        } else {
            placed[20..28].copy_from_slice(&self.durable.to_le_bytes());
        }
        if self.durable > 0 {
            control |= HAS_DURABLE;
        }
        placed[12..15].copy_from_slice(&self.len.to_le_bytes()[..3]);
        placed[15] = control;
        let (covered, _) = placed.split_at(PLACE_BYTES + out.len() - 4);
        let checksum = checksums.of_placed(covered);
        let (front, rest) =
            out.split_first_chunk_mut::<RECORD_HEADER_LEN_MIN>().expect("as long as any header");
        front[..4].copy_from_slice(&checksum.to_le_bytes());
        front[4..].copy_from_slice(&placed[8..20]);
        // Mostly there is none, and then the copy is left out.
        if !rest.is_empty() {
            let (_, fields) = covered.split_at(20);
            rest.copy_from_slice(fields);
        }
    }

    /// The header at the start of `bytes`, which stand at `offset` of a log with headers of this `layout`, and its length: if it is
    /// one, whole, its checksum right, and nothing in it that a writer would not write. The cheap tests come first, for a
    /// search that tries every offset.
    #[inline]
    pub(crate) fn decode(
        bytes: &[u8],
        layout: Layout,
        seed: ChecksumSeed,
        offset: u64,
    ) -> Option<(RecordHeader, usize)> {
        if !layout.is_kind(*bytes.get(layout.kind_at())?) {
            return None;
        }
        let mut input = Decoder::new(bytes);
        let header_checksum = input.u32("header checksum").ok()?;
        let header = match layout {
            Layout::Wide => RecordHeader::wide(&mut input)?,
            Layout::Compact => RecordHeader::compact(&mut input)?,
        };
        let covered = bytes.get(4..input.position())?;
        if header.durable > offset || seed.checksum(offset, &[covered]) != header_checksum {
            return None;
        }
        Some((header, input.position()))
    }

    /// The fields behind the header's checksum. None if they are not whole, or no writer would write them so.
    #[inline]
    fn compact(input: &mut Decoder<'_>) -> Option<RecordHeader> {
        let payload_checksum = input.u32("payload checksum").ok()?;
        let [low, middle, high, control] = input.array("length and kind").ok()?;
        let kind = FragmentKind::from_byte(control & !(WIDE_TAG | HAS_DURABLE))?;
        let tag = if control & WIDE_TAG == 0 {
            u64::from(input.u32("tag").ok()?)
        } else {
            input.u64("tag").ok().filter(|tag| is_wide(*tag))?
        };
        let durable = if control & HAS_DURABLE == 0 {
            0
        } else {
            input.u64("durable-up-to").ok().filter(|durable| *durable > 0)?
        };
        let len = u32::from_le_bytes([low, middle, high, 0]);
        Some(RecordHeader { payload_checksum, len, kind, tag, durable })
    }

    /// The same of version 1.
    #[inline]
    fn wide(input: &mut Decoder<'_>) -> Option<RecordHeader> {
        Some(RecordHeader {
            payload_checksum: input.u32("payload checksum").ok()?,
            len: input.u32("length").ok().filter(|len| *len <= WIDE_FRAGMENT_LEN_MAX)?,
            kind: FragmentKind::from_byte(input.u8("kind").ok()?)?,
            tag: input.u64("tag").ok()?,
            durable: input.u64("durable-up-to").ok()?,
        })
    }

    /// Length of the fragment's payload.
    pub(crate) fn payload_len(&self) -> usize {
        // At most 16 MiB, which fits the address space of every machine this runs on.
        self.len as usize
    }
}
