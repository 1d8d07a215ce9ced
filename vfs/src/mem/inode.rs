//! One file: what is durable, what is read, and the changes in between.

use std::ops::RangeInclusive;
use std::sync::Arc;

use bytes::Bytes;

use super::choice::Choice;
use super::content::{Content, PAGE_BYTES, Page, SECTOR_BYTES};

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Inode {
    /// What a power loss leaves at least.
    pub(super) durable: Content,
    /// What readers see.
    pub(super) volatile: Content,
    /// What was done since the last sync, in order.
    pub(super) pending: Vec<Pending>,
    /// A failed sync left bytes in the cache that are neither durable nor pending.
    diverged: bool,
    /// Names that readers see.
    pub(super) links: u32,
}

/// A change that is not durable yet.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    /// The call that made it, by its place in the trace.
    pub(super) call: u64,
    change: Change,
    len_after: u64,
    /// Whether it changed the length, which then is a unit of its own.
    pub(super) resizes: bool,
}

/// A change of a file's bytes or length.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Write { offset: u64, bytes: Bytes },
    SetLen(u64),
    Reserve(u64),
}

/// What a failed sync does to the bytes that it did not bring to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncFailure {
    /// They stay in the cache as if they were clean: readers go on seeing them, a later sync passes
    /// over them, a crash loses them. What ext4, XFS and Btrfs do.
    CacheKept,
    /// The cache drops them: readers see the durable bytes again.
    CacheReverted,
}

impl Pending {
    /// The sectors it writes.
    pub(super) fn sectors(&self) -> Option<RangeInclusive<u64>> {
        match &self.change {
            Change::Write { offset, bytes } => {
                let last = (offset + bytes.len() as u64 - 1) / SECTOR_BYTES;
                Some(offset / SECTOR_BYTES..=last)
            }
            Change::SetLen(_) | Change::Reserve(_) => None,
        }
    }
}

impl Inode {
    /// A file that is durable as it stands.
    pub(super) fn settled(content: Content, links: u32) -> Inode {
        Inode { durable: content.clone(), volatile: content, links, ..Inode::default() }
    }

    /// Do `change` as call number `call`; the pages that it freed.
    pub(super) fn change(&mut self, call: u64, change: Change, tracked: bool) -> Vec<Arc<Page>> {
        let before = self.volatile.len();
        let mut freed = Vec::new();
        match &change {
            Change::Write { offset, bytes } => self.volatile.write_at(bytes, *offset),
            Change::SetLen(len) => freed = self.volatile.cut(*len),
            Change::Reserve(len) => self.volatile.reserve(*len),
        }
        if tracked {
            let len_after = self.volatile.len();
            let resizes = len_after != before;
            self.pending.push(Pending { call, change, len_after, resizes });
        }
        freed
    }

    /// Make everything durable.
    pub(super) fn sync(&mut self) {
        if self.diverged {
            self.durable = self.settle(&mut super::choice::Everything, None);
        } else if self.pending.iter().all(|pending| pending.sectors().is_some()) {
            // Appends to a long file: share only the pages that were written.
            for pending in &self.pending {
                let Some(sectors) = pending.sectors() else { continue };
                let pages =
                    sectors.start() * SECTOR_BYTES / PAGE_BYTES..=sectors.end() * SECTOR_BYTES / PAGE_BYTES;
                for page in pages {
                    self.durable.set_page(page, self.volatile.page(page).cloned());
                }
            }
            self.durable.cut(self.volatile.len());
        } else {
            self.durable = self.volatile.clone();
        }
        self.pending.clear();
    }

    /// A sync fails: what `choice` takes is durable, the rest is lost.
    pub(super) fn fail_sync(&mut self, choice: &mut dyn Choice, mode: SyncFailure) {
        self.durable = self.settle(choice, None);
        self.pending.clear();
        match mode {
            SyncFailure::CacheKept => self.diverged = true,
            SyncFailure::CacheReverted => {
                self.volatile = self.durable.clone();
                self.diverged = false;
            }
        }
    }

    /// Whether a crash leaves exactly what readers see.
    pub(super) fn is_settled(&self) -> bool {
        self.pending.is_empty() && !self.diverged
    }

    /// What a crash leaves if `choice` says which pending pieces reached the disk.
    ///
    /// A sector has the bytes that it had after the last chosen write to it, with all earlier ones:
    /// a cache writes out sectors whole. The length is that after the last chosen change of it. With
    /// `stale`, sectors of new pages that no chosen write covers show the bytes of those pages instead
    /// of zeros.
    pub(super) fn settle(&self, choice: &mut dyn Choice, stale: Option<&[Arc<Page>]>) -> Content {
        let taken = Taken::choose(&self.pending, choice);
        if stale.is_none() && taken.nothing {
            return self.durable.clone();
        }
        if stale.is_none() && taken.everything && !self.diverged {
            return self.volatile.clone();
        }
        let mut content = self.durable.clone();
        if let Some(pages) = stale {
            self.show_stale(&mut content, &taken, pages);
        }
        for (position, pending) in self.pending.iter().enumerate() {
            let resized = taken.length.is_some_and(|last| position <= last);
            match &pending.change {
                Change::Write { offset, bytes } => taken.put(position, bytes, *offset, &mut content),
                Change::SetLen(len) if resized => content.zero(*len, u64::MAX),
                Change::SetLen(len) => taken.zero(position, *len, &mut content),
                Change::Reserve(len) if resized => content.reserve(*len),
                Change::Reserve(_) => {}
            }
        }
        let length = taken.length.and_then(|last| self.pending.get(last));
        content.cut(length.map_or(self.durable.len(), |pending| pending.len_after));
        content
    }

    /// Fill the untaken sectors of pages that are new since the last sync with old bytes.
    fn show_stale(&self, content: &mut Content, taken: &Taken, stale: &[Arc<Page>]) {
        for (position, pending) in self.pending.iter().enumerate() {
            let Some(sectors) = pending.sectors() else { continue };
            for number in
                sectors.start() * SECTOR_BYTES / PAGE_BYTES..=sectors.end() * SECTOR_BYTES / PAGE_BYTES
            {
                if content.page(number).is_some() || stale.is_empty() || self.reserved(number, taken) {
                    continue;
                }
                // Any assignment of pages will do, as long as it is the same each time.
                let pick = (position + usize::try_from(number).unwrap_or(0)) % stale.len();
                content.set_page(number, Some(Arc::clone(&stale[pick])));
                for sector in number * PAGE_BYTES / SECTOR_BYTES..(number + 1) * PAGE_BYTES / SECTOR_BYTES {
                    if taken.cut(sector) > 0 {
                        content.zero(sector * SECTOR_BYTES, (sector + 1) * SECTOR_BYTES);
                    }
                }
            }
        }
    }

    /// Whether page `number` was reserved and the disk knows: filesystems keep a note of what was reserved and
    /// not written, and show zeros there.
    fn reserved(&self, number: u64, taken: &Taken) -> bool {
        let known = self.pending.iter().take(taken.length.map_or(0, |last| last + 1));
        known
            .into_iter()
            .any(|pending| matches!(pending.change, Change::Reserve(len) if len > number * PAGE_BYTES))
    }
}

/// Which pending pieces reached the disk.
struct Taken {
    first_sector: u64,
    /// For each sector from the first: one more than the position of the last chosen write, or 0.
    cuts: Vec<u32>,
    /// Position of the last chosen change of length.
    length: Option<usize>,
    everything: bool,
    nothing: bool,
}

impl Taken {
    fn choose(pending: &[Pending], choice: &mut dyn Choice) -> Taken {
        choice.begin(pending.len(), &|nth| pending[nth].call);
        let spans = || pending.iter().filter_map(Pending::sectors);
        let first = spans().map(|span| *span.start()).min().unwrap_or(0);
        let end = spans().map(|span| *span.end() + 1).max().unwrap_or(0);
        let mut taken = Taken {
            first_sector: first,
            cuts: vec![0; usize::try_from(end.saturating_sub(first)).expect("within the largest file")],
            length: None,
            everything: true,
            nothing: true,
        };
        for (position, pending) in pending.iter().enumerate() {
            if pending.resizes {
                let chosen = choice.length(pending.call);
                taken.count(chosen);
                if chosen {
                    taken.length = Some(position);
                }
            }
            for sector in pending.sectors().into_iter().flatten() {
                let chosen = choice.data(pending.call, sector);
                taken.count(chosen);
                if chosen {
                    let place = taken.place(sector);
                    taken.cuts[place] = u32::try_from(position + 1).unwrap_or(u32::MAX);
                }
            }
        }
        taken
    }

    fn count(&mut self, chosen: bool) {
        self.everything &= chosen;
        self.nothing &= !chosen;
    }

    fn place(&self, sector: u64) -> usize {
        usize::try_from(sector - self.first_sector).unwrap_or(usize::MAX)
    }

    fn cut(&self, sector: u64) -> u32 {
        if sector < self.first_sector {
            return 0;
        }
        self.cuts.get(self.place(sector)).copied().unwrap_or(0)
    }

    /// Whether `sector` is as it was after the change at `position`, or later.
    fn reaches(&self, sector: u64, position: usize) -> bool {
        self.cut(sector) as usize > position
    }

    /// The part of a write that lies in sectors it reached.
    fn put(&self, position: usize, bytes: &[u8], offset: u64, content: &mut Content) {
        let end = offset + bytes.len() as u64;
        let mut run: Option<u64> = None;
        let mut at = offset;
        while at < end {
            let sector = at / SECTOR_BYTES;
            if self.reaches(sector, position) {
                run.get_or_insert(at);
            } else if let Some(start) = run.take() {
                put_range(bytes, offset, start..at, content);
            }
            at = (sector + 1) * SECTOR_BYTES;
        }
        if let Some(start) = run {
            put_range(bytes, offset, start..end, content);
        }
    }

    /// A truncation to `len` as far as sectors taken later show it.
    fn zero(&self, position: usize, len: u64, content: &mut Content) {
        for (place, _) in self.cuts.iter().enumerate().filter(|(_, cut)| **cut as usize > position) {
            let sector = self.first_sector + place as u64;
            content.zero(len.max(sector * SECTOR_BYTES), (sector + 1) * SECTOR_BYTES);
        }
    }
}

fn put_range(bytes: &[u8], offset: u64, range: std::ops::Range<u64>, content: &mut Content) {
    let place = |at: u64| usize::try_from(at - offset).unwrap_or(usize::MAX);
    content.put(&bytes[place(range.start)..place(range.end)], range.start);
}
