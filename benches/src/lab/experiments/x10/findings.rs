//! What the figures say: claims with verdicts, bars, lines, tables.

use super::TOGETHER;
use super::asked::{Asked, Change, Question};
use super::bounds::Bound;
use super::forms::Form;
use crate::lab::experiments::random;
use crate::lab::experiments::samples::Samples;
use crate::lab::fit::{Fit, Observed, fit};
use crate::lab::model::{Form as Growth, Tally};
use crate::lab::stats::{interval, median};
use crate::lab::study::{
    Axis, BarGroup, Bars, Claim, Column, Exhibit, Line, Lines, Place, Study, Table, Unit, Value,
};
use crate::lab::verdict::{Outcome, Verdict};
use crate::lab::{LabOptions, Scale};

pub(super) fn study(asked: &Asked<'_>, bounds: &[Bound; 3], options: &LabOptions) -> Study {
    let mut study = asked.study.clone();
    let mail = asked.mail;
    study.title = "Mailboxes, wide and narrow: a user, a day, a message".into();
    let source = if mail.from_file {
        "from a file".to_owned()
    } else {
        "generated, sizes by Zipf's law, over 28 days".to_owned()
    };
    study.protocol = format!(
        "{} mailboxes with {} messages, {source}; the largest has {}. Four forms: wide rows with a column a message, \
         whose time is that of the cell (as in the slides), or a column a day and message; narrow rows by user and \
         message, or by user, day and message. Loaded in the order of arrival without a log, flushed, opened again \
         with the default durability and read once; {} rounds of the three questions, then as many changes of up to {TOGETHER} messages and their count, all or nothing and, \
         where rows are narrow, row by row. Users are drawn by their mail or evenly, in equal parts. Answers are \
         checked. The slides' bounds are tried on text keys as the slides write them.",
        mail.count(),
        mail.messages(),
        mail.largest(),
        asked.sizes.samples,
    );
    let found = Found { asked, bounds, options, timed: options.scale != Scale::Tiny };
    study.claims = found.claims();
    study.exhibits =
        vec![found.keys(), found.sizes(), found.times(), found.changes(), found.bounds(), found.reads()];
    study.notes.push(if mail.from_file {
        "The mail is that of the file given with --mail; of messages their subjects stand for the text."
            .into()
    } else {
        "No file of mail was given (--mail FILE), so the mailboxes are generated.".into()
    });
    study.notes.push(
        "A row by row change is what a store without transactions over several rows offers; a reader in between sees \
         a part of it, and so does everybody after a crash in between."
            .into(),
    );
    study
}

struct Found<'a, 'b> {
    asked: &'a Asked<'b>,
    bounds: &'a [Bound; 3],
    options: &'a LabOptions,
    /// Whether times mean anything.
    timed: bool,
}

fn micros(samples: &Samples) -> String {
    format!("{:.1} µs", samples.median() / 1e3)
}

impl Found<'_, '_> {
    fn read(&self, form: Form, question: Question) -> Samples {
        self.asked.reads.get(&(form, question)).cloned().unwrap_or_default()
    }

    fn change(&self, form: Form, way: Change) -> Samples {
        self.asked.changes.get(&(form, way)).cloned().unwrap_or_default()
    }

    fn keys_a_message(&self, form: Form, question: Question) -> f64 {
        let found = self.asked.found.get(&(form, question)).copied().unwrap_or(0);
        self.read(form, question).cost.keys_read as f64 / found.max(1) as f64
    }

    /// Over all formulas of these operations.
    fn tally(&self, operations: &[String]) -> Tally {
        let mut sum = Tally::default();
        for operation in operations {
            sum.add(&self.asked.study.tally(operation));
        }
        sum
    }

    fn asked_of(form: Form, question: Question) -> String {
        format!("{}: {}", form.name(), question.name())
    }

    /// How the time of reading a user grows with the number of messages.
    fn growth(&self, form: Form) -> Option<Fit> {
        let all = self.asked.by_size.range((form, 0)..=(form, u64::MAX));
        let observed: Vec<Observed> =
            all.map(|((_, size), nanos)| Observed { x: *size as f64, values: nanos.clone() }).collect();
        fit(&observed, &mut random(self.options, &[10, 6]))
    }

    /// A claim that reading a user costs in proportion to the mail.
    fn of_a_user(&self, rows: &str, claimed: &str, form: Form) -> Claim {
        let growth = self.growth(form);
        let affine = growth.is_some_and(|fit| fit.form == Growth::Affine);
        let tally = self.tally(&[Self::asked_of(form, Question::User)]);
        let shape = growth.map_or("too few sizes for a fit".to_owned(), |fit| {
            format!(
                "the time is {} in the messages of the mailbox, {:.0} times from end to end",
                fit.form, fit.ratio
            )
        });
        Claim {
            rows: rows.into(),
            claimed: claimed.into(),
            predicted: "One scan, one key for each message, nothing of other users.".into(),
            counted: format!(
                "{:.2} keys read for each message of the user",
                self.keys_a_message(form, Question::User)
            ),
            timed: format!("{} in the median; {shape}", micros(&self.read(form, Question::User))),
            verdict: Verdict::of(&tally, !self.timed || affine, &shape),
        }
    }

    fn claims(&self) -> Vec<Claim> {
        vec![
            self.atomic(),
            self.selective(),
            self.of_a_user(
                "C2",
                "A mailbox is a wide row: a user's messages are columns, their times those of the cells.",
                Form::WideById,
            ),
            self.of_a_user(
                "C3, C4",
                "In a narrow table the mail of a user is a partial scan of user-message.",
                Form::NarrowById,
            ),
            self.bad_bound(),
            self.of_a_day(),
        ]
    }

    fn atomic(&self) -> Claim {
        let (wide, narrow) = (
            self.change(Form::WideByDay, Change::Together),
            self.change(Form::NarrowByDay, Change::Together),
        );
        let singly = self.change(Form::NarrowByDay, Change::Singly);
        let operations = Form::ALL.map(|form| format!("{}: change a mailbox", form.name()));
        let tally = self.tally(&operations);
        let calls = |samples: &Samples| samples.mean(|cost| cost.calls);
        let keys = |samples: &Samples| samples.mean(|cost| cost.keys_written);
        let outcome = if tally.all_equal() { Outcome::Refuted } else { Outcome::NotReproduced };
        Claim {
            rows: "C1".into(),
            claimed: "A wide row changes atomically; narrow rows do not.".into(),
            predicted: "Where a transaction spans rows, both are one commit of the same keys; without one, narrow rows \
                        take a commit each."
                .into(),
            counted: format!(
                "all or nothing: {:.1} keys in {:.0} call wide, {:.1} in {:.0} narrow; row by row {:.1} calls",
                keys(&wide),
                calls(&wide),
                keys(&narrow),
                calls(&narrow),
                calls(&singly)
            ),
            timed: format!(
                "{} wide, {} narrow in a transaction, {} row by row",
                micros(&wide),
                micros(&narrow),
                micros(&singly)
            ),
            verdict: Verdict {
                outcome,
                reason: format!(
                    "{} of {} changes cost what the formula says; on a store whose transactions end at the row the \
                     claim holds, and narrow rows pay a call each",
                    tally.equal, tally.operations
                ),
            },
        }
    }

    fn selective(&self) -> Claim {
        let day = |form| self.keys_a_message(form, Question::Day);
        let operations = Form::ALL.map(|form| Self::asked_of(form, Question::Day));
        let tally = self.tally(&operations);
        let exact = (day(Form::WideByDay) - 1.0).abs() < 1e-9;
        let outcome = if tally.all_equal() && exact { Outcome::Refuted } else { Outcome::NotReproduced };
        Claim {
            rows: "C1".into(),
            claimed: "In a wide row nothing can be selected without scanning it; in narrow rows it can.".into(),
            predicted: "What lies together can be selected, in columns as in rows: the order of the key decides, not \
                        the width."
                .into(),
            counted: format!(
                "a day's mail, keys read for each message found: by day {:.2} wide and {:.2} narrow; by message {:.1} \
                 and {:.1}",
                day(Form::WideByDay),
                day(Form::NarrowByDay),
                day(Form::WideById),
                day(Form::NarrowById)
            ),
            timed: format!(
                "by day {} wide and {} narrow, by message {} and {}",
                micros(&self.read(Form::WideByDay, Question::Day)),
                micros(&self.read(Form::NarrowByDay, Question::Day)),
                micros(&self.read(Form::WideById, Question::Day)),
                micros(&self.read(Form::NarrowById, Question::Day))
            ),
            verdict: Verdict {
                outcome,
                reason: format!(
                    "{} of {} questions for a day cost what the formula says, wide as narrow",
                    tally.equal, tally.operations
                ),
            },
        }
    }

    fn bad_bound(&self) -> Claim {
        let [bad, exact, _] = self.bounds;
        let tally = self.tally(&[format!("bounds: {}", bad.name), format!("bounds: {}", exact.name)]);
        let refuted = tally.all_equal() && bad.foreign() > 0 && exact.foreign() + exact.missed == 0;
        Claim {
            rows: "C4 (section 1.6)".into(),
            claimed: "Keys from 12345-000… to 12346-999… are the mail of user 12345.".into(),
            predicted: "The range holds the next user's messages up to 999…, too. The end right behind the delimiter \
                        is exact."
                .into(),
            counted: format!(
                "{} rows returned for {} asked for, {} of them of the next user; the exact bound returns {} for {}",
                bad.returned,
                bad.asked_for + bad.missed,
                bad.foreign(),
                exact.returned,
                exact.asked_for + exact.missed
            ),
            timed: format!("{} against {}", micros(&bad.samples), micros(&exact.samples)),
            verdict: Verdict {
                outcome: if refuted { Outcome::Refuted } else { Outcome::NotReproduced },
                reason: "foreign mail is a wrong answer whatever it costs; typed keys have no such bound".into(),
            },
        }
    }

    fn of_a_day(&self) -> Claim {
        let bound = &self.bounds[2];
        let (by_day, by_id) =
            (self.read(Form::NarrowByDay, Question::Day), self.read(Form::NarrowById, Question::Day));
        let tally = self
            .tally(&[Self::asked_of(Form::NarrowByDay, Question::Day), format!("bounds: {}", bound.name)]);
        let exact = bound.foreign() + bound.missed == 0;
        Claim {
            rows: "C5".into(),
            claimed: "With the date in the key, the mail of a day is a partial scan of user-date-message."
                .into(),
            predicted:
                "One scan, one key for each message; the slides' bound is exact if its end is left out."
                    .into(),
            counted: format!(
                "{:.2} keys read for each message found; the slides' bound returns {} foreign rows and misses {}",
                self.keys_a_message(Form::NarrowByDay, Question::Day),
                bound.foreign(),
                bound.missed
            ),
            timed: format!(
                "{} by day, {} where the day is not in the key",
                micros(&by_day),
                micros(&by_id)
            ),
            verdict: Verdict::of(
                &tally,
                exact && (!self.timed || by_day.median() < by_id.median()),
                "compared with the table whose key has no day",
            ),
        }
    }

    fn bars(title: &str, value: Axis, of: impl Fn(Form, Question) -> f64) -> Exhibit {
        let group = |question: Question| BarGroup {
            name: question.name().into(),
            values: Form::ALL.map(|form| Some(of(form, question))).to_vec(),
        };
        Exhibit::Bars(Bars {
            title: title.into(),
            value,
            bars: Form::ALL.map(|form| form.name().to_owned()).to_vec(),
            groups: Question::ALL.map(group).to_vec(),
        })
    }

    fn keys(&self) -> Exhibit {
        let axis = Axis::logarithmic("keys read for each message found", Unit::Number);
        Self::bars("Keys read for each message found", axis, |form, question| {
            self.keys_a_message(form, question)
        })
    }

    fn times(&self) -> Exhibit {
        let axis = Axis::logarithmic("median time", Unit::Nanos);
        Self::bars("Time of a question", axis, |form, question| self.read(form, question).median())
    }

    fn sizes(&self) -> Exhibit {
        let mut random = random(self.options, &[10, 7]);
        let mut line = |form: Form| {
            let all = self.asked.by_size.range((form, 0)..=(form, u64::MAX));
            let points =
                all.map(|((_, size), nanos)| Place { x: *size as f64, y: interval(nanos, &mut random) });
            Line { name: form.name().into(), points: points.collect() }
        };
        Exhibit::Lines(Lines {
            title: "Time to read a user's mail".into(),
            x: Axis::logarithmic("messages of the user, up to", Unit::Count),
            y: Axis::logarithmic("median time", Unit::Nanos),
            lines: Form::ALL.map(&mut line).to_vec(),
        })
    }

    fn changes(&self) -> Exhibit {
        let columns = [
            Column::text("form"),
            Column::text("change"),
            Column::new("calls", Unit::Number),
            Column::new("keys written", Unit::Number),
            Column::new("bytes written", Unit::Bytes),
            Column::new("time", Unit::Nanos),
        ];
        let title = format!("Changes of up to {TOGETHER} messages of a mailbox and their count");
        let mut table = Table::new(&title, columns);
        let mut random = random(self.options, &[10, 8]);
        for ((form, way), samples) in &self.asked.changes {
            table.row([
                Value::from(form.name()),
                Value::from(way.name()),
                Value::from(samples.mean(|cost| cost.calls)),
                Value::from(samples.mean(|cost| cost.keys_written)),
                Value::from(samples.mean(|cost| cost.bytes_written)),
                Value::from(samples.interval(&mut random)),
            ]);
        }
        Exhibit::Table(table)
    }

    fn bounds(&self) -> Exhibit {
        let columns = [
            Column::text("scan"),
            Column::text("as written for user 12345"),
            Column::new("rows asked for", Unit::Count),
            Column::new("returned", Unit::Count),
            Column::new("of others", Unit::Count),
            Column::new("missed", Unit::Count),
            Column::new("time", Unit::Nanos),
        ];
        let mut table = Table::new("Bounds of partial scans on text keys, over all scans", columns);
        let mut random = random(self.options, &[10, 9]);
        for bound in self.bounds {
            table.row([
                Value::from(bound.name),
                Value::from(bound.written),
                Value::from(bound.asked_for + bound.missed),
                Value::from(bound.returned),
                Value::from(bound.foreign()),
                Value::from(bound.missed),
                Value::from(bound.samples.interval(&mut random)),
            ]);
        }
        Exhibit::Table(table)
    }

    fn reads(&self) -> Exhibit {
        let columns = [
            Column::text("question"),
            Column::text("form"),
            Column::new("messages found", Unit::Number),
            Column::new("keys read", Unit::Number),
            Column::new("bytes read", Unit::Bytes),
            Column::new("blocks", Unit::Number),
            Column::new("median time", Unit::Nanos),
        ];
        let mut table = Table::new("Questions, in the mean of one", columns);
        for question in Question::ALL {
            for form in Form::ALL {
                let samples = self.read(form, question);
                let found = self.asked.found.get(&(form, question)).copied().unwrap_or(0);
                table.row([
                    Value::from(question.name()),
                    Value::from(form.name()),
                    Value::from(found as f64 / samples.nanos.len().max(1) as f64),
                    Value::from(samples.mean(|cost| cost.keys_read)),
                    Value::from(samples.mean(|cost| cost.bytes_read)),
                    Value::from(samples.mean(|cost| cost.blocks_from_cache + cost.blocks_from_disk)),
                    Value::from(median(&samples.nanos)),
                ]);
            }
        }
        table.folded = true;
        Exhibit::Table(table)
    }
}
