//! The one place of the lab that looks at a clock: measuring time is what it is for.

use std::time::Instant;

/// Run `f` and return its result with the nanoseconds it took.
///
/// ```
/// let (sum, nanos) = esker_bench::lab::stopwatch::timed(|| (1..=4).sum::<u32>());
/// assert_eq!(sum, 10);
/// assert!(nanos < 1_000_000_000);
/// ```
#[expect(
    clippy::disallowed_methods,
    reason = "elapsed time of the call under test is the measured quantity"
)]
pub fn timed<T>(f: impl FnOnce() -> T) -> (T, u64) {
    let start = Instant::now();
    let value = f();
    (value, u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))
}
