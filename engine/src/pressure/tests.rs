use super::*;

const MIB: u64 = 1 << 20;

/// Where time stands still, a flush of a few megabytes drains more bytes a second than there are.
#[test]
fn a_flush_in_no_time_makes_no_delay() {
    for bytes in [64 * MIB, u64::MAX] {
        let pressure = Pressure::default();
        pressure.drained(bytes, Duration::ZERO);
        assert_eq!(pressure.delay(1_000, 0, Duration::ZERO), None);
        assert_eq!(pressure.delay(1_000, 1_000, Duration::ZERO), None);
    }
}

/// What drains 100 MiB a second.
fn pressure() -> Pressure {
    let pressure = Pressure::default();
    pressure.drained(100 * MIB, Duration::from_secs(1));
    pressure
}

/// However many threads write, together they take what their slow-down says, and none is far behind its turn.
#[test]
fn all_writers_share_one_schedule() {
    for threads in [1, 4, 256] {
        for (slowdown, takes) in [(500, 500), (1_000, 1_000), (4_000, 4_000)] {
            let (pressure, each) = (pressure(), MIB / 1024);
            let mut ready = vec![Duration::ZERO; threads];
            let mut longest = Duration::ZERO;
            for _ in 0..100 * MIB / each {
                let next = ready.iter_mut().min().expect("a writer");
                let wait = pressure.delay(each, slowdown, *next).unwrap_or_default();
                longest = longest.max(wait);
                // The put itself.
                *next += wait + Duration::from_nanos(500);
            }
            let took = ready.iter().max().expect("a writer").as_millis();
            assert!((takes - 2..takes + 15).contains(&took), "{threads} threads took {took} ms of {takes}");
            let turn = Duration::from_micros(40) * threads.try_into().expect("few");
            assert!(longest <= 2 * WORTH_WAITING + turn, "{threads} threads, {longest:?}");
        }
    }
}

/// Small writes are paid for together, each byte once, a large one at once.
#[test]
#[expect(clippy::disallowed_methods, reason = "callers' threads, not background work")]
fn each_byte_is_paid_for_once() {
    let pressure = Pressure::default();
    let (mut owed, mut paid, mut payments) = (0, 0, 0);
    for bytes in std::iter::repeat_n(149, 1_000).chain([OWED_MAX - 1, 1, OWED_MAX, MIB, 1, OWED_MAX - 1]) {
        let now = pressure.owe(bytes);
        owed += bytes;
        paid += now;
        payments += u64::from(now > 0);
        assert!(owed - paid < OWED_MAX && (now == 0 || now >= OWED_MAX), "{owed} owed, {paid} paid");
    }
    // Seven of 149 bytes at a time.
    assert_eq!(payments, 1_000 / 7 + 4);
    let pressure = Pressure::default();
    let threads = std::thread::scope(|scope| {
        let pay = || (0..10_000).map(|_| pressure.owe(149)).sum::<u64>();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(pay)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum::<u64>()
    });
    assert_eq!(threads + pressure.owed.load(Ordering::Relaxed), 4 * 10_000 * 149);
}

/// A write owes no more than ten milliseconds, or twice its drain; and nothing for what is long past.
#[test]
fn a_single_delay_is_bounded() {
    let owed = |bytes, slowdown| pressure().delay(bytes, slowdown, Duration::from_secs(9));
    assert_eq!(owed(MIB / 10, 99_000), Some(DELAY_MAX));
    assert_eq!(owed(10 * MIB, 1_000), Some(Duration::from_millis(100)));
    assert_eq!(owed(10 * MIB, 99_000), Some(Duration::from_millis(200)));
    assert_eq!(owed(10 * MIB, 5), None);
    let late = pressure();
    for _ in 0..100 {
        assert!(
            late.delay(10 * MIB, 99_000, Duration::ZERO) <= Some(BEHIND_MAX + Duration::from_millis(200))
        );
    }
}

fn options(sealed_memtables_max: usize) -> DatabaseOptions {
    DatabaseOptions { sealed_memtables_max, memtable_bytes_max: MIB, ..DatabaseOptions::default() }
}

fn backlog(sealed: usize, l0_depth: usize) -> Backlog {
    Backlog { sealed, active_full: false, l0_depth }
}

/// Neither mark is a cliff: nothing at the first, ever more from there.
#[test]
fn a_slowdown_grows_from_nothing() {
    let memory = |options: &DatabaseOptions, thousandths: u64| {
        let sealed = usize::try_from(thousandths / 1000).expect("few");
        slowdown(options, backlog(sealed, 0), thousandths % 1000 * options.memtable_full_bytes() / 1000).0
    };
    for most in [1, 2, 3, 16] {
        let (options, all) = (options(most), (most as u64 + 1) * 1000);
        assert_eq!(slowdown(&options, backlog(0, 0), MIB).0, 0, "one memtable is filled as fast as can be");
        assert_eq!(memory(&options, 1_000), 0);
        let half_way = memory(&options, u64::midpoint(1_000, all));
        assert!((985..1_015).contains(&half_way), "half-way as long as the drain");
        assert!(memory(&options, all - 1) >= 90_000);
        let grows = (0..all).is_sorted_by_key(|used| memory(&options, used));
        assert!(grows, "with {most} sealed memtables");
    }
    let options = options(3);
    assert_eq!(slowdown(&options, backlog(3, 25), MIB).1, FLUSH);
    assert_eq!(slowdown(&options, backlog(2, 39), MIB).1, COMPACTION);
    let l0 = |depth| slowdown(&options, backlog(0, depth), 0).0;
    assert_eq!(l0(options.l0_tables_slowdown), 0);
    assert_eq!(l0(usize::midpoint(options.l0_tables_slowdown, options.l0_tables_stop)), L0_DRAIN * 1_000);
    assert!((options.l0_tables_slowdown..options.l0_tables_stop).is_sorted_by_key(l0));
}

/// A writer that takes no time of its own, before flushes that suddenly take three times as long as measured.
#[test]
fn slower_flushes_stop_nobody() {
    for sealed_max in [1, 2, 3, 8] {
        let options = options(sealed_max);
        let full = options.memtable_full_bytes();
        let pressure = pressure();
        let flush = Duration::from_millis(30);
        let (mut sealed, mut active, mut now) = (0, 0, Duration::ZERO);
        let mut flushed_at = None;
        let (mut stopped, mut written) = (Duration::ZERO, 0);
        while now < Duration::from_secs(3) {
            if flushed_at.is_some_and(|at| at <= now) {
                sealed -= 1;
                pressure.drained(full, flush);
                flushed_at = (sealed > 0).then(|| now + flush);
            }
            if active >= full && sealed == sealed_max {
                let at = flushed_at.expect("a flush is under way");
                stopped += at.saturating_sub(now);
                now = at;
                continue;
            }
            if active >= full {
                (sealed, active) = (sealed + 1, 0);
                flushed_at = flushed_at.or(Some(now + flush));
            }
            let wait = match slowdown(&options, backlog(sealed, 0), active).0 {
                0 => None,
                slowdown => pressure.delay(1024, slowdown, now),
            };
            now += wait.unwrap_or_default() + Duration::from_nanos(500);
            (active, written) = (active + 1024, written + 1024);
        }
        assert!(stopped <= Duration::from_millis(12), "{sealed_max}: stopped for {stopped:?}");
        // Flushes hardly ran out of work: of a single memtable, while that was filled again.
        let drained = 3_000 / 30 * full;
        assert!(written >= drained / 100 * 98, "{sealed_max}: {written} bytes of {drained}");
    }
}
