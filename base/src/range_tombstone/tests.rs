use super::*;

/// `depth` tombstones, each within the one before.
fn nested(depth: u64) -> Vec<RangeTombstone> {
    let bound = |n: u64| n.to_be_bytes().to_vec();
    (1..=depth)
        .map(|n| RangeTombstone { start: bound(n), end: bound(3 * depth - n), seqno: SeqNo(n) })
        .collect()
}

#[test]
fn the_newest_alone_is_linear_and_answers_as_all_do() {
    let few = nested(50);
    let (all, newest) = (Fragments::build(&few), Fragments::build_newest(&few));
    for key in 0..200u64 {
        let key = key.to_be_bytes();
        assert_eq!(newest.covering(&key, SeqNo::MAX), all.covering(&key, SeqNo::MAX));
    }
    assert_eq!(all.collapsed(|_, _| true).0, newest);

    // All of them would have 10^10 numbers.
    let many = Fragments::build_newest(&nested(100_000));
    assert_eq!(many.list().len(), 199_999);
    assert!(many.list().iter().all(|fragment| fragment.seqnos.len() == 1));
}

#[test]
fn what_is_seen_together_is_kept_once() {
    // Commits of ten tombstones each; readers see whole commits.
    let few = nested(50);
    let first = |seqno: SeqNo| SeqNo((seqno.0 - 1) / 10 * 10 + 1);
    let (all, together) = (Fragments::build(&few), Fragments::build_together(&few, first));
    assert!(together.list().iter().all(|fragment| fragment.seqnos.len() <= 5));
    for key in 0..200u64 {
        let key = key.to_be_bytes();
        for commit in 0..=5 {
            let reader = SeqNo(commit * 10);
            assert_eq!(
                together.covering(&key, reader),
                all.covering(&key, reader),
                "{key:?} at {reader:?}"
            );
        }
    }
}

#[test]
fn what_somebody_tells_apart_stays() {
    let all = Fragments::build(&nested(6));
    // A reader at 4 sees the first four.
    let (kept, left_out) = all.collapsed(|older, newer| newer <= SeqNo(4) || older > SeqNo(4));
    let numbers = all.list().iter().map(|fragment| fragment.seqnos.len() as u64).sum::<u64>();
    let left = kept.list().iter().map(|fragment| fragment.seqnos.len() as u64).sum::<u64>();
    assert_eq!(left + left_out, numbers);
    for key in 0..18u64 {
        for reader in [SeqNo(4), SeqNo(6)] {
            let key = key.to_be_bytes();
            assert_eq!(kept.covering(&key, reader), all.covering(&key, reader), "{key:?} at {reader:?}");
        }
    }
}
