//! Does the scheduling seam hold? A toy store with everything that makes background work hard: a
//! bounded number of sealed memtables, writers that block on it, flushes, and a compaction that the
//! flushes wait for. The same code runs on threads with four writers and in step mode.
#![expect(clippy::disallowed_methods, reason = "the writers are threads of their own")]

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use esker_base::event_count::EventCount;
use esker_vfs::scheduler::steps::Steps;
use esker_vfs::scheduler::threads::Threads;
use esker_vfs::scheduler::{Job, Lane, Progress, Scheduler};
use parking_lot::Mutex;

const MEMTABLE_ENTRIES: usize = 16;
const SEALED_MAX: usize = 2;
const TABLES_TRIGGER: usize = 4;
const TABLES_MAX: usize = 6;
const ENTRIES_A_STEP: usize = 5;

const WRITERS: u64 = 4;
const KEYS_A_WRITER: u64 = 60;
const WRITES_A_WRITER: u64 = 700;

type Entries = BTreeMap<u64, u64>;

#[derive(Default)]
struct State {
    active: Entries,
    /// Oldest first.
    sealed: VecDeque<Arc<Entries>>,
    /// Oldest first.
    tables: Vec<Arc<Entries>>,
    flushing: bool,
    compacting: bool,
}

struct Store {
    state: Mutex<State>,
    /// Opened after every change that a writer or a flush may wait for.
    changed: EventCount,
    scheduler: Arc<dyn Scheduler>,
    stalls: AtomicU64,
    compactions: AtomicU64,
}

impl Store {
    fn new(scheduler: Arc<dyn Scheduler>) -> Arc<Store> {
        Arc::new(Store {
            state: Mutex::default(),
            changed: EventCount::new(),
            scheduler,
            stalls: AtomicU64::new(0),
            compactions: AtomicU64::new(0),
        })
    }

    /// Wait until `condition` holds, and return what it made of the state.
    fn when<T>(&self, mut condition: impl FnMut(&mut State) -> Option<T>) -> T {
        loop {
            let seen = self.changed.epoch();
            if let Some(done) = condition(&mut self.state.lock()) {
                return done;
            }
            self.stalls.fetch_add(1, Ordering::Relaxed);
            assert!(self.scheduler.wait(&self.changed, seen, None));
        }
    }

    fn write(self: &Arc<Self>, key: u64, value: u64) {
        let start_flush = self.when(|state| {
            if state.active.len() >= MEMTABLE_ENTRIES {
                if state.sealed.len() >= SEALED_MAX {
                    return None;
                }
                let full = std::mem::take(&mut state.active);
                state.sealed.push_back(Arc::new(full));
            }
            state.active.insert(key, value);
            let start = !state.sealed.is_empty() && !state.flushing;
            state.flushing |= start;
            Some(start)
        });
        if start_flush {
            let job = Flush { store: Arc::clone(self), input: None, output: Entries::new() };
            self.scheduler.spawn(Lane::Flush, Box::new(job));
        }
        self.scheduler.breathe();
    }

    fn idle(&self) {
        self.when(|state| (!state.flushing && !state.compacting).then_some(()));
    }

    fn contents(&self) -> Entries {
        let state = self.state.lock();
        let mut all = Entries::new();
        for source in state.tables.iter().chain(&state.sealed) {
            all.extend(source.iter());
        }
        all.extend(state.active.iter());
        all
    }
}

/// Copies sealed memtables into tables, a few entries a step, until there is none left.
struct Flush {
    store: Arc<Store>,
    input: Option<Arc<Entries>>,
    output: Entries,
}

impl Flush {
    fn install(&mut self) -> Progress {
        // A step that waits: for room among the tables, which only the compaction can make.
        self.store.when(|state| (state.tables.len() < TABLES_MAX).then_some(()));
        let mut state = self.store.state.lock();
        state.sealed.pop_front();
        state.tables.push(Arc::new(std::mem::take(&mut self.output)));
        self.input = None;
        let start = state.tables.len() >= TABLES_TRIGGER && !state.compacting;
        state.compacting |= start;
        state.flushing = !state.sealed.is_empty();
        let progress = if state.flushing { Progress::More } else { Progress::Done };
        drop(state);
        if start {
            let job =
                Compaction { store: Arc::clone(&self.store), inputs: Vec::new(), output: Entries::new() };
            self.store.scheduler.spawn(Lane::Compaction, Box::new(job));
        }
        self.store.changed.notify_all();
        progress
    }
}

impl Job for Flush {
    fn name(&self) -> &'static str {
        "flush"
    }

    fn step(&mut self) -> Progress {
        // Not a foreground call: this must not start steps inside the step.
        self.store.scheduler.breathe();
        if self.input.is_none() {
            self.input = self.store.state.lock().sealed.front().cloned();
        }
        let input = self.input.as_ref().expect("a flush runs only while a memtable is sealed");
        self.output.extend(input.iter().skip(self.output.len()).take(ENTRIES_A_STEP));
        if self.output.len() < input.len() { Progress::More } else { self.install() }
    }

    fn panicked(&mut self, message: &str) {
        panic!("flush: {message}");
    }
}

/// Merges the oldest tables into one, one table a step.
struct Compaction {
    store: Arc<Store>,
    inputs: Vec<Arc<Entries>>,
    output: Entries,
}

impl Job for Compaction {
    fn name(&self) -> &'static str {
        "compaction"
    }

    fn step(&mut self) -> Progress {
        if self.inputs.is_empty() {
            // Newest first: what is in the output already is newer.
            self.inputs = self.store.state.lock().tables.iter().rev().cloned().collect();
        }
        let merged =
            self.inputs.iter().position(|input| input.keys().any(|key| !self.output.contains_key(key)));
        if let Some(next) = merged {
            for (key, value) in self.inputs[next].iter() {
                self.output.entry(*key).or_insert(*value);
            }
            return Progress::More;
        }
        let mut state = self.store.state.lock();
        state.tables.drain(..self.inputs.len());
        state.tables.insert(0, Arc::new(std::mem::take(&mut self.output)));
        state.compacting = false;
        drop(state);
        self.store.compactions.fetch_add(1, Ordering::Relaxed);
        self.store.changed.notify_all();
        Progress::Done
    }

    fn panicked(&mut self, message: &str) {
        panic!("compaction: {message}");
    }
}

/// The `index`th write of writer `writer`. Writers have keys of their own, so that the result does
/// not depend on how they interleave.
fn nth_write(writer: u64, index: u64) -> (u64, u64) {
    let key = index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    (writer * KEYS_A_WRITER + key % KEYS_A_WRITER, index)
}

fn expected() -> Entries {
    let writes = |writer| (0..WRITES_A_WRITER).map(move |index| nth_write(writer, index));
    (0..WRITERS).flat_map(writes).collect()
}

#[test]
fn four_writers_on_threads() {
    let threads: Arc<dyn Scheduler> = Arc::new(Threads::new(2).expect("threads start"));
    let store = Store::new(Arc::clone(&threads));
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let store = &store;
            scope.spawn(move || {
                for index in 0..WRITES_A_WRITER {
                    let (key, value) = nth_write(writer, index);
                    store.write(key, value);
                }
            });
        }
    });
    store.idle();
    threads.stop();
    assert_eq!(store.contents(), expected());
    assert!(store.stalls.load(Ordering::Relaxed) > 0, "no writer ever had to wait");
    assert!(store.compactions.load(Ordering::Relaxed) > 0);
}

/// The outcome of a run in step mode: contents, trace hash, steps, stalls, compactions.
fn in_steps(seed: u64) -> (Entries, u64, u64, u64, u64) {
    let steps = Arc::new(Steps::new(seed));
    let store = Store::new(Arc::clone(&steps) as Arc<dyn Scheduler>);
    for index in 0..WRITES_A_WRITER {
        for writer in 0..WRITERS {
            let (key, value) = nth_write(writer, index);
            store.write(key, value);
        }
    }
    store.idle();
    let counted = (store.stalls.load(Ordering::Relaxed), store.compactions.load(Ordering::Relaxed));
    let outcome = (store.contents(), steps.trace_hash(), steps.step_count(), counted.0, counted.1);
    steps.stop();
    outcome
}

#[test]
fn two_hundred_seeds_in_steps() {
    let expected = expected();
    let (mut stalls, mut traces) = (0, std::collections::BTreeSet::new());
    for seed in 0..200 {
        let first = in_steps(seed);
        assert_eq!(first.0, expected, "seed {seed}");
        assert!(first.4 > 0, "seed {seed}: no compaction ran");
        assert_eq!(first, in_steps(seed), "seed {seed} does not repeat");
        stalls += first.3;
        traces.insert(first.1);
    }
    assert!(stalls > 0, "no writer ever had to wait");
    assert!(traces.len() > 150, "only {} different schedules", traces.len());
}
