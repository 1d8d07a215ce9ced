use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::engine::EngineStore;
use crate::map::MapStore;
use crate::testing::{assert_block, contents, engine};
use crate::tuple::Utc;

/// Game, user, day.
type Interest = (String, String, u32);

fn interest(game: &str, user: &str, day: u32) -> Interest {
    (game.to_owned(), user.to_owned(), day)
}

fn open<S: OrderedKv, K: Key>(store: &S) -> TallTable<&S, K> {
    TallTable::open(store, &Space::new(&("t",))).expect("open")
}

fn all<K: Key, S: OrderedKv>(table: &TallTable<&S, K>, range: KeyRange) -> Vec<K> {
    let view = table.view().expect("view");
    let rows = view.rows(range, ScanOptions::new()).expect("scan");
    rows.map(|row| row.expect("a row").0).collect()
}

#[test]
fn the_example_of_the_format_is_what_is_written() {
    let store = MapStore::new();
    let table = open(&store);
    table.put(&interest("chess", "QQ12", 20_141_224), b"6").expect("put");
    table.put(&interest("chess", "QQ121", 20_141_216), b"").expect("put");
    assert_block("tall", &store);
}

/// The four questions of the study, each at the cost of its answer.
#[test]
fn questions_by_key_cost_what_they_return() {
    let store = engine();
    let table = open(&store);
    for user in 0..200 {
        for game in ["chess", "go", "poker"] {
            let day = 20_140_000 + user;
            if user % 2 == 0 || game != "go" {
                table.put(&interest(game, &format!("QQ{user}"), day), b"1").expect("put");
            }
        }
    }
    let view = table.view().expect("view");
    let keys = table.keys();
    let cost_of = |range, options| {
        let before = view.cost();
        let found = view.rows(range, options).expect("scan").inspect(|row| assert!(row.is_ok())).count();
        (found, view.cost().since(&before).keys_read)
    };
    assert_eq!(cost_of(keys.under(&("go",)), ScanOptions::new()), (100, 100), "who plays go");
    assert_eq!(cost_of(keys.under(&("go",)), ScanOptions::new().limit(1)), (1, 1), "does anybody");
    assert_eq!(cost_of(keys.under(&("go", "QQ12")), ScanOptions::new()), (1, 1), "does QQ12, not QQ120");
    assert_eq!(cost_of(keys.starts_with(&("go",), "QQ12"), ScanOptions::new()), (6, 6), "a text prefix");
    assert!(view.exists(&interest("go", "QQ12", 20_140_012)).expect("get"), "one get with the full key");
    assert!(!view.exists(&interest("go", "QQ13", 20_140_013)).expect("get"));
    assert_eq!(view.cost().keys_read, 109);
    let newest = view.page(keys.under(&("go", "QQ12")), ScanOptions::new().reverse().limit(1));
    assert_eq!(newest.expect("page").rows.len(), 1);
}

/// A scan with a start but no stop and ids without an end, as the study's listing has it, next to the
/// exact range.
#[test]
fn an_open_bound_and_unterminated_ids_return_others_rows() {
    let text_keys = ["QQ12$20150101", "QQ12$20150102", "QQ121$20150101", "QQ2$20150101"];
    let found = |range: KeyRange| text_keys.iter().filter(|key| range.contains(key.as_bytes())).count();
    assert_eq!(found(KeyRange { start: b"QQ12".to_vec(), end: None }), 4, "to the end of the table");
    assert_eq!(found(KeyRange::prefix(b"QQ12")), 3, "QQ121 starts so, too");

    let store = MapStore::new();
    let table: TallTable<_, (String, u32)> = open(&store);
    for key in text_keys {
        let (user, day) = key.split_once('$').expect("user$day");
        table.put(&(user.to_owned(), day.parse().expect("a day")), b"").expect("put");
    }
    assert_eq!(all(&table, table.keys().under(&("QQ12",))).len(), 2);
}

/// The slides' range for the mail of user 12345, "12345-000…" to "12346-999…", holds user 12346's.
#[test]
fn a_bound_in_the_next_user_returns_foreign_mail() {
    let text_keys = ["12345-000", "12345-9ff", "12346-000", "12346-5fc", "12347-000"];
    let slides = KeyRange { start: b"12345-000".to_vec(), end: Some(b"12346-999".to_vec()) };
    let found: Vec<_> = text_keys.iter().filter(|key| slides.contains(key.as_bytes())).collect();
    assert_eq!(found, [&"12345-000", &"12345-9ff", &"12346-000", &"12346-5fc"]);

    let store = MapStore::new();
    let table: TallTable<_, (u64, String)> = open(&store);
    for key in text_keys {
        let (user, id) = key.split_once('-').expect("user-message");
        table.put(&(user.parse().expect("a number"), id.to_owned()), b"").expect("put");
    }
    let mail = all(&table, table.keys().under(&(12345,)));
    assert_eq!(mail, [(12345, "000".to_owned()), (12345, "9ff".to_owned())]);
}

/// The listing builds user$game, the table stores game$user: a get never matches. Typed keys of
/// different types do not compile; of equal types, the question has to be asked in the key's order.
#[test]
fn fields_in_the_wrong_order_never_match() {
    let store = MapStore::new();
    let table: TallTable<_, (String, String)> = open(&store);
    table.put(&("chess".into(), "QQ12".into()), b"").expect("put");
    let view = table.view().expect("view");
    assert!(!view.exists(&("QQ12".into(), "chess".into())).expect("get"));
    assert!(view.exists(&("chess".into(), "QQ12".into())).expect("get"));
}

/// The study's sample as it is printed, typos included: one key has ":&" for its delimiter, one day has nine
/// digits, and one user has three spellings.
const SAMPLE: &[(&str, &str)] = &[
    ("3DARPG$QQ121102645", "20141224"),
    ("3CountryBattle$HeXiaoYang", "20141216"),
    ("Space Hunter:&HeXaoYang", "20141214"),
    ("Frus3D$HexiaoYang", "201412142"),
    ("Frus3D$junping_Jeff", "20141220"),
];

/// The calendar day that eight digits spell.
fn day(digits: &str) -> Option<Utc> {
    let part = |from: usize, to: usize| digits.get(from..to)?.parse::<u16>().ok();
    let small = |from, to| part(from, to).and_then(|part| u8::try_from(part).ok());
    (digits.len() == 8).then_some(())?;
    Utc::day(part(0, 4)?, small(4, 6)?, small(6, 8)?)
}

/// Delimiters, days and names made of text let typos in; what is typed refuses them, or keeps them apart.
#[test]
fn the_sample_s_typos_are_found_by_types_and_not_by_text() {
    let as_text: Vec<&str> = SAMPLE.iter().map(|(key, _)| *key).collect();
    let found = |start: &str| as_text.iter().filter(|key| key.starts_with(start)).count();
    assert_eq!(
        (found("Space Hunter$"), found("Frus3D$")),
        (0, 2),
        "the row with the other delimiter is lost"
    );
    assert!("201412142" > "20141214" && "201412142" < "20141215", "the odd day sorts as if it were one");

    let store = MapStore::new();
    let table: TallTable<_, (String, String, Utc)> = open(&store);
    let mut refused = Vec::new();
    for (key, digits) in SAMPLE {
        match key.split_once('$').zip(day(digits)) {
            Some(((game, user), day)) => {
                table.put(&(game.to_owned(), user.to_owned(), day), b"").map(|_| ()).expect("put");
            }
            None => refused.push(*key),
        }
    }
    assert_eq!(refused, ["Space Hunter:&HeXaoYang", "Frus3D$HexiaoYang"], "before they are keys");
    assert_eq!(all(&table, table.keys().under(&())).len(), 3);

    // Three spellings are three users: folding case is the caller's choice, and mends two of them.
    let names: TallTable<_, (String,)> = TallTable::open(&store, &Space::new(&("names",))).expect("open");
    let spellings = ["HeXaoYang", "HeXiaoYang", "HexiaoYang"];
    for name in spellings {
        names.put(&(name.to_owned(),), b"").expect("put");
    }
    assert_eq!(all(&names, names.keys().under(&())).len(), 3);
    let folded: TallTable<_, (String,)> = TallTable::open(&store, &Space::new(&("folded",))).expect("open");
    for name in spellings {
        folded.put(&(name.to_lowercase(),), b"").expect("put");
    }
    assert_eq!(all(&folded, folded.keys().under(&())).len(), 2);
}

/// A delimiter inside a name makes one text key of two pairs; fields delimit themselves.
#[test]
fn a_delimiter_in_a_name_confuses_text_keys_only() {
    let pairs = [("a$b", "c"), ("a", "b$c")];
    let text: Vec<String> = pairs.iter().map(|(game, user)| format!("{game}${user}")).collect();
    assert_eq!(text[0], text[1]);
    let keys = pairs.map(|(game, user)| pack(&(game, user)));
    assert_ne!(keys[0], keys[1]);
}

#[test]
fn errors_say_what_to_do() {
    let store = MapStore::new();
    let table: TallTable<_, (String,)> = open(&store);
    let error = table.put(&("x".repeat(70_000),), b"").expect_err("too long").to_string();
    assert!(error.contains("the store takes") && error.len() < 250, "{error}");
    let other: TallTable<_, (u64,)> = open(&store);
    other.put(&(1,), b"").expect("put");
    let view = table.view().expect("view");
    let mut rows = view.rows(table.keys().under(&()), ScanOptions::new()).expect("scan");
    assert!(matches!(rows.next(), Some(Err(Error::Foreign { layout: "tall", .. }))));
    assert!(view.page(table.keys().under(&()), ScanOptions::new().limit(0)).is_err());
}

#[derive(Clone, Debug)]
enum Op {
    Put(u8, i8, u8),
    Delete(u8, i8),
    DeleteUnder(u8),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0..4u8, any::<i8>(), any::<u8>()).prop_map(|(a, b, v)| Op::Put(a, b, v)),
        2 => (0..4u8, any::<i8>()).prop_map(|(a, b)| Op::Delete(a, b)),
        1 => (0..4u8).prop_map(Op::DeleteUnder),
    ]
}

fn equals_the_model<S: OrderedKv>(store: &S, ops: &[Op], page: usize, reverse: bool) {
    let table: TallTable<_, (String, i64)> = open(store);
    let mut model: BTreeMap<(String, i64), Vec<u8>> = BTreeMap::new();
    let name = |a: u8| "a\0".repeat(a.into());
    for op in ops {
        match *op {
            Op::Put(a, b, value) => {
                table.put(&(name(a), b.into()), &[value]).expect("put");
                model.insert((name(a), b.into()), vec![value]);
            }
            Op::Delete(a, b) => {
                table.delete(&(name(a), b.into())).expect("delete");
                model.remove(&(name(a), b.into()));
            }
            Op::DeleteUnder(a) => {
                table.delete_under(&(name(a),)).expect("delete");
                model.retain(|(user, _), _| *user != name(a));
            }
        }
    }
    let view = table.view().expect("view");
    for a in 0..4 {
        let mut expected: Vec<_> = model.iter().filter(|((user, _), _)| *user == name(a)).collect();
        if reverse {
            expected.reverse();
        }
        let options = ScanOptions { reverse, ..ScanOptions::new().limit(page) };
        let mut rest = Some(table.keys().under(&(name(a),)));
        let mut rows = Vec::new();
        while let Some(range) = rest {
            let page = view.page(range, options).expect("page");
            rows.extend(page.rows);
            rest = page.rest;
        }
        let rows: Vec<_> = rows.into_iter().map(|(key, value)| (key, value.to_vec())).collect();
        assert_eq!(rows.iter().map(|(key, value)| (key, value)).collect::<Vec<_>>(), expected);
        let range = table.keys().between((name(a), -9i64)..(name(a), 100));
        let inside = model.keys().filter(|(user, n)| *user == name(a) && (-9..100).contains(n));
        assert_eq!(all(&table, range), inside.cloned().collect::<Vec<_>>());
    }
    for (key, value) in &model {
        assert_eq!(view.get(key).expect("get").as_deref(), Some(value.as_slice()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn equals_a_sorted_map(
        ops in prop::collection::vec(op(), 0..60), page in 1..5usize, reverse in any::<bool>(),
    ) {
        equals_the_model(&MapStore::new(), &ops, page, reverse);
        equals_the_model(&engine(), &ops, page, reverse);
    }
}

/// Handles that own their store: in a struct beside it, and in a thread of their own.
#[test]
#[expect(clippy::disallowed_methods, reason = "the promise is about another thread")]
fn a_handle_owns_what_it_was_opened_with() {
    struct Mail {
        store: EngineStore,
        letters: TallTable<EngineStore, (u64,)>,
        shared: TallTable<Arc<MapStore>, (u64,)>,
    }
    let (store, map) = (engine(), Arc::new(MapStore::new()));
    let letters = TallTable::open(store.clone(), &Space::root()).expect("open");
    let shared = TallTable::open(map, &Space::root()).expect("open");
    let mail = Mail { store, letters, shared };
    let mail = std::thread::spawn(move || {
        mail.letters.put(&(1,), b"Hi").expect("put");
        mail.shared.put(&(1,), b"Hi").expect("put");
        mail
    });
    let mail = mail.join().expect("no panic");
    assert_eq!(contents(&mail.store).len(), 1);
    assert_eq!(
        mail.shared.view().and_then(|view| view.get(&(1,))).expect("get").as_deref(),
        Some(&b"Hi"[..])
    );
}
