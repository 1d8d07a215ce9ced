//! The first walk through the whole engine: what any user does on the first day.
#![expect(clippy::disallowed_methods, reason = "tests bring their own threads")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use esker::{Compression, Database, DatabaseOptions, Durability, KeyspaceOptions, OpCost};

fn small() -> DatabaseOptions {
    DatabaseOptions {
        memtable_bytes_max: 64 << 10,
        level_base_bytes: Some(128 << 10),
        table_bytes: 32 << 10,
        ..DatabaseOptions::default()
    }
}

/// What this build can compress with.
fn codecs() -> Vec<Compression> {
    let mut all = vec![Compression::None, Compression::Lz4];
    if cfg!(feature = "zstd") {
        all.push(Compression::Zstd { level: 3 });
    }
    all
}

/// Random writes against a model, through flushes, compactions, and a reopening.
#[test]
fn a_database_behaves_like_a_map() {
    for compression in codecs() {
        let options = KeyspaceOptions::default().with_compression(compression);
        let dir = tempfile::tempdir().unwrap();
        let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        let mut state = 1u64;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for _ in 0..4 {
            let db = Database::builder(dir.path()).options(small()).open().unwrap();
            let map = db.keyspace("map", options.clone()).unwrap();
            for _ in 0..20_000 {
                let key = format!("key{:05}", random() % 5_000).into_bytes();
                match random() % 100 {
                    0..70 => {
                        let value = format!("value{}", random()).into_bytes();
                        map.put(&key, &value).unwrap();
                        model.insert(key, value);
                    }
                    70..95 => {
                        map.delete(&key).unwrap();
                        model.remove(&key);
                    }
                    95 => {
                        let mut end = key.clone();
                        end.push(b'~');
                        map.delete_range(key.clone()..end.clone()).unwrap();
                        model.retain(|k, _| *k < key || *k >= end);
                    }
                    _ => assert_eq!(map.get(&key).unwrap().as_deref(), model.get(&key).map(Vec::as_slice)),
                }
            }
            let forward: Vec<_> = map.iter().map(|row| row.unwrap()).collect();
            let expected: Vec<_> =
                model.iter().map(|(k, v)| (k.clone().into(), v.clone().into())).collect();
            assert_eq!(forward, expected);
            let mut reverse: Vec<_> = map.iter().rev().map(|row| row.unwrap()).collect();
            reverse.reverse();
            assert_eq!(reverse, expected);
            for key in model.keys().step_by(7) {
                assert_eq!(map.get(key).unwrap().as_deref(), model.get(key).map(Vec::as_slice));
            }
            db.verify().unwrap();
            db.close().unwrap();
        }
    }
}

/// Every durability mode keeps what was closed in order.
#[test]
fn a_clean_close_keeps_everything_in_every_mode() {
    let modes = [
        Durability::Sync,
        Durability::Interval(std::time::Duration::from_millis(5)),
        Durability::Os,
        Durability::NoLog,
    ];
    for mode in modes {
        let dir = tempfile::tempdir().unwrap();
        for round in 0..3u8 {
            let db = Database::builder(dir.path()).durability(mode).open().unwrap();
            let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
            for before in 0..round {
                assert_eq!(map.get([before]).unwrap().as_deref(), Some(&[before, 1][..]), "{mode:?}");
            }
            map.put([round], [round, 1]).unwrap();
            db.close().unwrap();
        }
    }
}

/// A drop without close loses nothing either: the log has it.
#[test]
fn four_writers_and_a_reader_agree() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::builder(dir.path()).options(small()).open().unwrap();
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    std::thread::scope(|scope| {
        for writer in 0..4u32 {
            let map = &map;
            scope.spawn(move || {
                for n in 0..5_000u32 {
                    map.put(format!("{writer}-{n:05}"), n.to_le_bytes()).unwrap();
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..200 {
                let n = map.prefix("2-").count();
                assert!(n <= 5_000);
            }
        });
    });
    assert_eq!(map.iter().count(), 20_000);
    db.close().unwrap();
    let db = Database::open(dir.path()).unwrap();
    assert_eq!(db.existing_keyspace("map").unwrap().iter().count(), 20_000);
}

/// A checkpoint is a database of its own: it has what was there, and neither sees the other's writes.
#[test]
fn a_checkpoint_opens_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::builder(dir.path().join("db")).options(small()).open().unwrap();
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    for n in 0..3_000u32 {
        map.put(n.to_be_bytes(), [7; 64]).unwrap();
    }
    let copy_dir = dir.path().join("copy");
    db.checkpoint(&copy_dir).unwrap();
    assert!(db.checkpoint(&copy_dir).is_err(), "a checkpoint does not overwrite");
    map.put(1u32.to_be_bytes(), "later").unwrap();
    for _ in 0..2 {
        let copy = Database::open(&copy_dir).unwrap();
        let copied = copy.existing_keyspace("map").unwrap();
        assert_eq!(copied.get(1u32.to_be_bytes()).unwrap().as_deref(), Some(&[7; 64][..]));
        copied.put("only here", "x").unwrap();
        copy.verify().unwrap();
        copy.close().unwrap();
    }
    assert_eq!(map.get("only here").unwrap(), None);
    assert_eq!(map.iter().count(), 3_000);
}

/// What a snapshot saw stays, through overwrites, flushes and compactions.
#[test]
fn a_snapshot_sees_one_moment_of_all_keyspaces() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::builder(dir.path()).options(small()).open().unwrap();
    let (a, b) = (
        db.keyspace("a", KeyspaceOptions::default()).unwrap(),
        db.keyspace("b", KeyspaceOptions::default()).unwrap(),
    );
    let mut taken = Vec::new();
    for round in 0..20u32 {
        let mut batch = db.batch();
        for n in 0..200u32 {
            batch.put(&a, n.to_be_bytes(), round.to_be_bytes()).unwrap();
            batch.put(&b, n.to_be_bytes(), round.to_be_bytes()).unwrap();
        }
        if round % 3 == 0 {
            batch.delete_range(&b, 50u32.to_be_bytes()..60u32.to_be_bytes()).unwrap();
        }
        batch.commit().unwrap();
        taken.push((round, db.snapshot()));
        if round % 5 == 0 {
            db.flush().unwrap();
        }
    }
    a.compact_range::<&[u8]>(..).unwrap();
    b.compact_range::<&[u8]>(..).unwrap();
    for (round, snapshot) in &taken {
        let value = round.to_be_bytes();
        let rows: Vec<_> = a.at(snapshot).unwrap().range::<&[u8]>(..).map(Result::unwrap).collect();
        assert_eq!(rows.len(), 200);
        assert!(rows.iter().all(|(_, v)| **v == value));
        assert_eq!(
            b.at(snapshot).unwrap().range::<&[u8]>(..).count(),
            if round % 3 == 0 { 190 } else { 200 }
        );
    }
    drop(taken);
    a.compact_range::<&[u8]>(..).unwrap();
    let level: u64 = db.metrics().keyspaces[0].levels.iter().map(|l| l.entries).sum();
    assert_eq!(level, 200, "without snapshots only the newest versions stay");
}

/// Transactions see their own writes, refuse what changed under them, and retry.
#[test]
fn transactions_are_serialisable() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let counters = db.keyspace("c", KeyspaceOptions::default().with_merge_operator("add-u64")).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..500 {
                    db.transact(|tx| {
                        let n = tx
                            .get(&counters, "n")?
                            .map_or(0, |v| u64::from_le_bytes((*v).try_into().unwrap()));
                        tx.put(&counters, "n", (n + 1).to_le_bytes())
                    })
                    .unwrap();
                }
            });
        }
    });
    assert_eq!(counters.get("n").unwrap().as_deref(), Some(&2000u64.to_le_bytes()[..]));
    // Own writes, merges and range deletes are visible to gets and scans.
    let mut tx = db.begin().unwrap();
    tx.put(&counters, "a", 1u64.to_le_bytes()).unwrap();
    tx.merge(&counters, "a", 5u64.to_le_bytes()).unwrap();
    assert_eq!(tx.get(&counters, "a").unwrap().as_deref(), Some(&6u64.to_le_bytes()[..]));
    tx.delete_range(&counters, "m".."z").unwrap();
    assert_eq!(tx.range(&counters, "a".."zz").count(), 1);
    tx.rollback();
    // A phantom: a row inserted into a scanned range.
    let mut tx = db.begin().unwrap();
    assert_eq!(tx.range(&counters, "p".."q").count(), 0);
    tx.put(&counters, "x", 0u64.to_le_bytes()).unwrap();
    counters.put("pp", 0u64.to_le_bytes()).unwrap();
    assert!(matches!(tx.commit(), Err(esker::Error::Conflict { .. })));
    assert_eq!(counters.get("x").unwrap(), None);
}

/// A transaction that takes long is not beaten for ever by short ones that write what it has read.
#[test]
fn a_long_transaction_has_its_turn() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let rows = db.keyspace("rows", KeyspaceOptions::default()).unwrap();
    let (commits, done) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    db.transact(|tx| tx.put(&rows, "read", "x")).unwrap();
                    commits.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let outcome = db.transact(|tx| {
            tx.get(&rows, "read")?;
            // As long as it takes to be beaten, if anybody goes on that long.
            let (before, begun) = (commits.load(Ordering::Relaxed), Instant::now());
            while commits.load(Ordering::Relaxed) < before + 3 && begun.elapsed().as_millis() < 20 {
                std::thread::yield_now();
            }
            tx.put(&rows, "written", "x")
        });
        done.store(true, Ordering::Relaxed);
        outcome.unwrap();
    });
}

/// A listener hears what happens while nothing is locked: it may call back into the database.
#[test]
fn a_listener_may_call_back() {
    let dir = tempfile::tempdir().unwrap();
    let seen = std::sync::Arc::new(std::sync::Mutex::new((0u32, None::<esker::Keyspace>)));
    let listener = {
        let seen = std::sync::Arc::clone(&seen);
        move |event: &esker::event::Event| {
            if matches!(event, esker::event::Event::MemtableSealed { .. }) {
                let map = seen.lock().unwrap().1.clone();
                if let Some(map) = map {
                    map.put("sealed", "yes").unwrap();
                    seen.lock().unwrap().0 += 1;
                }
            }
        }
    };
    let builder = Database::builder(dir.path()).options(small()).listener(std::sync::Arc::new(listener));
    let db = builder.open().unwrap();
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    seen.lock().unwrap().1 = Some(map.clone());
    for n in 0..4_000u32 {
        map.put(n.to_be_bytes(), [1; 64]).unwrap();
    }
    let heard = {
        let mut seen = seen.lock().unwrap();
        seen.1 = None;
        seen.0
    };
    assert!(heard > 0, "4,000 rows fill several memtables of 64 KiB");
    assert_eq!(map.get("sealed").unwrap().as_deref(), Some(&b"yes"[..]));
    db.close().unwrap();
}

/// Merges read the same however often they were folded on the way, and a refused operand is told to
/// the reader, not lost.
#[test]
fn merges_fold_anywhere_without_changing_an_answer() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::builder(dir.path()).options(small()).open().unwrap();
    let sums = db.keyspace("sums", KeyspaceOptions::default().with_merge_operator("add-i64")).unwrap();
    let mut model = BTreeMap::<u32, i64>::new();
    let mut taken = Vec::new();
    for n in 0..30_000u32 {
        let key = n % 97;
        match n % 501 {
            0 => {
                sums.put(key.to_be_bytes(), 7i64.to_le_bytes()).unwrap();
                model.insert(key, 7);
            }
            1 => {
                sums.delete(key.to_be_bytes()).unwrap();
                model.remove(&key);
            }
            2 => {
                sums.delete_range(key.to_be_bytes()..(key + 5).to_be_bytes()).unwrap();
                model.retain(|k, _| *k < key || *k >= key + 5);
            }
            _ => {
                sums.merge(key.to_be_bytes(), i64::from(n).to_le_bytes()).unwrap();
                *model.entry(key).or_insert(0) += i64::from(n);
            }
        }
        if n % 7_000 == 6_999 {
            taken.push((db.snapshot(), model.clone()));
        }
    }
    taken.push((db.snapshot(), model));
    for compacted in [false, true] {
        for (snapshot, model) in &taken {
            let rows = sums.at(snapshot).unwrap().range::<&[u8]>(..).map(Result::unwrap);
            let number = |k: &[u8]| u32::from_be_bytes(k.try_into().unwrap());
            let sum = |v: &[u8]| i64::from_le_bytes(v.try_into().unwrap());
            let rows: Vec<(u32, i64)> = rows.map(|(k, v)| (number(&k), sum(&v))).collect();
            let expected: Vec<(u32, i64)> = model.iter().map(|(k, v)| (*k, *v)).collect();
            assert_eq!(rows, expected, "compacted: {compacted}");
        }
        sums.compact_range::<&[u8]>(..).unwrap();
    }
    sums.put("big", i64::MAX.to_le_bytes()).unwrap();
    sums.merge("big", 1i64.to_le_bytes()).unwrap();
    let refused = sums.get("big");
    assert!(matches!(refused, Err(esker::Error::Merge { .. })), "an overflow is an error, not a wrong sum");
    db.close().unwrap();
}

/// A full disk aborts commits and loses nothing; when space returns, writing goes on by itself.
#[test]
fn a_full_disk_is_survived_without_reopening() {
    use esker::vfs::{Env, mem::MemFs};
    let disk = std::sync::Arc::new(MemFs::new());
    disk.set_capacity(Some(1 << 20));
    let fs: std::sync::Arc<dyn esker::vfs::fs::Fs> = disk.clone();
    let env = Env { fs, ..Env::memory().unwrap() };
    let db = Database::builder("/db").env(env).open().unwrap();
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    let mut written = 0u32;
    let error = loop {
        match map.put(written.to_be_bytes(), [7; 1000]) {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, esker::Error::Aborted { .. }) && error.is_no_space(), "{error}");
    assert!(written > 500);
    assert_eq!(map.iter().count(), written as usize, "an aborted commit is not there");
    disk.set_capacity(None);
    map.put(written.to_be_bytes(), [7; 1000]).unwrap();
    db.close().unwrap();
    let fs: std::sync::Arc<dyn esker::vfs::fs::Fs> = disk;
    let env = Env { fs, ..Env::memory().unwrap() };
    let db = Database::builder("/db").env(env).open().unwrap();
    assert_eq!(db.existing_keyspace("map").unwrap().iter().count(), written as usize + 1);
}

/// Flushes that are asked for on a full disk seal no more memtables than writers may.
#[test]
fn a_full_disk_bounds_what_flushes_seal() {
    use esker::vfs::{Env, mem::MemFs};
    let disk = std::sync::Arc::new(MemFs::new());
    let fs: std::sync::Arc<dyn esker::vfs::fs::Fs> = disk.clone();
    let options = DatabaseOptions {
        durability: Durability::NoLog,
        when_stalled: esker::WhenStalled::Fail,
        ..DatabaseOptions::default()
    };
    let sealed_max = options.sealed_memtables_max as u64;
    let builder = Database::builder("/db").options(options).env(Env { fs, ..Env::memory().unwrap() });
    let db = builder.open().unwrap();
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    disk.set_capacity(Some(1));
    let refused = (0..2 * sealed_max).find_map(|key| {
        let put = map.put(key.to_be_bytes(), "value");
        assert!(db.persist().unwrap_err().is_no_space());
        put.err()
    });
    assert!(matches!(refused, Some(esker::Error::WouldStall { .. })), "{refused:?}");
    assert_eq!(db.metrics().sealed_memtables, sealed_max + 1);
    disk.set_capacity(None);
    db.persist().unwrap();
    map.put("key", "value").unwrap();
    db.close().unwrap();
}

/// Gets find what lies in any run of a deep level 0, one by one and several at a time.
#[test]
fn every_run_of_a_deep_level_0_is_asked() {
    const RUNS: u8 = 40;
    let dir = tempfile::tempdir().unwrap();
    let db = Database::builder(dir.path())
        .options(DatabaseOptions {
            l0_tables_trigger: 64,
            l0_tables_slowdown: 100,
            l0_tables_stop: 200,
            ..DatabaseOptions::default()
        })
        .open()
        .unwrap();
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    let own = |run: u8| format!("own {run:02}");
    for run in 0..RUNS {
        for key in ["first", "shared", &own(run)] {
            map.put(key, [run]).unwrap();
        }
        db.flush().unwrap();
    }
    let mut keys: Vec<String> = (0..RUNS).map(own).collect();
    keys.extend(["shared".to_owned(), "none".to_owned()]);
    let mut expected: Vec<Option<Vec<u8>>> = (0..RUNS).map(|run| Some(vec![run])).collect();
    expected.extend([Some(vec![RUNS - 1]), None]);
    for (key, expected) in keys.iter().zip(&expected) {
        assert_eq!(map.get(key).unwrap().as_deref(), expected.as_deref(), "{key}");
    }
    let together = map.multi_get(&keys).unwrap();
    assert!(
        together.iter().zip(&expected).all(|(found, expected)| found.as_deref() == expected.as_deref())
    );
    let mut cost = OpCost::default();
    map.get_with_costed(own(0), &mut cost, <[u8]>::len).unwrap();
    assert_eq!((cost.tables, cost.levels), (u64::from(RUNS), 1));
}

/// The calls that say what they took do what those do that do not, and count the keys, tombstones and bytes of it.
#[test]
fn calls_say_what_they_took() {
    let db = Database::in_memory().unwrap();
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    for key in ["a1", "a2", "b1", "c1"] {
        map.put(key, key).unwrap();
    }
    let taken = |call: &dyn Fn(&mut OpCost)| {
        let mut cost = OpCost { calls: 10, ..OpCost::default() };
        call(&mut cost);
        OpCost { calls: cost.calls - 10, ..cost }
    };
    let cost = taken(&|cost| {
        let found = map.multi_get_costed(&["c1", "none", "a1"], cost).unwrap();
        assert_eq!(found, map.multi_get(&["c1", "none", "a1"]).unwrap());
        assert_eq!(found[2].as_deref(), Some(&b"a1"[..]));
    });
    assert_eq!((cost.calls, cost.keys_read, cost.bytes_read), (3, 2, 8));
    let cost = taken(&|cost| map.delete_range_costed("c".."d", cost).unwrap());
    assert_eq!((cost.calls, cost.tombstones_written, cost.bytes_written), (1, 1, 2));
    assert_eq!(map.iter().count(), 3);
    let cost = taken(&|cost| map.delete_range_costed("d".."c", cost).unwrap());
    assert_eq!(cost, OpCost::default(), "it ends before it begins");
    let cost = taken(&|cost| map.delete_prefix_costed("b", cost).unwrap());
    assert_eq!((cost.calls, cost.tombstones_written), (1, 1));
    assert_eq!(map.iter().count(), 2);
    let cost = taken(&|cost| {
        assert!(map.compare_and_swap_costed("a1", Some(b"a1"), Some(b"new"), cost).unwrap());
    });
    assert_eq!((cost.calls, cost.keys_read, cost.keys_written, cost.retries), (2, 1, 1, 0));
    let cost = taken(&|cost| {
        assert!(!map.compare_and_swap_costed("a1", Some(b"a1"), None, cost).unwrap());
    });
    assert_eq!((cost.calls, cost.keys_read, cost.tombstones_written), (1, 1, 0), "it had another value");
    assert_eq!(map.get("a1").unwrap().as_deref(), Some(&b"new"[..]));
    let cost = taken(&|cost| map.clear_costed(cost).unwrap());
    assert_eq!((cost.calls, cost.tombstones_written), (1, 2));
    assert_eq!(map.iter().count(), 0);
    for key in ["a", "b", "c"] {
        map.put(key, "value").unwrap();
    }
    let mut scan = map.iter();
    assert!(scan.next().is_some() && scan.next_back().is_some() && scan.next().is_some());
    assert!(scan.next().is_none() && scan.next_back().is_none());
    let cost = scan.cost();
    assert_eq!((cost.calls, cost.keys_read, cost.bytes_read), (1, 3, 18), "from both ends");
    let mut scan = map.iter().keys_only();
    assert_eq!(scan.by_ref().count(), 3);
    assert_eq!((scan.cost().keys_read, scan.cost().bytes_read), (3, 3), "values are left out");
    db.drop_keyspace("map").unwrap();
    let gone = map.delete_range_costed("a".."b", &mut OpCost::default()).unwrap_err();
    assert!(matches!(gone, esker::Error::NoSuchKeyspace { .. }), "{gone}");
}

/// A try that has met a conflict costs its reads too.
#[test]
fn a_swap_counts_the_reads_of_every_try() {
    let db = Database::in_memory().unwrap();
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    map.put("key", [0]).unwrap();
    let swapped = AtomicU64::new(0);
    let total = std::sync::Mutex::new(OpCost::default());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let mut cost = OpCost::default();
                    let value = map.get("key").unwrap().unwrap();
                    let next = [value[0].wrapping_add(1)];
                    let done = map.compare_and_swap_costed("key", Some(&*value), Some(&next), &mut cost);
                    swapped.fetch_add(u64::from(done.unwrap()), Ordering::Relaxed);
                    total.lock().unwrap().add(&cost);
                }
            });
        }
    });
    let (swapped, total) = (swapped.into_inner(), total.into_inner().unwrap());
    assert_eq!(total.keys_written, swapped);
    assert_eq!(total.keys_read, 800 + total.retries);
    assert_eq!(total.calls, total.keys_read + total.keys_written);
}

/// A reader says what it reads and up to where, and takes the size of the tables of its own moment.
#[test]
fn a_reader_says_what_it_reads() {
    let db = Database::in_memory().unwrap();
    let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
    let other = db.keyspace("other", KeyspaceOptions::default()).unwrap();
    for key in ["a", "b", "c", "d"] {
        map.put(key, [7; 1000]).unwrap();
    }
    let snapshot = db.snapshot();
    let in_memory = map.reader().unwrap();
    assert_eq!(in_memory.keyspace().name(), "map");
    assert_eq!(in_memory.seqno(), snapshot.seqno());
    db.flush().unwrap();
    let flushed = map.reader().unwrap();
    let all = flushed.approximate_size::<&str>(..).unwrap();
    assert!(all > 4 * 7, "{all}");
    assert_eq!(map.approximate_size::<&str>(..).unwrap(), all);
    other.put("a", "1").unwrap();
    map.delete_range::<&str>(..).unwrap();
    map.compact_range::<&str>(..).unwrap();
    assert_eq!(in_memory.approximate_size::<&str>(..).unwrap(), 0, "memory is not counted");
    assert_eq!(flushed.approximate_size::<&str>(..).unwrap(), all, "those tables are replaced by now");
    assert_ne!(map.approximate_size::<&str>(..).unwrap(), all);
    assert_eq!(flushed.approximate_size("e"..).unwrap(), 0);
    let at = map.at(&snapshot).unwrap();
    assert_eq!((at.seqno(), at.keyspace().id()), (snapshot.seqno(), map.id()));
    assert!(map.reader().unwrap().seqno() > other.at(&snapshot).unwrap().seqno());
}
