//! Random numbers that are the same in all versions.

use weir_units::SplitMix64;

/// Generator based on [`SplitMix64`]: a seed gives one sequence, on every machine and in every version.
#[derive(Clone, Debug)]
pub struct Rng(SplitMix64);

impl Rng {
    /// Creates a generator with this seed.
    pub fn new(seed: u64) -> Rng {
        Rng(SplitMix64::new(seed))
    }

    /// Returns one of a seed's independent generators: draws from one do not affect the others.
    pub fn stream(seed: u64, stream: u64) -> Rng {
        let [base, turn] = [seed, stream].map(|number| SplitMix64::new(number).next_u64());
        Rng(SplitMix64::new(SplitMix64::mix(base ^ turn)))
    }

    /// Returns 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number above 0, up to and including 1, in steps of 2^-53.
    pub fn unit(&mut self) -> f64 {
        /// Step of 2^-53.
        const STEP: f64 = 1.0 / (1u64 << 53) as f64;
        ((self.next_u64() >> 11) + 1) as f64 * STEP
    }

    /// Returns a uniformly random number below `bound` (Lemire, ACM TOMACS 2019).
    ///
    /// # Panics
    /// If `bound` is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "no number is below zero");
        // The surplus of the 2^64 draws, at the low end, would bias the result.
        let surplus = bound.wrapping_neg() % bound;
        loop {
            let product = u128::from(self.next_u64()) * u128::from(bound);
            if product as u64 >= surplus {
                return (product >> 64) as u64;
            }
        }
    }

    /// Returns a random index of a list of this length.
    pub(crate) fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// Returns an exponentially distributed number with mean 1.
    pub(super) fn exponential(&mut self) -> f64 {
        -libm::log(self.unit())
    }

    /// Shuffles items uniformly (Fisher and Yates).
    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.index(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Rng;

    /// Results of runs depend on these numbers: of seed 1234567, and of its stream 3. Computed separately, from the formula.
    #[test]
    fn the_numbers_never_change() {
        let first = |mut rng: Rng| [rng.next_u64(), rng.next_u64()];
        assert_eq!(first(Rng::new(1_234_567)), [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
        assert_eq!(first(Rng::stream(1_234_567, 3)), [7_371_330_042_340_710_131, 6_045_285_807_478_007_810]);
    }

    #[test]
    fn a_number_below_one_is_zero() {
        assert_eq!(Rng::new(3).below(1), 0);
    }

    /// Chi squared of 60,000 throws of a die; above 30 in one of 70,000 seeds.
    #[test]
    fn a_die_is_fair() {
        let mut rng = Rng::stream(1, 2);
        let mut faces = [0u32; 6];
        (0..60_000).for_each(|_| faces[rng.index(6)] += 1);
        let chi_squared: f64 = faces.iter().map(|n| (f64::from(*n) - 10_000.0).powi(2) / 10_000.0).sum();
        assert!(chi_squared < 30.0, "{faces:?}");
    }

    #[test]
    fn streams_differ() {
        let first: Vec<u64> = (0..100).map(|stream| Rng::stream(7, stream).next_u64()).collect();
        for (n, number) in first.iter().enumerate() {
            assert!(!first[..n].contains(number));
        }
    }

    proptest! {
        #[test]
        fn bounds_are_kept(seed: u64, bound in 1..=u64::MAX) {
            let mut rng = Rng::new(seed);
            prop_assert!(rng.below(bound) < bound);
            let unit = rng.unit();
            prop_assert!(unit > 0.0 && unit <= 1.0);
            prop_assert!(rng.exponential() >= 0.0);
        }

        #[test]
        fn a_shuffle_keeps_all(seed: u64, len in 0..50usize) {
            let mut items: Vec<usize> = (0..len).collect();
            Rng::new(seed).shuffle(&mut items);
            items.sort_unstable();
            prop_assert_eq!(items, (0..len).collect::<Vec<_>>());
        }
    }
}
