//! What a script's calls answer: sorted maps, and copies of them for every moment that something holds.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use super::spaces::{FIXED, SPACES};
use super::{
    Answer, At, CONFLICT, Item, Move, NO_KEYSPACE, Op, Parts, READ_ONLY, Range, SLOTS, Space, Step, Way,
    Write, everything, half_open, meet, prefix_range,
};
use crate::oracle::row_hash;

/// The rows of a keyspace.
pub type Rows = BTreeMap<Bytes, Bytes>;

/// A keyspace as it is: one that was dropped and created again is another one.
#[derive(Clone, Debug)]
struct Life {
    id: u64,
    rows: Arc<Rows>,
}

/// The keyspaces at one moment.
type Catalog = BTreeMap<Space, Life>;

struct CursorModel {
    rows: Arc<Rows>,
    range: Range,
    parts: Parts,
    at: Option<Bytes>,
}

/// An open transaction.
struct Transaction {
    /// The keyspaces when it began.
    began: Catalog,
    /// The same with its own writes.
    view: Catalog,
    commits: u64,
    /// What it has read: the keyspaces' lives and ranges.
    reads: Vec<(u64, Range)>,
    writes: Vec<(u64, Write)>,
    /// What others have written since.
    foreign: Vec<(u64, Range)>,
}

/// See the module.
pub struct Reference {
    spaces: Catalog,
    lives: u64,
    commits: u64,
    hash: u64,
    dropped: bool,
    snapshots: [Option<Catalog>; SLOTS],
    readers: [Option<Arc<Rows>>; SLOTS],
    cursors: [Option<CursorModel>; SLOTS],
    transactions: [Option<Transaction>; SLOTS],
}

impl Default for Reference {
    fn default() -> Self {
        let mut new = Reference {
            spaces: BTreeMap::new(),
            lives: 0,
            commits: 0,
            hash: 0,
            dropped: false,
            snapshots: Default::default(),
            readers: Default::default(),
            cursors: Default::default(),
            transactions: Default::default(),
        };
        (0..FIXED).for_each(|space| new.create(space));
        new
    }
}

impl Reference {
    /// Whether anything is held that closing would take away.
    pub fn holds_something(&self) -> bool {
        self.snapshots.iter().any(Option::is_some)
            || self.readers.iter().any(Option::is_some)
            || self.cursors.iter().any(Option::is_some)
            || self.transactions.iter().any(Option::is_some)
    }

    /// The rows of `space` now, if it is there.
    pub fn rows(&self, space: Space) -> Option<&Rows> {
        self.spaces.get(&space).map(|life| &*life.rows)
    }

    /// The names of the keyspaces and the hash of all rows.
    pub fn whole(&self) -> Item {
        let mut names: Vec<&str> = self.spaces.keys().map(|space| SPACES[*space].0).collect();
        names.sort_unstable();
        Item::Whole(names, self.hash)
    }

    /// Make one call. `found` is what the database answered, for the one question that it may answer either
    /// way: whether a commit conflicts with writes that left everything it has read as it was.
    pub fn apply(&mut self, op: &Op, found: &[Item], out: &mut Answer) {
        match op {
            Op::Write(write) => out.extend(self.commit(std::slice::from_ref(write))),
            Op::Batch(writes) => out.extend(self.commit(writes)),
            Op::Swap(space, key, expected, new) => self.swap(*space, key, *expected, new.as_ref(), out),
            Op::Get(space, at, key) | Op::GetWith(space, at, key) => match self.rows_at(*space, *at) {
                Ok(rows) => out.push(Item::Value(rows.get(key).cloned())),
                Err(refused) => out.push(refused),
            },
            Op::Contains(space, at, key) => match self.rows_at(*space, *at) {
                Ok(rows) => out.push(Item::Flag(rows.contains_key(key))),
                Err(refused) => out.push(refused),
            },
            Op::MultiGet(space, at, keys) => match self.rows_at(*space, *at) {
                Ok(rows) => out.extend(keys.iter().map(|key| Item::Value(rows.get(key).cloned()))),
                Err(refused) => out.push(refused),
            },
            Op::Scan(space, at, range, way, most, parts) => match self.rows_at(*space, *at) {
                Ok(rows) => drop(scan(&rows, range, *way, *most, *parts, out)),
                Err(refused) => out.push(refused),
            },
            Op::Prefix(space, at, prefix, way) => match self.rows_at(*space, *at) {
                Ok(rows) => {
                    drop(scan(&rows, &prefix_range(prefix), *way, usize::MAX, Parts::Whole, out));
                }
                Err(refused) => out.push(refused),
            },
            Op::OpenCursor(slot, space, at, range, parts) => {
                self.cursors[*slot] = match self.rows_at(*space, *at) {
                    Ok(rows) => Some(CursorModel { rows, range: range.clone(), parts: *parts, at: None }),
                    Err(refused) => {
                        out.push(refused);
                        None
                    }
                };
            }
            Op::MoveCursor(slot, moves) => {
                if let Some(cursor) = &mut self.cursors[*slot] {
                    for step in moves {
                        cursor.step(step, out);
                    }
                }
            }
            Op::Begin(slot) => {
                self.transactions[*slot] = Some(Transaction {
                    began: self.spaces.clone(),
                    view: self.spaces.clone(),
                    commits: self.commits,
                    reads: Vec::new(),
                    writes: Vec::new(),
                    foreign: Vec::new(),
                });
            }
            Op::InTransaction(slot, step) => {
                if let Some(transaction) = &mut self.transactions[*slot] {
                    transaction.step(step, &self.spaces, out);
                }
            }
            Op::End(slot, commit) => self.end(*slot, *commit, found, out),
            Op::TakeSnapshot(slot) => self.snapshots[*slot] = Some(self.spaces.clone()),
            Op::MakeReader(slot, space, at) => {
                self.readers[*slot] = match self.rows_at(*space, *at) {
                    Ok(rows) => Some(rows),
                    Err(refused) => {
                        out.push(refused);
                        None
                    }
                };
            }
            Op::LetGo(slot) => self.let_go(*slot),
            Op::Create(space) => {
                if !self.spaces.contains_key(space) {
                    self.create(*space);
                }
            }
            Op::Drop(space) => self.drop_space(*space),
            Op::CallDropped => out.extend(self.dropped.then_some(NO_KEYSPACE)),
            Op::Upkeep(_) | Op::Verify => {}
            Op::Dump => out.push(self.whole()),
            Op::Reopen => self.close(),
            Op::ReadOnly => {
                self.close();
                out.extend([self.whole(), READ_ONLY]);
            }
        }
    }

    fn close(&mut self) {
        self.dropped = false;
        (0..SLOTS).for_each(|slot| self.let_go(slot));
    }

    fn let_go(&mut self, slot: usize) {
        self.snapshots[slot] = None;
        self.readers[slot] = None;
        self.cursors[slot] = None;
        self.transactions[slot] = None;
    }

    fn create(&mut self, space: Space) {
        self.lives += 1;
        self.spaces.insert(space, Life { id: self.lives, rows: Arc::default() });
    }

    fn drop_space(&mut self, space: Space) {
        let Some(life) = self.spaces.remove(&space) else { return };
        self.dropped = true;
        for (key, value) in life.rows.iter() {
            self.hash = self.hash.wrapping_sub(row_hash(SPACES[space].0, key, value));
        }
    }

    /// The rows of `space` as `at` sees them.
    fn rows_at(&self, space: Space, at: At) -> Result<Arc<Rows>, Item> {
        if let At::Reader(slot) = at
            && let Some(rows) = &self.readers[slot]
        {
            return Ok(Arc::clone(rows));
        }
        let now = self.spaces.get(&space).ok_or(NO_KEYSPACE)?;
        let At::Snapshot(slot) = at else { return Ok(Arc::clone(&now.rows)) };
        let Some(snapshot) = &self.snapshots[slot] else { return Ok(Arc::clone(&now.rows)) };
        // A keyspace created since then was empty then.
        let then = snapshot.get(&space).filter(|life| life.id == now.id);
        Ok(then.map_or_else(Arc::default, |life| Arc::clone(&life.rows)))
    }

    /// All of `writes`, or a refusal.
    fn commit(&mut self, writes: &[Write]) -> Option<Item> {
        if writes.iter().any(|write| !self.spaces.contains_key(&write.space())) {
            return Some(NO_KEYSPACE);
        }
        for write in writes {
            let Some(touched) = touched(write) else { continue };
            let Some(life) = self.spaces.get_mut(&write.space()) else { continue };
            self.commits += 1;
            for transaction in self.transactions.iter_mut().flatten() {
                transaction.foreign.push((life.id, touched.clone()));
            }
            let name = SPACES[write.space()].0;
            let mut hash = self.hash;
            change(Arc::make_mut(&mut life.rows), write, |key, old, new| {
                let of = |value: Option<&Bytes>| value.map_or(0, |value| row_hash(name, key, value));
                hash = hash.wrapping_sub(of(old)).wrapping_add(of(new));
            });
            self.hash = hash;
        }
        None
    }

    fn swap(&mut self, space: Space, key: &Bytes, expected: bool, new: Option<&Bytes>, out: &mut Answer) {
        if !self.spaces.contains_key(&space) {
            out.push(NO_KEYSPACE);
            return;
        }
        out.push(Item::Flag(expected));
        if expected {
            let write = match new {
                Some(value) => Write::Put(space, key.clone(), value.clone()),
                None => Write::Delete(space, key.clone()),
            };
            self.commit(&[write]);
        }
    }

    /// Whether the rows that `transaction` has read are not what they were.
    fn changed(&self, transaction: &Transaction) -> bool {
        let none = Rows::new();
        let rows = |catalog: &Catalog, id: u64| {
            catalog.values().find(|life| life.id == id).map(|life| Arc::clone(&life.rows))
        };
        transaction.reads.iter().any(|(id, range)| {
            let (then, now) = (rows(&transaction.began, *id), rows(&self.spaces, *id));
            let (then, now) = (then.as_deref().unwrap_or(&none), now.as_deref().unwrap_or(&none));
            !within(then, range).eq(within(now, range))
        })
    }

    fn end(&mut self, slot: usize, commit: bool, found: &[Item], out: &mut Answer) {
        let Some(transaction) = self.transactions[slot].take() else { return };
        if !commit || transaction.writes.is_empty() {
            return;
        }
        let alive = |id: u64| self.spaces.values().any(|life| life.id == id);
        if transaction.writes.iter().any(|(id, _)| !alive(*id)) {
            out.push(NO_KEYSPACE);
            return;
        }
        let read_gone = || transaction.reads.iter().any(|(id, _)| !alive(*id));
        let overwritten = || {
            transaction.foreign.iter().any(|(life, written)| {
                transaction.reads.iter().any(|(id, read)| id == life && meet(read, written))
            })
        };
        // Dropping a keyspace is no commit: by itself it is no reason to look.
        let conflict = self.commits != transaction.commits
            && (read_gone() || overwritten() && (found == [CONFLICT] || self.changed(&transaction)));
        if conflict {
            out.push(CONFLICT);
            return;
        }
        let writes: Vec<Write> = transaction.writes.into_iter().map(|(_, write)| write).collect();
        out.extend(self.commit(&writes));
    }
}

impl Transaction {
    fn step(&mut self, step: &Step, now: &Catalog, out: &mut Answer) {
        let space = step.space();
        // The handle is the one of now; without it there is no call.
        let Some(current) = now.get(&space) else { return };
        let id = current.id;
        // One that was created since it began is empty to it, but for its own writes.
        if self.view.get(&space).is_none_or(|life| life.id != id) {
            self.view.insert(space, Life { id, rows: Arc::default() });
        }
        let Some(life) = self.view.get_mut(&space) else { return };
        match step {
            Step::Get(_, key) => {
                self.reads.push((id, just(key)));
                out.push(Item::Value(life.rows.get(key).cloned()));
            }
            Step::Contains(_, key) => {
                self.reads.push((id, just(key)));
                out.push(Item::Flag(life.rows.contains_key(key)));
            }
            Step::Scan(_, range, way, most, parts) => {
                let seen = scan(&life.rows, range, *way, *most, *parts, out);
                self.reads.extend(seen.ranges(range).into_iter().map(|range| (id, range)));
            }
            Step::Prefix(_, prefix, way) => {
                let range = prefix_range(prefix);
                drop(scan(&life.rows, &range, *way, usize::MAX, Parts::Whole, out));
                self.reads.push((id, range));
            }
            Step::Watch(_, range) => self.reads.push((id, range.clone())),
            Step::Write(write) => {
                if touched(write).is_some() {
                    change(Arc::make_mut(&mut life.rows), write, |_, _, _| ());
                    self.writes.push((id, write.clone()));
                }
            }
        }
    }
}

/// The range of `key` alone.
fn just(key: &Bytes) -> Range {
    (Bound::Included(key.clone()), Bound::Included(key.clone()))
}

/// `value`, if it is among the `parts` that are read.
fn shown(value: &Bytes, parts: Parts) -> Bytes {
    if parts == Parts::Keys { Bytes::new() } else { value.clone() }
}

/// The keys that `write` writes, or `None` if it has no effect at all.
fn touched(write: &Write) -> Option<Range> {
    let range = match write {
        Write::Put(_, key, _) | Write::Delete(_, key) | Write::Merge(_, key, _) => {
            return Some(just(key));
        }
        Write::DeleteRange(_, range) => range.clone(),
        Write::DeletePrefix(_, prefix) => prefix_range(prefix),
    };
    meet(&range, &everything()).then_some(range)
}

/// Do `write`; `each` hears of every row that changes: before and after.
fn change(rows: &mut Rows, write: &Write, mut each: impl FnMut(&Bytes, Option<&Bytes>, Option<&Bytes>)) {
    let mut set = |rows: &mut Rows, key: &Bytes, value: Option<Bytes>| {
        each(key, rows.get(key), value.as_ref());
        match value {
            Some(value) => rows.insert(key.clone(), value),
            None => rows.remove(key),
        };
    };
    match write {
        Write::Put(_, key, value) => set(rows, key, Some(value.clone())),
        Write::Delete(_, key) => set(rows, key, None),
        Write::Merge(space, key, operand) => {
            let value = SPACES[*space].1.apply(rows.get(key), operand);
            set(rows, key, value);
        }
        Write::DeleteRange(..) | Write::DeletePrefix(..) => {
            let Some(range) = touched(write) else { return };
            let keys: Vec<Bytes> = within(rows, &range).map(|(key, _)| key.clone()).collect();
            for key in &keys {
                set(rows, key, None);
            }
        }
    }
}

/// The rows in `range`, whichever way its ends lie.
fn within<'a>(rows: &'a Rows, range: &Range) -> impl DoubleEndedIterator<Item = (&'a Bytes, &'a Bytes)> {
    let (start, end) = half_open(range);
    let holds = end.as_ref().is_none_or(|end| start < *end);
    let bounds: (Bound<&[u8]>, Bound<&[u8]>) = match &end {
        Some(end) if holds => (Bound::Included(&start), Bound::Excluded(end)),
        Some(_) => (Bound::Included(&[]), Bound::Excluded(&[])),
        None => (Bound::Included(&start), Bound::Unbounded),
    };
    rows.range::<[u8], _>(bounds)
}

/// How far a scan came from either end, and whether it was exhausted.
struct Seen {
    front: Option<Bytes>,
    back: Option<Bytes>,
    all: bool,
}

impl Seen {
    /// The parts of `range` that count as read.
    fn ranges(self, range: &Range) -> Vec<Range> {
        if self.all {
            return vec![range.clone()];
        }
        let front = self.front.map(|key| (range.0.clone(), Bound::Included(key)));
        let back = self.back.map(|key| (Bound::Included(key), range.1.clone()));
        front.into_iter().chain(back).collect()
    }
}

/// Whether step `nth` of a scan takes from the front.
pub fn from_front(way: Way, nth: usize) -> bool {
    match way {
        Way::Forward => true,
        Way::Reverse => false,
        Way::Mixed(bits) => bits >> (nth % 64) & 1 == 1,
    }
}

fn scan(rows: &Rows, range: &Range, way: Way, most: usize, parts: Parts, out: &mut Answer) -> Seen {
    let mut rows = within(rows, range);
    let mut seen = Seen { front: None, back: None, all: false };
    for nth in 0..most {
        let front = from_front(way, nth);
        let Some((key, value)) = (if front { rows.next() } else { rows.next_back() }) else {
            out.push(Item::End);
            seen.all = true;
            break;
        };
        out.push(Item::Row(key.clone(), shown(value, parts)));
        *(if front { &mut seen.front } else { &mut seen.back }) = Some(key.clone());
    }
    seen
}

impl CursorModel {
    fn step(&mut self, step: &Move, out: &mut Answer) {
        let (start, end) = &self.range;
        let beyond = |key: &Bytes| Bound::Included(key.clone());
        let narrowed = |from: Option<Bound<Bytes>>, to: Option<Bound<Bytes>>| {
            // A bound outside the range does not widen it.
            let start = from
                .filter(|from| half_open(&(from.clone(), Bound::Unbounded)).0 >= half_open(&self.range).0);
            let end = to.filter(|to| {
                let (mine, range) =
                    (half_open(&(Bound::Unbounded, to.clone())).1, half_open(&self.range).1);
                range.is_none_or(|range| mine.is_some_and(|mine| mine <= range))
            });
            (start.unwrap_or_else(|| self.range.0.clone()), end.unwrap_or_else(|| self.range.1.clone()))
        };
        let first = |range: &Range| within(&self.rows, range).next().map(|(key, _)| key.clone());
        let last = |range: &Range| within(&self.rows, range).next_back().map(|(key, _)| key.clone());
        let at = match (step, &self.at) {
            (Move::SeekFirst, _) => first(&(start.clone(), end.clone())),
            (Move::SeekLast, _) => last(&(start.clone(), end.clone())),
            (Move::Seek(key), _) => first(&narrowed(Some(beyond(key)), None)),
            (Move::SeekForPrev(key), _) => last(&narrowed(None, Some(beyond(key)))),
            // There is no step from nowhere.
            (Move::Next | Move::Prev, None) => return,
            (Move::Next, Some(at)) => first(&narrowed(Some(Bound::Excluded(at.clone())), None)),
            (Move::Prev, Some(at)) => last(&narrowed(None, Some(Bound::Excluded(at.clone())))),
        };
        self.at = at;
        out.push(match &self.at {
            Some(key) => Item::Row(key.clone(), shown(&self.rows[key], self.parts)),
            None => Item::End,
        });
    }
}
