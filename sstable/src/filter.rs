//! The filter of a table: a blocked Bloom filter that says which keys are surely absent. See FORMAT.md,
//! "Filter". One cache line is touched for a key.

use esker_base::coding::DecodeError;
use esker_base::planted::{self, Planted};
use esker_vfs::os::memory::prefetch;
use esker_vfs::os::pages::Pages;

/// Bits of a line.
const LINE_BITS: u64 = 512;
/// Bytes of a line.
const LINE_BYTES: usize = 64;
/// 2^64 divided by the golden ratio: spreads a hash for each probe.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
const PROBES_MAX: u8 = 16;

/// One cache line of the filter, as eight words.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Line([u64; 8]);

/// Hashes in a chunk of [`KeyHashes`].
const CHUNK_HASHES: usize = 128 << 10;

/// The hashes of distinct keys, gathered for a filter: some MiB, for as long as the table is written.
#[derive(Debug, Default)]
pub(crate) struct KeyHashes {
    /// All but the last are full.
    chunks: Vec<Pages>,
    len: usize,
}

impl KeyHashes {
    /// One more.
    #[inline]
    pub(crate) fn push(&mut self, hash: u64) {
        let place = self.len % CHUNK_HASHES;
        if place == 0 {
            self.chunks.push(Pages::new(CHUNK_HASHES * size_of::<u64>()));
        }
        let last = self.chunks.last_mut().map(|chunk| chunk.as_chunks_mut().0);
        if let Some(place) = last.and_then(|hashes| hashes.get_mut(place)) {
            *place = hash.to_le_bytes();
            self.len += 1;
        }
    }

    /// How many there are.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes of memory held, without what is unused of the last page.
    pub(crate) fn memory(&self) -> usize {
        self.len * size_of::<u64>()
    }

    fn iter(&self) -> impl Iterator<Item = u64> {
        let all = self.chunks.iter().flat_map(|chunk| chunk.as_chunks().0);
        all.take(self.len).map(|hash| u64::from_le_bytes(*hash))
    }
}

/// A filter, or none, which lets everything through.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    probes: u8,
    lines: Vec<Line>,
}

impl Filter {
    /// A filter over `hashes` (of distinct keys) with about `bits_per_key` bits for each; `None` if
    /// there is nothing to filter.
    pub(crate) fn build(hashes: &KeyHashes, bits_per_key: u8) -> Option<Filter> {
        if hashes.len() == 0 || bits_per_key == 0 {
            return None;
        }
        let bits = hashes.len() as u64 * u64::from(bits_per_key);
        let lines = usize::try_from(bits.div_ceil(LINE_BITS)).ok()?;
        // bits × ln 2 probes are best for a plain filter; lines fill unevenly, so take a little fewer.
        let probes = u8::try_from(u32::from(bits_per_key) * 6 / 10).unwrap_or(PROBES_MAX);
        let mut filter =
            Filter { probes: probes.clamp(1, PROBES_MAX), lines: vec![Line::default(); lines] };
        for hash in hashes.iter() {
            let probes = filter.probes;
            let line = filter.line_of(hash);
            if let Some(line) = filter.lines.get_mut(line) {
                for (word, bit) in bits_of(hash, probes) {
                    if let Some(word) = line.0.get_mut(word) {
                        *word |= bit;
                    }
                }
            }
        }
        Some(filter)
    }

    /// The filter's payload.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(1 + self.lines.len() * LINE_BYTES);
        out.push(self.probes);
        for word in self.lines.iter().flat_map(|line| line.0) {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out
    }

    /// Decode a payload.
    pub(crate) fn decode(payload: &[u8]) -> Result<Filter, DecodeError> {
        let bad = |what| DecodeError { what, at: 0 };
        let (&probes, bytes) = payload.split_first().ok_or(bad("probes"))?;
        let (lines, rest) = bytes.as_chunks::<LINE_BYTES>();
        if !(1..=PROBES_MAX).contains(&probes) || lines.is_empty() || !rest.is_empty() {
            return Err(bad("probes or length of the filter"));
        }
        let line = |bytes: &[u8; LINE_BYTES]| {
            let mut line = Line::default();
            for (word, bytes) in line.0.iter_mut().zip(bytes.as_chunks::<8>().0) {
                *word = u64::from_le_bytes(*bytes);
            }
            line
        };
        Ok(Filter { probes, lines: lines.iter().map(line).collect() })
    }

    /// Whether a key with this hash may be in the table. Without a filter, always.
    #[inline]
    pub(crate) fn may_contain(&self, hash: u64) -> bool {
        let Some(line) = self.lines.get(self.line_of(hash)) else { return true };
        if planted::is(Planted::FilterDenies) && hash.is_multiple_of(64) {
            return false;
        }
        // All probes are made, though the first bit that is not set decides. The processor cannot foresee
        // at which probe that is; but it can mostly foresee the answer, and goes on past it before the line
        // has come.
        let is_set = |(word, bit): (usize, u64)| line.0.get(word).is_some_and(|word| word & bit != 0);
        bits_of(hash, self.probes).map(is_set).fold(true, std::ops::BitAnd::bitand)
    }

    /// Start loading the line that `may_contain(hash)` will read.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        if let Some(line) = self.lines.get(self.line_of(hash)) {
            prefetch(line);
        }
    }

    /// Probes a key.
    pub(crate) fn probes(&self) -> u8 {
        self.probes
    }

    /// Whether there is a filter.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        !self.lines.is_empty()
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "below the number of lines, a usize")]
    fn line_of(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.lines.len() as u128) >> 64) as usize
    }

    /// Bytes of memory held.
    pub(crate) fn memory(&self) -> u64 {
        (self.lines.capacity() * LINE_BYTES) as u64
    }
}

/// Word and bit of each probe in a line.
#[inline]
fn bits_of(hash: u64, probes: u8) -> impl Iterator<Item = (usize, u64)> {
    let mut x = hash;
    (0..probes).map(move |_| {
        x = x.wrapping_mul(SPREAD);
        let bit = x >> 55;
        (usize::from((bit >> 6) as u8), 1 << (bit & 63))
    })
}

#[cfg(test)]
mod tests;
