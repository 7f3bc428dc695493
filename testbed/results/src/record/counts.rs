//! Multiset of values, most of which occur often.

use std::collections::BTreeMap;

use crate::measure::nearest_rank;

/// Number of occurrences of each value.
pub(super) type ValueCounts = BTreeMap<u64, u64>;

/// Returns a percentile by nearest rank; `None` without values.
pub(super) fn percentile(of: &ValueCounts, percent: u32) -> Option<u64> {
    let rank = nearest_rank(of.values().sum(), f64::from(percent));
    let mut so_far = 0;
    let reached = of.iter().find(|(_, times)| {
        so_far += **times;
        so_far > rank
    });
    reached.map(|(value, _)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_by_nearest_rank() {
        let counts: ValueCounts = [(1, 50), (2, 49), (7, 1)].into();
        assert_eq!([50, 51, 99, 100].map(|percent| percentile(&counts, percent)), [1, 2, 2, 7].map(Some));
        assert_eq!(percentile(&ValueCounts::new(), 50), None);
    }
}
