//! Keys of other shapes than the 16 bytes of `keys.rs`: those that applications have, and that no engine here was tuned
//! for.
//!
//! A key is made of a number, and no two numbers have the same one. Row `r` has the key of number `2 r`; those of odd numbers
//! are absent, and lie between.

use crate::keys::mix;

/// Bytes of the longest value.
pub(crate) const VALUE_BYTES_MAX: usize = 2000;
/// Bytes of the shortest value that varies.
const VALUE_BYTES_MIN: usize = 10;

/// Hosts of [`Shape::Url`]: pairs of words.
const HOSTS: u64 = 1000;
/// Tenants of [`Shape::Composite`].
const TENANTS: u64 = 5000;
/// Numbers that a tenant has in a row, at one time.
const BURST: u64 = 8;
/// The first time, in microseconds since 1970, and from one burst to the next.
const BEGIN_MICROS: u64 = 1_700_000_000_000_000;
const STEP_MICROS: u64 = 1000;
/// What all keys of [`Shape::Long`] begin with.
const LONG_PREFIX: [u8; 180] = [b'x'; 180];

const WORDS: [&str; 32] = [
    "news",
    "river",
    "garden",
    "photo",
    "music",
    "north",
    "market",
    "school",
    "travel",
    "kitchen",
    "history",
    "science",
    "weather",
    "library",
    "mountain",
    "football",
    "hospital",
    "software",
    "painting",
    "railway",
    "island",
    "archive",
    "letter",
    "bridge",
    "winter",
    "summer",
    "coffee",
    "planet",
    "theatre",
    "forest",
    "engineering",
    "architecture",
];

/// How a key is made of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Eight bytes that look random.
    Hash,
    /// "user" and twenty digits of a number that looks random: YCSB's keys.
    Decimal,
    /// A random UUID (version 4) as text.
    Uuid,
    /// 30 to 110 bytes: a host, some far more frequent than others, two to four words of a path, a number.
    Url,
    /// A tenant of 3 to 20 bytes, some far larger than others; a zero byte; a time in eight bytes; a counter in four.
    Composite,
    /// 200 bytes, of which the first 180 are everybody's and the others are the digits of a number that looks random.
    Long,
    /// Four bytes: the number itself.
    Counter,
}

impl Shape {
    /// All of them.
    pub(crate) const ALL: [Shape; 7] = [
        Shape::Hash,
        Shape::Decimal,
        Shape::Uuid,
        Shape::Url,
        Shape::Composite,
        Shape::Long,
        Shape::Counter,
    ];

    /// What a table calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Shape::Hash => "hash",
            Shape::Decimal => "decimal",
            Shape::Uuid => "uuid",
            Shape::Url => "url",
            Shape::Composite => "composite",
            Shape::Long => "long",
            Shape::Counter => "counter",
        }
    }

    /// Make `key` that of row `row`, which is below 2^31 (above, four bytes do not hold the numbers).
    #[inline]
    pub(crate) fn key(self, row: u64, key: &mut Vec<u8>) {
        self.write(2 * row, key);
    }

    /// Make `key` one that no row has.
    #[inline]
    pub(crate) fn absent_key(self, row: u64, key: &mut Vec<u8>) {
        self.write(2 * row + 1, key);
    }

    /// Bytes of the value of row `row`.
    #[inline]
    pub(crate) fn value_bytes(self, row: u64) -> usize {
        match self {
            Shape::Composite => varying_bytes(mix(row)),
            Shape::Counter => 4,
            _ => 100,
        }
    }

    #[inline]
    fn write(self, number: u64, key: &mut Vec<u8>) {
        key.clear();
        match self {
            Shape::Hash => key.extend_from_slice(&mix(number).to_be_bytes()),
            Shape::Decimal => {
                key.extend_from_slice(b"user");
                key.extend_from_slice(&digits(mix(number)));
            }
            Shape::Uuid => uuid(number, key),
            Shape::Url => url(number, key),
            Shape::Composite => composite(number, key),
            Shape::Long => {
                key.extend_from_slice(&LONG_PREFIX);
                key.extend_from_slice(&digits(mix(number)));
            }
            Shape::Counter => key.extend_from_slice(&number.to_be_bytes()[4..]),
        }
    }
}

/// `number` in decimal, with zeros in front.
#[inline]
fn digits(mut number: u64) -> [u8; 20] {
    let mut digits = [0; 20];
    // Two at a time: half as many divisions, each of which waits for the one before.
    for two in digits.as_chunks_mut::<2>().0.iter_mut().rev() {
        let pair = (number % 100).to_le_bytes()[0];
        *two = [b'0' + pair / 10, b'0' + pair % 10];
        number /= 100;
    }
    digits
}

/// A number below `below`, which is at most 2^16, made of the lowest 16 of `bits`. Small ones are frequent: the first tenth
/// comes up almost every other time.
#[inline]
fn skewed(bits: u64, below: u64) -> u64 {
    let uniform = bits & 0xffff;
    (uniform * uniform * uniform * below) >> 48
}

/// 10 to 2,000, made of the lowest 32 of `bits`: half of them up to some 65, and 210 on average.
#[inline]
fn varying_bytes(bits: u64) -> usize {
    let (one, other) = (bits & 0xffff, (bits >> 16) & 0xffff);
    let above = (VALUE_BYTES_MAX - VALUE_BYTES_MIN + 1) as u64;
    let share = (one.pow(4) >> 48) * other;
    VALUE_BYTES_MIN + usize::try_from((share * above) >> 32).unwrap_or(0)
}

fn word(number: u64) -> &'static [u8] {
    WORDS[usize::try_from(number).unwrap_or(0) % WORDS.len()].as_bytes()
}

fn uuid(number: u64, key: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    /// Where each byte's two digits go.
    const PLACES: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];
    // The version, 4, and the variant, 10 in binary, have fixed places.
    let high = (mix(number) & !0xf000) | 0x4000;
    let low = (mix(!number) >> 2) | (1 << 63);
    let mut text = [b'-'; 36];
    for (at, byte) in PLACES.into_iter().zip(high.to_be_bytes().into_iter().chain(low.to_be_bytes())) {
        text[at] = HEX[usize::from(byte >> 4)];
        text[at + 1] = HEX[usize::from(byte & 15)];
    }
    key.extend_from_slice(&text);
}

fn url(number: u64, key: &mut Vec<u8>) {
    let bits = mix(number);
    let host = skewed(bits, HOSTS);
    key.extend_from_slice(b"https://www.");
    key.extend_from_slice(word(host));
    key.extend_from_slice(word(host / WORDS.len() as u64));
    key.extend_from_slice(b".org");
    let mut path = mix(bits);
    for _ in 0..2 + (bits >> 16) % 3 {
        key.push(b'/');
        key.extend_from_slice(word(skewed(path, WORDS.len() as u64)));
        path >>= 16;
    }
    key.push(b'/');
    let digits = digits(number);
    let zeros = digits.iter().take(digits.len() - 1).take_while(|digit| **digit == b'0').count();
    key.extend_from_slice(&digits[zeros..]);
}

fn composite(number: u64, key: &mut Vec<u8>) {
    let burst = number / BURST;
    tenant(skewed(mix(burst), TENANTS), key);
    key.push(0);
    key.extend_from_slice(&(BEGIN_MICROS + burst * STEP_MICROS).to_be_bytes());
    key.extend_from_slice(&(number % BURST).to_be_bytes()[4..]);
}

/// Up to 17 bytes of two words, and three letters of its own.
fn tenant(number: u64, key: &mut Vec<u8>) {
    let bits = mix(number);
    key.extend_from_slice(word(bits));
    key.extend_from_slice(word(bits >> 8));
    key.truncate(usize::try_from((bits >> 16) % 18).unwrap_or(0));
    for letter in [number / (26 * 26), number / 26, number] {
        key.push(b'a' + (letter % 26).to_le_bytes()[0]);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    const NUMBERS: u64 = 40_000;

    fn keys(shape: Shape) -> Vec<Vec<u8>> {
        let make = |number| {
            let mut key = b"what was there before".to_vec();
            shape.write(number, &mut key);
            key
        };
        (0..NUMBERS).map(make).collect()
    }

    #[test]
    fn no_two_rows_have_the_same_key_and_absent_ones_lie_between() {
        for shape in Shape::ALL {
            let (mut present, mut absent) = (Vec::new(), Vec::new());
            let mut all = BTreeMap::new();
            for row in 0..NUMBERS / 2 {
                shape.key(row, &mut present);
                shape.absent_key(row, &mut absent);
                assert!(all.insert(present.clone(), true).is_none(), "{shape:?} {row}");
                assert!(all.insert(absent.clone(), false).is_none(), "{shape:?} {row}");
            }
            let kinds: Vec<bool> = all.into_values().collect();
            let changes = kinds.windows(2).filter(|two| two[0] != two[1]).count() as u64;
            assert!(changes > NUMBERS / 4, "{shape:?}: {changes}");
        }
    }

    #[test]
    fn keys_have_their_lengths() {
        for shape in Shape::ALL {
            let lengths: BTreeSet<usize> = keys(shape).iter().map(Vec::len).collect();
            let (least, most) = (lengths.first().copied(), lengths.last().copied());
            let (least, most) = (least.expect("a key"), most.expect("a key"));
            match shape {
                Shape::Url => {
                    assert!((30..50).contains(&least) && (71..=110).contains(&most), "{lengths:?}");
                }
                Shape::Composite => assert_eq!((least, most, lengths.len()), (16, 33, 18)),
                Shape::Hash => assert_eq!((least, most), (8, 8)),
                Shape::Decimal => assert_eq!((least, most), (24, 24)),
                Shape::Uuid => assert_eq!((least, most), (36, 36)),
                Shape::Long => assert_eq!((least, most), (200, 200)),
                Shape::Counter => assert_eq!((least, most), (4, 4)),
            }
        }
    }

    #[test]
    fn text_looks_as_it_should() {
        let text = |shape: Shape, number| {
            let mut key = Vec::new();
            shape.write(number, &mut key);
            String::from_utf8(key).expect("text")
        };
        assert_eq!(&digits(1_234_567_890_123_456_789), b"01234567890123456789");
        assert_eq!(text(Shape::Decimal, 0), "user00000000000000000000");
        for number in 0..1000 {
            let uuid = text(Shape::Uuid, number);
            let groups: Vec<&str> = uuid.split('-').collect();
            assert_eq!(groups.iter().map(|group| group.len()).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
            assert!(groups[2].starts_with('4') && groups[3].starts_with(['8', '9', 'a', 'b']), "{uuid}");
            let url = text(Shape::Url, number);
            let (host, path) = url.split_once(".org/").expect("a host");
            assert!(host.starts_with("https://www."), "{url}");
            let parts: Vec<&str> = path.split('/').collect();
            assert!((3..=5).contains(&parts.len()), "{url}");
            assert_eq!(parts.last().and_then(|last| last.parse().ok()), Some(number), "{url}");
            let long = text(Shape::Long, number);
            assert!(long[180..].bytes().all(|byte| byte.is_ascii_digit()), "{long}");
        }
    }

    #[test]
    fn a_composite_key_ends_with_a_zero_a_time_and_a_counter() {
        for (number, key) in (0..).zip(keys(Shape::Composite)) {
            let (tenant, rest) = key.split_at(key.len() - 13);
            assert!(tenant.iter().all(u8::is_ascii_lowercase), "{tenant:?}");
            let time = BEGIN_MICROS + number / BURST * STEP_MICROS;
            let counter = u32::try_from(number % BURST).expect("small");
            assert_eq!(rest, [&[0][..], &time.to_be_bytes(), &counter.to_be_bytes()].concat());
        }
    }

    #[test]
    fn some_hosts_and_tenants_are_larger_than_others() {
        let largest = |below: u64| {
            let mut counts = BTreeMap::new();
            (0..1_000_000)
                .for_each(|number| *counts.entry(skewed(mix(number), below)).or_insert(0u64) += 1);
            assert!(counts.keys().all(|one| *one < below));
            (counts.len() as u64, counts[&0])
        };
        let (hosts, first) = largest(HOSTS);
        assert_eq!(hosts, HOSTS);
        assert!((90_000..110_000).contains(&first), "{first}");
        let (tenants, first) = largest(TENANTS);
        assert_eq!(tenants, TENANTS);
        assert!((50_000..70_000).contains(&first), "{first}");
        let names: BTreeSet<Vec<u8>> = (0..TENANTS)
            .map(|number| {
                let mut name = Vec::new();
                tenant(number, &mut name);
                name
            })
            .collect();
        assert_eq!(names.len() as u64, TENANTS);
    }

    #[test]
    fn values_that_vary_are_mostly_short() {
        assert_eq!(varying_bytes(0), VALUE_BYTES_MIN);
        assert!(varying_bytes(u64::MAX) <= VALUE_BYTES_MAX);
        let mut lengths: Vec<usize> = (0..100_000).map(|row| Shape::Composite.value_bytes(row)).collect();
        lengths.sort_unstable();
        let mean = lengths.iter().sum::<usize>() / lengths.len();
        assert!((190..230).contains(&mean), "{mean}");
        assert!((50..90).contains(&lengths[lengths.len() / 2]), "{}", lengths[lengths.len() / 2]);
        assert!(lengths[0] >= VALUE_BYTES_MIN && lengths[lengths.len() - 1] <= VALUE_BYTES_MAX);
        assert!(lengths[lengths.len() - 1] > 1900, "{:?}", lengths.last());
    }
}
