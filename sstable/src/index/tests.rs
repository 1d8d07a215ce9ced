//! The index leads to the right block, and takes any bytes without a panic.

use proptest::prelude::*;

use super::*;
use esker_base::cursor::OwnedEntry;

use crate::cursor::tests::{entries, keys};

/// Blocks of as many entries each as `cuts` says, and their index.
fn blocks_and_index(entries: &[OwnedEntry], cuts: Vec<usize>) -> (Vec<&[OwnedEntry]>, Index) {
    let mut blocks: Vec<&[_]> = Vec::new();
    let mut rest = entries;
    for cut in cuts.into_iter().chain([usize::MAX]) {
        let (block, behind) = rest.split_at(cut.min(rest.len()));
        if !block.is_empty() {
            blocks.push(block);
        }
        rest = behind;
    }
    let mut builder = IndexBuilder::default();
    for (i, block) in blocks.iter().enumerate() {
        let last = block.last().expect("not empty").internal_key();
        builder.add(100, last, blocks.get(i + 1).map(|next| next[0].internal_key()));
    }
    let index = Index::decode(&builder.encode().expect("small"), blocks.len() as u64 * 100).expect("ours");
    (blocks, index)
}

fn bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
    prop_oneof![Just(Bound::Unbounded), keys().prop_map(Bound::Included), keys().prop_map(Bound::Excluded)]
}

proptest! {
    #[test]
    fn a_separator_lies_between_its_blocks_and_is_short(a in keys(), b in keys()) {
        prop_assume!(a != b);
        let (last, next) = if a < b { (a, b) } else { (b, a) };
        let mut separator = Vec::new();
        push_separator(&mut separator, &last, &next);
        prop_assert!(last <= separator && separator < next, "{:?}", separator);
        prop_assert!(separator.len() <= last.len().max(shared_prefix(&last, &next) + 1));
    }

    #[test]
    fn find_leads_to_the_first_block_that_does_not_end_before(
        entries in entries(),
        cuts in proptest::collection::vec(1usize..5, 0..60),
        key in keys(),
        seqno in 0u64..50,
    ) {
        let (blocks, index) = blocks_and_index(&entries, cuts);
        prop_assert_eq!(index.blocks(), blocks.len());
        let target = InternalKey::new(&key, SeqNo(seqno));
        let lower = entries.partition_point(|e| e.internal_key() < target);
        for target in entries.iter().map(|e| e.internal_key()).chain([target]) {
            let found = index.find(target);
            for block in 0..blocks.len() {
                prop_assert_eq!(index.is_in(block, target), block == found);
            }
            if let Some(block) = blocks.get(found) {
                let before = blocks[..found].iter().map(|b| b.len()).sum::<usize>();
                let lower = entries.partition_point(|e| e.internal_key() < target);
                prop_assert!(before <= lower && lower <= before + block.len());
                // An exact hit is in the block itself.
                if entries.get(lower).is_some_and(|e| e.internal_key() == target) {
                    prop_assert!(lower < before + block.len());
                }
            } else {
                prop_assert_eq!(lower, entries.len());
            }
        }
    }

    #[test]
    fn a_block_said_to_lie_within_bounds_does(
        entries in entries(),
        cuts in proptest::collection::vec(1usize..5, 0..60),
        start in bound(),
        end in bound(),
    ) {
        let (blocks, index) = blocks_and_index(&entries, cuts);
        let bounds = Bounds { start, end };
        for (i, block) in blocks.iter().enumerate() {
            let (ends_within, starts_within) = (index.ends_within(i, &bounds), index.starts_within(i, &bounds));
            prop_assert!(!ends_within || !block.iter().any(|e| bounds.past_end(&e.key)), "block {}", i);
            prop_assert!(!starts_within || !block.iter().any(|e| bounds.before_start(&e.key)), "block {}", i);
            // Where the neighbours lie inside too, the separators tell.
            let starts = match &bounds.start {
                Bound::Unbounded => true,
                Bound::Included(start) | Bound::Excluded(start) => i > 0 && blocks[i - 1].iter().all(|e| e.key > *start),
            };
            let ends = match &bounds.end {
                Bound::Unbounded => true,
                Bound::Included(end) | Bound::Excluded(end) => {
                    blocks.get(i + 1).is_some_and(|next| next.iter().all(|e| e.key < *end))
                }
            };
            prop_assert!((starts_within || !starts) && (ends_within || !ends), "block {}", i);
        }
    }

    #[test]
    fn damaged_indexes_are_refused_or_searched_without_panic(
        entries in entries(),
        damage in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..4),
        key in keys(),
    ) {
        let mut builder = IndexBuilder::default();
        for (i, e) in entries.iter().enumerate() {
            builder.add(100, e.internal_key(), entries.get(i + 1).map(|n| n.internal_key()));
        }
        let mut bytes = builder.encode().expect("small");
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(index) = Index::decode(&bytes, entries.len() as u64 * 100) {
            prop_assert!(index.find(InternalKey::before_all(&key)) <= index.blocks());
        }
    }
}

#[test]
fn the_sum_of_the_lengths_must_be_the_data_section() {
    let mut builder = IndexBuilder::default();
    builder.add(100, InternalKey::new(b"a", SeqNo(1)), None);
    let bytes = builder.encode().expect("small");
    assert!(Index::decode(&bytes, 100).is_ok());
    assert!(Index::decode(&bytes, 101).is_err());
}

#[test]
fn a_block_longer_than_any_is_refused() {
    let with_block_of = |stored: usize| {
        let mut builder = IndexBuilder::default();
        builder.add(u32::try_from(stored).expect("fits"), InternalKey::new(b"a", SeqNo(1)), None);
        Index::decode(&builder.encode().expect("small"), stored as u64).map(drop)
    };
    let longest = RAW_BYTES_MAX + TRAILER_BYTES;
    assert!(with_block_of(longest).is_ok());
    assert_eq!(with_block_of(longest + 1).expect_err("hostile").what, "block length");
}

#[test]
fn a_huge_block_count_allocates_nothing() {
    let bytes = [255, 255, 255, 255, 1, 0, 0, 1, 2, 3];
    assert_eq!(Index::decode(&bytes, 0).expect_err("hostile").what, "block lengths");
}
