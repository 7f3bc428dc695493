//! Distributions of messages as lines of a figure.

use weir_results::plot::PlotLine;

/// CDF in percent, and the number of infinite values, which count, but have no point; `None` without values.
pub(crate) fn cumulative(name: &str, mut values: Vec<f64>) -> Option<(PlotLine, usize)> {
    const STEPS: usize = 500;
    values.sort_by(f64::total_cmp);
    let (all, finished) = (values.len(), values.partition_point(|value| value.is_finite()));
    if all == 0 {
        return None;
    }
    let mut points: Vec<(f64, f64)> = match finished.checked_sub(1) {
        Some(last) => (0..=STEPS)
            .map(|n| last * n / STEPS)
            .map(|step| (values[step], 100.0 * (step + 1) as f64 / all as f64))
            .collect(),
        None => Vec::new(),
    };
    points.dedup();
    Some((PlotLine { name: name.to_owned(), points, ..PlotLine::default() }, all - finished))
}

/// Extends each line to the end of the longest: unfinished messages give a plateau below 100 %.
pub(crate) fn to_the_end(lines: &mut [PlotLine]) {
    let all = || lines.iter().flat_map(|line| &line.points).map(|(x, _)| *x);
    let (Some(first), Some(end)) = (all().reduce(f64::min), all().reduce(f64::max)) else { return };
    for line in lines.iter_mut() {
        match line.points.last() {
            Some((x, share)) if *x < end => line.points.push((end, *share)),
            None => line.points.extend([(first, 0.0), (end, 0.0)]),
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_did_not_finish_is_a_plateau_below_all() {
        let never = f64::INFINITY;
        let values = [vec![3.0, 1.0], vec![2.0, never, 1.0, never], vec![never], vec![]];
        let (mut lines, unfinished): (Vec<PlotLine>, Vec<usize>) =
            values.into_iter().filter_map(|values| cumulative("SIH", values)).unzip();
        to_the_end(&mut lines);
        assert_eq!(unfinished, [0, 2, 1]);
        assert_eq!(lines[0].points, [(1.0, 50.0), (3.0, 100.0)]);
        assert_eq!(lines[1].points, [(1.0, 25.0), (2.0, 50.0), (3.0, 50.0)]);
        assert_eq!(lines[2].points, [(1.0, 0.0), (3.0, 0.0)]);
    }
}
