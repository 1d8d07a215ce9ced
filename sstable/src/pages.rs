//! Blocks and the pages of the system's cache: a block that fits into pages of its own is read with no byte of its
//! neighbours. One of 4 KiB that began anywhere lay on two pages, and a get from the device brought 8 KiB.

/// Bytes of a page, of most systems and devices.
const PAGE_BYTES: usize = 4096;

/// A block is padded with a sixteenth of its length at most.
const PADDING_SHARE: usize = 16;

/// A block may be longer than wanted by an eighth, so that it ends with a page again where the block before
/// could not be padded.
const STRETCH_SHARE: usize = 8;

/// Bytes from `offset` to where a page starts.
fn to_page(offset: u64) -> usize {
    let behind = usize::try_from(offset % PAGE_BYTES as u64).unwrap_or_default();
    (PAGE_BYTES - behind) % PAGE_BYTES
}

/// The stored bytes that a block at `offset` is to have at most, where blocks are wanted of `block_bytes`.
pub(crate) fn block_bytes_max(offset: u64, block_bytes: u32) -> usize {
    let wanted = block_bytes as usize;
    let stretch = to_page(offset);
    if stretch <= wanted / STRETCH_SHARE { wanted + stretch } else { wanted }
}

/// How many zeros bring the end of the `stored` bytes at `offset` to that of a page, if they are few.
pub(crate) fn padding(offset: u64, stored: usize) -> usize {
    let padding = to_page(offset + stored as u64);
    if padding <= stored / PADDING_SHARE { padding } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_nearly_fills_its_pages_is_padded() {
        assert_eq!(padding(0, 4_000), 96);
        assert_eq!(padding(4_096, 8_000), 192);
        assert_eq!(padding(0, 4_096), 0, "it fills them");
        assert_eq!(padding(0, 3_800), 0, "too much would be lost");
        assert_eq!(padding(100, 8_000), 92);
    }

    #[test]
    fn a_block_that_begins_shortly_before_a_page_ends_with_one() {
        assert_eq!(block_bytes_max(0, 4_096), 4_096);
        assert_eq!(block_bytes_max(3_850, 4_096), 246 + 4_096);
        assert_eq!(block_bytes_max(3_000, 4_096), 4_096);
        assert_eq!(block_bytes_max(4_096 * 7 - 900, 8_192), 900 + 8_192);
    }
}
