//! The way of a get: active memtable → sealed memtables → level 0, newest table first → one table a
//! level, until the newest version the reader may see is found.
//!
//! Invariant leaned on: for one key, everything in a source is newer than everything in the sources
//! after it. So the first version found decides, a range tombstone found in a source decides over all
//! sources after it, and only merge operands make the walk go on.

use std::sync::Arc;

use bytes::Bytes;
use esker_base::checksum::key_hash;
use esker_base::error::printable;
use esker_base::{Error, KeyspaceId, Kind, MergeOperator, OpCost, Result, SeqNo};
use esker_manifest::{TableHandle, Tree};
use esker_sstable::TableReader;

use crate::memtable::Memtable;
use crate::operators;
use crate::superversion::SuperVersion;

/// How many operands of one key a read folds before it calls the chain damaged: compaction and the
/// commit lane keep chains far shorter.
const CHAIN_MAX: usize = 1 << 20;

/// Where to look: one keyspace as seen by one reader.
pub(crate) struct View<'a> {
    pub(crate) superversion: &'a SuperVersion,
    pub(crate) keyspace: KeyspaceId,
    pub(crate) tree: &'a Tree,
    pub(crate) operator: Option<&'a Arc<dyn MergeOperator>>,
    /// The reader's sequence number.
    pub(crate) bound: SeqNo,
    /// A transaction's own writes, all of them seen.
    pub(crate) own: Option<&'a Memtable>,
}

/// A version found, as the source lends it.
enum Lent<'a> {
    Memtable(&'a [u8]),
    Table(Bytes),
}

impl Lent<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Lent::Memtable(bytes) => bytes,
            Lent::Table(bytes) => bytes,
        }
    }
}

/// The walk of one get.
struct Walk<'a> {
    /// The newest visible range tombstone over the key, met so far.
    cover: SeqNo,
    /// Merge operands met so far, newest first.
    operands: Vec<Lent<'a>>,
}

/// What a source said.
enum Step<'a> {
    /// Go on with the next source.
    Older,
    /// The walk ends on this value (`None`: no such key).
    Ends(Option<Lent<'a>>),
}

impl<'a> View<'a> {
    /// Look `key` up and hand its value, if it has one, to `take`. Nothing is copied on the way.
    pub(crate) fn get<R>(
        &self,
        key: &[u8],
        cost: &mut OpCost,
        take: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        cost.calls += 1;
        let mut walk = Walk { cover: SeqNo::ZERO, operands: Vec::new() };
        let base = self.walk(key, &mut walk, cost)?;
        if walk.operands.is_empty() {
            return Ok(base.map(|value| {
                cost.keys_read += 1;
                cost.bytes_read += (key.len() + value.bytes().len()) as u64;
                take(value.bytes())
            }));
        }
        let oldest_first: Vec<&[u8]> = walk.operands.iter().rev().map(Lent::bytes).collect();
        let value = operators::fold(self.operator, key, base.as_ref().map(Lent::bytes), &oldest_first)?;
        cost.keys_read += 1;
        cost.bytes_read += (key.len() + value.len()) as u64;
        Ok(Some(take(&value)))
    }

    /// Look `key` up and keep its value: a copy, or a slice that pins its block where the value is
    /// most of the block anyway.
    pub(crate) fn get_bytes(&self, key: &[u8], cost: &mut OpCost) -> Result<Option<Bytes>> {
        self.get(key, cost, Bytes::copy_from_slice)
    }

    /// The number of the newest version of `key` visible here, tombstones included; `None` if the
    /// key was never written.
    pub(crate) fn newest_seqno(
        &self,
        key: &[u8],
        after: SeqNo,
        cost: &mut OpCost,
    ) -> Result<Option<SeqNo>> {
        let mut newest: Option<SeqNo> = None;
        let mut meet = |seqno: Option<SeqNo>| newest = newest.max(seqno);
        for source in self.superversion.memtables() {
            meet(source.memtable.tombstones(self.keyspace).and_then(|t| t.covering(key, self.bound)));
            meet(source.memtable.get(self.keyspace, key, self.bound).map(|e| e.seqno));
        }
        let hash = key_hash(key);
        let younger = |t: &&Arc<TableHandle>| t.meta.largest_seqno > after && t.meta.bounds.contains(key);
        let l0 = self.tree.levels[0].tables().iter();
        let deeper = self.tree.levels[1..].iter().filter_map(|level| level.find(key));
        for table in l0.chain(deeper).filter(younger) {
            let reader = table.reader()?;
            meet(reader.tombstones().covering(key, self.bound));
            meet(reader.get(key, hash, self.bound, cost)?.map(|e| e.seqno));
        }
        Ok(newest)
    }

    fn walk(&self, key: &[u8], walk: &mut Walk<'a>, cost: &mut OpCost) -> Result<Option<Lent<'a>>> {
        let own = self.own.map(|memtable| (memtable, SeqNo::MAX));
        let committed = self.superversion.memtables().map(|layer| (&*layer.memtable, self.bound));
        for (memtable, bound) in own.into_iter().chain(committed) {
            if memtable.is_empty() {
                continue;
            }
            cost.memtables += 1;
            if let Some(tombstones) = memtable.tombstones(self.keyspace)
                && let Some(cover) = tombstones.covering(key, bound)
            {
                walk.cover = walk.cover.max(cover);
            }
            let mut upper = bound;
            while let Some(entry) = memtable.get(self.keyspace, key, upper) {
                match walk.meet(entry.seqno, entry.kind, Lent::Memtable(entry.value), cost) {
                    Step::Ends(value) => return Ok(value),
                    Step::Older if entry.seqno == SeqNo::ZERO => break,
                    Step::Older => upper = SeqNo(entry.seqno.0 - 1),
                }
                check_chain(key, &walk.operands)?;
            }
            if walk.cover > SeqNo::ZERO {
                return Ok(None);
            }
        }
        let hash = key_hash(key);
        let l0 = &self.tree.levels[0];
        let mut consulted = false;
        for table in l0.tables().iter().filter(|t| t.meta.bounds.contains(key)) {
            consulted = true;
            if let Step::Ends(value) = self.table(table, key, hash, walk, cost)? {
                cost.levels += 1;
                return Ok(value);
            }
        }
        cost.levels += u64::from(consulted);
        for level in &self.tree.levels[1..] {
            let Some(table) = level.find(key) else { continue };
            cost.levels += 1;
            if let Step::Ends(value) = self.table(table, key, hash, walk, cost)? {
                return Ok(value);
            }
        }
        Ok(None)
    }

    /// Ask one table.
    fn table(
        &self,
        table: &TableHandle,
        key: &[u8],
        hash: u64,
        walk: &mut Walk<'a>,
        cost: &mut OpCost,
    ) -> Result<Step<'a>> {
        let reader: &TableReader = table.reader()?;
        let tombstones = reader.tombstones();
        if !tombstones.is_empty()
            && let Some(cover) = tombstones.covering(key, self.bound)
        {
            walk.cover = walk.cover.max(cover);
        }
        let mut upper = self.bound;
        while let Some(entry) = reader.get(key, hash, upper, cost)? {
            match walk.meet(entry.seqno, entry.kind, Lent::Table(entry.value), cost) {
                Step::Ends(value) => return Ok(Step::Ends(value)),
                Step::Older if entry.seqno == SeqNo::ZERO => break,
                Step::Older => upper = SeqNo(entry.seqno.0 - 1),
            }
            check_chain(key, &walk.operands)?;
        }
        Ok(if walk.cover > SeqNo::ZERO { Step::Ends(None) } else { Step::Older })
    }
}

impl<'a> Walk<'a> {
    /// A version of the key, older than all met before.
    #[inline]
    fn meet(&mut self, seqno: SeqNo, kind: Kind, value: Lent<'a>, cost: &mut OpCost) -> Step<'a> {
        if seqno < self.cover {
            cost.tombstones_skipped += 1;
            return Step::Ends(None);
        }
        match kind {
            Kind::Put => Step::Ends(Some(value)),
            Kind::Delete | Kind::RangeDelete => {
                cost.tombstones_skipped += 1;
                Step::Ends(None)
            }
            Kind::Merge => {
                self.operands.push(value);
                Step::Older
            }
        }
    }
}

fn check_chain(key: &[u8], operands: &[Lent<'_>]) -> Result<()> {
    if operands.len() <= CHAIN_MAX {
        return Ok(());
    }
    Err(Error::Merge {
        key: printable(key),
        operator: "any".to_string(),
        why: format!("the key has more than {CHAIN_MAX} unfolded operands"),
    })
}
