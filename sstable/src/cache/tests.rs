//! The cache stays within its capacity, keeps what is used, and accounts for every byte.

use super::*;
use crate::block::{BlockBuilder, BlockMeta};

/// A block of about `bytes`, as `table` would cache it.
fn block(table: &CachedTable, bytes: usize) -> CachedBlock {
    let mut builder = BlockBuilder::default();
    builder.add(b"k", 0, esker_base::SeqNo(1), esker_base::Kind::Put, &vec![0; bytes]);
    let mut raw = Vec::new();
    builder.encode(&mut raw);
    raw.extend_from_slice(builder.values());
    table.allocate(&raw, raw.len()).expect("small").finish(BlockMeta::new(&raw).expect("ours"), raw.len())
}

fn cache(capacity: u64) -> (Arc<BlockCache>, Arc<Ledger>) {
    let ledger = Arc::new(Ledger::default());
    (BlockCache::new(capacity, Arc::clone(&ledger)), ledger)
}

#[test]
fn a_cache_stays_within_its_capacity_over_many_tables() {
    let (cache, ledger) = cache(100_000);
    let tables: Vec<_> = (0..5).map(|_| cache.open_table(200, 0)).collect();
    for index in 0..200 {
        for table in &tables {
            table.insert(index, &block(table, 1000));
            assert!(cache.stats().bytes <= 100_000);
        }
    }
    let stats = cache.stats();
    assert!(stats.bytes > 90_000 && stats.evictions > 900, "{stats:?}");
    assert_eq!(ledger.held(Purpose::Cache), stats.bytes);
    drop(tables);
    assert_eq!((cache.stats().bytes, ledger.total()), (0, 0));
}

#[test]
fn a_used_block_outlives_unused_ones() {
    let (cache, _) = cache(20_000);
    let table = cache.open_table(1000, 0);
    table.insert(0, &block(&table, 1000));
    for index in 1..1000 {
        assert!(table.get(0, true).is_some(), "gone after {index} others");
        table.insert(index, &block(&table, 1000));
    }
    // Looks that do not count as use do not keep it.
    for index in (1..1000).chain(1..1000) {
        table.get(0, false);
        table.insert(index, &block(&table, 1000));
    }
    assert!(table.get(0, false).is_none());
}

/// Whether `table` caches block `index` after a miss.
fn misses(table: &CachedTable, index: usize) -> bool {
    let missed = block(table, 1000);
    let takes = table.takes(index, Fill::Yes, missed.len);
    if takes {
        table.insert(index, &missed);
    }
    takes
}

#[test]
fn a_full_cache_takes_a_block_in_at_its_second_miss() {
    let (cache, _) = cache(20_000);
    let table = cache.open_table(1000, 0);
    let fits = (0..1000).find(|index| !misses(&table, *index)).expect("it is full some time");
    assert!(fits > 10, "only {fits} came in while there was room");
    assert!((500..600).all(|index| !misses(&table, index)), "read once");
    assert_eq!(cache.stats().evictions, 0);
    assert!(misses(&table, 500), "read twice");
    assert!(table.get(500, false).is_some());
    // While the hand goes round once or more, what was missed before is forgotten.
    assert!((600..800).all(|index| !misses(&table, index) && misses(&table, index)));
    assert!(!misses(&table, 501), "the other miss was a round ago");
    assert!(misses(&table, 501));
}

/// With this many slots the test takes half a minute, not milliseconds, if asking for a block means looking
/// for the next cached one.
#[test]
fn a_cached_block_is_held_alone_and_counted_once() {
    const SLOTS: usize = 1 << 20;
    let (cache, _) = cache(100_000);
    let table = cache.open_table(SLOTS, 0);
    table.insert(SLOTS - 1, &block(&table, 1000));
    let held: Vec<usize> = (0..SLOTS).filter(|&index| table.holds(index)).collect();
    assert_eq!((held, table.count()), (vec![SLOTS - 1], 1));
    assert!(!table.holds(SLOTS));
    table.insert(SLOTS - 1, &block(&table, 1000));
    assert_eq!(table.count(), 1, "one block, however often it comes");
    (0..1_000).for_each(|index| table.insert(index, &block(&table, 1000)));
    let held = (0..SLOTS).filter(|&index| table.holds(index)).count();
    assert!(table.count() == held && held < 100, "{held} of 100 KB");
}

#[test]
fn a_block_in_use_survives_its_eviction_and_stays_in_the_ledger() {
    let (cache, ledger) = cache(3_000);
    let table = cache.open_table(3, 0);
    table.insert(0, &block(&table, 2_000));
    let pinned = table.get(0, false).expect("inserted").clone().expect("a block");
    table.insert(1, &block(&table, 2_000));
    assert!(table.get(0, false).is_none(), "evicted");
    assert!(pinned.len > 2_000);
    assert!(ledger.held(Purpose::Cache) > 4_000, "the pinned block is still accounted for");
    drop(pinned);
    assert_eq!(ledger.held(Purpose::Cache), cache.stats().bytes);
}

#[test]
fn what_is_larger_than_the_cache_is_not_cached() {
    let (cache, ledger) = cache(1_000);
    let table = cache.open_table(1, 0);
    table.insert(0, &block(&table, 2_000));
    assert!(table.get(0, true).is_none());
    assert_eq!((cache.stats().bytes, ledger.total()), (0, 0));
}

#[test]
fn inserting_a_block_twice_counts_it_once() {
    let (cache, _) = cache(100_000);
    let table = cache.open_table(1, 0);
    table.insert(0, &block(&table, 1000));
    let once = cache.stats().bytes;
    table.insert(0, &block(&table, 1000));
    assert_eq!(cache.stats().bytes, once);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "races need threads")]
fn threads_that_insert_evict_and_close_lose_no_byte() {
    let (cache, ledger) = cache(50_000);
    let shared = cache.open_table(64, 0);
    std::thread::scope(|scope| {
        for seed in 0..4u64 {
            let (cache, shared) = (&cache, &shared);
            scope.spawn(move || {
                for round in 0..30 {
                    let own = cache.open_table(64, 0);
                    for i in 0..64usize {
                        let index = (i * 7 + seed as usize * 13 + round) % 64;
                        for table in [shared, &own] {
                            if table.get(index, index.is_multiple_of(3)).is_none() {
                                table.insert(index, &block(table, 900 + index));
                            }
                        }
                    }
                }
            });
        }
    });
    let stats = cache.stats();
    assert!(stats.bytes <= 50_000 + 4 * 1_200, "{stats:?}");
    assert_eq!(ledger.held(Purpose::Cache), stats.bytes);
    drop(shared);
    assert_eq!((cache.stats().bytes, ledger.total()), (0, 0));
}
