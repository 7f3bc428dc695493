//! A distribution in a few exact numbers.

use crate::run_dir::Distribution;

impl Distribution {
    /// The distribution of these values, which it sorts; `None` if there are none.
    pub fn of(values: &mut [u64]) -> Option<Distribution> {
        values.sort_unstable();
        let max = *values.last()?;
        let sum: u128 = values.iter().map(|value| u128::from(*value)).sum();
        let mean = (sum / values.len() as u128) as u64;
        // Nearest rank: of n sorted values the ceil(n * permille / 1000)-th, from 1.
        let at = |permille: u64| values[(values.len() as u64 * permille).div_ceil(1_000) as usize - 1];
        Some(Distribution { mean, p50: at(500), p95: at(950), p99: at(990), p999: at(999), max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_by_nearest_rank() {
        // The example of textbooks: of 15, 20, 35, 40, 50 the median is 35, and the 95th percentile 50.
        let of_five = Distribution::of(&mut [50, 15, 40, 20, 35]).unwrap();
        assert_eq!(of_five, Distribution { mean: 32, p50: 35, p95: 50, p99: 50, p999: 50, max: 50 });
        let of_thousand = Distribution::of(&mut (1..=1_000).rev().collect::<Vec<_>>()).unwrap();
        assert_eq!(of_thousand, Distribution { mean: 500, p50: 500, p95: 950, p99: 990, p999: 999, max: 1_000 });
        let of_two = Distribution::of(&mut [2, 1]).unwrap();
        assert_eq!((of_two.mean, of_two.p50, of_two.p95), (1, 1, 2));
        assert_eq!(Distribution::of(&mut [7]).map(|one| (one.mean, one.p50, one.p999)), Some((7, 7, 7)));
        assert_eq!(Distribution::of(&mut []), None);
    }

    #[test]
    fn the_mean_does_not_overflow() {
        assert_eq!(Distribution::of(&mut [u64::MAX, u64::MAX - 2]).unwrap().mean, u64::MAX - 1);
    }
}
