//! Drawing of a panel.

use plotters::chart::ChartBuilder;
use plotters::element::PathElement;
use plotters::prelude::DashedLineSeries;
use plotters::style::text_anchor::{HPos, VPos};
use plotters::style::{Color, FontTransform, RGBColor, TRANSPARENT};

use super::bars::Bars;
use super::cell::{Cell, XLabels};
use super::geometry::Range;
use super::layout::{Layout, MARK_LEADER, MARK_ROW};
use super::line::DrawnLine;
use super::offsets::IntervalOffsets;
use super::shapes::NEUTRAL;
use super::{
    Canvas, Chart, DrawResult, LABEL, Orientation, PANEL_TITLE, Panel, PlotMark, Scale, Style, TICK, XAxis, px, text,
};

impl Panel {
    pub(super) fn draw(&self, root: &Canvas<'_>, layout: &Layout, cell: &Cell) -> DrawResult {
        let title_at = (cell.plot_at.x + cell.plot.width / 2, cell.plot_at.y - cell.title_area);
        root.draw_text(&self.title, &text(PANEL_TITLE, HPos::Center, VPos::Top), title_at)?;

        let at = (cell.plot_at.x - cell.y_area, cell.plot_at.y);
        let size = ((cell.y_area + cell.plot.width) as u32, (cell.plot.height + cell.x_area) as u32);
        let x = if cell.x_labels == XLabels::Across { cell.x.clone() } else { cell.x.without_labels() };
        let mut chart = ChartBuilder::on(&root.clone().shrink(at, size))
            .x_label_area_size(cell.x_area)
            .y_label_area_size(cell.y_area)
            .build_cartesian_2d(x, cell.y.clone())?;
        self.draw_axes(&mut chart, cell)?;
        if cell.x_labels == XLabels::Upright {
            draw_upright_labels(root, cell)?;
        }
        self.draw_lines(root, &mut chart, layout, cell)
    }

    fn draw_axes(&self, chart: &mut Chart<'_>, cell: &Cell) -> DrawResult {
        let mut mesh = chart.configure_mesh();
        mesh.bold_line_style(GRID.stroke_width(px(1) as u32))
            .light_line_style(TRANSPARENT)
            .axis_style(AXIS.stroke_width(px(1) as u32))
            .label_style(text(TICK, HPos::Center, VPos::Center))
            .axis_desc_style(text(LABEL, HPos::Center, VPos::Center))
            .set_all_tick_mark_size(px(TICK_LENGTH));
        if matches!(self.x_axis, XAxis::Categories(_)) {
            mesh.disable_x_mesh();
        }
        if cell.x_labels != XLabels::Hidden && !self.x_label.is_empty() {
            mesh.x_desc(&self.x_label);
        }
        if let Some(label) = &cell.y_label {
            mesh.y_desc(label);
        }
        mesh.draw()
    }

    /// Draws bars first, then marks and other lines, and the bars' intervals last.
    fn draw_lines(&self, root: &Canvas<'_>, chart: &mut Chart<'_>, layout: &Layout, cell: &Cell) -> DrawResult {
        let bars = Bars::new(self);
        let offsets = self.separates_intervals.then(|| IntervalOffsets::new(self, cell));
        let drawn_line = |line| {
            let offset = bars.offset(line) + offsets.as_ref().map_or(0.0, |offsets| offsets.offset(line));
            DrawnLine { line, look: layout.legend.look_in(&bars, line), offset }
        };
        let (of_bars, mut others): (Vec<_>, Vec<_>) =
            self.lines.iter().map(drawn_line).partition(|drawn| drawn.line.style == Style::Bars);
        // Main lines come first, since the first are the widest.
        others.sort_by_key(|drawn| !drawn.look.is_main);
        of_bars.iter().try_for_each(|drawn| bars.draw(root, chart, cell, drawn))?;
        self.draw_zero(chart, cell)?;
        self.draw_horizontal_marks(root, chart, cell)?;
        draw_vertical_marks(root, chart, cell)?;
        let mut covered_by = others.iter().filter(|drawn| drawn.line.style.has_stroke()).count() as i32;
        for drawn in &others {
            if drawn.line.style.has_stroke() {
                // Later lines are thinner, so that a line shows under others that coincide with it. Markers must stand out.
                covered_by -= 1;
                let step = if drawn.line.style.marker().is_some() { LINE_WIDTH_STEP / 2 } else { LINE_WIDTH_STEP };
                drawn.draw_stroke(chart, cell, LINE_WIDTH + covered_by.min(LINE_COVERED_MAX) * step)?;
            }
            drawn.draw_intervals(root, chart, cell)?;
            drawn.draw_markers(root, chart, cell)?;
        }
        let on_bars = of_bars.into_iter().map(|drawn| DrawnLine { look: NEUTRAL, ..drawn });
        on_bars.into_iter().try_for_each(|drawn| drawn.draw_intervals(root, chart, cell))
    }

    /// Draws a line at 0 in a panel with negative values.
    fn draw_zero(&self, chart: &mut Chart<'_>, cell: &Cell) -> DrawResult {
        if self.y_scale == Scale::Linear && cell.y.range().low < 0.0 && cell.y.contains(0.0) {
            let Range { low: left, high: right } = cell.x.range();
            let style = AXIS.stroke_width(px(1) as u32);
            chart.draw_series([PathElement::new([(left, 0.0), (right, 0.0)], style)])?;
        }
        Ok(())
    }

    /// Draws horizontal marks, with labels to the right of the plot. Labels that would overlap are moved apart.
    fn draw_horizontal_marks(&self, root: &Canvas<'_>, chart: &mut Chart<'_>, cell: &Cell) -> DrawResult {
        let of_direction = self.marks.iter().filter(|mark| mark.orientation == Orientation::Horizontal);
        let at = |mark: &PlotMark| self.y_scale.position(mark.value);
        let mut marks: Vec<_> =
            of_direction.map(|mark| (mark, at(mark))).filter(|(_, y)| cell.y.contains(*y)).collect();
        marks.sort_by(|one, other| other.1.total_cmp(&one.1));
        let Range { low: left, high: right } = cell.x.range();
        let ends: Vec<_> = marks.iter().map(|(_, y)| chart.backend_coord(&(right, *y))).collect();
        let wanted: Vec<i32> = ends.iter().map(|(_, y)| *y).collect();
        let levels = moved_apart(&wanted, px(TICK), cell.plot_at.y + cell.plot.height);
        let style = MARK.stroke_width(px(1) as u32);
        for (((mark, y), end), level) in marks.iter().zip(ends).zip(levels) {
            let across = [left, right].map(|x| (x, *y));
            chart.draw_series(DashedLineSeries::new(across, px(MARK_DASH), px(MARK_DASH), style))?;
            let text_x = end.0 + px(MARK_LEADER);
            root.draw(&PathElement::new([end, (text_x - px(3), level)], style))?;
            root.draw_text(&mark.label, &text(TICK, HPos::Left, VPos::Center), (text_x, level))?;
        }
        Ok(())
    }
}

/// Draws vertical marks, with labels above the plot.
fn draw_vertical_marks(root: &Canvas<'_>, chart: &mut Chart<'_>, cell: &Cell) -> DrawResult {
    let Range { low: bottom, high: top } = cell.y.range();
    for mark in &cell.vertical_marks {
        let style = MARK.stroke_width(px(1) as u32);
        let upwards = [bottom, top].map(|y| (mark.at, y));
        chart.draw_series(DashedLineSeries::new(upwards, px(MARK_DASH), px(MARK_DASH), style))?;
        let text_at = (cell.plot_at.x + mark.middle, cell.plot_at.y - px(MARK_ROW * mark.row as i32 + 3));
        root.draw_text(&mark.label, &text(TICK, HPos::Center, VPos::Bottom), text_at)?;
    }
    Ok(())
}

fn draw_upright_labels(root: &Canvas<'_>, cell: &Cell) -> DrawResult {
    let style = text(TICK, HPos::Right, VPos::Center).transform(FontTransform::Rotate270);
    for (at, label) in cell.x.labels() {
        let x = cell.plot_at.x + (cell.x.part(at) * f64::from(cell.plot.width)) as i32;
        root.draw_text(label, &style, (x, cell.plot_at.y + cell.plot.height + 2 * px(TICK_LENGTH)))?;
    }
    Ok(())
}

/// Returns levels of labels at least `distance` apart and at most `end`, as near to the wanted levels as earlier labels allow.
/// Wanted levels ascend.
pub(super) fn moved_apart(wanted: &[i32], distance: i32, end: i32) -> Vec<i32> {
    let mut levels = wanted.to_vec();
    for i in 1..levels.len() {
        levels[i] = levels[i].max(levels[i - 1] + distance);
    }
    let mut end = end;
    for level in levels.iter_mut().rev() {
        *level = (*level).min(end);
        end = *level - distance;
    }
    levels
}

const AXIS: RGBColor = RGBColor(0x55, 0x55, 0x55);
const MARK: RGBColor = RGBColor(0x77, 0x77, 0x77);
const GRID: RGBColor = RGBColor(0xe4, 0xe4, 0xe4);

// Lengths as shown.
const MARK_DASH: i32 = 4;
const TICK_LENGTH: i32 = 4;

// Widths of lines as drawn.
const LINE_WIDTH: i32 = 6;
const LINE_WIDTH_STEP: i32 = 4;
const LINE_COVERED_MAX: i32 = 3;
