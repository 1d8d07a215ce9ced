//! What both schedulers promise, on both.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use esker_base::event_count::EventCount;
use parking_lot::Mutex;

use super::steps::Steps;
use super::threads::Threads;
use super::*;

/// A job out of a closure; notifies its event when it is dropped.
struct Closure<F> {
    name: &'static str,
    step: F,
    event: Arc<EventCount>,
    panics: Arc<Mutex<Vec<String>>>,
}

impl<F: FnMut() -> Progress + Send> Job for Closure<F> {
    fn name(&self) -> &'static str {
        self.name
    }
    fn step(&mut self) -> Progress {
        (self.step)()
    }
    fn panicked(&mut self, message: &str) {
        self.panics.lock().push(message.to_owned());
    }
}

impl<F> Drop for Closure<F> {
    fn drop(&mut self) {
        self.event.notify_all();
    }
}

#[derive(Default)]
struct Rig {
    event: Arc<EventCount>,
    panics: Arc<Mutex<Vec<String>>>,
}

impl Rig {
    fn job(&self, name: &'static str, step: impl FnMut() -> Progress + Send + 'static) -> Box<dyn Job> {
        let (event, panics) = (Arc::clone(&self.event), Arc::clone(&self.panics));
        Box::new(Closure { name, step, event, panics })
    }
}

fn on_both(test: impl Fn(Arc<dyn Scheduler>)) {
    test(Arc::new(Threads::new(2).expect("threads start")));
    for seed in 0..20 {
        test(Arc::new(Steps::new(seed)));
    }
}

#[test]
fn a_job_runs_until_done_and_is_dropped() {
    on_both(|scheduler| {
        let rig = Rig::default();
        let steps = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&steps);
        let seen = rig.event.epoch();
        scheduler.spawn(
            Lane::Flush,
            rig.job("counter", move || {
                if counted.fetch_add(1, Ordering::SeqCst) < 4 { Progress::More } else { Progress::Done }
            }),
        );
        assert!(scheduler.wait(&rig.event, seen, None));
        assert_eq!(steps.load(Ordering::SeqCst), 5);
    });
}

#[test]
fn a_panicking_step_ends_its_job_alone() {
    on_both(|scheduler| {
        let rig = Rig::default();
        let seen = rig.event.epoch();
        scheduler.spawn(Lane::Compaction, rig.job("broken", || panic!("at step {}", 1)));
        assert!(scheduler.wait(&rig.event, seen, None));
        assert_eq!(*rig.panics.lock(), ["at step 1"]);
        let seen = rig.event.epoch();
        scheduler.spawn(Lane::Compaction, rig.job("sound", || Progress::Done));
        assert!(scheduler.wait(&rig.event, seen, None), "the lane still works");
    });
}

/// A job that panics in the place of that number, each time with a payload that panics when it is dropped.
struct Bomber {
    place: u32,
    event: Arc<EventCount>,
}

/// What it panics with, as does what that gives.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        std::panic::panic_any(Bomb);
    }
}

impl Bomber {
    fn panic_in(&self, place: u32) {
        if self.place == place {
            std::panic::panic_any(Bomb);
        }
    }
}

impl Job for Bomber {
    fn name(&self) -> &'static str {
        "bomber"
    }
    fn step(&mut self) -> Progress {
        self.panic_in(0);
        assert!(self.place != 1, "for `panicked` to be called");
        Progress::Done
    }
    fn panicked(&mut self, _message: &str) {
        self.panic_in(1);
    }
}

impl Drop for Bomber {
    fn drop(&mut self) {
        self.event.notify_all();
        self.panic_in(2);
    }
}

#[test]
fn a_payload_that_panics_in_its_drop_ends_no_worker() {
    on_both(|scheduler| {
        let rig = Rig::default();
        for place in 0..3 {
            let seen = rig.event.epoch();
            // This lane has one worker.
            scheduler.spawn(Lane::Flush, Box::new(Bomber { place, event: Arc::clone(&rig.event) }));
            assert!(scheduler.wait(&rig.event, seen, None));
            let seen = rig.event.epoch();
            scheduler.spawn(Lane::Flush, rig.job("sound", || Progress::Done));
            let minute = Some(Duration::from_mins(1));
            assert!(scheduler.wait(&rig.event, seen, minute), "the lane still works after place {place}");
        }
        scheduler.stop();
    });
}

#[test]
fn a_job_that_asks_for_a_pause_runs_again_after_it_and_lets_others_by() {
    on_both(|scheduler| {
        let rig = Arc::new(Rig::default());
        let order = Arc::new(Mutex::new(Vec::new()));
        let seen = rig.event.epoch();
        let (mine, spawner, both) = (Arc::clone(&order), Arc::clone(&scheduler), Arc::clone(&rig));
        let timed = move || {
            mine.lock().push("timed");
            if mine.lock().len() > 1 {
                return Progress::Done;
            }
            let mine = Arc::clone(&mine);
            let other = move || {
                mine.lock().push("other");
                Progress::Done
            };
            spawner.spawn(Lane::Upkeep, both.job("other", other));
            Progress::After(Duration::from_millis(2))
        };
        scheduler.spawn(Lane::Upkeep, rig.job("timed", timed));
        // Both jobs' drops notify the event.
        let mut now = rig.event.epoch();
        while now < seen + 2 {
            scheduler.wait(&rig.event, now, None);
            now = rig.event.epoch();
        }
        assert_eq!(*order.lock(), ["timed", "other", "timed"]);
    });
}

/// However many jobs are ready, one whose moment has come waits for a step or two; and one whose moment has always come lets
/// others by.
#[test]
fn a_moment_that_has_come_goes_first_but_not_always() {
    let scheduler = Threads::new(1).expect("threads start");
    let rig = Rig::default();
    // How many steps of others there were between two of the timed job.
    let between = Arc::new(Mutex::new(vec![0]));
    for _ in 0..200 {
        let (mut left, between) = (20, Arc::clone(&between));
        let other = move || {
            if let Some(last) = between.lock().last_mut() {
                *last += 1;
            }
            left -= 1;
            if left == 0 { Progress::Done } else { Progress::More }
        };
        scheduler.spawn(Lane::Upkeep, rig.job("other", other));
    }
    let seen = rig.event.epoch();
    let counts = Arc::clone(&between);
    let timed = move || {
        let mut counts = counts.lock();
        counts.push(0);
        if counts.len() > 12 { Progress::Done } else { Progress::After(Duration::ZERO) }
    };
    scheduler.spawn(Lane::Upkeep, rig.job("timed", timed));
    let mut now = seen;
    while between.lock().len() <= 12 {
        scheduler.wait(&rig.event, now, Some(Duration::from_secs(1)));
        now = rig.event.epoch();
    }
    let counts = between.lock().clone();
    // It waited for its first turn among those that were ready, and was due at once then. From there on it lets one by each time.
    assert!(counts[1] <= 1 && counts[2..12].iter().all(|count| *count == 1), "{counts:?}");
}

#[test]
fn a_wait_ends_at_its_timeout() {
    on_both(|scheduler| {
        let event = EventCount::new();
        assert!(!scheduler.wait(&event, event.epoch(), Some(Duration::from_millis(2))));
        let seen = event.epoch();
        event.notify_all();
        assert!(scheduler.wait(&event, seen, Some(Duration::ZERO)), "a notification is seen first");
    });
}

#[test]
fn stopping_drops_every_job_and_takes_no_more() {
    on_both(|scheduler| {
        let rig = Rig::default();
        for lane in [Lane::Flush, Lane::Compaction, Lane::Upkeep] {
            scheduler.spawn(lane, rig.job("endless", || Progress::More));
            scheduler.spawn(lane, rig.job("far off", || Progress::After(Duration::from_hours(1))));
        }
        scheduler.breathe();
        scheduler.stop();
        assert_eq!(rig.event.epoch(), 6);
        scheduler.stop();
        scheduler.spawn(Lane::Flush, rig.job("late", || panic!("it must not run")));
        assert_eq!(rig.event.epoch(), 7);
        assert!(rig.panics.lock().is_empty());
    });
}

#[test]
fn a_step_may_stop_the_scheduler_it_runs_on() {
    on_both(|scheduler| {
        let rig = Rig::default();
        let inner = Arc::clone(&scheduler);
        let seen = rig.event.epoch();
        scheduler.spawn(
            Lane::Upkeep,
            rig.job("closing", move || {
                inner.stop();
                Progress::More
            }),
        );
        assert!(scheduler.wait(&rig.event, seen, None), "the job is dropped all the same");
        scheduler.stop();
    });
}

/// Two steps stop the scheduler while a third goes on: they wait for that one, and not for each other.
#[test]
fn a_step_that_stops_the_scheduler_waits_for_the_others() {
    let scheduler: Arc<dyn Scheduler> = Arc::new(Threads::new(1).expect("threads start"));
    let rig = Rig::default();
    let (all_there, is_done) = (Arc::new(Barrier::new(3)), Arc::new(AtomicBool::new(false)));
    let (seen, found) = (rig.event.epoch(), Arc::new(Mutex::new(Vec::new())));
    for lane in [Lane::Flush, Lane::Upkeep] {
        let (inner, all_there) = (Arc::clone(&scheduler), Arc::clone(&all_there));
        let (is_done, found) = (Arc::clone(&is_done), Arc::clone(&found));
        let stop = move || {
            all_there.wait();
            inner.stop();
            found.lock().push(is_done.load(Ordering::SeqCst));
            Progress::More
        };
        scheduler.spawn(lane, rig.job("stops", stop));
    }
    let going_on = move || {
        all_there.wait();
        let never = EventCount::new();
        never.wait_for(never.epoch(), Duration::from_millis(100));
        is_done.store(true, Ordering::SeqCst);
        Progress::More
    };
    scheduler.spawn(Lane::Compaction, rig.job("goes on", going_on));
    let mut now = rig.event.epoch();
    while now < seen + 3 {
        assert!(scheduler.wait(&rig.event, now, Some(Duration::from_secs(20))), "they wait for each other");
        now = rig.event.epoch();
    }
    assert_eq!(*found.lock(), [true, true]);
    scheduler.stop();
}

#[test]
fn steps_report_a_deadlock_also_from_within_a_step() {
    let steps = Arc::new(Steps::new(3));
    let (rig, never) = (Rig::default(), Arc::new(EventCount::new()));
    let inner = Arc::clone(&steps);
    steps.spawn(
        Lane::Flush,
        rig.job("stuck", move || {
            inner.wait(&never, 0, None);
            Progress::Done
        }),
    );
    // Needs the flush lane's only place, which the first job keeps.
    steps.spawn(Lane::Flush, rig.job("behind", || panic!("it must not run")));
    let run = std::panic::AssertUnwindSafe(|| {
        while steps.jobs()[0].name == "stuck" {
            steps.step();
        }
    });
    let panic = std::panic::catch_unwind(run).expect_err("a deadlock");
    let message = panic.downcast_ref::<String>().expect("a message");
    assert!(message.contains("a step of \"stuck\" waits"), "{message}");
    assert!(message.contains("behind"), "{message}");
}

#[test]
fn steps_of_a_step_stay_within_the_lanes_width() {
    for seed in 0..50 {
        let steps = Arc::new(Steps::with_width(seed, 1));
        let rig = Rig::default();
        let (inner, event) = (Arc::clone(&steps), Arc::new(EventCount::new()));
        let waited = Arc::clone(&event);
        steps.spawn(
            Lane::Compaction,
            rig.job("waits", move || {
                inner.wait(&waited, 0, None);
                Progress::Done
            }),
        );
        steps.spawn(
            Lane::Flush,
            rig.job("opens", move || {
                event.notify_all();
                Progress::Done
            }),
        );
        let inner = Arc::clone(&steps);
        steps.spawn(
            Lane::Compaction,
            rig.job("beside", move || {
                let inside =
                    inner.jobs().iter().filter(|job| job.stepping && job.lane == Lane::Compaction).count();
                assert_eq!(inside, 1);
                Progress::Done
            }),
        );
        steps.settle();
        assert!(steps.jobs().is_empty());
        assert!(rig.panics.lock().is_empty(), "seed {seed}: {:?}", rig.panics.lock());
    }
}
