//! How far a walk goes, as far as that can be told when it begins.
//!
//! A short walk waits for memory most of its time: for values, and for the block beside the one in which it
//! begins. If they are asked for at its first step, they come at the same time instead of one after
//! another; but lines that it never comes to keep others waiting. So a walk is taken to be as long as the
//! one before it of the same cursor, as pages, latest rows and prefixes mostly are. A walk through many
//! blocks likely goes on, whatever came before.
//!
//! With 5 million rows of 116 bytes in one run of tables, seeks with 10 and 100 rows took 0.97 and 0.92 of
//! the time, backwards 0.90 and 0.86; those with one row 1.0. Where instead every walk that came to a
//! block's ninth row asked for the block before, however far it went, walks of 10 rows gained about half as
//! much.

/// A walk that has crossed from block to block this many times likely goes on through the next one: then
/// the next block's values are prefetched. With 1, seeks with 100 rows that came from three sources took
/// 1.06 of the time.
const LONG: u8 = 4;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct WalkLength {
    /// A seek has begun it, and no other has ended it yet.
    under_way: bool,
    /// It has not taken a step since.
    beginning: bool,
    /// How many blocks it has come into from the one beside it, as far as that matters.
    crossed: u8,
    /// Rows that it has passed in the blocks before this one.
    passed: u32,
    /// Rows that the walk before it passed.
    before: u32,
}

impl WalkLength {
    /// A seek goes elsewhere; the walk that was under way, if one was, has passed `here` rows in the block where it ends.
    pub(super) fn end(&mut self, here: u32) {
        if std::mem::take(&mut self.under_way) {
            self.before = self.passed.saturating_add(here);
        }
        self.beginning = false;
        (self.passed, self.crossed) = (0, 0);
    }

    /// A seek has come to its place.
    pub(super) fn begin(&mut self) {
        (self.under_way, self.beginning) = (true, true);
    }

    /// Whether it takes its first step.
    #[inline]
    pub(super) fn is_beginning(&self) -> bool {
        self.beginning
    }

    /// It takes its first step.
    pub(super) fn set_out(&mut self) {
        self.beginning = false;
    }

    /// It has passed `rows` more.
    pub(super) fn pass(&mut self, rows: u32) {
        self.passed = self.passed.saturating_add(rows);
    }

    /// It comes into another block, from the one beside it.
    pub(super) fn cross(&mut self) {
        self.crossed = (self.crossed + 1).min(LONG);
    }

    /// Whether it will likely go through all of the next block.
    pub(super) fn is_long(&self) -> bool {
        self.crossed == LONG
    }

    /// How many rows it will likely come to behind this block, which has `here` of them before its end.
    pub(super) fn beyond(&self, here: u32) -> u32 {
        self.left().saturating_sub(here)
    }

    /// How many rows it will likely pass yet, if it has passed none of this block's.
    pub(super) fn left(&self) -> u32 {
        self.before.saturating_sub(self.passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_is_taken_to_be_as_long_as_the_one_before() {
        let mut walk = WalkLength::default();
        walk.begin();
        assert_eq!((walk.left(), walk.beyond(0)), (0, 0), "nothing is known yet");
        walk.set_out();
        walk.pass(30);
        walk.cross();
        walk.end(7);
        walk.begin();
        assert!(walk.is_beginning());
        assert_eq!((walk.left(), walk.beyond(20), walk.beyond(37)), (37, 17, 0));
        walk.set_out();
        walk.pass(30);
        assert_eq!((walk.left(), walk.beyond(20)), (7, 0));
        // A seek in several steps reports each of them; and a walk that came to nothing counts, too.
        walk.end(0);
        walk.end(0);
        assert_eq!(walk.left(), 30);
        walk.begin();
        walk.end(0);
        assert_eq!(walk.left(), 0);
    }

    #[test]
    fn a_walk_through_many_blocks_is_long() {
        let mut walk = WalkLength::default();
        walk.begin();
        let long: Vec<bool> = (0..6)
            .map(|_| {
                walk.cross();
                walk.is_long()
            })
            .collect();
        assert_eq!(long, [false, false, false, true, true, true]);
        walk.end(0);
        assert!(!walk.is_long());
    }
}
