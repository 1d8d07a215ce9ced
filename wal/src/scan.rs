//! Searches for fragments where none is known to start.

use esker_base::Result;
use esker_base::checksum::ChecksumSeed;

use crate::record::{KIND_AT, RECORD_HEADER_LEN, RecordHeader};
use crate::window::{Window, nonzero};

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
        // A header's kind is not zero: jump from one byte that is not to the next.
        while let Some(kinds) = bytes.get(skip + KIND_AT..) {
            let Some(zeros) = nonzero(kinds) else {
                skip = bytes.len();
                break;
            };
            skip += zeros;
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
