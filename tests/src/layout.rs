//! Where the pieces of a database's files lie, read from the bytes by the format descriptions alone, and
//! their checksums, made right again after a change.
//!
//! Nothing here is the engine's code: a mistake in its decoders is not repeated. Any bytes will do; pieces
//! that make no sense are left out.

use std::ops::Range;

use esker_base::checksum::ChecksumSeed;
use esker_base::filename::{CURRENT, FileName};
use esker_base::{DatabaseId, FileNumber};

/// Bytes of a log's header.
pub const LOG_HEADER: usize = 64;
/// Bytes behind the payload of a table's block.
pub const TRAILER: usize = 9;
/// Bytes of a table's footer.
pub const FOOTER: usize = 104;
/// Bytes of a blob file's header.
pub const BLOB_HEADER: usize = 44;
/// Bytes of a blob file's record before its key.
pub const BLOB_RECORD: usize = 10;
/// Bytes of a blob file's footer.
pub const BLOB_FOOTER: usize = 36;

/// A fragment of a log record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Where its header stands.
    pub offset: usize,
    /// Where its payload starts.
    pub payload: usize,
    /// Where its payload ends.
    pub end: usize,
    /// 1 full, 2 first, 3 middle, 4 last.
    pub kind: u8,
    /// Its owner's tag.
    pub tag: u64,
    /// Everything before this offset was durable when it was written.
    pub durable: u64,
}

/// Where the parts of a table lie.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableParts {
    /// Data blocks, trailers included.
    pub blocks: Vec<Range<usize>>,
    /// Tombstones, filter, index, properties; empty if absent.
    pub parts: [Range<usize>; 4],
}

/// `N` bytes at `at`.
pub fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// A little-endian number at `at`.
pub fn u32_at(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u32::from_le_bytes(array(bytes, at)?)).ok()
}

/// A little-endian number at `at`.
pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(array(bytes, at)?))
}

/// The fragments of a log or manifest, one behind the other, up to the first that cannot be one.
pub fn fragments(bytes: &[u8]) -> Vec<Fragment> {
    let mut all = Vec::new();
    let mut offset = LOG_HEADER;
    let is_wide = has_wide_headers(bytes);
    while let Some(fragment) = if is_wide { wide_fragment(bytes, offset) } else { fragment(bytes, offset) }
    {
        offset = fragment.end;
        all.push(fragment);
    }
    all
}

/// Whether the log or manifest `bytes` is of a version whose records have headers of 29 bytes.
fn has_wide_headers(bytes: &[u8]) -> bool {
    let newest = if bytes.starts_with(b"eskerMAN") { 3 } else { 1 };
    u32_at(bytes, 8).is_some_and(|version| version <= newest)
}

fn fragment(bytes: &[u8], offset: usize) -> Option<Fragment> {
    let word = u32_at(bytes, offset + 8)?;
    let [control] = array(bytes, offset + 11)?;
    let (wide, synced) = (control & 8 != 0, control & 16 != 0);
    let durable_at = offset + if wide { 20 } else { 16 };
    let tag = if wide { u64_at(bytes, offset + 12)? } else { u32_at(bytes, offset + 12)? as u64 };
    let durable = if synced { u64_at(bytes, durable_at)? } else { 0 };
    let payload = durable_at + if synced { 8 } else { 0 };
    let end = payload.checked_add(word & 0xff_ffff)?;
    let kind = control & !0x18;
    let fits = (1..=4).contains(&kind) && end <= bytes.len();
    fits.then_some(Fragment { offset, payload, end, kind, tag, durable })
}

fn wide_fragment(bytes: &[u8], offset: usize) -> Option<Fragment> {
    let payload = offset.checked_add(29)?;
    let end = payload.checked_add(u32_at(bytes, offset + 8)?)?;
    let [kind] = array(bytes, offset + 12)?;
    let (tag, durable) = (u64_at(bytes, offset + 13)?, u64_at(bytes, offset + 21)?);
    let fits = (1..=4).contains(&kind) && end <= bytes.len();
    fits.then_some(Fragment { offset, payload, end, kind, tag, durable })
}

/// The parts of a table, as its footer and index place them.
pub fn table(bytes: &[u8]) -> Option<TableParts> {
    let footer = bytes.len().checked_sub(FOOTER)?;
    let part = |at: usize| {
        let start = usize::try_from(u64_at(bytes, footer + at)?).ok()?;
        let end = start.checked_add(u32_at(bytes, footer + at + 8)?)?;
        (end <= footer).then_some(start..end)
    };
    let parts = [part(36)?, part(48)?, part(60)?, part(72)?];
    let index = bytes.get(parts[2].clone())?;
    let count = u32_at(index, 0)?;
    let prefix = usize::from(u16::from_le_bytes(array(index, 5)?));
    let mut blocks = Vec::new();
    let mut start = 0;
    for block in 0..count {
        let end = u32_at(index, 7 + prefix + block * 4).and_then(|len| usize::checked_add(start, len))?;
        if end > parts[0].start {
            break;
        }
        blocks.push(start..end);
        start = end;
    }
    Some(TableParts { blocks, parts })
}

/// The records of a blob file, one behind the other, up to the first that cannot be one.
pub fn blob_records(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut all = Vec::new();
    let end = bytes.len().saturating_sub(BLOB_FOOTER);
    let mut at = BLOB_HEADER;
    let record = |at: usize| {
        let value = u32_at(bytes, at + 4)?;
        let key = usize::from(u16::from_le_bytes(array(bytes, at + 8)?));
        let behind = at.checked_add(BLOB_RECORD)?.checked_add(key)?.checked_add(value)?;
        (behind <= end).then_some(behind)
    };
    while let Some(behind) = record(at) {
        all.push(at..behind);
        at = behind;
    }
    all
}

/// The table `bytes` with `stored` (payload and trailer) in the place of data block `nth`, whatever its length;
/// checksums are as they were. `None` if it has no such block.
pub fn with_block(bytes: &[u8], nth: usize, stored: &[u8]) -> Option<Vec<u8>> {
    let TableParts { blocks, parts } = table(bytes)?;
    let block = blocks.get(nth)?.clone();
    let prefix = usize::from(u16::from_le_bytes(array(bytes, parts[2].start + 5)?));
    let mut changed = bytes.to_vec();
    put(&mut changed, parts[2].start + 7 + prefix + nth * 4, u32::try_from(stored.len()).ok()?);
    let footer = bytes.len() - FOOTER;
    for (part, at) in parts.iter().zip([36, 48, 60, 72]) {
        let behind = part.start >= block.end;
        let start = if behind { part.start - block.len() + stored.len() } else { part.start };
        changed[footer + at..footer + at + 8].copy_from_slice(&(start as u64).to_le_bytes());
    }
    changed.splice(block, stored.iter().copied());
    Some(changed)
}

/// The stretches of a file that have a checksum of their own, whatever the file is.
pub fn pieces(name: &str, bytes: &[u8]) -> Vec<Range<usize>> {
    match FileName::parse(name) {
        Some(FileName::Log(_) | FileName::Manifest(_)) => {
            let header = 0..LOG_HEADER.min(bytes.len());
            std::iter::once(header).chain(fragments(bytes).iter().map(|f| f.offset..f.end)).collect()
        }
        Some(FileName::Table(_)) => {
            let Some(TableParts { mut blocks, parts }) = table(bytes) else { return Vec::new() };
            blocks.extend(parts.into_iter().filter(|part| !part.is_empty()));
            blocks.push(bytes.len() - FOOTER..bytes.len());
            blocks
        }
        Some(FileName::Blob(_)) if bytes.len() >= BLOB_HEADER + BLOB_FOOTER => {
            let footer = bytes.len() - BLOB_FOOTER..bytes.len();
            std::iter::once(0..BLOB_HEADER).chain(blob_records(bytes)).chain([footer]).collect()
        }
        _ => std::iter::once(0..bytes.len()).collect(),
    }
}

/// Make every checksum in file `name` of `database` what it would be had the engine written these bytes.
pub fn repair(name: &str, bytes: &mut [u8], database: DatabaseId) {
    let seed = |number: FileNumber| ChecksumSeed::new(database, number);
    match FileName::parse(name) {
        Some(FileName::Log(number) | FileName::Manifest(number)) => repair_log(bytes, seed(number)),
        Some(FileName::Table(number)) => repair_table(bytes, seed(number)),
        Some(FileName::Blob(number)) => repair_blob(bytes, seed(number)),
        _ if name == CURRENT => repair_current(bytes),
        _ => {}
    }
}

fn put(bytes: &mut [u8], at: usize, value: u32) {
    if let Some(target) = bytes.get_mut(at..at + 4) {
        target.copy_from_slice(&value.to_le_bytes());
    }
}

fn repair_blob(bytes: &mut [u8], seed: ChecksumSeed) {
    let Some(footer) = bytes.len().checked_sub(BLOB_FOOTER).filter(|at| *at >= BLOB_HEADER) else { return };
    let sum = seed.checksum(0, &[&bytes[..BLOB_HEADER - 4]]);
    put(bytes, BLOB_HEADER - 4, sum);
    for record in blob_records(bytes) {
        let sum = seed.checksum(record.start as u64, &[&bytes[record.start + 4..record.end]]);
        put(bytes, record.start, sum);
    }
    let sum = seed.checksum(footer as u64, &[&bytes[footer..footer + 24]]);
    put(bytes, footer + 24, sum);
}

fn repair_log(bytes: &mut [u8], seed: ChecksumSeed) {
    if bytes.len() < LOG_HEADER {
        return;
    }
    // The log's header is checked with the id and number written in it.
    if let (Some(id), Some(number)) = (array(bytes, 16), u64_at(bytes, 32)) {
        let own = ChecksumSeed::new(DatabaseId(id), FileNumber(number));
        put(bytes, 60, own.checksum(0, &[&bytes[..60]]));
    }
    for Fragment { offset, payload, end, .. } in fragments(bytes) {
        put(bytes, offset + 4, seed.checksum(payload as u64, &[&bytes[payload..end]]));
        put(bytes, offset, seed.checksum(offset as u64, &[&bytes[offset + 4..payload]]));
    }
}

fn repair_table(bytes: &mut [u8], seed: ChecksumSeed) {
    if let Some(TableParts { blocks, parts }) = table(bytes) {
        for piece in blocks.into_iter().chain(parts).filter(|piece| piece.len() > TRAILER) {
            let checked = piece.start..piece.end - 4;
            put(bytes, checked.end, seed.checksum(piece.start as u64, &[&bytes[checked.clone()]]));
        }
    }
    if let Some(footer) = bytes.len().checked_sub(FOOTER) {
        put(bytes, footer + 92, seed.checksum(footer as u64, &[&bytes[footer..footer + 92]]));
    }
}

fn repair_current(bytes: &mut [u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Some(at) = text.find("check ") else { return };
    let mut lines = text.lines().skip(1);
    let id = lines.next().and_then(|line| u128::from_str_radix(line.strip_prefix("id ")?, 16).ok());
    let number = lines.next().and_then(|line| line.strip_prefix("manifest ")?.parse().ok());
    let (Some(id), Some(number)) = (id, number) else { return };
    let seed = ChecksumSeed::new(DatabaseId(id.to_be_bytes()), FileNumber(number));
    let check = format!("{:08x}", seed.checksum(0, &[&bytes[..at]]));
    if let Some(target) = bytes.get_mut(at + 6..at + 14) {
        target.copy_from_slice(check.as_bytes());
    }
}

#[cfg(test)]
mod tests;
