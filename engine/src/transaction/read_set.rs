//! What a transaction has read, and whether anybody has written to it since.
//!
//! It is checked twice: before the commit queues, when nobody waits for the answer, and under the commit lock, when
//! everybody does. Up to the number that the first check saw everything was published and in its place, so the second covers
//! only what was committed since: those operations are looked up in what was read, one by one, if all of them were noted
//! ([`RecentWrites`]); otherwise the first check is made again. (To drop a keyspace takes no number, so that is always asked
//! again.)
//!
//! Locks: `seen`, for an insertion or a check, reads of tables within.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use esker_base::bounds::Bounds;
use esker_base::planted::{self, Planted};
use esker_base::sync::Mutex;
use esker_base::{Cursor, Error, InternalKey, KeyspaceId, Kind, OpCost, Result, SeqNo};

use crate::batch::Op;
use crate::commit::Work;
use crate::core::Core;
use crate::get::View;
use crate::recent_writes::RecentWrites;
use crate::scan_view::ScanView;
use crate::source::Sources;
use crate::superversion::SuperVersion;
use crate::transaction::range_set::RangeSet;

/// What a transaction has read.
#[derive(Debug)]
pub(crate) struct ReadSet {
    seen: Mutex<Seen>,
}

#[derive(Debug)]
struct Seen {
    /// Up to this number nobody has written to what was read: the snapshot's, then what a check has looked at.
    upto: SeqNo,
    /// Its commit has begun: what is read from now on would not be checked, or not whole.
    committing: bool,
    keys: BTreeMap<KeyspaceId, BTreeSet<Vec<u8>>>,
    ranges: RangeSet,
    /// What each scan under way has read so far; that of one that has ended is nothing, and its place free.
    scans: Vec<(KeyspaceId, Bounds)>,
    free: Vec<usize>,
}

/// What a scan has read so far, from one end of its range on. A scan that was made and not asked has read nothing, not even
/// that its keyspace is there.
#[derive(Debug)]
pub(super) struct ScanRead {
    reads: Arc<ReadSet>,
    place: usize,
}

impl ReadSet {
    /// Nothing was read of the snapshot numbered `seqno` so far.
    pub(super) fn new(seqno: SeqNo) -> Self {
        let seen = Seen {
            upto: seqno,
            committing: false,
            keys: BTreeMap::new(),
            ranges: RangeSet::default(),
            scans: Vec::new(),
            free: Vec::new(),
        };
        ReadSet { seen: Mutex::new(seen) }
    }

    /// Note that `keys` are about to be read.
    pub(super) fn saw_keys<'a>(&self, keyspace: KeyspaceId, keys: impl Iterator<Item = &'a [u8]>) {
        self.seen.lock().keys.entry(keyspace).or_default().extend(keys.map(<[u8]>::to_vec));
    }

    /// Note a range as read.
    pub(super) fn saw_range(&self, keyspace: KeyspaceId, bounds: Bounds) {
        self.seen.lock().ranges.add(keyspace, bounds);
    }

    /// The transaction's commit begins: its scans end.
    pub(super) fn begin_commit(&self) {
        self.seen.lock().committing = true;
    }

    /// Err if a commit of the same group, earlier in it, writes what was read.
    pub(crate) fn check_group<'a>(&self, earlier: impl Iterator<Item = &'a Work<'a>>) -> Result<()> {
        let mut seen = self.seen.lock();
        seen.gather();
        let mut conflict = false;
        for work in earlier {
            work.for_each(|op| conflict |= seen.meets(op));
        }
        if conflict { Err(Error::Conflict { attempts: 1 }) } else { Ok(()) }
    }

    /// [`ReadSet::check`] under the commit lock, where `recent` is what was committed lately.
    pub(crate) fn check_last(&self, core: &Core, recent: &RecentWrites) -> Result<()> {
        let mut seen = self.seen.lock();
        seen.gather();
        let Some(mut writes) = recent.after(seen.upto) else {
            drop(seen);
            return self.check(core);
        };
        let is_dropped = core.any_keyspace_dropped() && seen.lacks_keyspace(&core.current.load());
        let conflict = is_dropped || writes.any(|op| seen.meets(op));
        if conflict { Err(Error::Conflict { attempts: 1 }) } else { Ok(()) }
    }

    /// Err if anything published after the snapshot, and after the last check, writes what was read. What was so at the call is
    /// found; in the commit queue, where nothing is published meanwhile, that is everything.
    pub(crate) fn check(&self, core: &Core) -> Result<()> {
        let superversion = core.current.load_full();
        let read_seqno = superversion.read_seqno(&core.snapshots);
        let mut seen = self.seen.lock();
        seen.gather();
        let after = seen.upto;
        let conflict = || Err(Error::Conflict { attempts: 1 });
        // To drop a keyspace takes no number.
        if core.any_keyspace_dropped() && seen.lacks_keyspace(&superversion) {
            return conflict();
        }
        if read_seqno == after {
            return Ok(());
        }
        for (keyspace, keys) in &seen.keys {
            let Some(view) = View::new(&superversion, *keyspace, read_seqno) else { return conflict() };
            for key in keys {
                let newest = view.newest_seqno(key, after, &mut OpCost::default())?;
                if newest.is_some_and(|newest| newest > after) {
                    return conflict();
                }
            }
        }
        for (keyspace, bounds) in seen.ranges.iter() {
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
    let view = ScanView::new(Arc::clone(superversion), keyspace, read_seqno);
    let Some(view) = view else { return Ok(true) };
    let bounds = Arc::new(bounds);
    let newer = Sources::of(&Arc::new(view), &bounds, Some(after))?;
    let tombstones = newer.infos.iter().flat_map(|info| &info.tombstones);
    let covers = tombstones.flat_map(|fragments| fragments.list()).any(|fragment| {
        fragment.newest(read_seqno).is_some_and(|seqno| seqno > after)
            && bounds.overlap(&fragment.start, &fragment.end)
    });
    if covers {
        return Ok(true);
    }
    // In any order, so each by itself.
    for mut source in newer.cursors {
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
    /// Err once the commit has begun.
    fn check_open(&self) -> Result<()> {
        if self.committing {
            let why = "a scan goes on after its transaction's commit has begun, and nobody checks what it would read; \
                       finish scans before the commit, or scan a snapshot";
            return Err(Error::invalid(why));
        }
        Ok(())
    }

    /// Take what scans under way have read so far among the ranges.
    fn gather(&mut self) {
        let Seen { scans, ranges, .. } = self;
        for (keyspace, bounds) in scans {
            ranges.add(*keyspace, bounds.clone());
        }
    }

    /// Whether a keyspace that was read is not there any more.
    fn lacks_keyspace(&self, superversion: &SuperVersion) -> bool {
        let mut keyspaces = self.keys.keys().copied().chain(self.ranges.keyspaces());
        keyspaces.any(|keyspace| superversion.version.keyspace(keyspace).is_none())
    }

    /// Whether `op` writes anything read.
    fn meets(&self, op: Op<'_>) -> bool {
        let keys = self.keys.get(&op.keyspace);
        match op.kind {
            Kind::RangeDelete => {
                let range = (Bound::Included(op.key), Bound::Excluded(op.value));
                keys.is_some_and(|keys| keys.range::<[u8], _>(range).next().is_some())
                    || self.ranges.overlaps(op.keyspace, op.key, op.value)
            }
            _ => {
                keys.is_some_and(|keys| keys.contains(op.key)) || self.ranges.contains(op.keyspace, op.key)
            }
        }
    }
}

impl ScanRead {
    /// Nothing so far, by a scan of `keyspace` whose reads are among `reads`.
    pub(super) fn begin(reads: &Arc<ReadSet>, keyspace: KeyspaceId) -> Self {
        let mut seen = reads.seen.lock();
        let read = (keyspace, Bounds::nothing());
        let place = if let Some(place) = seen.free.pop() {
            seen.scans[place] = read;
            place
        } else {
            seen.scans.push(read);
            seen.scans.len() - 1
        };
        drop(seen);
        ScanRead { reads: Arc::clone(reads), place }
    }

    /// All of the range has been read.
    ///
    /// # Errors
    /// As [`ScanRead::read_to`].
    pub(super) fn read_whole(&self, whole: &Bounds) -> Result<()> {
        let mut seen = self.reads.seen.lock();
        seen.check_open()?;
        if !planted::is(Planted::ForgottenScan) {
            seen.scans[self.place].1 = whole.clone();
        }
        Ok(())
    }

    /// The range has been read up to `key`, from the start of `whole` or, backward, from its end. Called for every row of a
    /// scan: the bound that moves keeps its memory.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] once the transaction's commit has begun: what was read must not be given out.
    pub(super) fn read_to(&self, whole: &Bounds, forward: bool, key: &[u8]) -> Result<()> {
        let mut seen = self.reads.seen.lock();
        seen.check_open()?;
        if planted::is(Planted::ForgottenScan) {
            return Ok(());
        }
        let read = &mut seen.scans[self.place].1;
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
        Ok(())
    }
}

impl Drop for ScanRead {
    fn drop(&mut self) {
        let mut seen = self.reads.seen.lock();
        let (keyspace, nothing) = (seen.scans[self.place].0, Bounds::nothing());
        let read = std::mem::replace(&mut seen.scans[self.place].1, nothing);
        seen.ranges.add(keyspace, read);
        seen.free.push(self.place);
    }
}

#[cfg(test)]
impl ReadSet {
    /// How many ranges are kept of scans that have ended, and how many places there are for scans under way.
    pub(super) fn sizes(&self) -> (usize, usize) {
        let seen = self.seen.lock();
        (seen.ranges.iter().count(), seen.scans.len())
    }
}
