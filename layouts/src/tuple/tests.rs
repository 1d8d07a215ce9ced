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
        (b"\x40\xfd\x9e", 2, Truncated),
        (b"\x40\xfd\x9e\xff\x00", 5, Truncated),
        (b"\x40\xfd\x9e\xff", 4, Truncated),
        (b"\x40\xfd\x9e\xff\x15", 4, WrongType { expected: "the end of a reversed field", found: 0xea }),
        (b"\x40\xff\xff", 2, WrongType { expected: "an escaped null", found: 0 }),
        (b"\x40\x03", 1, UnknownCode(0xfc)),
        (b"\x41", 1, Truncated),
        (b"\x41\x02\x00", 2, Truncated),
        (b"\x42\x07\xde\x02\x1d\x00\x00\x00\x00\x00", 0, NotADate),
        (b"\x42\x27\x10\x01\x01\x00\x00\x00\x00\x00", 0, NotADate),
        (b"\x42\x07\xde\x02\x1c\x00\x00\x3c\x00\x00", 0, NotADate),
        (b"\x43\x10\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", 0, NotATimeId),
        (b"\x43\x00\x00\x00\x00\x00\x00\x00\x00\x40\x00\x00\x00\x00\x00\x00\x00", 0, NotATimeId),
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
    let turns: Vec<u8> = (0..100_000).map(|i| if i % 2 == 0 { 0x40 } else { 0xbf }).collect();
    assert_eq!(Element::unpack_all(&turns).expect_err("nesting").kind, TooDeep);
    let deepest = [vec![0x05; DEPTH_MAX], vec![0x00; DEPTH_MAX]].concat();
    assert_eq!(pack(Element::unpack_all(&deepest).expect("just deep enough").as_slice()), deepest);
}

/// The floats' policy: all bits are kept, the order is `totalOrder`, and folding makes one key of equals.
#[test]
fn zeros_and_nans_are_ordered_and_folded_as_stated() {
    let nan = f64::NAN.copysign(1.0);
    let ascending = [-nan, f64::NEG_INFINITY, -1.0, -0.0, 0.0, f64::MIN_POSITIVE, 1.0, f64::INFINITY, nan];
    let keys: Vec<_> = ascending.iter().map(|x| pack(&(*x,))).collect();
    assert!(keys.is_sorted_by(|a, b| a < b));
    let payload = f64::from_bits(nan.to_bits() | 7);
    assert!(pack(&(payload,)) > pack(&(nan,)), "payloads are kept");
    let back: (f64,) = unpack(&pack(&(payload,))).expect("own bytes");
    assert_eq!(back.0.to_bits(), payload.to_bits());
    for odd in [payload, -payload, -nan] {
        assert_eq!(pack(&(fold_f64(odd),)), pack(&(nan,)));
    }
    assert_eq!(fold_f64(-0.0).to_bits(), 0);
    let narrow = f32::from_bits(f32::NAN.to_bits() | 7);
    assert_ne!(pack(&(narrow,)), pack(&(f32::NAN,)));
    assert_eq!(pack(&(fold_f32(-narrow),)), pack(&(fold_f32(f32::NAN),)));
    assert_eq!(fold_f32(-0.0).to_bits(), 0);
}

#[test]
fn bytes_and_text_are_two_types() {
    let (bytes, text) = (pack(&(&b"a"[..],)), pack(&("a",)));
    assert!(bytes < text && pack(&(&b"\xff\xff"[..],)) < pack(&("",)), "all bytes before all texts");
    assert!(unpack::<(String,)>(&bytes).is_err() && unpack::<(Vec<u8>,)>(&text).is_err());
    let all = Space::root();
    assert!(!all.starts_with(&(), "").contains(&bytes) && !all.starts_with_bytes(&(), b"").contains(&text));
}

#[test]
fn dates_are_those_of_the_calendar() {
    let known = [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_419_445_800_999, "2014-12-24T18:30:00.999Z"),
        (951_782_400_000, "2000-02-29T00:00:00.000Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (-62_167_219_200_000, "0000-01-01T00:00:00.000Z"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
    ];
    for (ms, shown) in known {
        let moment = Utc::from_unix_ms(ms).expect("within the calendar");
        assert_eq!((moment.to_string().as_str(), moment.unix_ms()), (shown, ms));
    }
    for ms in [-62_167_219_200_001, 253_402_300_800_000, i64::MIN, i64::MAX] {
        assert_eq!(Utc::from_unix_ms(ms), None);
    }
    for (year, month, day) in
        [(2014, 2, 29), (1900, 2, 29), (2014, 13, 1), (2014, 0, 1), (2014, 4, 31), (10_000, 1, 1)]
    {
        assert_eq!(Utc::day(year, month, day), None, "{year}-{month}-{day}");
    }
    let day = Utc::day(2000, 2, 29).expect("a leap day");
    for (hour, minute, second, ms) in [(24, 0, 0, 0), (0, 60, 0, 0), (0, 0, 60, 0), (0, 0, 0, 1_000)] {
        assert_eq!(day.at(hour, minute, second, ms), None);
    }
    for none in [
        Period::quarter(2014, 0),
        Period::quarter(2014, 5),
        Period::quarter(2014, 255),
        Period::month(2014, 13),
    ] {
        assert_eq!(none, None);
    }
}

/// E16: a version-1 UUID's own bytes do not sort by its time, the re-ordered field does.
#[test]
fn time_ids_sort_by_time_and_the_uuids_own_bytes_do_not() {
    let ids: Vec<TimeUuid> = (0..200u64)
        .map(|i| {
            TimeUuid::from_parts(0x01E4_8BB0_0000_0000 + (i << 28), 5, [2, 0, 0, 0, 0, 1])
                .expect("in range")
        })
        .collect();
    assert!(!ids.iter().map(|id| pack(&(id.uuid(),))).is_sorted(), "as they are");
    assert!(ids.iter().map(|id| pack(&(id,))).is_sorted(), "re-ordered");
    let known = Uuid(*b"\x6c\x38\x50\x00\x8b\xb0\x11\xe4\x80\x05\x02\0\0\0\0\x01");
    let id = TimeUuid::new(known).expect("version 1");
    assert_eq!((id.uuid(), Utc::from_unix_ms(id.unix_ms()).expect("a date").year()), (known, 2014));
    assert_eq!(TimeUuid::new(Uuid([0x40; 16])), None, "version 4");
    assert_eq!(
        (TimeUuid::from_parts(1 << 60, 0, [0; 6]), TimeUuid::from_parts(0, 1 << 14, [0; 6])),
        (None, None)
    );
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

/// The elements that the FoundationDB tuple layer has, too.
fn shared_element() -> impl Strategy<Value = Element<'static>> {
    shared_leaf()
        .prop_recursive(3, 16, 4, |inner| prop::collection::vec(inner, 0..4).prop_map(Element::Tuple))
}

/// Any element, in nested tuples of random shape.
fn element() -> impl Strategy<Value = Element<'static>> {
    let ms = prop_oneof![-62_167_219_200_000..253_402_300_800_000i64, 0..100_000i64];
    let leaf = prop_oneof![
        4 => shared_leaf(),
        1 => prop::collection::vec(prop_oneof![Just(0u8), Just(0xff), any::<u8>()], 0..4)
            .prop_map(|b| Element::Fixed(Cow::Owned(b))),
        1 => ms.prop_map(|ms| Element::Utc(Utc::from_unix_ms(ms).expect("years 0 to 9999"))),
        1 => (0..1u64 << 60, 0u32..60, 0..1u16 << 14, any::<[u8; 6]>()).prop_map(|(ticks, shift, clock, node)| {
            Element::TimeUuid(TimeUuid::from_parts(ticks >> shift, clock, node).expect("in range"))
        }),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            2 => prop::collection::vec(inner.clone(), 0..4).prop_map(Element::Tuple),
            3 => inner.prop_map(|field| Element::Desc(Box::new(field))),
        ]
    })
}

fn shared_leaf() -> impl Strategy<Value = Element<'static>> {
    prop_oneof![
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
    ]
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
        Element::Desc(_) | Element::Fixed(_) | Element::Utc(_) | Element::TimeUuid(_) => {
            unreachable!("not among the shared elements")
        }
    }
}

type TypedKey = (Fixed<i16>, Desc<Fixed<u32>>, Desc<String>, Fixed<[u8; 3]>);

#[derive(Key, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Low = 2,
    High,
}

#[derive(Key, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Opened,
    Paid {
        by: String,
        level: Level,
    },
    #[key(tag = 300)]
    Moved(#[key(fixed)] i16, Option<Level>),
}

/// A key type with everything: a parameter, nested keys, descending and fixed fields.
#[derive(Key, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Derived<T> {
    of: T,
    event: Event,
    #[key(desc, fixed)]
    number: i16,
    #[key(desc)]
    level: Level,
}

#[derive(Key, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Pair(String, u16);

fn derived() -> impl Strategy<Value = Derived<Pair>> {
    let level = || prop_oneof![Just(Level::Low), Just(Level::High)];
    let text = || "[\\x00a]{0,2}";
    let event = prop_oneof![
        Just(Event::Opened),
        (text(), level()).prop_map(|(by, level)| Event::Paid { by, level }),
        (-2..2i16, prop::option::of(level())).prop_map(|(by, level)| Event::Moved(by, level)),
    ];
    (text(), 0..2u16, event, -2..2i16, level()).prop_map(|(text, n, event, number, level)| Derived {
        of: Pair(text, n),
        event,
        number,
        level,
    })
}

#[test]
fn derived_keys_are_the_tuples_they_stand_for() {
    let event = Event::Paid { by: "ann".to_owned(), level: Level::High };
    let key = Derived { of: Pair("a".to_owned(), 1), event, number: -7, level: Level::Low };
    let tuple = (("a", 1), (1, "ann", 3), Desc(Fixed(-7i16)), Desc(2));
    assert_eq!(pack(&key), pack(&tuple));
    assert_eq!(pack(&(1, key.clone())), pack(&(1, tuple)), "and nested as a field");
    let whole = Space::root().under(&key);
    let prefix = Derived::prefix_number(&key.of, &key.event, &key.number);
    assert_eq!(Space::root().under(&prefix), Space::root().under(&(tuple.0, tuple.1, tuple.2)));
    assert_ne!(Space::root().under(&prefix), whole);
    assert_eq!(pack(&Pair::prefix_1("a")), pack(&("a",)));
    let unknown = unpack::<(Level,)>(&pack(&(7,))).expect_err("no level").to_string();
    assert_eq!(unknown, "at byte 0 of the key: Level has no variant with tag 7");
    assert!(unpack::<(Event,)>(&pack(&((0, 1),))).is_err() && unpack::<Event>(&pack(&(0, 1))).is_err());
}

/// A key whose own way to tell the ends of its fields is not asked.
struct Searched<'k, K>(&'k K);

impl<K: Pack> Pack for Searched<'_, K> {
    fn pack_at(&self, out: &mut Vec<u8>, depth: usize) {
        self.0.pack_at(out, depth);
    }
}

/// No tuple.
struct Torn;
impl Pack for Torn {
    fn pack_at(&self, out: &mut Vec<u8>, _depth: usize) {
        out.extend_from_slice(b"\x02no end");
    }
}

/// What is handed out behind each field of `key`, packed behind "x".
fn each<K: Pack + ?Sized>(key: &K) -> Vec<Vec<u8>> {
    let (mut out, mut all) = (b"x".to_vec(), Vec::new());
    key.pack_each(&mut out, &mut |packed| all.push(packed.to_vec())).expect("a tuple");
    assert_eq!(out, [b"x".as_slice(), &pack(key)].concat());
    all
}

fn expect_ends(key: &impl Pack, fields: usize) {
    let told = each(key);
    assert_eq!(told.len(), fields);
    assert_eq!(told, each(&Searched(key)));
}

#[test]
fn keys_tell_where_their_fields_end() {
    let pair = Pair("a\0b".to_owned(), 1);
    let event = Event::Moved(-1, Some(Level::Low));
    expect_ends(&Derived { of: pair.clone(), event: event.clone(), number: -7, level: Level::High }, 4);
    expect_ends(&event, 3);
    expect_ends(&Derived::<Pair>::prefix_event(&pair, &Event::Opened), 2);
    expect_ends(&(None::<bool>, "", ((), -300i64), vec![0u8, 255]), 4);
    expect_ends(&(), 0);
    assert_eq!(each([1, 500].as_slice()), [b"x\x15\x01".to_vec(), b"x\x15\x01\x16\x01\xF4".to_vec()]);
    Torn.pack_each(&mut Vec::new(), &mut |_| {}).expect_err("no field ends");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn derived_keys_sort_as_derived_order_but_for_what_descends(a in derived(), b in derived()) {
        let order = |key: &Derived<Pair>| {
            let Derived { of, event, number, level } = key.clone();
            (of, event, Desc(number), Desc(level))
        };
        prop_assert_eq!(pack(&a).cmp(&pack(&b)), order(&a).cmp(&order(&b)));
        prop_assert_eq!(unpack::<Derived<Pair>>(&pack(&a)), Ok(a.clone()));
        prop_assert_eq!(unpack::<(u16, Derived<Pair>, u16)>(&pack(&(1, a.clone(), 2))), Ok((1, a, 2)));
    }

    #[test]
    fn encodes_as_foundationdb_does_and_decodes_its_own(
        fields in prop::collection::vec(shared_element(), 0..5),
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
        prop_assert_eq!(Element::unpack_all(&ours_a).expect("own bytes"), a);
    }

    #[test]
    fn byte_order_is_that_of_foundationdb(
        a in prop::collection::vec(shared_element(), 0..3),
        b in prop::collection::vec(shared_element(), 0..3),
    ) {
        let (ours_a, ours_b) = (pack(a.as_slice()), pack(b.as_slice()));
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
        bytes in prop::collection::vec(prop_oneof![Just(0u8), Just(0xff), 0u8..0x31, 0x40u8..0x44, 0xbcu8..0xc0, any::<u8>()], 0..24),
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

    /// A period's range holds exactly the moments in it.
    #[test]
    fn calendar_ranges_are_exact(ms in 1_380_000_000_000..1_440_000_000_000i64, month in 1u8..=12, day in 1u8..=31) {
        let moment = Utc::from_unix_ms(ms).expect("a date");
        prop_assert_eq!(moment.unix_ms(), ms);
        let key = pack(&("s", moment, 7));
        let holds = |period: Option<Period>| {
            period.map(|period| Space::root().during(&("s",), &period).contains(&key))
        };
        prop_assert_eq!(holds(Period::year(2014)), Some(moment.year() == 2014));
        let of_quarter = moment.year() == 2014 && moment.month().div_ceil(3) == month.div_ceil(3);
        prop_assert_eq!(holds(Period::quarter(2014, month.div_ceil(3))), Some(of_quarter));
        let of_month = moment.year() == 2014 && moment.month() == month;
        prop_assert_eq!(holds(Period::month(2014, month)), Some(of_month));
        if let Some(found) = holds(Period::day(2014, month, day)) {
            prop_assert_eq!(found, of_month && moment.day_of_month() == day);
        }
        let (hour, ..) = moment.time();
        let own = Period::hour(moment.year(), moment.month(), moment.day_of_month(), hour);
        prop_assert_eq!(holds(own), Some(true));
        let other = Period::hour(moment.year(), moment.month(), moment.day_of_month(), (hour + 1) % 24);
        prop_assert_eq!(holds(other), Some(false));
    }

    #[test]
    fn typed_fields_keep_their_order(
        a in any::<(i16, u32, String, [u8; 3])>(),
        b in any::<(i16, u32, String, [u8; 3])>(),
    ) {
        let key = |x: &(i16, u32, String, [u8; 3])| (Fixed(x.0), Desc(Fixed(x.1)), Desc(x.2.clone()), Fixed(x.3));
        prop_assert_eq!(pack(&key(&a)).cmp(&pack(&key(&b))), key(&a).cmp(&key(&b)));
        prop_assert_eq!(unpack::<TypedKey>(&pack(&key(&a))), Ok(key(&a)));
        let narrow = unpack::<(Fixed<u32>,)>(&pack(&(Fixed(a.0),))).expect_err("two bytes").kind;
        prop_assert_eq!(narrow, KeyErrorKind::Width { expected: 4, found: 2 });
    }

    /// Whatever the clock does, the ids of one generator ascend, and they are version-7 UUIDs.
    #[test]
    fn generated_ids_ascend(steps in prop::collection::vec((any::<bool>(), 0..3u64, any::<u128>()), 1..200)) {
        let (mut ids, mut now) = (TimeIds::new(), 1_000_000u64);
        let mut last = None;
        for (back, step, random) in steps {
            now = if back { now - step } else { now + step };
            let id = ids.next(now, random);
            prop_assert!(last < Some(id));
            prop_assert_eq!((id.0[6] >> 4, id.0[8] >> 6), (7, 0b10));
            last = Some(id);
        }
        // A clock that stands still for longer than the counter lasts.
        let mut ids = TimeIds::new();
        let made: Vec<_> = (0..9_000).map(|i| ids.next(now, i)).collect();
        prop_assert!(made.is_sorted_by(|a, b| a < b));
    }
}
