//! Vectors: elements by position, in one value, a key each, or in chunks of one size.
//!
//! | | [`Chunk::Packed`] | [`Chunk::Elements`] | [`Chunk::Of`]`(n)` |
//! |---|---|---|---|
//! | read an element | everything | one get | a chunk |
//! | change one | read and write everything | one write | read and write a chunk |
//! | read all | one get | a scan, a key per element | a scan, a key per `n` |
//!
//! The three are one layout: a chunk holds as many elements as there are, one, or `n`. A packed vector ends
//! where the store's longest value does.
//!
//! ```
//! use esker_layouts::map::MapStore;
//! use esker_layouts::tuple::Space;
//! use esker_layouts::vector::{Chunk, Vector};
//!
//! let store = MapStore::new();
//! let track: Vector<_, (f64, f64)> = Vector::open(&store, &Space::new(&("track", 7)), Chunk::Of(100))?;
//! for step in 0..250 {
//!     track.push(&(59.9, f64::from(step)))?;
//! }
//! assert_eq!((track.len()?, track.get(249)?), (250, Some((59.9, 249.0))));
//! assert_eq!(track.slice(98..102)?.value.len(), 4);
//! assert_eq!(track.slice(98..102)?.cost.keys_read, 2); // chunks
//! # Ok::<(), esker_layouts::Error>(())
//! ```
//!
//! # Invariants
//!
//! 1. All chunks but the last are full and none is empty, so the last key tells the length.
//! 2. The size of chunks is given once, when the vector is created.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

use crate::kv::{Bytes, Costed, KeyRange, KvRead, KvTx, Needs, OrderedKv, ScanOptions};
use crate::scratch::with_buffer;
use crate::tall::check_length;
use crate::tuple::{Fields, KeyError, KeyErrorKind, Pack, PackField, Space, UnpackField, pack, unpack};
use crate::{Error, OpCost, Result};

const LAYOUT: &str = "vector";
/// The first field behind the space: the size of chunks.
const SIZE: u64 = 0;
/// The first field behind the space: the chunks.
const CHUNKS: u64 = 1;

/// How many elements lie together in a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Chunk {
    /// All of them.
    Packed,
    /// One: every element has a key.
    Elements,
    /// This many, at least one.
    Of(u32),
}

impl Chunk {
    fn size(self) -> u64 {
        match self {
            Chunk::Packed => u64::MAX,
            Chunk::Elements => 1,
            Chunk::Of(size) => size.into(),
        }
    }
}

/// A vector of elements `T`, which are fields of tuples. A handle; open as many as you like.
pub struct Vector<S, T> {
    store: S,
    chunks: Space,
    size: u64,
    element: PhantomData<fn() -> T>,
}

impl<S, T> fmt::Debug for Vector<S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vector")
            .field("size", &self.size)
            .field("chunks", &self.chunks)
            .finish_non_exhaustive()
    }
}

/// The last chunk: its number and elements, number 0 and none if the vector is empty; and how many elements there
/// are up to its end.
struct Last<T> {
    number: u64,
    elements: Vec<T>,
    len: u64,
}

impl<S: OrderedKv, T: PackField + UnpackField> Vector<S, T> {
    /// The vector in `space`, created empty if absent. Nothing else may write there.
    ///
    /// [`Error::BadInput`] for chunks of no elements, or if the vector was made with chunks of another size;
    /// [`Error::Unsupported`] if the store lacks transactions or reverse scans.
    pub fn open(store: S, space: &Space, chunk: Chunk) -> Result<Self> {
        Needs { transactions: true, reverse: true, ..Needs::default() }.check(LAYOUT, store.caps())?;
        let (size, at) = (chunk.size(), space.key(&(SIZE,)));
        if size == 0 {
            return Err(Error::bad_input("size of chunks", "0", "a chunk holds at least one element"));
        }
        let stored = store.update(|tx| {
            if let Some(stored) = tx.get(&at)? {
                return unpack::<(u64,)>(&stored).map_err(|error| Error::foreign(LAYOUT, &at, error));
            }
            tx.put(&at, &pack(&(size,)));
            Ok((size,))
        })?;
        if stored.value != (size,) {
            let why = format!("the vector was made with chunks of {}; open it with those", stored.value.0);
            return Err(Error::bad_input("size of chunks", &size.to_string(), why));
        }
        Ok(Vector { store, chunks: space.sub(&(CHUNKS,)), size, element: PhantomData })
    }

    fn key(&self, chunk: u64) -> Vec<u8> {
        self.chunks.key(&(chunk,))
    }

    fn number_of(&self, at: &[u8]) -> Result<u64> {
        let (number,) = self.chunks.unpack(at).map_err(|error| Error::foreign(LAYOUT, at, error))?;
        Ok(number)
    }

    /// The elements of the chunk stored at `at`.
    fn elements(&self, at: &[u8], value: &[u8]) -> Result<Vec<T>> {
        let foreign = |error: KeyError| Error::foreign(LAYOUT, at, error);
        let size = usize::try_from(self.size).unwrap_or(usize::MAX);
        // How many elements there are is known at the end only. No more memory is asked for beforehand than the value
        // has bytes: an element may be stored in one byte and take hundreds here, so its bytes say nothing of its number.
        let fitting = value.len() / size_of::<T>().max(1);
        let (mut fields, mut elements) = (Fields::new(value), Vec::with_capacity(size.min(fitting)));
        while !fields.at_end() {
            elements.push(fields.field().map_err(foreign)?);
        }
        self.check_chunk(elements.len(), value).map_err(foreign)?;
        Ok(elements)
    }

    /// The element at `place` of the chunk stored at `at`: all are decoded, one is kept.
    fn element(&self, at: &[u8], value: &[u8], place: usize) -> Result<Option<T>> {
        let foreign = |error: KeyError| Error::foreign(LAYOUT, at, error);
        let (mut fields, mut len, mut found) = (Fields::new(value), 0, None);
        while !fields.at_end() {
            let element = fields.field().map_err(foreign)?;
            if len == place {
                found = Some(element);
            }
            len += 1;
        }
        self.check_chunk(len, value).map_err(foreign)?;
        Ok(found)
    }

    /// Err unless a chunk may have `len` elements.
    fn check_chunk(&self, len: usize, value: &[u8]) -> Result<(), KeyError> {
        if len == 0 || len as u64 > self.size {
            return Err(KeyError { at: value.len(), kind: KeyErrorKind::Truncated });
        }
        Ok(())
    }

    fn chunk(&self, read: &impl KvRead, number: u64) -> Result<Vec<T>> {
        let at = self.key(number);
        let value = read.get(&at)?.unwrap_or_default();
        self.elements(&at, &value)
    }

    fn last(&self, read: &impl KvRead) -> Result<Last<T>> {
        let options = ScanOptions::new().reverse().limit(1);
        let Some(last) = read.scan(self.chunks.under(&()), options)?.next() else {
            return Ok(Last { number: 0, elements: Vec::new(), len: 0 });
        };
        let (at, value) = last?;
        let (number, elements) = (self.number_of(&at)?, self.elements(&at, &value)?);
        let len = self.start_of(&at, number, elements.len())? + elements.len() as u64;
        Ok(Last { number, elements, len })
    }

    /// The index of the first of `len` elements in the chunk `number`, stored at `at`. Err unless the index behind
    /// the last of them is a number, too.
    fn start_of(&self, at: &[u8], number: u64, len: usize) -> Result<u64> {
        let start = number.checked_mul(self.size).filter(|start| start.checked_add(len as u64).is_some());
        start.ok_or_else(|| Error::no_next(LAYOUT, at))
    }

    fn store_chunk(&self, tx: &mut impl KvTx, number: u64, elements: &[T]) -> Result<()> {
        let at = self.key(number);
        check_length(&(number,), at.len(), self.store.caps().key_bytes_max)?;
        if elements.is_empty() {
            tx.delete(&at);
        } else {
            tx.put(&at, &pack(elements));
        }
        Ok(())
    }

    /// How many elements there are: reads the last chunk.
    pub fn len(&self) -> Result<u64> {
        self.len_in(&self.store.read()?)
    }

    /// [`len`](Self::len) in the caller's snapshot or transaction.
    pub fn len_in(&self, read: &impl KvRead) -> Result<u64> {
        Ok(self.last(read)?.len)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// The chunk that holds element `index`, and its place there.
    fn place(&self, index: u64) -> (u64, usize) {
        (index / self.size, usize::try_from(index % self.size).unwrap_or(usize::MAX))
    }

    /// The element at `index`, `None` beyond the end: one get of its chunk.
    pub fn get(&self, index: u64) -> Result<Option<T>> {
        let (chunk, place) = self.place(index);
        with_buffer(|at| {
            self.chunks.key_into(&(chunk,), at);
            let Some(value) = self.store.get(at)?.value else { return Ok(None) };
            self.element(at, &value, place)
        })
    }

    /// [`get`](Self::get) in the caller's snapshot or transaction.
    pub fn get_in(&self, read: &impl KvRead, index: u64) -> Result<Option<T>> {
        let (chunk, place) = self.place(index);
        with_buffer(|at| {
            self.chunks.key_into(&(chunk,), at);
            let Some(value) = read.get(at)? else { return Ok(None) };
            self.element(at, &value, place)
        })
    }

    /// Put `value` in the place of the element at `index`; tells whether there is one. Reads and writes its
    /// chunk.
    pub fn set(&self, index: u64, value: &T) -> Result<Costed<bool>>
    where
        T: Clone,
    {
        self.store.update(|tx| self.set_in(tx, index, value))
    }

    /// [`set`](Self::set) in the caller's transaction.
    pub fn set_in(&self, tx: &mut impl KvTx, index: u64, value: &T) -> Result<bool>
    where
        T: Clone,
    {
        let (number, place) = self.place(index);
        let at = self.key(number);
        let Some(stored) = tx.get(&at)? else { return Ok(false) };
        let mut elements = self.elements(&at, &stored)?;
        let Some(element) = elements.get_mut(place) else { return Ok(false) };
        element.clone_from(value);
        with_buffer(|packed| {
            elements.as_slice().pack_into(packed);
            tx.put(&at, packed);
        });
        Ok(true)
    }

    /// Add an element behind the last; its index. Reads and writes the last chunk.
    pub fn push(&self, value: &T) -> Result<Costed<u64>> {
        self.store.update(|tx| self.push_in(tx, value))
    }

    /// [`push`](Self::push) in the caller's transaction.
    pub fn push_in(&self, tx: &mut impl KvTx, value: &T) -> Result<u64> {
        let last = self.last(tx)?;
        let index = last.len;
        if index == u64::MAX {
            // With one more there would be no number for how many there are.
            return Err(Error::no_next(LAYOUT, &self.key(last.number)));
        }
        let (number, mut packed) = if last.elements.len() as u64 == self.size {
            (last.number + 1, Vec::new())
        } else {
            (last.number, pack(last.elements.as_slice()))
        };
        value.pack_field(&mut packed, 0);
        let at = self.key(number);
        check_length(&(number,), at.len(), self.store.caps().key_bytes_max)?;
        tx.put(&at, &packed);
        Ok(index)
    }

    /// The elements with indexes in `range`, as far as there are any: one scan of their chunks.
    pub fn slice(&self, range: impl RangeBounds<u64>) -> Result<Costed<Vec<T>>> {
        let read = self.store.read()?;
        Ok(Costed { value: self.slice_in(&read, range)?, cost: read.cost() })
    }

    /// [`slice`](Self::slice) in the caller's snapshot or transaction.
    pub fn slice_in(&self, read: &impl KvRead, range: impl RangeBounds<u64>) -> Result<Vec<T>> {
        let first = match range.start_bound() {
            Bound::Included(index) => Some(*index),
            Bound::Excluded(index) => index.checked_add(1),
            Bound::Unbounded => Some(0),
        };
        let last = match range.end_bound() {
            Bound::Included(index) => Some(*index),
            Bound::Excluded(index) => index.checked_sub(1),
            Bound::Unbounded => Some(u64::MAX),
        };
        let mut found = Vec::new();
        if let (Some(first), Some(last)) = (first, last)
            && first <= last
        {
            let chunks = KeyRange {
                start: self.key(first / self.size),
                end: self.chunks.between::<(u64,)>(..=(last / self.size,)).end,
            };
            for chunk in read.scan(chunks, ScanOptions::new())? {
                let (at, value): (Bytes, Bytes) = chunk?;
                let elements = self.elements(&at, &value)?;
                let start = self.start_of(&at, self.number_of(&at)?, elements.len())?;
                // The elements come first: behind the last of them there may be no number to count on to.
                let indexed = elements.into_iter().zip(start..);
                found.extend(
                    indexed.filter(|(_, i)| (first..=last).contains(i)).map(|(element, _)| element),
                );
            }
        }
        Ok(found)
    }

    /// Keep the first `len` elements; a vector that has no more stays as it is. A range delete, and the chunk
    /// that is cut is written again.
    pub fn truncate(&self, len: u64) -> Result<OpCost> {
        Ok(self.store.update(|tx| self.truncate_in(tx, len))?.cost)
    }

    /// [`truncate`](Self::truncate) in the caller's transaction.
    pub fn truncate_in(&self, tx: &mut impl KvTx, len: u64) -> Result<()> {
        let (number, place) = self.place(len);
        let beyond = self.chunks.between::<(u64,)>((number,)..);
        let at = self.key(number);
        let kept = match tx.get(&at)? {
            Some(value) if place > 0 => {
                let mut elements = self.elements(&at, &value)?;
                elements.truncate(place);
                Some(elements)
            }
            _ => None,
        };
        tx.delete_range(beyond);
        kept.map_or(Ok(()), |elements| self.store_chunk(tx, number, &elements))
    }

    /// Remove the element at `index` and put the last one in its place, at the cost of two chunks however
    /// long the vector is; the order changes. `None` beyond the end.
    pub fn swap_remove(&self, index: u64) -> Result<Costed<Option<T>>> {
        self.store.update(|tx| self.swap_remove_in(tx, index))
    }

    /// [`swap_remove`](Self::swap_remove) in the caller's transaction.
    pub fn swap_remove_in(&self, tx: &mut impl KvTx, index: u64) -> Result<Option<T>> {
        let mut last = self.last(tx)?;
        if index >= last.len {
            return Ok(None);
        }
        let (number, place) = self.place(index);
        let mut elements = if number == last.number { Vec::new() } else { self.chunk(tx, number)? };
        let removed = if number == last.number {
            Some(last.elements.swap_remove(place))
        } else {
            last.elements
                .pop()
                .and_then(|moved| elements.get_mut(place).map(|hole| std::mem::replace(hole, moved)))
        };
        if number != last.number {
            self.store_chunk(tx, number, &elements)?;
        }
        self.store_chunk(tx, last.number, &last.elements)?;
        Ok(removed)
    }
}

#[cfg(test)]
mod tests;
