//! Keys of other shapes, each on a fresh database: a fill in random order, gets, seeks and scans, and these again when reads
//! have gone on for a while. See `crate::shapes`.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Duration;

use super::main_sequence::expect;
use super::{Bench, GROUP, Measure, emit, fresh, group, reads};
use crate::keys::{Draw, Permutation};
use crate::shapes::{Shape, VALUE_BYTES_MAX};
use crate::store::{Direction, Reader, Result, Settings, Store};
use crate::values::{Values, read_all, read_ends};

/// Rows that are compared with what was written.
const CHECKED: u64 = 10_000;
/// Rows that a seek shows.
const SEEK_ROWS: u64 = 10;

/// How long reads go on before they are measured again; not on databases so small that they are a test's.
const READ_ON: Duration = Duration::from_secs(15);
const READ_ON_ROWS: u64 = 10_000;
/// What they are called, and those that come after them.
const READING_ON: &str = "15 s of reads";
const LATER: &str = ", after 15 s of reads";

/// A database of one shape.
struct Shaped<'a> {
    /// Its directory, and its rows.
    bench: &'a Bench,
    shape: Shape,
    values: &'a Values,
}

/// Each shape, with a fifth of the rows.
pub(super) fn run<S: Store>(bench: &Bench) -> Result<()> {
    let values = Values::new(VALUE_BYTES_MAX);
    let bench = Bench { dir: bench.dir.join("rows"), rows: bench.rows / 5, engine: bench.engine.clone() };
    for shape in Shape::ALL {
        let store: S = fresh(&bench.dir, Settings::default())?;
        Shaped { bench: &bench, shape, values: &values }.run(&store)?;
        store.close()?;
    }
    Ok(())
}

impl Shaped<'_> {
    fn run<S: Store>(&self, store: &S) -> Result<()> {
        let measure = self.measure("fill")?;
        self.fill(store)?;
        let settled = store.settle()?;
        emit(&measure.done_at(self.bench.rows, settled)?)?;
        self.check(store)?;

        self.gets(store, 181)?;
        self.reads(store, "")?;
        self.absent(store)?;
        self.read_on(store)?;
        self.reads(store, LATER)
    }

    /// Gets, seeks and scans, whose names end with `when`.
    fn reads<S: Store>(&self, store: &S, when: &str) -> Result<()> {
        let measure = self.measure(&format!("get, present{when}"))?;
        self.gets(store, 182)?;
        emit(&measure.done(self.bench.rows)?)?;
        self.seeks(store, &format!("seek + 10 rows{when}"), Direction::Forward)?;
        self.seeks(store, &format!("seek + 10 rows, reverse{when}"), Direction::Reverse)?;
        let scan = |what: &str, direction| {
            reads::scan(self.bench, store, &self.workload(&format!("{what}{when}")), direction)
        };
        scan("full scan", Direction::Forward)?;
        scan("full scan, reverse", Direction::Reverse)
    }

    /// Gets and seeks for a while, by readers that live for a thousand of each. What an engine does for them meanwhile is theirs.
    fn read_on<S: Store>(&self, store: &S) -> Result<()> {
        if S::NULL || self.bench.rows < READ_ON_ROWS {
            return Ok(());
        }
        let last = self.last_rows(Direction::Forward);
        let mut draw = Draw::new(self.bench.rows, 186);
        let (mut key, mut pairs) = (Vec::new(), 0);
        let measure = self.measure(READING_ON)?;
        while measure.elapsed() < READ_ON {
            let mut reader = store.reader()?;
            for _ in 0..1000 {
                let row = draw.next();
                self.shape.key(row, &mut key);
                let found = reader.get(&key, |value| {
                    black_box(read_all(value));
                })?;
                expect(found, || format!("{} is gone", self.workload(&format!("row {row}"))))?;
                let seen = reader.scan(Some(&key), Direction::Forward, SEEK_ROWS, |key, value| {
                    black_box(read_ends(key, value));
                })?;
                let there = shown(&last, row);
                expect(seen == there, || {
                    format!("{}: {seen} rows instead of {there}", self.workload(&format!("row {row}")))
                })?;
                pairs += 1;
            }
        }
        emit(&measure.done(pairs)?)
    }

    fn workload(&self, what: &str) -> String {
        format!("{} keys: {what}", self.shape.name())
    }

    fn measure(&self, what: &str) -> Result<Measure> {
        self.bench.measure(&self.workload(what))
    }

    fn value(&self, row: u64) -> &[u8] {
        &self.values.of(row, 0)[..self.shape.value_bytes(row)]
    }

    /// Write every row once, in random order.
    fn fill<S: Store>(&self, store: &S) -> Result<()> {
        let order = Permutation::new(self.bench.rows, 180);
        let mut rows = (0..self.bench.rows).map(|at| order.at(at));
        if group::<S>() == 1 {
            let mut key = Vec::new();
            return rows.try_for_each(|row| {
                self.shape.key(row, &mut key);
                store.put(&key, self.value(row))
            });
        }
        // Keys are made in the place of the last batch's: nothing is allocated.
        let mut batch: Vec<(Vec<u8>, &[u8])> = vec![(Vec::new(), &[]); GROUP];
        loop {
            let mut size = 0;
            for ((key, value), row) in batch.iter_mut().zip(&mut rows) {
                self.shape.key(row, key);
                *value = self.value(row);
                size += 1;
            }
            if size == 0 {
                return Ok(());
            }
            store.put_all(&batch[..size])?;
        }
    }

    /// A sample of the rows holds what was written.
    fn check<S: Store>(&self, store: &S) -> Result<()> {
        let mut draw = Draw::new(self.bench.rows, 183);
        let mut reader = store.reader()?;
        let mut key = Vec::new();
        for _ in 0..CHECKED {
            let row = draw.next();
            self.shape.key(row, &mut key);
            let mut right = S::NULL;
            reader.get(&key, |value| right |= value == self.value(row))?;
            expect(right, || format!("{} is wrong", self.workload(&format!("row {row}"))))?;
        }
        Ok(())
    }

    /// As many gets as there are rows; every byte of each value is read.
    fn gets<S: Store>(&self, store: &S, seed: u64) -> Result<()> {
        let mut draw = Draw::new(self.bench.rows, seed);
        let mut reader = store.reader()?;
        let (mut key, mut sum) = (Vec::new(), 0u64);
        for _ in 0..self.bench.rows {
            let row = draw.next();
            self.shape.key(row, &mut key);
            let found = reader.get(&key, |value| sum = sum.wrapping_add(read_all(value)))?;
            expect(found, || format!("{} is gone", self.workload(&format!("row {row}"))))?;
        }
        black_box(sum);
        Ok(())
    }

    fn absent<S: Store>(&self, store: &S) -> Result<()> {
        let mut draw = Draw::new(self.bench.rows, 184);
        let mut reader = store.reader()?;
        let measure = self.measure("get, absent")?;
        let (mut key, mut found) = (Vec::new(), 0);
        for _ in 0..self.bench.rows {
            self.shape.absent_key(draw.next(), &mut key);
            found += u64::from(reader.get(&key, |value| {
                black_box(read_all(value));
            })?);
        }
        let figure = measure.done(self.bench.rows)?;
        expect(found == 0 || S::NULL, || format!("{found} rows that nobody wrote were found"))?;
        emit(&figure)
    }

    /// Seeks to rows drawn at random. Keys do not ascend with their rows, so some lie near the end that scans run towards;
    /// these have to show just what is left.
    fn seeks<S: Store>(&self, store: &S, what: &str, direction: Direction) -> Result<()> {
        let seeks = self.bench.rows * 2 / SEEK_ROWS;
        let draw = Draw::new(self.bench.rows, 185);
        let mut reader = store.reader()?;
        let measure = self.measure(what)?;
        let (mut key, mut seen, mut sum) = (Vec::new(), 0, 0u64);
        let mut from = draw;
        for _ in 0..seeks {
            self.shape.key(from.next(), &mut key);
            let see = |key: &[u8], value: &[u8]| sum += read_ends(key, value);
            seen += reader.scan(Some(&key), direction, SEEK_ROWS, see)?;
        }
        let figure = measure.done(seeks)?;
        black_box(sum);
        let last = self.last_rows(direction);
        let mut from = draw;
        let there: u64 = (0..seeks).map(|_| shown(&last, from.next())).sum();
        expect(seen == there || S::NULL, || {
            format!("{}: {seen} rows instead of {there} in {seeks} scans", self.workload(what))
        })?;
        emit(&figure)
    }

    /// The rows that a scan meets last, the very last one first.
    fn last_rows(&self, direction: Direction) -> Vec<u64> {
        let mut last = BTreeMap::new();
        for row in 0..self.bench.rows {
            let mut key = Vec::new();
            self.shape.key(row, &mut key);
            last.insert(key, row);
            if last.len() as u64 > SEEK_ROWS {
                match direction {
                    Direction::Forward => last.pop_first(),
                    Direction::Reverse => last.pop_last(),
                };
            }
        }
        match direction {
            Direction::Forward => last.into_values().rev().collect(),
            Direction::Reverse => last.into_values().collect(),
        }
    }
}

/// How many rows a seek to `row` shows if `last` are those that a scan meets last, the very last one first.
fn shown(last: &[u64], row: u64) -> u64 {
    (1..).zip(last).find(|(_, last)| **last == row).map_or(SEEK_ROWS, |(left, _)| left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::ROWS;
    use crate::stores::esker::Esker;

    #[test]
    fn every_workload_has_its_row() {
        for shape in Shape::ALL {
            let begin = format!("{} keys: ", shape.name());
            let rows = ROWS.iter().filter(|(_, workload, ..)| workload.starts_with(&begin));
            assert_eq!(rows.count(), 14, "{begin}");
        }
    }

    #[test]
    fn the_last_rows_are_those_with_the_outermost_keys() {
        let (dir, values) = (std::path::PathBuf::new(), Values::new(VALUE_BYTES_MAX));
        let bench = Bench { dir, rows: 1000, engine: String::new() };
        for shape in Shape::ALL {
            let mut rows: Vec<u64> = (0..bench.rows).collect();
            rows.sort_by_cached_key(|row| {
                let mut key = Vec::new();
                shape.key(*row, &mut key);
                key
            });
            let shaped = Shaped { bench: &bench, shape, values: &values };
            assert_eq!(shaped.last_rows(Direction::Reverse), rows[..10], "{shape:?}");
            rows.reverse();
            assert_eq!(shaped.last_rows(Direction::Forward), rows[..10], "{shape:?}");
        }
    }

    #[test]
    fn a_row_that_is_gone_or_another_or_nobodys_is_noticed() {
        let dir = tempfile::tempdir().expect("directory");
        let values = Values::new(VALUE_BYTES_MAX);
        for shape in Shape::ALL {
            let bench = Bench { dir: dir.path().join(shape.name()), rows: 1000, engine: String::new() };
            let shaped = Shaped { bench: &bench, shape, values: &values };
            let store: Esker = fresh(&bench.dir, Settings::default()).expect("a store");
            shaped.run(&store).expect("all as it was written");
            let mut key = Vec::new();
            let mut change = |row, absent, value: Option<&[u8]>| {
                let make = if absent { Shape::absent_key } else { Shape::key };
                make(shape, row, &mut key);
                match value {
                    Some(value) => store.put(&key, value),
                    None => store.delete(&key),
                }
                .expect("a change");
            };
            change(Draw::new(bench.rows, 183).next(), false, Some(b"another"));
            assert!(shaped.check(&store).is_err(), "{shape:?}");
            change(Draw::new(bench.rows, 181).next(), false, None);
            assert!(shaped.gets(&store, 181).is_err(), "{shape:?}");
            change(Draw::new(bench.rows, 184).next(), true, Some(b"nobody's"));
            assert!(shaped.absent(&store).is_err(), "{shape:?}");
            // Fewer are left than a seek shows.
            (5..bench.rows).for_each(|row| change(row, false, None));
            for direction in [Direction::Forward, Direction::Reverse] {
                assert!(shaped.seeks(&store, "seek", direction).is_err(), "{shape:?}, {direction:?}");
            }
            let more = Bench { dir: bench.dir.clone(), rows: READ_ON_ROWS, engine: String::new() };
            let shaped = Shaped { bench: &more, shape, values: &values };
            assert!(shaped.read_on(&store).is_err(), "{shape:?}");
            store.close().expect("closed");
        }
    }
}
