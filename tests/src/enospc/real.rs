//! Full disks for real: small filesystems in memory, filled under two writers.
//!
//! A commit on a full disk is aborted or, if it waits for a flush that finds no space, refused; nothing is in
//! doubt and nobody is kept from reading. Then either somebody else's file goes or the filesystem grows, and
//! the same handle goes on by itself. In every second life the database is closed and opened while the disk
//! is full instead.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use esker::{Database, DatabaseOptions, Error, Keyspace, KeyspaceOptions, WhenStalled};
use fastrand::Rng;

use crate::case::Failure;
use crate::crash::{Outcome, contained};
use crate::driver::Violation;
use crate::points::Point;
use crate::real::{Mount, make_dir};
use crate::setup::{Mode, Setup};

/// Bytes of the smallest and the largest disk, as powers of two: 1 MiB and 64 MiB.
const SIZES: std::ops::RangeInclusive<u32> = 20..=26;
/// Writers, each with keys of its own.
const WRITERS: u64 = 2;
/// Keys of a writer.
const KEYS: u32 = 400;
/// A writer has seen a full disk when this many of its commits have failed.
const FAILURES: u32 = 15;
/// Or when it has written this often: compactions may find it space again and again.
const WRITES_MAX: u32 = 2_000;
/// How long a commit waits for a flush.
const PATIENCE: Duration = Duration::from_millis(20);
/// Work has gone on by then, or does not go on by itself: pauses between tries reach a second.
const RESUMED_WITHIN: Duration = Duration::from_secs(20);

/// Bytes in which all rows of all writers, and a compaction of them, find room.
const ENOUGH: u64 = 8 << 20;

/// What was acknowledged to one writer.
type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// One writer's part.
struct Writer {
    number: u64,
    random: Rng,
    rows: Rows,
    aborted: u64,
    refused: u64,
}

fn options(seed: u64, mode: Mode) -> DatabaseOptions {
    DatabaseOptions {
        durability: mode.durability(0),
        when_stalled: WhenStalled::WaitFor(PATIENCE),
        memtable_bytes_max: 64 << 10,
        table_bytes: 32 << 10,
        level_base_bytes: Some(128 << 10),
        ..Setup::new(seed, mode).options
    }
}

impl Writer {
    /// Write one row; whether that was acknowledged. Any other answer than those of a full disk is a violation.
    fn write(&mut self, map: &Keyspace) -> Result<bool, Violation> {
        let key = format!("{}-{:05}", self.number, self.random.u32(0..KEYS)).into_bytes();
        // Mostly small values; now and then one of several pages.
        let len = if self.random.u8(0..20) == 0 { 30_000 } else { 2_000 };
        let len = self.random.usize(0..len);
        let value: Vec<u8> = std::iter::repeat_with(|| self.random.u8(..)).take(len).collect();
        let deletes = self.random.u8(0..10) == 0;
        let done = if deletes { map.delete(&key) } else { map.put(&key, &value) };
        match done {
            Ok(()) if deletes => drop(self.rows.remove(&key)),
            Ok(()) => drop(self.rows.insert(key, value)),
            Err(error @ Error::Aborted { .. }) if error.is_no_space() => {
                self.aborted += 1;
                return Ok(false);
            }
            Err(Error::WouldStall { .. }) => {
                self.refused += 1;
                return Ok(false);
            }
            Err(error) => return Err(format!("a write answers {error:?}")),
        }
        Ok(true)
    }

    /// A read of one row, on a full disk too.
    fn read(&mut self, map: &Keyspace) -> Result<(), Violation> {
        let key = format!("{}-{:05}", self.number, self.random.u32(0..KEYS)).into_bytes();
        let found = map.get(&key).map_err(|e| format!("a read answers {e}"))?;
        if found.as_deref() == self.rows.get(&key).map(Vec::as_slice) {
            return Ok(());
        }
        Err(format!("{} is not as acknowledged", String::from_utf8_lossy(&key)))
    }

    /// Write until turned away, or for a while.
    fn crowd(&mut self, map: &Keyspace) -> Result<(), Violation> {
        for _ in 0..200 {
            if !self.write(map)? {
                break;
            }
        }
        Ok(())
    }

    /// Write until the disk has been full for a while.
    fn fill(&mut self, map: &Keyspace) -> Result<(), Violation> {
        let mut failures = 0;
        for _ in 0..WRITES_MAX {
            if failures == FAILURES {
                break;
            }
            failures += u32::from(!self.write(map)?);
            self.read(map)?;
        }
        Ok(())
    }

    /// There is space: write until that is acknowledged again, and then a little more.
    #[expect(clippy::disallowed_methods, reason = "a real disk takes real time")]
    fn resume(&mut self, map: &Keyspace) -> Result<(), Violation> {
        let began = Instant::now();
        let mut written = 0;
        while written < 200 {
            if self.write(map)? {
                written += 1;
            } else if began.elapsed() > RESUMED_WITHIN {
                return Err(format!(
                    "after {RESUMED_WITHIN:?} of space, {written} writes were acknowledged"
                ));
            }
            self.read(map)?;
        }
        Ok(())
    }
}

/// Let every writer do `action` at once.
#[expect(clippy::disallowed_methods, reason = "writers of a test")]
fn all(
    writers: &mut [Writer],
    map: &Keyspace,
    action: fn(&mut Writer, &Keyspace) -> Result<(), Violation>,
) -> Result<(), Violation> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = writers
            .iter_mut()
            .map(|writer| scope.spawn(move || contained(|| action(writer, map))))
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().map_err(|_| "a writer panicked".to_owned())?)
    })
}

/// Hold the whole of `map` against what was acknowledged.
fn compare(map: &Keyspace, writers: &[Writer]) -> Result<(), Violation> {
    let mut expected = writers.iter().flat_map(|writer| &writer.rows);
    for row in map {
        let (key, value) = row.map_err(|e| format!("a scan answers {e}"))?;
        let there = expected.next();
        if there.is_none_or(|(k, v)| k[..] != key[..] || v[..] != value[..]) {
            let due = there.map(|(key, _)| String::from_utf8_lossy(key));
            return Err(format!("{} is there, {due:?} was due", String::from_utf8_lossy(&key)));
        }
    }
    match expected.next() {
        None => Ok(()),
        Some((key, _)) => Err(format!("{} is not there", String::from_utf8_lossy(key))),
    }
}

/// Take `bytes` bytes of a disk for somebody else's file, or as many as there are.
#[expect(clippy::disallowed_types, reason = "a file of somebody else's")]
fn take_space(path: &Path, bytes: u64) -> Result<(), Violation> {
    let mut file = std::fs::File::create(path).map_err(|e| e.to_string())?;
    let block = vec![7; 1 << 16];
    for _ in 0..bytes >> 16 {
        if file.write_all(&block).is_err() {
            break;
        }
    }
    Ok(())
}

/// One disk. How often writers were turned away.
#[expect(clippy::disallowed_methods, reason = "a file of somebody else's")]
fn one(work: &Path, seed: u64, mode: Mode) -> Result<(u64, u64), Violation> {
    let mut random = Rng::with_seed(seed);
    let size = 1u64 << random.u32(SIZES);
    let disk = work.join("disk");
    make_dir(&disk)?;
    let mounted = Mount::memory(&disk, size)?;
    let other = disk.join("of-somebody-else");
    // Large disks are filled by somebody else for the most part.
    let taken = size / 64 * random.u64(if size > 8 << 20 { 50..60 } else { 20..50 });
    take_space(&other, taken)?;

    let open = || Database::builder(disk.join("db")).options(options(seed, mode)).open();
    let db = open().map_err(|e| format!("open: {e}"))?;
    let map = db.keyspace("rows", KeyspaceOptions::default()).map_err(|e| e.to_string())?;
    let writer = |number| Writer {
        number,
        random: Rng::with_seed(seed ^ (number << 32)),
        rows: Rows::new(),
        aborted: 0,
        refused: 0,
    };
    let mut writers: Vec<Writer> = (0..WRITERS).map(writer).collect();
    let mut crowd = 0;
    // Few keys are overwritten again and again, and compactions make room: others take it.
    while writers.iter().any(|writer| writer.aborted + writer.refused == 0) {
        all(&mut writers, &map, Writer::crowd)?;
        crowd += 1;
        take_space(&disk.join(format!("of-somebody-else-{crowd}")), 1 << 16)?;
    }
    all(&mut writers, &map, Writer::fill)?;
    compare(&map, &writers).map_err(|what| format!("on a full disk, {what}"))?;

    let (mut db, mut map) = (db, map);
    // Without a log, what was not flushed would go with the handle.
    if mode != Mode::NoLog && random.bool() {
        // It may be too full for the flush that a close does, and for the log of an open.
        match db.close() {
            Err(error) if !error.is_no_space() => return Err(format!("close answers {error:?}")),
            _ => drop(map),
        }
        let tried = open();
        if let Err(error) = &tried
            && !error.is_no_space()
        {
            return Err(format!("open answers {error:?}"));
        }
        drop(tried);
        mounted.resize(size + ENOUGH)?;
        db = open().map_err(|e| format!("open with space: {e}"))?;
        map = db.existing_keyspace("rows").map_err(|e| e.to_string())?;
    } else if taken < ENOUGH || random.bool() {
        mounted.resize(size + ENOUGH)?;
    } else {
        std::fs::remove_file(&other).map_err(|e| e.to_string())?;
    }
    all(&mut writers, &map, Writer::resume).map_err(|what| format!("once there is space, {what}"))?;
    mounted.resize(size + (32 << 20))?;
    db.flush().map_err(|e| format!("flush: {e}"))?;
    db.wait_for_compactions().map_err(|e| format!("compactions: {e}"))?;
    compare(&map, &writers)?;
    db.verify().map_err(|e| format!("verify: {e}"))?;
    db.close().map_err(|e| format!("close: {e}"))?;
    drop(map);
    let db = open().map_err(|e| format!("open again: {e}"))?;
    compare(&db.existing_keyspace("rows").map_err(|e| e.to_string())?, &writers)
        .map_err(|what| format!("opened again, {what}"))?;
    db.close().map_err(|e| e.to_string())?;
    mounted.unmount()?;
    Ok(writers.iter().fold((0, 0), |(a, r), writer| (a + writer.aborted, r + writer.refused)))
}

/// Fill `count` disks below `work`, the `modes` in turn, and say how often commits were aborted and refused.
pub fn disks(work: &Path, seed: u64, modes: &[Mode], count: u64) -> (Outcome, (u64, u64)) {
    let mut outcome = Outcome::default();
    let mut turned_away = (0, 0);
    for nth in 0..count {
        let mode = modes[usize::try_from(nth % modes.len() as u64).expect("an index")];
        let seed = seed.wrapping_add(nth);
        outcome.cases += 1;
        outcome.histories += 1;
        let dir = tempfile::tempdir_in(work).map_err(|e| e.to_string());
        match dir.and_then(|dir| contained(|| one(dir.path(), seed, mode))) {
            Ok((aborted, refused)) => {
                turned_away = (turned_away.0 + aborted, turned_away.1 + refused);
                outcome.hits.count(Point::Log);
            }
            Err(what) => {
                let replay = format!("--seed {seed} --mode {mode} --count 1");
                outcome.failures.push(Failure { replay, what: format!("seed {seed}, {mode}: {what}") });
                break;
            }
        }
    }
    (outcome, turned_away)
}
