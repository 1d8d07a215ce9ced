//! Tables of typed rows, packed and in cells.
//!
//! By hand, too, the table's schema is read with every write, or an older program could write beside a newer
//! one; that it is the one known is a comparison of bytes.

use esker_layouts::engine::EngineStore;
use esker_layouts::table::{Row, RowMode, Table};
use esker_layouts::tuple::{Space, pack};
use esker_layouts::{Error, Result};

use super::Bench;
use super::by_hand::{damaged, finish, put_text, put_u64, take_text, take_u64};
use super::twin::Twin;

const ROWS: u64 = 1_000;

#[derive(Row, Clone, Debug, PartialEq)]
struct User {
    name: String,
    age: u64,
    mail: String,
    visits: u64,
}

impl User {
    fn number(id: u64) -> User {
        User {
            name: format!("user {id}"),
            age: id % 90,
            mail: format!("user{id}@example"),
            visits: id * 37,
        }
    }
}

/// The schema as it is stored: mode, version, most fields, and the fields' names.
fn schema(mode: u64) -> Vec<u8> {
    pack(&(mode, 1, 4, "name", "age", "mail", "visits"))
}

/// Err unless the table still has the schema that is known.
fn check(
    tx: &esker::Transaction,
    keyspace: &esker::Keyspace,
    at: &[u8],
    known: &[u8],
) -> esker::Result<()> {
    if tx.get(keyspace, at)?.as_deref() == Some(known) {
        return Ok(());
    }
    Err(esker::Error::invalid("the table has another schema by now; open it anew"))
}

fn put_key(out: &mut Vec<u8>, name: &str, id: u64) {
    out.clear();
    put_text(out, name);
    put_u64(out, 1);
    put_u64(out, id);
}

fn read_version(stored: &mut &[u8]) -> Result<()> {
    match take_u64(stored)? {
        1 => Ok(()),
        _ => Err(Error::Store(esker::Error::invalid("the row is of another version"))),
    }
}

fn read_fields(mut stored: &[u8]) -> Result<User> {
    let stored = &mut stored;
    let user = User {
        name: take_text(stored)?,
        age: take_u64(stored)?,
        mail: take_text(stored)?,
        visits: take_u64(stored)?,
    };
    finish(stored)?;
    Ok(user)
}

pub(super) fn run(bench: &mut impl Bench) -> Result<()> {
    packed(bench)?;
    cells(bench)
}

fn packed(bench: &mut impl Bench) -> Result<()> {
    let space = Space::new(&("users",));
    let twin = Twin::filled(|store| {
        let table = Table::open(store, &space, RowMode::Packed)?;
        (0..ROWS).try_for_each(|id| table.put(&(id,), &User::number(id)).map(|_| ()))
    })?;
    let table: Table<_, (u64,), User> = Table::open(twin.layout(), &space, RowMode::Packed)?;
    let (db, keyspace) = twin.by_hand();
    let (mut at, mut value) = (Vec::new(), Vec::new());
    let (view, reader) = (table.view()?, keyspace.reader()?);
    bench.pair(
        "table get, packed",
        |n| {
            put_key(&mut at, "users", id(n));
            let row = reader.get(&at)?.map(|stored| {
                let mut rest = stored.as_ref();
                read_version(&mut rest)?;
                read_fields(rest)
            });
            row.transpose()
        },
        |n| view.get(&(id(n),)),
    )?;
    bench.pair(
        "table row check, packed",
        |n| {
            put_key(&mut at, "users", id(n) * 2);
            Ok(reader.contains(&at)?)
        },
        |n| view.exists(&(id(n) * 2,)),
    )?;
    bench.pair(
        "table get of a field, packed",
        |n| {
            put_key(&mut at, "users", id(n));
            let age = reader.get(&at)?.map(|stored| {
                let mut rest = stored.as_ref();
                read_version(&mut rest)?;
                take_text(&mut rest)?;
                take_u64(&mut rest)
            });
            age.transpose()
        },
        |n| view.field(&(id(n),), User::AGE),
    )?;
    let users: Vec<User> = (0..ROWS).map(|id| User { visits: 7, ..User::number(id) }).collect();
    let user = |n: usize| &users[n * 7919 % users.len()];
    let (mut schema_at, known) = (Vec::new(), schema(0));
    put_text(&mut schema_at, "users");
    put_u64(&mut schema_at, 0);
    bench.pair(
        "table put, packed",
        |n| {
            put_key(&mut at, "users", id(n));
            let user = user(n);
            value.clear();
            put_u64(&mut value, 1);
            put_text(&mut value, &user.name);
            put_u64(&mut value, user.age);
            put_text(&mut value, &user.mail);
            put_u64(&mut value, user.visits);
            Ok(db.transact(|tx| {
                check(tx, keyspace, &schema_at, &known)?;
                tx.put(keyspace, &at, &value)
            })?)
        },
        |n| table.put(&(id(n),), user(n)).map(|_| ()),
    )?;
    bench.stores(|| twin.check_same())
}

/// The table of cells.
type Cells<'k> = Table<&'k EngineStore, (u64,), User>;

fn cells(bench: &mut impl Bench) -> Result<()> {
    let space = Space::new(&("cells",));
    let twin = Twin::filled(|store| {
        let table = Table::open(store, &space, RowMode::Cells)?;
        (0..ROWS).try_for_each(|id| table.put(&(id,), &User::number(id)).map(|_| ()))
    })?;
    let table: Cells<'_> = Table::open(twin.layout(), &space, RowMode::Cells)?;
    cell_reads(bench, &table, &twin)?;
    cell_writes(bench, &table, &twin)?;
    bench.stores(|| twin.check_same())
}

fn id(n: usize) -> u64 {
    n as u64 * 7919 % ROWS
}

fn cell_reads(bench: &mut impl Bench, table: &Cells<'_>, twin: &Twin) -> Result<()> {
    let (_, keyspace) = twin.by_hand();
    let (mut at, mut value) = (Vec::new(), Vec::new());
    let (view, reader) = (table.view()?, keyspace.reader()?);
    bench.pair(
        "table row check, cells",
        |n| {
            put_key(&mut at, "cells", id(n) * 2);
            Ok(reader.contains(&at)?)
        },
        |n| view.exists(&(id(n) * 2,)),
    )?;
    bench.pair(
        "table get of a field, cells",
        |n| {
            put_key(&mut at, "cells", id(n));
            let Some(header) = reader.get(&at)? else { return Ok(None) };
            read_version(&mut header.as_ref())?;
            put_u64(&mut at, 1);
            let stored = reader.get(&at)?.ok_or_else(damaged)?;
            let mut rest = stored.as_ref();
            let age = take_u64(&mut rest)?;
            finish(rest)?;
            Ok(Some(age))
        },
        |n| view.field(&(id(n),), User::AGE),
    )?;
    bench.pair(
        "table get, cells",
        |n| {
            put_key(&mut at, "cells", id(n));
            let mut row = reader.prefix(&at);
            let Some(header) = row.next().transpose()? else { return Ok(None) };
            if header.0 != at {
                return Err(damaged());
            }
            read_version(&mut header.1.as_ref())?;
            value.clear();
            for (place, cell) in (0..).zip(row) {
                let (key, field) = cell?;
                if take_u64(&mut key.get(at.len()..).unwrap_or_default())? != place {
                    return Err(damaged());
                }
                value.extend_from_slice(&field);
            }
            read_fields(&value).map(Some)
        },
        |n| view.get(&(id(n),)),
    )
}

fn cell_writes(bench: &mut impl Bench, table: &Cells<'_>, twin: &Twin) -> Result<()> {
    let (db, keyspace) = twin.by_hand();
    let (mut at, mut value) = (Vec::new(), Vec::new());
    let users: Vec<User> = (0..ROWS).map(|id| User { visits: 7, ..User::number(id) }).collect();
    let user = |n: usize| &users[n * 7919 % users.len()];
    let (mut schema_at, known) = (Vec::new(), schema(1));
    put_text(&mut schema_at, "cells");
    put_u64(&mut schema_at, 0);
    bench.pair(
        "table put of a field, cells",
        |n| {
            value.clear();
            put_u64(&mut value, n as u64);
            let done = db.transact(|tx| {
                check(tx, keyspace, &schema_at, &known)?;
                put_key(&mut at, "cells", id(n));
                let Some(header) = tx.get(keyspace, &at)? else { return Ok(false) };
                read_version(&mut header.as_ref())
                    .map_err(|error| esker::Error::invalid(error.to_string()))?;
                put_u64(&mut at, 3);
                tx.put(keyspace, &at, &value)?;
                Ok(true)
            });
            Ok(done?)
        },
        |n| Ok(table.set(&(id(n),), User::VISITS, &(n as u64))?.value),
    )?;
    bench.pair(
        "table put, cells",
        |n| {
            let user = user(n);
            let done = db.transact(|tx| {
                check(tx, keyspace, &schema_at, &known)?;
                put_key(&mut at, "cells", id(n));
                tx.put(keyspace, &at, [0x15, 1])?;
                let len = at.len();
                for place in 0..4 {
                    at.truncate(len);
                    put_u64(&mut at, place);
                    value.clear();
                    match place {
                        0 => put_text(&mut value, &user.name),
                        1 => put_u64(&mut value, user.age),
                        2 => put_text(&mut value, &user.mail),
                        _ => put_u64(&mut value, user.visits),
                    }
                    tx.put(keyspace, &at, &value)?;
                }
                Ok(())
            });
            Ok(done?)
        },
        |n| table.put(&(id(n),), user(n)).map(|_| ()),
    )
}
