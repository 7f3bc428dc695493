//! Bit rates, and transmission times at a rate.

use std::fmt;
use std::ops::Mul;

use crate::{Bytes, SerialisationRounding, Span};

/// Rate in bits per second; never zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BitRate(u64);

impl BitRate {
    /// Creates a rate of `n` bits per second.
    ///
    /// # Panics
    /// If `n` is zero.
    pub const fn bps(n: u64) -> BitRate {
        assert!(n > 0, "a rate of zero is no rate");
        BitRate(n)
    }

    /// Creates a rate of `n` megabits per second.
    pub const fn mbps(n: u64) -> BitRate {
        BitRate::bps(n * 1_000_000)
    }

    /// Creates a rate of `n` gigabits per second.
    pub const fn gbps(n: u64) -> BitRate {
        BitRate::bps(n * 1_000_000_000)
    }

    /// Bits per second.
    pub const fn as_bps(self) -> u64 {
        self.0
    }

    /// Transmission time of `size` at this rate, rounded up to a picosecond.
    pub fn time_for(self, size: Bytes) -> Span {
        let bits_ps = u128::from(size.get()) * 8 * 1_000_000_000_000;
        Span::from_picos(bits_ps.div_ceil(u128::from(self.0)) as u64)
    }

    /// Bytes transmitted at this rate in `span`, rounded down.
    pub fn bytes_in(self, span: Span) -> Bytes {
        let bits_ps = u128::from(self.0) * u128::from(span.as_picos());
        Bytes::new((bits_ps / 8 / 1_000_000_000_000) as u64)
    }

    /// Average rate of `size` in `span`, rounded down; `None` for an empty size or span.
    pub fn average(size: Bytes, span: Span) -> Option<BitRate> {
        let bits_ps = u128::from(size.get()) * 8 * 1_000_000_000_000;
        let bps = bits_ps.checked_div(u128::from(span.as_picos()))? as u64;
        (bps > 0).then_some(BitRate(bps))
    }
}

impl Mul<u64> for BitRate {
    type Output = BitRate;
    fn mul(self, factor: u64) -> BitRate {
        BitRate::bps(self.0 * factor)
    }
}

impl fmt::Debug for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for BitRate {
    /// Formats as `10Gbps`, `2.5Gbps`, `8Kbps`, with up to three decimals.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = match self.0 {
            n if n >= 1_000_000_000 => (1_000_000_000, "Gbps"),
            n if n >= 1_000_000 => (1_000_000, "Mbps"),
            n if n >= 1_000 => (1_000, "Kbps"),
            _ => (1, "bps"),
        };
        f.pad(&format!("{}{name}", crate::decimal::decimal(self.0, unit)))
    }
}

/// Serialisation delay at a rate, for the packet path: [`BitRate::time_for`] with a multiplication and a shift in place of a division.
///
/// Exact where a byte takes a whole number of picoseconds (every usual Ethernet rate). Otherwise rounded down, with an error below 2^-20 of
/// a picosecond per byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SerialisationDelay {
    /// Picoseconds per byte, times 2^20.
    ps_per_byte_q20: u64,
    rounding: SerialisationRounding,
}

impl SerialisationDelay {
    const FRACTION_BITS: u32 = 20;

    /// Creates the serialisation delay of a link. Rates are at least 1 b/s, so the factor fits 64 bits.
    pub fn new(rate: BitRate) -> SerialisationDelay {
        SerialisationDelay::timed(rate, SerialisationRounding::Exact)
    }

    /// Creates the serialisation delay with this rounding.
    pub fn timed(rate: BitRate, rounding: SerialisationRounding) -> SerialisationDelay {
        let (ps, rate) = (8_000_000_000_000u128 << Self::FRACTION_BITS, u128::from(rate.as_bps()));
        // Rounding up keeps a whole nanosecond from becoming a picosecond less before truncation.
        let scaled = if rounding == SerialisationRounding::Exact { ps / rate } else { ps.div_ceil(rate) };
        SerialisationDelay { ps_per_byte_q20: scaled as u64, rounding }
    }

    /// Rounding of the delays.
    pub fn rounding(self) -> SerialisationRounding {
        self.rounding
    }

    /// Serialisation delay of `size`.
    #[inline]
    pub fn time_for(self, size: Bytes) -> Span {
        let ps = (u128::from(size.get()) * u128::from(self.ps_per_byte_q20)) >> Self::FRACTION_BITS;
        self.rounding.round(Span::from_picos(ps as u64))
    }
}

const _: () = assert!(size_of::<Option<SerialisationDelay>>() == 16);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_is_80_ps_at_100_gbps() {
        assert_eq!(BitRate::gbps(100).time_for(Bytes::new(1)), Span::from_picos(80));
        assert_eq!(BitRate::gbps(10).time_for(Bytes::new(1_500)), Span::from_nanos(1_200));
    }

    #[test]
    fn the_three_products_agree() {
        let rate = BitRate::gbps(40);
        let size = Bytes::new(21_840);
        let span = rate.time_for(size);
        assert_eq!(rate.bytes_in(span), size);
        assert_eq!(BitRate::average(size, span), Some(rate));
    }

    #[test]
    fn serialiser_is_exact_at_ethernet_rates() {
        for rate in [BitRate::mbps(10), BitRate::gbps(1), BitRate::gbps(25), BitRate::gbps(40), BitRate::gbps(400)] {
            for size in [64, 1_518, 9_216] {
                assert_eq!(SerialisationDelay::new(rate).time_for(Bytes::new(size)), rate.time_for(Bytes::new(size)));
            }
        }
    }

    #[test]
    fn serialiser_reaches_down_to_8_kbps() {
        assert_eq!(
            SerialisationDelay::new(BitRate::bps(8_000)).time_for(Bytes::new(9_216)),
            Span::from_secs(9) + Span::from_millis(216)
        );
    }

    #[test]
    fn rates_print() {
        assert_eq!(BitRate::gbps(10).to_string(), "10Gbps");
        assert_eq!(BitRate::mbps(2_500).to_string(), "2.5Gbps");
    }
}
