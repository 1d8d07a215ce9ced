//! A layout of one's own, measured as the lab measures its own: when was a user last seen, and who was seen
//! last?
//!
//! Two keys a user: `("at", user)` holds the moment, `("by", newest first, user)` lists users by it. A visit
//! moves the second key, so it has to read the first; the latest users are then the first rows of a scan,
//! however many there are. Prints the report of both stores.
//!
//! ```text
//! cargo run --release -p esker-bench --example own_layout
//! ```

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;

use esker_bench::lab::harness::{Harness, Operation, Subject};
use esker_bench::lab::model::{Counters, Form};
use esker_bench::lab::store::{EngineFactory, MapFactory};
use esker_bench::lab::{LabOptions, Report, Scale};
use esker_layouts::kv::{Costed, KvRead, KvTx, OrderedKv, Row, ScanOptions};
use esker_layouts::tuple::{Desc, Space, pack, unpack};
use esker_layouts::{OpCost, Result};

// The layout: as it would be written for use.

/// The moment `user` was seen last becomes `now`.
fn seen<K: OrderedKv>(kv: &K, user: u64, now: u64) -> Result<OpCost> {
    let done = kv.update(|tx| {
        let at = pack(&("at", user));
        if let Some(before) = tx.get(&at)? {
            let (before,): (u64,) = unpack(&before)?;
            tx.delete(&pack(&("by", Desc(before), user)));
        }
        tx.put(&at, &pack(&(now,)));
        tx.put(&pack(&("by", Desc(now), user)), b"");
        Ok(())
    })?;
    Ok(done.cost)
}

/// The `count` users who were seen last.
fn latest<K: OrderedKv>(kv: &K, count: usize) -> Result<Costed<Vec<u64>>> {
    let (read, by) = (kv.read()?, Space::new(&("by",)));
    let rows = read.scan(by.under(&()), ScanOptions::new().keys_only().limit(count))?;
    let user = |row: Result<Row>| -> Result<u64> {
        let (key, _) = row?;
        let (_, user): (Desc<u64>, u64) = by.unpack(&key)?;
        Ok(user)
    };
    let users = rows.map(user).collect::<Result<_>>()?;
    Ok(Costed { value: users, cost: read.cost() })
}

// What it must cost and answer: a mirror in memory knows.

const LATEST: usize = 3;

enum Call {
    Seen { user: u64, now: u64 },
    Latest,
}

#[derive(Default)]
struct LastSeen {
    at: BTreeMap<u64, u64>,
    by: BTreeSet<(Reverse<u64>, u64)>,
    now: u64,
}

impl LastSeen {
    /// Note a visit; whether the user was there before.
    fn note(&mut self, user: u64, now: u64) -> bool {
        let before = self.at.insert(user, now);
        self.by.insert((Reverse(now), user));
        before.is_some_and(|before| self.by.remove(&(Reverse(before), user)))
    }
}

impl<K: OrderedKv> Subject<K> for LastSeen {
    type Call = Call;
    type Answer = Vec<u64>;

    fn name(&self) -> &'static str {
        "last seen"
    }

    fn operations(&self) -> Vec<Operation> {
        let seen = "0 or 1 key read, 2 written, 1 removed if it was read, 2 calls";
        vec![
            Operation { name: "seen", formula: seen, growth: Form::Constant },
            Operation { name: "latest 3", formula: "3 keys, 1 call", growth: Form::Constant },
        ]
    }

    fn fill(&mut self, kv: &K, size: u64, _random: &mut fastrand::Rng) -> Result<()> {
        self.now = size;
        (0..size).try_for_each(|user| {
            self.note(user, user);
            seen(kv, user, user).map(drop)
        })
    }

    fn plan(&mut self, operation: usize, random: &mut fastrand::Rng) -> Call {
        if operation == 1 {
            return Call::Latest;
        }
        self.now += 1;
        // One in five is new.
        Call::Seen { user: random.u64(..self.now * 5 / 4), now: self.now }
    }

    fn expected(&mut self, call: &Call) -> (Counters, Vec<u64>) {
        match *call {
            Call::Seen { user, now } => {
                let known = u64::from(self.note(user, now));
                (Counters { read: known, written: 2, tombstones: known, calls: 2 }, Vec::new())
            }
            Call::Latest => {
                let users: Vec<u64> = self.by.iter().take(LATEST).map(|(_, user)| *user).collect();
                (Counters { read: users.len() as u64, calls: 1, ..Counters::default() }, users)
            }
        }
    }

    fn run(&self, kv: &K, call: &Call) -> Result<Costed<Vec<u64>>> {
        match *call {
            Call::Seen { user, now } => Ok(Costed { value: Vec::new(), cost: seen(kv, user, now)? }),
            Call::Latest => latest(kv, LATEST),
        }
    }
}

/// Measure it on the engine and on the map.
fn measure(scale: Scale) -> std::result::Result<[Report; 2], Box<dyn Error>> {
    let options = LabOptions::new(scale, Vec::new());
    let (mut on_engine, mut on_map) =
        (Harness::new("Last seen", options.clone()), Harness::new("Last seen", options));
    on_engine.add(LastSeen::default);
    on_map.add(LastSeen::default);
    Ok([on_engine.run(&EngineFactory)?, on_map.run(&MapFactory)?])
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let scale = if cfg!(debug_assertions) { Scale::Tiny } else { Scale::Smoke };
    for report in measure(scale)? {
        println!("{}", report.to_text());
        if !report.counters_equal() {
            return Err("a counter differs from its formula".into());
        }
    }
    Ok(())
}

#[test]
fn every_operation_costs_what_the_formula_says_on_both_stores() {
    for report in measure(Scale::Tiny).expect("it runs") {
        assert!(report.counters_equal(), "{}", report.to_text());
        assert_eq!(report.compared(), 2 * 3 * 10 * 2);
        assert!(report.to_html().contains("last seen: latest 3"));
    }
}
