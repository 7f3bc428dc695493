//! Retransmission timeout (RFC 6298).

use weir_units::Span;

use super::TcpConfig;

/// Estimator of the retransmission timeout, in picoseconds, with α = 1/8 and β = 1/4 for each measurement.
#[derive(Debug)]
pub(super) struct RtoEstimator {
    /// SRTT and RTTVAR, after the first measurement.
    smoothed: Option<(Span, Span)>,
    /// RTO without doublings.
    rto: Span,
    /// Number of doublings of the RTO since the last measurement.
    doublings: u32,
    min: Span,
    max: Span,
    granularity: Span,
}

impl RtoEstimator {
    pub(super) fn new(config: &TcpConfig) -> RtoEstimator {
        RtoEstimator {
            smoothed: None,
            rto: config.initial_rto,
            doublings: 0,
            min: config.rto_min,
            max: config.rto_max,
            granularity: config.granularity,
        }
    }

    /// Records a round trip (2.2, 2.3). Timestamps distinguish originals from retransmissions, so both are valid.
    pub(super) fn record_rtt(&mut self, rtt: Span) {
        let (srtt, rttvar) = match self.smoothed {
            None => (rtt, rtt.divided_by(2)),
            Some((srtt, rttvar)) => {
                let off = srtt.max(rtt) - srtt.min(rtt);
                let rttvar = rttvar - rttvar.divided_by(4) + off.divided_by(4);
                (srtt - srtt.divided_by(8) + rtt.divided_by(8), rttvar)
            }
        };
        self.smoothed = Some((srtt, rttvar));
        self.rto = (srtt + self.granularity.max(rttvar * 4)).max(self.min).min(self.max);
        self.doublings = 0;
    }

    /// Doubles the RTO after a timeout (5.5).
    pub(super) fn back_off(&mut self) {
        self.doublings += 1;
    }

    /// Returns the retransmission timeout with its doublings, at most the configured maximum.
    pub(super) fn timeout(&self) -> Span {
        let factor = 1u64.checked_shl(self.doublings).unwrap_or(u64::MAX);
        Span::from_picos(self.rto.as_picos().saturating_mul(factor)).min(self.max)
    }

    /// Returns SRTT; `None` before the first measurement.
    pub(super) fn smoothed_rtt(&self) -> Option<Span> {
        self.smoothed.map(|(srtt, _)| srtt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::TcpCongestionChoice;

    fn ms(ms: u64) -> Span {
        Span::from_millis(ms)
    }

    #[test]
    fn the_timeout_by_hand() {
        let mut rto = RtoEstimator::new(&TcpConfig { rto_min: ms(1), ..TcpConfig::linux(TcpCongestionChoice::reno()) });
        assert_eq!((rto.timeout(), rto.smoothed_rtt()), (ms(1_000), None));
        // SRTT = 100, RTTVAR = 50.
        rto.record_rtt(ms(100));
        assert_eq!((rto.timeout(), rto.smoothed_rtt()), (ms(300), Some(ms(100))));
        // RTTVAR = 3/4 50 + 1/4 20 = 42.5, SRTT = 7/8 100 + 1/8 120 = 102.5.
        rto.record_rtt(ms(120));
        assert_eq!((rto.timeout(), rto.smoothed_rtt()), (Span::from_micros(272_500), Some(Span::from_micros(102_500))));
        // |102.5 - 62.5| = 40: RTTVAR = 31.875 + 10 = 41.875, SRTT = 97.5.
        rto.record_rtt(Span::from_micros(62_500));
        assert_eq!((rto.timeout(), rto.smoothed_rtt()), (ms(265), Some(Span::from_micros(97_500))));
        // A steady round trip leaves the granularity.
        (0..200).for_each(|_| rto.record_rtt(ms(80)));
        assert_eq!(rto.timeout().as_micros(), 81_000);
    }

    #[test]
    fn it_doubles_within_its_bounds_until_a_measurement() {
        let mut rto = RtoEstimator::new(&TcpConfig::linux(TcpCongestionChoice::reno()));
        rto.record_rtt(ms(1));
        let mut timeouts = Vec::new();
        for _ in 0..12 {
            timeouts.push(rto.timeout().as_picos() / ms(1).as_picos());
            rto.back_off();
        }
        assert_eq!(timeouts, [200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 51_200, 102_400, 120_000, 120_000]);
        (0..100).for_each(|_| rto.back_off());
        assert_eq!(rto.timeout(), ms(120_000));
        rto.record_rtt(ms(1));
        assert_eq!(rto.timeout(), ms(200));
    }
}
