//! The limit of a chain of operands in a scan, rows among many that were deleted, runs, and keys with many versions.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use esker_base::bounds::Bounds;

use crate::rows::Rows;
use crate::{Database, Error, Keyspace, KeyspaceOptions, Result, RowCursor};

fn map(db: &Database) -> Result<Keyspace> {
    let map = db.keyspace("map", KeyspaceOptions::default().with_merge_operator("append"))?;
    // Nothing lies below that the operands could be folded onto.
    for _ in 0..20 {
        map.merge("key", [7; 100])?;
    }
    map.put("last", "value")?;
    Ok(map)
}

/// A table may be hostile: a chain that is too long is an error of the scan, in both directions, and the
/// scan errs from then on. What is in memory already is no question of memory.
#[test]
fn a_scan_holds_no_endless_chain_from_tables() -> Result<()> {
    let db = Database::in_memory()?;
    let map = map(&db)?;
    // Nobody sees the first of them alone, so the flush would fold the chain if nothing parted it.
    let parted: Vec<_> = (0..20)
        .map(|_| {
            let snapshot = db.snapshot();
            map.merge("key", [7; 100]).map(|()| snapshot)
        })
        .collect::<Result<_>>()?;
    let everything = || Bounds { start: Bound::Unbounded, end: Bound::Unbounded };
    for in_tables in [false, true] {
        if in_tables {
            db.flush()?;
        }
        let view = Arc::new(map.scan_view()?);
        for limit in [100_000, 500] {
            for forward in [true, false] {
                let mut rows = Rows::of(&view, Arc::new(everything()))?;
                rows.chain_bytes_max = limit;
                let step =
                    if forward { rows.seek_first() } else { rows.seek_last().and_then(|()| rows.prev()) };
                if in_tables && limit == 500 {
                    assert!(matches!(step, Err(Error::Merge { .. })), "forward: {forward}");
                    assert!(rows.seek_first().is_err() && !rows.valid());
                } else {
                    step?;
                    assert_eq!((rows.key(), rows.value().len()), (&b"key"[..], 4_000));
                }
            }
        }
    }
    // What hides the chain is found from either side.
    map.put("key", "short")?;
    let view = Arc::new(map.scan_view()?);
    for forward in [true, false] {
        let mut rows = Rows::of(&view, Arc::new(everything()))?;
        rows.chain_bytes_max = 500;
        let step = if forward { rows.seek_first() } else { rows.seek_last().and_then(|()| rows.prev()) };
        step?;
        assert_eq!((rows.key(), rows.value()), (&b"key"[..], &b"short"[..]), "forward: {forward}");
    }
    drop(parted);
    Ok(())
}

/// Tombstones in a memtable and in tables, over rows in two older sources; what was put back since shows, and a
/// snapshot from before shows all.
#[test]
fn a_row_among_many_tombstones_is_seen() -> Result<()> {
    let db = Database::in_memory()?;
    let map = db.keyspace("map", KeyspaceOptions::default())?;
    let key = |n: u32| format!("row {n:06}");
    let keys = |back: &[u32]| -> Vec<Vec<u8>> { back.iter().map(|n| key(*n).into_bytes()).collect() };
    let seen = |range: std::ops::Range<u32>| -> Result<Vec<Vec<u8>>> {
        map.range(key(range.start)..key(range.end)).map(|row| Ok(row?.0.to_vec())).collect()
    };
    for step in [1, 3] {
        for n in (0..400).step_by(step) {
            map.put(key(n), "value")?;
        }
        db.flush()?;
    }
    let before = db.snapshot();
    for n in 0..200 {
        map.delete(key(n))?;
    }
    db.flush()?;
    for n in 200..390 {
        map.delete(key(n))?;
    }
    assert_eq!(seen(0..395)?, keys(&[390, 391, 392, 393, 394]));
    assert_eq!(seen(0..300)?, keys(&[]), "the bounds end among tombstones");
    for n in [60, 61, 300] {
        map.put(key(n), "back")?;
    }
    assert_eq!(seen(0..390)?, keys(&[60, 61, 300]));
    assert_eq!(map.at(&before)?.range(key(0)..key(400)).count(), 400);
    Ok(())
}

/// Numbers below what is asked for, that follow from `seed`.
fn draws(seed: u64) -> impl FnMut(usize) -> usize {
    let mut random = seed;
    move |end| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % end
    }
}

/// Seek `from` and walk, forward or not and until it stops as `go` says, and come to what a sorted map has.
fn walk_like(
    cursor: &mut RowCursor,
    expected: &BTreeMap<Vec<u8>, Vec<u8>>,
    from: &[u8],
    mut go: impl FnMut() -> (bool, bool),
) -> Result<()> {
    let mut here = expected.range(from.to_vec()..).next();
    assert_eq!(cursor.seek(from)?, here.is_some());
    while let Some((at, value)) = here {
        assert_eq!((cursor.key(), cursor.value()), (&at[..], &value[..]));
        let (forward, stop) = go();
        if stop {
            break;
        }
        here = if forward {
            cursor.next()?;
            expected.range((Bound::Excluded(at.clone()), Bound::Unbounded)).next()
        } else {
            cursor.prev()?;
            expected.range(..at.clone()).next_back()
        };
        assert_eq!(cursor.valid(), here.is_some());
    }
    Ok(())
}

/// Runs of a table's rows, with rows of another table and of a memtable between them that replace, hide or join them: whoever
/// turns round or goes elsewhere in the middle of one comes to the same rows as in a sorted map.
#[test]
fn a_walk_leaves_a_run_anywhere() -> Result<()> {
    let db = Database::in_memory()?;
    let map = db.keyspace("map", KeyspaceOptions::default())?;
    let mut expected = BTreeMap::new();
    let mut below = draws(7);
    // Of some neighbours the first eight bytes are the same, and some keys are shorter than that.
    let key = |n: usize| {
        let key = format!("{:05}{}{:03}", n / 40, ["", "common to many of them"][n / 900 % 2], n % 40);
        match n % 97 {
            0 => key.as_bytes()[..5].to_vec(),
            // The largest head, which also stands for a source that has ended.
            1 => [&[0xFF; 8], key.as_bytes()].concat(),
            _ => key.into_bytes(),
        }
    };
    for (round, rows) in [3000, 150, 60].into_iter().enumerate() {
        for at in 0..rows {
            let n = if round == 0 { at } else { below(3300) };
            if round > 0 && below(4) == 0 {
                map.delete(key(n))?;
                expected.remove(&key(n));
            } else {
                let value = vec![b'0' + u8::try_from(round).expect("few rounds"); n % 200];
                map.put(key(n), &value)?;
                expected.insert(key(n), value);
            }
        }
        if round < 2 {
            db.flush()?;
        }
        let mut cursor = map.cursor()?;
        for _ in 0..200 {
            let from = key(below(3300));
            walk_like(&mut cursor, &expected, &from, || (below(30) > 0, below(60) == 0))?;
        }
    }
    Ok(())
}

/// Keys with one to hundreds of versions of every kind, in a memtable and in tables, seen by snapshots from in between: every walk
/// comes to the rows of a sorted map, wherever it turns.
#[test]
fn a_walk_passes_many_versions() -> Result<()> {
    let db = Database::in_memory()?;
    let map = db.keyspace("map", KeyspaceOptions::default().with_merge_operator("append"))?;
    let mut below = draws(11);
    let key = |n: usize| format!("{}{n:02}", ["", "common to half of them"][n % 2]).into_bytes();
    let mut expected = BTreeMap::new();
    let mut seen = Vec::new();
    for round in 0..12 {
        for _ in 0..60 {
            let at = key(below(30));
            for version in 0..[1, 1, 3, 8, 9, 10, 40, 300][below(8)] {
                match below(12) {
                    0 => {
                        map.delete(&at)?;
                        expected.remove(&at);
                    }
                    1 if version % 30 == 1 => {
                        map.delete_range(at.clone()..key(99))?;
                        expected.retain(|row, _| *row < at || *row >= key(99));
                    }
                    2 | 3 => {
                        map.merge(&at, b"+")?;
                        expected.entry(at.clone()).or_insert_with(Vec::new).push(b'+');
                    }
                    _ => {
                        let value = format!("{round} {version}").into_bytes();
                        map.put(&at, &value)?;
                        expected.insert(at.clone(), value);
                    }
                }
            }
        }
        seen.push((db.snapshot(), expected.clone()));
        if round % 4 == 3 && round < 11 {
            db.flush()?;
        }
    }
    for (snapshot, expected) in &seen {
        let mut cursor = map.at(snapshot)?.cursor()?;
        for _ in 0..100 {
            let from = key(below(32));
            walk_like(&mut cursor, expected, &from, || (below(2) == 0, below(50) == 0))?;
        }
        let rows: Vec<_> = map
            .at(snapshot)?
            .range::<&[u8]>(..)
            .rev()
            .map(|row| row.map(|(key, value)| (key.to_vec(), value.to_vec())))
            .collect::<Result<_>>()?;
        let reversed: Vec<_> =
            expected.iter().rev().map(|(key, value)| (key.clone(), value.clone())).collect();
        assert_eq!(rows, reversed);
    }
    Ok(())
}

/// What a walk steps over does not grow with the number of versions that a memtable has of a row, be they too new or too old.
#[test]
fn a_popular_row_costs_no_more_than_others() -> Result<()> {
    let db = Database::in_memory()?;
    let map = db.keyspace("map", KeyspaceOptions::default())?;
    let mut seen = Vec::new();
    map.put("a", "0")?;
    map.put("z", "0")?;
    for n in 0..3_000 {
        map.put("popular", n.to_string())?;
        if [0, 1_500, 2_999].contains(&n) {
            seen.push((n.to_string(), db.snapshot()));
        }
    }
    for (value, snapshot) in &seen {
        let view = Arc::new(map.at(snapshot)?.scan_view()?);
        let everything = Bounds { start: Bound::Unbounded, end: Bound::Unbounded };
        let mut rows = Rows::of(&view, Arc::new(everything))?;
        for forward in [true, false] {
            if forward {
                rows.seek_first()?;
            } else {
                rows.seek_last()?;
            }
            let mut values = Vec::new();
            while rows.valid() {
                values.push(rows.value().to_vec());
                if forward { rows.next()? } else { rows.prev()? }
            }
            assert_eq!(values, [b"0", value.as_bytes(), b"0"]);
            let cost = rows.cost();
            assert!(cost.entries_skipped < 50, "forward: {forward}: {cost:?}");
        }
    }
    Ok(())
}

/// A transaction's scan sees its writes as they were when it began, few or many, over what was committed, whatever it writes
/// before the scan's first step.
#[test]
fn a_transaction_s_scan_passes_its_later_writes() -> Result<()> {
    let db = Database::in_memory()?;
    let map = db.keyspace("map", KeyspaceOptions::default().with_merge_operator("append"))?;
    for key in ["a", "b", "c"] {
        map.put(key, "committed")?;
    }
    for (before, after) in [(1, 1), (1, 20), (20, 1), (20, 20), (0, 20)] {
        for reverse in [false, true] {
            let mut transaction = db.begin()?;
            for n in 0..before {
                transaction.put(&map, "b", format!("own {n}"))?;
            }
            if before > 0 {
                transaction.delete(&map, "c")?;
            }
            let scan = transaction.range::<&str>(&map, ..);
            // The first of them has the first number that is not seen.
            for key in ["b", "a", "c"] {
                for _ in 0..after {
                    transaction.put(&map, key, "later")?;
                }
            }
            let rows: Vec<_> =
                if reverse { scan.rev().collect::<Result<_>>()? } else { scan.collect::<Result<_>>()? };
            let mut seen: Vec<_> = rows.iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
            if reverse {
                seen.reverse();
            }
            let own = format!("own {}", before - 1).into_bytes();
            let mut expected = vec![(b"a".to_vec(), b"committed".to_vec())];
            if before > 0 {
                expected.push((b"b".to_vec(), own));
            } else {
                expected.extend([b"b", b"c"].map(|key| (key.to_vec(), b"committed".to_vec())));
            }
            assert_eq!(seen, expected, "{before} before, {after} after, reverse: {reverse}");
        }
    }
    Ok(())
}
