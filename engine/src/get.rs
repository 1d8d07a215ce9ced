//! The way of a get: active memtable → sealed memtables → one table of each run of level 0, newest first → one
//! table a level, until the newest version the reader may see is found.
//!
//! Invariant leaned on: for one key, everything in a source is newer than everything in the sources
//! after it. So the first version found decides, a range tombstone found in a source decides over all
//! sources after it, and only merge operands make the lookup go on.

mod prefetch;

use std::borrow::Borrow;
use std::sync::Arc;

use bytes::Bytes;
use esker_base::checksum::key_hash;
use esker_base::error::printable;
use esker_base::limits::VALUE_BYTES_MAX;
use esker_base::memory;
use esker_base::planted::{self, Planted};
use esker_base::{Error, FileNumber, KeyspaceId, Kind, MergeOperator, OpCost, Result, SeqNo};
use esker_manifest::{Level, TableHandle, Tree};
use esker_sstable::Near;

use crate::core::Core;
use crate::memtable::Memtable;
use crate::operators;
use crate::read_costs::Reads;
use crate::superversion::SuperVersion;
use crate::table_io;
use prefetch::{Ahead, Tables, look_ahead};

/// Bytes of one key's operands in tables that a read or scan holds at once before it gives up: tables may
/// be hostile. What lies in memtables is in memory already; after a crash that may be a chain which the
/// commit queue had kept short and the log has whole.
pub(crate) const CHAIN_BYTES_MAX: usize = VALUE_BYTES_MAX;

/// Keys of [`View::multi_get`] that are prefetched for together: the cache lines of some tens of gets stay in a processor's
/// first cache until they are read.
const TOGETHER: usize = 16;

impl Core {
    /// What `read`, a get or several of `keyspace`, says; what it costs goes into `cost` and the counters. `log`: that of the
    /// memtable which took writes when the reader began, if that was before the call.
    #[inline]
    pub(crate) fn count_read<R>(
        &self,
        keyspace: KeyspaceId,
        log: Option<FileNumber>,
        cost: &mut OpCost,
        read: impl FnOnce(&mut OpCost) -> R,
    ) -> R {
        let mut of_read = OpCost::default();
        let found = read(&mut of_read);
        let times = self.metrics.count_get(&of_read);
        if times > 0 {
            let of_tables = of_read.tables + of_read.filter_negatives > 0;
            let reads = Reads { gets_of_tables: u64::from(of_tables), ..Reads::default() };
            self.count_reads(keyspace, log, reads, times);
        }
        cost.add(&of_read);
        found
    }
}

/// Where to look: one keyspace as seen by one reader.
pub(crate) struct View<'a> {
    pub(crate) superversion: &'a SuperVersion,
    pub(crate) keyspace: KeyspaceId,
    pub(crate) tree: &'a Tree,
    pub(crate) operator: Option<&'a Arc<dyn MergeOperator>>,
    /// The reader's sequence number.
    pub(crate) read_seqno: SeqNo,
    /// A transaction's own writes, all of them seen.
    pub(crate) own: Option<&'a Memtable>,
}

impl<'a> View<'a> {
    /// `keyspace` as `superversion` has it, if it does, up to `read_seqno`: without a merge operator, and without writes of a
    /// transaction's own.
    #[inline]
    pub(crate) fn new(
        superversion: &'a SuperVersion,
        keyspace: KeyspaceId,
        read_seqno: SeqNo,
    ) -> Option<View<'a>> {
        let tree = &superversion.version.keyspace(keyspace)?.tree;
        Some(View { superversion, keyspace, tree, operator: None, read_seqno, own: None })
    }
}

impl View<'_> {
    /// Look `key` up and hand its value, if it has one, to `take`. Nothing is copied on the way but merge
    /// operands.
    #[inline]
    pub(crate) fn get<R>(
        &self,
        key: &[u8],
        cost: &mut OpCost,
        take: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        self.look_up(key, cost, true, |found| take(found.bytes()))
    }

    /// Look `key` up and keep a copy of its value.
    pub(crate) fn get_bytes(&self, key: &[u8], cost: &mut OpCost) -> Result<Option<Bytes>> {
        self.look_up(key, cost, true, keep)?.transpose()
    }

    /// Look `key` up, hand its value to `take`, and count what it took.
    #[inline]
    fn look_up<R>(
        &self,
        key: &[u8],
        cost: &mut OpCost,
        wants_value: bool,
        take: impl FnOnce(Found<'_>) -> R,
    ) -> Result<Option<R>> {
        let hash = key_hash(key);
        let tables = || Tables::of(self.tree, key, hash);
        self.look_up_in(key, hash, tables, cost, wants_value, take)
    }

    /// The same, with the key's hash, and its tables when the lookup comes to them.
    #[inline]
    fn look_up_in<'t, R, T: Borrow<Tables<'t>>>(
        &'t self,
        key: &[u8],
        hash: u64,
        tables: impl FnOnce() -> T,
        cost: &mut OpCost,
        wants_value: bool,
        take: impl FnOnce(Found<'_>) -> R,
    ) -> Result<Option<R>> {
        cost.calls += 1;
        let take = Some(take);
        let mut lookup = Lookup {
            key,
            cover: SeqNo::ZERO,
            operands: Vec::new(),
            in_tables: false,
            operand_bytes: 0,
            take,
            wants_value,
            blob: None,
            tombstones: 0,
            bytes: 0,
        };
        let found = self.search(&mut lookup, hash, tables, cost)?;
        cost.keys_read += u64::from(found.is_some());
        cost.bytes_read += if wants_value { lookup.bytes } else { lookup.bytes.min(key.len() as u64) };
        cost.tombstones_skipped += lookup.tombstones;
        if let Some(blob) = &lookup.blob {
            cost.add(blob);
        }
        Ok(found)
    }

    /// Ask one source after the other, newest first, until one ends the lookup.
    fn search<'t, R, F: FnOnce(Found<'_>) -> R, T: Borrow<Tables<'t>>>(
        &'t self,
        lookup: &mut Lookup<'_, F>,
        hash: u64,
        tables: impl FnOnce() -> T,
        cost: &mut OpCost,
    ) -> Result<Option<R>> {
        let key = lookup.key;
        let own = self.own.map(|memtable| (memtable, SeqNo::MAX));
        let committed = self.superversion.memtables().map(|layer| (&*layer.memtable, self.read_seqno));
        for (memtable, read_seqno) in own.into_iter().chain(committed) {
            if memtable.is_empty() {
                continue;
            }
            cost.memtables += 1;
            if let Some(cover) = memtable.covering(self.keyspace, key, read_seqno)
                && !(planted::is(Planted::SealedTombstones) && self.is_sealed(memtable))
            {
                lookup.cover = lookup.cover.max(cover);
            }
            let mut seqno = read_seqno;
            while memtable.may_contain(self.keyspace, hash)
                && let Some(entry) = memtable.get(self.keyspace, key, seqno)
            {
                if let Step::Ends(end) = self.visit(lookup, entry.seqno, entry.kind, entry.value, None)? {
                    return Ok(end);
                }
                seqno = SeqNo(entry.seqno.0 - 1);
            }
            if lookup.cover > SeqNo::ZERO {
                return self.finish(lookup, None);
            }
        }
        lookup.in_tables = true;
        let tables = tables();
        let tables = tables.borrow();
        let mut number = 0;
        for level in &self.tree.levels {
            let mut consulted = false;
            for run in level.runs() {
                if let Some(table) = tables.of_run(number, run, key) {
                    cost.levels += u64::from(!consulted);
                    consulted = true;
                    if let Step::Ends(end) =
                        self.search_table(table, hash, tables.near(number), lookup, cost)?
                    {
                        return Ok(end);
                    }
                }
                number += 1;
            }
        }
        self.finish(lookup, None)
    }

    /// Whether `memtable` takes no writes any more.
    fn is_sealed(&self, memtable: &Memtable) -> bool {
        self.superversion.sealed.iter().any(|sealed| std::ptr::eq(Arc::as_ptr(&sealed.memtable), memtable))
    }

    /// Search one table. `near` is where in its index the key is, if the prefetch has found that.
    fn search_table<R, F: FnOnce(Found<'_>) -> R>(
        &self,
        table: &TableHandle,
        hash: u64,
        near: Option<Near>,
        lookup: &mut Lookup<'_, F>,
        cost: &mut OpCost,
    ) -> Result<Step<R>> {
        let reader = table.reader()?;
        let tombstones = reader.tombstones();
        if !tombstones.is_empty()
            && let Some(cover) = tombstones.covering(lookup.key, self.read_seqno)
        {
            lookup.cover = lookup.cover.max(cover);
        }
        let mut seqno = self.read_seqno;
        loop {
            let met = reader.get_with(lookup.key, hash, seqno, near, cost, |entry| {
                (entry.seqno, self.visit(lookup, entry.seqno, entry.kind, entry.value, Some(table)))
            })?;
            match met {
                None | Some((SeqNo::ZERO, Ok(Step::Older))) => break,
                Some((found, Ok(Step::Older))) => seqno = SeqNo(found.0 - 1),
                Some((_, ends)) => return ends,
            }
        }
        if lookup.cover > SeqNo::ZERO {
            return self.finish(lookup, None).map(Step::Ends);
        }
        Ok(Step::Older)
    }

    /// A version of the key, older than all met before; of `table`, if it is of one.
    #[inline]
    fn visit<R, F: FnOnce(Found<'_>) -> R>(
        &self,
        lookup: &mut Lookup<'_, F>,
        seqno: SeqNo,
        kind: Kind,
        value: &[u8],
        table: Option<&TableHandle>,
    ) -> Result<Step<R>> {
        if seqno < lookup.cover || matches!(kind, Kind::Delete | Kind::RangeDelete) {
            lookup.tombstones += 1;
            return self.finish(lookup, None).map(Step::Ends);
        }
        if kind == Kind::Put {
            return self.finish(lookup, Some(Found::Lent(value))).map(Step::Ends);
        }
        if kind == Kind::BlobPut {
            return self.visit_pointer(lookup, value, table);
        }
        lookup.operands.push(memory::copied(value, "a merge operand")?);
        if lookup.in_tables {
            count_operand(lookup.key, value, &mut lookup.operand_bytes, CHAIN_BYTES_MAX)?;
        }
        Ok(Step::Older)
    }

    /// [`View::visit`] of a value that lies in a blob file.
    #[inline(never)]
    fn visit_pointer<R, F: FnOnce(Found<'_>) -> R>(
        &self,
        lookup: &mut Lookup<'_, F>,
        pointer: &[u8],
        table: Option<&TableHandle>,
    ) -> Result<Step<R>> {
        if !lookup.wants_value && lookup.operands.is_empty() {
            return self.finish(lookup, Some(Found::Lent(&[]))).map(Step::Ends);
        }
        let table = table.ok_or_else(|| Error::invalid("a memtable refers to no blob file"))?;
        let pointer =
            table_io::pointer(pointer, || table.reader().map(|reader| reader.path().to_path_buf()))?;
        let cost = lookup.blob.get_or_insert_default();
        let mut value = table.blob(&pointer)?.read(lookup.key, &pointer, cost)?;
        self.finish(lookup, Some(Found::Own(&mut value))).map(Step::Ends)
    }

    /// End the lookup on `base`: hand the value to `take`, with the operands folded onto it.
    #[inline]
    fn finish<R, F: FnOnce(Found<'_>) -> R>(
        &self,
        lookup: &mut Lookup<'_, F>,
        base: Option<Found<'_>>,
    ) -> Result<Option<R>> {
        let take = lookup.take.take().expect("a lookup ends once");
        if lookup.operands.is_empty() {
            return Ok(base.map(|value| {
                lookup.bytes = (lookup.key.len() + value.bytes().len()) as u64;
                take(value)
            }));
        }
        let oldest_first: Vec<&[u8]> = lookup.operands.iter().rev().map(Vec::as_slice).collect();
        let base = base.as_ref().map(Found::bytes);
        let value = operators::fold(self.operator, lookup.key, base, &oldest_first)?;
        lookup.bytes = (lookup.key.len() + value.len()) as u64;
        Ok(Some(take(Found::Lent(&value))))
    }
}

/// What one get has met so far, and what is to become of its value.
struct Lookup<'k, F> {
    key: &'k [u8],
    /// The newest visible range tombstone over the key, met so far.
    cover: SeqNo,
    /// Merge operands met so far, newest first.
    operands: Vec<Vec<u8>>,
    /// The memtables were searched.
    in_tables: bool,
    /// Memory that operands from tables take.
    operand_bytes: usize,
    /// What the caller does with the value; called once at most.
    take: Option<F>,
    /// `take` looks at the value, so one in a blob file has to be read.
    wants_value: bool,
    /// What reading the value from a blob file cost, if it lies in one.
    blob: Option<OpCost>,
    /// Tombstones met.
    tombstones: u64,
    /// Bytes of key and value handed out.
    bytes: u64,
}

/// What a version of the key, or a source, means for the lookup.
enum Step<R> {
    /// Go on with older versions.
    Older,
    /// The lookup ends with this (`None`: no such key).
    Ends(Option<R>),
}

/// A value on its way to the caller.
pub(crate) enum Found<'a> {
    /// It lies where it was found.
    Lent(&'a [u8]),
    /// It was read from a blob file, and can be kept without a copy.
    Own(&'a mut Bytes),
}

impl Found<'_> {
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Found::Lent(bytes) => bytes,
            Found::Own(bytes) => bytes,
        }
    }
}

/// `found`, to outlive where it was found.
#[inline]
fn keep(found: Found<'_>) -> Result<Bytes> {
    match found {
        Found::Lent(bytes) => owned(bytes),
        Found::Own(bytes) => Ok(std::mem::take(bytes)),
    }
}

impl View<'_> {
    /// Whether `key` has a value. One in a blob file is not read, and of no value are bytes counted.
    pub(crate) fn contains(&self, key: &[u8], cost: &mut OpCost) -> Result<bool> {
        Ok(self.look_up(key, cost, false, |_| ())?.is_some())
    }

    /// The values of `keys`, in their order. They are looked up in key order, so that neighbours share blocks.
    pub(crate) fn multi_get<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        cost: &mut OpCost,
    ) -> Result<Vec<Option<Bytes>>> {
        let mut order: Vec<usize> = (0..keys.len()).collect();
        order.sort_unstable_by(|&a, &b| keys[a].as_ref().cmp(keys[b].as_ref()));
        let mut values = vec![None; keys.len()];
        let mut ahead = Vec::with_capacity(keys.len().min(TOGETHER));
        for some in order.chunks(TOGETHER) {
            let asked = some.iter().map(|&index| keys[index].as_ref());
            look_ahead(self.tree, asked, self.read_seqno, &mut ahead);
            for (Ahead { key, hash, tables, .. }, &index) in ahead.iter().zip(some) {
                let found = self.look_up_in(key, *hash, || tables, cost, true, keep)?;
                values[index] = found.transpose()?;
            }
        }
        Ok(values)
    }

    /// The number of the newest version of `key` visible here, tombstones included; only sources that may hold a
    /// number after `after` are asked, so it may be `None`, or too small, if there is none.
    pub(crate) fn newest_seqno(
        &self,
        key: &[u8],
        after: SeqNo,
        cost: &mut OpCost,
    ) -> Result<Option<SeqNo>> {
        let mut newest: Option<SeqNo> = None;
        let mut note = |seqno: Option<SeqNo>| newest = newest.max(seqno);
        for source in self.superversion.memtables().filter(|layer| layer.may_hold_after(after)) {
            note(source.memtable.covering(self.keyspace, key, self.read_seqno));
            note(source.memtable.get(self.keyspace, key, self.read_seqno).map(|e| e.seqno));
        }
        let hash = key_hash(key);
        let younger = |t: &&Arc<TableHandle>| t.meta.largest_seqno > after;
        let runs = self.tree.levels.iter().flat_map(Level::runs);
        for table in runs.filter_map(|run| run.find(key)).filter(younger) {
            let reader = table.reader()?;
            note(reader.tombstones().covering(key, self.read_seqno));
            note(reader.get_with(key, hash, self.read_seqno, None, cost, |e| e.seqno)?);
        }
        Ok(newest)
    }
}

/// Count `operand` of `key`, from a table, among the `bytes` held; err beyond `most`.
pub(crate) fn count_operand(key: &[u8], operand: &[u8], bytes: &mut usize, most: usize) -> Result<()> {
    *bytes += operand.len() + size_of::<Vec<u8>>();
    if *bytes <= most {
        return Ok(());
    }
    Err(Error::Merge {
        key: printable(key),
        operator: "any".to_string(),
        why: format!("the key has more than {most} bytes of unfolded operands"),
    })
}

/// A value for whoever asked for it.
#[inline]
pub(crate) fn owned(value: &[u8]) -> Result<Bytes> {
    memory::copied(value, "a value").map(Bytes::from)
}
