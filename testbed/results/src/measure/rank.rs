//! Percentiles by nearest rank.

/// Returns the index, from 0, of a percentile among `count` ascending values: the index of the least value that `percent` % of
/// the values do not exceed. 0 if `count` is 0. `percent` is rounded to thousandths.
pub fn nearest_rank(count: u64, percent: f64) -> u64 {
    // Integer arithmetic: 0.07 * 100 exceeds 7 in floating point.
    let thousandths = (percent * 1e3).round() as u128;
    (u128::from(count) * thousandths).div_ceil(100_000).saturating_sub(1) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_the_least_that_so_many_do_not_exceed() {
        // Textbook example: of five values the 30th percentile is the second.
        assert_eq!([5.0, 30.0, 40.0, 50.0, 100.0].map(|percent| nearest_rank(5, percent)), [0, 1, 1, 2, 4]);
        assert_eq!([7.0, 28.0, 29.0, 99.9].map(|percent| nearest_rank(100, percent)), [6, 27, 28, 99]);
        assert_eq!(
            [nearest_rank(1_000, 99.9), nearest_rank(1_000, 99.99), nearest_rank(100_000, 99.999)],
            [998, 999, 99_998]
        );
        assert_eq!([nearest_rank(0, 99.0), nearest_rank(1, 0.001), nearest_rank(1, 100.0)], [0; 3]);
    }
}
