//! Which writes a reader sees.

use esker_base::SeqNo;
use esker_base::range_tombstone::Fragment;

use crate::transaction::OWN;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sight {
    /// Committed ones up to this number.
    pub(crate) read_seqno: SeqNo,
    /// A transaction's own, before this number of theirs; `ZERO` for none.
    pub(crate) own: SeqNo,
}

impl Sight {
    #[inline]
    pub(super) fn sees(self, seqno: SeqNo) -> bool {
        seqno <= self.read_seqno || (seqno >= OWN && seqno < self.own)
    }

    /// The largest number that may be seen: where a seek begins.
    #[inline]
    pub(super) fn largest(self) -> SeqNo {
        self.read_seqno.max(self.own)
    }

    /// The largest number below `unseen`, which is not seen, that may be.
    pub(super) fn below(self, unseen: SeqNo) -> SeqNo {
        if self.own > OWN && unseen >= self.own { SeqNo(self.own.0 - 1) } else { self.read_seqno }
    }

    /// The newest tombstone of `fragment` that is seen.
    #[inline]
    pub(super) fn newest(self, fragment: &Fragment) -> Option<SeqNo> {
        fragment.seqnos.iter().copied().find(|&seqno| self.sees(seqno))
    }
}
