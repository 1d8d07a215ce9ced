use super::{DEPTH_MAX, Field, parse};

fn one(given: &str) -> Field {
    let mut fields = parse(&format!("({given})")).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(fields.len(), 1, "{given}");
    fields.remove(0)
}

#[test]
fn every_kind_of_field() {
    assert_eq!(one("null"), Field::Null);
    assert_eq!(one("true"), Field::Bool(true));
    assert_eq!(one("-1"), Field::Int(-1));
    assert_eq!(one("170141183460469231731687303715884105727"), Field::Int(i128::MAX));
    assert_eq!(one("1.5"), Field::F64(1.5));
    assert_eq!(one("-2e9"), Field::F64(-2e9));
    assert_eq!(one("-inf"), Field::F64(f64::NEG_INFINITY));
    assert!(matches!(one("NaN"), Field::F64(x) if x.is_nan()));
    assert_eq!(one("1.5f32"), Field::F32(1.5));
    assert_eq!(one("0xff00"), Field::Bytes(vec![0xff, 0]));
    assert_eq!(one("0x"), Field::Bytes(Vec::new()));
    assert_eq!(one(r#"b"a\xff\0""#), Field::Bytes(b"a\xff\0".to_vec()));
    assert_eq!(one(r#""a, \"b\" (c) \u{2713} \x41 é""#), Field::Text("a, \"b\" (c) ✓ A é".to_owned()));
    assert_eq!(
        one("(1, (2,), ())"),
        Field::Tuple(vec![Field::Int(1), Field::Tuple(vec![Field::Int(2)]), Field::Tuple(Vec::new()),])
    );
    let Field::Uuid(bytes) = one("123e4567-e89b-12d3-a456-426614174000") else { panic!("a UUID") };
    assert_eq!((bytes[0], bytes[15]), (0x12, 0x00));
}

#[test]
fn spaces_and_a_last_comma_are_free() {
    assert_eq!(parse(" ( 1 ,\t2 , ) ").expect("a pair"), [Field::Int(1), Field::Int(2)]);
    assert_eq!(parse("()").expect("the empty tuple"), []);
}

#[test]
fn what_debug_writes_is_read() {
    for text in ["plain", "quote \" and \\ and \n\t\r\0", "\u{7f} \u{202e} ✓ 'single'"] {
        assert_eq!(one(&format!("{text:?}")), Field::Text(text.to_owned()));
    }
    let all: Vec<u8> = (0..=255).collect();
    assert_eq!(one(&format!("b\"{}\"", all.escape_ascii())), Field::Bytes(all));
    for float in [0.1, -0.0, 1e300, f64::MIN_POSITIVE, f64::INFINITY] {
        assert!(
            matches!(one(&format!("{float:?}")), Field::F64(read) if read.to_bits() == float.to_bits())
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
    assert!(parse(&nested(DEPTH_MAX)).is_ok());
    assert!(parse(&nested(DEPTH_MAX + 1)).is_err());
    assert!(parse(&nested(100_000)).is_err());
}
