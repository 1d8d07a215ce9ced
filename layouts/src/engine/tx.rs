//! Transactions of the engine as layouts see them.

use std::cell::RefCell;

use bytes::Bytes;
use esker::{Keyspace, Transaction, TransactionScan};

use super::read::{bounds, get_many};
use crate::kv::{Expect, Go, KeyRange, KvRead, KvTx, Limits, Merge, Row, ScanOptions};
use crate::{Error, OpCost, Result};

/// Lend the rows of `scan` to `visit`; the key behind the last of them that it wants to go to.
fn lend(
    scan: &mut TransactionScan,
    visit: &mut impl FnMut(&[u8], &[u8]) -> Result<Go>,
) -> Result<Option<Vec<u8>>> {
    for row in scan {
        let (key, value) = row?;
        match visit(&key, &value)? {
            Go::To(next) if next.as_slice() > &*key => return Ok(Some(next)),
            Go::On | Go::To(_) => {}
            Go::Stop => break,
        }
    }
    Ok(None)
}

/// A transaction under way.
pub struct EngineTx<'a> {
    transaction: &'a mut Transaction,
    keyspace: &'a Keyspace,
    cost: RefCell<OpCost>,
    /// The first write or condition that was refused: it ends the transaction once the layout is done.
    refused: RefCell<Result<()>>,
}

impl std::fmt::Debug for EngineTx<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineTx")
            .field("transaction", &self.transaction)
            .field("keyspace", &self.keyspace)
            .finish_non_exhaustive()
    }
}

impl<'a> EngineTx<'a> {
    pub(super) fn new(transaction: &'a mut Transaction, keyspace: &'a Keyspace) -> Self {
        EngineTx { transaction, keyspace, cost: RefCell::default(), refused: RefCell::new(Ok(())) }
    }

    /// What went wrong on the way, and to `reads` what the reads cost.
    pub(super) fn finish(self, reads: &mut OpCost) -> Result<()> {
        reads.add(&self.cost.borrow());
        self.refused.into_inner()
    }

    fn note(&self, outcome: esker::Result<()>) {
        if let Err(error) = outcome {
            self.refuse(error.into());
        }
    }

    #[cold]
    fn refuse(&self, error: Error) {
        let mut refused = self.refused.borrow_mut();
        if refused.is_ok() {
            *refused = Err(error);
        }
    }
}

impl KvRead for EngineTx<'_> {
    type Scan<'b>
        = EngineTxScan<'b>
    where
        Self: 'b;

    fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        Ok(self.transaction.get_costed(self.keyspace, key, &mut self.cost.borrow_mut())?)
    }

    fn contains(&self, key: &[u8]) -> Result<bool> {
        Ok(self.transaction.contains_costed(self.keyspace, key, &mut self.cost.borrow_mut())?)
    }

    fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Bytes>>> {
        let (transaction, keyspace) = (&*self.transaction, self.keyspace);
        let one = |key: &[u8], cost: &mut OpCost| transaction.get_costed(keyspace, key, cost);
        let together = |cost: &mut OpCost| transaction.multi_get_costed(keyspace, keys, cost);
        get_many(keys, &mut self.cost.borrow_mut(), one, together)
    }

    fn scan(&self, range: KeyRange, options: ScanOptions) -> Result<EngineTxScan<'_>> {
        let scan = || self.transaction.range::<&[u8]>(self.keyspace, bounds(&range));
        let scan = (!range.is_empty()).then(scan);
        let scan = scan.map(|scan| if options.keys_only { scan.keys_only() } else { scan });
        Ok(EngineTxScan { cost: &self.cost, scan, options, left: Limits::new(options) })
    }

    // With the engine's scan where it was made: it is large, and most visits are of a few rows.
    fn visit(&self, range: KeyRange, mut visit: impl FnMut(&[u8], &[u8]) -> Result<Go>) -> Result<()> {
        let mut rest = range;
        while !rest.is_empty() {
            let mut scan = self.transaction.range::<&[u8]>(self.keyspace, bounds(&rest));
            let next = lend(&mut scan, &mut visit);
            self.cost.borrow_mut().add(&scan.cost());
            let Some(next) = next? else { break };
            rest.start = next;
        }
        Ok(())
    }

    fn cost(&self) -> OpCost {
        *self.cost.borrow()
    }
}

impl KvTx for EngineTx<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) {
        let outcome = self.transaction.put(self.keyspace, key, value);
        self.note(outcome);
    }

    fn delete(&mut self, key: &[u8]) {
        let outcome = self.transaction.delete(self.keyspace, key);
        self.note(outcome);
    }

    fn delete_range(&mut self, range: KeyRange) {
        let outcome = self.transaction.delete_range::<&[u8]>(self.keyspace, bounds(&range));
        self.note(outcome);
    }

    fn merge(&mut self, key: &[u8], merge: Merge) {
        let outcome = self.transaction.merge(self.keyspace, key, merge.encode());
        self.note(outcome);
    }

    fn expect(&mut self, key: &[u8], expected: Expect) {
        // Asks for the committed value, which the transaction's own writes may hide from itself: that of the
        // snapshot, since that is what the commit finds unchanged. Another that came and went may leave no trace.
        let found = self.transaction.get_from_snapshot(self.keyspace, key).map_err(Error::from);
        if let Err(error) = found.and_then(|found| expected.check(key, found.as_ref())) {
            self.refuse(error);
        }
    }

    fn watch_range(&mut self, range: KeyRange) {
        self.transaction.watch_range::<&[u8]>(self.keyspace, bounds(&range));
    }
}

/// A scan of a transaction.
pub struct EngineTxScan<'a> {
    cost: &'a RefCell<OpCost>,
    /// `None` once there is nothing more to come.
    scan: Option<TransactionScan>,
    options: ScanOptions,
    left: Limits,
}

impl std::fmt::Debug for EngineTxScan<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineTxScan").field("options", &self.options).finish_non_exhaustive()
    }
}

impl EngineTxScan<'_> {
    /// Count what the scan cost, and let it go.
    fn close(&mut self) {
        if let Some(mut scan) = self.scan.take() {
            self.cost.borrow_mut().add(&scan.cost());
        }
    }
}

impl Iterator for EngineTxScan<'_> {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Self::Item> {
        let scan = self.scan.as_mut().filter(|_| !self.left.reached());
        let row = scan.and_then(|scan| if self.options.reverse { scan.next_back() } else { scan.next() });
        match row {
            Some(Ok(row)) => {
                self.left.take(&row);
                Some(Ok(row))
            }
            Some(Err(error)) => {
                self.close();
                Some(Err(error.into()))
            }
            None => {
                self.close();
                None
            }
        }
    }
}

impl Drop for EngineTxScan<'_> {
    fn drop(&mut self) {
        self.close();
    }
}
