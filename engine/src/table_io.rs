//! From the database's settings to the inputs and outputs of merge runs: what flush and compaction
//! share.

use std::sync::Arc;

use esker_base::range_tombstone::Fragments;
use esker_base::{KeyspaceId, MergeOperator, Result};
use esker_compaction::{Below, Chain, Cut, MergeRun, Plan, RunInput, RunSource, Settings, flush_cut};
use esker_manifest::Tree;
use esker_sstable::{TableContext, TableCursor, TableIdentity, TableOptions, TableWriter};

use crate::core::Core;
use crate::memtable::MemtableCursor;
use crate::options::{DatabaseOptions, KeyspaceOptions};

/// The compaction settings that `options` stand for.
pub(crate) fn compaction_settings(options: &DatabaseOptions) -> Settings {
    Settings {
        l0_tables_trigger: options.l0_tables_trigger,
        l0_tables_trigger_loaded: (4 * options.l0_tables_trigger).min(options.l0_tables_slowdown),
        base_bytes: options.level_base_bytes.max(options.table_bytes),
        fanout: options.level_fanout,
        table_bytes: options.table_bytes,
        job_bytes_max: Settings::default().job_bytes_max.max(options.table_bytes),
        flush_split_bytes: (options.table_bytes / 2).max(4 << 10),
        ..Settings::default()
    }
}

/// Where a run's tables go.
pub(crate) struct Output {
    core: Arc<Core>,
    keyspace: KeyspaceId,
    level: u8,
    options: KeyspaceOptions,
    operator: Option<Arc<dyn MergeOperator>>,
    tree: Arc<Tree>,
}

impl Output {
    /// Output into `level` of `keyspace`, or `None` if it was dropped.
    pub(crate) fn new(core: &Arc<Core>, keyspace: KeyspaceId, level: u8) -> Result<Option<Self>> {
        let Some(options) = core.keyspace_options(keyspace)? else { return Ok(None) };
        let version = core.versions.current();
        let Some(state) = version.keyspace(keyspace) else { return Ok(None) };
        let operator =
            options.merge_operator.as_deref().map(|name| core.operators.find(name)).transpose()?;
        let (core, tree) = (Arc::clone(core), Arc::clone(&state.tree));
        Ok(Some(Output { core, keyspace, level, options, operator, tree }))
    }

    /// A run that turns a memtable's entries into level-0 tables.
    pub(crate) fn flush_run(
        self,
        cursor: MemtableCursor,
        tombstones: Option<Arc<Fragments>>,
    ) -> MergeRun<MemtableCursor> {
        let settings = compaction_settings(&self.core.options);
        let cut = flush_cut(&self.tree, &settings);
        let below = Below::flush(&self.tree);
        let sources = vec![RunSource::of_memtable(cursor, tombstones)];
        MergeRun::new(self.input(sources, below, cut))
    }

    /// A run that carries out `plan`.
    pub(crate) fn compaction_run(self, plan: &Plan) -> Result<MergeRun<Chain<TableCursor>>> {
        let sources = RunSource::of_plan(plan, |table| table.reader().cloned())?;
        let below = Below::plan(plan, &self.tree);
        Ok(MergeRun::new(self.input(sources, below, plan.cut.clone())))
    }

    fn input<C: esker_base::Cursor>(
        self,
        sources: Vec<RunSource<C>>,
        below: Below,
        cut: Cut,
    ) -> RunInput<C> {
        RunInput {
            sources,
            snapshots: self.core.snapshots.boundaries(),
            below,
            output_level: self.level,
            operator: self.operator.clone(),
            cut,
            context: self.core.table_context(),
            outputs: self.make_writer(),
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
            let number = core.versions.allocate();
            let identity = TableIdentity { database: core.database, number, keyspace: self.keyspace };
            TableWriter::create(&core.env.fs, &core.dir, identity, options, core.env.clock.wall_millis())
        })
    }
}

impl Core {
    /// Where tables lie and what reading them shares.
    pub(crate) fn table_context(&self) -> TableContext {
        TableContext {
            fs: Arc::clone(&self.env.fs),
            dir: self.dir.clone(),
            database: self.database,
            cache: Arc::clone(&self.cache),
            ledger: Arc::clone(&self.ledger),
            source: self.options.table_source,
        }
    }
}
