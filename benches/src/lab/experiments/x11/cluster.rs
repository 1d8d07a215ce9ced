//! A cluster of servers that divide the key space by ranges: which server has a key, how evenly work falls on
//! them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use esker_layouts::kv::KeyRange;

use super::SERVERS;

/// Shards that stay as they are.
#[derive(Clone, Debug, Default)]
pub(super) struct Shards {
    /// The cuts between shards, ascending; shard i begins at cut i − 1 and is on server i, in turn.
    cuts: Vec<Vec<u8>>,
}

impl Shards {
    pub(super) fn new(mut cuts: Vec<Vec<u8>>) -> Shards {
        cuts.sort();
        cuts.dedup();
        Shards { cuts }
    }

    fn shard(&self, key: &[u8]) -> usize {
        self.cuts.partition_point(|cut| cut.as_slice() <= key)
    }

    /// The server that has `key`.
    pub(super) fn server(&self, key: &[u8]) -> usize {
        self.shard(key) % SERVERS
    }

    /// The servers that have a part of `range`.
    pub(super) fn servers(&self, range: &KeyRange) -> BTreeSet<usize> {
        let last = match &range.end {
            Some(end) => self.cuts.partition_point(|cut| cut < end),
            None => self.cuts.len(),
        };
        (self.shard(&range.start)..=last).map(|shard| shard % SERVERS).collect()
    }
}

/// Shards that are halved when they have too many rows; the upper half moves to the server with the fewest
/// rows. There is one at first.
#[derive(Debug)]
pub(super) struct Splitting {
    rows_max: usize,
    /// By first key: the server and the keys.
    shards: BTreeMap<Vec<u8>, (usize, BTreeSet<Vec<u8>>)>,
    /// Rows of each server.
    rows: [usize; SERVERS],
}

impl Splitting {
    pub(super) fn new(rows_max: usize) -> Splitting {
        let shards = BTreeMap::from([(Vec::new(), (0, BTreeSet::new()))]);
        Splitting { rows_max: rows_max.max(2), shards, rows: [0; SERVERS] }
    }

    /// Put `key`; on which server it was put.
    pub(super) fn put(&mut self, key: &[u8]) -> usize {
        let shard = self.shards.range_mut::<[u8], _>((Bound::Unbounded, Bound::Included(key))).next_back();
        let Some((_, (server, keys))) = shard else { return 0 };
        let at = *server;
        self.rows[at] += usize::from(keys.insert(key.to_vec()));
        if keys.len() > self.rows_max {
            let middle = keys.iter().nth(keys.len() / 2).cloned().unwrap_or_default();
            let upper = keys.split_off(&middle);
            self.rows[at] -= upper.len();
            let fewest = (0..SERVERS).min_by_key(|server| self.rows[*server]).unwrap_or(0);
            self.rows[fewest] += upper.len();
            self.shards.insert(middle, (fewest, upper));
        }
        at
    }

    pub(super) fn shards(&self) -> usize {
        self.shards.len()
    }
}

/// How unevenly work falls on servers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Skew {
    /// The share of the busiest server.
    pub(super) top: f64,
    /// The busiest server's work over the mean of all.
    pub(super) top_to_mean: f64,
    /// Standard deviation over mean.
    pub(super) variation: f64,
    /// 1/Σp², p being the servers' shares: so many servers, equally busy, would be as uneven.
    pub(super) effective: f64,
}

impl Skew {
    /// Of the work `counts`, one a server; `None` of no work.
    pub(super) fn of(counts: &[u64]) -> Option<Skew> {
        let total = counts.iter().sum::<u64>() as f64;
        if total == 0.0 {
            return None;
        }
        let shares = || counts.iter().map(|count| *count as f64 / total);
        let mean = 1.0 / counts.len() as f64;
        let top = shares().fold(0.0, f64::max);
        let variance = shares().map(|share| (share - mean).powi(2)).sum::<f64>() / counts.len() as f64;
        Some(Skew {
            top,
            top_to_mean: top / mean,
            variation: variance.sqrt() / mean,
            effective: 1.0 / shares().map(|share| share * share).sum::<f64>(),
        })
    }

    /// The mean over `windows`, those without work left out.
    pub(super) fn mean(windows: &[[u64; SERVERS]]) -> Skew {
        let skews: Vec<Skew> = windows.iter().filter_map(|window| Skew::of(window)).collect();
        let mean = |of: fn(&Skew) -> f64| skews.iter().map(of).sum::<f64>() / skews.len().max(1) as f64;
        Skew {
            top: mean(|skew| skew.top),
            top_to_mean: mean(|skew| skew.top_to_mean),
            variation: mean(|skew| skew.variation),
            effective: mean(|skew| skew.effective),
        }
    }

    /// The work of all `windows` together.
    pub(super) fn total(windows: &[[u64; SERVERS]]) -> Skew {
        let mut sum = [0; SERVERS];
        for window in windows {
            sum.iter_mut().zip(window).for_each(|(sum, count)| *sum += count);
        }
        Skew::of(&sum).unwrap_or_default()
    }

    /// What chance alone leaves uneven: the effective servers when `work` falls on all at random.
    pub(super) fn by_chance(work: f64) -> f64 {
        let servers = SERVERS as f64;
        servers / (1.0 + (servers - 1.0) / work)
    }
}
