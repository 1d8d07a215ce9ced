use proptest::prelude::*;

use super::*;
use crate::testing::cover;
use esker_base::table_meta::KeyBounds;

#[test]
fn retained_tombstones() {
    let inputs = [
        Arc::new(Fragments::build(&[cover("a", "m", 5), cover("g", "z", 9)])),
        Arc::new(Fragments::default()),
        Arc::new(Fragments::build(&[cover("a", "z", 3)])),
    ];
    let seqnos = |snapshots: &[u64], below: &Below| -> Vec<(String, Vec<u64>)> {
        let stripes = Stripes::new(snapshots.iter().copied().map(SeqNo).collect());
        let ranges = RangeDeletes::new(&inputs, &stripes);
        let (kept, dropped) = ranges.retained(&stripes, below);
        let all: usize = ranges.fragments.list().iter().map(|f| f.seqnos.len()).sum();
        let left: usize = kept.iter().map(|f| f.seqnos.len()).sum();
        assert_eq!(left as u64 + dropped, all as u64 + ranges.left_out);
        kept.into_iter()
            .map(|f| {
                let range = format!("{}-{}", f.start.escape_ascii(), f.end.escape_ascii());
                (range, f.seqnos.into_iter().map(|s| s.0).collect())
            })
            .collect()
    };
    let row = |range: &str, seqnos: &[u64]| (range.to_owned(), seqnos.to_vec());
    // Something below everything: the newest of each stripe stays.
    let newest = [row("a-g", &[5]), row("g-m", &[9]), row("m-z", &[9])];
    assert_eq!(seqnos(&[9], &Below::anything()), newest);
    let stripes = [row("a-g", &[5, 3]), row("g-m", &[9, 5, 3]), row("m-z", &[9, 3])];
    assert_eq!(seqnos(&[3, 5, 9], &Below::anything()), stripes);
    // Nothing below: what every reader sees is spent.
    assert_eq!(seqnos(&[9], &Below::nothing()), []);
    assert_eq!(seqnos(&[5, 9], &Below::nothing()), [row("g-m", &[9]), row("m-z", &[9])]);
    // Something below a part.
    let bounds = KeyBounds { smallest: b"b".to_vec(), largest: b"c".to_vec(), largest_exclusive: false };
    let below = Below::of_runs(vec![vec![bounds]]);
    assert_eq!(seqnos(&[9], &below), [row("a-g", &[5])]);
}

#[test]
fn nested_tombstones_of_two_tables_take_no_more_than_their_stripes() {
    // One table says of one range that it was deleted 20,000 times, the other cuts it into 10,000 pieces.
    let fragment = Fragment {
        start: b"a".to_vec(),
        end: b"z".to_vec(),
        seqnos: (1..=20_000).rev().map(SeqNo).collect(),
    };
    let mut deep = Fragments::default();
    deep.push(fragment).expect("in order");
    let pieces: Vec<_> =
        (0..10_000u64).map(|n| cover(&format!("b{n:05}"), &format!("b{n:05}x"), 30_000 + n)).collect();
    let inputs = [Arc::new(deep), Arc::new(Fragments::build(&pieces))];
    let stripes = Stripes::new(vec![SeqNo(700), SeqNo(50_000)]);
    let ranges = RangeDeletes::new(&inputs, &stripes);
    let list = ranges.fragments.list();
    assert_eq!(list.len(), 20_001);
    assert!(list.iter().all(|fragment| fragment.seqnos.len() <= 3), "two of one, one of the other");
    assert_eq!(ranges.left_out, 19_998);
    assert_eq!(list[0].seqnos, [SeqNo(20_000), SeqNo(700)]);
}

#[test]
fn covering_goes_forward() {
    let mut ranges = RangeDeletes::new(
        &[Arc::new(Fragments::build(&[cover("b", "d", 5), cover("f", "g", 7)]))],
        &Stripes::new(vec![SeqNo(9)]),
    );
    let covered: Vec<(&str, Option<u64>)> = ["a", "b", "c", "d", "e", "f", "g"]
        .into_iter()
        .map(|key| (key, ranges.covering(key.as_bytes()).first().map(|s| s.0)))
        .filter(|(_, seqno)| seqno.is_some())
        .collect();
    assert_eq!(covered, [("b", Some(5)), ("c", Some(5)), ("f", Some(7))]);
}

#[test]
#[should_panic(expected = "newest visible number")]
fn no_snapshot_at_all_is_a_mistake() {
    let _ = Stripes::new(Vec::new());
}

proptest! {
    #[test]
    fn together_is_what_readers_see(
        snapshots in prop::collection::vec(0u64..30, 1..6),
        older in 0u64..40,
        gap in 1u64..10,
    ) {
        let newer = older + gap;
        let stripes = Stripes::new(snapshots.iter().copied().map(SeqNo).collect());
        let newest = *snapshots.iter().max().expect("one at least");
        // Readers: the snapshots, and any number from the newest visible on.
        let readers = snapshots.iter().copied().chain(newest..60);
        let expected = readers.into_iter().all(|reader| reader < older || newer <= reader);
        prop_assert_eq!(stripes.together(SeqNo(older), SeqNo(newer)), expected);
        prop_assert_eq!(stripes.is_oldest(SeqNo(older)), snapshots.iter().all(|s| older <= *s));
    }
}
