//! Followers in their layouts, tall tables, hashed, salted and promoted keys.

use std::collections::BTreeSet;

use esker_layouts::Result as Done;
use esker_layouts::engine::EngineStore;
use esker_layouts::followers::{self, Layout};
use esker_layouts::hashed::{HashBy, HashedTable};
use esker_layouts::kv::{KeyRange, KvRead, OrderedKv, ScanOptions};
use esker_layouts::promoted::PromotedTable;
use esker_layouts::salted::{Salt, SaltedTable};
use esker_layouts::tall::TallTable;
use esker_layouts::tuple::{Desc, Space};
use fastrand::Rng;

use super::{FEW, Subject, show, told};
use crate::driver::Violation;

/// The subjects of this file.
pub fn subjects() -> Vec<Box<dyn Subject>> {
    let mut all: Vec<Box<dyn Subject>> = vec![Box::new(Tall), Box::new(Salted), Box::new(Promoted)];
    for by in [HashBy::PerField, HashBy::WholeKey] {
        all.push(Box::new(Hashed(by)));
    }
    for layout in Layout::ALL {
        all.push(Box::new(Followers(layout)));
    }
    all
}

/// A user or row.
fn id(random: &mut Rng) -> u64 {
    random.u64(0..FEW)
}

fn user(number: u64) -> String {
    format!("user{number}")
}

struct Followers(Layout);

impl Subject for Followers {
    fn name(&self) -> String {
        format!("followers-{}", self.0)
    }

    fn step(&self, store: &EngineStore, random: &mut Rng) -> Done<()> {
        let friends = followers::open(store, self.0)?;
        let (who, whom) = (user(id(random) % 3), user(id(random)));
        // Adding twice is not in the contract.
        if friends.check(&who, &whom)?.value {
            friends.remove(&who, &whom).map(|_| ())
        } else {
            friends.add(&who, &whom).map(|_| ())
        }
    }

    fn look(&self, store: &EngineStore) -> Result<String, Violation> {
        let friends = followers::open(store, self.0).map_err(told)?;
        let mut all = Vec::new();
        let mut keys = 0;
        for who in 0..3 {
            let list = friends.list(&user(who)).map_err(told)?.value;
            let distinct: BTreeSet<&String> = list.iter().collect();
            if distinct.len() != list.len() {
                return Err(format!("{list:?} names a friend twice"));
            }
            for whom in (0..FEW).map(user) {
                if friends.check(&user(who), &whom).map_err(told)?.value != list.contains(&whom) {
                    return Err(format!("list and check disagree on {whom} in {list:?}"));
                }
            }
            keys += match self.0 {
                Layout::Count(_) => list.len() + 1,
                Layout::Relational => list.len() * 2,
                _ => list.len(),
            };
            all.push(list);
        }
        // Nothing lies there but the friends: the rest are counts of nobody and the sequence of row numbers.
        let read = store.read().map_err(told)?;
        let there = read.scan(KeyRange::all(), ScanOptions::new().keys_only()).map_err(told)?.count();
        let spare = usize::from(self.0 == Layout::Relational);
        if there > keys + spare || there + 3 < keys {
            return Err(format!("{there} keys hold {keys} of {all:?}"));
        }
        Ok(show(&all))
    }
}

struct Tall;

type Mail = (u64, Desc<u64>, String);

impl Subject for Tall {
    fn name(&self) -> String {
        "tall".to_owned()
    }

    fn step(&self, store: &EngineStore, random: &mut Rng) -> Done<()> {
        let table: TallTable<_, Mail> = TallTable::open(store, &Space::new(&("t",)))?;
        let key = (id(random) % 3, Desc(id(random)), "message".to_owned());
        match random.u8(0..8) {
            0 => table.delete_under(&(key.0,)),
            1 => table.delete(&key),
            _ => table.put(&key, &[random.u8(..)]),
        }
        .map(|_| ())
    }

    fn look(&self, store: &EngineStore) -> Result<String, Violation> {
        let table: TallTable<_, Mail> = TallTable::open(store, &Space::new(&("t",))).map_err(told)?;
        let view = table.view().map_err(told)?;
        let rows = view.rows(table.keys().under(&()), ScanOptions::new()).map_err(told)?;
        Ok(show(&rows.collect::<Done<Vec<_>>>().map_err(told)?))
    }
}

struct Hashed(HashBy);

impl Subject for Hashed {
    fn name(&self) -> String {
        format!("hashed-{:?}", self.0)
    }

    fn step(&self, store: &EngineStore, random: &mut Rng) -> Done<()> {
        let table: HashedTable<_, (u64, u64)> = HashedTable::open(store, &Space::new(&("h",)), self.0)?;
        let key = (id(random), id(random) % 2);
        if random.u8(0..3) == 0 {
            return table.delete(&key).map(|_| ());
        }
        table.put(&key, &[random.u8(..)]).map(|_| ())
    }

    fn look(&self, store: &EngineStore) -> Result<String, Violation> {
        let table: HashedTable<_, (u64, u64)> =
            HashedTable::open(store, &Space::new(&("h",)), self.0).map_err(told)?;
        let rows = table.under(&()).map_err(told)?.value;
        for (key, value) in &rows {
            if table.get(key).map_err(told)?.value.as_ref() != Some(value) {
                return Err(format!("{key:?} does not lie where its digest says"));
            }
        }
        Ok(show(&rows))
    }
}

struct Salted;

type Point = (u64, String);

fn salted(store: &EngineStore) -> Done<SaltedTable<&EngineStore, Point>> {
    SaltedTable::open(store, &Space::new(&("s",)), &Salt::new(3, &[0]))
}

impl Subject for Salted {
    fn name(&self) -> String {
        "salted".to_owned()
    }

    fn step(&self, store: &EngineStore, random: &mut Rng) -> Done<()> {
        let table = salted(store)?;
        let key = (id(random), user(id(random) % 2));
        match random.u8(0..12) {
            // Too many epochs at a time are refused; moving comes by and by.
            0 => drop(table.rebucket(&Salt::new(random.u32(1..9), &[random.u32(0..2)]))),
            1..4 => drop(table.move_rows(3)?),
            4..6 => drop(table.delete(&key)?),
            _ => drop(table.put(&key, &[random.u8(..)])?),
        }
        Ok(())
    }

    fn look(&self, store: &EngineStore) -> Result<String, Violation> {
        let table = salted(store).map_err(told)?;
        let view = table.view().map_err(told)?;
        let rows = view.rows(&(), ScanOptions::new()).map_err(told)?;
        let rows = rows.collect::<Done<Vec<_>>>().map_err(told)?;
        if !rows.is_sorted_by(|a, b| a.0 < b.0) {
            return Err(format!("a row lies in two epochs, or rows are out of order: {rows:?}"));
        }
        for (key, value) in &rows {
            if view.get(key).map_err(told)?.as_ref() != Some(value) {
                return Err(format!("{key:?} does not lie in its bucket"));
            }
        }
        Ok(show(&(table.salt().map_err(told)?, rows)))
    }
}

struct Promoted;

fn promoted(store: &EngineStore) -> Done<PromotedTable<&EngineStore, Point>> {
    PromotedTable::open(store, &Space::new(&("p",)), 1)
}

impl Subject for Promoted {
    fn name(&self) -> String {
        "promoted".to_owned()
    }

    fn step(&self, store: &EngineStore, random: &mut Rng) -> Done<()> {
        let (table, key) = (promoted(store)?, (id(random), user(id(random) % 3)));
        match random.u8(0..3) {
            0 => table.delete(&key),
            _ => table.put(&key, &[random.u8(..)]),
        }
        .map(|_| ())
    }

    fn look(&self, store: &EngineStore) -> Result<String, Violation> {
        let table = promoted(store).map_err(told)?;
        let view = table.view().map_err(told)?;
        let rows = view.between::<(u64,)>(.., ScanOptions::new()).map_err(told)?;
        let rows = rows.collect::<Done<Vec<_>>>().map_err(told)?;
        if !rows.is_sorted_by(|a, b| a.0 < b.0) {
            return Err(format!("out of order: {rows:?}"));
        }
        Ok(show(&rows))
    }
}
