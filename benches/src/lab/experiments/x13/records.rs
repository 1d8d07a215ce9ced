//! Rows of N fields, and vectors of numbers, as the experiment uses them.

use std::ops::Range;

use esker_layouts::kv::{Costed, KvTx, OrderedKv};
use esker_layouts::table::{Field, Row, RowMode, Table};
use esker_layouts::tuple::{Fields, KeyError, Pack, Space, Unpack, pack};
use esker_layouts::vector::{Chunk, Vector};

/// A row of `N` texts.
struct Texts<const N: usize>(Vec<String>);

impl<const N: usize> Pack for Texts<N> {
    fn pack_at(&self, out: &mut Vec<u8>, depth: usize) {
        self.0.as_slice().pack_at(out, depth);
    }
}

impl<const N: usize> Unpack for Texts<N> {
    fn unpack_from(fields: &mut Fields<'_>) -> Result<Self, KeyError> {
        (0..N).map(|_| fields.field()).collect::<Result<_, _>>().map(Texts)
    }
}

impl<const N: usize> Row for Texts<N> {
    const VERSION: u64 = 1;
    const FIELDS: &'static [&'static str] = &["field"; N];
}

/// A table of rows that are lists of texts.
pub(super) trait Records {
    fn put_all(&self, rows: &[(u64, Vec<String>)]) -> esker_layouts::Result<()>;
    fn set(&self, id: u64, place: u32, text: &str) -> esker_layouts::Result<Costed<bool>>;
    fn row(&self, id: u64) -> esker_layouts::Result<Costed<Option<Vec<String>>>>;
    fn field(&self, id: u64, place: u32) -> esker_layouts::Result<Costed<Option<String>>>;
}

struct RealRecords<'k, S, const N: usize> {
    store: &'k S,
    table: Table<&'k S, (u64,), Texts<N>>,
}

impl<S: OrderedKv, const N: usize> Records for RealRecords<'_, S, N> {
    fn put_all(&self, rows: &[(u64, Vec<String>)]) -> esker_layouts::Result<()> {
        let put = |tx: &mut S::Tx<'_>| {
            rows.iter().try_for_each(|(id, row)| self.table.put_in(tx, &(*id,), &Texts(row.clone())))
        };
        self.store.update(put).map(|_| ())
    }
    fn set(&self, id: u64, place: u32, text: &str) -> esker_layouts::Result<Costed<bool>> {
        self.table.set(&(id,), Field::<_, String>::at(place), &text.to_owned())
    }
    fn row(&self, id: u64) -> esker_layouts::Result<Costed<Option<Vec<String>>>> {
        let view = self.table.view()?;
        let value = view.get(&(id,))?.map(|row| row.0);
        Ok(Costed { value, cost: view.cost() })
    }
    fn field(&self, id: u64, place: u32) -> esker_layouts::Result<Costed<Option<String>>> {
        let view = self.table.view()?;
        let value = view.field(&(id,), Field::<_, String>::at(place))?;
        Ok(Costed { value, cost: view.cost() })
    }
}

/// Opens the models over a store; tests put wrong ones in their place.
pub(super) trait OpenModels<K> {
    /// A table of rows with `fields` fields, 10 or 100.
    fn records<'k>(
        &self,
        store: &'k K,
        fields: u32,
        mode: RowMode,
    ) -> esker_layouts::Result<Box<dyn Records + 'k>>;

    /// How the vector that is to be in chunks of `chunk` really lies.
    fn chunk(&self, chunk: Chunk) -> Chunk {
        chunk
    }
}

pub(super) struct RealModels;

impl<K: OrderedKv> OpenModels<K> for RealModels {
    fn records<'k>(
        &self,
        store: &'k K,
        fields: u32,
        mode: RowMode,
    ) -> esker_layouts::Result<Box<dyn Records + 'k>> {
        if fields == 10 {
            return Ok(Box::new(RealRecords::<K, 10> { store, table: Table::open(store, &rows(), mode)? }));
        }
        Ok(Box::new(RealRecords::<K, 100> { store, table: Table::open(store, &rows(), mode)? }))
    }
}

fn rows() -> Space {
    Space::new(&("rows",))
}

/// The key of row `id`; `FORMAT.md` of the layouts says where rows lie.
pub(super) fn row_key(id: u64) -> Vec<u8> {
    rows().key(&(1u64, id))
}

fn space() -> Space {
    Space::new(&("vector",))
}

/// The vector in `store`, made if there is none.
pub(super) fn vector<S: OrderedKv>(store: &S, chunk: Chunk) -> esker_layouts::Result<Vector<&S, u64>> {
    Vector::open(store, &space(), chunk)
}

/// The key of a chunk; `FORMAT.md` of the layouts says where chunks lie.
pub(super) fn chunk_key(number: u64) -> Vec<u8> {
    space().key(&(1u64, number))
}

/// Elements of a chunk, for vectors of any length.
pub(super) fn size(chunk: Chunk) -> u64 {
    match chunk {
        Chunk::Packed => u64::MAX,
        Chunk::Elements => 1,
        Chunk::Of(size) => size.into(),
    }
}

/// Load the vector of `elements`. It is written as the format says, chunk by chunk: a push reads and writes the
/// last chunk, so building a packed vector of n by pushing takes n² time.
pub(super) fn build<S: OrderedKv>(store: &S, chunk: Chunk, elements: &[u64]) -> esker_layouts::Result<()> {
    vector(store, chunk)?;
    let length = usize::try_from(size(chunk)).unwrap_or(usize::MAX).min(elements.len());
    let chunks: Vec<(u64, &[u64])> = (0..).zip(elements.chunks(length.max(1))).collect();
    for batch in chunks.chunks(1_000) {
        store.update(|tx| {
            for (number, chunk) in batch {
                tx.put(&chunk_key(*number), &pack(*chunk));
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// How many chunks of `size` elements the elements in `range` lie in.
pub(super) fn touched(range: &Range<u64>, size: u64) -> u64 {
    (range.end - 1) / size - range.start / size + 1
}
