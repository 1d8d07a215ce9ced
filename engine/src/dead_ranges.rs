//! Ranges of keys that are known to hold no row, so that a scan crosses what was deleted once and not
//! every time.
//!
//! Tombstones stay until a compaction meets what they hide; until then every scan over them steps
//! through them, and the head of a queue moves away from its first row with every pop. A scan that has
//! passed many dead entries in a row therefore has the range *watched*: from then on every put into it is
//! noted here before it is published, and cuts the range. What a scan that began after that has walked
//! through without a row is *dead*: for it, and for every reader of its moment or a later one, until a put
//! cuts that too. Deletes change nothing: what is dead stays dead.
//!
//! Invariants, of each watched range:
//!
//! 1. Every put and merge into it that is numbered after `since` has cut it before it was published: the
//!    watch begins while no commit is under way ([`DeadRanges::watch`] is called under the commit lock).
//! 2. `dead` lies within it, and no reader of number `at` or later sees a row in `dead`.
//! 3. Ranges do not overlap and are sorted by keyspace and start.
//!
//! A reader that pinned its number before a put was published may still take the uncut range, or the cut
//! one: it sees nothing of the put either way. Nothing here is stored: after an open the first scan walks.

use std::cmp::Ordering;

use esker_base::key::after;
use esker_base::planted::{self, Planted};
use esker_base::sync::Mutex;
use esker_base::sync::atomic::{self, AtomicUsize};
use esker_base::{KeyspaceId, SeqNo};

/// More ranges are not kept: the one that was watched first makes room.
const RANGES_MAX: usize = 64;

/// A range whose ends are longer is not worth its memory.
pub(crate) const KEY_BYTES_MAX: usize = 1 << 10;

/// Keys from `start` up to `end`, which is not among them; `None`: to the last key there can be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyRange {
    pub(crate) start: Vec<u8>,
    pub(crate) end: Option<Vec<u8>>,
}

impl KeyRange {
    fn contains(&self, key: &[u8]) -> bool {
        self.start.as_slice() <= key && self.ends_after(key)
    }

    fn ends_after(&self, key: &[u8]) -> bool {
        self.end.as_deref().is_none_or(|end| key < end)
    }

    fn is_empty(&self) -> bool {
        !self.ends_after(&self.start)
    }

    /// What lies in both; it may be empty.
    fn within(self, other: &KeyRange) -> KeyRange {
        let end = if end_order(self.end.as_deref(), other.end.as_deref()) == Ordering::Less {
            self.end
        } else {
            other.end.clone()
        };
        KeyRange { start: self.start.max(other.start.clone()), end }
    }

    /// Both, which touch, in one.
    fn joined(self, other: KeyRange) -> KeyRange {
        let end = if end_order(self.end.as_deref(), other.end.as_deref()) == Ordering::Less {
            other.end
        } else {
            self.end
        };
        KeyRange { start: self.start.min(other.start), end }
    }

    /// Whether no key lies between the two, or some in both.
    fn touches(&self, other: &KeyRange) -> bool {
        let reaches = |a: &KeyRange, b: &KeyRange| a.end.as_ref().is_none_or(|end| *end >= b.start);
        reaches(self, other) && reaches(other, self)
    }
}

/// The order of two ends, of which `None` is the last.
fn end_order(a: Option<&[u8]>, b: Option<&[u8]>) -> Ordering {
    match (a, b) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Greater,
        (Some(_), None) => Ordering::Less,
        (Some(a), Some(b)) => a.cmp(b),
    }
}

/// See the module's invariants.
#[derive(Debug)]
struct Watched {
    keyspace: KeyspaceId,
    range: KeyRange,
    since: SeqNo,
    dead: Option<Dead>,
    /// The walk that the watch is for goes to smaller keys: of a range that is cut, what lies behind the
    /// cut stays.
    backwards: bool,
}

#[derive(Debug)]
struct Dead {
    range: KeyRange,
    at: SeqNo,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct DeadRanges {
    /// How many there are: changed under the lock. A commit that reads 0 has nothing to look for.
    count: AtomicUsize,
    ranges: Mutex<Vec<Watched>>,
}

impl DeadRanges {
    /// Whether a commit has to tell of its puts. Called under the commit lock, as [`DeadRanges::watch`]
    /// is: so 0 means that none begins before the commit is done.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.count.load(atomic::Ordering::Relaxed) > 0
    }

    /// A commit puts, or merges into, `key`; it is not published yet.
    pub(crate) fn put(&self, keyspace: KeyspaceId, key: &[u8]) {
        if planted::is(Planted::DeadForever) {
            return;
        }
        let mut ranges = self.ranges.lock();
        let Some(index) = find(&ranges, keyspace, key) else { return };
        let watched = &mut ranges[index];
        let before = match &watched.dead {
            Some(dead) => key < dead.range.start.as_slice(),
            None => watched.backwards,
        };
        if before {
            watched.range.start = after(key);
        } else {
            watched.range.end = Some(key.to_vec());
            if let Some(dead) = watched.dead.as_mut().filter(|dead| dead.range.ends_after(key)) {
                dead.range.end = Some(key.to_vec());
            }
        }
        if watched.dead.as_ref().is_some_and(|dead| dead.range.is_empty()) {
            watched.dead = None;
        }
        if watched.range.is_empty() {
            ranges.remove(index);
            self.count.store(ranges.len(), atomic::Ordering::Relaxed);
        }
    }

    /// The dead range that holds `key`, for a reader of number `read_seqno`.
    pub(crate) fn dead(&self, keyspace: KeyspaceId, key: &[u8], read_seqno: SeqNo) -> Option<KeyRange> {
        let ranges = self.ranges.lock();
        let dead = ranges[find(&ranges, keyspace, key)?].dead.as_ref()?;
        (dead.at <= read_seqno && dead.range.contains(key)).then(|| dead.range.clone())
    }

    /// Since when the range that `key` is in is watched, if `other` is in it too. A reader of that number or a later one may
    /// say that it is dead.
    pub(crate) fn watched(&self, keyspace: KeyspaceId, key: &[u8], other: &[u8]) -> Option<SeqNo> {
        let ranges = self.ranges.lock();
        let watched = find(&ranges, keyspace, key).map(|index| &ranges[index])?;
        watched.range.contains(other).then_some(watched.since)
    }

    /// Watch `range` from now on, for a walk that has come to `from` in it. `since` is the last number
    /// given out, and the caller is under the commit lock. What is watched already stays as it is, but
    /// for the range that `from` is in, if it grows: then all of it counts as watched from now on.
    pub(crate) fn watch(
        &self,
        keyspace: KeyspaceId,
        range: KeyRange,
        from: &[u8],
        backwards: bool,
        since: SeqNo,
    ) {
        let longest = range.start.len().max(range.end.as_ref().map_or(0, Vec::len)).max(from.len());
        if longest >= KEY_BYTES_MAX {
            return;
        }
        let mut ranges = self.ranges.lock();
        let known = find(&ranges, keyspace, from);
        if known.is_none() && ranges.len() >= RANGES_MAX {
            let first = (0..ranges.len()).min_by_key(|index| ranges[*index].since);
            first.map(|index| ranges.remove(index));
        }
        let place = ranges.partition_point(|w| (w.keyspace, w.range.start.as_slice()) <= (keyspace, from));
        let mine = |w: &&Watched| w.keyspace == keyspace;
        let (before, next) = match known {
            Some(index) => (index.checked_sub(1), index + 1),
            None => (place.checked_sub(1), place),
        };
        let before = before.and_then(|index| ranges.get(index)).filter(mine).map(|w| w.range.end.clone());
        let next = ranges.get(next).filter(mine).map(|w| w.range.start.clone());
        // A range before this one ends, because this one follows it.
        let free = KeyRange { start: before.flatten().unwrap_or_default(), end: next };
        let range = range.within(&free);
        match known {
            Some(index) => {
                let watched = &mut ranges[index];
                let grown = watched.range.clone().joined(range);
                if grown != watched.range {
                    (watched.range, watched.since) = (grown, since);
                }
            }
            None => ranges.insert(place, Watched { keyspace, range, since, dead: None, backwards }),
        }
        self.count.store(ranges.len(), atomic::Ordering::Relaxed);
    }

    /// Watch the range that `key` is in no longer, if nothing of it is known to be dead.
    pub(crate) fn unwatch_living(&self, keyspace: KeyspaceId, key: &[u8]) {
        let mut ranges = self.ranges.lock();
        if let Some(index) = find(&ranges, keyspace, key).filter(|&index| ranges[index].dead.is_none()) {
            ranges.remove(index);
            self.count.store(ranges.len(), atomic::Ordering::Relaxed);
        }
    }

    /// A reader of number `read_seqno` has walked through `range` and seen no row: as far as it was watched since
    /// before that number, it is dead. Whether it was watched so early all over: not if a watch that grew meanwhile counts
    /// from later on, and then the same walk by a later reader would be worth something.
    pub(crate) fn confirm(&self, keyspace: KeyspaceId, range: &KeyRange, read_seqno: SeqNo) -> bool {
        let mut ranges = self.ranges.lock();
        let order = |w: &Watched| w.keyspace.cmp(&keyspace);
        let behind =
            |w: &Watched| order(w).then(end_order(w.range.end.as_deref(), Some(&range.start))).is_le();
        let before = |w: &Watched| order(w).is_lt() || order(w).is_eq() && range.ends_after(&w.range.start);
        let first = ranges.partition_point(behind);
        let mut last = ranges.partition_point(before);
        let mut in_time = true;
        for index in (first..last).rev() {
            if ranges[index].since > read_seqno {
                in_time = false;
                continue;
            }
            let apart = ranges.len() < RANGES_MAX;
            let found = Dead { range: range.clone().within(&ranges[index].range), at: read_seqno };
            if let Some(behind) = ranges[index].confirm(found, apart) {
                ranges.insert(index + 1, behind);
                last += 1;
            }
        }
        // Neighbours that are dead where they meet are one range.
        let mut index = first.saturating_sub(1);
        while index < last && index + 1 < ranges.len() {
            if ranges[index].meets(&ranges[index + 1]) {
                let next = ranges.remove(index + 1);
                ranges[index].join(next);
                last -= 1;
            } else {
                index += 1;
            }
        }
        self.count.store(ranges.len(), atomic::Ordering::Relaxed);
        in_time
    }
}

impl Watched {
    /// `found` was found to be dead. Where something else of the range is known to be and keys lie between the two, each gets a
    /// range of its own, of which the one behind is handed out; if that may not be (`apart`), only the newer is remembered.
    fn confirm(&mut self, found: Dead, apart: bool) -> Option<Watched> {
        if found.range.is_empty() {
            return None;
        }
        let Some(known) = self.dead.take() else {
            self.dead = Some(found);
            return None;
        };
        if known.range.touches(&found.range) {
            let at = known.at.max(found.at);
            self.dead = Some(Dead { range: known.range.joined(found.range), at });
            return None;
        }
        if !apart {
            self.dead = Some(found);
            return None;
        }
        let (dead, behind) =
            if known.range.start < found.range.start { (known, found) } else { (found, known) };
        let start = behind.range.start.clone();
        let end = self.range.end.replace(start.clone());
        self.dead = Some(dead);
        let range = KeyRange { start, end };
        Some(Watched { range, dead: Some(behind), ..*self })
    }

    /// Whether no key lies between the dead part of this and that of `next`.
    fn meets(&self, next: &Watched) -> bool {
        let (Some(dead), Some(after)) = (&self.dead, &next.dead) else { return false };
        self.keyspace == next.keyspace && dead.range.end.as_ref() == Some(&after.range.start)
    }

    fn join(&mut self, next: Watched) {
        self.range.end = next.range.end;
        self.since = self.since.max(next.since);
        if let (Some(dead), Some(after)) = (&mut self.dead, next.dead) {
            dead.range.end = after.range.end;
            dead.at = dead.at.max(after.at);
        }
    }
}

/// The place of the range that holds `key`.
fn find(ranges: &[Watched], keyspace: KeyspaceId, key: &[u8]) -> Option<usize> {
    let behind = ranges.partition_point(|w| (w.keyspace, w.range.start.as_slice()) <= (keyspace, key));
    let index = behind.checked_sub(1)?;
    (ranges[index].keyspace == keyspace && ranges[index].range.contains(key)).then_some(index)
}

#[cfg(test)]
mod tests;
