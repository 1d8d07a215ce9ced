use std::path::Path;

use esker_base::{DatabaseId, Error, FileNumber};

use super::Current;

fn decode(bytes: &[u8]) -> esker_base::Result<Current> {
    Current::decode(bytes, Path::new("db/CURRENT"))
}

fn sample() -> Current {
    Current { database: DatabaseId(std::array::from_fn(|i| i as u8)), manifest: FileNumber(7) }
}

#[test]
fn the_format_s_example_means_what_it_says() {
    let format = include_str!("../../FORMAT.md");
    let text =
        format.split("```current\n").nth(1).expect("the block").split("```").next().expect("its end");
    assert_eq!(sample().encode(), text);
    assert_eq!(decode(text.as_bytes()).expect("it decodes"), sample());
}

#[test]
fn every_truncation_and_every_flipped_bit_is_an_error() {
    let good = sample().encode().into_bytes();
    for len in 0..good.len() {
        assert!(decode(&good[..len]).is_err(), "cut to {len} bytes");
    }
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(decode(&bad).is_err(), "bit {bit}");
    }
    assert!(decode(&[good.as_slice(), b"\n"].concat()).is_err());
}

#[test]
fn other_spellings_of_the_same_are_refused() {
    let good = sample().encode();
    for (from, to) in
        [("\n", "\r\n"), ("000007", "7"), ("000007", "+00007"), ("0a0b", "0A0B"), ("id ", "id +")]
    {
        assert!(decode(good.replace(from, to).as_bytes()).is_err(), "{from:?} as {to:?}");
    }
}

#[test]
fn a_newer_format_is_named_as_such() {
    let newer = sample().encode().replace("format 1", "format 2");
    assert!(matches!(decode(newer.as_bytes()), Err(Error::FormatTooNew { found: 2, supported: 1, .. })));
}
