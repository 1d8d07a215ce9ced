//! Bits that flip in a log: never a silent loss of what was durable (rule 1).

use std::path::{Path, PathBuf};

use esker::{DatabaseOptions, Error, KeyspaceOptions};
use esker_base::filename::FileName;
use esker_vfs::fs::{Fs, read_all};
use esker_vfs::mem::{MemFs, Policy};
use esker_vfs::sim::Simulation;
use fastrand::Rng;

use crate::case::{Case, Failure};
use crate::crash::{Outcome, contained};
use crate::driver::Violation;
use crate::dump::dump;
use crate::oracle::Contents;
use crate::setup::{DIR, Setup};

/// Commits in the log.
const COMMITS: u32 = 60;

/// A database of one log in which every commit was synced before the next; what it holds, and the log.
fn one_log(setup: &Setup) -> Result<(MemFs, Contents, PathBuf), Violation> {
    let world = Simulation::new(setup.seed);
    let options = DatabaseOptions { memtable_bytes_max: 1 << 20, ..setup.options.clone() };
    let setup = Setup { options, ..setup.clone() };
    let db = setup.open(&world, 0, None).map_err(|e| e.to_string())?;
    let map = db.keyspace("map", KeyspaceOptions::default()).map_err(|e| e.to_string())?;
    let mut random = Rng::with_seed(setup.seed);
    for nth in 0..COMMITS {
        let value = vec![random.u8(..); random.usize(0..80)];
        map.put(nth.to_be_bytes(), value).map_err(|e| e.to_string())?;
    }
    let contents = dump(&db)?;
    // What a kill leaves: nothing was flushed.
    let image = world.disk.image_at(world.disk.trace_len(), Policy::Everything, 0);
    let names = image.list(Path::new(DIR)).map_err(|e| e.to_string())?;
    let log = names.iter().find(|entry| matches!(FileName::parse(&entry.name), Some(FileName::Log(_))));
    let log = log.ok_or("there is no log")?;
    Ok((image, contents, Path::new(DIR).join(&log.name)))
}

/// Flip `count` bits, one at a time, in the first half of a log in which everything was durable: the
/// database opens to all of it or says what is damaged.
pub fn flip_bits(setup: &Setup, count: u64) -> Outcome {
    let mut outcome = Outcome { histories: 1, ..Outcome::default() };
    if let Err(what) = flip_each(setup, count, &mut outcome.cases) {
        outcome.failures.push(Failure { replay: Case::of(setup).to_string(), what });
    }
    outcome
}

fn flip_each(setup: &Setup, count: u64, cases: &mut u64) -> Result<(), Violation> {
    let (image, contents, log) = one_log(setup)?;
    let bytes = read_all(&image, &log, u64::MAX).map_err(|e| e.to_string())?;
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0);
    let mut random = Rng::with_seed(setup.seed);
    for _ in 0..count {
        let (at, bit) = (random.usize(0..used / 2), random.u8(0..8));
        let damaged = image.image_at(image.trace_len(), Policy::Everything, 0);
        let file = damaged.open_writable(&log).map_err(|e| e.to_string())?;
        file.write_at(&[bytes[at] ^ (1 << bit)], at as u64).map_err(|e| e.to_string())?;
        *cases += 1;
        contained(|| opens_or_says(setup, &damaged, &contents))
            .map_err(|what| format!("bit {bit} of byte {at} of {} flipped: {what}", log.display()))?;
    }
    Ok(())
}

fn opens_or_says(setup: &Setup, image: &MemFs, contents: &Contents) -> Result<(), Violation> {
    match setup.open(&Simulation::on(image.clone(), 1), 0, None) {
        Err(Error::Corruption { .. } | Error::FormatTooNew { .. }) => Ok(()),
        Err(other) => Err(format!("open says {other}")),
        Ok(db) => {
            let found = dump(&db)?;
            if found == *contents {
                return Ok(());
            }
            Err(format!("opened without an error, and {}", crate::dump::difference(&found, contents)))
        }
    }
}
