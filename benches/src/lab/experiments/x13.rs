//! X13: together or apart? Rows packed in one value against a key per field; vectors packed, a key per
//! element, and in chunks.
//!
//! [`records`] has the models, [`findings`] judges and draws.

mod findings;
mod records;

use std::collections::BTreeMap;

use esker_layouts::table::RowMode;
use esker_layouts::tuple::pack;
use esker_layouts::vector::Chunk;
use records::{OpenModels, RealModels, build, chunk_key, row_key, size, touched};

use super::random;
use super::samples::{Samples, failed, right};
use super::weighed::{loaded, without_log};
use crate::lab::store::Store;
use crate::lab::study::Study;
use crate::lab::{Experiment, LabOptions, Progress, Result, Scale};

/// Fields of a row.
const FIELDS: [u32; 2] = [10, 100];
/// Bytes of a field.
const WIDTHS: [u32; 3] = [16, 64, 256];
const MODES: [(RowMode, &str); 2] = [(RowMode::Packed, "packed"), (RowMode::Cells, "cells")];
/// Elements of a chunk.
const CHUNK: u32 = 128;
const CHUNKS: [(Chunk, &str); 3] = [
    (Chunk::Packed, "packed vector"),
    (Chunk::Elements, "key per element"),
    (Chunk::Of(CHUNK), "chunks of 128"),
];
/// Elements of a slice.
const SLICE: u64 = 100;

struct Sizes {
    rows: u64,
    /// Operations of each kind.
    samples: usize,
    /// Lengths of vectors.
    vectors: &'static [u64],
}

fn sizes(scale: Scale) -> Sizes {
    match scale {
        Scale::Tiny => Sizes { rows: 4, samples: 4, vectors: &[100, 1_000, 4_000] },
        Scale::Smoke => Sizes { rows: 200, samples: 100, vectors: &[1_000, 10_000, 100_000] },
        Scale::Desk | Scale::Large => {
            Sizes { rows: 1_000, samples: 200, vectors: &[1_000, 10_000, 100_000, 1_000_000] }
        }
    }
}

/// What is asked of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum OfRow {
    Update,
    Read,
    ReadField,
}

/// What is asked of a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum OfVector {
    Update,
    Slice,
}

/// What was measured: rows by mode, fields and width; vectors by form and length.
#[derive(Default)]
struct Measured {
    rows: BTreeMap<(&'static str, u32, u32, OfRow), Samples>,
    vectors: BTreeMap<(&'static str, u64, OfVector), Samples>,
}

pub(in crate::lab) fn run<S: Store>(
    store: &S,
    options: &LabOptions,
    progress: &mut dyn Progress,
) -> Result<Study> {
    run_with(store, &RealModels, options, progress)
}

fn run_with<S: Store>(
    store: &S,
    open: &impl OpenModels<S::Kv>,
    options: &LabOptions,
    progress: &mut dyn Progress,
) -> Result<Study> {
    let sizes = sizes(options.scale);
    let shapes = FIELDS.into_iter().flat_map(|fields| WIDTHS.map(|width| (fields, width)));
    let mut rows: Vec<_> = shapes.flat_map(|shape| MODES.map(|mode| (shape, mode))).collect();
    let lengths = sizes.vectors.iter().copied();
    let mut vectors: Vec<_> = lengths.flat_map(|length| CHUNKS.map(|chunk| (length, chunk))).collect();
    random(options, &[13, 1]).shuffle(&mut rows);
    random(options, &[13, 2]).shuffle(&mut vectors);
    progress.begin(Experiment::X13, (rows.len() + vectors.len()) as u64);
    let mut study = Study::new("X13", "", "D5–D8", "");
    let mut measured = Measured::default();
    for ((fields, width), (mode, name)) in rows {
        let asked = Rows { fields, width, mode, name, options, sizes: &sizes };
        asked.ask(store, open, &mut study, &mut measured)?;
        progress.step(&format!("rows of {fields} fields of {width} B, {name}"));
    }
    for (length, (chunk, name)) in vectors {
        let asked = VectorOf { length, chunk, name, options, sizes: &sizes };
        asked.ask(store, open, &mut study, &mut measured)?;
        progress.step(&format!("vectors of {length}, {name}"));
    }
    Ok(findings::study(study, &measured, &sizes, options))
}

/// Rows of one shape in one mode.
struct Rows<'a> {
    fields: u32,
    width: u32,
    mode: RowMode,
    name: &'static str,
    options: &'a LabOptions,
    sizes: &'a Sizes,
}

impl Rows<'_> {
    fn ask<S: Store>(
        &self,
        store: &S,
        open: &impl OpenModels<S::Kv>,
        study: &mut Study,
        measured: &mut Measured,
    ) -> Result<()> {
        let Rows { fields, width, name, .. } = *self;
        let mut random = random(self.options, &[13, 3, fields.into(), width.into()]);
        let mut text =
            || -> String { std::iter::repeat_with(|| random.lowercase()).take(width as usize).collect() };
        let mut rows: Vec<Vec<String>> =
            (0..self.sizes.rows).map(|_| (0..fields).map(|_| text()).collect()).collect();
        let numbered: Vec<(u64, Vec<String>)> = (0..).zip(rows.iter().cloned()).collect();
        let kv = store.open_as(&without_log()).map_err(failed("open a store"))?;
        {
            let table = open.records(&kv, fields, self.mode).map_err(failed("open the table"))?;
            for batch in numbered.chunks(100) {
                table.put_all(batch).map_err(failed("load the table"))?;
            }
        }
        let kv = loaded(store, kv)?;
        let table = open.records(&kv, fields, self.mode).map_err(failed("open the table"))?;
        let fresh: Vec<String> = (0..self.sizes.samples).map(|_| text()).collect();
        let packed = self.mode == RowMode::Packed;
        for new in fresh {
            let count = rows.len();
            let mut any = || (random.usize(..count), random.u32(..fields));
            let (at, place) = any();
            let id = at as u64;
            let mut samples =
                |asked| measured.rows.remove(&(name, fields, width, asked)).unwrap_or_default();
            let (mut update, mut read, mut one) =
                (samples(OfRow::Update), samples(OfRow::Read), samples(OfRow::ReadField));
            let set = update.call("set a field", || table.set(id, place, &new))?;
            right(name, "set a field", &set.value, &true)?;
            rows[at][place as usize].clone_from(&new);
            // Others than the one just written, which lies in the memtable and in the caches.
            let (other, _) = any();
            let whole = read.call("read a row", || table.row(other as u64))?;
            right(name, "read a row", &whole.value.as_ref(), &Some(&rows[other]))?;
            let (other, place_of_other) = any();
            let field = one.call("read a field", || table.field(other as u64, place_of_other))?;
            right(
                name,
                "read a field",
                &field.value.as_ref(),
                &Some(&rows[other][place_of_other as usize]),
            )?;
            for (asked, samples) in [(OfRow::Update, update), (OfRow::Read, read), (OfRow::ReadField, one)]
            {
                measured.rows.insert((name, fields, width, asked), samples);
            }
            // A key, and behind it in a packed row the version and all fields; in a cell the field.
            let key = row_key(id).len() as u64;
            let version = pack(&(1u64,)).len() as u64;
            let bytes = if packed {
                key + version + pack(rows[at].as_slice()).len() as u64
            } else {
                key + (pack(&(place,)).len() + pack(&(new.as_str(),)).len()) as u64
            };
            let (written, keys_of_row, keys_of_field) = if packed {
                ("3 calls, 2 keys read, the whole row written", 1, 1)
            } else {
                ("3 calls, 2 keys read, one field written", u64::from(fields) + 1, 2)
            };
            let cost = set.cost;
            study.compare(
                &format!("{name}: update a field"),
                written,
                &(cost.calls, cost.keys_read, cost.keys_written, cost.bytes_written),
                &(3, 2, 1, bytes),
            );
            study.compare(
                &format!("{name}: read a row"),
                if packed { "1 call, 1 key" } else { "1 call, a key per field and one" },
                &(whole.cost.calls, whole.cost.keys_read),
                &(1, keys_of_row),
            );
            study.compare(
                &format!("{name}: read a field"),
                if packed { "1 call, 1 key: the row" } else { "1 call, 2 keys: version and field" },
                &(field.cost.calls, field.cost.keys_read),
                &(1, keys_of_field),
            );
        }
        Ok(())
    }
}

/// A vector of one length in one form.
struct VectorOf<'a> {
    length: u64,
    chunk: Chunk,
    name: &'static str,
    options: &'a LabOptions,
    sizes: &'a Sizes,
}

impl VectorOf<'_> {
    fn ask<S: Store>(
        &self,
        store: &S,
        open: &impl OpenModels<S::Kv>,
        study: &mut Study,
        measured: &mut Measured,
    ) -> Result<()> {
        let VectorOf { length, chunk, name, .. } = *self;
        let mut random = random(self.options, &[13, 4, length]);
        let mut elements: Vec<u64> = (0..length).map(|_| random.u64(..1 << 32)).collect();
        let kv = store.open_as(&without_log()).map_err(failed("open a store"))?;
        build(&kv, open.chunk(chunk), &elements).map_err(failed("build the vector"))?;
        let kv = loaded(store, kv)?;
        let vector = records::vector(&kv, open.chunk(chunk)).map_err(failed("open the vector"))?;
        right(name, "length", &vector.len().map_err(failed("count the vector"))?, &length)?;
        let size = size(chunk);
        for _ in 0..self.sizes.samples {
            let (index, value) = (random.u64(..length), random.u64(..1 << 32));
            let samples = measured.vectors.entry((name, length, OfVector::Update)).or_default();
            let set = samples.call("set an element", || vector.set(index, &value))?;
            right(name, "set an element", &set.value, &true)?;
            let place = |index: u64| usize::try_from(index).unwrap_or(usize::MAX);
            elements[place(index)] = value;
            let number = index / size;
            let first = number.saturating_mul(size);
            let last = first.saturating_add(size).min(length);
            let bytes = (chunk_key(number).len() + pack(&elements[place(first)..place(last)]).len()) as u64;
            study.compare(
                &format!("{name}: update an element"),
                "2 calls, its chunk read and written",
                &(set.cost.calls, set.cost.keys_read, set.cost.keys_written, set.cost.bytes_written),
                &(2, 1, 1, bytes),
            );
            let start = random.u64(..=length - SLICE);
            let range = start..start + SLICE;
            let samples = measured.vectors.entry((name, length, OfVector::Slice)).or_default();
            let slice = samples.call("read a slice", || vector.slice(range.clone()))?;
            let expected = &elements[place(range.start)..place(range.end)];
            right(name, "read a slice", &slice.value.as_slice(), &expected)?;
            study.compare(
                &format!("{name}: read {SLICE} elements"),
                "1 call, the chunks they lie in",
                &(slice.cost.calls, slice.cost.keys_read),
                &(1, touched(&range, size)),
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
