//! X6: how long is a name? Ids of 4 to 256 bytes in the keys of followers, concatenated (V4) and hashed per
//! field (V5): bytes on disk, entries a block, time an operation, and the length from which the hash pays.
//!
//! Tables always store what neighbouring keys share but once; there is no switch. What that saves is
//! weighed by a *scrambled* store: as many keys of the same lengths, of random bytes, so that neighbours share
//! next to nothing and everything else is as before.
//!
//! [`ids`] makes the names, [`sizes`] weighs other layouts, [`findings`] judges and draws.

mod findings;
mod ids;
mod sizes;

use std::collections::BTreeMap;
use std::hint::black_box;

use esker_layouts::OpCost;
use esker_layouts::followers::{FriendStore, Layout, digest};
use esker_layouts::kv::{Costed, OrderedKv};
use ids::Shape;

use super::random;
use super::samples::{Samples, failed, right};
use super::weighed::{Row, Weighed, at_rest, for_loads, put_all, weigh};
use crate::lab::store::Store;
use crate::lab::study::Study;
use crate::lab::{Experiment, LabOptions, OpenLayout, Progress, Result, Scale, stopwatch};

/// The two layouts, with the names they have in the report.
const WAYS: [(Layout, &str); 2] = [(Layout::Row, "V4"), (Layout::Hash, "V5")];
/// Ids nobody reads.
const STRANGERS: usize = 64;
/// Pairs hashed between two looks at the clock.
const HASHED: usize = 50;

struct Sizes {
    lengths: &'static [usize],
    users: usize,
    degree: usize,
    /// Operations of each kind.
    samples: usize,
}

impl Sizes {
    fn facts(&self) -> u64 {
        (self.users * self.degree) as u64
    }
}

fn sizes_of(scale: Scale) -> Sizes {
    match scale {
        Scale::Tiny => Sizes { lengths: &[4, 16, 64], users: 20, degree: 5, samples: 4 },
        Scale::Smoke => Sizes { lengths: &[4, 16, 64, 256], users: 50, degree: 20, samples: 200 },
        Scale::Desk => {
            Sizes { lengths: &[4, 8, 16, 32, 64, 128, 256], users: 5_000, degree: 20, samples: 2_000 }
        }
        Scale::Large => {
            Sizes { lengths: &[4, 8, 16, 32, 64, 128, 256], users: 50_000, degree: 20, samples: 5_000 }
        }
    }
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Asked {
    Present,
    Absent,
    Add,
    Remove,
}

impl Asked {
    const ALL: [Asked; 4] = [Asked::Present, Asked::Absent, Asked::Add, Asked::Remove];

    fn name(self) -> &'static str {
        match self {
            Asked::Present => "check a friend",
            Asked::Absent => "check a stranger",
            Asked::Add => "add",
            Asked::Remove => "delete",
        }
    }
}

/// What was measured; ways by their names.
#[derive(Default)]
struct Measured {
    times: BTreeMap<(Shape, usize, &'static str, Asked), Samples>,
    weights: BTreeMap<(Shape, usize, &'static str), Weighed>,
    /// As many keys as long as those of ids of one length, of random bytes; the same for both such shapes.
    scrambled: BTreeMap<(usize, &'static str), Weighed>,
    /// Two digests, by length of the ids hashed.
    hashes: BTreeMap<usize, Vec<f64>>,
}

pub(in crate::lab) fn run<S: Store>(
    store: &S,
    layouts: &impl OpenLayout<S::Kv>,
    options: &LabOptions,
    progress: &mut dyn Progress,
) -> Result<Study> {
    let sizes = sizes_of(options.scale);
    let mut lengths = sizes.lengths.to_vec();
    random(options, &[6, 1]).shuffle(&mut lengths);
    progress.begin(Experiment::X6, lengths.len() as u64 + 1);
    let mut study = Study::new("X6", "", "A12, A23, B11, B13, B19", "");
    let mut measured = Measured::default();
    for length in lengths {
        let cases = Shape::ALL.map(|shape| Case::new(shape, length, &sizes, options));
        ask(store, layouts, &cases, &mut study, &mut measured)?;
        progress.step(&format!("ids of {length} bytes"));
    }
    let layouts = sizes::weigh_layouts(store, layouts, &sizes, &mut study, options)?;
    progress.step("key sizes of the layouts");
    Ok(findings::study(study, &measured, &layouts, &sizes, options))
}

/// Ids of one shape and length, and who reads whom.
struct Case<'a> {
    shape: Shape,
    length: usize,
    sizes: &'a Sizes,
    options: &'a LabOptions,
    /// Users, then strangers.
    ids: Vec<String>,
    /// Friends of each user, all of them users.
    friends: Vec<Vec<usize>>,
}

/// What one operation must cost on either store: calls, keys read, keys and tombstones written, bytes read and
/// written.
type Expected = (u64, u64, (u64, u64), (u64, u64));

fn counted(cost: &OpCost) -> Expected {
    let OpCost { calls, keys_read, keys_written, tombstones_written, bytes_read, bytes_written, .. } =
        *cost;
    (calls, keys_read, (keys_written, tombstones_written), (bytes_read, bytes_written))
}

/// Bytes of the key and the value of a fact: a text is one byte longer at both ends, a digest has 16.
fn bytes_of(way: Layout, user: &str, friend: &str) -> (u64, u64) {
    let both = (user.len() + friend.len()) as u64;
    if way == Layout::Hash { (32, both + 4) } else { (both + 3, 0) }
}

impl<'a> Case<'a> {
    fn new(shape: Shape, length: usize, sizes: &'a Sizes, options: &'a LabOptions) -> Case<'a> {
        let mut random = random(options, &[6, 2, length as u64]);
        let ids = ids::ids(shape, length, sizes.users + STRANGERS, &mut random);
        let friends =
            (0..sizes.users).map(|_| random.choose_multiple(0..sizes.users, sizes.degree)).collect();
        Case { shape, length, sizes, options, ids, friends }
    }

    /// A store with all facts in one layout, all of it read once, and what it weighs.
    fn load<S: Store>(
        &self,
        store: &S,
        layouts: &impl OpenLayout<S::Kv>,
        way: Layout,
        name: &'static str,
        study: &mut Study,
        measured: &mut Measured,
    ) -> Result<S::Kv> {
        let setup = for_loads();
        let kv = store.open_as(&setup).map_err(failed("open a store"))?;
        let layout = layouts.open(&kv, way).map_err(failed("open the layout"))?;
        let (mut key_bytes, mut value_bytes) = (0, 0);
        for (user, friends) in self.friends.iter().enumerate() {
            let friends: Vec<&str> = friends.iter().map(|friend| self.ids[*friend].as_str()).collect();
            layout.load(&self.ids[user], &friends).map_err(failed("load the layout"))?;
            for friend in friends {
                let (key, value) = bytes_of(way, &self.ids[user], friend);
                key_bytes += key;
                value_bytes += value;
            }
        }
        drop(layout);
        let kv = at_rest(store, kv, &setup)?;
        let mut rows: Vec<Row> = Vec::new();
        let mut random = random(self.options, &[6, 10, self.length as u64]);
        let weighed = weigh(&kv, |key, value| {
            rows.push((std::iter::repeat_with(|| random.u8(..)).take(key.len()).collect(), value.to_vec()));
        })?;
        let totals = |weighed: &Weighed| (weighed.keys, weighed.key_bytes, weighed.value_bytes);
        let formula = "a key a fact: both ids and 3 bytes (V4), 32 bytes and the ids in the value (V5)";
        let expected = (self.sizes.facts(), key_bytes, value_bytes);
        study.compare(&format!("{name}: everything"), formula, &totals(&weighed), &expected);
        measured.weights.insert((self.shape, self.length, name), weighed);
        if self.shape == Shape::Random {
            let other = store.open_as(&setup).map_err(failed("open a store"))?;
            put_all(&other, &rows)?;
            let scrambled = weigh(&at_rest(store, other, &setup)?, |_, _| ())?;
            let operation = format!("{name}: scrambled");
            study.compare(&operation, "as many keys and bytes", &totals(&scrambled), &expected);
            measured.scrambled.insert((self.length, name), scrambled);
        }
        Ok(kv)
    }

    /// Ask for every fact once: whatever is asked from then on is in the caches.
    fn warm(&self, layout: &dyn FriendStore, name: &'static str) -> Result<()> {
        for (user, friends) in self.friends.iter().enumerate() {
            for friend in friends {
                let found = layout.check(&self.ids[user], &self.ids[*friend]).map_err(failed("check"))?;
                right(name, "check", &found.value, &true)?;
            }
        }
        Ok(())
    }

    /// How long the two digests of a key take.
    fn hash(&self) -> Vec<f64> {
        let mut random = random(self.options, &[6, 4, self.length as u64]);
        let pairs: Vec<[&str; 2]> = (0..HASHED)
            .map(|_| [(); 2].map(|()| self.ids[random.usize(..self.ids.len())].as_str()))
            .collect();
        let batches = self.sizes.samples.div_ceil(HASHED).max(10);
        let batch = |_| {
            let ((), nanos) = stopwatch::timed(|| {
                for id in pairs.as_flattened() {
                    black_box(digest(black_box(id)));
                }
            });
            nanos as f64 / HASHED as f64
        };
        (0..batches).map(batch).collect()
    }
}

/// A case in one layout, open.
struct Open<'k> {
    case: &'k Case<'k>,
    layout: Box<dyn FriendStore + 'k>,
    way: Layout,
    name: &'static str,
}

/// Load all `cases`, which have one length, in both layouts, and ask them the same in turns.
fn ask<S: Store>(
    store: &S,
    layouts: &impl OpenLayout<S::Kv>,
    cases: &[Case<'_>],
    study: &mut Study,
    measured: &mut Measured,
) -> Result<()> {
    let mut stores = Vec::new();
    for case in cases {
        for (way, name) in WAYS {
            stores.push((case, way, name, case.load(store, layouts, way, name, study, measured)?));
        }
        if case.shape == Shape::Random {
            measured.hashes.insert(case.length, case.hash());
        }
    }
    let mut open = Vec::new();
    for (case, way, name, kv) in &stores {
        let layout = open_layout(layouts, kv, *way)?;
        case.warm(layout.as_ref(), name)?;
        open.push(Open { case, layout, way: *way, name });
    }
    let Some(Case { sizes, options, length, .. }) = cases.first() else { return Ok(()) };
    let mut random = random(options, &[6, 3, *length as u64]);
    for _ in 0..sizes.samples {
        let user = random.usize(..sizes.users);
        let (friend, stranger) = (random.usize(..sizes.degree), random.usize(..STRANGERS));
        random.shuffle(&mut open);
        for asked in Asked::ALL {
            for open in &open {
                open.ask(asked, user, friend, stranger, study, measured)?;
            }
        }
    }
    Ok(())
}

fn open_layout<'k, K: OrderedKv>(
    layouts: &impl OpenLayout<K>,
    kv: &'k K,
    way: Layout,
) -> Result<Box<dyn FriendStore + 'k>> {
    layouts.open(kv, way).map_err(failed("open the layout"))
}

impl Open<'_> {
    /// One operation of the user numbered `user`, with its friend or the stranger of these numbers.
    fn ask(
        &self,
        asked: Asked,
        user: usize,
        friend: usize,
        stranger: usize,
        study: &mut Study,
        measured: &mut Measured,
    ) -> Result<()> {
        let Open { case, layout, way, name } = self;
        let whom = match asked {
            Asked::Present => case.friends[user][friend],
            Asked::Absent | Asked::Add | Asked::Remove => case.sizes.users + stranger,
        };
        let (user, whom) = (case.ids[user].as_str(), case.ids[whom].as_str());
        let samples = measured.times.entry((case.shape, case.length, *name, asked)).or_default();
        let (key, value) = bytes_of(*way, user, whom);
        let unit = |cost| Costed { value: (), cost };
        let (cost, formula, expected): (_, _, Expected) = match asked {
            Asked::Present | Asked::Absent => {
                let done = samples.call(asked.name(), || layout.check(user, whom))?;
                right(name, asked.name(), &done.value, &(asked == Asked::Present))?;
                if asked == Asked::Present {
                    (done.cost, "1 call, 1 key, its bytes", (1, 1, (0, 0), (key + value, 0)))
                } else {
                    (done.cost, "1 call, no key", (1, 0, (0, 0), (0, 0)))
                }
            }
            Asked::Add => {
                let done = samples.call("add", || layout.add(user, whom).map(unit))?;
                (done.cost, "1 call, 1 key written", (1, 0, (1, 0), (0, key + value)))
            }
            Asked::Remove => {
                let done = samples.call("delete", || layout.remove(user, whom).map(unit))?;
                (done.cost, "1 call, 1 tombstone", (1, 0, (0, 1), (0, key)))
            }
        };
        study.compare(&format!("{name}: {}", asked.name()), formula, &counted(&cost), &expected);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
