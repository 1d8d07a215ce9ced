//! The generic merge: several sorted sources walked as one.
//!
//! A loser tree: each inner node remembers the source that lost there, so that after the leader moved
//! only the path from its leaf to the root is played again, one comparison a level. Invariants:
//!
//! 1. `heads[i]` is the head of source `i`'s current key, complemented when walking backwards, so that
//!    the smaller head always wins; `u64::MAX` for a source that stands nowhere. A tie decides nothing
//!    and is settled by the whole internal key, then by the source's index.
//! 2. While the merge is valid and walks forward, `leader` stands on the current entry and every other
//!    source on its first entry behind it (backwards: its last entry before it), or nowhere.
//! 3. `runner_up` is `NONE` or the best of all sources but the leader. It is looked for when a source
//!    has led twice in a row; from then on a step costs one comparison until the run ends.
//! 4. `leader` is `NONE` exactly while the merge stands nowhere.
//!
//! Two sources may hold versions of the same user key; no two hold the same user key and sequence
//! number. A source may gain entries while it is walked (a memtable): nothing here assumes that what
//! lay between two positions is still all that lies there.

use std::cmp::Ordering;

use crate::cursor::{EntryFacts, EntryView};
use crate::key::head;
use crate::{Cursor, Error, InternalKey, Kind, OpCost, Result, SeqNo};

#[cfg(test)]
mod tests;

/// "No source".
const NONE: usize = usize::MAX;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Direction {
    Forward,
    Backward,
}

/// What a cheap step did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunStep {
    /// The merge stands on the next user key's entry, which is in no other source.
    Leads(EntryFacts),
    /// The merge stands on the next user key's entry, or nowhere.
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
    heads: Vec<u64>,
    /// The loser at each inner node; node 1 is the root, node `n`'s children are `2n` and `2n + 1`,
    /// source `i`'s leaf is node `i + sources.len()`. Node 0 is unused.
    losers: Vec<usize>,
    leader: usize,
    runner_up: usize,
    direction: Direction,
    error: Option<Error>,
}

impl<C: Cursor> Merge<C> {
    /// A merge of `sources`, standing nowhere.
    pub fn new(sources: Vec<C>) -> Self {
        let count = sources.len();
        Merge {
            sources,
            heads: vec![u64::MAX; count],
            losers: vec![NONE; count],
            leader: NONE,
            runner_up: NONE,
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

    /// The sources again.
    pub fn into_sources(self) -> Vec<C> {
        self.sources
    }

    /// The index of the source that holds the current entry.
    #[inline]
    pub fn leader(&self) -> Option<usize> {
        (self.leader != NONE).then_some(self.leader)
    }

    /// Find the leader anew after [`Merge::sources_mut`] moved sources in the direction that the merge
    /// was last walked or sought in. Every source must stand where that direction needs it: none behind
    /// what is to be the current entry. A merge that has erred stays so and returns its error.
    pub fn resettle(&mut self) -> Result<()> {
        self.check()?;
        for source in 0..self.sources.len() {
            self.heads[source] = self.head_of(source);
        }
        self.build();
        Ok(())
    }

    /// Whether no other source holds the user key of the current entry.
    #[inline]
    pub fn leads_alone(&mut self) -> bool {
        if self.runner_up == NONE {
            self.runner_up = self.find_runner_up();
        }
        let (leader, second) = (self.leader, self.runner_up);
        second == NONE || self.heads[leader] < self.heads[second] || self.is_alone_at_equal_heads()
    }

    #[cold]
    fn is_alone_at_equal_heads(&self) -> bool {
        let (leader, second) = (&self.sources[self.leader], &self.sources[self.runner_up]);
        !second.valid() || leader.key() != second.key()
    }

    /// Whether the leader's preceding entry is known to have another user key than the current one.
    #[inline]
    pub fn is_behind_distinct(&self) -> bool {
        self.sources[self.leader].is_behind_distinct()
    }

    /// A step forward that costs little: see [`RunStep`]. The merge walks forward, and the current entry's
    /// key is in no other source ([`Merge::leads_alone`]).
    #[inline]
    pub fn next_in_run(&mut self) -> RunStep {
        debug_assert!(self.direction == Direction::Forward, "a run goes on the way it was walked");
        let moved = self.sources[self.leader].next_distinct();
        self.settle_run(moved, 0)
    }

    /// The same backwards, for a merge that walks backwards.
    #[inline]
    pub fn prev_in_run(&mut self) -> RunStep {
        debug_assert!(self.direction == Direction::Backward, "a run goes on the way it was walked");
        let moved = self.sources[self.leader].prev_distinct();
        self.settle_run(moved, u64::MAX)
    }

    /// The leader has moved to this entry, if to any. `complement` as invariant 1 wants it.
    #[inline]
    fn settle_run(&mut self, moved: Option<EntryFacts>, complement: u64) -> RunStep {
        let Some(facts) = moved else { return RunStep::Stays };
        let head = facts.head ^ complement;
        self.heads[self.leader] = head;
        if self.runner_up != NONE && head >= self.heads[self.runner_up] {
            return self.end_run();
        }
        RunStep::Leads(facts)
    }

    /// The leader has moved and may not be the leader any more.
    fn end_run(&mut self) -> RunStep {
        self.replay(self.leader);
        RunStep::Ended
    }

    /// Keep the first error; from it on the merge stands nowhere.
    #[cold]
    fn fail(&mut self, error: Error) -> Error {
        self.leader = NONE;
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

    /// Whether source `a` goes out before source `b`.
    #[inline]
    fn beats(&self, a: usize, b: usize) -> bool {
        let (x, y) = (self.heads[a], self.heads[b]);
        if x == y { self.beats_at_equal_heads(a, b) } else { x < y }
    }

    fn beats_at_equal_heads(&self, a: usize, b: usize) -> bool {
        let (x, y) = (&self.sources[a], &self.sources[b]);
        // Of two that stand nowhere neither wins: a leader never stays one by that.
        if !(x.valid() && y.valid()) {
            return x.valid();
        }
        let order = x.internal_key().cmp(&y.internal_key()).then(a.cmp(&b));
        match self.direction {
            Direction::Forward => order == Ordering::Less,
            Direction::Backward => order == Ordering::Greater,
        }
    }

    /// Play the whole tournament.
    fn build(&mut self) {
        let count = self.sources.len();
        self.runner_up = NONE;
        self.leader = match count {
            0 => NONE,
            _ => self.play(1),
        };
        self.settle_end();
    }

    /// The winner below `node`; the losers are noted on the way.
    fn play(&mut self, node: usize) -> usize {
        let count = self.sources.len();
        if node >= count {
            return node - count;
        }
        let (left, right) = (self.play(2 * node), self.play(2 * node + 1));
        let (winner, loser) = if self.beats(left, right) { (left, right) } else { (right, left) };
        self.losers[node] = loser;
        winner
    }

    #[inline]
    fn parent_of_leaf(&self, source: usize) -> usize {
        (source + self.sources.len()) >> 1
    }

    /// Invariant 4: a leader that stands nowhere is none.
    #[inline]
    fn settle_end(&mut self) {
        if self.leader != NONE && !self.sources[self.leader].valid() {
            self.leader = NONE;
        }
    }

    /// The leader has moved in the walking direction: find who leads now.
    #[inline]
    fn advance(&mut self) {
        let moved = self.leader;
        self.heads[moved] = self.head_of(moved);
        if self.runner_up != NONE && self.beats(moved, self.runner_up) {
            return;
        }
        self.replay(moved);
    }

    fn replay(&mut self, moved: usize) {
        let mut winner = moved;
        let mut node = self.parent_of_leaf(moved);
        while node > 0 {
            let loser = self.losers[node];
            if self.beats(loser, winner) {
                self.losers[node] = winner;
                winner = loser;
            }
            node /= 2;
        }
        self.leader = winner;
        self.runner_up = if winner == moved { self.find_runner_up() } else { NONE };
        self.settle_end();
    }

    /// The second best has lost to the best, so it is one of the losers on the leader's path.
    fn find_runner_up(&self) -> usize {
        let mut best = NONE;
        let mut node = self.parent_of_leaf(self.leader);
        while node > 0 {
            let loser = self.losers[node];
            if best == NONE || self.beats(loser, best) {
                best = loser;
            }
            node /= 2;
        }
        best
    }

    fn seek_all(&mut self, direction: Direction, seek: impl Fn(&mut C) -> Result<()>) -> Result<()> {
        self.check()?;
        self.direction = direction;
        for source in 0..self.sources.len() {
            seek(&mut self.sources[source]).map_err(|error| self.fail(error))?;
        }
        self.resettle()
    }

    /// Let every source ask for what a seek to `target` will read before any of them waits for it.
    fn approach_all(&mut self, target: InternalKey<'_>) -> Result<()> {
        self.check()?;
        for source in 0..self.sources.len() {
            self.sources[source].aim(target).map_err(|error| self.fail(error))?;
        }
        for source in 0..self.sources.len() {
            self.sources[source].approach().map_err(|error| self.fail(error))?;
        }
        Ok(())
    }

    /// Walk the other way from the current entry on: every other source steps to its neighbour on the
    /// other side of that entry, and the leader, which is on it, follows as in any step.
    #[cold]
    fn turn(&mut self, direction: Direction) -> Result<()> {
        let leader = self.leader;
        self.direction = direction;
        for source in (0..self.sources.len()).filter(|&source| source != leader) {
            turn_source(&mut self.sources, source, leader, direction).map_err(|error| self.fail(error))?;
            self.heads[source] = self.head_of(source);
        }
        let step = match direction {
            Direction::Forward => C::next,
            Direction::Backward => C::prev,
        };
        step(&mut self.sources[leader]).map_err(|error| self.fail(error))?;
        self.heads[leader] = self.head_of(leader);
        self.build();
        Ok(())
    }

    #[inline]
    fn assert_valid(&self, what: &str) {
        assert!(self.leader != NONE, "{what}() on a merge that stands nowhere");
    }
}

/// Move `source` to its neighbour of the leader's entry in `direction`.
fn turn_source<C: Cursor>(
    sources: &mut [C],
    source: usize,
    leader: usize,
    direction: Direction,
) -> Result<()> {
    let [cursor, current] = sources
        .get_disjoint_mut([source, leader])
        .expect("a source other than the leader, both below the count");
    let here = current.internal_key();
    match direction {
        Direction::Backward if !cursor.valid() => cursor.seek_before(here),
        Direction::Forward if !cursor.valid() => cursor.seek(here),
        // One step, unless the source has gained entries in between.
        Direction::Backward => loop {
            cursor.prev()?;
            if !cursor.valid() || cursor.internal_key() < here {
                return Ok(());
            }
        },
        Direction::Forward => loop {
            cursor.next()?;
            if !cursor.valid() || cursor.internal_key() > here {
                return Ok(());
            }
        },
    }
}

impl<C: Cursor> Cursor for Merge<C> {
    fn seek_first(&mut self) -> Result<()> {
        self.seek_all(Direction::Forward, C::seek_first)
    }
    fn seek_last(&mut self) -> Result<()> {
        self.seek_all(Direction::Backward, C::seek_last)
    }
    fn seek(&mut self, target: InternalKey<'_>) -> Result<()> {
        self.approach_all(target)?;
        self.seek_all(Direction::Forward, |source| source.seek(target))
    }
    fn seek_before(&mut self, target: InternalKey<'_>) -> Result<()> {
        self.approach_all(target)?;
        self.seek_all(Direction::Backward, |source| source.seek_before(target))
    }
    #[inline]
    fn next(&mut self) -> Result<()> {
        self.check()?;
        self.assert_valid("next");
        if self.direction == Direction::Backward {
            return self.turn(Direction::Forward);
        }
        if let Err(error) = self.sources[self.leader].next() {
            return Err(self.fail(error));
        }
        self.advance();
        Ok(())
    }
    #[inline]
    fn prev(&mut self) -> Result<()> {
        self.check()?;
        self.assert_valid("prev");
        if self.direction == Direction::Forward {
            return self.turn(Direction::Backward);
        }
        if let Err(error) = self.sources[self.leader].prev() {
            return Err(self.fail(error));
        }
        self.advance();
        Ok(())
    }
    #[inline]
    fn valid(&self) -> bool {
        self.leader != NONE
    }
    #[inline]
    fn key(&self) -> &[u8] {
        self.sources[self.leader].key()
    }
    #[inline]
    fn seqno(&self) -> SeqNo {
        self.sources[self.leader].seqno()
    }
    #[inline]
    fn kind(&self) -> Kind {
        self.sources[self.leader].kind()
    }
    #[inline]
    fn value(&self) -> &[u8] {
        self.sources[self.leader].value()
    }
    #[inline]
    fn entry(&self) -> EntryView<'_> {
        self.sources[self.leader].entry()
    }
    fn drain_cost(&mut self, cost: &mut OpCost) {
        for source in &mut self.sources {
            source.drain_cost(cost);
        }
    }
}
