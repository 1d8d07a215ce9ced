//! What is watched, cut and confirmed.

use esker_base::{KeyspaceId, SeqNo};
use esker_vfs::Env;

use super::{DeadRanges, KeyRange, RANGES_MAX};
use crate::rows::dead::REMEMBERED_AFTER;
use crate::{Database, DatabaseOptions, KeyspaceOptions, Result};

const MAP: KeyspaceId = KeyspaceId(1);

fn range(start: &str, end: &str) -> KeyRange {
    let end = (end != "..").then(|| end.as_bytes().to_vec());
    KeyRange { start: start.into(), end }
}

/// Forward from "d" to the row "m", in a scan from there to the end.
fn known() -> DeadRanges {
    let ranges = DeadRanges::default();
    ranges.watch(MAP, range("d", ".."), b"d", false, SeqNo(10));
    ranges.confirm(MAP, &range("d", "m"), SeqNo(12));
    ranges
}

#[test]
fn what_was_walked_is_dead_to_readers_of_that_moment_and_later_ones() {
    let ranges = known();
    assert_eq!(ranges.dead(MAP, b"e", SeqNo(12)), Some(range("d", "m")));
    assert_eq!(ranges.dead(MAP, b"e", SeqNo(11)), None);
    assert_eq!(ranges.dead(MAP, b"m", SeqNo(12)), None);
    assert_eq!(ranges.dead(MAP, b"c", SeqNo(12)), None);
    assert_eq!(ranges.dead(KeyspaceId(2), b"e", SeqNo(12)), None);
}

#[test]
fn a_walk_that_began_before_the_watch_proves_nothing() {
    let ranges = DeadRanges::default();
    ranges.watch(MAP, range("d", ".."), b"d", false, SeqNo(10));
    assert_eq!(ranges.watched(MAP, b"d", b"x"), Some(SeqNo(10)));
    ranges.confirm(MAP, &range("d", "m"), SeqNo(9));
    assert_eq!(ranges.dead(MAP, b"e", SeqNo(20)), None);
    ranges.confirm(MAP, &range("d", "m"), SeqNo(10));
    assert_eq!(ranges.dead(MAP, b"e", SeqNo(20)), Some(range("d", "m")));
}

/// What a writer deletes row by row is watched piece by piece, while somebody walks through it behind the writer.
#[test]
fn a_walk_during_which_the_watch_grew_is_told_so() {
    let ranges = DeadRanges::default();
    ranges.watch(MAP, range("a", "f"), b"a", false, SeqNo(10));
    assert!(ranges.confirm(MAP, &range("a", "b"), SeqNo(10)));
    ranges.watch(MAP, range("e", "m"), b"e", false, SeqNo(20));
    assert!(!ranges.confirm(MAP, &range("b", "c"), SeqNo(15)));
    assert_eq!(ranges.dead(MAP, b"a", SeqNo(20)), Some(range("a", "b")));
    assert!(ranges.confirm(MAP, &range("b", "c"), SeqNo(20)));
    assert_eq!(ranges.dead(MAP, b"a", SeqNo(20)), Some(range("a", "c")));
    assert!(ranges.confirm(MAP, &range("x", "z"), SeqNo(1)), "of what is not watched nothing is awaited");
}

/// Several walk through a range at once, each through a part of it.
#[test]
fn what_was_found_in_different_places_is_remembered_and_joined() {
    let ranges = DeadRanges::default();
    ranges.watch(MAP, range("a", "z"), b"a", false, SeqNo(10));
    for (start, end) in [("k", "m"), ("b", "c"), ("p", "q"), ("m", "n")] {
        assert!(ranges.confirm(MAP, &range(start, end), SeqNo(10)));
    }
    let dead = |key: &str| ranges.dead(MAP, key.as_bytes(), SeqNo(10));
    assert_eq!(dead("b"), Some(range("b", "c")));
    assert_eq!(dead("k"), Some(range("k", "n")));
    assert_eq!(dead("p"), Some(range("p", "q")));
    assert_eq!((dead("a"), dead("d"), dead("n"), dead("q")), (None, None, None, None));
    // All of it is watched still: a put between them cuts none, one in them does.
    ranges.put(MAP, b"f");
    ranges.put(MAP, b"l");
    assert_eq!((dead("b"), dead("k"), dead("l")), (Some(range("b", "c")), Some(range("k", "l")), None));
    assert!(ranges.confirm(MAP, &range("a", "z"), SeqNo(10)));
    assert_eq!(dead("a"), Some(range("a", "f")));
}

/// A writer that is far ahead of those who walk behind it, who take turns: in the end all that it deleted is known all the same.
#[test]
fn what_a_fast_writer_deletes_is_known_in_the_end() -> Result<()> {
    let key = |n: u32| format!("row {n:06}");
    for seed in 0..40 {
        let (env, world) = Env::simulated(seed);
        let options = DatabaseOptions { dead_run: 4, ..DatabaseOptions::default() };
        let db = Database::builder("/db").options(options).env(env).open()?;
        let map = db.keyspace("map", KeyspaceOptions::default())?;
        for n in 0..10_000 {
            map.put(key(n), "value")?;
        }
        db.flush()?;
        for n in 0..10_000 {
            map.delete(key(n))?;
        }
        while world.steps.step().is_some() {}
        let known = db.core().dead_ranges.dead(map.id(), key(0).as_bytes(), SeqNo::MAX);
        // All but the last piece of 512, which is not complete.
        let end = known.as_ref().and_then(|known| known.end.clone());
        assert!(
            end.is_some_and(|end| end >= key(9_400).into_bytes()),
            "seed {seed}: known is only {known:?}"
        );
    }
    Ok(())
}

#[test]
fn a_put_cuts_where_it_goes() {
    let ranges = known();
    ranges.put(MAP, b"t");
    assert_eq!(ranges.dead(MAP, b"e", SeqNo(12)), Some(range("d", "m")));
    assert_eq!(ranges.watched(MAP, b"d", b"t"), None);
    ranges.put(MAP, b"f");
    assert_eq!(ranges.dead(MAP, b"e", SeqNo(12)), Some(range("d", "f")));
    assert_eq!(ranges.dead(MAP, b"f", SeqNo(12)), None);
    ranges.put(KeyspaceId(2), b"d");
    assert!(ranges.any());
    ranges.put(MAP, b"d");
    assert!(!ranges.any());
}

/// A put ahead of the walk that it does not see must keep the end of the walk from being called dead.
#[test]
fn a_put_during_the_walk_cuts_what_it_may_confirm() {
    let ranges = DeadRanges::default();
    ranges.watch(MAP, range("d", ".."), b"d", false, SeqNo(10));
    ranges.put(MAP, b"k");
    ranges.confirm(MAP, &range("d", "m"), SeqNo(10));
    assert_eq!(ranges.dead(MAP, b"e", SeqNo(11)), Some(range("d", "k")));

    let ranges = DeadRanges::default();
    ranges.watch(MAP, range("", "s"), b"r", true, SeqNo(10));
    ranges.put(MAP, b"k");
    ranges.confirm(MAP, &range("d", "s"), SeqNo(10));
    assert_eq!(ranges.dead(MAP, b"r", SeqNo(11)), Some(range("k\0", "s")));
}

#[test]
fn where_nothing_is_dead_nothing_need_be_watched() {
    let ranges = known();
    ranges.unwatch_living(MAP, b"d");
    assert!(ranges.any(), "a part of it is dead");
    let ranges = DeadRanges::default();
    ranges.watch(MAP, range("d", "m"), b"d", false, SeqNo(10));
    ranges.unwatch_living(MAP, b"c");
    ranges.unwatch_living(KeyspaceId(2), b"d");
    assert!(ranges.any(), "that is elsewhere");
    ranges.unwatch_living(MAP, b"d");
    assert!(!ranges.any());
    ranges.unwatch_living(MAP, b"d");
}

#[test]
fn who_comes_later_does_not_undo_a_watch() {
    let ranges = DeadRanges::default();
    ranges.watch(MAP, range("d", "m"), b"d", false, SeqNo(10));
    ranges.watch(MAP, range("e", "m"), b"e", false, SeqNo(20));
    assert_eq!(ranges.watched(MAP, b"d", b"l"), Some(SeqNo(10)));
    ranges.confirm(MAP, &range("d", "m"), SeqNo(15));
    assert_eq!(ranges.dead(MAP, b"e", SeqNo(15)), Some(range("d", "m")));
    // Of what it grows by nobody knew.
    ranges.watch(MAP, range("e", "p"), b"e", false, SeqNo(20));
    assert_eq!(ranges.watched(MAP, b"d", b"o"), Some(SeqNo(20)));
    ranges.confirm(MAP, &range("d", "p"), SeqNo(19));
    assert_eq!(ranges.dead(MAP, b"o", SeqNo(20)), None);
}

#[test]
fn what_dies_next_to_it_joins() {
    let ranges = known();
    // The row "m" was deleted, and the next scan comes to "p".
    ranges.confirm(MAP, &range("e", "p"), SeqNo(14));
    assert_eq!(ranges.dead(MAP, b"n", SeqNo(14)), Some(range("d", "p")));
    assert_eq!(ranges.dead(MAP, b"e", SeqNo(13)), None);
    // Backwards, further down: watched first.
    ranges.watch(MAP, range("a", "f"), b"e", true, SeqNo(15));
    ranges.confirm(MAP, &range("b", "f"), SeqNo(15));
    assert_eq!(ranges.dead(MAP, b"c", SeqNo(15)), Some(range("b", "p")));
}

#[test]
fn neighbours_do_not_overlap_and_there_are_not_many() {
    let ranges = DeadRanges::default();
    ranges.watch(MAP, range("m", "p"), b"m", false, SeqNo(1));
    ranges.confirm(MAP, &range("m", "p"), SeqNo(1));
    ranges.watch(MAP, range("c", ".."), b"c", false, SeqNo(2));
    ranges.confirm(MAP, &range("c", "z"), SeqNo(2));
    assert_eq!(ranges.dead(MAP, b"d", SeqNo(2)), Some(range("c", "p")), "they meet");
    ranges.watch(MAP, range("p", "q"), b"p", false, SeqNo(3));
    assert_eq!(ranges.watched(MAP, b"d", b"p"), None);
    ranges.confirm(MAP, &range("p", "pp"), SeqNo(3));
    assert_eq!(ranges.dead(MAP, b"d", SeqNo(3)), Some(range("c", "pp")), "they meet");
    for n in 0..200_u64 {
        let start = format!("r{n:03}");
        ranges.watch(MAP, range(&start, &format!("{start}x")), start.as_bytes(), n % 2 == 0, SeqNo(n + 4));
    }
    assert_eq!(ranges.ranges.lock().len(), RANGES_MAX);
    assert_eq!(ranges.watched(MAP, b"d", b"d"), None, "the oldest made room");
}

/// What a scan over many deleted rows costs: once all of them, then next to nothing, whatever is written
/// elsewhere, in both directions; and it sees what is put there.
#[test]
fn a_second_scan_crosses_what_was_deleted_at_once() -> Result<()> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let options = DatabaseOptions { dead_run: 4, ..DatabaseOptions::default() };
    let db = Database::builder(dir.path()).options(options).open()?;
    let map = db.keyspace("map", KeyspaceOptions::default())?;
    let key = |n: u32| format!("row {n:06}");
    for n in 0..5_000 {
        map.put(key(n), "value")?;
    }
    let early = db.snapshot();
    for n in 10..4_990 {
        map.delete(key(n))?;
    }
    let passed = |forward: bool, expected: u32| -> Result<u64> {
        let mut cursor = map.cursor()?;
        let found = if forward { cursor.seek(key(10)) } else { cursor.seek_for_prev(key(4_989)) }?;
        assert!(found && cursor.key() == key(expected).as_bytes(), "expected {expected}");
        Ok(cursor.cost().tombstones_skipped)
    };
    for forward in [true, false] {
        let end = if forward { 4_990 } else { 9 };
        if forward {
            assert!(passed(forward, end)? >= 4_980);
        }
        assert!(passed(forward, end)? < 40);
        map.put(key(9_999), "elsewhere")?;
        assert!(passed(forward, end)? < 40);
    }
    assert_eq!(map.at(&early)?.range(key(10)..key(4_990)).count(), 4_980);

    map.put(key(3_000), "back")?;
    assert_eq!(map.range(key(10)..key(4_990)).count(), 1);
    assert_eq!(map.range(key(10)..key(4_990)).rev().count(), 1);
    assert!(passed(true, 3_000)? < 40);
    map.delete(key(3_000))?;
    db.flush()?;
    passed(true, 4_990)?;
    assert!(passed(true, 4_990)? < 40, "what was cut is joined again");

    // A queue: its head moves on, and none of what was taken is seen again.
    for n in 4_990..4_999 {
        map.delete(key(n))?;
        assert!(passed(true, n + 1)? < 40);
    }
    Ok(())
}

/// Nobody will look for what is deleted: the walk over it leaves the cache to others, and what comes behind is kept
/// again.
#[test]
fn a_walk_over_what_was_deleted_is_not_cached() -> Result<()> {
    let key = |n: u32| format!("row {n:06}");
    for forward in [true, false] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let open = || -> Result<(Database, crate::Keyspace)> {
            let db = Database::open(dir.path())?;
            let map = db.keyspace("map", KeyspaceOptions::default())?;
            Ok((db, map))
        };
        let (db, map) = open()?;
        for n in 0..40_000 {
            map.put(key(n), [b'v'; 100])?;
        }
        drop(map);
        db.close()?;
        let (db, map) = open()?;
        for n in 10_000..30_000 {
            map.delete(key(n))?;
        }
        let cached =
            || db.metrics().memory.iter().find(|(what, _)| *what == "cache").expect("an account").1;
        let mut cursor = map.cursor()?;
        assert!(if forward { cursor.seek(key(10_000))? } else { cursor.seek_for_prev(key(29_999))? });
        assert_eq!(cursor.key(), key(if forward { 30_000 } else { 9_999 }).as_bytes());
        assert!(cursor.cost().bytes_from_disk > 2_000_000, "{:?}", cursor.cost());
        assert!(cached() < 200_000, "{} bytes of what is deleted are cached", cached());
        for _ in 0..9_000 {
            assert!(if forward { cursor.next()? } else { cursor.prev()? });
        }
        assert!(cached() > 900_000, "{} bytes of rows are cached", cached());
        // Whoever comes again crosses at once, and finds where it comes out cached, the one after it at the latest.
        for missing in [1, 0] {
            let mut again = map.cursor()?;
            assert!(if forward { again.seek(key(10_000))? } else { again.seek_for_prev(key(29_999))? });
            assert_eq!(again.key(), key(if forward { 30_000 } else { 9_999 }).as_bytes());
            assert!(again.cost().blocks_from_disk <= missing, "{:?}", again.cost());
        }
    }
    Ok(())
}

const ROWS: u32 = 400;

/// So few that what a scan passes before it asks, and what is too short to be remembered, are few beside [`ROWS`].
const DEAD_RUN: u32 = 8;

/// Whoever began to read after a put was acknowledged sees it, whatever was known to be dead before, while
/// other threads scan, confirm and put.
#[test]
#[expect(clippy::disallowed_methods, reason = "threads of users")]
fn no_scan_misses_what_was_put_before_it_began() -> Result<()> {
    let options = DatabaseOptions { dead_run: DEAD_RUN, ..DatabaseOptions::default() };
    let db = Database::builder("/esker").env(esker_vfs::Env::memory()?).options(options).open()?;
    let map = db.keyspace("map", KeyspaceOptions::default())?;
    let key = |n: u32| format!("row {n:06}");
    for n in 0..ROWS {
        map.put(key(n), "value")?;
        map.delete(key(n))?;
    }
    // What is there for certain while the lock is held.
    let present = std::sync::RwLock::new(None::<u32>);
    let done = std::sync::atomic::AtomicBool::new(false);
    let missed = std::thread::scope(|scope| -> Result<u64> {
        let read = |forward: bool| {
            let (map, present, done) = (&map, &present, &done);
            move || -> Result<u64> {
                let mut missed = 0;
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    let held = present.read().expect("nobody panics");
                    let mut cursor = map.cursor()?;
                    let found = if forward { cursor.seek_first()? } else { cursor.seek_last()? };
                    let wanted = held.map(key);
                    let seen = found.then(|| String::from_utf8_lossy(cursor.key()).into_owned());
                    missed += u64::from(wanted.is_some() && seen != wanted);
                }
                Ok(missed)
            }
        };
        let readers = [scope.spawn(read(true)), scope.spawn(read(false))];
        let mut random = 1_u32;
        for _ in 0..2_000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let n = (random >> 16) % ROWS;
            map.put(key(n), "back")?;
            *present.write().expect("nobody panics") = Some(n);
            *present.write().expect("nobody panics") = None;
            map.delete(key(n))?;
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        let mut missed = 0;
        for reader in readers {
            missed += reader.join().expect("a reader does not panic")?;
        }
        Ok(missed)
    })?;
    assert_eq!(missed, 0);
    assert!(is_crossed(&map)?, "the ranges are known in the end, so they were used");
    Ok(())
}

/// Scans that overlap, each begun before the last write, come to cross what was deleted all the same.
#[test]
fn scans_beside_a_writer_do_not_undo_each_others_watch() -> Result<()> {
    let db = Database::builder("/db")
        .options(DatabaseOptions { dead_run: DEAD_RUN, ..DatabaseOptions::default() })
        .env(Env::memory()?)
        .open()?;
    let map = db.keyspace("map", KeyspaceOptions::default())?;
    let other = db.keyspace("other", KeyspaceOptions::default())?;
    for n in 0..5_000 {
        map.put(format!("row {n:06}"), "value")?;
    }
    for n in 0..5_000 {
        map.delete(format!("row {n:06}"))?;
    }
    let mut cursor = map.cursor()?;
    for _ in 0..8 {
        let next = map.cursor()?;
        other.put("key", "value")?;
        assert!(!cursor.seek_first()?);
        if cursor.cost().tombstones_skipped <= u64::from(DEAD_RUN * REMEMBERED_AFTER) {
            return Ok(());
        }
        cursor = next;
    }
    panic!("each scan walked over all of it");
}

/// Whether scans over everything come to pass few tombstones. One may pass many: of ranges with gaps between
/// them, as puts have cut them, each scan has one gap watched and joins its neighbours.
fn is_crossed(map: &crate::Keyspace) -> Result<bool> {
    for _ in 0..RANGES_MAX {
        let mut cursor = map.cursor()?;
        assert!(!cursor.seek_first()?);
        if cursor.cost().tombstones_skipped <= u64::from(DEAD_RUN * REMEMBERED_AFTER) {
            return Ok(true);
        }
    }
    Ok(false)
}
