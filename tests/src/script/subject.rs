//! A script's calls made on a real database, and what it answers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use esker::{Database, Error, Keyspace, Reader, RowCursor, Snapshot, Transaction};
use esker_vfs::fs::Fs;
use esker_vfs::mem::MemFs;
use parking_lot::Mutex;

use super::reference::from_front;
use super::spaces::{FIXED, SPACES};
use super::world::{Config, DIR};
use super::{
    Answer, At, CONFLICT, Item, Move, NO_KEYSPACE, Op, Parts, READ_ONLY, SLOTS, Space, Step, Upkeep, Way,
    Write, everything,
};
use crate::oracle::row_hash;
use crate::points::Hits;

/// See the module.
pub struct Subject {
    config: Config,
    disk: MemFs,
    opens: u64,
    checkpoints: u64,
    db: Database,
    spaces: BTreeMap<Space, Keyspace>,
    dropped: Option<Keyspace>,
    snapshots: [Option<Snapshot>; SLOTS],
    readers: [Option<Reader>; SLOTS],
    cursors: [Option<(RowCursor, Parts)>; SLOTS],
    transactions: [Option<Transaction>; SLOTS],
    hits: Arc<Mutex<Hits>>,
    /// Calls made on the public face.
    pub calls: u64,
}

type Outcome<T> = Result<T, Item>;

/// Errors that a script expects are answers; all others are wrong.
fn told(error: &Error) -> Item {
    match error {
        Error::NoSuchKeyspace { .. } | Error::KeyspaceDropped { .. } => NO_KEYSPACE,
        Error::Conflict { .. } => CONFLICT,
        Error::ReadOnly => READ_ONLY,
        other => Item::Wrong(other.to_string()),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is for `map_err`")]
fn failed(error: Error) -> Item {
    told(&error)
}

impl Subject {
    /// A new database.
    pub fn new(config: Config, hits: Arc<Mutex<Hits>>) -> Outcome<Subject> {
        let disk = MemFs::new();
        let db = config.open(&disk, Path::new(DIR), 0, false, &hits).map_err(failed)?;
        let mut subject = Subject {
            config,
            disk,
            opens: 1,
            checkpoints: 0,
            db,
            spaces: BTreeMap::new(),
            dropped: None,
            snapshots: Default::default(),
            readers: Default::default(),
            cursors: Default::default(),
            transactions: Default::default(),
            hits,
            calls: 0,
        };
        (0..FIXED).try_for_each(|space| subject.create(space))?;
        Ok(subject)
    }

    /// Make one call; what must not happen is a piece of the answer like any other.
    pub fn apply(&mut self, op: &Op, out: &mut Answer) {
        if let Err(item) = self.call(op, out) {
            out.push(item);
        }
    }

    fn call(&mut self, op: &Op, out: &mut Answer) -> Outcome<()> {
        self.calls += 1;
        match op {
            Op::Write(write) => self.write(write)?,
            Op::Batch(writes) => self.batch(writes)?,
            Op::Swap(space, key, expected, new) => {
                let keyspace = self.space(*space)?;
                let now = keyspace.get(key).map_err(failed)?;
                let other = now.as_ref().map_or(&b"something"[..], |_| b"something else");
                let other = if now.as_deref() == Some(other) { None } else { Some(other) };
                let expected = if *expected { now.as_deref() } else { other };
                let swapped = keyspace.compare_and_swap(key, expected, new.as_deref()).map_err(failed)?;
                out.push(Item::Flag(swapped));
            }
            Op::Get(space, At::Now, key) => {
                out.push(Item::Value(self.space(*space)?.get(key).map_err(failed)?));
            }
            Op::Get(space, at, key) => {
                out.push(Item::Value(self.reader(*space, *at)?.get(key).map_err(failed)?));
            }
            Op::GetWith(space, at, key) => {
                let value = match at {
                    At::Now => self.space(*space)?.get_with(key, Bytes::copy_from_slice),
                    at => self.reader(*space, *at)?.get_with_costed(
                        key,
                        &mut esker::OpCost::default(),
                        Bytes::copy_from_slice,
                    ),
                };
                out.push(Item::Value(value.map_err(failed)?));
            }
            Op::Contains(space, at, key) => {
                let there = match at {
                    At::Now => self.space(*space)?.contains(key),
                    at => self.reader(*space, *at)?.contains(key),
                };
                out.push(Item::Flag(there.map_err(failed)?));
            }
            Op::MultiGet(space, at, keys) => {
                let values = match at {
                    At::Now => self.space(*space)?.multi_get(keys),
                    at => self.reader(*space, *at)?.multi_get(keys),
                };
                out.extend(values.map_err(failed)?.into_iter().map(Item::Value));
            }
            Op::Scan(space, at, range, way, most, parts) => {
                let scan = match at {
                    At::Now if *range == everything() => self.space(*space)?.iter(),
                    At::Now => self.space(*space)?.range(range.clone()),
                    at => self.reader(*space, *at)?.range(range.clone()),
                };
                let scan = if *parts == Parts::Keys { scan.keys_only() } else { scan };
                self.calls += drain(scan, *way, *most, out);
            }
            Op::Prefix(space, at, prefix, way) => {
                let scan = match at {
                    At::Now => self.space(*space)?.prefix(prefix),
                    at => self.reader(*space, *at)?.prefix(prefix),
                };
                self.calls += drain(scan, *way, usize::MAX, out);
            }
            Op::OpenCursor(slot, space, at, range, parts) => {
                self.cursors[*slot] = None;
                let reader = self.reader(*space, *at)?;
                let whole = *range == everything();
                let cursor = if whole { reader.cursor() } else { reader.cursor_over(range.clone()) };
                let cursor = cursor.map_err(failed)?;
                let cursor = if *parts == Parts::Keys { cursor.keys_only() } else { cursor };
                self.cursors[*slot] = Some((cursor, *parts));
            }
            Op::MoveCursor(slot, moves) => {
                let Some((cursor, parts)) = &mut self.cursors[*slot] else { return Ok(()) };
                self.calls += moves.len() as u64;
                moves.iter().try_for_each(|step| step_cursor(cursor, *parts, step, out))?;
            }
            Op::Begin(slot) => self.transactions[*slot] = Some(self.db.begin().map_err(failed)?),
            Op::InTransaction(slot, step) => self.in_transaction(*slot, step, out)?,
            Op::End(slot, commit) => match self.transactions[*slot].take() {
                Some(transaction) if *commit => transaction.commit().map_err(failed)?,
                Some(transaction) => transaction.rollback(),
                None => {}
            },
            Op::TakeSnapshot(slot) => self.snapshots[*slot] = Some(self.db.snapshot()),
            Op::MakeReader(slot, space, at) => {
                let reader = self.reader(*space, *at);
                self.readers[*slot] = None;
                self.readers[*slot] = Some(reader?);
            }
            Op::LetGo(slot) => self.let_go(*slot),
            Op::Create(space) => self.create(*space)?,
            Op::Drop(space) => {
                if let Some(keyspace) = self.spaces.remove(space) {
                    self.db.drop_keyspace(SPACES[*space].0).map_err(failed)?;
                    self.dropped = Some(keyspace);
                }
            }
            Op::CallDropped => {
                if let Some(dropped) = &self.dropped {
                    dropped.put("key", "value").map_err(failed)?;
                    return Err(Item::Wrong("a dropped keyspace took a write".to_owned()));
                }
            }
            Op::Upkeep(upkeep) => self.upkeep(upkeep)?,
            Op::Dump => {
                let (whole, steps) = dump(&self.db)?;
                self.calls += steps;
                out.push(whole);
            }
            Op::Verify => drop(self.db.verify().map_err(failed)?),
            Op::Reopen => self.reopen(false)?,
            Op::ReadOnly => {
                self.reopen(true)?;
                let (whole, steps) = dump(&self.db)?;
                self.calls += steps;
                out.push(whole);
                let refused = self.space(0)?.put("key", "value");
                out.push(refused.err().map_or(Item::Wrong("it was written to".to_owned()), failed));
                self.reopen(false)?;
            }
        }
        Ok(())
    }

    /// Close the database.
    pub fn close(mut self) -> Outcome<()> {
        (0..SLOTS).for_each(|slot| self.let_go(slot));
        self.spaces.clear();
        self.dropped = None;
        self.db.close().map_err(failed)
    }

    fn let_go(&mut self, slot: usize) {
        self.snapshots[slot] = None;
        self.readers[slot] = None;
        self.cursors[slot] = None;
        self.transactions[slot] = None;
    }

    fn reopen(&mut self, read_only: bool) -> Outcome<()> {
        (0..SLOTS).for_each(|slot| self.let_go(slot));
        self.dropped = None;
        let names: Vec<Space> = std::mem::take(&mut self.spaces).into_keys().collect();
        self.db.clone().close().map_err(failed)?;
        self.db = self
            .config
            .open(&self.disk, Path::new(DIR), self.opens, read_only, &self.hits)
            .map_err(failed)?;
        self.opens += 1;
        for space in names {
            let keyspace = self.db.existing_keyspace(SPACES[space].0).map_err(failed)?;
            self.spaces.insert(space, keyspace);
        }
        Ok(())
    }

    fn create(&mut self, space: Space) -> Outcome<()> {
        if !self.spaces.contains_key(&space) {
            let keyspace = self.db.keyspace(SPACES[space].0, self.config.of(space)).map_err(failed)?;
            self.spaces.insert(space, keyspace);
        }
        Ok(())
    }

    fn space(&self, space: Space) -> Outcome<&Keyspace> {
        self.spaces.get(&space).ok_or(NO_KEYSPACE)
    }

    fn reader(&self, space: Space, at: At) -> Outcome<Reader> {
        let keyspace = self.space(space);
        match at {
            At::Reader(slot) if self.readers[slot].is_some() => {
                self.readers[slot].clone().ok_or(NO_KEYSPACE)
            }
            At::Snapshot(slot) => match &self.snapshots[slot] {
                Some(snapshot) => keyspace?.at(snapshot).map_err(failed),
                None => keyspace?.reader().map_err(failed),
            },
            _ => keyspace?.reader().map_err(failed),
        }
    }

    fn write(&self, write: &Write) -> Outcome<()> {
        let keyspace = self.space(write.space())?;
        match write {
            Write::Put(_, key, value) => keyspace.put(key, value),
            Write::Delete(_, key) => keyspace.delete(key),
            Write::DeleteRange(_, range) => keyspace.delete_range(range.clone()),
            Write::DeletePrefix(_, prefix) => keyspace.delete_prefix(prefix),
            Write::Merge(_, key, operand) => keyspace.merge(key, operand),
        }
        .map_err(failed)
    }

    fn batch(&mut self, writes: &[Write]) -> Outcome<()> {
        self.calls += writes.len() as u64;
        if writes.iter().any(|write| !self.spaces.contains_key(&write.space())) {
            return Err(NO_KEYSPACE);
        }
        let mut batch = self.db.batch();
        for write in writes {
            let keyspace = self.space(write.space())?;
            match write {
                Write::Put(_, key, value) => batch.put(keyspace, key, value),
                Write::Delete(_, key) => batch.delete(keyspace, key),
                Write::Merge(_, key, operand) => batch.merge(keyspace, key, operand),
                Write::DeleteRange(_, range) => batch.delete_range(keyspace, range.clone()),
                Write::DeletePrefix(_, prefix) => batch.delete_prefix(keyspace, prefix),
            }
            .map_err(failed)?;
        }
        batch.commit().map_err(failed)
    }

    fn in_transaction(&mut self, slot: usize, step: &Step, out: &mut Answer) -> Outcome<()> {
        let space = step.space();
        let (Some(transaction), Some(keyspace)) = (&mut self.transactions[slot], self.spaces.get(&space))
        else {
            return Ok(());
        };
        self.calls += step_transaction(transaction, keyspace, step, out)?;
        Ok(())
    }

    fn upkeep(&mut self, upkeep: &Upkeep) -> Outcome<()> {
        match upkeep {
            Upkeep::Flush => self.db.flush().map_err(failed),
            Upkeep::Persist => self.db.persist().map_err(failed),
            Upkeep::Settle => self.db.wait_for_compactions().map_err(failed),
            Upkeep::Compact(space, range) => match self.spaces.get(space) {
                Some(keyspace) => keyspace.compact_range(range.clone()).map_err(failed),
                None => Ok(()),
            },
            Upkeep::Checkpoint => self.checkpoint(),
            Upkeep::Size(space, range) => {
                let Some(keyspace) = self.spaces.get(space) else { return Ok(()) };
                let some = keyspace.approximate_size(range.clone()).map_err(failed)?;
                let all = keyspace.approximate_size::<&[u8]>(..).map_err(failed)?;
                // With threads a flush or compaction may come between the two.
                if some > all && !self.config.threads {
                    return Err(Item::Wrong(format!("a range takes {some} bytes of {all}")));
                }
                Ok(())
            }
        }
    }

    /// Make a checkpoint: it must open, verify and hold what the database holds.
    fn checkpoint(&mut self) -> Outcome<()> {
        let target = PathBuf::from(format!("/checkpoint-{}", self.checkpoints));
        self.checkpoints += 1;
        self.db.checkpoint(&target).map_err(failed)?;
        let (here, _) = dump(&self.db)?;
        let read_only = self.checkpoints.is_multiple_of(2);
        let copy = self
            .config
            .open(&self.disk, &target, self.checkpoints, read_only, &self.hits)
            .map_err(failed)?;
        let (there, _) = dump(&copy)?;
        copy.verify().map_err(failed)?;
        copy.close().map_err(failed)?;
        let remove = || -> esker::Result<()> {
            for entry in self.disk.list(&target)? {
                self.disk.remove(&target.join(entry.name))?;
            }
            self.disk.remove_dir(&target)
        };
        remove().map_err(failed)?;
        if here == there {
            return Ok(());
        }
        Err(Item::Wrong(format!("a checkpoint holds {there:?}, not {here:?}")))
    }
}

/// Make one call on `transaction` and the keyspace it is about; how many further calls that took.
pub fn step_transaction(
    transaction: &mut Transaction,
    keyspace: &Keyspace,
    step: &Step,
    out: &mut Answer,
) -> Outcome<u64> {
    let mut calls = 0;
    match step {
        Step::Get(_, key) => out.push(Item::Value(transaction.get(keyspace, key).map_err(failed)?)),
        Step::Contains(_, key) => {
            out.push(Item::Flag(transaction.contains(keyspace, key).map_err(failed)?));
        }
        Step::Scan(_, range, way, most, parts) => {
            let scan = transaction.range(keyspace, range.clone());
            let scan = if *parts == Parts::Keys { scan.keys_only() } else { scan };
            calls = drain(scan, *way, *most, out);
        }
        Step::Prefix(_, prefix, way) => {
            calls = drain(transaction.prefix(keyspace, prefix), *way, usize::MAX, out);
        }
        Step::Watch(_, range) => transaction.watch_range(keyspace, range.clone()),
        Step::Write(write) => match write {
            Write::Put(_, key, value) => transaction.put(keyspace, key, value),
            Write::Delete(_, key) => transaction.delete(keyspace, key),
            Write::Merge(_, key, operand) => transaction.merge(keyspace, key, operand),
            Write::DeleteRange(_, range) => transaction.delete_range(keyspace, range.clone()),
            Write::DeletePrefix(_, prefix) => transaction.delete_prefix(keyspace, prefix),
        }
        .map_err(failed)?,
    }
    Ok(calls)
}

/// Take rows; how many calls that took.
fn drain(
    mut scan: impl DoubleEndedIterator<Item = esker::Result<(Bytes, Bytes)>>,
    way: Way,
    most: usize,
    out: &mut Answer,
) -> u64 {
    let mut calls = 0;
    for nth in 0..most {
        calls += 1;
        match if from_front(way, nth) { scan.next() } else { scan.next_back() } {
            Some(Ok((key, value))) => out.push(Item::Row(key, value)),
            Some(Err(error)) => {
                out.push(told(&error));
                break;
            }
            None => {
                out.push(Item::End);
                // Whoever is at the end stays there.
                if scan.next().is_some() || scan.next_back().is_some() {
                    out.push(Item::Wrong("a scan went on behind its end".to_owned()));
                }
                break;
            }
        }
    }
    calls
}

fn step_cursor(cursor: &mut RowCursor, parts: Parts, step: &Move, out: &mut Answer) -> Outcome<()> {
    let stands = match step {
        Move::SeekFirst => cursor.seek_first(),
        Move::SeekLast => cursor.seek_last(),
        Move::Seek(key) => cursor.seek(key),
        Move::SeekForPrev(key) => cursor.seek_for_prev(key),
        Move::Next | Move::Prev if !cursor.valid() => return Ok(()),
        Move::Next => cursor.next(),
        Move::Prev => cursor.prev(),
    };
    out.push(if stands.map_err(failed)? {
        // Whether a short value is left out as well is not said.
        let value = if parts == Parts::Keys { &[] } else { cursor.value() };
        Item::Row(Bytes::copy_from_slice(cursor.key()), Bytes::copy_from_slice(value))
    } else {
        Item::End
    });
    Ok(())
}

/// The names of the keyspaces and the hash of all rows, forward and in reverse; how many calls that took.
pub fn dump(db: &Database) -> Outcome<(Item, u64)> {
    let mut names = Vec::new();
    let mut hash = 0u64;
    let mut rows = 0;
    for name in db.keyspaces() {
        let Some((known, _)) = SPACES.iter().find(|(known, _)| *known == name) else {
            return Err(Item::Wrong(format!("keyspace {name:?} came from nowhere")));
        };
        names.push(*known);
        let keyspace = db.existing_keyspace(&name).map_err(failed)?;
        let (mut forward, mut reverse, mut last) = (0u64, 0u64, None);
        for row in &keyspace {
            let (key, value) = row.map_err(failed)?;
            forward = forward.wrapping_add(row_hash(&name, &key, &value));
            if last.as_ref().is_some_and(|last| *last >= key) {
                return Err(Item::Wrong(format!("{name} is scanned out of order at {key:?}")));
            }
            last = Some(key);
            rows += 2;
        }
        for row in keyspace.iter().rev() {
            let (key, value) = row.map_err(failed)?;
            reverse = reverse.wrapping_add(row_hash(&name, &key, &value));
        }
        if forward != reverse {
            return Err(Item::Wrong(format!("forward and reverse scans of {name} differ")));
        }
        hash = hash.wrapping_add(forward);
    }
    Ok((Item::Whole(names, hash), rows))
}
