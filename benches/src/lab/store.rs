//! Where fresh stores come from.

use esker_layouts::kv::OrderedKv;
use esker_layouts::map::MapStore;

/// Opens empty stores of one kind.
pub trait Store {
    /// The store. Dropping it frees whatever it occupied.
    type Kv: OrderedKv;

    /// The store's name, for reports.
    fn name(&self) -> &'static str;

    /// A fresh, empty store.
    fn open(&self) -> esker_layouts::Result<Self::Kv>;
}

/// Opens reference stores in memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct MapFactory;

impl Store for MapFactory {
    type Kv = MapStore;

    fn name(&self) -> &'static str {
        "map (multi-version BTreeMap in memory)"
    }

    fn open(&self) -> esker_layouts::Result<MapStore> {
        Ok(MapStore::new())
    }
}
