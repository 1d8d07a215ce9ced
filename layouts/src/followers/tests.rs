use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use proptest::prelude::*;

use super::*;
use crate::engine::EngineStore;
use crate::map::MapStore;
use crate::tuple::Space;
use crate::tuple::tests::format_block;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string");
        text
    })
}

#[test]
fn the_article_s_table_of_digests_reproduces() {
    for line in format_block("digests") {
        let mut words = line.split_whitespace();
        let mut word = || words.next().expect("digest, user, friend");
        let (expected, user, friend) = (word(), word(), word());
        assert_eq!(hex(&hash::row_key(user, friend)), expected, "{user} {friend}");
    }
    assert_eq!(hex(&digest("Маша")), "9ee3309645bd2c0775899fca14f311e1");
}

/// The article's sample for n = 5: inserts, checks and deletes in order.
const INSERTS: &[(u32, &[u32])] =
    &[(0, &[1]), (1, &[4, 5, 3, 2, 1]), (2, &[1, 2]), (3, &[2, 4, 1, 5, 3]), (4, &[2, 1])];
const CHECKS: &[(u32, &[u32])] = &[
    (0, &[1, 10800]),
    (1, &[5, 10800, 2, 10801, 4, 10802]),
    (2, &[1, 10800]),
    (3, &[3, 10800, 1, 10801, 5, 10802]),
    (4, &[2, 10800]),
];
const DELETES: &[(u32, &[u32])] =
    &[(0, &[1]), (1, &[1, 3, 2, 5, 4]), (2, &[1, 2]), (3, &[4, 1, 2, 3, 5]), (4, &[1, 2])];

fn pairs(list: &[(u32, &[u32])]) -> Vec<(String, String)> {
    list.iter()
        .flat_map(|(user, friends)| friends.iter().map(|f| (user.to_string(), f.to_string())))
        .collect()
}

/// The engine without a disk.
fn engine() -> EngineStore {
    let env = esker::vfs::Env::memory().expect("an environment in memory");
    EngineStore::build(esker::Database::builder("/followers").env(env), "followers").expect("open")
}

#[test]
fn the_article_s_sample_runs_on_every_layout() {
    sample(MapStore::new);
    sample(engine);
}

fn sample<K: OrderedKv>(fresh: impl Fn() -> K) {
    assert_eq!((pairs(INSERTS).len(), pairs(CHECKS).len(), pairs(DELETES).len()), (15, 18, 15));
    for layout in Layout::ALL {
        let store = fresh();
        let friends = open(&store, layout).expect("the map has everything");
        for (user, friend) in pairs(INSERTS) {
            friends.add(&user, &friend).expect("add");
        }
        for (i, (user, friend)) in pairs(CHECKS).into_iter().enumerate() {
            let found = friends.check(&user, &friend).expect("check").value;
            assert_eq!(found, i % 2 == 0, "{layout}: answers alternate, {user} {friend}");
            assert_eq!(found, friend.len() < 5, "{layout}: ids above 10,000 are absent");
        }
        let mut own = friends.list("3").expect("list").value;
        own.sort();
        assert_eq!(own, ["1", "2", "3", "4", "5"], "{layout}: a user may read itself");
        for (user, friend) in pairs(DELETES) {
            friends.remove(&user, &friend).expect("remove");
            assert!(!friends.check(&user, &friend).expect("check").value);
        }
        for user in 0..5 {
            assert!(friends.list(&user.to_string()).expect("list").value.is_empty(), "{layout}");
        }
    }
}

/// The counter table of the design, on a row of five friends: read / written / tombstones / calls.
#[test]
fn costs_are_those_of_the_naive_client() {
    costs(MapStore::new);
    costs(engine);
}

fn costs<K: OrderedKv>(fresh: impl Fn() -> K) {
    let cost = |c: OpCost| (c.keys_read, c.keys_written, c.tombstones_written, c.calls);
    let expected = |layout| match layout {
        // add, check (hit), check (miss), remove from the middle, remove the last
        Layout::Default(HoleFilling::MoveLast) => {
            [(5, 1, 0, 2), (6, 0, 0, 1), (6, 0, 0, 1), (6, 1, 1, 2), (5, 0, 1, 2)]
        }
        Layout::Default(HoleFilling::ShiftAll) => {
            [(5, 1, 0, 2), (6, 0, 0, 1), (6, 0, 0, 1), (6, 4, 1, 2), (5, 0, 1, 2)]
        }
        Layout::Count(HoleFilling::MoveLast) => {
            [(1, 2, 0, 2), (7, 0, 0, 1), (7, 0, 0, 1), (7, 2, 1, 2), (6, 1, 1, 2)]
        }
        Layout::Count(HoleFilling::ShiftAll) => {
            [(1, 2, 0, 2), (7, 0, 0, 1), (7, 0, 0, 1), (7, 5, 1, 2), (6, 1, 1, 2)]
        }
        Layout::Column | Layout::Row | Layout::Hash => {
            [(0, 1, 0, 1), (1, 0, 0, 1), (0, 0, 0, 1), (0, 0, 1, 1), (0, 0, 1, 1)]
        }
        Layout::Relational => [(1, 3, 0, 3), (1, 0, 0, 1), (0, 0, 0, 1), (1, 0, 2, 2), (1, 0, 2, 2)],
    };
    for layout in Layout::ALL {
        let store = fresh();
        let friends = open(&store, layout).expect("open");
        friends.load("u", &["a", "b", "c", "d", "e"]).expect("load");
        let order = friends.list("u").expect("list").value;
        let counted = [
            cost(friends.add("u", "f").expect("add")),
            cost(friends.check("u", "c").expect("check").cost),
            cost(friends.check("u", "nobody").expect("check").cost),
            cost(friends.remove("u", &order[1]).expect("remove")),
            cost(
                friends
                    .remove("u", friends.list("u").expect("list").value.last().expect("friends"))
                    .expect("remove"),
            ),
        ];
        assert_eq!(counted, expected(layout), "{layout}");
    }
}

#[test]
fn hole_filling_keeps_or_gives_up_the_order() {
    for (filling, left) in
        [(HoleFilling::MoveLast, ["a", "d", "c"]), (HoleFilling::ShiftAll, ["a", "c", "d"])]
    {
        for layout in [Layout::Default(filling), Layout::Count(filling)] {
            let store = MapStore::new();
            let friends = open(&store, layout).expect("open");
            friends.load("u", &["a", "b", "c", "d"]).expect("load");
            friends.remove("u", "b").expect("remove");
            assert_eq!(friends.list("u").expect("list").value, left, "{layout}");
        }
    }
}

#[test]
fn bad_ids_are_refused_with_the_remedy() {
    for layout in Layout::ALL {
        let store = MapStore::new();
        let friends = open(&store, layout).expect("open");
        assert!(matches!(friends.add("", "b"), Err(Error::BadInput { what: "user id", .. })), "{layout}");
        assert!(
            matches!(friends.check("a", ""), Err(Error::BadInput { what: "friend id", .. })),
            "{layout}"
        );
        let long = "x".repeat(20_000);
        let error = friends.add("a", &long).expect_err("too long").to_string();
        assert!(error.contains("20000 bytes") && error.len() < 300, "{layout}: {error}");
        let dotted = friends.add("a.b", "c");
        if layout == Layout::Row {
            let error = dotted.expect_err("ambiguous").to_string();
            assert_eq!(
                error,
                "user id \"a.b\" cannot be stored: it contains '.', which separates user and friend in this \
                 layout's keys; use the column layout, whose keys need no delimiter"
            );
            assert!(matches!(friends.remove("a", "b.c"), Err(Error::BadInput { what: "friend id", .. })));
        } else {
            dotted.expect("other layouts need no delimiter");
            assert!(!friends.check("a", "b.c").expect("check").value, "{layout}");
            friends.add("zero\0", "\0").expect("zero bytes are content");
            assert_eq!(friends.list("zero\0").expect("list").value, ["\0"], "{layout}");
            assert!(friends.list("zero").expect("list").value.is_empty(), "{layout}");
        }
    }
}

/// The longest ids there may be, of the bytes that take the most room: every layout stores them.
#[test]
fn the_longest_ids_fit_every_layout() {
    for layout in Layout::ALL {
        let store = engine();
        let friends = open(&store, layout).expect("open");
        let most = id_bytes_max(store.caps());
        let (id, long) = ("\0".repeat(most), "\0".repeat(most + 1));
        friends.add(&id, &id).expect("the longest");
        assert!(friends.check(&id, &id).expect("check").value, "{layout}");
        assert_eq!(friends.list(&id).expect("list").value, [id.as_str()], "{layout}");
        friends.remove(&id, &id).expect("remove");
        assert!(!friends.check(&id, &id).expect("check").value, "{layout}");
        friends.load(&id, &[&id]).expect("load");
        for (user, friend, what) in [(&long, &id, "user id"), (&id, &long, "friend id")] {
            let refused = friends.add(user, friend);
            assert!(matches!(refused, Err(Error::BadInput { what: of, .. }) if of == what), "{layout}");
        }
    }
    // The bound is the longest one: the longest key of a layout, with one byte more in each id, would not fit.
    let caps = *MapStore::new().caps();
    let key = |bytes| Space::new(&("index",)).key(&("\0".repeat(bytes), "\0".repeat(bytes)));
    let most = id_bytes_max(&caps);
    assert!(key(most).len() <= caps.key_bytes_max && key(most + 1).len() > caps.key_bytes_max);
}

#[test]
fn foreign_data_is_an_error_not_a_wrong_answer() {
    use crate::kv::KvTx;
    let store = MapStore::new();
    let done = store.update(|tx| {
        tx.put(&crate::tuple::pack(&("u", "x", 3)), b"");
        tx.put(&crate::tuple::pack(&("u.",)), b"\xff");
        tx.put(&hash::row_key("u", "v"), &crate::tuple::pack(&("other", "v")));
        tx.put(&crate::tuple::pack(&("c", "count")), b"three");
        tx.put(&crate::tuple::pack(&("m", "count")), &crate::tuple::pack(&(u64::MAX,)));
        tx.put(&crate::tuple::pack(&("sequence",)), &crate::tuple::pack(&(u64::MAX,)));
        Ok(())
    });
    done.expect("commit");
    let column = open(&store, Layout::Column).expect("open");
    assert!(matches!(column.list("u"), Err(Error::Foreign { layout: "column", .. })));
    let counted = open(&store, Layout::Count(HoleFilling::MoveLast)).expect("open");
    assert!(matches!(counted.add("c", "d"), Err(Error::Foreign { .. })));
    assert!(matches!(counted.add("m", "d"), Err(Error::Foreign { .. })), "no number is left");
    let relational = open(&store, Layout::Relational).expect("open");
    assert!(matches!(relational.add("m", "d"), Err(Error::Foreign { .. })), "here neither");
    let hashed = open(&store, Layout::Hash).expect("open");
    assert!(matches!(hashed.check("u", "v"), Err(Error::HashCollision { .. })));
    assert!(matches!(hashed.list("u"), Err(Error::HashCollision { .. })));
}

#[test]
fn concurrent_writers_leave_no_holes() {
    concurrent(MapStore::new);
    concurrent(engine);
}

#[expect(clippy::disallowed_methods, reason = "the promise is about concurrent writers")]
fn concurrent<K: OrderedKv>(fresh: impl Fn() -> K) {
    for layout in Layout::ALL {
        let store = fresh();
        let friends = open(&store, layout).expect("open");
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let friends = &friends;
                scope.spawn(move || {
                    for i in 0..20 {
                        friends.add("u", &format!("{writer}-{i}")).expect("add");
                        if i % 3 == 0 {
                            friends.remove("u", &format!("{writer}-{i}")).expect("remove");
                        }
                    }
                });
            }
        });
        let list = friends.list("u").expect("list").value;
        assert_eq!(list.len(), 4 * 13, "{layout}");
        assert_eq!(list.iter().collect::<BTreeSet<_>>().len(), 4 * 13, "{layout}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Every layout gives the answers of a map of sets.
    #[test]
    fn equals_a_map_of_sets(ops in prop::collection::vec((0u8..3, 0u8..4, 0u8..8), 0..60)) {
        for layout in Layout::ALL {
            let store = MapStore::new();
            let friends = open(&store, layout).expect("open");
            let mut model: BTreeMap<u8, BTreeSet<u8>> = BTreeMap::new();
            for &(op, user, friend) in &ops {
                let (u, f) = (user.to_string(), friend.to_string());
                let known = model.entry(user).or_default();
                match op {
                    // The contract of `count`: only new friends are added.
                    0 => if known.insert(friend) {
                        friends.add(&u, &f).expect("add");
                    },
                    1 => {
                        known.remove(&friend);
                        friends.remove(&u, &f).expect("remove");
                    }
                    _ => prop_assert_eq!(friends.check(&u, &f).expect("check").value, known.contains(&friend)),
                }
            }
            for (user, known) in &model {
                let list = friends.list(&user.to_string()).expect("list").value;
                let set: BTreeSet<u8> = list.iter().map(|f| f.parse().expect("a number")).collect();
                prop_assert_eq!(set.len(), list.len(), "{}", layout);
                prop_assert_eq!(&set, known, "{}", layout);
            }
        }
    }
}
