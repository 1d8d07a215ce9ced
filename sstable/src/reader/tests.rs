//! Opening tables and getting single keys.

use esker_base::checksum::key_hash;
use esker_base::cursor::OwnedEntry;
use esker_base::{Cursor, Kind, OpCost, SeqNo};
use proptest::prelude::*;

use super::*;
use crate::block::BlockMeta;
use crate::cache::Fill;
use crate::cursor::tests::{entries, keys, options};
use crate::testing::{bytes_of, context, entry, memory, overwrite, path, table, write};
use crate::{Compression, TableOptions};

fn naive<'a>(entries: &'a [OwnedEntry], key: &[u8], upper: SeqNo) -> Option<&'a OwnedEntry> {
    entries.iter().find(|e| e.key == key && e.seqno <= upper)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_get_finds_the_newest_version_that_a_reader_sees(
        entries in entries(),
        others in proptest::collection::vec((keys(), 0u64..50), 0..20),
        options in options(),
        mapped in any::<bool>(),
    ) {
        let source = if mapped { TableSource::Mapped } else { TableSource::Buffered };
        let (_context, reader) = table(options, source, &entries);
        let near = entries.iter().flat_map(|e| {
            [e.seqno.0, e.seqno.0.saturating_sub(1), SeqNo::MAX.0].map(|n| (e.key.clone(), n))
        });
        for (key, upper) in near.chain(others) {
            let upper = SeqNo(upper);
            let mut cost = OpCost::default();
            let got = reader.get(&key, key_hash(&key), upper, &mut cost).expect("memory");
            let expected = naive(&entries, &key, upper);
            prop_assert_eq!(
                got.as_ref().map(|e| (e.seqno, e.kind, &e.value[..])),
                expected.map(|e| (e.seqno, e.kind, &e.value[..]))
            );
            prop_assert!(cost.blocks_from_cache + cost.blocks_from_disk <= 1, "one block at most");
        }
    }
}

#[test]
fn a_get_counts_what_it_touches() {
    let entries: Vec<_> = (0..100u32).map(|i| entry(format!("k{i:03}"), 5, Kind::Put, "v")).collect();
    let (_context, reader) = table(TableOptions::default(), TableSource::Buffered, &entries);
    let get = |key: &[u8], upper: u64| {
        let mut cost = OpCost::default();
        let found = reader.get(key, key_hash(key), SeqNo(upper), &mut cost).expect("memory");
        (found.is_some(), cost)
    };
    let (found, first) = get(b"k050", 9);
    assert!(found);
    assert_eq!((first.tables, first.blocks_from_disk, first.blocks_from_cache), (1, 1, 0));
    let stored = reader.index().stored_len(0) as u64;
    assert_eq!(first.bytes_from_disk, stored);
    let (_, second) = get(b"k050", 9);
    assert_eq!(second, OpCost { tables: 1, blocks_from_cache: 1, ..OpCost::default() });
    // A version that the reader may not see is no false positive of the filter.
    let (found, unseen) = get(b"k050", 4);
    assert!(!found);
    assert_eq!(unseen.filter_false_positives, 0);
    let mut sum = OpCost::default();
    for i in 0..1000u32 {
        let (found, cost) = get(format!("k050.{i}").as_bytes(), 9);
        assert!(!found);
        assert_eq!(cost.filter_negatives + cost.filter_false_positives, 1);
        sum.add(&cost);
    }
    assert!(sum.filter_false_positives < 40, "{sum:?}");
    assert_eq!(sum.blocks_from_disk, 0, "its one block is cached");
}

/// Some 160 blocks of rows whose keys are their numbers, and a cache of `cache_bytes`.
fn many_blocks(cache_bytes: u64, damage: Option<usize>) -> (TableContext, TableReader) {
    let fs = memory();
    let entries: Vec<_> =
        (0..6000u32).map(|n| entry(format!("{n:04}"), 5, Kind::Put, [n.to_le_bytes()[0]; 100])).collect();
    let meta = write(&fs, TableOptions::default(), &entries, &[]).expect("memory");
    if let Some(at) = damage {
        let mut bytes = bytes_of(&*fs, &path());
        bytes[at] ^= 1;
        overwrite(&*fs, &bytes);
    }
    let context = context(&fs, TableSource::Buffered, cache_bytes);
    let reader = TableReader::open(&context, &meta).expect("opened");
    assert!(reader.index().blocks() > 150, "{}", reader.index().blocks());
    (context, reader)
}

/// Get row `n`, and what that cost.
fn get_row(reader: &TableReader, n: u32) -> Result<OpCost> {
    let (key, mut cost) = (format!("{n:04}").into_bytes(), OpCost::default());
    assert!(reader.get(&key, key_hash(&key), SeqNo(9), &mut cost)?.is_some());
    Ok(cost)
}

/// Get rows until sixteen blocks at the table's end are cached, each at a miss of its own.
fn become_familiar(reader: &TableReader) {
    for n in (0..6000).rev() {
        if reader.cached().count() == 16 {
            return;
        }
        let before = reader.cached().count();
        get_row(reader, n).expect("memory");
        assert!(reader.cached().count() <= before + 1, "one block at a miss");
    }
    panic!("{} blocks are cached", reader.cached().count());
}

#[test]
fn a_miss_brings_the_blocks_beside_it_where_all_fit() {
    let (_context, reader) = many_blocks(1 << 20, None);
    become_familiar(&reader);
    let first = get_row(&reader, 750).expect("memory");
    let index = reader.index();
    let group =
        (0..index.blocks()).map(|block| index.group(block)).find(|g| reader.cached().holds(g.start));
    let group = group.expect("the block has come");
    assert_eq!((group.len(), reader.cached().count()), (16, 16 + 16));
    assert_eq!(first.bytes_from_disk, index.offset(group.end) - index.offset(group.start));
    assert_eq!(first.blocks_from_disk, 1, "what was not looked at is not counted");
    for round in 0..2 {
        let misses: u64 = (0..6000).map(|n| get_row(&reader, n).expect("memory").blocks_from_disk).sum();
        assert_eq!(reader.cached().count(), index.blocks());
        assert!(misses <= if round == 0 { index.blocks().div_ceil(16) as u64 } else { 0 }, "{misses}");
    }
}

#[test]
fn a_miss_brings_one_block_where_not_all_fit_or_all_are_coming() {
    let brought = |reader: &TableReader, n| {
        let before = reader.cached().count();
        get_row(reader, n).expect("memory");
        reader.cached().count() - before
    };
    let (_small, reader) = many_blocks(400 << 10, None);
    become_familiar(&reader);
    assert_eq!(brought(&reader, 750), 1);

    let (context, reader) = many_blocks(900 << 10, None);
    become_familiar(&reader);
    let beside = context.cache.open_table(40, 400 << 10);
    assert_eq!(brought(&reader, 750), 1, "another table wants room as well");
    drop(beside);
    assert_eq!(brought(&reader, 2000), 16, "it is gone");

    let (_context, reader) = many_blocks(1 << 20, None);
    become_familiar(&reader);
    reader.expect_warming();
    assert_eq!(brought(&reader, 750), 1);
    let mut from = Some(0);
    while let Some(block) = from {
        assert!(reader.is_warming());
        from = reader.warm(block, &mut OpCost::default()).expect("memory");
    }
    assert!(!reader.is_warming(), "that is all of it");
}

#[test]
fn a_miss_brings_one_block_where_what_else_is_cached_leaves_no_room() {
    let (context, reader) = many_blocks(1 << 20, None);
    become_familiar(&reader);
    let records = context.cache.open_slots(4_000);
    for record in (0..4_000).take_while(|&record| records.takes(record, Fill::Room, 300)) {
        let buf = records.allocate(&[7; 300], 300).expect("small");
        records.insert(record, &buf.finish(BlockMeta::default(), 300));
    }
    assert!(reader.cached().has_room_for_all(), "all tables' blocks would fit, were there nothing else");
    assert_eq!((reader.cached().count(), context.cache.stats().evictions), (16, 0));
    let one = reader.index().stored_len(0) as u64;
    for _miss in 0..2 {
        let cost = get_row(&reader, 750).expect("memory");
        assert!(cost.blocks_from_disk == 1 && cost.bytes_from_disk < 2 * one, "{cost:?}");
    }
}

#[test]
fn a_damaged_neighbour_is_somebody_elses() {
    // In the second block.
    let (_context, reader) = many_blocks(1 << 20, Some(5_000));
    become_familiar(&reader);
    get_row(&reader, 0).expect("its own block is whole");
    assert_eq!(reader.cached().count(), 16 + 15, "all of the group but the damaged one");
    let damaged = (0..6000).filter(|&n| get_row(&reader, n).is_err_and(|error| error.is_corruption()));
    let damaged: Vec<u32> = damaged.collect();
    assert!((20..60).contains(&damaged.len()), "{damaged:?}");
    assert!(damaged.windows(2).all(|pair| pair[0] + 1 == pair[1]), "they are one block's: {damaged:?}");
    assert_eq!(reader.cached().count(), reader.index().blocks() - 1, "an error is never cached");
}

#[test]
fn a_value_of_many_megabytes_has_a_block_of_its_own() {
    let big = vec![42u8; 20 << 20];
    for compression in [Compression::None, Compression::Lz4] {
        let options = TableOptions { compression, ..TableOptions::default() };
        let entries = [
            entry("a", 1, Kind::Put, "small"),
            entry("b", 2, Kind::Put, &big),
            entry("c", 3, Kind::Put, "small"),
        ];
        let (_context, reader) = table(options, TableSource::Buffered, &entries);
        assert_eq!(reader.index().blocks(), 3);
        let found = reader.get(b"b", key_hash(b"b"), SeqNo::MAX, &mut OpCost::default()).expect("memory");
        assert!(found.expect("there").value == big);
    }
}

#[test]
#[ignore = "takes six gigabytes of memory"]
fn a_value_may_have_a_gigabyte() {
    let big = vec![42u8; esker_base::limits::VALUE_BYTES_MAX];
    for compression in [Compression::None, Compression::Lz4] {
        let options = TableOptions { compression, ..TableOptions::default() };
        let entries = [entry(vec![7; 65_535], 2, Kind::Put, &big)];
        let (_context, reader) = table(options, TableSource::Buffered, &entries);
        let key = &entries[0].key;
        let found = reader.get(key, key_hash(key), SeqNo::MAX, &mut OpCost::default()).expect("memory");
        assert!(found.expect("there").value == big);
    }
}

#[test]
fn a_reader_debits_its_index_and_gives_it_back() {
    let entries: Vec<_> = (0..1000u32).map(|i| entry(format!("k{i:05}"), 5, Kind::Put, [0; 100])).collect();
    let (context, reader) = table(TableOptions::default(), TableSource::Buffered, &entries);
    let held = context.ledger.held(Purpose::TableMetadata);
    assert!(held > 1000 * 10 / 8, "{held}");
    drop(reader);
    assert_eq!(context.ledger.held(Purpose::TableMetadata), 0);
    assert_eq!(context.ledger.held(Purpose::Cache), 0);
}

#[test]
fn offsets_grow_with_keys() {
    let entries: Vec<_> = (0..1000u32).map(|i| entry(format!("k{i:05}"), 5, Kind::Put, [0; 100])).collect();
    let (_context, reader) = table(TableOptions::default(), TableSource::Buffered, &entries);
    let at = |key: &str| reader.approximate_offset(key.as_bytes());
    assert_eq!(at(""), 0);
    assert!(at("k00500") > 40_000 && at("k00500") < 70_000, "{}", at("k00500"));
    assert_eq!(at("z"), reader.footer().data_bytes());
}

#[test]
fn a_table_of_only_range_tombstones_opens() {
    let fs = memory();
    let fragment = esker_base::range_tombstone::Fragment {
        start: b"b".to_vec(),
        end: b"d".to_vec(),
        seqnos: vec![SeqNo(9), SeqNo(4)],
    };
    let meta = write(&fs, TableOptions::default(), &[], std::slice::from_ref(&fragment)).expect("write");
    assert_eq!((meta.entries, meta.range_tombstones), (0, 2));
    assert_eq!((meta.smallest_seqno, meta.largest_seqno), (SeqNo(4), SeqNo(9)));
    assert!(meta.bounds.contains(b"c") && !meta.bounds.contains(b"d"));
    let reader = Arc::new(TableReader::open(&context(&fs, TableSource::Mapped, 0), &meta).expect("open"));
    assert_eq!(reader.tombstones().list(), [fragment]);
    assert_eq!(reader.get(b"c", key_hash(b"c"), SeqNo::MAX, &mut OpCost::default()).expect("get"), None);
    let mut cursor = reader.cursor(CursorOptions::default());
    for result in [
        cursor.seek_first(),
        cursor.seek_last(),
        cursor.seek(InternalKey::before_all(b"")),
        cursor.seek_before(InternalKey::before_all(b"z")),
    ] {
        result.expect("no entries");
    }
    assert!(!cursor.valid());
    reader.verify(&mut OpCost::default()).expect("verify");
}
