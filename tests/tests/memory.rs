//! Memory that the system does not give: what is large is an error and changes nothing. A test of its own in a
//! process of its own, whose address space is limited meanwhile.
#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "a process asks the system how large it is")]

use std::path::Path;
use std::sync::Arc;

use esker::{Database, DatabaseOptions, Error, KeyspaceOptions};
use esker_base::SeqNo;
use esker_base::filename::FileName;
use esker_base::ledger::Ledger;
use esker_base::table_meta::{KeyBounds, TableMeta};
use esker_manifest::{Edit, VersionSet};
use esker_sstable::{BlockCache, TableContext, TableSource};
use esker_vfs::fs::Fs;
use esker_vfs::open_files::OpenFiles;
use esker_vfs::sim::Simulation;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A large value, and twice what is left for it.
const LARGE_BYTES: usize = 96 << 20;
const LEFT_BYTES: u64 = 48 << 20;

/// Let this process have `more` bytes of address space than it has now, or as many as before.
fn limit(more: Option<u64>) {
    let status = std::fs::read_to_string("/proc/self/status").expect("there is a /proc");
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:")).expect("its size is there");
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().expect("a number");
    let current = more.map(|more| kib * 1024 + more);
    let maximum = getrlimit(Resource::As).maximum;
    setrlimit(Resource::As, Rlimit { current: current.or(maximum), maximum }).expect("a lower limit");
}

fn is_out_of_memory(error: &Error) -> bool {
    match error {
        Error::Aborted { cause } => is_out_of_memory(cause),
        other => matches!(other, Error::OutOfMemory { .. }),
    }
}

/// A large value cannot be read, written or copied, and small ones can, where values lie as `options` say.
fn a_large_value_changes_nothing(cache_bytes: u64, keyspace: &KeyspaceOptions) {
    let dir = tempfile::tempdir().expect("a directory");
    let options =
        DatabaseOptions { memtable_bytes_max: 512 << 20, cache_bytes, ..DatabaseOptions::default() };
    let open = || {
        let db = Database::builder(dir.path().join("db")).options(options.clone()).open().expect("opened");
        let map = db.keyspace("map", keyspace.clone()).expect("there");
        (db, map)
    };
    let (db, map) = open();
    let large: Vec<u8> =
        (0u32..).map(|n| n.to_le_bytes()[0] ^ n.to_le_bytes()[1]).take(LARGE_BYTES).collect();
    map.put("table", &large).expect("put");
    drop(map);
    // A flush gives its memory back a moment after whoever waits for it has heard; a close waits for that, too.
    db.close().expect("closed");
    let (db, map) = open();
    let mut batch = db.batch();
    batch.put(&map, "small", "in a batch").expect("added");
    // In the memtable, from where it is lent: only the copy takes memory.
    let lent = db.keyspace("lent", KeyspaceOptions::default()).expect("created");
    lent.put("large", &large).expect("put");
    lent.put("next", "1").expect("put");

    limit(Some(LEFT_BYTES));
    let mut scan = lent.iter();
    let ends = [scan.next(), scan.next()];
    drop(scan);
    let refused = [
        ("a block", map.get("table").map(drop)),
        ("a scan", map.iter().try_for_each(|row| row.map(drop))),
        ("a batch", batch.put(&map, "large", &large)),
        ("a commit", map.put("large", &large)),
        ("a transaction", db.transact(|tx| tx.put(&map, "large", &large))),
    ];
    let small = (map.put("alone", "1"), batch.commit(), map.get("small"));
    limit(None);

    let [Some(Err(error)), None] = &ends else { panic!("a scan goes on after an error: {ends:?}") };
    assert!(is_out_of_memory(error), "{error}");
    for (what, outcome) in refused {
        let error = outcome.expect_err(what);
        assert!(is_out_of_memory(&error), "{what}: {error}");
    }
    small.0.expect("a small commit");
    small.1.expect("the batch without the large value");
    assert_eq!(small.2.expect("read").as_deref(), Some(&b"in a batch"[..]));
    assert!(map.get("table").expect("read").as_deref() == Some(&large[..]));
    assert_eq!(map.get("large").expect("read"), None);
    map.put("large", &large).expect("there is memory again");
    drop(map);
    db.close().expect("closed");
    let db = Database::open(dir.path().join("db")).expect("opened again");
    let map = db.existing_keyspace("map").expect("there");
    assert_eq!(map.iter().count(), 4);
}

/// Tables of level 0 within each other, as many as a manifest of a megabyte may claim, and what opening them may take.
const NESTED: u32 = 5_000;
const NESTED_BYTES: u64 = 64 << 20;

/// A database whose manifest says that so many tables lie within each other in level 0. They are of one byte each.
fn nested_tables() -> Simulation {
    let world = Simulation::new(1);
    let dir = Path::new("/db");
    let db = Database::builder(dir).env(world.env()).open().expect("opened");
    let keyspace = db.keyspace("map", KeyspaceOptions::default()).expect("created").id();
    db.close().expect("closed");
    let fs: Arc<dyn Fs> = Arc::new(world.disk.clone());
    let ledger = Arc::new(Ledger::default());
    let context = |database| TableContext {
        files: OpenFiles::new(Arc::clone(&fs), 1),
        dir: dir.to_path_buf(),
        database,
        cache: BlockCache::new(1 << 20, Arc::clone(&ledger)),
        ledger: Arc::clone(&ledger),
        source: TableSource::Buffered,
    };
    let (versions, _) = VersionSet::recover(&fs, dir, context, |_| Ok(()), false).expect("whole");
    let tables = (0..NESTED).map(|n| {
        let number = versions.allocate();
        fs.create(&dir.join(FileName::Table(number).to_string()))
            .and_then(|file| file.set_len(1))
            .expect("made");
        let (smallest, largest) = (n.to_be_bytes().to_vec(), (3 * NESTED - n).to_be_bytes().to_vec());
        let meta = TableMeta {
            number,
            keyspace,
            file_bytes: 1,
            bounds: KeyBounds { smallest, largest, largest_exclusive: false },
            smallest_seqno: SeqNo(number.0),
            largest_seqno: SeqNo(number.0),
            entries: 1,
            point_tombstones: 0,
            merge_operands: 0,
            hidden_versions: 0,
            range_tombstones: 0,
            key_bytes: 1,
            value_bytes: 0,
            content_hash: 0,
            created_millis: 0,
            blobs: Vec::new(),
        };
        Edit::AddTable { level: 0, meta }
    });
    versions.commit(tables.collect()).expect("committed");
    world
}

/// To open a manifest takes memory in proportion to it, however tables overlap; so does picking what to compact of them.
fn nested_tables_take_little_memory() {
    for read_only in [true, false] {
        let world = nested_tables();
        limit(Some(NESTED_BYTES));
        let small =
            DatabaseOptions { memtable_bytes_max: 1 << 20, cache_bytes: 0, ..DatabaseOptions::default() };
        let builder = Database::builder("/db").options(small).read_only(read_only);
        let db = builder.env(world.env()).open();
        limit(None);
        assert_eq!(db.expect("opened").metrics().keyspaces[0].levels[0].tables, u64::from(NESTED));
    }
}

#[test]
fn what_is_too_large_for_the_memory_there_is_changes_nothing() {
    // In a file of its own, in a block, and in one that the cache would take.
    let inline = KeyspaceOptions::default().with_blob_bytes_min(0);
    a_large_value_changes_nothing(0, &KeyspaceOptions::default());
    a_large_value_changes_nothing(0, &inline);
    a_large_value_changes_nothing(2 * LARGE_BYTES as u64, &inline);
    nested_tables_take_little_memory();
}
