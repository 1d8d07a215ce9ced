//! What a call costs, counted where the work happens.
//!
//! Every read and commit can fill an [`OpCost`] that its caller owns. Nothing above the engine counts
//! by formula: the counters of the layouts, the lab, the workloads and the metrics all come from here.

/// Counters of one call, or the sum over several. All are plain counts but the two byte counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpCost {
    /// Calls into the engine (a get, a scan, a commit is one each; a `multi_get` is one for each key).
    pub calls: u64,
    /// Live keys returned to the caller.
    pub keys_read: u64,
    /// Puts and merges written.
    pub keys_written: u64,
    /// Point and range tombstones written.
    pub tombstones_written: u64,
    /// Entries passed over because a newer version hides them or the reader's snapshot precedes them.
    pub entries_skipped: u64,
    /// Point tombstones passed over, and entries hidden by a range tombstone.
    pub tombstones_skipped: u64,
    /// Positionings of a scan.
    pub seeks: u64,
    /// Memtables consulted.
    pub memtables: u64,
    /// Levels in which at least one table was consulted.
    pub levels: u64,
    /// Tables consulted (their filter or index was looked at).
    pub tables: u64,
    /// Tables that their filter ruled out.
    pub filter_negatives: u64,
    /// Tables that the filter let through and that did not hold the key.
    pub filter_false_positives: u64,
    /// Blocks, and values of blob files, found in the cache or already verified in a mapping.
    pub blocks_from_cache: u64,
    /// Blocks that had to be read from the file. Blocks that were read along with one are not counted until
    /// they are looked at.
    pub blocks_from_disk: u64,
    /// Values of blob files that were looked at.
    pub blob_values: u64,
    /// Bytes of keys and values returned, after decompression.
    pub bytes_read: u64,
    /// Bytes read from files, as stored.
    pub bytes_from_disk: u64,
    /// Bytes of keys and values written by the caller.
    pub bytes_written: u64,
    /// Times a transaction was tried again after a conflict.
    pub retries: u64,
}

impl OpCost {
    /// Add `other` to `self`, counter by counter.
    ///
    /// ```
    /// use esker_base::OpCost;
    /// let mut sum = OpCost { calls: 1, ..OpCost::default() };
    /// sum.add(&OpCost { calls: 2, keys_read: 5, ..OpCost::default() });
    /// assert_eq!((sum.calls, sum.keys_read), (3, 5));
    /// ```
    pub fn add(&mut self, other: &OpCost) {
        for (mine, theirs) in self.counters_mut().into_iter().zip(other.counters()) {
            *mine += theirs.1;
        }
    }

    /// The counters that grew since `earlier`, as a cost of its own.
    #[must_use]
    pub fn since(&self, earlier: &OpCost) -> OpCost {
        let mut difference = *self;
        for (mine, theirs) in difference.counters_mut().into_iter().zip(earlier.counters()) {
            *mine -= theirs.1;
        }
        difference
    }

    /// Every counter with its name, in the order they are declared: for reports and JSON.
    pub fn counters(&self) -> [(&'static str, u64); 19] {
        [
            ("calls", self.calls),
            ("keys_read", self.keys_read),
            ("keys_written", self.keys_written),
            ("tombstones_written", self.tombstones_written),
            ("entries_skipped", self.entries_skipped),
            ("tombstones_skipped", self.tombstones_skipped),
            ("seeks", self.seeks),
            ("memtables", self.memtables),
            ("levels", self.levels),
            ("tables", self.tables),
            ("filter_negatives", self.filter_negatives),
            ("filter_false_positives", self.filter_false_positives),
            ("blocks_from_cache", self.blocks_from_cache),
            ("blocks_from_disk", self.blocks_from_disk),
            ("blob_values", self.blob_values),
            ("bytes_read", self.bytes_read),
            ("bytes_from_disk", self.bytes_from_disk),
            ("bytes_written", self.bytes_written),
            ("retries", self.retries),
        ]
    }

    fn counters_mut(&mut self) -> [&mut u64; 19] {
        [
            &mut self.calls,
            &mut self.keys_read,
            &mut self.keys_written,
            &mut self.tombstones_written,
            &mut self.entries_skipped,
            &mut self.tombstones_skipped,
            &mut self.seeks,
            &mut self.memtables,
            &mut self.levels,
            &mut self.tables,
            &mut self.filter_negatives,
            &mut self.filter_false_positives,
            &mut self.blocks_from_cache,
            &mut self.blocks_from_disk,
            &mut self.blob_values,
            &mut self.bytes_read,
            &mut self.bytes_from_disk,
            &mut self.bytes_written,
            &mut self.retries,
        ]
    }
}
