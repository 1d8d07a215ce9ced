//! A table's cursor does what a sorted vector's does, on every kind of content.

use std::ops::Bound;
use std::sync::Arc;

use esker_base::bounds::Bounds;
use esker_base::cursor::{Below, OwnedEntry, Stepped, VecCursor};
use esker_base::key::head;
use esker_base::{Cursor, InternalKey, Kind, OpCost, SeqNo};
use proptest::prelude::*;

use crate::testing::{entry, sorted, table};
use crate::{Compression, CursorOptions, RowRun, TableCursor, TableOptions, TableSource};

/// Keys that collide, share long prefixes, are empty, are huge.
pub(crate) fn keys() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => proptest::collection::vec(prop_oneof![Just(b'a'), Just(b'b'), Just(0u8), Just(255u8)], 0..6),
        4 => (0u32..300).prop_map(|n| format!("user/{n:08}").into_bytes()),
        2 => (0u16..40, 0u8..4).prop_map(|(n, b)| {
            let mut key = vec![b'p'; usize::from(n) * 20];
            key.push(b);
            key
        }),
        1 => (0u8..3).prop_map(|b| { let mut key = vec![b; 65_535]; key[65_534] = 7; key }),
        1 => any::<[u8; 9]>().prop_map(|k| k.to_vec()),
    ]
}

pub(crate) fn entries() -> impl Strategy<Value = Vec<OwnedEntry>> {
    let kind = prop_oneof![4 => Just(Kind::Put), 1 => Just(Kind::Delete), 1 => Just(Kind::Merge)];
    let seqno = prop_oneof![3 => Just(5u64), 4 => 0u64..40, 1 => 0u64..=SeqNo::MAX.0];
    let value = prop_oneof![
        3 => proptest::collection::vec(any::<u8>(), 0..40),
        2 => Just(vec![b'v'; 200]),
        1 => Just(Vec::new()),
    ];
    let one = (keys(), seqno, kind, value).prop_map(|(k, s, kind, v)| {
        let v = if kind == Kind::Delete { Vec::new() } else { v };
        entry(k, s, kind, v)
    });
    proptest::collection::vec(one, 1..120).prop_map(sorted)
}

pub(crate) fn options() -> impl Strategy<Value = TableOptions> {
    let compression = prop_oneof![
        3 => Just(Compression::None),
        2 => Just(Compression::Lz4),
        1 => Just(if cfg!(feature = "zstd") { Compression::Zstd { level: 3 } } else { Compression::None }),
    ];
    let bytes = prop_oneof![Just(32u32), 32u32..400, Just(4096), Just(1 << 20)];
    (bytes, compression, prop_oneof![Just(0u8), Just(10), Just(32)]).prop_map(
        |(block_bytes, compression, filter_bits_per_key)| TableOptions {
            block_bytes,
            compression,
            filter_bits_per_key,
        },
    )
}

#[derive(Clone, Debug)]
enum Op {
    First,
    Last,
    /// Seek to a position near entry `i`: its own, or one before or behind it.
    Seek(usize, u8),
    SeekBefore(usize, u8),
    SeekKey(Vec<u8>, u64),
    Next(u8),
    Prev(u8),
    /// Steps that need not be taken.
    NextDistinct(u8),
    PrevDistinct(u8),
    /// A run of this many rows at most, that is ended, or if none are left stepped off.
    Run(u8, bool),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        Just(Op::First),
        Just(Op::Last),
        (any::<usize>(), 0u8..3).prop_map(|(i, d)| Op::Seek(i, d)),
        (any::<usize>(), 0u8..3).prop_map(|(i, d)| Op::SeekBefore(i, d)),
        (keys(), 0u64..50).prop_map(|(k, s)| Op::SeekKey(k, s)),
        (1u8..40).prop_map(Op::Next),
        (1u8..40).prop_map(Op::Prev),
        (1u8..40).prop_map(Op::NextDistinct),
        (1u8..40).prop_map(Op::PrevDistinct),
        (0u8..20, any::<bool>()).prop_map(|(n, off)| Op::Run(n, off)),
    ];
    proptest::collection::vec(op, 1..60)
}

/// The scan that cursors serve sees writes up to this number.
const SEEN: SeqNo = SeqNo(20);

fn unbounded() -> Arc<Bounds> {
    Arc::new(Bounds { start: Bound::Unbounded, end: Bound::Unbounded })
}

fn same(table: &impl Cursor, model: &VecCursor) {
    assert_eq!(table.valid(), model.valid());
    if model.valid() {
        assert_eq!(table.key(), model.key());
        assert_eq!((table.seqno(), table.kind()), (model.seqno(), model.kind()));
        assert_eq!(table.value(), model.value());
    }
}

fn both(table: &mut TableCursor, model: &mut VecCursor, entries: &[OwnedEntry], op: &Op) {
    let near = |i: usize, d: u8| {
        let e = &entries[i % entries.len()];
        let seqno = match d {
            0 => e.seqno,
            1 => SeqNo(e.seqno.0.saturating_sub(1)),
            _ => SeqNo((e.seqno.0 + 1).min(SeqNo::MAX.0)),
        };
        (e.key.clone(), seqno)
    };
    match op {
        Op::First => {
            table.seek_first().expect("table");
            model.seek_first().expect("model");
        }
        Op::Last => {
            table.seek_last().expect("table");
            model.seek_last().expect("model");
        }
        Op::Seek(i, d) => {
            let (key, seqno) = near(*i, *d);
            table.seek(InternalKey::new(&key, seqno)).expect("table");
            model.seek(InternalKey::new(&key, seqno)).expect("model");
        }
        Op::SeekBefore(i, d) => {
            let (key, seqno) = near(*i, *d);
            table.seek_before(InternalKey::new(&key, seqno)).expect("table");
            model.seek_before(InternalKey::new(&key, seqno)).expect("model");
        }
        Op::SeekKey(key, seqno) => {
            table.seek(InternalKey::new(key, SeqNo(*seqno))).expect("table");
            model.seek(InternalKey::new(key, SeqNo(*seqno))).expect("model");
            same(table, model);
            table.seek_before(InternalKey::new(key, SeqNo(*seqno))).expect("table");
            model.seek_before(InternalKey::new(key, SeqNo(*seqno))).expect("model");
        }
        Op::Next(n) => {
            for _ in 0..*n {
                if !model.valid() {
                    break;
                }
                table.next().expect("table");
                model.next().expect("model");
                same(table, model);
            }
        }
        Op::Prev(n) => {
            for _ in 0..*n {
                if !model.valid() {
                    break;
                }
                table.prev().expect("table");
                model.prev().expect("model");
                same(table, model);
            }
        }
        Op::NextDistinct(n) => {
            for _ in 0..*n {
                if let Some(stepped) = table.next_distinct() {
                    stepped_to(stepped, model.next_distinct());
                } else if model.valid() {
                    same(table, model);
                    table.next().expect("table");
                    model.next().expect("model");
                }
                same(table, model);
            }
        }
        Op::PrevDistinct(n) => {
            for _ in 0..*n {
                if let Some(stepped) = table.prev_distinct() {
                    let versions = entries.iter().filter(|entry| entry.key == stepped.key).count();
                    assert!(!stepped.is_row || versions == 1, "a newer version may come before it");
                    stepped_to(stepped, model.prev_distinct());
                } else if model.valid() {
                    same(table, model);
                    table.prev().expect("table");
                    model.prev().expect("model");
                }
                same(table, model);
            }
        }
        Op::Run(n, off) => {
            let mut run = RowRun::default();
            if let Some(bytes) = table.begin_run(Below::Head(u64::MAX), &mut run).map(<[u8]>::to_vec) {
                run_over(table, model, &mut run, &bytes, *n, *off);
            }
        }
    }
    same(table, model);
    if table.valid() && (table.known_row(false).is_some() || table.known_row(true).is_some()) {
        assert!(table.kind() == Kind::Put && table.seqno() <= SEEN);
    }
}

/// Take `n` rows of `run` at most, which began at `table` in the block that `bytes` are, and end it; with `off` by a step, where none is
/// left.
fn run_over(
    table: &mut TableCursor,
    model: &mut VecCursor,
    run: &mut RowRun,
    bytes: &[u8],
    n: u8,
    off: bool,
) {
    let mut taken = 0;
    while taken < n
        && let Some((key, value)) = run.next(bytes)
    {
        model.next().expect("model");
        assert_eq!((key, value), (model.key(), model.value()));
        assert!(model.kind() == Kind::Put && model.seqno() <= SEEN);
        taken += 1;
    }
    if taken == n || !off {
        assert_eq!(table.end_run(run), head(model.key()));
    } else if let Some(stepped) = table.step_off_run(run) {
        stepped_to(stepped, model.next_distinct());
    }
    assert!(!run.goes_on());
}

/// A step led there, and so does the model's.
fn stepped_to(table: Stepped<'_>, model: Option<Stepped<'_>>) {
    let model = model.expect("another key follows");
    assert_eq!((table.head, table.key, table.value), (model.head, model.key, model.value));
}

fn cursor_options() -> impl Strategy<Value = CursorOptions> {
    (any::<bool>(), any::<bool>())
        .prop_map(|(fill_cache, readahead)| CursorOptions { fill_cache, readahead })
}

fn source() -> impl Strategy<Value = TableSource> {
    prop_oneof![Just(TableSource::Buffered), Just(TableSource::Mapped)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_table_cursor_walks_as_a_sorted_vector_does(
        entries in entries(),
        ops in ops(),
        options in options(),
        source in source(),
        how in cursor_options(),
    ) {
        let (_context, reader) = table(options, source, &entries);
        let mut cursor = reader.cursor(how).serving(&unbounded(), SEEN);
        let mut model = VecCursor::new(entries.clone());
        for op in &ops {
            both(&mut cursor, &mut model, &entries, op);
        }
        reader.verify(&mut OpCost::default()).expect("what was written verifies");
    }
}

/// Of a scan's bounds a walk is concerned with the end to which it goes: where it began inside, and no block but the last reaches
/// beyond, all rows up to that are known to be the scan's.
#[test]
fn a_walk_knows_its_rows_from_where_it_began() {
    let key = |n: u32| format!("key{n:06}").into_bytes();
    let entries: Vec<_> = (0..2000).map(|n| entry(key(n), 9, Kind::Put, "value")).collect();
    let (_context, reader) = table(TableOptions::default(), TableSource::Buffered, &entries);
    let blocks = reader.index().blocks();
    assert!(blocks > 5, "{blocks} blocks");
    let (first, last) = (key(700), key(1300));
    let bounds =
        Arc::new(Bounds { start: Bound::Included(first.clone()), end: Bound::Included(last.clone()) });
    for back in [false, true] {
        let mut cursor = reader.cursor(CursorOptions::default()).serving(&bounds, SEEN);
        if back {
            cursor.seek_before(InternalKey::new(&last, SeqNo::ZERO)).expect("sought");
        } else {
            cursor.seek(InternalKey::new(&first, SEEN)).expect("sought");
        }
        let mut known = 0;
        for n in 700..=1300 {
            let n = if back { 2000 - n } else { n };
            assert_eq!(cursor.key(), key(n));
            if let Some(stepped) = if back { cursor.prev_distinct() } else { cursor.next_distinct() } {
                known += u32::from(stepped.is_row);
                assert!(!stepped.is_row || (&*first..=&*last).contains(&stepped.key), "{stepped:?}");
            } else if back {
                cursor.prev().expect("in memory");
            } else {
                cursor.next().expect("in memory");
            }
        }
        // All but those in the last block, and what takes another step than the cheap one.
        assert!(
            known > 600 - 2 * 2000 / u32::try_from(blocks).expect("a few"),
            "{known} of 600, {blocks} blocks"
        );
    }
}

#[test]
fn walking_back_gives_the_entries_of_walking_forward_reversed() {
    let entries: Vec<_> =
        (0..5000u32).map(|i| entry(format!("key{i:06}"), 9, Kind::Put, format!("value {i}"))).collect();
    let (_context, reader) = table(TableOptions::default(), TableSource::Buffered, &entries);
    let mut cursor = reader.cursor(CursorOptions::default());
    let mut forward = Vec::new();
    cursor.seek_first().expect("first");
    while cursor.valid() {
        forward.push((cursor.key().to_vec(), cursor.value().to_vec()));
        cursor.next().expect("next");
    }
    let mut back = Vec::new();
    cursor.seek_last().expect("last");
    while cursor.valid() {
        back.push((cursor.key().to_vec(), cursor.value().to_vec()));
        cursor.prev().expect("prev");
    }
    back.reverse();
    assert_eq!(forward.len(), entries.len());
    assert_eq!(forward, back);
}

#[test]
fn reading_ahead_costs_a_few_reads_and_fills_no_cache_unasked() {
    let entries: Vec<_> =
        (0..20_000u32).map(|i| entry(format!("key{i:06}"), 9, Kind::Put, vec![7; 100])).collect();
    let (context, reader) = table(TableOptions::default(), TableSource::Buffered, &entries);
    let mut cursor = reader.cursor(CursorOptions { fill_cache: false, readahead: true });
    cursor.seek_first().expect("first");
    while cursor.valid() {
        cursor.next().expect("next");
    }
    let mut cost = OpCost::default();
    cursor.drain_cost(&mut cost);
    let blocks = reader.index().blocks() as u64;
    assert_eq!((cost.blocks_from_disk, cost.blocks_from_cache), (blocks, 0));
    assert_eq!(cost.bytes_from_disk, reader.index().offset(reader.index().blocks()));
    assert_eq!(context.cache.stats().bytes, 0);
}

#[test]
fn a_long_walk_fills_the_room_and_pushes_nothing_out() {
    // Values that compress to about half.
    let mut random = 1u64;
    let mut noise = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        random.to_be_bytes()
    };
    let mut value = || [[1; 48].as_slice(), &(0..6).flat_map(|_| noise()).collect::<Vec<u8>>()].concat();
    let entries: Vec<_> = (0..40_000u32).map(|i| entry(format!("{i:08}"), 1, Kind::Put, value())).collect();
    for compression in [Compression::None, Compression::Lz4] {
        let options = TableOptions { compression, ..TableOptions::default() };
        let (context, reader) = table(options, TableSource::Buffered, &entries);
        let walk = || {
            let mut cursor = reader.cursor(CursorOptions::default());
            cursor.seek_first().expect("first");
            while cursor.valid() {
                cursor.next().expect("next");
            }
            let mut cost = OpCost::default();
            cursor.drain_cost(&mut cost);
            cost
        };
        let first = walk();
        let stats = context.cache.stats();
        assert!(stats.capacity_bytes < 40_000 * 96 / 3, "the table is far larger than the cache");
        assert_eq!(stats.evictions, 0, "{compression:?}");
        assert!(stats.bytes > stats.capacity_bytes * 9 / 10, "{} of {}", stats.bytes, stats.capacity_bytes);
        // What was kept serves the next walk, which only pushes out what it reads before it is known to be long.
        let second = walk();
        assert_eq!(second.blocks_from_cache + second.blocks_from_disk, first.blocks_from_disk);
        assert!(second.blocks_from_cache * 5 > first.blocks_from_disk, "{second:?}");
        let evicted = context.cache.stats().evictions;
        assert!(evicted < second.blocks_from_disk / 2, "{evicted} evicted by {second:?}");
    }
}

#[test]
fn a_cheap_step_leads_into_a_block_in_memory_unless_a_key_goes_on_there() {
    // Some keys have so many versions that these fill blocks.
    let versions = |i: u32| if i.is_multiple_of(500) { 100 } else { 1 };
    let entries = (0..2_000u32).flat_map(|i| {
        (0..versions(i)).map(move |v| entry(format!("{i:04}"), 200 - v, Kind::Put, vec![1; 100]))
    });
    let entries: Vec<_> = entries.collect();
    for source in [TableSource::Buffered, TableSource::Mapped] {
        let (_context, reader) = table(TableOptions::default(), source, &entries);
        let walk = || {
            let mut cursor = reader.cursor(CursorOptions::default());
            cursor.seek_first().expect("first");
            let (mut seen, mut cheap, mut crossed) = (Vec::new(), 0, 0);
            while cursor.valid() {
                seen.push((cursor.key().to_vec(), cursor.seqno()));
                let block = cursor.block;
                if cursor.next_distinct().is_some() {
                    cheap += 1;
                    crossed += u32::from(cursor.block != block);
                } else {
                    cursor.next().expect("next");
                }
            }
            assert!(
                seen.iter().map(|(key, seqno)| (key, *seqno)).eq(entries.iter().map(|e| (&e.key, e.seqno)))
            );
            let mut cost = OpCost::default();
            cursor.drain_cost(&mut cost);
            assert_eq!(cost.blocks_from_cache + cost.blocks_from_disk, reader.index().blocks() as u64);
            (cheap, crossed)
        };
        let (_cheap, _crossed) = walk();
        let (cheap, crossed) = walk();
        // In memory now; only blocks with a key's versions are left step by step.
        let blocks = u32::try_from(reader.index().blocks()).expect("few");
        assert!(cheap > 1_500, "{cheap} cheap steps");
        assert!(
            (blocks / 2..blocks - 4).contains(&crossed),
            "{crossed} of {blocks} blocks were crossed into"
        );
    }
}

#[test]
fn a_cursor_knows_how_many_rows_its_last_walk_passed() {
    let entries: Vec<_> =
        (0..2_000u32).map(|i| entry(format!("{i:04}"), 1, Kind::Put, vec![1; 100])).collect();
    for source in [TableSource::Buffered, TableSource::Mapped] {
        let (_context, reader) = table(TableOptions::default(), source, &entries);
        let mut cursor = reader.cursor(CursorOptions::default()).serving(&unbounded(), SEEN);
        let mut run = RowRun::default();
        let (mut before, mut by_run) = (0, 0);
        for (seek, steps) in [0, 1, 9, 40, 99, 300, 3].into_iter().cycle().take(70).enumerate() {
            let start = 400 + 17 * u32::try_from(seek).expect("few");
            let target = format!("{start:04}");
            let target = InternalKey::before_all(target.as_bytes());
            if seek % 3 == 0 {
                (0..3).for_each(|step| cursor.approach(target, step));
            }
            cursor.seek(target).expect("seek");
            assert_eq!(cursor.walk.left(), before, "after {seek} walks");
            let mut passed = 0;
            while passed < steps {
                passed += 1;
                match seek % 4 {
                    0 => cursor.next().expect("next"),
                    1 => cursor.prev().expect("prev"),
                    2 => {
                        if cursor.prev_distinct().is_none() {
                            cursor.prev().expect("prev");
                        }
                    }
                    _ if cursor.next_distinct().is_none() => cursor.next().expect("next"),
                    _ => {
                        let begun = cursor.begin_run(Below::Head(u64::MAX), &mut run).map(<[u8]>::to_vec);
                        let Some(bytes) = begun else { continue };
                        while passed < steps && run.next(&bytes).is_some() {
                            passed += 1;
                            by_run += 1;
                        }
                        // What is left is dropped with the run, or the run is stepped off into the next block.
                        if passed == steps {
                            cursor.drop_run(&mut run);
                        } else if cursor.step_off_run(&mut run).is_some() {
                            passed += 1;
                        }
                    }
                }
            }
            before = steps;
        }
        assert!(by_run > 500, "{by_run} rows of runs");
    }
}

#[test]
fn a_seek_into_the_current_block_searches_no_index() {
    let entries: Vec<_> = (0..100u32).map(|i| entry(format!("{i:04}"), 1, Kind::Put, "v")).collect();
    let (_context, reader) = table(TableOptions::default(), TableSource::Buffered, &entries);
    let mut cursor = reader.cursor(CursorOptions::default());
    for i in 0..50 {
        cursor.seek(InternalKey::before_all(format!("{i:04}").as_bytes())).expect("seek");
        assert_eq!(cursor.key(), format!("{i:04}").as_bytes());
    }
    let mut cost = OpCost::default();
    cursor.drain_cost(&mut cost);
    assert_eq!((cost.tables, cost.blocks_from_disk), (1, 1));
}

#[test]
#[should_panic(expected = "next() on a cursor that stands nowhere")]
fn stepping_from_nowhere_is_a_mistake() {
    let (_context, reader) =
        table(TableOptions::default(), TableSource::Buffered, &[entry("a", 1, Kind::Put, "")]);
    let _ = reader.cursor(CursorOptions::default()).next();
}

#[test]
fn a_cursor_keeps_its_first_error() {
    let entries: Vec<_> =
        (0..200u32).map(|i| entry(format!("{i:04}"), 1, Kind::Put, vec![1; 100])).collect();
    let (context, reader) = table(TableOptions::default(), TableSource::Buffered, &entries);
    let mut bytes = crate::testing::bytes_of(&**context.files.fs(), &crate::testing::path());
    bytes[5000] ^= 1; // in the second block
    // The open file is damaged in place.
    context
        .files
        .fs()
        .open_writable(&crate::testing::path())
        .expect("open")
        .write_at(&bytes, 0)
        .expect("write");
    let mut cursor = reader.cursor(CursorOptions::default());
    cursor.seek_first().expect("the first block is good");
    let error = loop {
        if let Err(error) = cursor.next() {
            break error;
        }
    };
    assert!(error.is_corruption(), "{error}");
    assert!(!cursor.valid());
    assert_eq!(cursor.next().expect_err("still").to_string(), error.to_string());
    assert_eq!(cursor.seek_first().expect_err("for ever").to_string(), error.to_string());
    // Another cursor still reads what is good.
    let mut other = Arc::clone(&reader).cursor(CursorOptions::default());
    other.seek_last().expect("the last block is good");
    assert_eq!(other.key(), b"0199");
}
