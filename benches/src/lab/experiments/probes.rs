//! Sampled operations on pre-built rows: the frame of X2 and X3.
//!
//! Stores are filled once, one for each layout, brought to rest, and kept. In every repetition the layouts take turns in
//! random order at the same operations on *probe* users: ask for a friend, ask for a stranger, add a new
//! friend, delete another one. So a probe's degree is the same before every round.

use esker_layouts::followers::{FriendStore, Layout};

use super::{LAYOUTS, random};
use crate::lab::run::{Driver, Recording};
use crate::lab::store::Store;
use crate::lab::{LabError, LabOptions, OpenLayout, Progress, Result};

/// A prepared network: rows to build and the users to measure on.
pub(super) struct Population {
    /// Place on the x axis.
    pub(super) place: u64,
    /// Ids as text; those from `strangers` on are nobody's friend.
    pub(super) names: Vec<String>,
    /// Each user with its friends.
    pub(super) rows: Vec<(u32, Vec<u32>)>,
    /// The users to measure on.
    pub(super) probes: Vec<u32>,
    /// Rounds in a repetition.
    pub(super) rounds: u32,
    /// The first id that no row contains; the rounds take one stranger each, then new friends.
    pub(super) strangers: u32,
}

impl Population {
    /// Ids `0..used` in rows, and enough others for the rounds of all repetitions.
    pub(super) fn names(used: u32, rounds: u32, options: &LabOptions) -> Vec<String> {
        (0..=used + rounds * (options.repetitions() + 1)).map(|id| id.to_string()).collect()
    }
}

pub(super) fn run<S: Store>(
    store: &S,
    layouts: &impl OpenLayout<S::Kv>,
    options: &LabOptions,
    progress: &mut dyn Progress,
    population: &Population,
    recording: &mut Recording,
) -> Result<()> {
    let opened = |layout: Layout| {
        move |source| LabError::Layout { doing: format!("open the layout {layout}"), source }
    };
    let stores = LAYOUTS
        .iter()
        .map(|layout| store.open().map_err(opened(*layout)))
        .collect::<Result<Vec<S::Kv>>>()?;
    let friends = stores
        .iter()
        .zip(LAYOUTS)
        .map(|(kv, layout)| layouts.open(kv, layout).map_err(opened(layout)))
        .collect::<Result<Vec<Box<dyn FriendStore + '_>>>>()?;
    let mut drivers: Vec<Driver<'_>> = friends
        .iter()
        .zip(LAYOUTS)
        .map(|(friends, layout)| Driver::new(layout, friends.as_ref(), &population.names))
        .collect();
    for (driver, kv) in drivers.iter_mut().zip(&stores) {
        for (user, friends) in &population.rows {
            driver.load(*user, friends)?;
        }
        let settling = format!("settle the layout {}", driver.layout());
        store.settle(kv).map_err(|source| LabError::Layout { doing: settling, source })?;
        progress.step(&format!("{} filled at {}", driver.layout(), population.place));
    }
    for repetition in 0..options.repetitions() {
        let purpose = [3, population.place, u64::from(repetition)];
        let mut order: Vec<usize> = (0..drivers.len()).collect();
        random(options, &purpose).shuffle(&mut order);
        for index in order {
            let driver = &mut drivers[index];
            rounds(driver, population, repetition, &mut random(options, &purpose), recording)?;
            recording.close(driver.layout(), repetition);
            progress.step(&format!("{} at {}", driver.layout(), population.place));
        }
    }
    Ok(())
}

/// The rounds of one repetition on one layout; `random` starts equal for all.
fn rounds(
    driver: &mut Driver<'_>,
    population: &Population,
    repetition: u32,
    random: &mut fastrand::Rng,
    recording: &mut Recording,
) -> Result<()> {
    let layout = driver.layout();
    let mut record = |ran| recording.record(layout, population.place, repetition, &ran);
    for round in 0..population.rounds {
        let probe = population.probes[random.usize(..population.probes.len())];
        let some_friend = |driver: &Driver<'_>, at: u64| {
            let columns = driver.columns(probe);
            columns[usize::try_from(at % columns.len() as u64).expect("an index")]
        };
        let present = some_friend(driver, random.u64(..));
        record(driver.check(probe, present, true)?);
        record(driver.check(probe, population.strangers + round, false)?);
        // Another new friend in each repetition; the one after it is deleted, whoever it is.
        let newcomer = population.strangers + (repetition + 1) * population.rounds + round;
        let leaver = some_friend(driver, random.u64(..));
        record(driver.add(probe, newcomer)?);
        record(driver.delete(probe, leaver)?);
    }
    Ok(())
}
