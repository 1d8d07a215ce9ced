//! YCSB's core workloads with its defaults: a Zipfian choice of rows with exponent 0.99 whose popular rows
//! lie scattered, one thread, one operation at a time. D reads what was put last; E scans 1 to 100 rows.

use std::hint::black_box;

use super::main_sequence::expect;
use super::{Bench, VALUE_BYTES, emit, fresh, group, put_rows, reads};
use crate::keys::{Draw, Permutation, key};
use crate::store::{Direction, Reader, Result, Settings, Store};
use crate::values::{Values, read_ends};
use crate::zipf::Zipf;

/// Of a hundred operations, how many change something, and what the others and the changes are.
struct Mix {
    name: &'static str,
    changes: u64,
    change: Change,
    read: Read,
}

#[derive(Clone, Copy)]
enum Change {
    Update,
    Insert,
    ReadModifyWrite,
}

#[derive(Clone, Copy)]
enum Read {
    Popular,
    Latest,
    Scan,
}

const MIXES: &[Mix] = &[
    Mix { name: "YCSB A", changes: 50, change: Change::Update, read: Read::Popular },
    Mix { name: "YCSB B", changes: 5, change: Change::Update, read: Read::Popular },
    Mix { name: "YCSB C", changes: 0, change: Change::Update, read: Read::Popular },
    Mix { name: "YCSB F", changes: 50, change: Change::ReadModifyWrite, read: Read::Popular },
    // D and E insert: they come last, as YCSB itself advises.
    Mix { name: "YCSB D", changes: 5, change: Change::Insert, read: Read::Latest },
    Mix { name: "YCSB E", changes: 5, change: Change::Insert, read: Read::Scan },
];

/// All of them on one database of two fifths of the rows, a tenth as many operations each.
pub(super) fn run<S: Store>(bench: &Bench) -> Result<()> {
    let mut rows = bench.rows * 2 / 5;
    let values = Values::new(VALUE_BYTES);
    let store: S = fresh(&bench.dir, Settings::default())?;
    let order = Permutation::new(rows, 110);
    put_rows(&store, &values, 0, (0..rows).map(|at| order.at(at)), group::<S>())?;
    store.settle()?;
    for mix in MIXES {
        rows = operate(bench, &store, &values, order, mix, rows)?;
    }
    store.close()
}

/// One of them on a database of `rows` rows, of which the first came in this `order`; how many rows there are then. All that is
/// read has to be there.
fn operate<S: Store>(
    bench: &Bench,
    store: &S,
    values: &Values,
    order: Permutation,
    mix: &Mix,
    mut rows: u64,
) -> Result<u64> {
    let operations = bench.rows / 10 / if matches!(mix.read, Read::Scan) { 10 } else { 1 };
    let mut zipf = Zipf::new(rows, 111);
    let mut dice = Draw::new(100, 112);
    let measure = bench.measure(mix.name)?;
    let mut sum = 0u64;
    for at in 0..operations {
        let rank = zipf.next();
        let row =
            if matches!(mix.read, Read::Latest) { rows - 1 - rank } else { order.at(rank % order.rows()) };
        let changes = dice.next() < mix.changes;
        // A reader of the newest state for every operation: one that is kept would be cheaper and
        // answer another question.
        match (changes, mix.change, mix.read) {
            (true, Change::Insert, _) => {
                store.put(&key(rows), values.of(rows, at))?;
                rows += 1;
            }
            (true, change, _) => {
                if matches!(change, Change::ReadModifyWrite) {
                    reads::get(&mut store.reader()?, row)?;
                }
                store.put(&key(row), values.of(row, at))?;
            }
            (false, _, Read::Scan) => {
                let length = 1 + dice.next();
                let see = |key: &[u8], value: &[u8]| sum += read_ends(key, value);
                let seen = store.reader()?.scan(Some(&key(row)), Direction::Forward, length, see)?;
                // Keys ascend with their rows: those behind it are there as well.
                let there = length.min(rows - row);
                expect(seen == there || S::NULL, || format!("{seen} rows from row {row} on, not {there}"))?;
            }
            (false, ..) => reads::get(&mut store.reader()?, row)?,
        }
    }
    emit(&measure.done(operations)?)?;
    black_box(sum);
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stores::esker::Esker;

    #[test]
    fn rows_that_are_gone_are_noticed() {
        let dir = tempfile::tempdir().expect("directory");
        let values = Values::new(VALUE_BYTES);
        for mix in MIXES {
            let bench = Bench { dir: dir.path().join(mix.name), rows: 5000, engine: String::new() };
            let rows = bench.rows * 2 / 5;
            let store: Esker = fresh(&bench.dir, Settings::default()).expect("a store");
            let operate = || operate(&bench, &store, &values, Permutation::new(rows, 110), mix, rows);
            assert!(operate().is_err(), "{}: there is no row", mix.name);
            put_rows(&store, &values, 0, 0..rows, 1).expect("written");
            operate().expect(mix.name);
            store.close().expect("closed");
        }
    }
}
