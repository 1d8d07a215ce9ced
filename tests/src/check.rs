//! What a crash has left: does it open, and to a state that was promised?

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::Path;

use esker::Database;
use esker_base::filename::FileName;
use esker_vfs::fs::Fs;
use esker_vfs::mem::{MemFs, Policy};
use esker_vfs::sim::Simulation;
use fastrand::Rng;

use crate::driver::Violation;
use crate::dump::{compare_gets, difference, dump};
use crate::ops::{FIXED, Write};
use crate::oracle::{Contents, Model, Oracle, contents_hash};
use crate::setup::{DIR, Setup, keyspace_options};

/// What a recovered disk is compared with.
#[derive(Clone)]
pub struct Expected<'a> {
    /// The commits.
    pub oracle: &'a Oracle,
    /// How many of them may be there.
    pub allowed: RangeInclusive<usize>,
    /// Keyspaces that are there in any case.
    pub certain: BTreeSet<String>,
    /// Keyspaces that may be there: no others are.
    pub possible: BTreeSet<String>,
}

impl<'a> Expected<'a> {
    /// What `oracle` expects of a crash after `calls` calls.
    pub fn after(oracle: &'a Oracle, calls: usize) -> Expected<'a> {
        let allowed = oracle.allowed(calls);
        let (certain, possible) = oracle.keyspaces(&allowed);
        Expected { oracle, allowed, certain, possible }
    }
}

/// Open the database on `image`, compare it with what was promised (P1, P2, P4), verify it, write to it,
/// and open it twice more (P3). `seed` decides the order of background work and which way it goes.
pub fn check(setup: &Setup, image: &MemFs, expected: &Expected<'_>, seed: u64) -> Result<(), Violation> {
    let mut random = Rng::with_seed(seed);
    let (db, contents) = recover(setup, image, expected, random.u64(..))?;
    // Whatever recovery has shown survives the next power loss.
    if random.bool() {
        let lost = image.image_at(image.trace_len(), Policy::Strict, 0);
        reopened(setup, &lost, &contents, random.u64(..))
            .map_err(|what| format!("after power was lost right after recovery: {what}"))?;
    }
    verify(&db)?;
    let contents = write_a_little(&db, contents, &mut random)?;
    db.close().map_err(|e| format!("close after recovery: {e}"))?;
    reopened(setup, image, &contents, random.u64(..))
        .map_err(|what| format!("after recovery, a few writes and a close: {what}"))
}

/// Open `image` and find one of the states that are allowed; the database and what it holds.
pub fn recover(
    setup: &Setup,
    image: &MemFs,
    expected: &Expected<'_>,
    seed: u64,
) -> Result<(Database, Contents), Violation> {
    let world = Simulation::on(image.clone(), seed);
    let db = setup.open(&world, seed, None).map_err(|e| format!("open: {e}"))?;
    let contents = dump(&db)?;
    let Expected { oracle, allowed, certain, possible } = expected;
    if oracle.find(contents_hash(&contents), allowed).is_none() {
        let there: usize = contents.values().map(crate::oracle::Rows::len).sum();
        return Err(match oracle.find_anywhere(contents_hash(&contents)).as_slice() {
            [] => {
                format!("the {there} rows recovered are the state after no commit (allowed: {allowed:?})")
            }
            others => format!("the state after commits {others:?} was recovered, allowed are {allowed:?}"),
        });
    }
    if let Some(name) = certain.iter().find(|name| !contents.contains_key(*name)) {
        return Err(format!("keyspace {name} is gone"));
    }
    // One without rows tells nothing by the hash.
    if let Some(name) = contents.keys().find(|name| !possible.contains(*name)) {
        return Err(format!("keyspace {name} is there, and in no state that is allowed"));
    }
    for (name, rows) in &contents {
        let keyspace = db.existing_keyspace(name).map_err(|e| e.to_string())?;
        let some: Vec<&[u8]> =
            rows.keys().map(Vec::as_slice).step_by(5).chain([&b"key-"[..], b"key-0003", b"zzz"]).collect();
        compare_gets(&keyspace, &some, rows)?;
    }
    Ok((db, contents))
}

/// Open `image` once more: it must hold `contents`.
pub fn reopened(setup: &Setup, image: &MemFs, contents: &Contents, seed: u64) -> Result<(), Violation> {
    let world = Simulation::on(image.clone(), seed);
    let db = setup.open(&world, seed, None).map_err(|e| format!("open: {e}"))?;
    // Before background work goes on.
    leftovers(&db, image)?;
    let found = dump(&db)?;
    if found != *contents {
        return Err(difference(&found, contents));
    }
    verify(&db)?;
    db.close().map_err(|e| format!("close: {e}"))
}

/// An open leaves no file behind that nobody needs: not what crashes have left, nor what they undid the
/// removal of.
fn leftovers(db: &Database, image: &MemFs) -> Result<(), Violation> {
    let mut counts = [0u64; 4];
    for entry in image.list(Path::new(DIR)).map_err(|e| e.to_string())? {
        match FileName::parse(&entry.name) {
            Some(FileName::Table(_)) => counts[0] += 1,
            Some(FileName::Manifest(_)) => counts[1] += 1,
            Some(FileName::Temporary(_)) => counts[2] += 1,
            Some(FileName::Blob(_)) => counts[3] += 1,
            _ => {}
        }
    }
    let metrics = db.metrics();
    let tables: u64 = metrics.keyspaces.iter().flat_map(|k| &k.levels).map(|level| level.tables).sum();
    let blobs = metrics.keyspaces.iter().map(|keyspace| keyspace.blobs.files).sum();
    let expected = [tables, 1, 0, blobs];
    if counts == expected {
        return Ok(());
    }
    Err(format!(
        "after an open there are {counts:?} tables, manifests, temporaries, blob files, not {expected:?}"
    ))
}

fn verify(db: &Database) -> Result<(), Violation> {
    db.verify().map(drop).map_err(|e| format!("verify: {e}"))
}

/// A few commits on top of `contents`, which the result includes.
fn write_a_little(db: &Database, contents: Contents, random: &mut Rng) -> Result<Contents, Violation> {
    let mut model = Model::of(contents);
    let told = |e: &esker::Error| format!("writing after recovery: {e}");
    for name in FIXED {
        let keyspace = db.keyspace(name, keyspace_options(name)).map_err(|e| told(&e))?;
        model.create(name);
        for _ in 0..random.usize(1..4) {
            let key = format!("key-{:04}", random.u32(0..8)).into_bytes();
            let write = match random.u8(0..4) {
                0 => Write::Delete(name, key),
                _ => Write::Put(name, key, vec![random.u8(..); random.usize(0..600)]),
            };
            match &write {
                Write::Put(_, key, value) => keyspace.put(key, value),
                Write::Delete(_, key) => keyspace.delete(key),
                _ => Ok(()),
            }
            .map_err(|e| told(&e))?;
            model.write(&write);
        }
    }
    if random.bool() {
        db.persist().map_err(|e| told(&e))?;
    }
    Ok(model.contents().clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::Mode;

    #[test]
    fn a_keyspace_that_no_allowed_state_has_is_noticed_though_it_holds_nothing() {
        let setup = Setup::new(1, Mode::Sync);
        let disk = MemFs::new();
        let db = setup.open(&Simulation::on(disk.clone(), 1), 0, None).expect("a new database");
        db.keyspace("dropped", keyspace_options("dropped")).expect("created");
        db.close().expect("closed");
        let mut oracle = Oracle::new();
        let mut model = Model::default();
        model.create("dropped");
        oracle.issue(1, &model);
        model.drop_keyspace("dropped");
        oracle.issue(2, &model);
        oracle.all_durable(3);
        let recovered = |calls| recover(&setup, &disk, &Expected::after(&oracle, calls), 1).map(drop);
        assert_eq!(recovered(2), Ok(()), "it may be there before it is dropped");
        assert_eq!(
            recovered(3),
            Err("keyspace dropped is there, and in no state that is allowed".to_owned())
        );
    }
}
