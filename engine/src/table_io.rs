//! From the database's settings to the inputs and outputs of merge runs: what flush and compaction
//! share.

use std::path::PathBuf;
use std::sync::Arc;

use esker_base::blob::BlobPointer;
use esker_base::{Error, FileNumber, KeyspaceId, MergeOperator, Result, SeqNo};
use esker_compaction::{
    Below, BlobRules, Cut, LevelCursor, MergeRun, Part, Plan, RemoveFile, RunInput, RunSource, Settings,
    flush_cut, subcompaction,
};
use esker_manifest::{BlobHandle, TableHandle, Tree};
use esker_sstable::{BlobWriter, TableCursor, TableIdentity, TableOptions, TableWriter};
use esker_vfs::scheduler::Lane;

use crate::core::Core;
use crate::jobs::remove_files;
use crate::memtable::{Memtable, MemtableCursor};
use crate::options::{DatabaseOptions, KeyspaceOptions};

/// The compaction settings that `options` stand for.
pub(crate) fn compaction_settings(options: &DatabaseOptions) -> Settings {
    Settings {
        l0_tables_trigger: options.l0_tables_trigger,
        l0_tables_trigger_loaded: (5 * options.l0_tables_trigger).min(options.l0_tables_slowdown),
        memtable_bytes: options.memtable_full_bytes().max(1 << 10),
        base_bytes: options.level_base().max(options.table_bytes),
        fanout: options.level_fanout,
        table_bytes: options.table_bytes,
        job_bytes_max: Settings::default().job_bytes_max.max(options.table_bytes),
        flush_split_bytes: (options.table_bytes / 4).max(4 << 10),
        ..Settings::default()
    }
}

/// A blob file is closed when it is as large as this many full tables: that of a flush is one file, so that what was
/// written together can be walked in one sweep, and few files are open.
const BLOB_FILE_TABLES: u64 = 2;

/// The pointer that a row of a table has for its value.
pub(crate) fn pointer(bytes: &[u8], table: impl FnOnce() -> Result<PathBuf>) -> Result<BlobPointer> {
    match BlobPointer::decode(bytes) {
        Ok(pointer) => Ok(pointer),
        Err(error) => {
            let what = format!("a row refers to a blob file with a bad {}", error.what);
            Err(Error::corruption(table()?, 0, what))
        }
    }
}

/// Where a run's tables go.
#[derive(Clone)]
pub(crate) struct Output {
    core: Arc<Core>,
    keyspace: KeyspaceId,
    level: u8,
    options: KeyspaceOptions,
    operator: Option<Arc<dyn MergeOperator>>,
    tree: Arc<Tree>,
    /// Taken once for all parts of a compaction.
    snapshots: Vec<SeqNo>,
}

impl Output {
    /// Output into `level` of `keyspace`, or `None` if it was dropped.
    pub(crate) fn new(core: &Arc<Core>, keyspace: KeyspaceId, level: u8) -> Result<Option<Self>> {
        let Some(options) = core.keyspace_options(keyspace)? else { return Ok(None) };
        let version = core.versions.current();
        let Some(state) = version.keyspace(keyspace) else { return Ok(None) };
        let operator =
            options.merge_operator.as_deref().map(|name| core.operators.find(name)).transpose()?;
        let (tree, snapshots) = (Arc::clone(&state.tree), core.snapshots.boundaries());
        Ok(Some(Output { core: Arc::clone(core), keyspace, level, options, operator, tree, snapshots }))
    }

    /// The runs that together turn a memtable's entries into level-0 tables: one, or one for each part that is worth having.
    pub(crate) fn flush_runs(&self, memtable: &Arc<Memtable>) -> Vec<MergeRun<MemtableCursor>> {
        let settings = compaction_settings(&self.core.options);
        let cut = flush_cut(&self.tree, &settings);
        let below = Below::flush(&self.tree);
        // The first flush of all, which columns will follow, is cut by size alone.
        let worth = if self.tree.is_empty() { 1 } else { memtable.bytes() / self.core.options.table_bytes };
        let parts = usize::try_from(worth).unwrap_or(usize::MAX).min(self.hands());
        let cuts = subcompaction::flush_cuts(&memtable.separators(self.keyspace), &cut, parts);
        let run = |part| {
            let source = RunSource::of_memtable(
                memtable.cursor(self.keyspace),
                memtable.tombstones(self.keyspace, SeqNo::MAX),
            );
            let blobs = self.blob_rules(Vec::new(), Arc::default());
            MergeRun::new(self.clone().input(vec![source], below.clone(), cut.clone(), part, blobs))
        };
        Part::between(&cuts).into_iter().map(run).collect()
    }

    /// How many threads may share in a job.
    fn hands(&self) -> usize {
        let scheduler = &self.core.env.scheduler;
        scheduler.width(Lane::Compaction) + scheduler.width(Lane::Flush)
    }

    /// The runs that carry out `plan` together: one, or one for each part that is worth having.
    pub(crate) fn compaction_runs(&self, plan: &Plan) -> Result<Vec<MergeRun<LevelCursor<TableCursor>>>> {
        let open = |table: &Arc<TableHandle>| table.reader().cloned();
        let readers = plan.tables().map(|(_, table)| open(table)).collect::<Result<Vec<_>>>()?;
        let below = Below::plan(plan, &self.tree);
        let parts = Part::between(&subcompaction::cuts(&readers, plan.parts(self.hands())));
        let run = |part| {
            let sources = RunSource::of_plan(plan, open)?;
            let blobs = self.blob_rules(plan.blobs(), Arc::clone(&plan.collect));
            Ok(MergeRun::new(self.clone().input(sources, below.clone(), plan.cut.clone(), part, blobs)))
        };
        parts.into_iter().map(run).collect()
    }

    fn input<C: esker_base::Cursor>(
        self,
        sources: Vec<RunSource<C>>,
        below: Below,
        cut: Cut,
        part: Part,
        blobs: BlobRules,
    ) -> RunInput<C> {
        RunInput {
            sources,
            snapshots: self.snapshots.clone(),
            below,
            output_level: self.level,
            part,
            operator: self.operator.clone(),
            cut,
            context: self.core.tables.clone(),
            remove: self.remover(),
            blobs,
            outputs: self.make_writer(),
        }
    }

    /// Removes what a run that is given up has written.
    fn remover(&self) -> RemoveFile {
        let core = Arc::clone(&self.core);
        Box::new(move |file| remove_files(&core, [file]))
    }

    /// What a run does with values in blob files, whose inputs refer to `sources`.
    fn blob_rules(&self, sources: Vec<Arc<BlobHandle>>, collect: Arc<[FileNumber]>) -> BlobRules {
        let (core, keyspace) = (Arc::clone(&self.core), self.keyspace);
        BlobRules {
            bytes_min: self.options.blob_threshold(),
            file_bytes: BLOB_FILE_TABLES * self.core.options.table_bytes,
            make: Box::new(move || {
                // No listener is told here: a helper may hold a part that the job waits for.
                core.in_place()?;
                let number = core.versions.allocate();
                let identity = TableIdentity { database: core.database, number, keyspace };
                core.giving_up(|| BlobWriter::create(&core.env.fs, &core.dir, identity))
            }),
            sources,
            collect,
        }
    }

    /// Makes the writer of the next table.
    fn make_writer(self) -> Box<dyn FnMut() -> Result<TableWriter> + Send> {
        let options = TableOptions {
            block_bytes: self.options.block_bytes,
            compression: self.options.compression_at(self.level),
            filter_bits_per_key: self.options.filter_bits_per_key,
        };
        Box::new(move || {
            let core = &self.core;
            // As for blob files.
            core.in_place()?;
            let number = core.versions.allocate();
            let identity = TableIdentity { database: core.database, number, keyspace: self.keyspace };
            let now = core.env.clock.wall_millis();
            let create = || TableWriter::create(&core.env.fs, &core.dir, identity, options, now);
            let writer = core.giving_up(create)?;
            Ok(if self.level == 0 { writer.packed() } else { writer })
        })
    }
}
