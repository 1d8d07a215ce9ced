use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::map::MapStore;
use crate::testing::{assert_block, contents, engine, hex};

type Pair = (String, String);

fn pair(a: &str, b: &str) -> Pair {
    (a.to_owned(), b.to_owned())
}

fn open<S: OrderedKv>(store: &S, by: HashBy) -> HashedTable<&S, Pair> {
    HashedTable::open(store, &Space::new(&("h",)), by).expect("open")
}

/// Keeps two bits, so that collisions are common.
fn weak(bytes: &[u8]) -> [u8; 16] {
    let mut digest = [0; 16];
    digest[0] = md5(bytes)[0] & 3;
    digest
}

#[test]
fn the_examples_of_the_format_are_what_is_written() {
    for (block, by) in [("hashed-fields", HashBy::PerField), ("hashed-keys", HashBy::WholeKey)] {
        let store = MapStore::new();
        open(&store, by).put(&pair("Вася", "Оля"), b"school").expect("put");
        assert_block(block, &store);
    }
}

#[test]
fn a_table_opens_only_with_its_own_form() {
    let store = MapStore::new();
    open(&store, HashBy::PerField);
    open(&store, HashBy::PerField);
    let other = HashedTable::<_, Pair>::open(&store, &Space::new(&("h",)), HashBy::WholeKey);
    let error = other.expect_err("another form").to_string();
    assert!(error.contains("open it with that"), "{error}");
    let done = store.update(|tx| {
        tx.put(&Space::new(&("h",)).key(&(FORM,)), b"\xff");
        Ok(())
    });
    done.expect("commit");
    let other = HashedTable::<_, Pair>::open(&store, &Space::new(&("h",)), HashBy::PerField);
    assert!(matches!(other, Err(Error::Foreign { .. })));
}

#[test]
fn damaged_rows_are_errors() {
    let store = MapStore::new();
    let table = open(&store, HashBy::WholeKey);
    let key = pair("a", "b");
    let at = table.place(&key, |place| Ok(place.at.to_vec())).expect("short");
    for value in [&b""[..], b"\x16\x01\x00ab", b"\x02text\0", b"\x1c\xff\xff\xff\xff\xff\xff\xff\xff"] {
        let done = store.update(|tx| {
            tx.put(&at, value);
            Ok(())
        });
        done.expect("commit");
        assert!(matches!(table.get(&key), Err(Error::Foreign { layout: "hashed", .. })), "{value:x?}");
        assert!(matches!(table.under(&()), Err(Error::Foreign { .. })));
    }
}

#[test]
fn a_collision_is_an_error_and_changes_nothing() {
    let store = engine();
    let mut table = open(&store, HashBy::WholeKey);
    table.digest = weak;
    let first = pair("0", "x");
    table.put(&first, b"first").expect("put");
    let same = |other: &Pair| weak(&pack(other)) == weak(&pack(&first));
    let second = (1..1_000).map(|i| pair(&i.to_string(), "x")).find(same).expect("one in four");
    let before = contents(&store);
    let error = table.put(&second, b"second").expect_err("a collision").to_string();
    let shown = format!("(\"{}\", \"x\") and the stored (\"0\", \"x\") have the same digest", second.0);
    assert!(error.starts_with(&shown), "{error}");
    assert!(matches!(table.get(&second), Err(Error::HashCollision { .. })));
    assert!(matches!(table.delete(&second), Err(Error::HashCollision { .. })));
    assert_eq!(contents(&store), before);

    let mut table: HashedTable<_, Pair> =
        HashedTable::open(&store, &Space::new(&("fields",)), HashBy::PerField).expect("open");
    table.digest = weak;
    table.put(&pair("0", "x"), b"").expect("put");
    let alike = |other: &String| weak(&pack(&(other,))) == weak(&pack(&("0",)));
    let other = (1..1_000).map(|i: u32| i.to_string()).find(alike).expect("one in four");
    assert!(matches!(table.under(&(other,)), Err(Error::HashCollision { .. })));
    assert_eq!(table.under(&("0",)).expect("its own").value.len(), 1);
    // A text that goes on with a zero begins with the same bytes.
    let longer = (0..1_000)
        .map(|i: u32| format!("\0{i}"))
        .find(|end| weak(&pack(&(format!("1{end}"),))) == weak(&pack(&("1",))));
    table.put(&(format!("1{}", longer.expect("one in four")), "x".to_owned()), b"").expect("put");
    assert!(matches!(table.under(&("1",)), Err(Error::HashCollision { .. })));
}

/// The article's table of digests: its rows as it spells them, and the digits it prints.
const DIGESTS: &[(&str, &str)] = &[
    ("3DARPG$QQ121102645", "3b2c85f43d6410d6"),
    ("DTLegend$QQ121102645", "82c85c2cdf16dcee"),
    ("DTLegend$WeiXin_295y603765de8", "8480986fd88c1a39"),
    ("3CountryBattle$ChaoChenYY", "3671c0efbe01ae88"),
    ("Frus3D$QQ5863976645", "baf933cac7dd2814"),
    ("Space Hunter:&HeXaoYang", "65ae48cfaae57972"),
    ("3CountryBattle$HeXiaoYang", "732106051f4a2ef8"),
    ("Frus3D$HexiaoYang", "f3b59010d3f8fb2d"),
    ("DTLegend$FengKe_Tony", "402480df0adfbcf9"),
    ("Frus3D$junping_Jeff", "9171607fa5190507"),
    ("Forget Xian$XiaoFenXia", "296be556a86dd505"),
];

#[test]
fn the_article_s_digests_are_the_middle_of_md5() {
    for (row, digits) in DIGESTS {
        assert_eq!(&hex(&md5(row.as_bytes()))[8..24], *digits, "{row}");
    }
}

/// The study's row keys are hex digits 8 to 23 of MD5 over "game$user": the middle 64 bits. The original
/// is gone, so a collision goes unnoticed, and at its scale there will be some.
#[test]
fn a_digest_of_64_bits_without_the_original_confuses_keys() {
    let chance = |keys: f64| 1.0 - (-keys * keys / 2f64.powi(65)).exp();
    assert!((chance(1e9) - 0.027).abs() < 0.001 && (chance(1e10) - 0.93).abs() < 0.01);
    assert!(chance(1e9) > 1e8 * (1.0 - (-1e18 / 2f64.powi(129)).exp()), "128 bits");

    // The same with 8 of the 64 bits, so that it happens here: another pair's count is the answer.
    let short = |game: &str, user: &str| hex(&md5(format!("{game}${user}").as_bytes()))[8..10].to_owned();
    let mut table = BTreeMap::new();
    table.insert(short("3CountryBattle", "QQ0"), 6);
    let other = (1..10_000)
        .map(|i| format!("QQ{i}"))
        .find(|user| table.contains_key(&short("3CountryBattle", user)));
    let other = other.expect("one in 256");
    assert_eq!(table.get(&short("3CountryBattle", &other)), Some(&6), "{other} never played");
    // Next to it, the stored original tells them apart even at two bits.
    let store = MapStore::new();
    let mut right = open(&store, HashBy::WholeKey);
    right.digest = weak;
    right.put(&pair("3CountryBattle", "QQ0"), b"6").expect("put");
    for i in 1..50 {
        let answer = right.get(&pair("3CountryBattle", &format!("QQ{i}")));
        assert!(matches!(answer, Ok(Costed { value: None, .. }) | Err(Error::HashCollision { .. })));
    }
}

/// A digest of user and game as start and stop of a scan for the user's games: claimed to work.
#[test]
fn a_digest_of_the_whole_key_keeps_neither_order_nor_prefix() {
    let key = |user: &str, day: u32| md5(format!("{user}${day}").as_bytes());
    let (start, stop) = (key("QQ12", 20_150_101), key("QQ12", 20_150_131));
    let (start, stop) = (start.min(stop), start.max(stop));
    let inside = |user: &str| {
        (20_150_101..=20_150_131u32).filter(|&day| (start..=stop).contains(&key(user, day))).count()
    };
    assert!(inside("QQ12") < 31, "some of the month lie outside");
    assert!((13..30).any(|user| inside(&format!("QQ{user}")) > 0), "and others' rows inside");

    let store = MapStore::new();
    let whole = open(&store, HashBy::WholeKey);
    whole.put(&pair("QQ12", "chess"), b"").expect("put");
    let error = whole.under(&("QQ12",)).expect_err("refused").to_string();
    assert!(error.contains("hash per field, or read all rows"), "{error}");
    assert_eq!(whole.under(&()).expect("all").value.len(), 1);
}

fn equals_the_model<S: OrderedKv>(store: &S, ops: &[(u8, u8, u8, u8)], by: HashBy) {
    let table = open(store, by);
    let mut model: BTreeMap<Pair, Vec<u8>> = BTreeMap::new();
    let key = |a: u8, b: u8| pair(&"a\0".repeat(a.into()), &b.to_string());
    for &(kind, a, b, value) in ops {
        if kind == 0 {
            let found = table.delete(&key(a, b)).expect("delete").value;
            assert_eq!(found, model.remove(&key(a, b)).is_some());
        } else {
            table.put(&key(a, b), &[value]).expect("put");
            model.insert(key(a, b), vec![value]);
        }
    }
    for a in 0..4 {
        for b in 0..4 {
            let value = table.get(&key(a, b)).expect("get").value;
            assert_eq!(value.as_deref(), model.get(&key(a, b)).map(Vec::as_slice));
        }
        if by == HashBy::PerField {
            let mut rows = table.under(&(key(a, 0).0,)).expect("under").value;
            rows.sort();
            let expected = model.iter().filter(|((first, _), _)| *first == key(a, 0).0);
            assert!(rows.iter().map(|(k, v)| (k, v.to_vec())).eq(expected.map(|(k, v)| (k, v.clone()))));
        }
    }
    assert_eq!(table.under(&()).expect("all").value.len(), model.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn equals_a_map(ops in prop::collection::vec((0..4u8, 0..4u8, 0..4u8, any::<u8>()), 0..50)) {
        for by in [HashBy::PerField, HashBy::WholeKey] {
            equals_the_model(&MapStore::new(), &ops, by);
            equals_the_model(&engine(), &ops, by);
        }
    }
}
