use std::sync::Arc;

use esker_vfs::Env;
use esker_vfs::mem::MemFs;

use crate::{Database, Error, KeyspaceOptions};

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
