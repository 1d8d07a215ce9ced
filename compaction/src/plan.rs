//! A compaction that was decided on, and why.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use esker_base::blob::BlobMeta;
use esker_base::table_meta::{KeyBounds, TableMeta};
use esker_base::{FileNumber, KeyspaceId};
use esker_manifest::{BlobHandle, Edit, TableHandle, Tree};

use crate::outputs::Cut;
use crate::settings::Settings;

/// What to merge, and where to. Made by the pickers, carried out by a
/// [`MergeRun`](crate::run::MergeRun) or, for a trivial move, by the manifest alone.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The keyspace.
    pub keyspace: KeyspaceId,
    /// Input tables by level, upper level first; level 0 newest first, others in key order. No level
    /// without tables, at least one table.
    pub inputs: Vec<(u8, Vec<Arc<TableHandle>>)>,
    /// Where outputs go: the level of the last inputs, or one that holds nothing inside `bounds`.
    pub output_level: u8,
    /// The inputs change their level as they are; nothing is read or written.
    pub trivial_move: bool,
    /// What all inputs together span. No output reaches out of it.
    pub bounds: KeyBounds,
    /// Where outputs are cut.
    pub cut: Cut,
    /// Blob files whose values are written anew, where the inputs refer to any.
    pub collect: Arc<[FileNumber]>,
    /// Why.
    pub reason: Reason,
}

/// Why a plan was made, for people.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Reason {
    /// Too many level-0 tables lie over one another.
    Level0 {
        /// The most tables over one key.
        depth: usize,
        /// How many tables there are.
        tables: usize,
        /// The depth that was to be reached.
        trigger: usize,
    },
    /// Reads have paid for a merge of level 0.
    Read {
        /// The most tables over one key.
        depth: usize,
        /// How many tables there are.
        tables: usize,
    },
    /// A level is larger than its target.
    Full {
        /// The level.
        level: u8,
        /// Its size in bytes.
        bytes: u64,
        /// Its target in bytes.
        target: u64,
    },
    /// The data has shrunk so much that a level is not needed any more.
    Unneeded {
        /// The level.
        level: u8,
    },
    /// Tombstones take up space, and so do the entries that they hide; or versions do that no reader sees.
    Garbage {
        /// Point tombstones in the table that was picked first.
        tombstones: u64,
        /// Versions in it that stand behind newer ones.
        hidden_versions: u64,
        /// Range tombstones in it.
        range_tombstones: u64,
        /// Its entries.
        entries: u64,
    },
    /// Values that no row refers to take up space in blob files.
    Values {
        /// Their bytes.
        dead: u64,
        /// Bytes of all values in the keyspace's blob files.
        bytes: u64,
    },
    /// Somebody called `compact_range`.
    Asked,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Level0 { depth, tables, trigger } => {
                write!(f, "level 0 is {depth} deep ({tables} tables), the trigger is {trigger}")
            }
            Reason::Read { depth, tables } => {
                write!(f, "reads have paid for a merge of level 0, which is {depth} deep ({tables} tables)")
            }
            Reason::Full { level, bytes, target } => {
                write!(f, "level {level} holds {}, its target is {}", size(*bytes), size(*target))
            }
            Reason::Unneeded { level } => write!(f, "level {level} is not needed for so little data"),
            Reason::Garbage { tombstones, hidden_versions, range_tombstones, entries } => write!(
                f,
                "of {entries} entries {tombstones} are tombstones and {hidden_versions} hidden versions, \
                 and there are {range_tombstones} range tombstones"
            ),
            Reason::Values { dead, bytes } => {
                write!(f, "{} of {} in blob files are dead values", size(*dead), size(*bytes))
            }
            Reason::Asked => write!(f, "compact_range was called"),
        }
    }
}

/// Bytes as people read them.
fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        _ => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
    }
}

impl fmt::Display for Plan {
    /// `merge L0[000009 000008] + L5[000002] -> L5: level 0 is 4 deep …`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", if self.trivial_move { "move" } else { "merge" })?;
        for (at, (level, tables)) in self.inputs.iter().enumerate() {
            let numbers: Vec<String> = tables.iter().map(|table| table.number().to_string()).collect();
            write!(f, "{} L{level}[{}]", if at == 0 { "" } else { " +" }, numbers.join(" "))?;
        }
        write!(f, " -> L{}: {}", self.output_level, self.reason)
    }
}

impl Plan {
    /// A plan over these inputs; levels without tables are left out. Cuts outputs to suit the level
    /// below the output. Panics if there is no table at all.
    pub(crate) fn new(
        tree: &Tree,
        keyspace: KeyspaceId,
        settings: &Settings,
        mut inputs: Vec<(u8, Vec<Arc<TableHandle>>)>,
        output_level: u8,
        reason: Reason,
    ) -> Plan {
        inputs.retain(|(_, tables)| !tables.is_empty());
        let all = inputs.iter().flat_map(|(_, tables)| tables);
        let bounds = hull(all).expect("a plan has at least one input");
        let cut = Cut {
            table_bytes: settings.table_bytes,
            before: match tree.level(output_level + 1) {
                Some(level) => level.overlapping(&bounds).map(|t| t.meta.bounds.smallest.clone()).collect(),
                None => Vec::new(),
            },
            boundary_bytes: settings.table_bytes / 2,
            crossings_max: usize::try_from(settings.fanout * 5 / 2).expect("a fanout is at most 100"),
        };
        let collect = Arc::default();
        Plan { keyspace, inputs, output_level, trivial_move: false, bounds, cut, collect, reason }
    }

    /// The same plan as a trivial move.
    pub(crate) fn into_move(self) -> Plan {
        Plan { trivial_move: true, ..self }
    }

    /// Every input table with its level.
    pub fn tables(&self) -> impl Iterator<Item = (u8, &Arc<TableHandle>)> {
        self.inputs.iter().flat_map(|(level, tables)| tables.iter().map(move |table| (*level, table)))
    }

    /// The upper level.
    pub fn from_level(&self) -> u8 {
        self.inputs.first().map_or(self.output_level, |(level, _)| *level)
    }

    /// What it does and why, without numbers: for counting plans of a kind.
    pub fn kind(&self) -> &'static str {
        match (self.reason, self.trivial_move) {
            (Reason::Level0 { .. }, false) => "merge level 0",
            (Reason::Level0 { .. }, true) => "move level 0",
            (Reason::Read { .. }, false) => "merge read level 0",
            (Reason::Read { .. }, true) => "move read level 0",
            (Reason::Full { .. }, false) => "merge full level",
            (Reason::Full { .. }, true) => "move full level",
            (Reason::Unneeded { .. }, false) => "merge unneeded level",
            (Reason::Unneeded { .. }, true) => "move unneeded level",
            (Reason::Garbage { .. }, false) => "merge garbage",
            (Reason::Garbage { .. }, true) => "move garbage",
            (Reason::Values { .. }, false) => "merge dead values",
            (Reason::Values { .. }, true) => "move dead values",
            (Reason::Asked, false) => "merge as asked",
            (Reason::Asked, true) => "move as asked",
        }
    }

    /// Size of all inputs, in bytes.
    pub fn input_bytes(&self) -> u64 {
        self.tables().map(|(_, table)| table.meta.file_bytes).sum()
    }

    /// The blob files that its inputs refer to, ascending by number.
    pub fn blobs(&self) -> Vec<Arc<BlobHandle>> {
        let all = self.tables().flat_map(|(_, table)| table.blobs());
        let by_number: BTreeMap<FileNumber, &Arc<BlobHandle>> =
            all.map(|blob| (blob.number(), blob)).collect();
        by_number.into_values().cloned().collect()
    }

    /// The edits that put `outputs` in the inputs' place, with the blob files that were written for them; of a
    /// trivial move, that move the inputs (and `outputs` is not looked at).
    pub fn edits(&self, outputs: &[TableMeta], blobs: &[BlobMeta]) -> Vec<Edit> {
        let removed = self.tables().map(|(level, table)| Edit::RemoveTable {
            keyspace: self.keyspace,
            level,
            number: table.number(),
        });
        let add = |meta: &TableMeta| Edit::AddTable { level: self.output_level, meta: meta.clone() };
        if self.trivial_move {
            removed.chain(self.tables().map(|(_, table)| add(&table.meta))).collect()
        } else {
            let blobs = blobs.iter().map(|meta| Edit::AddBlob { meta: *meta });
            removed.chain(blobs).chain(outputs.iter().map(add)).collect()
        }
    }
}

/// What `tables` together span, or `None` without tables.
pub(crate) fn hull<'a>(tables: impl IntoIterator<Item = &'a Arc<TableHandle>>) -> Option<KeyBounds> {
    let mut tables = tables.into_iter().map(|table| &table.meta.bounds);
    let first = tables.next()?.clone();
    Some(tables.fold(first, |hull, bounds| hull.union(bounds)))
}
