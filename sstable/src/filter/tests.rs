//! A filter never denies what it holds, and rarely claims what it does not.

use esker_base::checksum::key_hash;
use proptest::prelude::*;

use super::*;

fn hashes(from: u32, to: u32) -> Vec<u64> {
    (from..to).map(|i| key_hash(format!("key{i}").as_bytes())).collect()
}

fn gathered(hashes: &[u64]) -> KeyHashes {
    let mut gathered = KeyHashes::default();
    for &hash in hashes {
        gathered.push(hash);
    }
    gathered
}

#[test]
fn hashes_come_out_as_they_went_in() {
    for count in [0, 1, CHUNK_HASHES - 1, CHUNK_HASHES, CHUNK_HASHES + 1, 3 * CHUNK_HASHES + 7] {
        let hashes: Vec<u64> = (0..count as u64).collect();
        let gathered = gathered(&hashes);
        assert_eq!(gathered.len(), count);
        assert!(gathered.iter().eq(hashes));
        assert_eq!(gathered.memory(), 8 * count);
    }
}

proptest! {
    #[test]
    fn what_was_added_is_let_through(keys in proptest::collection::vec(any::<u64>(), 1..500), bits in 1u8..=32) {
        let filter = Filter::build(&gathered(&keys), bits).expect("not empty");
        let read = Filter::decode(&filter.encode()).expect("ours");
        for &hash in &keys {
            prop_assert!(filter.may_contain(hash) && read.may_contain(hash));
            read.prefetch(hash);
        }
    }

    #[test]
    fn any_bytes_are_refused_or_asked_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), hash: u64) {
        if let Ok(filter) = Filter::decode(&bytes) {
            prop_assert!(filter.is_active());
            filter.may_contain(hash);
        }
    }
}

#[test]
fn false_positives_are_as_rare_as_documented() {
    for (bits, most) in [(5, 0.13), (8, 0.035), (10, 0.0125), (16, 0.0022)] {
        let filter = Filter::build(&gathered(&hashes(0, 50_000)), bits).expect("not empty");
        let asked = hashes(1_000_000, 1_200_000);
        let passed = asked.iter().filter(|&&hash| filter.may_contain(hash)).count();
        let rate = passed as f64 / asked.len() as f64;
        assert!(rate < most, "{bits} bits a key: {rate}");
    }
}

#[test]
fn no_filter_lets_everything_through() {
    assert!(Filter::build(&gathered(&hashes(0, 10)), 0).is_none());
    assert!(Filter::build(&gathered(&[]), 10).is_none());
    assert!(Filter::default().may_contain(1));
}
