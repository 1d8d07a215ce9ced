//! Panics in the user's code, at every place where the engine calls it: merge operators, listeners, and the
//! closures of reads, transactions and loops over scans.
//!
//! A panic of an operator is an error of the call (or of the background job) that needed it, one of a
//! listener is nobody's, one of a closure goes on to whoever passed it. Whichever it is, the database goes on
//! or says why it does not, and nothing that was acknowledged is lost.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use esker::{Database, DatabaseOptions, Durability, Error, Keyspace, KeyspaceOptions, MergeOperator};
use esker_base::event::{Event, Listener};
use esker_vfs::mem::MemFs;
use esker_vfs::sim::Simulation;
use fastrand::Rng;
use parking_lot::Mutex;

use crate::case::Failure;
use crate::crash::{Outcome, contained};
use crate::determinism;
use crate::driver::Violation;
use crate::lies::LyingFs;
use crate::planted::Bug;
use crate::points::Point;
use crate::setup::{DIR, Setup};
use crate::spread::spread;

/// Operations of one run.
const OPS: usize = 160;

/// Counts the calls of the user's code, and lets some of them panic.
#[derive(Default)]
struct Fuse {
    calls: AtomicU64,
    at: u64,
    sticky: bool,
    armed: AtomicBool,
    /// The first that panicked, by name.
    fired: Mutex<Option<&'static str>>,
}

impl Fuse {
    fn call(&self, what: &'static str) {
        let nth = self.calls.fetch_add(1, Ordering::Relaxed);
        if self.armed.load(Ordering::Relaxed) && (nth == self.at || self.sticky && nth > self.at) {
            self.fired.lock().get_or_insert(what);
            // A panic that the hook, which prints it with its backtrace, hears nothing of: there are thousands.
            resume_unwind(Box::new(format!("planned, in {what}")));
        }
    }
}

/// Appends, as `append` does, and refuses what begins with 0xff.
struct Operator(Arc<Fuse>);

impl MergeOperator for Operator {
    fn name(&self) -> &'static str {
        self.0.call("name");
        "fused"
    }
    fn fold(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>, String> {
        self.0.call("fold");
        if operands.iter().any(|operand| operand.first() == Some(&0xff)) {
            return Err("it begins with 0xff".to_owned());
        }
        Ok([base.unwrap_or_default(), &operands.concat()].concat())
    }
    fn combine(&self, _key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        self.0.call("combine");
        (older.first() != Some(&0xff) && newer.first() != Some(&0xff)).then(|| [older, newer].concat())
    }
}

impl Listener for Operator {
    fn on_event(&self, _event: &Event) {
        self.0.call("listener");
    }
}

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

struct Run {
    setup: Setup,
    disk: MemFs,
    fuse: Arc<Fuse>,
    open: Option<(Database, Keyspace)>,
    opens: u64,
    /// The states that may be there: what was acknowledged, and with what is in doubt.
    may_be: Vec<Rows>,
    stopped: bool,
}

impl Run {
    fn open(&mut self) -> Result<(), Error> {
        if let Some(bug) = self.setup.bug {
            bug.plant_in_engine();
        }
        let world = Simulation::on(self.disk.clone(), self.setup.seed.wrapping_add(self.opens << 32));
        self.opens += 1;
        // Without a log, what was not flushed before writes stopped is gone by right: there is nothing to see.
        let durability = match self.setup.mode.durability(0) {
            Durability::NoLog => Durability::Os,
            logged => logged,
        };
        let options = DatabaseOptions { durability, ..self.setup.options.clone() };
        determinism::note(&world);
        let env = match self.setup.bug.and_then(Bug::lie) {
            None => world.env(),
            Some(lie) => world.env_over(Arc::new(LyingFs::new(world.env().fs, lie))),
        };
        let builder = Database::builder(Path::new(DIR)).options(options).env(env);
        let db = builder
            .merge_operator(Arc::new(Operator(Arc::clone(&self.fuse))))
            .listener(Arc::new(Operator(Arc::clone(&self.fuse))))
            .open()?;
        let map = db.keyspace("map", KeyspaceOptions::default().with_merge_operator("fused"))?;
        self.open = Some((db, map));
        self.stopped = false;
        Ok(())
    }

    fn fired(&self) -> bool {
        self.fuse.fired.lock().is_some()
    }

    /// A call of ours, in whose closures the fuse may go off: that panic, and no other, comes back.
    fn call<T>(
        &self,
        ours: bool,
        call: impl FnOnce(&Database, &Keyspace) -> Result<T, Error>,
    ) -> Result<Option<T>, Violation> {
        let Some((db, map)) = &self.open else { return Ok(None) };
        match catch_unwind(AssertUnwindSafe(|| call(db, map))) {
            Ok(Ok(value)) => Ok(Some(value)),
            Ok(Err(error)) if !self.fired() => Err(format!("an error before any panic: {error}")),
            Ok(Err(Error::Io { .. } | Error::Corruption { .. })) => {
                Err("a panic is taken for a fault of the disk".to_owned())
            }
            Ok(Err(_)) => Ok(None),
            Err(_) if ours && self.fired() => Ok(None),
            Err(panic) => {
                let what = panic.downcast_ref::<String>().cloned().unwrap_or_default();
                Err(format!("a panic came through: {what}"))
            }
        }
    }

    /// A commit that does `apply`.
    fn commit(
        &mut self,
        ours: bool,
        apply: impl Fn(&mut Rows),
        call: impl FnOnce(&Database, &Keyspace) -> Result<(), Error>,
    ) -> Result<(), Violation> {
        let mut doubted = false;
        let done = self.call(ours, |db, map| {
            call(db, map).inspect_err(|error| doubted = matches!(error, Error::InDoubt { .. }))
        })?;
        match done {
            Some(()) if self.stopped => {
                return Err("a commit was acknowledged after one in doubt".to_owned());
            }
            Some(()) => self.may_be.iter_mut().for_each(&apply),
            None if doubted => {
                let mut with = self.may_be.clone();
                with.iter_mut().for_each(&apply);
                self.may_be.extend(with);
                self.stopped = true;
            }
            None => {}
        }
        Ok(())
    }

    fn op(&mut self, random: &mut Rng) -> Result<(), Violation> {
        let key = vec![random.u8(0..12)];
        let value = vec![random.u8(0..0xff); random.usize(1..120)];
        let fuse = Arc::clone(&self.fuse);
        match random.u8(0..100) {
            0..25 => self.commit(
                false,
                |rows| drop(rows.insert(key.clone(), value.clone())),
                |_, map| map.put(&key, &value),
            ),
            25..60 => self.commit(
                false,
                |rows| rows.entry(key.clone()).or_default().extend_from_slice(&value),
                |_, map| map.merge(&key, &value),
            ),
            60..65 => self.commit(false, |rows| drop(rows.remove(&key)), |_, map| map.delete(&key)),
            65..73 => self.commit(
                true,
                |rows| drop(rows.insert(key.clone(), value.clone())),
                |db, map| {
                    db.transact(|tx| {
                        tx.get(map, &key)?;
                        tx.put(map, &key, &value)?;
                        fuse.call("transaction");
                        Ok(())
                    })
                },
            ),
            73..80 => {
                let got = self.call(true, |_, map| {
                    map.get_with(&key, |bytes| {
                        fuse.call("get_with");
                        bytes.to_vec()
                    })
                })?;
                self.compare(got.map(|got| (key, got)))
            }
            80..86 => {
                let got = self.call(false, |_, map| map.get(&key))?;
                self.compare(got.map(|got| (key, got.map(|value| value.to_vec()))))
            }
            86..91 => self.scan(Some(&fuse)),
            91..94 => self.call(false, |db, _| db.flush()).map(drop),
            94..97 => self.call(false, |_, map| map.compact_range::<&[u8]>(..)).map(drop),
            97..99 => self.call(false, |db, _| db.persist()).map(drop),
            _ => self.reopen(),
        }
    }

    fn compare(&self, got: Option<(Vec<u8>, Option<Vec<u8>>)>) -> Result<(), Violation> {
        match got {
            Some((key, got)) if !self.may_be.iter().any(|rows| rows.get(&key) == got.as_ref()) => {
                Err(format!("a get of {key:?} finds what it should not"))
            }
            _ => Ok(()),
        }
    }

    fn scan(&self, fuse: Option<&Fuse>) -> Result<(), Violation> {
        let all = self.call(fuse.is_some(), |_, map| {
            let mut rows = Rows::new();
            for row in map {
                let (key, value) = row?;
                if let Some(fuse) = fuse {
                    fuse.call("scan");
                }
                rows.insert(key.to_vec(), value.to_vec());
            }
            Ok(rows)
        })?;
        match all {
            Some(all) if !self.may_be.contains(&all) => Err("a scan shows a state that is none".to_owned()),
            _ => Ok(()),
        }
    }

    fn reopen(&mut self) -> Result<(), Violation> {
        if let Some((db, map)) = self.open.take() {
            drop(map);
            match catch_unwind(AssertUnwindSafe(|| db.close())) {
                Ok(Err(error)) if !self.fired() => return Err(format!("close: {error}")),
                Ok(_) => {}
                Err(_) => return Err("a panic came through a close".to_owned()),
            }
        }
        match catch_unwind(AssertUnwindSafe(|| self.open())) {
            Ok(Err(error)) if !self.fired() => Err(format!("open: {error}")),
            Err(_) => Err("a panic came through an open".to_owned()),
            Ok(_) => Ok(()),
        }
    }
}

/// The fuse goes off at call `at`, once or from then on. How many calls there were, and which it was.
fn one(
    setup: &Setup,
    at: u64,
    sticky: bool,
    armed: bool,
) -> Result<(u64, Option<&'static str>), Violation> {
    let fuse = Arc::new(Fuse { at, sticky, armed: armed.into(), ..Fuse::default() });
    let mut run = Run {
        setup: setup.clone(),
        disk: MemFs::simulated(),
        fuse: Arc::clone(&fuse),
        open: None,
        opens: 0,
        may_be: vec![Rows::new()],
        stopped: false,
    };
    run.reopen()?;
    let mut random = Rng::with_seed(setup.seed);
    for nth in 0..OPS {
        run.op(&mut random).map_err(|what| format!("operation {nth}: {what}"))?;
    }
    let (calls, fired) = (fuse.calls.load(Ordering::Relaxed), *fuse.fired.lock());
    // Nothing panics any more: reads are served, and the next handle has everything.
    fuse.armed.store(false, Ordering::Relaxed);
    if run.open.is_some() {
        run.scan(None).map_err(|what| format!("afterwards, {what}"))?;
    }
    run.open = None;
    run.open().map_err(|error| format!("the next open: {error}"))?;
    let (_, map) = run.open.as_ref().ok_or("not open")?;
    map.put("end", "x").map_err(|e| format!("the next handle: {e}"))?;
    map.delete("end").map_err(|e| e.to_string())?;
    map.compact_range::<&[u8]>(..).map_err(|e| format!("the next handle: {e}"))?;
    let rows: Result<Rows, Error> =
        map.iter().map(|row| row.map(|(key, value)| (key.to_vec(), value.to_vec()))).collect();
    if !run.may_be.contains(&rows.map_err(|e| format!("the next handle: {e}"))?) {
        return Err("the next handle shows a state that is none".to_owned());
    }
    Ok((calls, fired))
}

/// Sweep runs until `count` panics have happened, at most `per_history` in each.
pub fn sweep(
    setup: impl Fn(u64) -> Setup,
    count: u64,
    per_history: usize,
    threads: usize,
) -> (Outcome, BTreeMap<&'static str, u64>) {
    let total = Mutex::new((Outcome::default(), BTreeMap::new()));
    let mut nth = 0;
    loop {
        let setup = setup(nth);
        nth += 1;
        total.lock().0.histories += 1;
        let calls = match contained(|| one(&setup, 0, false, false)) {
            Ok((calls, _)) => calls,
            Err(what) => {
                let replay = format!("--seed {} --mode {}", setup.seed, setup.mode);
                total.lock().0.failures.push(Failure { replay, what });
                break;
            }
        };
        let mut all: Vec<(u64, bool)> = (0..calls).flat_map(|at| [(at, false), (at, true)]).collect();
        if per_history > 0 && all.len() > per_history {
            all = (0..per_history).map(|i| all[i * all.len() / per_history]).collect();
        }
        spread(threads, &all, |&(at, sticky)| {
            let doubled = determinism::chosen(setup.seed ^ (at << 1) ^ u64::from(sticky));
            let ran = determinism::run(doubled, || contained(|| one(&setup, at, sticky, true)));
            let mut total = total.lock();
            total.0.cases += 1;
            match ran {
                Ok((_, Some(what))) => {
                    total.0.doubled += u64::from(doubled);
                    *total.1.entry(what).or_default() += 1;
                    total.0.hits.count(if what == "listener" { Point::Flush } else { Point::Other });
                }
                Ok((_, None)) => total.0.cases -= 1,
                Err(what) => {
                    let case = format!("{at}:{}", if sticky { "sticky" } else { "once" });
                    let replay = format!("--seed {} --mode {} --case {case}", setup.seed, setup.mode);
                    total.0.failures.push(Failure { replay, what });
                }
            }
            total.0.failures.is_empty() && total.0.cases < count
        });
        let total = total.lock();
        if !total.0.failures.is_empty() || total.0.cases >= count {
            break;
        }
    }
    total.into_inner()
}

/// Run one case, `AT:once` or `AT:sticky`, again.
pub fn replay(setup: &Setup, case: &str) -> Result<(), Violation> {
    let (at, span) = case.split_once(':').ok_or("a case is AT:once or AT:sticky")?;
    let at = at.parse().map_err(|_| format!("{at:?} is no number"))?;
    determinism::run(true, || contained(|| one(setup, at, span == "sticky", true)))
        .map(|(_, fired)| println!("{fired:?}"))
}
