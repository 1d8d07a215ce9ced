//! Tables with indexes: rows (mail address, city, name), a unique index by address and a covering one by city.
//!
//! By hand, too, the list of indexes and their states is read with every write, or an index could not be added
//! beside writers.

use esker_layouts::indexed::{Entry, Index, IndexedTable};
use esker_layouts::kv::{Bytes, ScanOptions};
use esker_layouts::tuple::{Fields, Space, pack};
use esker_layouts::{Error, Result};

use super::Bench;
use super::by_hand::{damaged, finish, put_bytes, put_text, put_u64, take_bytes, take_text, take_u64};
use super::twin::Twin;

const ROWS: u64 = 1_000;
const CITIES: u64 = 50;
/// The number by which the list of indexes says that one is complete.
const READY: u64 = 1;

fn indexes() -> Vec<Index<(u64,)>> {
    let mail = |_: &(u64,), row: &[u8]| Ok(vec![Entry::new(&(Fields::new(row).text()?.as_ref(),))]);
    let city = |_: &(u64,), row: &[u8]| {
        let mut fields = Fields::new(row);
        fields.skip()?;
        let city = fields.text()?;
        Ok(vec![Entry::new(&(city.as_ref(),)).including(fields.text()?.as_bytes())])
    };
    vec![Index::unique("mail", 1, mail), Index::multi("city", 1, city)]
}

/// A row by hand.
struct Row {
    mail: String,
    city: String,
    name: String,
}

impl Row {
    fn read(mut stored: &[u8]) -> Result<Row> {
        let stored = &mut stored;
        let row = Row { mail: take_text(stored)?, city: take_text(stored)?, name: take_text(stored)? };
        finish(stored)?;
        Ok(row)
    }
}

/// The table by hand.
struct ByHand<'a> {
    db: &'a esker::Database,
    keyspace: &'a esker::Keyspace,
    space: Vec<u8>,
    at: Vec<u8>,
    entry: Vec<u8>,
    value: Vec<u8>,
}

/// The numbers of the two indexes.
struct Numbers {
    mail: u64,
    city: u64,
}

fn begin(out: &mut Vec<u8>, space: &[u8], part: u64) {
    out.clear();
    out.extend_from_slice(space);
    put_u64(out, part);
}

/// Both indexes, if they are complete and there are no others.
fn read_numbers(
    rows: impl Iterator<Item = esker::Result<(esker::Key, esker::Value)>>,
    known: usize,
) -> Result<Numbers> {
    let (mut mail, mut city) = (None, None);
    for row in rows {
        let (key, value) = row?;
        let mut name = key.get(known..).ok_or_else(damaged)?;
        let mut stored = value.as_ref();
        let number = take_u64(&mut stored)?;
        let (_unique, mut stored) = stored.split_first().ok_or_else(damaged)?;
        let (_fields, version, state) =
            (take_u64(&mut stored)?, take_u64(&mut stored)?, take_u64(&mut stored)?);
        finish(stored)?;
        if (version, state) != (1, READY) {
            return Err(Error::Store(esker::Error::invalid("an index is not ready")));
        }
        match take_text(&mut name)?.as_str() {
            "mail" => mail = Some(number),
            "city" => city = Some(number),
            _ => {
                return Err(Error::Store(esker::Error::invalid("there is an index this knows nothing of")));
            }
        }
    }
    Ok(Numbers { mail: mail.ok_or_else(damaged)?, city: city.ok_or_else(damaged)? })
}

impl ByHand<'_> {
    fn put_city(&mut self, numbers: &Numbers, city: &str, key: &[u8]) {
        begin(&mut self.entry, &self.space, 2);
        put_u64(&mut self.entry, numbers.city);
        put_text(&mut self.entry, city);
        put_bytes(&mut self.entry, key);
    }

    fn put_mail(&mut self, numbers: &Numbers, mail: &str) {
        begin(&mut self.entry, &self.space, 2);
        put_u64(&mut self.entry, numbers.mail);
        put_text(&mut self.entry, mail);
    }

    fn write(&mut self, tx: &mut esker::Transaction, id: u64, row: &[u8]) -> Result<()> {
        begin(&mut self.at, &self.space, 0);
        let numbers = read_numbers(tx.prefix(self.keyspace, &self.at), self.at.len())?;
        begin(&mut self.at, &self.space, 1);
        let known = self.at.len();
        put_u64(&mut self.at, id);
        let old = tx.get(self.keyspace, &self.at)?.map(|old| Row::read(&old)).transpose()?;
        tx.put(self.keyspace, &self.at, row)?;
        let key = self.at[known..].to_vec();
        let new = Row::read(row)?;
        if old.as_ref().is_none_or(|old| old.mail != new.mail) {
            if let Some(old) = &old {
                self.put_mail(&numbers, &old.mail);
                tx.delete(self.keyspace, &self.entry)?;
            }
            self.put_mail(&numbers, &new.mail);
            if let Some(stored) = tx.get(self.keyspace, &self.entry)?
                && take_bytes(&mut stored.as_ref())? != key
            {
                return Err(Error::Store(esker::Error::invalid("another row has this address")));
            }
            self.value.clear();
            put_bytes(&mut self.value, &key);
            put_bytes(&mut self.value, b"");
            tx.put(self.keyspace, &self.entry, &self.value)?;
        }
        if let Some(old) = &old
            && old.city != new.city
        {
            self.put_city(&numbers, &old.city, &key);
            tx.delete(self.keyspace, &self.entry)?;
        }
        if old.is_none_or(|old| (old.city, old.name) != (new.city.clone(), new.name.clone())) {
            self.put_city(&numbers, &new.city, &key);
            tx.put(self.keyspace, &self.entry, new.name.as_bytes())?;
        }
        Ok(())
    }

    fn put(&mut self, id: u64, row: &[u8]) -> Result<()> {
        let (db, mut failed) = (self.db, None);
        let done = db.transact(|tx| {
            self.write(tx, id, row).map_err(|error| {
                failed = Some(error);
                esker::Error::invalid("rolled back")
            })
        });
        failed.map_or(Ok(done?), Err)
    }
}

pub(super) fn run(bench: &mut impl Bench) -> Result<()> {
    let space = Space::new(&("users",));
    let city = |n: u64| format!("city {:02}", n % CITIES);
    let row = |id: u64, n: u64| pack(&(format!("user{id}@example"), city(n), format!("name {id}")));
    let twin = Twin::filled(|store| {
        let table = IndexedTable::open(store, &space, indexes())?;
        (0..ROWS).try_for_each(|id| table.put(&(id,), &row(id, id)).map(|_| ()))
    })?;
    let table = IndexedTable::open(twin.layout(), &space, indexes())?;
    let (db, keyspace) = twin.by_hand();
    let mut by_hand = ByHand {
        db,
        keyspace,
        space: space.prefix().to_vec(),
        at: Vec::new(),
        entry: Vec::new(),
        value: Vec::new(),
    };
    let id = |n: usize| n as u64 * 7919 % ROWS;
    // Every put moves its row to another city.
    let moved: Vec<Vec<u8>> = (0..1_024).map(|n| row(id(n), id(n) + n as u64 + 1)).collect();
    let moved = |n: usize| &moved[n % 1_024];
    bench.pair(
        "indexed put, one of two entries moved",
        |n| by_hand.put(id(n), moved(n)),
        |n| table.put(&(id(n),), moved(n)).map(|_| ()),
    )?;
    let (view, reader) = (table.view()?, keyspace.reader()?);
    begin(&mut by_hand.at, &by_hand.space, 0);
    let numbers = read_numbers(reader.prefix(&by_hand.at), by_hand.at.len())?;
    let cities: Vec<String> = (0..CITIES).map(city).collect();
    let city = |n: usize| cities[n * 7 % cities.len()].as_str();
    let mut buffer = Vec::new();
    bench.pair(
        "indexed lookup of 10 rows, covering",
        |n| {
            begin(&mut buffer, &by_hand.space, 2);
            put_u64(&mut buffer, numbers.city);
            put_text(&mut buffer, city(n));
            let hits = reader.prefix(&buffer).take(10).map(|entry| {
                let (at, included) = entry?;
                let mut rest = at.get(buffer.len()..).ok_or_else(damaged)?;
                let key = take_bytes(&mut rest)?;
                finish(rest)?;
                let mut rest = key.as_slice();
                let id = take_u64(&mut rest)?;
                finish(rest)?;
                Ok((id, included))
            });
            hits.collect::<Result<Vec<(u64, Bytes)>>>()
        },
        |n| {
            let hits = view.lookup("city", &(city(n),), ScanOptions::new().limit(10))?;
            Ok(hits.into_iter().map(|hit| (hit.key.0, hit.included)).collect())
        },
    )?;
    bench.stores(|| twin.check_same())
}
