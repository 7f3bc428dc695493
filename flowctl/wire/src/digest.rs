//! Digest of a path's utilisation: two bytes, instead of a stamp per hop (PINT, Ben Basat et al., SIGCOMM 2020).
//!
//! A switch computes the utilisation U of a frame's egress port, and writes its code if that is larger than the frame's code. The frame
//! arrives with the busiest hop's code. A code is the logarithm of 512 U to a base that both ends know, rounded up or down at random so
//! that the mean of many codes is unbiased.

use weir_units::Span;

/// Digest in a frame, which its acknowledgement returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(u16);

/// Parameters on which switches and senders have to agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DigestConfig {
    /// Averaging time T of the switches: a round trip without queues.
    pub round_trip: Span,
    /// Base of the logarithm, in parts per million.
    pub log_base_ppm: u32,
}

/// Encoder of utilisations for one base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DigestCode {
    /// Powers of the base in units of 2^-24, from the first up to the last that does not exceed [`LARGEST`].
    powers: Box<[u64]>,
}

/// Fractional bits of a utilisation in fixed point.
pub const UTILISATION_BITS: u32 = 32;
/// Range of the base, in parts per million.
pub const LOG_BASES_PPM: std::ops::RangeInclusive<u32> = 1_001_000..=2_000_000;

/// Inverse of the smallest utilisation with a code of its own.
const SCALE: u64 = 1 << SCALE_BITS;
const SCALE_BITS: u32 = 9;
/// Value 512 U of the largest utilisation, 512.
const LARGEST: u64 = SCALE << SCALE_BITS;
const POWER_BITS: u32 = 24;

impl Digest {
    /// Digest of a frame that collects none.
    pub const NONE: Digest = Digest(u16::MAX);
    /// Digest of a frame that no switch has seen.
    pub const LEAST: Digest = Digest(0);

    /// Returns whether switches write the digest.
    #[inline]
    pub fn collects(self) -> bool {
        self != Digest::NONE
    }

    /// Raises the digest to a switch's code, if that is larger.
    #[inline]
    pub fn raise(&mut self, code: u16) {
        self.0 = self.0.max(code.min(u16::MAX - 1));
    }

    /// Returns the busiest hop's code; `None` if none is collected.
    #[inline]
    pub fn code(self) -> Option<u16> {
        self.collects().then_some(self.0)
    }
}

impl DigestCode {
    /// Returns the codes to a base in [`LOG_BASES_PPM`].
    pub fn new(log_base_ppm: u32) -> DigestCode {
        let range = LOG_BASES_PPM;
        let base = f64::from(log_base_ppm.clamp(*range.start(), *range.end())) / 1e6;
        let powers =
            std::iter::successors(Some(1.0), |power| Some(power * base).filter(|power| *power <= LARGEST as f64));
        DigestCode { powers: powers.map(|power| (power * f64::from(1u32 << POWER_BITS)) as u64).collect() }
    }

    /// Encodes a utilisation in units of 2^-32: 512 U is rounded up to an integer, which lies between two powers, of which `random` chooses
    /// one. A utilisation above the largest gets its code.
    #[inline]
    pub fn encode(&self, utilisation: u64, random: u32) -> u16 {
        let integer = (utilisation >> (UTILISATION_BITS - SCALE_BITS)).min(LARGEST);
        let has_rest = utilisation & ((1 << (UTILISATION_BITS - SCALE_BITS)) - 1) != 0;
        let value = (integer + u64::from(has_rest)).clamp(1, LARGEST) << POWER_BITS;
        let above = self.powers.partition_point(|power| *power <= value);
        let Some(upper) = self.powers.get(above) else { return (self.powers.len() - 1) as u16 };
        let lower = self.powers[above - 1];
        // 16 random bits, as fine as the step from one code to the next needs.
        let draw = u64::from(random >> 16);
        let is_upper = draw * (upper - lower) < (value - lower) << 16;
        (above - usize::from(!is_upper)) as u16
    }

    /// Returns the utilisation of a code.
    #[inline]
    pub fn decode(&self, code: u16) -> f64 {
        let power = self.powers[usize::from(code).min(self.powers.len() - 1)];
        power as f64 / f64::from(1u32 << POWER_BITS) / SCALE as f64
    }

    /// Returns the number of codes.
    pub fn codes(&self) -> usize {
        self.powers.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: u64 = 1 << UTILISATION_BITS;

    #[test]
    fn codes_are_logarithms_of_512_u() {
        let code = DigestCode::new(2_000_000);
        // 2^18 = 512 · 512: codes 0 to 18.
        assert_eq!(code.codes(), 19);
        for random in [0, u32::MAX] {
            assert_eq!(code.encode(ONE, random), 9);
            assert_eq!(code.encode(ONE / 512, random), 0);
            assert_eq!(code.encode(0, random), 0, "as the least");
            assert_eq!(code.encode(4 * ONE, random), 11);
            assert_eq!(code.encode(u64::MAX, random), 18, "as the largest");
        }
        // 512 · 1.25 = 640 is a quarter of the way from 512 to 1,024.
        let quarter = |part: u32| code.encode(ONE / 4 * 5, part << 16);
        assert_eq!([quarter(0), quarter(16_383), quarter(16_384), quarter(65_535)], [10, 10, 9, 9]);
        assert_eq!([0, 9, 10, 18, 400].map(|n| code.decode(n)), [1.0 / 512.0, 1.0, 2.0, 512.0, 512.0]);
    }

    /// Code widths that the public simulator prints: 8 bits for a base of 1.05, 11 for 1.01.
    #[test]
    fn codes_fit_as_many_bits_as_in_the_simulator() {
        for (ppm, bits) in [(1_050_000, 8), (1_010_000, 11), (1_001_000, 14)] {
            let codes = DigestCode::new(ppm).codes();
            // ln(2^18) / ln(base), rounded down, is the last code.
            let last = (f64::ln(262_144.0) / f64::ln(f64::from(ppm) / 1e6)).floor() as usize;
            assert_eq!((codes, usize::BITS - (codes - 1).leading_zeros()), (last + 1, bits), "{ppm}");
        }
    }

    #[test]
    fn the_mean_of_many_is_right() {
        let code = DigestCode::new(1_050_000);
        for permille in [3, 77, 400, 950, 1_000, 1_313, 7_000] {
            let utilisation = ONE / 1_000 * permille;
            let draws = 4_096u32;
            let codes = (0..draws).map(|n| code.decode(code.encode(utilisation, n * (u32::MAX / draws))));
            let mean = codes.sum::<f64>() / f64::from(draws);
            // The code is 512 U, rounded up.
            let expected = (0.512 * permille as f64).ceil() / 512.0;
            assert!((mean / expected - 1.0).abs() < 1e-3, "{permille}: {mean} is not {expected}");
        }
    }

    #[test]
    fn a_frame_keeps_the_largest() {
        let mut digest = Digest::LEAST;
        [3, 9, 4].into_iter().for_each(|code| digest.raise(code));
        assert_eq!((digest.code(), Digest::NONE.code(), Digest::NONE.collects()), (Some(9), None, false));
        digest.raise(u16::MAX);
        assert!(digest.collects(), "no code is none");
    }
}
