//! Runs the engine's leaves so that callgrind can count their instructions: they are spent between calls of one
//! function, which is marked for the tool. `cargo xtask engine-cost` does it all and compares with
//! `benches/engine_cost.txt`; by hand:
//!
//! ```text
//! cargo build --release -p esker-bench --example engine_cost
//! valgrind --tool=callgrind --toggle-collect=engine_cost::within_the_marks --dump-after=engine_cost::within_the_marks \
//!     target/release/examples/engine_cost
//! ```
//!
//! Every call of that function makes a file of callgrind's own; the lines printed tell, in the same order, what
//! they are of: a name and how many operations, separated by a tab.
//!
//! Files are in memory and all background work is done by this thread, so that the tree is the same every time: rows
//! of 16 + 100 bytes in one sorted level, then newer versions of some in three runs above it and in the memtable; then such a
//! tree of keys that begin alike.

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;

use esker::vfs::Env;
use esker::vfs::mem::MemFs;
use esker::{Database, Keyspace, KeyspaceOptions, Result, RowCursor};

const ROWS: u64 = 40_000;
/// Single operations that are counted.
const COUNTED: u64 = 2_000;

/// What is counted.
#[inline(never)]
fn within_the_marks(body: &mut dyn FnMut()) {
    body();
    // Not a tail call, which would leave the function too early.
    black_box(());
}

/// Count `body`, which does `operations` of what `name` says.
fn count(name: &str, operations: u64, mut body: impl FnMut() -> Result<()>) -> Result<()> {
    let mut outcome = Ok(());
    within_the_marks(&mut || outcome = body());
    println!("{name}\t{operations}");
    outcome
}

/// Count an operation that is done for one row after the other; before, it is done for some that are not counted.
fn each(name: &str, mut operation: impl FnMut(u64) -> Result<()>) -> Result<()> {
    (0..COUNTED).try_for_each(|n| operation(mixed(n + ROWS) % ROWS))?;
    count(name, COUNTED, || (0..COUNTED).try_for_each(|n| operation(mixed(n) % ROWS)))
}

/// A bijection without pattern (the finaliser of SplitMix64).
fn mixed(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The key of row `row`. Keys ascend with their rows.
fn key(row: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&(2 * row).to_be_bytes());
    key[8..].copy_from_slice(&mixed(row).to_be_bytes());
    key
}

/// A key of 16 bytes that begins as the others do.
fn name(row: u64) -> String {
    format!("name/{:011}", mixed(row) % 100_000_000_000)
}

/// A key between those of `row` and the next.
fn absent_key(row: u64) -> [u8; 16] {
    let mut key = key(row);
    key[7] += 1;
    key
}

const VALUE: [u8; 100] = [7; 100];

fn put(rows: &Keyspace, row: u64) -> Result<()> {
    rows.put(key(row), VALUE)
}

/// Look at ten rows from `row` on, or from one that has as many on either side.
fn ten(cursor: &mut RowCursor, row: u64, forward: bool) -> Result<()> {
    let row = row.clamp(10, ROWS - 10);
    let mut stands = if forward { cursor.seek(key(row))? } else { cursor.seek_for_prev(key(row))? };
    for _ in 0..9 {
        black_box((cursor.key(), cursor.value()));
        stands = stands && if forward { cursor.next()? } else { cursor.prev()? };
    }
    assert!(stands, "ten rows");
    Ok(())
}

/// Look at ten rows from `row` on, or from one that has as many behind it, by a range that is made for it.
fn first_ten(rows: &Keyspace, row: u64) -> Result<()> {
    let mut seen = 0;
    for found in rows.range(key(row.min(ROWS - 10))..).take(10) {
        black_box(found?);
        seen += 1;
    }
    assert_eq!(seen, 10, "rows seen");
    Ok(())
}

/// Look at every row; there are as many as `expected`.
fn scan(rows: &Keyspace, forward: bool, expected: u64) -> Result<()> {
    let mut cursor = rows.cursor()?;
    let mut stands = if forward { cursor.seek_first()? } else { cursor.seek_last()? };
    let mut seen = 0;
    while stands {
        black_box((cursor.key(), cursor.value()));
        seen += 1;
        stands = if forward { cursor.next()? } else { cursor.prev()? };
    }
    assert_eq!(seen, expected, "rows seen");
    Ok(())
}

fn gets(rows: &Keyspace, name: &str) -> Result<()> {
    each(name, |row| {
        rows.get_with(key(row), |value| black_box(value.len())).map(|found| assert!(found.is_some()))
    })
}

fn run() -> Result<()> {
    let (world, hands) = Env::simulated(1);
    let env = Env { fs: Arc::new(MemFs::new()), ..world };
    let db = Database::builder("/db").env(env).open()?;
    let rows = db.keyspace("rows", KeyspaceOptions::default())?;

    // Every row, those that are counted among the others.
    let order: Vec<u64> = {
        let mut order: Vec<u64> = (0..ROWS).collect();
        order.sort_unstable_by_key(|row| mixed(*row));
        order
    };
    let (first, rest) = order.split_at(order.len() / 2);
    first.iter().try_for_each(|row| put(&rows, *row))?;
    let (counted, rest) = rest.split_at(rest.len() / 10);
    count("put", counted.len() as u64, || counted.iter().try_for_each(|row| put(&rows, *row)))?;
    count("put in batches of 100, a row", rest.len() as u64, || {
        rest.chunks(100).try_for_each(|some| {
            let mut batch = db.batch();
            some.iter().try_for_each(|row| batch.put(&rows, key(*row), VALUE))?;
            batch.commit()
        })
    })?;
    gets(&rows, "get from the memtable")?;
    count("scan of the memtable, a row", ROWS, || scan(&rows, true, ROWS))?;
    count("scan of the memtable backwards, a row", ROWS, || scan(&rows, false, ROWS))?;
    count("flush, a row", ROWS, || db.flush())?;
    db.wait_for_compactions()?;
    scan(&rows, true, ROWS)?;
    gets(&rows, "get from a table")?;
    each("get of what is absent", |row| {
        rows.get_with(absent_key(row), |_| ()).map(|found| assert!(found.is_none()))
    })?;
    count("scan of one level, a row", ROWS, || scan(&rows, true, ROWS))?;
    count("scan of one level backwards, a row", ROWS, || scan(&rows, false, ROWS))?;

    for run in 0..4 {
        (0..ROWS).filter(|row| mixed(*row) % 32 == run).try_for_each(|row| put(&rows, row))?;
        if run < 3 {
            db.flush()?;
        }
    }
    scan(&rows, true, ROWS)?;
    gets(&rows, "get from a live tree")?;
    let some: Vec<[u8; 16]> = (0..COUNTED).map(|n| key(mixed(n) % ROWS)).collect();
    count("get from a live tree, sixteen a call, a key", COUNTED, || {
        some.chunks(16).try_for_each(|keys| {
            let found = rows.multi_get(keys)?;
            assert!(found.iter().all(Option::is_some), "every row is there");
            Ok(())
        })
    })?;
    let mut cursor = rows.cursor()?;
    each("seek and ten rows of a live tree", |row| ten(&mut cursor, row, true))?;
    each("seek and ten rows of a live tree, backwards", |row| ten(&mut cursor, row, false))?;
    drop(cursor);
    each("a range and its first ten rows", |row| first_ten(&rows, row))?;
    count("scan of a live tree, a row", ROWS, || scan(&rows, true, ROWS))?;
    count("scan of a live tree backwards, a row", ROWS, || scan(&rows, false, ROWS))?;
    db.flush()?;
    count("compaction, a row", ROWS, || rows.compact_range::<&[u8]>(..))?;
    // What follows is not to pay for caching the table that this left.
    hands.steps.settle();

    let half = ROWS / 2;
    count("delete", half, || (0..half).try_for_each(|row| rows.delete(key(row))))?;
    count("seek over tombstones, a tombstone", half, || {
        let mut cursor = rows.cursor()?;
        assert!(cursor.seek_first()? && cursor.key() == key(half));
        Ok(())
    })?;
    let named = db.keyspace("named", KeyspaceOptions::default())?;
    for run in [None, Some(0), Some(1)] {
        let is_of = |row: &u64| run.is_none_or(|run| mixed(*row) % 8 == run);
        (0..ROWS).filter(is_of).try_for_each(|row| named.put(name(row), VALUE))?;
        db.flush()?;
    }
    scan(&named, true, ROWS)?;
    count("scan of a live tree of names, a row", ROWS, || scan(&named, true, ROWS))?;
    count("scan of a live tree of names backwards, a row", ROWS, || scan(&named, false, ROWS))?;
    db.close()
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
