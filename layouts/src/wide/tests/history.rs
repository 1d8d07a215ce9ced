use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::Error;
use crate::kv::{KvTx, OrderedKv};
use crate::map::MapStore;
use crate::testing::{assert_block, contents, engine};
use crate::tuple::Space;
use crate::wide::{History, RowChange, Version, WideTable};

fn open<S: OrderedKv>(store: &S) -> WideTable<&S> {
    WideTable::open(store, &Space::new(&("m",)), &["body"]).expect("open")
}

fn declare<S: OrderedKv>(table: &WideTable<&S>, versions: u32) -> History {
    History::declare(table, "body", versions).expect("declare")
}

fn put<S: OrderedKv>(table: &WideTable<&S>, history: &History, column: &[u8], time: i64, value: &[u8]) {
    table.apply(b"12345", &history.put(RowChange::new(), column, time, value)).expect("apply");
}

#[test]
fn the_example_of_the_format_is_what_is_written() {
    let store = MapStore::new();
    let table = open(&store);
    let history = declare(&table, 1);
    put(&table, &history, b"body", 7, b"Hi");
    put(&table, &history, b"body", 300, b"Hi Lars");
    assert_block("wide-history", &store);
}

/// C2: the versions of a mail's body; a read costs the versions it returns, however many lie there.
#[test]
fn reads_cost_the_versions_that_count() {
    let store = engine();
    let table = open(&store);
    let history = declare(&table, 3);
    for time in 0..100 {
        put(&table, &history, b"a", time, b"old");
        put(&table, &history, b"b", -time, b"late");
    }
    let view = table.view().expect("view");
    let newest = history.newest(&view, b"12345", b"a").expect("read").expect("is there");
    assert_eq!((newest.time, view.cost().keys_read), (99, 1));
    let times = |versions: Vec<Version>| versions.iter().map(|version| version.time).collect::<Vec<_>>();
    assert_eq!(times(history.versions(&view, b"12345", b"b").expect("read")), [0, -1, -2]);
    assert_eq!(view.cost().keys_read, 4);
    let before = view.cost();
    let found = history.as_of(&view, b"12345", b"b", 5).expect("read");
    assert_eq!((found.map(|version| version.time), view.cost().since(&before).keys_read), (Some(0), 1));
    let found = history.as_of(&view, b"12345", b"a", 98).expect("read");
    assert_eq!(
        (found.map(|version| version.time), view.cost().since(&before).keys_read),
        (Some(98), 1 + 2)
    );
    let before = view.cost();
    let row = history.row(&view, b"12345").expect("read");
    assert_eq!(row.len(), 2);
    assert_eq!(view.cost().since(&before).keys_read, 8, "one more a column, then a seek");
    let trimmed = history.trim(&table, b"12345").expect("trim");
    assert_eq!((trimmed.value, history.trim(&table, b"12345").expect("trim").value), (2, 0));
    assert_eq!(contents(&store).len(), 2 + 6, "and what counts");
    let view = table.view().expect("view");
    assert_eq!(history.row(&view, b"12345").expect("read"), row);
}

#[test]
fn declarations_and_data_are_checked() {
    let store = MapStore::new();
    let table = open(&store);
    let history = declare(&table, 2);
    for versions in [0, 3] {
        assert!(matches!(History::declare(&table, "body", versions), Err(Error::BadInput { .. })));
    }
    assert!(matches!(History::declare(&table, "other", 2), Err(Error::BadInput { what: "family", .. })));
    table.apply(b"12345", &RowChange::new().put("body", b"no time", b"")).expect("apply");
    let view = table.view().expect("view");
    assert!(matches!(history.row(&view, b"12345"), Err(Error::Foreign { layout: "wide", .. })));
    assert!(history.trim(&table, b"12345").is_err());
    let done = store.update(|tx| {
        tx.put(&Space::new(&("m",)).key(&(super::super::HISTORY, 0)), b"\x02");
        Ok(())
    });
    done.expect("commit");
    assert!(matches!(History::declare(&table, "body", 2), Err(Error::Foreign { .. })));
}

#[test]
fn a_history_is_of_one_table() {
    let store = MapStore::new();
    let table = open(&store);
    let history = declare(&table, 1);
    for time in 0..3 {
        put(&table, &history, b"a", time, b"");
    }
    let before = contents(&store);
    let others = [(Space::new(&("other",)), "body"), (Space::new(&("m",)), "head")];
    let others = others.map(|(space, family)| WideTable::open(&store, &space, &[family]).expect("open"));
    let opened = contents(&store).len();
    for other in &others {
        let refused = |error: Error| matches!(error, Error::BadInput { what: "family", .. });
        assert!(refused(history.trim(other, b"12345").expect_err("trim")), "{other:?}");
        let view = other.view().expect("view");
        assert!(refused(history.newest(&view, b"12345", b"a").expect_err("newest")));
        assert!(refused(history.versions(&view, b"12345", b"a").expect_err("versions")));
        assert!(refused(history.as_of(&view, b"12345", b"a", 1).expect_err("as of")));
        assert!(refused(history.row(&view, b"12345").expect_err("row")));
    }
    assert_eq!(contents(&store).len(), opened, "nothing was removed from {before:?}");
    assert_eq!(history.trim(&open(&store), b"12345").expect("a handle like the first").value, 1);
}

#[derive(Clone, Debug)]
enum Op {
    Put(u8, i64, u8),
    Delete(u8),
    Trim,
    Flush,
    Compact,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => (0..3u8, -3..6i64, any::<u8>()).prop_map(|(column, time, value)| Op::Put(column, time, value)),
        1 => (0..3u8).prop_map(Op::Delete),
        2 => Just(Op::Trim),
        1 => Just(Op::Flush),
        1 => Just(Op::Compact),
    ]
}

/// Columns with their versions that count.
type Row = Vec<(Vec<u8>, Vec<Version>)>;
type Model = BTreeMap<Vec<u8>, BTreeMap<i64, Vec<u8>>>;

/// Every answer there is.
fn answers<S: OrderedKv>(table: &WideTable<&S>, history: &History) -> (Row, Vec<Option<Version>>) {
    let view = table.view().expect("view");
    let row = history.row(&view, b"12345").expect("read");
    let as_of = (0..3u8).flat_map(|column| (-4..7i64).map(move |time| (column, time)));
    let as_of = as_of
        .map(|(column, time)| history.as_of(&view, b"12345", &vec![0; column.into()], time).expect("read"));
    (row, as_of.collect())
}

fn equals_the_model<S: OrderedKv>(store: &S, ops: &[Op], versions_max: u32, upkeep: impl Fn(&S, &Op)) {
    let table = open(store);
    let history = declare(&table, versions_max);
    let mut model = Model::new();
    for op in ops {
        match *op {
            Op::Put(column, time, value) => {
                let column = vec![0; column.into()];
                put(&table, &history, &column, time, &[value]);
                model.entry(column).or_default().insert(time, vec![value]);
            }
            Op::Delete(column) => {
                let column = vec![0; column.into()];
                table.apply(b"12345", &history.delete(RowChange::new(), &column)).expect("apply");
                model.remove(&column);
            }
            Op::Trim | Op::Flush | Op::Compact => {
                let before = answers(&table, &history);
                if matches!(op, Op::Trim) {
                    history.trim(&table, b"12345").expect("trim");
                } else {
                    upkeep(store, op);
                }
                assert_eq!(answers(&table, &history), before, "{op:?} changes no answer");
                if !matches!(op, Op::Trim) {
                    continue;
                }
            }
        }
        let count = usize::try_from(versions_max).expect("small");
        let counting = |versions: &BTreeMap<i64, Vec<u8>>| -> Vec<Version> {
            let newest = versions.iter().rev().take(count);
            newest.map(|(time, value)| Version { time: *time, value: value.clone().into() }).collect()
        };
        let (row, as_of) = answers(&table, &history);
        let expected: Vec<_> = model.iter().map(|(column, all)| (column.clone(), counting(all))).collect();
        assert_eq!(row, expected);
        let view = table.view().expect("view");
        for (i, found) in as_of.into_iter().enumerate() {
            let column = vec![0; i / 11];
            let time = i64::try_from(i % 11).expect("small") - 4;
            let own = model.get(&column).map(counting).unwrap_or_default();
            assert_eq!(found, own.iter().find(|version| version.time <= time).cloned());
            assert_eq!(history.versions(&view, b"12345", &column).expect("read"), own);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Late versions, trims, flushes and compactions in any order: the answers are those of a map that never
    /// forgets.
    #[test]
    fn equals_a_map_of_all_versions(ops in prop::collection::vec(op(), 0..40), versions_max in 1..4u32) {
        equals_the_model(&MapStore::new(), &ops, versions_max, |_, _| {});
        equals_the_model(&engine(), &ops, versions_max, |store, op| match op {
            Op::Flush => store.database().flush().expect("flush"),
            _ => store.keyspace().compact_range::<&[u8]>(..).expect("compact"),
        });
    }
}
