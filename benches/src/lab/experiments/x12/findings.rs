//! What the figures say: claims with verdicts, lines, tables.

use super::{Measured, Moment, Way};
use crate::lab::experiments::random;
use crate::lab::experiments::samples::Samples;
use crate::lab::study::{Axis, Claim, Column, Exhibit, Line, Lines, Place, Study, Table, Unit, Value};
use crate::lab::verdict::Verdict;
use crate::lab::{LabOptions, Scale};

pub(super) fn study(mut study: Study, measured: &Measured, options: &LabOptions) -> Study {
    let amounts: Vec<u64> =
        measured.drops.keys().filter(|(way, _)| *way == Way::Range).map(|(_, amount)| *amount).collect();
    study.title = "Dropping everything of a user: a loop, or one range delete".into();
    study.repetitions = Some(options.repetitions());
    study.protocol = format!(
        "A user has {amounts:?} keys of 50 bytes, between two keys that stay. They are loaded without a log, \
         flushed, opened again with the default durability and read once; dropped one by one (up to 100,000), in batches of 1,000 found by a scan, or by one range delete; \
         then everything is scanned twice, and once more after the deletes were flushed and all tables merged. A fresh store \
         each, in random order. Answers are checked."
    );
    let found = Found { measured, amounts, timed: options.scale != Scale::Tiny, options };
    let claims = found.claims(&study);
    study.claims = claims;
    study.exhibits.push(found.drop_lines());
    for moment in Moment::ALL {
        study.exhibits.push(found.scan_lines(moment));
    }
    study.exhibits.push(found.drops());
    study.exhibits.push(found.scans());
    study.notes.push(
        "The engine remembers the range that a scan found dead, in memory and until a put cuts it: the second scan \
         walks a little, asks, and crosses the rest in one seek. After an open the first scan walks again."
            .into(),
    );
    study
}

struct Found<'a> {
    measured: &'a Measured,
    amounts: Vec<u64>,
    /// Whether times mean anything.
    timed: bool,
    options: &'a LabOptions,
}

impl Found<'_> {
    fn drop(&self, way: Way, amount: u64) -> Samples {
        self.measured.drops.get(&(way, amount)).cloned().unwrap_or_default()
    }

    fn scan(&self, way: Way, amount: u64, moment: Moment) -> Samples {
        self.measured.scans.get(&(way, amount, moment)).cloned().unwrap_or_default()
    }

    fn claims(&self, study: &Study) -> Vec<Claim> {
        let least = self.amounts.first().copied().unwrap_or(0);
        let most = self.amounts.last().copied().unwrap_or(0);
        let (batched, range) = (self.drop(Way::Batched, most), self.drop(Way::Range, most));
        let micros = |samples: &Samples| format!("{:.1} µs", samples.median() / 1e3);
        let passed = |way, moment| self.scan(way, most, moment).mean(|cost| cost.tombstones_skipped);
        let first = self.scan(Way::Batched, most, Moment::First);
        let after = self.scan(Way::Batched, most, Moment::Compacted);
        vec![
            Claim {
                rows: "D4, D23".into(),
                claimed: "Everything under a prefix can be deleted at once.".into(),
                predicted: "A loop writes a tombstone for each key, a range delete one for all: linear against \
                            constant."
                    .into(),
                counted: format!(
                    "{most} keys: {:.0} tombstones and {:.0} B in a loop, {:.0} and {:.0} B by range",
                    batched.mean(|cost| cost.tombstones_written),
                    batched.mean(|cost| cost.bytes_written),
                    range.mean(|cost| cost.tombstones_written),
                    range.mean(|cost| cost.bytes_written)
                ),
                timed: format!(
                    "{most} keys: {} in batches, {} by range; {least} keys by range: {}",
                    micros(&batched),
                    micros(&range),
                    micros(&self.drop(Way::Range, least))
                ),
                verdict: Verdict::of(
                    &study.tally("drop, "),
                    !self.timed || batched.median() > 10.0 * range.median(),
                    "the range delete takes less than a tenth of the loop's time at the largest size",
                ),
            },
            Claim {
                rows: "D4 (section 4, X12)".into(),
                claimed: "Tombstones make later scans pay until a compaction.".into(),
                predicted: "The first scan passes what was dropped; a compaction removes it. What a scan found dead \
                            is remembered, so the second crosses all but its beginning at once."
                    .into(),
                counted: format!(
                    "tombstones passed after dropping {most} keys, first, second, compacted: {:.0}, {:.0}, {:.0} after \
                     a loop; {:.0}, {:.0}, {:.0} after a range delete",
                    passed(Way::Batched, Moment::First),
                    passed(Way::Batched, Moment::Second),
                    passed(Way::Batched, Moment::Compacted),
                    passed(Way::Range, Moment::First),
                    passed(Way::Range, Moment::Second),
                    passed(Way::Range, Moment::Compacted)
                ),
                timed: format!(
                    "after a loop: {} first, {} second, {} compacted; after a range delete: {}, {}, {}",
                    micros(&first),
                    micros(&self.scan(Way::Batched, most, Moment::Second)),
                    micros(&after),
                    micros(&self.scan(Way::Range, most, Moment::First)),
                    micros(&self.scan(Way::Range, most, Moment::Second)),
                    micros(&self.scan(Way::Range, most, Moment::Compacted))
                ),
                verdict: Verdict::of(
                    &study.tally("scan, "),
                    !self.timed || first.median() > after.median(),
                    "the first scan after the loop is compared with the one after the compaction",
                ),
            },
        ]
    }

    fn lines(&self, title: &str, mut at: impl FnMut(Way, u64) -> Option<Samples>) -> Exhibit {
        let mut random = random(self.options, &[12, 1 << 32]);
        let mut line = |way: Way| {
            let samples = self.amounts.iter().filter_map(|amount| Some((*amount, at(way, *amount)?)));
            let points = samples
                .map(|(amount, samples)| Place { x: amount as f64, y: samples.interval(&mut random) });
            Line { name: way.name().into(), points: points.collect() }
        };
        Exhibit::Lines(Lines {
            title: title.into(),
            x: Axis::logarithmic("keys dropped", Unit::Count),
            y: Axis::logarithmic("median time", Unit::Nanos),
            lines: Way::ALL.into_iter().map(&mut line).collect(),
        })
    }

    fn drop_lines(&self) -> Exhibit {
        self.lines("Time to drop the keys", |way, amount| self.measured.drops.get(&(way, amount)).cloned())
    }

    fn scan_lines(&self, moment: Moment) -> Exhibit {
        let title = format!("Time to scan what is left: {}", moment.name());
        self.lines(&title, |way, amount| self.measured.scans.get(&(way, amount, moment)).cloned())
    }

    fn drops(&self) -> Exhibit {
        let columns = [
            Column::text("drop"),
            Column::new("keys", Unit::Count),
            Column::new("tombstones", Unit::Count),
            Column::new("bytes written", Unit::Bytes),
            Column::new("calls", Unit::Count),
            Column::new("time", Unit::Nanos),
            Column::new("tables before", Unit::Bytes),
            Column::new("tables after", Unit::Bytes),
            Column::new("compacted", Unit::Bytes),
        ];
        let mut table = Table::new("Drops", columns);
        let mut random = random(self.options, &[12, 2 << 32]);
        for ((way, amount), samples) in &self.measured.drops {
            let bytes = self.measured.bytes.get(&(*way, *amount)).copied().unwrap_or_default();
            table.row([
                Value::from(way.name()),
                Value::from(*amount),
                Value::from(samples.mean(|cost| cost.tombstones_written)),
                Value::from(samples.mean(|cost| cost.bytes_written)),
                Value::from(samples.mean(|cost| cost.calls)),
                Value::from(samples.interval(&mut random)),
                Value::from(bytes[0]),
                Value::from(bytes[1]),
                Value::from(bytes[2]),
            ]);
        }
        Exhibit::Table(table)
    }

    fn scans(&self) -> Exhibit {
        let columns = [
            Column::text("dropped by"),
            Column::new("keys", Unit::Count),
            Column::text("scan"),
            Column::new("tombstones passed", Unit::Count),
            Column::new("entries passed", Unit::Count),
            Column::new("blocks", Unit::Count),
            Column::new("time", Unit::Nanos),
        ];
        let mut table = Table::new("Scans", columns);
        let mut random = random(self.options, &[12, 3 << 32]);
        for ((way, amount, moment), samples) in &self.measured.scans {
            table.row([
                Value::from(way.name()),
                Value::from(*amount),
                Value::from(moment.name()),
                Value::from(samples.mean(|cost| cost.tombstones_skipped)),
                Value::from(samples.mean(|cost| cost.entries_skipped)),
                Value::from(samples.mean(|cost| cost.blocks_from_cache + cost.blocks_from_disk)),
                Value::from(samples.interval(&mut random)),
            ]);
        }
        table.folded = true;
        Exhibit::Table(table)
    }
}
