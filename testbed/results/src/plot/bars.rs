//! Bars of a panel; those of several lines at one position are side by side.

use super::cell::Cell;
use super::geometry::{Point, Rect};
use super::line::DrawnLine;
use super::shapes::draw_box;
use super::{Canvas, Chart, DrawResult, Panel, PlotLine, Scale, Style, XAxis, px};

/// Bars of a panel. Lengths are distances between positions.
pub(super) struct Bars<'a> {
    /// Names of the bars of a group, from left to right.
    looks: Vec<&'a str>,
    step: f64,
}

impl Bars<'_> {
    pub(super) fn new(panel: &Panel) -> Bars<'_> {
        let lines = || panel.lines.iter().filter(|line| line.style == Style::Bars);
        let mut looks: Vec<&str> = Vec::new();
        for line in lines() {
            if !looks.contains(&line.looks_as()) {
                looks.push(line.looks_as());
            }
        }
        let mut at: Vec<f64> = lines().flat_map(|line| &line.points).map(|(x, _)| panel.x_position(*x)).collect();
        at.retain(|x| x.is_finite());
        at.sort_by(f64::total_cmp);
        let apart = at.windows(2).map(|pair| pair[1] - pair[0]).filter(|distance| *distance > 0.0);
        let step = match panel.x_axis {
            XAxis::Numbers(_) if !looks.is_empty() => apart.reduce(f64::min).unwrap_or(1.0),
            XAxis::Numbers(_) => 0.0,
            XAxis::Categories(_) => 1.0,
        };
        Bars { looks, step }
    }

    /// Returns the distance between groups; 0 in a panel of numbers without bars.
    pub(super) fn step(&self) -> f64 {
        self.step
    }

    /// Returns the least width of a panel with visible bars, in [`px`].
    pub(super) fn panel_width(&self, groups: usize) -> i32 {
        let least = f64::from(px(BAR_WIDTH_MIN)) * self.looks.len() as f64 / GROUP_PART;
        (least * groups as f64).ceil() as i32
    }

    /// Whether the line has bars, or is compared with a line that has.
    pub(super) fn has(&self, line: &PlotLine) -> bool {
        self.looks.contains(&line.looks_as())
    }

    /// Returns the distance of the line's bar middles from their positions, to the right; 0 for a line without bars.
    pub(super) fn offset(&self, line: &PlotLine) -> f64 {
        let i = self.looks.iter().position(|look| *look == line.looks_as());
        i.map_or(0.0, |i| (i as f64 + 0.5) * self.width() - GROUP_PART * self.step / 2.0)
    }

    fn width(&self) -> f64 {
        GROUP_PART * self.step / self.looks.len().max(1) as f64
    }

    /// Draws the bars of a line. Bars start at 0, or at the lower end of a logarithmic axis.
    pub(super) fn draw(&self, root: &Canvas<'_>, chart: &Chart<'_>, cell: &Cell, bars: &DrawnLine<'_>) -> DrawResult {
        let base = match cell.y_scale {
            Scale::Linear => cell.y.clamp(0.0),
            Scale::Log => cell.y.range().low,
        };
        for (x, y) in cell.positions(&bars.line.points).filter(|(x, y)| y.is_finite() && cell.x.contains(*x)) {
            let left = x + bars.offset - self.width() / 2.0;
            let corner = chart.backend_coord(&(cell.x.clamp(left), cell.y.clamp(y)));
            let opposite = chart.backend_coord(&(cell.x.clamp(left + self.width()), base));
            let space = if self.looks.len() > 1 { px(1) / 2 } else { 0 };
            let bar = Rect::between(Point::new(corner.0 + space, corner.1), Point::new(opposite.0 - space, opposite.1));
            draw_box(root, bar, bars.look)?;
        }
        Ok(())
    }
}

/// Share of the distance between groups that the bars take.
const GROUP_PART: f64 = 0.8;

/// Least width of a bar, as shown.
const BAR_WIDTH_MIN: i32 = 7;
