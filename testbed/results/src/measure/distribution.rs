//! Mean, percentiles and maximum of a distribution.

use super::nearest_rank;
use crate::run_dir::Distribution;

impl Distribution {
    /// Sorts the values, and returns their distribution together with `unfinished` values that count as greater than all others;
    /// `None` if both are empty.
    pub fn from_values(values: &mut [u64], unfinished: u64) -> Option<Distribution> {
        values.sort_unstable();
        let count = values.len() as u64 + unfinished;
        if count == 0 {
            return None;
        }
        let sum: u128 = values.iter().map(|value| u128::from(*value)).sum();
        let mean = (unfinished == 0).then(|| (sum / u128::from(count)) as u64);
        let at = |percent: f64| values.get(nearest_rank(count, percent) as usize).copied();
        Some(Distribution { mean, p50: at(50.0), p95: at(95.0), p99: at(99.0), p999: at(99.9), max: at(100.0) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_by_nearest_rank() {
        // Textbook example: of 15, 20, 35, 40, 50 the median is 35, and the 95th percentile 50.
        assert_eq!(statistics(&mut [50, 15, 40, 20, 35], 0), [32, 35, 50, 50, 50, 50].map(Some));
        let mut thousand: Vec<u64> = (1..=1_000).rev().collect();
        assert_eq!(statistics(&mut thousand, 0), [500, 500, 950, 990, 999, 1_000].map(Some));
        assert_eq!(statistics(&mut [2, 1], 0), [1, 1, 2, 2, 2, 2].map(Some));
        assert_eq!(statistics(&mut [7], 0), [Some(7); 6]);
        assert_eq!(Distribution::from_values(&mut [], 0), None);
    }

    #[test]
    fn what_did_not_finish_is_beyond_every_value() {
        // The 10th and the 19th of twenty have finished; the 20th has no value.
        let mut values: Vec<u64> = (1..=19).collect();
        assert_eq!(statistics(&mut values, 1), [None, Some(10), Some(19), None, None, None]);
        assert_eq!(statistics(&mut [3], 2), [None; 6]);
        assert_eq!(statistics(&mut [], 2), [None; 6]);
    }

    fn statistics(values: &mut [u64], unfinished: u64) -> [Option<u64>; 6] {
        let Distribution { mean, p50, p95, p99, p999, max } = Distribution::from_values(values, unfinished).unwrap();
        [mean, p50, p95, p99, p999, max]
    }

    #[test]
    fn the_mean_does_not_overflow() {
        assert_eq!(Distribution::from_values(&mut [u64::MAX, u64::MAX - 2], 0).unwrap().mean, Some(u64::MAX - 1));
    }
}
