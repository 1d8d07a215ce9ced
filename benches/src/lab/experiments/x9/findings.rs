//! What the figures say: claims with verdicts, curves over bits and block sizes, regions.

use super::blocks::{Layout, Reading, State};
use super::filters::{Grain, Question, TURN, Tree, false_positives};
use super::shards::{Order, REGIONS};
use super::{BITS, Measured, Sizes};
use crate::lab::experiments::random;
use crate::lab::experiments::samples::Samples;
use crate::lab::model::Tally;
use crate::lab::stats::{interval, median};
use crate::lab::study::{
    Axis, BarGroup, Bars, Claim, Column, Exhibit, Line, Lines, Place, Study, Table, Unit, Value,
};
use crate::lab::verdict::{Outcome, Verdict};
use crate::lab::{LabOptions, Scale};

pub(super) fn study(mut study: Study, measured: &Measured, sizes: &Sizes, options: &LabOptions) -> Study {
    study.title = "Filters, block sizes and skewed users".into();
    study.protocol = format!(
        "Filters of {:?} bits over {} rows of {} columns, with a key for each cell (a filter over row and column) and \
         with rows packed in one value (a filter over rows), merged into one table; and cells in four tables over the \
         same keys. Up to {} different gets each of cells that are there, absent columns and absent rows. Blocks of \
         {:?} bytes: {} users with {} games each in wide rows and a tall table, {} reads of one fact each, cold (opened \
         again, no block cache; the system's own cache stays) and warm (asked for once before). {} plays by {} users, \
         as Zipf has them, in {REGIONS} regions under three orders of keys. Loaded without a log, in random order; \
         stores of filters take turns at a hundred gets each. Answers are checked.",
        sizes.bits,
        sizes.rows,
        sizes.columns,
        sizes.gets,
        sizes.blocks,
        sizes.users,
        sizes.games,
        sizes.reads,
        sizes.plays,
        sizes.players
    );
    let found = Found { measured, sizes, options, timed: options.scale != Scale::Tiny };
    study.claims = vec![
        found.absent_only(&study),
        found.several_tables(&study),
        found.row_or_cell(&study),
        found.wide_rows(&study),
        found.narrow_row(&study),
        found.even(&study),
    ];
    study.exhibits = vec![
        found.filters(),
        found.blocks_a_get(),
        found.time_of_gets(),
        found.block_sizes(),
        found.bytes_a_read(),
        found.time_of_reads(State::Cold),
        found.time_of_reads(State::Warm),
        found.regions(),
        found.region_bars(),
    ];
    study.notes.push(
        "A filter here is over whole keys. HBase's ROW and ROWCOL are not two settings but two layouts: a packed row has \
         a filter over rows, cells one over row and column. No filter is over prefixes, so a scan asks none."
            .into(),
    );
    study
}

struct Found<'a> {
    measured: &'a Measured,
    sizes: &'a Sizes,
    options: &'a LabOptions,
    /// Whether times mean anything.
    timed: bool,
}

/// Blocks of a call.
fn blocks(samples: &Samples) -> f64 {
    samples.mean(|cost| cost.blocks_from_cache + cost.blocks_from_disk)
}

/// Median times of the turns that the store had: their spread has that of the machine in it.
fn turns(samples: &Samples) -> Vec<f64> {
    samples.nanos.chunks(TURN).map(median).collect()
}

fn micros(samples: &Samples) -> String {
    format!("{:.2} µs", samples.median() / 1e3)
}

impl Found<'_> {
    fn get(&self, tree: Tree, grain: Grain, bits: u8, question: Question) -> Samples {
        self.measured.gets.get(&(tree, grain, bits, question)).cloned().unwrap_or_default()
    }

    fn cell(&self, bits: u8, question: Question) -> Samples {
        self.get(Tree::Merged, Grain::Cell, bits, question)
    }

    fn read(&self, size: u32, reading: Reading, state: State) -> Samples {
        self.measured.reads.get(&(size, reading, state)).cloned().unwrap_or_default()
    }

    fn slower(&self, slow: &Samples, fast: &Samples) -> bool {
        !self.timed || slow.median() > fast.median()
    }

    /// A verdict, unless the store counts neither tables nor blocks.
    fn verdict(&self, tally: &Tally, shaped: bool, reason: &str) -> Verdict {
        if self.measured.counts_tables {
            return Verdict::of(tally, shaped, reason);
        }
        let reason = "this store counts no tables, filters or blocks".to_owned();
        Verdict { outcome: Outcome::NotReproduced, reason }
    }

    fn sum(study: &Study, names: &[&str]) -> Tally {
        let mut sum = Tally::default();
        for name in names {
            sum.add(&study.tally(name));
        }
        sum
    }

    /// B3, in one table.
    fn absent_only(&self, study: &Study) -> Claim {
        let (none, with) = (|question| self.cell(0, question), |question| self.cell(BITS, question));
        let (absent, present) = (Question::AbsentColumn, Question::Present);
        let tally = Self::sum(study, &["row+column: ", "false positives"]);
        let shaped = blocks(&with(absent)) < blocks(&none(absent))
            && (blocks(&with(present)) - blocks(&none(present))).abs() < f64::EPSILON
            && self.slower(&none(absent), &with(absent));
        Claim {
            rows: "B3".into(),
            claimed: "Tables have Bloom filters; in the lab's reading: they help absent keys, and only those.".into(),
            predicted: "In one table an absent key costs a block without a filter, and with one a block as often as the \
                        filter errs. A key that is there costs its block either way."
                .into(),
            counted: format!(
                "blocks a get: absent {:.3} without a filter and {:.3} with {BITS} bits, present {:.3} and {:.3}",
                blocks(&none(absent)),
                blocks(&with(absent)),
                blocks(&none(present)),
                blocks(&with(present))
            ),
            timed: format!(
                "absent {} and {}, present {} and {}, warm",
                micros(&none(absent)),
                micros(&with(absent)),
                micros(&none(present)),
                micros(&with(present))
            ),
            verdict: self.verdict(&tally, shaped, "with a filter absent keys cost fewer blocks and less time, present ones as many blocks"),
        }
    }

    /// B3, where tables lie over each other.
    fn several_tables(&self, study: &Study) -> Claim {
        let of = |bits, question| self.get(Tree::Runs, Grain::Cell, bits, question);
        let (without, with) = (of(0, Question::Present), of(BITS, Question::Present));
        let tally = study.tally("four tables: ");
        let fewer = blocks(&with) < blocks(&without);
        let verdict = if self.measured.counts_tables && tally.all_equal() && fewer {
            let reason =
                "a key that is there is looked for in newer tables too, and their filters rule it out";
            Verdict { outcome: Outcome::Refuted, reason: reason.into() }
        } else {
            self.verdict(&tally, false, "no fewer blocks were read with a filter")
        };
        Claim {
            rows: "B3".into(),
            claimed: "The same, \"only\" taken at its word, before a compaction has merged the tables.".into(),
            predicted: "With four tables over a key it lacks in three of them in the worst case: without filters a block \
                        for each, so 2.5 in the mean; with them 1."
                .into(),
            counted: format!(
                "blocks a get of a cell that is there, in four tables: {:.3} without a filter, {:.3} with {BITS} bits",
                blocks(&without),
                blocks(&with)
            ),
            timed: format!("{} and {}, warm", micros(&without), micros(&with)),
            verdict,
        }
    }

    /// B3: ROW or ROWCOL.
    fn row_or_cell(&self, study: &Study) -> Claim {
        let of = |grain, question| self.get(Tree::Merged, grain, BITS, question);
        let (column, row) = (Question::AbsentColumn, Question::AbsentRow);
        let told = |grain: Grain| {
            format!(
                "{}: {:.3} for an absent column of a row, {:.3} for an absent row",
                grain.name(),
                blocks(&of(grain, column)),
                blocks(&of(grain, row))
            )
        };
        let scan = of(Grain::Cell, Question::ScanAbsentRow);
        let shaped = blocks(&of(Grain::Row, row)) < 0.5
            && blocks(&of(Grain::Row, column)) > 0.5
            && blocks(&of(Grain::Cell, column)) < 0.5
            && blocks(&scan) > 0.5;
        Claim {
            rows: "B3".into(),
            claimed: "The filter is set to ROW.".into(),
            predicted: "A filter over rows rules out absent rows only; one over row and column absent columns as well, and \
                        has an entry for every cell. A scan asks neither."
                .into(),
            counted: format!(
                "blocks a get with {BITS} bits, over {}; over {}; a scan of an absent row {:.3}",
                told(Grain::Row),
                told(Grain::Cell),
                blocks(&scan)
            ),
            timed: format!(
                "an absent row: {} and {}; its scan {}",
                micros(&of(Grain::Row, row)),
                micros(&of(Grain::Cell, row)),
                micros(&scan)
            ),
            verdict: self.verdict(
                &Self::sum(study, &["row: ", "row+column: "]),
                shaped,
                "each filter rules out what it is over and nothing else",
            ),
        }
    }

    fn least_block(&self) -> u32 {
        self.sizes.blocks.first().copied().unwrap_or(0)
    }

    /// B10.
    fn wide_rows(&self, study: &Study) -> Claim {
        let size = self.least_block();
        let of = |reading, state| self.read(size, reading, state);
        let (wide, narrow) = (Reading::WideRow, Reading::Narrow);
        let disk = |samples: &Samples| samples.mean(|cost| cost.bytes_from_disk);
        let shaped = self.slower(&of(wide, State::Cold), &of(wide, State::Warm))
            && self.slower(&of(wide, State::Cold), &of(narrow, State::Cold))
            && disk(&of(wide, State::Cold)) >= disk(&of(narrow, State::Cold));
        let names = [Reading::WideRow.name(), Reading::Narrow.name()];
        Claim {
            rows: "B10".into(),
            claimed: "Wide rows make clients complicated, and reads of files that are not cached cost more.".into(),
            predicted: "A fact in a wide row that is read whole costs a key for every column and all blocks of the row; a \
                        narrow row one key and one block."
                .into(),
            counted: format!(
                "in blocks of {size} B: {} keys, {:.2} blocks and {:.0} B from the file for the wide row, {} key, {:.2} \
                 blocks and {:.0} B for the narrow one",
                of(wide, State::Cold).mean(|cost| cost.keys_read),
                blocks(&of(wide, State::Cold)),
                disk(&of(wide, State::Cold)),
                of(narrow, State::Cold).mean(|cost| cost.keys_read),
                blocks(&of(narrow, State::Cold)),
                disk(&of(narrow, State::Cold))
            ),
            timed: format!(
                "wide {} cold and {} warm, narrow {} and {} (the file itself is in the system's cache: a device would add \
                 to the cold ones)",
                micros(&of(wide, State::Cold)),
                micros(&of(wide, State::Warm)),
                micros(&of(narrow, State::Cold)),
                micros(&of(narrow, State::Warm))
            ),
            verdict: self.verdict(
                &Self::sum(study, &names),
                shaped,
                "the cold read is slower than the warm one, and the wide row slower than the narrow",
            ),
        }
    }

    /// B15.
    fn narrow_row(&self, study: &Study) -> Claim {
        let size = self.least_block();
        let of = |reading| self.read(size, reading, State::Warm);
        let facts = self.sizes.users * self.sizes.games;
        let stored = |layout| {
            let weighed = self.measured.weights.get(&(size, layout)).copied();
            weighed.and_then(|(weighed, _)| weighed.stored(facts)).unwrap_or(0.0)
        };
        let shaped = self.slower(&of(Reading::WideRow), &of(Reading::Narrow))
            && Reading::ALL.iter().all(|reading| {
                !self.timed
                    || self.read(size, *reading, State::Cold).median() > of(Reading::Narrow).median()
            });
        Claim {
            rows: "B15".into(),
            claimed: "A narrow row in the cache is the fastest read: the bytes are the same, the index is used better.".into(),
            predicted: "Both orders hold the same key bytes. A get of the cell in the wide row is the same work as one of \
                        the narrow row: what is slow is to go through the row, not that it is wide."
                .into(),
            counted: format!(
                "{:.1} B a fact in blocks of {size} B in wide rows, {:.1} in the tall table; warm: {:.2} blocks and {} keys \
                 (row scanned, 1 seek), {:.2} and {} (one cell, no seek), {:.2} and {} (narrow row, no seek)",
                stored(Layout::Wide),
                stored(Layout::Tall),
                blocks(&of(Reading::WideRow)),
                of(Reading::WideRow).mean(|cost| cost.keys_read),
                blocks(&of(Reading::WideCell)),
                of(Reading::WideCell).mean(|cost| cost.keys_read),
                blocks(&of(Reading::Narrow)),
                of(Reading::Narrow).mean(|cost| cost.keys_read)
            ),
            timed: format!(
                "warm: row scanned {}, one cell of it {}, narrow row {}",
                micros(&of(Reading::WideRow)),
                micros(&of(Reading::WideCell)),
                micros(&of(Reading::Narrow))
            ),
            verdict: self.verdict(
                &Self::sum(study, &[Reading::WideRow.name(), Reading::WideCell.name(), Reading::Narrow.name(), "weight"]),
                shaped,
                "the cached narrow row is faster than the scanned row and than anything cold",
            ),
        }
    }

    /// B20.
    fn even(&self, study: &Study) -> Claim {
        let of = |order| self.measured.spreads.get(&order).cloned().unwrap_or_default();
        let told: Vec<String> = Order::ALL
            .iter()
            .map(|order| {
                let spread = of(*order);
                format!(
                    "{}: fullest {:.1} %, {:.1} of {REGIONS} regions in effect",
                    order.name(),
                    spread.top() * 100.0,
                    spread.effective()
                )
            })
            .collect();
        let busiest = of(Order::PerField).busiest_user as f64 / self.sizes.plays.max(1) as f64;
        let shaped = of(Order::WholeKey).top() < of(Order::PerField).top()
            && of(Order::PerField).top() < of(Order::Plain).top();
        Claim {
            rows: "B20".into(),
            claimed: "MD5 spreads skewed users evenly over regions.".into(),
            predicted: "A digest of the whole key does, and keeps neither a user's plays together nor any order. A digest of \
                        the user alone keeps them together: no region is smaller than its busiest user."
                .into(),
            counted: format!("{}; the busiest user has {:.1} % of all plays", told.join("; "), busiest * 100.0),
            timed: "Nothing: keys are counted. Load in time is not the same as keys in the end.".into(),
            verdict: Verdict::of(
                &study.tally("regions: "),
                shaped,
                "even under a digest of the whole key only; under one of the user the busiest stays in one region",
            ),
        }
    }

    fn filters(&self) -> Exhibit {
        let columns = [
            Column::text("filter over"),
            Column::text("asked for"),
            Column::new("bits a key", Unit::Number),
            Column::new("tables ruled out a get", Unit::Number),
            Column::new("false positives a get", Unit::Share),
            Column::new("by the formula", Unit::Share),
            Column::new("blocks a get", Unit::Number),
            Column::new("time", Unit::Nanos),
        ];
        let mut table = Table::new("Filters", columns);
        let mut random = random(self.options, &[9, 6]);
        for ((tree, grain, bits, question), samples) in &self.measured.gets {
            let over = match tree {
                Tree::Merged => grain.name().to_owned(),
                Tree::Runs => format!("{}, four tables", grain.name()),
            };
            let keys =
                if *grain == Grain::Row { self.sizes.rows } else { self.sizes.rows * self.sizes.columns };
            let absent = *question == Question::AbsentRow
                || (*question == Question::AbsentColumn && *grain == Grain::Cell);
            let formula =
                (absent && *bits > 0 && *tree == Tree::Merged).then(|| false_positives(keys, *bits));
            let counted = self.measured.counts_tables;
            let of = |counter: fn(&esker_layouts::OpCost) -> u64| counted.then(|| samples.mean(counter));
            table.row([
                Value::from(over),
                Value::from(question.name()),
                Value::from(u64::from(*bits)),
                Value::from(of(|cost| cost.filter_negatives)),
                Value::from(of(|cost| cost.filter_false_positives)),
                Value::from(formula),
                Value::from(counted.then(|| blocks(samples))),
                Value::from(interval(&turns(samples), &mut random)),
            ]);
        }
        Exhibit::Table(table)
    }

    fn over_bits(&self, title: &str, y: Axis, place: impl Fn(f64, &Samples) -> Place) -> Exhibit {
        let lines = [
            ("row+column, a cell that is there", Tree::Merged, Grain::Cell, Question::Present),
            ("row+column, an absent column", Tree::Merged, Grain::Cell, Question::AbsentColumn),
            ("row, an absent column", Tree::Merged, Grain::Row, Question::AbsentColumn),
            ("row, an absent row", Tree::Merged, Grain::Row, Question::AbsentRow),
            ("four tables, a cell that is there", Tree::Runs, Grain::Cell, Question::Present),
            ("four tables, an absent column", Tree::Runs, Grain::Cell, Question::AbsentColumn),
        ];
        let line = |(name, tree, grain, question): (&str, _, _, _)| {
            let points = self
                .sizes
                .bits
                .iter()
                .map(|bits| place(f64::from(*bits), &self.get(tree, grain, *bits, question)));
            Line { name: name.into(), points: points.collect() }
        };
        let x = Axis::linear("bits a key in the filter", Unit::Count);
        Exhibit::Lines(Lines { title: title.into(), x, y, lines: lines.into_iter().map(line).collect() })
    }

    fn blocks_a_get(&self) -> Exhibit {
        let y = Axis::linear("blocks a get", Unit::Number);
        self.over_bits("Blocks a get reads", y, |x, samples| Place::new(x, blocks(samples)))
    }

    fn time_of_gets(&self) -> Exhibit {
        let random = std::cell::RefCell::new(random(self.options, &[9, 7]));
        let y = Axis::linear("median time", Unit::Nanos);
        self.over_bits("Time of a get", y, |x, samples| Place {
            x,
            y: interval(&turns(samples), &mut random.borrow_mut()),
        })
    }

    fn block_sizes(&self) -> Exhibit {
        let columns = [
            Column::new("block", Unit::Bytes),
            Column::text("layout"),
            Column::new("entries a block", Unit::Number),
            Column::new("bytes a fact in blocks", Unit::Number),
            Column::new("index, filter and the rest, a fact", Unit::Number),
        ];
        let mut table = Table::new("Block sizes", columns);
        let facts = self.sizes.users * self.sizes.games;
        for ((size, layout), (weighed, disk)) in &self.measured.weights {
            let rest =
                disk.zip(weighed.stored(facts)).map(|(disk, stored)| disk as f64 / facts as f64 - stored);
            table.row([
                Value::from(u64::from(*size)),
                Value::from(layout.name()),
                Value::from(weighed.fill()),
                Value::from(weighed.stored(facts)),
                Value::from(rest),
            ]);
        }
        Exhibit::Table(table)
    }

    fn over_sizes(
        &self,
        title: &str,
        y: Axis,
        state: State,
        place: impl Fn(f64, &Samples) -> Place,
    ) -> Exhibit {
        let line = |reading: Reading| {
            let points = self
                .sizes
                .blocks
                .iter()
                .map(|size| place(f64::from(*size), &self.read(*size, reading, state)));
            Line { name: reading.name().into(), points: points.collect() }
        };
        let x = Axis::logarithmic("block size", Unit::Bytes);
        Exhibit::Lines(Lines {
            title: title.into(),
            x,
            y,
            lines: Reading::ALL.into_iter().map(line).collect(),
        })
    }

    fn bytes_a_read(&self) -> Exhibit {
        let y = Axis::logarithmic("bytes from the file", Unit::Bytes);
        self.over_sizes("Bytes a cold read takes from the file", y, State::Cold, |x, samples| {
            Place::new(x, samples.mean(|cost| cost.bytes_from_disk))
        })
    }

    fn time_of_reads(&self, state: State) -> Exhibit {
        let random = std::cell::RefCell::new(random(self.options, &[9, 8, state as u64]));
        let y = Axis::logarithmic("median time", Unit::Nanos);
        self.over_sizes(&format!("Time to read one fact, {}", state.name()), y, state, |x, samples| Place {
            x,
            y: samples.interval(&mut random.borrow_mut()),
        })
    }

    fn regions(&self) -> Exhibit {
        let columns = [
            Column::text("key"),
            Column::new("fullest region", Unit::Share),
            Column::new("standard deviation by mean", Unit::Number),
            Column::new("regions in effect", Unit::Number),
        ];
        let mut table = Table::new("Regions", columns);
        for (order, spread) in &self.measured.spreads {
            table.row([
                Value::from(order.name()),
                Value::from(spread.top()),
                Value::from(spread.variation()),
                Value::from(spread.effective()),
            ]);
        }
        Exhibit::Table(table)
    }

    fn region_bars(&self) -> Exhibit {
        let groups = (0..REGIONS).map(|region| BarGroup {
            name: format!("region {}", region + 1),
            values: self
                .measured
                .spreads
                .values()
                .map(|spread| spread.keys.get(usize::try_from(region).ok()?).map(|keys| *keys as f64))
                .collect(),
        });
        Exhibit::Bars(Bars {
            title: "Plays in each region".into(),
            value: Axis::linear("keys", Unit::Count),
            bars: self.measured.spreads.keys().map(|order| order.name().to_owned()).collect(),
            groups: groups.collect(),
        })
    }
}
