use std::sync::Mutex;

use esker_layouts::OpCost;
use esker_layouts::kv::{Costed, KvRead, OrderedKv, ScanOptions};
use esker_layouts::map::MapStore;
use esker_layouts::tuple::KeyRange;

use super::findings::{TABLE_3, exponent};
use super::layouts::{Followers, Games, Loaded, Part};
use super::*;
use crate::lab::interest::{Columns, Interest as InterestFile};
use crate::lab::store::{EngineFactory, MapFactory};
use crate::lab::study::{Exhibit, Value};
use crate::lab::verdict::Outcome;
use crate::lab::{Silent, tests::data};

fn tiny() -> LabOptions {
    LabOptions::new(Scale::Tiny, vec![Experiment::X8])
}

fn claim<'a>(study: &'a Study, rows: &str) -> &'a crate::lab::study::Claim {
    study.claims.iter().find(|claim| claim.rows == rows).expect(rows)
}

#[test]
fn every_cost_equals_its_formula_on_both_stores() {
    let on_map = run(&MapFactory, &tiny(), &mut Silent).expect("the lab runs");
    let on_engine = run(&EngineFactory, &tiny(), &mut Silent).expect("the lab runs");
    for study in [&on_map, &on_engine] {
        study.expect_counted();
        assert_eq!(claim(study, "B19, B22").verdict.outcome, Outcome::Refuted);
        assert_eq!(claim(study, "B16").verdict.outcome, Outcome::Refuted);
        assert_eq!(claim(study, "B9, B14").verdict.outcome, Outcome::Refuted, "wide stops early");
        assert_eq!(study.claims.len(), 10);
    }
    assert_eq!(on_map.compared(), on_engine.compared(), "the same questions");
    assert!(on_map.compared() > 500);
}

/// A layout that answers as another does, but for what it amends.
trait Amended: Sync {
    fn inner(&self) -> &dyn Interest;
    fn plays(&self, user: &str, game: &str) -> esker_layouts::Result<Costed<bool>> {
        self.inner().plays(user, game)
    }
    fn players(&self, game: &str, part: Part) -> esker_layouts::Result<Costed<Followers>> {
        self.inner().players(game, part)
    }
    fn played(&self, game: &str) -> esker_layouts::Result<Costed<bool>> {
        self.inner().played(game)
    }
}

impl<A: Amended> Interest for A {
    fn load(&self, rows: &[Loaded]) -> esker_layouts::Result<OpCost> {
        self.inner().load(rows)
    }
    fn games_of(&self, user: &str) -> esker_layouts::Result<Costed<Games>> {
        self.inner().games_of(user)
    }
    fn plays(&self, user: &str, game: &str) -> esker_layouts::Result<Costed<bool>> {
        Amended::plays(self, user, game)
    }
    fn players(&self, game: &str, part: Part) -> esker_layouts::Result<Costed<Followers>> {
        Amended::players(self, game, part)
    }
    fn played(&self, game: &str) -> esker_layouts::Result<Costed<bool>> {
        Amended::played(self, game)
    }
}

/// A layout as somebody would write it who does not trust prefixes: it reads all there is, often, before it answers.
struct ReadsAll<'k> {
    store: &'k MapStore,
    inner: Box<dyn Interest + 'k>,
    wrong: Wrong,
}

impl ReadsAll<'_> {
    /// The same answer, and what it cost to read everything `times` if it is to the question `at`.
    fn wasted<T>(&self, at: usize, times: usize, answer: Costed<T>) -> esker_layouts::Result<Costed<T>> {
        if at != self.wrong.at {
            return Ok(answer);
        }
        let read = self.store.read()?;
        for _ in 0..times {
            read.scan(KeyRange::all(), ScanOptions::new())?.for_each(drop);
        }
        Ok(Costed { cost: read.cost(), ..answer })
    }
}

impl Amended for ReadsAll<'_> {
    fn inner(&self) -> &dyn Interest {
        &*self.inner
    }
    fn plays(&self, user: &str, game: &str) -> esker_layouts::Result<Costed<bool>> {
        self.wasted(2, 1, self.inner().plays(user, game)?)
    }
    fn players(&self, game: &str, part: Part) -> esker_layouts::Result<Costed<Followers>> {
        self.wasted(3, 9, self.inner().players(game, part)?)
    }
    fn played(&self, game: &str) -> esker_layouts::Result<Costed<bool>> {
        self.wasted(4, 1, self.inner().played(game)?)
    }
}

/// `layout` wastes at the question with this number.
#[derive(Clone, Copy)]
struct Wrong {
    layout: Layout,
    at: usize,
}

impl OpenInterest<MapStore> for Wrong {
    fn open<'k>(
        &self,
        store: &'k MapStore,
        layout: Layout,
        games: &'k [String],
        splits: &'k [String],
    ) -> esker_layouts::Result<Box<dyn Interest + 'k>> {
        let inner = RealInterest.open(store, layout, games, splits)?;
        Ok(if layout == self.layout { Box::new(ReadsAll { store, inner, wrong: *self }) } else { inner })
    }
}

#[test]
fn a_wrong_layout_comes_out_as_a_mismatch() {
    let tall = Wrong { layout: Layout::Tall, at: 4 };
    let study = run_with(&MapFactory, &tall, &tiny(), &mut Silent).expect("the answers are right");
    assert!(!study.counters_equal());
    for formula in &study.formulas {
        let wrong = formula.operation == "tall: Q4 does anybody play a game";
        assert_eq!(formula.tally.all_equal(), !wrong, "{formula:?}");
        if wrong {
            assert_eq!(formula.tally.equal, 0);
            let first = formula.tally.first_mismatch.as_deref().expect("it differs");
            assert!(first.starts_with("counted (1, 5") && first.ends_with("says (1, 1)"), "{first}");
        }
    }
    assert_eq!(claim(&study, "B9, B14").verdict.outcome, Outcome::NotReproduced);
}

#[test]
fn verdicts_follow_what_was_measured() {
    let outcome = |layout, at, rows: &str| {
        let wrong = Wrong { layout, at };
        let study = run_with(&MapFactory, &wrong, &tiny(), &mut Silent).expect("the answers are right");
        study.claims.iter().rfind(|claim| claim.rows == rows).expect(rows).verdict.clone()
    };
    let any = outcome(Layout::Wide, 4, "B9, B14");
    assert_eq!(any.outcome, Outcome::ShapeOnly, "a wide table that never stops early: {}", any.reason);
    let pair = outcome(Layout::Tall, 2, "B7, B16, B19");
    assert_eq!(pair.outcome, Outcome::NotReproduced, "{}", pair.reason);
    let factor = outcome(Layout::Tall, 3, "B17");
    assert_eq!(factor.outcome, Outcome::NotReproduced, "{}", factor.reason);
    assert!(factor.reason.contains("more than the share is in the factor"), "{}", factor.reason);
}

/// Asks whether anybody plays a game with a scan too many, which reads no key.
struct ScansTwice<'k>(Box<dyn Interest + 'k>);

impl Amended for ScansTwice<'_> {
    fn inner(&self) -> &dyn Interest {
        &*self.0
    }
    fn played(&self, game: &str) -> esker_layouts::Result<Costed<bool>> {
        let mut found = self.inner().played(game)?;
        found.cost.add(&self.inner().plays("nobody", game)?.cost);
        Ok(found)
    }
}

/// Only its whole-key layout is not as it should be.
struct WrongWholeKey;

impl<K: OrderedKv> OpenInterest<K> for WrongWholeKey {
    fn open<'k>(
        &self,
        store: &'k K,
        layout: Layout,
        games: &'k [String],
        splits: &'k [String],
    ) -> esker_layouts::Result<Box<dyn Interest + 'k>> {
        let inner = RealInterest.open(store, layout, games, splits)?;
        Ok(if layout == Layout::WholeKey { Box::new(ScansTwice(inner)) } else { inner })
    }
}

#[test]
fn a_call_too_many_is_a_mismatch_however_many_keys_may_be_read() {
    let study = run_with(&MapFactory, &WrongWholeKey, &tiny(), &mut Silent).expect("the answers are right");
    assert!(!study.counters_equal());
    let wrong: Vec<_> = study.formulas.iter().filter(|formula| !formula.tally.all_equal()).collect();
    assert_eq!(wrong.len(), 1, "{wrong:?}");
    assert_eq!(wrong[0].operation, "whole-key MD5: Q4 does anybody play a game");
    let first = wrong[0].tally.first_mismatch.as_deref().expect("it differs");
    assert!(first.starts_with("counted (2, ") && first.contains("says (1, "), "{first}");
}

/// Notes in how many parts it is asked who plays.
struct InParts<'k>(Box<dyn Interest + 'k>, Mutex<Vec<usize>>);

impl Amended for InParts<'_> {
    fn inner(&self) -> &dyn Interest {
        &*self.0
    }
    fn players(&self, game: &str, part: Part) -> esker_layouts::Result<Costed<Followers>> {
        self.1.lock().expect("lock").push(part.of);
        self.inner().players(game, part)
    }
}

#[test]
fn a_growing_table_is_scanned_in_as_many_parts_at_every_size() {
    let source = Source::new(&tiny()).expect("generated");
    let (sizes, picks, splits) = (sizes(source.facts()), truth::picks(&source), splits(&source));
    let samples = samples(&source, sizes[0], 5, &tiny());
    let mut moments = truth::moments(&source, &picks, &samples, &sizes);
    // As if the table came to be large; nothing is asked then.
    moments.last_mut().expect("a moment").facts = 1_000_000;
    for (layout, parts) in [(Layout::Wide, 2), (Layout::Tall, 1)] {
        let kv = MapStore::new();
        let inner = RealInterest.open(&kv, layout, source.games(), &splits).expect("open");
        let asked = InParts(inner, Mutex::default());
        let mut loader = Loader::new(&asked);
        let outcome = source.each(|row| {
            loader.take(&source, row).expect("load");
            if loader.facts < sizes[0] { Ok(()) } else { Err(()) }
        });
        outcome.expect_err("stopped at the first size");
        loader.flush().expect("load");
        let mut bench = Bench::new(&source, &picks, &moments, Effort::of(&tiny()));
        bench.ask(layout, &asked, 0).expect("the answers are right");
        let asked = asked.1.lock().expect("lock");
        assert!(!asked.is_empty() && asked.iter().all(|of| *of == parts), "{}", layout.name());
    }
}

/// Forgets one of the players.
struct Forgets<'k>(Box<dyn Interest + 'k>);

impl Amended for Forgets<'_> {
    fn inner(&self) -> &dyn Interest {
        &*self.0
    }
    fn players(&self, game: &str, part: Part) -> esker_layouts::Result<Costed<Followers>> {
        let found = self.inner().players(game, part)?;
        Ok(found.map(|found| Followers { users: found.users.saturating_sub(1), ..found }))
    }
}

struct Forgetful;

impl<K: OrderedKv> OpenInterest<K> for Forgetful {
    fn open<'k>(
        &self,
        store: &'k K,
        layout: Layout,
        games: &'k [String],
        splits: &'k [String],
    ) -> esker_layouts::Result<Box<dyn Interest + 'k>> {
        Ok(Box::new(Forgets(RealInterest.open(store, layout, games, splits)?)))
    }
}

#[test]
fn a_wrong_answer_stops_the_lab() {
    let error = run_with(&MapFactory, &Forgetful, &tiny(), &mut Silent).expect_err("it forgets");
    assert!(matches!(error, LabError::WrongResult { .. }), "{error}");
    assert!(error.to_string().contains("Q3 who plays a game"), "{error}");
}

#[test]
fn the_article_s_own_figures_grow_alike() {
    let wide: Vec<(f64, f64)> = TABLE_3.iter().map(|row| (row.0, row.1)).collect();
    let tall: Vec<(f64, f64)> = TABLE_3.iter().map(|row| (row.0, row.2)).collect();
    let rounded = |points: &[(f64, f64)]| (exponent(points).expect("three points") * 100.0).round() / 100.0;
    assert_eq!((rounded(&wide), rounded(&tall)), (0.9, 0.92));
}

#[test]
fn generated_facts_are_what_they_should_be() {
    let generator = source::Generator::new(&LabOptions::new(Scale::Smoke, vec![Experiment::X8]));
    let (users, games) = (generator.users, generator.games.len());
    let source = Source::Generated(generator);
    let mut seen = std::collections::BTreeSet::new();
    let mut by_game = vec![0u64; games];
    let mut last_day = 0;
    let outcome: Result<(), ()> = source.each(|row| {
        assert!(row.user < users && row.day >= last_day, "in the order of days");
        last_day = row.day;
        for (game, amount) in row.games {
            assert!(*amount > 0 && seen.insert((row.user, row.day, *game)), "a fact comes once");
            by_game[*game as usize] += 1;
        }
        Ok(())
    });
    outcome.expect("nothing stops it");
    assert_eq!(seen.len() as u64, source.facts());
    assert_eq!(by_game[source::PROBE as usize], 100);
    // Zipf over 500: the first has a share of 1/6.79, less what its being drawn once a row takes.
    let share = |rank: usize| by_game[rank] as f64 / seen.len() as f64;
    assert!(
        (0.11..0.15).contains(&share(1)) && (1.5..2.2).contains(&(share(1) / share(2))),
        "{}",
        share(1)
    );
    let picks = truth::picks(&source);
    assert_eq!(picks.len(), 4);
    for (pick, wanted) in picks.iter().zip(truth::SHARES) {
        assert!((0.5..1.6).contains(&(pick.share / wanted)), "{pick:?}");
    }
}

#[test]
fn layouts_may_be_chosen() {
    let options = LabOptions { layouts: vec!["tall".into(), "wide".into()], ..tiny() };
    let study = run(&MapFactory, &options, &mut Silent).expect("the lab runs");
    assert!(
        study.formulas.iter().all(|f| f.operation.starts_with("wide") || f.operation.starts_with("tall:"))
    );
    assert!(study.claims.iter().all(|claim| claim.rows != "B19, B22"));
    let options = LabOptions { layouts: vec!["round".into()], ..tiny() };
    let error = run(&MapFactory, &options, &mut Silent).expect_err("there is none");
    assert!(error.to_string().contains("it has wide, tall, both, whole-key, per-field"), "{error}");
}

/// Table `title` of a study, the cells of column `column` as numbers.
fn numbers(study: &Study, title: &str, column: &str) -> Vec<String> {
    let mut tables = study.exhibits.iter().filter_map(|exhibit| match exhibit {
        Exhibit::Table(table) if table.title.starts_with(title) => Some(table),
        _ => None,
    });
    let table = tables.next_back().expect(title);
    let at = table.columns.iter().position(|found| found.name == column).expect(column);
    let number = |row: &Vec<Value>| match row[at] {
        Value::Number(number) => Some(format!("{number}")),
        _ => None,
    };
    table.rows.iter().filter_map(number).collect()
}

#[test]
fn real_facts_cost_what_the_formulas_say() {
    for (file, columns, facts, users, items) in [
        (
            "reviews/anonreviews.csv.gz",
            "user=reviewerId,item=vendorId,day=date,count=rating",
            None,
            400_141,
            247,
        ),
        ("steam/game_play.tsv.gz", "user=1,item=2,count=3", Some(70_477), 11_350, 3_600),
        (
            "lastfm/user_artists.tsv.gz",
            "user=userID,item=artistID,count=weight",
            Some(92_834),
            1_892,
            17_632,
        ),
    ] {
        let Some(file) = data(file) else { continue };
        let columns: Columns = columns.parse().expect("columns");
        let dated = columns.day.is_some();
        let interest = InterestFile { file, columns };
        let table = interest.read().expect("the published file");
        assert_eq!((table.users.len(), table.items.len()), (users, items));
        assert!(facts.is_none_or(|facts| facts == table.facts.len()), "{}", table.facts.len());
        if dated {
            assert_eq!(
                (table.facts[0].day, table.facts[table.facts.len() - 1].day),
                (20_030_507, 20_080_223)
            );
            // Half a million facts are for the release build.
            continue;
        }
        let options = LabOptions { interest: Some(interest), repeat: Some(1), ..tiny() };
        let study = run(&MapFactory, &options, &mut Silent).expect("the lab runs");
        assert!(study.counters_equal(), "{:?}", study.formulas);
        assert_eq!(numbers(&study, "Loading", "facts")[0], table.facts.len().to_string());
    }
}
