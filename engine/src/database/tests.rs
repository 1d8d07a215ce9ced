use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use esker_manifest::Edit;
use esker_vfs::Env;
use esker_vfs::fs::{Fs, read_all};
use esker_vfs::mem::MemFs;
use esker_vfs::sim::Simulation;

use crate::{Database, Error, KeyspaceOptions};

const DIR: &str = "/db";

/// A database with the keyspaces `plain`, which has a row, and `other`, as another program or build creates it.
fn with_keyspace(other: Vec<u8>) -> MemFs {
    let disk = MemFs::simulated();
    let db = Database::builder(DIR).env(Simulation::on(disk.clone(), 1).env()).open().expect("opened");
    db.keyspace("plain", KeyspaceOptions::default()).expect("created").put("key", "value").expect("put");
    let versions = &db.core().versions;
    let id = versions.current().next_keyspace();
    let create = Edit::CreateKeyspace { id, name: "other".to_owned(), options: other };
    versions.commit(vec![create]).expect("committed");
    db.close().expect("closed");
    disk
}

fn open(disk: &MemFs, read_only: bool) -> crate::Result<Database> {
    Database::builder(DIR).read_only(read_only).env(Simulation::on(disk.clone(), 2).env()).open()
}

/// What an open for writing errs with, which changes no file.
fn refused(disk: &MemFs) -> Error {
    let files = || -> BTreeMap<String, Vec<u8>> {
        let names = disk.list(Path::new(DIR)).expect("listed").into_iter().map(|entry| entry.name);
        let content = |name: &str| read_all(disk, &Path::new(DIR).join(name), u64::MAX).expect("read");
        names.map(|name| (name.clone(), content(&name))).collect()
    };
    let before = files();
    let error = open(disk, false).expect_err("refused");
    assert!(before == files(), "it has changed the directory: {error}");
    error
}

#[test]
fn a_keyspace_that_the_program_cannot_work_with_is_named_and_nothing_is_changed() {
    let own = KeyspaceOptions::default().with_merge_operator("own");
    let disk = with_keyspace(own.encode());
    let error = refused(&disk);
    assert!(matches!(&error, Error::InvalidArgument { what } if what.contains("\"own\"")), "{error}");
    open(&disk, true).expect("for reading only").existing_keyspace("plain").expect("there");

    let damaged = refused(&with_keyspace(vec![0xff; 3]));
    assert!(matches!(damaged, Error::Corruption { .. }), "{damaged}");
}

/// A build without zstd says what it lacks, and that nothing is damaged.
#[cfg(not(feature = "zstd"))]
#[test]
fn a_codec_that_the_build_lacks_is_named_and_nothing_is_changed() {
    let zstd = KeyspaceOptions::default().with_compression(crate::Compression::Zstd { level: 3 });
    let disk = with_keyspace(zstd.encode());
    for error in [refused(&disk), open(&disk, true).expect_err("refused")] {
        let Error::InvalidArgument { what } = error else { panic!("{error}") };
        for part in ["keyspace \"other\"", "zstd", "feature `zstd`"] {
            assert!(what.contains(part), "{part:?} is not in {what}");
        }
    }

    let env = Simulation::on(disk.clone(), 3).env();
    let salvaged = crate::salvage::Salvage::of(DIR).env(env).run("/new").expect("salvaged");
    assert_eq!(salvaged.rows, BTreeMap::from([("plain".to_owned(), 1), ("other".to_owned(), 0)]));
    let [loss] = &salvaged.losses[..] else { panic!("{:?}", salvaged.losses) };
    assert!(loss.what.contains("keyspace other is compressed with zstd"), "{loss:?}");
}

/// After a close the directory may be another handle's: whoever is still about to make a file there hears so.
#[test]
fn nothing_is_in_place_once_the_lock_is_given_up() {
    let db = Database::in_memory().expect("opened");
    db.keyspace("map", KeyspaceOptions::default()).expect("created");
    let core = Arc::clone(db.core());
    core.in_place().expect("it is locked");
    db.close().expect("closed");
    assert!(matches!(core.in_place(), Err(Error::Closed { .. })));
    assert!(matches!(core.check_in_place(), Err(Error::Closed { .. })));
}

/// Whoever waits until everything has settled is not going to write for a while: what lies ready for the next memtable goes back.
#[test]
fn memory_for_memtables_goes_back_when_everything_has_settled() {
    let (world, hands) = Env::simulated(1);
    let env = Env { fs: Arc::new(MemFs::new()), ..world };
    let db = Database::builder("/db").env(env).open().expect("opened");
    let map = db.keyspace("map", KeyspaceOptions::default()).expect("created");
    let held = || db.metrics().memory.iter().find(|(what, _)| *what == "memtables").expect("an account").1;
    for n in 0..40_000u32 {
        map.put(n.to_be_bytes(), [7; 1000]).expect("put");
    }
    db.flush().expect("flushed");
    // Nothing is left to be done: who waits now looks once.
    hands.steps.settle();
    assert!(held() > 30 << 20, "{} bytes are kept for the next memtable", held());
    db.wait_for_compactions().expect("settled");
    assert!(held() < 1 << 20, "{} bytes are kept for nobody", held());
}
