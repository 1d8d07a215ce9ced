//! Users whose activity is skewed, under keys in three orders, counted in sixteen regions.

use esker_layouts::kv::{KvRead, OrderedKv, ScanOptions};
use esker_layouts::tuple::{KeyRange, pack};
use md5::{Digest, Md5};

use super::{Sizes, failed, random, right};
use crate::lab::experiments::weighed::{Row, for_loads, put_all};
use crate::lab::store::Store;
use crate::lab::study::Study;
use crate::lab::{LabOptions, Result};

/// Regions.
pub(super) const REGIONS: u64 = 16;

/// What a play's key begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Order {
    /// The user's number. The oldest users play most.
    Plain,
    /// MD5 of the user, then the play.
    PerField,
    /// MD5 of user and play.
    WholeKey,
}

impl Order {
    pub(super) const ALL: [Order; 3] = [Order::Plain, Order::PerField, Order::WholeKey];

    pub(super) fn name(self) -> &'static str {
        match self {
            Order::Plain => "user, play",
            Order::PerField => "MD5 of user, play",
            Order::WholeKey => "MD5 of user and play",
        }
    }
}

/// How keys lie in regions.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Spread {
    /// Keys of each region.
    pub(super) keys: Vec<u64>,
    /// Plays of the user who plays most.
    pub(super) busiest_user: u64,
}

impl Spread {
    fn total(&self) -> f64 {
        self.keys.iter().sum::<u64>() as f64
    }

    /// The share of the fullest region.
    pub(super) fn top(&self) -> f64 {
        self.keys.iter().copied().max().unwrap_or(0) as f64 / self.total().max(1.0)
    }

    /// Standard deviation by mean.
    pub(super) fn variation(&self) -> f64 {
        let mean = self.total() / self.keys.len().max(1) as f64;
        let squares: f64 = self.keys.iter().map(|keys| (*keys as f64 - mean).powi(2)).sum();
        (squares / self.keys.len().max(1) as f64).sqrt() / mean.max(f64::MIN_POSITIVE)
    }

    /// As many regions as, evenly filled, would be as uneven: 1 by the sum of the squared shares.
    pub(super) fn effective(&self) -> f64 {
        let shares = self.keys.iter().map(|keys| *keys as f64 / self.total().max(1.0));
        1.0 / shares.map(|share| share * share).sum::<f64>().max(f64::MIN_POSITIVE)
    }
}

/// The first key of region `region`: regions are equal parts of the users, or of the digests.
fn split(order: Order, region: u64, sizes: &Sizes) -> Vec<u8> {
    match order {
        Order::Plain => pack(&(sizes.players * region / REGIONS,)),
        Order::PerField | Order::WholeKey => vec![u8::try_from(256 / REGIONS * region).unwrap_or(u8::MAX)],
    }
}

fn key(order: Order, user: u64, play: u64) -> Vec<u8> {
    let md5 = |bytes: &[u8]| -> [u8; 16] { Md5::digest(bytes).into() };
    match order {
        Order::Plain => pack(&(user, play)),
        Order::PerField => [md5(&pack(&(user,))).as_slice(), &pack(&(play,))].concat(),
        Order::WholeKey => md5(&pack(&(user, play))).to_vec(),
    }
}

/// Plays: each of a user, with a number that no other of the user's has. The user of rank r plays in proportion
/// to 1/r.
fn plays(sizes: &Sizes, options: &LabOptions) -> Vec<(u64, u64)> {
    let mut random = random(options, &[9, 5]);
    let mut sum = 0.0;
    let sums: Vec<f64> = (1..=sizes.players)
        .map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        })
        .collect();
    (0..sizes.plays)
        .map(|play| {
            let drawn = random.f64() * sum;
            (sums.partition_point(|sum| *sum < drawn).min(sums.len() - 1) as u64, play)
        })
        .collect()
}

/// Load the plays in `order`, and count what the regions hold.
pub(super) fn count<S: Store>(
    store: &S,
    order: Order,
    sizes: &Sizes,
    options: &LabOptions,
    study: &mut Study,
) -> Result<Spread> {
    let plays = plays(sizes, options);
    let kv = store.open_as(&for_loads()).map_err(failed("open a store"))?;
    let rows: Vec<Row> = plays.iter().map(|(user, play)| (key(order, *user, *play), Vec::new())).collect();
    put_all(&kv, &rows)?;
    let mut of_users = vec![0u64; usize::try_from(sizes.players).unwrap_or(0)];
    for (user, _) in &plays {
        of_users[usize::try_from(*user).unwrap_or(0)] += 1;
    }
    let mut spread = Spread { keys: Vec::new(), busiest_user: of_users.iter().copied().max().unwrap_or(0) };
    let mut walk = || {
        for region in 0..REGIONS {
            let start = if region == 0 { Vec::new() } else { split(order, region, sizes) };
            let end = (region + 1 < REGIONS).then(|| split(order, region + 1, sizes));
            let read = kv.read()?;
            let options = ScanOptions::new().keys_only();
            read.scan(KeyRange { start, end }, options)?.try_for_each(|row| row.map(|_| ()))?;
            spread.keys.push(read.cost().keys_read);
        }
        Ok(())
    };
    walk().map_err(failed("count the keys of a region"))?;
    right(order.name(), "how many keys the regions hold", &spread.keys.iter().sum(), &sizes.plays)?;
    let share = 1.0 / REGIONS as f64;
    let spread_of_chance = 5.0 * (sizes.plays as f64 * share * (1.0 - share)).sqrt();
    let even = |keys: &u64| (*keys as f64 - sizes.plays as f64 * share).abs() <= spread_of_chance;
    let operation = format!("regions: {}", order.name());
    match order {
        Order::WholeKey => {
            let formula = "each has its sixteenth, within five standard deviations";
            study.compare(&operation, formula, &spread.keys.iter().all(even), &true);
        }
        Order::Plain | Order::PerField => {
            let formula = "the fullest has at least all plays of the busiest user";
            let fullest = spread.keys.iter().copied().max().unwrap_or(0);
            study.compare(&operation, formula, &(fullest >= spread.busiest_user), &true);
        }
    }
    Ok(spread)
}
