//! The memtable against models: what it holds, how it is walked, what readers see beside a writer.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Bound;

use esker_base::bounds::Bounds;
use esker_base::cursor::APPROACH_STEPS;
use esker_base::{Cursor, KeyspaceId, Kind, OpCost, SeqNo};
use esker_vfs::scheduler::Scheduler;
use esker_vfs::scheduler::steps::Steps;
use proptest::prelude::*;

use super::arena::CHUNK_BYTES_MAX;
use super::*;

mod measure;
mod threads;

const SPACE: KeyspaceId = KeyspaceId(1);

/// Entries in internal order.
type Model = BTreeMap<ModelKey, ModelValue>;
type ModelKey = (Vec<u8>, Reverse<SeqNo>);
type ModelValue = (Kind, Vec<u8>);

fn model_get(model: &Model, key: &[u8], upper: SeqNo) -> Option<(SeqNo, Kind, Vec<u8>)> {
    let from = (key.to_vec(), Reverse(upper));
    let ((found, seqno), (kind, value)) = model.range(from..).next()?;
    (found == key).then(|| (seqno.0, *kind, value.clone()))
}

fn owned(entry: MemEntry<'_>) -> (SeqNo, Kind, Vec<u8>) {
    (entry.seqno, entry.kind, entry.value.to_vec())
}

fn here(cursor: &MemtableCursor) -> Option<(Vec<u8>, SeqNo, Kind, Vec<u8>)> {
    cursor.valid().then(|| (cursor.key().to_vec(), cursor.seqno(), cursor.kind(), cursor.value().to_vec()))
}

fn of_model(found: Option<(&ModelKey, &ModelValue)>) -> Option<(Vec<u8>, SeqNo, Kind, Vec<u8>)> {
    found.map(|((key, seqno), (kind, value))| (key.clone(), seqno.0, *kind, value.clone()))
}

/// A seek that came to its leaf before the rest of that leaf's range went to another, which has been divided since: neither half
/// of that one need hold what is sought, nor share its first bytes.
#[test]
fn a_seek_goes_on_from_a_leaf_that_gave_its_rest_away() {
    for sought in [&b"a"[..], b"user", b"user00000020", b"user00000029+", b"v", b"vip", b"z"] {
        // Without and with a key behind those that come in order.
        for last in [None, Some(&b"w"[..])] {
            let (memtable, mut writer) = Memtable::new();
            let in_order = |n: u64| format!("user{n:08}").into_bytes();
            let mut keys: Vec<Vec<u8>> = last.into_iter().map(<[u8]>::to_vec).collect();
            keys.extend((1..=14).map(in_order));
            let mut numbers = 1..;
            let mut insert = |keys: &[Vec<u8>]| {
                for (key, n) in keys.iter().zip(&mut numbers) {
                    writer.insert(SPACE, key, SeqNo(n), Kind::Put, b"v");
                }
            };
            insert(&keys);
            let upper = SeqNo(keys.len() as u64);
            let target = InternalKey::new(sought, upper);
            let mut cursor = memtable.cursor(SPACE);
            for step in 0..APPROACH_STEPS {
                cursor.approach(target, step);
            }
            insert(&(15..=60).map(in_order).collect::<Vec<_>>());
            cursor.seek(target).expect("moves");
            assert!(
                !cursor.valid() || cursor.internal_key() >= target,
                "{sought:?}: before what was sought"
            );
            while cursor.valid() && cursor.seqno() > upper {
                cursor.next().expect("moves");
            }
            let expected = keys.iter().filter(|key| key[..] >= *sought).min();
            assert_eq!(cursor.valid().then(|| cursor.key()), expected.map(Vec::as_slice), "{sought:?}");
        }
    }
}

/// Everything a cursor says, forward and then backward.
fn walk_both_ways(cursor: &mut MemtableCursor, model: &Model) {
    cursor.seek_first().expect("moves");
    for expected in model {
        assert_eq!(here(cursor), of_model(Some(expected)));
        cursor.next().expect("moves");
    }
    assert_eq!(here(cursor), None);
    cursor.seek_last().expect("moves");
    for expected in model.iter().rev() {
        assert_eq!(here(cursor), of_model(Some(expected)));
        cursor.prev().expect("moves");
    }
    assert_eq!(here(cursor), None);
}

/// From the place where `cursor` stands, to the next key's first entry, if there is one: over a few versions step by step,
/// which are counted, over many with a search.
fn step_to_next_key(cursor: &mut MemtableCursor, model: &Model) {
    let Some((key, seqno, ..)) = here(cursor) else { return };
    let behind = (Bound::Excluded((key.clone(), Reverse(seqno))), Bound::Unbounded);
    let versions = model.range(behind.clone()).take_while(|((other, _), _)| *other == key).count();
    let expected = model.range(behind).nth(versions);
    let before = here(cursor);
    cursor.drain_cost(&mut OpCost::default());
    let stepped = cursor.next_distinct().is_some();
    assert_eq!(stepped, expected.is_some());
    let (stands, passed, seeks) = match expected {
        Some(_) => (of_model(expected), versions.min(8), versions >= 8),
        None => (before, 0, false),
    };
    assert_eq!(here(cursor), stands);
    let mut cost = OpCost::default();
    cursor.drain_cost(&mut cost);
    assert_eq!((cost.entries_skipped, cost.seeks), (passed as u64, u64::from(seeks)));
}

/// From the place where `cursor` stands, over the puts that overwrite it and are seen, and back to the place: up to
/// eight step by step, over more with a search, which is counted.
fn step_over_overwritten(cursor: &mut MemtableCursor, model: &Model, seen: SeqNo) {
    let Some((key, seqno, ..)) = here(cursor) else { return };
    let newer = (key.clone(), Reverse(seen.max(seqno)))..(key.clone(), Reverse(seqno));
    let newer: Vec<_> = model.range(newer).rev().collect();
    let place = here(cursor);
    let is_put = |(_, (kind, _)): &(&ModelKey, &ModelValue)| *kind == Kind::Put;
    let puts = newer.iter().take_while(|version| is_put(version)).count();
    let found = match newer.last() {
        Some(newest) if puts >= 8 && is_put(newest) => Some(*newest),
        _ => newer.get(..puts.min(8)).and_then(<[_]>::last).copied(),
    };
    cursor.drain_cost(&mut OpCost::default());
    assert_eq!(cursor.pass_overwritten(seen), puts.min(8) as u64);
    assert_eq!(here(cursor), found.map_or(place.clone(), |found| of_model(Some(found))));
    let mut cost = OpCost::default();
    cursor.drain_cost(&mut cost);
    assert_eq!((cost.entries_skipped, cost.seeks), (0, u64::from(puts >= 8)));
    cursor.seek(InternalKey::new(&key, seqno)).expect("moves");
    assert_eq!(here(cursor), place);
}

/// Over the keys in both directions by cheap steps, each of which tells a scan of `bounds` up to `upto` whether it has led to a row:
/// to a put that is seen, the newest of its key, not past the end of the bounds or, backwards, before their start.
fn steps_tell_rows(memtable: &Arc<Memtable>, model: &Model, bounds: Bounds, upto: SeqNo) {
    let bounds = Arc::new(bounds);
    let mut cursor = memtable.cursor(SPACE).serving(&bounds, upto);
    cursor.seek_first().expect("moves");
    while let Some(is_row) = cursor.next_distinct().map(|step| step.is_row) {
        let (key, seqno, kind, _) = here(&cursor).expect("stepped to");
        assert_eq!(is_row, kind == Kind::Put && seqno <= upto && !bounds.past_end(&key), "{key:?}");
    }
    cursor.seek_last().expect("moves");
    while cursor.valid() {
        let Some(is_row) = cursor.prev_distinct().map(|step| step.is_row) else {
            cursor.prev().expect("moves");
            continue;
        };
        let (key, seqno, kind, _) = here(&cursor).expect("stepped to");
        let before = model.range(..(key.clone(), Reverse(seqno))).next_back();
        let newest = before.is_some_and(|((before, _), _)| *before != key);
        let wanted = kind == Kind::Put && seqno <= upto && !bounds.before_start(&key);
        assert_eq!(is_row, newest && wanted, "{key:?}");
    }
}

/// Keys that collide, share long prefixes, differ only in length or past the first eight bytes.
fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(0u8..3, 0..4),
        prop::collection::vec(prop::sample::select(vec![0u8, 1, 255]), 6..11),
        (0u32..400).prop_map(|n| format!("table/user/{n:06}").into_bytes()),
        (0u64..1 << 40).prop_map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes().to_vec()),
        (0u16..300).prop_map(|n| n.to_be_bytes().to_vec()),
    ]
}

fn kind() -> impl Strategy<Value = Kind> {
    prop::sample::select(vec![Kind::Put, Kind::Put, Kind::Delete, Kind::Merge])
}

fn cases(cases: u32) -> ProptestConfig {
    let cases = if cfg!(miri) { 2 } else { cases };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

const INSERTS: usize = if cfg!(miri) { 100 } else { 1500 };

proptest! {
    #![proptest_config(cases(60))]

    /// Gets at every snapshot, full walks, and cursors that seek, turn and go on, agree with a model.
    #[test]
    fn agrees_with_a_model(
        inserts in prop::collection::vec((key(), kind(), prop::collection::vec(any::<u8>(), 0..20)), 1..INSERTS),
        probes in prop::collection::vec((key(), 0u64..1600, prop::collection::vec(any::<bool>(), 0..40)), 1..60),
    ) {
        let (memtable, mut writer) = Memtable::new();
        let mut model = Model::new();
        for (at, (key, kind, value)) in inserts.iter().enumerate() {
            let seqno = SeqNo(at as u64 + 1);
            // Begun before it is made, or for another keyspace and given up, or at once.
            match at % 4 {
                0 => {
                    let mut insertion = writer.begin_insert(SPACE, key);
                    insertion.prefetch_leaf();
                    insertion.insert(seqno, *kind, value);
                }
                1 => writer.begin_insert(SPACE, key).insert(seqno, *kind, value),
                2 => {
                    writer.begin_insert(KeyspaceId(2), key).prefetch_leaf();
                    writer.insert(SPACE, key, seqno, *kind, value);
                }
                _ => writer.insert(SPACE, key, seqno, *kind, value),
            }
            model.insert((key.clone(), Reverse(seqno)), (*kind, value.clone()));
        }
        prop_assert_eq!(memtable.entries(), model.len() as u64);
        let mut cursor = memtable.cursor(SPACE);
        prop_assert!(!cursor.valid());
        walk_both_ways(&mut cursor, &model);

        // Together they come to the same places, though each may split the leaf that another was on its way to.
        let (together, mut writer) = Memtable::new();
        let mut writes = writer.writes();
        for (at, (key, kind, value)) in inserts.iter().enumerate() {
            // Some way into a group of another keyspace's, too.
            writes.insert(KeyspaceId(if at % 2 == 0 { 2 } else { 3 }), key, SeqNo(at as u64 + 1), *kind, value);
            writes.insert(SPACE, key, SeqNo(at as u64 + 1), *kind, value);
            if at % 50 == 7 {
                let found = writes.settled().get(SPACE, key, SeqNo::MAX).map(owned);
                prop_assert_eq!(found, Some((SeqNo(at as u64 + 1), *kind, value.clone())));
            }
        }
        drop(writes);
        prop_assert_eq!(together.entries(), 2 * model.len() as u64);
        walk_both_ways(&mut together.cursor(SPACE), &model);

        let ends = |at: usize| probes.get(at).map(|(key, ..)| Bound::Included(key.clone()));
        for (first, last) in [(0, 1), (1, 2), (usize::MAX, 0), (0, usize::MAX), (usize::MAX, usize::MAX)] {
            let (start, end) = (ends(first).unwrap_or(Bound::Unbounded), ends(last).unwrap_or(Bound::Unbounded));
            steps_tell_rows(&memtable, &model, Bounds { start, end }, SeqNo(probes[0].1));
        }
        for (key, upper, turns) in &probes {
            let upper = SeqNo(*upper);
            prop_assert_eq!(memtable.get(SPACE, key, upper).map(owned), model_get(&model, key, upper));
            let bound = (key.clone(), Reverse(upper));
            let target = InternalKey::new(key, upper);
            cursor.seek_before(target).expect("moves");
            prop_assert_eq!(here(&cursor), of_model(model.range(..bound.clone()).next_back()));
            cursor.seek(target).expect("moves");
            prop_assert_eq!(here(&cursor), of_model(model.range(bound..).next()));
            for &forward in turns {
                let Some((key, seqno, ..)) = here(&cursor) else { break };
                let at = (key, Reverse(seqno));
                let expected = if forward {
                    cursor.next().expect("moves");
                    model.range((Bound::Excluded(at), Bound::Unbounded)).next()
                } else {
                    cursor.prev().expect("moves");
                    model.range(..at).next_back()
                };
                prop_assert_eq!(here(&cursor), of_model(expected));
            }
            cursor.seek(target).expect("moves");
            for _ in turns {
                step_to_next_key(&mut cursor, &model);
            }
            cursor.seek_before(InternalKey::new(key, SeqNo::ZERO)).expect("moves");
            for &up_to_here in turns {
                step_over_overwritten(&mut cursor, &model, if up_to_here { upper } else { SeqNo(u64::MAX) });
                if cursor.valid() {
                    cursor.prev().expect("moves");
                }
            }
        }
    }

    /// A cursor that stands still while the index changes under it goes on without losing, repeating
    /// or reordering anything that was there when it sought.
    #[test]
    fn walks_while_written(
        steps in prop::collection::vec((key(), 0usize..6, any::<bool>()), 1..INSERTS),
    ) {
        let (memtable, mut writer) = Memtable::new();
        let mut model = Model::new();
        let mut cursor = memtable.cursor(SPACE);
        let mut upper = SeqNo::ZERO;
        for (at, (key, moves, forward)) in steps.iter().enumerate() {
            let seqno = SeqNo(at as u64 + 1);
            writer.insert(SPACE, key, seqno, Kind::Put, b"v");
            model.insert((key.clone(), Reverse(seqno)), (Kind::Put, b"v".to_vec()));
            if !cursor.valid() {
                upper = seqno;
                if *forward { cursor.seek_first() } else { cursor.seek_last() }.expect("moves");
            }
            for _ in 0..*moves {
                let Some((key, seqno, ..)) = here(&cursor) else { break };
                let from = (key, Reverse(seqno));
                let old = |entry: &(&ModelKey, &ModelValue)| entry.0.1.0 <= upper;
                let expected = if *forward {
                    let after = (Bound::Excluded(from), Bound::Unbounded);
                    model.range(after).find(old)
                } else {
                    model.range(..from).rev().find(old)
                };
                loop {
                    if *forward { cursor.next() } else { cursor.prev() }.expect("moves");
                    if !cursor.valid() || cursor.seqno() <= upper { break }
                }
                prop_assert_eq!(here(&cursor), of_model(expected));
            }
        }
    }
}

#[test]
fn an_empty_memtable_holds_nothing() {
    let (memtable, writer) = Memtable::new();
    assert!(Arc::ptr_eq(&memtable, writer.memtable()));
    assert_eq!((memtable.bytes(), memtable.entries()), (0, 0));
    assert_eq!(memtable.keyspaces(), []);
    assert_eq!(memtable.get(SPACE, b"", SeqNo::MAX), None);
    assert!(memtable.tombstones(SPACE, SeqNo::MAX).is_none());
    let mut cursor = memtable.cursor(SPACE);
    cursor.seek_first().expect("moves");
    assert!(!cursor.valid());
    cursor.seek_last().expect("moves");
    assert!(!cursor.valid());
    cursor.seek_before(InternalKey::before_all(b"x")).expect("moves");
    assert!(!cursor.valid());
}

/// A cursor made before its keyspace's first write finds that write when it seeks.
#[test]
fn a_cursor_finds_a_keyspace_that_came_later() {
    let (memtable, mut writer) = Memtable::new();
    let mut cursor = memtable.cursor(SPACE);
    cursor.seek_first().expect("moves");
    writer.insert(SPACE, b"k", SeqNo(1), Kind::Put, b"v");
    assert!(!cursor.valid());
    cursor.seek_last().expect("moves");
    assert_eq!(here(&cursor), Some((b"k".to_vec(), SeqNo(1), Kind::Put, b"v".to_vec())));
    let mut cost = OpCost::default();
    cursor.drain_cost(&mut cost);
    assert_eq!(cost.seeks, 2);
    cursor.drain_cost(&mut cost);
    assert_eq!(cost.seeks, 2, "drained costs start again at zero");
}

/// The cursor owns its memtable and may move to another thread.
#[test]
#[expect(clippy::disallowed_methods, reason = "a real thread is what is tested")]
fn a_cursor_outlives_every_other_handle() {
    let (memtable, mut writer) = Memtable::new();
    for n in 0..200u64 {
        writer.insert(SPACE, &n.to_be_bytes(), SeqNo(n + 1), Kind::Put, &[7; 50]);
    }
    let mut cursor = memtable.cursor(SPACE);
    drop((memtable, writer));
    let count = std::thread::spawn(move || {
        let mut count = 0;
        cursor.seek_first().expect("moves");
        while cursor.valid() {
            assert_eq!(cursor.value(), [7; 50]);
            count += 1;
            cursor.next().expect("moves");
        }
        count
    });
    assert_eq!(count.join().expect("the walk does not panic"), 200);
}

#[test]
fn the_longest_keys_and_large_values() {
    let (memtable, mut writer) = Memtable::new();
    let mut model = Model::new();
    let large = if cfg!(miri) { 1 << 12 } else { 5 << 20 };
    let mut seqno = SeqNo::ZERO;
    for last in [2u8, 0, 1] {
        let mut key = vec![0xAB; 65_535];
        key[65_534] = last;
        for (key, value) in
            [(key.clone(), vec![last; large]), (key[..65_534].to_vec(), vec![]), (vec![], vec![last; 3])]
        {
            seqno = seqno.plus(1);
            writer.insert(SPACE, &key, seqno, Kind::Put, &value);
            model.insert((key, Reverse(seqno)), (Kind::Put, value));
        }
    }
    assert!(memtable.bytes() >= 3 * (large as u64 + 2 * 65_534));
    for (key, Reverse(at)) in model.keys() {
        assert_eq!(memtable.get(SPACE, key, *at).map(owned), model_get(&model, key, *at));
        assert_eq!(memtable.get(SPACE, key, SeqNo::MAX).map(owned), model_get(&model, key, SeqNo::MAX));
    }
    walk_both_ways(&mut memtable.cursor(SPACE), &model);
}

#[test]
#[should_panic(expected = "65,535")]
fn a_longer_key_is_a_programmers_mistake() {
    let (_memtable, mut writer) = Memtable::new();
    writer.insert(SPACE, &vec![0; 65_536], SeqNo(1), Kind::Put, b"");
}

/// Numbers that share low bits, neighbours, and the largest.
#[test]
fn keyspaces_are_apart() {
    let (memtable, mut writer) = Memtable::new();
    let count = if cfg!(miri) { 40 } else { 10_000u32 };
    let mut ids: Vec<u32> = (0..count).chain((1..200).map(|n| n << 20)).chain([u32::MAX]).collect();
    for (at, &id) in ids.iter().enumerate() {
        let seqno = SeqNo(at as u64 + 1);
        writer.insert(KeyspaceId(id), b"same", seqno, Kind::Put, &id.to_le_bytes());
    }
    for &id in &ids {
        let found = memtable.get(KeyspaceId(id), b"same", SeqNo::MAX).expect("was inserted");
        assert_eq!(found.value, id.to_le_bytes());
    }
    assert_eq!(memtable.get(KeyspaceId(count + 64), b"same", SeqNo::MAX), None);
    ids.sort_unstable();
    assert_eq!(memtable.keyspaces(), ids.iter().map(|&id| KeyspaceId(id)).collect::<Vec<_>>());
    let each = memtable.bytes() / ids.len() as u64;
    assert!(cfg!(miri) || each < 1024, "{each} bytes a keyspace with one entry");
}

#[test]
fn range_tombstones_are_fragmented_and_kept_up_to_date() {
    let (memtable, mut writer) = Memtable::new();
    writer.delete_range(SPACE, b"m", b"m", SeqNo(1));
    assert!(memtable.tombstones(SPACE, SeqNo::MAX).is_none(), "an empty range deletes nothing");
    assert_eq!(memtable.keyspaces(), []);

    writer.delete_range(SPACE, b"a", b"m", SeqNo(2));
    let first = memtable.tombstones(SPACE, SeqNo::MAX).expect("one was added");
    assert_eq!(first.covering(b"b", SeqNo::MAX), Some(SeqNo(2)));
    assert_eq!(first.covering(b"b", SeqNo(1)), None);
    assert!(Arc::ptr_eq(&first, &memtable.tombstones(SPACE, SeqNo::MAX).expect("still there")), "cached");
    assert!(memtable.tombstones(KeyspaceId(2), SeqNo::MAX).is_none(), "another keyspace's");

    writer.delete_range(SPACE, b"b", b"z", SeqNo(3));
    let second = memtable.tombstones(SPACE, SeqNo::MAX).expect("two were added");
    assert_eq!(second.covering(b"b", SeqNo::MAX), Some(SeqNo(3)));
    assert_eq!(second.covering(b"a", SeqNo::MAX), Some(SeqNo(2)));
    assert_eq!(first.covering(b"n", SeqNo::MAX), None, "what was handed out does not change");
    assert_eq!(memtable.keyspaces(), [SPACE]);
    assert_eq!(memtable.entries(), 0);
    assert!(memtable.bytes() > 0);

    writer.insert(KeyspaceId(2), b"k", SeqNo(4), Kind::Put, b"");
    for seqno in [SeqNo::MAX, SeqNo(4)] {
        assert!(memtable.tombstones(KeyspaceId(2), seqno).is_none(), "one with entries, and still none");
    }
}

/// What is published together is kept once, however deep it lies; work and memory are those of the fragments'
/// numbers.
#[test]
fn a_group_of_nested_range_tombstones_takes_its_share() {
    let depth: u32 = if cfg!(miri) { 50 } else { 100_000 };
    let (memtable, mut writer) = Memtable::new();
    writer.delete_range(SPACE, &[0], &[0xff], SeqNo(1));
    writer.begin_group(SeqNo(2));
    for n in 0..depth {
        let (start, end) = ((n + 1).to_be_bytes(), (3 * depth - n).to_be_bytes());
        writer.delete_range(SPACE, &start, &end, SeqNo(u64::from(n) + 2));
    }
    let last = SeqNo(u64::from(depth) + 1);
    writer.begin_group(last.plus(1));
    writer.delete_range(SPACE, &[0], &[0xff], last.plus(1));

    let fragments = memtable.tombstones(SPACE, SeqNo::MAX).expect("there are some");
    let numbers: usize = fragments.list().iter().map(|fragment| fragment.seqnos.len()).sum();
    assert!(numbers <= 3 * fragments.list().len(), "{numbers} numbers");
    assert_eq!(fragments.list().len(), 2 * depth as usize + 1);
    // Readers before, behind and after the group, at a key that half of it covers.
    let key = (depth / 2).to_be_bytes();
    let half = SeqNo(u64::from(depth / 2) + 1);
    for (reader, expected) in [(SeqNo(1), SeqNo(1)), (last, half), (last.plus(1), last.plus(1))] {
        assert_eq!(fragments.covering(&key, reader), Some(expected), "at {reader}");
    }
}

#[test]
fn keys_in_order_are_copied_only_where_their_heads_are_alike() {
    type KeyOf = fn(u64) -> Vec<u8>;
    let numbers: KeyOf = |n| n.to_be_bytes().to_vec();
    let pairs: KeyOf = |n| [(n / 2).to_be_bytes(), n.to_be_bytes()].concat();
    let behind_a_prefix: KeyOf = |n| format!("a prefix longer than a head/{n:09}").into_bytes();
    for (key_of, copied) in [(numbers, false), (pairs, true), (behind_a_prefix, true)] {
        let (memtable, mut writer) = Memtable::new();
        writer.insert(SPACE, &key_of(0), SeqNo(1), Kind::Put, b"");
        // From now on what was copied stays, and is counted.
        memtable.get(SPACE, b"", SeqNo::MAX);
        for n in 1..10_000 {
            writer.insert(SPACE, &key_of(n), SeqNo(n + 1), Kind::Put, b"");
        }
        assert_eq!(memtable.live_bytes() < memtable.bytes(), copied, "{:?}", key_of(0));
        for n in 0..10_000 {
            let seen = memtable.get(SPACE, &key_of(n), SeqNo::MAX).map(|entry| entry.seqno);
            assert_eq!(seen, Some(SeqNo(n + 1)), "{:?}", key_of(n));
        }
    }
}

/// Up to the first read there is nobody who could be in a node that is replaced.
#[test]
fn replaced_nodes_are_used_again_until_somebody_reads() {
    const ROWS: u64 = if cfg!(miri) { 500 } else { 20_000 };
    type Put = fn(&mut MemtableWriter, std::ops::Range<u64>);
    type Read = fn(&Arc<Memtable>);
    fn key_of(n: u64) -> [u8; 8] {
        n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()
    }
    let alone: Put = |writer, rows| {
        for n in rows {
            let key = key_of(n);
            let mut insertion = writer.begin_insert(SPACE, &key);
            insertion.prefetch_leaf();
            insertion.insert(SeqNo(n + 1), Kind::Put, &key);
        }
    };
    let together: Put = |writer, rows| {
        let mut writes = writer.writes();
        rows.for_each(|n| writes.insert(SPACE, &key_of(n), SeqNo(n + 1), Kind::Put, &key_of(n)));
    };
    let check = |memtable: &Arc<Memtable>, rows: u64| {
        for n in 0..rows {
            let found = memtable.get(SPACE, &key_of(n), SeqNo::MAX).map(|found| (found.seqno, found.value));
            assert_eq!(found, Some((SeqNo(n + 1), &key_of(n)[..])));
        }
        let mut keys: Vec<_> = (0..rows).map(key_of).collect();
        keys.sort_unstable();
        let mut cursor = memtable.cursor(SPACE);
        cursor.seek_first().expect("moves");
        for key in keys {
            assert_eq!(cursor.key(), key);
            cursor.next().expect("moves");
        }
        assert!(!cursor.valid());
    };
    let reads: [Read; 4] = [
        |memtable| assert!(memtable.get(SPACE, b"", SeqNo::MAX).is_none()),
        |memtable| memtable.cursor(SPACE).seek_first().expect("moves"),
        |memtable| memtable.cursor(SPACE).seek_last().expect("moves"),
        |memtable| memtable.cursor(SPACE).approach(InternalKey::before_all(b""), 0),
    ];
    for put in [alone, together] {
        for read in reads {
            let (memtable, mut writer) = Memtable::new();
            put(&mut writer, 0..ROWS);
            assert_eq!(memtable.live_bytes(), memtable.bytes(), "nothing is left over");
            let unread = memtable.bytes();
            read(&memtable);
            put(&mut writer, ROWS..2 * ROWS);
            assert!(memtable.live_bytes() < memtable.bytes(), "what is replaced beside a reader stays");
            assert!(memtable.bytes() - unread > unread, "{} bytes, then {}", unread, memtable.bytes());
            check(&memtable, 2 * ROWS);
        }
    }
}

#[test]
fn memory_is_brought_in_ahead_of_a_growing_memtable() {
    let chunk = CHUNK_BYTES_MAX as u64;
    for (kept, ahead) in [(48 * chunk, chunk), (4 * chunk, chunk), (3 * chunk, 0)] {
        let steps = Arc::new(Steps::with_width(1, 1));
        let spare = SpareChunks::new(kept, Arc::clone(&steps) as Arc<dyn Scheduler>);
        let (memtable, mut writer) = Memtable::with_filter(1 << 20, &spare);
        let mut n = 0;
        fill(&memtable, &mut writer, &mut n, 1);
        assert_eq!(spare.bytes(), 0);
        // One job, however often memory is taken meanwhile, and as much as may be kept.
        fill(&memtable, &mut writer, &mut n, 4);
        assert_eq!(steps.jobs().len(), usize::from(ahead > 0));
        steps.settle();
        assert_eq!(spare.bytes(), ahead);
        let before = memtable.bytes();
        fill(&memtable, &mut writer, &mut n, 6);
        assert_eq!(spare.bytes(), ahead.saturating_sub(2 * chunk), "what was brought in is taken");
        assert!(memtable.bytes() > before);
        let seen = memtable.get(SPACE, b"000000001", SeqNo::MAX).map(|entry| entry.value.len());
        assert_eq!(seen, Some(100_000));
        steps.settle();
        assert_eq!(spare.bytes(), ahead, "and more is brought in");
    }
}

/// More entries, from number `n` on, until they take more than `chunks` of the largest chunks.
fn fill(memtable: &Memtable, writer: &mut MemtableWriter, n: &mut u64, chunks: u64) {
    let value = vec![7; 100_000];
    while memtable.bytes() < (chunks + 2) * CHUNK_BYTES_MAX as u64 {
        *n += 1;
        writer.insert(SPACE, format!("{n:09}").as_bytes(), SeqNo(*n), Kind::Put, &value);
    }
}

/// What a memtable takes with its first entry.
#[test]
fn a_large_memtable_begins_as_the_one_before_has_gone_on() {
    let chunk = CHUNK_BYTES_MAX as u64;
    for (kept, takes_it) in [(48 * chunk, true), (12 * chunk, false)] {
        let spare = SpareChunks::new(kept, Arc::new(Steps::with_width(1, 1)));
        let begun = || {
            let (memtable, mut writer) = Memtable::with_filter(1 << 20, &spare);
            writer.insert(SPACE, b"key", SeqNo(1), Kind::Put, b"value");
            (memtable, writer)
        };
        let (first, mut writer) = begun();
        assert!(first.bytes() < chunk, "there is nothing to take yet");
        fill(&first, &mut writer, &mut 1, 5);
        assert_eq!(spare.bytes(), 0, "no job runs");
        let (beside, _writer) = begun();
        assert_eq!(beside.bytes() > 2 * chunk, takes_it, "the system's");
        drop((first, writer));
        let left = spare.bytes();
        assert!(left >= 5 * chunk);
        let (second, _writer) = begun();
        // One for entries and one for nodes.
        assert_eq!(left - spare.bytes(), if takes_it { 2 * chunk } else { 0 });
        assert_eq!(second.bytes() > 2 * chunk, takes_it);
        spare.give_back();
        assert!(begun().0.bytes() < chunk, "nobody has filled one lately");
    }
}

#[test]
fn the_memory_of_a_memtable_goes_to_the_next() {
    let chunk = CHUNK_BYTES_MAX as u64;
    // No job runs.
    let spare = SpareChunks::new(3 * chunk + chunk / 2, Arc::new(Steps::with_width(1, 1)));
    assert_eq!(spare.bytes(), 0);
    let filled = || {
        let (memtable, mut writer) = Memtable::with_filter(1 << 20, &spare);
        fill(&memtable, &mut writer, &mut 0, 5);
        memtable
    };
    let first = filled();
    assert_eq!(spare.bytes(), 0, "it is in use");
    drop(first);
    assert_eq!(spare.bytes(), 3 * chunk, "as much as may be kept");
    let second = filled();
    assert_eq!(spare.bytes(), 0, "taken again");
    let seen = second.get(SPACE, b"000000001", SeqNo::MAX).map(|entry| entry.value.len());
    assert_eq!(seen, Some(100_000), "what was written last into the chunks is gone");
    drop(second);
    spare.rest();
    assert_eq!(spare.bytes(), 3 * chunk, "some were taken since the last rest");
    spare.rest();
    assert_eq!(spare.bytes(), 0, "none was");
}
