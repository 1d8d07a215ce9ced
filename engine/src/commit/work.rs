//! What a commit writes: borrowed from whoever waits for it, or copied into the queue.

use std::sync::Arc;

use esker_base::Result;

use crate::batch::{Op, Ops};
use crate::transaction::read_set::ReadSet;

/// One commit's content, borrowed from whoever waits for it.
#[derive(Clone, Copy)]
pub(crate) enum Work<'a> {
    /// A single operation: no batch is encoded for it.
    One(Op<'a>),
    /// A batch.
    Batch(&'a Ops),
    /// A transaction's writes, to be committed only if nothing it read has changed.
    Transaction(&'a Ops, &'a Arc<ReadSet>),
}

impl Work<'_> {
    #[inline]
    pub(super) fn ops(&self) -> u64 {
        match self {
            Work::One(_) => 1,
            Work::Batch(ops) | Work::Transaction(ops, _) => ops.count(),
        }
    }

    /// How many operations delete a key or a range of them.
    #[inline]
    pub(super) fn deletes(&self) -> u64 {
        match self {
            Work::One(op) => u64::from(op.is_delete()),
            Work::Batch(ops) | Work::Transaction(ops, _) => ops.deletes(),
        }
    }

    #[inline]
    pub(super) fn range_deletes(&self) -> u64 {
        match self {
            // A range delete may be two operations, so it always comes as a batch.
            Work::One(_) => 0,
            Work::Batch(ops) | Work::Transaction(ops, _) => ops.range_deletes(),
        }
    }

    /// Bytes of keys and values.
    #[inline]
    pub(super) fn user_bytes(&self) -> u64 {
        match self {
            Work::One(op) => op.user_bytes() as u64,
            Work::Batch(ops) | Work::Transaction(ops, _) => ops.user_bytes(),
        }
    }

    /// About the bytes of its part of a log record.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        match self {
            Work::One(op) => op.user_bytes(),
            Work::Batch(ops) | Work::Transaction(ops, _) => ops.bytes().len(),
        }
    }

    /// A copy, for a writer that leaves it in the queue.
    pub(super) fn to_owned(self) -> Result<OwnedWork> {
        Ok(match self {
            Work::One(op) => {
                let mut ops = Ops::default();
                ops.push(op)?;
                OwnedWork::Batch(ops)
            }
            Work::Batch(ops) => OwnedWork::Batch(ops.copied()?),
            Work::Transaction(ops, reads) => OwnedWork::Transaction(ops.copied()?, Arc::clone(reads)),
        })
    }

    #[inline]
    pub(crate) fn for_each(&self, mut each: impl FnMut(Op<'_>)) {
        match self {
            Work::One(op) => each(*op),
            Work::Batch(ops) | Work::Transaction(ops, _) => ops.iter().for_each(each),
        }
    }
}

/// A copy of a [`Work`]: what a writer leaves in the queue when somebody else leads.
pub(super) enum OwnedWork {
    Batch(Ops),
    Transaction(Ops, Arc<ReadSet>),
}

impl OwnedWork {
    pub(super) fn as_work(&self) -> Work<'_> {
        match self {
            OwnedWork::Batch(ops) => Work::Batch(ops),
            OwnedWork::Transaction(ops, reads) => Work::Transaction(ops, reads),
        }
    }
}
