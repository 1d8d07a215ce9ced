//! Makers of edits and tables that this crate's tests share.

pub(crate) mod disk;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use esker_base::blob::BlobMeta;
use esker_base::filename::FileName;
use esker_base::ledger::Ledger;
use esker_base::table_meta::{KeyBounds, TableMeta};
use esker_base::{DatabaseId, FileNumber, KeyspaceId, Result, SeqNo};
use esker_sstable::{BlockCache, TableContext, TableSource};
use esker_vfs::fs::Fs;
use esker_vfs::open_files::OpenFiles;
use proptest::prelude::*;

use crate::{Edit, LEVELS, Recovered, TableHandle, Version, VersionSet};
use disk::Disk;

/// The directory of every test.
pub(crate) fn dir() -> &'static Path {
    Path::new("/db")
}

/// How the tables of `database` on `disk` are opened.
pub(crate) fn context(fs: &Arc<dyn Fs>, dir: &Path, database: DatabaseId) -> TableContext {
    let ledger = Arc::new(Ledger::default());
    let cache = BlockCache::new(1 << 20, Arc::clone(&ledger));
    let source = TableSource::Buffered;
    let files = OpenFiles::new(Arc::clone(fs), usize::MAX);
    TableContext { files, dir: dir.to_path_buf(), database, cache, ledger, source }
}

/// The id of every new database.
pub(crate) const DATABASE: DatabaseId = DatabaseId([9; 16]);

/// A new database on `disk`.
pub(crate) fn create(disk: &Disk) -> Result<VersionSet> {
    VersionSet::create(&disk.fs(), dir(), DATABASE, context(&disk.fs(), dir(), DATABASE))
}

/// The database on `disk`, open for writing.
pub(crate) fn recover(disk: &Disk) -> Result<(VersionSet, Recovered)> {
    VersionSet::recover(&disk.fs(), dir(), |id| context(&disk.fs(), dir(), id), |_| Ok(()), false)
}

/// The database on `disk`, open for reading only.
pub(crate) fn recover_read_only(disk: &Disk) -> Result<(VersionSet, Recovered)> {
    VersionSet::recover(&disk.fs(), dir(), |id| context(&disk.fs(), dir(), id), |_| Ok(()), true)
}

/// A file as long as the table is said to be; its bytes are synced, its name is not.
pub(crate) fn write_table(disk: &Disk, meta: &TableMeta) -> Result<()> {
    let file = disk.fs().create(&dir().join(FileName::Table(meta.number).to_string()))?;
    file.set_len(meta.file_bytes)?;
    file.sync()
}

/// A file as long as the blob file is said to be.
pub(crate) fn write_blob(disk: &Disk, meta: &BlobMeta) -> Result<()> {
    let file = disk.fs().create(&dir().join(FileName::Blob(meta.number).to_string()))?;
    file.set_len(meta.file_bytes)?;
    file.sync()
}

/// Tables by number, each with its level.
pub(crate) type Tables = BTreeMap<u64, (u8, TableMeta)>;

/// All that a version says, but for the mark of file numbers: keyspaces by id with their tables by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Picture {
    pub(crate) keyspaces: BTreeMap<u32, (String, Vec<u8>, Tables)>,
    pub(crate) blobs: BTreeMap<u64, BlobMeta>,
    pub(crate) first_log: u64,
    pub(crate) closed_logs: BTreeMap<u64, u64>,
    pub(crate) durable_log: Option<(u64, u64)>,
    pub(crate) last_seqno: u64,
}

impl Picture {
    pub(crate) fn of(version: &Version) -> Picture {
        let keyspaces = version.keyspaces().iter().map(|keyspace| {
            let tables = keyspace.tree.tables();
            let tables = tables.map(|(level, table)| (table.number().0, (level, table.meta.clone())));
            (keyspace.id.0, (keyspace.name.clone(), keyspace.options.clone(), tables.collect()))
        });
        let marks = version.marks();
        Picture {
            keyspaces: keyspaces.collect(),
            blobs: version
                .keyspaces()
                .iter()
                .flat_map(|keyspace| keyspace.tree.blobs())
                .map(|blob| (blob.handle.number().0, blob.handle.meta))
                .collect(),
            first_log: marks.first_log.0,
            closed_logs: marks.closed_logs.iter().map(|(number, len)| (number.0, *len)).collect(),
            durable_log: marks.durable_log.map(|(number, len)| (number.0, len)),
            last_seqno: marks.last_seqno.0,
        }
    }

    /// What `edits` make of this, by the plainest of means.
    pub(crate) fn edited(&self, edits: &[Edit]) -> Picture {
        let mut next = self.clone();
        let mut edits = edits.to_vec();
        edits.sort_by_key(Edit::kind);
        for edit in edits {
            match edit {
                Edit::DropKeyspace { id } => {
                    next.keyspaces.remove(&id.0).expect("a keyspace to drop");
                }
                Edit::CreateKeyspace { id, name, options } => {
                    next.keyspaces.insert(id.0, (name, options, BTreeMap::new()));
                }
                Edit::RemoveTable { keyspace, number, .. } => {
                    let (_, _, tables) = next.keyspaces.get_mut(&keyspace.0).expect("its keyspace");
                    tables.remove(&number.0).expect("a table to remove");
                }
                Edit::AddTable { level, meta } => {
                    let (_, _, tables) = next.keyspaces.get_mut(&meta.keyspace.0).expect("its keyspace");
                    tables.insert(meta.number.0, (level, meta));
                }
                Edit::AddBlob { meta } => {
                    next.blobs.insert(meta.number.0, meta);
                }
                Edit::ClosedLog { number, len } => {
                    next.closed_logs.insert(number.0, len);
                }
                Edit::ForgetLogs { before } => {
                    next.first_log = before.0;
                    next.closed_logs.retain(|&number, _| number >= before.0);
                    next.durable_log = next.durable_log.filter(|(number, _)| *number >= before.0);
                }
                Edit::LastSeqNo(seqno) => next.last_seqno = seqno.0,
                Edit::DurableLog { number, len } => next.durable_log = Some((number.0, len)),
                Edit::NextFile(_) | Edit::NextKeyspace(_) | Edit::CleanClose { .. } => {}
            }
        }
        let tables = next.keyspaces.values().flat_map(|(_, _, tables)| tables.values());
        let referred: BTreeSet<u64> =
            tables.flat_map(|(_, meta)| &meta.blobs).map(|part| part.number.0).collect();
        next.blobs.retain(|number, _| referred.contains(number));
        next
    }
}

/// A plausible table of keyspace `keyspace` with inclusive bounds.
pub(crate) fn meta(number: u64, keyspace: u32, smallest: &[u8], largest: &[u8]) -> TableMeta {
    TableMeta {
        number: FileNumber(number),
        keyspace: KeyspaceId(keyspace),
        file_bytes: 1000 + number,
        bounds: KeyBounds {
            smallest: smallest.to_vec(),
            largest: largest.to_vec(),
            largest_exclusive: false,
        },
        smallest_seqno: SeqNo(number),
        largest_seqno: SeqNo(number + 5),
        entries: 10,
        point_tombstones: 2,
        merge_operands: 1,
        hidden_versions: 0,
        range_tombstones: 0,
        key_bytes: 100,
        value_bytes: 200,
        content_hash: 0x1234_5678_9ABC_DEF0 ^ number,
        created_millis: 1_700_000_000_000,
        blobs: Vec::new(),
    }
}

/// A detached handle of such a table.
pub(crate) fn table(number: u64, smallest: &[u8], largest: &[u8]) -> Arc<TableHandle> {
    TableHandle::detached(meta(number, 1, smallest, largest))
}

/// Keys that often share their first eight bytes, are prefixes of each other, or differ in zeros.
pub(crate) fn keys() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..4),
        proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(0xFF)], 0..12),
        (0u32..300).prop_map(|n| format!("common-prefix-{n:04}").into_bytes()),
    ]
}

/// Any table that passes the checks.
pub(crate) fn metas() -> impl Strategy<Value = TableMeta> {
    let small = 0u64..1 << 40;
    (
        (small.clone(), 0u32..1 << 30, small.clone(), keys(), keys(), any::<bool>()),
        (small.clone(), small.clone(), [0u64..1 << 40, 0u64..1 << 40, 0u64..1 << 40]),
        (small.clone(), small.clone(), small.clone(), any::<u64>(), small, 0u64..3),
    )
        .prop_map(
            |(
                (number, keyspace, file_bytes, a, b, exclusive),
                (s, t, [e, p, m]),
                (r, k, v, hash, created, h),
            )| {
                TableMeta {
                    number: FileNumber(number),
                    keyspace: KeyspaceId(keyspace),
                    file_bytes,
                    bounds: KeyBounds {
                        largest_exclusive: exclusive && a != b,
                        smallest: a.clone().min(b.clone()),
                        largest: a.max(b),
                    },
                    smallest_seqno: SeqNo(s.min(t)),
                    largest_seqno: SeqNo(s.max(t)),
                    entries: e + p + m + h,
                    point_tombstones: p,
                    merge_operands: m,
                    hidden_versions: h,
                    range_tombstones: r,
                    key_bytes: k,
                    value_bytes: v,
                    content_hash: hash,
                    created_millis: created,
                    blobs: Vec::new(),
                }
            },
        )
}

/// Any edit that passes the checks.
pub(crate) fn edits() -> impl Strategy<Value = Edit> {
    let id = || (0u32..1 << 30).prop_map(KeyspaceId);
    let number = || prop_oneof![0u64..300, 0u64..1 << 47].prop_map(FileNumber);
    let level = || 0..u8::try_from(LEVELS).expect("few levels");
    let len = || 0u64..1 << 47;
    prop_oneof![
        id().prop_map(|id| Edit::DropKeyspace { id }),
        (id(), "[a-zé]{1,20}", proptest::collection::vec(any::<u8>(), 0..20))
            .prop_map(|(id, name, options)| Edit::CreateKeyspace { id, name, options }),
        (id(), level(), number()).prop_map(|(keyspace, level, number)| Edit::RemoveTable {
            keyspace,
            level,
            number
        }),
        (level(), metas()).prop_map(|(level, meta)| Edit::AddTable { level, meta }),
        (number(), id(), len(), len(), len()).prop_map(|(number, keyspace, a, b, values)| Edit::AddBlob {
            meta: BlobMeta { number, keyspace, file_bytes: a.max(b), values, value_bytes: a.min(b) }
        }),
        (number(), len()).prop_map(|(number, len)| Edit::ClosedLog { number, len }),
        number().prop_map(|before| Edit::ForgetLogs { before }),
        (0u64..1 << 54).prop_map(|n| Edit::LastSeqNo(SeqNo(n))),
        number().prop_map(Edit::NextFile),
        id().prop_map(Edit::NextKeyspace),
        (number(), len()).prop_map(|(log, len)| Edit::CleanClose { log, len }),
        (number(), len()).prop_map(|(number, len)| Edit::DurableLog { number, len }),
    ]
}
