use std::ops::Bound;
use std::sync::Arc;

use esker_base::SeqNo;
use esker_base::bounds::Bounds;
use proptest::prelude::*;

use super::SortedRun;
use crate::TableHandle;
use crate::testing::meta;

/// Tables newest first, each with bounds from `spans` (made of one byte at either end).
fn newest_first(spans: &[(u8, u8, bool)]) -> Vec<Arc<TableHandle>> {
    let table = |(index, &(a, b, exclusive)): (usize, &(u8, u8, bool))| {
        let number = (spans.len() - index) as u64;
        let mut meta = meta(number, 1, &[a.min(b)], &[a.max(b)]);
        // A range tombstone's end lies behind its start.
        meta.bounds.largest_exclusive = exclusive && a != b;
        meta.largest_seqno = SeqNo(number);
        TableHandle::detached(meta)
    };
    spans.iter().enumerate().map(table).collect()
}

/// One kind of bound of three at `key`.
fn bound(kind: u8, key: [u8; 1]) -> Bound<Vec<u8>> {
    match kind {
        0 => Bound::Included(key.to_vec()),
        1 => Bound::Excluded(key.to_vec()),
        _ => Bound::Unbounded,
    }
}

#[test]
fn tables_of_one_flush_make_one_run() {
    let tables = newest_first(&[(7, 9, false), (4, 6, false), (1, 3, false)]);
    let runs = SortedRun::newest_first(&tables);
    assert_eq!(runs.len(), 1);
    let numbers: Vec<u64> = runs[0].tables().iter().map(|table| table.number().0).collect();
    assert_eq!(numbers, [1, 2, 3]);
    assert_eq!(runs[0].last_begun(&[4]), Some(1));
    assert_eq!(runs[0].last_begun(&[0]), None);
}

proptest! {
    #[test]
    fn a_key_meets_its_tables_newest_first(
        spans in prop::collection::vec((0u8..30, 0u8..30, any::<bool>()), 0..20),
    ) {
        let tables = newest_first(&spans);
        let runs = SortedRun::newest_first(&tables);
        prop_assert_eq!(runs.iter().map(|run| run.tables().len()).sum::<usize>(), tables.len());
        let mut highest = 0;
        for key in 0u8..32 {
            let key = [key];
            let walked: Vec<_> = runs.iter().filter_map(|run| run.find(&key)).map(|t| t.number()).collect();
            let naive: Vec<_> =
                tables.iter().filter(|t| t.meta.bounds.contains(&key)).map(|t| t.number()).collect();
            highest = highest.max(naive.len());
            prop_assert_eq!(walked, naive);
            for run in &runs {
                let ends = (key[0] % 3, key[0] % 4, [key[0].wrapping_mul(7) % 32]);
                let bounds = Bounds { start: bound(ends.0, key), end: bound(ends.1, ends.2) };
                let meeting = run.tables().get(run.meeting(&bounds)).unwrap_or_default().iter();
                let naive = run.tables().iter().filter(|table| table.meta.bounds.meets(&bounds));
                prop_assert!(meeting.map(|table| table.number()).eq(naive.map(|table| table.number())), "{:?}", bounds);
                let reaching = run.tables().iter().position(|t| !t.meta.bounds.ends_before(&key));
                prop_assert_eq!(run.first_reaching(&key), reaching.unwrap_or(run.tables().len()));
            }
        }
        prop_assert!(runs.len() >= highest);
    }
}
