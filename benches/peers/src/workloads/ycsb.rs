//! YCSB's core workloads with its defaults: a Zipfian choice of rows with exponent 0.99 whose popular rows
//! lie scattered, one thread, one operation at a time. D reads what was put last; E scans 1 to 100 rows.

use std::hint::black_box;

use super::{Bench, VALUE_BYTES, emit, fresh, group, put_rows};
use crate::keys::{Draw, Permutation, key};
use crate::store::{Direction, Reader, Result, Settings, Store};
use crate::values::{Values, read_all, read_ends};

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

/// Ranks with Zipfian frequencies, after Gray et al., "Quickly Generating Billion-Record Synthetic
/// Databases" (1994).
struct Zipf {
    items: f64,
    alpha: f64,
    zeta: f64,
    eta: f64,
    theta: f64,
    draw: Draw,
}

impl Zipf {
    fn new(items: u64, seed: u64) -> Zipf {
        let theta = 0.99f64;
        let zeta: f64 = (1..=items).map(|rank| (rank as f64).powf(-theta)).sum();
        let zeta_two = 1.0 + 2f64.powf(-theta);
        let eta = (1.0 - (2.0 / items as f64).powf(1.0 - theta)) / (1.0 - zeta_two / zeta);
        Zipf {
            items: items as f64,
            alpha: 1.0 / (1.0 - theta),
            zeta,
            eta,
            theta,
            draw: Draw::new(1 << 53, seed),
        }
    }

    /// A rank: 0 is the most frequent.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "0 to items, both inside u64"
    )]
    fn next(&mut self) -> u64 {
        let uniform = self.draw.next() as f64 / (1u64 << 53) as f64;
        let scaled = uniform * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5f64.powf(self.theta) {
            return 1;
        }
        let rank = self.items * (self.eta * uniform - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(self.items as u64 - 1)
    }
}

/// All of them on one database of two fifths of the rows, a tenth as many operations each.
pub(super) fn run<S: Store>(bench: &Bench) -> Result<()> {
    let mut rows = bench.rows * 2 / 5;
    let values = Values::new(VALUE_BYTES);
    let store: S = fresh(&bench.dir, Settings::default())?;
    let order = Permutation::new(rows, 110);
    put_rows(&store, &values, 0, (0..rows).map(|at| order.at(at)), group::<S>())?;
    store.settle()?;
    for mix in MIXES {
        let operations = bench.rows / 10 / if matches!(mix.read, Read::Scan) { 10 } else { 1 };
        let mut zipf = Zipf::new(rows, 111);
        let mut dice = Draw::new(100, 112);
        let measure = bench.measure(mix.name)?;
        let mut sum = 0u64;
        for at in 0..operations {
            let rank = zipf.next();
            let row = if matches!(mix.read, Read::Latest) {
                rows - 1 - rank
            } else {
                order.at(rank % order.rows())
            };
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
                        store.reader()?.get(&key(row), |value| sum = sum.wrapping_add(read_all(value)))?;
                    }
                    store.put(&key(row), values.of(row, at))?;
                }
                (false, _, Read::Scan) => {
                    let length = 1 + dice.next();
                    let see = |key: &[u8], value: &[u8]| sum += read_ends(key, value);
                    store.reader()?.scan(Some(&key(row)), Direction::Forward, length, see)?;
                }
                (false, ..) => {
                    store.reader()?.get(&key(row), |value| sum = sum.wrapping_add(read_all(value)))?;
                }
            }
        }
        emit(&measure.done(operations)?)?;
        black_box(sum);
    }
    store.close()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_as_frequent_as_zipf_has_them() {
        const ITEMS: u64 = 1000;
        let mut zipf = Zipf::new(ITEMS, 1);
        let mut counts = vec![0u32; usize::try_from(ITEMS).expect("small")];
        (0..200_000).for_each(|_| counts[usize::try_from(zipf.next()).expect("small")] += 1);
        let share = |rank: usize| f64::from(counts[rank]) / 200_000.0;
        assert!((share(0) - 1.0 / zipf.zeta).abs() < 0.01, "{}", share(0));
        assert!((share(1) - 0.5 / zipf.zeta).abs() < 0.01, "{}", share(1));
        assert!(counts[..10].iter().sum::<u32>() > counts[500..].iter().sum());
        assert!(counts[500..].iter().any(|n| *n > 0));
    }
}
