//! Lines through points, markers at them, and intervals.

use plotters::element::{Circle, PathElement};
use plotters::prelude::DashedLineSeries;
use plotters::style::Color;

use super::cell::Cell;
use super::geometry::{Point, Range};
use super::shapes::{ColorStyle, draw_marker};
use super::{Canvas, Chart, ConfidenceInterval, DASH, DASH_SPACING, DrawResult, PlotLine, px};

/// Line of a panel, with its style.
pub(super) struct DrawnLine<'a> {
    pub(super) line: &'a PlotLine,
    pub(super) look: ColorStyle,
    /// Distance of the points from their positions, to the right.
    pub(super) offset: f64,
}

impl DrawnLine<'_> {
    pub(super) fn draw_stroke(&self, chart: &mut Chart<'_>, cell: &Cell, width: i32) -> DrawResult {
        let style = self.look.color.stroke_width(self.look.stroke(width));
        let points: Vec<_> = self.positions(cell, &self.line.points).collect();
        let pieces = points.split(|(x, y)| !x.is_finite() || !y.is_finite());
        for piece in pieces.flat_map(|piece| cut(piece, cell.x.range())) {
            let mut points = thinned(&piece, cell.x.range(), (cell.plot.width / COLUMN_WIDTH) as usize);
            points.iter_mut().for_each(|(_, y)| *y = cell.y.clamp(*y));
            if let [alone] = points[..] {
                chart.draw_series([Circle::new(alone, width, style.filled())])?;
            } else if self.look.is_repeated {
                chart.draw_series(DashedLineSeries::new(points, px(DASH), px(DASH_SPACING), style))?;
            } else {
                chart.draw_series([PathElement::new(points, style)])?;
            }
        }
        Ok(())
    }

    pub(super) fn draw_markers(&self, root: &Canvas<'_>, chart: &Chart<'_>, cell: &Cell) -> DrawResult {
        let Some(marker) = self.line.style.marker() else { return Ok(()) };
        let points = self.positions(cell, &self.line.points);
        for (x, y) in points.filter(|(x, y)| y.is_finite() && cell.x.contains(*x)) {
            let (x, y) = chart.backend_coord(&(x, cell.y.clamp(y)));
            draw_marker(root, Point::new(x, y), marker, self.look)?;
        }
        Ok(())
    }

    /// Draws the intervals, with a cap at each end within the panel's range.
    pub(super) fn draw_intervals(&self, root: &Canvas<'_>, chart: &Chart<'_>, cell: &Cell) -> DrawResult {
        let style = self.look.color.stroke_width(INTERVAL_WIDTH);
        let Range { low: bottom, high: top } = cell.y.range();
        for ConfidenceInterval { x, low, high } in &self.line.intervals {
            let ends: Vec<_> = self.positions(cell, &[(*x, *low), (*x, *high)]).collect();
            let ((x, low), high) = (ends[0], ends[1].1);
            if !(cell.x.contains(x) && low <= top && high >= bottom) {
                continue;
            }
            let at = |y: f64| chart.backend_coord(&(x, cell.y.clamp(y)));
            // The PNG renderer logs a warning on a stroke without length.
            if at(low) != at(high) {
                root.draw(&PathElement::new([at(low), at(high)], style))?;
            }
            for (x, y) in [low, high].into_iter().filter(|end| cell.y.contains(*end)).map(at) {
                root.draw(&PathElement::new([(x - px(CAP), y), (x + px(CAP), y)], style))?;
            }
        }
        Ok(())
    }

    fn positions(&self, cell: &Cell, points: &[(f64, f64)]) -> impl Iterator<Item = (f64, f64)> {
        cell.positions(points).map(|(x, y)| (x + self.offset, y))
    }
}

/// Cuts a line through these points to the range; returns the parts within.
fn cut(points: &[(f64, f64)], range: Range) -> Vec<Vec<(f64, f64)>> {
    let is_within = |(x, _): &(f64, f64)| range.contains(*x);
    if points.iter().all(is_within) {
        return if points.is_empty() { Vec::new() } else { vec![points.to_vec()] };
    }
    let mut pieces: Vec<Vec<(f64, f64)>> = Vec::new();
    let mut goes_on = false;
    for pair in points.windows(2) {
        let (from, to) = (pair[0], pair[1]);
        if from.0.max(to.0) < range.low || from.0.min(to.0) > range.high {
            goes_on = false;
            continue;
        }
        let moved = |end: (f64, f64)| {
            let x = end.0.clamp(range.low, range.high);
            if x == end.0 { end } else { (x, from.1 + (to.1 - from.1) * (x - from.0) / (to.0 - from.0)) }
        };
        match pieces.last_mut() {
            Some(piece) if goes_on => piece.push(moved(to)),
            _ => pieces.push(vec![moved(from), moved(to)]),
        }
        goes_on = is_within(&to);
    }
    pieces
}

/// Keeps at most four points for each column of the plot: the first, the lowest, the highest and the last.
///
/// The line through them covers the same pixels as the line through all points, so that no peak is lost.
pub(super) fn thinned(points: &[(f64, f64)], x_range: Range, columns: usize) -> Vec<(f64, f64)> {
    if points.len() <= 4 * columns {
        return points.to_vec();
    }
    let column = |at: f64| ((at - x_range.low) / x_range.length() * columns as f64) as usize;
    let mut kept = Vec::new();
    for points in points.chunk_by(|one, other| column(one.0) == column(other.0)) {
        let by_value = |one: &usize, other: &usize| points[*one].1.total_cmp(&points[*other].1);
        let all = 0..points.len();
        let extremes = [all.clone().min_by(by_value), all.clone().max_by(by_value)].into_iter().flatten();
        let mut indices: Vec<usize> = extremes.chain([all.start, all.end - 1]).collect();
        indices.sort_unstable();
        indices.dedup();
        kept.extend(indices.into_iter().map(|i| points[i]));
    }
    kept
}

// Widths and lengths as drawn.
const COLUMN_WIDTH: i32 = 2;
const INTERVAL_WIDTH: u32 = 5;

/// Half the width of an interval's cap, as shown.
const CAP: i32 = 3;
