use super::*;

/// Where time stands still, a flush of a few megabytes drains more bytes a second than there are.
#[test]
fn a_flush_in_no_time_makes_no_delay() {
    for bytes in [64 << 20, u64::MAX] {
        let pressure = Pressure::default();
        pressure.drained(bytes, Duration::ZERO);
        assert_eq!(pressure.delay(1_000, 0), None);
        assert_eq!(pressure.delay(1_000, 1_000), None);
    }
}

/// At the stop mark the rate is a tenth of the drain rate.
#[test]
fn delays_grow_towards_the_stop_mark() {
    let owed = |permille| {
        let pressure = Pressure::default();
        pressure.drained(100 << 20, Duration::from_secs(1));
        pressure.delay(1 << 20, permille).expect("worth a wait").as_millis()
    };
    assert_eq!([0, 500].map(owed), [10, 10], "no delay is longer");
    let owed = |permille| {
        let pressure = Pressure::default();
        pressure.drained(1_000 << 20, Duration::from_secs(1));
        pressure.delay(1 << 20, permille).expect("worth a wait").as_micros() / 100
    };
    assert_eq!([0, 500, 800].map(owed), [10, 20, 50]);
}
