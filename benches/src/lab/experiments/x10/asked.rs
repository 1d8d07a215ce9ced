//! Questions and changes, each checked, counted and timed.

use std::collections::BTreeMap;

use esker_layouts::kv::Costed;

use super::forms::{Form, Mail};
use super::mailboxes::Mailboxes;
use super::{Sizes, TOGETHER};
use crate::lab::experiments::random;
use crate::lab::experiments::samples::{Samples, failed, right};
use crate::lab::mail::Message;
use crate::lab::study::Study;
use crate::lab::{LabOptions, Result};

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Question {
    User,
    Day,
    One,
}

impl Question {
    pub(super) const ALL: [Question; 3] = [Question::User, Question::Day, Question::One];

    pub(super) fn name(self) -> &'static str {
        match self {
            Question::User => "everything of a user",
            Question::Day => "a day of a user",
            Question::One => "one message",
        }
    }
}

/// How a mailbox is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Change {
    /// All or nothing.
    Together,
    /// Row by row.
    Singly,
}

/// All that was measured.
pub(super) struct Asked<'a> {
    pub(super) study: Study,
    pub(super) reads: BTreeMap<(Form, Question), Samples>,
    /// Messages found.
    pub(super) found: BTreeMap<(Form, Question), u64>,
    /// Times of reading a user's mail, by the number of messages.
    pub(super) by_size: BTreeMap<(Form, u64), Vec<f64>>,
    pub(super) changes: BTreeMap<(Form, Change), Samples>,
    pub(super) mail: &'a Mailboxes,
    pub(super) sizes: &'a Sizes,
    options: &'a LabOptions,
}

fn ids<'m>(messages: impl Iterator<Item = &'m Message>) -> Vec<String> {
    let mut ids: Vec<String> = messages.map(|message| message.id.clone()).collect();
    ids.sort_unstable();
    ids
}

fn sorted(mut found: Costed<Vec<String>>) -> Costed<Vec<String>> {
    found.value.sort_unstable();
    found
}

impl<'a> Asked<'a> {
    pub(super) fn new(sizes: &'a Sizes, mail: &'a Mailboxes, options: &'a LabOptions) -> Self {
        Asked {
            study: Study::new("X10", "", "C1–C5", ""),
            reads: BTreeMap::new(),
            found: BTreeMap::new(),
            by_size: BTreeMap::new(),
            changes: BTreeMap::new(),
            mail,
            sizes,
            options,
        }
    }

    /// Ask `form` about users, days, messages; in random order, the same for all.
    pub(super) fn reads(&mut self, form: Form, boxes: &dyn Mail) -> Result<()> {
        let mut random = random(self.options, &[10, 3]);
        for _ in 0..self.sizes.samples {
            let mailbox = self.mail.some(&mut random);
            let messages = self.mail.of(mailbox);
            let message = &messages[random.usize(..messages.len())];
            let all = messages.len() as u64;
            let mut questions = Question::ALL;
            random.shuffle(&mut questions);
            for question in questions {
                let name = question.name();
                let samples = self.reads.entry((form, question)).or_default();
                let (found, cost, formula, expected) = match question {
                    Question::User => {
                        let done = sorted(samples.call(name, || boxes.user(mailbox))?);
                        right(form.name(), name, &done.value, &ids(messages.iter()))?;
                        let size = all.next_power_of_two();
                        let nanos = samples.nanos.last().copied().unwrap_or_default();
                        self.by_size.entry((form, size)).or_default().push(nanos);
                        (all, done.cost, "1 call, a key for each message found", all)
                    }
                    Question::Day => {
                        let done = sorted(samples.call(name, || boxes.day(mailbox, message.day))?);
                        let of_day = messages.iter().filter(|other| other.day == message.day);
                        let expected = ids(of_day);
                        right(form.name(), name, &done.value, &expected)?;
                        let hits = expected.len() as u64;
                        if form.by_day() {
                            (hits, done.cost, "1 call, a key for each message found", hits)
                        } else {
                            (hits, done.cost, "1 call, a key for each message of the user", all)
                        }
                    }
                    Question::One => {
                        let done = samples.call(name, || boxes.one(message))?;
                        right(form.name(), name, &done.value, &true)?;
                        (1, done.cost, "1 call, 1 key", 1)
                    }
                };
                *self.found.entry((form, question)).or_default() += found;
                let operation = format!("{}: {name}", form.name());
                self.study.compare(&operation, formula, &(cost.calls, cost.keys_read), &(1, expected));
            }
        }
        Ok(())
    }

    /// Change mailboxes: write some of their messages again, and how many.
    pub(super) fn changes(&mut self, form: Form, boxes: &dyn Mail) -> Result<()> {
        let mut random = random(self.options, &[10, 4]);
        let doing = "change a mailbox";
        for _ in 0..self.sizes.samples {
            let messages = self.mail.of(self.mail.some(&mut random));
            let chosen = random.choose_multiple(messages, TOGETHER.min(messages.len()));
            let count = chosen.len() as u64;
            let mut ways = [Change::Together, Change::Singly];
            random.shuffle(&mut ways);
            for way in ways {
                if way == Change::Singly && form.wide() {
                    continue;
                }
                let samples = self.changes.entry((form, way)).or_default();
                let (formula, calls) = match way {
                    Change::Together => ("1 call, a key for each message and one for their count", 1),
                    Change::Singly => ("a call and a key for each message, and for their count", count + 1),
                };
                let done = samples.call(doing, || {
                    let cost = match way {
                        Change::Together => boxes.change(&chosen),
                        Change::Singly => boxes.change_singly(&chosen).map(Option::unwrap_or_default),
                    };
                    cost.map(|cost| Costed { value: (), cost })
                })?;
                let cost = done.cost;
                let operation = format!("{}: {doing}, {}", form.name(), way.name());
                let counted = (cost.calls, cost.keys_read, cost.keys_written);
                self.study.compare(&operation, formula, &counted, &(calls, 0, count + 1));
            }
            // Nothing is lost by it.
            let Some(first) = chosen.first() else { continue };
            let found = sorted(boxes.user(first.mailbox).map_err(failed(doing))?);
            right(
                form.name(),
                "everything of a user, after a change",
                &found.value,
                &ids(messages.iter()),
            )?;
        }
        Ok(())
    }
}

impl Change {
    pub(super) fn name(self) -> &'static str {
        match self {
            Change::Together => "all or nothing",
            Change::Singly => "row by row",
        }
    }
}
