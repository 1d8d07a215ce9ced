//! The first walk through the whole engine: what any user does on the first day.
#![expect(clippy::unwrap_used, reason = "a test fails with the line")]

use std::collections::BTreeMap;

use esker::{Database, DatabaseOptions, Durability, KeyspaceOptions};

fn small() -> DatabaseOptions {
    DatabaseOptions {
        memtable_bytes_max: 64 << 10,
        level_base_bytes: 128 << 10,
        table_bytes: 32 << 10,
        ..DatabaseOptions::default()
    }
}

/// Random writes against a model, through flushes, compactions, and a reopening.
#[test]
fn a_database_behaves_like_a_map() {
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
        let map = db.keyspace("map", KeyspaceOptions::default()).unwrap();
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
        let expected: Vec<_> = model.iter().map(|(k, v)| (k.clone().into(), v.clone().into())).collect();
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
