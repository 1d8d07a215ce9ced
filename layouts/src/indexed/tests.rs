mod nulls;
mod refused;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use proptest::prelude::*;

use super::*;
use crate::kv::{Caps, Costed, KeyRange, ScanOptions};
use crate::map::{MapRead, MapScan, MapStore, MapTx};
use crate::testing::{assert_block, contents, engine};
use crate::tuple::{pack, unpack};

/// A row of the tests: (mail or null, city, age).
type User = (Option<String>, String, i64);

fn user(mail: &str, city: &str, age: i64) -> Vec<u8> {
    let mail = Some(mail).filter(|mail| !mail.is_empty());
    pack(&(mail, city, age))
}

fn mail() -> Index<(u64,)> {
    Index::unique("mail", 1, |_: &(u64,), row| {
        let (mail, city, _): User = unpack(row)?;
        Ok(vec![Entry::new(&(mail,)).including(city.as_bytes())])
    })
}

/// Compound and covering.
fn city() -> Index<(u64,)> {
    Index::multi("city", 2, |_: &(u64,), row| {
        let (mail, city, age): User = unpack(row)?;
        Ok(vec![Entry::new(&(city, age)).including(mail.unwrap_or_default().as_bytes())])
    })
}

/// Any number of entries: each letter of the city.
fn letters() -> Index<(u64,)> {
    Index::multi("letters", 1, |_: &(u64,), row| {
        let (_, city, _): User = unpack(row)?;
        Ok(city.chars().map(|letter| Entry::new(&(letter.to_string(),))).collect())
    })
}

fn space() -> Space {
    Space::new(&("u",))
}

fn open<S: OrderedKv>(store: &S, indexes: Vec<Index<(u64,)>>) -> IndexedTable<&S, (u64,)> {
    IndexedTable::open(store, &space(), indexes).expect("open")
}

fn all() -> ScanOptions {
    ScanOptions::new()
}

fn ids<S: OrderedKv>(
    table: &IndexedTable<&S, (u64,)>,
    index: &str,
    fields: &impl crate::tuple::Pack,
) -> Vec<u64> {
    let hits = table.view().and_then(|view| view.lookup(index, fields, all())).expect("lookup");
    hits.into_iter().map(|hit| hit.key.0).collect()
}

fn assert_verifies<S: OrderedKv>(table: &IndexedTable<&S, (u64,)>) {
    let report = table.view().and_then(|view| view.verify()).expect("verify");
    assert_eq!((report.count, report.problems), (0, Vec::new()));
}

#[test]
fn the_example_of_the_format_is_what_is_written() {
    let store = MapStore::new();
    let table = open(&store, vec![mail(), city()]);
    table.put(&(1,), &user("a@x", "Oslo", 40)).expect("put");
    table.put(&(2,), &user("", "Rome", 7)).expect("put");
    let late = open(&store, vec![mail(), city(), letters()]);
    late.build_step("letters", 1).expect("a step");
    open(&store, vec![mail(), city(), letters(), Index::multi("old", 1, |_, _| Ok(Vec::new()))]);
    assert!(IndexedTable::<_, (u64,)>::drop_index(&store, &space(), "old").expect("drop"));
    assert_block("indexed", &store);
}

#[test]
fn lookups_and_their_costs() {
    let store = engine();
    let table = open(&store, vec![mail(), city(), letters()]);
    for id in 0..100u64 {
        let city = ["Oslo", "Rome", "Bonn"][usize::try_from(id % 3).expect("small")];
        table
            .put(&(id,), &user(&format!("{id}@x"), city, i64::try_from(id / 10).expect("small")))
            .expect("put");
    }
    let view = table.view().expect("view");
    let since = |before: &OpCost| view.cost().since(before);
    let before = view.cost();
    let covered = view.lookup("city", &("Rome", 3), all()).expect("lookup");
    let included: Vec<_> = covered.iter().map(|hit| hit.included.as_ref()).collect();
    assert_eq!(included, [&b"31@x"[..], b"34@x", b"37@x"]);
    assert_eq!(covered[0].fields::<(String, i64)>().expect("its types"), ("Rome".to_owned(), 3));
    assert_eq!((since(&before).calls, since(&before).keys_read), (1, 3), "covering: no second read");
    let before = view.cost();
    assert_eq!(view.rows("city", &("Rome", 3), all()).expect("rows").len(), 3);
    assert_eq!((since(&before).calls, since(&before).keys_read), (2, 6), "1 + N reads");
    let before = view.cost();
    let second = view.skip_scan("city", &(9,)).expect("skip scan");
    assert_eq!(second.len(), 10);
    assert_eq!((since(&before).calls, since(&before).keys_read), (7, 13), "3 cities, not 100 entries");
    assert_eq!(view.lookup("mail", &("7@x",), all()).expect("lookup")[0].key, (7,));
    let oldest = view.between("city", ("Oslo", 2)..("Oslo", 5), all().reverse().limit(2)).expect("between");
    assert_eq!(oldest.iter().map(|hit| hit.key.0).collect::<Vec<_>>(), [48, 45]);
    assert_eq!(ids(&table, "letters", &("R",)).len(), 33);
    assert_verifies(&table);
}

#[test]
fn writes_touch_only_what_differs() {
    let store = engine();
    let table = open(&store, vec![mail(), city()]);
    table.put(&(1,), &user("a@x", "Oslo", 40)).expect("put");
    let cost = table.put(&(1,), &user("a@x", "Oslo", 40)).expect("put");
    assert_eq!((cost.keys_written, cost.tombstones_written), (1, 0), "the row alone");
    let cost = table.put(&(1,), &user("a@x", "Oslo", 41)).expect("put");
    assert_eq!((cost.keys_written, cost.tombstones_written), (2, 1), "and one entry moved");
    assert!(table.delete(&(1,)).expect("delete").value && !table.delete(&(1,)).expect("delete").value);
    assert_eq!(contents(&store).len(), 2, "the two indexes' records");
    table.insert(&(1,), &user("", "Oslo", 1)).expect("insert");
    assert!(matches!(table.insert(&(1,), &user("", "Rome", 1)), Err(Error::Unexpected { .. })));
}

#[test]
fn a_duplicate_is_refused_whole_and_nulls_are_never_unique() {
    let store = engine();
    let table = open(&store, vec![city(), mail()]);
    table.put(&(1,), &user("a@x", "Oslo", 1)).expect("put");
    let before = contents(&store);
    let error = table.put(&(2,), &user("a@x", "Rome", 1)).expect_err("a duplicate").to_string();
    assert_eq!(error, "index \"mail\" admits (\"a@x\") once, and row (1) has it; change one of the rows");
    assert_eq!(contents(&store), before);
    table.put(&(3,), &user("", "Bonn", 1)).expect("put");
    table.put(&(4,), &user("", "Bonn", 1)).expect("nulls do not exclude each other");
    assert_eq!(ids(&table, "mail", &(None::<String>,)), [3, 4]);
    table.delete(&(1,)).expect("delete");
    table.put(&(2,), &user("a@x", "Rome", 1)).expect("free again");
    assert_verifies(&table);
}

/// Whoever passes over a row that was refused, and commits the rest, finds nothing of it.
#[test]
fn a_refused_row_leaves_nothing_in_the_transaction() {
    let letters = || {
        Index::multi("letters", 1, |_: &(u64,), row| {
            let (_, city, _): User = unpack(row)?;
            Ok(vec![Entry::new(&(city,))])
        })
    };
    let long = "x".repeat(70_000);
    let refused: [(&str, &[u8], u64); 4] = [
        ("a value that another row has", &user("a@x", "Rome", 1), 2),
        ("the same over a row of its own", &user("a@x", "Rome", 1), 3),
        ("no tuple", b"no tuple", 2),
        ("an entry that is too long", &user("", &long, 1), 3),
    ];
    for (what, row, id) in refused {
        let store = engine();
        let table = open(&store, vec![letters(), city(), mail()]);
        table.put(&(1,), &user("a@x", "Oslo", 1)).expect("put");
        table.put(&(3,), &user("c@x", "Bonn", 1)).expect("put");
        let before = contents(&store);
        let done = store.update(|tx| {
            let outcome = table.put_in(tx, &(id,), row);
            assert!(matches!(
                outcome,
                Err(Error::Duplicate { .. } | Error::Key(_) | Error::BadInput { .. })
            ));
            Ok(())
        });
        done.expect("commit");
        assert_eq!(contents(&store), before, "{what}");
        assert_verifies(&table);
    }
    let store = engine();
    let table = open(&store, vec![city().verified_on_read(), letters().verified_on_read()]);
    let before = contents(&store);
    let done = store.update(|tx| {
        assert!(table.put_in(tx, &(1,), b"no tuple").is_err());
        assert!(table.put_in(tx, &(1,), &user("", &long, 1)).is_err());
        Ok(())
    });
    done.expect("commit");
    assert_eq!(contents(&store), before, "verified on read");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the promise is about racing writers")]
fn racing_unique_inserts_have_one_winner() {
    let store = engine();
    let table = open(&store, vec![mail()]);
    for round in 0..20u64 {
        let wins: usize = std::thread::scope(|scope| {
            let racers: Vec<_> = (0..16u64)
                .map(|racer| {
                    let table = &table;
                    scope.spawn(move || {
                        table.put(&(round * 16 + racer,), &user(&format!("{round}@x"), "", 0))
                    })
                })
                .collect();
            let outcomes = racers.into_iter().map(|racer| racer.join().expect("no panic"));
            outcomes
                .map(|outcome| match outcome {
                    Ok(_) => 1,
                    Err(Error::Duplicate { .. }) => 0,
                    Err(error) => panic!("{error}"),
                })
                .sum()
        });
        assert_eq!(wins, 1);
    }
    assert_eq!(contents(&store).len(), 1 + 20 + 20);
    assert_verifies(&table);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the promise is about writers beside the build")]
fn an_index_is_built_beside_writers() {
    let store = engine();
    let first = open(&store, vec![mail()]);
    for id in 0..300 {
        first.put(&(id,), &user(&format!("{id}@x"), "Oslo", 1)).expect("put");
    }
    let table = open(&store, vec![mail(), city()]);
    let early = table.view().and_then(|view| view.lookup("city", &("Oslo",), all()));
    assert!(matches!(early, Err(Error::IndexNotReady { state: "building", .. })));
    let error = first.put(&(1,), &user("", "Rome", 1)).expect_err("it does not know the new index");
    assert!(error.to_string().contains("would go stale"), "{error}");
    std::thread::scope(|scope| {
        for writer in 0..2u64 {
            let table = &table;
            scope.spawn(move || {
                for id in (writer..400).step_by(2) {
                    match id % 5 {
                        0 => drop(table.delete(&(id,)).expect("delete")),
                        _ => drop(table.put(&(id,), &user(&format!("{id}@x"), "Rome", 2)).expect("put")),
                    }
                }
            });
        }
        assert_eq!(table.build("city", 10).expect("build"), State::Ready);
    });
    assert_eq!(ids(&table, "city", &("Rome", 2)).len(), 320);
    assert!(ids(&table, "city", &("Oslo",)).is_empty());
    assert_verifies(&table);
    table.disable("city").expect("disable");
    first.put(&(1,), &user("", "Bonn", 1)).expect("a disabled index need not be known");
    table.rebuild("city").expect("rebuild");
    table.build_step("city", 7).expect("a step");
    assert_eq!(table.view().and_then(|view| view.state("city")).expect("state"), State::Building);
    assert_eq!(table.build("city", 100).expect("build"), State::Ready);
    assert_eq!(ids(&table, "city", &("Bonn",)), [1]);
    assert_verifies(&table);
    assert!(IndexedTable::<_, (u64,)>::drop_index(&store, &space(), "city").expect("drop"));
    assert!(table.put(&(1,), &user("", "Bonn", 1)).is_err(), "it was dropped under this handle");
    first.put(&(1,), &user("", "Bonn", 1)).expect("put");
}

/// An index is told by its number, not by its name: also one with the old definition may have another function.
#[test]
fn an_index_made_anew_under_a_name_is_another_to_older_handles() {
    let by_city = || {
        Index::multi("city", 1, |_: &(u64,), row| {
            let (_, city, _): User = unpack(row)?;
            Ok(vec![Entry::new(&(city,))])
        })
    };
    let drop_city =
        |store: &MapStore| IndexedTable::<_, (u64,)>::drop_index(store, &space(), "city").expect("drop");
    for anew in [|| city().version(2), || city().verified_on_read(), city] {
        for others in [0, 1] {
            let store = MapStore::new();
            let with =
                |index| open(&store, std::iter::once(index).chain((0..others).map(|_| mail())).collect());
            let old = with(by_city());
            old.put(&(1,), &user("a@x", "Oslo", 40)).expect("put");
            assert!(drop_city(&store));
            let between = with(city());
            assert!(drop_city(&store));
            let new = with(anew());
            new.build("city", 100).expect("build");
            new.put(&(2,), &user("b@x", "Rome", 50)).expect("put");
            let before = contents(&store);
            for handle in [&old, &between] {
                let refused = [
                    handle.put(&(3,), &user("c@x", "Bonn", 60)).map(|_| ()),
                    handle.insert(&(3,), &user("c@x", "Bonn", 60)).map(|_| ()),
                    handle.delete(&(1,)).map(|_| ()),
                    handle.build("city", 100).map(|_| ()),
                    handle.rebuild("city").map(|_| ()),
                    handle.disable("city").map(|_| ()),
                    handle.clean("city", 100).map(|_| ()),
                    handle.view().map(|_| ()),
                ];
                for (call, result) in refused.into_iter().enumerate() {
                    let error = result.expect_err("it is not the index it was").to_string();
                    assert!(error.contains("it was dropped; open the table anew"), "{call}: {error}");
                }
            }
            assert_eq!(contents(&store), before, "nothing was written");
            assert_eq!(ids(&new, "city", &("Oslo", 40)), [1]);
            assert_eq!(ids(&new, "city", &("Rome",)), [2]);
            assert_verifies(&new);
            new.disable("city").expect("disable");
            assert!(old.view().is_err(), "disabled or not, it is another");
        }
    }
}

/// Three rows with one value; what is done about it decides which of them has the entry.
#[test]
fn duplicates_found_by_the_builder_are_listed_until_one_row_is_left() {
    for order in [[1u64, 2, 3], [1, 3, 2], [2, 1, 3], [2, 3, 1], [3, 1, 2], [3, 2, 1]] {
        let store = MapStore::new();
        let plain = open(&store, Vec::new());
        for id in 1..=3 {
            plain.put(&(id,), &user("same@x", &format!("city{id}"), 0)).expect("put");
        }
        plain.put(&(4,), &user("other@x", "", 0)).expect("put");
        let table = open(&store, vec![mail()]);
        assert_eq!(table.build("mail", 2).expect("build"), State::UniquePending);
        let view = table.view().expect("view");
        let listed: Vec<u64> =
            view.violations("mail").expect("listed").iter().map(|hit| hit.key.0).collect();
        assert_eq!(listed, [1, 2, 3]);
        assert!(matches!(view.lookup("mail", &("same@x",), all()), Err(Error::IndexNotReady { .. })));
        assert!(
            matches!(table.put(&(5,), &user("same@x", "", 0)), Err(Error::Duplicate { .. })),
            "no new ones"
        );
        assert!(matches!(table.put(&(4,), &user("same@x", "", 0)), Err(Error::Duplicate { .. })));
        table.put(&(order[0],), &user("same@x", "moved", 1)).expect("a listed row may change otherwise");
        assert_verifies(&table);
        table.delete(&(order[0],)).expect("delete");
        let view = table.view().expect("view");
        assert_eq!(view.violations("mail").expect("listed").len(), 2, "{order:?}");
        assert_eq!(view.state("mail").expect("state"), State::UniquePending);
        assert_verifies(&table);
        table.put(&(order[1],), &user("new@x", "", 0)).expect("put");
        let view = table.view().expect("view");
        assert!(view.violations("mail").expect("listed").is_empty(), "both records are cleared");
        let hits = view.lookup("mail", &("same@x",), all()).expect("ready by itself");
        let copy = format!("city{}", order[2]);
        assert_eq!((hits[0].key.0, hits[0].included.as_ref()), (order[2], copy.as_bytes()));
        assert_verifies(&table);
    }
}

#[test]
fn a_duplicate_is_mended_at_a_cost_that_their_number_does_not_change() {
    let store = engine();
    let plain = open(&store, Vec::new());
    for id in 1..=1_000 {
        plain.put(&(id,), &user("same@x", "Oslo", 1)).expect("put");
    }
    let table = open(&store, vec![mail()]);
    assert_eq!(table.build("mail", 100).expect("build"), State::UniquePending);
    let cost = table.put(&(1_000,), &user("other@x", "Oslo", 1)).expect("put");
    assert!(cost.keys_read < 20, "{cost:?}");
    let cost = table.put(&(1,), &user("first@x", "Oslo", 1)).expect("the row that has the entry");
    assert!(cost.keys_read < 20, "{cost:?}");
    assert_eq!(table.view().and_then(|view| view.violations("mail")).expect("listed").len(), 998);
    assert_verifies(&table);
}

#[test]
fn verify_names_what_disagrees() {
    let store = MapStore::new();
    let table = open(&store, vec![mail(), city()]);
    table.put(&(1,), &user("a@x", "Oslo", 40)).expect("put");
    table.put(&(2,), &user("b@x", "Rome", 50)).expect("put");
    // Behind the table's back: a row changes, so its entries are stale and its new ones are missing.
    let done = store.update(|tx| {
        tx.put(&table.row_key(&(1,))?, &user("c@x", "Oslo", 40));
        Ok(())
    });
    done.expect("commit");
    let report = table.view().and_then(|view| view.verify()).expect("verify");
    let shown: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        [
            "index \"city\" lacks the entry (\"Oslo\", 40) of row (1)",
            "index \"mail\" lacks the entry (\"c@x\") of row (1)",
            "index \"city\" has the entry (\"Oslo\", 40) for row (1), which has no such value",
            "index \"mail\" has the entry (\"a@x\") for row (1), which has no such value",
        ]
    );
    assert_eq!((report.rows, report.entries, report.count), (2, 4, 4));
    table.rebuild("mail").expect("rebuild");
    table.build("mail", 1).expect("build");
    table.rebuild("city").expect("rebuild");
    table.build("city", 1).expect("build");
    assert_verifies(&table);
}

/// Section 2.1's price of verifying on read: a read less per put, a read of the row per entry looked up.
#[test]
fn verifying_on_read_moves_the_cost_from_writes_to_lookups() {
    let price = |index: fn() -> Index<(u64,)>| {
        let store = engine();
        let table = open(&store, vec![index()]);
        for id in 0..10 {
            table.put(&(id,), &user("a@x", "Oslo", 1)).expect("put");
        }
        let write = table.put(&(3,), &user("a@x", "Rome", 1)).expect("put");
        let view = table.view().expect("view");
        let before = view.cost();
        let found = view.lookup("city", &("Oslo",), all()).expect("lookup").len();
        let lookup = view.cost().since(&before);
        assert_eq!((found, ids(&table, "city", &("Rome",))), (9, vec![3]));
        (write, lookup)
    };
    let (write, lookup) = price(city);
    assert_eq!((write.keys_read, write.keys_written, write.tombstones_written), (2, 2, 1));
    assert_eq!((lookup.calls, lookup.keys_read), (1, 9));
    let (write, lookup) = price(|| city().verified_on_read());
    assert_eq!(
        (write.keys_read, write.keys_written, write.tombstones_written),
        (1, 2, 0),
        "the index's record"
    );
    assert_eq!((lookup.calls, lookup.keys_read), (2, 20), "ten entries, one of them stale, and ten rows");
}

/// A limit, in rows or bytes, is for live entries: stale ones before them use nothing of it up.
#[test]
fn limits_pass_stale_entries() {
    let store = engine();
    let table = open(&store, vec![city().verified_on_read()]);
    for id in 0..30u64 {
        table.put(&(id,), &user("a@x", "Bonn", 1)).expect("put");
    }
    for id in 0..30u64 {
        table.put(&(id,), &user("a@x", "Rome", 1)).expect("put");
    }
    let view = table.view().expect("view");
    let found = |options| {
        let hits = view.lookup("city", &(), options).expect("lookup");
        let rows = view.rows("city", &(), options).expect("rows");
        let keys: Vec<u64> = hits.into_iter().map(|hit| hit.key.0).collect();
        assert_eq!(rows.into_iter().map(|row| row.0.0).collect::<Vec<_>>(), keys);
        keys
    };
    let hits = view.lookup("city", &("Rome",), all()).expect("lookup");
    let four: usize = hits.iter().take(4).map(Hit::entry_bytes).sum();
    assert_eq!(found(all().bytes_limit(1)), [0]);
    assert_eq!(found(all().bytes_limit(four as u64)), [0, 1, 2, 3]);
    assert_eq!(found(all().bytes_limit(four as u64).limit(3)), [0, 1, 2]);
    assert_eq!(found(all().bytes_limit(1).limit(9)), [0]);
    assert_eq!(found(all().bytes_limit(four as u64 + 1)), [0, 1, 2, 3, 4]);
    assert_eq!(found(all().bytes_limit(100_000)), (0..30).collect::<Vec<_>>());
    // From the other end the live ones come first.
    assert_eq!(found(all().bytes_limit(1).reverse()), [29]);
    let before = view.cost();
    assert_eq!(view.lookup("city", &("Rome",), all().limit(4)).expect("lookup").len(), 4);
    let cost = view.cost().since(&before);
    assert_eq!((cost.calls, cost.keys_read), (2, 8), "nothing is read behind the limit");
    let before = view.cost();
    assert_eq!(view.lookup("city", &(), all().limit(10)).expect("lookup").len(), 10);
    let cost = view.cost().since(&before);
    assert_eq!(
        (cost.calls, cost.keys_read),
        (1 + 4, 80),
        "one scan, and a batch of rows for each ten entries"
    );
}

/// However many entries a lookup meets, it holds few of their rows.
#[test]
fn a_verified_lookup_gets_its_rows_in_pieces() {
    let store = Batches::default();
    let table = open(&store, vec![city().verified_on_read()]);
    for round in 0..2 {
        for id in 0..600u64 {
            table.put(&(id,), &user("a@x", "Oslo", round)).expect("put");
        }
    }
    assert_eq!(ids(&table, "city", &("Oslo",)), (0..600).collect::<Vec<_>>());
    assert_eq!(store.largest.load(Relaxed), 256);
    let rows = table.view().and_then(|view| view.rows("city", &("Oslo", 1), all())).expect("rows");
    assert_eq!((rows.len(), store.largest.load(Relaxed)), (600, 256));
}

/// A map that notes the largest batch of gets.
#[derive(Default)]
struct Batches {
    map: MapStore,
    largest: AtomicUsize,
}

struct BatchesRead<'a>(MapRead<'a>, &'a AtomicUsize);

impl OrderedKv for Batches {
    type Read<'a> = BatchesRead<'a>;
    type Tx<'a> = MapTx<'a>;

    fn caps(&self) -> &Caps {
        self.map.caps()
    }

    fn read(&self) -> Result<BatchesRead<'_>> {
        Ok(BatchesRead(self.map.read()?, &self.largest))
    }

    fn update<T>(&self, f: impl FnMut(&mut MapTx<'_>) -> Result<T>) -> Result<Costed<T>> {
        self.map.update(f)
    }
}

impl KvRead for BatchesRead<'_> {
    type Scan<'a>
        = MapScan<'a>
    where
        Self: 'a;

    fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        self.0.get(key)
    }

    fn contains(&self, key: &[u8]) -> Result<bool> {
        self.0.contains(key)
    }

    fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Bytes>>> {
        self.1.fetch_max(keys.len(), Relaxed);
        self.0.get_many(keys)
    }

    fn scan(&self, range: KeyRange, options: ScanOptions) -> Result<MapScan<'_>> {
        self.0.scan(range, options)
    }

    fn cost(&self) -> OpCost {
        self.0.cost()
    }
}

#[test]
fn stale_entries_are_left_out_counted_and_cleaned() {
    let store = engine();
    let table = open(&store, vec![city().verified_on_read(), letters().verified_on_read()]);
    for round in 0..4 {
        for id in 0..6u64 {
            let city = ["Oslo", "Rome", "Bonn", "Oslo"][round];
            table.put(&(id,), &user("a@x", city, i64::try_from(round).expect("small"))).expect("put");
        }
    }
    assert!(table.delete(&(5,)).expect("delete").value, "and its newest entries");
    assert_eq!(ids(&table, "city", &("Oslo",)), [0, 1, 2, 3, 4]);
    assert!(ids(&table, "city", &("Rome",)).is_empty());
    let view = table.view().expect("view");
    for (options, expected) in [(all().limit(2), [0, 1]), (all().limit(2).reverse(), [4, 3])] {
        let hits = view.lookup("city", &(), options).expect("lookup");
        assert_eq!(hits.iter().map(|hit| hit.key.0).collect::<Vec<_>>(), expected, "past the stale ones");
    }
    assert!(view.lookup("city", &(), all().limit(0)).expect("lookup").is_empty());
    assert_eq!(view.rows("city", &("Oslo",), all().limit(3)).expect("rows").len(), 3);
    assert_eq!(view.skip_scan("city", &(3,)).expect("skip scan").len(), 5);
    let report = view.verify().expect("verify");
    // Each row's cities of the older rounds, and the letters that "Oslo" lacks: R, m, e, B, n.
    assert_eq!((report.count, report.rows, report.stale), (0, 5, 6 * 3 + 6 * 5));
    let removed = table.clean("city", 4).expect("clean") + table.clean("letters", 100).expect("clean");
    assert_eq!(removed, report.stale);
    let report = table.view().and_then(|view| view.verify()).expect("verify");
    assert_eq!((report.count, report.stale), (0, 0));
    assert_eq!(table.clean("city", 1).expect("clean"), 0);
    let kind = IndexedTable::<_, (u64,)>::open(&store, &space(), vec![city(), letters()]);
    assert!(matches!(kind.map(|_| ()), Err(Error::BadInput { .. })), "made with the other kind");
    let unique =
        IndexedTable::<_, (u64,)>::open(&MapStore::new(), &space(), vec![mail().verified_on_read()])
            .map(|_| ());
    assert!(matches!(unique, Err(Error::BadInput { .. })));
}

#[test]
fn bad_definitions_rows_and_data_are_clear_errors() {
    let store = MapStore::new();
    let table = open(&store, vec![mail()]);
    let try_open = |indexes| IndexedTable::<_, (u64,)>::open(&store, &space(), indexes).map(|_| ());
    for indexes in [
        vec![],
        vec![mail(), mail()],
        vec![mail(), Index::multi("", 1, |_, _| Ok(Vec::new()))],
        vec![mail().version(2)],
        vec![Index::multi("mail", 1, |_, _| Ok(Vec::new()))],
        vec![Index::unique("mail", 2, |_, _| Ok(Vec::new()))],
    ] {
        assert!(matches!(try_open(indexes), Err(Error::BadInput { .. })));
    }
    assert!(matches!(table.put(&(1,), b"no tuple"), Err(Error::Key(_))), "the function's own error");
    assert!(store.update(|_| Ok(())).is_ok() && contents(&store).len() == 1, "and nothing is written");
    let error = table.put(&(1,), &user(&"x".repeat(70_000), "", 0)).expect_err("too long").to_string();
    assert!(error.contains("shorten it") && error.len() < 300, "{error}");
    let odd = Index::multi("odd", 2, |_: &(u64,), _| Ok(vec![Entry::new(&(1,))]));
    let table = open(&store, vec![mail(), odd]);
    let error = table.put(&(1,), &user("", "", 0)).expect_err("one field").to_string();
    assert!(error.contains("have 2 fields, not 1"), "{error}");
    assert!(table.view().and_then(|view| view.state("none")).is_err());
    let done = store.update(|tx| {
        tx.put(&space().key(&(0, "mail")), b"\x15");
        Ok(())
    });
    done.expect("commit");
    assert!(matches!(table.view().map(|_| ()), Err(Error::Foreign { layout: "indexed", .. })));
}

#[derive(Clone, Debug)]
enum Op {
    Put(u64, u8, u8, i64),
    Delete(u64),
    Rebuild(bool),
    Step(bool),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (0..8u64, 0..6u8, 0..3u8, 0..4i64).prop_map(|(id, mail, city, age)| Op::Put(id, mail, city, age)),
        3 => (0..8u64).prop_map(Op::Delete),
        1 => any::<bool>().prop_map(Op::Rebuild),
        2 => any::<bool>().prop_map(Op::Step),
    ]
}

fn equals_the_model<S: OrderedKv>(store: &S, ops: &[Op]) {
    let table = open(store, vec![mail(), city(), letters()]);
    let mut model: BTreeMap<u64, User> = BTreeMap::new();
    let which = |first| if first { "mail" } else { "city" };
    for op in ops {
        match *op {
            Op::Put(id, mail, city, age) => {
                let mail = (mail > 0).then(|| format!("{mail}@x"));
                let row = (mail, "ab".repeat(city.into()), age);
                let taken = model
                    .iter()
                    .any(|(other, (mail, ..))| *other != id && mail.is_some() && *mail == row.0);
                let kept = model.get(&id).is_some_and(|old| old.0 == row.0);
                let state = table.view().and_then(|view| view.state("mail")).expect("state");
                match table.put(&(id,), &pack(&row)) {
                    Ok(_) => {
                        assert!(
                            !taken || kept || state == State::Building,
                            "a duplicate of {row:?} was admitted"
                        );
                        model.insert(id, row);
                    }
                    Err(Error::Duplicate { .. }) => assert!(taken, "{row:?} is no duplicate"),
                    Err(error) => panic!("{error}"),
                }
            }
            Op::Delete(id) => {
                assert_eq!(table.delete(&(id,)).expect("delete").value, model.remove(&id).is_some());
            }
            Op::Rebuild(first) => drop(table.rebuild(which(first)).expect("rebuild")),
            Op::Step(first) => drop(table.build_step(which(first), 2).expect("step")),
        }
        assert_verifies(&table);
    }
    for name in ["mail", "city"] {
        table.build(name, 3).expect("build");
    }
    assert_verifies(&table);
    let view = table.view().expect("view");
    let shared = |mail: &Option<String>| model.values().filter(|row| row.0 == *mail).count() > 1;
    let pending: Vec<u64> =
        model.iter().filter(|(_, row)| row.0.is_some() && shared(&row.0)).map(|(id, _)| *id).collect();
    let mut listed: Vec<u64> = view.violations("mail").expect("list").iter().map(|hit| hit.key.0).collect();
    listed.sort_unstable();
    assert_eq!(listed, pending);
    assert_eq!(view.state("mail").expect("state") == State::Ready, pending.is_empty());
    for age in 0..4 {
        let mut found: Vec<u64> =
            view.skip_scan("city", &(age,)).expect("skip scan").iter().map(|hit| hit.key.0).collect();
        found.sort_unstable();
        let expected = model.iter().filter(|(_, row)| row.2 == age).map(|(id, _)| *id);
        assert_eq!(found, expected.collect::<Vec<_>>());
    }
    for city in 0..3 {
        let city = "ab".repeat(city);
        let rows = view.rows("city", &(city.as_str(),), all()).expect("rows");
        let mut found: Vec<_> = rows.into_iter().map(|((id,), row)| (id, row.to_vec())).collect();
        found.sort();
        let expected = model.iter().filter(|(_, row)| row.1 == city).map(|(id, row)| (*id, pack(row)));
        assert_eq!(found, expected.collect::<Vec<_>>());
    }
    let rows = store.read().expect("snapshot");
    let rows = rows.scan(KeyRange { ..space().under(&(1,)) }, all()).expect("scan").count();
    assert_eq!(rows, model.len());
}

/// Rows come and go, entries go stale and are cleaned; lookups are those of the model.
fn verified_on_read_equals_the_model<S: OrderedKv>(store: &S, ops: &[Op]) {
    let table = open(store, vec![city().verified_on_read()]);
    let mut model: BTreeMap<u64, (String, i64)> = BTreeMap::new();
    for op in ops {
        match *op {
            Op::Put(id, _, city, age) => {
                let city = "ab".repeat(city.into());
                table.put(&(id,), &user("", &city, age)).expect("put");
                model.insert(id, (city, age));
            }
            Op::Delete(id) => {
                assert_eq!(table.delete(&(id,)).expect("delete").value, model.remove(&id).is_some());
            }
            Op::Rebuild(true) => drop(table.clean("city", 2).expect("clean")),
            Op::Rebuild(false) => {
                table.rebuild("city").expect("rebuild");
                table.build("city", 2).expect("build");
            }
            Op::Step(reverse) => {
                let options = ScanOptions { reverse, ..all().limit(3) };
                let hits =
                    table.view().and_then(|view| view.lookup("city", &("ab",), options)).expect("lookup");
                let own = model.iter().filter(|(_, row)| row.0 == "ab");
                let mut expected: Vec<(i64, u64)> = own.map(|(id, row)| (row.1, *id)).collect();
                expected.sort_unstable();
                if reverse {
                    expected.reverse();
                }
                expected.truncate(3);
                assert_eq!(
                    hits.iter().map(|hit| hit.key.0).collect::<Vec<_>>(),
                    expected.iter().map(|e| e.1).collect::<Vec<_>>()
                );
            }
        }
        assert_verifies(&table);
    }
    let stale = table.view().and_then(|view| view.verify()).expect("verify").stale;
    assert_eq!(table.clean("city", 3).expect("clean"), stale);
    let report = table.view().and_then(|view| view.verify()).expect("verify");
    assert_eq!((report.stale, report.rows, report.entries), (0, model.len() as u64, model.len() as u64));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn verified_on_read_equals_a_map_searched_in_full(ops in prop::collection::vec(op(), 0..40)) {
        verified_on_read_equals_the_model(&MapStore::new(), &ops);
        verified_on_read_equals_the_model(&engine(), &ops);
    }

    #[test]
    fn equals_a_map_searched_in_full(ops in prop::collection::vec(op(), 0..40)) {
        equals_the_model(&MapStore::new(), &ops);
        equals_the_model(&engine(), &ops);
    }
}
