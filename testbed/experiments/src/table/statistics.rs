//! Means, shares and ratios, with their 95 % intervals. Results are the same on every machine: sums are in the order of
//! the seeds, with only the four operations and the square root, which IEEE 754 rounds exactly.

use weir_results::measure::nearest_rank;

/// Number computed from several runs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Estimate {
    pub value: f64,
    /// 95 % confidence interval; `None` for a number that does not vary by chance, or of a single run.
    pub interval: Option<(f64, f64)>,
    pub runs: usize,
    /// Number of runs that a share counts as true; `None` for other numbers.
    pub holds_for: Option<usize>,
    /// Values of the runs that a mean is computed from, in the order of the seeds; pseudo-values of a ratio; empty for other numbers.
    pub values: Vec<f64>,
}

impl Estimate {
    /// Creates an estimate without an interval.
    pub(crate) fn exactly(value: f64, runs: usize) -> Estimate {
        Estimate { value, interval: None, runs, holds_for: None, values: Vec::new() }
    }

    /// Divides the estimate, for another unit.
    pub(crate) fn divided_by(self, divisor: f64) -> Estimate {
        let interval = self.interval.map(|(low, high)| (low / divisor, high / divisor));
        let values = self.values.iter().map(|value| value / divisor).collect();
        Estimate { value: self.value / divisor, interval, values, ..self }
    }

    /// Difference to another estimate. Two means over the same seeds are subtracted run by run: both had the same
    /// messages, so variation between seeds cancels. Otherwise the interval is Newcombe's (Statistics in Medicine 1998, method 10), for
    /// independent estimates.
    pub(crate) fn less(&self, other: &Estimate) -> Estimate {
        if self.values.len() > 1 && self.values.len() == other.values.len() {
            let differences: Vec<f64> = self.values.iter().zip(&other.values).map(|(one, other)| one - other).collect();
            return mean(&differences).expect("there are some");
        }
        let ((low, high), (other_low, other_high)) = (self.bounds(), other.bounds());
        let difference = self.value - other.value;
        let length = |one: f64, other: f64| (one * one + other * other).sqrt();
        let interval = (self.interval.is_some() || other.interval.is_some()).then(|| {
            let below = length(self.value - low, other_high - other.value);
            let above = length(high - self.value, other.value - other_low);
            (difference - below, difference + above)
        });
        Estimate { interval, ..Estimate::exactly(difference, self.runs) }
    }

    /// Difference to another estimate of the same seeds, whose interval is that of the differences of a seed (Student's t): both had the same
    /// messages, so variation between seeds cancels. Percentiles and ratios differ by their pseudo-values, which is the jackknife over the
    /// seeds without one seed of both. `None` without values of the same number of runs.
    pub(crate) fn paired_difference(&self, other: &Estimate) -> Option<Estimate> {
        if self.values.len() < 2 || self.values.len() != other.values.len() {
            return None;
        }
        let differences: Vec<f64> = self.values.iter().zip(&other.values).map(|(one, other)| one - other).collect();
        let of_values = mean(&differences)?;
        let value = self.value - other.value;
        let interval =
            of_values.interval.map(|(low, high)| (value + low - of_values.value, value + high - of_values.value));
        Some(Estimate { value, interval, ..of_values }.with_spread())
    }

    /// Ends the interval at the least value that is possible, such as 1 for a slowdown.
    pub(crate) fn bounded(self, least: f64) -> Estimate {
        let interval = self.interval.map(|(low, high)| (low.max(least.min(self.value)), high));
        Estimate { interval, ..self }
    }

    /// Drops an interval without length: runs without spread do not tell how far the number varies.
    pub(crate) fn with_spread(self) -> Estimate {
        let interval = self.interval.filter(|(low, high)| low < high);
        Estimate { interval, ..self }
    }

    /// Whether the value is 0 in all runs.
    pub(crate) fn is_nothing(&self) -> bool {
        self.value == 0.0 && self.values.iter().all(|value| *value == 0.0)
    }

    /// Interval, or the value alone.
    pub(crate) fn bounds(&self) -> (f64, f64) {
        self.interval.unwrap_or((self.value, self.value))
    }
}

/// Head of a table's column of intervals.
pub(crate) const INTERVAL_HEAD: &str = "95 % interval";

/// Text of the interval of a number over `runs` runs: `1 to 2`.
pub(crate) fn interval_text(interval: Option<(f64, f64)>, runs: usize, shown: impl Fn(f64) -> String) -> String {
    match interval {
        Some((low, high)) => format!("{} to {}", shown(low), shown(high)),
        None if runs > 1 => "no spread".to_owned(),
        None => "-".to_owned(),
    }
}

/// Mean, with the interval of Student's t over independent runs. `None` without values.
pub(crate) fn mean(values: &[f64]) -> Option<Estimate> {
    let n = values.len();
    let mean = average(values)?;
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    let interval = (n > 1).then(|| {
        let half = t_975(n - 1) * (squares / (n - 1) as f64 / n as f64).sqrt();
        (mean - half, mean + half)
    });
    Some(Estimate { value: mean, interval, runs: n, holds_for: None, values: values.to_vec() })
}

/// Share of the runs in which a condition is true, with Wilson's score interval (Wilson, JASA 1927). `None` without
/// runs.
pub(crate) fn share(holds_for: usize, runs: usize) -> Option<Estimate> {
    if runs == 0 {
        return None;
    }
    let (n, p, z) = (runs as f64, holds_for as f64 / runs as f64, Z_975);
    let middle = (p + z * z / (2.0 * n)) / (1.0 + z * z / n);
    let half = z / (1.0 + z * z / n) * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt();
    // The bounds of 0 and of 1 are exact; rounding must not move them away from the share.
    let low = if holds_for == 0 { 0.0 } else { (middle - half).max(0.0) };
    let high = if holds_for == runs { 1.0 } else { (middle + half).min(1.0) };
    let interval = (runs > 1).then_some((low, high));
    Some(Estimate { value: p, interval, runs, holds_for: Some(holds_for), values: Vec::new() })
}

/// Ratio of the means of two numbers of each run, with an interval by the jackknife over the runs. `None` without runs, or for a second mean of 0.
pub(crate) fn ratio(pairs: &[(f64, f64)]) -> Option<Estimate> {
    let n = pairs.len();
    let of = |sum: (f64, f64)| (sum.1 != 0.0).then(|| sum.0 / sum.1);
    let all = pairs.iter().fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
    let value = of(all)?;
    let without: Option<Vec<f64>> = pairs.iter().map(|pair| of((all.0 - pair.0, all.1 - pair.1))).collect();
    Some(jackknife(value, n, &without.unwrap_or_default()))
}

/// Estimate of a number of `runs` runs, with an interval from its values without one run each (Miller, Biometrika 1974).
fn jackknife(value: f64, runs: usize, without: &[f64]) -> Estimate {
    let without = if runs > 1 { without } else { &[] };
    let n = runs as f64;
    let interval = average(without).map(|mean| {
        let squares: f64 = without.iter().map(|one| (one - mean) * (one - mean)).sum();
        let half = t_975(runs - 1) * (squares * (n - 1.0) / n).sqrt();
        (value - half, value + half)
    });
    let values = without.iter().map(|one| n * value - (n - 1.0) * one).collect();
    Estimate { value, interval, runs, holds_for: None, values }
}

/// Whether the percentile of `count` values, in thousandths, has a rank below their maximum: 990 has from 100 values on.
pub(crate) fn is_below_max(count: u64, permille: u64) -> bool {
    count * (1_000 - permille) >= 1_000
}

/// Percentile of the values of all runs together, by nearest rank, with an interval by the jackknife: a run is a group of many values
/// (Shao and Wu, Annals of Statistics 1989). `None` without values, or where a rank is that of an infinite value.
pub(crate) fn pooled_percentile(runs: &[Vec<f64>], percent: f64) -> Option<Estimate> {
    let of_run = |(run, values): (usize, &Vec<f64>)| values.iter().map(move |value| (*value, run)).collect::<Vec<_>>();
    let mut all: Vec<(f64, usize)> = runs.iter().enumerate().flat_map(of_run).collect();
    all.sort_by(|one, other| one.0.total_cmp(&other.0));
    let percentile = |without: Option<usize>| {
        let count = all.len() - without.map_or(0, |run| runs[run].len());
        let rank = nearest_rank(count as u64, percent) as usize;
        let mut kept = all.iter().filter(|(_, run)| without != Some(*run));
        kept.nth(rank).map(|(value, _)| *value).filter(|value| value.is_finite())
    };
    let without: Option<Vec<f64>> =
        (0..runs.len()).filter(|_| runs.len() > 1).map(|run| percentile(Some(run))).collect();
    Some(jackknife(percentile(None)?, runs.len(), &without?))
}

/// Middle value, or the mean of the two in the middle.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

fn average(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// 97.5 % quantile of the normal distribution.
const Z_975: f64 = 1.959_964;

/// 97.5 % quantile of Student's t with `degrees` degrees of freedom.
fn t_975(degrees: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
        2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
    ];
    // Beyond the table, right to 0.001: 2.021 at 40, 2.000 at 60, 1.980 at 120.
    TABLE.get(degrees.saturating_sub(1)).copied().unwrap_or(Z_975 + 2.42 / degrees as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(one: f64, other: f64) -> bool {
        (one - other).abs() < 5e-4 * other.abs().max(1.0)
    }

    #[test]
    fn percentiles_are_of_all_runs_together() {
        // By hand: the 18th of 20 values, and the 14th of the 15 that other runs have.
        let runs =
            [vec![1.0, 9.0, 17.0, 5.0, 13.0], vec![2.0, 6.0, 10.0, 14.0, 18.0], vec![3.0, 7.0, 11.0, 15.0, 19.0]];
        let runs = [&runs[..], &[vec![4.0, 8.0, 12.0, 16.0, 20.0]]].concat();
        let of = pooled_percentile(&runs, 90.0).unwrap();
        let without = [19.0, 19.0, 18.0, 18.0];
        let half = 3.182 * (3.0 / 4.0 * without.map(|one: f64| (one - 18.5) * (one - 18.5)).iter().sum::<f64>()).sqrt();
        let (low, high) = of.interval.unwrap();
        assert!(of.value == 18.0 && near(low, 18.0 - half) && near(high, 18.0 + half), "{of:?}");
        assert_eq!(pooled_percentile(&runs[..1], 99.0).unwrap(), Estimate::exactly(17.0, 1));
        assert_eq!(pooled_percentile(&[vec![1.0, f64::INFINITY], vec![2.0]], 99.0), None);
        assert_eq!(pooled_percentile(&[vec![], vec![]], 50.0), None);
    }

    #[test]
    fn means_have_students_interval() {
        // Worked out by hand: s = 1.5811, t(4) = 2.776, half = 2.776 * 1.5811 / sqrt(5) = 1.9629.
        let of = mean(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        let (low, high) = of.interval.unwrap();
        assert!(of.value == 3.0 && near(low, 1.0371) && near(high, 4.9629), "{of:?}");
        assert_eq!(mean(&[7.0]).unwrap(), Estimate { values: vec![7.0], ..Estimate::exactly(7.0, 1) });
        assert_eq!(mean(&[]), None);
        assert!(near(t_975(40), 2.021) && near(t_975(120), 1.980) && near(t_975(1), 12.706));
    }

    #[test]
    fn differences_are_taken_run_by_run() {
        let (one, other) = (mean(&[10.0, 20.0, 30.0]).unwrap(), mean(&[9.0, 19.0, 29.0]).unwrap());
        assert_eq!(one.less(&other).interval, Some((1.0, 1.0)));
        // Newcombe's example: 56 of 70 and 48 of 80.
        let (low, high) = share(56, 70).unwrap().less(&share(48, 80).unwrap()).bounds();
        assert!(near(low, 0.0524) && near(high, 0.3339), "{low} {high}");
        // Ratios that vary together: their pseudo-values differ by 1 in each run.
        let pairs = [(1.0, 1.0), (1.0, 2.0), (2.0, 3.0)];
        let (low, high) =
            ratio(&pairs.map(|(one, other)| (one + other, other))).unwrap().less(&ratio(&pairs).unwrap()).bounds();
        assert!(near(low, 1.0) && near(high, 1.0), "{low} {high}");
        // A single number is compared by the interval alone.
        let (low, high) = one.less(&Estimate::exactly(15.0, 1)).bounds();
        assert!(near(low, 5.0 - 24.841) && near(high, 5.0 + 24.841), "{low} {high}");
    }

    #[test]
    fn paired_differences_vary_less_than_their_sides() {
        let (one, other) = (mean(&[10.0, 21.0, 32.0]).unwrap(), mean(&[9.0, 19.0, 29.0]).unwrap());
        // By hand: differences 1, 2, 3; s = 1, t(2) = 4.303, half = 4.303 / sqrt(3).
        let of = one.paired_difference(&other).unwrap();
        let (low, high) = of.interval.unwrap();
        assert!(of.value == 2.0 && near(low, 2.0 - 2.4843) && near(high, 2.0 + 2.4843), "{of:?}");
        assert_eq!(one.paired_difference(&one).unwrap().interval, None, "no spread");
        assert_eq!(one.paired_difference(&mean(&[1.0, 2.0]).unwrap()), None);
        // The jackknife without each seed of both: percentiles 20 and 12; without them 20 - 12, 20 - 12, 10 - 6.
        let runs = |of: [f64; 3]| of.map(|value| vec![value]).to_vec();
        let [one, other] = [[5.0, 10.0, 20.0], [3.0, 6.0, 12.0]].map(|of| pooled_percentile(&runs(of), 99.0).unwrap());
        let of = one.paired_difference(&other).unwrap();
        let without = [8.0, 8.0, 4.0];
        let middle = 20.0 / 3.0;
        let half =
            4.303 * (2.0 / 3.0 * without.map(|one: f64| (one - middle) * (one - middle)).iter().sum::<f64>()).sqrt();
        let (low, high) = of.interval.unwrap();
        assert!(of.value == 8.0 && near(low, 8.0 - half) && near(high, 8.0 + half), "{of:?}");
    }

    #[test]
    fn intervals_end_at_the_least_value() {
        let slowdown = mean(&[1.0, 1.0, 4.0]).unwrap();
        assert!(slowdown.interval.unwrap().0 < 1.0);
        assert_eq!(slowdown.clone().bounded(1.0).interval.unwrap().0, 1.0);
        assert_eq!(slowdown.clone().bounded(3.0).interval.unwrap().0, 2.0, "not above the value");
        assert_eq!(slowdown.clone().bounded(1.0).with_spread().interval.unwrap().1, slowdown.interval.unwrap().1);
        assert_eq!(mean(&[2.0, 2.0]).unwrap().with_spread().interval, None);
    }

    #[test]
    fn shares_have_wilsons_interval() {
        // The score interval of 8 of 20, and of none of 10, as tables have them.
        let (low, high) = share(8, 20).unwrap().interval.unwrap();
        assert!(near(low, 0.2188) && near(high, 0.6134), "{low} {high}");
        let (low, high) = share(0, 10).unwrap().interval.unwrap();
        assert!(low == 0.0 && near(high, 0.2775), "{low} {high}");
        assert_eq!(share(10, 10).unwrap().bounds().1, 1.0);
        assert_eq!(share(0, 0), None);
    }

    #[test]
    fn ratios_are_of_means_and_have_the_jackknifes_interval() {
        let of = ratio(&[(1.0, 2.0), (2.0, 4.0), (4.0, 8.0)]).unwrap();
        assert!(near(of.value, 0.5) && near(of.bounds().0, 0.5) && near(of.bounds().1, 0.5));
        // Without each: 3/5, 3/4, 2/3 of sums; by hand s = sqrt(2/3 * 0.011204), t(2) = 4.303.
        let of = ratio(&[(1.0, 1.0), (1.0, 2.0), (2.0, 3.0)]).unwrap();
        let without = [3.0_f64 / 5.0, 3.0 / 4.0, 2.0 / 3.0];
        let mean = without.iter().sum::<f64>() / 3.0;
        let squares: f64 = without.iter().map(|one| (one - mean).powi(2)).sum();
        assert!(near(of.bounds().1 - of.value, 4.303 * (squares * 2.0 / 3.0).sqrt()));
        assert_eq!(ratio(&[(1.0, 0.0)]), None);
    }

    #[test]
    fn missing_intervals_have_a_reason() {
        let text = |interval, runs| interval_text(interval, runs, |value| format!("{value:.1}"));
        assert_eq!(text(Some((0.25, 2.0)), 3), "0.2 to 2.0");
        assert_eq!([text(None, 3), text(None, 1)], ["no spread", "-"]);
    }

    #[test]
    fn medians_are_in_the_middle() {
        assert_eq!([median(&[3.0, 1.0, 2.0]), median(&[4.0, 1.0]), median(&[])], [Some(2.0), Some(2.5), None]);
    }
}
