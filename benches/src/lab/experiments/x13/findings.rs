//! What the figures say: claims with verdicts, lines, the crossover.

use super::{CHUNKS, FIELDS, MODES, Measured, OfRow, OfVector, SLICE, Sizes, WIDTHS};
use crate::lab::experiments::random;
use crate::lab::experiments::samples::Samples;
use crate::lab::study::{Axis, Claim, Column, Exhibit, Line, Lines, Place, Study, Table, Unit, Value};
use crate::lab::verdict::Verdict;
use crate::lab::{LabOptions, Scale};

pub(super) fn study(mut study: Study, measured: &Measured, sizes: &Sizes, options: &LabOptions) -> Study {
    study.title = "Together or apart? Rows and vectors packed, in cells, in chunks".into();
    study.protocol = format!(
        "Tables of {} rows of 10 and 100 texts of 16, 64 and 256 bytes, packed in one value and with a key per field; \
         vectors of {:?} numbers, packed, with a key per element and in chunks of 128. Loaded without a log, in \
         random order over a fresh store each, flushed, opened again with the default durability and read once; then {} \
         times in turn: change a random field, read a random row, read a random field; change a random element, read \
         {SLICE} in a row. Answers are checked.",
        sizes.rows, sizes.vectors, sizes.samples
    );
    let found = Found { measured, timed: options.scale != Scale::Tiny, options };
    let claims = found.claims(&study, sizes);
    study.claims = claims;
    for (title, asked) in [
        ("Time to change one field", OfRow::Update),
        ("Time to read a row", OfRow::Read),
        ("Time to read one field", OfRow::ReadField),
    ] {
        study.exhibits.push(found.row_lines(title, asked, Unit::Nanos));
    }
    study.exhibits.push(found.row_lines("Bytes written to change one field", OfRow::Update, Unit::Bytes));
    study.exhibits.push(found.crossover());
    study.exhibits.push(found.vector_lines("Time to change one element", OfVector::Update, sizes));
    study.exhibits.push(found.vector_lines("Time to read 100 elements", OfVector::Slice, sizes));
    study.exhibits.push(found.raw());
    study.notes.push(
        "The crossover is the share of field updates, among updates and reads of whole rows, from which cells take \
         less time than packed rows: below it the many keys of a row cost more than the bytes written again. None: \
         the packed row was faster at both, or cells were."
            .into(),
    );
    study
}

struct Found<'a> {
    measured: &'a Measured,
    /// Whether times mean anything.
    timed: bool,
    options: &'a LabOptions,
}

impl Found<'_> {
    fn row(&self, mode: &'static str, fields: u32, width: u32, asked: OfRow) -> Samples {
        self.measured.rows.get(&(mode, fields, width, asked)).cloned().unwrap_or_default()
    }

    fn vector(&self, form: &'static str, length: u64, asked: OfVector) -> Samples {
        self.measured.vectors.get(&(form, length, asked)).cloned().unwrap_or_default()
    }

    fn claims(&self, study: &Study, sizes: &Sizes) -> Vec<Claim> {
        let [small, .., large] = WIDTHS;
        let (packed, cells) = (MODES[0].1, MODES[1].1);
        let least = |mode| self.row(mode, FIELDS[0], small, OfRow::Update);
        let most = |mode| self.row(mode, FIELDS[1], large, OfRow::Update);
        let written = |samples: &Samples| samples.mean(|cost| cost.bytes_written);
        let (row_packed, row_cells) = (
            self.row(packed, FIELDS[1], small, OfRow::Read),
            self.row(cells, FIELDS[1], small, OfRow::Read),
        );
        let longest = sizes.vectors.last().copied().unwrap_or(0);
        let update = |at: usize| self.vector(CHUNKS[at].1, longest, OfVector::Update);
        let slice = |at: usize| self.vector(CHUNKS[at].1, longest, OfVector::Slice);
        let micros = |samples: &Samples| format!("{:.1} µs", samples.median() / 1e3);
        let sum = |names: &[&str]| {
            let mut sum = crate::lab::model::Tally::default();
            for name in names {
                sum.add(&study.tally(name));
            }
            sum
        };
        let slower = |slow: &Samples, fast: &Samples| !self.timed || slow.median() > fast.median();
        vec![
            Claim {
                rows: "D5".into(),
                claimed: "A row packed in one value has no access to a single field.".into(),
                predicted: "To change a field is to read and write the row: bytes in proportion to its size. Reading \
                            the row is one key."
                    .into(),
                counted: format!(
                    "{:.0} B written for a field of {small} B among 10, {:.0} B for one of {large} B among 100",
                    written(&least(packed)),
                    written(&most(packed))
                ),
                timed: format!("{} and {}", micros(&least(packed)), micros(&most(packed))),
                verdict: Verdict::of(
                    &study.tally("packed: "),
                    slower(&most(packed), &least(packed)),
                    "longer rows take longer to change",
                ),
            },
            Claim {
                rows: "D6".into(),
                claimed: "With a key per field, single fields can be read and changed.".into(),
                predicted: "A field is written alone, whatever the row's size; reading the row takes a key per field \
                            and one."
                    .into(),
                counted: format!(
                    "{:.0} B written for a field of {large} B among 100; {:.0} keys read for a row of 100",
                    written(&most(cells)),
                    row_cells.mean(|cost| cost.keys_read)
                ),
                timed: format!(
                    "changing that field {} ({} packed); reading 100 fields of {small} B {} ({} packed)",
                    micros(&most(cells)),
                    micros(&most(packed)),
                    micros(&row_cells),
                    micros(&row_packed)
                ),
                verdict: Verdict::of(
                    &study.tally("cells: "),
                    slower(&most(packed), &most(cells)) && slower(&row_cells, &row_packed),
                    "cells win when a field changes, packed rows when a row is read",
                ),
            },
            Claim {
                rows: "D7, D8".into(),
                claimed: "A packed vector is read and written whole; with a key per element parts can be read.".into(),
                predicted: "Packed costs the length at every change and slice, a key per element costs a key for each \
                            of the slice; chunks bound both."
                    .into(),
                counted: format!(
                    "at {longest} elements a change writes {:.0}, {:.0} and {:.0} B, a slice of {SLICE} reads {:.0}, {:.0} \
                     and {:.1} keys (packed, per element, chunks)",
                    written(&update(0)),
                    written(&update(1)),
                    written(&update(2)),
                    slice(0).mean(|cost| cost.keys_read),
                    slice(1).mean(|cost| cost.keys_read),
                    slice(2).mean(|cost| cost.keys_read)
                ),
                timed: format!(
                    "change: {}, {} and {}; slice: {}, {} and {}",
                    micros(&update(0)),
                    micros(&update(1)),
                    micros(&update(2)),
                    micros(&slice(0)),
                    micros(&slice(1)),
                    micros(&slice(2))
                ),
                verdict: Verdict::of(
                    &sum(&CHUNKS.map(|(_, name)| name)),
                    slower(&update(0), &update(1))
                        && slower(&slice(0), &slice(1))
                        && slower(&update(0), &update(2)),
                    "the packed vector is the slowest at both",
                ),
            },
        ]
    }

    /// Over the bytes of a row; one line a mode and number of fields.
    fn row_lines(&self, title: &str, asked: OfRow, unit: Unit) -> Exhibit {
        let mut random = random(self.options, &[13, 5]);
        let mut lines = Vec::new();
        for (_, mode) in MODES {
            for fields in FIELDS {
                let points = WIDTHS.into_iter().map(|width| {
                    let samples = self.row(mode, fields, width, asked);
                    let x = f64::from(fields * width);
                    if unit == Unit::Bytes {
                        return Place::new(x, samples.mean(|cost| cost.bytes_written));
                    }
                    Place { x, y: samples.interval(&mut random) }
                });
                lines.push(Line { name: format!("{mode}, {fields} fields"), points: points.collect() });
            }
        }
        Exhibit::Lines(Lines {
            title: title.into(),
            x: Axis::logarithmic("bytes of the row's fields", Unit::Bytes),
            y: Axis::logarithmic(if unit == Unit::Bytes { "bytes written" } else { "median time" }, unit),
            lines,
        })
    }

    fn vector_lines(&self, title: &str, asked: OfVector, sizes: &Sizes) -> Exhibit {
        let mut random = random(self.options, &[13, 6]);
        let lines = CHUNKS.map(|(_, name)| {
            let points = sizes.vectors.iter().map(|length| Place {
                x: *length as f64,
                y: self.vector(name, *length, asked).interval(&mut random),
            });
            Line { name: name.into(), points: points.collect() }
        });
        Exhibit::Lines(Lines {
            title: title.into(),
            x: Axis::logarithmic("elements", Unit::Count),
            y: Axis::logarithmic("median time", Unit::Nanos),
            lines: lines.into(),
        })
    }

    /// From which share of updates on cells are cheaper.
    fn crossover(&self) -> Exhibit {
        let columns = [
            Column::text("row"),
            Column::new("update, packed", Unit::Nanos),
            Column::new("update, cells", Unit::Nanos),
            Column::new("read, packed", Unit::Nanos),
            Column::new("read, cells", Unit::Nanos),
            Column::new("cells from this share of updates", Unit::Share),
        ];
        let mut table = Table::new("The crossover", columns);
        for fields in FIELDS {
            for width in WIDTHS {
                let time = |mode: usize, asked| self.row(MODES[mode].1, fields, width, asked).median();
                let (update, read) = (
                    [0, 1].map(|mode| time(mode, OfRow::Update)),
                    [0, 1].map(|mode| time(mode, OfRow::Read)),
                );
                table.row([
                    Value::from(format!("{fields} fields of {width} B")),
                    Value::from(update[0]),
                    Value::from(update[1]),
                    Value::from(read[0]),
                    Value::from(read[1]),
                    Value::from(share(update, read)),
                ]);
            }
        }
        Exhibit::Table(table)
    }

    fn raw(&self) -> Exhibit {
        let columns = [
            Column::text("what"),
            Column::new("keys read", Unit::Number),
            Column::new("bytes read", Unit::Bytes),
            Column::new("bytes written", Unit::Bytes),
            Column::new("time", Unit::Nanos),
        ];
        let mut table = Table::new("All figures", columns);
        table.folded = true;
        let mut random = random(self.options, &[13, 7]);
        let rows = self.measured.rows.iter().map(|((mode, fields, width, asked), samples)| {
            (format!("{mode}, {fields} × {width} B: {asked:?}"), samples)
        });
        let vectors = self
            .measured
            .vectors
            .iter()
            .map(|((form, length, asked), samples)| (format!("{form}, {length}: {asked:?}"), samples));
        for (name, samples) in rows.chain(vectors) {
            table.row([
                Value::from(name),
                Value::from(samples.mean(|cost| cost.keys_read)),
                Value::from(samples.mean(|cost| cost.bytes_read)),
                Value::from(samples.mean(|cost| cost.bytes_written)),
                Value::from(samples.interval(&mut random)),
            ]);
        }
        Exhibit::Table(table)
    }
}

/// The share p of updates at which p·update + (1 − p)·read is the same packed (first) and in cells; `None`
/// if one is cheaper at every share.
pub(super) fn share(update: [f64; 2], read: [f64; 2]) -> Option<f64> {
    let (saved, lost) = (update[0] - update[1], read[1] - read[0]);
    (saved > 0.0 && lost > 0.0).then(|| lost / (lost + saved))
}
