//! Passing a run of entries with what they hide: tombstones over the rows that they deleted.
//!
//! The sources behind the leader are not kept in order meanwhile: each is only asked whether it has reached
//! the leader's key, and if so it steps past that. So a run costs one step for each entry, and one
//! comparison of keys for each entry that is hidden; the order is found anew at its end.

use std::cmp::Ordering;

use super::{Direction, Merge};
use crate::key::{equal, head};
use crate::{Cursor, InternalKey, Result};

/// How many entries were passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Passed {
    /// The leader's.
    pub leading: u32,
    /// Those that other sources had of the same user keys.
    pub hidden: u64,
}

impl<C: Cursor> Merge<C> {
    /// Walking forward, pass up to `max` entries of the leader for which `such` is true, and with each what
    /// other sources have of its user key, for as long as the leader's next entry is at hand and goes out
    /// next. The merge then stands on the entry that follows.
    pub fn pass_hiding(&mut self, max: u32, such: impl Fn(&C) -> bool) -> Result<Passed> {
        debug_assert!(self.direction == Direction::Forward, "what is hidden goes out behind what hides it");
        let mut passed = Passed::default();
        let Some(leading) = self.leader() else { return Ok(passed) };
        let (before, rest) = self.sources.split_at_mut(leading);
        let Some((leader, behind)) = rest.split_first_mut() else { return Ok(passed) };
        let others = before.iter_mut().chain(behind).filter(|source| source.valid());
        let mut followers: Vec<_> = others.map(Follower::new).collect();
        pass(leader, &mut followers, max, such, &mut passed).map_err(|error| self.fail(error))?;
        self.settle();
        Ok(passed)
    }
}

/// [`Merge::pass_hiding`], without finding the order anew.
fn pass<C: Cursor>(
    leader: &mut C,
    followers: &mut [Follower<'_, C>],
    max: u32,
    such: impl Fn(&C) -> bool,
    passed: &mut Passed,
) -> Result<()> {
    let mut leading = head(leader.key());
    while passed.leading < max && such(leader) {
        let entry = leader.internal_key();
        for follower in &mut *followers {
            while follower.head.is_some_and(|head| head <= leading) {
                match follower.order(entry) {
                    Ordering::Less => return Ok(()),
                    Ordering::Equal => follower.step()?,
                    Ordering::Greater => break,
                }
                passed.hidden += 1;
            }
        }
        let Some(next) = leader.next_distinct() else { break };
        leading = next.head;
        passed.leading += 1;
    }
    Ok(())
}

/// A source behind the leader.
struct Follower<'a, C> {
    /// The head of its key; `None` if it stands nowhere.
    head: Option<u64>,
    source: &'a mut C,
}

impl<'a, C: Cursor> Follower<'a, C> {
    fn new(source: &'a mut C) -> Self {
        Follower { head: Some(head(source.key())), source }
    }

    /// Whether its entry goes out before `leading` or behind it; `Equal` if behind it, as an older version of its key.
    #[inline]
    fn order(&self, leading: InternalKey<'_>) -> Ordering {
        let key = self.source.key();
        if !equal(key, leading.user) {
            return key.cmp(leading.user);
        }
        if self.source.seqno() > leading.seqno { Ordering::Less } else { Ordering::Equal }
    }

    #[inline]
    fn step(&mut self) -> Result<()> {
        if let Some(next) = self.source.next_distinct() {
            self.head = Some(next.head);
            return Ok(());
        }
        self.source.next()?;
        self.head = self.source.valid().then(|| head(self.source.key()));
        Ok(())
    }
}
