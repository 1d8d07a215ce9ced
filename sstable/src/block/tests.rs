//! Blocks hold what was put in, find it, and take any bytes without a panic.

use esker_base::checksum::key_hash;
use esker_base::cursor::{Below, EntryView, OwnedEntry};
use esker_base::key::{head, shared_prefix};
use esker_base::{InternalKey, Kind, SeqNo};
use proptest::prelude::*;

use super::*;
use crate::cursor::tests::entries;
use crate::testing::entry;

fn encode(entries: &[OwnedEntry]) -> Vec<u8> {
    let mut builder = BlockBuilder::default();
    for e in entries {
        builder.add(&e.key, tag(key_hash(&e.key)), e.seqno, e.kind, &e.value);
    }
    let mut bytes = Vec::new();
    builder.encode(&mut bytes);
    bytes.extend_from_slice(builder.values());
    bytes
}

fn check_against(entries: &[OwnedEntry]) {
    let block = Block::new(encode(entries).into()).expect("what was encoded");
    let view = block.view();
    assert_eq!(view.rows() as usize, entries.len());
    assert_eq!(view.is_distinct(), entries.windows(2).all(|pair| pair[0].key != pair[1].key));
    assert_eq!(Some(view.newest()), entries.iter().map(|e| e.seqno).max());
    for (row, e) in (0u32..).zip(entries) {
        let mut key = Vec::new();
        view.key_into(row, &mut key);
        assert_eq!(key, e.key);
        assert_eq!((view.seqno(row), view.kind(row), view.value(row)), (e.seqno, e.kind, &e.value[..]));
        assert_eq!(view.lower_bound(e.internal_key()), row);
        assert_eq!(view.find(&e.key, tag(key_hash(&e.key)), e.seqno), Found::Row(row));
    }
}

proptest! {
    #[test]
    fn a_block_holds_and_finds_what_was_put_in(entries in entries()) {
        check_against(&entries);
    }

    #[test]
    fn steps_lead_to_every_row(entries in entries()) {
        let bytes = encode(&entries);
        let mut meta = BlockMeta::new(&bytes).expect("what was encoded");
        meta.look_for_versions(&bytes);
        let mut cursor = BlockCursor::default();
        cursor.set(Block::Uncached(meta, bytes.into()), Known { before_end: true, after_start: true, upto: SeqNo(25) });
        let is_distinct = entries.windows(2).all(|pair| pair[0].key != pair[1].key);
        let is_row = |e: &OwnedEntry| e.kind == Kind::Put && e.seqno <= SeqNo(25);
        let forward: Vec<_> = entries.iter().enumerate().collect();
        let backward: Vec<_> = forward.iter().rev().copied().collect();
        for (way, start) in [(&forward, 0), (&backward, entries.len() - 1)] {
            cursor.stand(u32::try_from(start).expect("a few rows"));
            for &(row, e) in &way[1..] {
                let step = if start == 0 { cursor.next_distinct() } else { cursor.prev_distinct() };
                if let Some(step) = step {
                    prop_assert_eq!((step.key, step.value, step.head), (&e.key[..], &e.value[..], head(&e.key)));
                    prop_assert_eq!(step.is_row, is_row(e) && row > 0);
                } else {
                    prop_assert!(!is_distinct || meta.layout.wide);
                    let stepped = if start == 0 { cursor.next() } else { cursor.prev() };
                    prop_assert!(stepped);
                }
                let (key, value) = (&e.key[..], &e.value[..]);
                prop_assert_eq!(cursor.entry(), EntryView { key, seqno: e.seqno, kind: e.kind, value });
                prop_assert!(cursor.known_row(start > 0).is_none_or(|known| is_row(e) && known.key == e.key));
            }
            let stepped = if start == 0 { cursor.next() } else { cursor.prev() };
            prop_assert!(!stepped);
            prop_assert_eq!(cursor.key(), &way[way.len() - 1].1.key[..]);
        }
        cursor.invalidate();
        prop_assert!(!cursor.next() && !cursor.prev() && cursor.next_distinct().is_none());
        prop_assert!(cursor.prev_distinct().is_none() && cursor.known_row(false).is_none());
    }

    #[test]
    fn runs_lead_to_the_rows_below_their_bound(
        entries in entries(),
        from in any::<proptest::sample::Index>(),
        below in any::<proptest::sample::Index>(),
        by in 0..4,
        other in crate::cursor::tests::keys(),
        taken_max in 0usize..40,
        steps_off: bool,
    ) {
        // Of what a scan wants a run needs no look at each row: puts, each of another key.
        let mut entries = entries;
        for e in &mut entries {
            e.kind = Kind::Put;
        }
        entries.dedup_by(|a, b| a.key == b.key);
        let bytes = encode(&entries);
        let mut meta = BlockMeta::new(&bytes).expect("what was encoded");
        meta.look_for_versions(&bytes);
        let mut cursor = BlockCursor::default();
        cursor.set(Block::Uncached(meta, bytes.into()), Known { before_end: true, after_start: true, upto: SeqNo::MAX });
        let mut run = RowRun::default();
        prop_assert!(cursor.begin_run(Below::Head(u64::MAX), &mut run).is_none(), "from nowhere");
        let from = from.index(entries.len());
        let start = &entries[from].key[..];
        let bound = if by == 0 { &other[..] } else { &entries[below.index(entries.len())].key };
        // Bounded by nothing, by a head, or by a larger key.
        let (below, skip) = match by {
            1 => (Below::Head(u64::MAX), 0),
            2 if head(start) < head(bound) => (Below::Head(head(bound)), 0),
            _ if start < bound => (Below::Key(bound), shared_prefix(start, bound)),
            _ => (Below::Head(head(start)), 0),
        };
        let is_below = |e: &&OwnedEntry| match below {
            Below::Head(below) => head(&e.key) < below,
            Below::Key(below) => &e.key[..] < below && head(&e.key[skip..]) < head(&below[skip..]),
        };
        let expected = entries[from + 1..].iter().take_while(is_below).count();
        cursor.stand(u32::try_from(from).expect("a few rows"));
        let Some(bytes) = cursor.begin_run(below, &mut run).map(<[u8]>::to_vec) else {
            prop_assert!(meta.layout.wide);
            return Ok(());
        };
        let mut taken = 0;
        while taken < taken_max && let Some((key, value)) = run.next(&bytes) {
            taken += 1;
            let e = &entries[from + taken];
            prop_assert_eq!((key, value), (&e.key[..], &e.value[..]));
        }
        prop_assert_eq!(taken, expected.min(taken_max));
        // Where it was seen to end, the step goes to the row at which it did.
        let met = taken < taken_max && from + taken + 1 < entries.len();
        prop_assert_eq!(run.is_bounded(), met);
        let e = &entries[from + taken + usize::from(met && steps_off)];
        let (key, value) = (&e.key[..], &e.value[..]);
        if met && steps_off {
            let step = cursor.step_off_run(&mut run);
            prop_assert_eq!((step.head, step.key, step.value, step.is_row), (head(key), key, value, true));
        } else {
            prop_assert_eq!(cursor.end_run(&mut run), head(key));
        }
        prop_assert!(!run.goes_on());
        prop_assert_eq!(cursor.entry(), EntryView { key, seqno: e.seqno, kind: e.kind, value });
    }

    #[test]
    fn searching_agrees_with_comparing(entries in entries(), key in crate::cursor::tests::keys(), seqno in 0u64..50) {
        let block = Block::new(encode(&entries).into()).expect("what was encoded");
        let target = InternalKey::new(&key, SeqNo(seqno));
        let expected = entries.partition_point(|e| e.internal_key() < target);
        prop_assert_eq!(block.view().lower_bound(target) as usize, expected);
    }

    #[test]
    fn damaged_blocks_are_refused_or_read_without_panic(
        mut entries in entries(),
        puts in any::<bool>(),
        damage in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..6),
    ) {
        if puts {
            for e in &mut entries {
                e.kind = Kind::Put;
            }
        }
        let mut bytes = encode(&entries);
        for (at, byte) in damage {
            let at = at.index(bytes.len().min(400));
            bytes[at] = byte;
        }
        read_everything(bytes);
    }

    #[test]
    fn any_bytes_are_refused_or_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        read_everything(bytes);
    }
}

#[test]
fn zeros_behind_the_values_are_padding_and_nothing_else_is() {
    let entries = [entry("a", 2, Kind::Put, "one"), entry("b", 1, Kind::Put, "")];
    let whole = encode(&entries);
    for zeros in [1, 100, 5_000] {
        let mut padded = whole.clone();
        padded.resize(whole.len() + zeros, 0);
        let block = Block::new(padded.clone().into()).expect("padded");
        assert_eq!(
            (block.view().rows(), block.view().value(0), block.view().value(1)),
            (2, &b"one"[..], &b""[..])
        );
        *padded.last_mut().expect("padding") = 1;
        assert_eq!(Block::new(padded.into()).expect_err("no zero").at, whole.len());
    }
}

#[test]
fn a_block_takes_what_is_foretold_or_a_little_less() {
    let kinds = [Kind::Put, Kind::Put, Kind::Delete];
    for (nth, spread) in [1, 300, 70_000].into_iter().enumerate() {
        let mut builder = BlockBuilder::default();
        for row in 0..100u64 {
            let (key, value) = (format!("user{row:06}"), vec![7; 20]);
            let (seqno, kind) = (SeqNo(5 + row % 2 * spread), kinds[row as usize * nth % 3]);
            let foretold = builder.raw_bytes_with(key.len(), seqno, kind, value.len());
            builder.add(key.as_bytes(), 0, seqno, kind, &value);
            let mut bytes = Vec::new();
            builder.encode(&mut bytes);
            let taken = bytes.len() + builder.values().len();
            assert!(taken <= builder.raw_bytes() && builder.raw_bytes() <= foretold);
            assert!(foretold - taken <= 10 * (1 + row as usize / 16) + 20, "{foretold} for {taken}");
        }
    }
}

/// Every way to look at a block.
fn read_everything(bytes: Vec<u8>) {
    let Ok(block) = Block::new(bytes.into()) else { return };
    let view = block.view();
    let mut cursor = BlockCursor::default();
    cursor.set(block.clone(), Known::default());
    cursor.stand(0);
    let mut steps = 1;
    while cursor.next() {
        steps += 1;
        let mut key = Vec::new();
        view.key_into(steps - 1, &mut key);
        assert_eq!(cursor.key(), key, "both ways to read a key agree, whatever the bytes");
        let target = InternalKey::new(&key, cursor.seqno());
        assert!(view.lower_bound(target) <= view.rows());
        view.find(&key, tag(key_hash(&key)), SeqNo::MAX);
    }
    assert_eq!(steps, view.rows());
    while cursor.prev() {
        steps -= 1;
    }
    assert_eq!(steps, 1);
    let mut meta = *block.meta();
    meta.look_for_versions(block.buffer());
    let bytes = Bytes::copy_from_slice(block.buffer());
    cursor.set(
        Block::Uncached(meta, bytes.clone()),
        Known { before_end: true, after_start: true, upto: SeqNo::MAX },
    );
    cursor.stand(0);
    let mut run = RowRun::default();
    if cursor.begin_run(Below::Head(u64::MAX), &mut run).is_some() {
        while let Some((key, value)) = run.next(&bytes) {
            let mut expected = Vec::new();
            view.key_into(steps, &mut expected);
            assert_eq!((key, value), (&expected[..], view.value(steps)), "and so do runs");
            steps += 1;
        }
        cursor.end_run(&mut run);
        assert!(cursor.valid());
    }
    // Where a run was seen to end, the cursor is as if it had taken the steps itself.
    for bound in 1..view.rows() {
        let mut key = Vec::new();
        view.key_into(bound, &mut key);
        let taken = |cursor: &mut BlockCursor, run: &mut RowRun| {
            cursor.begin_run(Below::Head(head(&key)), run).map(<[u8]>::len)?;
            let taken = std::iter::from_fn(|| run.next(&bytes).map(drop)).count();
            Some((
                taken,
                if run.is_bounded() { cursor.step_off_run(run).head } else { cursor.end_run(run) },
            ))
        };
        cursor.stand(0);
        let Some((taken, at)) = taken(&mut cursor, &mut run) else { break };
        let row = u32::try_from(taken).expect("a block's rows") + u32::from(run.is_bounded());
        let mut expected = Vec::new();
        view.key_into(row, &mut expected);
        assert_eq!((cursor.key(), cursor.value(), at), (&expected[..], view.value(row), head(&expected)));
        if cursor.next() {
            expected.clear();
            view.key_into(row + 1, &mut expected);
            assert_eq!(cursor.key(), expected, "and goes on from there");
        }
        cursor.stand(0);
        cursor.begin_run(Below::Key(&key), &mut run);
        for row in 1.. {
            let Some((key, value)) = run.next(&bytes) else { break };
            expected.clear();
            view.key_into(row, &mut expected);
            assert_eq!((key, value), (&expected[..], view.value(row)), "also with a key for a bound");
        }
        cursor.end_run(&mut run);
        assert!(cursor.valid());
    }
}

#[test]
fn shares_beyond_255_bytes_are_not_used_and_not_lost() {
    let long = |suffix: &str| [vec![b'x'; 300], suffix.as_bytes().to_vec()].concat();
    let mut entries = vec![entry("a", 1, Kind::Put, "first: no prefix for the block")];
    for i in 0..40 {
        entries.push(entry(long(&format!("{i:02}")), 1, Kind::Put, format!("{i}")));
    }
    check_against(&entries);
}

#[test]
fn a_block_above_64_kib_has_wide_records() {
    let entries: Vec<_> =
        (0..40u32).map(|i| entry(format!("{i:03}"), 1, Kind::Put, vec![1; 3000])).collect();
    assert_eq!(encode(&entries)[4], FLAG_WIDE);
    assert_eq!(encode(&entries[..20])[4], 0);
    check_against(&entries);
}

#[test]
fn sequence_numbers_take_as_many_bytes_as_they_differ_by() {
    let width = |numbers: &[u64]| {
        let entries: Vec<_> =
            (0u32..).zip(numbers).map(|(i, &n)| entry(format!("{i}"), n, Kind::Put, "")).collect();
        check_against(&entries);
        encode(&entries)[5]
    };
    assert_eq!(width(&[7, 7, 7]), 0);
    assert_eq!(width(&[1000, 1255]), 1);
    assert_eq!(width(&[1000, 1256]), 2);
    assert_eq!(width(&[0, SeqNo::MAX.0]), 7);
}

#[test]
fn a_uniform_kind_has_no_column() {
    let kinds = |kinds: &[Kind]| {
        let entries: Vec<_> = (0u32..).zip(kinds).map(|(i, &k)| entry(format!("{i}"), 1, k, "")).collect();
        check_against(&entries);
        encode(&entries)[6]
    };
    assert_eq!(kinds(&[Kind::Delete; 3]), Kind::Delete as u8);
    assert_eq!(kinds(&[Kind::Put, Kind::Merge, Kind::Delete]), 0);
}

#[test]
fn a_tag_that_agrees_by_chance_is_not_the_key() {
    // Keys of one tag: all must be told apart by comparison.
    let same: Vec<_> = (0u32..4000)
        .map(|i| format!("{i:05}"))
        .filter(|k| tag(key_hash(k.as_bytes())) == 9)
        .map(|k| entry(k, 1, Kind::Put, "v"))
        .collect();
    assert!(same.len() > 8);
    check_against(&same);
    let block = Block::new(encode(&same[1..]).into()).expect("block");
    assert_eq!(block.view().find(&same[0].key, 9, SeqNo::MAX), Found::Absent);
}
