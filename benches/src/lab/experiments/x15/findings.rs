//! What the figures say: claims with verdicts, bars, tables.

use super::asked::{Asked, BATCHED, CHECKED, COVERED, OWN, SCAN, SINGLE, SKIP, UNIQUE, Write};
use super::raced::Check;
use super::{COVERING, IN_STEP, Sizes, VERIFIED};
use crate::lab::experiments::random;
use crate::lab::experiments::samples::Samples;
use crate::lab::model::Tally;
use crate::lab::study::{Axis, BarGroup, Bars, Claim, Column, Exhibit, Study, Table, Unit, Value};
use crate::lab::verdict::{Outcome, Verdict};
use crate::lab::{LabOptions, Scale};

/// The tables with one index more each.
const COUNTS: [&str; 5] = ["no index", "1 index", "2 indexes", "3 indexes", "4 indexes"];

pub(super) fn study(asked: &Asked<'_>, checks: &[Check], sizes: &Sizes, options: &LabOptions) -> Study {
    let mut study = asked.study.clone();
    study.title = "Secondary indexes: what they save readers and cost writers".into();
    study.protocol = format!(
        "A table of {} people in {} cities with 0 to 4 indexes: by mail address (unique), by city, by city and age, \
         by age; and three tables with the index by city alone: kept in step with the rows, with the name in its \
         entries (covering), and verified on read. Loaded without a log, flushed, opened again with the default \
         durability and read once; {} lookups of each kind and then {} puts of each kind, in random order. Answers are checked against the rows in memory. Then 16 threads \
         insert one mail address, {} times, and an index is built over the loaded table while 2 threads move people. \
         In the costs of lookups the list of indexes, one scan when a view is opened, is left out; in those of \
         writes it is in.",
        sizes.rows, sizes.cities, sizes.samples, sizes.samples, sizes.rounds
    );
    let found = Found { asked, timed: options.scale != Scale::Tiny };
    study.claims = found.claims(checks);
    study.claims.extend(found.claims_on_writes());
    study.exhibits.push(found.lookups());
    study.exhibits.push(found.puts());
    study.exhibits.push(promises(checks));
    study.exhibits.push(found.reads_table(options));
    study.exhibits.push(found.writes_table(options));
    study.notes.push(
        "A batched get is one call of the layout; over a network it is one round trip, in this process it is as many \
         gets. The keys read are the same either way: only an entry that carries the name saves them."
            .into(),
    );
    study
}

struct Found<'a, 'b> {
    asked: &'a Asked<'b>,
    /// Whether times mean anything.
    timed: bool,
}

fn micros(nanos: f64) -> String {
    format!("{:.1} µs", nanos / 1e3)
}

impl Found<'_, '_> {
    fn read(&self, table: &'static str, question: &'static str) -> Samples {
        self.asked.reads.get(&(table, question)).cloned().unwrap_or_default()
    }

    fn write(&self, table: &'static str, write: Write) -> Samples {
        self.asked.writes.get(&(table, write)).cloned().unwrap_or_default()
    }

    /// Over the formulas of all these operations.
    fn tally(&self, operations: &[&str]) -> Tally {
        let mut sum = Tally::default();
        for operation in operations {
            sum.add(&self.asked.study.tally(operation));
        }
        sum
    }

    /// A verdict by the counters, and by whether `slow` takes longer than `fast`.
    fn verdict(&self, operations: &[&str], slow: f64, fast: f64) -> Verdict {
        let shaped = !self.timed || slow > fast;
        let time = format!("{} against {}", micros(slow), micros(fast));
        Verdict::of(&self.tally(operations), shaped, &time)
    }

    fn claims(&self, checks: &[Check]) -> Vec<Claim> {
        let full = "4 indexes";
        let (unique, scan) = (self.read(full, UNIQUE), self.read(full, SCAN));
        let (covered, batched) = (self.read(COVERING, COVERED), self.read(IN_STEP, BATCHED));
        let single = self.read(IN_STEP, SINGLE);
        let (skip, own) = (self.read(full, SKIP), self.read(full, OWN));
        let kept = checks.iter().all(|check| check.kept);
        let found: Vec<&str> = checks.iter().map(|check| check.found.as_str()).collect();
        let keys = |samples: &Samples| samples.mean(|cost| cost.keys_read);
        let calls = |samples: &Samples| samples.mean(|cost| cost.calls);
        vec![
            Claim {
                rows: "D13".into(),
                claimed: "A unique index leads from a value to the one row that has it.".into(),
                predicted: "One key a lookup. Of writers racing for a value one wins, and an index built beside \
                            writers misses nothing."
                    .into(),
                counted: format!("{:.2} keys a lookup; {}", keys(&unique), found.join("; ")),
                timed: format!("{} a lookup", micros(unique.median())),
                verdict: Verdict {
                    outcome: if kept && self.tally(&[UNIQUE, "16 racing", "the table", "an index"]).all_equal() {
                        Outcome::Reproduced
                    } else {
                        Outcome::NotReproduced
                    },
                    reason: "all promises of the table below, and every lookup, are held against their formula".into(),
                },
            },
            Claim {
                rows: "D14, D15".into(),
                claimed: "With the wanted fields in the index a lookup needs no second read.".into(),
                predicted: "N keys in 1 call from the entries; else 2·N keys in 1 + N calls, or in 2 with a batch."
                    .into(),
                counted: format!(
                    "{:.1} keys in {:.0} call covering; {:.1} keys in {:.1} calls by single gets, in {:.0} calls with a batch",
                    keys(&covered),
                    calls(&covered),
                    keys(&single),
                    calls(&single),
                    calls(&batched)
                ),
                timed: format!(
                    "{} covering, {} with a batch, {} by single gets",
                    micros(covered.median()),
                    micros(batched.median()),
                    micros(single.median())
                ),
                verdict: self.verdict(
                    &[&format!("{COVERING}: "), &format!("{IN_STEP}: ")],
                    batched.median(),
                    covered.median(),
                ),
            },
            Claim {
                rows: "D16".into(),
                claimed: "The second field of a compound index cannot be searched alone.".into(),
                predicted: "It can, at a seek for each distinct first field: worth it where those are few. An index \
                            of its own reads the hits alone."
                    .into(),
                counted: format!(
                    "{:.0} keys by skip scan, {:.0} by full scan, {:.0} with an index of its own",
                    keys(&skip),
                    keys(&scan),
                    keys(&own)
                ),
                timed: format!(
                    "{}, {} and {}",
                    micros(skip.median()),
                    micros(scan.median()),
                    micros(own.median())
                ),
                verdict: if self.tally(&[SCAN, SKIP, OWN]).all_equal() && keys(&skip) < keys(&scan) {
                    let reason = "the skip scan answers and reads a fraction of the rows; every cost is its formula's";
                    Verdict { outcome: Outcome::Refuted, reason: reason.into() }
                } else {
                    self.verdict(&[SCAN, SKIP, OWN], scan.median(), skip.median())
                },
            },
        ]
    }

    fn claims_on_writes(&self) -> Vec<Claim> {
        let full = "4 indexes";
        let none = self.write("no index", Write::New);
        let four = self.write(full, Write::New);
        let (in_step, verified) = (self.write(IN_STEP, Write::City), self.write(VERIFIED, Write::City));
        let keys = |samples: &Samples| samples.mean(|cost| cost.keys_read);
        let calls = |samples: &Samples| samples.mean(|cost| cost.calls);
        vec![
            Claim {
                rows: "D13–D16".into(),
                claimed: "Indexes are paid for by writers.".into(),
                predicted: "A new row is written with one key an index; a change with one put and one delete for \
                            each index whose fields it changes, and none for others."
                    .into(),
                counted: format!(
                    "a new row writes {:.0} key without indexes and {:.0} with four; a field in no index {:.0} in both",
                    none.mean(|cost| cost.keys_written),
                    four.mean(|cost| cost.keys_written),
                    self.write(full, Write::Note).mean(|cost| cost.keys_written)
                ),
                timed: format!("{} without indexes, {} with four", micros(none.median()), micros(four.median())),
                verdict: self.verdict(
                    &["put a new row", "change a field", "change the city"],
                    four.median(),
                    none.median(),
                ),
            },
            Claim {
                rows: "D14, section 2.1".into(),
                claimed: "Entries verified when they are read save the writer the read of the old row.".into(),
                predicted: "No get and no delete in a put; lookups read a row for each entry, and for each that is \
                            stale."
                    .into(),
                counted: format!(
                    "a change of city makes {:.0} calls and {:.0} deletes verified, {:.0} and {:.0} kept in step; a \
                     lookup {:.1} keys before and {:.1} after the writes",
                    calls(&verified),
                    verified.mean(|cost| cost.tombstones_written),
                    calls(&in_step),
                    in_step.mean(|cost| cost.tombstones_written),
                    keys(&self.read(VERIFIED, CHECKED)),
                    keys(&self.asked.stale.get(VERIFIED).cloned().unwrap_or_default()),
                ),
                timed: format!(
                    "a change of city: {} kept in step, {} verified",
                    micros(in_step.median()),
                    micros(verified.median())
                ),
                verdict: self.verdict(
                    &[&format!("change the city: {VERIFIED}"), &format!("{VERIFIED}: ")],
                    in_step.median(),
                    verified.median(),
                ),
            },
        ]
    }

    fn lookups(&self) -> Exhibit {
        let questions = [
            (COVERING, COVERED),
            (IN_STEP, BATCHED),
            (IN_STEP, SINGLE),
            (VERIFIED, CHECKED),
            ("4 indexes", OWN),
            ("4 indexes", SKIP),
            ("4 indexes", SCAN),
        ];
        Exhibit::Bars(Bars {
            title: "Keys read by a lookup".into(),
            value: Axis::logarithmic("keys read", Unit::Count),
            bars: vec!["keys read".into(), "calls".into()],
            groups: questions
                .into_iter()
                .map(|(table, question)| {
                    let samples = self.read(table, question);
                    let (keys, calls) = (samples.mean(|c| c.keys_read), samples.mean(|c| c.calls));
                    BarGroup { name: question.into(), values: vec![Some(keys), Some(calls)] }
                })
                .collect(),
        })
    }

    fn puts(&self) -> Exhibit {
        Exhibit::Bars(Bars {
            title: "Time of a put by the number of indexes".into(),
            value: Axis::linear("median time", Unit::Nanos),
            bars: Write::ALL.iter().map(|write| write.name().to_owned()).collect(),
            groups: COUNTS
                .into_iter()
                .chain([IN_STEP, VERIFIED])
                .map(|table| BarGroup {
                    name: table.into(),
                    values: Write::ALL
                        .iter()
                        .map(|write| Some(self.write(table, *write).median()))
                        .collect(),
                })
                .collect(),
        })
    }

    fn reads_table(&self, options: &LabOptions) -> Exhibit {
        let columns = [
            Column::text("question"),
            Column::text("table"),
            Column::new("calls", Unit::Number),
            Column::new("keys read", Unit::Number),
            Column::new("bytes read", Unit::Bytes),
            Column::new("time", Unit::Nanos),
        ];
        let mut table = Table::new("Lookups", columns);
        let mut random = random(options, &[15, 6]);
        let after =
            self.asked.stale.iter().map(|(name, s)| ((*name, "names of a city, after the writes"), s));
        for ((name, question), samples) in self.asked.reads.iter().map(|(at, s)| (*at, s)).chain(after) {
            table.row([
                Value::from(question),
                Value::from(name),
                Value::from(samples.mean(|cost| cost.calls)),
                Value::from(samples.mean(|cost| cost.keys_read)),
                Value::from(samples.mean(|cost| cost.bytes_read)),
                Value::from(samples.interval(&mut random)),
            ]);
        }
        table.folded = true;
        Exhibit::Table(table)
    }

    fn writes_table(&self, options: &LabOptions) -> Exhibit {
        let columns = [
            Column::text("table"),
            Column::text("write"),
            Column::new("keys written", Unit::Number),
            Column::new("deletes", Unit::Number),
            Column::new("keys read", Unit::Number),
            Column::new("calls", Unit::Number),
            Column::new("bytes written", Unit::Bytes),
            Column::new("time", Unit::Nanos),
        ];
        let mut table = Table::new("Writes", columns);
        let mut random = random(options, &[15, 7]);
        for ((name, write), samples) in &self.asked.writes {
            table.row([
                Value::from(*name),
                Value::from(write.name()),
                Value::from(samples.mean(|cost| cost.keys_written)),
                Value::from(samples.mean(|cost| cost.tombstones_written)),
                Value::from(samples.mean(|cost| cost.keys_read)),
                Value::from(samples.mean(|cost| cost.calls)),
                Value::from(samples.mean(|cost| cost.bytes_written)),
                Value::from(samples.interval(&mut random)),
            ]);
        }
        table.folded = true;
        Exhibit::Table(table)
    }
}

fn promises(checks: &[Check]) -> Exhibit {
    let columns = [Column::text("promise"), Column::text("found"), Column::text("verdict")];
    let mut table = Table::new("Promises under threads", columns);
    for check in checks {
        table.row([
            Value::from(check.promise.as_str()),
            Value::from(check.found.as_str()),
            Value::from(if check.kept { "pass" } else { "fail" }),
        ]);
    }
    Exhibit::Table(table)
}
