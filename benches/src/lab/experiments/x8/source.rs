//! Where the facts come from: a seeded generator in the shape of the article's scenario, or a file.
//!
//! A fact is "user u played game g on day d, so often". Ids are numbers whose order is that of their
//! names, so that orders of keys can be told from ids alone. Facts come row by row (a user's games of a
//! day), in the order in which they would arrive: by day.

use super::super::random;
use crate::lab::interest::Table;
use crate::lab::{LabOptions, Scale};

/// The article's game: its number of players does not change while the table grows.
pub(super) const PROBE: u32 = 0;
const PROBE_NAME: &str = "3CountryBattle";
/// The article's scenario: 100,000 plays a day at the peak.
const FACTS_A_DAY: u64 = 100_000;

/// A user's games of a day.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row<'a> {
    pub(super) user: u32,
    pub(super) day: u32,
    /// Games, ascending, each with how often it was played.
    pub(super) games: &'a [(u32, u64)],
}

/// Facts, always the same in the same order.
pub(super) enum Source {
    Generated(Generator),
    Imported(Table),
}

pub(super) struct Generator {
    seed: fastrand::Rng,
    pub(super) users: u32,
    /// Names, ascending; the first is the probe.
    pub(super) games: Vec<String>,
    /// Shares of the games, summed up.
    shares: Vec<f64>,
    pub(super) facts: u64,
    days: u32,
    pub(super) probes: u32,
}

impl Generator {
    pub(super) fn new(options: &LabOptions) -> Generator {
        let (facts, users, games, probes) = match options.scale {
            Scale::Tiny => (2_000, 400, 40, 10),
            Scale::Smoke => (100_000, 10_000, 500, 100),
            Scale::Desk => (20_000_000, 2_000_000, 500, 1_000),
            Scale::Large => (100_000_000, 5_000_000, 500, 1_000),
        };
        let names = (1..=games).map(|rank| format!("game{rank:03}"));
        let names = std::iter::once(PROBE_NAME.to_owned()).chain(names).collect();
        // Zipf: the share of the game of rank r is in proportion to 1/r.
        let mut sum = 0.0;
        let shares = (1..=games).map(|rank| {
            sum += 1.0 / f64::from(rank);
            sum
        });
        let days = u32::try_from(facts / FACTS_A_DAY).unwrap_or(u32::MAX).max(10);
        let shares = shares.collect();
        Generator { seed: random(options, &[8, 1]), users, games: names, shares, facts, days, probes }
    }

    fn game(&self, random: &mut fastrand::Rng) -> u32 {
        let last = self.shares.last().copied().unwrap_or(1.0);
        let drawn = random.f64() * last;
        let place = self.shares.partition_point(|sum| *sum < drawn);
        u32::try_from(place.min(self.shares.len() - 1)).unwrap_or(0) + 1
    }

    fn each<E>(&self, mut take: impl FnMut(Row<'_>) -> Result<(), E>) -> Result<(), E> {
        let mut random = self.seed.clone();
        // Spread over all users, and before everything else: on a day of their own.
        for probe in 0..self.probes {
            let user = u32::try_from(u64::from(probe) * u64::from(self.users) / u64::from(self.probes));
            take(Row { user: user.unwrap_or(0), day: date(0), games: &[(PROBE, 1)] })?;
        }
        // Two games a row in the mean, as many rows a day as that makes. A day's users are a walk with a
        // stride that has no factor in common with their number, so none comes twice.
        let rows_a_day = u32::try_from(self.facts / 2 / u64::from(self.days)).unwrap_or(u32::MAX);
        let stride = stride(self.users);
        let mut games = Vec::with_capacity(3);
        let mut left = self.facts.saturating_sub(u64::from(self.probes));
        for day in 1.. {
            let mut user = random.u32(..self.users);
            for _ in 0..rows_a_day.clamp(1, self.users) {
                games.clear();
                let width = random.usize(1..=3).min(usize::try_from(left).unwrap_or(usize::MAX));
                while games.len() < width {
                    let game = self.game(&mut random);
                    if games.iter().all(|(other, _)| *other != game) {
                        games.push((game, random.u64(1..10)));
                    }
                }
                games.sort_unstable();
                left -= width as u64;
                take(Row { user, day: date(day), games: &games })?;
                if left == 0 {
                    return Ok(());
                }
                user = (user + stride) % self.users;
            }
        }
        Ok(())
    }
}

/// A step through `users` that meets all of them.
fn stride(users: u32) -> u32 {
    let common = |a: u32, b: u32| {
        let (mut a, mut b) = (a, b);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let golden = users / 8 * 5;
    (golden.max(1)..users).find(|step| common(*step, users) == 1).unwrap_or(1)
}

/// Day number `day` as a date of 2016 and after, with months of 28 days: as good as any for a key.
fn date(day: u32) -> u32 {
    let (year, day) = (2016 + day / 336, day % 336);
    year * 10_000 + (day / 28 + 1) * 100 + day % 28 + 1
}

impl Source {
    /// The file of `options`, or the generator.
    pub(super) fn new(options: &LabOptions) -> crate::lab::Result<Source> {
        Ok(match &options.interest {
            Some(interest) => Source::Imported(interest.read()?),
            None => Source::Generated(Generator::new(options)),
        })
    }

    pub(super) fn facts(&self) -> u64 {
        match self {
            Source::Generated(generator) => generator.facts,
            Source::Imported(table) => table.facts.len() as u64,
        }
    }

    pub(super) fn users(&self) -> u32 {
        match self {
            Source::Generated(generator) => generator.users,
            Source::Imported(table) => u32::try_from(table.users.len()).unwrap_or(u32::MAX),
        }
    }

    pub(super) fn user(&self, id: u32) -> String {
        match self {
            Source::Generated(_) => format!("QQ{id:09}"),
            Source::Imported(table) => table.users[id as usize].clone(),
        }
    }

    pub(super) fn games(&self) -> &[String] {
        match self {
            Source::Generated(generator) => &generator.games,
            Source::Imported(table) => &table.items,
        }
    }

    /// Whether the game with a fixed number of players is among them.
    pub(super) fn has_probe(&self) -> bool {
        matches!(self, Source::Generated(_))
    }

    /// All rows in order; stops at the first error.
    pub(super) fn each<E>(&self, mut take: impl FnMut(Row<'_>) -> Result<(), E>) -> Result<(), E> {
        match self {
            Source::Generated(generator) => generator.each(take),
            Source::Imported(table) => {
                let mut games = Vec::new();
                for row in table.facts.chunk_by(|a, b| (a.day, a.user) == (b.day, b.user)) {
                    games.clear();
                    games.extend(row.iter().map(|fact| (fact.item, fact.amount)));
                    take(Row { user: row[0].user, day: row[0].day, games: &games })?;
                }
                Ok(())
            }
        }
    }
}
