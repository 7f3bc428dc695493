//! Histogram of durations.

use std::fmt;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use crate::state::{Delay, GapBucket};

/// Histogram of durations.
#[derive(Debug)]
pub(super) struct LengthHistogram {
    sum: f64,
    count: u64,
    /// Upper bounds in seconds, constant over time, and the count in each.
    buckets: Vec<(f64, u64)>,
}

impl LengthHistogram {
    pub(super) fn of_delay(delay: &Delay) -> LengthHistogram {
        let bound = |up_to_ns: Option<u64>| up_to_ns.map_or(f64::INFINITY, |ns| ns as f64 / 1e9);
        let buckets = delay.lengths.iter().map(|of| (bound(of.up_to_ns), of.messages)).collect();
        LengthHistogram { sum: delay.sum_ns as f64 / 1e9, count: delay.count, buckets }
    }

    /// Converts gaps as lcores count them into a bucket for each doubling.
    pub(super) fn of_gaps(gaps: &[GapBucket]) -> LengthHistogram {
        let bound = |n: usize| 128u64 << n;
        let mut buckets: Vec<(f64, u64)> = (0..GAP_BUCKETS).map(|n| (bound(n) as f64 / 1e9, 0)).collect();
        buckets.push((f64::INFINITY, 0));
        let (mut sum, mut count) = (0.0, 0);
        for gap in gaps {
            let place = (0..GAP_BUCKETS).find(|n| gap.up_to_ns <= bound(*n)).unwrap_or(GAP_BUCKETS);
            buckets[place].1 += gap.polls;
            count += gap.polls;
            sum += gap.up_to_ns as f64 / 1e9 * gap.polls as f64;
        }
        LengthHistogram { sum, count, buckets }
    }
}

impl EncodeMetric for LengthHistogram {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        encoder.encode_histogram::<NoLabelSet>(self.sum, self.count, &self.buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

/// Number of gap buckets, from 128 ns to 8.6 s.
const GAP_BUCKETS: usize = 27;
