use esker_layouts::OpCost;
use esker_layouts::kv::{Costed, KvRead, OrderedKv, ScanOptions};
use esker_layouts::map::MapStore;
use esker_layouts::tuple::KeyRange;

use super::cluster::Skew;
use super::queue::{Stop, p99};
use super::*;
use crate::lab::store::{EngineFactory, MapFactory};
use crate::lab::study::{Claim, Exhibit};
use crate::lab::verdict::Outcome;
use crate::lab::{LabError, Silent};

fn tiny() -> LabOptions {
    LabOptions::new(Scale::Tiny, vec![Experiment::X11])
}

/// The outcome of each claim, without the one on disks, which only some stores can tell.
fn outcomes(study: &Study) -> Vec<Outcome> {
    let told = |claim: &&Claim| claim.rows != "section 4.1";
    study.claims.iter().filter(told).map(|claim| claim.verdict.outcome).collect()
}

#[test]
fn every_cost_equals_its_formula_on_both_stores() {
    let on_map = run(&MapFactory, &tiny(), &mut Silent).expect("the lab runs");
    let on_engine = run(&EngineFactory, &tiny(), &mut Silent).expect("the lab runs");
    let (yes, no) = (Outcome::Reproduced, Outcome::Refuted);
    for study in [&on_map, &on_engine] {
        study.expect_counted();
        // C6, the slides' formula, C7, the list of epochs, C8, C9, C10.
        assert_eq!(outcomes(study), [yes, no, yes, no, yes, yes, yes]);
    }
    assert_eq!(on_map.compared(), on_engine.compared(), "the same questions");
    // 8 orders: 512 puts counted and routed, 3 range reads, 30 gets; two orders read as the slides tell.
    assert_eq!(on_map.compared(), 8 * (2 * 512 + 3 + 30) + 2 * 3);
    assert_eq!(on_engine.claims.len(), on_map.claims.len() + 1, "the engine tells what it writes");
}

/// Every order's range read, replayed on the whole table, costs what the read cost without the wrapper.
fn replays_cost_what_was_read<S: Store>(store: &S) {
    let happened = events::events(&sizes(&tiny()), &tiny());
    for order in Order::ALL {
        let events: Vec<Event> = happened.iter().map(|event| order.stamp(*event)).collect();
        let kv = Traced::new(store.open().expect("open"));
        let table = RealEvents.open(&kv, order).expect("a table");
        table.put_all(&events).expect("put");
        let (from, to) = (events[100].time, events[200].time);
        let bare = RealEvents.open(kv.store(), order).expect("the table").between(from, to).expect("read");
        let (traced, accesses) = kv.trace(|| table.between(from, to));
        assert_eq!(traced.expect("read"), bare, "{}", order.name());
        let mut replayed = OpCost::default();
        for access in &accesses {
            replayed.add(&serve::ask(kv.store(), access).expect("asked again"));
        }
        assert_eq!(replayed, bare.cost, "{}", order.name());
    }
}

#[test]
fn a_range_read_costs_what_it_does_without_the_wrapper_and_so_does_its_replay() {
    replays_cost_what_was_read(&MapFactory);
    replays_cost_what_was_read(&EngineFactory);
}

#[test]
fn of_a_scan_what_was_read_is_written_down() {
    let kv = Traced::new(MapStore::new());
    for key in [b"a", b"b", b"c"] {
        kv.put(key, b"").expect("put");
    }
    let range = |start: &[u8], end: &[u8]| KeyRange { start: start.to_vec(), end: Some(end.to_vec()) };
    let all = range(b"a", b"d");
    let scan = |options: ScanOptions, rows: usize| {
        let (done, accesses) = kv.trace(|| {
            let read = kv.read()?;
            read.scan(all.clone(), options)?.take(rows).try_for_each(|row| row.map(drop))
        });
        done.expect("scan");
        accesses
    };
    let (forward, back) = (ScanOptions::new(), ScanOptions::new().reverse());
    assert_eq!(scan(forward, 0), []);
    assert_eq!(scan(forward, 2), [Access::Scan(range(b"a", b"b\0"))]);
    assert_eq!(scan(forward.limit(2), 9), [Access::Scan(range(b"a", b"b\0"))]);
    assert_eq!(scan(back, 1), [Access::Scan(range(b"c", b"d"))]);
    for options in [forward, back, forward.limit(4)] {
        assert_eq!(scan(options, 9), [Access::Scan(all.clone())]);
    }
}

#[test]
fn what_is_modelled_says_so() {
    let study = run(&MapFactory, &tiny(), &mut Silent).expect("the lab runs");
    let computed = ["makespan", "99th percentile", "times as fast", "slowest part"];
    let marked = |text: &str| {
        let about = computed.iter().any(|word| text.contains(word));
        assert!(!about || text.contains("modelled"), "{text}");
        about
    };
    let mut found = 0;
    for claim in &study.claims {
        found += usize::from(marked(&claim.timed));
    }
    for exhibit in &study.exhibits {
        let texts: Vec<&str> = match exhibit {
            Exhibit::Table(table) => table.columns.iter().map(|column| column.name.as_str()).collect(),
            Exhibit::Bars(bars) => vec![&bars.title, &bars.value.label],
            Exhibit::Lines(lines) => vec![&lines.title, &lines.y.label],
            Exhibit::Raster(raster) => vec![&raster.title],
            Exhibit::Heat(heat) => vec![&heat.title],
        };
        found += texts.into_iter().filter(|text| marked(text)).count();
    }
    assert!(found >= 10, "{found}");
    assert!(study.notes[0].contains("Nothing modelled was observed on a cluster"));
}

#[test]
fn shards_are_found_by_key_and_by_range() {
    let shards = Shards::new((1..40u8).map(|cut| vec![cut]).collect());
    assert_eq!((shards.server(&[]), shards.server(&[0, 9]), shards.server(&[1])), (0, 0, 1));
    assert_eq!(shards.server(&[17, 5]), 1, "shards go round the servers");
    let servers = |start: &[u8], end: Option<&[u8]>| {
        let range = KeyRange { start: start.to_vec(), end: end.map(<[u8]>::to_vec) };
        shards.servers(&range).into_iter().collect::<Vec<_>>()
    };
    assert_eq!(servers(&[2, 1], Some(&[4])), [2, 3], "an end on a cut leaves the next shard out");
    assert_eq!(servers(&[2], Some(&[4, 0])), [2, 3, 4]);
    assert_eq!(servers(&[38], None), [6, 7]);
    assert_eq!(servers(&[], None).len(), SERVERS);
}

#[test]
fn shards_that_split_move_their_upper_half_to_the_emptiest_server() {
    let mut splitting = Splitting::new(4);
    let servers: Vec<usize> = (0..9u8).map(|key| splitting.put(&[key])).collect();
    // The fifth row makes the first shard two, the upper one on server 1 with rows 2, 3 and 4; there the next
    // two rows make it two again.
    assert_eq!(servers, [0, 0, 0, 0, 0, 1, 1, 2, 2]);
    assert_eq!(splitting.shards(), 4);
    assert_eq!(splitting.put(&[0]), 0, "an old row is where it was");
}

#[test]
fn skew_is_that_of_shares() {
    let mut one = [0; SERVERS];
    one[3] = 7;
    let hot = Skew::of(&one).expect("work");
    assert!((hot.top - 1.0).abs() < 1e-9 && (hot.effective - 1.0).abs() < 1e-9);
    assert!((hot.top_to_mean - 16.0).abs() < 1e-9 && (hot.variation - 15f64.sqrt()).abs() < 1e-9);
    let even = Skew::of(&[5; SERVERS]).expect("work");
    assert!((even.effective - 16.0).abs() < 1e-9 && even.variation.abs() < 1e-9);
    assert_eq!(Skew::of(&[0; SERVERS]), None);
    // A hot server that wanders is even in the sum and hot in every window.
    let wandering: Vec<[u64; SERVERS]> =
        (0..SERVERS).map(|hot| std::array::from_fn(|server| u64::from(server == hot))).collect();
    assert!((Skew::mean(&wandering).effective - 1.0).abs() < 1e-9);
    assert!((Skew::total(&wandering).effective - 16.0).abs() < 1e-9);
}

#[test]
fn a_line_grows_where_one_server_has_all_the_work() {
    let hot: Vec<Vec<Stop>> = vec![vec![Stop { server: 0, service: 10.0 }]; 1_000];
    let spread: Vec<Vec<Stop>> =
        (0..1_000).map(|i| vec![Stop { server: i % SERVERS, service: 10.0 }]).collect();
    let p99 = |requests: &[Vec<Stop>], every| p99(requests.iter().map(Vec::as_slice), every);
    assert!((p99(&hot, 10.0) - 10.0).abs() < 1e-9, "it just keeps up");
    assert!(p99(&hot, 5.0) > 4_900.0, "half the work waits");
    assert!((p99(&spread, 5.0) - 10.0).abs() < 1e-9);
    // Two stops are made one after the other.
    let two = vec![vec![Stop { server: 0, service: 1.0 }, Stop { server: 1, service: 2.0 }]];
    assert!((p99(&two, 1.0) - 3.0).abs() < 1e-9);
}

#[test]
fn the_slides_salt_is_java_s() {
    // 2013-01-01: (byte) (Long.hashCode(1356998400000L) % 16) is 8·k or its negative for whole seconds.
    let seconds: std::collections::BTreeSet<i8> =
        (0..86_400).map(|second| slides::prefix(1_356_998_400_000 + second * 1_000)).collect();
    assert_eq!(seconds.len(), 2);
    let millis: std::collections::BTreeSet<i8> =
        (0..100_000).map(|step| slides::prefix(1_356_998_400_000 + step * 86_399)).collect();
    assert_eq!(millis, (-15..=15).collect());
    assert_eq!(
        usize::from(slides::PREFIXES.unsigned_abs()),
        SERVERS,
        "one a server, as the slides have it"
    );
}

/// Tables of somebody who salts with one bucket, forgets to hash, and reads the table before a growing put.
struct Careless;

struct ReadsFirst<'k> {
    store: &'k Traced<MapStore>,
    inner: Box<dyn Events + 'k>,
}

impl Events for ReadsFirst<'_> {
    fn put(&self, event: Event) -> esker_layouts::Result<OpCost> {
        let read = self.store.read()?;
        read.scan(KeyRange::all(), ScanOptions::new().limit(1))?.for_each(drop);
        let mut cost = read.cost();
        cost.add(&self.inner.put(event)?);
        Ok(cost)
    }
    fn put_all(&self, events: &[Event]) -> esker_layouts::Result<OpCost> {
        self.inner.put_all(events)
    }
    fn get(&self, event: Event) -> esker_layouts::Result<Costed<bool>> {
        self.inner.get(event)
    }
    fn between(&self, from: u64, to: u64) -> esker_layouts::Result<Costed<Vec<Event>>> {
        self.inner.between(from, to)
    }
}

impl OpenEvents<Traced<MapStore>> for Careless {
    fn open<'k>(
        &self,
        store: &'k Traced<MapStore>,
        order: Order,
    ) -> esker_layouts::Result<Box<dyn Events + 'k>> {
        match order {
            Order::Growing => {
                Ok(Box::new(ReadsFirst { store, inner: RealEvents.open(store, Order::Growing)? }))
            }
            Order::Salted(_) => RealEvents.open(store, Order::Salted(1)),
            Order::Hashed => RealEvents.open(store, Order::Promoted),
            other => RealEvents.open(store, other),
        }
    }
}

#[test]
fn wrong_tables_come_out_as_mismatches() {
    let study = run_with(&MapFactory, &Careless, &tiny(), &mut Silent).expect("the answers are right");
    let wrong: Vec<&str> = study
        .formulas
        .iter()
        .filter(|formula| !formula.tally.all_equal())
        .map(|formula| formula.operation.as_str())
        .collect();
    let mut expected = vec![
        "growing keys: put",
        "4 buckets: events between two times",
        "16 buckets: events between two times",
        "64 buckets: events between two times",
        "MD5 of the key: put",
        "MD5 of the key: route a put",
        "MD5 of the key: events between two times",
    ];
    let mut found = wrong;
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
    let claim = |rows: &str| {
        let claim = study.claims.iter().find(|claim| claim.rows == rows).expect("a claim");
        claim.verdict.outcome
    };
    assert_eq!(claim("C6"), Outcome::ShapeOnly, "it is as hot, and costs more");
    assert_eq!(claim("C7"), Outcome::NotReproduced, "one bucket spreads nothing");
    assert_eq!(claim("C9"), Outcome::NotReproduced);
}

/// Loses an event of each range.
struct Loses;

struct Lossy<'k>(Box<dyn Events + 'k>);

impl Events for Lossy<'_> {
    fn put(&self, event: Event) -> esker_layouts::Result<OpCost> {
        self.0.put(event)
    }
    fn put_all(&self, events: &[Event]) -> esker_layouts::Result<OpCost> {
        self.0.put_all(events)
    }
    fn get(&self, event: Event) -> esker_layouts::Result<Costed<bool>> {
        self.0.get(event)
    }
    fn between(&self, from: u64, to: u64) -> esker_layouts::Result<Costed<Vec<Event>>> {
        let mut found = self.0.between(from, to)?;
        found.value.pop();
        Ok(found)
    }
}

impl<K: OrderedKv> OpenEvents<K> for Loses {
    fn open<'k>(&self, store: &'k K, order: Order) -> esker_layouts::Result<Box<dyn Events + 'k>> {
        Ok(Box::new(Lossy(RealEvents.open(store, order)?)))
    }
}

#[test]
fn a_wrong_answer_stops_the_lab() {
    let error = run_with(&MapFactory, &Loses, &tiny(), &mut Silent).expect_err("it loses events");
    assert!(matches!(error, LabError::WrongResult { .. }), "{error}");
}
