//! A histogram that costs a few nanoseconds a sample: counts by exponent and five further bits, so that
//! every figure is within about 3 % of the truth. The longest sample is kept exactly.

/// Sub-buckets of each power of two.
const SUB: u64 = 1 << SUB_BITS;
const SUB_BITS: u32 = 5;
/// A sample longer than this is a stall, in nanoseconds: far above what any operation costs, at the length
/// of a turn of the system's scheduler.
const STALL_NANOS: u64 = 1_000_000;
const BUCKETS: usize = (64 - SUB_BITS as usize + 1) << SUB_BITS;

/// Durations in nanoseconds.
pub(crate) struct Histogram {
    counts: Vec<u32>,
    count: u64,
    longest: u64,
    stalled: u64,
}

/// The bucket of `nanos`. Below twice `SUB` there is one for every value.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "below BUCKETS")]
fn bucket(nanos: u64) -> usize {
    let shift = (nanos | SUB).ilog2() - SUB_BITS;
    ((u64::from(shift) << SUB_BITS) + (nanos >> shift)) as usize
}

/// The largest value of a bucket.
fn upper(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * SUB {
        return bucket;
    }
    let shift = (bucket >> SUB_BITS) - 1;
    let top = (bucket & (SUB - 1)) + SUB + 1;
    u64::try_from((u128::from(top) << shift) - 1).unwrap_or(u64::MAX)
}

impl Histogram {
    pub(crate) fn new() -> Self {
        Histogram { counts: vec![0; BUCKETS], count: 0, longest: 0, stalled: 0 }
    }

    /// Count one sample.
    #[inline]
    pub(crate) fn record(&mut self, nanos: u64) {
        self.counts[bucket(nanos)] += 1;
        self.count += 1;
        self.longest = self.longest.max(nanos);
        if nanos > STALL_NANOS {
            self.stalled += nanos;
        }
    }

    /// The value that `permyriad` of 10,000 samples do not exceed, in nanoseconds.
    pub(crate) fn quantile(&self, permyriad: u64) -> u64 {
        let rank = (self.count * permyriad).div_ceil(10_000);
        let mut seen = 0;
        let bucket = self.counts.iter().position(|n| {
            seen += u64::from(*n);
            seen >= rank
        });
        bucket.map_or(0, |bucket| upper(bucket).min(self.longest))
    }

    /// How many samples there are.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The longest sample, in nanoseconds.
    pub(crate) fn longest(&self) -> u64 {
        self.longest
    }

    /// What the samples longer than a millisecond add up to, in nanoseconds.
    pub(crate) fn stalled(&self) -> u64 {
        self.stalled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_narrow_and_in_order() {
        let mut last = 0;
        for exponent in 0..57 {
            for part in 0..64 {
                let value = (1u64 << exponent) + (part << exponent) / 64;
                let bucket = bucket(value);
                assert!(bucket >= last || value < 1 << exponent, "{value}");
                last = last.max(bucket);
                assert!(upper(bucket) >= value && upper(bucket) - value <= value / 31, "{value}");
            }
        }
        assert!(bucket(u64::MAX) < BUCKETS);
    }

    #[test]
    fn quantiles_are_those_of_the_samples() {
        let mut histogram = Histogram::new();
        (1..=10_000u64).for_each(|n| histogram.record(n * 10));
        for permyriad in [5000, 9900, 9990] {
            let (got, want) = (histogram.quantile(permyriad), permyriad * 10);
            assert!(got >= want && got <= want + want / 31, "{permyriad}: {got}");
        }
        assert_eq!(histogram.quantile(10_000), 100_000);
        assert_eq!(histogram.longest(), 100_000);
        assert_eq!(histogram.stalled(), 0);
        histogram.record(3_000_000);
        assert_eq!(histogram.stalled(), 3_000_000);
    }
}
