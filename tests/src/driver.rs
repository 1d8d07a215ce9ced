//! Runs a history on a simulated disk and writes down what each moment promised.
//!
//! The driver is one thread in step mode: background work happens inside its calls, in an order that
//! follows from the seed. What it reads on the way must be what the model holds (P4).

use std::collections::BTreeMap;
use std::sync::Arc;

use esker::{Database, Durability, Keyspace, Snapshot};
use esker_base::checksum::key_hash;
use esker_base::event::{Event, Listener};
use esker_vfs::mem::MemFs;
use esker_vfs::sim::Simulation;
use parking_lot::Mutex;

use crate::clock::Jump;
use crate::dump::{compare_gets, compare_scan, dump};
use crate::ops::{FIXED, Name, Op, Write};
use crate::oracle::{Model, Oracle, Rows};
use crate::points::{Points, Tables};
use crate::setup::{INTERVAL, Setup, keyspace_options};

/// What a check found wrong, in words.
pub type Violation = String;

/// A history that has run: the disk with its trace, and what each moment of it promised.
pub struct Recording {
    /// The disk.
    pub disk: MemFs,
    /// What was promised.
    pub oracle: Oracle,
    /// What the calls of the trace were for.
    pub points: Points,
    /// A hash over the steps of all schedulers, in order.
    pub steps_hash: u64,
}

/// A database that is open.
struct Open {
    world: Simulation,
    db: Database,
    keyspaces: Keyspaces,
    durability: Durability,
    /// Whether the clock had jumped already.
    after_jump: bool,
}

struct Driver<'a> {
    setup: &'a Setup,
    disk: MemFs,
    open: Option<Open>,
    opens: u64,
    model: Model,
    oracle: Oracle,
    points: Points,
    snapshot: Option<(Snapshot, Model)>,
    tables: Arc<Mutex<Tables>>,
    steps_hash: u64,
}

/// Run `ops` in a new database.
///
/// # Errors
/// What the database did wrong while nothing had gone wrong around it.
pub fn run(setup: &Setup, ops: &[Op]) -> Result<Recording, Violation> {
    let mut driver = Driver {
        setup,
        disk: MemFs::simulated(),
        open: None,
        opens: 0,
        model: Model::default(),
        oracle: Oracle::new(),
        points: Points::default(),
        snapshot: None,
        tables: Arc::default(),
        steps_hash: 0,
    };
    driver.open()?;
    for name in FIXED {
        driver.op(&Op::Create(name)).map_err(|what| format!("creating {name}: {what}"))?;
    }
    for (nth, op) in ops.iter().enumerate() {
        driver.op(op).map_err(|what| format!("operation {nth}, {}: {what}", short(op)))?;
    }
    driver.close()?;
    let tables = driver.tables.lock().clone();
    let Driver { disk, oracle, mut points, steps_hash, .. } = driver;
    points.classify(&disk, &tables);
    Ok(Recording { disk, oracle, points, steps_hash })
}

/// An operation for messages.
fn short(op: &Op) -> String {
    let text = format!("{op:?}");
    let cut = text.char_indices().nth(120).map_or(text.len(), |(at, _)| at);
    text[..cut].to_owned()
}

fn told(error: &esker::Error) -> Violation {
    error.to_string()
}

impl Driver<'_> {
    fn calls(&self) -> usize {
        self.disk.trace_len()
    }

    fn open(&mut self) -> Result<(), Violation> {
        let nth = self.opens;
        let world = Simulation::on(self.disk.clone(), self.setup.seed.wrapping_add(nth << 32));
        let tables = Arc::clone(&self.tables);
        let listener: Arc<dyn Listener> = Arc::new(move |event: &Event| tables.lock().note(event));
        let before = self.calls();
        let after_jump = self.setup.jump.as_ref().is_some_and(Jump::has_come);
        let db = self.setup.open(&world, nth, Some(listener)).map_err(|e| format!("open: {e}"))?;
        self.points.opened(before, self.calls());
        self.opens += 1;
        let found = dump(&db)?;
        if found != *self.model.contents() {
            return Err(format!(
                "after reopening, {}",
                crate::dump::difference(&found, self.model.contents())
            ));
        }
        let durability = self.setup.mode.durability(nth);
        let mut open = Open { world, db, keyspaces: BTreeMap::new(), durability, after_jump };
        for name in FIXED.into_iter().chain(crate::ops::PASSING) {
            if found.contains_key(name) {
                open.keyspaces.insert(name, open.db.existing_keyspace(name).map_err(|e| told(&e))?);
            }
        }
        self.open = Some(open);
        Ok(())
    }

    fn close(&mut self) -> Result<(), Violation> {
        self.snapshot = None;
        let Some(open) = self.open.take() else { return Ok(()) };
        let Open { world, db, keyspaces, .. } = open;
        drop(keyspaces);
        db.close().map_err(|e| format!("close: {e}"))?;
        self.oracle.all_durable(self.calls());
        let hashes = [self.steps_hash.to_le_bytes(), world.steps.trace_hash().to_le_bytes()];
        self.steps_hash = key_hash(hashes.as_flattened());
        Ok(())
    }

    fn db(&self) -> &Open {
        self.open.as_ref().expect("open between reopenings")
    }

    fn keyspace(&self, name: Name) -> &Keyspace {
        &self.db().keyspaces[name]
    }

    /// Let the model do what `apply` does to it, note that the commit begins, and make it.
    fn commit(
        &mut self,
        apply: impl FnOnce(&mut Model),
        durable: bool,
        make: impl FnOnce(&Open) -> esker::Result<()>,
    ) -> Result<(), Violation> {
        apply(&mut self.model);
        self.oracle.issue(self.disk.trace_len(), &self.model);
        make(self.db()).map_err(|e| told(&e))?;
        if durable {
            self.oracle.all_durable(self.calls());
        }
        Ok(())
    }

    fn op(&mut self, op: &Op) -> Result<(), Violation> {
        let synced = self.open.as_ref().is_some_and(|open| open.durability == Durability::Sync);
        match op {
            Op::Write(write) => {
                self.commit(|model| model.write(write), synced, |open| write_alone(&open.keyspaces, write))
            }
            Op::Batch(writes, sync) => self.commit(
                |model| writes.iter().for_each(|write| model.write(write)),
                synced || *sync,
                |open| write_batch(&open.db, &open.keyspaces, writes, *sync),
            ),
            Op::Transaction(reads, writes) => self.transaction(reads, writes, synced),
            Op::Persist => self.durably(|open| open.db.persist()),
            Op::Flush => self.durably(|open| open.db.flush()),
            Op::Compact(name, range) => {
                self.durably(|open| open.keyspaces[name].compact_range(range.clone()))
            }
            Op::Create(name) => self.create(name),
            Op::Drop(name) => {
                if let Some(open) = &mut self.open {
                    open.keyspaces.remove(name);
                }
                // What was written before must not be lost when the keyspace stays dropped.
                self.commit(|model| model.drop_keyspace(name), true, |open| open.db.drop_keyspace(name))
            }
            Op::TakeSnapshot => {
                self.snapshot = Some((self.db().db.snapshot(), self.model.clone()));
                Ok(())
            }
            Op::ReadSnapshot => self.read_snapshot(),
            Op::Get(name, keys) => compare_gets(self.keyspace(name), keys, self.model.rows(name)),
            Op::Scan(name) => compare_scan(self.keyspace(name), self.model.rows(name)),
            Op::Rest => {
                self.rest();
                Ok(())
            }
            Op::Reopen => {
                self.close()?;
                self.open()
            }
        }
    }

    /// Do something that makes everything before it durable.
    fn durably(&mut self, action: impl FnOnce(&Open) -> esker::Result<()>) -> Result<(), Violation> {
        action(self.db()).map_err(|e| told(&e))?;
        self.oracle.all_durable(self.calls());
        Ok(())
    }

    fn create(&mut self, name: Name) -> Result<(), Violation> {
        self.commit(
            |model| model.create(name),
            false,
            |open| open.db.keyspace(name, keyspace_options(name)).map(drop),
        )?;
        let keyspace = self.db().db.existing_keyspace(name).map_err(|e| told(&e))?;
        if let Some(open) = &mut self.open {
            open.keyspaces.insert(name, keyspace);
        }
        Ok(())
    }

    fn transaction(
        &mut self,
        reads: &[(Name, Vec<u8>)],
        writes: &[Write],
        synced: bool,
    ) -> Result<(), Violation> {
        let expected: Vec<Option<Vec<u8>>> =
            reads.iter().map(|(name, key)| self.model.rows(name).get(key).cloned()).collect();
        let mut wrong = None;
        self.commit(
            |model| writes.iter().for_each(|write| model.write(write)),
            synced,
            |open| {
                let got = transact(&open.db, &open.keyspaces, reads, writes)?;
                if got != expected {
                    wrong = Some(format!("a transaction read {got:?}, not {expected:?}"));
                }
                Ok(())
            },
        )?;
        wrong.map_or(Ok(()), Err)
    }

    fn read_snapshot(&mut self) -> Result<(), Violation> {
        let Some((snapshot, model)) = self.snapshot.take() else { return Ok(()) };
        for (name, keyspace) in &self.db().keyspaces {
            // A keyspace that was dropped and created again is another one.
            if FIXED.contains(name) {
                let reader = keyspace.at(&snapshot).map_err(|e| told(&e))?;
                let rows: Result<Rows, esker::Error> = reader
                    .range::<&[u8]>(..)
                    .map(|row| row.map(|(key, value)| (key.to_vec(), value.to_vec())))
                    .collect();
                if rows.map_err(|e| told(&e))? != *model.rows(name) {
                    return Err(format!("the snapshot shows {name} otherwise than it was"));
                }
            }
        }
        Ok(())
    }

    fn rest(&mut self) {
        let open = self.db();
        // First whoever is about to set a timer, then what is due by it.
        open.world.steps.settle();
        open.world.clock.advance(INTERVAL);
        open.world.steps.settle();
        let jump = self.setup.jump.as_ref();
        let on_time = jump.is_none_or(|jump| jump.has_counted_on(open.after_jump));
        if matches!(open.durability, Durability::Interval(_)) && on_time {
            self.oracle.all_durable(self.calls());
        }
    }
}

/// The keyspaces that are open, by name.
pub(crate) type Keyspaces = BTreeMap<Name, Keyspace>;

/// Do one write by itself.
pub(crate) fn write_alone(keyspaces: &Keyspaces, write: &Write) -> esker::Result<()> {
    match write {
        Write::Put(name, key, value) => keyspaces[name].put(key, value),
        Write::Delete(name, key) => keyspaces[name].delete(key),
        Write::DeleteRange(name, range) => keyspaces[name].delete_range(range.clone()),
        Write::Merge(name, key, value) => keyspaces[name].merge(key, value),
    }
}

/// Do `writes` in one batch.
pub(crate) fn write_batch(
    db: &Database,
    keyspaces: &Keyspaces,
    writes: &[Write],
    sync: bool,
) -> esker::Result<()> {
    let mut batch = db.batch();
    if sync {
        batch.durability(Durability::Sync);
    }
    for write in writes {
        match write {
            Write::Put(name, key, value) => batch.put(&keyspaces[name], key, value)?,
            Write::Delete(name, key) => batch.delete(&keyspaces[name], key)?,
            Write::Merge(name, key, value) => batch.merge(&keyspaces[name], key, value)?,
            Write::DeleteRange(name, range) => {
                batch.delete_range(&keyspaces[name], range.clone())?;
            }
        }
    }
    batch.commit()
}

/// Read, then do `writes`, in one transaction; what was read.
pub(crate) fn transact(
    db: &Database,
    keyspaces: &Keyspaces,
    reads: &[(Name, Vec<u8>)],
    writes: &[Write],
) -> esker::Result<Vec<Option<Vec<u8>>>> {
    db.transact(|tx| {
        let mut got = Vec::new();
        for (name, key) in reads {
            got.push(tx.get(&keyspaces[name], key)?.map(|value| value.to_vec()));
        }
        for write in writes {
            match write {
                Write::Put(name, key, value) => tx.put(&keyspaces[name], key, value)?,
                Write::Delete(name, key) => tx.delete(&keyspaces[name], key)?,
                Write::Merge(name, key, value) => tx.merge(&keyspaces[name], key, value)?,
                Write::DeleteRange(name, range) => {
                    tx.delete_range(&keyspaces[name], range.clone())?;
                }
            }
        }
        Ok(got)
    })
}
