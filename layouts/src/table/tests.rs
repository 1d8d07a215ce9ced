use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::kv::ScanOptions;
use crate::map::MapStore;
use crate::testing::{assert_block, contents, engine};
use crate::tuple::{Desc, Fields, KeyError, pack};

#[derive(Row, Clone, Debug, PartialEq)]
struct User {
    name: String,
    age: u32,
    note: Option<String>,
}

/// What [`User`] was before it had a note.
mod older {
    #[derive(super::Row, Clone, Debug, PartialEq)]
    pub(super) struct User {
        pub(super) name: String,
        pub(super) age: u32,
    }
}

/// What it becomes: the note goes, the year of birth takes the place of the age.
mod newer {
    use crate::tuple::Element;

    #[derive(super::Row, Clone, Debug, PartialEq)]
    #[row(version = 2, upgrade = from_older)]
    pub(super) struct User {
        pub(super) name: String,
        pub(super) born: u32,
    }

    fn from_older(version: u64, fields: &[Element<'_>]) -> Option<User> {
        match (version, fields) {
            (1, [Element::Text(name), Element::Int(age), _]) => {
                let born = 2015 - u32::try_from(*age).ok()?;
                Some(User { name: name.to_string(), born })
            }
            _ => None,
        }
    }
}

const MODES: [RowMode; 2] = [RowMode::Packed, RowMode::Cells];

fn space() -> Space {
    Space::new(&("r",))
}

fn open<S: OrderedKv, K: Key, R: Row>(store: &S, mode: RowMode) -> Table<&S, K, R> {
    Table::open(store, &space(), mode).expect("open")
}

fn ann() -> User {
    User { name: "Ann".to_owned(), age: 40, note: None }
}

#[test]
fn the_examples_of_the_format_are_what_is_written() {
    for (block, mode) in [("table-packed", RowMode::Packed), ("table-cells", RowMode::Cells)] {
        let store = MapStore::new();
        open(&store, mode).put(&(7u64,), &older::User { name: "Ann".to_owned(), age: 40 }).expect("put");
        assert_block(block, &store);
    }
}

/// D5 and D6: what a field costs in either mode, with a hundred bytes beside it.
#[test]
fn one_field_costs_a_row_packed_and_itself_in_cells() {
    for mode in MODES {
        let store = engine();
        let table: Table<_, (u64,), User> = open(&store, mode);
        table.put(&(7,), &User { note: Some("x".repeat(1_000)), ..ann() }).expect("put");
        let set = table.set(&(7,), User::AGE, &41).expect("set");
        assert!(set.value);
        let patched = table.patch(&(7,), |user| user.age += 1).expect("patch");
        assert!(patched.value);
        assert_eq!(
            (set.cost.keys_read, set.cost.keys_written),
            (2, 1),
            "{mode:?}: schema, then row or header"
        );
        assert_eq!(patched.cost.keys_written, 1);
        for written in [set.cost.bytes_written, patched.cost.bytes_written] {
            assert_eq!(written > 1_000, mode == RowMode::Packed, "{mode:?} wrote {written} bytes");
        }
        let view = table.view().expect("view");
        assert_eq!(view.field(&(7,), User::AGE).expect("get"), Some(42));
        assert_eq!(view.cost().calls, 1);
        assert_eq!(view.cost().bytes_read > 1_000, mode == RowMode::Packed, "{:?}", view.cost());
        assert_eq!(view.field(&(8,), User::AGE).expect("get"), None);
        assert!(!table.set(&(8,), User::AGE, &1).expect("set").value, "no row comes of a field");
        assert!(!table.patch(&(8,), |user| user.age = 1).expect("patch").value);
        assert_eq!(view.get(&(7,)).expect("get").map(|user| user.age), Some(42));
    }
}

#[test]
fn older_rows_are_upgraded_and_newer_ones_refused() {
    for mode in MODES {
        let store = engine();
        let before: Table<_, (u64,), User> = open(&store, mode);
        for id in 0..4 {
            before.put(&(id,), &User { note: Some("note".to_owned()), ..ann() }).expect("put");
        }
        let after: Table<_, (u64,), newer::User> = open(&store, mode);
        let born = |born| newer::User { name: "Ann".to_owned(), born };
        let view = after.view().expect("view");
        assert_eq!(view.get(&(0,)).expect("get"), Some(born(1975)));
        assert_eq!(view.field(&(0,), newer::User::BORN).expect("get"), Some(1975));
        assert!(after.set(&(1,), newer::User::BORN, &1980).expect("set").value);
        assert!(after.patch(&(2,), |user| user.born += 1).expect("patch").value);
        after.put(&(3,), &born(1999)).expect("put");
        let view = after.view().expect("view");
        let rows = view.rows(after.keys().under(&()), ScanOptions::new()).expect("scan");
        let years: Vec<u32> = rows.map(|row| row.expect("a row").1.born).collect();
        assert_eq!(years, [1975, 1980, 1976, 1999]);
        for result in [before.put(&(5,), &ann()).map(|_| ()), before.set(&(1,), User::AGE, &1).map(|_| ())]
        {
            assert!(matches!(result, Err(Error::Schema { stored: 2, known: 1, .. })), "{result:?}");
        }
        let old_view = before.view().expect("view");
        assert!(matches!(old_view.get(&(3,)), Err(Error::Schema { stored: 2, known: 1, .. })));
        assert_eq!(
            old_view.get(&(0,)).expect("untouched rows are still its own").map(|user| user.age),
            Some(40)
        );
        let old = Table::<_, (u64,), User>::open(&store, &space(), mode).map(|_| ());
        assert!(matches!(old, Err(Error::Schema { .. })));
        // Nobody knows how to get from the table of two fields to version 2.
        let store = MapStore::new();
        let two: Table<_, (u64,), older::User> = open(&store, mode);
        two.put(&(1,), &older::User { name: "Bo".to_owned(), age: 1 }).expect("put");
        let other = Table::<_, (u64,), User>::open(&store, &space(), mode).map(|_| ());
        let error = other.expect_err("the same version with other fields").to_string();
        assert!(error.contains("count the version up"), "{error}");
        let after: Table<_, (u64,), newer::User> = open(&store, mode);
        let error = after.view().and_then(|view| view.get(&(1,))).expect_err("no upgrade").to_string();
        assert!(error.contains("no upgrade from that version"), "{error}");
    }
}

/// Rows that grow by two fields and by one, or lose two: fields lie where rows of other versions have none.
mod others {
    use crate::tuple::Element;

    #[derive(super::Row, Clone, Debug, PartialEq)]
    pub(super) struct Short {
        pub(super) name: String,
    }

    #[derive(super::Row, Clone, Debug, PartialEq)]
    #[row(version = 2, upgrade = from_short)]
    pub(super) struct Long {
        pub(super) name: String,
        pub(super) age: u32,
        pub(super) note: Option<String>,
    }

    #[derive(super::Row, Clone, Debug, PartialEq)]
    #[row(version = 3)]
    pub(super) struct Shorter {
        pub(super) name: String,
    }

    fn from_short(version: u64, fields: &[Element<'_>]) -> Option<Long> {
        match (version, fields) {
            (1, [Element::Text(name)]) => {
                Some(Long { name: name.to_string(), age: 7, note: Some("new".to_owned()) })
            }
            _ => None,
        }
    }
}

#[test]
fn a_field_that_the_rows_version_lacks_is_upgraded_or_refused() {
    use others::{Long, Short, Shorter};
    for mode in MODES {
        let store = MapStore::new();
        let short: Table<_, (u64,), Short> = open(&store, mode);
        short.put(&(1,), &Short { name: "Ann".to_owned() }).expect("put");
        let long: Table<_, (u64,), Long> = open(&store, mode);
        let view = long.view().expect("view");
        assert_eq!(view.field(&(1,), Long::NAME).expect("get").as_deref(), Some("Ann"), "{mode:?}");
        assert_eq!(view.field(&(1,), Long::AGE).expect("get"), Some(7), "{mode:?}");
        assert_eq!(view.field(&(1,), Long::NOTE).expect("get"), Some(Some("new".to_owned())), "{mode:?}");
        assert_eq!(view.cost().calls, if mode == RowMode::Packed { 3 } else { 6 }, "{mode:?}");
        let shorter: Table<_, (u64,), Shorter> = open(&store, mode);
        shorter.put(&(2,), &Shorter { name: "Bo".to_owned() }).expect("put");
        let view = long.view().expect("view");
        let refused = [
            view.field(&(2,), Long::NAME).map(|_| ()),
            view.field(&(2,), Long::AGE).map(|_| ()),
            view.field(&(2,), Long::NOTE).map(|_| ()),
        ];
        for result in refused {
            assert!(
                matches!(result, Err(Error::Schema { stored: 3, known: 2, .. })),
                "{mode:?}: {result:?}"
            );
        }
        // Nobody upgrades from version 1 to 3.
        let refused = shorter.view().and_then(|view| view.field(&(1,), Shorter::NAME));
        assert!(matches!(refused, Err(Error::Schema { stored: 1, known: 3, .. })), "{mode:?}: {refused:?}");
    }
}

#[test]
fn half_rows_foreign_data_and_modes_are_errors() {
    let store = MapStore::new();
    let table: Table<_, (String,), User> = open(&store, RowMode::Cells);
    let other = Table::<_, (String,), User>::open(&store, &space(), RowMode::Packed).map(|_| ());
    assert!(matches!(other, Err(Error::BadInput { what: "row mode", .. })));
    for place in [None, Some(0u64), Some(1), Some(2)] {
        table.put(&("ann".to_owned(),), &ann()).expect("put");
        let row = table.keys().sub(&("ann",));
        let done = store.update(|tx| {
            tx.delete(&place.map_or_else(|| row.key(&()), |place| row.key(&(place,))));
            Ok(())
        });
        done.expect("commit");
        let view = table.view().expect("view");
        let found = view.get(&("ann".to_owned(),));
        assert!(matches!(found, Err(Error::Foreign { layout: "table", .. })), "{place:?}: {found:?}");
        let mut rows = view.rows(table.keys().under(&()), ScanOptions::new()).expect("scan");
        assert!(matches!(rows.next(), Some(Err(Error::Foreign { .. }))) && rows.next().is_none());
    }
    let store = MapStore::new();
    let table: Table<_, (u64,), User> = open(&store, RowMode::Packed);
    for (key, value) in [((1u64,), &b"\x15"[..]), ((2,), b"\x15\x01\x02Ann\x00"), ((3,), b"")] {
        let done = store.update(|tx| {
            tx.put(&table.keys().key(&key), value);
            Ok(())
        });
        done.expect("commit");
        assert!(matches!(table.view().and_then(|view| view.get(&key)), Err(Error::Foreign { .. })));
    }
    let store = MapStore::new();
    let table: Table<_, (String,), User> = open(&store, RowMode::Cells);
    assert!(table.put(&("x".repeat(70_000),), &ann()).is_err());
}

/// Every put in cells removes what may lie in the places behind the row's own: a record of more fields than there can
/// be, or of fewer than it names, is damage and no work.
#[test]
fn a_schema_of_absurdly_many_fields_is_an_error() {
    for mode in MODES {
        let store = MapStore::new();
        let table: Table<_, (u64,), User> = open(&store, mode);
        let record = |fields_max: u64| {
            let mut record = pack(&(u64::from(mode == RowMode::Cells), User::VERSION, fields_max));
            record.extend_from_slice(&pack(User::FIELDS));
            store.put(&space().key(&(SCHEMA,)), &record).expect("put");
        };
        for fields_max in [1 << 50, u64::MAX, FIELDS_MAX as u64 + 1, 2] {
            record(fields_max);
            let opened = Table::<_, (u64,), User>::open(&store, &space(), mode).map(|_| ());
            assert!(
                matches!(opened, Err(Error::Foreign { layout: "table", .. })),
                "{mode:?}, {fields_max}"
            );
            let before = contents(&store);
            assert!(
                matches!(table.put(&(1,), &ann()), Err(Error::Foreign { .. })),
                "{mode:?}, {fields_max}"
            );
            assert_eq!(contents(&store), before);
        }
        record(FIELDS_MAX as u64);
        let cost = table.put(&(1,), &ann()).expect("put");
        let places = if mode == RowMode::Cells { FIELDS_MAX as u64 - 3 } else { 0 };
        assert_eq!(cost.tombstones_written, places, "{mode:?}");
        let store = MapStore::new();
        let refused = Table::<_, (u64,), TooMany>::open(&store, &space(), mode).map(|_| ());
        assert!(matches!(refused, Err(Error::BadInput { what: "number of fields", .. })), "{mode:?}");
        assert!(contents(&store).is_empty());
    }
}

/// A row type with a field more than there may be.
struct TooMany;

static NAMES: [&str; FIELDS_MAX + 1] = ["field"; FIELDS_MAX + 1];

impl Row for TooMany {
    const VERSION: u64 = 1;
    const FIELDS: &'static [&'static str] = &NAMES;
}

impl Pack for TooMany {
    fn pack_at(&self, _: &mut Vec<u8>, _: usize) {}
}

impl Unpack for TooMany {
    fn unpack_from(_: &mut Fields<'_>) -> Result<Self, KeyError> {
        Ok(TooMany)
    }
}

/// Keys of which one begins with the other, and the order against the order of insertion.
#[derive(Key, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Id {
    group: String,
    #[key(desc)]
    number: i64,
}

#[derive(Clone, Debug)]
enum Op {
    Put(u8, i64, u32),
    Set(u8, i64, u32),
    Patch(u8, i64, Option<String>),
    Remove(u8, i64),
}

fn op() -> impl Strategy<Value = Op> {
    let id = || (0..3u8, 0..4i64);
    prop_oneof![
        4 => (id(), any::<u32>()).prop_map(|((a, b), age)| Op::Put(a, b, age)),
        2 => (id(), any::<u32>()).prop_map(|((a, b), age)| Op::Set(a, b, age)),
        2 => (id(), any::<Option<String>>()).prop_map(|((a, b), note)| Op::Patch(a, b, note)),
        1 => id().prop_map(|(a, b)| Op::Remove(a, b)),
    ]
}

fn equals_the_model<S: OrderedKv>(store: &S, mode: RowMode, ops: &[Op], limit: usize) {
    let table: Table<_, Id, User> = open(store, mode);
    let mut model: BTreeMap<Id, User> = BTreeMap::new();
    let id = |a: u8, number| Id { group: "a\0".repeat(a.into()), number };
    for op in ops {
        match op.clone() {
            Op::Put(a, b, age) => {
                let row = User { age, note: Some(age.to_string()), ..ann() };
                table.put(&id(a, b), &row).expect("put");
                model.insert(id(a, b), row);
            }
            Op::Set(a, b, age) => {
                let row = model.get_mut(&id(a, b));
                assert_eq!(table.set(&id(a, b), User::AGE, &age).expect("set").value, row.is_some());
                if let Some(row) = row {
                    row.age = age;
                }
            }
            Op::Patch(a, b, note) => {
                let row = model.get_mut(&id(a, b));
                let patched = table.patch(&id(a, b), |user| user.note.clone_from(&note)).expect("patch");
                assert_eq!(patched.value, row.is_some());
                if let Some(row) = row {
                    row.note = note;
                }
            }
            Op::Remove(a, b) => {
                table.remove(&id(a, b)).expect("remove");
                model.remove(&id(a, b));
            }
        }
    }
    let view = table.view().expect("view");
    for a in 0..3 {
        let group = "a\0".repeat(a.into());
        for number in 0..4 {
            assert_eq!(view.get(&id(a, number)).expect("get").as_ref(), model.get(&id(a, number)));
            let note = view.field(&id(a, number), User::NOTE).expect("get");
            assert_eq!(note, model.get(&id(a, number)).map(|row| row.note.clone()));
        }
        for options in [ScanOptions::new().limit(limit), ScanOptions::new().limit(limit).reverse()] {
            let rows = view.rows(table.under(&Id::prefix_group(group.as_str())), options).expect("scan");
            let mut found: Vec<(Id, User)> = rows.map(|row| row.expect("a row")).collect();
            let own = model.iter().filter(|(key, _)| key.group == group);
            let mut expected: Vec<_> = own.map(|(key, row)| (key.clone(), row.clone())).collect();
            // The model compares numbers upwards, the key downwards.
            expected.sort_by_key(|(key, _)| Desc(key.number));
            if options.reverse {
                expected.reverse();
            }
            expected.truncate(limit);
            assert_eq!(std::mem::take(&mut found), expected);
        }
    }
    let cells = if mode == RowMode::Cells { 4 } else { 1 };
    assert_eq!(contents(store).len(), model.len() * cells + 1, "nothing is left over");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn equals_a_map_in_both_modes(ops in prop::collection::vec(op(), 0..40), limit in 1..6usize) {
        for mode in MODES {
            equals_the_model(&MapStore::new(), mode, &ops, limit);
            equals_the_model(&engine(), mode, &ops, limit);
        }
    }
}

/// A name that is a keyword is stored and shouted without its `r#`.
#[derive(Row, Debug, PartialEq)]
struct Event {
    r#type: String,
    at: u64,
}

#[test]
fn names_of_fields_may_be_keywords() {
    let store = MapStore::new();
    let table: Table<_, (u64,), Event> = open(&store, RowMode::Cells);
    table.put(&(1,), &Event { r#type: "start".into(), at: 7 }).expect("put");
    assert_eq!(Event::FIELDS, ["type", "at"]);
    let kind = table.view().and_then(|view| view.field(&(1,), Event::TYPE)).expect("field");
    assert_eq!(kind.as_deref(), Some("start"));
}
