//! Snapshots: one moment of the whole database, readable for as long as the handle lives.

use std::sync::Arc;

use esker_base::SeqNo;

use crate::Database;
use crate::core::Core;
use crate::snapshot_list::Pin;

/// One moment of all keyspaces. Reads through [`Keyspace::at`](crate::Keyspace::at) see every commit
/// before it, whole, and none after it. A cheap handle; while it lives, compaction keeps what it sees.
///
/// A keyspace that is dropped afterwards is gone for it too: `at` errs with [`Error::NoSuchKeyspace`](crate::Error::NoSuchKeyspace),
/// while a [`Reader`](crate::Reader) or scan that was made before goes on.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = esker::Database::open(dir.path())?;
/// let users = db.keyspace("users", esker::KeyspaceOptions::default())?;
/// users.put("7", "Olya")?;
/// let before = db.snapshot();
/// users.put("7", "Olga")?;
/// assert_eq!(users.at(&before)?.get("7")?.as_deref(), Some(&b"Olya"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Snapshot {
    db: Database,
    pin: Arc<Pin>,
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot")
            .field("db", &self.db)
            .field("seqno", &self.seqno())
            .finish_non_exhaustive()
    }
}

impl Snapshot {
    pub(crate) fn new(db: Database) -> Self {
        let pin = Arc::new(db.core().snapshots.pin());
        Snapshot { db, pin }
    }

    /// The number of the last operation it sees.
    pub fn seqno(&self) -> SeqNo {
        self.pin.seqno()
    }

    pub(crate) fn pin(&self) -> &Arc<Pin> {
        &self.pin
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        self.db.core()
    }
}
