use std::borrow::Cow;

use foundationdb_tuple as fdb;
use proptest::prelude::*;

use super::*;

const FORMAT: &str = include_str!("../../FORMAT.md");

/// The lines of the fenced block `name` in FORMAT.md.
pub(crate) fn format_block(name: &str) -> Vec<&'static str> {
    let (_, block) = FORMAT.split_once(&format!("```{name}\n")).expect("the block is there");
    block.split_once("```").expect("and closed").0.lines().collect()
}

fn from_hex(hex: &str) -> Vec<u8> {
    hex.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).expect("hex")).collect()
}

#[test]
fn the_examples_of_the_format_decode_and_encode_again() {
    let lines = format_block("tuples");
    assert!(lines.len() > 20);
    for line in lines {
        let (hex, shown) = line.split_once('(').expect("bytes, then a tuple in parentheses");
        let key = from_hex(hex);
        let fields = Element::unpack_all(&key).expect(line);
        assert_eq!(Element::Tuple(fields.clone()).to_string(), format!("({shown}"), "{line}");
        assert_eq!(pack(fields.as_slice()), key, "{line}");
    }
}

#[test]
fn typed_tuples_round_trip() {
    let key = (Some("x\0y".to_owned()), (None::<bool>, -300i64, ()), vec![0u8, 255], 1.5f32, Uuid([9; 16]));
    let bytes = pack(&key);
    assert_eq!(unpack::<(Option<String>, (Option<bool>, i64, ()), Vec<u8>, f32, Uuid)>(&bytes), Ok(key));
    assert_eq!(pack(&((),)), [5, 0]);
    assert_eq!(
        unpack::<(u16,)>(&pack(&(65_536,))).expect_err("too large").kind,
        KeyErrorKind::IntegerRange("u16")
    );
    assert_eq!(unpack::<(u16,)>(&pack(&(1, 2))).expect_err("two").kind, KeyErrorKind::TrailingFields);
    assert_eq!(unpack::<(u16, u16)>(&pack(&(1,))).expect_err("one").kind, KeyErrorKind::Truncated);
    assert!(matches!(
        unpack::<(u16,)>(&pack(&("1",))).expect_err("text").kind,
        KeyErrorKind::WrongType { .. }
    ));
    assert_eq!(unpack::<((u16,),)>(&pack(&((1, 2),))).expect_err("two").kind, KeyErrorKind::TrailingFields);
}

#[test]
fn hostile_bytes_are_typed_errors() {
    use KeyErrorKind::*;
    let cases: &[(&[u8], usize, KeyErrorKind)] = &[
        (b"\x02abc", 1, Truncated),
        (b"\x02abc\x00\xff", 6, Truncated),
        (b"\x02\xff\xfe\x00", 1, NotUtf8),
        (b"\x16\x00\x01", 0, NotCanonical),
        (b"\x13\xff", 0, NotCanonical),
        (b"\x16\x01", 1, Truncated),
        (b"\x1d\x08\x01\x01\x01\x01\x01\x01\x01\x01", 0, NotCanonical),
        (b"\x1d\xff\x01", 2, Truncated),
        (b"\x21\x00", 1, Truncated),
        (b"\x30\x00", 1, Truncated),
        (b"\x05\x15\x01", 3, Truncated),
        (b"\x05\x00\xff", 3, Truncated),
        (b"\x03", 0, UnknownCode(3)),
        (b"\xff", 0, UnknownCode(0xff)),
    ];
    for (bytes, at, kind) in cases {
        assert_eq!(Element::unpack_all(bytes), Err(KeyError { at: *at, kind: *kind }), "{bytes:x?}");
    }
    let long = [&[0x1d, 17][..], &[1; 17]].concat();
    assert_eq!(Element::unpack_all(&long).expect_err("17 bytes").kind, IntegerRange("128 bits"));
    let beyond = [&[0x1d, 16][..], &[0xff; 16]].concat();
    assert_eq!(Element::unpack_all(&beyond).expect_err("u128::MAX").kind, IntegerRange("i128"));
    let bomb = vec![0x05; 100_000];
    assert_eq!(Element::unpack_all(&bomb).expect_err("nesting").kind, TooDeep);
    let deepest = [vec![0x05; DEPTH_MAX], vec![0x00; DEPTH_MAX]].concat();
    assert_eq!(pack(Element::unpack_all(&deepest).expect("just deep enough").as_slice()), deepest);
}

#[test]
fn whole_fields_and_text_prefixes_are_kept_apart() {
    let space = Space::new(&("mail",));
    let keys: Vec<_> = [
        space.key(&("ann",)),
        space.key(&("ann", 1)),
        space.key(&("ann", "\u{10ffff}", 2)),
        space.key(&("ann\0b", 1)),
        space.key(&("anna", 1)),
        space.key(&("ao", 1)),
        Space::new(&("mail2",)).key(&("ann", 1)),
    ]
    .into();
    let inside =
        |range: KeyRange| -> Vec<usize> { (0..keys.len()).filter(|&i| range.contains(&keys[i])).collect() };
    assert_eq!(inside(space.under(&("ann",))), [0, 1, 2]);
    assert_eq!(inside(space.starts_with(&(), "ann")), [0, 1, 2, 3, 4]);
    assert_eq!(inside(space.starts_with(&(), "ann\0")), [3]);
    assert_eq!(inside(space.starts_with(&(), "")), [0, 1, 2, 3, 4, 5]);
    assert_eq!(inside(space.starts_with(&("ann",), "")), [2]);
    assert_eq!(inside(space.under(&())), [0, 1, 2, 3, 4, 5]);
    assert_eq!(inside(space.between(("ann",)..=("anna",))), [0, 1, 2, 3, 4]);
    assert_eq!(inside(space.between(("ann",)..("anna",))), [0, 1, 2, 3]);
    let beyond = (std::ops::Bound::Excluded(("ann",)), std::ops::Bound::Unbounded);
    assert_eq!(inside(space.between::<(&str,)>(beyond)), [3, 4, 5]);
    assert_eq!(inside(Space::root().under(&())), [0, 1, 2, 3, 4, 5, 6]);
    let (user, number): (String, i64) = space.unpack(&keys[1]).expect("a key of this space");
    assert_eq!((user.as_str(), number), ("ann", 1));
    assert_eq!(
        space.unpack::<(String, i64)>(&keys[6]).expect_err("another space").kind,
        KeyErrorKind::OtherSpace
    );
}

fn element() -> impl Strategy<Value = Element<'static>> {
    let leaf = prop_oneof![
        Just(Element::Null),
        prop::collection::vec(prop_oneof![Just(0u8), Just(0xff), any::<u8>()], 0..6)
            .prop_map(|b| Element::Bytes(Cow::Owned(b))),
        prop::string::string_regex("[\\x00a\u{7f}я\u{10ffff}]{0,5}")
            .expect("a regex")
            .prop_map(|t| Element::Text(Cow::Owned(t))),
        any::<i64>().prop_map(|i| Element::Int(i.into())),
        (any::<i64>(), 0u32..64).prop_map(|(i, shift)| Element::Int((i >> shift).into())),
        any::<u32>().prop_map(|bits| Element::F32(f32::from_bits(bits))),
        any::<u64>().prop_map(|bits| Element::F64(f64::from_bits(bits))),
        Just(Element::F64(-0.0)),
        Just(Element::F64(0.0)),
        any::<bool>().prop_map(Element::Bool),
        any::<[u8; 16]>().prop_map(|b| Element::Uuid(Uuid(b))),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| prop::collection::vec(inner, 0..4).prop_map(Element::Tuple))
}

fn theirs(element: &Element<'_>) -> fdb::Element<'static> {
    match element {
        Element::Null => fdb::Element::Nil,
        Element::Bytes(bytes) => fdb::Element::Bytes(bytes.to_vec().into()),
        Element::Text(text) => fdb::Element::String(Cow::Owned(text.to_string())),
        Element::Tuple(fields) => fdb::Element::Tuple(fields.iter().map(theirs).collect()),
        Element::Int(value) => fdb::Element::Int(i64::try_from(*value).expect("generated from i64")),
        Element::F32(value) => fdb::Element::Float(*value),
        Element::F64(value) => fdb::Element::Double(*value),
        Element::Bool(value) => fdb::Element::Bool(*value),
        Element::Uuid(Uuid(bytes)) => fdb::Element::Uuid(fdb::Uuid::from_bytes(*bytes)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn encodes_as_foundationdb_does_and_decodes_its_own(
        fields in prop::collection::vec(element(), 0..5),
    ) {
        let key = pack(fields.as_slice());
        let their_key = fdb::pack(&fields.iter().map(theirs).collect::<Vec<_>>());
        prop_assert_eq!(&key, &their_key);
        prop_assert_eq!(Element::unpack_all(&key).expect("own bytes"), fields);
    }

    #[test]
    fn byte_order_is_field_order(
        a in prop::collection::vec(element(), 0..3),
        b in prop::collection::vec(element(), 0..3),
    ) {
        let (ours_a, ours_b) = (pack(a.as_slice()), pack(b.as_slice()));
        prop_assert_eq!(ours_a.cmp(&ours_b), a.cmp(&b));
        // Their tuples compare by fields only as an element: a vector compares each field as a key.
        let their = |fields: &[Element<'_>]| fdb::Element::Tuple(fields.iter().map(theirs).collect());
        prop_assert_eq!(ours_a.cmp(&ours_b), their(&a).cmp(&their(&b)));
    }

    #[test]
    fn long_integers_encode_as_foundationdb_does_and_keep_order(
        a in any::<i128>(),
        b in any::<i128>(),
        s in 0u32..127,
        word in any::<u64>(),
    ) {
        let (a, b) = (a >> s, b >> s);
        prop_assert_eq!(pack(&(a,)), fdb::pack(&(a,)));
        prop_assert_eq!(pack(&(a,)).cmp(&pack(&(b,))), a.cmp(&b));
        prop_assert_eq!(unpack::<(i128,)>(&pack(&(a,))), Ok((a,)));
        prop_assert_eq!(pack(&(word,)), fdb::pack(&(word,)));
    }

    /// Any bytes decode to a tuple that encodes to the same bytes, or are refused.
    #[test]
    fn what_decodes_is_canonical(
        bytes in prop::collection::vec(prop_oneof![Just(0u8), Just(0xff), 0u8..0x31, any::<u8>()], 0..24),
    ) {
        if let Ok(fields) = Element::unpack_all(&bytes) {
            prop_assert_eq!(pack(fields.as_slice()), bytes);
        }
    }

    /// `under` holds the tuple and its continuations and nothing else.
    #[test]
    fn whole_field_ranges_are_exact(
        prefix in prop::collection::vec(element(), 0..3),
        other in prop::collection::vec(element(), 0..4),
    ) {
        let range = Space::root().under(prefix.as_slice());
        prop_assert_eq!(range.contains(&pack(other.as_slice())), other.starts_with(&prefix));
        let longer = [prefix, other].concat();
        prop_assert!(range.contains(&pack(longer.as_slice())));
    }

    #[test]
    fn text_prefix_ranges_are_exact(prefix in "[\\x00ab]{0,3}", text in "[\\x00ab]{0,4}", after in any::<i64>()) {
        let range = Space::root().starts_with(&(7,), &prefix);
        prop_assert_eq!(range.contains(&pack(&(7, text.as_str(), after))), text.starts_with(&prefix));
        prop_assert!(!range.contains(&pack(&(8, text.as_str()))));
    }
}
