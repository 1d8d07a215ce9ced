//! Merges meet their base early: an operand whose key's value is known in the memtable becomes a put
//! of the folded value there, and a chain of operands that grows too long is folded with whatever lies
//! below. So a read folds at most [`CHAIN_MAX`] operands a memtable, and a hot counter none. A long value
//! (a list that grows by appending) is folded once a chain, not once an operand.
//!
//! This changes no answer: a put of the folded value at the operand's number reads the same as the
//! operand above everything older, and older versions stay for older snapshots. The log keeps the
//! operand; replay may fold at other places and comes to the same values.
//!
//! An operator that refuses (overflow) or panics leaves the operand as it is: reads of the key report it. The chain, which
//! grows beyond its limit then, is tried again only now and then, since every writer waits for a try.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use esker_base::{KeyspaceId, Kind, MergeOperator, OpCost, Result, SeqNo};

use crate::batch::Op;
use crate::core::Core;
use crate::get::View;
use crate::memtable::Memtable;
use crate::operators;

/// Operands of one key in a row before they are folded with what lies below.
const CHAIN_MAX: usize = 32;
/// A chain that the operator refused is tried again once in this many sequence numbers.
const RETRY_EVERY: u64 = 1 << 16;
/// A value longer than this, in bytes, waits for a chain: every fold writes all of it anew.
const BASE_BYTES_MAX: usize = 512;

impl Core {
    /// Fold merges into `keyspace` with `operator` from now on. A keyspace that was dropped meanwhile takes
    /// no merges.
    pub(crate) fn know_operator(&self, keyspace: KeyspaceId, operator: &Arc<dyn MergeOperator>) {
        if self.merge_operators.load().contains_key(&keyspace) {
            return;
        }
        self.merge_operators.rcu(|known| {
            let mut known = BTreeMap::clone(known);
            if self.versions.current().keyspace(keyspace).is_some() {
                known.insert(keyspace, Arc::clone(operator));
            }
            known
        });
    }

    /// `keyspace` was dropped.
    pub(crate) fn forget_operator(&self, keyspace: KeyspaceId) {
        self.merge_operators.rcu(|known| {
            let mut known = BTreeMap::clone(known);
            known.remove(&keyspace);
            known
        });
    }

    /// What to write for the merge `op` numbered `seqno`: the folded value, or `None` for the operand
    /// itself. Called by the leader of the commit queue, whose `memtable` has everything older applied.
    pub(crate) fn fold_early(&self, memtable: &Memtable, op: Op<'_>, seqno: SeqNo) -> Option<Vec<u8>> {
        let operator = self.merge_operators.load().get(&op.keyspace).cloned()?;
        let cover = memtable.covering(op.keyspace, op.key, SeqNo::MAX);
        let hidden = |entry: SeqNo| cover.is_some_and(|cover| cover > entry);
        let mut upper = SeqNo::MAX;
        let mut newest = None;
        for _ in 0..CHAIN_MAX {
            match memtable.get(op.keyspace, op.key, upper) {
                // The first version met decides, unless it is an operand itself.
                Some(entry) if !hidden(entry.seqno) && entry.kind == Kind::Merge => {
                    newest.get_or_insert(entry.seqno);
                    upper = SeqNo(entry.seqno.0 - 1);
                }
                _ if upper < SeqNo::MAX => return None,
                Some(entry) if !hidden(entry.seqno) && entry.kind == Kind::Put => {
                    if entry.value.len() > BASE_BYTES_MAX {
                        return None;
                    }
                    return fold_onto(&operator, op, Some(entry.value));
                }
                Some(_) => return fold_onto(&operator, op, None),
                None if cover.is_some() => return fold_onto(&operator, op, None),
                None => return None,
            }
        }
        // A longer chain was refused before. That may have been for a moment (no descriptors, no memory): now and then it
        // is tried again.
        let older = memtable.get(op.keyspace, op.key, upper);
        let was_refused = older.is_some_and(|entry| !hidden(entry.seqno) && entry.kind == Kind::Merge);
        let is_due = newest.is_none_or(|newest| newest.0 / RETRY_EVERY != seqno.0 / RETRY_EVERY);
        if was_refused && !is_due {
            return None;
        }
        let base = self.value_before(&operator, op, seqno).ok()?;
        fold_onto(&operator, op, base.as_deref())
    }

    /// The key's value just before `seqno`.
    fn value_before(
        &self,
        operator: &Arc<dyn MergeOperator>,
        op: Op<'_>,
        seqno: SeqNo,
    ) -> Result<Option<Bytes>> {
        let superversion = self.current.load_full();
        let Some(view) = View::new(&superversion, op.keyspace, SeqNo(seqno.0 - 1)) else { return Ok(None) };
        View { operator: Some(operator), ..view }.get_bytes(op.key, &mut OpCost::default())
    }
}

/// The operand folded onto `base`, unless the operator refuses.
fn fold_onto(operator: &Arc<dyn MergeOperator>, op: Op<'_>, base: Option<&[u8]>) -> Option<Vec<u8>> {
    operators::fold(Some(operator), op.key, base, &[op.value]).ok()
}

#[cfg(test)]
mod tests;
