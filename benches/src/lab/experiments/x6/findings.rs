//! What the figures say: claims with verdicts, bytes and times over the length of a name, the crossover.

use super::ids::Shape;
use super::{Asked, Measured, Sizes, WAYS, Weighed};
use crate::lab::experiments::random;
use crate::lab::experiments::samples::Samples;
use crate::lab::stats::{Interval, RESAMPLES, interval, median, quantile, resample};
use crate::lab::study::{Axis, Claim, Column, Exhibit, Line, Lines, Place, Study, Table, Unit, Value};
use crate::lab::verdict::{Outcome, Verdict};
use crate::lab::{LabOptions, Scale};

const V4: &str = WAYS[0].1;
const V5: &str = WAYS[1].1;
/// Ids in the article have up to five digits.
const SHORT: usize = 8;
/// Less than this much longer is not slower.
const MATERIAL: f64 = 1.05;

pub(super) fn study(
    mut study: Study,
    measured: &Measured,
    layouts: &[(&'static str, Weighed)],
    sizes: &Sizes,
    options: &LabOptions,
) -> Study {
    study.title = "How long is a name? Concatenated and hashed keys".into();
    study.protocol = format!(
        "{} users with {} friends each, in V4 (key: user.friend) and V5 (key: MD5 of user, MD5 of friend; value: \
         both ids), ids of {:?} bytes: numbered behind zeros, random letters, and random letters of mixed lengths \
         with the same mean. Loaded without a log, merged into one table, opened again with the default durability, read once as a whole and fact by fact; \
         then {} times, all six of a length in turn in random order: check a friend, check a stranger, add the stranger, \
         delete it. The default block of 4 KiB, no compression. Answers are checked. Tables are weighed \
         again with keys of random bytes of the same lengths, which share next to nothing.",
        sizes.users, sizes.degree, sizes.lengths, sizes.samples
    );
    let found = Found { measured, sizes, options, timed: options.scale != Scale::Tiny };
    study.claims = found.claims(&study, layouts);
    study.exhibits.push(found.bytes());
    study.exhibits.push(found.byte_lines());
    for asked in Asked::ALL {
        study.exhibits.push(found.time_lines(asked));
    }
    study.exhibits.push(found.hash_line());
    study.exhibits.push(found.crossovers());
    study.exhibits.push(key_sizes(layouts, sizes.facts()));
    study.notes.push(
        "Prefix compression cannot be switched off: the table format always stores the start that the keys of a block \
         have in common once, and in every restart interval of 16 keys what a key shares with the first (at most 255 \
         bytes). \"If nothing were shared\" is the weight of as many keys of the same lengths, of random bytes."
            .into(),
    );
    study.notes.push(
        "V5 is longer than V4 by its value: a digest cannot be turned back, so the ids are kept beside it, for lists and \
         to notice a collision. Whoever only checks pairs and accepts MD5's collisions can leave them out; the key alone \
         is shorter than V4's from ids of 15 bytes on."
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

/// How long `slow` takes for each `fast`, in medians, with a bootstrap interval.
pub(super) fn ratio(slow: &[f64], fast: &[f64], random: &mut fastrand::Rng) -> Interval {
    let of = |slow: &[f64], fast: &[f64]| median(slow) / median(fast).max(f64::MIN_POSITIVE);
    let ratios: Vec<f64> =
        (0..RESAMPLES).map(|_| of(&resample(slow, random), &resample(fast, random))).collect();
    Interval { low: quantile(&ratios, 0.025), median: of(slow, fast), high: quantile(&ratios, 0.975) }
}

/// The x at which `ys` first comes down to 0 from above, on a logarithmic axis; `None` if it never does.
pub(super) fn crossing(xs: &[f64], ys: &[f64]) -> Option<f64> {
    let falls = |pair: &[f64]| pair[0] > 0.0 && pair[1] <= 0.0;
    let at = ys.windows(2).position(falls)?;
    let (before, after) = (ys[at], ys[at + 1]);
    let part = before / (before - after);
    Some((xs[at].ln() + part * (xs[at + 1].ln() - xs[at].ln())).exp())
}

fn percent(ratio: f64) -> String {
    format!("{:+.0} %", (ratio - 1.0) * 100.0)
}

impl Found<'_> {
    fn times(&self, shape: Shape, length: usize, way: &'static str, asked: Asked) -> Samples {
        self.measured.times.get(&(shape, length, way, asked)).cloned().unwrap_or_default()
    }

    fn weights(&self, shape: Shape, length: usize, way: &'static str) -> Weighed {
        self.measured.weights.get(&(shape, length, way)).copied().unwrap_or_default()
    }

    /// As many keys of the same lengths that share nothing; not weighed for ids of mixed lengths.
    fn scrambled(&self, shape: Shape, length: usize, way: &'static str) -> Option<Weighed> {
        let known = self.measured.scrambled.get(&(length, way)).copied();
        known.filter(|_| shape != Shape::Mixed)
    }

    fn ends(&self) -> (usize, usize) {
        let lengths = self.sizes.lengths;
        (lengths.first().copied().unwrap_or(0), lengths.last().copied().unwrap_or(0))
    }

    /// What V5 takes for each of V4, ids random.
    fn hashed_ratio(&self, length: usize, asked: Asked) -> Interval {
        let mut random = random(self.options, &[6, 5, length as u64]);
        let times = |way| self.times(Shape::Random, length, way, asked).nanos;
        ratio(&times(V5), &times(V4), &mut random)
    }

    fn claims(&self, study: &Study, layouts: &[(&'static str, Weighed)]) -> Vec<Claim> {
        vec![
            self.lengths(study),
            self.hash_or_not(study),
            self.long_ids(study),
            self.short_names(study),
            self.digests(study),
            families(study, layouts),
        ]
    }

    /// A12.
    fn lengths(&self, study: &Study) -> Claim {
        let mut random = random(self.options, &[6, 6]);
        let mut mixed = Vec::new();
        let (mut slow, mut fast) = (Vec::new(), Vec::new());
        for length in self.sizes.lengths.iter().filter(|length| **length > 4) {
            let times = |shape| self.times(shape, *length, V4, Asked::Present).nanos;
            let fixed = times(Shape::Random);
            let scale = median(&fixed).max(f64::MIN_POSITIVE);
            slow.extend(times(Shape::Mixed).iter().map(|nanos| nanos / scale));
            fast.extend(fixed.iter().map(|nanos| nanos / scale));
            mixed.push(format!(
                "{length} B {}",
                percent(ratio(&times(Shape::Mixed), &fixed, &mut random).median)
            ));
        }
        let pooled = ratio(&slow, &fast, &mut random);
        let (short, long) = self.ends();
        let longer = |asked| {
            let times = |length| self.times(Shape::Random, length, V4, asked).median();
            times(long) / times(short).max(f64::MIN_POSITIVE)
        };
        Claim {
            rows: "A12".into(),
            claimed: "Keys of variable length with a delimiter may be slower (a worry, untested).".into(),
            predicted: "A byte of an id is a byte of V4's key; calls and keys do not depend on it. Mixed lengths cost \
                        what their mean costs, since keys are compared byte by byte either way."
                .into(),
            counted: format!(
                "every key as long as both ids and 3 bytes, at every length and mixture; an id that contains the \
                 delimiter is refused. {} operations",
                study.tally(V4).operations
            ),
            timed: format!(
                "checking a friend under ids of mixed lengths against ids of one: {}; all lengths together {} ({} to {}). \
                 {long} B instead of {short} B: check × {:.2}, add × {:.2}",
                mixed.join(", "),
                percent(pooled.median),
                percent(pooled.low),
                percent(pooled.high),
                longer(Asked::Present),
                longer(Asked::Add)
            ),
            verdict: Verdict::of(
                &study.tally(V4),
                !self.timed || pooled.low > MATERIAL,
                &format!(
                    "mixed lengths take {} as long ({} to {})",
                    format_args!("{:.2} times", pooled.median),
                    format_args!("{:.2}", pooled.low),
                    format_args!("{:.2}", pooled.high)
                ),
            ),
        }
    }

    /// A23.
    fn hash_or_not(&self, study: &Study) -> Claim {
        let lengths: Vec<usize> =
            self.sizes.lengths.iter().copied().filter(|length| *length <= SHORT).collect();
        let mut told = Vec::new();
        let mut seen = Vec::new();
        let mut smallest: f64 = 0.0;
        for asked in [Asked::Present, Asked::Add, Asked::Remove] {
            for length in &lengths {
                let r = self.hashed_ratio(*length, asked);
                told.push(format!(
                    "{} {length} B {} ({} to {})",
                    asked.name(),
                    percent(r.median),
                    percent(r.low),
                    percent(r.high)
                ));
                smallest = smallest.max((r.high - r.low) / 2.0);
                if r.low > 1.0 || r.high < 1.0 {
                    seen.push(asked.name());
                }
            }
        }
        seen.dedup();
        let tally = {
            let mut sum = study.tally(V4);
            sum.add(&study.tally(V5));
            sum
        };
        let reason = if seen.is_empty() {
            "no interval excludes equality".to_owned()
        } else {
            format!("a difference is seen: {}", seen.join(", "))
        };
        let call = 200_000.0;
        let apart = lengths.iter().map(|length| {
            let time = |way| self.times(Shape::Random, *length, way, Asked::Present).median();
            (time(V5) - time(V4)) / (call + time(V4))
        });
        let apart = apart.fold(0.0, f64::max);
        Claim {
            rows: "A23".into(),
            claimed: "Between V4 and V5 no difference was seen, and none was ruled out.".into(),
            predicted: "The same calls and keys. V5 hashes two ids an operation and stores and returns them as a value: \
                        dearer for short ids, by two digests and some bytes."
                .into(),
            counted: format!("the same calls, keys and tombstones, {} operations", tally.operations),
            timed: format!(
                "V5 against V4: {}. A difference of {:.0} % would have been seen. Behind a network call of 200 µs \
                 (modelled) the difference of a check is {:.2} %, which a run like the article's does not show",
                told.join(", "),
                smallest * 100.0,
                apart * 100.0
            ),
            verdict: Verdict::of(&tally, !self.timed || seen.is_empty(), &reason),
        }
    }

    /// A12 and A23 together: from which length the hash pays.
    fn long_ids(&self, study: &Study) -> Claim {
        let (_, long) = self.ends();
        let ratios = Asked::ALL.map(|asked| (asked, self.hashed_ratio(long, asked)));
        let told: Vec<String> = ratios
            .iter()
            .map(|(asked, r)| {
                format!(
                    "{} {} ({} to {})",
                    asked.name(),
                    percent(r.median),
                    percent(r.low),
                    percent(r.high)
                )
            })
            .collect();
        let faster = ratios.iter().all(|(_, r)| r.high < 1.0);
        let mut tally = study.tally(V4);
        tally.add(&study.tally(V5));
        Claim {
            rows: "A12, A23".into(),
            claimed: "Keys of fixed length should win once ids are long (the lab's expectation).".into(),
            predicted: "V4's key grows by two bytes for each of an id, V5's does not. Against that stand the digests, \
                        which read the ids, and the value, which holds them."
                .into(),
            counted: "at every length the same calls and keys; V5 reads and writes 33 bytes more a fact".into(),
            timed: format!("V5 against V4 with ids of {long} B: {}; the crossover has a table", told.join(", ")),
            verdict: Verdict::of(
                &tally,
                !self.timed || faster,
                &format!(
                    "with the longest ids V5 {} the faster one at everything",
                    if faster { "is" } else { "is not" }
                ),
            ),
        }
    }

    /// B13.
    fn short_names(&self, study: &Study) -> Claim {
        let facts = self.sizes.facts();
        let (short, long) = self.ends();
        let weight = |shape, length| self.weights(shape, length, V4);
        let handed = |length| weight(Shape::Random, length).key_bytes as f64 / facts as f64;
        let stored = |shape, length| weight(shape, length).stored(facts);
        let told = |shape: Shape| {
            let (Some(least), Some(most)) = (stored(shape, short), stored(shape, long)) else {
                return format!("{}: this store counts no blocks", shape.name());
            };
            let alone = self.scrambled(shape, long, V4).and_then(|w| w.stored(facts)).unwrap_or(0.0);
            format!(
                "{}: {least:.1} B a fact in blocks with ids of {short} B, {most:.1} B with {long} B ({alone:.1} B if \
                 nothing were shared)",
                shape.name()
            )
        };
        let smaller = |shape| match (stored(shape, short), stored(shape, long)) {
            (Some(short), Some(long)) => short < long,
            _ => handed(short) < handed(long),
        };
        Claim {
            rows: "B13".into(),
            claimed: "Short names cut disk and network I/O.".into(),
            predicted: "What is handed over grows by each byte of a name. On disk what neighbours share is stored once in \
                        16 keys, so a long name of the row costs little and a long name of the column its whole length."
                .into(),
            counted: format!(
                "{}; {}; handed to the reader: {:.0} B and {:.0} B",
                told(Shape::Numbered),
                told(Shape::Random),
                handed(short),
                handed(long)
            ),
            timed: "Nothing: bytes are counted.".into(),
            verdict: Verdict::of(
                &study.tally(&format!("{V4}: everything")),
                smaller(Shape::Numbered) && smaller(Shape::Random),
                "shorter names take less on disk and in the reader's hands, with and without a shared start",
            ),
        }
    }

    /// B19.
    fn digests(&self, study: &Study) -> Claim {
        let facts = self.sizes.facts();
        let (short, long) = self.ends();
        let key = |length| self.weights(Shape::Random, length, V5).key_bytes / facts.max(1);
        let all = |length, way| {
            let plain = self.weights(Shape::Random, length, way);
            (plain.key_bytes + plain.value_bytes) as f64 / facts as f64
        };
        let hash = |length| {
            let nanos = self.measured.hashes.get(&length).map_or(0.0, |nanos| median(nanos));
            format!("{nanos:.0} ns")
        };
        let fixed = self.sizes.lengths.iter().all(|length| key(*length) == 32);
        Claim {
            rows: "B19".into(),
            claimed: "A digest as row key has a fixed length, needs no delimiter, and makes keys predictable.".into(),
            predicted: "32 bytes for two digests, whatever the ids are, and ids with any character. The ids move into the \
                        value, so a fact is longer than under V4 by 33 bytes at every length."
                .into(),
            counted: format!(
                "a key has {} B with ids of {short} B and {} B with {long} B; key and value together {:.0} and {:.0} B, \
                 V4 {:.0} and {:.0} B",
                key(short),
                key(long),
                all(short, V5),
                all(long, V5),
                all(short, V4),
                all(long, V4)
            ),
            timed: format!("both digests {} with ids of {short} B, {} with {long} B", hash(short), hash(long)),
            verdict: Verdict::of(
                &study.tally(&format!("{V5}: ")),
                fixed,
                "the key's length is fixed; the fact's is not, since the ids are kept as the value",
            ),
        }
    }

    fn bytes(&self) -> Exhibit {
        let columns = [
            Column::text("ids"),
            Column::new("length", Unit::Bytes),
            Column::text("layout"),
            Column::new("key", Unit::Number),
            Column::new("value", Unit::Number),
            Column::new("in blocks", Unit::Number),
            Column::new("if nothing were shared", Unit::Number),
            Column::new("saved by shared starts", Unit::Share),
            Column::new("entries a block", Unit::Number),
        ];
        let mut table = Table::new("Bytes of a fact", columns);
        let facts = self.sizes.facts();
        for shape in Shape::ALL {
            for length in self.sizes.lengths {
                for (_, way) in WAYS {
                    let plain = self.weights(shape, *length, way);
                    let alone = self.scrambled(shape, *length, way).and_then(|w| w.stored(facts));
                    let saved = plain.stored(facts).zip(alone).map(|(with, without)| 1.0 - with / without);
                    table.row([
                        Value::from(shape.name()),
                        Value::from(*length as u64),
                        Value::from(way),
                        Value::from(plain.key_bytes as f64 / facts as f64),
                        Value::from(plain.value_bytes as f64 / facts as f64),
                        Value::from(plain.stored(facts)),
                        Value::from(alone),
                        Value::from(saved),
                        Value::from(plain.fill()),
                    ]);
                }
            }
        }
        Exhibit::Table(table)
    }

    fn byte_lines(&self) -> Exhibit {
        let facts = self.sizes.facts();
        let line = |name: String, weighed: &dyn Fn(usize) -> Option<Weighed>| {
            let points =
                self.sizes.lengths.iter().filter_map(|length| {
                    Some(Place::new(*length as f64, weighed(*length)?.stored(facts)?))
                });
            Line { name, points: points.collect() }
        };
        let mut lines = Vec::new();
        for (_, way) in WAYS {
            for shape in [Shape::Numbered, Shape::Random] {
                let name = format!("{way}, {} ids", shape.name());
                lines.push(line(name, &|length| Some(self.weights(shape, length, way))));
            }
        }
        let name = format!("{V4}, nothing shared");
        lines.push(line(name, &|length| self.scrambled(Shape::Random, length, V4)));
        Exhibit::Lines(Lines {
            title: "Bytes of a fact in blocks".into(),
            x: Axis::logarithmic("bytes of an id", Unit::Bytes),
            y: Axis::logarithmic("bytes a fact", Unit::Bytes),
            lines,
        })
    }

    fn time_lines(&self, asked: Asked) -> Exhibit {
        let mut random = random(self.options, &[6, 7, asked as u64]);
        let mut lines = Vec::new();
        for (_, way) in WAYS {
            for shape in Shape::ALL {
                let points = self.sizes.lengths.iter().map(|length| Place {
                    x: *length as f64,
                    y: self.times(shape, *length, way, asked).interval(&mut random),
                });
                lines.push(Line { name: format!("{way}, {} ids", shape.name()), points: points.collect() });
            }
        }
        Exhibit::Lines(Lines {
            title: format!("Time to {}", asked.name()),
            x: Axis::logarithmic("bytes of an id", Unit::Bytes),
            y: Axis::linear("median time", Unit::Nanos),
            lines,
        })
    }

    fn hash_line(&self) -> Exhibit {
        let mut random = random(self.options, &[6, 8]);
        let points = self
            .measured
            .hashes
            .iter()
            .map(|(length, nanos)| Place { x: *length as f64, y: interval(nanos, &mut random) });
        Exhibit::Lines(Lines {
            title: "Time for the two digests of a key".into(),
            x: Axis::logarithmic("bytes of an id", Unit::Bytes),
            y: Axis::linear("median time", Unit::Nanos),
            lines: vec![Line { name: "MD5 of both ids".into(), points: points.collect() }],
        })
    }

    /// From which length on V5 is the faster one.
    fn crossovers(&self) -> Exhibit {
        let (short, long) = self.ends();
        let columns = [
            Column::text("operation"),
            Column::new(&format!("V5 ÷ V4 at {short} B"), Unit::Number),
            Column::new(&format!("V5 ÷ V4 at {long} B"), Unit::Number),
            Column::new("V5 faster from this length", Unit::Bytes),
            Column::new("resamples", Unit::Share),
            Column::new("V5 slower again from", Unit::Bytes),
            Column::new("resamples", Unit::Share),
        ];
        let mut table = Table::new("The crossover", columns);
        for asked in Asked::ALL {
            let (from, faster) = self.crossover(asked, 1.0);
            let (to, slower) = self.crossover(asked, -1.0);
            table.row([
                Value::from(asked.name()),
                Value::from(self.hashed_ratio(short, asked)),
                Value::from(self.hashed_ratio(long, asked)),
                Value::from(from),
                Value::from(faster),
                Value::from(to),
                Value::from(slower),
            ]);
        }
        Exhibit::Table(table)
    }

    /// The length from which V5 is faster (`sign` 1) or slower (−1), if most resamples have one, and the share of
    /// them that do.
    fn crossover(&self, asked: Asked, sign: f64) -> (Option<Interval>, f64) {
        let mut random = random(self.options, &[6, 9, asked as u64]);
        let xs: Vec<f64> = self.sizes.lengths.iter().map(|length| *length as f64).collect();
        let times: Vec<[Vec<f64>; 2]> = self
            .sizes
            .lengths
            .iter()
            .map(|length| [V5, V4].map(|way| self.times(Shape::Random, *length, way, asked).nanos))
            .collect();
        let apart = |hashed: &[f64], plain: &[f64]| {
            sign * (median(hashed) / median(plain).max(f64::MIN_POSITIVE)).ln()
        };
        let found: Vec<f64> = (0..RESAMPLES)
            .filter_map(|_| {
                let ys: Vec<f64> = times
                    .iter()
                    .map(|[hashed, plain]| {
                        apart(&resample(hashed, &mut random), &resample(plain, &mut random))
                    })
                    .collect();
                crossing(&xs, &ys)
            })
            .collect();
        let share = found.len() as f64 / RESAMPLES as f64;
        let interval = Interval {
            low: quantile(&found, 0.025),
            median: median(&found),
            high: quantile(&found, 0.975),
        };
        ((share > 0.5).then_some(interval), share)
    }
}

/// B11.
fn families(study: &Study, layouts: &[(&'static str, Weighed)]) -> Claim {
    let mut told: Vec<String> = layouts
        .iter()
        .filter(|(name, _)| name.starts_with("wide"))
        .map(|(name, weighed)| {
            format!("{name}: {} B of keys for {} cells", weighed.key_bytes, weighed.keys)
        })
        .collect();
    told.sort();
    let tally = study.tally("families");
    let outcome = if tally.all_equal() { Outcome::Refuted } else { Outcome::NotReproduced };
    let reason = if tally.all_equal() {
        "here a cell has its family's number: a long family name costs its length once; a long row key costs as in B13"
    } else {
        "the family's name was found in more than one key"
    };
    Claim {
        rows: "B11".into(),
        claimed: "Make row keys longer and family names shorter.".into(),
        predicted: "Where each cell repeats its family's name, as in HBase, a short one saves bytes in every cell. Here a \
                    family is a number and its name is stored once."
            .into(),
        counted: told.join("; "),
        timed: "Nothing: bytes are counted.".into(),
        verdict: Verdict { outcome, reason: reason.into() },
    }
}

fn key_sizes(layouts: &[(&'static str, Weighed)], facts: u64) -> Exhibit {
    let columns = [
        Column::text("layout"),
        Column::new("keys a fact", Unit::Number),
        Column::new("mean key", Unit::Number),
        Column::new("key bytes a fact", Unit::Number),
        Column::new("value bytes a fact", Unit::Number),
        Column::new("in blocks, a fact", Unit::Number),
        Column::new("entries a block", Unit::Number),
    ];
    let title = format!(
        "Key sizes: the same facts in every layout, ids of {} bytes, in bytes",
        super::sizes::LENGTH
    );
    let mut table = Table::new(&title, columns);
    for (name, weighed) in layouts {
        let per = |bytes: u64, of: u64| bytes as f64 / of.max(1) as f64;
        table.row([
            Value::from(*name),
            Value::from(per(weighed.keys, facts)),
            Value::from(per(weighed.key_bytes, weighed.keys)),
            Value::from(per(weighed.key_bytes, facts)),
            Value::from(per(weighed.value_bytes, facts)),
            Value::from(weighed.stored(facts)),
            Value::from(weighed.fill()),
        ]);
    }
    Exhibit::Table(table)
}
