//! How long opening takes. Ignored by default: figures are for a release build on a quiet machine.
//!
//! `cargo test --release -p esker-manifest --lib -- --ignored --nocapture measure`
#![expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use esker_base::KeyspaceId;
use esker_base::filename::FileName;
use esker_vfs::fs::Fs;
use esker_vfs::mem::MemFs;
use esker_vfs::os::OsFs;

use crate::testing::{DATABASE, context, meta};
use crate::{Edit, VersionSet};

const TABLES: u64 = 1000;

/// A database of 1,000 tables that came one by one, in 7 levels.
fn fill(fs: &Arc<dyn Fs>, dir: &Path) {
    let set = VersionSet::create(fs, dir, DATABASE, context(fs, dir, DATABASE)).expect("a new database");
    let keyspace = Edit::CreateKeyspace { id: KeyspaceId(1), name: "users".into(), options: vec![0; 40] };
    set.commit(vec![keyspace]).expect("a keyspace");
    for n in 0..TABLES {
        let smallest = format!("user{:012}", n * 10);
        let largest = format!("user{:012}", n * 10 + 9);
        let meta = meta(set.allocate().0, 1, smallest.as_bytes(), largest.as_bytes());
        let file = fs.create(&dir.join(FileName::Table(meta.number).to_string())).expect("a file");
        file.set_len(meta.file_bytes).expect("its length");
        let level = if n % 100 == 0 { 0 } else { (n % 6) as u8 + 1 };
        set.commit(vec![Edit::AddTable { level, meta }]).expect("a table");
    }
}

fn open(fs: &Arc<dyn Fs>, dir: &Path, read_only: bool) -> Duration {
    let start = Instant::now();
    let opened = VersionSet::recover(fs, dir, |id| context(fs, dir, id), |_| Ok(()), read_only);
    let took = start.elapsed();
    let (set, _) = opened.expect("it opens");
    assert_eq!(set.current().table_count(), TABLES as usize);
    took
}

fn measure(what: &str, fs: &Arc<dyn Fs>, dir: &Path) {
    fill(fs, dir);
    // The first open replays a commit a table, the later ones a snapshot.
    let replay = open(fs, dir, true);
    let snapshot = median(|| open(fs, dir, false));
    // What a writable open cannot do without: two files and their names, made durable.
    let syncs = median(|| {
        let start = Instant::now();
        for name in ["one", "two"] {
            let file = fs.create(&dir.join(name)).expect("a file");
            file.write_at(&[7; 100], 0).expect("bytes");
            file.sync().expect("synced");
            fs.sync_dir(dir).expect("synced");
            fs.remove(&dir.join(name)).expect("removed");
        }
        start.elapsed()
    });
    println!(
        "{what}: replay of {TABLES} commits {replay:?}; writable open {snapshot:?}, its syncs alone {syncs:?}"
    );
    assert!(
        replay < Duration::from_millis(20) && snapshot.saturating_sub(syncs) < Duration::from_millis(20)
    );
}

fn median(mut once: impl FnMut() -> Duration) -> Duration {
    let mut all: Vec<Duration> = (0..21).map(|_| once()).collect();
    all.sort();
    all[10]
}

#[test]
#[ignore = "a measurement"]
fn opening_a_thousand_tables() {
    let memory: Arc<dyn Fs> = Arc::new(MemFs::new());
    memory.create_dir(Path::new("/db")).expect("a directory");
    measure("in memory", &memory, Path::new("/db"));
    let system: Arc<dyn Fs> = Arc::new(OsFs::new());
    let dir = tempfile::tempdir().expect("a directory");
    measure("on disk", &system, dir.path());
}

#[test]
#[ignore = "a measurement"]
fn finding_the_table_of_a_key() {
    let tables = |count: u64, key: fn(u64) -> Vec<u8>| {
        let table = |n| crate::TableHandle::detached(meta(n, 1, &key(n * 10), &key(n * 10 + 9)));
        crate::Level::sorted((0..count).map(table).collect())
    };
    let binary: fn(u64) -> Vec<u8> = |n| (n << 20).to_be_bytes().to_vec();
    let text: fn(u64) -> Vec<u8> = |n| format!("user{n:012}").into_bytes();
    for (what, key) in [("binary keys", binary), ("text keys", text)] {
        for count in [10, 100, 1000, 10_000] {
            let level = tables(count, key);
            let probes: Vec<Vec<u8>> =
                (0..100_000u64).map(|n| key(n.wrapping_mul(7919) % (count * 10))).collect();
            let mut found = 0;
            let mut round = || {
                let start = Instant::now();
                found = probes.iter().filter(|probe| level.runs()[0].find(probe).is_some()).count();
                start.elapsed() / 100_000
            };
            let fastest = (0..9).map(|_| round()).min().expect("some rounds");
            println!("find among {count:>6} tables, {what}: {fastest:?}");
            assert_eq!(found, probes.len());
        }
    }
}
