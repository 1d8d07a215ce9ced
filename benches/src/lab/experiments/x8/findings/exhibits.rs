//! Tables and charts.

use super::super::layouts::Layout;
use super::super::measure::{Measured, Question, blocks};
use super::{EXPONENTS, Findings, SHARE_FACTOR, ShareOfTime, TABLE_3, exponent};
use crate::lab::study::{
    Axis, BarGroup, Bars, Column, Exhibit, Heat, HeatCell, Line, Lines, Place, Table, Unit, Value,
};

impl Findings<'_> {
    pub(super) fn heat(&mut self) {
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

    pub(super) fn table_3(&mut self) {
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

    pub(super) fn growth(&mut self) {
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
    pub(super) fn shares(&mut self) {
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
        for ShareOfTime { pick, share, wide, tall, over } in self.shares_of_time() {
            table.row([
                self.bench.source.games()[self.bench.picks[pick].game as usize].as_str().into(),
                share.into(),
                self.now().picks[pick].followers.users.into(),
                wide.into(),
                tall.into(),
                (tall / wide.max(1.0)).into(),
                over.into(),
                if over <= SHARE_FACTOR { "yes" } else { "no" }.into(),
            ]);
        }
        self.exhibits.push(Exhibit::Table(table));
    }

    pub(super) fn crowds(&mut self) {
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

    pub(super) fn space(&mut self) {
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

    pub(super) fn loads(&mut self) {
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

    pub(super) fn raw(&mut self) {
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
}

fn rounded(value: f64) -> String {
    if value < 100.0 && (value - value.round()).abs() > 0.05 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}
