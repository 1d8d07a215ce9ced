//! The right answers, and what they must cost: told from the facts, by no layout.

use std::collections::BTreeMap;
use std::convert::Infallible;

use super::layouts::{Followers, Games, name_check};
use super::source::{PROBE, Row, Source};

/// Games are looked for with about these shares of all facts.
pub(super) const SHARES: [f64; 3] = [0.1, 0.01, 0.001];

/// A game that is asked about.
#[derive(Clone, Debug)]
pub(super) struct Pick {
    pub(super) game: u32,
    /// Its share of all facts; the probe has none that lasts.
    pub(super) share: f64,
    /// As tables show it: "10 %".
    pub(super) label: String,
}

/// What is true once so many facts are in.
#[derive(Clone, Debug)]
pub(super) struct Moment {
    pub(super) facts: u64,
    pub(super) rows: u64,
    /// The widest row.
    pub(super) width: u64,
    /// One for each pick.
    pub(super) picks: Vec<Picked>,
    /// What the sampled users have played: (day, game), ascending.
    pub(super) users: BTreeMap<u32, Vec<(u32, u32)>>,
}

/// A game at a moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Picked {
    /// Facts about it.
    pub(super) facts: u64,
    pub(super) followers: Followers,
    /// Its place, from 1, among all cells by user, day and game; 0 if nobody plays it.
    pub(super) first: u64,
}

impl Moment {
    /// The games of a sampled user.
    pub(super) fn games_of(&self, user: u32, names: &[String]) -> Games {
        let mut games = Games::default();
        for (_, game) in &self.users[&user] {
            games.add(&names[*game as usize]);
        }
        games
    }
}

/// Games nearest the wanted shares, each once, and the probe if there is one.
pub(super) fn picks(source: &Source) -> Vec<Pick> {
    let mut facts = vec![0u64; source.games().len()];
    let outcome: Result<(), Infallible> = source.each(|row| {
        row.games.iter().for_each(|(game, _)| facts[*game as usize] += 1);
        Ok(())
    });
    outcome.unwrap_or_else(|never| match never {});
    let all = facts.iter().sum::<u64>().max(1) as f64;
    let probe = source.has_probe().then_some(PROBE);
    let mut picks: Vec<Pick> = Vec::new();
    for wanted in SHARES {
        let distance = |game: u32| (facts[game as usize] as f64 / all - wanted).abs();
        let free = (0..u32::try_from(facts.len()).unwrap_or(u32::MAX))
            .filter(|game| facts[*game as usize] > 0 && Some(*game) != probe)
            .filter(|game| picks.iter().all(|pick| pick.game != *game));
        if let Some(game) = free.min_by(|a, b| distance(*a).total_cmp(&distance(*b))) {
            let share = facts[game as usize] as f64 / all;
            let label = if share >= 0.01 {
                format!("{:.1} %", share * 100.0)
            } else {
                format!("{:.2} %", share * 100.0)
            };
            picks.push(Pick { game, share, label });
        }
    }
    picks.extend(probe.map(|game| Pick { game, share: 0.0, label: "fixed".to_owned() }));
    picks
}

/// Follows the facts as they arrive.
struct Watch<'a> {
    source: &'a Source,
    picks: &'a [Pick],
    facts: u64,
    rows: u64,
    width: u64,
    picked: Vec<Picked>,
    /// The users known to play a pick, a bit each.
    known: Vec<Vec<u64>>,
    /// The first cell of a pick: (user, day).
    firsts: Vec<Option<(u32, u32)>>,
    users: BTreeMap<u32, Vec<(u32, u32)>>,
}

impl Watch<'_> {
    fn take(&mut self, row: Row<'_>) {
        self.rows += 1;
        self.facts += row.games.len() as u64;
        self.width = self.width.max(row.games.len() as u64);
        for (game, _) in row.games {
            let places = self.picks.iter().enumerate().filter(|(_, pick)| pick.game == *game);
            for (place, _) in places {
                let picked = &mut self.picked[place];
                picked.facts += 1;
                let (word, bit) = ((row.user / 64) as usize, 1u64 << (row.user % 64));
                if self.known[place][word] & bit == 0 {
                    self.known[place][word] |= bit;
                    picked.followers.users += 1;
                    let check = name_check(self.source.user(row.user).as_bytes());
                    picked.followers.check = picked.followers.check.wrapping_add(check);
                }
                let first = self.firsts[place].get_or_insert((row.user, row.day));
                *first = (*first).min((row.user, row.day));
            }
        }
        if let Some(cells) = self.users.get_mut(&row.user) {
            cells.extend(row.games.iter().map(|(game, _)| (row.day, *game)));
        }
    }

    fn moment(&self) -> Moment {
        let mut users = self.users.clone();
        for cells in users.values_mut() {
            cells.sort_unstable();
        }
        let Watch { facts, rows, width, .. } = *self;
        Moment { facts, rows, width, picks: self.picked.clone(), users }
    }
}

/// What is true after each of `sizes` facts (ascending), for `picks` and the users in `samples`.
pub(super) fn moments(source: &Source, picks: &[Pick], samples: &[u32], sizes: &[u64]) -> Vec<Moment> {
    let words = (source.users() / 64 + 1) as usize;
    let mut watch = Watch {
        source,
        picks,
        facts: 0,
        rows: 0,
        width: 0,
        picked: vec![Picked::default(); picks.len()],
        known: vec![vec![0; words]; picks.len()],
        firsts: vec![None; picks.len()],
        users: samples.iter().map(|user| (*user, Vec::new())).collect(),
    };
    let (mut moments, mut firsts) = (Vec::new(), Vec::new());
    let outcome: Result<(), Infallible> = source.each(|row| {
        watch.take(row);
        if sizes.get(moments.len()).is_some_and(|size| watch.facts >= *size) {
            moments.push(watch.moment());
            firsts.push(watch.firsts.clone());
        }
        Ok(())
    });
    outcome.unwrap_or_else(|never| match never {});
    // A second walk counts what lies before the first cells, now that they are known.
    let furthest = firsts.iter().flatten().flatten().max().copied();
    let mut seen = 0;
    let outcome: Result<(), Infallible> = source.each(|row| {
        seen += row.games.len() as u64;
        if furthest.is_none_or(|furthest| (row.user, row.day) > furthest) {
            return Ok(());
        }
        for (moment, firsts) in moments.iter_mut().zip(&firsts).filter(|(moment, _)| seen <= moment.facts) {
            for ((picked, pick), first) in moment.picks.iter_mut().zip(picks).zip(firsts) {
                let Some((user, day)) = first else { continue };
                let last = (*user, *day, pick.game);
                let before = row.games.iter().filter(|(game, _)| (row.user, row.day, *game) <= last);
                picked.first += before.count() as u64;
            }
        }
        Ok(())
    });
    outcome.unwrap_or_else(|never| match never {});
    moments
}
