//! What a room promises: its bytes are its own, it is gone with its last handle, and memory that nobody has goes back.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use esker_base::gate::Gate;

use super::*;
use crate::scheduler::steps::Steps;
use crate::scheduler::{Job, Lane};

/// A head that counts how many of its kind are left.
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

/// A room of `len` bytes, each `byte`.
fn filled(rooms: &Arc<Rooms>, left: &Arc<AtomicUsize>, len: usize, byte: u8) -> Room<Counted> {
    let half = vec![byte; len / 2];
    let mut room = Room::new(rooms, Counted::new(left), &half, len);
    assert_eq!(room.bytes().split_at(half.len()).0, half);
    room.alone().expect("new").1.fill(byte);
    room
}

#[test]
fn a_head_is_dropped_once_with_the_last_handle() {
    let (rooms, left) = (Arc::new(Rooms::default()), Arc::default());
    let mut first = filled(&rooms, &left, 10, 7);
    let second = first.clone();
    assert!(first.alone().is_none(), "there are two");
    drop(second);
    assert!(first.alone().is_some());
    assert_eq!((first.bytes(), left.load(Ordering::Relaxed)), (&[7; 10][..], 1));
    drop(first);
    assert_eq!(left.load(Ordering::Relaxed), 0);
}

#[test]
fn a_room_outlives_the_rooms_it_came_from() {
    let (rooms, left) = (Arc::new(Rooms::default()), Arc::default());
    let room = filled(&rooms, &left, 4096, 3);
    drop(rooms);
    assert!(room.bytes().iter().all(|&byte| byte == 3));
}

#[test]
fn a_room_may_have_no_bytes_or_more_than_a_region() {
    let (rooms, left) = (Arc::new(Rooms::default()), Arc::default());
    assert_eq!(filled(&rooms, &left, 0, 1).bytes(), b"");
    let large = filled(&rooms, &left, 3 * HUGE_PAGE_BYTES, 2);
    assert!(large.bytes().len() == 3 * HUGE_PAGE_BYTES && large.bytes().iter().all(|&byte| byte == 2));
}

#[test]
fn rooms_of_many_lengths_keep_their_bytes_apart() {
    let (rooms, left) = (Arc::new(Rooms::default()), Arc::default());
    let mut random = fastrand::Rng::with_seed(1);
    let (turns, kept) = if cfg!(miri) { (100, 10) } else { (20_000, 1_000) };
    let mut all: Vec<(u8, Room<Counted>)> = Vec::new();
    for _ in 0..turns {
        let (len, byte) = (random.usize(0..9_000), random.u8(1..));
        all.push((byte, filled(&rooms, &left, len, byte)));
        if all.len() > kept {
            let (byte, room) = all.swap_remove(random.usize(0..kept));
            assert!(room.bytes().iter().all(|&other| other == byte));
        }
    }
    assert_eq!(left.load(Ordering::Relaxed), kept);
    assert!(all.iter().all(|(byte, room)| room.bytes().iter().all(|other| other == byte)));
}

/// Rooms that hold two long pieces at a time of lengths drawn at random, each of which is filled.
#[test]
fn long_rooms_take_memory_that_was_given_back_and_keep_their_bytes_apart() {
    let (rooms, left) = (Arc::new(Rooms::default()), Arc::default());
    let mut held: Vec<(u8, Room<Counted>)> = Vec::new();
    for nth in 0u32..100 {
        let len = PIECE_BYTES_MAX + (nth * 7919 % 500_000) as usize;
        let byte = nth.to_le_bytes()[0];
        held.push((byte, filled(&rooms, &left, len, byte)));
        if held.len() > 6 {
            let (byte, room) = held.remove((nth % 5) as usize);
            assert!(room.bytes().iter().all(|&found| found == byte), "another wrote into room {byte}");
        }
    }
    for (byte, room) in held {
        assert!(room.bytes().iter().all(|&found| found == byte), "another wrote into room {byte}");
    }
    assert_eq!(left.load(Ordering::Relaxed), 0);
}

#[test]
fn no_more_than_a_few_long_pieces_are_kept() {
    let (rooms, left) = (Arc::new(Rooms::default()), Arc::default());
    let kept = || rooms.long.kept();
    let several: Vec<_> = (1..=6).map(|mib| filled(&rooms, &left, mib << 20, 1)).collect();
    assert!(kept().is_empty());
    drop(several);
    // The last four that were given back would be 18 MiB.
    let mib = |bytes: &usize| bytes >> 20;
    assert_eq!(kept().iter().map(mib).collect::<Vec<_>>(), [4, 5, 6]);
    // The nearest is taken, and brought to the length that is asked for.
    let room = filled(&rooms, &left, 5 << 20, 2);
    assert_eq!(kept().iter().map(mib).collect::<Vec<_>>(), [4, 6]);
    drop(room);
    assert_eq!(kept().iter().map(mib).collect::<Vec<_>>(), [4, 6, 5]);
    // What is longer than all that may be kept is not kept, nor is what was made longer for it.
    drop(filled(&rooms, &left, 17 << 20, 3));
    assert_eq!(kept().iter().map(mib).collect::<Vec<_>>(), [4, 5]);
}

/// Rooms whose memory `steps` bring in, when they are told to.
fn grown_by(steps: &Arc<Steps>) -> Arc<Rooms> {
    let rooms = Arc::new(Rooms::default());
    rooms.grow_by(Arc::clone(steps) as Arc<dyn Scheduler>);
    rooms
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

    fn wait(&self, gate: &Gate, seen: u64, timeout: Option<Duration>) -> bool {
        self.0.wait(gate, seen, timeout)
    }

    fn stop(&self) {
        self.0.stop();
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

/// So many rooms of 8 KiB, which are more than all but one of `regions` hold.
fn fill(rooms: &Arc<Rooms>, left: &Arc<AtomicUsize>, regions: usize) -> Vec<Room<Counted>> {
    (0..(regions - 1) * HUGE_PAGE_BYTES / 8_192).map(|_| filled(rooms, left, 8_192, 5)).collect()
}

/// A huge page takes the place of the small ones of all but the region that is being filled, each once; that of a region that
/// is gone is not asked for.
#[test]
fn regions_that_were_filled_come_to_lie_on_huge_pages() {
    let (steps, left) = (Arc::new(Steps::with_width(1, 1)), Arc::default());
    let rooms = grown_by(&steps);
    let mut all = fill(&rooms, &left, 4);
    let (_, small) = rooms.supply.ready_and_small();
    assert!((4..=5).contains(&small), "{small}");
    assert_eq!(steps.jobs().len(), 1);
    run(&steps);
    assert_eq!(rooms.supply.ready_and_small().1, 1);
    assert!(all.iter().all(|room| room.bytes().iter().all(|&byte| byte == 5)), "that changes no byte");
    all.truncate(10);
    assert!(all.iter().all(|room| room.bytes().iter().all(|&byte| byte == 5)));
    drop(all);
    assert_eq!(rooms.supply.ready_and_small().1, 0, "regions in which nothing is left went back");
}

/// Where readers want all processors, huge pages come in the end, but late.
#[test]
fn huge_pages_wait_for_a_processor_but_not_for_ever() {
    let (steps, left) = (Arc::new(Steps::with_width(1, 1)), Arc::default());
    let rooms = Arc::new(Rooms::default());
    rooms.grow_by(Arc::new(Busy(Arc::clone(&steps))));
    let all = fill(&rooms, &left, 4);
    let (_, small) = rooms.supply.ready_and_small();
    for _ in 0..16 {
        steps.settle();
        steps.clock().advance(Duration::from_millis(5));
    }
    assert_eq!(rooms.supply.ready_and_small().1, small, "somebody else wants the processor");
    (0..4).for_each(|_| run(&steps));
    assert_eq!(rooms.supply.ready_and_small().1, 1);
    drop(all);
}

#[test]
fn regions_are_brought_in_ahead_of_growing_rooms() {
    let (steps, left) = (Arc::new(Steps::with_width(1, 1)), Arc::default());
    let rooms = grown_by(&steps);
    let mut all = fill(&rooms, &left, 2);
    run(&steps);
    assert_eq!(rooms.supply.ready_and_small().0, 0, "not for few");
    all.extend(fill(&rooms, &left, 9));
    run(&steps);
    let (ready, small) = rooms.supply.ready_and_small();
    assert!((1..=4).contains(&ready), "{ready}");
    all.extend(fill(&rooms, &left, 2));
    assert_eq!(rooms.supply.ready_and_small(), (ready - 1, small), "what was brought in is taken");
    assert!(all.iter().all(|room| room.bytes().iter().all(|&byte| byte == 5)));
    run(&steps);
    assert_eq!(rooms.supply.ready_and_small(), (ready, small), "and more is brought in");
    for _ in 0..5 {
        steps.clock().advance(Duration::from_secs(1));
        steps.settle();
    }
    assert_eq!(
        (rooms.supply.ready_and_small().0, steps.jobs().len()),
        (0, 0),
        "nobody took it: it went back"
    );
    all.extend(fill(&rooms, &left, 2));
    run(&steps);
    assert!(rooms.supply.ready_and_small().0 >= ready, "and comes again");
}

/// While rooms grow, be it slowly, what is ready stays.
#[test]
fn what_is_ready_stays_while_rooms_grow_slowly() {
    let (steps, left) = (Arc::new(Steps::with_width(1, 1)), Arc::default());
    let rooms = grown_by(&steps);
    let mut all = fill(&rooms, &left, 20);
    run(&steps);
    let (ready, _) = rooms.supply.ready_and_small();
    assert!(ready > 0);
    for _ in 0..20 {
        all.extend(fill(&rooms, &left, 2));
        // A quarter of a second.
        run(&steps);
        assert!(rooms.supply.ready_and_small().0 >= ready, "it went back");
        assert!(steps.jobs().len() <= 2, "one job at work, and one that waits");
    }
}
