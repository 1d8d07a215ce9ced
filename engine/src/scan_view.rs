//! What a scan reads, and in whose name: one keyspace at one moment.
//!
//! Everything that belongs to one scan shares one of these. The counts of what all readers share (superversion, tree) are
//! written once for a scan, and not once for each of its sources, because threads that make scans write to the same lines.

use std::sync::{Arc, Weak};

use esker_base::{KeyspaceId, MergeOperator, SeqNo};
use esker_manifest::Tree;

use crate::core::Core;
use crate::memtable::Memtable;
use crate::snapshot_list::Pin;
use crate::superversion::SuperVersion;

/// See the module. It survives flushes, compactions and the keyspace's drop.
pub(crate) struct ScanView {
    pub(crate) superversion: Arc<SuperVersion>,
    pub(crate) keyspace: KeyspaceId,
    pub(crate) tree: Arc<Tree>,
    pub(crate) operator: Option<Arc<dyn MergeOperator>>,
    pub(crate) read_seqno: SeqNo,
    /// A transaction's own writes, seen up to the given number of theirs.
    pub(crate) own: Option<(Arc<Memtable>, SeqNo)>,
    /// A snapshot's pin: the superversion alone keeps what the scan reads, but whoever asks the database
    /// which snapshots are open is told of this one.
    pub(crate) _pin: Option<Arc<Pin>>,
    pub(crate) fill_cache: bool,
    /// The database, which knows of dead ranges. Weak: a scan must not keep it open.
    pub(crate) core: Weak<Core>,
    /// After this many dead rows in a row it is asked: [`DatabaseOptions::dead_run`](crate::DatabaseOptions::dead_run).
    pub(crate) dead_run: u32,
    /// For how many scans this one tells the database what a short walk has cost; mostly for none.
    pub(crate) speaks_for: u64,
}

impl ScanView {
    /// `keyspace` as `superversion` has it, if it does, up to `read_seqno`, for the database itself: nothing is cached, and nobody
    /// asked or told.
    pub(crate) fn new(
        superversion: Arc<SuperVersion>,
        keyspace: KeyspaceId,
        read_seqno: SeqNo,
    ) -> Option<ScanView> {
        let tree = Arc::clone(&superversion.version.keyspace(keyspace)?.tree);
        Some(ScanView {
            superversion,
            keyspace,
            tree,
            operator: None,
            read_seqno,
            own: None,
            _pin: None,
            fill_cache: false,
            core: Weak::new(),
            dead_run: u32::MAX,
            speaks_for: 0,
        })
    }
}
