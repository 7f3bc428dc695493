//! Pause quanta: the unit of pause times.

use weir_units::{BitRate, Span};

/// Length of a pause quantum at a port's rate: 512 bit times (IEEE 802.3 31B.2, 802.1Q clause 36).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantum {
    /// Picoseconds of 65,536 quanta: a quantum has fractions of a picosecond.
    span_q16: u64,
}

impl Quantum {
    const BITS: u128 = 512;

    /// Creates the quantum of a port of this rate.
    pub fn for_rate(rate: BitRate) -> Quantum {
        let ps_q16 = (Self::BITS * 1_000_000_000_000) << 16;
        Quantum { span_q16: (ps_q16 / u128::from(rate.as_bps())) as u64 }
    }

    pub(crate) fn to_bits(self) -> u64 {
        self.span_q16
    }

    pub(crate) fn from_bits(span_q16: u64) -> Quantum {
        Quantum { span_q16 }
    }

    /// Returns the time of `n` quanta, rounded down to a picosecond.
    #[inline]
    pub fn times(self, n: u16) -> Span {
        Span::from_picos(((u128::from(self.span_q16) * u128::from(n)) >> 16) as u64)
    }

    /// Returns the whole quanta in `span`; at most 65,535, the longest pause.
    pub fn in_span(self, span: Span) -> u16 {
        let quanta = (u128::from(span.as_picos()) << 16) / u128::from(self.span_q16);
        u16::try_from(quanta).unwrap_or(u16::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantum_is_512_bit_times() {
        assert_eq!(Quantum::for_rate(BitRate::gbps(10)).times(1), Span::from_picos(51_200));
        assert_eq!(Quantum::for_rate(BitRate::gbps(10)).times(u16::MAX), Span::from_picos(51_200 * 65_535));
        assert_eq!(Quantum::for_rate(BitRate::gbps(100)).times(1), Span::from_picos(5_120));
        assert_eq!(Quantum::for_rate(BitRate::gbps(400)).times(2), Span::from_picos(2_560));
        assert_eq!(Quantum::for_rate(BitRate::mbps(10)).times(u16::MAX), Span::from_picos(51_200_000 * 65_535));
    }

    #[test]
    fn a_span_has_its_complete_quanta() {
        let quantum = Quantum::for_rate(BitRate::gbps(10));
        assert_eq!(quantum.in_span(Span::from_picos(51_199)), 0);
        assert_eq!(quantum.in_span(quantum.times(977)), 977);
        assert_eq!(quantum.in_span(Span::from_secs(1)), u16::MAX);
    }
}
