//! The times between an lcore's polls, as a histogram that its loop fills without a lock and anybody reads.

use std::sync::atomic::{AtomicU64, Ordering};

use weir_units::Span;

/// Counts of gaps in real time, in buckets of a quarter of a power of two, from a nanosecond to half an hour.
///
/// Relaxed throughout: the loop alone writes, each number stands alone, and a reader may be a gap behind.
#[derive(Debug)]
pub struct PollGaps {
    buckets: [AtomicU64; BUCKETS],
    max: AtomicU64,
    /// The longest since the control thread last asked.
    recent: AtomicU64,
    /// Time in which a frame would have woken the loop at once, in nanoseconds.
    slept: AtomicU64,
}

/// Counts of gaps as they were at an instant.
#[derive(Clone, Copy, Debug)]
pub struct GapCounts {
    buckets: [u64; BUCKETS],
    /// The longest since the start.
    max: Span,
    /// Time in which a frame would have woken the loop at once, in nanoseconds.
    slept: u64,
}

/// Percentiles of the gaps, each up to a quarter above the true one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GapReport {
    /// Number of gaps.
    pub polls: u64,
    /// The median, of all gaps.
    pub p50: Span,
    /// The 99th percentile.
    pub p99: Span,
    /// The 99.9th percentile.
    pub p999: Span,
    /// The longest, exact.
    pub max: Span,
    /// Gap length that covers half of the *time*: the median gap that a frame meets as it arrives.
    pub by_time_p50: Span,
    /// Gap length that covers 99 % of the *time*.
    pub by_time_p99: Span,
    /// Gap length that covers 99.9 % of the *time*: descriptors must bridge such gaps.
    pub by_time_p999: Span,
}

const BUCKETS: usize = 164;

impl Default for PollGaps {
    fn default() -> PollGaps {
        PollGaps {
            buckets: std::array::from_fn(|_| AtomicU64::new(0)),
            max: AtomicU64::new(0),
            recent: AtomicU64::new(0),
            slept: AtomicU64::new(0),
        }
    }
}

impl PollGaps {
    /// Counts a gap, in real time. From the loop alone.
    #[inline]
    pub(crate) fn record(&self, gap: Span) {
        let bucket = &self.buckets[bucket_of(gap.as_nanos())];
        bucket.store(bucket.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        let ps = gap.as_picos();
        if ps > self.recent.load(Ordering::Relaxed) {
            self.recent.store(ps, Ordering::Relaxed);
            if ps > self.max.load(Ordering::Relaxed) {
                self.max.store(ps, Ordering::Relaxed);
            }
        }
    }

    /// Counts real time in which a frame would have woken the loop: no gap, and time all the same. From the loop alone.
    pub(crate) fn record_slept(&self, time: Span) {
        self.slept.store(self.slept.load(Ordering::Relaxed) + time.as_nanos(), Ordering::Relaxed);
    }

    /// The longest.
    pub fn max(&self) -> Span {
        Span::from_picos(self.max.load(Ordering::Relaxed))
    }

    /// Returns and resets the longest gap since the last call. One thread calls it. A gap that ends at the same moment may be reported by
    /// the next call.
    pub fn take_recent_max(&self) -> Span {
        Span::from_picos(self.recent.swap(0, Ordering::Relaxed))
    }

    /// Percentiles of the gaps so far.
    pub fn report(&self) -> GapReport {
        self.counts().report()
    }

    /// Histogram of the gaps so far.
    pub fn counts(&self) -> GapCounts {
        let buckets = std::array::from_fn(|n| self.buckets[n].load(Ordering::Relaxed));
        GapCounts { buckets, max: self.max(), slept: self.slept.load(Ordering::Relaxed) }
    }
}

impl GapCounts {
    /// The gaps since `earlier`. The longest of them is known as the percentiles are: up to a quarter above the true one.
    pub fn since(&self, earlier: &GapCounts) -> GapCounts {
        let buckets: [u64; BUCKETS] = std::array::from_fn(|n| self.buckets[n].saturating_sub(earlier.buckets[n]));
        let longest = buckets.iter().rposition(|count| *count > 0);
        let max = longest.map_or(Span::ZERO, |n| Span::from_nanos(last_of(n)).min(self.max));
        GapCounts { buckets, max, slept: self.slept.saturating_sub(earlier.slept) }
    }

    /// The lengths that occurred, shortest first: the longest of a bucket, and how many gaps are in it.
    pub fn lengths(&self) -> impl Iterator<Item = (Span, u64)> {
        let buckets = self.buckets.into_iter().enumerate().filter(|(_, count)| *count > 0);
        buckets.map(|(n, count)| (Span::from_nanos(last_of(n)), count))
    }

    /// Percentiles.
    pub fn report(&self) -> GapReport {
        let GapCounts { buckets: counts, max, slept } = *self;
        let mut times: [u64; BUCKETS] = std::array::from_fn(|n| counts[n].saturating_mul(last_of(n)));
        times[0] = slept;
        let percentile = |weights: &[u64; BUCKETS], permille: u64| {
            let total: u128 = weights.iter().copied().map(u128::from).sum();
            let mut sum = 0u128;
            let reached = |weight: &u64| {
                sum += u128::from(*weight);
                sum * 1_000 >= total * u128::from(permille)
            };
            let bucket = if total == 0 { None } else { weights.iter().position(reached) };
            bucket.map_or(Span::ZERO, |n| Span::from_nanos(last_of(n)).min(max))
        };
        GapReport {
            polls: counts.iter().sum(),
            p50: percentile(&counts, 500),
            p99: percentile(&counts, 990),
            p999: percentile(&counts, 999),
            max,
            by_time_p50: percentile(&times, 500),
            by_time_p99: percentile(&times, 990),
            by_time_p999: percentile(&times, 999),
        }
    }
}

/// Nanoseconds by their highest bit and the two below it.
#[inline]
fn bucket_of(ns: u64) -> usize {
    if ns < 4 {
        return ns as usize;
    }
    let high = 63 - ns.leading_zeros() as usize;
    ((high - 1) * 4 + (ns >> (high - 2) & 3) as usize).min(BUCKETS - 1)
}

/// The longest gap of a bucket, in nanoseconds.
fn last_of(bucket: usize) -> u64 {
    if bucket < 4 { bucket as u64 } else { ((4 + bucket as u64 % 4 + 1) << (bucket / 4 - 1)) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_without_holes() {
        for bucket in 0..BUCKETS - 1 {
            assert_eq!((bucket_of(last_of(bucket)), bucket_of(last_of(bucket) + 1)), (bucket, bucket + 1));
        }
        assert!(last_of(BUCKETS - 1) > 1_800_000_000_000);
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
        assert!((4..BUCKETS).all(|n| last_of(n) - last_of(n - 1) <= last_of(n - 1).div_ceil(4) + 1));
    }

    #[test]
    fn a_few_long_gaps_are_most_of_the_time() {
        let gaps = PollGaps::default();
        assert_eq!(gaps.report(), GapReport::default());
        (0..10_000).for_each(|_| gaps.record(Span::from_micros(1)));
        (0..10).for_each(|_| gaps.record(Span::from_millis(8)));
        let report = gaps.report();
        assert_eq!(report.polls, 10_010);
        let near = |span: Span, us: u64| (us * 1_000..=us * 1_280).contains(&span.as_nanos());
        assert!(near(report.p50, 1) && near(report.p99, 1), "{report:?}");
        assert!(report.by_time_p50 == Span::from_millis(8) && report.max == Span::from_millis(8), "{report:?}");
        assert_eq!((gaps.take_recent_max(), gaps.take_recent_max()), (Span::from_millis(8), Span::ZERO));
        gaps.record(Span::from_micros(5));
        assert_eq!((gaps.take_recent_max(), gaps.max()), (Span::from_micros(5), Span::from_millis(8)));
    }

    #[test]
    fn time_slept_is_time_without_a_gap() {
        let gaps = PollGaps::default();
        gaps.record(Span::from_millis(8));
        assert_eq!(gaps.report().by_time_p50, Span::from_millis(8));
        gaps.record_slept(Span::from_millis(92));
        let report = gaps.report();
        assert_eq!((report.polls, report.by_time_p50, report.max), (1, Span::ZERO, Span::from_millis(8)));
        assert_eq!(report.by_time_p99, Span::from_millis(8), "8 % of the time was that gap");
    }

    #[test]
    fn gaps_are_counted_from_an_instant_on() {
        let gaps = PollGaps::default();
        (0..3).for_each(|_| gaps.record(Span::from_millis(8)));
        let before = gaps.counts();
        assert_eq!(before.since(&before).report(), GapReport::default());
        (0..5).for_each(|_| gaps.record(Span::from_micros(1)));
        let since = gaps.counts().since(&before);
        assert_eq!(since.lengths().map(|(_, count)| count).sum::<u64>(), 5);
        let report = since.report();
        assert_eq!(report.polls, 5);
        assert!((1_000..=1_280).contains(&report.max.as_nanos()), "{report:?}");
    }
}
