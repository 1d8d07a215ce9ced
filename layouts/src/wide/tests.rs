mod history;

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use proptest::prelude::*;

use super::*;
use crate::map::MapStore;
use crate::testing::{assert_block, contents, engine};

fn space() -> Space {
    Space::new(&("t",))
}

fn columns(page: &Page) -> Vec<String> {
    page.cells.iter().map(|cell| String::from_utf8_lossy(&cell.column).into_owned()).collect()
}

#[test]
fn the_example_of_the_format_is_what_is_written() {
    let store = MapStore::new();
    let table = WideTable::open(&store, &space(), &["info", "games"]).expect("open");
    let change = RowChange::new().put("games", b"go\0", b"3").put("info", b"", b"").put(
        "info",
        b"name",
        "Аня".as_bytes(),
    );
    table.apply(b"ann", &change).expect("apply");
    table.increment(b"ann", "games", b"total", 258).expect("increment");
    assert_block("wide", &store);
}

#[test]
fn families_keep_their_numbers() {
    let store = MapStore::new();
    let first = WideTable::open(&store, &space(), &["b", "a"]).expect("open");
    assert_eq!(first.families().collect::<Vec<_>>(), ["b", "a"], "in the order of declaration");
    first.apply(b"r", &RowChange::new().put("a", b"c", b"1")).expect("apply");
    let second = WideTable::open(&store, &space(), &["new", "a"]).expect("families are added online");
    assert_eq!(second.families().collect::<Vec<_>>(), ["a", "new"]);
    assert_eq!(second.view().expect("view").get(b"r", "a", b"c").expect("get").as_deref(), Some(&b"1"[..]));
    let error = second.view().expect("view").get(b"r", "b", b"c").expect_err("not opened with it");
    assert_eq!(
        error.to_string(),
        "family \"b\" cannot be stored: this table was opened with a, new; add it there"
    );
    for families in [&[][..], &[""][..], &["a", "a"][..]] {
        assert!(matches!(WideTable::open(&store, &space(), families), Err(Error::BadInput { .. })));
    }
}

#[test]
fn a_refused_change_leaves_nothing_in_the_transaction() {
    let store = engine();
    let table = WideTable::open(&store, &space(), &["f"]).expect("open");
    table.put(b"r", "f", b"old", b"1").expect("put");
    let before = contents(&store);
    let long = vec![b'x'; store.caps().key_bytes_max];
    let begun = || RowChange::new().delete_row().put("f", b"new", b"2");
    for change in [begun().put("g", b"c", b""), begun().add("f", &long, 1)] {
        let done = store.update(|tx| {
            assert!(matches!(table.apply_in(tx, b"r", &change), Err(Error::BadInput { .. })));
            Ok(())
        });
        done.expect("commit");
        assert_eq!(contents(&store), before);
    }
}

#[test]
fn bad_input_and_foreign_data_are_clear_errors() {
    let store = MapStore::new();
    let table = WideTable::open(&store, &space(), &["f"]).expect("open");
    let long = vec![b'x'; store.caps().key_bytes_max];
    let error = table.apply(&long, &RowChange::new().put("f", b"c", b"")).expect_err("too long");
    assert!(error.to_string().contains("shorten one of them"), "{error}");
    assert_eq!(table.put(&long, "f", b"c", b"").expect_err("too long").to_string(), error.to_string());
    assert!(matches!(table.put(b"r", "g", b"c", b""), Err(Error::BadInput { what: "family", .. })));
    let view = table.view().expect("view");
    assert!(matches!(view.page(&Query::all().limit_cells(0)), Err(Error::BadInput { what: "limit", .. })));
    assert!(matches!(view.page(&Query::all().family("g")), Err(Error::BadInput { what: "family", .. })));
    let done = store.update(|tx| {
        tx.put(&space().key(&(CELLS, 0, "text", "where bytes belong")), b"");
        Ok(())
    });
    done.expect("commit");
    let error = table.view().expect("view").page(&Query::all()).expect_err("foreign");
    assert!(matches!(error, Error::Foreign { layout: "wide", .. }), "{error}");
    let text = table.increment(b"r", "f", b"n", 1).and_then(|_| {
        table.apply(b"r", &RowChange::new().put("f", b"n", b"one"))?;
        table.increment(b"r", "f", b"n", 1)
    });
    assert!(matches!(text, Err(Error::Merge { .. })));
    table.apply(b"r", &RowChange::new().put("f", b"n", &i64::MAX.to_le_bytes())).expect("apply");
    assert!(matches!(table.increment(b"r", "f", b"n", 1), Err(Error::Merge { .. })), "overflow");
    assert!(PageToken::from_bytes(b"\x01half").is_err());
    store.put(&space().key(&(FAMILIES, "last")), &pack(&(u64::MAX,))).expect("put");
    let more = WideTable::open(&store, &space(), &["f", "g"]);
    assert!(matches!(more.map(|_| ()), Err(Error::Foreign { .. })), "no number is left");
}

#[test]
fn a_row_changes_as_a_whole_or_not_at_all() {
    let store = engine();
    let table = WideTable::open(&store, &space(), &["a", "b"]).expect("open");
    let refused = RowChange::new().put("a", b"1", b"x").put("c", b"1", b"x");
    assert!(table.apply(b"r", &refused).is_err());
    assert!(table.view().expect("view").page(&Query::all()).expect("page").cells.is_empty());

    let put = RowChange::new().put("a", b"1", b"x").put("b", b"1", b"y").put("b", b"2", b"z");
    let cost = table.apply(b"r", &put).expect("apply");
    assert_eq!((cost.calls, cost.keys_read, cost.keys_written), (1, 0, 3), "one blind commit");
    table.apply(b"r\0", &put).expect("apply");
    let swap = RowChange::new().delete_row().put("b", b"9", b"only");
    let done = table.check_and_apply(b"r", "a", b"1", &Check::value(b"other"), &swap).expect("check");
    assert!(!done.value, "an answer, not an error");
    assert!(table.check_and_apply(b"r", "a", b"1", &Check::value(b"x"), &swap).expect("check").value);
    assert!(
        table.check_and_apply(b"r", "a", b"1", &Check::Absent, &RowChange::new()).expect("check").value
    );
    assert!(!table.check_and_apply(b"r", "a", b"1", &Check::Present, &swap).expect("check").value);
    let view = table.view().expect("view");
    assert_eq!(columns(&view.page(&Query::row(b"r")).expect("page")), ["9"]);
    assert_eq!(columns(&view.page(&Query::row(b"r\0")).expect("page")), ["1", "1", "2"], "another row");
    table.clear_family("b").expect("clear");
    assert_eq!(view.page(&Query::all()).expect("page").cells.len(), 4, "a view does not change");
    assert_eq!(columns(&table.view().expect("view").page(&Query::all()).expect("page")), ["1"]);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the promise is about concurrent writers")]
fn racing_conditional_writes_have_one_winner_and_counters_lose_nothing() {
    let store = engine();
    let table = WideTable::open(&store, &space(), &["f"]).expect("open");
    let wins: usize = std::thread::scope(|scope| {
        let racers: Vec<_> = (0..8u8)
            .map(|racer| {
                let table = &table;
                scope.spawn(move || {
                    for _ in 0..10 {
                        table.increment(b"r", "f", b"read", 1).expect("increment");
                        table.apply(b"r", &RowChange::new().add("f", b"blind", 1)).expect("add");
                    }
                    let claim = RowChange::new().put("f", b"owner", &[racer]);
                    table.check_and_apply(b"r", "f", b"owner", &Check::Absent, &claim).expect("check").value
                })
            })
            .collect();
        racers.into_iter().map(|racer| usize::from(racer.join().expect("no panic"))).sum()
    });
    assert_eq!(wins, 1);
    let view = table.view().expect("view");
    for counter in [&b"read"[..], b"blind"] {
        assert_eq!(view.get(b"r", "f", counter).expect("get").as_deref(), Some(&80i64.to_le_bytes()[..]));
    }
}

/// A table with one very wide row and a hundred narrow ones.
fn filled<S: OrderedKv>(store: &S) -> WideTable<&S> {
    let table = WideTable::open(store, &space(), &["f", "g"]).expect("open");
    let wide = (0..5_000).fold(RowChange::new(), |change, i| {
        change.put("f", format!("c{i:04}").as_bytes(), format!("{}", i % 7).as_bytes())
    });
    table.apply(b"row050x", &wide).expect("apply");
    for i in 0..100 {
        let change = RowChange::new().put("f", b"c2500", b"0").put("g", b"other", b"");
        table.apply(format!("row{i:03}").as_bytes(), &change).expect("apply");
    }
    table
}

#[test]
fn ranges_of_columns_read_only_what_they_return() {
    let store = engine();
    let table = filled(&store);
    let looked = |query: &Query| {
        let view = table.view().expect("view");
        let page = view.page(query).expect("page");
        (page.cells.len(), view.cost().keys_read)
    };
    let range = KeyRange { start: b"c1000".to_vec(), end: Some(b"c1010".to_vec()) };
    assert_eq!(looked(&Query::row(b"row050x").columns(range.clone())), (10, 10));
    assert_eq!(looked(&Query::row(b"row050x").family("f").filter(Filter::Column(b"c4321".into()))), (1, 1));
    let cut = KeyRange { start: b"c10".to_vec(), end: None };
    let both = Filter::All(vec![Filter::ColumnPrefix(b"c1".into()), Filter::Value(b"3".into())]);
    assert_eq!(looked(&Query::row(b"row050x").family("f").columns(cut).filter(both)), (143, 1_000));
    // Over all rows, the wide one is left by seeks: 101 rows, and at most 16 misses before each seek.
    for query in [Query::all().columns(range.clone()), Query::all().columns(range).reverse()] {
        let (cells, read) = looked(&query);
        assert_eq!(cells, 10);
        assert!(read <= 10 + 200 + 3 * 16, "{read} keys read of 5200");
    }
    let nothing = KeyRange { start: b"b".to_vec(), end: Some(b"a".to_vec()) };
    assert_eq!(looked(&Query::all().columns(nothing)), (0, 0));
}

#[test]
fn limits_end_pages_without_reading_further() {
    let store = engine();
    let table = filled(&store);
    let view = table.view().expect("view");
    let page = view.page(&Query::row(b"row050x").family("f").limit_cells(7)).expect("page");
    assert_eq!((page.cells.len(), view.cost().keys_read), (7, 7));
    let bytes = view.page(&Query::row(b"row050x").limit_bytes(30)).expect("page");
    assert_eq!(bytes.cells.len(), 3, "13 bytes a cell; the third reaches 30");
    let rows = view.page(&Query::all().family("g").limit_rows(5)).expect("page");
    assert_eq!(rows.cells.len(), 5);
    let rare = Query::all().family("f").filter(Filter::Value(b"absent".into())).limit_looked(1_000);
    let mut query = rare.clone();
    let mut pages = 1;
    while let Some(token) = view.page(&query).expect("page").next {
        query = rare.clone().after(PageToken::from_bytes(&token.to_bytes()).expect("its own bytes"));
        pages += 1;
    }
    assert_eq!(pages, 6, "5,100 cells, a thousand a page");
}

/// The model: cells by row, family, column.
type Model = BTreeMap<(Vec<u8>, usize, Vec<u8>), Vec<u8>>;

const NAMES: [&str; 3] = ["x", "y", "z"];

fn name() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop_oneof![Just(0u8), Just(0xff), Just(b'a'), Just(b'b')], 0..3)
}

fn range() -> impl Strategy<Value = KeyRange> {
    (name(), prop::option::of(name())).prop_map(|(start, end)| KeyRange { start, end })
}

fn filter() -> impl Strategy<Value = Filter> {
    let leaf = prop_oneof![
        name().prop_map(Filter::Column),
        name().prop_map(Filter::ColumnPrefix),
        name().prop_map(Filter::Value),
        name().prop_map(Filter::ValuePrefix),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Filter::All),
            prop::collection::vec(inner.clone(), 0..3).prop_map(Filter::Any),
            inner.prop_map(|filter| Filter::Not(Box::new(filter))),
        ]
    })
}

#[derive(Clone, Debug)]
enum Op {
    Put(Vec<u8>, usize, Vec<u8>, Vec<u8>),
    Delete(Vec<u8>, usize, Vec<u8>),
    DeleteColumns(Vec<u8>, usize, KeyRange),
    DeleteRow(Vec<u8>),
    ClearFamily(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (name(), 0..3usize, name(), name()).prop_map(|(r, f, c, v)| Op::Put(r, f, c, v)),
        2 => (name(), 0..3usize, name()).prop_map(|(r, f, c)| Op::Delete(r, f, c)),
        1 => (name(), 0..3usize, range()).prop_map(|(r, f, c)| Op::DeleteColumns(r, f, c)),
        1 => name().prop_map(Op::DeleteRow),
        1 => (0..3usize).prop_map(Op::ClearFamily),
    ]
}

fn run<S: OrderedKv>(table: &WideTable<&S>, model: &mut Model, op: &Op) -> Result<OpCost> {
    match op.clone() {
        Op::Put(row, family, column, value) => {
            let cost = if value.len().is_multiple_of(2) {
                table.put(&row, NAMES[family], &column, &value)
            } else {
                table.apply(&row, &RowChange::new().put(NAMES[family], &column, &value))
            };
            model.insert((row, family, column), value);
            cost
        }
        Op::Delete(row, family, column) => {
            let cost = table.apply(&row, &RowChange::new().delete(NAMES[family], &column));
            model.remove(&(row, family, column));
            cost
        }
        Op::DeleteColumns(row, family, range) => {
            model.retain(|(r, f, c), _| (r, *f) != (&row, family) || !range.contains(c));
            table.apply(&row, &RowChange::new().delete_columns(NAMES[family], range))
        }
        Op::DeleteRow(row) => {
            model.retain(|(r, _, _), _| *r != row);
            table.apply(&row, &RowChange::new().delete_row())
        }
        Op::ClearFamily(family) => {
            model.retain(|(_, f, _), _| *f != family);
            table.clear_family(NAMES[family])
        }
    }
}

/// Read a query in pages and compare all of it with the model.
fn pages_equal_the_model<S: OrderedKv>(
    table: &WideTable<&S>,
    model: &Model,
    query: &Query,
    wanted: impl Fn(&(Vec<u8>, usize, Vec<u8>), &Vec<u8>) -> bool,
    reverse: bool,
) {
    let view = table.view().expect("view");
    let mut expected: Vec<_> = model.iter().filter(|(key, value)| wanted(key, value)).collect();
    if reverse {
        expected.reverse();
    }
    let mut cells = Vec::new();
    let mut next = Some(query.clone());
    while let Some(query) = next {
        let page = view.page(&query).expect("page");
        next = page.next.map(|token| query.after(token));
        cells.extend(page.cells);
    }
    let cells: Vec<_> = cells
        .into_iter()
        .map(|cell| {
            let family = NAMES.iter().position(|name| *name == cell.family).expect("a family");
            ((cell.row, family, cell.column), cell.value.to_vec())
        })
        .collect();
    assert_eq!(cells.iter().map(|(key, value)| (key, value)).collect::<Vec<_>>(), expected);
}

fn equals_the_model<S: OrderedKv>(store: &S, ops: &[Op], queries: &[QueryOf]) {
    let table = WideTable::open(store, &space(), &NAMES).expect("open");
    let mut model = Model::new();
    for op in ops {
        run(&table, &mut model, op).expect("a change");
    }
    for QueryOf { rows, columns, filter, family, reverse, limits } in queries {
        let mut query = Query::rows(rows.clone()).columns(columns.clone());
        query.filter.clone_from(filter);
        query.reverse = *reverse;
        query.limit_rows = limits.0;
        query.limit_cells = limits.1;
        query.limit_bytes = limits.2;
        query.limit_looked = limits.3;
        if let Some(family) = family {
            query = query.family(NAMES[*family]);
        }
        let wanted = |(row, f, column): &(Vec<u8>, usize, Vec<u8>), value: &Vec<u8>| {
            rows.contains(row)
                && columns.contains(column)
                && family.is_none_or(|family| family == *f)
                && filter.as_ref().is_none_or(|filter| filter.passes(column, value))
        };
        pages_equal_the_model(&table, &model, &query, wanted, *reverse);
        for (number, name) in NAMES.iter().enumerate().filter(|(f, _)| family.is_none_or(|only| only == *f))
        {
            let mut query = Query::rows(rows.clone()).columns(columns.clone()).family(name);
            query.filter.clone_from(filter);
            let expected = model.iter().filter(|(key, value)| key.1 == number && wanted(key, value));
            let expected = expected.map(|((row, _, column), value)| (row, column, value));
            let mut lent = Vec::new();
            let keep = |cell: CellRef<'_>| {
                lent.push((cell.row.to_vec(), cell.column.to_vec(), cell.value.to_vec()));
                Ok(ControlFlow::Continue(()))
            };
            table.view().expect("view").visit(&query, keep).expect("visit");
            let lent: Vec<_> = lent.iter().map(|(row, column, value)| (row, column, value)).collect();
            assert_eq!(lent, expected.collect::<Vec<_>>(), "what is lent is what a page holds");
        }
    }
}

#[test]
fn a_visit_passes_over_narrow_rows_and_seeks_in_wide_ones() {
    let store = engine();
    let table = WideTable::open(&store, &space(), &["f"]).expect("open");
    for row in 0..50u8 {
        let mut change = RowChange::new();
        for column in 0..if row == 25 { 1_000u32 } else { 4 } {
            change = change.put("f", &column.to_be_bytes(), b"v");
        }
        table.apply(&[row, 0, row], &change.put("f", b"z", b"v").put("f", b"xz", b"v")).expect("apply");
    }
    let view = table.view().expect("view");
    let query = Query::all().filter(Filter::Column(b"z".to_vec()));
    let mut rows = Vec::new();
    let keep = |cell: CellRef<'_>| {
        rows.push(cell.row.to_vec());
        Ok(ControlFlow::Continue(()))
    };
    view.visit(&query, keep).expect("visit");
    assert_eq!(rows, (0..50u8).map(|row| vec![row, 0, row]).collect::<Vec<_>>());
    let cost = view.cost();
    // 49 rows of six cells are read whole, the wide one as far as a seek takes to pay; one call in all.
    assert_eq!(cost.calls, 1, "{cost:?}");
    assert!((49 * 6..49 * 6 + 40).contains(&cost.keys_read), "{}", cost.keys_read);
    let mut seen = 0;
    let first = |_: CellRef<'_>| {
        seen += 1;
        Ok(ControlFlow::Break(()))
    };
    view.visit(&query, first).expect("visit");
    assert_eq!(seen, 1);
    for refused in [query.clone().reverse(), query.clone().limit_rows(1)] {
        let outcome = view.visit(&refused, |_| Ok(ControlFlow::Continue(())));
        assert!(matches!(outcome, Err(Error::BadInput { what: "query", .. })));
    }
}

#[derive(Clone, Debug)]
struct QueryOf {
    rows: KeyRange,
    columns: KeyRange,
    filter: Option<Filter>,
    family: Option<usize>,
    reverse: bool,
    limits: (Option<usize>, Option<usize>, Option<u64>, Option<u64>),
}

fn query() -> impl Strategy<Value = QueryOf> {
    let rows = prop_oneof![range(), name().prop_map(|row| KeyRange::point(&row)), Just(KeyRange::all())];
    let columns = prop_oneof![range(), Just(KeyRange::all())];
    let limits = (
        prop::option::of(1..4usize),
        prop::option::of(1..4usize),
        prop::option::of(1..9u64),
        prop::option::of(1..4u64),
    );
    let rest = (prop::option::of(filter()), prop::option::of(0..3usize), any::<bool>(), limits);
    (rows, columns, rest).prop_map(|(rows, columns, (filter, family, reverse, limits))| QueryOf {
        rows,
        columns,
        filter,
        family,
        reverse,
        limits,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn equals_a_sorted_map_in_memory(
        ops in prop::collection::vec(op(), 0..60),
        queries in prop::collection::vec(query(), 1..8),
    ) {
        equals_the_model(&MapStore::new(), &ops, &queries);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn equals_a_sorted_map_on_the_engine(
        ops in prop::collection::vec(op(), 0..60),
        queries in prop::collection::vec(query(), 1..8),
    ) {
        equals_the_model(&engine(), &ops, &queries);
    }
}
