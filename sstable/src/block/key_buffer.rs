//! The key that a walk over a block has put together.

use esker_base::key::head;

/// Keys up to this size are copied without calling into memcpy.
const SHORT: usize = 16;

/// A key's bytes, and space for a short copy after them. What stands after the key is left over from other
/// keys.
#[derive(Debug, Default)]
pub(super) struct KeyBuffer(Vec<u8>);

impl KeyBuffer {
    /// Begin with the `len` bytes at offset `from` of `bytes`; returns their head, in which arbitrary bytes follow if they are
    /// fewer than 8.
    pub(super) fn begin(&mut self, bytes: &[u8], from: u32, len: u32) -> u64 {
        let room = len as usize + 4 * SHORT;
        if self.0.len() < room {
            self.0.resize(room, 0);
        }
        self.copy(bytes, 0, from, len)
    }

    /// The first `len` bytes.
    #[inline]
    pub(super) fn get(&self, len: u32) -> &[u8] {
        self.0.get(..len as usize).unwrap_or_default()
    }

    /// Copy `len` bytes from offset `from` of `bytes` to offset `at` of the key; returns their head, in which
    /// arbitrary bytes follow if they are fewer than 8.
    #[inline(always)]
    pub(super) fn copy(&mut self, bytes: &[u8], at: u32, from: u32, len: u32) -> u64 {
        let (at, from, len) = (at as usize, from as usize, len as usize);
        if len <= SHORT {
            let source = bytes.get(from..from + SHORT).and_then(<[u8]>::first_chunk::<SHORT>);
            let target = self.0.get_mut(at..at + SHORT).and_then(<[u8]>::first_chunk_mut::<SHORT>);
            if let (Some(source), Some(target)) = (source, target) {
                *target = *source;
                return head(source);
            }
        }
        self.copy_long(bytes, at, from, len)
    }

    #[inline(never)]
    fn copy_long(&mut self, bytes: &[u8], at: usize, from: usize, len: usize) -> u64 {
        if self.0.len() < at + len + SHORT {
            self.0.resize((at + len) * 2 + SHORT, 0);
        }
        let source = bytes.get(from..from + len).unwrap_or_default();
        if let Some(target) = self.0.get_mut(at..at + source.len()) {
            target.copy_from_slice(source);
        }
        head(source)
    }
}

/// The head of what stands at offset `from` of `bytes`.
#[inline(always)]
pub(super) fn head_at(bytes: &[u8], from: u32) -> u64 {
    let from = from as usize;
    match bytes.get(from..from + SHORT).and_then(<[u8]>::first_chunk::<SHORT>) {
        Some(source) => head(source),
        None => head(bytes.get(from..).unwrap_or_default()),
    }
}

/// The head of a key that begins with the first `kept` bytes of one whose head is `base`, and goes on with bytes whose
/// head is `rest`.
#[inline(always)]
pub(super) fn spliced_head(base: u64, kept: u32, rest: u64) -> u64 {
    if kept >= 8 { base } else { base & first_bytes(kept) | rest >> (8 * kept) }
}

/// A mask for the first `bytes` bytes of a head, fewer than 8.
#[inline(always)]
pub(super) fn first_bytes(bytes: u32) -> u64 {
    !(u64::MAX >> (8 * bytes))
}
