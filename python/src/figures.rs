//! Numbers of figures, by the code of `weir plot`.

use std::path::PathBuf;

use pyo3::prelude::*;
use weir_experiments::sweep::plot;

/// Returns the warm-up of the run in a directory, in microseconds: `weir plot` leaves out messages that were released before.
#[pyfunction]
pub(crate) fn warm_up_us(run: PathBuf) -> f64 {
    plot::warm_up(&run).as_picos() as f64 / 1e6
}

/// Number and the bounds of its 95 % interval.
type Estimate = (f64, Option<f64>, Option<f64>);

/// Returns a percentile of the values of all runs together, and the bounds of its 95 % interval, which ends at the `least` possible value; `None` where
/// its rank is that of an infinite value.
#[pyfunction]
pub(crate) fn pooled_percentile(py: Python<'_>, runs: Vec<Vec<f64>>, percent: f64, least: f64) -> Option<Estimate> {
    py.detach(|| plot::pooled_percentile(&runs, percent, least)).map(with_bounds)
}

/// Returns the difference of two percentiles over runs of the same seeds, in the same order; `None` where one is missing, or for one run.
#[pyfunction]
pub(crate) fn paired_difference(
    py: Python<'_>,
    one: Vec<Vec<f64>>,
    other: Vec<Vec<f64>>,
    percent: f64,
) -> Option<Estimate> {
    py.detach(|| plot::paired_difference(&one, &other, percent)).map(with_bounds)
}

fn with_bounds((value, interval): plot::EstimatedNumber) -> Estimate {
    (value, interval.map(|(low, _)| low), interval.map(|(_, high)| high))
}
