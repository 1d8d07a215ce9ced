use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::map::MapStore;
use crate::testing::{assert_block, engine};

type Point = (u64, String, i8);

fn open<S: OrderedKv, K: Key>(store: &S, place: u32) -> PromotedTable<&S, K> {
    PromotedTable::open(store, &Space::new(&("p",)), place).expect("open")
}

#[test]
fn the_example_of_the_format_is_what_is_written() {
    let store = MapStore::new();
    let table: PromotedTable<_, (u64, String)> = open(&store, 1);
    table.put(&(2, "attic".to_owned()), b"21.5").expect("put");
    table.put(&(1, "cellar".to_owned()), b"12").expect("put");
    assert_block("promoted", &store);
}

/// C8: growing keys lie at one end; promoted, they spread over the sources. Ranges of the main field pay for
/// it with a scan per source, questions about one source with none.
#[test]
fn writes_spread_over_the_promoted_values_and_ranges_fan_out() {
    let store = engine();
    let table: PromotedTable<_, (u64, String)> = open(&store, 1);
    for time in 0..1_000u64 {
        let cost = table.put(&(time, format!("source{}", time % 10)), b"").expect("put");
        assert_eq!((cost.keys_read, cost.keys_written), (0, 1));
    }
    let view = table.view().expect("view");
    let of = view.of(&"source7", ScanOptions::new()).expect("scan");
    assert_eq!((of.fan_out(), of.count()), (1, 100));
    assert_eq!(view.cost().keys_read, 100);
    let before = view.cost();
    let rows = view.between((300,)..(320,), ScanOptions::new()).expect("scan");
    assert_eq!(rows.fan_out(), 10);
    let times: Vec<u64> = rows.map(|row| row.expect("a row").0.0).collect();
    assert_eq!(times, (300..320).collect::<Vec<_>>(), "in the order of the keys");
    let cost = view.cost().since(&before);
    assert_eq!((cost.calls, cost.keys_read), (1 + 10, 10 + 20), "one walk by seeks, and a scan per source");
    let latest = view.between::<(u64,)>(.., ScanOptions::new().reverse().limit(3)).expect("scan");
    assert_eq!(latest.map(|row| row.expect("a row").0.0).collect::<Vec<_>>(), [999, 998, 997]);
}

#[test]
fn bad_places_keys_and_data_are_clear_errors() {
    let store = MapStore::new();
    let table: PromotedTable<_, (u64, String)> = open(&store, 1);
    let other = PromotedTable::<_, (u64, String)>::open(&store, &Space::new(&("p",)), 0);
    assert!(matches!(other.map(|_| ()), Err(Error::BadInput { what: "promoted field", .. })));
    let short: PromotedTable<_, (u64,)> = open(&store, 1);
    let error = short.put(&(1,), b"").expect_err("no field 1").to_string();
    assert!(error.contains("it has 1 fields, and field 1 from 0 is promoted"), "{error}");
    let done = store.update(|tx| {
        tx.put(&table.rows.key(&("a", "not a number")), b"");
        Ok(())
    });
    done.expect("commit");
    let view = table.view().expect("view");
    let mut rows = view.of(&"a", ScanOptions::new()).expect("scan");
    assert!(matches!(rows.next(), Some(Err(Error::Foreign { layout: "promoted", .. }))));
}

/// What is stored is longer than the key; a byte limit counts the key.
#[test]
fn a_byte_limit_leaves_no_gap_and_is_used_up() {
    let store = engine();
    let table: PromotedTable<_, (u64, String)> = open(&store, 1);
    for time in 1..=20 {
        table.put(&(time, "a".to_owned()), b"").expect("put");
    }
    table.put(&(100, "b".to_owned()), b"").expect("put");
    let view = table.view().expect("view");
    let bytes = pack(&(1u64, "a")).len() as u64;
    let limited = ScanOptions::new().bytes_limit(7 * bytes);
    let times = |rows: Result<Rows<'_, _, (u64, String), _>>| {
        rows.expect("scan").map(|row| row.expect("a row").0.0).collect::<Vec<_>>()
    };
    assert_eq!(times(view.between::<()>(.., limited)), (1..=7).collect::<Vec<_>>());
    assert_eq!(times(view.between::<()>(.., limited.reverse())), [100, 20, 19, 18, 17, 16, 15]);
    assert_eq!(times(view.of(&"a", limited)), (1..=7).collect::<Vec<_>>(), "one value");
    assert_eq!(times(view.of(&"a", limited.reverse())), (14..=20).rev().collect::<Vec<_>>());
}

fn point() -> impl Strategy<Value = Point> {
    (0..6u64, 0..3u8, 0..4i8).prop_map(|(time, source, n)| (time, "a\0".repeat(source.into()), n))
}

/// A bound of one, two or three fields.
fn bound() -> impl Strategy<Value = Bound<(usize, Point)>> {
    prop_oneof![
        Just(Bound::Unbounded),
        (1..=3usize, point()).prop_map(Bound::Included),
        (1..=3usize, point()).prop_map(Bound::Excluded),
    ]
}

/// The first fields of a key of any arity.
struct Head(usize, Point);

impl Pack for Head {
    fn pack_at(&self, out: &mut Vec<u8>, depth: usize) {
        let Head(count, (time, source, n)) = self;
        time.pack_field(out, depth);
        if *count > 1 {
            source.pack_field(out, depth);
        }
        if *count > 2 {
            n.pack_field(out, depth);
        }
    }
}

/// Whether `key` lies within the bounds, by the fields given.
fn within(key: &Point, start: &Bound<(usize, Point)>, end: &Bound<(usize, Point)>) -> bool {
    let fields = |count: usize, key: &Point| {
        (key.0, (count > 1).then(|| key.1.clone()), (count > 2).then_some(key.2))
    };
    let order = |(count, bound): &(usize, Point)| fields(*count, key).cmp(&fields(*count, bound));
    let after = match start {
        Bound::Included(bound) => order(bound).is_ge(),
        Bound::Excluded(bound) => order(bound).is_gt(),
        Bound::Unbounded => true,
    };
    after
        && match end {
            Bound::Included(bound) => order(bound).is_le(),
            Bound::Excluded(bound) => order(bound).is_lt(),
            Bound::Unbounded => true,
        }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn equals_a_sorted_map(
        place in 0..3u32,
        ops in prop::collection::vec((point(), any::<bool>()), 0..60),
        start in bound(),
        end in bound(),
        limit in 1..20usize,
        reverse in any::<bool>(),
    ) {
        let store = MapStore::new();
        let table: PromotedTable<_, Point> = open(&store, place);
        let mut model = BTreeMap::new();
        for (i, (key, delete)) in ops.into_iter().enumerate() {
            if delete {
                table.delete(&key).expect("delete");
                model.remove(&key);
            } else {
                table.put(&key, &i.to_le_bytes()).expect("put");
                model.insert(key, i.to_le_bytes().to_vec());
            }
        }
        let view = table.view().expect("view");
        for (key, value) in &model {
            let found = view.get(key).expect("get");
            prop_assert_eq!(found.as_deref(), Some(value.as_slice()));
        }
        let options = ScanOptions { reverse, ..ScanOptions::new().limit(limit) };
        let head = |bound: &Bound<(usize, Point)>| bound.clone().map(|(count, key)| Head(count, key));
        let rows = view.between((head(&start), head(&end)), options).expect("scan");
        let found: Vec<(Point, Vec<u8>)> =
            rows.map(|row| row.map(|(key, value)| (key, value.to_vec())).expect("a row")).collect();
        let inside = |(key, _): &(&Point, &Vec<u8>)| within(key, &start, &end);
        let mut expected: Vec<_> = model.iter().filter(inside).map(|(k, v)| (k.clone(), v.clone())).collect();
        if reverse {
            expected.reverse();
        }
        expected.truncate(limit);
        prop_assert_eq!(found, expected);
        let rows = view.of(&3u64, ScanOptions::new()).expect("scan");
        if place == 0 {
            let own = model.keys().filter(|key| key.0 == 3).count();
            let found: Vec<Point> = rows.map(|row| row.expect("a row").0).collect();
            prop_assert_eq!(found.len(), own);
        }
    }
}
