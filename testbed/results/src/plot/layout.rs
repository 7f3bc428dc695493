//! Layout of a figure: its size, legend and panels.

use super::axis::{Axis, AxisLength};
use super::bars::Bars;
use super::cell::{Cell, VerticalMark, XLabels};
use super::geometry::{Point, Range, Size};
use super::legend::Legend;
use super::ranges::{x_ranges, y_ranges};
use super::text_width::text_width;
use super::{
    FIGURE_TITLE, Figure, LABEL, MARGIN, NOTE_LINE, Orientation, PANEL_TITLE, Panel, Scale, TICK, TITLE_LINE, XAxis, px,
};

/// Layout of a figure, in [`px`].
pub(super) struct Layout {
    pub(super) size: Size,
    /// Lines of the title.
    pub(super) title: Vec<String>,
    /// Lines of the note.
    pub(super) note: Vec<String>,
    pub(super) legend: Legend,
    /// Cells of the panels, in their order.
    pub(super) cells: Vec<Cell>,
}

impl Layout {
    pub(super) fn new(figure: &Figure) -> Layout {
        let panels = &figure.panels;
        let columns = figure.columns.max(1);
        // All plots have the same size, large enough for the longest title and axis label.
        let plot = Size {
            width: panels.iter().map(plot_width).max().unwrap_or(0).max(px(PLOT_WIDTH)),
            height: widest(panels.iter().map(|panel| panel.y_label.as_str()), LABEL).max(px(PLOT_HEIGHT)),
        };
        let x_ranges = x_ranges(figure);
        let y_ranges = y_ranges(figure, columns, &x_ranges);
        let unplaced = |i: usize| Cell::unplaced(figure, columns, i, plot, x_ranges[i], y_ranges[i]);
        let mut cells: Vec<Cell> = (0..panels.len()).map(unplaced).collect();
        // The plots of a column are aligned.
        let column_of = |column: usize| (column..panels.len()).step_by(columns);
        let y_area = |column: usize| {
            let ticks = column_of(column).map(|i| cells[i].y.label_width()).max().unwrap_or(0);
            let has_label = column_of(column).any(|i| cells[i].y_label.is_some());
            ticks + px(TICK_AREA) + if has_label { px(AXIS_LABEL_AREA) } else { 0 }
        };
        let mark_area = |column: usize| {
            let marks = column_of(column).flat_map(|i| &panels[i].marks);
            let labels =
                marks.filter(|mark| mark.orientation == Orientation::Horizontal).map(|mark| mark.label.as_str());
            px(GAP).max(widest(labels, TICK) + px(MARK_LEADER + MARK_GAP))
        };
        let column_areas: Vec<(i32, i32)> =
            (0..columns.min(panels.len())).map(|column| (y_area(column), mark_area(column))).collect();

        let grid_width: i32 = column_areas.iter().map(|(y_area, mark_area)| y_area + plot.width + mark_area).sum();
        // A figure for a paper must not be wider than its panels, which would make its text smaller.
        let title = match figure.width_pt {
            None => vec![figure.title.clone()],
            Some(_) => lines_of(&figure.title, FIGURE_TITLE, grid_width),
        };
        let width = grid_width.max(widest(title.iter().map(String::as_str), FIGURE_TITLE)) + 2 * px(MARGIN);
        let note = if figure.note.is_empty() { Vec::new() } else { lines_of(&figure.note, TICK, grid_width) };
        let below_title = px(TITLE_LINE) * (title.len() as i32 - 1);
        let legend = Legend::new(figure, width, below_title);
        let mut y = legend.end;
        let mut has_labels_above = false;
        for (panels, cells) in panels.chunks(columns).zip(cells.chunks_mut(columns)) {
            let has_titles = panels.iter().any(|panel| !panel.title.is_empty());
            let mark_rows = cells.iter().map(Cell::mark_rows).max().unwrap_or(0) as i32;
            let title_area = if has_titles { px(TITLE_AREA) } else { 0 } + px(MARK_ROW) * mark_rows;
            y += title_area + if has_labels_above { px(GAP) / 2 } else { 0 };
            has_labels_above = cells.iter().any(|cell| cell.x_labels != XLabels::Hidden);
            let mut x = px(MARGIN);
            for (cell, (y_area, mark_area)) in cells.iter_mut().zip(&column_areas) {
                (cell.plot_at, cell.title_area, cell.y_area) = (Point::new(x + y_area, y), title_area, *y_area);
                x += y_area + plot.width + mark_area;
            }
            y += plot.height + cells.iter().map(|cell| cell.x_area).max().unwrap_or(0);
        }
        let note_area = if note.is_empty() { 0 } else { px(GAP) / 2 + px(NOTE_LINE) * note.len() as i32 };
        let height = y + note_area + px(MARGIN);
        Layout { size: Size { width, height }, title, note, legend, cells }
    }

    /// Returns the figure's height on paper, in points.
    pub(super) fn height_in_points(&self, figure: &Figure) -> Option<f64> {
        let points = f64::from(figure.width_pt?);
        Some(f64::from(self.size.height) * points / f64::from(self.size.width))
    }
}

impl Cell {
    /// Creates the cell of a panel. The fields that depend on other panels' sizes stay 0.
    fn unplaced(figure: &Figure, columns: usize, i: usize, plot: Size, x_range: Range, y_range: Range) -> Cell {
        let panels = &figure.panels;
        let panel = &panels[i];
        let (x_scale, x) = match &panel.x_axis {
            XAxis::Numbers(scale) => (*scale, Axis::numbers(*scale, x_range, AxisLength::Across(plot.width))),
            XAxis::Categories(names) => (Scale::Linear, Axis::categories(names)),
        };
        let x_labels = match &panel.x_axis {
            _ if panels.get(i + columns).is_some_and(|below| !below.is_empty() && below.has_x_axis_of(panel)) => {
                XLabels::Hidden
            }
            XAxis::Categories(names) if categories_width(names) > plot.width => XLabels::Upright,
            _ => XLabels::Across,
        };
        let label_area = if panel.x_label.is_empty() { 0 } else { AXIS_LABEL_AREA };
        let x_area = match x_labels {
            XLabels::Hidden => px(GAP),
            XLabels::Across => px(X_TICK_AREA + label_area),
            XLabels::Upright => px(TICK_AREA + label_area) + x.label_width(),
        };
        let vertical_marks = vertical_marks(panel, &x, plot.width);
        Cell {
            plot_at: Point::new(0, 0),
            plot,
            title_area: 0,
            y_area: 0,
            x_area,
            x,
            x_scale,
            x_labels,
            y: Axis::numbers(panel.y_scale, y_range, AxisLength::Up(plot.height)),
            y_scale: panel.y_scale,
            y_label: y_label(panels, columns, i),
            vertical_marks,
        }
    }

    fn mark_rows(&self) -> usize {
        self.vertical_marks.iter().map(|mark| mark.row + 1).max().unwrap_or(0)
    }
}

impl Panel {
    fn has_x_axis_of(&self, other: &Panel) -> bool {
        self.shows_on_x(other) && self.x_range == other.x_range
    }
}

/// Returns the least width of a panel's plot, for its title, labels, names and bars.
fn plot_width(panel: &Panel) -> i32 {
    let marks = panel.marks.iter().filter(|mark| mark.orientation == Orientation::Vertical);
    let for_labels = widest(marks.map(|mark| mark.label.as_str()).chain([panel.x_label.as_str()]), LABEL);
    let for_categories = match &panel.x_axis {
        XAxis::Numbers(_) => 0,
        XAxis::Categories(names) => {
            let (across, upright) = (categories_width(names), px(UPRIGHT_LABEL) * names.len() as i32);
            let for_names = if across <= px(WIDENED_PLOT_WIDTH) { across } else { upright };
            for_names.max(Bars::new(panel).panel_width(names.len()))
        }
    };
    text_width(&panel.title, PANEL_TITLE).max(for_labels).max(for_categories)
}

/// Returns the least width of a plot with these names side by side.
fn categories_width(names: &[String]) -> i32 {
    (widest(names.iter().map(String::as_str), TICK) + px(CATEGORY_SPACING)) * names.len() as i32
}

/// Returns the label of the panel's vertical axis; `None` if empty, or if the panel to the left has the same.
fn y_label(panels: &[Panel], columns: usize, i: usize) -> Option<String> {
    let label = &panels[i].y_label;
    let is_repeated = !i.is_multiple_of(columns) && panels[i - 1].y_label == *label;
    (!is_repeated && !label.is_empty()).then(|| label.clone())
}

/// Places the labels of vertical marks above the plot, from left to right, each in the lowest row with room.
fn vertical_marks(panel: &Panel, x: &Axis, plot_width: i32) -> Vec<VerticalMark> {
    let of_direction = panel.marks.iter().filter(|mark| mark.orientation == Orientation::Vertical);
    let mut marks: Vec<_> = of_direction.map(|mark| (panel.x_position(mark.value), &mark.label)).collect();
    marks.retain(|(at, _)| x.contains(*at));
    marks.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut row_ends: Vec<i32> = Vec::new();
    let placed = marks.into_iter().map(|(at, label)| {
        let half = text_width(label, TICK) / 2;
        let middle = ((x.part(at) * f64::from(plot_width)) as i32).min(plot_width - half).max(half);
        let row = row_ends.iter().position(|end| end + px(MARK_GAP) <= middle - half).unwrap_or(row_ends.len());
        if row == row_ends.len() {
            row_ends.push(0);
        }
        row_ends[row] = middle + half;
        VerticalMark { at, label: label.clone(), middle, row }
    });
    placed.collect()
}

/// Breaks a text between words into lines of this width; a longer word has a line of its own.
fn lines_of(text: &str, size: i32, width: i32) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is one");
        let longer = if line.is_empty() { word.to_owned() } else { format!("{line} {word}") };
        if line.is_empty() || text_width(&longer, size) <= width {
            *line = longer;
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// Returns the width of the widest text; 0 without texts.
fn widest<'a>(texts: impl Iterator<Item = &'a str>, size: i32) -> i32 {
    texts.map(|text| text_width(text, size)).max().unwrap_or(0)
}

// Lengths as shown.
const PLOT_WIDTH: i32 = 270;
const PLOT_HEIGHT: i32 = 180;
/// Greatest width to which names side by side widen a plot.
const WIDENED_PLOT_WIDTH: i32 = 400;
const GAP: i32 = 18;
const TITLE_AREA: i32 = 26;
const TICK_AREA: i32 = 10;
const X_TICK_AREA: i32 = 20;
const AXIS_LABEL_AREA: i32 = 20;
const CATEGORY_SPACING: i32 = 10;
const UPRIGHT_LABEL: i32 = 18;
pub(super) const MARK_LEADER: i32 = 12;
pub(super) const MARK_ROW: i32 = 18;
const MARK_GAP: i32 = 8;
