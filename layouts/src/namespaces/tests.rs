use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::kv::Costed;
use crate::map::MapStore;
use crate::testing::{assert_block, contents, engine};

fn open<S: OrderedKv>(store: &S) -> Directory<&S> {
    Directory::open(store, &Space::new(&("d",))).expect("open")
}

fn put<S: OrderedKv>(store: &S, namespace: &Namespace, key: u64) -> Result<Costed<()>> {
    store.update(|tx| {
        let space = namespace.enter(tx)?;
        tx.put(&space.key(&(key,)), b"");
        Ok(())
    })
}

fn count<S: OrderedKv>(store: &S, namespace: &Namespace) -> usize {
    let read = store.read().expect("snapshot");
    let space = namespace.enter(&read).expect("not stale");
    read.scan(space.under(&()), ScanOptions::new()).expect("scan").count()
}

#[test]
fn the_example_of_the_format_is_what_is_written() {
    let store = MapStore::new();
    let directory = open(&store);
    let users = directory.create(&["app", "users"]).expect("create");
    directory.rename(&["app", "users"], &["people"]).expect("rename");
    put(&store, &users, 7).expect("put");
    assert_block("namespaces", &store);
}

#[test]
fn what_was_found_before_is_checked() {
    let store = engine();
    let directory = open(&store);
    let users = directory.create(&["app", "users"]).expect("create");
    assert_eq!(directory.create(&["app", "users"]).expect("the same"), users);
    put(&store, &users, 1).expect("put");
    directory.rename(&["app"], &["old", "app"]).expect("rename");
    put(&store, &users, 2).expect("a rename of a parent moves nothing");
    assert_eq!(directory.find(&["app", "users"]).expect("find"), None);
    assert_eq!(directory.find(&["old", "app", "users"]).expect("find"), Some(users.clone()));
    directory.clear(&["old", "app", "users"]).expect("clear");
    let error = put(&store, &users, 3).expect_err("stale").to_string();
    assert!(error.contains("find it again"), "{error}");
    let fresh = directory.find(&["old", "app", "users"]).expect("find").expect("it is there");
    assert_eq!(count(&store, &fresh), 0);
    directory.remove(&["old"]).expect("remove");
    let again = directory.create(&["old", "app", "users"]).expect("create");
    assert!(matches!(put(&store, &fresh, 4), Err(Error::StaleNamespace { .. })));
    assert_eq!(count(&store, &again), 0);
    assert_ne!(again.space(), fresh.space(), "numbers are not used again");
}

/// A layout's handle that was opened before knows numbers and sizes that others give anew.
#[test]
fn a_handle_of_an_emptied_namespace_writes_where_nobody_looks() {
    use crate::wide::WideTable;
    let store = engine();
    let directory = open(&store);
    let found = directory.create(&["app"]).expect("create");
    let old = WideTable::open(&store, &found.space(), &["info", "games"]).expect("open");
    directory.clear(&["app"]).expect("clear");
    let found = directory.find(&["app"]).expect("find").expect("it is there");
    let new = WideTable::open(&store, &found.space(), &["games", "info"]).expect("open");
    old.put(b"ann", "games", b"chess", b"3").expect("put");
    let seen = new.view().and_then(|view| view.get(b"ann", "info", b"chess")).expect("get");
    assert_eq!(seen, None, "not in the family that has the number now");
    directory.clear(&["app"]).expect("clear");
    assert_eq!(
        contents(&store).len(),
        3,
        "a counter, a link and a record: what was written late goes, too"
    );
}

#[test]
fn removing_and_renaming_cost_the_same_however_much_there_is() {
    let store = engine();
    let directory = open(&store);
    let cost = |rows: u64| {
        let namespace = directory.create(&["n"]).expect("create");
        for key in 0..rows {
            put(&store, &namespace, key).expect("put");
        }
        let rename = directory.rename(&["n"], &["m"]).expect("rename");
        let remove = directory.remove(&["m"]).expect("remove");
        [rename, remove].map(|c| (c.calls, c.keys_read, c.keys_written, c.tombstones_written))
    };
    let few = cost(1);
    assert_eq!(few, cost(500));
    assert_eq!(contents(&store).len(), 1, "the counter stays");
}

#[test]
fn bad_paths_are_refused_with_the_remedy() {
    let store = MapStore::new();
    let directory = open(&store);
    directory.create(&["a", "b"]).expect("create");
    directory.create(&["c"]).expect("create");
    let long = "x".repeat(70_000);
    for path in [&[][..], &[""][..], &["a", ""][..], &[long.as_str()][..]] {
        assert!(matches!(directory.create(path), Err(Error::BadInput { what: "path", .. })));
    }
    for (from, to) in
        [(&["x"][..], &["y"][..]), (&["a"], &["c"]), (&["a"], &["a"]), (&["a"], &["a", "b", "c"])]
    {
        assert!(matches!(directory.rename(from, to), Err(Error::BadInput { .. })), "{from:?} {to:?}");
    }
    let error = directory.remove(&["a", "x"]).expect_err("missing").to_string();
    assert!(error.starts_with("path \"a/x\"") && error.contains("create it first"), "{error}");
    assert!(directory.clear(&["x"]).is_err() && directory.list(&["x"]).is_err());
    assert_eq!(directory.list(&[]).expect("list"), ["a", "c"]);
    let done = store.update(|tx| {
        tx.put(&directory.link(ROOT, "a"), b"\x02");
        Ok(())
    });
    done.expect("commit");
    assert!(matches!(directory.find(&["a"]), Err(Error::Foreign { layout: "namespaces", .. })));
    let number = directory.find(&["c"]).expect("find").expect("it is there").number;
    store.put(&directory.space.key(&(NEXT,)), &pack(&(u64::MAX,))).expect("put");
    store.put(&directory.space.key(&(RECORDS, number)), &pack(&(u64::MAX, ROOT, "c"))).expect("put");
    assert!(matches!(directory.create(&["d"]), Err(Error::Foreign { .. })), "no number is left");
    assert!(matches!(directory.clear(&["c"]), Err(Error::Foreign { .. })), "nor a generation");
}

#[test]
fn what_is_refused_leaves_nothing_in_the_transaction() {
    let store = engine();
    let directory = open(&store);
    directory.create(&["a"]).expect("create");
    // One number is left, and each of these takes two.
    store.put(&directory.space.key(&(NEXT,)), &pack(&(u64::MAX - 1,))).expect("put");
    let before = contents(&store);
    let done = store.update(|tx| {
        let renamed = directory.rename_in(tx, &["a"], &["b", "c", "d"]);
        assert!(matches!(renamed, Err(Error::Foreign { .. })));
        assert!(matches!(directory.create_in(tx, &["b", "c"]), Err(Error::Foreign { .. })));
        Ok(directory.find_in(tx, &["a"])?.is_some())
    });
    assert!(done.expect("commit").value, "it has its path still");
    assert_eq!(contents(&store), before);
    directory.rename(&["a"], &["b", "c"]).expect("one is enough");
    assert_eq!(directory.list(&["b"]).expect("list"), ["c"]);
}

/// A removal that meets what it cannot read, or a link to what is another's, names its key and removes nothing.
#[test]
fn a_removal_over_damage_removes_nothing() {
    for damage in 0..5 {
        let store = engine();
        let directory = open(&store);
        for path in [&["a", "b", "c"][..], &["a", "d"], &["e", "f"]] {
            let namespace = directory.create(path).expect("create");
            put(&store, &namespace, 1).expect("put");
        }
        let numbered = |path: &[&str]| directory.find(path).expect("find").expect("it is there").number;
        let (a, b, d, f) =
            (numbered(&["a"]), numbered(&["a", "b"]), numbered(&["a", "d"]), numbered(&["e", "f"]));
        let record = |number: u64| directory.space.key(&(RECORDS, number));
        let (key, value) = match damage {
            0 => (directory.link(b, "c"), vec![2]),
            1 => (record(d), vec![2]),
            2 => (directory.link(a, "d"), pack(&(f,))),
            3 => (directory.link(b, "c"), pack(&(a,))),
            _ => (directory.space.key(&(LINKS, b, 7u64)), pack(&(f,))),
        };
        store.put(&key, &value).expect("damage");
        let before = contents(&store);
        let done = store.update(|tx| {
            let error = directory.remove_in(tx, &["a"]).expect_err("damage").to_string();
            assert!(error.contains(&esker::printable(&key)), "{damage}: {error}");
            Ok(())
        });
        done.expect("commit");
        assert_eq!(contents(&store), before, "{damage}");
        directory.remove(&["e"]).expect("it is whole");
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the promise is about racing creators")]
fn racing_creators_agree() {
    let store = engine();
    let directory = open(&store);
    let mut found = std::thread::scope(|scope| {
        let racers: Vec<_> = (0..8u64)
            .map(|racer| {
                let (directory, store) = (&directory, &store);
                scope.spawn(move || {
                    let namespace = directory.create(&["a", "b"]).expect("create");
                    put(store, &namespace, racer).expect("put");
                    namespace
                })
            })
            .collect();
        racers.into_iter().map(|racer| racer.join().expect("no panic")).collect::<Vec<_>>()
    });
    assert_eq!(count(&store, &found[0]), 8);
    found.dedup();
    assert_eq!(found.len(), 1);
}

/// Paths as a model: each with the number of keys it holds.
type Model = BTreeMap<Vec<&'static str>, usize>;

fn path() -> impl Strategy<Value = Vec<&'static str>> {
    prop::collection::vec(prop_oneof![Just("a"), Just("b"), Just("a\0")], 1..4)
}

fn equals_the_model<S: OrderedKv>(store: &S, ops: &[(u8, Vec<&'static str>, Vec<&'static str>)]) {
    let directory = open(store);
    let mut model = Model::new();
    let parents = |model: &mut Model, path: &[&'static str]| {
        for len in 1..=path.len() {
            model.entry(path[..len].to_vec()).or_default();
        }
    };
    for (i, (kind, path, other)) in ops.iter().enumerate() {
        let known = model.contains_key(path);
        match kind {
            0..4 => {
                let namespace = directory.create(path).expect("create");
                put(store, &namespace, i as u64).expect("put");
                parents(&mut model, path);
                *model.entry(path.clone()).or_default() += 1;
            }
            4 => {
                assert_eq!(directory.remove(path).is_ok(), known);
                model.retain(|other, _| !other.starts_with(path));
            }
            5 => {
                assert_eq!(directory.clear(path).is_ok(), known);
                model.entry(path.clone()).and_modify(|keys| *keys = 0);
            }
            _ => {
                let allowed = known && !model.contains_key(other) && !other.starts_with(path);
                assert_eq!(directory.rename(path, other).is_ok(), allowed, "{path:?} {other:?}");
                if allowed {
                    let moved: Vec<_> = model.keys().filter(|key| key.starts_with(path)).cloned().collect();
                    let keys: Vec<_> = moved.iter().filter_map(|key| model.remove(key)).collect();
                    parents(&mut model, other);
                    for (old, keys) in moved.iter().zip(keys) {
                        model.insert([other.as_slice(), &old[path.len()..]].concat(), keys);
                    }
                }
            }
        }
    }
    for (path, keys) in &model {
        let namespace = directory.find(path).expect("find").expect("it is there");
        assert_eq!(count(store, &namespace), *keys, "{path:?}");
        let under = model.keys().filter(|key| key.len() == path.len() + 1 && key.starts_with(path));
        assert_eq!(
            directory.list(path).expect("list"),
            under.map(|key| key[path.len()]).collect::<Vec<_>>()
        );
    }
    let records = model.len() * 2 + model.values().sum::<usize>();
    assert!(contents(store).len() <= records + 1, "nothing is left of what was removed");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn equals_a_map_of_paths(ops in prop::collection::vec((0..8u8, path(), path()), 0..30)) {
        equals_the_model(&MapStore::new(), &ops);
        equals_the_model(&engine(), &ops);
    }
}
