//! Factor α of dynamic thresholds.

use std::fmt;
use std::str::FromStr;

use crate::{Bytes, UnitError};

/// Control parameter α of a dynamic threshold, `T = α · (free buffer)`; never zero.
///
/// Fixed point with 16 fractional bits, so that the packet path needs no float. Every power of two from 2^-16 to 2^14 is exact, which
/// covers the range of switch chips (2^-8 to 2^7).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Alpha(u32);

/// Reason why a number is no valid α.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlphaError {
    /// Zero, negative, or so small that it rounds to zero.
    TooSmall,
    /// Number above 16,384.
    TooLarge,
}

impl Alpha {
    const FRACTION_BITS: u32 = 16;
    const MAX: u32 = 1 << 30;

    /// Value 1.
    pub const ONE: Alpha = Alpha(1 << Self::FRACTION_BITS);

    /// Creates `numerator / denominator`, rounded to the nearest 2^-16.
    pub fn ratio(numerator: u32, denominator: u32) -> Result<Alpha, AlphaError> {
        if denominator == 0 {
            return Err(AlphaError::TooLarge);
        }
        let scaled = (u64::from(numerator) << (Self::FRACTION_BITS + 1)).div_euclid(u64::from(denominator)).div_ceil(2);
        match u32::try_from(scaled) {
            Ok(0) => Err(AlphaError::TooSmall),
            Ok(raw) if raw <= Self::MAX => Ok(Alpha(raw)),
            _ => Err(AlphaError::TooLarge),
        }
    }

    /// Nearest α to a number from a configuration file.
    pub fn from_f64(value: f64) -> Result<Alpha, AlphaError> {
        let scaled = (value * f64::from(1 << Self::FRACTION_BITS)).round();
        if scaled.is_nan() || scaled < 1.0 {
            Err(AlphaError::TooSmall)
        } else if scaled > f64::from(Self::MAX) {
            Err(AlphaError::TooLarge)
        } else {
            Ok(Alpha(scaled as u32))
        }
    }

    /// Raw value in units of 2^-16, for storage in one word; [`Alpha::from_bits`] is the inverse.
    pub const fn to_bits(self) -> u32 {
        self.0
    }

    /// Creates an α from [`Alpha::to_bits`].
    ///
    /// # Panics
    /// In debug builds, if the bits are no valid α.
    #[inline]
    pub const fn from_bits(bits: u32) -> Alpha {
        debug_assert!(bits > 0 && bits <= Self::MAX);
        Alpha(bits)
    }

    /// Multiplies a size by α, rounded down. Sizes up to 16 GiB do not overflow.
    pub const fn scale(self, size: Bytes) -> Bytes {
        Bytes::new((size.get() * self.0 as u64) >> Self::FRACTION_BITS)
    }

    /// Value as a float, for reports and closed forms.
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / f64::from(1 << Self::FRACTION_BITS)
    }
}

impl FromStr for Alpha {
    type Err = UnitError;

    /// Parses `2`, `0.5` or `1/16`.
    fn from_str(text: &str) -> Result<Alpha, UnitError> {
        let wrong = || UnitError::new(text, "a factor α above 0 and at most 16384", "1/16");
        let alpha = match text.split_once('/') {
            Some((n, d)) => {
                let (n, d) = (n.trim().parse().map_err(|_| wrong())?, d.trim().parse().map_err(|_| wrong())?);
                Alpha::ratio(n, d)
            }
            None => Alpha::from_f64(text.trim().parse().map_err(|_| wrong())?),
        };
        alpha.map_err(|_| wrong())
    }
}

impl fmt::Display for Alpha {
    /// Formats as `2`, as `1/16` for the inverse of a whole number, otherwise as a decimal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = 1 << Self::FRACTION_BITS;
        if self.0.is_multiple_of(one) {
            f.pad(&(self.0 / one).to_string())
        } else if one % self.0 == 0 {
            f.pad(&format!("1/{}", one / self.0))
        } else {
            f.pad(&format!("{:.4}", self.as_f64()))
        }
    }
}

impl fmt::Debug for Alpha {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_two_are_exact() {
        assert_eq!(Alpha::ratio(1, 16).unwrap().scale(Bytes::mb(16)), Bytes::mb(1));
        assert_eq!("2".parse::<Alpha>().unwrap().scale(Bytes::mb(3)), Bytes::mb(6));
        assert_eq!(Alpha::from_f64(0.125).unwrap(), Alpha::ratio(1, 8).unwrap());
    }

    #[test]
    fn zero_and_nonsense_are_refused() {
        for text in ["0", "-1", "0/5", "1/0", "NaN", "x", "1e9", ""] {
            assert!(text.parse::<Alpha>().is_err(), "{text}");
        }
    }

    #[test]
    fn prints_as_it_is_written() {
        for text in ["2", "1/16", "1"] {
            assert_eq!(text.parse::<Alpha>().unwrap().to_string(), text);
        }
    }
}
