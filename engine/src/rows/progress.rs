//! That a walk ends.
//!
//! A walk that only steps ends with its sources. But it also seeks, past what range tombstones hide, past dead
//! ranges and, backwards, past many versions of a key; and in a table whose keys are not in order a seek may lead
//! back to where the walk has been. Blocks are checked for their structure when they are read, not for their order,
//! which would cost every reader comparisons; no damage that leaves the checksums intact brings this about, only a
//! forger. So seeks are held to what they do in tables that are in order: the end of each dead range that is left
//! lies farther on, from one such end to the next each source seeks past a tombstone's end once at most, and each key
//! with many versions lies farther back than the one before.

use esker_base::{Error, Result};

use crate::source::Source;

/// See the module. Counted from where somebody last sent the walk, or turned it round.
#[derive(Debug)]
pub(super) struct Progress {
    skips: usize,
    skips_max: usize,
    /// The end, in the walk's direction, of the last dead range that it left.
    left: Option<Vec<u8>>,
    /// The last key whose versions a walk backwards has gone round.
    rounded: Option<Vec<u8>>,
}

/// A walk that comes by where it has been.
#[derive(Debug)]
pub(super) struct Stuck;

impl Progress {
    /// That of a walk over so many sources, with so many fragments of range tombstones.
    pub(super) fn new(sources: usize, fragments: usize) -> Progress {
        Progress { skips: 0, skips_max: sources.saturating_mul(fragments), left: None, rounded: None }
    }

    #[inline]
    pub(super) fn begin(&mut self) {
        self.skips = 0;
        self.left = None;
        self.rounded = None;
    }

    /// A source seeks past the end of a fragment that hides its entry.
    #[inline]
    pub(super) fn skip(&mut self) -> Result<(), Stuck> {
        self.skips += 1;
        if self.skips > self.skips_max { Err(Stuck) } else { Ok(()) }
    }

    /// The walk, which goes backwards, seeks to before all versions of `key`.
    pub(super) fn round(&mut self, key: &[u8]) -> Result<(), Stuck> {
        if self.rounded.as_deref().is_some_and(|last| key >= last) {
            return Err(Stuck);
        }
        self.rounded = Some(key.to_vec());
        Ok(())
    }

    /// The walk seeks to `end`, where a dead range ends.
    pub(super) fn leave(&mut self, end: &[u8], forward: bool) -> Result<(), Stuck> {
        let farther = |last: &Vec<u8>| if forward { end > last.as_slice() } else { end < last.as_slice() };
        if !self.left.as_ref().is_none_or(farther) {
            return Err(Stuck);
        }
        self.left = Some(end.to_vec());
        // All sources seek there, also those that have been farther: they may pass the same fragments again.
        self.skips = 0;
        Ok(())
    }
}

/// The error of a walk that is stuck, by the table that `source` stands in.
#[cold]
pub(super) fn disorder(source: &Source) -> Error {
    Error::corruption(source.path(), 0, "its keys are not in order: a scan came by twice")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_goes_on_or_is_stuck() {
        let mut progress = Progress::new(2, 3);
        for _ in 0..6 {
            progress.skip().expect("each source past each fragment");
        }
        assert!(progress.skip().is_err());
        progress.begin();
        progress.skip().expect("a new walk");
        progress.leave(b"k", true).expect("the first");
        for _ in 0..6 {
            progress.skip().expect("each source past each fragment again");
        }
        assert!(progress.skip().is_err());
        progress.leave(b"m", true).expect("farther on");
        assert!(progress.leave(b"m", true).is_err());
        progress.begin();
        progress.round(b"l").expect("the first key with many versions");
        progress.round(b"k").expect("one before it");
        assert!(progress.round(b"k").is_err());
        progress.begin();
        progress.round(b"k").expect("a new walk");
        progress.leave(b"k", false).expect("the first of the walk back");
        progress.leave(b"a", false).expect("farther back");
        assert!(progress.leave(b"b", false).is_err());
    }
}
