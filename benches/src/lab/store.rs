//! Where fresh stores come from.

use std::ops::Deref;

use esker::{Database, DatabaseOptions, KeyspaceOptions};
use esker_layouts::OpCost;
use esker_layouts::engine::EngineStore;
use esker_layouts::kv::{Bytes, Caps, Costed, OrderedKv, Write};
use esker_layouts::map::MapStore;
use tempfile::TempDir;

/// How a store is set up, where an experiment wants it otherwise than by default.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Settings of the database. Reads have nothing merged here, unlike by default: what one costs is not to depend on
    /// how many were measured before it.
    pub database: DatabaseOptions,
    /// Settings of its keyspace; the merge operator is the layouts' own.
    pub keyspace: KeyspaceOptions,
    /// Whether its files are held in memory: for many small stores that would wait for one disk.
    pub in_memory: bool,
}

impl Default for Setup {
    fn default() -> Self {
        let database = DatabaseOptions { compact_for_reads: false, ..DatabaseOptions::default() };
        Setup { database, keyspace: KeyspaceOptions::default(), in_memory: false }
    }
}

/// Opens empty stores of one kind.
pub trait Store {
    /// The store. Dropping it frees whatever it occupied.
    type Kv: OrderedKv + 'static;

    /// The store's name, for reports.
    fn name(&self) -> &'static str;

    /// A fresh, empty store.
    fn open(&self) -> esker_layouts::Result<Self::Kv> {
        self.open_as(&Setup::default())
    }

    /// A fresh, empty store that is set up as `setup` says, as far as it has such settings.
    fn open_as(&self, setup: &Setup) -> esker_layouts::Result<Self::Kv>;

    /// Bring the store to rest: everything written is in tables, and no compaction is due.
    fn settle(&self, kv: &Self::Kv) -> esker_layouts::Result<()>;

    /// [`settle`](Self::settle), and merge all tables down to the last level: a store as after a night's
    /// major compaction, whose reads merge nothing.
    fn compact(&self, kv: &Self::Kv) -> esker_layouts::Result<()>;

    /// Bytes the store takes on disk; `None` if it has none.
    fn disk_bytes(&self, kv: &Self::Kv) -> Option<u64>;

    /// The same store closed and opened again as `setup` says, with nothing of it in its caches. The
    /// keyspace's settings must be those it was made with; what was not settled may be lost. A store that
    /// cannot be opened again comes back as it is, as warm as it was.
    fn reopen_as(&self, kv: Self::Kv, _setup: &Setup) -> esker_layouts::Result<Self::Kv> {
        Ok(kv)
    }

    /// Bytes that flushes and compactions have written to tables since the store was opened; `None` if it
    /// does not tell.
    fn table_bytes_written(&self, _kv: &Self::Kv) -> Option<u64> {
        None
    }
}

/// Opens reference stores in memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct MapFactory;

impl Store for MapFactory {
    type Kv = MapStore;

    fn name(&self) -> &'static str {
        "map (multi-version BTreeMap in memory)"
    }

    fn open_as(&self, _setup: &Setup) -> esker_layouts::Result<MapStore> {
        Ok(MapStore::new())
    }

    fn settle(&self, _kv: &MapStore) -> esker_layouts::Result<()> {
        Ok(())
    }

    fn compact(&self, _kv: &MapStore) -> esker_layouts::Result<()> {
        Ok(())
    }

    fn disk_bytes(&self, _kv: &MapStore) -> Option<u64> {
        None
    }
}

/// Opens esker databases with default settings, each in a temporary directory of its own, or in memory where
/// the setup wants it.
#[derive(Clone, Copy, Debug, Default)]
pub struct EngineFactory;

/// A database in a temporary directory, which goes with it; or in memory.
#[derive(Debug)]
pub struct TemporaryEngine {
    // Fields drop in order: the database closes before its directory goes.
    store: EngineStore,
    /// `None` for one in memory.
    directory: Option<TempDir>,
}

impl TemporaryEngine {
    fn in_directory(directory: TempDir, setup: &Setup) -> esker_layouts::Result<TemporaryEngine> {
        let builder = Database::builder(directory.path()).options(setup.database.clone());
        let store = EngineStore::build_with(builder, "lab", setup.keyspace.clone())?;
        Ok(TemporaryEngine { store, directory: Some(directory) })
    }
}

impl Deref for TemporaryEngine {
    type Target = EngineStore;

    fn deref(&self) -> &EngineStore {
        &self.store
    }
}

impl OrderedKv for TemporaryEngine {
    type Read<'a> = <EngineStore as OrderedKv>::Read<'a>;
    type Tx<'a> = <EngineStore as OrderedKv>::Tx<'a>;

    fn caps(&self) -> &Caps {
        self.store.caps()
    }

    fn read(&self) -> esker_layouts::Result<Self::Read<'_>> {
        self.store.read()
    }

    fn update<T>(
        &self,
        f: impl FnMut(&mut Self::Tx<'_>) -> esker_layouts::Result<T>,
    ) -> esker_layouts::Result<Costed<T>> {
        self.store.update(f)
    }

    fn write(
        &self,
        writes: impl FnMut(&mut dyn FnMut(Write<'_>)) -> esker_layouts::Result<()>,
    ) -> esker_layouts::Result<OpCost> {
        self.store.write(writes)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> esker_layouts::Result<OpCost> {
        self.store.put(key, value)
    }

    fn delete(&self, key: &[u8]) -> esker_layouts::Result<OpCost> {
        self.store.delete(key)
    }

    fn get(&self, key: &[u8]) -> esker_layouts::Result<Costed<Option<Bytes>>> {
        self.store.get(key)
    }

    fn contains(&self, key: &[u8]) -> esker_layouts::Result<Costed<bool>> {
        self.store.contains(key)
    }
}

impl Store for EngineFactory {
    type Kv = TemporaryEngine;

    fn name(&self) -> &'static str {
        "esker (default settings: durable to a process kill), in a temporary directory"
    }

    fn open_as(&self, setup: &Setup) -> esker_layouts::Result<TemporaryEngine> {
        if setup.in_memory {
            let builder = Database::builder("/lab").options(setup.database.clone());
            let builder = builder.env(esker::vfs::Env::memory()?);
            let store = EngineStore::build_with(builder, "lab", setup.keyspace.clone())?;
            return Ok(TemporaryEngine { store, directory: None });
        }
        let directory = tempfile::Builder::new().prefix("esker-lab-").tempdir();
        let directory = directory.map_err(|source| esker::Error::Io {
            op: "create",
            path: std::env::temp_dir(),
            source: source.into(),
        })?;
        TemporaryEngine::in_directory(directory, setup)
    }

    fn settle(&self, kv: &TemporaryEngine) -> esker_layouts::Result<()> {
        kv.database().flush()?;
        Ok(kv.database().wait_for_compactions()?)
    }

    fn compact(&self, kv: &TemporaryEngine) -> esker_layouts::Result<()> {
        kv.keyspace().compact_range::<&[u8]>(..)?;
        self.settle(kv)
    }

    fn disk_bytes(&self, kv: &TemporaryEngine) -> Option<u64> {
        let metrics = kv.database().metrics();
        Some(metrics.table_bytes + metrics.blob_bytes)
    }

    fn reopen_as(&self, kv: TemporaryEngine, setup: &Setup) -> esker_layouts::Result<TemporaryEngine> {
        let TemporaryEngine { store, directory: Some(directory) } = kv else { return Ok(kv) };
        store.database().clone().close()?;
        drop(store);
        TemporaryEngine::in_directory(directory, setup)
    }

    fn table_bytes_written(&self, kv: &TemporaryEngine) -> Option<u64> {
        let counters = kv.database().metrics().counters;
        Some(counters.flushed_bytes + counters.compacted_bytes_out)
    }
}
