//! Asking: every answer is checked, every cost compared with its formula, every call timed.
#![expect(clippy::disallowed_methods, reason = "clients side by side are what is measured")]

use std::collections::BTreeMap;

use esker_layouts::OpCost;
use esker_layouts::kv::Costed;

use super::PARTS_MAX;
use super::layouts::{Followers, Interest, Layout, Part};
use super::source::Source;
use super::truth::{Moment, Pick};
use crate::lab::study::Study;
use crate::lab::{LabError, LabOptions, Result, Scale, stats, stopwatch};

/// Rows wider than this may be left by a seek, so that not all of their cells are read.
const WIDTH_READ_WHOLE: u64 = 16;
/// A scan that comes to more cells than this goes in parts, side by side.
const PART_CELLS: u64 = 10_000;
/// How long one layout may be asked one question about one game, once it has answered twice.
const BUDGET_NANOS: f64 = 4e9;

/// How long it is asked at least, at desk scale: a scan of half a millisecond that is timed seven times says more of
/// the machine's other guests than of the layout.
const ENOUGH_NANOS: f64 = 1e9;

/// How much is asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effort {
    /// Users, for questions about a user.
    pub(super) samples: usize,
    /// Repetitions of questions about a game, at least.
    pub(super) repeat: usize,
    /// Q3 is repeated until it has taken so long.
    enough_nanos: f64,
    /// Parts of a large scan.
    pub(super) parts: usize,
    /// Questions of each client.
    each_client: usize,
}

impl Effort {
    pub(super) fn of(options: &LabOptions) -> Effort {
        let repeat = options.repetitions() as usize;
        let cores = std::thread::available_parallelism().map_or(1, usize::from).min(PARTS_MAX);
        // Powers of two: parts end where users are divided.
        let parts = 1 << cores.ilog2();
        match options.scale {
            Scale::Tiny => Effort { samples: 20, repeat, enough_nanos: 0.0, parts: 2, each_client: 5 },
            Scale::Smoke => {
                Effort { samples: 200, repeat: repeat.max(5), enough_nanos: 0.0, parts, each_client: 100 }
            }
            Scale::Desk | Scale::Large => {
                Effort { samples: 1_000, repeat, enough_nanos: ENOUGH_NANOS, parts, each_client: 500 }
            }
        }
    }
}

/// A question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Question {
    /// Q1: the games of a user.
    Games,
    /// Q2: whether a user plays a game.
    Plays,
    /// Q3: who plays the game of this number among the picks.
    Players(usize),
    /// Q4: whether anybody plays it.
    Played(usize),
}

impl Question {
    pub(super) fn name(self) -> &'static str {
        match self {
            Question::Games => "Q1 games of a user",
            Question::Plays => "Q2 does a user play a game",
            Question::Players(_) => "Q3 who plays a game",
            Question::Played(_) => "Q4 does anybody play a game",
        }
    }
}

/// What was measured of one question.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    pub(super) nanos: Vec<f64>,
    pub(super) cost: OpCost,
}

impl Measured {
    pub(super) fn operations(&self) -> u64 {
        self.nanos.len() as u64
    }

    /// Nanoseconds of all of them together.
    fn taken(&self) -> f64 {
        self.nanos.iter().sum()
    }

    pub(super) fn p50(&self) -> f64 {
        stats::median(&self.nanos)
    }

    pub(super) fn p99(&self) -> f64 {
        stats::quantile(&self.nanos, 0.99)
    }

    /// A counter, in the mean of an operation.
    pub(super) fn mean(&self, counter: impl Fn(&OpCost) -> u64) -> f64 {
        counter(&self.cost) as f64 / self.operations().max(1) as f64
    }

    fn add(&mut self, nanos: u64, cost: &OpCost) {
        self.nanos.push(nanos as f64);
        self.cost.add(cost);
    }
}

/// Blocks looked at, wherever they came from.
pub(super) fn blocks(cost: &OpCost) -> u64 {
    cost.blocks_from_cache + cost.blocks_from_disk
}

/// A load up to a moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// In commits and in compactions.
    pub(super) nanos: u64,
    pub(super) disk_bytes: Option<u64>,
}

/// Clients side by side.
#[derive(Clone, Debug)]
pub(super) struct Crowd {
    pub(super) layout: Layout,
    pub(super) question: Question,
    pub(super) clients: usize,
    pub(super) per_second: f64,
    pub(super) measured: Measured,
}

/// Everything that is asked, and what came of it.
pub(super) struct Bench<'a> {
    pub(super) source: &'a Source,
    pub(super) picks: &'a [Pick],
    pub(super) moments: &'a [Moment],
    pub(super) effort: Effort,
    /// Collects the comparisons.
    pub(super) study: Study,
    pub(super) cells: BTreeMap<(Layout, Question, usize), Measured>,
    pub(super) loads: BTreeMap<(Layout, usize), Load>,
    pub(super) crowds: Vec<Crowd>,
    /// The most memory held while loading and asking, and with clients side by side.
    pub(super) peaks: BTreeMap<Layout, (Option<u64>, Option<u64>)>,
    /// Pairs that are in the tall table, and how many were found by the key with its fields swapped.
    pub(super) swapped: (u64, u64),
}

/// Keys that an operation may read.
#[derive(Clone, Copy)]
enum Keys {
    Exactly(u64),
    Between(u64, u64),
}

impl<'a> Bench<'a> {
    pub(super) fn new(
        source: &'a Source,
        picks: &'a [Pick],
        moments: &'a [Moment],
        effort: Effort,
    ) -> Self {
        Bench {
            source,
            picks,
            moments,
            effort,
            study: Study::new("X8", "", "", ""),
            cells: BTreeMap::new(),
            loads: BTreeMap::new(),
            crowds: Vec::new(),
            peaks: BTreeMap::new(),
            swapped: (0, 0),
        }
    }

    pub(super) fn loaded(&mut self, layout: Layout, moment: usize, nanos: u64, disk_bytes: Option<u64>) {
        self.loads.insert((layout, moment), Load { nanos, disk_bytes });
    }

    fn game(&self, pick: usize) -> &'a str {
        &self.source.games()[self.picks[pick].game as usize]
    }

    /// Ask everything at `moment`.
    pub(super) fn ask(&mut self, layout: Layout, asked: &dyn Interest, moment: usize) -> Result<()> {
        self.games(layout, asked, moment)?;
        self.plays(layout, asked, moment)?;
        for pick in 0..self.picks.len() {
            self.players(layout, asked, moment, pick)?;
            self.played(layout, asked, moment, pick)?;
        }
        Ok(())
    }

    fn games(&mut self, layout: Layout, asked: &dyn Interest, moment: usize) -> Result<()> {
        let now = &self.moments[moment];
        let scans = !matches!(layout, Layout::Wide | Layout::Both);
        let mut measured = Measured::default();
        for user in now.users.keys().take(if scans { self.effort.repeat } else { usize::MAX }) {
            let name = self.source.user(*user);
            let expected = now.games_of(*user, self.source.games());
            let (found, nanos) = answer(layout, || asked.games_of(&name))?;
            right(layout, Question::Games, &name, &found.value, &expected)?;
            let keys = if scans { now.facts } else { expected.facts };
            self.compare(layout, Question::Games, &found.cost, 1, Keys::Exactly(keys));
            measured.add(nanos, &found.cost);
            if measured.operations() > 1 && measured.taken() > BUDGET_NANOS {
                break;
            }
        }
        self.cells.insert((layout, Question::Games, moment), measured);
        Ok(())
    }

    fn plays(&mut self, layout: Layout, asked: &dyn Interest, moment: usize) -> Result<()> {
        let now = &self.moments[moment];
        let mut measured = Measured::default();
        let mut swapped = (0, 0);
        for (place, (user, cells)) in now.users.iter().enumerate() {
            let name = self.source.user(*user);
            // Present and absent in turn: the user's own last game, or a game that is asked about.
            let own = cells.last().map(|(_, game)| *game).filter(|_| place % 2 == 0);
            let game = own.unwrap_or_else(|| self.picks[place / 2 % self.picks.len()].game);
            let found_at = cells.iter().position(|(_, other)| *other == game);
            let game = self.source.games()[game as usize].as_str();
            let (found, nanos) = answer(layout, || asked.plays(&name, game))?;
            right(layout, Question::Plays, &format!("{name}, {game}"), &found.value, &found_at.is_some())?;
            let read = found_at.map_or(cells.len() as u64, |at| at as u64 + 1);
            let keys = match layout {
                Layout::Wide if now.width <= WIDTH_READ_WHOLE => Keys::Exactly(read),
                Layout::Wide => Keys::Between(u64::from(found_at.is_some()), read),
                _ => Keys::Exactly(u64::from(found_at.is_some())),
            };
            self.compare(layout, Question::Plays, &found.cost, 1, keys);
            measured.add(nanos, &found.cost);
            if layout == Layout::Tall && found_at.is_some() {
                // The article's listing asks for user and game in the order that its table has not.
                let backwards = answer(layout, || asked.plays(game, &name))?.0;
                swapped.0 += 1;
                swapped.1 += u64::from(backwards.value);
            }
        }
        self.swapped.0 += swapped.0;
        self.swapped.1 += swapped.1;
        self.cells.insert((layout, Question::Plays, moment), measured);
        Ok(())
    }

    /// Parts of Q3, the same at every moment: times of one and of several would not make one series.
    fn parts(&self, layout: Layout, pick: usize) -> usize {
        let cells = |moment: &Moment| match layout {
            Layout::Wide | Layout::WholeKey => moment.facts,
            Layout::Tall | Layout::Both | Layout::PerField => moment.picks[pick].facts,
        };
        if self.moments.iter().any(|moment| cells(moment) > PART_CELLS) { self.effort.parts } else { 1 }
    }

    fn players(&mut self, layout: Layout, asked: &dyn Interest, moment: usize, pick: usize) -> Result<()> {
        let (now, game) = (&self.moments[moment], self.game(pick));
        let picked = now.picks[pick];
        let keys = match layout {
            Layout::Wide if now.width > WIDTH_READ_WHOLE => Keys::Between(picked.facts, now.facts),
            Layout::Wide | Layout::WholeKey => Keys::Exactly(now.facts),
            Layout::Tall | Layout::Both | Layout::PerField => Keys::Exactly(picked.facts),
        };
        let parts = self.parts(layout, pick);
        let question = Question::Players(pick);
        let mut measured = Measured::default();
        while measured.nanos.len() < self.effort.repeat || measured.taken() < self.effort.enough_nanos {
            let (found, nanos) = answer(layout, || in_parts(asked, game, parts))?;
            right(layout, question, game, &found.value, &picked.followers)?;
            self.compare(layout, question, &found.cost, parts as u64, keys);
            measured.add(nanos, &found.cost);
            if measured.operations() > 1 && measured.taken() > BUDGET_NANOS {
                break;
            }
        }
        self.cells.insert((layout, question, moment), measured);
        Ok(())
    }

    fn played(&mut self, layout: Layout, asked: &dyn Interest, moment: usize, pick: usize) -> Result<()> {
        let (now, game) = (&self.moments[moment], self.game(pick));
        let picked = now.picks[pick];
        let there = picked.facts > 0;
        let first = if there { picked.first } else { now.facts };
        let keys = match layout {
            Layout::Wide if now.width > WIDTH_READ_WHOLE => Keys::Between(u64::from(there), first),
            Layout::Wide => Keys::Exactly(first),
            Layout::WholeKey => Keys::Between(u64::from(there), now.facts),
            Layout::Tall | Layout::Both | Layout::PerField => Keys::Exactly(u64::from(there)),
        };
        let question = Question::Played(pick);
        let mut measured = Measured::default();
        for _ in 0..self.effort.repeat {
            let (found, nanos) = answer(layout, || asked.played(game))?;
            right(layout, question, game, &found.value, &there)?;
            self.compare(layout, question, &found.cost, 1, keys);
            measured.add(nanos, &found.cost);
        }
        self.cells.insert((layout, question, moment), measured);
        Ok(())
    }

    /// Hold a cost against its formula.
    fn compare(&mut self, layout: Layout, question: Question, cost: &OpCost, calls: u64, keys: Keys) {
        let (low, high, exact) = match keys {
            Keys::Exactly(keys) => (keys, keys, true),
            Keys::Between(low, high) => (low, high, false),
        };
        let formula = formula(layout, question, exact);
        let counted = (cost.calls, cost.keys_read);
        // Wide rows are left by a seek. The map in memory has no cursor: there that is a call of its own.
        let seeks = layout == Layout::Wide && !exact;
        let calls = if seeks { cost.calls.max(calls) } else { calls };
        let expected = (calls, cost.keys_read.clamp(low, high.max(low)));
        self.study.compare(
            &format!("{}: {}", layout.name(), question.name()),
            formula,
            &counted,
            &expected,
        );
    }

    /// 1, 2, 4 and 8 clients at once, each asking by itself and in one part.
    pub(super) fn clients(&mut self, layout: Layout, asked: &dyn Interest) -> Result<()> {
        // A share of about a hundredth, where there is one.
        let pick = 1.min(self.picks.len() - 1);
        let (Some(now), Layout::Wide | Layout::Tall) = (self.moments.last(), layout) else { return Ok(()) };
        let game = self.game(pick);
        let users: Vec<String> = now.users.keys().map(|user| self.source.user(*user)).collect();
        let single = self.cells.get(&(layout, Question::Players(pick), self.moments.len() - 1));
        // A second for each crowd is enough.
        let scans = single.map_or(1.0, |measured| (5e8 / measured.p50().max(1.0)).max(1.0));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 or a little more")]
        let scans = (scans as usize).min(self.effort.each_client);
        for clients in [1, 2, 4, 8] {
            let plays = |client: usize, turn: usize| {
                let user = &users[(client * 131 + turn) % users.len()];
                asked.plays(user, game).map(|found| found.cost)
            };
            let players = |_: usize, _: usize| asked.players(game, Part::ALL).map(|found| found.cost);
            for (question, measured) in [
                (Question::Plays, crowd(layout, clients, self.effort.each_client, &plays)?),
                (Question::Players(pick), crowd(layout, clients, scans, &players)?),
            ] {
                let (measured, nanos) = measured;
                let per_second = measured.operations() as f64 * 1e9 / nanos.max(1) as f64;
                self.crowds.push(Crowd { layout, question, clients, per_second, measured });
            }
        }
        Ok(())
    }
}

/// The formula in words.
fn formula(layout: Layout, question: Question, exact: bool) -> &'static str {
    match (question, layout) {
        (_, Layout::Wide) if !exact => "at most the cells of the rows: wide ones are left by a seek",
        (Question::Games, Layout::Wide | Layout::Both) => "1 scan, a key for each fact of the user",
        (Question::Games, _) => "1 scan, a key for each fact there is",
        (Question::Plays, Layout::Wide) => "1 scan, the user's facts up to the first of the game",
        (Question::Players(_), Layout::Wide | Layout::WholeKey) => {
            "1 scan a part, a key for each fact there is"
        }
        (Question::Players(_), _) => "1 scan a part, a key for each fact of the game",
        (Question::Played(_), Layout::Wide) => "1 scan, the facts up to the first of the game",
        (Question::Played(_), Layout::WholeKey) => {
            "1 scan, any number of keys: the first one lies anywhere"
        }
        (Question::Plays | Question::Played(_), _) => "1 scan, one key if it is so, else none",
    }
}

/// Time a call and name its layout if it fails.
fn answer<T>(layout: Layout, call: impl FnOnce() -> esker_layouts::Result<T>) -> Result<(T, u64)> {
    let (found, nanos) = stopwatch::timed(call);
    let doing = || format!("ask the layout {}", layout.name());
    Ok((found.map_err(|source| LabError::Layout { doing: doing(), source })?, nanos))
}

fn right<T: PartialEq + std::fmt::Debug>(
    layout: Layout,
    question: Question,
    about: &str,
    found: &T,
    expected: &T,
) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(LabError::WrongResult {
        layout: layout.name(),
        question: format!("{} ({about})", question.name()),
        found: format!("{found:?}"),
        expected: format!("{expected:?}"),
    })
}

/// Q3 in `parts` side by side.
fn in_parts(asked: &dyn Interest, game: &str, parts: usize) -> esker_layouts::Result<Costed<Followers>> {
    if parts == 1 {
        return asked.players(game, Part::ALL);
    }
    let part = |index| asked.players(game, Part { index, of: parts });
    let found: Vec<_> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..parts).map(|index| scope.spawn(move || part(index))).collect();
        let first = part(0);
        let others = others.into_iter().map(|other| other.join().expect("a scan that panics is a bug"));
        std::iter::once(first).chain(others).collect()
    });
    let mut sum = Costed { value: Followers::default(), cost: OpCost::default() };
    for part in found {
        let part = part?;
        sum.value.users += part.value.users;
        sum.value.check = sum.value.check.wrapping_add(part.value.check);
        sum.cost.add(&part.cost);
    }
    Ok(sum)
}

/// `clients` at once, each `turns` times; what each call took, and how long it all took.
fn crowd(
    layout: Layout,
    clients: usize,
    turns: usize,
    call: &(impl Fn(usize, usize) -> esker_layouts::Result<OpCost> + Sync),
) -> Result<(Measured, u64)> {
    let one = |client: usize| {
        (0..turns)
            .map(|turn| {
                let (cost, nanos) = stopwatch::timed(|| call(client, turn));
                cost.map(|cost| (cost, nanos))
            })
            .collect::<esker_layouts::Result<Vec<_>>>()
    };
    let (all, nanos) = stopwatch::timed(|| {
        std::thread::scope(|scope| {
            let clients: Vec<_> = (0..clients).map(|client| scope.spawn(move || one(client))).collect();
            let joined =
                clients.into_iter().map(|client| client.join().expect("a client that panics is a bug"));
            joined.collect::<esker_layouts::Result<Vec<_>>>()
        })
    });
    let doing = || format!("ask the layout {} from {clients} threads", layout.name());
    let all = all.map_err(|source| LabError::Layout { doing: doing(), source })?;
    let mut measured = Measured::default();
    all.iter().flatten().for_each(|(cost, nanos)| measured.add(*nanos, cost));
    Ok((measured, nanos))
}
