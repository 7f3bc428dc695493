//! Random numbers of the packet path: RED's marks, drawn ports.

use weir_units::SplitMix64;

/// Generator xorshift64*: a few instructions, and a reproducible sequence per seed.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        // Similar seeds would have similar first numbers.
        Random(SplitMix64::mix(seed) | 1)
    }

    /// Returns a seed for a part of a switch, different from that of any other part or switch: FNV-1a of all three.
    pub(crate) fn seed_of(switch: &str, seed: u64, part: u64) -> u64 {
        let bytes = switch.bytes().chain(seed.to_le_bytes()).chain(part.to_le_bytes());
        bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    }

    #[inline]
    pub(crate) fn next(&mut self) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }

    /// Returns a number below `n`; for small `n` uniform to within 10^-8.
    #[inline]
    pub(crate) fn below(&mut self, n: u32) -> u32 {
        ((u64::from(self.next()) * u64::from(n)) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_and_their_parts_draw_apart() {
        let first = |switch: &str, seed: u64, part: u64| {
            let mut random = Random::new(Random::seed_of(switch, seed, part));
            [random.next(), random.next()]
        };
        let all = [first("S1", 1, 0), first("S2", 1, 0), first("S1", 2, 0), first("S1", 1, 1)];
        for (n, one) in all.iter().enumerate() {
            assert!(all[n + 1..].iter().all(|other| other[0] != one[0] && other[1] != one[1]), "{all:?}");
        }
        assert_eq!(first("S1", 1, 0), first("S1", 1, 0));
    }
}
