//! Leaving its processor to a thread that writes on and on.
//!
//! A writer, a flush and compactions are more threads than a small machine has processors. A thread of a
//! lane that is woken on the writer's processor shares it with the writer in turns of some milliseconds,
//! even where another processor is idle at times: a system moves threads to a processor that becomes idle
//! only if that one was idle for long, on the average. A writer that takes a microsecond for a put falls
//! behind by thousands of puts in such a turn. So while one thread writes and the process has no other that
//! works, the threads of the lanes keep off the processor on which it runs (sched(7), *CPU affinity*;
//! theirs is changed, not the writer's). They get it back when writing has paused for [`IDLE`], when
//! anybody waits for them, and when other threads of the process want processors too.
#![expect(clippy::disallowed_methods, reason = "processors' time is set against the system's clock")]

use std::time::{Duration, Instant};

use esker_base::sync::Mutex;
use esker_base::sync::atomic::{AtomicBool, Ordering};

use self::system::{Affinity, Worker};
use super::load::process_time;

/// A writer that has not been heard of for this long has paused. A writer that fills memory at its full
/// rate is heard of every 10 to 20 ms.
const IDLE: Duration = Duration::from_millis(100);

/// How often it is looked at what the process takes of processors.
const LOOK: Duration = Duration::from_millis(50);

/// See the module.
pub(crate) struct OwnProcessor {
    /// Whether lanes and a writer are more threads than there are processors.
    are_few: bool,
    /// Whether the workers keep off a processor.
    is_kept: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    workers: Vec<Worker>,
    writer: Option<Writer>,
    /// While the workers keep off `processor`: where each might run before.
    kept: Vec<Affinity>,
    processor: usize,
}

/// The writer that was heard of last.
struct Writer {
    heard: Instant,
    /// What the process and its workers had taken, and when.
    looked: Instant,
    taken: Taken,
}

/// Processors' time.
#[derive(Clone, Copy)]
struct Taken {
    by_all: Duration,
    by_workers: Duration,
}

impl Taken {
    fn now(workers: &[Worker]) -> Taken {
        let by_workers = workers.iter().map(Worker::taken).sum();
        Taken { by_all: process_time(), by_workers }
    }

    /// What the process's other threads have taken since `before`.
    fn by_others_since(self, before: Taken) -> Duration {
        let by_all = self.by_all.saturating_sub(before.by_all);
        by_all.saturating_sub(self.by_workers.saturating_sub(before.by_workers))
    }
}

/// Whether one thread has worked most of the time that `passed`, and no other beside it, if all took `taken`.
fn is_one_thread(taken: Duration, passed: Duration) -> bool {
    taken >= passed / 2 && taken <= passed + passed / 8
}

impl OwnProcessor {
    /// For `lanes` threads of lanes, not counting those that mostly sleep, on `processors` processors.
    pub(crate) fn new(lanes: usize, processors: usize) -> OwnProcessor {
        OwnProcessor {
            are_few: lanes >= processors,
            is_kept: AtomicBool::new(false),
            state: Mutex::default(),
        }
    }

    /// The calling thread is one of those that keep off, until it [ends](OwnProcessor::end_worker).
    pub(crate) fn begin_worker(&self) {
        self.state.lock().workers.extend(Worker::current());
    }

    /// The calling thread is about to end, and its number may come to be another's.
    pub(crate) fn end_worker(&self) {
        let mut state = self.state.lock();
        state.workers.retain(|worker| !worker.is_current());
        state.kept.retain(|affinity| !affinity.is_current());
    }

    /// The calling thread writes, and has done so much of it that this is called every few milliseconds if it goes on. Takes
    /// some microseconds each [`LOOK`], and where the system has moved the writer to the workers' processor: they make room
    /// at once.
    pub(crate) fn note_writing(&self) {
        if !self.are_few {
            return;
        }
        let Some(mut state) = self.state.try_lock() else { return };
        let (now, processor) = (Instant::now(), system::processor());
        let State { workers, writer, .. } = &mut *state;
        let goes_on = writer.as_mut().filter(|writer| now.duration_since(writer.heard) <= IDLE);
        let Some(writer) = goes_on else {
            *writer = Some(Writer { heard: now, looked: now, taken: Taken::now(workers) });
            return self.give_up(&mut state);
        };
        writer.heard = now;
        let passed = now.duration_since(writer.looked);
        if passed < LOOK {
            if !state.kept.is_empty() {
                self.keep(&mut state, processor);
            }
            return;
        }
        let before = std::mem::replace(&mut writer.taken, Taken::now(workers));
        writer.looked = now;
        if is_one_thread(writer.taken.by_others_since(before), passed) {
            self.keep(&mut state, processor);
        } else {
            self.give_up(&mut state);
        }
    }

    /// Somebody waits for the workers: they may run everywhere.
    pub(crate) fn note_waiting(&self) {
        if self.is_kept.load(Ordering::Relaxed) {
            self.forget_writer(&mut self.state.lock());
        }
    }

    /// The calling worker has work: if the writer has paused, workers may run everywhere.
    pub(crate) fn note_work(&self) {
        if !self.is_kept.load(Ordering::Relaxed) {
            return;
        }
        let Some(mut state) = self.state.try_lock() else { return };
        if state.writer.as_ref().is_none_or(|writer| writer.heard.elapsed() > IDLE) {
            self.forget_writer(&mut state);
        }
    }

    fn forget_writer(&self, state: &mut State) {
        state.writer = None;
        self.give_up(state);
    }

    fn keep(&self, state: &mut State, processor: usize) {
        if state.kept.is_empty() || state.processor != processor {
            // Not by `give_up`: whoever comes to wait for the workers in between would think that they may
            // run everywhere.
            state.kept.drain(..).for_each(Affinity::restore);
            state.processor = processor;
            state.kept.extend(state.workers.iter().filter_map(|worker| worker.keep_off(processor)));
            self.is_kept.store(true, Ordering::Relaxed);
        }
    }

    fn give_up(&self, state: &mut State) {
        self.is_kept.store(false, Ordering::Relaxed);
        state.kept.drain(..).for_each(Affinity::restore);
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
mod system {
    use std::time::Duration;

    use rustix::thread::{CpuSet, Pid, gettid, sched_getaffinity, sched_getcpu, sched_setaffinity};

    use crate::os::load::{ThreadClock, thread_clock};

    /// A thread, wherever it is looked at from.
    pub(super) struct Worker {
        thread: Pid,
        clock: ThreadClock,
    }

    /// On what processors a thread might run.
    pub(super) struct Affinity {
        thread: Pid,
        processors: CpuSet,
    }

    /// On which processor the caller runs.
    pub(super) fn processor() -> usize {
        sched_getcpu()
    }

    impl Worker {
        /// The calling thread.
        pub(super) fn current() -> Option<Worker> {
            Some(Worker { thread: gettid(), clock: thread_clock()? })
        }

        pub(super) fn is_current(&self) -> bool {
            self.thread == gettid()
        }

        /// The time of processors that it has taken since it began.
        pub(super) fn taken(&self) -> Duration {
            self.clock.taken()
        }

        /// Have it keep off this processor. Returns where it might run before; `None` if the system
        /// refuses, or if that was its only processor.
        pub(super) fn keep_off(&self, processor: usize) -> Option<Affinity> {
            let before = sched_getaffinity(Some(self.thread)).ok()?;
            let mut others = before;
            // A set has no place for a larger number.
            (processor < CpuSet::MAX_CPU).then(|| others.unset(processor))?;
            if others.count() == 0 {
                return None;
            }
            sched_setaffinity(Some(self.thread), &others).ok()?;
            Some(Affinity { thread: self.thread, processors: before })
        }
    }

    impl Affinity {
        pub(super) fn is_current(&self) -> bool {
            self.thread == gettid()
        }

        /// Let the thread run there again.
        pub(super) fn restore(self) {
            // It may run where it might run before, unless the system has changed.
            let _refused = sched_setaffinity(Some(self.thread), &self.processors);
        }
    }
}

/// Where threads are not placed there are none that could be.
#[cfg(not(all(target_os = "linux", not(miri))))]
mod system {
    use std::time::Duration;

    pub(super) enum Worker {}

    pub(super) enum Affinity {}

    pub(super) fn processor() -> usize {
        0
    }

    impl Worker {
        pub(super) fn current() -> Option<Worker> {
            None
        }

        pub(super) fn is_current(&self) -> bool {
            match *self {}
        }

        pub(super) fn taken(&self) -> Duration {
            match *self {}
        }

        pub(super) fn keep_off(&self, _processor: usize) -> Option<Affinity> {
            match *self {}
        }
    }

    impl Affinity {
        pub(super) fn is_current(&self) -> bool {
            match *self {}
        }

        pub(super) fn restore(self) {
            match self {}
        }
    }
}

#[cfg(all(test, target_os = "linux", not(any(miri, loom))))]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread::JoinHandle;

    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    use super::*;

    /// A worker that says where it may run as often as it is asked, and then ends.
    struct Asked {
        ask: Sender<()>,
        told: Receiver<CpuSet>,
        thread: JoinHandle<()>,
    }

    impl Asked {
        fn start(own: &Arc<OwnProcessor>) -> Asked {
            let ((ask, asked), (tell, told)) = (channel(), channel());
            let own = Arc::clone(own);
            let thread = std::thread::spawn(move || {
                own.begin_worker();
                for () in asked {
                    own.note_work();
                    tell.send(sched_getaffinity(None).expect("asked")).expect("heard");
                }
                own.end_worker();
            });
            let asked = Asked { ask, told, thread };
            asked.processors();
            asked
        }

        fn processors(&self) -> CpuSet {
            self.ask.send(()).expect("heard");
            self.told.recv().expect("told")
        }

        fn end(self) {
            drop(self.ask);
            self.thread.join().expect("ended");
        }
    }

    /// Where this test's thread may run, unless that is one processor alone.
    fn all() -> Option<CpuSet> {
        let all = sched_getaffinity(None).expect("asked");
        if all.count() < 2 {
            eprintln!("skipped: there is only one processor to run on");
            return None;
        }
        Some(all)
    }

    #[test]
    fn one_thread_is_not_two_and_not_a_sleeping_one() {
        let passed = Duration::from_millis(50);
        let took = |millis| is_one_thread(Duration::from_millis(millis), passed);
        assert!(took(50) && took(55) && took(30));
        assert!(!took(10) && !took(60) && !took(100));
        let at = |by_all, by_workers| Taken {
            by_all: Duration::from_millis(by_all),
            by_workers: Duration::from_millis(by_workers),
        };
        assert_eq!(at(190, 80).by_others_since(at(100, 40)), Duration::from_millis(50));
    }

    #[test]
    fn workers_keep_off_and_come_back_when_somebody_waits() {
        let Some(all) = all() else { return };
        let own = Arc::new(OwnProcessor::new(1, 1));
        let workers = [Asked::start(&own), Asked::start(&own)];
        let first = first_of(&all);
        let mut rest = all;
        rest.unset(first);
        {
            let mut state = own.state.lock();
            let now = Instant::now();
            let taken = Taken::now(&state.workers);
            // As if it wrote for ever: workers that are kept waiting do not forget it.
            state.writer = Some(Writer { heard: now + Duration::from_secs(1000), looked: now, taken });
        }
        // The system may move the writer, and they make room again.
        for processor in [first, first_of(&rest)] {
            own.keep(&mut own.state.lock(), processor);
            let mut others = all;
            others.unset(processor);
            assert!(workers.iter().all(|worker| worker.processors() == others));
        }
        own.note_waiting();
        assert!(workers.iter().all(|worker| worker.processors() == all));
        own.keep(&mut own.state.lock(), first);
        workers.into_iter().for_each(Asked::end);
        let state = own.state.lock();
        assert!(state.workers.is_empty() && state.kept.is_empty());
    }

    /// The first processor of a set.
    fn first_of(set: &CpuSet) -> usize {
        (0..CpuSet::MAX_CPU).find(|&at| set.is_set(at)).expect("not empty")
    }

    /// Other tests of this process take processors as well, for a while.
    #[test]
    fn a_thread_that_writes_on_has_its_processor_wherever_it_is_moved_until_it_pauses() {
        let Some(all) = all() else { return };
        let own = Arc::new(OwnProcessor::new(2, 2));
        let worker = Asked::start(&own);
        let begun = Instant::now();
        loop {
            assert!(begun.elapsed() < Duration::from_secs(100), "it never had a processor for itself");
            let noted = Instant::now();
            while noted.elapsed() < Duration::from_millis(5) {
                std::hint::spin_loop();
            }
            own.note_writing();
            let left_to_workers = worker.processors();
            if left_to_workers == all {
                continue;
            }
            // Where the workers are the system puts the writer.
            let (mut here, moved_to) = (CpuSet::new(), first_of(&left_to_workers));
            here.set(moved_to);
            sched_setaffinity(None, &here).expect("moved");
            own.note_writing();
            let mut others = all;
            others.unset(moved_to);
            if worker.processors() == others {
                break;
            }
        }
        std::thread::sleep(IDLE + LOOK);
        assert_eq!(worker.processors(), all);
        worker.end();
    }

    #[test]
    fn where_processors_are_many_nothing_happens() {
        let own = Arc::new(OwnProcessor::new(3, 4));
        own.note_writing();
        assert!(own.state.lock().writer.is_none());
    }
}
