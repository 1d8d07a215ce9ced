//! The cache under loom: readers that insert, a hand that evicts and a table that closes, in every order (with a
//! bounded number of preemptions). Run with
//! `RUSTFLAGS="--cfg loom" cargo test --release --manifest-path tests/models/Cargo.toml`.

use loom::thread;

use super::*;
use crate::block::BlockMeta;

/// What a block of the models is charged.
const CHARGE: u64 = 256 + OVERHEAD_BYTES;

fn block(table: &CachedTable) -> CachedBlock {
    table.allocate(&[], 256).expect("small").finish(BlockMeta, 256)
}

/// A cache for `blocks` blocks and a table of two.
fn rig(blocks: u64) -> (Arc<BlockCache>, CachedTable) {
    let cache = BlockCache::new(blocks * CHARGE, Arc::new(Ledger::default()));
    let table = cache.open_table(2, 0);
    (cache, table)
}

fn model(test: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(test);
}

/// Invariants 2 and 3, at a moment at which nobody inserts or evicts.
fn check(cache: &BlockCache, slots: &Slots) {
    let mut charged = 0;
    for (index, slot) in slots.blocks.iter().enumerate() {
        if let Some(block) = slot.load().as_ref() {
            charged += charge(block);
            assert_eq!(slots.present.next(index), Some(index), "the hand passes block {index} by for ever");
        }
    }
    assert_eq!(cache.used.load(Ordering::Acquire), charged, "bytes used are not those of the blocks");
}

/// Two readers have missed the same block.
#[test]
fn two_insert_one_block() {
    model(|| {
        let (cache, table) = rig(2);
        let table = Arc::new(table);
        let other = {
            let table = Arc::clone(&table);
            thread::spawn(move || table.insert(0, &block(&table)))
        };
        table.insert(0, &block(&table));
        other.join().expect("inserts");
        check(&cache, &table.slots);
        assert_eq!(cache.stats().bytes, CHARGE);
    });
}

/// There is room for one block: each insert sends the hand round, which may meet a slot that is being filled.
#[test]
fn inserts_evict_each_other() {
    model(|| {
        let (cache, table) = rig(1);
        let table = Arc::new(table);
        table.insert(0, &block(&table));
        let other = {
            let table = Arc::clone(&table);
            thread::spawn(move || table.insert(1, &block(&table)))
        };
        table.get(0, true);
        table.insert(0, &block(&table));
        other.join().expect("inserts");
        check(&cache, &table.slots);
        assert!(cache.stats().bytes <= 2 * CHARGE);
    });
}

/// A table is closed while another's insert sends the hand over its blocks: nothing is subtracted twice.
#[test]
fn a_table_closes_under_the_hand() {
    model(|| {
        let (cache, leaving) = rig(1);
        let staying = Arc::new(cache.open_table(2, 0));
        leaving.insert(0, &block(&leaving));
        let other = {
            let staying = Arc::clone(&staying);
            thread::spawn(move || staying.insert(1, &block(&staying)))
        };
        drop(leaving);
        other.join().expect("inserts");
        check(&cache, &staying.slots);
    });
}
