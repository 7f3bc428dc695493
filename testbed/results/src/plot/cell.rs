//! Where a panel goes, with its axes.

use super::Scale;
use super::axis::Axis;
use super::geometry::{Point, Size};

/// Where a panel goes.
pub(super) struct Cell {
    /// The upper left corner of the plot, without title and axes, and its size.
    pub(super) plot_at: Point,
    pub(super) plot: Size,
    /// Above the plot, to the left of it and below it.
    pub(super) title_area: i32,
    pub(super) y_area: i32,
    pub(super) x_area: i32,
    pub(super) x: Axis,
    pub(super) x_scale: Scale,
    pub(super) x_labels: XLabels,
    pub(super) y: Axis,
    pub(super) y_scale: Scale,
    /// `None` if another panel has it for this one too.
    pub(super) y_label: Option<String>,
    pub(super) vertical_marks: Vec<VerticalMark>,
}

/// How the labels of a horizontal axis are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum XLabels {
    /// Not at all, as the panel below has the same.
    Hidden,
    /// One beside the other.
    Across,
    /// Each upright, as they are too long.
    Upright,
}

/// A vertical mark that the panel has on it.
pub(super) struct VerticalMark {
    /// Its position.
    pub(super) at: f64,
    pub(super) label: String,
    /// Where the label's middle is, right of the plot's left end.
    pub(super) middle: i32,
    /// How many labels are below it.
    pub(super) row: usize,
}

impl Cell {
    /// Where the points are on the panel's axes; not finite where they are not on them.
    pub(super) fn positions(&self, points: &[(f64, f64)]) -> impl Iterator<Item = (f64, f64)> {
        points.iter().map(|(x, y)| (self.x_scale.position(*x), self.y_scale.position(*y)))
    }
}
