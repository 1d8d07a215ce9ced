//! The newest log, gone or cut short: no later log tells that it was there, so the manifest has to (rows 10
//! to 12).
//!
//! A directory is left by a close, by a kill behind a `persist`, and by a kill behind a synced commit that
//! was the first of its log. Then the newest log is removed, or cut to every length: an open errs and names
//! it, as often as it is tried; what is cut off above the length that is known is at most what came later.

use std::path::{Path, PathBuf};

use esker::{Database, DatabaseOptions, Error, Keyspace, KeyspaceOptions};
use esker_vfs::fs::{Fs, read_all};
use esker_vfs::mem::{MemFs, Policy};
use esker_vfs::sim::Simulation;

use crate::driver::Violation;
use crate::files::is_log;
use crate::layout::{LOG_HEADER, fragments};
use crate::setup::{DIR, Mode, Setup};

/// How a database was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Closed,
    /// Killed, with commits behind the last `persist`.
    Persisted,
    /// Killed behind the first commits of a log, each of them synced.
    Synced,
}

/// A directory, and what has to be known of its newest log.
struct Ground {
    disk: MemFs,
    log: PathBuf,
    /// So many bytes of it nobody may miss.
    known: u64,
    /// The end of its last record.
    end: u64,
    /// How many rows the first `known` bytes and all older files hold, and how many there are.
    rows: [u32; 2],
}

#[expect(clippy::needless_pass_by_value, reason = "it is for `map_err`")]
fn told(error: Error) -> Violation {
    error.to_string()
}

/// The ends of the newest log's records, behind that of its header.
fn newest(disk: &MemFs) -> Result<(PathBuf, Vec<u64>), Violation> {
    let entries = disk.list(Path::new(DIR)).map_err(told)?;
    let newest = entries.into_iter().map(|entry| entry.name).filter(|name| is_log(name)).max();
    let path = Path::new(DIR).join(newest.ok_or("there is no log")?);
    let bytes = read_all(disk, &path, u64::MAX).map_err(told)?;
    let ends = fragments(&bytes).iter().map(|fragment| fragment.end as u64).collect::<Vec<_>>();
    Ok((path, [vec![LOG_HEADER as u64], ends].concat()))
}

fn put(map: &Keyspace, row: u32) -> Result<(), Violation> {
    map.put(row.to_be_bytes(), [7; 90]).map_err(told)
}

fn ground(setup: &Setup, left: Left) -> Result<Ground, Violation> {
    let mode = if left == Left::Synced { Mode::Sync } else { Mode::Os };
    let world = Simulation::new(setup.seed);
    let disk = world.disk.clone();
    let db = Setup { mode, ..setup.clone() }.open(&world, 0, None).map_err(told)?;
    let map = db.keyspace("map", KeyspaceOptions::default()).map_err(told)?;
    let first = newest(&disk)?.0;
    let mut row = 0;
    while newest(&disk)?.0 == first {
        put(&map, row)?;
        row += 1;
    }
    // The first commit of its log is the one that a kill finds known.
    let mut known = (row, newest(&disk)?.1.last().copied().unwrap_or_default());
    for _ in 0..20 {
        put(&map, row)?;
        row += 1;
    }
    if left == Left::Persisted {
        db.persist().map_err(told)?;
        known = (row, newest(&disk)?.1.last().copied().unwrap_or_default());
        for _ in 0..3 {
            put(&map, row)?;
            row += 1;
        }
    }
    if left == Left::Closed {
        drop(map);
        db.close().map_err(told)?;
        known = (row, LOG_HEADER as u64);
    }
    let disk = killed(&disk);
    let (log, ends) = newest(&disk)?;
    let end = ends.last().copied().unwrap_or_default();
    Ok(Ground { disk, log, known: known.1, end, rows: [known.0, row] })
}

/// What a kill leaves of `disk`.
fn killed(disk: &MemFs) -> MemFs {
    disk.image_at(disk.trace_len(), Policy::Everything, 0)
}

/// How many rows the database on `disk` shows.
fn rows_of(disk: &MemFs, options: &DatabaseOptions, read_only: bool) -> Result<u32, Error> {
    let env = Simulation::on(disk.clone(), 1).env();
    let builder = Database::builder(DIR).options(options.clone()).read_only(read_only).env(env);
    let db = builder.open()?;
    let mut rows = 0;
    for row in &db.existing_keyspace("map")? {
        row?;
        rows += 1;
    }
    Ok(rows)
}

impl Ground {
    /// Open `disk`, whose newest log was damaged as `what` says: an error that names it, each time.
    fn is_missed(&self, disk: &MemFs, options: &DatabaseOptions, what: &str) -> Result<(), Violation> {
        for read_only in [true, false, false] {
            match rows_of(disk, options, read_only) {
                Err(Error::MissingFile { path, .. } | Error::Corruption { path, .. })
                    if path == self.log => {}
                Err(other) => {
                    return Err(format!("{what}: {other}, which is not about {}", self.log.display()));
                }
                Ok(rows) => {
                    return Err(format!("{what}: opened with {rows} rows, {} were durable", self.rows[0]));
                }
            }
        }
        Ok(())
    }

    fn check(&self, options: &DatabaseOptions) -> Result<(), Violation> {
        if rows_of(&killed(&self.disk), options, true).map_err(told)? != self.rows[1] {
            return Err("the undamaged database is not whole".into());
        }
        let image = killed(&self.disk);
        image.remove(&self.log).map_err(told)?;
        self.is_missed(&image, options, "the newest log is gone")?;
        for len in (0..self.known).step_by(11).chain([self.known - 1]) {
            let image = self.cut(len)?;
            self.is_missed(&image, options, &format!("the newest log is cut to {len} bytes"))?;
        }
        for len in (self.known..self.end).step_by(13) {
            let rows = rows_of(&self.cut(len)?, options, false);
            // The later records say more than the manifest, as long as there are any.
            if rows.as_ref().is_ok_and(|rows| *rows < self.rows[0] || *rows > self.rows[1]) {
                return Err(format!("cut to {len} bytes: {rows:?} rows, {:?} had been durable", self.rows));
            }
        }
        Ok(())
    }

    fn cut(&self, len: u64) -> Result<MemFs, Violation> {
        let image = killed(&self.disk);
        image.open_writable(&self.log).and_then(|file| file.set_len(len)).map_err(told)?;
        Ok(image)
    }
}

/// P4: see the module.
///
/// # Errors
/// What was not missed.
pub fn newest_log(setup: &Setup) -> Result<(), Violation> {
    for left in [Left::Persisted, Left::Synced, Left::Closed] {
        let outcome = ground(setup, left).and_then(|ground| ground.check(&setup.options));
        outcome.map_err(|what| format!("{left:?}: {what}"))?;
    }
    Ok(())
}
