//! The generic merge: several sorted sources walked as one.
//!
//! The sources stand in a list, in the order in which their entries go out. After the leader moved, those
//! that now go out before it move up: as many comparisons as sources overtake it, and one while it goes on
//! leading. A scan merges a handful of sources, whose entries lie in runs; a loser tree, which has fewer
//! comparisons where many sources take turns, was measured against it (ARCHITECTURE.md, "Scans"). Invariants:
//!
//! 1. `order` holds each source once with the head of its current key, complemented when walking backwards,
//!    so that the smaller head always goes first; `u64::MAX` for a source that stands nowhere. Equal heads
//!    decide nothing: then ranks do (`ranks.rs`), then the whole internal key, then the source's index; a
//!    source that stands nowhere goes last.
//! 2. While the merge is valid and walks forward, the leader, first in `order`, stands on the current entry and
//!    every other source on its first entry after it, or on one with a larger user key
//!    ([`Merge::pass_older`]), or nowhere; backwards, on its last entry before it, or nowhere.
//!
//! It steps in the direction in which it was last sought; to turn round, seek. A step the other way is a programmer's mistake,
//! and panics.
//!
//! Two sources may hold versions of the same user key; no two hold the same user key and sequence
//! number. A source may gain entries while it is walked (a memtable): nothing here assumes that what
//! lay between two positions is still all that lies there.

use std::cmp::Ordering;

use crate::cursor::{APPROACH_STEPS, Below, EntryView, Lent, Stepped};
use crate::key::head;
use crate::{Cursor, Error, InternalKey, Kind, OpCost, Result, SeqNo};

mod hidden;
mod ranks;
#[cfg(test)]
mod tests;

pub use hidden::Passed;
use ranks::Ranks;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Direction {
    Forward,
    Backward,
}

/// Where a source stands.
#[derive(Clone, Copy, Debug)]
struct Place {
    head: u64,
    source: usize,
}

/// What came of a cheap step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunStep {
    /// The merge stands on the next user key's entry, which is in no other source.
    Leads {
        /// The entry.
        entry: Lent,
        /// See [`Stepped::is_row`](crate::cursor::Stepped::is_row).
        is_row: bool,
    },
    /// The merge stands on the next entry: another source leads, or holds the same user key.
    Ended,
    /// Nothing has moved: the next entry may have the same user key, or it takes a step that can fail.
    Stays,
}

/// Several cursors as one, in internal-key order. See the module.
///
/// ```
/// use esker_base::cursor::{Cursor, OwnedEntry, VecCursor};
/// use esker_base::merge::Merge;
/// use esker_base::{Kind, SeqNo};
/// let entry = |key: &str, n| OwnedEntry {
///     key: key.into(), seqno: SeqNo(n), kind: Kind::Put, value: vec![],
/// };
/// let newer = VecCursor::new(vec![entry("b", 9)]);
/// let older = VecCursor::new(vec![entry("a", 1), entry("b", 2), entry("c", 3)]);
/// let mut merge = Merge::new(vec![newer, older]);
/// let mut seen = Vec::new();
/// merge.seek_first()?;
/// while merge.valid() {
///     seen.push((merge.key().to_vec(), merge.seqno().0, merge.leader()));
///     merge.next()?;
/// }
/// let b = || b"b".to_vec();
/// assert_eq!(seen[1..3], [(b(), 9, Some(0)), (b(), 2, Some(1))]);
/// # Ok::<(), esker_base::Error>(())
/// ```
#[derive(Debug)]
pub struct Merge<C> {
    sources: Vec<C>,
    /// Invariant 1.
    order: Vec<Place>,
    ranks: Ranks,
    /// Whether leader and runner-up stand on the same user key, if that was found out when they were put in order.
    tied: Option<bool>,
    /// Whether the leader stands on an entry.
    valid: bool,
    direction: Direction,
    error: Option<Error>,
}

impl<C: Cursor> Merge<C> {
    /// A merge of `sources`, standing nowhere.
    pub fn new(sources: Vec<C>) -> Self {
        let order = (0..sources.len()).map(|source| Place { head: u64::MAX, source }).collect();
        Merge {
            sources,
            order,
            ranks: Ranks::default(),
            tied: None,
            valid: false,
            direction: Direction::Forward,
            error: None,
        }
    }

    /// The sources, in the order they were given.
    pub fn sources(&self) -> &[C] {
        &self.sources
    }

    /// The sources, to be moved one by one: a scan lets single sources skip what a range tombstone
    /// hides. After any of them has moved the merge is only good for [`Merge::resettle`] or a seek.
    pub fn sources_mut(&mut self) -> &mut [C] {
        &mut self.sources
    }

    /// The index of the source that holds the current entry.
    #[inline]
    pub fn leader(&self) -> Option<usize> {
        self.valid.then(|| self.order[0].source)
    }

    /// Whether the merge stands on an entry whose source is one of these.
    #[inline]
    pub fn leads(&self, such: impl FnOnce(&C) -> bool) -> bool {
        self.valid && such(self.leading())
    }

    #[inline]
    fn leading(&self) -> &C {
        &self.sources[self.order[0].source]
    }

    #[inline]
    fn leading_mut(&mut self) -> &mut C {
        &mut self.sources[self.order[0].source]
    }

    /// The runner-up: the source whose entry goes out next unless the leader's next entry goes before it.
    /// If it stands nowhere, no source but the leader stands anywhere.
    #[inline]
    pub fn second(&self) -> Option<&C> {
        self.order.get(1).map(|place| &self.sources[place.source])
    }

    /// Find the leader anew after [`Merge::sources_mut`] moved sources in the direction that the merge
    /// was last walked or sought in. Every source must stand where that direction needs it: none past
    /// what is to be the current entry. A merge that has erred stays so and returns its error.
    pub fn resettle(&mut self) -> Result<()> {
        self.check()?;
        self.settle();
        Ok(())
    }

    /// Whether no other source holds the user key of the current entry.
    #[inline]
    pub fn leads_alone(&self) -> bool {
        let Some([leader, second]) = self.order.first_chunk() else { return true };
        leader.head != second.head || !self.tied.unwrap_or_else(|| self.is_tied_at_equal_heads())
    }

    #[inline(never)]
    fn is_tied_at_equal_heads(&self) -> bool {
        self.second().is_some_and(|second| second.valid() && self.leading().key() == second.key())
    }

    /// Walking forward, move the other sources past what they hold of the current user key, so that the
    /// leader leads alone. Returns how many entries were passed; all of them are older than the current
    /// one, which stays.
    #[inline]
    pub fn pass_older(&mut self) -> Result<u64> {
        let mut passed = 0;
        loop {
            let (more, alone) = self.pass_older_at_hand();
            passed += more;
            if alone {
                return Ok(passed);
            }
            let second = self.order[1].source;
            let more = self.sources[second].next_older(SeqNo::ZERO);
            passed += more.map_err(|error| self.fail(error))?;
            self.place(1, self.head_of(second));
        }
    }

    /// The same, as far as it takes only steps that cannot fail. Returns also whether the leader leads
    /// alone now.
    #[inline]
    pub fn pass_older_at_hand(&mut self) -> (u64, bool) {
        let mut passed = 0;
        while !self.leads_alone() {
            let second = self.order[1].source;
            let Some(entry) = self.sources[second].next_distinct() else { return (passed, false) };
            let head = entry.head;
            self.place(1, head);
            passed += 1;
        }
        (passed, true)
    }

    /// Walking backwards, move the leader past those of its versions of the current user key that a put not
    /// above `seqno` overwrites, as far as they are at hand. Returns how many were passed. Other entries
    /// that the put overwrites may follow.
    #[inline]
    pub fn pass_overwritten(&mut self, seqno: SeqNo) -> u64 {
        debug_assert!(self.direction == Direction::Backward, "forward, the newest version comes first");
        let passed = self.leading_mut().pass_overwritten(seqno);
        if passed > 0 && !self.leads_alone() {
            self.advance();
        }
        passed
    }

    /// Whether the leader's preceding entry is known to have another user key than the current one.
    #[inline]
    pub fn is_behind_distinct(&self) -> bool {
        self.leading().is_behind_distinct()
    }

    /// A step forward that costs little: see [`RunStep`]. The merge walks forward, and the current entry's
    /// key is in no other source ([`Merge::leads_alone`]), or no longer ([`Merge::pass_older`]).
    #[inline(always)]
    pub fn next_in_run(&mut self) -> RunStep {
        debug_assert!(self.direction == Direction::Forward, "a run goes on the way it was walked");
        let Some(entry) = self.leading_mut().next_distinct() else { return RunStep::Stays };
        let (head, entry, is_row) = (entry.head, Lent::from(entry), entry.is_row);
        self.settle_run(entry, is_row, head)
    }

    /// The same after direct stepping ([`Merge::leader_below`]): `step` takes the leader from the entry to which that has led to the
    /// next one, as [`Cursor::next_distinct`] would, or leaves it there.
    #[inline(always)]
    pub fn next_behind_run(&mut self, step: impl FnOnce(&mut C) -> Option<Stepped<'_>>) -> RunStep {
        debug_assert!(self.direction == Direction::Forward, "a run goes on the way it was walked");
        let Some(entry) = step(self.leading_mut()) else {
            self.order[0].head = self.head_of(self.order[0].source);
            return RunStep::Stays;
        };
        let (head, entry, is_row) = (entry.head, Lent::from(entry), entry.is_row);
        self.settle_run(entry, is_row, head)
    }

    /// The same backwards, for a merge that walks backwards; also where the runner-up has a newer version of the current
    /// entry's key.
    #[inline(always)]
    pub fn prev_in_run(&mut self) -> RunStep {
        debug_assert!(self.direction == Direction::Backward, "a run goes on the way it was walked");
        let Some(entry) = self.leading_mut().prev_distinct() else { return RunStep::Stays };
        let (head, entry, is_row) = (!entry.head, Lent::from(entry), entry.is_row);
        self.settle_run(entry, is_row, head)
    }

    /// Lend the leader for direct stepping, forward as for [`Merge::next_in_run`], while its entries go before the runner-up's.
    /// Call [`Merge::next_behind_run`] or [`Merge::lead_on`] before the merge is used again.
    #[inline]
    pub fn leader_below(&mut self) -> (&mut C, Below<'_>) {
        debug_assert!(self.direction == Direction::Forward, "a run goes on the way it was walked");
        let leader = self.order[0];
        let Some(&second) = self.order.get(1) else { return (self.leading_mut(), Below::Head(u64::MAX)) };
        if leader.head == second.head && self.sources[second.source].valid() {
            return self.leader_below_key([leader.source, second.source]);
        }
        (self.leading_mut(), Below::Head(second.head))
    }

    /// The same where leader and runner-up, these two, have the same head.
    #[inline(never)]
    fn leader_below_key(&mut self, pair: [usize; 2]) -> (&mut C, Below<'_>) {
        let [leader, second] = self.sources.get_disjoint_mut(pair).expect("each source is in order once");
        (leader, Below::Key(second.key()))
    }

    /// Let `walk` move the leader forward, over entries below the bound of [`Merge::leader_below`]; it returns the head of the one on
    /// which the leader then stands, and leads.
    #[inline]
    pub fn lead_on(&mut self, walk: impl FnOnce(&mut C) -> u64) {
        self.order[0].head = walk(self.leading_mut());
    }

    /// The leader has moved to this entry, whose head is `head` as invariant 1 wants it.
    #[inline(always)]
    fn settle_run(&mut self, entry: Lent, is_row: bool, head: u64) -> RunStep {
        if self.goes_on(head) { RunStep::Leads { entry, is_row } } else { RunStep::Ended }
    }

    /// The leader has moved to an entry whose head is `head` as invariant 1 wants it: put it in its place.
    /// Returns whether it still leads, alone.
    #[inline(always)]
    fn goes_on(&mut self, head: u64) -> bool {
        let second = self.second_head();
        if head < second || self.order.len() < 2 {
            self.order[0].head = head;
            return true;
        }
        let leader = self.order[0].source;
        self.place(0, head);
        // Only where the heads are equal do the keys decide.
        head == second && self.leader() == Some(leader) && self.leads_alone()
    }

    /// The head of the runner-up. A key may have the head that stands for "nowhere", too.
    #[inline]
    fn second_head(&self) -> u64 {
        self.order.get(1).map_or(u64::MAX, |second| second.head)
    }

    /// The current entry, if the leader knows that it is a row ([`is_row`](crate::cursor::Stepped::is_row)).
    #[inline]
    pub fn known_row(&self) -> Option<Lent> {
        let back = self.direction == Direction::Backward;
        if self.valid { self.leading().known_row(back).map(Lent::from) } else { None }
    }

    /// Keep the first error; from it on the merge stands nowhere.
    #[cold]
    fn fail(&mut self, error: Error) -> Error {
        self.valid = false;
        self.error.get_or_insert(error).clone()
    }

    #[inline]
    fn check(&self) -> Result<()> {
        match &self.error {
            None => Ok(()),
            Some(error) => Err(error.clone()),
        }
    }

    #[inline]
    fn head_of(&self, source: usize) -> u64 {
        let cursor = &self.sources[source];
        match self.direction {
            _ if !cursor.valid() => u64::MAX,
            Direction::Forward => head(cursor.key()),
            Direction::Backward => !head(cursor.key()),
        }
    }

    /// Compute this source's rank anew: it has moved, or another prefix was chosen.
    #[inline(never)]
    fn set_rank(&mut self, source: usize) {
        let cursor = &self.sources[source];
        let rank = match self.direction {
            _ if !cursor.valid() => u128::MAX,
            Direction::Forward => self.ranks.of(cursor.key()),
            Direction::Backward => !self.ranks.of(cursor.key()),
        };
        self.ranks.set(source, rank);
    }

    /// Ranks have left too many comparisons open: choose another prefix for them, by the first two keys
    /// that differ.
    #[inline(never)]
    fn choose_ranks(&mut self) {
        let first =
            self.order.iter().map(|place| &self.sources[place.source]).filter(|source| source.valid());
        let mut first = first.map(C::key);
        let Some(a) = first.next() else { return };
        let Some(b) = first.find(|b| *b != a) else { return };
        self.ranks.choose(a, b, self.sources.len());
        (0..self.sources.len()).for_each(|source| self.set_rank(source));
    }

    /// Find the whole order anew.
    fn settle(&mut self) {
        self.ranks.reset();
        let mut order = std::mem::take(&mut self.order);
        for place in &mut order {
            place.head = self.head_of(place.source);
        }
        order.sort_unstable_by(|a, b| {
            let equal = || order_at_equal_ranks(&self.sources, self.direction, a.source, b.source).0;
            a.head.cmp(&b.head).then_with(equal)
        });
        self.order = order;
        self.tied = None;
        self.settle_end();
    }

    /// The source at place `from` has moved in the walking direction, to `head`: the sources that now come before it
    /// move up.
    #[inline]
    fn place(&mut self, from: usize, head: u64) {
        if self.ranks.are_chosen() {
            self.set_rank(self.order[from].source);
        }
        let (mut hole, behind) = self.order[from..].split_first_mut().expect("a source's place");
        let source = hole.source;
        let mut leads = from == 0;
        let mut tied = None;
        let mut open = 0;
        for next in behind {
            match next.head.cmp(&head) {
                Ordering::Less => tied = None,
                Ordering::Greater => break,
                Ordering::Equal => {
                    let by_rank = self.ranks.order(next.source, source);
                    let (order, same) = match by_rank {
                        Ordering::Equal => {
                            order_at_equal_ranks(&self.sources, self.direction, next.source, source)
                        }
                        order => (order, false),
                    };
                    // No rank tells versions of one key apart.
                    open += u32::from(!same && by_rank == Ordering::Equal);
                    // Where it stops, it is known whether it is tied with the source before it or after it.
                    tied = leads.then_some(same);
                    if order != Ordering::Less {
                        break;
                    }
                }
            }
            *hole = *next;
            hole = next;
            leads = false;
        }
        *hole = Place { head, source };
        self.tied = tied;
        if open > 0 && self.ranks.leave_open(open) {
            self.choose_ranks();
        }
        self.settle_end();
    }

    /// Whether the merge stands on an entry: sources that stand nowhere go last.
    #[inline]
    fn settle_end(&mut self) {
        self.valid =
            self.order.first().is_some_and(|first| first.head != u64::MAX || self.leading().valid());
    }

    /// The leader has moved in the walking direction: find who leads now.
    #[inline]
    fn advance(&mut self) {
        let head = self.head_of(self.order[0].source);
        self.place(0, head);
    }

    fn seek_all(&mut self, direction: Direction, seek: impl Fn(&mut C) -> Result<()>) -> Result<()> {
        self.check()?;
        self.direction = direction;
        // The last source first: it holds the most, so its entry is the likeliest to be looked at, and it
        // is loaded meanwhile.
        for source in (0..self.sources.len()).rev() {
            seek(&mut self.sources[source]).map_err(|error| self.fail(error))?;
        }
        self.resettle()
    }

    /// Have every source prefetch what a seek will read, before any of them waits for it.
    fn approach_all(&mut self, approach: impl Fn(&mut C, u8)) -> Result<()> {
        self.check()?;
        for step in 0..APPROACH_STEPS {
            self.sources.iter_mut().for_each(|source| approach(source, step));
        }
        Ok(())
    }

    #[inline]
    fn assert_walks(&self, direction: Direction, what: &str) {
        assert!(self.valid, "{what}() on a merge that stands nowhere");
        assert!(self.direction == direction, "{what}() on a merge that walks the other way");
    }
}

/// Which of two sources whose heads and ranks are equal goes out first, and whether they stand on the same user key.
fn order_at_equal_ranks<C: Cursor>(
    sources: &[C],
    direction: Direction,
    a: usize,
    b: usize,
) -> (Ordering, bool) {
    let (x, y) = (&sources[a], &sources[b]);
    if !(x.valid() && y.valid()) {
        return (y.valid().cmp(&x.valid()).then(a.cmp(&b)), false);
    }
    let users = x.key().cmp(y.key());
    let order = users.then_with(|| y.seqno().cmp(&x.seqno())).then(a.cmp(&b));
    let order = match direction {
        Direction::Forward => order,
        Direction::Backward => order.reverse(),
    };
    (order, users == Ordering::Equal)
}

impl<C: Cursor> Cursor for Merge<C> {
    fn seek_first(&mut self) -> Result<()> {
        self.seek_all(Direction::Forward, C::seek_first)
    }
    fn seek_last(&mut self) -> Result<()> {
        self.seek_all(Direction::Backward, C::seek_last)
    }
    fn seek(&mut self, target: InternalKey<'_>) -> Result<()> {
        self.approach_all(|source, step| source.approach(target, step))?;
        self.seek_all(Direction::Forward, |source| source.seek(target))
    }
    fn seek_before(&mut self, target: InternalKey<'_>) -> Result<()> {
        self.approach_all(|source, step| source.approach_before(target, step))?;
        self.seek_all(Direction::Backward, |source| source.seek_before(target))
    }
    #[inline]
    fn next(&mut self) -> Result<()> {
        self.check()?;
        self.assert_walks(Direction::Forward, "next");
        if let Err(error) = self.leading_mut().next() {
            return Err(self.fail(error));
        }
        self.advance();
        Ok(())
    }
    fn next_older(&mut self, seqno: SeqNo) -> Result<u64> {
        self.check()?;
        self.assert_walks(Direction::Forward, "next_older");
        let passed = self.leading_mut().next_older(seqno).map_err(|error| self.fail(error))?;
        self.advance();
        Ok(passed)
    }
    #[inline]
    fn prev(&mut self) -> Result<()> {
        self.check()?;
        self.assert_walks(Direction::Backward, "prev");
        if let Err(error) = self.leading_mut().prev() {
            return Err(self.fail(error));
        }
        self.advance();
        Ok(())
    }
    #[inline]
    fn valid(&self) -> bool {
        self.valid
    }
    #[inline(always)]
    fn key(&self) -> &[u8] {
        self.leading().key()
    }
    #[inline]
    fn seqno(&self) -> SeqNo {
        self.leading().seqno()
    }
    #[inline]
    fn kind(&self) -> Kind {
        self.leading().kind()
    }
    #[inline(always)]
    fn value(&self) -> &[u8] {
        self.leading().value()
    }
    #[inline]
    fn entry(&self) -> EntryView<'_> {
        self.leading().entry()
    }
    fn drain_cost(&mut self, cost: &mut OpCost) {
        for source in &mut self.sources {
            source.drain_cost(cost);
        }
    }
}
