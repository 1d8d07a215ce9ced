//! A real process, killed for real, again and again.
//!
//! The child is this suite's `soak` binary, told to work: it does the operations of a history and writes
//! one line after each that was acknowledged. The parent kills it at a random moment, opens the directory
//! and looks for the state after a number of operations between the last that had to be there and the one
//! under way. The next child goes on from there.

use std::io::{BufRead, BufReader, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use esker::{Database, DatabaseOptions};
use fastrand::Rng;

use crate::case::Failure;
use crate::crash::Outcome;
use crate::driver::Violation;
use crate::dump::{difference, dump};
use crate::ops::{FIXED, Op, Write, history};
use crate::oracle::{Model, contents_hash};
use crate::setup::{Mode, Setup, keyspace_options};

/// Operations of one child at most.
const OPS: usize = 20_000;

/// The operations of child number `round`: those of a history that a model follows without a database.
pub(crate) fn operations(seed: u64, mode: Mode, round: u64) -> Vec<Op> {
    let all = history(seed.wrapping_add(round), OPS, mode.always_logs());
    let fixed = |write: &Write| match write {
        Write::Put(name, ..)
        | Write::Delete(name, ..)
        | Write::DeleteRange(name, ..)
        | Write::Merge(name, ..) => FIXED.contains(name),
    };
    all.into_iter()
        .filter(|op| match op {
            Op::Write(write) => fixed(write),
            Op::Batch(writes, _) => writes.iter().all(fixed),
            Op::Persist | Op::Flush => true,
            _ => false,
        })
        .collect()
}

/// How a real directory is opened.
pub(crate) fn options(seed: u64, mode: Mode) -> DatabaseOptions {
    let options = Setup::new(seed, mode).options;
    DatabaseOptions { durability: mode.durability(0), compaction_threads: 2, ..options }
}

fn open(dir: &Path, seed: u64, mode: Mode) -> Result<Database, Violation> {
    Database::builder(dir).options(options(seed, mode)).open().map_err(|e| format!("open: {e}"))
}

/// What the child does: the operations of `round`, a line after each.
pub fn work(dir: &Path, seed: u64, mode: Mode, round: u64) -> Result<(), Violation> {
    // Before it is open: from then on its time runs, and drawing this many takes as long as most have.
    let operations = operations(seed, mode, round);
    let db = open(dir, seed, mode)?;
    let told = |e: esker::Error| e.to_string();
    for name in FIXED {
        db.keyspace(name, keyspace_options(name)).map_err(told)?;
    }
    let mut out = std::io::stdout().lock();
    let mut line =
        |text: &str| writeln!(out, "{text}").and_then(|()| out.flush()).map_err(|e| e.to_string());
    line("open")?;
    for op in operations {
        match &op {
            Op::Persist => db.persist().map_err(told)?,
            Op::Flush => db.flush().map_err(told)?,
            Op::Write(write) => commit(&db, std::slice::from_ref(write), false).map_err(told)?,
            Op::Batch(writes, sync) => commit(&db, writes, *sync).map_err(told)?,
            _ => {}
        }
        line("ok")?;
    }
    // The kill comes at the latest now.
    std::io::stdin().read_line(&mut String::new()).map(drop).map_err(|e| e.to_string())
}

/// Do `writes` in one batch.
pub(crate) fn commit(db: &Database, writes: &[Write], sync: bool) -> esker::Result<()> {
    let mut batch = db.batch();
    if sync {
        batch.durability(esker::Durability::Sync);
    }
    for write in writes {
        match write {
            Write::Put(name, key, value) => batch.put(&db.existing_keyspace(name)?, key, value)?,
            Write::Delete(name, key) => batch.delete(&db.existing_keyspace(name)?, key)?,
            Write::Merge(name, key, value) => batch.merge(&db.existing_keyspace(name)?, key, value)?,
            Write::DeleteRange(name, range) => {
                batch.delete_range(&db.existing_keyspace(name)?, range.clone())?;
            }
        }
    }
    batch.commit()
}

/// Start `exe` as a child with `arguments`; its lines are counted until it is killed.
pub(crate) fn start(exe: &Path, arguments: &[String]) -> Result<Child, Violation> {
    let mut command = Command::new(exe);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    command.spawn().map_err(|e| format!("cannot start {}: {e}", exe.display()))
}

/// Let a child of `exe` have the database in `dir` open; whether this process is refused meanwhile.
pub fn held_by_another(exe: &Path, dir: &Path) -> Result<bool, Violation> {
    let arguments =
        ["kill-child", "--seed", "1", "--mode", "os", "--round", "0", "--dir"].map(str::to_owned);
    let arguments: Vec<String> = arguments.into_iter().chain([dir.display().to_string()]).collect();
    let mut child = start(exe, &arguments)?;
    let mut first = String::new();
    let out = child.stdout.take().ok_or("the child has no output")?;
    BufReader::new(out).read_line(&mut first).map_err(|e| e.to_string())?;
    let refused = matches!(Database::open(dir), Err(esker::Error::Locked { .. }));
    kill(&mut child, false)?;
    Ok(refused && first.trim() == "open")
}

/// Start `exe` as [`start`] does, under `ulimit` with the arguments `limit`.
fn start_limited(exe: &Path, arguments: &[String], limit: &str) -> Result<Child, Violation> {
    let script = format!("ulimit {limit} && exec \"$0\" \"$@\"");
    let shell: Vec<String> = ["-c".to_owned(), script, exe.display().to_string()]
        .into_iter()
        .chain(arguments.to_vec())
        .collect();
    start(Path::new("sh"), &shell)
}

/// How a process ends whose main thread has panicked.
const PANICKED: i32 = 101;

/// The signal that ends whoever is killed.
const SIGKILL: i32 = 9;

/// Kill `child`, which must not have ended by itself, be it by another signal; one that is `limited` may, but no limit
/// excuses a panic.
pub(crate) fn kill(child: &mut Child, limited: bool) -> Result<(), Violation> {
    child.kill().map_err(|e| format!("kill: {e}"))?;
    let status = child.wait().map_err(|e| format!("wait: {e}"))?;
    let holds = if limited { status.code() != Some(PANICKED) } else { status.signal() == Some(SIGKILL) };
    if holds {
        Ok(())
    } else {
        Err(format!("the child ended by itself, with {status}: what it says is above"))
    }
}

/// Let `child` live for `time` after it has opened the database, kill it, and return its lines; `None` if it could
/// not even open it, which only one that is `limited` may.
#[expect(clippy::disallowed_methods, reason = "a real process takes real time")]
fn kill_after(mut child: Child, time: Duration, limited: bool) -> Result<Option<Vec<String>>, Violation> {
    let out = child.stdout.take().ok_or("the child has no output")?;
    let mut lines = BufReader::new(out).lines().map_while(Result::ok);
    let first = lines.next();
    // Read on meanwhile: a full pipe would hold the child up.
    let reader = std::thread::spawn(move || lines.collect::<Vec<String>>());
    std::thread::sleep(time);
    kill(&mut child, limited)?;
    let rest = reader.join().map_err(|_| "the reader of the child's output panicked")?;
    match first.as_deref() {
        Some("open") => Ok(Some(rest)),
        None if limited => Ok(None),
        other => Err(format!("the child said {other:?} first")),
    }
}

/// Kill `cycles` children of `exe`, one after the other, over a database in `dir`, which is empty.
pub fn cycles(exe: &Path, dir: &Path, seed: u64, mode: Mode, cycles: u64) -> (Outcome, Children) {
    cycles_limited(exe, dir, seed, mode, cycles, None)
}

/// What became of children.
#[derive(Clone, Copy, Debug, Default)]
pub struct Children {
    /// Those that opened the database.
    pub opened: u64,
    /// Operations that they acknowledged.
    pub acknowledged: u64,
}

impl Children {
    /// Those of `other` too.
    pub fn add(&mut self, other: Children) {
        self.opened += other.opened;
        self.acknowledged += other.acknowledged;
    }
}

/// [`cycles`], each child under a `limit` of its resources (arguments of `ulimit`): it may end by itself, with
/// an error or a signal, and what it had acknowledged is there all the same.
pub fn cycles_limited(
    exe: &Path,
    dir: &Path,
    seed: u64,
    mode: Mode,
    cycles: u64,
    limit: Option<&str>,
) -> (Outcome, Children) {
    let mut outcome = Outcome { histories: 1, ..Outcome::default() };
    let mut children = Children::default();
    let mut random = Rng::with_seed(seed);
    let mut model = Model::default();
    for round in 0..cycles {
        outcome.cases += 1;
        let cycled = cycle(exe, dir, seed, mode, round, limit, &mut model, &mut random, &mut children);
        if let Err(what) = cycled {
            let replay = format!("--seed {seed} --mode {mode} --count {cycles}");
            outcome.failures.push(Failure { replay, what: format!("round {round}: {what}") });
            break;
        }
    }
    (outcome, children)
}

#[expect(clippy::too_many_arguments, reason = "one caller, and each is a thing of its own")]
fn cycle(
    exe: &Path,
    dir: &Path,
    seed: u64,
    mode: Mode,
    round: u64,
    limit: Option<&str>,
    model: &mut Model,
    random: &mut Rng,
    children: &mut Children,
) -> Result<(), Violation> {
    let arguments = ["kill-child", "--seed", &seed.to_string(), "--mode", &mode.to_string(), "--round"]
        .into_iter()
        .map(str::to_owned)
        .chain([round.to_string(), "--dir".to_owned(), dir.display().to_string()])
        .collect::<Vec<String>>();
    let time = Duration::from_micros(random.u64(0..40_000));
    let child = match limit {
        Some(limit) => start_limited(exe, &arguments, limit)?,
        None => start(exe, &arguments)?,
    };
    let lines = kill_after(child, time, limit.is_some())?;
    // Until somebody has opened it there is no database that could be read.
    let there = lines.is_some() || !model.contents().is_empty();
    children.opened += u64::from(lines.is_some());
    let acknowledged = lines.map_or(0, |lines| lines.len());
    children.acknowledged += acknowledged as u64;
    for name in FIXED {
        model.create(name);
    }
    let found = look(dir, seed, mode, random.bool() && there)?;
    let hash = contents_hash(&found);

    // With a log, what was acknowledged outlives the process; without, what was flushed.
    let operations = operations(seed, mode, round);
    let durable = |op: &Op| mode != Mode::NoLog || matches!(op, Op::Persist | Op::Flush);
    let certain = operations.iter().take(acknowledged).rposition(durable).map_or(0, |last| last + 1);
    let mut states = model.clone();
    let mut matched = (certain == 0 && states.hash() == hash).then(|| states.clone());
    for (nth, op) in operations.iter().enumerate().take(acknowledged + 1) {
        match op {
            Op::Write(write) => states.write(write),
            Op::Batch(writes, _) => writes.iter().for_each(|write| states.write(write)),
            _ => {}
        }
        if nth + 1 >= certain && states.hash() == hash {
            matched = Some(states.clone());
        }
    }
    match matched {
        Some(state) => {
            *model = state;
            Ok(())
        }
        None => Err(format!(
            "{acknowledged} operations were acknowledged, {certain} of them for good; compared with the \
             state after them and one more, {}",
            difference(&found, states.contents())
        )),
    }
}

/// What `dir` holds now, after a full check; opened for reading only (so that the next child recovers what
/// the kill has left), or for writing.
fn look(dir: &Path, seed: u64, mode: Mode, read_only: bool) -> Result<crate::oracle::Contents, Violation> {
    let options = DatabaseOptions { read_only, ..options(seed, mode) };
    let db = Database::builder(dir).options(options).open().map_err(|e| format!("open: {e}"))?;
    let contents = dump(&db)?;
    db.verify().map_err(|e| format!("verify: {e}"))?;
    db.close().map_err(|e| format!("close: {e}"))?;
    Ok(contents)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A child that says what one of `kill-child` does, and then does `end`.
    fn after_ten_operations(end: &str, limited: bool) -> Result<Option<Vec<String>>, Violation> {
        let script =
            format!("ulimit -c 0; echo open; for n in 1 2 3 4 5 6 7 8 9 10; do echo ok; done; {end}");
        let mut child = start(Path::new("sh"), &["-c".to_owned(), script])?;
        // What it says stays in the pipe.
        child.wait().map_err(|e| e.to_string())?;
        kill_after(child, Duration::ZERO, limited)
    }

    #[test]
    fn a_child_that_ends_by_itself_was_not_killed() {
        for end in ["kill -ABRT $$", "kill -SEGV $$", "kill -BUS $$", "exit 1", "exit 0"] {
            let what = after_ten_operations(end, false).expect_err(end);
            assert!(what.contains("ended by itself"), "{end}: {what}");
        }
        assert_eq!(after_ten_operations("kill -KILL $$", false), Ok(Some(vec!["ok".to_owned(); 10])));
    }

    #[test]
    fn a_limit_excuses_all_but_a_panic() {
        for end in ["kill -XFSZ $$", "exit 1"] {
            assert_eq!(after_ten_operations(end, true), Ok(Some(vec!["ok".to_owned(); 10])), "{end}");
        }
        after_ten_operations(&format!("exit {PANICKED}"), true).expect_err("a panic");
    }
}
