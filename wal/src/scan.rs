//! Searches for fragments where none is known to start.

use esker_base::Result;
use esker_base::checksum::ChecksumSeed;

use crate::record::{Layout, RECORD_HEADER_LEN_MAX, RecordHeader};
use crate::window::Window;

/// Which of `seeds` a fragment checks under, header and payload, that lies in the mebibyte from `from` on.
pub(crate) fn find_other(window: &mut Window, seeds: &[ChecksumSeed], from: u64) -> Result<Option<usize>> {
    const SEARCHED: usize = 1 << 20;
    let bytes = window.bytes(from, SEARCHED)?;
    let starts = (0..bytes.len().min(SEARCHED)).zip(from..);
    let mut found = starts.filter_map(|(at, offset)| {
        let bytes = bytes.get(at..)?;
        let checks = |layout: &Layout, seed: ChecksumSeed| {
            let (header, head) = RecordHeader::decode(bytes, *layout, seed, offset)?;
            let payload = bytes.get(head..)?.get(..header.payload_len())?;
            let payload_at = offset.saturating_add(head as u64);
            (seed.checksum(payload_at, &[payload]) == header.payload_checksum).then_some(())
        };
        seeds.iter().position(|seed| Layout::ALL.iter().any(|layout| checks(layout, *seed).is_some()))
    });
    Ok(found.next())
}

/// A header that was found.
pub(crate) struct Sighting {
    /// Where it stands in the file, in bytes.
    pub(crate) offset: u64,
    pub(crate) header: RecordHeader,
    /// Where the payload starts.
    pub(crate) payload_at: u64,
}

/// The first offset from `from` on at which a header, in one of `layouts`, stands that checks *there* and whose durable-up-to
/// lies beyond `beyond` (any header at all for `None`).
///
/// A header's checksum alone would be met by chance once in 4 GiB of garbage. To be a witness it also has to be of a kind that has a
/// durable-up-to (2^-5), and that may not lie beyond the offset (2^-34 in 1 GiB): a gigabyte of garbage holds one
/// by chance once in some 2^40 tries. One without is met in it by chance once in some 130 tries: its payload has to check as well.
pub(crate) fn find_header(
    window: &mut Window,
    layouts: &[Layout],
    seed: ChecksumSeed,
    from: u64,
    beyond: Option<u64>,
) -> Result<Option<Sighting>> {
    let mut at = from;
    loop {
        let remaining = window.remaining(at);
        let bytes = window.bytes(at, RECORD_HEADER_LEN_MAX)?;
        // Near its end the window may hold the start of a header alone. At the file's there is no more of it.
        let is_last = bytes.len() as u64 >= remaining;
        let starts =
            if is_last { bytes.len() } else { bytes.len().saturating_sub(RECORD_HEADER_LEN_MAX - 1) };
        let found =
            layouts.iter().filter_map(|layout| find_among(bytes, starts, *layout, seed, at, beyond));
        let found = found.min_by_key(|sighting| sighting.offset);
        if found.is_some() || is_last {
            return Ok(found);
        }
        at = at.saturating_add(starts as u64);
    }
}

/// The same for one layout, among the first `starts` offsets of `bytes`, which stand at `at`.
fn find_among(
    bytes: &[u8],
    starts: usize,
    layout: Layout,
    seed: ChecksumSeed,
    at: u64,
    beyond: Option<u64>,
) -> Option<Sighting> {
    let may_be = |byte: u8| match beyond {
        Some(_) => layout.is_kind_of_witness(byte),
        None => layout.is_kind(byte),
    };
    let mut skip = 0;
    loop {
        // Jump from one byte that may tell a header's kind to the next.
        skip += first(bytes.get(skip + layout.kind_at()..)?, may_be)?;
        let candidate = bytes.get(skip..).filter(|_| skip < starts)?;
        let offset = at.saturating_add(skip as u64);
        if let Some((header, head)) = RecordHeader::decode(candidate, layout, seed, offset)
            && beyond.is_none_or(|beyond| header.durable > beyond)
        {
            return Some(Sighting { offset, header, payload_at: offset.saturating_add(head as u64) });
        }
        skip += 1;
    }
}

/// The index of the first byte that may tell a fragment's kind. Whole cache lines without one are passed at once: what is searched
/// is zeros for the most part, or an older log.
#[inline]
fn first(bytes: &[u8], may_be: impl Fn(u8) -> bool) -> Option<usize> {
    let (lines, _) = bytes.as_chunks::<64>();
    let others =
        lines.iter().take_while(|line| !line.iter().fold(false, |any, byte| any | may_be(*byte))).count();
    let skipped = others * 64;
    Some(skipped + bytes.get(skipped..)?.iter().position(|byte| may_be(*byte))?)
}
