//! Wide rows with their history, and namespaces.

use std::collections::BTreeMap;

use esker_layouts::Result as Done;
use esker_layouts::engine::EngineStore;
use esker_layouts::kv::{KvRead, KvTx, OrderedKv, ScanOptions};
use esker_layouts::namespaces::Directory;
use esker_layouts::tuple::Space;
use esker_layouts::wide::{History, Query, RowChange, WideTable};
use fastrand::Rng;

use super::{FEW, Subject, show, told};
use crate::driver::Violation;

/// The subjects of this file.
pub fn subjects() -> Vec<Box<dyn Subject>> {
    vec![Box::new(Wide), Box::new(Namespaces)]
}

/// A row has as many cells in "games" as its counter says, and versions of its body beside them.
struct Wide;

fn wide(store: &EngineStore) -> Done<WideTable<&EngineStore>> {
    WideTable::open(store, &Space::new(&("w",)), &["games", "count", "body"])
}

fn bodies(table: &WideTable<&EngineStore>) -> Done<History> {
    History::declare(table, "body", 2)
}

impl Subject for Wide {
    fn name(&self) -> String {
        "wide".to_owned()
    }

    fn step(&self, store: &EngineStore, random: &mut Rng) -> Done<()> {
        let table = wide(store)?;
        let bodies = bodies(&table)?;
        let row = random.u64(0..3).to_be_bytes();
        let column = random.u64(0..FEW).to_be_bytes();
        let there = table.view()?.exists(&row, "games", &column)?;
        let change = RowChange::new();
        let change = match random.u8(0..8) {
            0 => change.delete_row(),
            1 => return bodies.trim(&table, &row).map(|_| ()),
            _ if there => change.delete("games", &column).add("count", b"", -1),
            _ => change.put("games", &column, b"").add("count", b"", 1),
        };
        let change =
            if random.bool() { bodies.put(change, b"body", random.i64(0..9), &column) } else { change };
        table.apply(&row, &change).map(|_| ())
    }

    fn look(&self, store: &EngineStore) -> Result<String, Violation> {
        let table = wide(store).map_err(told)?;
        let bodies = bodies(&table).map_err(told)?;
        let view = table.view().map_err(told)?;
        let mut all = Vec::new();
        for row in 0..3u64 {
            let row = row.to_be_bytes();
            let games = view.page(&Query::row(&row).family("games")).map_err(told)?.cells;
            let count = view.get(&row, "count", b"").map_err(told)?;
            let count =
                count.and_then(|count| count.as_ref().try_into().ok()).map_or(0, i64::from_le_bytes);
            if usize::try_from(count) != Ok(games.len()) {
                return Err(format!("{} games, counted {count}", games.len()));
            }
            all.push((games, bodies.row(&view, &row).map_err(told)?));
        }
        Ok(show(&all))
    }
}

/// Two namespaces of a directory, made, renamed, emptied and removed while something is put into them.
struct Namespaces;

const NAMES: [&str; 3] = ["a", "b", "c"];

impl Subject for Namespaces {
    fn name(&self) -> String {
        "namespaces".to_owned()
    }

    fn step(&self, store: &EngineStore, random: &mut Rng) -> Done<()> {
        let directory = Directory::open(store, &Space::root())?;
        let name = || NAMES[random.usize(0..NAMES.len())];
        let mut name = name;
        let (one, other) = (name(), name());
        let Some(found) = directory.find(&[one])? else {
            return directory.create(&[one]).map(|_| ());
        };
        match random.u8(0..8) {
            0 => drop(directory.remove(&[one])?),
            1 => drop(directory.clear(&[one])?),
            2 if directory.find(&[other])?.is_none() => drop(directory.rename(&[one], &[other])?),
            _ => {
                let number = random.u64(0..FEW);
                store.update(|tx| {
                    let space = found.enter(tx)?;
                    tx.put(&space.key(&(number,)), one.as_bytes());
                    Ok(())
                })?;
            }
        }
        Ok(())
    }

    fn look(&self, store: &EngineStore) -> Result<String, Violation> {
        let directory = Directory::open(store, &Space::root()).map_err(told)?;
        let names = directory.list(&[]).map_err(told)?;
        let mut all = BTreeMap::new();
        let (read, mut inside) = (store.read().map_err(told)?, 0);
        for name in &names {
            let found = directory.find(&[name]).map_err(told)?.ok_or("a name without a namespace")?;
            let space = found.enter(&read).map_err(told)?;
            let keys = read.scan(space.under(&()), ScanOptions::new()).map_err(told)?;
            let keys = keys.collect::<Done<Vec<_>>>().map_err(told)?;
            inside += keys.len();
            all.insert(name, keys);
        }
        // The data of namespaces that are gone went with them.
        let data =
            read.scan(Space::new(&(3,)).under(&()), ScanOptions::new().keys_only()).map_err(told)?.count();
        if data != inside {
            return Err(format!("{data} keys lie there, {inside} of them in a namespace"));
        }
        Ok(show(&all))
    }
}
