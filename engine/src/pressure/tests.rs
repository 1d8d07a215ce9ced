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

/// Memtables are sealed at about 900 KiB, which take 9 ms to flush as far as [`pressure`] knows. (What a single sealed memtable stops
/// writers for in all goes by how pieces of a kilobyte and turns of a millisecond fall together: 6 to 60 ms for sizes near this one.)
fn options(sealed_memtables_max: usize) -> DatabaseOptions {
    let memtable_bytes_max = (900 << 10) / 11 * 16;
    DatabaseOptions { memtable_bytes_max, sealed_memtables_max, ..DatabaseOptions::default() }
}

fn backlog(sealed: usize, l0_depth: usize) -> Backlog {
    Backlog { sealed, active_full: false, l0_depth }
}

/// Neither mark is a cliff: nothing at the first, ever more from there.
#[test]
fn a_slowdown_grows_from_nothing() {
    // With so many thousandths of memtables in memory, and of one of them flushed.
    let memory = |options: &DatabaseOptions, thousandths: u64, flushed: u64| {
        let sealed = usize::try_from(thousandths / 1000).expect("few");
        let active = thousandths % 1000 * options.memtable_full_bytes() / 1000;
        slowdown(options, backlog(sealed, 0), active, flushed).0
    };
    for most in [1, 2, 3, 16] {
        let (options, all) = (options(most), (most as u64 + 1) * 1000);
        assert!(
            (0..1000).all(|used| memory(&options, used, 0) == 0),
            "the first is filled as fast as can be"
        );
        for flushed in [0u64, 300, 999] {
            let used = |ahead: i64| (1000u64 + flushed).saturating_add_signed(ahead);
            let as_fast = memory(&options, used(0), flushed);
            assert!((980..=1_000).contains(&as_fast), "as fast as the flush: {as_fast}");
            let begins = NEARLY.cast_signed();
            assert!(flushed < NEARLY || memory(&options, used(-begins), flushed) == 0);
            let grows = (1000..all).is_sorted_by_key(|used| memory(&options, used, flushed));
            assert!(grows, "with {most} sealed memtables");
            // A memtable beyond the two is no cliff yet, if there may be more.
            assert!(most < 3 || memory(&options, used(1000), flushed) <= 2_000);
        }
        assert!(memory(&options, all - 1, 0) >= 90_000);
    }
    let options = options(3);
    let (slowed, nearly_stopped) = (options.l0_tables_slowdown + 1, options.l0_tables_stop - 1);
    assert_eq!(slowdown(&options, backlog(3, slowed), MIB, 0).1, FLUSH);
    assert_eq!(slowdown(&options, backlog(2, nearly_stopped), MIB, 0).1, COMPACTION);
    let l0 = |depth| slowdown(&options, backlog(0, depth), 0, 0).0;
    assert_eq!(l0(options.l0_tables_slowdown), 0);
    assert_eq!(l0(usize::midpoint(options.l0_tables_slowdown, options.l0_tables_stop)), L0_DRAIN * 1_000);
    assert!((options.l0_tables_slowdown..options.l0_tables_stop).is_sorted_by_key(l0));
}

/// What came of a writer before flushes.
struct Outcome {
    stopped: Duration,
    longest_stop: Duration,
    written: u64,
    /// Bytes of memtables at most, but in the first second.
    most: u64,
}

impl Outcome {
    /// Where two memtables may be sealed, a writer is never stopped. Where one may, it comes to the end of the other a moment before the
    /// flush does now and then.
    fn assert_hardly_stopped(&self, sealed_max: usize, flush: Duration) {
        let (each, all) =
            if sealed_max == 1 { (flush / 10, Duration::from_millis(12)) } else { Default::default() };
        assert!(self.longest_stop <= each, "{sealed_max}: stopped for {:?}", self.longest_stop);
        assert!(self.stopped <= all, "{sealed_max}: stopped for {:?} in all", self.stopped);
    }
}

/// A writer whose puts of a kilobyte take `put` each, for three seconds before flushes that take `flush`, where those before took
/// as long as [`pressure`] knows.
fn outcome(options: &DatabaseOptions, put: Duration, flush: Duration) -> Outcome {
    let full = options.memtable_full_bytes();
    let pressure = pressure();
    let (mut sealed, mut active, mut now) = (0, 0, Duration::ZERO);
    let mut began = None;
    let mut outcome =
        Outcome { stopped: Duration::ZERO, longest_stop: Duration::ZERO, written: 0, most: 0 };
    while now < Duration::from_secs(3) {
        if let Some(at) = began {
            let took = now.saturating_sub(at);
            if took >= flush {
                sealed -= 1;
                pressure.flush_ended();
                pressure.drained(full, flush);
                began = (sealed > 0).then_some(now);
            } else {
                let flushed = took.as_nanos() * 1000 / flush.as_nanos();
                pressure.flushing(full, u64::try_from(flushed).expect("less than a thousand"), took);
            }
        }
        if active >= full && sealed == options.sealed_memtables_max {
            let at = began.expect("a flush is under way") + flush;
            let stopped = at.saturating_sub(now);
            outcome.stopped += stopped;
            outcome.longest_stop = outcome.longest_stop.max(stopped);
            now = at;
            continue;
        }
        if active >= full {
            (sealed, active) = (sealed + 1, 0);
            began = began.or(Some(now));
        }
        let wait = match slowdown(options, backlog(sealed, 0), active, pressure.flushed()).0 {
            0 => None,
            slowdown => pressure.delay(1024, slowdown, now),
        };
        now += wait.unwrap_or_default() + put;
        (active, outcome.written) = (active + 1024, outcome.written + 1024);
        if now > Duration::from_secs(1) {
            outcome.most = outcome.most.max(sealed as u64 * full + active);
        }
    }
    outcome
}

/// A writer that takes no time of its own, before flushes that suddenly take three times as long as measured.
#[test]
fn slower_flushes_stop_nobody() {
    for sealed_max in [1, 2, 3, 8] {
        let options = options(sealed_max);
        let outcome = outcome(&options, Duration::from_nanos(500), Duration::from_millis(30));
        outcome.assert_hardly_stopped(sealed_max, Duration::from_millis(30));
        // Flushes hardly ran out of work: of a single memtable, while that was filled again.
        let drained = 3_000 / 30 * options.memtable_full_bytes();
        let written = outcome.written;
        assert!(written >= drained / 100 * 98, "{sealed_max}: {written} bytes of {drained}");
    }
}

/// Who could write four times as fast as flushes comes to two memtables, and no further; who is slower than they are is not slowed.
#[test]
fn writers_ahead_of_flushes_hold_two_memtables() {
    for sealed_max in [1, 2, 3, 8] {
        let options = options(sealed_max);
        let (full, flush) = (options.memtable_full_bytes(), Duration::from_millis(30));
        let put = |times: u32| flush * 1024 / u32::try_from(full).expect("a MiB") / times;
        let fast = outcome(&options, put(4), flush);
        fast.assert_hardly_stopped(sealed_max, flush);
        assert!(fast.most <= full * 21 / 10, "{sealed_max}: {} bytes in memtables of {full}", fast.most);
        let drained = 3_000 / 30 * full;
        assert!(fast.written >= drained / 100 * 97, "{sealed_max}: {} bytes of {drained}", fast.written);
        // It takes as long for a memtable as the flush for two.
        let slow = put(1) * 2;
        let unslowed = 3_000_000_000 / u64::try_from(slow.as_nanos()).expect("short") * 1024;
        let written = outcome(&options, slow, flush).written;
        assert!(written >= unslowed / 1000 * 999, "{sealed_max}: {written} bytes of {unslowed}");
    }
}
