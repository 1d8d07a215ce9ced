//! The same facts in five layouts, and the four questions.
//!
//! | layout | keys | value |
//! |---|---|---|
//! | wide | row (user, day), column game | so often |
//! | tall | (game, user, day) | so often |
//! | both | (game, user, day) and (user, game, day) | so often |
//! | whole key | (MD5 of (game, user), day) | game, user, so often |
//! | per field | (MD5 of game, MD5 of user, day) | game, user, so often |
//!
//! A fact is one cell in all of them (two in *both*). Hashed layouts keep the names in the value and
//! compare them. Answers are counts and checksums of names, so that no layout is paid for handing out
//! strings.

use std::ops::ControlFlow;

use esker_layouts::kv::{Costed, Go, KeyRange, OrderedKv};
use esker_layouts::tall::TallTable;
use esker_layouts::tuple::{Fields, Space, Uuid, pack};
use esker_layouts::wide::{Filter, Query, RowChange, WideTable};
use esker_layouts::{OpCost, Result};
use md5::{Digest, Md5};

const FAMILY: &str = "degree";

/// A layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Layout {
    Wide,
    Tall,
    Both,
    WholeKey,
    PerField,
}

impl Layout {
    pub(super) const ALL: [Layout; 5] =
        [Layout::Wide, Layout::Tall, Layout::Both, Layout::WholeKey, Layout::PerField];

    pub(super) fn name(self) -> &'static str {
        match self {
            Layout::Wide => "wide",
            Layout::Tall => "tall",
            Layout::Both => "tall both ways",
            Layout::WholeKey => "whole-key MD5",
            Layout::PerField => "per-field MD5",
        }
    }

    /// Its name on the command line.
    pub(super) fn short(self) -> &'static str {
        match self {
            Layout::Wide => "wide",
            Layout::Tall => "tall",
            Layout::Both => "both",
            Layout::WholeKey => "whole-key",
            Layout::PerField => "per-field",
        }
    }

    /// The keys of a fact.
    pub(super) fn cells(self) -> u64 {
        if self == Layout::Both { 2 } else { 1 }
    }
}

/// Users of a game.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Followers {
    pub(super) users: u64,
    /// The sum of their names' checks.
    pub(super) check: u64,
}

/// Games of a user, as often as there are facts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Games {
    pub(super) facts: u64,
    pub(super) check: u64,
}

impl Games {
    pub(super) fn add(&mut self, game: &str) {
        self.facts += 1;
        self.check = self.check.wrapping_add(name_check(game.as_bytes()));
    }
}

/// A number that tells names apart well enough for a sum: the last eight bytes, stirred.
#[inline]
pub(super) fn name_check(name: &[u8]) -> u64 {
    let mut last = [0; 8];
    match name.last_chunk::<8>() {
        Some(chunk) => last = *chunk,
        None => last[..name.len()].copy_from_slice(name),
    }
    let stirred = (u64::from_le_bytes(last) ^ name.len() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    stirred ^ (stirred >> 29)
}

/// Users one by one, each perhaps several times in succession.
#[derive(Default)]
struct Distinct {
    last: Vec<u8>,
    last_check: u64,
    followers: Followers,
}

impl Distinct {
    #[inline]
    fn add(&mut self, user: &str) {
        let check = name_check(user.as_bytes());
        // Names that differ mostly differ in their checks.
        if self.followers.users == 0 || self.last_check != check || self.last != user.as_bytes() {
            self.last.clear();
            self.last.extend_from_slice(user.as_bytes());
            self.last_check = check;
            self.followers.users += 1;
            self.followers.check = self.followers.check.wrapping_add(check);
        }
    }
}

/// A part of all users, for scans side by side.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) index: usize,
    pub(super) of: usize,
}

impl Part {
    pub(super) const ALL: Part = Part { index: 0, of: 1 };
}

/// A user, a day, and the games of both, each with how often it was played.
pub(super) type Loaded = (String, u32, Vec<(u32, u64)>);

/// Facts laid out over a store.
pub(super) trait Interest: Sync {
    /// Add rows, in one commit.
    fn load(&self, rows: &[Loaded]) -> Result<OpCost>;
    /// Q1: the games of `user`.
    fn games_of(&self, user: &str) -> Result<Costed<Games>>;
    /// Q2: whether `user` plays `game`.
    fn plays(&self, user: &str, game: &str) -> Result<Costed<bool>>;
    /// Q3: who plays `game`, among a part of the users.
    fn players(&self, game: &str, part: Part) -> Result<Costed<Followers>>;
    /// Q4: whether anybody plays `game`.
    fn played(&self, game: &str) -> Result<Costed<bool>>;
}

/// Opens a layout over a store; tests put wrong layouts in its place.
pub(super) trait OpenInterest<K> {
    /// `layout` over `store`; parts of users are divided at `splits`.
    fn open<'k>(
        &self,
        store: &'k K,
        layout: Layout,
        games: &'k [String],
        splits: &'k [String],
    ) -> Result<Box<dyn Interest + 'k>>;
}

/// The layouts as they should be.
pub(super) struct RealInterest;

impl<K: OrderedKv> OpenInterest<K> for RealInterest {
    fn open<'k>(
        &self,
        store: &'k K,
        layout: Layout,
        games: &'k [String],
        splits: &'k [String],
    ) -> Result<Box<dyn Interest + 'k>> {
        let space = Space::new(&("i",));
        let by_game = TallTable::open(store, &space.sub(&("g",)))?;
        Ok(match layout {
            Layout::Wide => {
                let table = WideTable::open(store, &space, &[FAMILY])?;
                Box::new(Wide { store, table, games, splits })
            }
            Layout::Tall => Box::new(Tall { store, by_game, by_user: None, games, splits }),
            Layout::Both => {
                let by_user = Some(TallTable::open(store, &space.sub(&("u",)))?);
                Box::new(Tall { store, by_game, by_user, games, splits })
            }
            Layout::WholeKey => Box::new(WholeKey { store, table: TallTable::open(store, &space)?, games }),
            Layout::PerField => {
                let digests = games.iter().map(|game| digest(&(game.as_str(),))).collect();
                Box::new(PerField { store, table: TallTable::open(store, &space)?, games, digests })
            }
        })
    }
}

struct Wide<'k, K> {
    store: &'k K,
    table: WideTable<&'k K>,
    games: &'k [String],
    splits: &'k [String],
}

/// The keys at which a part begins and ends.
fn bounds(splits: &[String], part: Part) -> (Option<&str>, Option<&str>) {
    let at = |index: usize| match index {
        0 => None,
        index if index >= part.of => None,
        index => splits.get(index * (splits.len() + 1) / part.of - 1).map(String::as_str),
    };
    (at(part.index), at(part.index + 1))
}

impl<K: OrderedKv> Interest for Wide<'_, K> {
    fn load(&self, rows: &[Loaded]) -> Result<OpCost> {
        let done = self.store.update(|tx| {
            for (user, day, games) in rows {
                let key = pack(&(user.as_str(), *day));
                let change = games.iter().fold(RowChange::new(), |change, (game, amount)| {
                    change.put(FAMILY, self.games[*game as usize].as_bytes(), &pack(&(*amount,)))
                });
                self.table.apply_in(tx, &key, &change)?;
            }
            Ok(())
        })?;
        Ok(done.cost)
    }

    fn games_of(&self, user: &str) -> Result<Costed<Games>> {
        let view = self.table.view()?;
        let mut games = Games::default();
        view.visit(&Query::rows(Space::root().under(&(user,))), |cell| {
            games.facts += 1;
            games.check = games.check.wrapping_add(name_check(cell.column));
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(Costed { value: games, cost: view.cost() })
    }

    fn plays(&self, user: &str, game: &str) -> Result<Costed<bool>> {
        self.any(Query::rows(Space::root().under(&(user,))), game)
    }

    fn players(&self, game: &str, part: Part) -> Result<Costed<Followers>> {
        let (from, to) = bounds(self.splits, part);
        let mut rows = KeyRange::all();
        rows.start = from.map_or_else(Vec::new, |from| pack(&(from,)));
        rows.end = to.map(|to| pack(&(to,)));
        let view = self.table.view()?;
        let mut distinct = Distinct::default();
        let query = Query::rows(rows).filter(Filter::Column(game.as_bytes().to_vec())).keys_only();
        view.visit(&query, |cell| {
            distinct.add(&Fields::new(cell.row).text()?);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(Costed { value: distinct.followers, cost: view.cost() })
    }

    fn played(&self, game: &str) -> Result<Costed<bool>> {
        self.any(Query::all(), game)
    }
}

impl<K: OrderedKv> Wide<'_, K> {
    /// Whether a row of `query` has the column `game`.
    fn any(&self, query: Query, game: &str) -> Result<Costed<bool>> {
        let view = self.table.view()?;
        let mut found = false;
        view.visit(&query.filter(Filter::Column(game.as_bytes().to_vec())), |_| {
            found = true;
            Ok(ControlFlow::Break(()))
        })?;
        Ok(Costed { value: found, cost: view.cost() })
    }
}

type Names = (String, String, u32);

struct Tall<'k, K> {
    store: &'k K,
    by_game: TallTable<&'k K, Names>,
    /// The same facts by user, if they are kept both ways.
    by_user: Option<TallTable<&'k K, Names>>,
    games: &'k [String],
    splits: &'k [String],
}

/// Whether `table` has a row in `range`.
fn any<K: OrderedKv, T: esker_layouts::tuple::Key>(
    table: &TallTable<&K, T>,
    range: KeyRange,
) -> Result<Costed<bool>> {
    let view = table.view()?;
    let mut found = false;
    view.visit(range, |_, _| {
        found = true;
        Ok(Go::Stop)
    })?;
    Ok(Costed { value: found, cost: view.cost() })
}

impl<K: OrderedKv> Interest for Tall<'_, K> {
    fn load(&self, rows: &[Loaded]) -> Result<OpCost> {
        let done = self.store.update(|tx| {
            for (user, day, games) in rows {
                for (game, amount) in games {
                    let (game, amount) = (self.games[*game as usize].clone(), pack(&(*amount,)));
                    let key = (game, user.clone(), *day);
                    self.by_game.put_in(tx, &key, &amount)?;
                    if let Some(by_user) = &self.by_user {
                        let (game, user, day) = key;
                        by_user.put_in(tx, &(user, game, day), &amount)?;
                    }
                }
            }
            Ok(())
        })?;
        Ok(done.cost)
    }

    fn games_of(&self, user: &str) -> Result<Costed<Games>> {
        let mut games = Games::default();
        if let Some(by_user) = &self.by_user {
            let view = by_user.view()?;
            view.visit(by_user.keys().under(&(user,)), |fields, _| {
                let _user = fields.text()?;
                games.add(&fields.text()?);
                Ok(Go::On)
            })?;
            return Ok(Costed { value: games, cost: view.cost() });
        }
        let view = self.by_game.view()?;
        view.visit(self.by_game.keys().under(&()), |fields, _| {
            let game = fields.text()?;
            if fields.text()? == user {
                games.add(&game);
            }
            Ok(Go::On)
        })?;
        Ok(Costed { value: games, cost: view.cost() })
    }

    fn plays(&self, user: &str, game: &str) -> Result<Costed<bool>> {
        any(&self.by_game, self.by_game.keys().under(&(game, user)))
    }

    fn players(&self, game: &str, part: Part) -> Result<Costed<Followers>> {
        let (from, to) = bounds(self.splits, part);
        // The rows of a game are a table of their own.
        let players: TallTable<_, (String, u32)> =
            TallTable::open(self.store, &self.by_game.keys().sub(&(game,)))?;
        let keys = players.keys();
        let mut range = keys.under(&());
        if let Some(from) = from {
            range.start = keys.key(&(from,));
        }
        if let Some(to) = to {
            range.end = Some(keys.key(&(to,)));
        }
        let view = players.view()?;
        let mut distinct = Distinct::default();
        view.visit(range, |fields, _| {
            distinct.add(&fields.text()?);
            Ok(Go::On)
        })?;
        Ok(Costed { value: distinct.followers, cost: view.cost() })
    }

    fn played(&self, game: &str) -> Result<Costed<bool>> {
        any(&self.by_game, self.by_game.keys().under(&(game,)))
    }
}

/// MD5 of a packed tuple.
fn digest(fields: &impl esker_layouts::tuple::Pack) -> Uuid {
    Uuid(Md5::digest(pack(fields)).into())
}

/// The range of digests of a part, under the fields before them.
fn digests(keys: &Space, before: &[Uuid], part: Part) -> KeyRange {
    let at = |index: usize| {
        let mut first = [0; 16];
        first[0] = u8::try_from(index * 256 / part.of).ok()?;
        let mut key: Vec<u8> = keys.prefix().to_vec();
        before.iter().chain([&Uuid(first)]).for_each(|uuid| key.extend(pack(&(*uuid,))));
        Some(key)
    };
    let whole = before.first().map_or_else(|| keys.under(&()), |first| keys.under(&(*first,)));
    KeyRange {
        start: at(part.index).unwrap_or_default(),
        end: if part.index + 1 >= part.of { whole.end } else { at(part.index + 1) },
    }
}

struct WholeKey<'k, K> {
    store: &'k K,
    table: TallTable<&'k K, (Uuid, u32)>,
    games: &'k [String],
}

/// Every row in `range` of a hashed table: its game and its user, as the value has them.
fn each<K: OrderedKv, T: esker_layouts::tuple::Key>(
    table: &TallTable<&K, T>,
    range: KeyRange,
    mut take: impl FnMut(&str, &str) -> Go,
) -> Result<OpCost> {
    let view = table.view()?;
    view.visit(range, |_, value| {
        let mut fields = Fields::new(value);
        let game = fields.text()?;
        Ok(take(&game, &fields.text()?))
    })?;
    Ok(view.cost())
}

/// The games of `user`, told from every row there is.
fn games_by_scan<K: OrderedKv, T: esker_layouts::tuple::Key>(
    table: &TallTable<&K, T>,
    user: &str,
) -> Result<Costed<Games>> {
    let mut games = Games::default();
    let cost = each(table, table.keys().under(&()), |game, other| {
        if other == user {
            games.add(game);
        }
        Go::On
    })?;
    Ok(Costed { value: games, cost })
}

/// The users of `game` in `range`.
fn players_in<K: OrderedKv, T: esker_layouts::tuple::Key>(
    table: &TallTable<&K, T>,
    range: KeyRange,
    game: &str,
) -> Result<Costed<Followers>> {
    let mut distinct = Distinct::default();
    let cost = each(table, range, |other, user| {
        if other == game {
            distinct.add(user);
        }
        Go::On
    })?;
    Ok(Costed { value: distinct.followers, cost })
}

impl<K: OrderedKv> Interest for WholeKey<'_, K> {
    fn load(&self, rows: &[Loaded]) -> Result<OpCost> {
        let done = self.store.update(|tx| {
            for (user, day, games) in rows {
                for (game, amount) in games {
                    let game = self.games[*game as usize].as_str();
                    let key = (digest(&(game, user.as_str())), *day);
                    self.table.put_in(tx, &key, &pack(&(game, user.as_str(), *amount)))?;
                }
            }
            Ok(())
        })?;
        Ok(done.cost)
    }

    fn games_of(&self, user: &str) -> Result<Costed<Games>> {
        games_by_scan(&self.table, user)
    }

    fn plays(&self, user: &str, game: &str) -> Result<Costed<bool>> {
        let mut found = false;
        let range = self.table.keys().under(&(digest(&(game, user)),));
        let cost = each(&self.table, range, |other_game, other| {
            found = other == user && other_game == game;
            Go::Stop
        })?;
        Ok(Costed { value: found, cost })
    }

    fn players(&self, game: &str, part: Part) -> Result<Costed<Followers>> {
        players_in(&self.table, digests(self.table.keys(), &[], part), game)
    }

    fn played(&self, game: &str) -> Result<Costed<bool>> {
        let mut found = false;
        let cost = each(&self.table, self.table.keys().under(&()), |other, _| {
            found = other == game;
            if found { Go::Stop } else { Go::On }
        })?;
        Ok(Costed { value: found, cost })
    }
}

struct PerField<'k, K> {
    store: &'k K,
    table: TallTable<&'k K, (Uuid, Uuid, u32)>,
    games: &'k [String],
    /// The games' digests.
    digests: Vec<Uuid>,
}

impl<K: OrderedKv> Interest for PerField<'_, K> {
    fn load(&self, rows: &[Loaded]) -> Result<OpCost> {
        let done = self.store.update(|tx| {
            for (user, day, games) in rows {
                let digest = digest(&(user.as_str(),));
                for (game, amount) in games {
                    let name = self.games[*game as usize].as_str();
                    let key = (self.digests[*game as usize], digest, *day);
                    self.table.put_in(tx, &key, &pack(&(name, user.as_str(), *amount)))?;
                }
            }
            Ok(())
        })?;
        Ok(done.cost)
    }

    fn games_of(&self, user: &str) -> Result<Costed<Games>> {
        games_by_scan(&self.table, user)
    }

    fn plays(&self, user: &str, game: &str) -> Result<Costed<bool>> {
        let mut found = false;
        let range = self.table.keys().under(&(digest(&(game,)), digest(&(user,))));
        let cost = each(&self.table, range, |other_game, other| {
            found = other == user && other_game == game;
            Go::Stop
        })?;
        Ok(Costed { value: found, cost })
    }

    fn players(&self, game: &str, part: Part) -> Result<Costed<Followers>> {
        let range = digests(self.table.keys(), &[digest(&(game,))], part);
        players_in(&self.table, range, game)
    }

    fn played(&self, game: &str) -> Result<Costed<bool>> {
        let mut found = false;
        let cost = each(&self.table, self.table.keys().under(&(digest(&(game,)),)), |other, _| {
            found = other == game;
            Go::Stop
        })?;
        Ok(Costed { value: found, cost })
    }
}
