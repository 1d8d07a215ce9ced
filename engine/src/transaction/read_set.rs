//! What a transaction has read, and whether anybody has written to it since.
//!
//! It is asked twice, by the same code: before the commit queues, when nobody waits for the answer, and under the
//! commit lock, when everybody does. What the first has proved the second need not look at again: up to the number that it
//! looked at everything was published and in its place, and what has a number later than that alone can differ.
//! (Only to drop a keyspace takes no number; that is asked again.)
//!
//! Locks: `seen`, for an insertion or a check, reads of tables within.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::{Arc, Weak};

use esker_base::bounds::Bounds;
use esker_base::planted::{self, Planted};
use esker_base::sync::Mutex;
use esker_base::sync::atomic::Ordering;
use esker_base::{Cursor, Error, InternalKey, KeyspaceId, Kind, OpCost, Result, SeqNo};

use crate::batch::Op;
use crate::commit::Work;
use crate::core::Core;
use crate::get::View;
use crate::scan::ScanView;
use crate::superversion::SuperVersion;

/// What a transaction has read.
#[derive(Debug)]
pub(crate) struct ReadSet {
    seen: Mutex<Seen>,
}

#[derive(Debug)]
struct Seen {
    /// Up to this number nobody has written to what was read: the snapshot's, then what a check has looked at.
    upto: SeqNo,
    keys: BTreeSet<(KeyspaceId, Vec<u8>)>,
    ranges: Vec<(KeyspaceId, Bounds)>,
}

impl ReadSet {
    /// Nothing was read of the snapshot numbered `seqno` so far.
    pub(super) fn new(seqno: SeqNo) -> Self {
        ReadSet { seen: Mutex::new(Seen { upto: seqno, keys: BTreeSet::new(), ranges: Vec::new() }) }
    }

    /// Note that `keys` are about to be read.
    pub(super) fn saw_keys<'a>(&self, keyspace: KeyspaceId, keys: impl Iterator<Item = &'a [u8]>) {
        self.seen.lock().keys.extend(keys.map(|key| (keyspace, key.to_vec())));
    }

    /// Note a range about to be read; returns its place, for [`ReadSet::read_to`].
    pub(super) fn begin_range(&self, keyspace: KeyspaceId, bounds: Bounds) -> usize {
        let mut seen = self.seen.lock();
        seen.ranges.push((keyspace, bounds));
        seen.ranges.len() - 1
    }

    /// Note that all of the range at `place` has been read.
    pub(super) fn read_whole(&self, place: usize, whole: &Bounds) {
        if !planted::is(Planted::ForgottenScan) {
            self.seen.lock().ranges[place].1 = whole.clone();
        }
    }

    /// Note that the range at `place` has been read up to `key`, from the start of `whole` or, backward, from its
    /// end. Called for every row of a scan: the bound that moves keeps its memory.
    pub(super) fn read_to(&self, place: usize, whole: &Bounds, forward: bool, key: &[u8]) {
        if planted::is(Planted::ForgottenScan) {
            return;
        }
        let read = &mut self.seen.lock().ranges[place].1;
        if read.are_nothing() {
            *read = whole.clone();
        }
        match if forward { &mut read.end } else { &mut read.start } {
            Bound::Included(last) => {
                last.clear();
                last.extend_from_slice(key);
            }
            last => *last = Bound::Included(key.to_vec()),
        }
    }

    /// Err if a commit of the same group, earlier in it, writes what was read.
    pub(crate) fn check_group<'a>(&self, earlier: impl Iterator<Item = &'a Work<'a>>) -> Result<()> {
        let seen = self.seen.lock();
        let mut conflict = false;
        for work in earlier {
            work.for_each(|op| conflict |= seen.meets(op));
        }
        if conflict { Err(Error::Conflict { attempts: 1 }) } else { Ok(()) }
    }

    /// Err if anything published after the snapshot, and after the last check, writes what was read. What was so at the call is
    /// found; in the commit queue, where nothing is published meanwhile, that is everything.
    pub(crate) fn check(&self, core: &Core) -> Result<()> {
        let superversion = core.current.load_full();
        let read_seqno = superversion.read_seqno(&core.snapshots);
        let mut seen = self.seen.lock();
        let after = seen.upto;
        let conflict = || Err(Error::Conflict { attempts: 1 });
        if read_seqno == after {
            // To drop a keyspace takes no number.
            let is_gone = |keyspace: &KeyspaceId| superversion.version.keyspace(*keyspace).is_none();
            let keys = seen.keys.iter().map(|(keyspace, _)| keyspace);
            let ranges = seen.ranges.iter().filter(|(_, bounds)| !bounds.are_nothing());
            let dropped = core.keyspace_dropped.load(Ordering::Acquire)
                && keys.chain(ranges.map(|(keyspace, _)| keyspace)).any(is_gone);
            return if dropped { conflict() } else { Ok(()) };
        }
        for (keyspace, key) in &seen.keys {
            let Some(state) = superversion.version.keyspace(*keyspace) else { return conflict() };
            let view = View {
                superversion: &superversion,
                keyspace: *keyspace,
                tree: &state.tree,
                operator: None,
                read_seqno,
                own: None,
            };
            let newest = view.newest_seqno(key, after, &mut OpCost::default())?;
            if newest.is_some_and(|newest| newest > after) {
                return conflict();
            }
        }
        for (keyspace, bounds) in seen.union() {
            if range_changed(&superversion, keyspace, bounds, after, read_seqno)? {
                return conflict();
            }
        }
        seen.upto = read_seqno;
        Ok(())
    }
}

/// Whether an entry or a range tombstone lies within `bounds` whose number is after `after` and not after `read_seqno`.
fn range_changed(
    superversion: &Arc<SuperVersion>,
    keyspace: KeyspaceId,
    bounds: Bounds,
    after: SeqNo,
    read_seqno: SeqNo,
) -> Result<bool> {
    let Some(state) = superversion.version.keyspace(keyspace) else { return Ok(true) };
    let view = ScanView {
        superversion: Arc::clone(superversion),
        keyspace,
        tree: Arc::clone(&state.tree),
        operator: None,
        read_seqno,
        own: None,
        _pin: None,
        fill_cache: false,
        core: Weak::new(),
    };
    let bounds = Arc::new(bounds);
    let newer = view.sources(&bounds, Some(after))?;
    let tombstones = newer.iter().flat_map(|(_, info)| &info.tombstones);
    let covers = tombstones.flat_map(|fragments| fragments.list()).any(|fragment| {
        fragment.newest(read_seqno).is_some_and(|seqno| seqno > after)
            && bounds.overlap(&fragment.start, &fragment.end)
    });
    if covers {
        return Ok(true);
    }
    // In any order, so each by itself.
    for (mut source, _) in newer {
        match &bounds.start {
            Bound::Unbounded => source.seek_first()?,
            Bound::Included(start) => source.seek(InternalKey::before_all(start))?,
            Bound::Excluded(start) => source.seek(InternalKey::new(start, SeqNo::ZERO))?,
        }
        while source.valid() && !bounds.past_end(source.key()) {
            // Before the queue, somebody's group may be half applied.
            let published = source.seqno() > after && source.seqno() <= read_seqno;
            if published && !bounds.before_start(source.key()) {
                return Ok(true);
            }
            source.next()?;
        }
    }
    Ok(false)
}

impl Seen {
    /// The keys of all ranges read, as ranges that do not overlap: scans of a queue's head lie within each other, and a layout
    /// watches one range again with each of its writes. A scan that was made and not asked has read nothing, not even that
    /// its keyspace is there.
    fn union(&self) -> Vec<(KeyspaceId, Bounds)> {
        let mut ranges: Vec<_> = self.ranges.iter().filter(|(_, bounds)| !bounds.are_nothing()).collect();
        ranges.sort_unstable_by(|(a_keyspace, a), (b_keyspace, b)| {
            a_keyspace.cmp(b_keyspace).then_with(|| a.cmp_start(b))
        });
        let mut union: Vec<(KeyspaceId, Bounds)> = Vec::new();
        for (keyspace, bounds) in ranges {
            match union.last_mut() {
                Some((before, last)) if before == keyspace && bounds.begin_within(last) => {
                    if last.cmp_end(bounds).is_lt() {
                        last.end.clone_from(&bounds.end);
                    }
                }
                _ => union.push((*keyspace, bounds.clone())),
            }
        }
        union
    }

    /// Whether `op` writes anything read.
    fn meets(&self, op: Op<'_>) -> bool {
        let in_range = |bounds: &Bounds| match op.kind {
            Kind::RangeDelete => bounds.overlap(op.key, op.value),
            _ => !bounds.before_start(op.key) && !bounds.past_end(op.key),
        };
        let by_key = match op.kind {
            Kind::RangeDelete => self
                .keys
                .range((op.keyspace, op.key.to_vec())..(op.keyspace, op.value.to_vec()))
                .next()
                .is_some(),
            _ => self.keys.contains(&(op.keyspace, op.key.to_vec())),
        };
        by_key || self.ranges.iter().any(|(keyspace, bounds)| *keyspace == op.keyspace && in_range(bounds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The union holds the keys that any of the ranges holds, in the order of keys, none twice.
    #[test]
    fn the_union_of_ranges_holds_what_they_hold() {
        let bounds = |key: &str| [Bound::Included(key.into()), Bound::Excluded(key.into())];
        let ends: Vec<Bound<Vec<u8>>> =
            ["", "b", "c"].into_iter().flat_map(bounds).chain([Bound::Unbounded]).collect();
        let starts = ends.iter().flat_map(|start| ends.iter().map(move |end| (start.clone(), end.clone())));
        let all: Vec<Bounds> = starts.map(|(start, end)| Bounds { start, end }).collect();
        let holds = |bounds: &Bounds, key: &[u8]| !bounds.before_start(key) && !bounds.past_end(key);
        let map = KeyspaceId(1);
        for some in all.iter().flat_map(|a| all.iter().map(move |b| [a, b])) {
            for third in all.iter().step_by(5) {
                let ranges: Vec<_> = [some[0], third, some[1]].map(|bounds| (map, bounds.clone())).into();
                let seen = Seen { upto: SeqNo::ZERO, keys: BTreeSet::new(), ranges: ranges.clone() };
                let union = seen.union();
                for key in [&b""[..], b"a", b"b", b"bb", b"c", b"d"] {
                    let held = ranges.iter().any(|(_, bounds)| holds(bounds, key));
                    let times = union.iter().filter(|(_, bounds)| holds(bounds, key)).count();
                    assert_eq!(times, usize::from(held), "{ranges:?} {union:?} {key:?}");
                }
            }
        }
    }

    #[test]
    fn ranges_of_different_keyspaces_stay_apart() {
        let whole = Bounds { start: Bound::Unbounded, end: Bound::Unbounded };
        let ranges = [2, 1, 2, 1].map(|id| (KeyspaceId(id), whole.clone())).into();
        let seen = Seen { upto: SeqNo::ZERO, keys: BTreeSet::new(), ranges };
        let ids: Vec<u32> = seen.union().iter().map(|(id, _)| id.0).collect();
        assert_eq!(ids, [1, 2]);
    }
}
