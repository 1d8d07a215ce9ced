//! The part of a table that holds its range tombstones. See FORMAT.md, "Range tombstones".

use esker_base::SeqNo;
use esker_base::coding::{DecodeError, Decoder, put_bytes, put_varint};
use esker_base::range_tombstone::{Fragment, Fragments};

/// The payload for `fragments`, which ascend and do not overlap.
pub(crate) fn encode(fragments: &[Fragment]) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, fragments.len() as u64);
    for fragment in fragments {
        put_bytes(&mut out, &fragment.start);
        put_bytes(&mut out, &fragment.end);
        put_varint(&mut out, fragment.seqnos.len() as u64);
        let mut before = None;
        for seqno in &fragment.seqnos {
            put_varint(&mut out, before.map_or(seqno.0, |before: u64| before - seqno.0));
            before = Some(seqno.0);
        }
    }
    out
}

/// For at most this many numbers of a fragment room is made by their count alone: few fragments have more.
const NUMBERS_AHEAD: usize = 8;

/// Decode a payload. Memory grows with what was found right so far, not with what a count claims.
pub(crate) fn decode(payload: &[u8]) -> Result<Fragments, DecodeError> {
    let mut input = Decoder::new(payload);
    // A fragment takes five bytes or more, a number one.
    let count = input.varint_max(payload.len() / 5, "fragment count")?;
    let mut fragments = Fragments::default();
    for _ in 0..count {
        let start = input.bytes("fragment start")?;
        let end = input.bytes("fragment end")?;
        let numbers = input.varint_max(input.rest().len(), "number count")?;
        let mut seqnos = Vec::with_capacity(numbers.min(NUMBERS_AHEAD));
        let mut before: Option<u64> = None;
        for _ in 0..numbers {
            let number = input.varint("sequence number")?;
            let seqno = match before {
                None => Some(number).filter(|&seqno| seqno <= SeqNo::MAX.0),
                Some(before) => before.checked_sub(number).filter(|&seqno| seqno < before),
            };
            let seqno = seqno.ok_or(input.error("sequence number"))?;
            seqnos.push(SeqNo(seqno));
            before = Some(seqno);
        }
        seqnos.shrink_to_fit();
        let fragment = Fragment { start: start.to_vec(), end: end.to_vec(), seqnos };
        fragments.push(fragment).ok_or(input.error("order of the fragments"))?;
    }
    if !input.is_empty() {
        return Err(input.error("end of the tombstones"));
    }
    fragments.shrink_to_fit();
    Ok(fragments)
}
