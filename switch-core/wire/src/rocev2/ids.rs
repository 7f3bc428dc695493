//! Small numbers of RoCEv2, each with the bits that it has.

use std::fmt;
use weir_units::archive::Value;

/// A queue pair's number, 24 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Value)]
pub struct QueuePair(u32);

/// A packet sequence number, 24 bits, counting modulo 2^24.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Value)]
pub struct Psn(u32);

/// A differentiated services code point, 6 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Value)]
pub struct Dscp(u8);

/// The ECN field of an IP header (RFC 3168).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Value)]
pub enum Ecn {
    /// The transport does not speak ECN: switches drop, and do not mark.
    NotCapable,
    /// ECN-capable; what RoCEv2 senders set.
    Ect0,
    /// ECN-capable, the other code point.
    Ect1,
    /// Congestion experienced: a switch marked it.
    Ce,
}

/// The payload of a full packet: 256, 512, 1024, 2048 or 4096 B, as InfiniBand has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathMtu(u16);

const BITS_24: u32 = (1 << 24) - 1;

impl QueuePair {
    /// Queue pair `n`; only the low 24 bits count.
    pub const fn new(n: u32) -> QueuePair {
        QueuePair(n & BITS_24)
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl Psn {
    /// Sequence number `n`; only the low 24 bits count.
    pub const fn new(n: u32) -> Psn {
        Psn(n & BITS_24)
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The number `n` further on.
    pub const fn plus(self, n: u32) -> Psn {
        Psn::new(self.0.wrapping_add(n))
    }

    /// How far `self` is ahead of `other`, from -2^23 to 2^23 - 1; the nearer way round.
    pub const fn ahead_of(self, other: Psn) -> i32 {
        ((self.0.wrapping_sub(other.0) << 8) as i32) >> 8
    }
}

impl Dscp {
    /// Code point `n`; only the low 6 bits count.
    pub const fn new(n: u8) -> Dscp {
        Dscp(n & 0x3f)
    }

    /// The number.
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl Ecn {
    /// The field's two bits.
    pub const fn bits(self) -> u8 {
        match self {
            Ecn::NotCapable => 0b00,
            Ecn::Ect1 => 0b01,
            Ecn::Ect0 => 0b10,
            Ecn::Ce => 0b11,
        }
    }

    /// The code point in the low two bits of a type-of-service byte.
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
    /// 1024 B: what fits a standard Ethernet frame.
    pub const BYTES_1024: PathMtu = PathMtu(1024);

    /// A path MTU of `bytes` of payload; `None` if InfiniBand has no such size.
    pub const fn new(bytes: u16) -> Option<PathMtu> {
        match bytes {
            256 | 512 | 1024 | 2048 | 4096 => Some(PathMtu(bytes)),
            _ => None,
        }
    }

    /// Bytes of payload.
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
