//! Latency histograms and their summary.

use hdrhistogram::Histogram;
use serde::Serialize;
use weir_units::Span;

/// Longest latency that is resolved: a minute.
const NANOS_MAX: u64 = 60_000_000_000;

/// Summary of a latency histogram, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// Number of samples.
    pub count: u64,
    /// Minimum; `None` if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_ns: Option<u64>,
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// Maximum.
    pub max_ns: u64,
    /// Samples in each bucket that is not empty. Omitted where only percentiles are known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub histogram: Vec<Bucket>,
}

/// Bucket of a histogram; bounds grow by a factor of 1.25.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bucket {
    /// Upper bound of the bucket.
    pub up_to_ns: u64,
    /// Number of samples in the bucket.
    pub count: u64,
}

/// Returns an empty histogram of nanoseconds with three significant digits. Allocates its memory at once.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, NANOS_MAX, 3).expect("legal bounds")
}

/// Records a latency, clamped to the histogram's bounds.
#[inline]
pub(crate) fn record(histogram: &mut Histogram<u64>, latency: Span) {
    histogram.saturating_record(latency.as_nanos().max(1));
}

impl Latency {
    /// Summarises a histogram.
    pub fn from_histogram(histogram: &Histogram<u64>) -> Latency {
        let at = |quantile| histogram.value_at_quantile(quantile);
        if histogram.is_empty() {
            return Latency::default();
        }
        let buckets = histogram.iter_log(4, 1.25).filter(|bucket| bucket.count_since_last_iteration() > 0);
        Latency {
            count: histogram.len(),
            min_ns: Some(histogram.min()),
            p50_ns: at(0.5),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            max_ns: histogram.max(),
            histogram: buckets
                .map(|bucket| Bucket {
                    up_to_ns: bucket.value_iterated_to(),
                    count: bucket.count_since_last_iteration(),
                })
                .collect(),
        }
    }

    /// Returns the percentiles that the switch keeps of a delay.
    pub(crate) fn from_delay(delay: &weir_switch_core::report::DelayStats) -> Latency {
        Latency {
            count: delay.count,
            min_ns: None,
            p50_ns: delay.p50,
            p99_ns: delay.p99,
            p999_ns: delay.p999,
            max_ns: delay.max,
            histogram: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_and_buckets_include_all_samples() {
        let mut latencies = histogram();
        (0..990).for_each(|_| record(&mut latencies, Span::from_nanos(800)));
        (0..9).for_each(|_| record(&mut latencies, Span::from_micros(20)));
        record(&mut latencies, Span::from_millis(3));
        record(&mut latencies, Span::from_secs(100));
        let summary = Latency::from_histogram(&latencies);
        let near = |value: u64, ns: u64| value.abs_diff(ns) <= ns / 500;
        assert_eq!(summary.count, 1_001);
        assert!(
            near(summary.p50_ns, 800) && near(summary.p99_ns, 20_000) && near(summary.p999_ns, 3_000_000),
            "{summary:?}"
        );
        assert!(near(summary.max_ns, NANOS_MAX) && near(summary.min_ns.unwrap(), 800), "{summary:?}");
        assert_eq!(summary.histogram.iter().map(|bucket| bucket.count).sum::<u64>(), 1_001);
        assert_eq!(summary.histogram.iter().map(|bucket| bucket.count).collect::<Vec<_>>(), [990, 9, 1, 1]);
        assert_eq!(Latency::from_histogram(&histogram()), Latency::default());
    }
}
