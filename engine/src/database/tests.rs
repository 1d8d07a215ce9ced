use std::sync::Arc;

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
