//! Folding the merge operands of one key and one stripe together, and onto their base.
//!
//! Operands come newest first. If the base comes, in the same stripe (a put; or a tombstone, a range
//! tombstone or the certainty that the key was never there, which all mean "no value"), they and the base
//! become one put under the number of the newest operand. If it does not come, neighbours are combined as
//! far as the operator can. An operator that refuses (an error) leaves its operands as they were: a read
//! reports the refusal, and nothing is lost. An operator that panics ends the run.

use std::borrow::Cow;

use esker_base::limits::VALUE_BYTES_MAX;
use esker_base::{Error, MergeOperator, Result, SeqNo, catch_panic};

#[cfg(test)]
mod tests;

/// Bytes of operands beyond which a chain is handed on as it is, so that one key cannot take all memory.
pub(crate) const OPERAND_BYTES_MAX: usize = 64 << 20;

/// The operands of one key in one stripe, newest first.
#[derive(Debug, Default)]
pub(crate) struct Operands {
    /// Each operand's number and the end of its bytes in `bytes`.
    ends: Vec<(SeqNo, usize)>,
    bytes: Vec<u8>,
}

impl Operands {
    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Add an operand older than all others.
    pub(crate) fn push(&mut self, seqno: SeqNo, operand: &[u8]) {
        self.bytes.extend_from_slice(operand);
        self.ends.push((seqno, self.bytes.len()));
    }

    pub(crate) fn clear(&mut self) {
        self.ends.clear();
        self.bytes.clear();
    }

    /// The number of the newest operand. Panics if there is none.
    pub(crate) fn newest(&self) -> SeqNo {
        self.ends[0].0
    }

    /// The number of the oldest operand. Panics if there is none.
    pub(crate) fn oldest(&self) -> SeqNo {
        self.ends[self.ends.len() - 1].0
    }

    /// The operands with their numbers, newest first.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (SeqNo, &[u8])> + ExactSizeIterator {
        self.ends.iter().enumerate().map(|(at, &(seqno, end))| {
            let start = if at == 0 { 0 } else { self.ends[at - 1].1 };
            (seqno, &self.bytes[start..end])
        })
    }

    /// The value of `key` after these operands are applied to `base`, or `None` if the operator refuses
    /// them.
    pub(crate) fn fold(
        &self,
        operator: &dyn MergeOperator,
        key: &[u8],
        base: Option<&[u8]>,
    ) -> Result<Option<Vec<u8>>> {
        let oldest_first: Vec<&[u8]> = self.iter().rev().map(|(_, operand)| operand).collect();
        let folded = called(|| operator.fold(key, base, &oldest_first))?;
        // A value that could not be written is refused like any other.
        Ok(folded.ok().filter(|value| value.len() <= VALUE_BYTES_MAX))
    }

    /// The operands, newest first, with neighbours combined where the operator can.
    ///
    /// An operator may copy both of a pair. So an operand waits while it is more than twice as long as what follows it: of n
    /// operands each byte is copied some log n times, not n.
    pub(crate) fn combined(
        &self,
        operator: &dyn MergeOperator,
        key: &[u8],
    ) -> Result<Vec<(SeqNo, Cow<'_, [u8]>)>> {
        let combine = |older: &[u8], newer: &[u8]| -> Result<Option<Vec<u8>>> {
            let combined = called(|| operator.combine(key, older, newer))?;
            Ok(combined.filter(|value| value.len() <= VALUE_BYTES_MAX))
        };
        let mut waiting: Vec<(SeqNo, Cow<'_, [u8]>)> = Vec::new();
        for (seqno, operand) in self.iter().rev() {
            let mut newer = Cow::Borrowed(operand);
            while let Some((_, older)) = waiting.last()
                && older.len() <= 2 * newer.len()
                && let Some(value) = combine(older, &newer)?
            {
                newer = Cow::Owned(value);
                waiting.pop();
            }
            waiting.push((seqno, newer));
        }
        let mut newest_first: Vec<(SeqNo, Cow<'_, [u8]>)> = Vec::new();
        while let Some((seqno, older)) = waiting.pop() {
            if let Some((_, newer)) = newest_first.last_mut()
                && let Some(value) = combine(&older, newer)?
            {
                *newer = Cow::Owned(value);
            } else {
                newest_first.push((seqno, older));
            }
        }
        Ok(newest_first)
    }
}

/// Call the operator; a panic becomes an error.
fn called<T>(call: impl FnOnce() -> T) -> Result<T> {
    catch_panic(call).map_err(|message| Error::CallbackPanicked { callback: "the merge operator", message })
}
