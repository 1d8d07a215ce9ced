//! Damage under an open database: `verify` finds it, wherever it matters to what is open.

use std::path::Path;

use esker::{Database, DatabaseOptions};
use esker_base::filename::FileName;
use esker_vfs::fs::{Fs, read_all};
use esker_vfs::mem::MemFs;
use esker_vfs::sim::Simulation;

use super::base::{Base, Moment, needed};
use crate::driver::Violation;
use crate::files::Files;
use crate::golden;
use crate::layout::pieces;
use crate::setup::DIR;

/// What was tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tried {
    /// Bytes damaged, one at a time.
    pub bytes: u64,
}

/// Damage each `every`th byte that matters of every file under an open database, one at a time, and verify.
/// With logs that no table holds; for reading only, or for writing with new commits on top.
///
/// # Errors
/// The first byte whose damage `verify` did not find.
pub fn under_an_open_database(read_only: bool, every: usize) -> Result<Tried, Violation> {
    let base = Base::new(Moment::Killed)?;
    let disk = base.files.disk();
    let world = Simulation::on(disk.clone(), 5);
    let options = DatabaseOptions { read_only, ..golden::options() };
    let builder = Database::builder(Path::new(DIR)).options(options).env(world.env());
    let db = builder.open().map_err(|e| e.to_string())?;
    if !read_only {
        let rows = db.existing_keyspace("rows").map_err(|e| e.to_string())?;
        for nth in 0..4 {
            rows.put(format!("live-{nth}"), [nth; 40]).map_err(|e| e.to_string())?;
        }
    }
    db.verify().map_err(|e| format!("verify of what is whole: {e}"))?;
    let mut tried = Tried::default();
    // Files that the next open needs: others may wait for their removal.
    let files = Files::of_disk(&disk)?;
    let (tables, first_log) = needed(&files)?;
    let matters = |name: &str| match FileName::parse(name) {
        Some(FileName::Table(_) | FileName::Blob(_)) => tables.contains_key(name),
        Some(FileName::Log(number)) => number >= first_log,
        other => other.is_some(),
    };
    for (name, bytes) in files.iter().filter(|(name, _)| matters(name)) {
        let used = pieces(name, bytes).last().map_or(0, |piece| piece.end);
        for at in (0..used).step_by(every) {
            if !flip(&disk, name, at)? {
                break;
            }
            let found = db.verify();
            let there = flip(&disk, name, at)?;
            match found {
                Err(error) if error.to_string().contains(name) => tried.bytes += 1,
                Err(error) => return Err(format!("byte {at} of {name} damaged: verify says {error}")),
                Ok(_) if there => return Err(format!("byte {at} of {name} damaged: verify finds nothing")),
                Ok(_) => {}
            }
        }
    }
    db.verify().map_err(|e| format!("verify of what is whole again: {e}"))?;
    Ok(tried)
}

/// Flip a bit of byte `at` of `name`; whether the file is there.
fn flip(disk: &MemFs, name: &str, at: usize) -> Result<bool, Violation> {
    let path = Path::new(DIR).join(name);
    if disk.stat(&path).map_err(|e| e.to_string())?.is_none() {
        return Ok(false);
    }
    let bytes = read_all(disk, &path, u64::MAX).map_err(|e| e.to_string())?;
    let file = disk.open_writable(&path).map_err(|e| e.to_string())?;
    file.write_at(&[bytes[at] ^ 4], at as u64).map_err(|e| e.to_string())?;
    Ok(true)
}
