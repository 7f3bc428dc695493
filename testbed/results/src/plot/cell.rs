//! Place of a panel in the figure, with its axes.

use super::Scale;
use super::axis::Axis;
use super::geometry::{Point, Size};

/// Place of a panel in the figure, with its axes and their labels. Lengths are in [`px`](super::px).
pub(super) struct Cell {
    /// Upper left corner of the plot, without title and axes.
    pub(super) plot_at: Point,
    pub(super) plot: Size,
    /// Height above the plot.
    pub(super) title_area: i32,
    /// Width to the left of the plot.
    pub(super) y_area: i32,
    /// Height below the plot.
    pub(super) x_area: i32,
    pub(super) x: Axis,
    pub(super) x_scale: Scale,
    pub(super) x_labels: XLabels,
    pub(super) y: Axis,
    pub(super) y_scale: Scale,
    /// Label of the vertical axis; `None` if empty, or if the panel to the left has the same.
    pub(super) y_label: Option<String>,
    pub(super) vertical_marks: Vec<VerticalMark>,
}

/// Arrangement of a horizontal axis' labels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum XLabels {
    /// The labels are omitted: the panel below has the same axis.
    Hidden,
    /// Horizontal labels, side by side.
    Across,
    /// Vertical labels, for names too long to be side by side.
    Upright,
}

/// Vertical mark within the panel's range.
pub(super) struct VerticalMark {
    /// Position on the horizontal axis.
    pub(super) at: f64,
    pub(super) label: String,
    /// Distance of the label's middle from the plot's left end.
    pub(super) middle: i32,
    /// Row of the label, counted from 0 upwards.
    pub(super) row: usize,
}

impl Cell {
    /// Returns the points' positions on the panel's axes; not finite for values that an axis cannot show.
    pub(super) fn positions(&self, points: &[(f64, f64)]) -> impl Iterator<Item = (f64, f64)> {
        points.iter().map(|(x, y)| (self.x_scale.position(*x), self.y_scale.position(*y)))
    }
}
