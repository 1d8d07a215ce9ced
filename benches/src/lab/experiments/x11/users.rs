//! B20: do digests spread skewed users over the servers? Users whose names crowd, and users of whom a few do
//! most.

use std::collections::BTreeSet;

use esker_layouts::OpCost;
use esker_layouts::hashed::{HashBy, HashedTable};
use esker_layouts::tall::TallTable;
use esker_layouts::tuple::{Space, Uuid};

use super::cluster::{Shards, Skew};
use super::orders::{ROWS, slice_of_digests};
use super::traced::{Access, Traced};
use super::{SERVERS, Sizes};
use crate::lab::experiments::random;
use crate::lab::experiments::samples::failed;
use crate::lab::store::Store;
use crate::lab::study::Study;
use crate::lab::{LabOptions, Result};

/// Rows in one commit.
const BATCH: usize = 500;
/// Letters that names begin with.
const LETTERS: usize = 26;

/// How evenly users and their rows fall on servers.
#[derive(Clone, Debug, Default)]
pub(super) struct Spread {
    /// Distinct users under their names, and under digests.
    pub(super) users: [Skew; 2],
    /// Rows under names, and under digests.
    pub(super) rows: [Skew; 2],
    /// The share of all rows that the busiest user has.
    pub(super) busiest: f64,
    /// How many users and rows there are.
    pub(super) counts: (u64, u64),
}

/// A number below the number of `sums`, drawn by Zipf's law; `sums` are those of 1/1, 1/2, 1/3…
fn zipf(sums: &[f64], random: &mut fastrand::Rng) -> usize {
    let drawn = random.f64() * sums.last().copied().unwrap_or_default();
    sums.partition_point(|sum| *sum < drawn).min(sums.len() - 1)
}

fn sums(count: usize) -> Vec<f64> {
    (1..=count)
        .scan(0.0, |sum, rank| {
            *sum += 1.0 / rank as f64;
            Some(*sum)
        })
        .collect()
}

/// Names: letters follow Zipf's law, too, so most begin with a few of them.
fn names(count: u64, random: &mut fastrand::Rng) -> Vec<String> {
    let letters = sums(LETTERS);
    let letter = |random: &mut fastrand::Rng| {
        char::from(b'a' + u8::try_from(zipf(&letters, random)).unwrap_or_default())
    };
    (0..count).map(|user| format!("{}{}{user}", letter(random), letter(random))).collect()
}

/// Count where rows (user, day) go under names and under digests.
pub(super) fn spread<S: Store>(
    store: &S,
    sizes: &Sizes,
    study: &mut Study,
    options: &LabOptions,
) -> Result<Spread> {
    let mut random = random(options, &[11, 4]);
    let names = names(sizes.users, &mut random);
    let activity = sums(names.len());
    let rows: Vec<(usize, u64)> =
        (0..sizes.rows as u64).map(|day| (zipf(&activity, &mut random), day)).collect();
    let mut each = vec![0u64; names.len()];
    for (user, _) in &rows {
        each[*user] += 1;
    }
    let busiest = each.iter().copied().max().unwrap_or_default() as f64 / rows.len() as f64;
    let counts = (each.iter().filter(|rows| **rows > 0).count() as u64, rows.len() as u64);
    let mut found = Spread { busiest, counts, ..Spread::default() };
    let space = Space::new(&("users",));
    let doing = "write the rows of users";
    for hashed in [false, true] {
        let kv = Traced::new(store.open_as(&sizes.setup()).map_err(failed(doing))?);
        let cuts = if hashed { digests(&space) } else { letters(&space) };
        let shards = Shards::new(cuts);
        let tall: TallTable<_, (String, u64)> = TallTable::open(&kv, &space).map_err(failed(doing))?;
        let table: Option<HashedTable<_, (String, u64)>> = hashed
            .then(|| HashedTable::open(&kv, &space, HashBy::PerField))
            .transpose()
            .map_err(failed(doing))?;
        let mut on = [0u64; SERVERS];
        let mut users: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); SERVERS];
        for batch in rows.chunks(BATCH) {
            let (done, accesses) = kv.trace(|| -> esker_layouts::Result<OpCost> {
                super::orders::in_one(&kv, |tx| {
                    batch.iter().try_for_each(|(user, day)| {
                        let key = (names[*user].clone(), *day);
                        match &table {
                            Some(table) => table.put_in(tx, &key, b""),
                            None => tall.put_in(tx, &key, b""),
                        }
                    })
                })
            });
            done.map_err(failed(doing))?;
            let keys = accesses.into_iter().filter_map(|access| match access {
                Access::Put(key, _) => Some(key),
                Access::Get(_) | Access::Scan(_) => None,
            });
            for (key, (user, _)) in keys.zip(batch) {
                let server = shards.server(&key);
                on[server] += 1;
                users[server].insert(*user);
            }
        }
        let distinct: Vec<u64> = users.iter().map(|users| users.len() as u64).collect();
        let operation = if hashed { "users under digests" } else { "users under names" };
        let formula = "every user's rows are on one server";
        study.compare(operation, formula, &distinct.iter().sum::<u64>(), &found.counts.0);
        study.compare(operation, "every row is on a server", &on.iter().sum::<u64>(), &found.counts.1);
        found.users[usize::from(hashed)] = Skew::of(&distinct).unwrap_or_default();
        found.rows[usize::from(hashed)] = Skew::of(&on).unwrap_or_default();
    }
    Ok(found)
}

/// Even cuts of the letters that names begin with; two letters decide.
fn letters(space: &Space) -> Vec<Vec<u8>> {
    let cut = |server: usize| {
        let pair = server * LETTERS * LETTERS / SERVERS;
        let letter = |place: usize| char::from(b'a' + u8::try_from(place).unwrap_or_default());
        space.key(&(format!("{}{}", letter(pair / LETTERS), letter(pair % LETTERS)),))
    };
    (1..SERVERS).map(cut).collect()
}

/// Even cuts of the digests.
fn digests(space: &Space) -> Vec<Vec<u8>> {
    (1..SERVERS).map(|server| space.key(&(ROWS, Uuid(slice_of_digests(server))))).collect()
}
