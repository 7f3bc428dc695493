//! Sizes in bytes.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Sub, SubAssign};

/// Overhead of a frame on the wire beyond its bytes with FCS: 7 B preamble, 1 B start delimiter, 12 B inter-packet gap (IEEE 802.3 clause
/// 4.4.2).
pub const WIRE_OVERHEAD_BYTES: u64 = 20;
/// Length of the frame check sequence, which the wire and the papers count and DPDK's frame lengths do not.
pub const FCS_BYTES: u64 = 4;
/// Overhead of a frame on the link beyond its bytes without FCS: FCS, preamble, start delimiter, and gap.
pub const LINK_OVERHEAD: Bytes = Bytes(FCS_BYTES + WIRE_OVERHEAD_BYTES);
/// Minimum length of an Ethernet frame, with FCS.
pub const FRAME_BYTES_MIN: u64 = 64;

/// Number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(u64);

impl Bytes {
    /// Zero bytes.
    pub const ZERO: Bytes = Bytes(0);

    /// `n` bytes.
    pub const fn new(n: u64) -> Bytes {
        Bytes(n)
    }

    /// `n` KB of 1000 B, as the papers count.
    pub const fn kb(n: u64) -> Bytes {
        Bytes(n * 1_000)
    }

    /// `n` MB of 1,000,000 B, as the papers count.
    pub const fn mb(n: u64) -> Bytes {
        Bytes(n * 1_000_000)
    }

    /// The number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Computes `self - other`, or zero if negative.
    pub const fn saturating_sub(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_sub(other.0))
    }

    /// Computes `self - other`, or `None` if negative.
    pub const fn checked_sub(self, other: Bytes) -> Option<Bytes> {
        match self.0.checked_sub(other.0) {
            Some(rest) => Some(Bytes(rest)),
            None => None,
        }
    }

    /// Divides the size, rounded down.
    pub const fn divided_by(self, divisor: u64) -> Bytes {
        Bytes(self.0 / divisor)
    }
}

impl Add for Bytes {
    type Output = Bytes;
    fn add(self, other: Bytes) -> Bytes {
        Bytes(self.0 + other.0)
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Bytes) {
        self.0 += other.0;
    }
}

impl Sub for Bytes {
    type Output = Bytes;
    fn sub(self, other: Bytes) -> Bytes {
        Bytes(self.0 - other.0)
    }
}

impl SubAssign for Bytes {
    fn sub_assign(&mut self, other: Bytes) {
        self.0 -= other.0;
    }
}

impl Mul<u64> for Bytes {
    type Output = Bytes;
    fn mul(self, factor: u64) -> Bytes {
        Bytes(self.0 * factor)
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Bytes>>(sizes: I) -> Bytes {
        sizes.fold(Bytes::ZERO, Bytes::add)
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} B", self.0)
    }
}

impl fmt::Display for Bytes {
    /// Formats in decimal units with up to three decimals if exact, otherwise in bytes: `12MB`, `56.84KB`, `1048576B`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            n if n >= 1_000_000 && n % 1_000 == 0 => format!("{}MB", crate::decimal::decimal(n, 1_000_000)),
            n if n >= 10_000 && n % 10 == 0 && n < 1_000_000 => format!("{}KB", crate::decimal::decimal(n, 1_000)),
            n => format!("{n}B"),
        };
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_print_exactly() {
        assert_eq!(Bytes::mb(12).to_string(), "12MB");
        assert_eq!(Bytes::new(56_840).to_string(), "56.84KB");
        assert_eq!(Bytes::new(1_048_576).to_string(), "1048576B");
        assert_eq!(Bytes::new(1_500).to_string(), "1500B");
    }
}
