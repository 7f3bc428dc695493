//! Delays of flow-control messages, as a transmitter measures them.

use hdrhistogram::Histogram;
use weir_units::Span;

use crate::counters::{Counters, gauge};

/// Delays of one kind. All memory is allocated at the start.
#[derive(Debug)]
pub(super) struct DelayHistogram {
    /// Histogram for percentiles, in nanoseconds.
    fine: Histogram<u64>,
    /// Counts by bin of [`gauge::length_of`].
    lengths: [u64; gauge::LENGTHS],
    sum_nanos: u64,
}

/// Longest delay that is resolved, in nanoseconds.
const NANOS_MAX: u64 = 60_000_000_000;

impl DelayHistogram {
    pub(super) fn new() -> DelayHistogram {
        let fine = Histogram::new_with_bounds(1, NANOS_MAX, 2).expect("legal bounds");
        DelayHistogram { fine, lengths: [0; gauge::LENGTHS], sum_nanos: 0 }
    }

    #[inline]
    pub(super) fn record(&mut self, delay: Span) {
        let nanos = delay.as_nanos().clamp(1, NANOS_MAX);
        self.fine.record(nanos).expect("within bounds");
        self.lengths[gauge::bin_of(nanos)] += 1;
        self.sum_nanos += nanos;
    }

    /// Sets the gauges from `first` on. Percentiles take microseconds, so they are only updated after new measurements.
    pub(super) fn set_gauges(&self, counters: &mut Counters, first: usize) {
        if counters.gauge(first) == self.fine.len() {
            return;
        }
        let quantiles = [0.5, 0.99, 0.999].map(|quantile| self.fine.value_at_quantile(quantile));
        let numbers = [self.fine.len()].into_iter().chain(quantiles).chain([self.fine.max(), self.sum_nanos]);
        numbers.chain(self.lengths).enumerate().for_each(|(n, number)| counters.set_gauge(first + n, number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_delay_is_in_the_length_that_holds_it() {
        let mut delays = DelayHistogram::new();
        for nanos in [0, 128, 129, 1_000, 1_000_000_000_000] {
            delays.record(Span::from_nanos(nanos));
        }
        let mut counters = Counters::lazy(1);
        delays.set_gauges(&mut counters, gauge::REACTIONS);
        let value = |n: usize| counters.gauge(gauge::REACTIONS + n);
        assert_eq!((value(gauge::COUNT), value(gauge::SUM)), (5, 1 + 128 + 129 + 1_000 + NANOS_MAX));
        let lengths: Vec<u64> = (0..gauge::LENGTHS).map(|n| value(gauge::BY_LENGTH + n)).collect();
        let mut expected = vec![0; gauge::LENGTHS];
        (expected[0], expected[1], expected[3], expected[gauge::LENGTHS - 1]) = (2, 1, 1, 1);
        assert_eq!(lengths, expected);
        assert_eq!(counters.gauge(gauge::MESSAGE_DELAYS), 0, "delays of the other kind");
    }
}
