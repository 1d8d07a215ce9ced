//! What the figures say: claims with verdicts, tables, charts.

use super::layouts::Layout;
use super::measure::{Bench, Measured, Question, blocks};
use super::source::{Generator, Source};
use super::truth::Moment;
use crate::lab::LabOptions;
use crate::lab::store::Setup;
use crate::lab::study::{
    Axis, BarGroup, Bars, Claim, Column, Exhibit, Heat, HeatCell, Line, Lines, Place, Study, Table, Unit,
    Value,
};
use crate::lab::verdict::{Outcome, Verdict};

/// The article's Table 3: facts, seconds wide, seconds tall.
pub(super) const TABLE_3: [(f64, f64, f64); 3] =
    [(5e6, 0.237, 0.079), (10e6, 0.418, 0.112), (20e6, 0.83, 0.283)];
/// The growth exponents of its two columns.
const EXPONENTS: (f64, f64) = (0.90, 0.92);
/// How much more than the game's share of all facts tall may take of wide's time.
const SHARE_FACTOR: f64 = 1.5;
/// Memory beside memtables and block cache.
const MEMORY_BESIDE: u64 = 256 << 20;

/// The growth exponent of (x, y) points: the slope of a straight line through their logarithms.
pub(super) fn exponent(points: &[(f64, f64)]) -> Option<f64> {
    let points: Vec<(f64, f64)> =
        points.iter().filter(|(x, y)| *x > 0.0 && *y > 0.0).map(|(x, y)| (x.ln(), y.ln())).collect();
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let spread: f64 = points.iter().map(|p| (p.0 - x).powi(2)).sum();
    (points.len() > 1 && spread > 0.0)
        .then(|| points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum::<f64>() / spread)
}

/// Everything together.
pub(super) fn study(bench: Bench<'_>, options: &LabOptions, setup: &Setup) -> Study {
    let mut found = Findings { last: bench.moments.len() - 1, bench, exhibits: Vec::new() };
    let claims = found.claims();
    found.heat();
    found.table_3();
    found.growth();
    found.shares();
    found.crowds();
    found.space();
    found.loads();
    found.raw();
    let notes = found.notes(setup);
    let protocol = found.protocol(options);
    let Findings { bench, exhibits, .. } = found;
    Study {
        name: "X8".into(),
        title: "Wide rows or tall tables: who plays which game?".into(),
        rows: "B5–B19, B22".into(),
        protocol,
        claims,
        exhibits,
        notes,
        ..bench.study
    }
}

struct Findings<'a> {
    bench: Bench<'a>,
    /// The last moment.
    last: usize,
    exhibits: Vec<Exhibit>,
}

fn percent(share: f64) -> String {
    if share < 0.01 { format!("{:.2} %", share * 100.0) } else { format!("{:.1} %", share * 100.0) }
}

impl Findings<'_> {
    fn cell(&self, layout: Layout, question: Question, moment: usize) -> Option<&Measured> {
        self.bench.cells.get(&(layout, question, moment))
    }

    fn p50(&self, layout: Layout, question: Question, moment: usize) -> f64 {
        self.cell(layout, question, moment).map_or(0.0, Measured::p50)
    }

    fn now(&self) -> &Moment {
        &self.bench.moments[self.last]
    }

    /// The pick that stands for games: a share of about a hundredth.
    fn middle(&self) -> usize {
        1.min(self.bench.picks.len() - 1)
    }

    /// Picks with a share, that is without the probe.
    fn shared(&self) -> impl Iterator<Item = usize> {
        let picks = self.bench.picks;
        (0..picks.len()).filter(|pick| picks[*pick].share > 0.0)
    }

    fn probe(&self) -> Option<usize> {
        (0..self.bench.picks.len()).find(|pick| self.bench.picks[*pick].share == 0.0)
    }

    /// Q3's median time by facts.
    fn times(&self, layout: Layout, pick: usize) -> Vec<(f64, f64)> {
        let moments = self.bench.moments.iter().enumerate();
        moments
            .map(|(at, moment)| (moment.facts as f64, self.p50(layout, Question::Players(pick), at)))
            .collect()
    }

    fn protocol(&self, options: &LabOptions) -> String {
        let Bench { source, moments, picks, effort, .. } = &self.bench;
        let data = match source {
            Source::Generated(Generator { users, games, probes, .. }) => format!(
                "Generated facts in the article's scenario: {users} users, {} games whose popularity follows Zipf's \
                 law, one to three games a user and day, in the order of days; and the game 3CountryBattle with \
                 {probes} players, all from the first day.",
                games.len() - 1
            ),
            Source::Imported(table) => format!(
                "{}: {} lines, {} facts after adding up what has the same user, item and day; {} users, {} items{}.",
                options.interest.as_ref().map_or(String::new(), |interest| {
                    interest.file.file_name().unwrap_or_default().to_string_lossy().into_owned()
                }),
                table.lines,
                table.facts.len(),
                table.users.len(),
                table.items.len(),
                if table.thousandths { "; amounts in thousandths" } else { "" }
            ),
        };
        let sizes: Vec<String> =
            moments.iter().map(|m| format!("{} facts ({} wide rows)", m.facts, m.rows)).collect();
        let games: Vec<String> = picks
            .iter()
            .filter(|pick| pick.share > 0.0)
            .map(|pick| format!("{} ({})", source.games()[pick.game as usize], pick.label))
            .collect();
        format!(
            "{data} Loaded without a log. Layouts one after the other, in random order, each over a fresh store of its own, asked at {}, \
             after the store has merged all its tables (a major compaction). Q1 and Q2 about {} users (present and absent games in turn), Q3 and \
             Q4 about the games whose share of facts lies nearest 10 %, 1 % and 0.1 %: {}. Answers are counts and \
             checksums of names, and checked. Scans of more than 10,000 cells run in {} parts side by side, the same \
             for all layouts. What a client over a network would wait for is not in these times.",
            sizes.join(", "),
            self.now().users.len(),
            games.join(", "),
            effort.parts
        )
    }

    fn claims(&self) -> Vec<Claim> {
        use Layout::{Both, PerField, Tall, WholeKey, Wide};
        type Judge<'f> = fn(&Findings<'f>) -> Claim;
        let judges: [(&[Layout], Judge<'_>); 9] = [
            (&[Wide, Tall], Self::by_key),
            (&[Wide, Tall], Self::alike),
            (&[Wide, Tall], Self::factor),
            (&[Wide, Tall, Both], Self::per_user),
            (&[Wide, Tall, WholeKey, PerField], Self::pair),
            (&[Wide, Tall], Self::any),
            (&[Tall, WholeKey, PerField], Self::whole_key),
            (&[Tall], Self::listing),
            (&[Wide, Tall], Self::bytes),
        ];
        let ran = |needs: &[Layout]| needs.iter().all(|layout| self.ran(*layout));
        let mut claims: Vec<Claim> =
            judges.iter().filter(|(needs, _)| ran(needs)).map(|(_, judge)| judge(self)).collect();
        if ran(&[Wide, Tall]) {
            claims.extend(self.probe().map(|pick| self.held(pick)));
        }
        claims
    }

    /// Whether `layout` was among those to run.
    fn ran(&self, layout: Layout) -> bool {
        self.bench.loads.contains_key(&(layout, self.last))
    }

    /// Counters of Q3 wide and tall.
    fn read(&self, layout: Layout, question: Question) -> String {
        self.cell(layout, question, self.last).map_or("–".into(), |measured| {
            format!(
                "{:.0} keys in {:.0} blocks",
                measured.mean(|cost| cost.keys_read),
                measured.mean(blocks)
            )
        })
    }

    fn both_read(&self, question: Question) -> String {
        format!("wide {}, tall {}", self.read(Layout::Wide, question), self.read(Layout::Tall, question))
    }

    fn took(&self, layouts: &[Layout], question: Question) -> String {
        let each = layouts.iter().map(|layout| {
            let nanos = self.p50(*layout, question, self.last);
            format!("{} {}", layout.name(), crate::lab::report::duration(nanos))
        });
        each.collect::<Vec<_>>().join(", ")
    }

    fn tally(&self, layouts: &[Layout], question: Question) -> crate::lab::model::Tally {
        let mut sum = crate::lab::model::Tally::default();
        for layout in layouts {
            sum.add(&self.bench.study.tally(&format!("{}: {}", layout.name(), question.name())));
        }
        sum
    }

    fn by_key(&self) -> Claim {
        let pick = self.middle();
        let question = Question::Players(pick);
        let faster = self.shared().all(|pick| {
            let question = Question::Players(pick);
            self.p50(Layout::Tall, question, self.last) < self.p50(Layout::Wide, question, self.last)
        });
        Claim {
            rows: "B8, B14".into(),
            claimed: "Who plays a game is a scan of the whole wide table; in the tall table it is answered by key.".into(),
            predicted: "Wide reads every fact, tall the game's own: one scan of a prefix (a get would need the user too)."
                .into(),
            counted: format!("{}: {}.", self.bench.picks[pick].label, self.both_read(question)),
            timed: format!("{}: {}.", self.bench.picks[pick].label, self.took(&[Layout::Wide, Layout::Tall], question)),
            verdict: Verdict::of(
                &self.tally(&[Layout::Wide, Layout::Tall], question),
                faster,
                if faster { "tall is faster for every game asked about" } else { "tall is not faster for every game" },
            ),
        }
    }

    fn alike(&self) -> Claim {
        let pick = self.middle();
        let [wide, tall] = [Layout::Wide, Layout::Tall].map(|layout| exponent(&self.times(layout, pick)));
        let linear = |slope: Option<f64>| slope.is_some_and(|slope| (0.6..1.4).contains(&slope));
        let show = |slope: Option<f64>| slope.map_or("–".into(), |slope| format!("{slope:.2}"));
        let shaped = linear(wide) && linear(tall);
        Claim {
            rows: "B17".into(),
            claimed: format!(
                "Table 3 is offered as tall scaling better. Its own figures do not say so: wide grows with exponent \
                 {:.2}, tall with {:.2}.",
                EXPONENTS.0, EXPONENTS.1
            ),
            predicted:
                "A game that keeps its share of the facts has more of them as the table grows: both are \
                        linear, with exponents near 1."
                    .into(),
            counted: format!("Keys read: {}.", self.both_read(Question::Players(pick))),
            timed: format!(
                "Exponents here ({}): wide {}, tall {}.",
                self.bench.picks[pick].label,
                show(wide),
                show(tall)
            ),
            verdict: Verdict::of(
                &self.tally(&[Layout::Wide, Layout::Tall], Question::Players(pick)),
                shaped,
                if shaped {
                    "both grow alike, as in the article's figures"
                } else {
                    "an exponent is not near 1"
                },
            ),
        }
    }

    fn factor(&self) -> Claim {
        let ratios: Vec<(String, f64)> = self
            .shared()
            .map(|pick| {
                let question = Question::Players(pick);
                let tall = self.p50(Layout::Tall, question, self.last).max(1.0);
                (self.bench.picks[pick].label.clone(), self.p50(Layout::Wide, question, self.last) / tall)
            })
            .collect();
        let shown: Vec<String> =
            ratios.iter().map(|(label, ratio)| format!("{label}: {ratio:.1} times")).collect();
        Claim {
            rows: "B17".into(),
            claimed: "Tall answers more than 50 % faster: 2.9 to 3.7 times at every size.".into(),
            predicted: "The factor is no property of the layouts: it is one over the game's share of the facts. One of \
                        3 would need a game with a third of all plays, or a fixed cost that dwarfs the scan."
                .into(),
            counted: self
                .shared()
                .map(|pick| format!("{}: {}", self.bench.picks[pick].label, self.both_read(Question::Players(pick))))
                .collect::<Vec<_>>()
                .join("; "),
            timed: format!("Wide ÷ tall, {}.", shown.join(", ")),
            verdict: Verdict {
                outcome: if ratios.iter().all(|(_, ratio)| *ratio > 1.5) {
                    Outcome::ShapeOnly
                } else {
                    Outcome::NotReproduced
                },
                reason: "tall is faster, by a factor that follows the game's share and not the article's constant; \
                         the article names neither the game's share nor its machine, and 21 to 24 million rows a second \
                         is more than a client scan of HBase hands out"
                    .into(),
            },
        }
    }

    fn held(&self, pick: usize) -> Claim {
        let question = Question::Players(pick);
        let [wide, tall] = [Layout::Wide, Layout::Tall].map(|layout| exponent(&self.times(layout, pick)));
        let flat = tall.is_some_and(|slope| slope.abs() < 0.35);
        let show = |slope: Option<f64>| slope.map_or("–".into(), |slope| format!("{slope:.2}"));
        Claim {
            rows: "B14, B17".into(),
            claimed: "(Ours, to tell size from popularity.) The cost of the tall table is that of the answer.".into(),
            predicted: "A game whose players stay the same costs tall the same at every size, and wide more and more.".into(),
            counted: self.both_read(question),
            timed: format!("Exponents: wide {}, tall {}.", show(wide), show(tall)),
            verdict: Verdict::of(
                &self.tally(&[Layout::Wide, Layout::Tall], question),
                flat,
                if flat { "tall is flat" } else { "tall is not flat" },
            ),
        }
    }

    fn per_user(&self) -> Claim {
        let layouts = [Layout::Wide, Layout::Tall, Layout::Both];
        let [wide, tall, both] = layouts.map(|layout| self.p50(layout, Question::Games, self.last));
        let better = wide < tall && both < tall;
        Claim {
            rows: "B6".into(),
            claimed: "The wide table answers which games a user plays by one short scan.".into(),
            predicted: "Wide reads the user's facts. Tall has them nowhere together and reads everything; kept both \
                        ways it reads the user's again, for twice the space."
                .into(),
            counted: format!(
                "{}; both ways {}.",
                self.both_read(Question::Games),
                self.read(Layout::Both, Question::Games)
            ),
            timed: self.took(&layouts, Question::Games),
            verdict: Verdict::of(
                &self.tally(&layouts, Question::Games),
                better,
                if better { "wide and both ways are far ahead" } else { "wide or both ways are not ahead" },
            ),
        }
    }

    fn pair(&self) -> Claim {
        let layouts = [Layout::Wide, Layout::Tall, Layout::WholeKey, Layout::PerField];
        Claim {
            rows: "B7, B16, B19".into(),
            claimed: "Whether a user plays a game is a scan of the user's rows in the wide table, and a get in the tall \
                      or hashed one."
                .into(),
            predicted: "One key against as many as the user has facts; both lie in a block or two, so the times differ \
                        little."
                .into(),
            counted: layouts.map(|l| format!("{} {}", l.name(), self.read(l, Question::Plays))).join("; "),
            timed: self.took(&layouts, Question::Plays),
            verdict: Verdict::of(
                &self.tally(&layouts, Question::Plays),
                true,
                "each layout answers by key (a scan of the pair's prefix, as days follow it)",
            ),
        }
    }

    fn any(&self) -> Claim {
        let pick = self.shared().last().unwrap_or(0);
        let question = Question::Played(pick);
        Claim {
            rows: "B9, B14".into(),
            claimed: "Whether anybody plays a game costs the wide table as much as who does; tall gets it by key.".into(),
            predicted: "Wide may stop at the first player: about one over the share cells for a popular game, \
                        everything for one nobody plays. Tall reads one key."
                .into(),
            counted: format!("{}: {}.", self.bench.picks[pick].label, self.both_read(question)),
            timed: format!("{}: {}.", self.bench.picks[pick].label, self.took(&[Layout::Wide, Layout::Tall], question)),
            verdict: Verdict::of(
                &self.tally(&[Layout::Wide, Layout::Tall], question),
                true,
                "tall reads one key; wide stops early, so it is dear only for games that hardly anybody plays",
            ),
        }
    }

    fn whole_key(&self) -> Claim {
        let pick = self.middle();
        let question = Question::Players(pick);
        let read =
            self.cell(Layout::WholeKey, question, self.last).map_or(0.0, |m| m.mean(|c| c.keys_read));
        Claim {
            rows: "B19, B22".into(),
            claimed: "With MD5 of user and game as the row key, start and stop rows are easier to give, and a scan from \
                      there finds the newest interest."
                .into(),
            predicted: "A digest of the whole key keeps neither order nor prefix: only the pair test is left. Hashed \
                        field by field, the game's digest is a prefix again."
                .into(),
            counted: format!(
                "Q3, {}: whole key {}, per field {}.",
                self.bench.picks[pick].label,
                self.read(Layout::WholeKey, question),
                self.read(Layout::PerField, question)
            ),
            timed: self.took(&[Layout::WholeKey, Layout::PerField, Layout::Tall], question),
            verdict: Verdict {
                outcome: if read >= self.now().facts as f64 { Outcome::Refuted } else { Outcome::NotReproduced },
                reason: format!(
                    "under whole-key digests Q1 and Q3 read every one of {} facts; there is no range that holds a game's \
                     or a user's rows",
                    self.now().facts
                ),
            },
        }
    }

    fn listing(&self) -> Claim {
        let (asked, found) = self.bench.swapped;
        Claim {
            rows: "B16".into(),
            claimed: "Listing 4 builds the key from user and game, in this order, and gets the pair from the tall table.".into(),
            predicted: "The table's keys begin with the game: such a get matches nothing.".into(),
            counted: format!("{asked} pairs that are there, asked with the fields swapped: {found} found."),
            timed: "Nothing.".into(),
            verdict: Verdict {
                outcome: if asked > 0 && found == 0 { Outcome::Refuted } else { Outcome::NotReproduced },
                reason: "the order of the fields is the layout".into(),
            },
        }
    }

    fn bytes(&self) -> Claim {
        let question = Question::Players(self.middle());
        let bytes =
            |layout| self.cell(layout, question, self.last).map_or(0.0, |m| m.mean(|c| c.bytes_read));
        let (wide, tall) = (bytes(Layout::Wide), bytes(Layout::Tall));
        let per_key = |layout| {
            let keys = self.cell(layout, question, self.last).map_or(1.0, |m| m.mean(|c| c.keys_read));
            bytes(layout) / keys.max(1.0)
        };
        let refuted = wide > 1.5 * tall;
        Claim {
            rows: "B15".into(),
            claimed: "Narrow and wide rows read the same amount of data; it is the index that is used better.".into(),
            predicted: "A cell has the same key and value either way, so a cell costs the same. But a question that the \
                        order does not serve reads all cells."
                .into(),
            counted: format!(
                "Q3, {}: wide {:.0} bytes, tall {:.0}; a cell: {:.1} and {:.1} bytes.",
                self.bench.picks[self.middle()].label,
                wide,
                tall,
                per_key(Layout::Wide),
                per_key(Layout::Tall)
            ),
            timed: "See Q3.".into(),
            verdict: Verdict {
                outcome: if refuted { Outcome::Refuted } else { Outcome::NotReproduced },
                reason: "cell by cell it is so; for the question the article asks, wide reads one over the game's share \
                         times as much"
                    .into(),
            },
        }
    }

    fn heat(&mut self) {
        let pick = self.middle();
        let label = &self.bench.picks[pick].label;
        let questions = [Question::Games, Question::Plays, Question::Players(pick), Question::Played(pick)];
        let columns = questions.map(|question| match question {
            Question::Players(_) | Question::Played(_) => format!("{} ({label})", question.name()),
            _ => question.name().to_owned(),
        });
        let cell = |layout: Layout, question: Question| {
            let measured = self.cell(layout, question, self.last);
            HeatCell {
                value: measured.map(Measured::p50),
                remark: measured.map_or(String::new(), |measured| {
                    let keys = measured.mean(|cost| cost.keys_read);
                    format!("{} keys, {} blocks", rounded(keys), rounded(measured.mean(blocks)))
                }),
            }
        };
        let rows = Layout::ALL.into_iter().filter(|layout| self.ran(*layout)).map(|layout| {
            (layout.name().to_owned(), questions.map(|question| cell(layout, question)).to_vec())
        });
        let heat = Heat {
            title: format!("Five layouts, four questions, {} facts: median time", self.now().facts),
            columns: columns.to_vec(),
            unit: Unit::Nanos,
            rows: rows.collect(),
        };
        self.exhibits.push(Exhibit::Heat(heat));
    }

    fn table_3(&mut self) {
        let seconds = || Unit::Of("s".into());
        let mut columns = vec![
            Column::new("facts", Unit::Count),
            Column::new("wide rows", Unit::Count),
            Column::new("article: wide", seconds()),
            Column::new("article: tall", seconds()),
            Column::new("article: wide ÷ tall", Unit::Number),
        ];
        let picks: Vec<usize> = self.shared().collect();
        for pick in &picks {
            let label = &self.bench.picks[*pick].label;
            columns.push(Column::new(&format!("here, {label}: wide"), Unit::Nanos));
            columns.push(Column::new("tall", Unit::Nanos));
            columns.push(Column::new("wide ÷ tall", Unit::Number));
        }
        let mut table = Table::new("Table 3 again: who plays a game (median times)", columns);
        let rows = self.bench.moments.len().max(TABLE_3.len());
        for at in 0..rows {
            let moment = self.bench.moments.get(at);
            let scale = moment.map(|moment| moment.facts as f64);
            let article =
                TABLE_3.iter().find(|(facts, ..)| scale.is_some_and(|f| (f / facts - 1.0).abs() < 0.01));
            let mut row: Vec<Value> = vec![
                moment.map(|moment| moment.facts).into(),
                moment.map(|moment| moment.rows).into(),
                article.map(|row| row.1).into(),
                article.map(|row| row.2).into(),
                article.map(|row| row.1 / row.2).into(),
            ];
            for pick in &picks {
                let question = Question::Players(*pick);
                let [wide, tall] =
                    [Layout::Wide, Layout::Tall].map(|l| self.cell(l, question, at).map(Measured::p50));
                row.extend([
                    wide.into(),
                    tall.into(),
                    wide.zip(tall).map(|(wide, tall)| wide / tall).into(),
                ]);
            }
            if moment.is_some() {
                table.row(row);
            }
        }
        if self.bench.moments.iter().all(|moment| moment.facts < 4_900_000) {
            for (facts, wide, tall) in TABLE_3 {
                let mut row: Vec<Value> =
                    vec![facts.into(), Value::Nothing, wide.into(), tall.into(), (wide / tall).into()];
                row.resize(5 + 3 * picks.len(), Value::Nothing);
                table.row(row);
            }
        }
        let mut row: Vec<Value> = vec![
            "growth exponent".into(),
            Value::Nothing,
            EXPONENTS.0.into(),
            EXPONENTS.1.into(),
            Value::Nothing,
        ];
        for pick in &picks {
            for layout in [Layout::Wide, Layout::Tall] {
                let slope = exponent(&self.times(layout, *pick));
                row.push(slope.map_or("–".into(), |slope| format!("{slope:.2}")).into());
            }
            row.push(Value::Nothing);
        }
        table.row(row);
        self.exhibits.push(Exhibit::Table(table));
    }

    fn growth(&mut self) {
        let line = |name: String, value: &dyn Fn(usize) -> f64| Line {
            name,
            points: (0..self.bench.moments.len())
                .map(|at| Place::new(self.bench.moments[at].facts as f64, value(at)))
                .collect(),
        };
        let mut time = Vec::new();
        let mut keys = Vec::new();
        for (pick, label) in self.bench.picks.iter().map(|pick| pick.label.clone()).enumerate() {
            let question = Question::Players(pick);
            let layouts: &[Layout] =
                if pick == self.middle() { &[Layout::Wide, Layout::Tall] } else { &[Layout::Tall] };
            for layout in layouts.iter().filter(|layout| self.ran(**layout)) {
                let name = format!("{}, {label}", layout.name());
                time.push(line(name.clone(), &|at| self.p50(*layout, question, at)));
                keys.push(line(name, &|at| {
                    self.cell(*layout, question, at).map_or(0.0, |m| m.mean(|cost| cost.keys_read))
                }));
            }
        }
        let facts = || Axis::logarithmic("facts", Unit::Count);
        self.exhibits.push(Exhibit::Lines(Lines {
            title: "Q3, who plays a game: time".into(),
            x: facts(),
            y: Axis::logarithmic("median time", Unit::Nanos),
            lines: time,
        }));
        self.exhibits.push(Exhibit::Lines(Lines {
            title: "Q3, who plays a game: keys read".into(),
            x: facts(),
            y: Axis::logarithmic("keys read", Unit::Count),
            lines: keys,
        }));
    }

    /// Tall's share of wide's time beside the game's share of facts.
    fn shares(&mut self) {
        let mut table = Table::new(
            "Does tall cost its share? Q3 at the last size",
            [
                Column::text("game"),
                Column::new("share of facts", Unit::Share),
                Column::new("players", Unit::Count),
                Column::new("wide", Unit::Nanos),
                Column::new("tall", Unit::Nanos),
                Column::new("tall ÷ wide", Unit::Share),
                Column::new("÷ share of facts", Unit::Number),
                Column::text("within 1.5"),
            ],
        );
        if !self.ran(Layout::Wide) || !self.ran(Layout::Tall) {
            return;
        }
        for pick in self.shared() {
            let question = Question::Players(pick);
            let [wide, tall] = [Layout::Wide, Layout::Tall].map(|l| self.p50(l, question, self.last));
            let picked = self.now().picks[pick];
            let share = picked.facts as f64 / self.now().facts as f64;
            let over = tall / wide.max(1.0) / share;
            table.row([
                self.bench.source.games()[self.bench.picks[pick].game as usize].as_str().into(),
                share.into(),
                picked.followers.users.into(),
                wide.into(),
                tall.into(),
                (tall / wide.max(1.0)).into(),
                over.into(),
                if over <= SHARE_FACTOR { "yes" } else { "no" }.into(),
            ]);
        }
        self.exhibits.push(Exhibit::Table(table));
    }

    fn crowds(&mut self) {
        let line = |layout: Layout, plays: bool| {
            let mine = self.bench.crowds.iter();
            let mine =
                mine.filter(|crowd| crowd.layout == layout && (crowd.question == Question::Plays) == plays);
            Line {
                name: format!("{} {}", layout.name(), if plays { "Q2" } else { "Q3" }),
                points: mine.map(|crowd| Place::new(crowd.clients as f64, crowd.per_second)).collect(),
            }
        };
        let lines =
            [(Layout::Wide, true), (Layout::Tall, true), (Layout::Wide, false), (Layout::Tall, false)];
        self.exhibits.push(Exhibit::Lines(Lines {
            title: "Clients side by side (B18): answers a second".into(),
            x: Axis::linear("clients", Unit::Count),
            y: Axis::logarithmic("answers a second", Unit::Count),
            lines: lines
                .into_iter()
                .filter(|(layout, _)| self.ran(*layout))
                .map(|(layout, plays)| line(layout, plays))
                .collect(),
        }));
    }

    fn space(&mut self) {
        let facts = self.now().facts as f64;
        let bytes = |layout| self.bench.loads.get(&(layout, self.last)).and_then(|load| load.disk_bytes);
        let stored: Vec<(Layout, f64)> = Layout::ALL
            .into_iter()
            .filter_map(|layout| Some((layout, bytes(layout)? as f64 / facts)))
            .collect();
        if stored.is_empty() {
            return;
        }
        let group = |(layout, bytes): &(Layout, f64)| BarGroup {
            name: layout.name().into(),
            values: vec![Some(*bytes)],
        };
        self.exhibits.push(Exhibit::Bars(Bars {
            title: "Room on disk for a fact".into(),
            value: Axis::linear("bytes a fact", Unit::Of("B".into())),
            bars: vec!["on disk".into()],
            groups: stored.iter().map(group).collect(),
        }));
    }

    fn loads(&mut self) {
        let mut table = Table::new(
            "Loading, in commits of 2,000 cells, with a major compaction at each size (sum over the sizes)",
            [
                Column::text("layout"),
                Column::new("facts", Unit::Count),
                Column::new("wide rows", Unit::Count),
                Column::new("keys", Unit::Count),
                Column::new("time", Unit::Nanos),
                Column::new("facts a second", Unit::Count),
                Column::new("on disk", Unit::Bytes),
            ],
        );
        for layout in Layout::ALL {
            let Some(load) = self.bench.loads.get(&(layout, self.last)) else { continue };
            let facts = self.now().facts;
            table.row([
                layout.name().into(),
                facts.into(),
                self.now().rows.into(),
                (facts * layout.cells()).into(),
                (load.nanos as f64).into(),
                (facts as f64 * 1e9 / load.nanos.max(1) as f64).into(),
                load.disk_bytes.into(),
            ]);
        }
        self.exhibits.push(Exhibit::Table(table));
    }

    fn raw(&mut self) {
        let mut table = Table::new(
            "Figures: every question at every size",
            [
                Column::text("layout"),
                Column::text("question"),
                Column::text("game's share"),
                Column::new("facts", Unit::Count),
                Column::new("asked", Unit::Count),
                Column::new("calls", Unit::Count),
                Column::new("keys read", Unit::Count),
                Column::new("blocks", Unit::Count),
                Column::new("of them from files", Unit::Count),
                Column::new("bytes of keys and values", Unit::Bytes),
                Column::new("bytes from files", Unit::Bytes),
                Column::new("p50", Unit::Nanos),
                Column::new("p99", Unit::Nanos),
            ],
        );
        table.folded = true;
        let mut row =
            |layout: Layout, question: Question, name: String, facts: u64, measured: &Measured| {
                let label = match question {
                    Question::Players(pick) | Question::Played(pick) => {
                        self.bench.picks[pick].label.as_str()
                    }
                    Question::Games | Question::Plays => "–",
                };
                table.row([
                    layout.name().into(),
                    name.into(),
                    label.into(),
                    facts.into(),
                    measured.operations().into(),
                    measured.mean(|cost| cost.calls).into(),
                    measured.mean(|cost| cost.keys_read).into(),
                    measured.mean(blocks).into(),
                    measured.mean(|cost| cost.blocks_from_disk).into(),
                    measured.mean(|cost| cost.bytes_read).into(),
                    measured.mean(|cost| cost.bytes_from_disk).into(),
                    measured.p50().into(),
                    measured.p99().into(),
                ]);
            };
        for ((layout, question, moment), measured) in &self.bench.cells {
            let facts = self.bench.moments[*moment].facts;
            row(*layout, *question, question.name().to_owned(), facts, measured);
        }
        for crowd in &self.bench.crowds {
            let name = format!("{}, {} clients", crowd.question.name(), crowd.clients);
            row(crowd.layout, crowd.question, name, self.bench.moments[self.last].facts, &crowd.measured);
        }
        self.exhibits.push(Exhibit::Table(table));
    }

    fn notes(&self, setup: &Setup) -> Vec<String> {
        let mut notes = Vec::new();
        let database = &setup.database;
        let memtables = database.memtable_bytes_max * (database.sealed_memtables_max as u64 + 1);
        let limit = memtables + database.cache_bytes + MEMORY_BESIDE;
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        let within =
            |peak: u64| format!("{} MiB ({})", mib(peak), if peak <= limit { "within" } else { "beyond" });
        let peaks: Vec<String> = self
            .bench
            .peaks
            .iter()
            .filter_map(|(layout, (alone, crowd))| {
                Some(format!("{}: {}, {}", layout.name(), within((*alone)?), within((*crowd)?)))
            })
            .collect();
        if !peaks.is_empty() {
            notes.push(format!(
                "Peak memory of the whole process, while loading and asking, and then with up to eight clients at \
                 once; memtables, block cache and 256 MiB are {} MiB. {}. What a layout before it left with the \
                 allocator counts too.",
                mib(limit),
                peaks.join("; ")
            ));
        }
        if !self.ran(Layout::Wide) {
            return notes;
        }
        let slowest = self.shared().map(|pick| self.p50(Layout::Wide, Question::Players(pick), self.last));
        let slowest = slowest.fold(0.0, f64::max);
        let rate = self.now().facts as f64 * 1e3 / slowest.max(1.0);
        notes.push(format!(
            "The wide table's full scan: {:.3} s for {} facts in {} rows, {rate:.1} million facts a second in {} parts. \
             The article's fastest figure is 24 million rows a second.",
            slowest / 1e9,
            self.now().facts,
            self.now().rows,
            self.bench.effort.parts
        ));
        if let Some(pick) = self.shared().next() {
            notes.push(format!(
                "The largest game asked about has {} of the facts; an imported file may have none near 10 %.",
                percent(self.bench.picks[pick].share)
            ));
        }
        notes.push(
            "Rows of the wide table are tuples (user, day), not texts joined by $: the article's scan from a bare user \
             id has no end, and QQ12 would match QQ121. Both counts are reported, because the article counts rows and a \
             wide row holds several facts."
                .into(),
        );
        notes
    }
}

fn rounded(value: f64) -> String {
    if value < 100.0 && (value - value.round()).abs() > 0.05 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}
