use esker_layouts::tuple::{DEPTH_MAX, Element, TimeUuid, Utc, Uuid, pack};
use proptest::prelude::*;

use super::{parse, show};

fn one(given: &str) -> Element<'static> {
    let mut fields = parse(&format!("({given})")).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(fields.len(), 1, "{given}");
    fields.remove(0)
}

#[test]
fn every_kind_of_field() {
    assert_eq!(one("null"), Element::Null);
    assert_eq!(one("true"), Element::Bool(true));
    assert_eq!(one("-1"), Element::Int(-1));
    assert_eq!(one("170141183460469231731687303715884105727"), Element::Int(i128::MAX));
    assert_eq!(one("1.5"), Element::F64(1.5));
    assert_eq!(one("-2e9"), Element::F64(-2e9));
    assert_eq!(one("-inf"), Element::F64(f64::NEG_INFINITY));
    assert!(matches!(one("NaN"), Element::F64(x) if x.is_nan()));
    assert_eq!(one("1.5f32"), Element::F32(1.5));
    assert_eq!(one("0xff00"), Element::Bytes(vec![0xff, 0].into()));
    assert_eq!(one("0x"), Element::Bytes(Vec::new().into()));
    assert_eq!(one(r#"b"a\xff\0""#), Element::Bytes(b"a\xff\0".into()));
    assert_eq!(one(r#""a, \"b\" (c) \u{2713} \x41 é""#), Element::Text("a, \"b\" (c) ✓ A é".into()));
    assert_eq!(
        one("(1, (2,), ())"),
        Element::Tuple(vec![
            Element::Int(1),
            Element::Tuple(vec![Element::Int(2)]),
            Element::Tuple(Vec::new()),
        ])
    );
    let Element::Uuid(Uuid(bytes)) = one("123e4567-e89b-12d3-a456-426614174000") else { panic!("a UUID") };
    assert_eq!((bytes[0], bytes[15]), (0x12, 0x00));
    assert_eq!(one("desc( (1, \"a)\") )"), Element::Desc(Box::new(one("(1, \"a)\")"))));
    assert_eq!(one("fixed(0x00ff)"), Element::Fixed(vec![0, 0xff].into()));
    let christmas = Utc::from_unix_ms(1_419_445_800_007).expect("a date");
    assert_eq!(one("utc(2014-12-24T18:30:00.007Z)"), Element::Utc(christmas));
    let id = TimeUuid::from_parts(7, 5, [1; 6]).expect("in range");
    assert_eq!(one(&format!("v1({})", id.uuid())), Element::TimeUuid(id));
}

#[test]
fn a_moment_has_all_its_digits_and_no_signs() {
    assert_eq!(one("utc(0000-01-01T00:00:00.000Z)"), Element::Utc(Utc::day(0, 1, 1).expect("a day")));
    for given in [
        "2014-12-24T18:30:00.5Z",
        "2014-12-24T18:30:00.50Z",
        "2014-12-24T18:30:00.0005Z",
        "2014-12-24T18:30:00.+05Z",
        "2014-12-24T18:30:00.-05Z",
        "2014-12-24T18:30:00.Z",
        "2014-12-24T18:30:00Z",
        "2014-12-24T18:30:+1.000Z",
        "2014-12-24T+8:30:00.000Z",
        "2014-12-24T8:30:00.000Z",
        "+2014-12-24T18:30:00.000Z",
        "+014-12-24T18:30:00.000Z",
        "02014-12-24T18:30:00.000Z",
        "2014-+1-24T18:30:00.000Z",
        "2014-1-24T18:30:00.000Z",
        "2014-12-24-1T18:30:00.000Z",
        "2014-12-24T18:30:00:00.000Z",
        "2014-12-24T18:30:00.00٣Z",
    ] {
        let error = parse(&format!("(utc({given}))")).expect_err(given);
        assert!(error.at == 2 && error.what.contains("2014-12-24T18:30:00.000Z"), "{given}: {error}");
        assert!(error.what.contains("exactly three"), "{given}: {error}");
    }
}

#[test]
fn spaces_and_a_last_comma_are_free() {
    assert_eq!(parse(" ( 1 ,\t2 , ) ").expect("a pair"), [Element::Int(1), Element::Int(2)]);
    assert_eq!(parse("()").expect("the empty tuple"), []);
}

#[test]
fn what_debug_writes_is_read() {
    for text in ["plain", "quote \" and \\ and \n\t\r\0", "\u{7f} \u{202e} ✓ 'single'"] {
        assert_eq!(one(&format!("{text:?}")), Element::Text(text.into()));
    }
    let all: Vec<u8> = (0..=255).collect();
    assert_eq!(one(&format!("b\"{}\"", all.escape_ascii())), Element::Bytes(all.into()));
    for float in [0.1, -0.0, 1e300, f64::MIN_POSITIVE, f64::INFINITY] {
        assert!(
            matches!(one(&format!("{float:?}")), Element::F64(read) if read.to_bits() == float.to_bits())
        );
    }
}

#[test]
fn mistakes_are_placed() {
    let places = [
        ("1, 2", 1),
        ("(1, 2", 6),
        ("(1 2)", 4),
        ("(1),", 4),
        ("(,)", 2),
        ("(0xf)", 2),
        ("(é)", 2),
        ("(\"é\", nil)", 7),
        ("(\"abc", 6),
        ("(\"\\xff\")", 3),
        ("(1-2)", 2),
        ("(desc(1, 2))", 8),
        ("(desc())", 7),
        ("(1, other(1))", 5),
        ("(utc(2014-02-30T00:00:00.000Z))", 2),
        ("(v1(123e4567-e89b-42d3-a456-426614174000))", 2),
        ("(fixed(0x00", 2),
        ("(170141183460469231731687303715884105728)", 2),
    ];
    for (given, at) in places {
        let error = parse(given).expect_err(given);
        assert_eq!(error.at, at, "{error}");
    }
}

#[test]
fn nesting_is_bounded() {
    let nested = |depth: usize| format!("{}{}", "(".repeat(depth), ")".repeat(depth));
    let deepest = parse(&nested(DEPTH_MAX + 1)).expect("the key and all the levels the codec takes");
    assert_eq!(show(&pack(deepest.as_slice())), Ok(nested(DEPTH_MAX + 1)));
    assert!(parse(&nested(DEPTH_MAX + 2)).is_err());
    assert!(parse(&nested(100_000)).is_err());
    let turned = |depth: usize| format!("({}1{})", "desc(".repeat(depth), ")".repeat(depth));
    assert_eq!(show(&pack(parse(&turned(DEPTH_MAX)).expect("just").as_slice())), Ok(turned(DEPTH_MAX)));
    assert!(parse(&turned(DEPTH_MAX + 1)).is_err() && parse(&turned(100_000)).is_err());
}

fn element() -> impl Strategy<Value = Element<'static>> {
    let leaf = prop_oneof![
        Just(Element::Null),
        any::<bool>().prop_map(Element::Bool),
        any::<i128>().prop_map(Element::Int),
        any::<f32>().prop_map(Element::F32),
        any::<f64>().prop_map(Element::F64),
        any::<String>().prop_map(|text| Element::Text(text.into())),
        any::<Vec<u8>>().prop_map(|bytes| Element::Bytes(bytes.into())),
        any::<[u8; 16]>().prop_map(|bytes| Element::Uuid(Uuid(bytes))),
        any::<[u8; 5]>().prop_map(|bytes| Element::Fixed(bytes.to_vec().into())),
        (0..250_000_000_000_000i64)
            .prop_map(|ms| Element::Utc(Utc::from_unix_ms(ms).expect("years to 9999"))),
        any::<(u32, [u8; 6])>().prop_map(|(ticks, node)| {
            Element::TimeUuid(TimeUuid::from_parts(ticks.into(), 9, node).expect("in range"))
        }),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Element::Tuple),
            inner.prop_map(|field| Element::Desc(Box::new(field))),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_shown_can_be_given_back(fields in prop::collection::vec(element(), 0..5)) {
        let key = pack(fields.as_slice());
        let shown = show(&key).expect("an encoded tuple");
        prop_assert_eq!(pack(parse(&shown).expect("as shown").as_slice()), key, "{}", shown);
    }

    #[test]
    fn no_text_is_too_strange_to_refuse(given in "[(),\"\\\\xbu{}0-9a-f. -]{0,40}|.{0,40}") {
        if let Ok(fields) = parse(&given) {
            prop_assert!(show(&pack(fields.as_slice())).is_ok());
        }
    }
}
