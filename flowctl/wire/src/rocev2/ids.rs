//! Small integers of RoCEv2, with their widths.

use std::fmt;

/// Queue pair number, 24 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueuePair(u32);

/// Packet sequence number, 24 bits, modulo 2^24.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Psn(u32);

/// Differentiated services code point, 6 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dscp(u8);

/// ECN field of an IP header (RFC 3168).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ecn {
    /// The transport does not support ECN: switches drop, and do not mark.
    NotCapable,
    /// ECN-capable, ECT(0); set by RoCEv2 senders.
    Ect0,
    /// ECN-capable, ECT(1).
    Ect1,
    /// Congestion experienced: marked by a switch.
    Ce,
}

/// Payload of a full packet: one of InfiniBand's sizes, 256, 512, 1024, 2048 or 4096 B.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathMtu(u16);

const BITS_24: u32 = (1 << 24) - 1;

impl QueuePair {
    /// Returns queue pair `n`; only the low 24 bits count.
    pub const fn new(n: u32) -> QueuePair {
        QueuePair(n & BITS_24)
    }

    /// Returns the number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl Psn {
    /// Returns sequence number `n`; only the low 24 bits count.
    pub const fn new(n: u32) -> Psn {
        Psn(n & BITS_24)
    }

    /// Returns the number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Returns the sequence number plus `n`, modulo 2^24.
    pub const fn plus(self, n: u32) -> Psn {
        Psn::new(self.0.wrapping_add(n))
    }

    /// Returns the distance of `self` ahead of `other`, from -2^23 to 2^23 - 1, the shorter way round.
    pub const fn ahead_of(self, other: Psn) -> i32 {
        ((self.0.wrapping_sub(other.0) << 8) as i32) >> 8
    }
}

impl Dscp {
    /// Returns code point `n`; only the low 6 bits count.
    pub const fn new(n: u8) -> Dscp {
        Dscp(n & 0x3f)
    }

    /// Returns the number.
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl Ecn {
    /// Returns the field's two bits.
    pub const fn bits(self) -> u8 {
        match self {
            Ecn::NotCapable => 0b00,
            Ecn::Ect1 => 0b01,
            Ecn::Ect0 => 0b10,
            Ecn::Ce => 0b11,
        }
    }

    /// Returns the code point in the low two bits of a type-of-service byte.
    pub const fn from_bits(tos: u8) -> Ecn {
        match tos & 0b11 {
            0b00 => Ecn::NotCapable,
            0b01 => Ecn::Ect1,
            0b10 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }
}

impl PathMtu {
    /// Path MTU of 1024 B, which fits a standard Ethernet frame.
    pub const BYTES_1024: PathMtu = PathMtu(1024);

    /// Returns a path MTU of `bytes` of payload; `None` if InfiniBand has no such size.
    pub const fn new(bytes: u16) -> Option<PathMtu> {
        match bytes {
            256 | 512 | 1024 | 2048 | 4096 => Some(PathMtu(bytes)),
            _ => None,
        }
    }

    /// Returns the bytes of payload.
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Debug for QueuePair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "queue pair {:#08x}", self.0)
    }
}

impl fmt::Debug for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PSN {}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_wrap() {
        let last = Psn::new(0xff_ffff);
        assert_eq!(last.plus(2), Psn::new(1));
        assert_eq!(Psn::new(1).ahead_of(last), 2);
        assert_eq!(last.ahead_of(Psn::new(1)), -2);
        assert_eq!(Psn::new(0x80_0000).ahead_of(Psn::new(0)), -(1 << 23));
    }

    #[test]
    fn ecn_round_trips() {
        for bits in 0..4 {
            assert_eq!(Ecn::from_bits(bits).bits(), bits);
        }
    }
}
