#![expect(clippy::disallowed_methods, reason = "tests write inputs")]

use esker_layouts::OpCost;
use esker_layouts::kv::{Costed, KvRead, OrderedKv, ScanOptions};
use esker_layouts::map::MapStore;
use esker_layouts::tuple::KeyRange;

use super::forms::Mail;
use super::*;
use crate::lab::mail::Message;
use crate::lab::store::{EngineFactory, MapFactory};
use crate::lab::verdict::Outcome;
use crate::lab::{LabError, Silent};

fn tiny() -> LabOptions {
    LabOptions::new(Scale::Tiny, vec![Experiment::X10])
}

const EXPECTED: [Outcome; 6] = {
    let (yes, no) = (Outcome::Reproduced, Outcome::Refuted);
    // Wide rows alone change atomically; nothing is selected in them; the slides' bound of a user.
    [no, no, yes, yes, no, yes]
};

#[test]
fn every_cost_equals_its_formula_on_both_stores() {
    let on_map = run(&MapFactory, &tiny(), &mut Silent).expect("the lab runs");
    let on_engine = run(&EngineFactory, &tiny(), &mut Silent).expect("the lab runs");
    for study in [&on_map, &on_engine] {
        study.expect_counted();
        assert_eq!(study.verdicts(), EXPECTED);
    }
    assert_eq!(on_map.compared(), on_engine.compared(), "the same questions");
    // 12 samples: 4 forms and 3 questions, 4 forms changed together and 2 row by row, 3 bounds.
    assert_eq!(on_map.compared(), 12 * (4 * 3 + 4 + 2 + 3));
}

#[test]
fn the_slides_bound_returns_foreign_mail_and_the_exact_one_none() {
    let options = tiny();
    let mail = Mailboxes::new(&sizes(&options), &options).expect("generated");
    let mut study = Study::new("X10", "", "", "");
    let found = bounds::tried(&MapStore::new(), &mail, &sizes(&options), &mut study, &options);
    let [bad, exact, day] = found.expect("the bounds are tried");
    assert!(bad.foreign() > 0 && bad.missed == 0, "{bad:?}");
    assert_eq!((exact.foreign(), exact.missed), (0, 0), "{exact:?}");
    assert_eq!((day.foreign(), day.missed), (0, 0), "{day:?}");
    assert!(study.counters_equal());
}

/// Mailboxes of somebody who reads all of a user for one message, and changes row by row what has to change
/// together.
struct Careless;

struct ReadsAll<'a> {
    store: &'a MapStore,
    inner: &'a dyn Mail,
}

impl Mail for ReadsAll<'_> {
    fn load(&self, messages: &[&Message]) -> esker_layouts::Result<()> {
        self.inner.load(messages)
    }
    fn user(&self, mailbox: u32) -> esker_layouts::Result<Costed<Vec<String>>> {
        self.inner.user(mailbox)
    }
    fn day(&self, mailbox: u32, day: u32) -> esker_layouts::Result<Costed<Vec<String>>> {
        let read = self.store.read()?;
        read.scan(KeyRange::all(), ScanOptions::new())?.for_each(drop);
        Ok(Costed { cost: read.cost(), ..self.inner.day(mailbox, day)? })
    }
    fn one(&self, message: &Message) -> esker_layouts::Result<Costed<bool>> {
        self.inner.one(message)
    }
    fn change(&self, messages: &[&Message]) -> esker_layouts::Result<OpCost> {
        let singly = self.inner.change_singly(messages)?;
        singly.map_or_else(|| self.inner.change(messages), Ok)
    }
    fn change_singly(&self, messages: &[&Message]) -> esker_layouts::Result<Option<OpCost>> {
        self.inner.change_singly(messages)
    }
}

impl OpenMail<MapStore> for Careless {
    fn with(
        &self,
        store: &MapStore,
        form: Form,
        work: &mut dyn FnMut(&dyn Mail) -> Result<()>,
    ) -> Result<()> {
        RealMail.with(store, form, &mut |inner| work(&ReadsAll { store, inner }))
    }
}

#[test]
fn wrong_mailboxes_come_out_as_mismatches() {
    let study = run_with(&MapFactory, &Careless, &tiny(), &mut Silent).expect("the answers are right");
    for formula in &study.formulas {
        let day = formula.operation.ends_with("a day of a user");
        let narrow =
            formula.operation.starts_with("narrow") && formula.operation.ends_with("all or nothing");
        assert_eq!(formula.tally.all_equal(), !(day || narrow), "{formula:?}");
    }
    let wrong = Outcome::NotReproduced;
    let (yes, no) = (Outcome::Reproduced, Outcome::Refuted);
    assert_eq!(study.verdicts(), [wrong, wrong, yes, yes, no, Outcome::ShapeOnly]);
}

/// Loses the first message of a user.
struct Loses;

struct Lossy<'a>(&'a dyn Mail);

impl Mail for Lossy<'_> {
    fn load(&self, messages: &[&Message]) -> esker_layouts::Result<()> {
        self.0.load(messages)
    }
    fn user(&self, mailbox: u32) -> esker_layouts::Result<Costed<Vec<String>>> {
        let mut found = self.0.user(mailbox)?;
        found.value.pop();
        Ok(found)
    }
    fn day(&self, mailbox: u32, day: u32) -> esker_layouts::Result<Costed<Vec<String>>> {
        self.0.day(mailbox, day)
    }
    fn one(&self, message: &Message) -> esker_layouts::Result<Costed<bool>> {
        self.0.one(message)
    }
    fn change(&self, messages: &[&Message]) -> esker_layouts::Result<OpCost> {
        self.0.change(messages)
    }
    fn change_singly(&self, messages: &[&Message]) -> esker_layouts::Result<Option<OpCost>> {
        self.0.change_singly(messages)
    }
}

impl<K: OrderedKv> OpenMail<K> for Loses {
    fn with(&self, store: &K, form: Form, work: &mut dyn FnMut(&dyn Mail) -> Result<()>) -> Result<()> {
        RealMail.with(store, form, &mut |inner| work(&Lossy(inner)))
    }
}

#[test]
fn a_wrong_answer_stops_the_lab() {
    let error = run_with(&MapFactory, &Loses, &tiny(), &mut Silent).expect_err("it loses mail");
    assert!(matches!(error, LabError::WrongResult { .. }), "{error}");
}

#[test]
fn mail_comes_from_a_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("mail.tsv");
    let line = |i: u32| {
        let (mailbox, time) = (i % 5, 1_356_998_400 + i * 20_000);
        format!("{i}\tuser{mailbox}/inbox/{i}\t{time}\tSubject {i}\n")
    };
    std::fs::write(&file, (1..=60).map(line).collect::<String>()).expect("written");
    let options = LabOptions { mail: Some(file.clone()), ..tiny() };
    let study = run(&MapFactory, &options, &mut Silent).expect("the lab runs");
    assert!(study.counters_equal());
    assert!(study.protocol.contains("5 mailboxes with 60 messages, from a file"), "{}", study.protocol);
    assert!(study.notes[0].contains("--mail"), "{:?}", study.notes);
    std::fs::write(&file, format!("{}61\tuser1\n", line(1))).expect("written");
    let error = run(&MapFactory, &options, &mut Silent).expect_err("a line is short").to_string();
    assert!(error.contains("mail.tsv, line 2: it has 2 columns"), "{error}");
    let generated = run(&MapFactory, &tiny(), &mut Silent).expect("the lab runs");
    assert!(generated.notes[0].starts_with("No file of mail was given"), "{:?}", generated.notes);
}
