use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use proptest::prelude::*;

use super::*;
use crate::map::MapStore;
use crate::testing::{assert_block, contents, engine};
use crate::tuple::pack;

type Point = (u64, String);

fn point(time: u64, source: &str) -> Point {
    (time, source.to_owned())
}

fn open<S: OrderedKv>(store: &S, buckets: u32) -> SaltedTable<&S, Point> {
    SaltedTable::open(store, &Space::new(&("s",)), &Salt::new(buckets, &[0])).expect("open")
}

fn keys<S: OrderedKv>(table: &SaltedTable<&S, Point>, options: ScanOptions) -> Vec<Point> {
    let view = table.view().expect("view");
    let rows = view.rows(&(), options).expect("scan");
    rows.map(|row| row.expect("a row").0).collect()
}

#[test]
fn the_example_of_the_format_is_what_is_written() {
    let store = MapStore::new();
    let table = open(&store, 8);
    table.put(&point(1_356_998_400, "a"), b"1").expect("put");
    table.rebucket(&Salt::new(300, &[1, 0])).expect("rebucket");
    table.put(&point(1_356_998_401, "a"), b"2").expect("put");
    assert_block("salted", &store);
}

/// The slides' salt, `(byte) (Long.hashCode(timestamp) % servers)`, as Java computes it.
fn slides_salt(timestamp: i64, servers: i32) -> i8 {
    #[expect(clippy::cast_possible_truncation, reason = "Java's hash code folds the halves of a long")]
    let hash = (timestamp ^ ((timestamp.cast_unsigned() >> 32).cast_signed())) as i32;
    i8::try_from(hash % servers).expect("few servers")
}

/// 2013-01-01 in milliseconds, where the slides' example of a day lies.
const START: i64 = 1_356_998_400_000;

#[test]
fn the_slides_salt_puts_whole_seconds_in_one_bucket() {
    let day = || (0..86_400).map(|second| START + second * 1_000);
    for (servers, expected) in [(8, 1), (16, 2), (10, 5)] {
        let used: BTreeSet<i8> = day().map(|stamp| slides_salt(stamp, servers)).collect();
        assert_eq!(used.len(), expected, "{servers} servers");
        let buckets = u32::try_from(servers).expect("positive");
        let right: BTreeSet<u32> =
            day().filter_map(|stamp| Salt::new(buckets, &[0]).bucket(&[&pack(&(stamp,))])).collect();
        assert_eq!(right, (0..buckets).collect(), "the right hash uses all");
    }
}

#[test]
fn the_slides_salt_is_signed_so_readers_of_its_buckets_miss_rows() {
    // Every 997th millisecond of a hundred days.
    let stamps = || (0..8_640_000_000i64 / 997).map(|i| START + i * 997).step_by(7);
    let used: BTreeSet<i8> = stamps().map(|stamp| slides_salt(stamp, 8)).collect();
    assert_eq!(used, (-7..=7).collect(), "15 prefixes for 8 servers");
    let negative = stamps().filter(|&stamp| slides_salt(stamp, 8) < 0).count();
    let share = negative * 100 / stamps().count();
    assert!((40..=48).contains(&share), "{share} % lie where a reader of buckets 0 to 7 never looks");
    let salt = Salt::new(8, &[0]);
    let mut counts = [0usize; 8];
    for stamp in stamps().step_by(100) {
        let bucket = salt.bucket(&[&pack(&(stamp,))]).expect("the field is there");
        counts[usize::try_from(bucket).expect("small")] += 1;
    }
    let mean = counts.iter().sum::<usize>() / 8;
    assert!(counts.iter().all(|count| count.abs_diff(mean) < mean / 10), "even: {counts:?}");
}

#[test]
fn scans_are_in_order_and_read_little_more_than_they_return() {
    let store = engine();
    let table: SaltedTable<_, (String, u64)> =
        SaltedTable::open(&store, &Space::new(&("s",)), &Salt::new(16, &[0])).expect("open");
    for time in 0..500u64 {
        table.put(&(format!("source{}", time % 20), time), b"").expect("put");
    }
    let view = table.view().expect("view");
    let listed = view.cost();
    let own = view.rows(&("source7",), ScanOptions::new()).expect("scan");
    assert_eq!(own.fan_out(), 1, "the chosen field is given");
    assert_eq!(own.count(), 25);
    assert_eq!(view.cost().since(&listed).keys_read, 25);
    let source = || "source7".to_owned();
    let between = view.between((source(), 100)..=(source(), 207), ScanOptions::new()).expect("scan");
    assert_eq!((between.fan_out(), between.count()), (1, 6));
    let across = view.between((source(), 100)..("source8".to_owned(), 0), ScanOptions::new());
    assert_eq!(across.expect("scan").fan_out(), 16);
    let before = view.cost();
    let last = view.rows(&(), ScanOptions::new().reverse().limit(10)).expect("scan");
    assert_eq!(last.map(|row| row.expect("a row").0.1).next(), Some(489), "source9 is the last text");
    let cost = view.cost().since(&before);
    assert!(cost.keys_read <= 16 + 10, "one ahead per bucket: {cost:?}");
}

#[test]
fn bad_salts_keys_and_data_are_clear_errors() {
    let store = MapStore::new();
    for salt in [Salt::new(0, &[0]), Salt::new(BUCKETS_MAX + 1, &[0]), Salt::new(8, &[])] {
        let table = SaltedTable::<_, Point>::open(&store, &Space::new(&("s",)), &salt);
        assert!(matches!(table, Err(Error::BadInput { .. })));
    }
    let table: SaltedTable<_, Point> =
        SaltedTable::open(&store, &Space::new(&("s",)), &Salt::new(4, &[2])).expect("open");
    let error = table.put(&point(1, "a"), b"").expect_err("there is no field 2").to_string();
    assert_eq!(
        error,
        "key \"(1, \\\"a\\\")\" cannot be stored: the table is salted by fields [2] counted from 0"
    );
    for buckets in 5..12 {
        table.rebucket(&Salt::new(buckets, &[0])).expect("rebucket");
    }
    assert!(matches!(table.rebucket(&Salt::new(99, &[0])), Err(Error::BadInput { what: "salt", .. })));
    let done = store.update(|tx| {
        tx.put(&Space::new(&("s",)).key(&(EPOCHS,)), &pack(&((0, 2, 8, vec![0x14u8]),)));
        Ok(())
    });
    done.expect("commit");
    assert!(matches!(table.view(), Err(Error::Foreign { .. })), "an unknown hash");
    store.put(&table.epochs, &pack(&((u64::MAX, 1, 8, pack(&(0,))),))).expect("put");
    assert!(matches!(table.rebucket(&Salt::new(9, &[0])), Err(Error::Foreign { .. })), "no number is left");
}

#[test]
fn a_refused_row_leaves_nothing_in_the_transaction() {
    let store = engine();
    let table: SaltedTable<_, Point> =
        SaltedTable::open(&store, &Space::new(&("p",)), &Salt::new(4, &[2])).expect("open");
    table.rebucket(&Salt::new(4, &[1])).expect("rebucket");
    let before = contents(&store);
    let done = store.update(|tx| {
        assert!(table.put_in(tx, &point(1, "a"), b"").is_err(), "the older epoch is salted by field 2");
        assert!(table.delete_in(tx, &point(1, "a")).is_err());
        Ok(tx.cost())
    });
    let cost = done.expect("commit").cost;
    assert_eq!((cost.keys_written, cost.tombstones_written), (0, 0));
    assert_eq!(contents(&store), before);
}

/// Epochs put more or fewer bytes before a key. Where it would be too long no row can lie.
#[test]
fn a_key_may_fit_one_epoch_alone() {
    let store = engine();
    let max = store.caps().key_bytes_max;
    let table = open(&store, 1);
    let put_longest = || {
        let mut keys = (max - 30..=max).rev().map(|len| point(1, &"x".repeat(len)));
        keys.find(|key| table.put(key, b"v").is_ok()).expect("one is not too long")
    };
    let get = |key: &Point| table.view().and_then(|view| view.get(key)).expect("get");
    let key = put_longest();
    table.rebucket(&Salt::new(600, &[0])).expect("rebucket");
    let error = table.move_rows(1).expect_err("too long").to_string();
    assert!(error.starts_with("row \"(1, ") && error.contains("delete it, or rebucket"), "{error}");
    assert_eq!(get(&key).as_deref(), Some(&b"v"[..]), "but it is there");
    assert!(matches!(table.put(&key, b"w"), Err(Error::BadInput { what: "key", .. })));
    table.delete(&key).expect("delete");
    assert_eq!(get(&key), None);
    assert!(table.move_rows(1).expect("nothing is left to move").value.done);

    let shorter = put_longest();
    table.rebucket(&Salt::new(1, &[0])).expect("rebucket");
    let longer = put_longest();
    assert!(shorter.1.len() < longer.1.len() && longer.1.len() < key.1.len());
    assert_eq!(get(&longer).as_deref(), Some(&b"v"[..]));
    let nowhere = point(1, &"x".repeat(max));
    table.delete(&nowhere).expect("no row has it");
    assert_eq!(get(&nowhere), None);
    store.update(|tx| table.delete_in(tx, &longer)).expect("delete");
    assert_eq!((get(&longer), get(&shorter).as_deref()), (None, Some(&b"v"[..])));
    while !table.move_rows(1).expect("move").value.done {}
    assert_eq!(contents(&store).len(), 2, "the row and the list of epochs");
}

/// Lets the threads of a test end, whether it passes or not.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the promise is about writers beside the move")]
fn buckets_change_under_load() {
    let store = engine();
    let table = open(&store, 4);
    for time in 0..400 {
        table.put(&point(time, "old"), b"old").expect("put");
    }
    let (moving, stop, rounds) = (AtomicBool::new(false), AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let (table, moving, rounds) = (&table, &moving, &rounds);
        let (stop, _stops) = (&stop, Stops(&stop));
        // Two writers, each with its own half of the keys, end with all of them rewritten.
        let writers: Vec<_> = (0..2u64)
            .map(|writer| {
                scope.spawn(move || {
                    for round in 0..3u8 {
                        for time in (writer..400).step_by(2) {
                            // A row that is rewritten leaves the old epoch, which is not to be empty before rows are moved.
                            while !moving.load(Ordering::Relaxed) && !stop.load(Ordering::Relaxed) {
                                std::thread::yield_now();
                            }
                            if round == 1 && time % 5 == 0 {
                                table.delete(&point(time, "old")).expect("delete");
                            } else {
                                table.put(&point(time, "old"), &[round]).expect("put");
                            }
                        }
                    }
                })
            })
            .collect();
        let reader = scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let keys = keys(table, ScanOptions::new());
                assert!(keys.is_sorted() && keys.windows(2).all(|pair| pair[0] != pair[1]), "no key twice");
                assert!(keys.len() >= 400 - 80 - 2, "nothing is missing on the way: {}", keys.len());
                rounds.fetch_add(1, Ordering::Relaxed);
            }
        });
        for buckets in [16, 3] {
            moving.store(false, Ordering::Relaxed);
            assert!(table.rebucket(&Salt::new(buckets, &[0])).expect("rebucket"));
            assert!(!table.rebucket(&Salt::new(buckets, &[0])).expect("in force already"));
            assert!(!table.move_rows(7).expect("move").value.done);
            moving.store(true, Ordering::Relaxed);
            // However busy the machine is, a whole read begins and ends in the middle of the move.
            let whole = rounds.load(Ordering::Relaxed) + 2;
            while rounds.load(Ordering::Relaxed) < whole && !reader.is_finished() {
                std::thread::yield_now();
            }
            while !table.move_rows(7).expect("move").value.done {}
        }
        for writer in writers {
            writer.join().expect("no panic");
        }
        stop.store(true, Ordering::Relaxed);
        reader.join().expect("no panic");
    });
    assert_eq!(table.salt().expect("salt").buckets(), 3);
    let view = table.view().expect("view");
    for time in 0..400 {
        assert_eq!(view.get(&point(time, "old")).expect("get").as_deref(), Some(&[2u8][..]));
    }
    assert_eq!(contents(&store).len(), 401, "every row once, and the list of epochs");
}

/// Rows (1 to 20, "a") and (100, "c") in two buckets: a limit reached in one is no end of that bucket.
#[test]
fn a_byte_limit_leaves_no_gap() {
    let store = engine();
    let table = SaltedTable::open(&store, &Space::new(&("p",)), &Salt::new(8, &[1])).expect("open");
    for time in 1..=20 {
        table.put(&point(time, "a"), b"").expect("put");
    }
    table.put(&point(100, "c"), b"").expect("put");
    let bytes = |time: u64, source: &str| pack(&point(time, source)).len() as u64;
    let bucket = |source| Salt::new(8, &[1]).bucket_of(&pack(&point(1, source))).expect("a key");
    assert_ne!(bucket("a"), bucket("c"));
    let times = |options| keys(&table, options).into_iter().map(|key| key.0).collect::<Vec<_>>();
    let limited = ScanOptions::new().bytes_limit(60);
    let reached = 60u64.div_ceil(bytes(1, "a"));
    assert_eq!(times(limited), (1..=reached).collect::<Vec<_>>(), "up to the row that reaches 60 bytes");
    let behind = (60 - bytes(100, "c")).div_ceil(bytes(1, "a"));
    let expected: Vec<u64> = [100].into_iter().chain((21 - behind..=20).rev()).collect();
    assert_eq!(times(limited.reverse()), expected);
    let all: u64 = 20 * bytes(1, "a") + bytes(100, "c");
    assert_eq!(times(ScanOptions::new().bytes_limit(all)).len(), 21);
    assert_eq!(times(ScanOptions::new().bytes_limit(all - bytes(100, "c"))).len(), 20);
}

#[derive(Clone, Debug)]
enum Op {
    Put(u64, u8),
    Delete(u64),
    Rebucket(u32, u32),
    Move(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (0..30u64, any::<u8>()).prop_map(|(time, value)| Op::Put(time, value)),
        3 => (0..30u64).prop_map(Op::Delete),
        1 => (1..20u32, 0..2u32).prop_map(|(buckets, field)| Op::Rebucket(buckets, field)),
        1 => (1..9usize).prop_map(Op::Move),
    ]
}

fn equals_the_model<S: OrderedKv>(store: &S, ops: &[Op], options: ScanOptions) {
    let table = open(store, 5);
    let mut model: BTreeMap<Point, Vec<u8>> = BTreeMap::new();
    let key = |time: u64| point(time, ["x", "y"][usize::from(time.is_multiple_of(2))]);
    for op in ops {
        match *op {
            Op::Put(time, value) => {
                table.put(&key(time), &[value]).expect("put");
                model.insert(key(time), vec![value]);
            }
            Op::Delete(time) => {
                table.delete(&key(time)).expect("delete");
                model.remove(&key(time));
            }
            Op::Rebucket(buckets, field) => match table.rebucket(&Salt::new(buckets, &[field])) {
                Err(Error::BadInput { what: "salt", .. }) => {
                    while !table.move_rows(9).expect("move").value.done {}
                }
                done => assert!(done.is_ok()),
            },
            Op::Move(limit) => assert!(table.move_rows(limit).expect("move").value.rows <= limit),
        }
    }
    let view = table.view().expect("view");
    let all: Vec<_> = model.keys().cloned().collect();
    let mut expected = all.clone();
    if options.reverse {
        expected.reverse();
    }
    expected.truncate(options.limit.unwrap_or(usize::MAX));
    assert_eq!(keys(&table, options), expected);
    let some: Vec<_> =
        view.between(key(5)..key(17), options).expect("scan").map(|row| row.expect("a row").0).collect();
    let mut expected: Vec<_> = all.into_iter().filter(|k| (key(5)..key(17)).contains(k)).collect();
    if options.reverse {
        expected.reverse();
    }
    expected.truncate(options.limit.unwrap_or(usize::MAX));
    assert_eq!(some, expected);
    for time in 0..30 {
        let value = view.get(&key(time)).expect("get");
        assert_eq!(value.as_deref(), model.get(&key(time)).map(Vec::as_slice));
        let rows = view.rows(&(time,), ScanOptions::new()).expect("scan").count();
        assert_eq!(rows, usize::from(model.contains_key(&key(time))));
    }
    assert_eq!(contents(store).len(), model.len() + 1, "no row lies twice");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn equals_a_sorted_map(
        ops in prop::collection::vec(op(), 0..60),
        reverse in any::<bool>(),
        limit in prop::option::of(0..10usize),
    ) {
        let options = ScanOptions { reverse, limit, ..ScanOptions::new() };
        equals_the_model(&MapStore::new(), &ops, options);
        equals_the_model(&engine(), &ops, options);
    }
}
