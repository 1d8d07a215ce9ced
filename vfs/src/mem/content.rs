//! The bytes of a file: pages shared until one of the owners writes.
//!
//! Invariant: every byte at or past `len` is zero or in no page, so that a file that grows again
//! reads as zeros there.

use std::sync::{Arc, LazyLock};

use esker_base::checksum::key_hash;

use crate::trace::TraceHash;

/// Bytes in a page, the unit of sharing and of space.
pub const PAGE_BYTES: u64 = 4096;
/// Bytes in a sector, the unit that reaches a disk whole or not at all.
pub const SECTOR_BYTES: u64 = 512;
/// No file grows beyond this many bytes.
pub(super) const FILE_BYTES_MAX: u64 = 1 << 36;

const PAGE: usize = 4096;

/// One page.
pub(super) type Page = [u8; PAGE];

/// What reserved space points to until it is written.
static ZEROS: LazyLock<Arc<Page>> = LazyLock::new(|| Arc::new([0; PAGE]));

/// Lengths here are below [`FILE_BYTES_MAX`] or those of buffers in memory.
fn index(number: u64) -> usize {
    usize::try_from(number).expect("checked against the largest file")
}

fn page_of(offset: u64) -> usize {
    index(offset / PAGE_BYTES)
}

fn within_page(offset: u64) -> usize {
    index(offset % PAGE_BYTES)
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    /// `None` is a hole.
    pages: Vec<Option<Arc<Page>>>,
    len: u64,
}

impl Content {
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Read up to `buffer.len()` bytes at `offset`; fewer at the end.
    pub(super) fn read_at(&self, buffer: &mut [u8], offset: u64) -> usize {
        let count = index(self.len.saturating_sub(offset).min(buffer.len() as u64));
        let mut done = 0;
        while done < count {
            let at = offset + done as u64;
            let within = within_page(at);
            let piece = (PAGE - within).min(count - done);
            let target = &mut buffer[done..done + piece];
            match self.pages.get(page_of(at)).and_then(Option::as_ref) {
                Some(page) => target.copy_from_slice(&page[within..within + piece]),
                None => target.fill(0),
            }
            done += piece;
        }
        count
    }

    /// Put `bytes` at `offset`, growing the length as needed.
    pub(super) fn write_at(&mut self, bytes: &[u8], offset: u64) {
        self.put(bytes, offset);
        self.len = self.len.max(offset + bytes.len() as u64);
    }

    /// Put `bytes` at `offset` and leave the length alone; [`Content::cut`] restores the invariant.
    pub(super) fn put(&mut self, bytes: &[u8], offset: u64) {
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let within = within_page(at);
            let piece = (PAGE - within).min(bytes.len() - done);
            let page = self.page_mut(page_of(at));
            page[within..within + piece].copy_from_slice(&bytes[done..done + piece]);
            done += piece;
        }
    }

    fn page_mut(&mut self, number: usize) -> &mut Page {
        if self.pages.len() <= number {
            self.pages.resize(number + 1, None);
        }
        Arc::make_mut(self.pages[number].get_or_insert_with(|| Arc::new([0; PAGE])))
    }

    /// Page `number`, if it is not a hole.
    pub(super) fn page(&self, number: u64) -> Option<&Arc<Page>> {
        self.pages.get(index(number)).and_then(Option::as_ref)
    }

    /// Put a whole page in place, length untouched.
    pub(super) fn set_page(&mut self, number: u64, page: Option<Arc<Page>>) {
        let number = index(number);
        if self.pages.len() <= number {
            if page.is_none() {
                return;
            }
            self.pages.resize(number + 1, None);
        }
        self.pages[number] = page;
    }

    /// Zero the bytes `start..end`, length untouched.
    pub(super) fn zero(&mut self, start: u64, end: u64) {
        let mut at = start;
        while at < end && page_of(at) < self.pages.len() {
            let within = within_page(at);
            let piece = (PAGE - within).min(index(end - at));
            if self.pages[page_of(at)].is_some() {
                self.page_mut(page_of(at))[within..within + piece].fill(0);
            }
            at += piece as u64;
        }
    }

    /// Make the length `len`, dropping or zeroing what lies past it; the pages dropped.
    pub(super) fn cut(&mut self, len: u64) -> Vec<Arc<Page>> {
        self.len = len;
        let whole = index(len.div_ceil(PAGE_BYTES));
        let dropped = if whole < self.pages.len() {
            self.pages.drain(whole..).flatten().collect()
        } else {
            Vec::new()
        };
        let within = within_page(len);
        if within > 0
            && let Some(Some(page)) = self.pages.get_mut(page_of(len))
            && page[within..].iter().any(|&byte| byte != 0)
        {
            Arc::make_mut(page)[within..].fill(0);
        }
        dropped
    }

    /// Reserve space for the first `len` bytes and make the length at least that.
    pub(super) fn reserve(&mut self, len: u64) {
        let pages = index(len.div_ceil(PAGE_BYTES));
        if self.pages.len() < pages {
            self.pages.resize(pages, None);
        }
        for page in &mut self.pages[..pages] {
            if page.is_none() {
                *page = Some(Arc::clone(&ZEROS));
            }
        }
        self.len = self.len.max(len);
    }

    /// Bytes of space that are taken.
    pub(super) fn allocated(&self) -> u64 {
        self.pages.iter().flatten().count() as u64 * PAGE_BYTES
    }

    /// Bytes of space that writing or reserving `start..end` would take on top.
    pub(super) fn needed(&self, start: u64, end: u64) -> u64 {
        if start >= end {
            return 0;
        }
        let (first, last) = (page_of(start), page_of(end - 1));
        let there = self.pages.iter().skip(first).take(last - first + 1).flatten().count();
        (last - first + 1 - there) as u64 * PAGE_BYTES
    }

    /// The pages that are not holes.
    pub(super) fn pages(&self) -> impl Iterator<Item = &Arc<Page>> {
        self.pages.iter().flatten()
    }

    /// Take length and bytes into `hash`; a hole counts as the zeros it reads as.
    pub(super) fn hash_into(&self, hash: &mut TraceHash) {
        hash.number(self.len);
        for number in 0..self.len.div_ceil(PAGE_BYTES) {
            let used = index((self.len - number * PAGE_BYTES).min(PAGE_BYTES));
            let page = self.page(number).unwrap_or(&ZEROS);
            hash.number(key_hash(&page[..used]));
        }
    }
}
