//! Ranges of axes: given by the panels, or fitted to their lines and marks.

use super::axis::tick_step;
use super::bars::Bars;
use super::geometry::Range;
use super::{Figure, Orientation, Panel, PlotLine, Scale, Style, XAxis};

/// Returns each panel's horizontal range; panels with the same label and axis share a fitted one. [`UNKNOWN`] for categories.
pub(super) fn x_ranges(figure: &Figure) -> Vec<Range> {
    let all = &figure.panels;
    let range = |panel: &Panel| {
        let XAxis::Numbers(scale) = panel.x_axis else { return UNKNOWN };
        let alike = |other: &&Panel| other.x_range.is_none() && other.shows_on_x(panel);
        let given = panel.x_range.map(|(low, high)| Range { low: scale.position(low), high: scale.position(high) });
        given.unwrap_or_else(|| automatic_x_range(&all.iter().filter(alike).collect::<Vec<_>>(), scale))
    };
    all.iter().map(range).collect()
}

/// Returns each panel's vertical range; panels of a row with the same label and scale share a fitted one.
pub(super) fn y_ranges(figure: &Figure, columns: usize, x_ranges: &[Range]) -> Vec<Range> {
    let mut ranges = Vec::new();
    for (row, x_ranges) in figure.panels.chunks(columns).zip(x_ranges.chunks(columns)) {
        let range = |panel: &Panel| {
            let scale = panel.y_scale;
            let alike = |(other, _): &(&Panel, &Range)| {
                other.y_range.is_none() && (&other.y_label, other.y_scale) == (&panel.y_label, scale)
            };
            let given = panel.y_range.map(|(low, high)| Range { low: scale.position(low), high: scale.position(high) });
            given.unwrap_or_else(|| {
                automatic_y_range(&row.iter().zip(x_ranges).filter(alike).collect::<Vec<_>>(), scale)
            })
        };
        ranges.extend(row.iter().map(range));
    }
    ranges
}

/// Returns the range from the first to the last point or vertical mark, extended to the next tick on each side if it is near.
/// Bars and markers add space for the outer halves of the first and the last.
fn automatic_x_range(panels: &[&Panel], scale: Scale) -> Range {
    let lines = || panels.iter().flat_map(|panel| &panel.lines);
    let points =
        lines().flat_map(PlotLine::all_x).chain(panels.iter().flat_map(|panel| panel.marks_of(Orientation::Vertical)));
    let Range { mut low, mut high } = extent(points.map(|at| scale.position(at))).unwrap_or(UNKNOWN);
    high = if low < high { high } else { low + 1.0 };
    if scale == Scale::Linear
        && let Some(step) = tick_step(Range { low, high })
    {
        let is_near = |distance: f64| distance < 0.02 * (high - low);
        let (before, after) = ((low / step).floor() * step, (high / step).ceil() * step);
        let near = (is_near(low - before), is_near(after - high));
        (low, high) = (if near.0 { before } else { low }, if near.1 { after } else { high });
    }
    let for_bars = panels.iter().map(|panel| Bars::new(panel).step() / 2.0).fold(0.0, f64::max);
    let for_markers = if lines().any(|line| line.style.marker().is_some()) { 0.04 * (high - low) } else { 0.0 };
    let air = for_bars.max(for_markers);
    Range { low: low - air, high: high + air }
}

/// Returns the range of lines and horizontal marks, with a margin, so that the frame hides no line. A linear axis includes 0; a
/// logarithmic axis with bars starts at the power of ten below.
fn automatic_y_range(panels: &[(&Panel, &Range)], scale: Scale) -> Range {
    let of_lines = panels.iter().flat_map(|(panel, x_range)| {
        let is_shown = |x: f64| match panel.x_axis {
            XAxis::Numbers(scale) => x_range.contains(scale.position(x)) || panel.x_range.is_none(),
            XAxis::Categories(_) => true,
        };
        let points = panel.lines.iter().flat_map(|line| &line.points).filter(move |point| is_shown(point.0));
        let intervals =
            panel.lines.iter().flat_map(|line| &line.intervals).filter(move |interval| is_shown(interval.x));
        points.map(|point| point.1).chain(intervals.flat_map(|interval| [interval.low, interval.high]))
    });
    let of_marks = panels.iter().flat_map(|(panel, _)| panel.marks_of(Orientation::Horizontal));
    let values = of_lines.chain(of_marks).map(|value| scale.position(value));
    match scale {
        Scale::Linear => {
            let Range { low, high } = extent(values.chain([0.0])).expect("0 is finite");
            let air = 0.05 * (high - low);
            Range { low: if low < 0.0 { low - air } else { low }, high: if high > 0.0 { high + air } else { high } }
        }
        Scale::Log => {
            let Some(Range { low, high }) = extent(values) else { return UNKNOWN };
            let has_bars = panels.iter().any(|(panel, _)| panel.lines.iter().any(|line| line.style == Style::Bars));
            let (low, high) = if low < high { (low, high) } else { (low - 0.5, high + 0.5) };
            let air = 0.05 * (high - low);
            Range { low: if has_bars { (low - 1e-9).floor() } else { low - air }, high: high + air }
        }
    }
}

impl Panel {
    /// Whether both panels have the same horizontal label and axis, and so share a fitted range.
    pub(super) fn shows_on_x(&self, other: &Panel) -> bool {
        (&self.x_label, &self.x_axis) == (&other.x_label, &other.x_axis)
    }

    pub(super) fn marks_of(&self, direction: Orientation) -> impl Iterator<Item = f64> {
        self.marks.iter().filter(move |mark| mark.orientation == direction).map(|mark| mark.value)
    }
}

impl PlotLine {
    fn all_x(&self) -> impl Iterator<Item = f64> {
        self.points.iter().map(|point| point.0).chain(self.intervals.iter().map(|interval| interval.x))
    }
}

/// Returns the lowest and the highest finite value; `None` without one.
fn extent(values: impl Iterator<Item = f64>) -> Option<Range> {
    let mut finite = values.filter(|value| value.is_finite());
    let first = finite.next()?;
    let single = Range { low: first, high: first };
    Some(finite.fold(single, |Range { low, high }, value| Range { low: low.min(value), high: high.max(value) }))
}

/// Range of an axis without values.
const UNKNOWN: Range = Range { low: 0.0, high: 1.0 };
