//! Gets of keys that are there and that are not, with filters of several sizes over the keys of cells or of rows.
//!
//! A filter of this engine is over whole keys. So with a key for each cell it is a filter over row and column,
//! and with a row packed into one value one over rows.

use std::collections::BTreeMap;
use std::fmt;

use esker_layouts::kv::{Costed, KvRead, OrderedKv, ScanOptions};
use esker_layouts::tuple::Space;

use super::{Access, Measured, Sizes, failed, random, right};
use crate::lab::experiments::weighed::{Row, at_rest, for_loads, put_all};
use crate::lab::store::Store;
use crate::lab::study::Study;
use crate::lab::{LabOptions, Result};

/// A row that is there has a number that this divides.
const ROW_STEP: u64 = 8;
/// Tables that lie over each other in [`Tree::Runs`].
const RUNS: u64 = 4;
/// Gets of one store before it is another's turn.
pub(super) const TURN: usize = 100;
/// Bits of a line of the filter.
const LINE_BITS: u64 = 512;

/// What has a key of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Grain {
    Cell,
    Row,
}

impl Grain {
    /// What the filter is over.
    pub(super) fn name(self) -> &'static str {
        match self {
            Grain::Cell => "row+column",
            Grain::Row => "row",
        }
    }
}

/// How the tables lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tree {
    /// Everything merged into one table.
    Merged,
    /// Four tables over the same keys, each with a fourth of the cells.
    Runs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Question {
    Present,
    AbsentColumn,
    AbsentRow,
    /// All cells of an absent row: a scan.
    ScanAbsentRow,
}

impl Question {
    pub(super) const ALL: [Question; 4] =
        [Question::Present, Question::AbsentColumn, Question::AbsentRow, Question::ScanAbsentRow];

    pub(super) fn name(self) -> &'static str {
        match self {
            Question::Present => "a cell that is there",
            Question::AbsentColumn => "an absent column of a row",
            Question::AbsentRow => "an absent row",
            Question::ScanAbsentRow => "a scan of an absent row",
        }
    }
}

/// A kind of store to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Case {
    tree: Tree,
    grain: Grain,
    bits: u8,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tables = if self.tree == Tree::Merged { "one table" } else { "four tables" };
        write!(f, "{tables}, filter of {} bits over {}", self.bits, self.grain.name())
    }
}

/// All stores to ask, in random order.
pub(super) fn cases(sizes: &Sizes, options: &LabOptions) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for bits in sizes.bits.iter().copied() {
        cases.push(Case { tree: Tree::Merged, grain: Grain::Cell, bits });
        cases.push(Case { tree: Tree::Merged, grain: Grain::Row, bits });
        cases.push(Case { tree: Tree::Runs, grain: Grain::Cell, bits });
    }
    random(options, &[9, 2]).shuffle(&mut cases);
    cases
}

fn space() -> Space {
    Space::new(&("f",))
}

/// The key of the cell, or of its row.
fn key(grain: Grain, row: u64, column: u64) -> Vec<u8> {
    match grain {
        Grain::Cell => space().key(&(row, column)),
        Grain::Row => space().key(&(row,)),
    }
}

/// In which load the cell goes into a store of four.
fn load_of(row: u64, column: u64) -> u64 {
    (row / ROW_STEP + column / 2) % RUNS
}

/// All cells that are there, or rows.
fn rows(grain: Grain, sizes: &Sizes, part: Option<u64>) -> Vec<Row> {
    let mut rows = Vec::new();
    for row in (0..sizes.rows).map(|row| row * ROW_STEP) {
        if grain == Grain::Row {
            rows.push((key(grain, row, 0), vec![b'v'; 8 * usize::try_from(sizes.columns).unwrap_or(0)]));
            continue;
        }
        let columns = (0..sizes.columns).map(|column| column * 2);
        let wanted = columns.filter(|column| part.is_none_or(|part| load_of(row, *column) == part));
        rows.extend(wanted.map(|column| (key(grain, row, column), vec![b'v'; 8])));
    }
    rows
}

/// The chance that a filter over `keys` with `bits` for each lets an absent key through. A key's probes lie in
/// one line of 512 bits; lines fill unevenly, as a binomial distribution has it (FORMAT.md of the tables, "Filter").
pub(super) fn false_positives(keys: u64, bits: u8) -> f64 {
    if bits == 0 || keys == 0 {
        return 1.0;
    }
    let lines = (keys * u64::from(bits)).div_ceil(LINE_BITS);
    let probes = f64::from((u32::from(bits) * 6 / 10).clamp(1, 16));
    let all_set = |keys: f64| (1.0 - (1.0 - 1.0 / LINE_BITS as f64).powf(keys * probes)).powf(probes);
    if lines == 1 {
        return all_set(keys as f64);
    }
    let (keys, share) = (keys as f64, 1.0 / lines as f64);
    let mut chance = (keys * (-share).ln_1p()).exp();
    let mut sum = 0.0;
    let mut in_line = 0.0;
    let mean = keys * share;
    while in_line <= keys && in_line < mean + 20.0 * mean.sqrt() + 50.0 {
        sum += chance * all_set(in_line);
        chance *= (keys - in_line) / (in_line + 1.0) * share / (1.0 - share);
        in_line += 1.0;
    }
    sum
}

/// A store to ask, loaded.
pub(super) struct Asked<K> {
    case: Case,
    kv: K,
}

/// Load what `case` says.
pub(super) fn load<S: Store>(
    store: &S,
    access: &impl Access<S::Kv>,
    case: Case,
    sizes: &Sizes,
    measured: &mut Measured,
) -> Result<Asked<S::Kv>> {
    let Case { tree, grain, bits } = case;
    let mut setup = for_loads();
    setup.keyspace.filter_bits_per_key = access.bits(bits);
    // So that what lies over each other stays so.
    setup.database.l0_tables_trigger = 64;
    setup.database.l0_tables_slowdown = 100;
    setup.database.l0_tables_stop = 200;
    let kv = store.open_as(&setup).map_err(failed("open a store"))?;
    let kv = if tree == Tree::Merged {
        put_all(&kv, &rows(grain, sizes, None))?;
        at_rest(store, kv, &setup)?
    } else {
        for part in 0..RUNS {
            put_all(&kv, &rows(grain, sizes, Some(part)))?;
            store.settle(&kv).map_err(failed("settle"))?;
        }
        store.reopen_as(kv, &setup).map_err(failed("open the store again"))?
    };
    let probe = access.has(&kv, &key(grain, ROW_STEP, 0)).map_err(failed("ask for a cell"))?;
    measured.counts_tables = probe.cost.tables > 0;
    Ok(Asked { case, kv })
}

/// Ask all `stores` everything. They take turns, in random order, at a hundred gets each.
pub(super) fn ask<K: OrderedKv>(
    stores: &mut [Asked<K>],
    access: &impl Access<K>,
    sizes: &Sizes,
    options: &LabOptions,
    study: &mut Study,
    measured: &mut Measured,
) -> Result<()> {
    let mut random = random(options, &[9, 9]);
    for question in Question::ALL {
        let targets = targets(question, sizes, options);
        let mut let_through: BTreeMap<Case, (u64, u64)> = BTreeMap::new();
        for turn in targets.chunks(TURN) {
            random.shuffle(stores);
            for asked in stores.iter() {
                let Case { tree, grain, .. } = asked.case;
                if question == Question::ScanAbsentRow && (grain == Grain::Row || tree == Tree::Runs) {
                    continue;
                }
                let sum = let_through.entry(asked.case).or_default();
                let (positives, tested) = asked.turn(question, turn, access, study, measured)?;
                *sum = (sum.0 + positives, sum.1 + tested);
            }
        }
        for (case, (positives, tested)) in let_through {
            case.compare_false_positives(positives, tested, sizes, study);
        }
    }
    Ok(())
}

/// Different cells to ask for, rows at either end left out: every table has keys before and behind them.
fn targets(question: Question, sizes: &Sizes, options: &LabOptions) -> Vec<(u64, u64)> {
    let Sizes { rows, columns, .. } = *sizes;
    let absent_row = matches!(question, Question::AbsentRow | Question::ScanAbsentRow);
    let absent_column = u64::from(question == Question::AbsentColumn);
    let mut random = random(options, &[9, 3, question as u64]);
    if absent_row {
        let rows = (ROW_STEP..(rows - 1) * ROW_STEP).filter(|row| !row.is_multiple_of(ROW_STEP));
        let rows = random.choose_multiple(rows, sizes.gets);
        return rows.into_iter().map(|row| (row, random.u64(..columns) * 2)).collect();
    }
    let cells = random.choose_multiple(0..columns * (rows - 2), sizes.gets);
    let cell = |cell: u64| ((1 + cell / columns) * ROW_STEP, cell % columns * 2 + absent_column);
    cells.into_iter().map(cell).collect()
}

impl Case {
    /// Whether as many absent keys were let through as the formula says, of those `tested`.
    fn compare_false_positives(self, positives: u64, tested: u64, sizes: &Sizes, study: &mut Study) {
        let Case { tree, grain, bits } = self;
        if bits == 0 || tested == 0 {
            return;
        }
        let in_a_table = match (grain, tree) {
            (Grain::Row, _) => sizes.rows,
            (Grain::Cell, Tree::Merged) => sizes.rows * sizes.columns,
            (Grain::Cell, Tree::Runs) => sizes.rows * sizes.columns / RUNS,
        };
        let chance = false_positives(in_a_table, bits);
        let expected = chance * tested as f64;
        let spread = 5.0 * (expected * (1.0 - chance)).sqrt() + 1.0;
        let off = (positives as f64 - expected).abs();
        let operation = format!("false positives of a filter over {}", grain.name());
        let formula = format!("{bits} bits: within five standard deviations of the formula");
        study.compare(&operation, &formula, &(off <= spread), &true);
    }
}

impl<K: OrderedKv> Asked<K> {
    /// A turn of one question; how many absent keys filters let through, of how many asked of a table.
    fn turn(
        &self,
        question: Question,
        targets: &[(u64, u64)],
        access: &impl Access<K>,
        study: &mut Study,
        measured: &mut Measured,
    ) -> Result<(u64, u64)> {
        let Case { tree, grain, bits } = self.case;
        let samples = measured.gets.entry((tree, grain, bits, question)).or_default();
        // A row's key is there even if the column is not.
        let there = match question {
            Question::Present => true,
            Question::AbsentColumn => grain == Grain::Row,
            Question::AbsentRow | Question::ScanAbsentRow => false,
        };
        let over = if tree == Tree::Merged { grain.name() } else { "four tables" };
        let name = format!("{over}: {}", question.name());
        let (mut let_through, mut tested) = (0, 0);
        for (row, column) in targets {
            let key = key(grain, *row, *column);
            let found = if question == Question::ScanAbsentRow {
                samples.call("scan a row", || scan(&self.kv, *row))?
            } else {
                samples.call("ask for a cell", || access.has(&self.kv, &key))?
            };
            right(grain.name(), question.name(), &found.value, &there)?;
            let (cost, keys) = (found.cost, u64::from(there));
            let formula = if there { "1 call, 1 key" } else { "1 call, no key" };
            study.compare(&name, formula, &(cost.calls, cost.keys_read), &(1, keys));
            if !measured.counts_tables {
                continue;
            }
            let blocks = cost.blocks_from_cache + cost.blocks_from_disk;
            let (negatives, positives) = (cost.filter_negatives, cost.filter_false_positives);
            if question == Question::ScanAbsentRow {
                let formula = "filters are not asked, and at least a block is read";
                study.compare(&name, formula, &(negatives, positives, blocks > 0), &(0, 0, true));
                continue;
            }
            // Tables that are asked: all for a key that is absent, else those as new as the one that has it.
            let consulted = match (tree, there) {
                (Tree::Merged, _) => 1,
                (Tree::Runs, true) => RUNS - load_of(*row, *column),
                (Tree::Runs, false) => RUNS,
            };
            let lacking = consulted - keys;
            let formula =
                "every table that lacks the key is ruled out or a false positive; a block for each other";
            let counted = (cost.tables, negatives + positives, blocks + negatives);
            let filtered = if bits > 0 { lacking } else { 0 };
            study.compare(&name, formula, &counted, &(consulted, filtered, consulted));
            let_through += positives;
            tested += lacking;
        }
        Ok((let_through, tested))
    }
}

/// Whether the row has a cell.
fn scan<K: OrderedKv>(kv: &K, row: u64) -> esker_layouts::Result<Costed<bool>> {
    let read = kv.read()?;
    let first = read.scan(space().under(&(row,)), ScanOptions::new().limit(1))?.next().transpose()?;
    Ok(Costed { value: first.is_some(), cost: read.cost() })
}
