//! Searches for fragments where none is known to start.

use esker_base::Result;
use esker_base::checksum::ChecksumSeed;

use crate::record::{FragmentKind, KIND_AT, RECORD_HEADER_LEN, RecordHeader};
use crate::window::Window;

/// Which of `seeds` a header checks under that stands in the mebibyte from `from` on.
pub(crate) fn find_other(window: &mut Window, seeds: &[ChecksumSeed], from: u64) -> Result<Option<usize>> {
    const SEARCHED: usize = 1 << 20;
    let bytes = window.bytes(from, SEARCHED)?;
    let headers = bytes.windows(RECORD_HEADER_LEN).take(SEARCHED).zip(from..);
    let mut found = headers.filter_map(|(bytes, offset)| {
        seeds.iter().position(|&seed| RecordHeader::decode(bytes, seed, offset).is_some())
    });
    Ok(found.next())
}

/// The first offset from `from` on at which a header stands that checks *there* and whose durable-up-to
/// lies beyond `beyond` (any header at all for `None`), and that header.
///
/// A header's checksum alone would be met by chance once in 4 GiB of garbage. A kind (2^-6), a length
/// (2^-8) and a durable-up-to not beyond the offset (2^-34 in 1 GiB) have to be met too: a gigabyte of
/// garbage holds a header by chance once in some 2^50 tries.
pub(crate) fn find_header(
    window: &mut Window,
    seed: ChecksumSeed,
    from: u64,
    beyond: Option<u64>,
) -> Result<Option<(u64, RecordHeader)>> {
    let mut at = from;
    loop {
        let bytes = window.bytes(at, RECORD_HEADER_LEN)?;
        if bytes.len() < RECORD_HEADER_LEN {
            return Ok(None);
        }
        let mut skip = 0;
        // Jump from one byte that may be a header's kind to the next.
        while let Some(kinds) = bytes.get(skip + KIND_AT..) {
            let Some(others) = first_kind(kinds) else {
                skip = bytes.len();
                break;
            };
            skip += others;
            let Some(candidate) = bytes.get(skip..skip + RECORD_HEADER_LEN) else {
                break;
            };
            let offset = at.saturating_add(skip as u64);
            if let Some(header) = RecordHeader::decode(candidate, seed, offset)
                && beyond.is_none_or(|beyond| header.durable > beyond)
            {
                return Ok(Some((offset, header)));
            }
            skip += 1;
        }
        // The last bytes held may be the start of a header.
        let searched = bytes.len() - (RECORD_HEADER_LEN - 1);
        at = at.saturating_add(searched.min(skip.max(1)) as u64);
    }
}

/// The index of the first byte that is a fragment's kind. Whole cache lines without one are passed at once: what is searched
/// is zeros for the most part, or an older log.
#[inline]
fn first_kind(bytes: &[u8]) -> Option<usize> {
    let is_kind = |byte: &u8| FragmentKind::from_byte(*byte).is_some();
    let (lines, _) = bytes.as_chunks::<64>();
    let others =
        lines.iter().take_while(|line| !line.iter().fold(false, |any, byte| any | is_kind(byte))).count();
    let skipped = others * 64;
    Some(skipped + bytes.get(skipped..)?.iter().position(is_kind)?)
}
