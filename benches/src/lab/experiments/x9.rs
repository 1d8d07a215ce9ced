//! X9: what filters and block sizes do for reads, and how keys spread skewed users over regions.
//!
//! [`filters`] asks for keys that are there and that are not, [`blocks`] reads wide and narrow rows cold and
//! warm, [`shards`] counts the keys of regions, [`findings`] judges and draws.

mod blocks;
mod filters;
mod findings;
mod shards;

use std::collections::BTreeMap;

use blocks::{Reading, State};
use esker_layouts::kv::{Costed, KvRead, OrderedKv};
use filters::{Grain, Question, Tree};
use shards::{Order, Spread};

use super::random;
use super::samples::{Samples, failed, right};
use super::weighed::Weighed;
use crate::lab::store::Store;
use crate::lab::study::Study;
use crate::lab::{Experiment, LabOptions, Progress, Result, Scale};

/// The filter that tables have by default, in bits a key.
const BITS: u8 = 10;

struct Sizes {
    /// Bits of a filter for each of its keys.
    bits: &'static [u8],
    /// Target sizes of blocks, in bytes.
    blocks: &'static [u32],
    /// Rows to ask filters about, and columns of each.
    rows: u64,
    columns: u64,
    /// Gets of each kind.
    gets: usize,
    /// Rows to read whole or in part, and columns of each.
    users: u64,
    games: u64,
    /// Reads of each kind.
    reads: usize,
    /// Plays to spread over regions, and who plays.
    plays: u64,
    players: u64,
}

fn sizes(scale: Scale) -> Sizes {
    const BLOCKS: [u32; 5] = [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10];
    const FEW_BLOCKS: [u32; 3] = [4 << 10, 16 << 10, 64 << 10];
    match scale {
        Scale::Tiny => Sizes {
            bits: &[0, 10],
            blocks: &FEW_BLOCKS,
            rows: 40,
            columns: 10,
            gets: 30,
            users: 60,
            games: 20,
            reads: 4,
            plays: 2_000,
            players: 200,
        },
        Scale::Smoke => Sizes {
            bits: &[0, 4, 10, 16],
            blocks: &FEW_BLOCKS,
            rows: 1_000,
            columns: 20,
            gets: 1_000,
            users: 400,
            games: 50,
            reads: 200,
            plays: 20_000,
            players: 2_000,
        },
        Scale::Desk => Sizes {
            bits: &[0, 2, 4, 6, 8, 10, 12, 16, 20],
            blocks: &BLOCKS,
            rows: 50_000,
            columns: 20,
            gets: 20_000,
            users: 5_000,
            games: 200,
            reads: 2_000,
            plays: 1_000_000,
            players: 100_000,
        },
        Scale::Large => Sizes {
            bits: &[0, 2, 4, 6, 8, 10, 12, 16, 20],
            blocks: &BLOCKS,
            rows: 500_000,
            columns: 20,
            gets: 100_000,
            users: 50_000,
            games: 200,
            reads: 5_000,
            plays: 10_000_000,
            players: 1_000_000,
        },
    }
}

/// How keys are asked for, and what filters stores are given; tests put something wrong in its place.
trait Access<K> {
    /// Whether `key` is there.
    fn has(&self, kv: &K, key: &[u8]) -> esker_layouts::Result<Costed<bool>>;

    /// The bits of the filter that is to have `wanted`.
    fn bits(&self, wanted: u8) -> u8 {
        wanted
    }
}

struct RealAccess;

impl<K: OrderedKv> Access<K> for RealAccess {
    fn has(&self, kv: &K, key: &[u8]) -> esker_layouts::Result<Costed<bool>> {
        let read = kv.read()?;
        Ok(Costed { value: read.contains(key)?, cost: read.cost() })
    }
}

/// What was measured.
#[derive(Default)]
struct Measured {
    gets: BTreeMap<(Tree, Grain, u8, Question), Samples>,
    /// Whether the store says which tables and blocks it consulted.
    counts_tables: bool,
    reads: BTreeMap<(u32, Reading, State), Samples>,
    /// What the wide and the tall table weigh, by block size; and all of their files.
    weights: BTreeMap<(u32, blocks::Layout), (Weighed, Option<u64>)>,
    spreads: BTreeMap<Order, Spread>,
}

pub(in crate::lab) fn run<S: Store>(
    store: &S,
    options: &LabOptions,
    progress: &mut dyn Progress,
) -> Result<Study> {
    run_with(store, &RealAccess, options, progress)
}

fn run_with<S: Store>(
    store: &S,
    access: &impl Access<S::Kv>,
    options: &LabOptions,
    progress: &mut dyn Progress,
) -> Result<Study> {
    let sizes = sizes(options.scale);
    let mut study = Study::new("X9", "", "B3, B10, B15, B20", "");
    let mut measured = Measured::default();
    let filters = filters::cases(&sizes, options);
    let mut blocks: Vec<_> =
        sizes.blocks.iter().flat_map(|size| blocks::Layout::ALL.map(|layout| (*size, layout))).collect();
    random(options, &[9, 1]).shuffle(&mut blocks);
    progress.begin(Experiment::X9, (filters.len() + blocks.len() + Order::ALL.len()) as u64);
    let mut asked = Vec::new();
    for case in filters {
        asked.push(filters::load(store, access, case, &sizes, &mut measured)?);
        progress.step(&format!("{case}"));
    }
    filters::ask(&mut asked, access, &sizes, options, &mut study, &mut measured)?;
    drop(asked);
    for (size, layout) in blocks {
        blocks::ask(store, access, size, layout, &sizes, options, &mut study, &mut measured)?;
        progress.step(&format!("{} in blocks of {size} B", layout.name()));
    }
    for order in Order::ALL {
        let spread = shards::count(store, order, &sizes, options, &mut study)?;
        measured.spreads.insert(order, spread);
        progress.step(order.name());
    }
    Ok(findings::study(study, &measured, &sizes, options))
}

#[cfg(test)]
mod tests;
