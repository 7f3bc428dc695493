//! Rounding of frame times at a rate.

use crate::Span;

/// Rounding of frame times: exact, or as in the public ns-3 simulators of RDMA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SerialisationRounding {
    /// Picosecond resolution.
    #[default]
    Exact,
    /// Nanosecond resolution, rounded down: 83.84 ns become 83. As in inet-tub's simulator.
    Nanoseconds,
    /// Rounding of HPCC's and ConWeave's simulators: to nanoseconds from a binary fraction of a second, truncated before the multiplication
    /// by 10^9. So 100 ns become 99; nearly every whole number of nanoseconds loses one.
    Ns3,
}

impl SerialisationRounding {
    /// Rounds a frame's time, which must be exact or rounded up to a picosecond.
    #[inline]
    pub const fn round(self, time: Span) -> Span {
        match self {
            SerialisationRounding::Exact => time,
            _ => self.cut(time),
        }
    }

    /// Separate, so that exact times cost a comparison.
    #[cold]
    #[inline(never)]
    const fn cut(self, time: Span) -> Span {
        let ns = time.as_picos() / 1_000;
        let is_integer = time.as_picos() == ns * 1_000;
        let is_less = matches!(self, SerialisationRounding::Ns3) && is_integer && is_cut_short(ns);
        Span::from_nanos(ns - is_less as u64)
    }
}

/// Whether a whole number of nanoseconds decreases when written as a fraction of 2^64 and rounded to the 53 bits of a double. Rounding up
/// to the double prevents it.
const fn is_cut_short(ns: u64) -> bool {
    const SECOND: u128 = 1_000_000_000;
    let (integer, rest) = (((ns as u128) << 64) / SECOND, ((ns as u128) << 64) % SECOND);
    let bits = u128::BITS - integer.leading_zeros();
    let rounds_up = bits > 53 || (SECOND - rest) << (54 - bits) <= SECOND;
    rest > 0 && !rounds_up
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BitRate, Bytes, SerialisationDelay};

    /// Frame time as the simulators compute it: a double of seconds, its fraction in units of 2^-64, times 10^9, truncated.
    fn as_in_ns3(bytes: u64, rate: BitRate) -> u64 {
        let seconds = bytes as f64 * 8.0 / rate.as_bps() as f64;
        let fraction = (seconds * 2f64.powi(64)) as u128;
        ((fraction * 1_000_000_000) >> 64) as u64
    }

    #[test]
    fn frames_take_what_they_take_there() {
        let by_hand =
            [(1_048, 100, 83), (1_048, 400, 20), (60, 100, 4), (1_250, 100, 99), (1_250, 10, 999), (1_500, 1, 11_999)];
        for (bytes, gbps, ns) in by_hand {
            let rate = BitRate::gbps(gbps);
            assert_eq!(as_in_ns3(bytes, rate), ns, "{bytes} B at {rate}");
            assert_eq!(
                SerialisationRounding::Ns3.round(rate.time_for(Bytes::new(bytes))),
                Span::from_nanos(ns),
                "{bytes} B at {rate}"
            );
        }
        for rate in [1, 10, 25, 40, 50, 100, 200, 400].map(BitRate::gbps) {
            for bytes in 43..=1_600 {
                let expected = Span::from_nanos(as_in_ns3(bytes, rate));
                let size = Bytes::new(bytes);
                assert_eq!(SerialisationRounding::Ns3.round(rate.time_for(size)), expected, "{bytes} B at {rate}");
                assert_eq!(
                    SerialisationDelay::timed(rate, SerialisationRounding::Ns3).time_for(size),
                    expected,
                    "{bytes} B at {rate}"
                );
            }
        }
        // Rates of congestion control, with a fractional number of picoseconds per byte.
        for bps in (1_000_000_000..100_000_000_000u64).step_by(987_654_321) {
            let rate = BitRate::bps(bps);
            let expected = Span::from_nanos(as_in_ns3(1_048, rate));
            assert_eq!(SerialisationRounding::Ns3.round(rate.time_for(Bytes::new(1_048))), expected, "{rate}");
            let integer = Span::from_nanos(1_048 * 8 * 1_000_000_000 / bps);
            assert_eq!(SerialisationRounding::Nanoseconds.round(rate.time_for(Bytes::new(1_048))), integer, "{rate}");
            assert_eq!(
                SerialisationDelay::timed(rate, SerialisationRounding::Nanoseconds).time_for(Bytes::new(1_048)),
                integer,
                "{rate}"
            );
        }
        for ns in 1..100_000u64 {
            let fraction = (ns as f64 / 1e9 * 2f64.powi(64)) as u128;
            let expected = Span::from_nanos(((fraction * 1_000_000_000) >> 64) as u64);
            assert_eq!(SerialisationRounding::Ns3.round(Span::from_nanos(ns)), expected, "{ns} ns");
        }
        assert_eq!(
            SerialisationRounding::Ns3.round(Span::from_nanos(4_104)),
            Span::from_nanos(4_104),
            "of 513 B at 1 Gb/s"
        );
        assert_eq!(SerialisationRounding::Ns3.round(Span::ZERO), Span::ZERO);
        for (bytes, mbps, ns) in
            [(1_048, 25_000, 335), (1_250, 100_000, 100), (1_500, 30_000, 400), (1_048, 30_000, 279)]
        {
            let (rate, size) = (BitRate::bps(mbps * 1_000_000), Bytes::new(bytes));
            assert_eq!(
                SerialisationRounding::Nanoseconds.round(rate.time_for(size)),
                Span::from_nanos(ns),
                "{bytes} B at {rate}"
            );
            assert_eq!(
                SerialisationDelay::timed(rate, SerialisationRounding::Nanoseconds).time_for(size),
                Span::from_nanos(ns),
                "{bytes} B"
            );
        }
        assert_eq!(SerialisationRounding::default().round(Span::from_picos(83_840)), Span::from_picos(83_840));
    }
}
