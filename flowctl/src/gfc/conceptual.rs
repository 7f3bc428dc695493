//! Linear mapping of queue length to rate, for conceptual and time-based GFC (gfc 4.1, 5.2).

use weir_units::{BitRate, Bytes, Span};

use super::{ThresholdError, conceptual_b0_max, time_based_b0_max};
use crate::RATE_MIN;

/// Mapping `R(q) = C` up to B_0 and `C·(B_m − q)/(B_m − B_0)` above, never below [`RATE_MIN`].
///
/// In conceptual GFC the downstream port advertises q continuously; [`length`](super::length) approximates that. Evaluated once
/// a message, so a division is affordable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateMapping {
    b_m: Bytes,
    b_0: Bytes,
    line: BitRate,
}

impl RateMapping {
    /// Creates the mapping for continuous feedback with a delay of τ.
    ///
    /// # Errors
    /// [`ThresholdError::NotBelowBuffer`], or [`ThresholdError::Theorem41`] if B_0 leaves less than 4Cτ free.
    pub fn conceptual(b_m: Bytes, b_0: Bytes, line: BitRate, tau: Span) -> Result<RateMapping, ThresholdError> {
        let highest = conceptual_b0_max(b_m, line, tau);
        if highest.is_none_or(|highest| b_0 > highest) {
            return Err(ThresholdError::Theorem41 { highest });
        }
        RateMapping::without_guarantee(b_m, b_0, line)
    }

    /// Creates the mapping for messages every `period` (T) that take effect after τ.
    ///
    /// # Errors
    /// [`ThresholdError::NotBelowBuffer`], or [`ThresholdError::Theorem51`] if B_0 is too high for τ and T.
    pub fn time_based(
        b_m: Bytes,
        b_0: Bytes,
        line: BitRate,
        tau: Span,
        period: Span,
    ) -> Result<RateMapping, ThresholdError> {
        let highest = time_based_b0_max(b_m, line, tau, period);
        if highest.is_none_or(|highest| b_0 > highest) {
            return Err(ThresholdError::Theorem51 { highest });
        }
        RateMapping::without_guarantee(b_m, b_0, line)
    }

    /// Creates the mapping for any B_0 below B_m, for experiments: the buffer may overflow.
    ///
    /// # Errors
    /// [`ThresholdError::NotBelowBuffer`].
    pub fn without_guarantee(b_m: Bytes, b_0: Bytes, line: BitRate) -> Result<RateMapping, ThresholdError> {
        if b_0 < b_m { Ok(RateMapping { b_m, b_0, line }) } else { Err(ThresholdError::NotBelowBuffer) }
    }

    /// Returns R(q), rounded down to a bit per second.
    pub fn rate(&self, queue: Bytes) -> BitRate {
        if queue <= self.b_0 {
            return self.line;
        }
        let (left, range) = (self.b_m.saturating_sub(queue).get(), (self.b_m - self.b_0).get());
        let bps = u128::from(self.line.as_bps()) * u128::from(left) / u128::from(range);
        BitRate::bps((bps as u64).max(RATE_MIN.as_bps()))
    }

    /// Returns the queue length that a rate corresponds to: R's inverse, B_0 for the line rate and above.
    pub fn queue(&self, rate: BitRate) -> Bytes {
        let (rate, range) = (rate.min(self.line).as_bps(), (self.b_m - self.b_0).get());
        let left = u128::from(rate) * u128::from(range) / u128::from(self.line.as_bps());
        self.b_m - Bytes::new(left as u64)
    }

    /// Returns C, the rate of a queue up to B_0.
    pub fn line(&self) -> BitRate {
        self.line
    }

    /// Returns B_0.
    pub fn b_0(&self) -> Bytes {
        self.b_0
    }

    /// Returns B_m.
    pub fn b_m(&self) -> Bytes {
        self.b_m
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: BitRate = BitRate::gbps(10);

    /// Example of gfc 4.1: 100 KB, B_0 = 50 KB; half the rate at B_s = 75 KB.
    #[test]
    fn the_papers_example() {
        let mapping = RateMapping::without_guarantee(Bytes::kb(100), Bytes::kb(50), LINE).unwrap();
        let rates = [0, 50, 75, 90].map(|kb| mapping.rate(Bytes::kb(kb)).as_bps() / 1_000_000);
        assert_eq!(rates, [10_000, 10_000, 5_000, 2_000]);
        assert_eq!(mapping.rate(Bytes::kb(100)), RATE_MIN);
        assert_eq!(mapping.rate(Bytes::mb(100)), RATE_MIN);
        let queues = [20_000, 10_000, 5_000, 2_000].map(|mbps| mapping.queue(BitRate::mbps(mbps)));
        assert_eq!(queues, [50, 50, 75, 90].map(Bytes::kb));
    }

    /// Testbed of gfc 6.1.1: half the rate at B_m − (B_m − B_0)/2 = 746 KB.
    #[test]
    fn the_papers_testbed() {
        let (tau, period) = (Span::from_micros(90), Span::from_nanos(52_428));
        let mapping = RateMapping::time_based(Bytes::mb(1), Bytes::kb(492), LINE, tau, period).unwrap();
        assert_eq!(mapping.rate(Bytes::kb(746)), BitRate::gbps(5));
    }

    #[test]
    fn b_0_that_breaks_a_theorem_is_refused_with_the_bound() {
        let (b_m, tau) = (Bytes::mb(1), Span::from_micros(90));
        let highest = Some(Bytes::kb(550));
        assert!(RateMapping::conceptual(b_m, Bytes::kb(550), LINE, tau).is_ok());
        let high = RateMapping::conceptual(b_m, Bytes::new(550_001), LINE, tau);
        assert_eq!(high, Err(ThresholdError::Theorem41 { highest }));
        let small = RateMapping::conceptual(Bytes::kb(100), Bytes::kb(50), LINE, Span::from_micros(25));
        assert_eq!(small, Err(ThresholdError::Theorem41 { highest: None }));
        let high = RateMapping::time_based(b_m, Bytes::kb(651), LINE, tau, Span::from_nanos(52_428));
        assert!(matches!(high, Err(ThresholdError::Theorem51 { highest: Some(_) })));
        assert_eq!(RateMapping::without_guarantee(b_m, b_m, LINE), Err(ThresholdError::NotBelowBuffer));
    }
}
