//! A search in the tree finds what one among all heads finds.

use proptest::prelude::*;

use super::*;

/// Around each head, and at both ends.
fn check(sorted: &[u64]) {
    let heads = Heads::new(sorted);
    assert_eq!(heads.len(), sorted.len());
    for (at, &head) in sorted.iter().enumerate() {
        assert_eq!(heads.get(at), Some(head));
    }
    assert_eq!(heads.get(sorted.len()), None);
    let around = |head: &u64| [head.wrapping_sub(1), *head, head.wrapping_add(1)];
    for wanted in sorted.iter().flat_map(around).chain([0, u64::MAX]) {
        let first = sorted.partition_point(|&head| head < wanted);
        let near = heads.approach(wanted);
        assert_eq!(heads.first_from(near, wanted), first, "{wanted} among {}", sorted.len());
        let is_near = (near.first()..near.first() + GROUP).contains(&first);
        assert!(is_near || first == sorted.len(), "{first} from {near:?} on");
    }
}

#[test]
fn levels_begin_and_end_where_they_are_full() {
    for len in [0, 1, 15, 16, 17, 63, 64, 65, 255, 256, 257, 1023, 1024, 1025, 1040, 16_384, 16_385, 17_000]
    {
        let ascending: Vec<u64> = (1..=len).map(|i| i * 3).collect();
        check(&ascending);
        check(&vec![7; ascending.len()]);
        // Heads that look like what groups are filled up with.
        check(&vec![u64::MAX; ascending.len()]);
    }
}

proptest! {
    #[test]
    fn a_search_finds_what_a_walk_finds(mut heads in proptest::collection::vec(0u64..400, 0..1200)) {
        heads.sort_unstable();
        check(&heads);
    }
}
