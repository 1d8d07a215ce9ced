//! Power cuts of a real filesystem: ext4 in a file, shut down under a database that is being written to.
//!
//! What is lost is what the kernel had not made durable. The next mount replays the journal, the next open
//! must find every commit that was durable, nothing that never was, and no reason to refuse.
//!
//! The same with a disk that fails instead of one that stops: the file lies in a memory filesystem that is
//! too small for it, so that syncs fail at some point, and later ones may say Ok. Nothing may be acknowledged
//! after the first that failed. What a next mount finds is another matter: the filesystem loses metadata
//! that it had called durable, whole directories among it. So each such disk lives once, and what the
//! database makes of the rest is one of its states, or an error.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use esker::{Database, DatabaseOptions, Error};
use esker_vfs::Env;
use esker_vfs::os::OsFs;
use fastrand::Rng;

use crate::case::Failure;
use crate::crash::Outcome;
use crate::driver::Violation;
use crate::dump::{difference, dump};
use crate::kill::{commit, operations, options};
use crate::lies::{Lie, LyingFs};
use crate::ops::{FIXED, Op};
use crate::oracle::{Contents, Model, contents_hash};
use crate::real::{Mount, cut_power, make_dir, make_ext4};
use crate::setup::{Mode, keyspace_options};

/// How a disk stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Its power is cut.
    Power,
    /// Its writes begin to fail: there is nothing behind it.
    NoBacking,
}

/// The place of one suite's disks.
struct Bench {
    memory: PathBuf,
    disk: PathBuf,
    image: PathBuf,
    backing: Mount,
}

fn open(dir: &Path, options: DatabaseOptions, lie: Option<Lie>) -> Result<Database, Error> {
    let builder = Database::builder(dir.join("db")).options(options);
    match lie {
        None => builder.open(),
        Some(lie) => {
            let env = Env::os(2)?;
            builder.env(Env { fs: Arc::new(LyingFs::new(Arc::new(OsFs::new()), lie)), ..env }).open()
        }
    }
}

/// What was done until the disk stopped.
struct Done {
    /// How many operations said Ok before the first that did not.
    acknowledged: usize,
    /// An acknowledgement after an error, where there must be none.
    after: Option<String>,
    /// What was read afterwards, or why it could not be.
    read: Result<Contents, Violation>,
}

/// Work until an operation fails, then go on a little.
fn work(db: &Database, ops: &[Op], progress: &AtomicUsize) -> Done {
    let mut done = Done { acknowledged: 0, after: None, read: Err("not read".to_owned()) };
    let mut stopped: Option<Error> = None;
    let mut more = 30;
    for op in ops {
        let outcome = match op {
            Op::Persist => db.persist(),
            Op::Flush => db.flush(),
            Op::Write(write) => commit(db, std::slice::from_ref(write), false),
            Op::Batch(writes, sync) => commit(db, writes, *sync),
            _ => continue,
        };
        match (outcome, &stopped) {
            (Ok(()), None) => done.acknowledged += 1,
            (Ok(()), Some(Error::InDoubt { .. } | Error::Poisoned { .. })) => {
                done.after = Some(format!("{op:.60?} was acknowledged after {stopped:?}"));
            }
            (Err(error), known) => {
                let final_one = matches!(error, Error::InDoubt { .. } | Error::Poisoned { .. });
                if known.is_none() || final_one {
                    stopped = Some(error);
                }
            }
            (Ok(()), Some(_)) => {}
        }
        progress.store(done.acknowledged, Ordering::Relaxed);
        more -= i32::from(stopped.is_some());
        // Only what has stopped for good has a state that the model can name.
        if more == 0 || matches!(&stopped, Some(Error::Aborted { .. } | Error::Io { .. })) {
            break;
        }
    }
    done.read = dump(db);
    done
}

impl Bench {
    fn new(work: &Path, stop: Stop) -> Result<Bench, Violation> {
        let (memory, disk) = (work.join("memory"), work.join("disk"));
        for dir in [&memory, &disk] {
            make_dir(dir)?;
        }
        let backing = Mount::memory(&memory, 512 << 20)?;
        let image = memory.join("image");
        make_ext4(&image, if stop == Stop::Power { 24 << 20 } else { 96 << 20 })?;
        Ok(Bench { memory, disk, image, backing })
    }

    /// One life of the database: `round`, stopped at a random moment, mounted anew, and looked at.
    fn round(
        &self,
        stop: Stop,
        seed: u64,
        mode: Mode,
        round: u64,
        lie: Option<Lie>,
        model: &mut Model,
    ) -> Result<(), Violation> {
        let mut random = Rng::with_seed(seed ^ (round << 32));
        let ops = operations(seed, mode, round);
        let mount = Mount::image(&self.disk, &self.image)?;
        let db = open(&self.disk, options(seed, mode), lie).map_err(|e| format!("open: {e}"))?;
        for name in FIXED {
            db.keyspace(name, keyspace_options(name)).map_err(|e| e.to_string())?;
            model.create(name);
        }
        db.persist().map_err(|e| e.to_string())?;
        let there = dump(&db)?;
        if contents_hash(&there) != model.hash() {
            return Err(format!("at the beginning, {}", difference(&there, model.contents())));
        }
        let progress = AtomicUsize::new(0);
        let (done, before) =
            self.stop_under(stop, &mut random, &progress, || work(&db, &ops, &progress))?;
        drop(db);
        mount.unmount()?;
        if stop == Stop::NoBacking {
            self.backing.resize(512 << 20)?;
        }
        if let Some(what) = done.after {
            return Err(what);
        }
        let read = done.read.ok();
        let found = self.found(seed, mode);
        match (stop, found) {
            (Stop::Power, found) => {
                let heard = before.unwrap_or(done.acknowledged);
                find(model, &ops, mode, (heard, done.acknowledged), &found?, read.as_ref())
            }
            (Stop::NoBacking, Ok(found)) => {
                find(model, &ops, mode, (0, done.acknowledged), &found, read.as_ref())
            }
            (Stop::NoBacking, Err(_)) => Ok(()),
        }
    }

    /// Leave the disk next to nothing to grow into.
    fn cut_off(&self, random: &mut Rng) -> Result<(), Violation> {
        let mut refused = String::new();
        for _ in 0..20 {
            let room = random.u64(0..4) * (256 << 10);
            match self.backing.resize(used_bytes(&self.image)? + room) {
                Ok(()) => return Ok(()),
                // It has grown beyond that meanwhile.
                Err(what) => refused = what,
            }
        }
        Err(refused)
    }

    /// What is there after the disk had stopped.
    fn found(&self, seed: u64, mode: Mode) -> Result<Contents, Violation> {
        let mount = Mount::image(&self.disk, &self.image)?;
        let db = open(&self.disk, options(seed, mode), None).map_err(|e| format!("open after it: {e}"))?;
        let found = dump(&db)?;
        db.verify().map_err(|e| format!("verify: {e}"))?;
        db.close().map_err(|e| format!("close: {e}"))?;
        mount.unmount()?;
        Ok(found)
    }

    /// Let `work` run and the disk stop under it.
    #[expect(clippy::disallowed_methods, reason = "a real disk takes real time")]
    fn stop_under(
        &self,
        stop: Stop,
        random: &mut Rng,
        progress: &AtomicUsize,
        work: impl FnOnce() -> Done + Send,
    ) -> Result<(Done, Option<usize>), Violation> {
        // What was acknowledged before the power went.
        let mut before = None;
        std::thread::scope(|scope| {
            let working = scope.spawn(work);
            std::thread::sleep(Duration::from_micros(random.u64(0..30_000)));
            match stop {
                Stop::Power => cut_power(&self.disk, || before = Some(progress.load(Ordering::Relaxed)))?,
                Stop::NoBacking => self.cut_off(random)?,
            }
            let done = working.join().map_err(|_| "the writer panicked".to_owned())?;
            Ok((done, before))
        })
    }
}

/// Bytes that the file at `path` takes.
#[expect(clippy::disallowed_methods, reason = "a file of the test's own, under no engine")]
fn used_bytes(path: &Path) -> Result<u64, Violation> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).map(|metadata| metadata.blocks() * 512).map_err(|e| e.to_string())
}

/// Which state was `found` (and `read` before): one after the operations that were durable, or later. Of the
/// operations `acknowledged`, the first `heard` were so before the disk stopped.
fn find(
    model: &mut Model,
    ops: &[Op],
    mode: Mode,
    (heard, acknowledged): (usize, usize),
    found: &Contents,
    read: Option<&Contents>,
) -> Result<(), Violation> {
    let durable = |op: &Op| match (op, mode) {
        (Op::Persist | Op::Flush, _) | (Op::Write(_), Mode::Sync) => true,
        (Op::Batch(_, sync), _) => mode == Mode::Sync || *sync,
        _ => false,
    };
    let certain = ops.iter().take(heard).rposition(durable).map_or(0, |last| last + 1);
    let hash = contents_hash(found);
    let mut state = model.clone();
    let mut matched = (certain == 0 && state.hash() == hash).then(|| state.clone());
    let mut others = Vec::new();
    let mut readable = read.is_none_or(|read| contents_hash(read) == state.hash());
    for (nth, op) in ops.iter().enumerate().take(acknowledged + 1) {
        match op {
            Op::Write(write) => state.write(write),
            Op::Batch(writes, _) => writes.iter().for_each(|write| state.write(write)),
            _ => {}
        }
        // The last that said Ok, or the one in doubt after it.
        readable |= nth + 1 >= acknowledged && read.is_some_and(|read| contents_hash(read) == state.hash());
        if state.hash() == hash {
            others.push(nth + 1);
        }
        if nth + 1 >= certain && state.hash() == hash {
            matched = Some(state.clone());
        }
    }
    if !readable {
        return Err("what was read after the disk had stopped is no state".to_owned());
    }
    match matched {
        Some(state) => {
            *model = state;
            Ok(())
        }
        None => Err(format!(
            "{acknowledged} operations were acknowledged, {certain} of them for good; found is the state after \
             {others:?}; {}",
            difference(found, state.contents())
        )),
    }
}

/// Stop disks in `stop`'s way `count` times, the modes in turn, under `work`.
pub fn stop_many(
    work: &Path,
    stop: Stop,
    seed: u64,
    modes: &[Mode],
    count: u64,
    lie: Option<Lie>,
) -> Outcome {
    let rounds = if stop == Stop::Power { 10 } else { 1 };
    let mut outcome = Outcome::default();
    let mut nth = 0;
    while outcome.cases < count && outcome.failures.is_empty() {
        let mode = modes[usize::try_from(nth % modes.len() as u64).expect("an index")];
        let seed = seed.wrapping_add(nth);
        nth += 1;
        outcome.histories += 1;
        let ran = tempfile::tempdir_in(work).map_err(|e| e.to_string()).and_then(|dir| {
            let bench = Bench::new(dir.path(), stop)?;
            let mut model = Model::default();
            for round in 0..rounds.min(count - outcome.cases) {
                outcome.cases += 1;
                let lived = bench.round(stop, seed, mode, round, lie, &mut model);
                lived.map_err(|what| format!("round {round}: {what}"))?;
            }
            let Bench { backing, memory, .. } = bench;
            backing.unmount().map_err(|what| format!("{}: {what}", memory.display()))
        });
        if let Err(what) = ran {
            let replay = format!("--seed {seed} --mode {mode} --count {rounds}");
            outcome.failures.push(Failure { replay, what });
        }
    }
    outcome
}
