//! Which sequence numbers readers still hold: compaction keeps what they can see.
//!
//! One owner type a pin: a [`Pin`] adds its number when it is made and removes it when it is dropped,
//! and nothing else touches the list.

use std::collections::BTreeMap;
use std::sync::Arc;

use esker_base::SeqNo;
use esker_base::planted::{self, Planted};
use esker_base::sync::Mutex;
use esker_base::sync::atomic::{AtomicU64, Ordering};

/// The pinned numbers and the newest published one.
#[derive(Debug)]
pub(crate) struct SnapshotList {
    pins: Mutex<BTreeMap<SeqNo, usize>>,
    /// The newest number whose writes readers may see. Stored with Release by the commit queue after
    /// the memtable has the writes; loaded with Acquire by readers.
    visible: AtomicU64,
}

/// Keeps one number pinned until it is dropped.
#[derive(Debug)]
pub(crate) struct Pin {
    list: Arc<SnapshotList>,
    seqno: SeqNo,
}

impl SnapshotList {
    pub(crate) fn new(visible: SeqNo) -> Self {
        SnapshotList { pins: Mutex::new(BTreeMap::new()), visible: AtomicU64::new(visible.0) }
    }

    /// The newest published number.
    #[inline]
    pub(crate) fn visible(&self) -> SeqNo {
        SeqNo(self.visible.load(Ordering::Acquire))
    }

    /// Publish everything up to `seqno`. The commit queue alone calls this.
    #[inline]
    pub(crate) fn publish(&self, seqno: SeqNo) {
        self.visible.store(seqno.0, Ordering::Release);
    }

    /// Pin the newest published number. It is read under the lock, so that a compaction that has
    /// taken its [`SnapshotList::boundaries`] before cannot have a later horizon than this pin.
    pub(crate) fn pin(self: &Arc<Self>) -> Pin {
        let mut pins = self.pins.lock();
        let seqno = self.visible();
        *pins.entry(seqno).or_insert(0) += 1;
        Pin { list: Arc::clone(self), seqno }
    }

    /// Every number that a reader holds or may yet take, ascending. No reader can tell two versions apart that lie between
    /// the same two neighbours. The last is the newest published one.
    pub(crate) fn boundaries(&self) -> Vec<SeqNo> {
        let pins = self.pins.lock();
        let mut boundaries: Vec<SeqNo> = pins.keys().copied().collect();
        let visible = self.visible();
        if planted::is(Planted::SnapshotsForgotten) {
            boundaries.clear();
        }
        if boundaries.last() != Some(&visible) {
            boundaries.push(visible);
        }
        boundaries
    }

    /// How many pins there are.
    pub(crate) fn len(&self) -> usize {
        self.pins.lock().values().sum()
    }
}

impl Pin {
    pub(crate) fn seqno(&self) -> SeqNo {
        self.seqno
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut pins = self.list.pins.lock();
        if let Some(count) = pins.get_mut(&self.seqno) {
            *count -= 1;
            if *count == 0 {
                pins.remove(&self.seqno);
            }
        }
    }
}
