//! Places of lines side by side, where their intervals would cover each other.

use super::cell::Cell;
use super::{Panel, PlotLine, Style, px};

/// Offsets of a panel's lines with intervals.
pub(super) struct IntervalOffsets<'a> {
    /// Names of the lines, from left to right; empty if no intervals overlap.
    looks: Vec<&'a str>,
    /// Distance between two lines' points, as a difference of positions.
    step: f64,
}

impl IntervalOffsets<'_> {
    pub(super) fn new<'a>(panel: &'a Panel, cell: &Cell) -> IntervalOffsets<'a> {
        let lines: Vec<&PlotLine> =
            panel.lines.iter().filter(|line| line.style != Style::Bars && !line.intervals.is_empty()).collect();
        let overlap = |one: &PlotLine, other: &PlotLine| {
            one.intervals
                .iter()
                .any(|a| other.intervals.iter().any(|b| a.x == b.x && a.low <= b.high && b.low <= a.high))
        };
        let has_overlap = (0..lines.len()).any(|n| lines[..n].iter().any(|other| overlap(lines[n], other)));
        let looks = if has_overlap { lines.iter().map(|line| line.looks_as()).collect() } else { Vec::new() };
        IntervalOffsets { looks, step: f64::from(px(DISTANCE)) * cell.x.range().length() / f64::from(cell.plot.width) }
    }

    /// Returns the distance of a line's points from their positions, to the right; 0 for a line in its place.
    pub(super) fn offset(&self, line: &PlotLine) -> f64 {
        let place = self.looks.iter().position(|look| *look == line.looks_as());
        place.map_or(0.0, |place| (place as f64 - (self.looks.len() - 1) as f64 / 2.0) * self.step)
    }
}

/// Distance between the intervals of two lines at one position, as shown.
const DISTANCE: i32 = 7;
