//! Utilisation of a port, for the digests of frames that leave by it: U of HPCC averaged over a round trip in the switch (PINT, SIGCOMM
//! 2020, and HPCC-PINT of HPCC's public simulator).
//!
//! U is the ratio of the bytes in flight on the link to its capacity over a round trip T: queue over B·T, plus sending rate over B. Between
//! two frames, dt apart, the port sent the former one; dt / T is the average's weight:
//!
//! U ← queue / (B·T) · dt / T + bytes / (B·T) + (1 − dt / T) · U, with dt no more than T.

use weir_units::{BitRate, Bytes, Span, Time};
use weir_wire::digest::{DigestCode, DigestConfig, UTILISATION_BITS};

/// Encoder of utilisations, shared by all ports of a switch.
#[derive(Debug)]
pub(crate) struct DigestEncoder {
    round_trip: Span,
    code: DigestCode,
}

/// Average utilisation of a port.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Utilisation {
    /// U in units of 2^-32.
    average: u64,
    /// Last frame that left: its instant, and its bytes on the wire.
    last: Option<(Time, Bytes)>,
}

/// Bits in a byte times picoseconds in a second.
const BIT_PS: u128 = 8_000_000_000_000;

impl DigestEncoder {
    pub(crate) fn new(config: DigestConfig) -> DigestEncoder {
        let round_trip = config.round_trip.max(Span::from_picos(1));
        DigestEncoder { round_trip, code: DigestCode::new(config.log_base_ppm) }
    }

    /// Returns the code of a port's utilisation when a frame leaves it at `now`, with `left` bytes in its queue; `random` rounds it.
    #[inline(never)]
    pub(crate) fn code(
        &self,
        port: &mut Utilisation,
        now: Time,
        left: Bytes,
        rate: BitRate,
        random: impl FnOnce() -> u32,
    ) -> u16 {
        port.update(now, left, rate, self.round_trip);
        self.code.encode(port.average, random())
    }
}

impl Utilisation {
    /// Records a frame that has left, with its bytes on the wire.
    #[inline]
    pub(crate) fn record_sent(&mut self, now: Time, wire: Bytes) {
        self.last = Some((now, wire));
    }

    fn update(&mut self, now: Time, left: Bytes, rate: BitRate, round_trip: Span) {
        let t = u128::from(round_trip.as_picos());
        let carried = u128::from(rate.as_bps()) * t;
        // Fraction of the link's capacity in T.
        let part = |bytes: Bytes| ((u128::from(bytes.get()) * BIT_PS) << UTILISATION_BITS) / carried.max(1);
        let (dt, bytes) = match self.last {
            Some((at, wire)) => (u128::from(now.since(at).min(round_trip).as_picos()), wire),
            None => (t, Bytes::ZERO),
        };
        let average = (part(left) * dt + u128::from(self.average) * (t - dt)) / t + part(bytes);
        self.average = u64::try_from(average).unwrap_or(u64::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 Gb/s and 10 us: 125,000 B.
    const RATE: BitRate = BitRate::gbps(100);
    const T: Span = Span::from_micros(10);

    fn nanos(ns: u64) -> Time {
        Time::from_nanos(ns)
    }

    /// Computes U for frames of 1,250 B that leave at these instants with these bytes behind them.
    fn after(frames: &[(u64, u64)]) -> f64 {
        let mut port = Utilisation::default();
        for (ns, left) in frames {
            port.update(nanos(*ns), Bytes::new(*left), RATE, T);
            port.record_sent(nanos(*ns), Bytes::new(1_250));
        }
        port.average as f64 / 2f64.powi(32)
    }

    fn near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-7, "{value} is not {expected}");
    }

    #[test]
    fn u_by_hand() {
        near(after(&[(0, 0)]), 0.0);
        // A frame is 1 % of B·T; back to back, 100 ns apart, dt is 1 % of T.
        near(after(&[(0, 0), (100, 0)]), 0.01);
        near(after(&[(0, 0), (100, 0), (200, 0)]), 0.01 + 0.99 * 0.01);
        // 62,500 B of queue are half of B·T, for 1 % of T.
        near(after(&[(0, 0), (100, 62_500)]), 0.01 + 0.005);
        // A gap above T counts as T: the old average is gone, and the frame's bytes count once.
        near(after(&[(0, 0), (100, 62_500), (50_000, 25_000)]), 0.2 + 0.01);
        // The first frame counts the present queue.
        near(after(&[(0, 25_000)]), 0.2);
    }

    #[test]
    fn a_busy_link_has_1_and_its_queue() {
        let frames = |gap: u64, left: u64| after(&(0..3_000).map(|n| (n * gap, left)).collect::<Vec<_>>());
        near(frames(100, 0), 1.0);
        near(frames(100, 25_000), 1.2);
        near(frames(200, 0), 0.5);
    }

    #[test]
    fn nothing_overflows() {
        let mut port = Utilisation::default();
        for (rate, round_trip) in [(BitRate::bps(1), Span::from_picos(1)), (BitRate::bps(u64::MAX), Span::from_secs(1))]
        {
            port.update(Time::NEVER, Bytes::new(1 << 40), rate, round_trip);
            port.record_sent(Time::ZERO, Bytes::new(1 << 20));
            port.update(Time::NEVER, Bytes::new(1 << 40), rate, round_trip);
        }
        let digester = DigestEncoder::new(DigestConfig { round_trip: Span::ZERO, log_base_ppm: 0 });
        assert!(digester.code(&mut port, Time::NEVER, Bytes::ZERO, BitRate::gbps(1), || 0) < u16::MAX);
    }
}
