//! SplitMix64 generator and mixer, in this crate because every other crate depends on it.
//!
//! Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014; the constants are those of Vigna's
//! `splitmix64.c`. Numbers of one seed are the same on every machine and in every release.

/// Pseudorandom generator: a counter with the golden gamma as increment, mixed.
///
/// ```
/// let mut numbers = weir_units::SplitMix64::new(1_234_567);
/// assert_eq!(numbers.next_u64(), 6_457_827_717_110_365_317);
/// ```
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// Increment of the counter: 2^64 divided by the golden ratio, odd.
    const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

    /// Creates a generator from a seed.
    pub const fn new(seed: u64) -> SplitMix64 {
        SplitMix64(seed)
    }

    /// Returns 64 random bits.
    #[inline]
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(Self::GOLDEN_GAMMA);
        Self::mix(self.0)
    }

    /// Mixes a number: each bit of `z` affects each bit of the result, and the function is a bijection.
    #[inline]
    pub const fn mix(mut z: u64) -> u64 {
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::SplitMix64;

    fn first<const N: usize>(seed: u64) -> [u64; N] {
        let mut numbers = SplitMix64::new(seed);
        std::array::from_fn(|_| numbers.next_u64())
    }

    /// First numbers of the authors' own generator for the seed 1234567.
    #[test]
    fn the_published_numbers() {
        assert_eq!(
            first(1_234_567),
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423,
                4_593_380_528_125_082_431,
                16_408_922_859_458_223_821
            ]
        );
    }

    /// Numbers of `java.util.SplittableRandom` and Vigna's `splitmix64.c` for seed 0.
    #[test]
    fn the_numbers_of_seed_0() {
        assert_eq!(first(0), [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f]);
    }

    #[test]
    fn a_number_is_its_counter_mixed() {
        assert_eq!(SplitMix64::mix(SplitMix64::GOLDEN_GAMMA), first::<1>(0)[0]);
        assert_eq!(SplitMix64::mix(0), 0);
    }
}
