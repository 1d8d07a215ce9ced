//! What a `ThinArc` promises: its bytes are its own, it is gone with its last handle, and memory that nobody has goes back.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use esker_base::event_count::EventCount;

use super::*;
use crate::scheduler::steps::Steps;
use crate::scheduler::{Job, Lane};

/// A header that counts how many of its kind are left.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(left: &Arc<AtomicUsize>) -> Counted {
        left.fetch_add(1, Ordering::Relaxed);
        Counted(Arc::clone(left))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A block of `len` bytes, each `byte`.
fn filled(pool: &Arc<BlockPool>, left: &Arc<AtomicUsize>, len: usize, byte: u8) -> ThinArc<Counted> {
    let half = vec![byte; len / 2];
    let mut block = ThinArc::new(pool, Counted::new(left), &half, len);
    assert_eq!(block.bytes().split_at(half.len()).0, half);
    block.get_mut().expect("new").1.fill(byte);
    block
}

#[test]
fn a_header_is_dropped_once_with_the_last_handle() {
    let (pool, left) = (Arc::new(BlockPool::default()), Arc::default());
    let mut first = filled(&pool, &left, 10, 7);
    let second = first.clone();
    assert!(first.get_mut().is_none(), "there are two");
    drop(second);
    assert!(first.get_mut().is_some());
    assert_eq!((first.bytes(), left.load(Ordering::Relaxed)), (&[7; 10][..], 1));
    drop(first);
    assert_eq!(left.load(Ordering::Relaxed), 0);
}

#[test]
fn a_block_outlives_the_pool_it_came_from() {
    let (pool, left) = (Arc::new(BlockPool::default()), Arc::default());
    let block = filled(&pool, &left, 4096, 3);
    drop(pool);
    assert!(block.bytes().iter().all(|&byte| byte == 3));
}

#[test]
fn a_block_may_have_no_bytes_or_more_than_a_region() {
    let (pool, left) = (Arc::new(BlockPool::default()), Arc::default());
    assert_eq!(filled(&pool, &left, 0, 1).bytes(), b"");
    let large = filled(&pool, &left, 3 * HUGE_PAGE_BYTES, 2);
    assert!(large.bytes().len() == 3 * HUGE_PAGE_BYTES && large.bytes().iter().all(|&byte| byte == 2));
}

#[test]
fn blocks_of_many_lengths_keep_their_bytes_apart() {
    let (pool, left) = (Arc::new(BlockPool::default()), Arc::default());
    let mut random = fastrand::Rng::with_seed(1);
    let (turns, kept) = if cfg!(miri) { (100, 10) } else { (20_000, 1_000) };
    let mut all: Vec<(u8, ThinArc<Counted>)> = Vec::new();
    for _ in 0..turns {
        let (len, byte) = (random.usize(0..9_000), random.u8(1..));
        all.push((byte, filled(&pool, &left, len, byte)));
        if all.len() > kept {
            let (byte, block) = all.swap_remove(random.usize(0..kept));
            assert!(block.bytes().iter().all(|&other| other == byte));
        }
    }
    assert_eq!(left.load(Ordering::Relaxed), kept);
    assert!(all.iter().all(|(byte, block)| block.bytes().iter().all(|other| other == byte)));
}

/// A pool whose memory `steps` bring in, when they are told to.
fn grown_by(steps: &Arc<Steps>) -> Arc<BlockPool> {
    let pool = Arc::new(BlockPool::default());
    pool.grow_by(Arc::clone(steps) as Arc<dyn Scheduler>);
    pool
}

/// Runs jobs where callers take all processors.
struct Busy(Arc<Steps>);

impl Scheduler for Busy {
    fn spawn(&self, lane: Lane, job: Box<dyn Job>) {
        self.0.spawn(lane, job);
    }

    fn breathe(&self) {
        self.0.breathe();
    }

    fn wait(&self, event: &EventCount, seen: u64, timeout: Option<Duration>) -> bool {
        self.0.wait(event, seen, timeout)
    }

    fn stop(&self) {
        self.0.stop();
    }

    fn is_within(&self, lane: Lane) -> bool {
        self.0.is_within(lane)
    }

    fn width(&self, lane: Lane) -> usize {
        self.0.width(lane)
    }

    fn processors(&self) -> usize {
        self.0.processors()
    }

    fn spared_a_processor(&self) -> bool {
        false
    }

    fn note_writing(&self) {}
}

/// Let the jobs do what there is to do, but not come to their end.
fn run(steps: &Steps) {
    for _ in 0..50 {
        steps.settle();
        steps.clock().advance(Duration::from_millis(5));
    }
}

/// A number of blocks of 8 KiB that is more than all but one of `regions` hold.
fn fill(pool: &Arc<BlockPool>, left: &Arc<AtomicUsize>, regions: usize) -> Vec<ThinArc<Counted>> {
    (0..(regions - 1) * HUGE_PAGE_BYTES / 8_192).map(|_| filled(pool, left, 8_192, 5)).collect()
}

/// A huge page takes the place of the small ones of all but the region that is being filled, each once; that of a region that
/// is gone is not asked for.
#[test]
fn regions_that_were_filled_come_to_lie_on_huge_pages() {
    let (steps, left) = (Arc::new(Steps::with_width(1, 1)), Arc::default());
    let pool = grown_by(&steps);
    let mut all = fill(&pool, &left, 4);
    let (_, small) = pool.regions.ready_and_small();
    assert!((4..=5).contains(&small), "{small}");
    assert_eq!(steps.jobs().len(), 1);
    run(&steps);
    assert_eq!(pool.regions.ready_and_small().1, 1);
    assert!(all.iter().all(|block| block.bytes().iter().all(|&byte| byte == 5)), "that changes no byte");
    all.truncate(10);
    assert!(all.iter().all(|block| block.bytes().iter().all(|&byte| byte == 5)));
    drop(all);
    assert_eq!(pool.regions.ready_and_small().1, 0, "regions in which nothing is left went back");
}

/// Where readers want all processors, huge pages come in the end, but late.
#[test]
fn huge_pages_wait_for_a_processor_but_not_for_ever() {
    let (steps, left) = (Arc::new(Steps::with_width(1, 1)), Arc::default());
    let pool = Arc::new(BlockPool::default());
    pool.grow_by(Arc::new(Busy(Arc::clone(&steps))));
    let all = fill(&pool, &left, 4);
    let (_, small) = pool.regions.ready_and_small();
    for _ in 0..16 {
        steps.settle();
        steps.clock().advance(Duration::from_millis(5));
    }
    assert_eq!(pool.regions.ready_and_small().1, small, "somebody else wants the processor");
    (0..4).for_each(|_| run(&steps));
    assert_eq!(pool.regions.ready_and_small().1, 1);
    drop(all);
}

#[test]
fn regions_are_brought_in_ahead_of_a_growing_pool() {
    let (steps, left) = (Arc::new(Steps::with_width(1, 1)), Arc::default());
    let pool = grown_by(&steps);
    let mut all = fill(&pool, &left, 2);
    run(&steps);
    assert_eq!(pool.regions.ready_and_small().0, 0, "not for few");
    all.extend(fill(&pool, &left, 9));
    run(&steps);
    let (ready, small) = pool.regions.ready_and_small();
    assert!((1..=4).contains(&ready), "{ready}");
    all.extend(fill(&pool, &left, 2));
    assert_eq!(pool.regions.ready_and_small(), (ready - 1, small), "what was brought in is taken");
    assert!(all.iter().all(|block| block.bytes().iter().all(|&byte| byte == 5)));
    run(&steps);
    assert_eq!(pool.regions.ready_and_small(), (ready, small), "and more is brought in");
    for _ in 0..5 {
        steps.clock().advance(Duration::from_secs(1));
        steps.settle();
    }
    assert_eq!(
        (pool.regions.ready_and_small().0, steps.jobs().len()),
        (0, 0),
        "nobody took it: it went back"
    );
    all.extend(fill(&pool, &left, 2));
    run(&steps);
    assert!(pool.regions.ready_and_small().0 >= ready, "and comes again");
}

/// While the pool grows, be it slowly, what is ready stays.
#[test]
fn what_is_ready_stays_while_the_pool_grows_slowly() {
    let (steps, left) = (Arc::new(Steps::with_width(1, 1)), Arc::default());
    let pool = grown_by(&steps);
    let mut all = fill(&pool, &left, 20);
    run(&steps);
    let (ready, _) = pool.regions.ready_and_small();
    assert!(ready > 0);
    for _ in 0..20 {
        all.extend(fill(&pool, &left, 2));
        // A quarter of a second.
        run(&steps);
        assert!(pool.regions.ready_and_small().0 >= ready, "it went back");
        assert!(steps.jobs().len() <= 2, "one job at work, and one that waits");
    }
}
