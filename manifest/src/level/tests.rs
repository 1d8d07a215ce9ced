use std::sync::Arc;

use esker_base::table_meta::KeyBounds;
use proptest::prelude::*;

use super::Level;
use crate::TableHandle;
use crate::testing::{keys, meta, table};

fn numbers<'a>(tables: impl IntoIterator<Item = &'a Arc<TableHandle>>) -> Vec<u64> {
    tables.into_iter().map(|table| table.number().0).collect()
}

/// The first table, by run, whose bounds hold `key`.
fn find<'a>(level: &'a Level, key: &[u8]) -> Option<&'a Arc<TableHandle>> {
    level.runs().iter().find_map(|run| run.find(key))
}

fn bounds(smallest: &[u8], largest: &[u8]) -> KeyBounds {
    KeyBounds { smallest: smallest.to_vec(), largest: largest.to_vec(), largest_exclusive: false }
}

#[test]
fn level_0_stands_newest_first() {
    let mut tied = meta(9, 1, b"a", b"z");
    tied.largest_seqno = meta(8, 1, b"", b"").largest_seqno;
    let level =
        Level::newest_first(vec![table(3, b"a", b"c"), TableHandle::detached(tied), table(8, b"b", b"z")]);
    assert_eq!(numbers(level.tables()), [9, 8, 3]);
    assert_eq!(numbers(level.overlapping(&bounds(b"c", b"d"))), [9, 8, 3]);
    assert_eq!(numbers(level.overlapping(&bounds(b"a", b"a"))), [9, 3]);
    assert_eq!(level.bytes(), 3 * 1000 + 20);
}

#[test]
fn equal_heads_are_told_apart_by_the_whole_key() {
    let level = Level::sorted(vec![
        table(3, b"same-head-c", b"same-head-d"),
        table(1, b"same-hea", b"same-hea\0"),
        table(2, b"same-head-a", b"same-head-b"),
    ]);
    let found = |key: &[u8]| find(&level, key).map(|table| table.number().0);
    assert_eq!(found(b"same-hea"), Some(1));
    assert_eq!(found(b"same-hea\0"), Some(1));
    assert_eq!(found(b"same-hea\0\0"), None);
    assert_eq!(found(b"same-head-a5"), Some(2));
    assert_eq!(found(b"same-head-bb"), None);
    assert_eq!(found(b"same-head-d"), Some(3));
    assert_eq!(found(b"zzz"), None);
    assert_eq!(found(b""), None);
}

#[test]
fn an_exclusive_bound_touches_but_does_not_overlap() {
    let mut left = meta(1, 1, b"a", b"m");
    left.bounds.largest_exclusive = true;
    let level = Level::sorted(vec![TableHandle::detached(left), table(2, b"m", b"z")]);
    assert_eq!(find(&level, b"m").map(|table| table.number().0), Some(2));
    assert_eq!(find(&level, b"lzz").map(|table| table.number().0), Some(1));
    assert_eq!(numbers(level.overlapping(&bounds(b"m", b"m"))), [2]);
}

#[test]
#[should_panic(expected = "overlap")]
fn a_sorted_level_refuses_overlap() {
    Level::sorted(vec![table(1, b"a", b"c"), table(2, b"c", b"d")]);
}

#[test]
#[should_panic(expected = "level 0 are not in key order")]
fn level_0_has_no_first_table_that_reaches_a_key() {
    Level::newest_first(vec![table(1, b"a", b"c")]).first_reaching(b"b");
}

/// Tables cut out of a sorted list of keys, two keys a table, some with exclusive ends.
fn sorted_tables(mut cuts: Vec<Vec<u8>>, exclusive: u64) -> Vec<Arc<TableHandle>> {
    cuts.sort();
    cuts.dedup();
    let table = |(i, pair): (usize, &[Vec<u8>])| {
        let mut meta = meta(i as u64 + 1, 1, &pair[0], &pair[1]);
        meta.bounds.largest_exclusive = exclusive >> (i % 64) & 1 == 1;
        TableHandle::detached(meta)
    };
    cuts.chunks_exact(2).enumerate().map(table).collect()
}

proptest! {
    #[test]
    fn lookups_agree_with_looking_at_every_table(
        cuts in proptest::collection::vec(keys(), 0..60), exclusive in any::<u64>(),
        probes in proptest::collection::vec((keys(), keys()), 1..30),
    ) {
        let level = Level::sorted(sorted_tables(cuts.clone(), exclusive));
        for (a, b) in probes.into_iter().chain(cuts.iter().map(|cut| (cut.clone(), cut.clone()))) {
            let naive = level.tables().iter().find(|table| table.meta.bounds.contains(&a));
            prop_assert_eq!(numbers(find(&level, &a)), numbers(naive));
            let reaching = level.tables().iter().position(|table| !table.meta.bounds.ends_before(&a));
            prop_assert_eq!(level.first_reaching(&a), reaching.unwrap_or(level.len()));
            let wanted = bounds(&a.clone().min(b.clone()), &a.max(b));
            let naive = level.tables().iter().filter(|table| table.meta.bounds.overlaps(&wanted));
            prop_assert_eq!(numbers(level.overlapping(&wanted)), numbers(naive));
        }
    }
}

/// However tables overlap, how deep they lie is known without listing who lies over whom.
#[test]
fn tables_within_each_other_are_as_deep_as_they_are_many() {
    const TABLES: u32 = 5_000;
    let nested = |n: u32| table(u64::from(n) + 1, &n.to_be_bytes(), &(3 * TABLES - n).to_be_bytes());
    let level = Level::newest_first((0..TABLES).map(nested).collect());
    assert_eq!(level.depth(), TABLES as usize);
}

proptest! {
    #[test]
    fn a_level_is_as_deep_as_its_highest_stack(
        bounds in prop::collection::vec((keys(), keys(), any::<bool>()), 0..20),
    ) {
        let table = |(number, (a, b, exclusive)): (usize, (Vec<u8>, Vec<u8>, bool))| {
            let exclusive = exclusive && a != b;
            let mut meta = meta(number as u64 + 1, 1, (&a).min(&b), (&a).max(&b));
            meta.bounds.largest_exclusive = exclusive;
            TableHandle::detached(meta)
        };
        let level = Level::newest_first(bounds.into_iter().enumerate().map(table).collect());
        // What lies over most tables begins where one of them does.
        let stack = |key: &[u8]| level.tables().iter().filter(|t| t.meta.bounds.contains(key)).count();
        let deepest = level.tables().iter().map(|table| stack(&table.meta.bounds.smallest)).max();
        prop_assert_eq!(level.depth(), deepest.unwrap_or(0));
    }
}
