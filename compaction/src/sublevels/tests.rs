use esker_base::SeqNo;
use esker_base::table_meta::TableMeta;
use esker_manifest::TableHandle;
use proptest::prelude::*;

use super::*;
use crate::testing::described;

fn level0(tables: &[(u8, u8, bool)]) -> Level {
    let meta = |number: usize, (smallest, len, exclusive): (u8, u8, bool)| {
        let number = number as u64 + 1;
        let mut meta = TableMeta {
            smallest_seqno: SeqNo(number),
            largest_seqno: SeqNo(number),
            ..described(number, [smallest], [smallest + len])
        };
        // A range that ends where it begins holds nothing.
        meta.bounds.largest_exclusive = exclusive && len > 0;
        meta
    };
    let tables =
        tables.iter().enumerate().map(|(number, table)| TableHandle::detached(meta(number, *table)));
    Level::newest_first(tables.collect())
}

proptest! {
    #[test]
    fn stacks_and_sublevels_are_what_they_say(
        tables in prop::collection::vec((0u8..40, 0u8..12, any::<bool>()), 0..14),
    ) {
        let level = level0(&tables);
        let sublevels = Sublevels::new(&level);
        let tables = level.tables();
        for (newer, table) in tables.iter().enumerate() {
            // One more than the greatest of what it lies on.
            let older = (newer + 1..tables.len())
                .filter(|&older| tables[older].meta.bounds.overlaps(&table.meta.bounds))
                .map(|older| sublevels.sublevel(older) + 1)
                .max();
            prop_assert_eq!(sublevels.sublevel(newer), older.unwrap_or(0));
            // What it lies on, it overlaps; and what it overlaps, it lies on or what it lies on overlaps.
            let overlaps = |at: usize, older: usize| {
                at < older && tables[at].meta.bounds.overlaps(&tables[older].meta.bounds)
            };
            let directly = sublevels.lies_on(newer);
            for older in 0..tables.len() {
                let through = |&between: &usize| between == older || overlaps(between, older);
                prop_assert!(!directly.contains(&older) || overlaps(newer, older));
                prop_assert!(!overlaps(newer, older) || directly.iter().any(through));
            }
        }
        let directly = (0..tables.len()).map(|index| sublevels.lies_on(index).len()).sum::<usize>();
        prop_assert!(directly <= 3 * tables.len(), "{} of {}", directly, tables.len());
        let overlapping = |at: usize| {
            tables.iter().filter(|other| other.meta.bounds.overlaps(&tables[at].meta.bounds)).count()
        };
        let mut alone: Vec<usize> = (0..tables.len()).filter(|&at| overlapping(at) == 1).collect();
        alone.sort_by(|a, b| tables[*a].meta.bounds.smallest.cmp(&tables[*b].meta.bounds.smallest));
        prop_assert_eq!(sublevels.alone(), alone);
        prop_assert!(level.depth() <= sublevels.count());
        // A stack is what covers some key. Between two neighbouring one-byte keys lies a longer one.
        let keys = (0u8..60).flat_map(|key| [vec![key], vec![key, 0]]);
        let mut covers: Vec<Vec<usize>> = keys
            .map(|key| (0..tables.len()).rev().filter(|&t| tables[t].meta.bounds.contains(&key)).collect())
            .collect();
        prop_assert_eq!(level.depth(), covers.iter().map(Vec::len).max().unwrap_or(0));
        covers.retain(|stack| !stack.is_empty());
        covers.sort();
        covers.dedup();
        let mut stacks: Vec<Vec<usize>> = sublevels.stacks(1, |_| true).collect();
        let high = stacks.iter().filter(|stack| stack.len() >= 3);
        prop_assert!(sublevels.stacks(3, |_| true).eq(high.cloned()));
        let free = stacks.iter().filter(|stack| stack.last().is_some_and(|newest| newest % 2 == 0));
        prop_assert!(sublevels.stacks(1, |newest| newest % 2 == 0).eq(free.cloned()));
        prop_assert!(stacks.windows(2).all(|pair| pair[0].len() >= pair[1].len()));
        stacks.sort();
        stacks.dedup();
        prop_assert_eq!(stacks, covers);
    }
}

proptest! {
    #[test]
    fn a_flush_is_cut_between_the_tables_that_it_lies_on(
        above in prop::collection::vec((0u8..40, 0u8..12, any::<bool>()), 0..14),
        below in prop::collection::vec((0u8..3, 0u8..3, any::<bool>()), 0..14),
        split in 1u64..5,
    ) {
        let level = level0(&above);
        let mut tree = Tree::default();
        // Tables side by side.
        let mut next = 0;
        let side_by_side = below.iter().map(|(gap, len, exclusive)| {
            let smallest = next + gap;
            next = smallest + len + 1;
            (smallest, *len, *exclusive)
        });
        let base: Vec<_> = side_by_side.collect();
        tree.levels[0] = level.clone();
        tree.levels[6] = Level::sorted(level0(&base).tables().to_vec());
        let settings = Settings { flush_split_bytes: split, ..Settings::default() };
        let cut = flush_cut(&tree, &settings);
        prop_assert!(cut.before.is_sorted_by(|a, b| a < b) && cut.before.len() < 16, "{:?}", cut.before);
        let sublevels = Sublevels::new(&level);
        let oldest = level.tables().iter().enumerate().filter(|(at, _)| sublevels.sublevel(*at) == 0);
        let oldest: Vec<&KeyBounds> = oldest.map(|(_, table)| &table.meta.bounds).collect();
        let below = tree.levels[6].tables().iter().map(|table| &table.meta.bounds);
        let alone = below.filter(|bounds| !oldest.iter().any(|table| table.overlaps(bounds)));
        let ground: Vec<&KeyBounds> = alone.chain(oldest.iter().copied()).collect();
        prop_assert_eq!(floor(&tree).len(), ground.len());
        for bounds in ground {
            let inside = |cut: &&Vec<u8>| bounds.smallest < **cut && !bounds.ends_before(cut);
            prop_assert_eq!(cut.before.iter().find(inside), None, "in {:?}", bounds);
        }
        // What lies nowhere yet is cut by size.
        prop_assert_eq!(cut.table_bytes == split, above.is_empty() && base.is_empty());
    }
}
