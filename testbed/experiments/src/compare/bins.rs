//! Slowdowns by size, and the comparison of two sides.

use weir_results::measure::{SizeBin, nearest_rank};
use weir_units::Bytes;

/// Compared statistics of a bin.
pub(super) const MEASURES: [&str; 4] = ["mean", "p50", "p95", "p99"];

/// Sizes and slowdowns of one run.
pub(super) type Slowdowns = Vec<(Bytes, f64)>;

/// Values of a statistic over the runs of one side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    /// Mean of the runs' values.
    pub value: f64,
    pub least: f64,
    pub most: f64,
    pub runs: usize,
}

/// Result of the comparison of two sides in a statistic of a bin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BinVerdict {
    /// The difference is within the limit.
    Agrees,
    /// The difference is larger, but the runs of both sides overlap.
    InsideSpread,
    /// The difference is larger, and the runs of the two sides do not overlap.
    Differs,
    /// One side has no such message.
    Missing,
}

impl BinVerdict {
    pub(super) fn label(self) -> &'static str {
        match self {
            BinVerdict::Agrees => "agrees",
            BinVerdict::InsideSpread => "inside the spread",
            BinVerdict::Differs => "differs",
            BinVerdict::Missing => "only on one side",
        }
    }
}

/// Statistics of a run's messages in a bin; `None` without messages. Percentiles are by nearest rank.
fn measures(bin: SizeBin, run: &Slowdowns) -> Option<[f64; 4]> {
    let mut values: Vec<f64> = run.iter().filter(|(size, _)| bin.holds(*size)).map(|(_, slowdown)| *slowdown).collect();
    if values.is_empty() {
        return None;
    }
    values.sort_by(f64::total_cmp);
    let rank = |percent: f64| values[nearest_rank(values.len() as u64, percent) as usize];
    Some([values.iter().sum::<f64>() / values.len() as f64, rank(50.0), rank(95.0), rank(99.0)])
}

/// Number of messages in a bin, over all runs.
pub(super) fn count(bin: SizeBin, runs: &[Slowdowns]) -> usize {
    runs.iter().flatten().filter(|(size, _)| bin.holds(*size)).count()
}

/// Spread of each statistic over the runs that have messages in the bin.
pub(super) fn spreads(bin: SizeBin, runs: &[Slowdowns]) -> Option<[Spread; 4]> {
    let of_runs: Vec<[f64; 4]> = runs.iter().filter_map(|run| measures(bin, run)).collect();
    (!of_runs.is_empty()).then(|| [0, 1, 2, 3].map(|n| spread(of_runs.iter().map(|measures| measures[n]))))
}

/// Spread of one or more values.
pub(super) fn spread(values: impl Iterator<Item = f64>) -> Spread {
    let none = Spread { value: 0.0, least: f64::INFINITY, most: f64::NEG_INFINITY, runs: 0 };
    let all = values.fold(none, |so_far, value| Spread {
        value: so_far.value + value,
        least: so_far.least.min(value),
        most: so_far.most.max(value),
        runs: so_far.runs + 1,
    });
    Spread { value: all.value / all.runs.max(1) as f64, ..all }
}

/// Relative deviation of the second side from the first; `None` if the first is 0.
pub(super) fn deviation(one: Spread, other: Spread) -> Option<f64> {
    if one.value == other.value {
        return Some(0.0);
    }
    (one.value != 0.0).then(|| other.value / one.value - 1.0)
}

pub(super) fn verdict(one: Spread, other: Spread, allowed: f64) -> BinVerdict {
    if deviation(one, other).is_some_and(|deviation| deviation.abs() <= allowed) {
        return BinVerdict::Agrees;
    }
    let overlap = one.least <= other.most && other.least <= one.most;
    // A single run has no spread.
    if overlap && (one.runs > 1 || other.runs > 1) { BinVerdict::InsideSpread } else { BinVerdict::Differs }
}

#[cfg(test)]
mod tests {
    use weir_results::measure::SIZE_BINS;

    use super::*;

    #[test]
    fn a_bins_measures_are_by_nearest_rank() {
        let run: Slowdowns =
            (1..=100).map(|n| (Bytes::kb(20), f64::from(n))).chain([(Bytes::new(5), 1_000.0)]).collect();
        assert_eq!(measures(SIZE_BINS[2], &run), Some([50.5, 50.0, 95.0, 99.0]));
        assert_eq!(measures(SIZE_BINS[1], &run), Some([1_000.0; 4]));
        assert_eq!(measures(SIZE_BINS[5], &run), None);
        assert_eq!((count(SIZE_BINS[0], &[run.clone(), run]), spreads(SIZE_BINS[5], &[])), (202, None));
    }

    #[test]
    fn verdicts_allow_for_what_the_runs_vary() {
        let of = |values: &[f64]| spread(values.iter().copied());
        assert_eq!(of(&[1.0, 3.0]), Spread { value: 2.0, least: 1.0, most: 3.0, runs: 2 });
        assert_eq!(verdict(of(&[2.0]), of(&[2.1]), 0.051), BinVerdict::Agrees);
        assert_eq!(verdict(of(&[2.0]), of(&[2.5]), 0.05), BinVerdict::Differs, "single runs have no spread");
        assert_eq!(verdict(of(&[2.0, 3.0]), of(&[2.9, 3.5]), 0.05), BinVerdict::InsideSpread);
        assert_eq!(verdict(of(&[2.0, 2.4]), of(&[2.5, 3.5]), 0.05), BinVerdict::Differs);
        assert_eq!(verdict(of(&[0.0]), of(&[0.0]), 0.1), BinVerdict::Agrees);
        assert_eq!(verdict(of(&[0.0]), of(&[7.0]), 0.1), BinVerdict::Differs);
    }
}
