//! Wide tables: rows of twenty columns in one of two families.

use esker_layouts::Result;
use esker_layouts::tuple::{KeyRange, Space};
use esker_layouts::wide::{Cell, Query, RowChange, WideTable};

use super::Bench;
use super::by_hand::{damaged, finish, put_bytes, put_text, put_u64, take_bytes};
use super::twin::Twin;

const ROWS: usize = 64;
const COLUMNS: usize = 20;

fn names(what: &str, count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|n| format!("{what} {n:04}").into_bytes()).collect()
}

/// (space, cells, family "games").
fn prefix() -> Vec<u8> {
    let mut prefix = Vec::new();
    put_text(&mut prefix, "interest");
    put_u64(&mut prefix, 1);
    put_u64(&mut prefix, 0);
    prefix
}

fn put_row(out: &mut Vec<u8>, prefix: &[u8], row: &[u8]) {
    out.clear();
    out.extend_from_slice(prefix);
    put_bytes(out, row);
}

fn put_cell(out: &mut Vec<u8>, prefix: &[u8], row: &[u8], column: &[u8]) {
    put_row(out, prefix, row);
    put_bytes(out, column);
}

/// The cell of `row` under the key `stored`, which starts with the first `known` bytes that were asked for.
fn read_cell(row: &[u8], known: usize, stored: &[u8], value: esker::Value) -> Result<Cell> {
    let mut rest = stored.get(known..).ok_or_else(damaged)?;
    let column = take_bytes(&mut rest)?;
    finish(rest)?;
    Ok(Cell { row: row.to_vec(), family: "games".to_owned(), column, value })
}

pub(super) fn run(bench: &mut impl Bench) -> Result<()> {
    let space = Space::new(&("interest",));
    let (rows, columns) = (names("user", ROWS), names("game", COLUMNS));
    let families = ["games", "profile"];
    let twin = Twin::filled(|store| {
        let table = WideTable::open(store, &space, &families)?;
        for row in &rows {
            let all = columns.iter();
            let change = all.fold(RowChange::new(), |change, column| change.put("games", column, &[7; 16]));
            table.apply(row, &change.put("profile", b"name", b"Ann"))?;
        }
        Ok(())
    })?;
    let table = WideTable::open(twin.layout(), &space, &families)?;
    let (db, keyspace) = twin.by_hand();
    let row = |n: usize| rows[n * 7919 % ROWS].as_slice();
    let column = |n: usize| columns[n * 31 % COLUMNS].as_slice();
    let prefix = prefix();
    let mut buffer = Vec::new();

    let (view, reader) = (table.view()?, keyspace.reader()?);
    bench.pair(
        "wide get of a column",
        |n| {
            put_cell(&mut buffer, &prefix, row(n), column(n));
            Ok(reader.get(&buffer)?)
        },
        |n| view.get(row(n), "games", column(n)),
    )?;
    bench.pair(
        "wide column check",
        |n| {
            put_cell(&mut buffer, &prefix, row(n), column(n));
            Ok(reader.contains(&buffer)?)
        },
        |n| view.exists(row(n), "games", column(n)),
    )?;
    bench.pair(
        "wide row of 20 columns",
        |n| {
            put_row(&mut buffer, &prefix, row(n));
            let cells = reader.prefix(&buffer).map(|cell| {
                let (key, value) = cell?;
                read_cell(row(n), buffer.len(), &key, value)
            });
            cells.collect::<Result<Vec<Cell>>>()
        },
        |n| Ok(view.page(&Query::row(row(n)).family("games"))?.cells),
    )?;
    let mut end = Vec::new();
    bench.pair(
        "wide range of 5 columns",
        |n| {
            put_row(&mut buffer, &prefix, row(n));
            let known = buffer.len();
            put_bytes(&mut buffer, &columns[n % 10]);
            put_cell(&mut end, &prefix, row(n), &columns[n % 10 + 5]);
            let cells = reader.range(buffer.as_slice()..end.as_slice()).map(|cell| {
                let (key, value) = cell?;
                read_cell(row(n), known, &key, value)
            });
            cells.collect::<Result<Vec<Cell>>>()
        },
        |n| {
            let (start, end) = (columns[n % 10].clone(), columns[n % 10 + 5].clone());
            let wanted = KeyRange { start, end: Some(end) };
            Ok(view.page(&Query::row(row(n)).family("games").columns(wanted))?.cells)
        },
    )?;
    bench.pair(
        "wide put of 1 column",
        |n| {
            put_cell(&mut buffer, &prefix, row(n), column(n));
            Ok(keyspace.put(&buffer, [8; 16])?)
        },
        |n| table.put(row(n), "games", column(n), &[8; 16]).map(|_| ()),
    )?;
    bench.pair(
        "wide put of 10 columns",
        |n| {
            let mut batch = db.batch();
            put_row(&mut buffer, &prefix, row(n));
            let known = buffer.len();
            for column in &columns[..10] {
                buffer.truncate(known);
                put_bytes(&mut buffer, column);
                batch.put(keyspace, &buffer, [9; 16])?;
            }
            Ok(batch.commit()?)
        },
        |n| {
            let ten = columns[..10].iter();
            let change = ten.fold(RowChange::new(), |change, column| change.put("games", column, &[9; 16]));
            table.apply(row(n), &change).map(|_| ())
        },
    )?;
    bench.stores(|| twin.check_same())
}
