//! What was committed lately, for transactions that are being checked.
//!
//! Before it queues for its commit a transaction looks at all that it has read, which may take long: of a range, every
//! entry of the memtable within. Under the commit lock, while everybody waits, what is left is what was committed meanwhile; that lies
//! here, and is looked up in what was read.
//!
//! The operations are those of the last commits, without a gap: a commit is noted as a whole or everything is forgotten.
//! They are noted only while a transaction is being checked, and only as far as there is room. A transaction that finds the
//! first number after its last check missing here is checked in full once more. Only the leader of the commit queue, under
//! the commit lock, writes or reads it.

use std::mem;
use std::ops::Range;

use esker_base::{KeyspaceId, Kind, SeqNo};

use crate::batch::Op;

/// The older half goes when the newer one has more bytes of keys, each operation counted with [`WRITE_BYTES`].
const HALF_BYTES_MAX: usize = 1 << 20;
/// Memory that is kept while nothing is noted, in operations and in bytes of keys.
const KEPT: usize = 1 << 10;
/// What an operation takes beside its keys.
const WRITE_BYTES: usize = mem::size_of::<Write>();

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct RecentWrites {
    older: Half,
    newer: Half,
}

#[derive(Debug, Default)]
struct Half {
    writes: Vec<Write>,
    /// Their keys and ends, one behind the other.
    keys: Vec<u8>,
}

#[derive(Debug)]
struct Write {
    seqno: SeqNo,
    keyspace: KeyspaceId,
    kind: Kind,
    key: Range<usize>,
    /// Of a range delete; it follows the key.
    end: Range<usize>,
}

impl Half {
    fn bytes(&self) -> usize {
        self.writes.len() * WRITE_BYTES + self.keys.len()
    }

    /// Its operations, the newest first, with their numbers.
    fn newest_first(&self) -> impl Iterator<Item = (SeqNo, Op<'_>)> {
        self.writes.iter().rev().map(|write| {
            let (key, value) = (&self.keys[write.key.clone()], &self.keys[write.end.clone()]);
            (write.seqno, Op { keyspace: write.keyspace, kind: write.kind, key, value })
        })
    }
}

impl RecentWrites {
    /// Itself, if the next commits are to be `noted`; if they are not, it forgets everything, since what it holds is without a gap.
    #[inline]
    pub(crate) fn begin_group(&mut self, noted: bool) -> Option<&mut RecentWrites> {
        if noted {
            return Some(self);
        }
        self.forget();
        None
    }

    /// A commit is not noted.
    #[inline]
    fn forget(&mut self) {
        if !self.newer.writes.is_empty() {
            self.forget_all();
        }
    }

    fn forget_all(&mut self) {
        self.older = Half::default();
        self.newer.writes.clear();
        self.newer.writes.shrink_to(KEPT);
        self.newer.keys.clear();
        self.newer.keys.shrink_to(KEPT);
    }

    /// Note `op`, the one after the last that was; if there is no memory for it, nothing is noted before it either.
    pub(crate) fn note(&mut self, op: Op<'_>, seqno: SeqNo) {
        if self.newer.bytes() > HALF_BYTES_MAX {
            self.older = mem::take(&mut self.newer);
        }
        let Half { writes, keys } = &mut self.newer;
        let end: &[u8] = if op.kind == Kind::RangeDelete { op.value } else { &[] };
        // Its record is in the log by now: a commit cannot fail any more.
        if keys.try_reserve(op.key.len() + end.len()).is_err() || writes.try_reserve(1).is_err() {
            return self.forget_all();
        }
        let (from, to) = (keys.len(), keys.len() + op.key.len());
        keys.extend_from_slice(op.key);
        keys.extend_from_slice(end);
        let (key, end) = (from..to, to..keys.len());
        writes.push(Write { seqno, keyspace: op.keyspace, kind: op.kind, key, end });
    }

    /// The operations numbered after `seqno`, the newest first, if they are all here.
    pub(crate) fn after(&self, seqno: SeqNo) -> Option<impl Iterator<Item = Op<'_>>> {
        let first = self.older.writes.first().or(self.newer.writes.first())?.seqno;
        let all = self.newer.newest_first().chain(self.older.newest_first());
        let newer = all.take_while(move |(number, _)| *number > seqno).map(|(_, op)| op);
        (first <= seqno.plus(1)).then_some(newer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(recent: &mut RecentWrites, number: u64, key: &[u8]) {
        let op = Op { keyspace: KeyspaceId(1), kind: Kind::Put, key, value: b"value" };
        recent.note(op, SeqNo(number));
    }

    fn after(recent: &RecentWrites, number: u64) -> Option<Vec<u8>> {
        recent.after(SeqNo(number)).map(|ops| ops.map(|op| op.key[0]).collect())
    }

    #[test]
    fn what_is_not_all_there_is_not_told() {
        let mut recent = RecentWrites::default();
        assert_eq!(after(&recent, 0), None);
        (4..8).for_each(|number| note(&mut recent, number, &[u8::try_from(number).expect("small")]));
        assert_eq!(after(&recent, 2), None, "number 3 is not there");
        assert_eq!(after(&recent, 3), Some(vec![7, 6, 5, 4]));
        assert_eq!(after(&recent, 5), Some(vec![7, 6]));
        assert_eq!(after(&recent, 7), Some(vec![]));
        recent.forget();
        assert_eq!(after(&recent, 7), None, "another may have come since");
        note(&mut recent, 9, &[9]);
        assert_eq!((after(&recent, 7), after(&recent, 8)), (None, Some(vec![9])));
    }

    #[test]
    fn the_oldest_make_room() {
        let mut recent = RecentWrites::default();
        let long = vec![7; HALF_BYTES_MAX / 4];
        (1..13).for_each(|number| note(&mut recent, number, &long));
        assert_eq!(after(&recent, 3), None);
        assert_eq!(after(&recent, 4), Some(vec![7; 8]));
        assert!(recent.older.bytes() + recent.newer.bytes() < 3 * HALF_BYTES_MAX);
    }

    #[test]
    fn a_range_delete_has_its_end() {
        let mut recent = RecentWrites::default();
        let op = |kind, value| Op { keyspace: KeyspaceId(1), kind, key: b"a", value };
        recent.note(op(Kind::Put, b"value"), SeqNo(1));
        recent.note(op(Kind::RangeDelete, b"end"), SeqNo(2));
        let ops: Vec<Op<'_>> = recent.after(SeqNo(0)).expect("all are there").collect();
        assert_eq!(ops, [op(Kind::RangeDelete, b"end"), op(Kind::Put, b"")]);
    }
}
