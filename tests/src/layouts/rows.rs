//! Tables with indexes, typed rows, vectors.

use esker_layouts::Result as Done;
use esker_layouts::engine::EngineStore;
use esker_layouts::indexed::{Entry, Index, IndexedTable, State};
use esker_layouts::kv::{KeyRange, KvRead, OrderedKv, ScanOptions};
use esker_layouts::table::{Row, RowMode, Table};
use esker_layouts::tuple::{Space, pack, unpack};
use esker_layouts::vector::{Chunk, Vector};
use esker_layouts::{Error, kv::KvTx};
use fastrand::Rng;

use super::{FEW, Subject, show, told};
use crate::driver::Violation;

/// The subjects of this file.
pub fn subjects() -> Vec<Box<dyn Subject>> {
    let mut all: Vec<Box<dyn Subject>> = vec![Box::new(Indexed(false)), Box::new(Indexed(true))];
    for mode in [RowMode::Packed, RowMode::Cells] {
        all.push(Box::new(Typed(mode)));
    }
    for chunk in [Chunk::Packed, Chunk::Elements, Chunk::Of(3)] {
        all.push(Box::new(Elements(chunk)));
    }
    all
}

/// A table with indexes: kept in step, one of them unique; or all verified on read.
struct Indexed(bool);

impl Indexed {
    fn open<'k>(&self, store: &'k EngineStore) -> Done<IndexedTable<&'k EngineStore, (u64,)>> {
        let city = Index::multi("city", 1, |_: &(u64,), row| {
            let (city, mail): (u64, u64) = unpack(row)?;
            Ok(vec![Entry::new(&(city,)).including(&pack(&(mail,)))])
        });
        let mail = Index::unique("mail", 1, |_: &(u64,), row| {
            let (_, mail): (u64, u64) = unpack(row)?;
            Ok(vec![Entry::new(&(mail,))])
        });
        let indexes = if self.0 { vec![city.verified_on_read()] } else { vec![city, mail] };
        IndexedTable::open(store, &Space::new(&("i",)), indexes)
    }
}

impl Subject for Indexed {
    fn name(&self) -> String {
        if self.0 { "indexed-on-read" } else { "indexed" }.to_owned()
    }

    fn step(&self, store: &EngineStore, random: &mut Rng) -> Done<()> {
        let table = self.open(store)?;
        let key = (random.u64(0..FEW),);
        let name = if self.0 || random.bool() { "city" } else { "mail" };
        match random.u8(0..16) {
            // Built beside the writes, a few rows at a time.
            0 => drop(table.rebuild(name)?),
            1..5 => drop(table.build_step(name, 3)?),
            5 => drop(table.clean("city", 1_000)?),
            6..8 => drop(table.delete(&key)?),
            _ => match table.put(&key, &pack(&(random.u64(0..3), random.u64(0..FEW * 2)))) {
                Ok(_) | Err(Error::Duplicate { .. }) => {}
                Err(error) => return Err(error),
            },
        }
        Ok(())
    }

    fn look(&self, store: &EngineStore) -> Result<String, Violation> {
        let table = self.open(store).map_err(told)?;
        let view = table.view().map_err(told)?;
        let report = view.verify().map_err(told)?;
        if report.count > 0 {
            return Err(format!("index and table disagree: {:?}", report.problems));
        }
        let mut rows = Vec::new();
        for key in (0..FEW).map(|key| (key,)) {
            rows.push(view.get(&key).map_err(told)?);
        }
        let there = rows.iter().flatten().count();
        let ready = view.state("city").map_err(told)? == State::Ready;
        let listed = view.lookup("city", &(), ScanOptions::new());
        let listed = if ready { listed.map_err(told)?.len() } else { there };
        if report.rows != there as u64 || listed != there {
            return Err(format!("{there} rows, {} compared, {listed} in the index", report.rows));
        }
        Ok(show(&(rows, report.entries, report.stale, ready)))
    }
}

/// A row of a typed table.
#[derive(Row, Clone, Debug, PartialEq)]
struct Account {
    owner: String,
    /// Always the balance twice, so that half a row shows.
    double: i64,
    balance: i64,
}

struct Typed(RowMode);

impl Typed {
    fn open<'k>(&self, store: &'k EngineStore) -> Done<Table<&'k EngineStore, (u64,), Account>> {
        Table::open(store, &Space::new(&("a",)), self.0)
    }
}

impl Subject for Typed {
    fn name(&self) -> String {
        format!("table-{:?}", self.0)
    }

    fn step(&self, store: &EngineStore, random: &mut Rng) -> Done<()> {
        let table = self.open(store)?;
        let (key, balance) = ((random.u64(0..FEW),), random.i64(-99..99));
        match random.u8(0..8) {
            0 => drop(table.remove(&key)?),
            1..3 => drop(table.set(&key, Account::OWNER, &format!("owner{balance}"))?),
            3..6 => {
                let change = |row: &mut Account| (row.balance, row.double) = (balance, balance * 2);
                table.patch(&key, change)?;
            }
            _ => drop(
                table.put(&key, &Account { owner: "nobody".to_owned(), double: balance * 2, balance })?,
            ),
        }
        Ok(())
    }

    fn look(&self, store: &EngineStore) -> Result<String, Violation> {
        let table = self.open(store).map_err(told)?;
        let view = table.view().map_err(told)?;
        let rows = view.rows(table.keys().under(&()), ScanOptions::new()).map_err(told)?;
        let rows = rows.collect::<Done<Vec<_>>>().map_err(told)?;
        if let Some(row) = rows.iter().find(|(_, row)| row.double != row.balance * 2) {
            return Err(format!("half a change: {row:?}"));
        }
        Ok(show(&rows))
    }
}

struct Elements(Chunk);

impl Elements {
    fn open<'k>(&self, store: &'k EngineStore) -> Done<Vector<&'k EngineStore, u64>> {
        Vector::open(store, &Space::new(&("v",)), self.0)
    }
}

impl Subject for Elements {
    fn name(&self) -> String {
        format!("vector-{:?}", self.0)
    }

    fn step(&self, store: &EngineStore, random: &mut Rng) -> Done<()> {
        let vector = self.open(store)?;
        match random.u8(0..8) {
            0 => drop(vector.truncate(random.u64(0..FEW))?),
            1..3 => drop(vector.swap_remove(random.u64(0..FEW))?),
            3 => drop(vector.set(random.u64(0..FEW), &random.u64(..))?),
            _ => drop(vector.push(&random.u64(..))?),
        }
        Ok(())
    }

    fn look(&self, store: &EngineStore) -> Result<String, Violation> {
        let vector = self.open(store).map_err(told)?;
        let (len, all) = (vector.len().map_err(told)?, vector.slice(..).map_err(told)?.value);
        if len != all.len() as u64 {
            return Err(format!("{len} elements, {} of them there", all.len()));
        }
        Ok(show(&all))
    }
}

/// A layout with a fault for the suite to find: a row and the count of rows go in two commits.
pub struct Torn;

impl Subject for Torn {
    fn name(&self) -> String {
        "torn".to_owned()
    }

    fn step(&self, store: &EngineStore, random: &mut Rng) -> Done<()> {
        let row = pack(&("row", random.u64(..)));
        let read = store.read()?;
        let rows = read.scan(KeyRange::all(), ScanOptions::new())?.count().max(1) as u64;
        store.update(|tx| {
            tx.put(&row, b"");
            Ok(())
        })?;
        store.update(|tx| {
            tx.put(&pack(&("count",)), &pack(&(rows,)));
            Ok(())
        })?;
        Ok(())
    }

    fn look(&self, store: &EngineStore) -> Result<String, Violation> {
        let read = store.read().map_err(told)?;
        let count = read.get(&pack(&("count",))).map_err(told)?;
        let (count,): (u64,) = count.map_or(Ok((0,)), |count| unpack(&count)).map_err(told)?;
        let keys = read.scan(KeyRange::all(), ScanOptions::new().keys_only()).map_err(told)?.count() as u64;
        let rows = keys.saturating_sub(u64::from(count > 0));
        if rows == count { Ok(show(&count)) } else { Err(format!("{rows} rows, counted {count}")) }
    }
}
